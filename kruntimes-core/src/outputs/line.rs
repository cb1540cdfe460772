//! One line of the outputs file while its bytes arrive.

use super::{COUNTED_MAX, KEPT_MAX, OutputsError};
use crate::limits::{OUTPUT_KEY_MAX_BYTES, OUTPUT_VALUE_MAX_BYTES};

/// The bounded head of a line, and what is known about the rest.
#[derive(Debug, Default)]
pub(super) struct Line {
    kept: Vec<u8>,
    /// Bytes after the blanks that were dropped at the front.
    len: u64,
    /// Bytes up to the last one that is no ASCII blank.
    significant: u64,
    equals_at: Option<u64>,
    utf8: Utf8,
    touched: bool,
}

impl Line {
    /// Takes the next bytes. Blanks at the front are dropped unless the line belongs to a block.
    pub(super) fn push(&mut self, bytes: &[u8], in_block: bool) {
        self.touched |= !bytes.is_empty();
        let bytes = if in_block || self.len > 0 {
            bytes
        } else {
            bytes.trim_ascii_start()
        };
        self.utf8.push(bytes);
        let trimmed = bytes.trim_ascii_end().len() as u64;
        if trimmed > 0 {
            self.significant = self.len + trimmed;
        }
        if self.equals_at.is_none() {
            let at = bytes.iter().position(|byte| *byte == b'=');
            self.equals_at = at.map(|at| self.len + at as u64);
        }
        let room = KEPT_MAX - self.kept.len();
        self.kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.len += bytes.len() as u64;
    }

    /// No byte has arrived.
    pub(super) fn is_untouched(&self) -> bool {
        !self.touched
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn significant(&self) -> u64 {
        self.significant
    }

    pub(super) fn kept(&self) -> &[u8] {
        &self.kept
    }

    pub(super) fn is_complete(&self) -> bool {
        self.len == self.kept.len() as u64
    }

    pub(super) fn is_comment(&self) -> bool {
        self.kept.first() == Some(&b'#')
    }

    pub(super) fn is_utf8(&self) -> bool {
        self.utf8.is_whole()
    }

    /// The line without blanks at its end, if all of it was kept.
    pub(super) fn text(&self) -> Option<&str> {
        let end = usize::try_from(self.significant).ok()?;
        std::str::from_utf8(self.kept.get(..end)?).ok()
    }

    /// Why a line that was not kept as a whole is refused; `more` says that its end was not seen.
    ///
    /// An unfinished line is judged by what was kept alone, so that the answer
    /// does not depend on how much of it arrived at once.
    pub(super) fn refusal(&self, line: u64, more: bool) -> OutputsError {
        let bytes = self.significant.min(COUNTED_MAX);
        let Some(equals_at) = self.equals_at else {
            return if more {
                OutputsError::LineTooLong { line, bytes }
            } else {
                OutputsError::NoSeparator { line, after: None }
            };
        };
        if more && equals_at >= self.kept.len() as u64 {
            return OutputsError::LineTooLong { line, bytes };
        }
        let head = usize::try_from(equals_at)
            .ok()
            .and_then(|at| self.kept.get(..at));
        let Some(key) = head.and_then(|head| std::str::from_utf8(head).ok()) else {
            return OutputsError::KeyTooLong {
                line,
                bytes: equals_at,
            };
        };
        let key = key.trim();
        if key.contains("<<") {
            return OutputsError::LineTooLong { line, bytes };
        }
        if key.is_empty() {
            return OutputsError::EmptyKey { line };
        }
        if key.len() > OUTPUT_KEY_MAX_BYTES {
            return OutputsError::KeyTooLong {
                line,
                bytes: key.len() as u64,
            };
        }
        if more {
            return OutputsError::value_too_long(key, COUNTED_MAX, true);
        }
        let value_at = self.kept.len() as u64 - self.blank_free_tail(equals_at);
        let size = bytes - value_at;
        if size <= OUTPUT_VALUE_MAX_BYTES as u64 {
            return OutputsError::LineTooLong { line, bytes };
        }
        OutputsError::value_too_long(key, size, false)
    }

    /// Kept bytes after `=` and the blanks that follow it.
    fn blank_free_tail(&self, equals_at: u64) -> u64 {
        let after = usize::try_from(equals_at).map_or(0, |at| at + 1);
        self.kept
            .get(after..)
            .map_or(0, |tail| tail.trim_ascii_start().len() as u64)
    }
}

/// Checks UTF-8 across pieces.
#[derive(Debug, Default)]
struct Utf8 {
    /// Begin of a character whose end has not arrived.
    open: Vec<u8>,
    broken: bool,
}

impl Utf8 {
    fn push(&mut self, mut bytes: &[u8]) {
        while !self.open.is_empty() && !self.broken {
            let Some((first, rest)) = bytes.split_first() else {
                return;
            };
            self.open.push(*first);
            bytes = rest;
            match std::str::from_utf8(&self.open) {
                Ok(_) => self.open.clear(),
                Err(error) => self.broken = error.error_len().is_some(),
            }
        }
        if let Err(error) = std::str::from_utf8(bytes) {
            if error.error_len().is_some() {
                self.broken = true;
            } else {
                self.open = bytes[error.valid_up_to()..].to_vec();
            }
        }
    }

    fn is_whole(&self) -> bool {
        !self.broken && self.open.is_empty()
    }
}
