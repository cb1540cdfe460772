//! Where interpreters are looked for.

use std::path::PathBuf;

/// Absolute directories, the first that has a file winning.
#[derive(Debug)]
pub(crate) struct SearchPath(Vec<PathBuf>);

impl SearchPath {
    /// Leaves out what is relative: it would mean another place in each working directory.
    pub(crate) fn new(directories: impl IntoIterator<Item = PathBuf>) -> Self {
        let absolute = directories.into_iter().filter(|dir| dir.is_absolute());
        Self(absolute.collect())
    }

    pub(crate) fn find(&self, name: &str) -> Option<PathBuf> {
        let files = self.0.iter().map(|dir| dir.join(name));
        files.into_iter().find(|file| file.is_file())
    }
}

/// Returns the `PATH` of this process, and the usual places after it.
pub(crate) fn installed() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(usual).collect()
}
