//! Reading and writing with a count and a digest.

use std::fmt::Write as _;
use std::io::{self, Read, Write};

use sha2::{Digest as _, Sha256};

use super::StoreError;

/// Bytes copied at once.
const CHUNK: usize = 64 * 1024;

/// Reads through to another reader and sums up what passes.
pub(super) struct Summed<R> {
    inner: R,
    hash: Sha256,
    size: u64,
}

impl<R> Summed<R> {
    pub(super) fn new(inner: R) -> Self {
        Self {
            inner,
            hash: Sha256::new(),
            size: 0,
        }
    }

    /// Returns size and digest of all that has passed.
    pub(super) fn sum(self) -> (u64, String) {
        let mut text = "sha256:".to_owned();
        for byte in self.hash.finalize() {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        (self.size, text)
    }
}

impl<R: Read> Read for Summed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.hash.update(&buffer[..read]);
        self.size += u64::try_from(read).unwrap_or(u64::MAX);
        Ok(read)
    }
}

/// Hands everything that `content` yields, up to `limit` bytes, to `take`; returns size and digest.
///
/// What is larger, or cannot be read, is invalid: it is the source that fails, not the store.
pub(super) fn copy(
    content: &mut dyn Read,
    limit: u64,
    mut take: impl FnMut(&[u8]) -> Result<(), StoreError>,
) -> Result<(u64, String), StoreError> {
    let mut summed = Summed::new(content);
    let mut chunk = vec![0; CHUNK];
    loop {
        let read = match summed.read(&mut chunk) {
            Ok(0) => return Ok(summed.sum()),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(unreadable(error)),
        };
        if summed.size > limit {
            return Err(StoreError::Invalid(format!(
                "artifact is larger than the {limit} bytes that are left for it"
            )));
        }
        take(&chunk[..read])?;
    }
}

/// An error of the source, not of the store; one that wraps a store's error is that error.
pub(super) fn unreadable(error: io::Error) -> StoreError {
    let text = format!("artifact cannot be read: {error}");
    let Some(inner) = error.into_inner() else {
        return StoreError::Invalid(text);
    };
    match inner.downcast::<StoreError>() {
        Ok(inner) => *inner,
        Err(_) => StoreError::Invalid(text),
    }
}

/// A writer that takes no more than its limit.
pub(super) struct Limited<W> {
    pub(super) inner: W,
    pub(super) left: u64,
}

/// Marks the error of a [`Limited`] writer that is full.
#[derive(Debug, thiserror::Error)]
#[error("size limit exceeded")]
pub(super) struct Full;

/// Tells whether an error is that of a full writer.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.get_ref(), Some(inner) if inner.is::<Full>())
}

impl<W: Write> Write for Limited<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.left = self
            .left
            .checked_sub(length)
            .ok_or_else(|| io::Error::other(Full))?;
        self.inner.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Sums up bytes that are there.
#[cfg(test)]
pub(super) fn digest(bytes: &[u8]) -> String {
    let mut summed = Summed::new(bytes);
    io::copy(&mut summed, &mut io::sink()).unwrap();
    summed.sum().1
}
