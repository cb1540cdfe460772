//! Label and field selectors of list, watch and deletecollection.

use serde_json::Value;

use crate::{builtin, error::ApiError, kind::Served, object::Object, query::Query};

/// A condition on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Label {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
    Greater(String, i64),
    Less(String, i64),
}

/// A condition on one field: path in the stored form, value, whether equality is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Field {
    path: Vec<String>,
    value: String,
    equal: bool,
}

/// Everything a request asks of the objects it wants to see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selector {
    labels: Vec<Label>,
    fields: Vec<Field>,
}

impl Selector {
    /// Reads `labelSelector` and `fieldSelector`.
    pub(crate) fn of_query(query: &Query, served: &Served) -> Result<Self, ApiError> {
        let labels = match query.text("labelSelector") {
            Some(text) => parse_labels(text).map_err(|why| {
                ApiError::bad_request(format!("unable to parse requirement: {why}"))
            })?,
            None => Vec::new(),
        };
        let fields = match query.text("fieldSelector") {
            Some(text) => parse_fields(text, served)?,
            None => Vec::new(),
        };
        Ok(Self { labels, fields })
    }

    /// Whether every object matches.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether an object matches; its tree is made only when something is asked of it, and not kept.
    pub(crate) fn admits(&self, object: &Object) -> bool {
        self.is_everything() || object.value.show(|tree| self.matches(tree))
    }

    /// Whether one object, in its stored form, matches.
    pub(crate) fn matches(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        self.labels.iter().all(|label| label.matches(labels))
            && self.fields.iter().all(|field| field.matches(object))
    }
}

impl Label {
    fn matches(&self, labels: &Value) -> bool {
        let number = |name: &str| labels[name].as_str()?.parse::<i64>().ok();
        match self {
            Self::In(name, values) => labels[name]
                .as_str()
                .is_some_and(|label| values.iter().any(|value| value == label)),
            Self::NotIn(name, values) => labels[name]
                .as_str()
                .is_none_or(|label| values.iter().all(|value| value != label)),
            Self::Exists(name) => labels[name].is_string(),
            Self::Absent(name) => !labels[name].is_string(),
            Self::Greater(name, bound) => number(name).is_some_and(|label| label > *bound),
            Self::Less(name, bound) => number(name).is_some_and(|label| label < *bound),
        }
    }
}

impl Field {
    fn matches(&self, object: &Value) -> bool {
        let mut found = object;
        for part in &self.path {
            found = &found[part.as_str()];
        }
        let equal = match found {
            Value::String(text) => *text == self.value,
            Value::Null => self.value.is_empty(),
            Value::Bool(flag) => self.value == if *flag { "true" } else { "false" },
            Value::Number(number) => self.value == number.to_string(),
            Value::Array(_) | Value::Object(_) => false,
        };
        equal == self.equal
    }
}

fn parse_fields(text: &str, served: &Served) -> Result<Vec<Field>, ApiError> {
    let mut fields = Vec::new();
    for term in text.split(',').filter(|term| !term.is_empty()) {
        let (path, value, equal) = if let Some((path, value)) = term.split_once("!=") {
            (path, value, false)
        } else if let Some((path, value)) = term.split_once("==") {
            (path, value, true)
        } else if let Some((path, value)) = term.split_once('=') {
            (path, value, true)
        } else {
            return Err(ApiError::bad_request(format!(
                "invalid selector: '{text}'; can't understand '{term}'"
            )));
        };
        let stored = builtin::stored_path(served, path);
        let known = matches!(stored.as_str(), "metadata.name" | "metadata.namespace")
            || served.selectable.contains(&stored);
        if !known {
            return Err(ApiError::bad_request(format!(
                "Unable to find \"{}, Resource={}\" that match label selector \"\", \
                 field selector \"{text}\": field label not supported: {path}",
                served.api_version(),
                served.kind.plural
            )));
        }
        fields.push(Field {
            path: stored.split('.').map(str::to_owned).collect(),
            value: value.to_owned(),
            equal,
        });
    }
    Ok(fields)
}

fn parse_labels(text: &str) -> Result<Vec<Label>, String> {
    split_outside_brackets(text)
        .into_iter()
        .filter(|term| !term.is_empty())
        .map(parse_label)
        .collect()
}

/// Splits at commas, except those between brackets.
fn split_outside_brackets(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut depth, mut start) = (0_usize, 0);
    for (index, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                terms.push(text[start..index].trim());
                start = index + 1;
            }
            _ => {}
        }
    }
    terms.push(text[start..].trim());
    terms
}

fn parse_label(term: &str) -> Result<Label, String> {
    if let Some(name) = term.strip_prefix('!') {
        return Ok(Label::Absent(label_name(name)?));
    }
    if let Some(open) = term.find('(') {
        return parse_set(term, open);
    }
    if let Some((name, value)) = term.split_once("!=") {
        return Ok(Label::NotIn(
            label_name(name)?,
            vec![value.trim().to_owned()],
        ));
    }
    if let Some((name, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
        return Ok(Label::In(label_name(name)?, vec![value.trim().to_owned()]));
    }
    let bound = |text: &str| {
        text.trim()
            .parse::<i64>()
            .map_err(|_| format!("{text:?} must be an integer in {term:?}"))
    };
    if let Some((name, value)) = term.split_once('>') {
        return Ok(Label::Greater(label_name(name)?, bound(value)?));
    }
    if let Some((name, value)) = term.split_once('<') {
        return Ok(Label::Less(label_name(name)?, bound(value)?));
    }
    Ok(Label::Exists(label_name(term)?))
}

fn parse_set(term: &str, open: usize) -> Result<Label, String> {
    let values = term[open + 1..]
        .strip_suffix(')')
        .ok_or_else(|| format!("found '{term}', expected: ')'"))?
        .split(',')
        .map(|value| value.trim().to_owned())
        .collect();
    match term[..open]
        .split_whitespace()
        .collect::<Vec<_>>()
        .as_slice()
    {
        [name, "in"] => Ok(Label::In(label_name(name)?, values)),
        [name, "notin"] => Ok(Label::NotIn(label_name(name)?, values)),
        _ => Err(format!("found '{term}', expected: in, notin")),
    }
}

fn label_name(text: &str) -> Result<String, String> {
    let name = text.trim();
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "-_./".contains(letter);
    if name.is_empty() || !name.chars().all(fits) {
        return Err(format!("{text:?} is not a label key"));
    }
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_select_as_in_kubernetes() {
        let object = json!({ "metadata": { "labels": { "app": "a", "n": "5", "x.io/y": "" } } });
        for (text, want) in [
            ("app=a", true),
            ("app==a,n=5", true),
            ("app!=a", false),
            ("other!=a", true),
            ("app in (b, a)", true),
            ("app in (b),n=5", false),
            ("app notin (b,c)", true),
            ("other notin (a)", true),
            ("x.io/y", true),
            ("!x.io/y", false),
            ("!other", true),
            ("n>4,n<6", true),
            ("n>5", false),
            ("x.io/y=", true),
        ] {
            let labels = parse_labels(text).unwrap();
            let selector = Selector {
                labels,
                fields: Vec::new(),
            };
            assert_eq!(selector.matches(&object), want, "{text}");
        }
    }

    #[test]
    fn unreadable_requirements_are_refused() {
        for text in ["a in (b", "a within (b)", "=", "a b", "n>x"] {
            assert!(parse_labels(text).is_err(), "{text}");
        }
    }
}
