//! Lists the public items of the pure crates, so that a change of them is seen (S-158).
//!
//! The lists are made from the sources and are committed; `--check` fails where
//! they differ, so that nothing public changes unnoticed. What macros make of
//! themselves is listed as the macro that makes it.

mod listing;
mod source;

use std::fs;

use crate::root;

/// Crates that others build upon.
const CRATES: [&str; 3] = ["kruntimes-core", "kruntimes-sched", "kruntimes-workflow"];
/// Where the lists are.
const DIRECTORY: &str = "docs/api";

/// Why the lists could not be written or compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    /// A file cannot be accessed.
    #[error(transparent)]
    Access(#[from] root::Error),
    /// A source file is not Rust.
    #[error("cannot parse {path}")]
    Syntax {
        /// The file.
        path: String,
        /// What is wrong with it.
        source: syn::Error,
    },
    /// The committed lists are not what the sources say.
    #[error(
        "public items differ from {DIRECTORY}: {0}; run `cargo xtask api` and look at the difference"
    )]
    Differs(String),
}

/// Writes the lists, or with `check` only compares them with what is committed.
///
/// # Errors
///
/// Fails when a file cannot be read, or (with `check`) a list differs or is missing.
pub(crate) fn run(check: bool) -> Result<(), Error> {
    let root = root::path();
    let directory = root.join(DIRECTORY);
    fs::create_dir_all(&directory).map_err(root::Error::at(&directory))?;
    let mut differing = Vec::new();
    for name in CRATES {
        let modules = source::read(&root.join(name).join("src/lib.rs"))?;
        let wanted = listing::of(&modules).join("\n") + "\n";
        let path = directory.join(format!("{name}.txt"));
        if !check {
            fs::write(&path, wanted).map_err(root::Error::at(&path))?;
        } else if fs::read_to_string(&path).is_ok_and(|committed| committed == wanted) {
            // Nothing has changed.
        } else {
            differing.push(name);
        }
    }
    if differing.is_empty() {
        Ok(())
    } else {
        Err(Error::Differs(differing.join(", ")))
    }
}
