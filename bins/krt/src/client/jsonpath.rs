//! The templates of `-o jsonpath=…` and the paths of `--sort-by`, as kubectl writes them.

use std::cmp::Ordering;
use std::fmt::Write as _;

use jsonpath_rust::JsonPath as _;
use serde_json::Value;

/// Text with the values of an object in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// All values found, with a blank between them.
    Values(String),
    /// The pieces once for each value found.
    Each(String, Vec<Piece>),
}

impl Template {
    /// Reads a template: text, `{.path}`, `{"text\n"}`, `{range .path}…{end}`. The error is for people.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        // A path alone needs no braces.
        if text.starts_with(['.', '$']) && !text.contains('{') {
            return Ok(Self(vec![Piece::Values(path(text)?)]));
        }
        let mut rest = text;
        let pieces = pieces(&mut rest, false)?;
        Ok(Self(pieces))
    }

    /// Writes the text for an object.
    pub(crate) fn render(&self, object: &Value) -> String {
        let mut out = String::new();
        render(&self.0, object, &mut out);
        out
    }
}

fn pieces(rest: &mut &str, inside: bool) -> Result<Vec<Piece>, String> {
    let mut found = Vec::new();
    loop {
        let Some((before, after)) = rest.split_once('{') else {
            if inside {
                return Err("`{range …}` has no `{end}`".to_owned());
            }
            if !rest.is_empty() {
                found.push(Piece::Text((*rest).to_owned()));
            }
            return Ok(found);
        };
        if !before.is_empty() {
            found.push(Piece::Text(before.to_owned()));
        }
        let (inner, after) = braced(after)?;
        *rest = after;
        let inner = inner.trim();
        if inner == "end" {
            return if inside {
                Ok(found)
            } else {
                Err("`{end}` ends no `{range …}`".to_owned())
            };
        }
        if let Some(of) = inner.strip_prefix("range ") {
            let of = path(of.trim())?;
            found.push(Piece::Each(of, pieces(rest, true)?));
        } else if let Some(quoted) = inner.strip_prefix('"') {
            let quoted = quoted.strip_suffix('"').ok_or("a quote is not closed")?;
            found.push(Piece::Text(unescaped(quoted)));
        } else {
            found.push(Piece::Values(path(inner)?));
        }
    }
}

/// Splits at the brace that closes, not at one in quotes.
fn braced(text: &str) -> Result<(&str, &str), String> {
    let mut quote = None;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (_, '\\') => escaped = true,
            (Some(open), c) if open == c => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '}') => return Ok((&text[..at], &text[at + 1..])),
            _ => {}
        }
    }
    Err("a brace is not closed".to_owned())
}

fn unescaped(text: &str) -> String {
    text.replace("\\n", "\n")
        .replace("\\t", "\t")
        .replace("\\\"", "\"")
}

/// The path as RFC 9535 writes it; `.a\.b` names a member with a dot.
fn path(text: &str) -> Result<String, String> {
    let text = text
        .strip_prefix('{')
        .and_then(|text| text.strip_suffix('}'))
        .unwrap_or(text);
    let bare = text.strip_prefix('@').unwrap_or(text);
    let bare = bare.strip_prefix('$').unwrap_or(bare);
    let mut written = "$".to_owned();
    for step in steps(bare) {
        match step.strip_prefix('.') {
            Some(name) if name.contains("\\.") || name.contains(['/', '-']) => {
                let name = name.replace("\\.", ".").replace('\'', "\\'");
                // Writing to a text cannot fail.
                let _ = write!(written, "['{name}']");
            }
            Some("") if bare == "." => {}
            Some(_) | None => written.push_str(&step),
        }
    }
    match Value::Null.query(&written) {
        Ok(_) => Ok(written),
        Err(error) => Err(format!("`{text}` is no path: {error}")),
    }
}

/// Splits `.a\.b[0].c` into `.a\.b`, `[0]`, `.c`.
fn steps(text: &str) -> Vec<String> {
    let mut steps: Vec<String> = Vec::new();
    let (mut depth, mut escaped) = (0, false);
    for c in text.chars() {
        let begins = !escaped && depth == 0 && (c == '.' || c == '[');
        let descends = c == '.' && steps.last().is_some_and(|last| last == ".");
        escaped = c == '\\' && !escaped;
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        match steps.last_mut() {
            Some(last) if !begins || descends => last.push(c),
            _ => steps.push(c.to_string()),
        }
    }
    steps
}

fn found<'a>(path: &str, object: &'a Value) -> Vec<&'a Value> {
    // The path was read before; what is not there is nothing.
    object.query(path).unwrap_or_default()
}

fn render(pieces: &[Piece], object: &Value, out: &mut String) {
    for piece in pieces {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Values(path) => {
                let values = found(path, object).into_iter().map(written);
                out.push_str(&values.collect::<Vec<String>>().join(" "));
            }
            Piece::Each(path, pieces) => {
                for value in found(path, object) {
                    render(pieces, value, out);
                }
            }
        }
    }
}

fn written(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string()
        }
    }
}

/// What a list is sorted by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SortKey(String);

impl SortKey {
    /// Reads a path, in braces or not.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        path(text).map(Self)
    }

    /// Compares two objects; numbers as numbers, what is missing first.
    pub(crate) fn compare(&self, a: &Value, b: &Value) -> Ordering {
        let first = |object| found(&self.0, object).into_iter().next();
        match (first(a), first(b)) {
            (Some(Value::Number(a)), Some(Value::Number(b))) => {
                let (a, b) = (a.as_f64(), b.as_f64());
                a.partial_cmp(&b).unwrap_or(Ordering::Equal)
            }
            (a, b) => a.map(written).cmp(&b.map(written)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn c_7_templates_say_what_they_say_in_kubectl() {
        let object = json!({
            "metadata": {"name": "a", "labels": {"kruntimes.io/x": "y", "plain": "z"}},
            "items": [{"n": 1, "s": "p"}, {"n": 2, "s": "q"}],
        });
        for (template, want) in [
            ("{.metadata.name}", "a"),
            (".metadata.name", "a"),
            ("{$.metadata.name}", "a"),
            ("is {.metadata.name}!", "is a!"),
            ("{.items[*].n}", "1 2"),
            ("{.items[1].s}", "q"),
            ("{.items[?(@.n == 2)].s}", "q"),
            ("{..n}", "1 2"),
            ("{.metadata.labels.kruntimes\\.io/x}", "y"),
            ("{.metadata.labels['plain']}", "z"),
            ("{range .items[*]}{.s}={.n}{\"\\n\"}{end}", "p=1\nq=2\n"),
            ("{.missing}", ""),
            ("{.items[0]}", r#"{"n":1,"s":"p"}"#),
        ] {
            let read = Template::parse(template).unwrap();
            assert_eq!(read.render(&object), want, "{template}");
        }
        for template in ["{.a", "{range .a}", "{end}", "{\"a}", "{.a[}", "{.a[?(}"] {
            assert!(Template::parse(template).is_err(), "{template}");
        }
    }

    #[test]
    fn c_12_lists_are_sorted_by_text_or_number() {
        let key = SortKey::parse(".spec.n").unwrap();
        let mut all = [
            json!({"spec": {"n": 10}}),
            json!({"spec": {"n": 9}}),
            json!({}),
        ];
        all.sort_by(|a, b| key.compare(a, b));
        assert_eq!(all[1]["spec"]["n"], 9);
        assert_eq!(all[2]["spec"]["n"], 10);
        assert!(SortKey::parse("{.a[}").is_err());
    }
}
