//! Where executions may live on disk, and which file an entrypoint means.

use std::io;
use std::path::{Component, Path, PathBuf};

use crate::adapter::Refusal;

/// Bounds the working directories that requests may name (N-226).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkRoot {
    path: PathBuf,
}

/// Why there is no working directory.
#[derive(Debug)]
pub(crate) enum NoDirectory {
    /// The request may not have it.
    Refused(Refusal),
    /// It cannot be made.
    Failed(io::Error),
}

impl WorkRoot {
    /// Opens the root, making it if it is missing.
    ///
    /// # Errors
    ///
    /// Fails when the path cannot be created or resolved.
    pub fn open(path: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(path)?;
        let path = path.canonicalize()?;
        Ok(Self { path })
    }

    /// Returns the root with all links resolved.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the directory a request names, if it lies inside; empty means the root itself.
    ///
    /// Links are resolved before anything is created, so nothing is ever made outside.
    pub(crate) fn enter(&self, wanted: &str) -> Result<PathBuf, NoDirectory> {
        let refuse = |why: &str| {
            let message = format!("working directory `{wanted}` {why}");
            NoDirectory::Refused(Refusal { message })
        };
        if wanted.is_empty() {
            return Ok(self.path.clone());
        }
        let wanted = Path::new(wanted);
        if !wanted.is_absolute() || wanted.components().any(|part| part == Component::ParentDir) {
            return Err(refuse("is not an absolute path without `..`"));
        }
        let outside = || refuse("lies outside the work root");
        let anchor = wanted.ancestors().find_map(|part| part.canonicalize().ok());
        if !anchor.is_some_and(|anchor| self.holds(&anchor)) {
            return Err(outside());
        }
        std::fs::create_dir_all(wanted).map_err(NoDirectory::Failed)?;
        let real = wanted.canonicalize().map_err(NoDirectory::Failed)?;
        if self.holds(&real) {
            Ok(real)
        } else {
            Err(outside())
        }
    }

    /// Tells whether a path without links lies inside.
    fn holds(&self, real: &Path) -> bool {
        real.starts_with(&self.path)
    }
}

/// Resolves an entrypoint inside `directory` to the file it names, if there is such a file.
///
/// Empty means `script`; the value is cleaned lexically first (N-62). A directory counts as missing
/// (N-230), a link that leads out of the directory is refused (N-64).
///
/// # Errors
///
/// Refuses absolute and escaping values and those that name the directory itself (N-63).
pub(crate) fn entrypoint(value: &str, directory: &Path) -> Result<Option<PathBuf>, Refusal> {
    let clean = clean(if value.is_empty() { "script" } else { value })?;
    let file = directory.join(clean);
    if !file.is_file() {
        return Ok(None);
    }
    match file.canonicalize() {
        Ok(real) if real.starts_with(directory) => Ok(Some(file)),
        Ok(_) => Err(escapes(value)),
        Err(_) => Ok(None),
    }
}

fn clean(value: &str) -> Result<PathBuf, Refusal> {
    let mut clean = PathBuf::new();
    for part in Path::new(value).components() {
        match part {
            Component::Normal(name) => clean.push(name),
            Component::CurDir => {}
            Component::ParentDir => {
                if !clean.pop() {
                    return Err(escapes(value));
                }
            }
            Component::RootDir | Component::Prefix(_) => return Err(escapes(value)),
        }
    }
    if clean.as_os_str().is_empty() {
        let message = format!("`{value}`: entrypoint must reference a file within the workspace");
        return Err(Refusal { message });
    }
    Ok(clean)
}

fn escapes(value: &str) -> Refusal {
    let message = format!("`{value}`: entrypoint must be a relative path within the workspace");
    Refusal { message }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn n_62_n_63_entrypoints_are_cleaned_and_bounded() {
        for (value, want) in [
            ("script", Ok("script")),
            ("./a/../b.sh", Ok("b.sh")),
            ("a//b.sh", Ok("a/b.sh")),
            (
                "/etc/passwd",
                Err("must be a relative path within the workspace"),
            ),
            ("..", Err("must be a relative path within the workspace")),
            (
                "a/../../b",
                Err("must be a relative path within the workspace"),
            ),
            (".", Err("must reference a file within the workspace")),
            ("a/..", Err("must reference a file within the workspace")),
        ] {
            match (clean(value), want) {
                (Ok(path), Ok(want)) => assert_eq!(path, Path::new(want), "{value}"),
                (Err(refusal), Err(want)) => assert!(refusal.message.contains(want), "{value}"),
                (got, want) => panic!("{value}: {got:?}, not {want:?}"),
            }
        }
    }

    #[test]
    fn n_64_n_230_only_a_file_inside_counts() {
        let dir = tempfile::tempdir().unwrap();
        let root = WorkRoot::open(&dir.path().join("root")).unwrap();
        let work = root.enter(root.path().join("w").to_str().unwrap()).unwrap();
        std::fs::write(work.join("file"), "").unwrap();
        std::fs::create_dir(work.join("script")).unwrap();
        std::fs::write(dir.path().join("secret"), "").unwrap();
        symlink(dir.path().join("secret"), work.join("out")).unwrap();
        symlink("file", work.join("in")).unwrap();
        assert_eq!(entrypoint("file", &work), Ok(Some(work.join("file"))));
        assert_eq!(entrypoint("in", &work), Ok(Some(work.join("in"))));
        assert_eq!(entrypoint("", &work), Ok(None), "a directory is no file");
        assert_eq!(entrypoint("none", &work), Ok(None));
        assert!(entrypoint("out", &work).is_err());
    }

    #[test]
    fn n_226_links_do_not_lead_out_and_nothing_is_made_outside() {
        let dir = tempfile::tempdir().unwrap();
        let root = WorkRoot::open(&dir.path().join("root")).unwrap();
        let outside = dir.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        symlink(&outside, root.path().join("link")).unwrap();
        let enter = |path: &Path| root.enter(path.to_str().unwrap());
        for bad in [
            root.path().join("link/new"),
            root.path().join("link"),
            root.path().join("../outside/new"),
            outside.join("new"),
            PathBuf::from("relative"),
            PathBuf::from("/"),
        ] {
            assert!(
                matches!(enter(&bad), Err(NoDirectory::Refused(_))),
                "{}",
                bad.display()
            );
        }
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
        assert_eq!(
            enter(&root.path().join("a/b")).unwrap(),
            root.path().join("a/b")
        );
        assert_eq!(root.enter("").unwrap(), root.path());
        std::fs::write(root.path().join("file"), "").unwrap();
        assert!(matches!(
            enter(&root.path().join("file/x")),
            Err(NoDirectory::Failed(_))
        ));
    }
}
