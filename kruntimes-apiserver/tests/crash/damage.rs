//! Copies of a directory with a flipped bit or a missing end.

use std::{fs, panic::catch_unwind, path::Path, sync::Arc};

use jiff::Timestamp;
use kruntimes_apiserver::{ApiServer, BuildError, Clock, SeededIds, StoreError};
use serde_json::Value;

use crate::{dice::Dice, writer::causes};

/// First bytes of the file, where damage hurts most: the header of the library.
const HEADER_BYTES: u64 = 512;

/// How damaged copies were met.
#[derive(Debug, Default)]
pub(crate) struct Damages {
    /// Opened, with everything in it.
    pub(crate) whole: usize,
    /// Opened without the last commit, which the killed server had no time to acknowledge.
    pub(crate) older: usize,
    /// Refused with an error that names the file.
    pub(crate) refused: usize,
    /// Refused because the library panicked.
    pub(crate) panics: usize,
}

/// Damages a copy and says what is wrong with how it was met.
pub(crate) fn damage(directory: &Path, dice: &mut Dice, damages: &mut Damages) -> Option<String> {
    // Killed before there was anything to damage.
    let (whole, bad) = (copy(directory)?, copy(directory)?);
    let acknowledged = acknowledged(whole.path());
    let intact = match content(whole.path()) {
        Ok(intact) => intact,
        Err(error) => return Some(format!("an intact copy is refused: {}", causes(&error))),
    };
    let file = bad.path().join("objects.redb");
    let Ok(mut bytes) = fs::read(&file) else {
        return Some("there is no file to damage".to_owned());
    };
    let length = bytes.len() as u64;
    let what = if dice.below(4) == 0 {
        let left = dice.below(length);
        bytes.truncate(usize::try_from(left).unwrap_or_default());
        format!("cut to {left} of {length} bytes")
    } else {
        let end = if dice.below(3) == 0 {
            HEADER_BYTES
        } else {
            length
        };
        let (place, bit) = (dice.below(end), dice.below(8));
        bytes[usize::try_from(place).unwrap_or_default()] ^= 1 << bit;
        format!("bit {bit} of byte {place} of {length} flipped")
    };
    fs::write(&file, bytes).expect("a copy can be damaged");
    match catch_unwind(|| content(bad.path())) {
        Ok(Ok(found)) if found == intact => damages.whole += 1,
        Ok(Ok(found)) if found.0 < intact.0 && found.0 >= acknowledged => damages.older += 1,
        Ok(Ok(_)) => return Some(format!("{what}: opened with other content")),
        Ok(Err(error)) => {
            let told = causes(&error);
            if !told.contains("objects.redb") {
                return Some(format!("{what}: refused without a name: {told}"));
            }
            damages.refused += 1;
            damages.panics += usize::from(told.contains("panicked"));
        }
        Err(_) => return Some(format!("{what}: panicked")),
    }
    None
}

fn copy(directory: &Path) -> Option<tempfile::TempDir> {
    let copy = tempfile::tempdir().expect("a temporary directory can be made");
    for name in ["objects.redb", "acknowledged"] {
        fs::copy(directory.join(name), copy.path().join(name)).ok()?;
    }
    Some(copy)
}

/// Reads the version that the mark beside the file guarantees.
fn acknowledged(directory: &Path) -> u64 {
    let mark = fs::read(directory.join("acknowledged")).unwrap_or_default();
    let version = mark.first_chunk().copied().unwrap_or_default();
    u64::from_le_bytes(version)
}

/// A clock that stands still.
struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }
}

/// Reads everything; what a server killed at birth still has to make, each opening makes alike.
fn content(directory: &Path) -> Result<(u64, Vec<Value>), StoreError> {
    let builder = ApiServer::builder()
        .ids(Arc::new(SeededIds::new(1)))
        .clock(Arc::new(Still));
    match builder.data_dir(directory).build() {
        Ok(server) => Ok((server.resource_version(), server.dump())),
        Err(BuildError::Store(error)) => Err(error),
        Err(other) => unreachable!("there are no definitions to refuse: {other}"),
    }
}
