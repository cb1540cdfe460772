//! Reading the outputs file of a task that ended well (node, section 11).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};

use kruntimes_core::life::Failure;
use kruntimes_core::outputs::Parser;
use kruntimes_core::retry::reason;

use crate::files::RunDir;

/// Bytes read at once.
const CHUNK: usize = 16 * 1024;
/// A file of this size is read on the spot; a larger one on a thread that may block.
const SMALL: u64 = 64 * 1024;

/// Reads the outputs of a Run.
///
/// # Errors
///
/// Returns the failure that ends the Run: `OutputsInvalid` or `OutputsTooLarge` (N-131).
pub(crate) async fn read(dir: &RunDir) -> Result<BTreeMap<String, String>, Failure> {
    let file = match dir.open_outputs() {
        Ok(Some(file)) => file,
        Ok(None) => return Ok(BTreeMap::new()),
        Err(error) => return Err(unreadable(&error)),
    };
    if file.metadata().is_ok_and(|found| found.len() <= SMALL) {
        return parse(file);
    }
    tokio::task::spawn_blocking(move || parse(file))
        .await
        .unwrap_or_else(|error| Err(unreadable(&io::Error::other(error))))
}

fn unreadable(error: &io::Error) -> Failure {
    Failure::new(
        reason::OUTPUTS_INVALID,
        &format!("outputs cannot be read: {error}"),
    )
}

fn parse(mut file: File) -> Result<BTreeMap<String, String>, Failure> {
    let refused = |error: &kruntimes_core::outputs::OutputsError| {
        Failure::new(error.reason(), &error.to_string())
    };
    let mut parser = Parser::default();
    let mut chunk = vec![0; CHUNK];
    loop {
        match file.read(&mut chunk) {
            Ok(0) => return parser.finish().map_err(|error| refused(&error)),
            Ok(read) => parser
                .feed(&chunk[..read])
                .map_err(|error| refused(&error))?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(unreadable(&error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::files::NodeDirs;

    #[tokio::test]
    async fn small_and_large_files_are_read_alike() {
        let temp = tempfile::tempdir().unwrap();
        let dir = NodeDirs::new(temp.path()).run("u", None).unwrap();
        dir.prepare(None).unwrap();
        assert_eq!(read(&dir).await, Ok(BTreeMap::new()));
        fs::write(dir.outputs(), "A=1\nB=2").unwrap();
        let want = BTreeMap::from([("A".into(), "1".into()), ("B".into(), "2".into())]);
        assert_eq!(read(&dir).await.as_ref(), Ok(&want));
        let long = format!("A=0\n{}A=1\nB=2\n", "# comment\n".repeat(20_000));
        fs::write(dir.outputs(), long).unwrap();
        assert_eq!(read(&dir).await, Ok(want));
    }

    #[tokio::test]
    async fn n_131_what_is_refused_has_its_reason() {
        let temp = tempfile::tempdir().unwrap();
        let dir = NodeDirs::new(temp.path()).run("u", None).unwrap();
        dir.prepare(None).unwrap();
        fs::write(dir.outputs(), "no equals sign").unwrap();
        assert_eq!(read(&dir).await.unwrap_err().reason, "OutputsInvalid");
        fs::write(dir.outputs(), format!("A={}", "x".repeat(9000))).unwrap();
        assert_eq!(read(&dir).await.unwrap_err().reason, "OutputsTooLarge");
        fs::remove_file(dir.outputs()).unwrap();
        fs::create_dir(dir.outputs()).unwrap();
        assert_eq!(read(&dir).await.unwrap_err().reason, "OutputsInvalid");
    }
}
