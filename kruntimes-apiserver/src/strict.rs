//! What a request body holds that its type does not know: unknown fields and repeated keys, by path.

use std::fmt;

/// Most findings that are kept of one body.
const FINDINGS_MAX: usize = 100;
/// Bytes that the findings of one body may take together.
const FINDINGS_MAX_BYTES: usize = 64 * 1024;

/// Names a place in a body; a link per step, so that walking allocates nothing until something is found.
#[derive(Clone, Copy)]
pub(crate) enum Place<'a> {
    Root,
    Field(&'a Place<'a>, &'a str),
    Index(&'a Place<'a>, usize),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// Findings in the order they were made, bounded in number and size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    texts: Vec<String>,
    bytes: usize,
}

impl Findings {
    pub(crate) fn unknown(&mut self, place: &impl fmt::Display) {
        self.push(&format_args!("unknown field \"{place}\""));
    }

    pub(crate) fn duplicate(&mut self, place: &impl fmt::Display) {
        self.push(&format_args!("duplicate field \"{place}\""));
    }

    fn push(&mut self, text: &fmt::Arguments<'_>) {
        let room = FINDINGS_MAX_BYTES - self.bytes;
        if self.texts.len() == FINDINGS_MAX || room == 0 {
            return;
        }
        let text = bounded(text.to_string(), room);
        self.bytes += text.len();
        self.texts.push(text);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// Words the refusal of all findings.
    pub(crate) fn refusal(&self) -> String {
        format!("strict decoding error: {}", self.texts.join(", "))
    }

    pub(crate) fn into_texts(self) -> Vec<String> {
        self.texts
    }
}

/// Shortens a text to at most so many bytes.
pub(crate) fn bounded(mut text: String, max_bytes: usize) -> String {
    let mut end = max_bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_read_like_paths() {
        let spec = Place::Field(&Place::Root, "spec");
        let list = Place::Field(&spec, "list");
        let first = Place::Index(&list, 0);
        assert_eq!(Place::Field(&first, "a").to_string(), "spec.list[0].a");
    }

    #[test]
    fn findings_are_bounded_but_never_lost_altogether() {
        let mut findings = Findings::default();
        findings.unknown(&"ä".repeat(FINDINGS_MAX_BYTES));
        assert!(!findings.is_empty());
        findings.unknown(&"more");
        assert!(findings.refusal().len() < FINDINGS_MAX_BYTES + 100);
        let mut findings = Findings::default();
        for number in 0..1000 {
            findings.duplicate(&number);
        }
        assert_eq!(findings.into_texts().len(), FINDINGS_MAX);
    }
}
