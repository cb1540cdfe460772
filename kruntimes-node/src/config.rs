//! Who this runtimed is and how much it takes.

use crate::files::NodeDirs;
use crate::git::GitTool;

/// Identity and limits of one runtimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Namespace of the Pod; no object of another one is ever looked at (N-5).
    pub namespace: String,
    /// Name of the Pod.
    pub pod_name: String,
    /// UID of the Pod; read from the API when absent (N-22).
    pub pod_uid: Option<String>,
    /// Runtime the Pod belongs to; may be empty without an artifact store.
    pub runtime: String,
    /// Runs held at once; values below one mean one.
    pub workers: i64,
    /// How git sources are fetched.
    pub git: GitTool,
}

/// A configuration that cannot work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A name is empty.
    #[error("{0} must not be empty")]
    Empty(
        /// Which setting, as the flag or variable is called.
        &'static str,
    ),
    /// The workspace root is not absolute, so paths handed to the Runtime Server would mean nothing.
    #[error("workspace directory {0} must be an absolute path")]
    Relative(
        /// What was given.
        String,
    ),
}

impl Config {
    /// Makes the configuration of a Pod that holds two Runs at once.
    pub fn new(namespace: &str, pod_name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            pod_name: pod_name.to_owned(),
            pod_uid: None,
            runtime: String::new(),
            workers: 2,
            git: GitTool::default(),
        }
    }

    /// Checks what can be checked before start.
    ///
    /// # Errors
    ///
    /// Returns the first setting that is empty, or a workspace root that is not absolute.
    pub fn check(&self, files: &NodeDirs) -> Result<(), ConfigError> {
        for (name, value) in [
            ("POD_NAMESPACE", &self.namespace),
            ("POD_NAME", &self.pod_name),
        ] {
            if value.is_empty() {
                return Err(ConfigError::Empty(name));
            }
        }
        if files.workspace().is_absolute() {
            Ok(())
        } else {
            let given = files.workspace().display().to_string();
            Err(ConfigError::Relative(given))
        }
    }

    /// Returns how many Runs are held at once.
    pub(crate) fn capacity(&self) -> i64 {
        self.workers.max(1)
    }

    /// Returns how many reconciles run at once: held Runs may wait for the server without holding up others.
    pub(crate) fn reconciles(&self) -> usize {
        usize::try_from(self.capacity())
            .unwrap_or(usize::MAX)
            .saturating_add(8)
            .min(64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_must_be_given_and_paths_absolute() {
        let files = NodeDirs::default();
        assert_eq!(Config::new("ns", "pod").check(&files), Ok(()));
        for (namespace, pod, files, text) in [
            ("", "pod", &files, "POD_NAMESPACE must not be empty"),
            ("ns", "", &files, "POD_NAME must not be empty"),
            (
                "ns",
                "pod",
                &NodeDirs::new("work"),
                "workspace directory work must be an absolute path",
            ),
        ] {
            let error = Config::new(namespace, pod).check(files).unwrap_err();
            assert_eq!(error.to_string(), text);
        }
    }

    #[test]
    fn there_is_always_room_for_one() {
        let mut config = Config::new("ns", "pod");
        config.workers = -3;
        assert_eq!(config.capacity(), 1);
    }
}
