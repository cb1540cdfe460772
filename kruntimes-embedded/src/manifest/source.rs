//! The text of a manifest file and the places in it.

use std::ops::Range;

use super::finding::{Finding, Severity};

/// Knows where the lines of a text begin.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) name: String,
    pub(super) text: String,
    lines: Vec<usize>,
}

/// What a finding is about: a document, a path in its object, a range of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) document: usize,
    pub(super) path: String,
    pub(super) span: Range<usize>,
}

impl Source {
    pub(super) fn new(name: &str, text: &str) -> Self {
        let starts = text.match_indices('\n').map(|(at, _)| at + 1);
        Self {
            name: name.to_owned(),
            text: text.to_owned(),
            lines: std::iter::once(0).chain(starts).collect(),
        }
    }

    /// Returns line and column of a byte, both counted from one; columns count characters.
    pub(super) fn position(&self, byte: usize) -> (usize, usize) {
        let byte = self.text.floor_char_boundary(byte);
        let line = self.lines.partition_point(|&start| start <= byte);
        let start = self.lines[line - 1];
        (line, self.text[start..byte].chars().count() + 1)
    }

    /// Returns the part of the text, cut to what exists.
    pub(super) fn slice(&self, span: &Range<usize>) -> &str {
        let start = self.text.floor_char_boundary(span.start);
        let end = self.text.floor_char_boundary(span.end.max(span.start));
        &self.text[start..end]
    }

    /// Returns a line without its end; lines are counted from one.
    pub(super) fn line(&self, line: usize) -> &str {
        self.text
            .lines()
            .nth(line.saturating_sub(1))
            .unwrap_or_default()
    }

    pub(super) fn finding(
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

    pub(super) fn error(
        &self,
        code: &'static str,
        message: impl Into<String>,
        place: Place,
    ) -> Finding {
        self.finding(Severity::Error, code, message, place)
    }
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
}
