//! Reads a condition: `||` binds weakest, then `&&`, then `!`, then comparisons.

use super::token::{Token, tokens};
use super::{CONDITION_MAX_CHARS, ConditionError, Node, Operand, StatusFunction};

/// How deep brackets, negations and calls may be nested.
const DEPTH_MAX: usize = 32;

/// Reads a whole condition, with or without braces around it.
pub(super) fn condition(text: &str) -> Result<Node, ConditionError> {
    let chars = text.chars().count();
    if chars > CONDITION_MAX_CHARS {
        return Err(ConditionError::TooLong(chars));
    }
    let text = bare(text.trim())?;
    let tokens = tokens(text)?;
    if tokens.is_empty() {
        return Err(ConditionError::Empty);
    }
    let mut reader = Reader {
        tokens,
        at: 0,
        depth: 0,
    };
    let node = reader.any()?;
    match reader.tokens.get(reader.at) {
        None => Ok(node),
        Some(token) => Err(ConditionError::Unexpected(token.shown())),
    }
}

/// Takes the braces off that stand around the whole; any others are an error.
fn bare(text: &str) -> Result<&str, ConditionError> {
    let inner = text
        .strip_prefix("${{")
        .and_then(|text| text.strip_suffix("}}"));
    let inner = inner.unwrap_or(text);
    // A brace inside of a literal is text; literals are the odd pieces.
    let outside = inner.split('\'').step_by(2);
    if outside
        .into_iter()
        .any(|piece| piece.contains("${{") || piece.contains("}}"))
    {
        return Err(ConditionError::Half);
    }
    Ok(inner)
}

struct Reader<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, sign: &'static str) -> bool {
        let found = self.tokens.get(self.at) == Some(&Token::Sign(sign));
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, sign: &'static str) -> Result<(), ConditionError> {
        if self.take(sign) {
            return Ok(());
        }
        Err(self.unexpected())
    }

    fn unexpected(&self) -> ConditionError {
        match self.tokens.get(self.at) {
            None => ConditionError::Ended,
            Some(token) => ConditionError::Unexpected(token.shown()),
        }
    }

    fn deeper<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, ConditionError>,
    ) -> Result<T, ConditionError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(ConditionError::Nested(DEPTH_MAX));
        }
        let result = read(self);
        self.depth -= 1;
        result
    }

    fn any(&mut self) -> Result<Node, ConditionError> {
        let mut parts = vec![self.all()?];
        while self.take("||") {
            parts.push(self.all()?);
        }
        Ok(joined(parts, Node::Any))
    }

    fn all(&mut self) -> Result<Node, ConditionError> {
        let mut parts = vec![self.one()?];
        while self.take("&&") {
            parts.push(self.one()?);
        }
        Ok(joined(parts, Node::All))
    }

    fn one(&mut self) -> Result<Node, ConditionError> {
        if self.take("!") {
            let inner = self.deeper(Self::one)?;
            return Ok(Node::Not(Box::new(inner)));
        }
        if self.take("(") {
            let inner = self.deeper(Self::any)?;
            self.expect(")")?;
            return Ok(inner);
        }
        self.comparison()
    }

    fn comparison(&mut self) -> Result<Node, ConditionError> {
        if let Some(function) = self.status() {
            return Ok(Node::Status(function));
        }
        let word = match self.tokens.get(self.at) {
            Some(Token::Word(word)) => Some(*word),
            Some(Token::Literal(_) | Token::Sign(_)) | None => None,
        };
        let left = self.operand()?;
        let equal = if self.take("==") {
            true
        } else if self.take("!=") {
            false
        } else {
            return match word {
                Some("true") => Ok(Node::Constant(true)),
                Some("false") => Ok(Node::Constant(false)),
                Some(_) | None => Err(ConditionError::Alone {
                    text: left.to_string(),
                }),
            };
        };
        let right = self.operand()?;
        Ok(Node::Compare { left, right, equal })
    }

    /// Takes `success()` and its like.
    fn status(&mut self) -> Option<StatusFunction> {
        let next = self.tokens.get(self.at..self.at + 3)?;
        let [Token::Word(name), Token::Sign("("), Token::Sign(")")] = next else {
            return None;
        };
        let function = StatusFunction::named(name)?;
        self.at += 3;
        Some(function)
    }

    fn operand(&mut self) -> Result<Operand, ConditionError> {
        let operand = match self.tokens.get(self.at) {
            Some(Token::Literal(text)) => Operand::Text(text.clone()),
            Some(Token::Word(word)) => {
                let word: &'a str = word;
                self.at += 1;
                if self.take("(") {
                    return self.call(word);
                }
                return Ok(if is_reference(word) {
                    Operand::Reference(word.to_owned())
                } else {
                    Operand::Text(word.to_owned())
                });
            }
            Some(Token::Sign(_)) | None => return Err(self.unexpected()),
        };
        self.at += 1;
        Ok(operand)
    }

    fn call(&mut self, name: &str) -> Result<Operand, ConditionError> {
        if StatusFunction::named(name).is_some() {
            // It has no text to compare, and takes no argument.
            return Err(ConditionError::Unexpected(format!("{name}(")));
        }
        let mut arguments = Vec::new();
        if !self.take(")") {
            loop {
                arguments.push(self.deeper(Self::operand)?);
                if !self.take(",") {
                    break;
                }
            }
            self.expect(")")?;
        }
        Ok(Operand::Call(name.to_owned(), arguments))
    }
}

/// Tells a reference from `true`, `false` and numbers, which are texts.
fn is_reference(word: &str) -> bool {
    let number = word.chars().all(|c| c.is_ascii_digit() || c == '.');
    !number && !matches!(word, "true" | "false")
}

fn joined(mut parts: Vec<Node>, join: impl FnOnce(Vec<Node>) -> Node) -> Node {
    match parts.pop() {
        Some(only) if parts.is_empty() => only,
        last => {
            parts.extend(last);
            join(parts)
        }
    }
}
