//! Reading the file to run.

use std::io::Read as _;
use std::path::Path;

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    /// The system refuses.
    #[error("cannot read {name}")]
    Unreadable {
        /// The file as it was named.
        name: String,
        /// Why.
        source: std::io::Error,
    },
    /// The system lets nobody write it.
    #[error("cannot write {name}")]
    Unwritable {
        /// The file as it was named.
        name: String,
        /// Why.
        source: std::io::Error,
    },
    /// It is larger than any manifest.
    #[error("{name} is larger than {LIMIT} bytes, which no manifest is")]
    TooLarge {
        /// The file as it was named.
        name: String,
    },
    /// It is no text.
    #[error("{name} is not UTF-8 text (byte {at} is not)")]
    NotText {
        /// The file as it was named.
        name: String,
        /// First byte that is no text.
        at: usize,
    },
}

/// Largest file that is read.
const LIMIT: u64 = 8 << 20;

/// Reads a file, or standard input for `-`; returns its name in messages and its text.
pub(crate) fn read(path: &Path) -> Result<(String, String), FileError> {
    let is_input = path.as_os_str() == "-";
    let name = if is_input {
        "<stdin>".to_owned()
    } else {
        path.display().to_string()
    };
    let mut bytes = Vec::new();
    let result = if is_input {
        std::io::stdin()
            .lock()
            .take(LIMIT + 1)
            .read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(LIMIT + 1).read_to_end(&mut bytes))
    };
    match result {
        Err(source) => return Err(FileError::Unreadable { name, source }),
        Ok(read) if read as u64 > LIMIT => return Err(FileError::TooLarge { name }),
        Ok(_) => {}
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok((name, text)),
        Err(error) => Err(FileError::NotText {
            name,
            at: error.utf8_error().valid_up_to(),
        }),
    }
}
