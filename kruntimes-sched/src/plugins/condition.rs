//! A small language of conditions over a Run and a Pod, for configuration files.
//!
//! ```text
//! pod.labels["zone"] == run.labels["zone"] && pod.free["gpu"] >= 2
//! ```
//!
//! Operands are quoted texts, quantities (`2`, `500m`, `1Gi`), `run.name`,
//! `run.namespace`, `run.runtime`, `run.labels["k"]`, `run.request["r"]`,
//! `pod.name`, `pod.labels["k"]`, `pod.capacity["r"]`, `pod.used["r"]` and
//! `pod.free["r"]`. They are compared with `==`, `!=`, `<`, `<=`, `>`, `>=` and
//! joined with `&&`, `||`, `!` and parentheses. A text and a quantity cannot
//! be compared. A label that is missing equals nothing, not even another
//! missing one, and is not ordered; an amount that is missing is zero.

use std::cmp::Ordering;

use kruntimes_core::quantity::Quantity;
use kruntimes_core::resources::Amounts;

use crate::run::{Labels, Run};
use crate::snapshot::PodState;

/// Longest expression that is read.
const MAX_LENGTH: usize = 4096;
/// Deepest nesting that is read.
const MAX_DEPTH: usize = 64;

/// Why a text is no expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at character {at}: {problem}")]
pub struct ExpressionError {
    /// Position of the problem, counting characters from zero.
    pub at: usize,
    /// What is wrong there.
    pub problem: String,
}

/// A condition that was read and checked.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Condition {
    Any(Vec<Self>),
    All(Vec<Self>),
    Not(Box<Self>),
    Compare(Operand, Operator, Operand),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Operand {
    Text(String),
    Amount(Quantity),
    RunName,
    RunNamespace,
    RunRuntime,
    RunLabel(String),
    RunRequest(String),
    PodName,
    PodLabel(String),
    PodCapacity(String),
    PodUsed(String),
    PodFree(String),
}

/// Makes an operand out of a key.
type Indexed = fn(String) -> Operand;

#[derive(PartialEq)]
enum Value<'a> {
    Text(Option<&'a str>),
    Amount(Quantity),
}

impl Operand {
    fn is_amount(&self) -> bool {
        match self {
            Self::Amount(_)
            | Self::RunRequest(_)
            | Self::PodCapacity(_)
            | Self::PodUsed(_)
            | Self::PodFree(_) => true,
            Self::Text(_)
            | Self::RunName
            | Self::RunNamespace
            | Self::RunRuntime
            | Self::RunLabel(_)
            | Self::PodName
            | Self::PodLabel(_) => false,
        }
    }

    fn value<'a>(&'a self, run: &'a Run, state: &'a PodState) -> Value<'a> {
        let label = |labels: &'a Labels, key: &String| labels.get(key).map(String::as_str);
        let amount =
            |amounts: &Amounts, name: &String| amounts.get(name).copied().unwrap_or(Quantity::ZERO);
        let pod = &state.pod;
        match self {
            Self::Text(text) => Value::Text(Some(text)),
            Self::Amount(amount) => Value::Amount(*amount),
            Self::RunName => Value::Text(Some(run.name.as_str())),
            Self::RunNamespace => Value::Text(Some(run.namespace.as_str())),
            Self::RunRuntime => Value::Text(Some(run.runtime.as_str())),
            Self::RunLabel(key) => Value::Text(label(&run.labels, key)),
            Self::RunRequest(name) => Value::Amount(amount(&run.request, name)),
            Self::PodName => Value::Text(Some(pod.name.as_str())),
            Self::PodLabel(key) => Value::Text(label(&pod.labels, key)),
            Self::PodCapacity(name) => Value::Amount(amount(&pod.capacity, name)),
            Self::PodUsed(name) => {
                let used = state.occupancy.usage_without(&run.uid);
                Value::Amount(amount(&used, name))
            }
            Self::PodFree(name) => {
                let used = amount(&state.occupancy.usage_without(&run.uid), name);
                let free = amount(&pod.capacity, name).checked_sub(used);
                Value::Amount(free.unwrap_or(Quantity::ZERO))
            }
        }
    }
}

impl Operator {
    fn holds(self, order: Option<Ordering>) -> bool {
        match self {
            Self::Equal => order == Some(Ordering::Equal),
            Self::NotEqual => order != Some(Ordering::Equal),
            Self::Less => order == Some(Ordering::Less),
            Self::LessOrEqual => order.is_some_and(Ordering::is_le),
            Self::Greater => order == Some(Ordering::Greater),
            Self::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
        }
    }
}

impl Condition {
    pub(super) fn parse(text: &str) -> Result<Self, ExpressionError> {
        let text: Vec<char> = text.chars().collect();
        let mut parser = Parser {
            text: &text,
            at: 0,
            depth: 0,
        };
        if text.len() > MAX_LENGTH {
            return Err(parser.error(&format!("longer than {MAX_LENGTH} characters")));
        }
        let condition = parser.any()?;
        if parser.rest().is_empty() {
            return Ok(condition);
        }
        Err(parser.error("expected the end, && or ||"))
    }

    pub(super) fn holds(&self, run: &Run, state: &PodState) -> bool {
        match self {
            Self::Any(parts) => parts.iter().any(|part| part.holds(run, state)),
            Self::All(parts) => parts.iter().all(|part| part.holds(run, state)),
            Self::Not(part) => !part.holds(run, state),
            Self::Compare(left, operator, right) => {
                let order = match (left.value(run, state), right.value(run, state)) {
                    (Value::Text(Some(a)), Value::Text(Some(b))) => Some(a.cmp(b)),
                    (Value::Amount(a), Value::Amount(b)) => Some(a.cmp(&b)),
                    (Value::Text(_) | Value::Amount(_), Value::Text(_) | Value::Amount(_)) => None,
                };
                operator.holds(order)
            }
        }
    }
}

struct Parser<'a> {
    text: &'a [char],
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn error(&self, problem: &str) -> ExpressionError {
        ExpressionError {
            at: self.at,
            problem: problem.to_owned(),
        }
    }

    /// Skips blanks and returns what is left.
    fn rest(&mut self) -> &'a [char] {
        while self.text.get(self.at).is_some_and(|c| c.is_whitespace()) {
            self.at += 1;
        }
        &self.text[self.at..]
    }

    fn take(&mut self, token: &str) -> bool {
        let token: Vec<char> = token.chars().collect();
        let found = self.rest().starts_with(&token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn any(&mut self) -> Result<Condition, ExpressionError> {
        let mut parts = vec![self.all()?];
        while self.take("||") {
            parts.push(self.all()?);
        }
        Ok(one_or(parts, Condition::Any))
    }

    fn all(&mut self) -> Result<Condition, ExpressionError> {
        let mut parts = vec![self.unary()?];
        while self.take("&&") {
            parts.push(self.unary()?);
        }
        Ok(one_or(parts, Condition::All))
    }

    fn unary(&mut self) -> Result<Condition, ExpressionError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error(&format!("nested deeper than {MAX_DEPTH}")));
        }
        let condition = if self.take("!") {
            Condition::Not(Box::new(self.unary()?))
        } else if self.take("(") {
            let inner = self.any()?;
            if !self.take(")") {
                return Err(self.error("expected )"));
            }
            inner
        } else {
            self.comparison()?
        };
        self.depth -= 1;
        Ok(condition)
    }

    fn comparison(&mut self) -> Result<Condition, ExpressionError> {
        let left = self.operand()?;
        let operator = self.operator()?;
        let start = self.at;
        let right = self.operand()?;
        if left.is_amount() != right.is_amount() {
            self.at = start;
            return Err(self.error("a text and a quantity cannot be compared"));
        }
        Ok(Condition::Compare(left, operator, right))
    }

    fn operator(&mut self) -> Result<Operator, ExpressionError> {
        for (token, operator) in [
            ("==", Operator::Equal),
            ("!=", Operator::NotEqual),
            ("<=", Operator::LessOrEqual),
            (">=", Operator::GreaterOrEqual),
            ("<", Operator::Less),
            (">", Operator::Greater),
        ] {
            if self.take(token) {
                return Ok(operator);
            }
        }
        Err(self.error("expected one of == != < <= > >="))
    }

    fn operand(&mut self) -> Result<Operand, ExpressionError> {
        if self.rest().first() == Some(&'"') {
            return self.quoted().map(Operand::Text);
        }
        for (name, operand) in [
            ("run.namespace", Operand::RunNamespace),
            ("run.name", Operand::RunName),
            ("run.runtime", Operand::RunRuntime),
            ("pod.name", Operand::PodName),
        ] {
            if self.take(name) {
                return Ok(operand);
            }
        }
        let indexed: [(&str, Indexed); 6] = [
            ("run.labels", Operand::RunLabel),
            ("run.request", Operand::RunRequest),
            ("pod.labels", Operand::PodLabel),
            ("pod.capacity", Operand::PodCapacity),
            ("pod.used", Operand::PodUsed),
            ("pod.free", Operand::PodFree),
        ];
        for (name, operand) in indexed {
            if self.take(name) {
                return self.key().map(operand);
            }
        }
        self.amount()
    }

    fn key(&mut self) -> Result<String, ExpressionError> {
        if !self.take("[") {
            return Err(self.error("expected [\"key\"]"));
        }
        self.rest();
        let key = self.quoted()?;
        if !self.take("]") {
            return Err(self.error("expected ]"));
        }
        Ok(key)
    }

    fn quoted(&mut self) -> Result<String, ExpressionError> {
        if self.text.get(self.at) != Some(&'"') {
            return Err(self.error("expected a quoted text"));
        }
        let inner = &self.text[self.at + 1..];
        let end = inner.iter().position(|c| *c == '"');
        let Some(end) = end else {
            return Err(self.error("the quoted text does not end"));
        };
        self.at += end + 2;
        Ok(inner[..end].iter().collect())
    }

    fn amount(&mut self) -> Result<Operand, ExpressionError> {
        let legal = |c: &&char| c.is_ascii_alphanumeric() || "+-.".contains(**c);
        let word: String = self.rest().iter().take_while(legal).collect();
        match word.parse() {
            Ok(amount) => {
                self.at += word.len();
                Ok(Operand::Amount(amount))
            }
            Err(_) => Err(self.error("expected a text, a quantity, or a property of run or pod")),
        }
    }
}

fn one_or(mut parts: Vec<Condition>, many: fn(Vec<Condition>) -> Condition) -> Condition {
    if parts.len() == 1
        && let Some(only) = parts.pop()
    {
        return only;
    }
    many(parts)
}

#[cfg(test)]
mod tests {
    use crate::testing::{RunBuilder, a_pod, a_run, a_snapshot};

    use super::*;

    fn run() -> RunBuilder {
        a_run("job").label("zone", "blue").asks("gpu", 2)
    }

    fn holds(text: &str) -> bool {
        let pod = a_pod("p").label("zone", "blue").label("tier", "gold");
        let pod = pod.offers("runs", 4).offers("gpu", 8);
        let snapshot = a_snapshot().pod(pod.holds(a_run("t").asks("gpu", 3)));
        let condition = Condition::parse(text).unwrap();
        condition.holds(&run().build(), &snapshot.build().pods()[0])
    }

    #[test]
    fn every_operand_and_operator_means_what_it_says() {
        for (text, want) in [
            (r#"pod.labels["zone"] == run.labels["zone"]"#, true),
            (r#"pod.labels["zone"] != "blue""#, false),
            (r#"run.name == "job" && run.namespace == "default""#, true),
            (r#"run.runtime == "python" && pod.name == "p""#, true),
            (r#"pod.name < "q" && pod.name >= "p""#, true),
            (r#"pod.free["gpu"] == 5 && pod.used["gpu"] == 3"#, true),
            (
                r#"pod.capacity["gpu"] > 7999m && 8 >= pod.capacity["gpu"]"#,
                true,
            ),
            (r#"run.request["gpu"] <= pod.free["gpu"]"#, true),
            (r#"pod.free["disk"] == 0 && pod.free["disk"] < 1Gi"#, true),
            (r#"  ( pod.free["gpu"]  <5 )  "#, false),
        ] {
            assert_eq!(holds(text), want, "{text}");
        }
    }

    #[test]
    fn and_binds_tighter_than_or_and_not_tighter_than_both() {
        let (yes, no) = (r#"pod.name == "p""#, r#"pod.name == "q""#);
        for (text, want) in [
            (format!("{yes} || {no} && {no}"), true),
            (format!("({yes} || {no}) && {no}"), false),
            (format!("!{no} && {yes}"), true),
            (format!("!({no} || {yes})"), false),
            (format!("!!{yes}"), true),
        ] {
            assert_eq!(holds(&text), want, "{text}");
        }
    }

    #[test]
    fn a_missing_label_equals_nothing_and_has_no_order() {
        for (text, want) in [
            (r#"pod.labels["x"] == """#, false),
            (r#"pod.labels["x"] == run.labels["x"]"#, false),
            (r#"pod.labels["x"] != run.labels["x"]"#, true),
            (r#"pod.labels["x"] < "a""#, false),
            (r#"pod.labels["x"] >= "a""#, false),
        ] {
            assert_eq!(holds(text), want, "{text}");
        }
    }

    #[test]
    fn what_has_no_meaning_is_refused_with_its_place() {
        let deep = format!("{}pod.name == \"p\"", "!".repeat(65));
        let long = format!("pod.name == \"{}\"", "x".repeat(MAX_LENGTH));
        for (text, at, problem) in [
            (
                "",
                0,
                "expected a text, a quantity, or a property of run or pod",
            ),
            ("pod.name", 8, "expected one of == != < <= > >="),
            ("pod.name = \"p\"", 9, "expected one of == != < <= > >="),
            (
                "pod.name == 2",
                11,
                "a text and a quantity cannot be compared",
            ),
            ("pod.labels == \"p\"", 11, "expected [\"key\"]"),
            ("pod.labels[zone] == \"p\"", 11, "expected a quoted text"),
            ("pod.labels[\"zone == 1", 11, "the quoted text does not end"),
            ("(1 == 1", 7, "expected )"),
            ("1 == 1 2 == 2", 7, "expected the end, && or ||"),
            (
                "1 == \u{e9}",
                5,
                "expected a text, a quantity, or a property of run or pod",
            ),
            (deep.as_str(), 64, "nested deeper than 64"),
            (long.as_str(), 0, "longer than 4096 characters"),
        ] {
            let error = Condition::parse(text).unwrap_err();
            assert_eq!((error.at, error.problem.as_str()), (at, problem), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[!()&|<>=\" a-z0-9.\\[\\]]{0,60}") {
            let _ = Condition::parse(&text);
        }
    }
}
