//! Turns nodes into JSON the way a schema expects it.
//!
//! Where the schema wants a text, an unquoted scalar is the text as written:
//! `8080`, `yes` and `1.10` stay what they are. What cannot be meant as a text,
//! such as an empty value, is reported with what to write instead.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use kruntimes_workflow::yaml::{Content, Finding, Node, Place, Segment, Source};
use serde_json::{Map, Number, Value};

use super::schema::inner;

/// Converts one document.
pub(super) struct Shaper<'a> {
    pub(super) source: &'a Source,
    pub(super) document: usize,
    pub(super) findings: Vec<Finding>,
}

impl Shaper<'_> {
    /// Converts a node; `props` is absent where no schema describes it.
    pub(super) fn shape(
        &mut self,
        node: &Node,
        props: Option<&JSONSchemaProps>,
        path: &str,
    ) -> Value {
        match &node.content {
            Content::Mapping(members) => {
                let mut object = Map::new();
                for (key, value) in members {
                    let props = inner_of(props, &Segment::Field(key.text.clone()));
                    let dot = if path.is_empty() { "" } else { "." };
                    let path = format!("{path}{dot}{}", key.text);
                    let shaped = if key.text == "needs" && wants_list(props) && !value.is_null() {
                        self.needs(value, props, &path)
                    } else {
                        self.shape(value, props, &path)
                    };
                    object.insert(key.text.clone(), shaped);
                }
                Value::Object(object)
            }
            Content::Sequence(elements) => {
                let shaped = elements.iter().enumerate().map(|(index, element)| {
                    let props = inner_of(props, &Segment::Index(index));
                    self.shape(element, props, &format!("{path}[{index}]"))
                });
                Value::Array(shaped.collect())
            }
            Content::Scalar { text, plain: false } => {
                self.quoted_number(node, text, props, path);
                Value::String(text.clone())
            }
            Content::Scalar { text, plain: true } => self.plain(node, text, props, path),
        }
    }

    /// Case 139: `needs: build` is a list of one.
    fn needs(&mut self, node: &Node, props: Option<&JSONSchemaProps>, path: &str) -> Value {
        match &node.content {
            Content::Scalar { text, .. } => Value::Array(vec![Value::String(text.clone())]),
            Content::Sequence(_) | Content::Mapping(_) => self.shape(node, props, path),
        }
    }

    fn plain(
        &mut self,
        node: &Node,
        text: &str,
        props: Option<&JSONSchemaProps>,
        path: &str,
    ) -> Value {
        let Some(props) = props.filter(|props| !props.nullable.unwrap_or_default()) else {
            return untyped(text, node);
        };
        if props.x_kubernetes_int_or_string == Some(true) {
            return text
                .parse::<i64>()
                .map_or_else(|_| Value::from(text), Value::from);
        }
        let Some(wanted) = props.type_.as_deref() else {
            return untyped(text, node);
        };
        if node.is_null() {
            return self.no_value(node, wanted, path);
        }
        match wanted {
            "integer" => text
                .parse::<i64>()
                .map_or_else(|_| Value::from(text), Value::from),
            "number" => text
                .parse::<f64>()
                .ok()
                .and_then(Number::from_f64)
                .map_or_else(|| Value::from(text), Value::Number),
            "boolean" => self.boolean(node, text, path),
            _ => Value::from(text),
        }
    }

    fn no_value(&mut self, node: &Node, wanted: &str, path: &str) -> Value {
        let (value, write) = match wanted {
            "string" => (
                Value::from(""),
                "`\"\"` for an empty text, or quote the word",
            ),
            "object" => (Value::Object(Map::new()), "`{}`"),
            "array" => (Value::Array(Vec::new()), "`[]`"),
            _ => (Value::Null, "a value"),
        };
        let article = if wanted.starts_with(['a', 'e', 'i', 'o', 'u']) {
            "an"
        } else {
            "a"
        };
        let said = format!("{path} has no value where {article} {wanted} is wanted");
        let help = format!("write {write}, or leave the field out");
        self.report(node, said, help, path);
        value
    }

    fn boolean(&mut self, node: &Node, text: &str, path: &str) -> Value {
        match text {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            _ => {
                let lower = text.to_lowercase();
                let meant = match lower.as_str() {
                    "yes" | "on" | "y" | "true" => "write `true`",
                    "no" | "off" | "n" | "false" => "write `false`",
                    _ => "write `true` or `false`",
                };
                let said = format!("{path} is `{text}` where a boolean is wanted");
                self.report(node, said, meant.to_owned(), path);
                Value::Bool(lower.starts_with(['y', 't']))
            }
        }
    }

    /// A quoted number where a number is wanted gets its own advice; the schema reports the rest.
    fn quoted_number(
        &mut self,
        node: &Node,
        text: &str,
        props: Option<&JSONSchemaProps>,
        path: &str,
    ) {
        let wanted = props.and_then(|props| props.type_.as_deref());
        let numeric = matches!(wanted, Some("integer" | "number")) && text.parse::<f64>().is_ok();
        if numeric {
            let said = format!("{path} is a quoted text where a number is wanted");
            self.report(node, said, format!("write `{text}` without quotes"), path);
        }
    }

    fn report(&mut self, node: &Node, said: String, help: String, path: &str) {
        let mut span = node.span.clone();
        if span.is_empty() {
            // An absent value is shown where its name ends.
            span.start = span.start.saturating_sub(1);
        }
        let place = Place {
            document: self.document,
            path: path.to_owned(),
            span,
        };
        self.findings
            .push(self.source.error("K003", said, place).help(help));
    }
}

fn inner_of<'a>(
    props: Option<&'a JSONSchemaProps>,
    segment: &Segment,
) -> Option<&'a JSONSchemaProps> {
    props.and_then(|props| inner(props, segment))
}

fn wants_list(props: Option<&JSONSchemaProps>) -> bool {
    props.is_some_and(|props| props.type_.as_deref() == Some("array"))
}

/// Reads a scalar that no schema describes, by the core rules of YAML 1.2.
fn untyped(text: &str, node: &Node) -> Value {
    if node.is_null() {
        return Value::Null;
    }
    match text {
        "true" => return Value::Bool(true),
        "false" => return Value::Bool(false),
        _ => {}
    }
    let digits = text.trim_start_matches(['-', '+']);
    // `010` is read differently by every YAML version; it stays a text.
    let padded = digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0.");
    let numeric = digits.starts_with(|c: char| c.is_ascii_digit());
    if padded || !numeric {
        return Value::from(text);
    }
    if let Ok(number) = text.parse::<i64>() {
        return Value::from(number);
    }
    let float = text.parse::<f64>().ok().and_then(Number::from_f64);
    float.map_or_else(|| Value::from(text), Value::Number)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::schema::{Definition, definition};
    use super::*;
    use kruntimes_workflow::yaml::compose;

    fn shaped(text: &str) -> (Value, Vec<String>) {
        let source = Source::new("f", text);
        let node = compose(&source).documents.remove(0).1;
        let mut shaper = Shaper {
            source: &source,
            document: 0,
            findings: Vec::new(),
        };
        let root = definition("WorkflowRun").map(Definition::root);
        let value = shaper.shape(&node, root, "");
        let said = shaper.findings.iter().map(|finding| {
            format!(
                "{}:{} {}; {}",
                finding.line,
                finding.column,
                finding.message,
                finding.help.as_deref().unwrap_or_default()
            )
        });
        (value, said.collect())
    }

    #[test]
    fn case_139_scalars_in_text_places_are_the_written_text() {
        let (value, findings) = shaped(
            "spec: {jobs: {j: {needs: build, with: {retries: 3}, steps: [{name: s, \
             env: {PORT: 8080, DEBUG: yes, V: 1.10, D: 2026-01-02, O: 010, T: true, E: 1e3, Q: 'null'}}]}}}",
        );
        assert_eq!(findings, Vec::<String>::new());
        let job = &value["spec"]["jobs"]["j"];
        assert_eq!(job["needs"], json!(["build"]));
        assert_eq!(job["with"], json!({"retries": "3"}));
        assert_eq!(
            job["steps"][0]["env"],
            json!({
                "PORT": "8080", "DEBUG": "yes", "V": "1.10", "D": "2026-01-02",
                "O": "010", "T": "true", "E": "1e3", "Q": "null",
            })
        );
    }

    #[test]
    fn case_139_what_is_no_text_is_refused_with_a_hint() {
        let (_, findings) = shaped(
            "spec:\n  cancelRequested: yes\n  jobs:\n    j:\n      needs:\n      steps:\n      - name: s\n        env:\n          A:\n          B: ~\n",
        );
        insta::assert_snapshot!(findings.join("\n"), @r#"
        2:20 spec.cancelRequested is `yes` where a boolean is wanted; write `true`
        5:11 spec.jobs.j.needs has no value where an array is wanted; write `[]`, or leave the field out
        9:11 spec.jobs.j.steps[0].env.A has no value where a string is wanted; write `""` for an empty text, or quote the word, or leave the field out
        10:14 spec.jobs.j.steps[0].env.B has no value where a string is wanted; write `""` for an empty text, or quote the word, or leave the field out
        "#);
    }

    #[test]
    fn what_no_schema_describes_follows_yaml() {
        let node = |text: &str| Node {
            span: 0..text.len(),
            content: Content::Scalar {
                text: text.to_owned(),
                plain: true,
            },
        };
        for (text, want) in [
            ("3", json!(3)),
            ("-3", json!(-3)),
            ("1.5", json!(1.5)),
            ("true", json!(true)),
            ("yes", json!("yes")),
            ("010", json!("010")),
            ("~", json!(null)),
            ("1.2.3", json!("1.2.3")),
            ("inf", json!("inf")),
        ] {
            assert_eq!(untyped(text, &node(text)), want, "{text}");
        }
    }
}
