//! The JSONPath of printer columns: the first value that a path like `.status.conditions[?(@.type=="Ready")].status`
//! finds.

use std::{cmp::Ordering, iter::Peekable, str::Chars};

use serde_json::Value;

/// A compiled path.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JsonPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    /// Everything below, the value itself first.
    Below,
    Every,
    Index(i64),
    Slice(Option<i64>, Option<i64>),
    Where(Filter),
}

#[derive(Clone, Debug, PartialEq)]
struct Filter {
    path: Vec<Step>,
    /// Absent when the path only has to lead somewhere.
    comparison: Option<(Operator, Value)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl JsonPath {
    /// Compiles a path, telling what in it is not understood.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if !text.starts_with(['.', '[']) {
            return Err("must begin with a dot".to_owned());
        }
        steps(&mut text.chars().peekable()).map(Self)
    }

    /// Returns the path through these fields.
    pub(crate) fn of_fields<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let fields = names.into_iter().map(|name| Step::Field(name.to_owned()));
        Self(fields.collect())
    }

    /// Returns the first value the path leads to; what does not exist is passed over.
    pub(crate) fn first<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        first(&self.0, value)
    }
}

fn first<'a>(steps: &[Step], value: &'a Value) -> Option<&'a Value> {
    let Some((step, rest)) = steps.split_first() else {
        return Some(value);
    };
    match step {
        Step::Field(name) => first(rest, value.get(name.as_str())?),
        Step::Index(index) => first(rest, value.as_array()?.get(place(value, *index)?)?),
        Step::Slice(from, to) => {
            let items = value.as_array()?;
            let bound = |end: i64| place(value, end).unwrap_or(0).min(items.len());
            let range = from.map_or(0, bound)..to.map_or(items.len(), bound);
            items.get(range)?.iter().find_map(|item| first(rest, item))
        }
        Step::Every => children(value).find_map(|child| first(rest, child)),
        Step::Below => {
            first(rest, value).or_else(|| children(value).find_map(|child| first(steps, child)))
        }
        Step::Where(filter) => children(value)
            .filter(|child| filter.holds(child))
            .find_map(|child| first(rest, child)),
    }
}

/// Counts an index from the end when it is negative.
fn place(list: &Value, index: i64) -> Option<usize> {
    let length = i64::try_from(list.as_array()?.len()).ok()?;
    let index = if index < 0 { index + length } else { index };
    usize::try_from(index).ok()
}

fn children(value: &Value) -> impl Iterator<Item = &Value> {
    let items = value.as_array().into_iter().flatten();
    items.chain(value.as_object().into_iter().flat_map(|map| map.values()))
}

impl Filter {
    fn holds(&self, value: &Value) -> bool {
        let found = first(&self.path, value);
        let Some((operator, wanted)) = &self.comparison else {
            return found.is_some();
        };
        let order = found.and_then(|found| order(found, wanted));
        match operator {
            Operator::Equal => order == Some(Ordering::Equal),
            Operator::Unequal => order.is_some_and(Ordering::is_ne),
            Operator::Less => order.is_some_and(Ordering::is_lt),
            Operator::LessOrEqual => order.is_some_and(Ordering::is_le),
            Operator::Greater => order.is_some_and(Ordering::is_gt),
            Operator::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
        }
    }
}

/// Compares like with like; values of different types have no order.
fn order(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
        (Value::Number(left), Value::Number(right)) => left.as_f64()?.partial_cmp(&right.as_f64()?),
        _ => None,
    }
}

type Text<'a> = Peekable<Chars<'a>>;

fn steps(text: &mut Text<'_>) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    while let Some(next) = text.next() {
        match next {
            '.' => {
                if text.next_if_eq(&'.').is_some() {
                    steps.push(Step::Below);
                }
                if text.peek() != Some(&'[') {
                    steps.push(field(text)?);
                }
            }
            '[' => bracket(&inside(text)?, &mut steps)?,
            other => return Err(format!("{other:?} is not expected here")),
        }
    }
    Ok(steps)
}

/// Reads a name up to the next dot or bracket; a backslash takes away the meaning of what follows it.
fn field(text: &mut Text<'_>) -> Result<Step, String> {
    let mut name = String::new();
    while let Some(next) = text.next_if(|next| !matches!(next, '.' | '[')) {
        let literal = if next == '\\' {
            text.next()
        } else {
            Some(next)
        };
        name.push(literal.ok_or("ends in a backslash")?);
    }
    match name.as_str() {
        "" => Err("a name is missing after a dot".to_owned()),
        "*" => Ok(Step::Every),
        _ => Ok(Step::Field(name)),
    }
}

/// Returns the text up to the closing bracket, which does not count inside quotes.
fn inside(text: &mut Text<'_>) -> Result<String, String> {
    let mut content = String::new();
    let mut quote = None;
    let mut depth = 0_u32;
    for next in text.by_ref() {
        match (quote, next) {
            (Some(open), _) if open == next => quote = None,
            (None, '\'' | '"') => quote = Some(next),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Ok(content),
            (None, ']') => depth -= 1,
            _ => {}
        }
        content.push(next);
    }
    Err("a bracket is not closed".to_owned())
}

fn bracket(content: &str, steps: &mut Vec<Step>) -> Result<(), String> {
    let content = content.trim();
    if let Some(name) = unquoted(content) {
        return quoted(name, steps);
    }
    let step = if content == "*" {
        Step::Every
    } else if let Some(test) = content.strip_prefix("?(") {
        let test = test.strip_suffix(')').ok_or("a filter is not closed")?;
        Step::Where(filter(test.trim())?)
    } else if let Some((from, to)) = content.split_once(':') {
        Step::Slice(bound(from)?, bound(to)?)
    } else {
        Step::Index(number(content)?)
    };
    steps.push(step);
    Ok(())
}

/// Takes a quoted name apart: a dot separates inside quotes too, unless a backslash stands before it.
fn quoted(name: &str, steps: &mut Vec<Step>) -> Result<(), String> {
    let mut part = String::new();
    let mut letters = name.chars();
    while let Some(next) = letters.next() {
        match next {
            '.' => steps.push(Step::Field(std::mem::take(&mut part))),
            '\\' => part.push(letters.next().ok_or("ends in a backslash")?),
            _ => part.push(next),
        }
    }
    steps.push(Step::Field(part));
    Ok(())
}

fn bound(text: &str) -> Result<Option<i64>, String> {
    match text.trim() {
        "" => Ok(None),
        text => number(text).map(Some),
    }
}

fn number(text: &str) -> Result<i64, String> {
    text.parse()
        .map_err(|_| format!("[{text}] is neither an index nor a quoted name"))
}

fn unquoted(text: &str) -> Option<&str> {
    ['\'', '"'].into_iter().find_map(|quote| {
        text.strip_prefix(quote)?
            .strip_suffix(quote)
            .filter(|inner| !inner.contains(quote))
    })
}

fn filter(test: &str) -> Result<Filter, String> {
    const OPERATORS: [(&str, Operator); 6] = [
        ("==", Operator::Equal),
        ("!=", Operator::Unequal),
        ("<=", Operator::LessOrEqual),
        (">=", Operator::GreaterOrEqual),
        ("<", Operator::Less),
        (">", Operator::Greater),
    ];
    let found = OPERATORS
        .iter()
        .filter_map(|(sign, operator)| Some((test.find(sign)?, *sign, *operator)))
        .min_by_key(|(start, sign, _)| (*start, std::cmp::Reverse(sign.len())));
    let (path, comparison) = match found {
        None => (test, None),
        Some((start, sign, operator)) => {
            let literal = test[start + sign.len()..].trim();
            (&test[..start], Some((operator, value(literal)?)))
        }
    };
    let path = path.trim();
    let path = path
        .strip_prefix('@')
        .ok_or("the left side of a filter must begin with @")?;
    let path = steps(&mut path.chars().peekable())?;
    Ok(Filter { path, comparison })
}

fn value(literal: &str) -> Result<Value, String> {
    match unquoted(literal) {
        Some(text) => Ok(Value::from(text)),
        None => serde_json::from_str(literal)
            .map_err(|_| format!("the right side {literal} of a filter is no value")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_lead_to_the_first_value() {
        let object = json!({
            "metadata": { "labels": { "a.b/c": "label" } },
            "spec": { "list": ["one", "two"], "on": true, "pods": [{ "n": 1 }, { "n": 2, "name": "second" }] },
            "status": { "conditions": [
                { "type": "Other", "status": "False" }, { "type": "Ready", "status": "True" },
            ] },
        });
        for (path, want) in [
            (".spec.on", json!(true)),
            (r".metadata.labels.a\.b/c", json!("label")),
            (r".metadata.labels['a\.b/c']", json!("label")),
            (".metadata.labels['a.b/c']", Value::Null),
            (".spec.list[0]", json!("one")),
            (".spec.list[-1]", json!("two")),
            (".spec.list[2]", Value::Null),
            (".spec.list[*]", json!("one")),
            (".spec.list[1:]", json!("two")),
            (".spec.list[-9:1]", json!("one")),
            (
                r#".status.conditions[?(@.type=="Ready")].status"#,
                json!("True"),
            ),
            (
                ".status.conditions[?( @.type != 'Other' )].status",
                json!("True"),
            ),
            (".spec.pods[?(@.n >= 2)].name", json!("second")),
            (".spec.pods[?(@.name)].n", json!(2)),
            (".spec..name", json!("second")),
            (
                ".status.conditions[?(@.type=='Absent')].status",
                Value::Null,
            ),
            (".spec.list.name", Value::Null),
        ] {
            let found = JsonPath::parse(path).unwrap();
            assert_eq!(
                *found.first(&object).unwrap_or(&Value::Null),
                want,
                "{path}"
            );
        }
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for path in [
            "",
            "status",
            ".",
            ".a.",
            ".a[",
            ".a[x]",
            ".a[?(b==1)]",
            ".a[?(@.b==c)]",
            ".a[?(@.b",
            r".a\",
            ".a[0]x",
        ] {
            assert!(JsonPath::parse(path).is_err(), "{path}");
        }
    }
}
