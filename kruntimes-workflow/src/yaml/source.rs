//! The text of a file and the places in it.

use std::ops::Range;

use super::finding::{Finding, Severity};

/// Bytes between two places whose characters are counted beforehand.
const STRIDE: usize = 256;

/// Knows where the lines of a text begin.
#[derive(Clone, Debug)]
pub struct Source {
    /// Name of the file, for messages.
    pub name: String,
    /// Its whole text.
    pub text: String,
    lines: Vec<usize>,
    /// Characters that begin before each multiple of [`STRIDE`].
    characters: Vec<usize>,
}

/// What a finding is about: a document, a path in its object, a range of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Index of the document in the file, counted from zero.
    pub document: usize,
    /// Path in the object; empty for the whole document.
    pub path: String,
    /// Bytes of the file.
    pub span: Range<usize>,
}

impl Source {
    /// Takes the text of a file; nothing is read.
    pub fn new(name: &str, text: &str) -> Self {
        let starts = text.match_indices('\n').map(|(at, _)| at + 1);
        let strides = text.as_bytes().chunks(STRIDE).scan(0, |sum, stride| {
            *sum += begun(stride);
            Some(*sum)
        });
        Self {
            name: name.to_owned(),
            text: text.to_owned(),
            lines: std::iter::once(0).chain(starts).collect(),
            characters: std::iter::once(0).chain(strides).collect(),
        }
    }

    /// Counts the characters before a byte that stands in the text or at its end.
    fn before(&self, byte: usize) -> usize {
        let stride = byte / STRIDE;
        let rest = &self.text.as_bytes()[stride * STRIDE..byte];
        self.characters[stride] + begun(rest)
    }

    /// Returns line and column of a byte, both counted from one; columns count characters.
    pub fn position(&self, byte: usize) -> (usize, usize) {
        let byte = self.text.floor_char_boundary(byte);
        let line = self.lines.partition_point(|&start| start <= byte);
        let start = self.lines[line - 1];
        (line, self.before(byte) - self.before(start) + 1)
    }

    /// Returns the part of the text, cut to what exists.
    pub fn slice(&self, span: &Range<usize>) -> &str {
        let start = self.text.floor_char_boundary(span.start);
        let end = self.text.floor_char_boundary(span.end.max(span.start));
        &self.text[start..end]
    }

    /// Returns a line without its end; lines are counted from one.
    pub fn line(&self, line: usize) -> &str {
        self.text
            .lines()
            .nth(line.saturating_sub(1))
            .unwrap_or_default()
    }

    /// Makes a finding, with line and column of its place.
    pub fn finding(
        &self,
        severity: Severity,
        code: &'static str,
        message: impl Into<String>,
        mut place: Place,
    ) -> Finding {
        place.span.start = self.text.floor_char_boundary(place.span.start);
        place.span.end = self
            .text
            .ceil_char_boundary(place.span.end)
            .max(place.span.start);
        let (line, column) = self.position(place.span.start);
        Finding {
            severity,
            code,
            message: message.into(),
            help: None,
            document: place.document,
            path: place.path,
            span: place.span,
            line,
            column,
        }
    }

    /// Makes a finding that makes the file unusable.
    pub fn error(&self, code: &'static str, message: impl Into<String>, place: Place) -> Finding {
        self.finding(Severity::Error, code, message, place)
    }
}

/// Counts the bytes that begin a character.
fn begun(bytes: &[u8]) -> usize {
    bytes.iter().filter(|&&byte| byte & 0xC0 != 0x80).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_counts_characters_from_one() {
        let source = Source::new("f", "a\näö: x\n");
        for (byte, want) in [
            (0, (1, 1)),
            (2, (2, 1)),
            (4, (2, 2)),
            (6, (2, 3)),
            (99, (3, 1)),
        ] {
            assert_eq!(source.position(byte), want, "{byte}");
        }
        assert_eq!(source.slice(&(2..6)), "äö");
        assert_eq!(source.slice(&(7..99)), " x\n");
    }

    /// A place costs the same wherever it stands in a long line.
    #[test]
    fn w_195_columns_of_long_lines_are_those_counted_one_by_one() {
        for text in [
            "aä€𝄞\n".repeat(120),
            "ä€𝄞".repeat(200),
            "x".repeat(512),
            String::new(),
        ] {
            let source = Source::new("f", &text);
            for byte in 0..=text.len() + 1 {
                let before = &text[..text.floor_char_boundary(byte)];
                let start = before.rfind('\n').map_or(0, |at| at + 1);
                let line = before.matches('\n').count() + 1;
                let column = before[start..].chars().count() + 1;
                assert_eq!(source.position(byte), (line, column), "{byte}");
            }
        }
    }
}
