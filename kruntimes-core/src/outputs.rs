//! The grammar of the outputs file (node, section 11; API reference, section 14).
//!
//! ```text
//! # a comment
//! key=value          split at the first `=`, both sides trimmed
//! key<<MARKER        a block: everything up to a line that is exactly MARKER,
//! first line         kept as written
//! second line
//! MARKER
//! ```
//!
//! A line is a block opener when it has `<<` and no `=` before it. A line ends
//! with `\n` or `\r\n`; the last one may lack its end. The line end before the
//! closing marker is not part of the content.

mod error;
mod line;

use std::collections::BTreeMap;

pub use error::OutputsError;
use line::Line;

use crate::limits::{
    OUTPUT_KEY_MAX_BYTES, OUTPUT_VALUE_MAX_BYTES, OUTPUTS_MAX_BYTES, OUTPUTS_MAX_KEYS,
};

/// Bytes of one line that are kept: a key, a value and room for blanks between them.
const KEPT_MAX: usize = 16_384;
/// Beyond this size nobody waits for the end to learn the exact number.
const COUNTED_MAX: u64 = 1_048_576;

/// Reads an outputs file piece by piece and never holds more than one bounded line or block (N-130).
///
/// How the file is cut into pieces does not change the result.
///
/// ```
/// use kruntimes_core::outputs::Parser;
///
/// let mut parser = Parser::default();
/// parser.feed(b"tag=v4")?;
/// parser.feed(b"1\nnotes<<END\nfirst\n\nlast\nEND\n")?;
/// let outputs = parser.finish()?;
/// assert_eq!(outputs["tag"], "v41");
/// assert_eq!(outputs["notes"], "first\n\nlast");
/// # Ok::<(), kruntimes_core::outputs::OutputsError>(())
/// ```
#[derive(Debug, Default)]
pub struct Parser {
    outputs: BTreeMap<String, String>,
    total: usize,
    line: Line,
    number: u64,
    block: Option<Block>,
    last_key: Option<String>,
    failed: Option<OutputsError>,
}

/// An open block.
#[derive(Debug)]
struct Block {
    key: String,
    marker: String,
    opened: u64,
    content: Vec<u8>,
    /// Bytes of content so far, also those that were not kept, with the end of the last line.
    size: u64,
    last_end: &'static [u8],
}

/// Reads a whole outputs file.
///
/// # Errors
///
/// Fails as [`Parser::feed`] and [`Parser::finish`] do.
pub fn parse(file: &[u8]) -> Result<BTreeMap<String, String>, OutputsError> {
    let mut parser = Parser::default();
    parser.feed(file)?;
    parser.finish()
}

impl Parser {
    /// Takes the next piece of the file.
    ///
    /// # Errors
    ///
    /// Fails on the first line that breaks the grammar or a limit, and from then on with the same error.
    pub fn feed(&mut self, piece: &[u8]) -> Result<(), OutputsError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let fed = self.feed_lines(piece);
        if let Err(error) = &fed {
            self.failed = Some(error.clone());
        }
        fed
    }

    /// Ends the file and returns the outputs.
    ///
    /// # Errors
    ///
    /// Fails when the last line breaks the grammar, a block is still open, or an earlier piece failed.
    pub fn finish(mut self) -> Result<BTreeMap<String, String>, OutputsError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        if !self.line.is_untouched() {
            self.end_line()?;
        }
        match self.block {
            None => Ok(self.outputs),
            Some(block) => Err(OutputsError::UnterminatedBlock {
                line: block.opened,
                key: block.key,
                marker: block.marker,
            }),
        }
    }

    fn feed_lines(&mut self, mut rest: &[u8]) -> Result<(), OutputsError> {
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.push(&rest[..end])?;
            self.end_line()?;
            rest = &rest[end + 1..];
        }
        if rest.is_empty() {
            return Ok(());
        }
        self.push(rest)
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), OutputsError> {
        self.line.push(bytes, self.block.is_some());
        if let Some(block) = &self.block {
            if block.size + self.line.len() > COUNTED_MAX {
                return Err(OutputsError::value_too_long(&block.key, COUNTED_MAX, true));
            }
        } else if self.line.significant() > COUNTED_MAX && !self.line.is_comment() {
            return Err(self.line.refusal(self.number + 1, true));
        }
        Ok(())
    }

    fn end_line(&mut self) -> Result<(), OutputsError> {
        self.number += 1;
        let mut line = std::mem::take(&mut self.line);
        if !line.is_utf8() {
            return Err(OutputsError::NotUtf8 { line: self.number });
        }
        match self.block.take() {
            Some(block) => self.end_block_line(block, &line),
            None => self.end_plain_line(&mut line),
        }
    }

    fn end_plain_line(&mut self, line: &mut Line) -> Result<(), OutputsError> {
        if line.significant() == 0 || line.is_comment() {
            return Ok(());
        }
        let number = self.number;
        let Some(text) = line.text() else {
            return Err(line.refusal(number, false));
        };
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            return Ok(());
        }
        let Some(at) = text.find('=').into_iter().chain(text.find("<<")).min() else {
            return Err(OutputsError::NoSeparator {
                line: number,
                after: self.last_key.take(),
            });
        };
        let key = text[..at].trim();
        if key.is_empty() {
            return Err(OutputsError::EmptyKey { line: number });
        }
        if key.len() > OUTPUT_KEY_MAX_BYTES {
            return Err(OutputsError::KeyTooLong {
                line: number,
                bytes: size_of_text(key),
            });
        }
        if let Some(value) = text[at..].strip_prefix('=') {
            return self.insert(key.to_owned(), value.trim().to_owned());
        }
        let marker = &text[at + "<<".len()..];
        if marker.is_empty() {
            return Err(OutputsError::EmptyMarker {
                line: number,
                key: key.to_owned(),
            });
        }
        self.block = Some(Block {
            key: key.to_owned(),
            marker: marker.to_owned(),
            opened: number,
            content: Vec::new(),
            size: 0,
            last_end: b"",
        });
        Ok(())
    }

    fn end_block_line(&mut self, mut block: Block, line: &Line) -> Result<(), OutputsError> {
        let kept = line.kept();
        let (body, end): (&[u8], &'static [u8]) = match kept.strip_suffix(b"\r") {
            Some(body) if line.is_complete() => (body, b"\r\n"),
            _ => (kept, b"\n"),
        };
        if line.is_complete() && body == block.marker.as_bytes() {
            return self.close(block);
        }
        if line.is_complete() && block.content.len() <= OUTPUT_VALUE_MAX_BYTES {
            block.content.extend_from_slice(block.last_end);
            block.content.extend_from_slice(body);
        }
        block.size += line.len() + 1;
        block.last_end = end;
        self.block = Some(block);
        Ok(())
    }

    fn close(&mut self, block: Block) -> Result<(), OutputsError> {
        let size = block.size - block.last_end.len() as u64;
        if size > OUTPUT_VALUE_MAX_BYTES as u64 {
            return Err(OutputsError::value_too_long(&block.key, size, false));
        }
        let Ok(content) = String::from_utf8(block.content) else {
            return Err(OutputsError::NotUtf8 { line: block.opened });
        };
        self.insert(block.key, content)
    }

    fn insert(&mut self, key: String, value: String) -> Result<(), OutputsError> {
        if value.len() > OUTPUT_VALUE_MAX_BYTES {
            return Err(OutputsError::value_too_long(
                &key,
                size_of_text(&value),
                false,
            ));
        }
        let replaced = self.outputs.get(&key);
        if replaced.is_none() && self.outputs.len() == OUTPUTS_MAX_KEYS {
            return Err(OutputsError::TooManyKeys {
                line: self.number,
                key,
            });
        }
        let freed = replaced.map_or(0, |value| key.len() + value.len());
        let total = self.total - freed + key.len() + value.len();
        if total > OUTPUTS_MAX_BYTES {
            return Err(OutputsError::TotalTooLarge {
                line: self.number,
                key,
                bytes: total,
            });
        }
        self.total = total;
        self.last_key = Some(key.clone());
        self.outputs.insert(key, value);
        Ok(())
    }
}

fn size_of_text(text: &str) -> u64 {
    text.len() as u64
}

#[cfg(test)]
mod tests;
