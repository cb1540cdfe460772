//! Writes the CRD files of the chart from the types.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

use kruntimes_k8s::crd_files;

use crate::root;

/// Why the files could not be written or compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    /// The definitions cannot be rendered.
    #[error("cannot render the CRD files")]
    Render(#[from] crd_files::RenderError),
    /// A file cannot be accessed.
    #[error(transparent)]
    Access(#[from] root::Error),
    /// The committed files are not what the types say.
    #[error("CRD files differ from the types: {0}; run `cargo xtask crds`")]
    Differs(String),
}

/// Writes the files, or with `check` only compares them with what is committed.
///
/// # Errors
///
/// Fails when a file cannot be accessed, or (with `check`) a file differs, is missing or is left over.
pub(crate) fn run(check: bool) -> Result<(), Error> {
    let directory = root::path().join("charts/kruntimes/crds");
    let wanted = crd_files::rendered()?;
    if check {
        let differing = differing(&committed(&directory)?, &wanted);
        return if differing.is_empty() {
            Ok(())
        } else {
            Err(Error::Differs(differing.join(", ")))
        };
    }
    fs::create_dir_all(&directory).map_err(root::Error::at(&directory))?;
    for (name, text) in &wanted {
        let path = directory.join(name);
        fs::write(&path, text).map_err(root::Error::at(&path))?;
    }
    Ok(())
}

fn committed(directory: &Path) -> Result<BTreeMap<String, String>, root::Error> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(root::Error::at(directory)(error)),
    };
    let mut found = BTreeMap::new();
    for entry in entries {
        let path = entry.map_err(root::Error::at(directory))?.path();
        let text = fs::read_to_string(&path).map_err(root::Error::at(&path))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        found.insert(name.into_owned(), text);
    }
    Ok(found)
}

/// Names of files whose text differs, that are missing, or that nobody wants.
fn differing(
    committed: &BTreeMap<String, String>,
    wanted: &BTreeMap<String, String>,
) -> Vec<String> {
    let names = committed.keys().chain(wanted.keys());
    let mut differing: Vec<String> = names
        .filter(|name| committed.get(*name) != wanted.get(*name))
        .cloned()
        .collect();
    differing.sort();
    differing.dedup();
    differing
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        entries
            .iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
            .collect()
    }

    #[test]
    fn changed_missing_and_left_over_files_differ() {
        let committed = files(&[("a", "1"), ("b", "1"), ("left-over", "1")]);
        let wanted = files(&[("a", "1"), ("b", "2"), ("missing", "1")]);
        assert_eq!(
            differing(&committed, &wanted),
            ["b", "left-over", "missing"]
        );
        assert!(differing(&wanted, &wanted).is_empty());
    }

    #[test]
    fn case_140_the_committed_files_are_current() {
        run(true).unwrap();
    }
}
