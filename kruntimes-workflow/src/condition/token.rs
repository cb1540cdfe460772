//! Splits the text of a condition into signs, words and literals.

use super::ConditionError;

/// One piece of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    Word(&'a str),
    Literal(String),
    Sign(&'static str),
}

impl Token<'_> {
    /// Returns the piece as it was written, near enough for a message.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Word(word) => (*word).to_owned(),
            Self::Literal(text) => format!("'{}'", text.replace('\'', "''")),
            Self::Sign(sign) => (*sign).to_owned(),
        }
    }
}

/// Signs, longer ones first.
const SIGNS: [&str; 8] = ["==", "!=", "&&", "||", "!", "(", ")", ","];

/// Splits a text.
pub(super) fn tokens(text: &str) -> Result<Vec<Token<'_>>, ConditionError> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        if first == '\'' {
            let (literal, after) = literal(&rest[1..])?;
            found.push(Token::Literal(literal));
            rest = after;
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            found.push(Token::Sign(sign));
            rest = &rest[sign.len()..];
        } else {
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            if end == 0 {
                return Err(ConditionError::Unexpected(first.to_string()));
            }
            found.push(Token::Word(&rest[..end]));
            rest = &rest[end..];
        }
        rest = rest.trim_start();
    }
    Ok(found)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || "._-/".contains(c)
}

/// Reads a literal behind its opening quote; `''` is one quote.
fn literal(text: &str) -> Result<(String, &str), ConditionError> {
    let mut content = String::new();
    let mut rest = text;
    loop {
        let end = rest.find('\'').ok_or(ConditionError::Unterminated)?;
        content.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('\'') {
            Some(more) => {
                content.push('\'');
                rest = more;
            }
            None => return Ok((content, rest)),
        }
    }
}
