//! Splits a template into text and expressions, and an expression into its parts.

use super::{Error, ErrorKind};

const OPEN: &str = "${{";
const CLOSE: &str = "}}";
const OUTPUTS: &str = ".outputs.";

/// One piece of a template, in reading order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment<'a> {
    /// Copied byte for byte.
    Text(&'a str),
    /// One expression.
    Expression {
        /// Byte offset of the opening `${{`.
        offset: usize,
        /// The expression as it stands, braces included.
        source: &'a str,
        /// What stands between the braces, without surrounding white space.
        body: &'a str,
    },
}

/// Iterates over the segments of one template.
#[derive(Clone, Debug)]
pub struct Segments<'a> {
    template: &'a str,
    at: usize,
}

/// Splits a template into its segments (W-25).
///
/// The iterator ends after the first error: nothing behind an unterminated or
/// empty expression is looked at.
pub fn segments(template: &str) -> Segments<'_> {
    Segments { template, at: 0 }
}

impl<'a> Iterator for Segments<'a> {
    type Item = Result<Segment<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = &self.template[self.at..];
        if rest.is_empty() {
            return None;
        }
        let text = opener(rest).unwrap_or(rest.len());
        if text > 0 {
            self.at += text;
            return Some(Ok(Segment::Text(&rest[..text])));
        }
        let offset = self.at;
        let fail = |kind| Some(Err(Error { offset, kind }));
        let Some(end) = body_end(&rest[OPEN.len()..]) else {
            self.at = self.template.len();
            return fail(ErrorKind::Unterminated);
        };
        let body = rest[OPEN.len()..OPEN.len() + end].trim_matches([' ', '\t', '\r', '\n']);
        if body.is_empty() {
            self.at = self.template.len();
            return fail(ErrorKind::Empty);
        }
        let source = &rest[..OPEN.len() + end + CLOSE.len()];
        self.at += source.len();
        Some(Ok(Segment::Expression {
            offset,
            source,
            body,
        }))
    }
}

/// Finds the first `${{`; most texts have none, and a single byte is found faster than three.
fn opener(text: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + text[from..].find('$')?;
        if text[at..].starts_with(OPEN) {
            return Some(at);
        }
        from = at + 1;
    }
}

/// Finds the first `}}` outside a literal. A literal can only begin the body.
fn body_end(text: &str) -> Option<usize> {
    let lead = text.len() - text.trim_start_matches([' ', '\t', '\r', '\n']).len();
    let mut from = lead;
    if text[lead..].starts_with('\'') {
        from = lead + 1;
        loop {
            from += text[from..].find('\'')? + 1;
            if !text[from..].starts_with('\'') {
                break;
            }
            from += 1;
        }
    }
    text[from..].find(CLOSE).map(|end| from + end)
}

/// What one expression asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// `inputs.<name>`.
    Input(&'a str),
    /// `steps.…`; split it with [`Target::split`].
    Steps(Target<'a>),
    /// `jobs.…`; split it with [`Target::split`].
    Jobs(Target<'a>),
    /// The content of a literal, with `''` still doubled.
    Literal(&'a str),
}

/// A reference to an output whose name and key are not separated yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    rest: &'a str,
}

impl<'a> Target<'a> {
    /// Separates name and key (W-30).
    ///
    /// The name ends at the first `.outputs.` that follows a known name, else at
    /// the first `.outputs.` at all.
    pub fn split(self, mut knows: impl FnMut(&str) -> bool) -> (&'a str, &'a str) {
        let cuts = || self.rest.match_indices(OUTPUTS).map(|(at, _)| at);
        // A cut without a name before it or a key behind it is none; `parse` saw to it that one is left.
        let legal = |&at: &usize| at > 0 && at + OUTPUTS.len() < self.rest.len();
        let cut = cuts()
            .filter(legal)
            .find(|&at| knows(&self.rest[..at]))
            .or_else(|| cuts().find(legal))
            .unwrap_or(0);
        (
            &self.rest[..cut],
            self.rest.get(cut + OUTPUTS.len()..).unwrap_or_default(),
        )
    }
}

impl<'a> Body<'a> {
    /// Reads the body of one expression.
    ///
    /// # Errors
    ///
    /// Returns the text of W-31 for anything outside the grammar.
    pub fn parse(body: &'a str) -> Result<Self, ErrorKind> {
        if let Some(content) = literal(body) {
            return Ok(Self::Literal(content));
        }
        let (first, rest) = body.split_once('.').unwrap_or((body, ""));
        match first {
            "inputs" if is_plain(rest) => Ok(Self::Input(rest)),
            "inputs" => Err(ErrorKind::InvalidInputs(body.to_owned())),
            "steps" if is_target(rest) => Ok(Self::Steps(Target { rest })),
            "steps" => Err(ErrorKind::InvalidSteps(body.to_owned())),
            "jobs" if is_target(rest) => Ok(Self::Jobs(Target { rest })),
            "jobs" => Err(ErrorKind::InvalidJobs(body.to_owned())),
            _ => Err(ErrorKind::UnknownPrefix(first.to_owned())),
        }
    }
}

/// Returns the content of a literal that is the whole body.
fn literal(body: &str) -> Option<&str> {
    let content = body.strip_prefix('\'')?.strip_suffix('\'')?;
    let bare = content.replace("''", "");
    (!bare.contains('\'')).then_some(content)
}

/// Tells whether a reference is free of operators, calls, indexes and comments (W-29).
fn is_plain(text: &str) -> bool {
    let foreign =
        |c: char| c.is_whitespace() || c.is_control() || "'\"|&!()[]{}<>=,*+?^\\`;#".contains(c);
    !text.is_empty() && !text.contains(foreign)
}

fn is_target(rest: &str) -> bool {
    let cut = |at: usize| at > 0 && at + OUTPUTS.len() < rest.len();
    is_plain(rest) && rest.match_indices(OUTPUTS).any(|(at, _)| cut(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w_25_text_outside_expressions_is_copied_byte_for_byte() {
        for text in [
            "",
            "}}",
            "{{ x }}",
            "$",
            "${",
            "$ {{",
            "a$b$$c$$$d",
            "${ { x } }",
        ] {
            let pieces: Vec<_> = segments(text).collect();
            let want: Vec<_> = (!text.is_empty())
                .then_some(Ok(Segment::Text(text)))
                .into_iter()
                .collect();
            assert_eq!(pieces, want, "{text}");
        }
    }

    #[test]
    fn w_25_an_expression_ends_at_the_first_close_outside_a_literal() {
        let bodies = |text: &'static str| -> Vec<&str> {
            segments(text)
                .filter_map(|segment| match segment.unwrap() {
                    Segment::Expression { body, .. } => Some(body),
                    Segment::Text(_) => None,
                })
                .collect()
        };
        assert_eq!(bodies("${{inputs.x}}}}"), ["inputs.x"]);
        assert_eq!(bodies("$${{ inputs.x\r\n\t}}"), ["inputs.x"]);
        assert_eq!(
            bodies("${{ '}}' }} ${{ 'it''s }}' }}"),
            ["'}}'", "'it''s }}'"]
        );
        assert_eq!(
            bodies("a ${{inputs.a}}${{ inputs.b }} b"),
            ["inputs.a", "inputs.b"]
        );
    }

    #[test]
    fn w_30_the_first_known_name_wins() {
        let rest = "lint.outputs.fast.outputs.n";
        let split = |known: &str| Target { rest }.split(|name| name == known);
        assert_eq!(split("lint"), ("lint", "fast.outputs.n"));
        assert_eq!(split("lint.outputs.fast"), ("lint.outputs.fast", "n"));
        assert_eq!(split("other"), ("lint", "fast.outputs.n"));
    }
}
