//! Bounded memory of an output stream.

use std::sync::{Mutex, PoisonError};

/// Bytes kept of one output stream (N-222).
pub const OUTPUT_MAX_BYTES: usize = 1_048_576;

/// Ends the kept text when more arrived than is kept (N-222).
pub const TRUNCATION_MARK: &str = "\n[output truncated]\n";

/// Keeps the beginning of a stream and forgets the rest.
#[derive(Debug, Default)]
pub(crate) struct Capture {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    bytes: Vec<u8>,
    truncated: bool,
}

impl Capture {
    /// Takes bytes in; returns whether the text that can be read changed.
    pub(crate) fn push(&self, bytes: &[u8]) -> bool {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes.is_empty() || kept.truncated {
            return false;
        }
        let room = OUTPUT_MAX_BYTES - kept.bytes.len();
        kept.bytes
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
        kept.truncated = bytes.len() > room;
        true
    }

    /// Returns what is kept as text; a character of which only the beginning has arrived waits.
    pub(crate) fn so_far(&self) -> String {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.text(whole_characters(&kept.bytes))
    }

    /// Returns all that is kept as text and gives the memory back.
    pub(crate) fn finish(&self) -> String {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = std::mem::take(&mut *kept);
        let bytes = if kept.truncated {
            whole_characters(&kept.bytes)
        } else {
            &kept.bytes
        };
        kept.text(bytes)
    }
}

impl Kept {
    fn text(&self, bytes: &[u8]) -> String {
        let mut text = String::from_utf8_lossy(bytes).into_owned();
        if self.truncated {
            text.push_str(TRUNCATION_MARK);
        }
        text
    }
}

/// Drops a last character that is cut, not one that is wrong.
fn whole_characters(bytes: &[u8]) -> &[u8] {
    let tail = bytes.len().saturating_sub(3);
    for start in (tail..bytes.len()).rev() {
        if let Err(error) = std::str::from_utf8(&bytes[start..]) {
            // No length means that the text stops in the middle of a character.
            if error.valid_up_to() == 0 && error.error_len().is_none() {
                return &bytes[..start];
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n_222_the_beginning_is_kept_and_marked() {
        let capture = Capture::default();
        for _ in 0..400 {
            capture.push(&[b'x'; 4096]);
        }
        assert!(!capture.push(b"more"));
        let text = capture.finish();
        assert_eq!(text.len(), OUTPUT_MAX_BYTES + TRUNCATION_MARK.len());
        assert!(text.ends_with(TRUNCATION_MARK));
    }

    #[test]
    fn n_222_exactly_the_limit_is_not_marked() {
        let capture = Capture::default();
        capture.push(&vec![b'x'; OUTPUT_MAX_BYTES]);
        assert_eq!(capture.so_far().len(), OUTPUT_MAX_BYTES);
        assert!(capture.push(b"y"));
        assert!(capture.so_far().ends_with(TRUNCATION_MARK));
    }

    #[test]
    fn n_222_bytes_that_are_not_text_are_replaced() {
        let capture = Capture::default();
        capture.push(b"a\xff\xfeb\x80");
        assert_eq!(capture.so_far(), "a\u{fffd}\u{fffd}b\u{fffd}");
        assert_eq!(capture.finish(), "a\u{fffd}\u{fffd}b\u{fffd}");
    }

    #[test]
    fn half_a_character_waits_for_its_end() {
        let capture = Capture::default();
        let euro = "€".as_bytes();
        capture.push(b"1 ");
        capture.push(&euro[..2]);
        assert_eq!(capture.so_far(), "1 ");
        capture.push(&euro[2..]);
        assert_eq!(capture.so_far(), "1 €");
        capture.push(&euro[..1]);
        assert_eq!(capture.finish(), "1 €\u{fffd}");
    }

    #[test]
    fn the_cut_does_not_split_a_character() {
        let capture = Capture::default();
        capture.push(b"x");
        capture.push("é".repeat(OUTPUT_MAX_BYTES).as_bytes());
        let text = capture.finish();
        assert!(!text.contains('\u{fffd}'));
        assert!(text.ends_with(TRUNCATION_MARK));
    }
}
