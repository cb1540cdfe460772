//! One way to print objects, whatever the verb (C-6 to C-9).

use jiff::Timestamp;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::Kind;
use super::jsonpath::Template;
use super::table::Table;
use crate::elapsed::compact;
use crate::say;

/// How objects are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Output {
    /// Columns, for people.
    #[default]
    Table,
    /// More columns.
    Wide,
    /// One `kind.group/name` per object.
    Name,
    /// JSON, indented by two blanks.
    Json,
    /// YAML.
    Yaml,
    /// One JSON object per line.
    Jsonl,
    /// A template; it lives as long as the command line that it is a part of.
    JsonPath(&'static Template),
}

impl Output {
    /// Reads the value of `-o`; the error is for people.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        Ok(match text {
            "table" => Self::Table,
            "wide" => Self::Wide,
            "name" => Self::Name,
            "json" => Self::Json,
            "yaml" => Self::Yaml,
            "jsonl" => Self::Jsonl,
            _ => match text.strip_prefix("jsonpath=") {
                Some(template) => Self::JsonPath(Box::leak(Box::new(Template::parse(template)?))),
                None => {
                    return Err(
                        "there are table, wide, name, json, yaml, jsonl and jsonpath=TEMPLATE"
                            .to_owned(),
                    );
                }
            },
        })
    }

    /// Writes a value in one of the forms for programs.
    pub(crate) fn written(self, value: &Value) -> String {
        written(value, self)
    }
}

/// A list to print.
pub(crate) struct List<'a> {
    /// Kind of the objects.
    pub(crate) kind: Kind,
    /// The objects, in order.
    pub(crate) objects: Vec<DynamicObject>,
    /// Namespace that was searched; nothing for all.
    pub(crate) namespace: Option<&'a str>,
    /// Whether the table has a header.
    pub(crate) headers: bool,
}

impl List<'_> {
    /// Prints the list; `table` makes the columns.
    pub(crate) fn print(&self, output: Output, table: impl Fn(&[Value], bool) -> Table) {
        let values: Vec<Value> = self
            .objects
            .iter()
            .map(|one| value(self.kind, one))
            .collect();
        match output {
            Output::Table | Output::Wide => {
                if values.is_empty() {
                    let plural = self.kind.plural();
                    say::notice(&match self.namespace {
                        Some(namespace) => {
                            format!("krt: there are no {plural} in namespace {namespace}")
                        }
                        None => format!("krt: there are no {plural} in any namespace"),
                    });
                } else {
                    say::data(&table(&values, output == Output::Wide).render(self.headers));
                }
            }
            Output::Json | Output::Yaml | Output::JsonPath(_) => {
                let list = json!({"apiVersion": "v1", "kind": "List", "items": values});
                say::data(&written(&list, output));
            }
            Output::Name | Output::Jsonl => {
                for one in &values {
                    say::data(&written(one, output));
                }
            }
        }
    }
}

/// Prints one object; `people` makes the text of the table form.
pub(crate) fn one(
    kind: Kind,
    object: &DynamicObject,
    output: Output,
    people: impl Fn(&Value) -> String,
) {
    let value = value(kind, object);
    say::data(&match output {
        Output::Table | Output::Wide => people(&value),
        Output::Name | Output::Json | Output::Yaml | Output::Jsonl | Output::JsonPath(_) => {
            written(&value, output)
        }
    });
}

/// The object with its kind and without what only servers read (C-8).
fn value(kind: Kind, object: &DynamicObject) -> Value {
    let mut value = serde_json::to_value(object).expect("an object of the API has a JSON form");
    value["apiVersion"] = json!(kruntimes_core::api::API_VERSION);
    value["kind"] = json!(kind.as_str());
    if let Some(metadata) = value["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    value
}

fn written(value: &Value, output: Output) -> String {
    match output {
        Output::Json => format!("{value:#}"),
        Output::Yaml => {
            serde_saphyr::to_string(value).expect("an object of the API has a YAML form")
        }
        Output::Jsonl | Output::Table | Output::Wide => value.to_string(),
        Output::JsonPath(template) => template.render(value),
        Output::Name => {
            let kind = value["kind"].as_str().unwrap_or_default().to_lowercase();
            let name = value["metadata"]["name"].as_str().unwrap_or_default();
            format!("{kind}.{}/{name}", kruntimes_core::api::GROUP)
        }
    }
}

/// The text at a place of an object, or a dash.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::String(text) if !text.is_empty() => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(is) => is.to_string(),
        Value::Null | Value::String(_) | Value::Array(_) | Value::Object(_) => "-".to_owned(),
    }
}

/// Status of a condition of an object, or a dash.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|one| one["type"] == kind)
}

/// How long ago an RFC 3339 time was, compact; never negative (C-11).
pub(crate) fn age(time: &Value, now: Timestamp) -> String {
    let then: Option<Timestamp> = time.as_str().and_then(|text| text.parse().ok());
    then.map_or_else(|| "-".to_owned(), |then| between(then, now))
}

/// The time between two instants, compact; never negative.
pub(crate) fn between(from: Timestamp, to: Timestamp) -> String {
    let length = std::time::Duration::try_from(to.duration_since(from)).unwrap_or_default();
    // Stored times have whole seconds, so nothing finer is true.
    let length = std::time::Duration::from_secs(length.as_secs());
    if length.as_secs() < 10 {
        return format!("{}s", length.as_secs());
    }
    compact(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object() -> DynamicObject {
        let object = json!({"metadata": {"name": "x", "managedFields": [{"manager": "m"}]}, "spec": {"a": "yes"}});
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn c_6_c_7_c_8_every_form_says_what_the_object_is() {
        let value = value(Kind::Run, &object());
        assert_eq!(written(&value, Output::Name), "run.kruntimes.io/x");
        assert_eq!(
            written(&value, Output::Jsonl),
            r#"{"apiVersion":"kruntimes.io/v1alpha1","kind":"Run","metadata":{"name":"x"},"spec":{"a":"yes"}}"#
        );
        let json = written(&value, Output::Json);
        assert!(json.starts_with("{\n  \"apiVersion\""), "{json}");
        let yaml = written(&value, Output::Yaml);
        assert!(
            yaml.contains("kind: Run\n") && yaml.contains("a: \"yes\"\n"),
            "{yaml}"
        );
    }

    #[test]
    fn c_11_ages_are_compact_and_never_negative() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        for (time, want) in [
            ("2026-01-01T00:00:55Z", "5s"),
            ("2026-01-01T00:00:18Z", "42s"),
            ("2026-01-01T01:00:00Z", "0s"),
            ("never", "-"),
        ] {
            assert_eq!(age(&json!(time), now), want);
        }
    }
}
