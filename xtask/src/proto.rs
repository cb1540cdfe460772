//! Generates the protocol stubs of kruntimes-proto from its .proto files.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The .proto files, relative to the proto directory of the crate.
const SOURCES: [&str; 5] = [
    "executor/v1/runtime.proto",
    "executor/v1/events.proto",
    "executor/v1/function.proto",
    "executor/v1/session.proto",
    "artifact/v1/artifact.proto",
];

/// Why the stubs could not be generated or compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    /// A .proto file is wrong.
    #[error("cannot compile the .proto files: {0}")]
    Compile(String),
    /// A file could not be read or written.
    #[error("cannot access {}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The committed stubs are not what the .proto files say.
    #[error("stubs differ from the .proto files: {0}; run `cargo xtask proto`")]
    Differs(Names),
}

/// File names for a message.
#[derive(Debug)]
pub(crate) struct Names(BTreeSet<String>);

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.0.iter().map(String::as_str).collect();
        f.write_str(&names.join(", "))
    }
}

/// Writes the stubs, or with `check` only compares them with what is committed.
///
/// # Errors
///
/// Fails when a .proto file does not compile, a file cannot be accessed, or (with `check`) a stub differs.
pub(crate) fn run(check: bool) -> Result<(), Error> {
    let room = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kruntimes-proto");
    let committed = room.join("src/generated");
    let fresh = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../target/xtask-proto")
        .join(std::process::id().to_string());
    generate(&room.join("proto"), &fresh)?;
    let done = if check {
        compare(&fresh, &committed)
    } else {
        replace(&fresh, &committed)
    };
    fs::remove_dir_all(&fresh).map_err(at(&fresh))?;
    done
}

fn generate(protos: &Path, out: &Path) -> Result<(), Error> {
    fs::create_dir_all(out).map_err(at(out))?;
    let files = SOURCES.iter().map(|source| protos.join(source));
    let set =
        protox::compile(files, [protos]).map_err(|error| Error::Compile(error.to_string()))?;
    tonic_prost_build::configure()
        .btree_map(".")
        .generate_default_stubs(true)
        .emit_rerun_if_changed(false)
        .out_dir(out)
        .compile_fds(set)
        .map_err(at(out))
}

fn compare(fresh: &Path, committed: &Path) -> Result<(), Error> {
    let mut names = file_names(fresh)?;
    names.append(&mut file_names(committed)?);
    names.retain(|name| fs::read(fresh.join(name)).ok() != fs::read(committed.join(name)).ok());
    if names.is_empty() {
        Ok(())
    } else {
        Err(Error::Differs(Names(names)))
    }
}

fn replace(fresh: &Path, committed: &Path) -> Result<(), Error> {
    fs::create_dir_all(committed).map_err(at(committed))?;
    let wanted = file_names(fresh)?;
    for stale in file_names(committed)?.difference(&wanted) {
        let path = committed.join(stale);
        fs::remove_file(&path).map_err(at(&path))?;
    }
    for name in &wanted {
        let path = committed.join(name);
        fs::copy(fresh.join(name), &path).map_err(at(&path))?;
    }
    Ok(())
}

fn file_names(dir: &Path) -> Result<BTreeSet<String>, Error> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(dir).map_err(at(dir))? {
        let entry = entry.map_err(at(dir))?;
        names.insert(entry.file_name().to_string_lossy().into_owned());
    }
    Ok(names)
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { path, source }
}
