//! Turns JSON into the values that rules see, typed by the schema and under escaped names.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube_cel::cel::Value as Cel;
use kube_cel::cel::objects::{Key, Map};
use serde_json::{Number, Value};

use super::super::formats::Format;
use super::super::structural::{JsonType, Node};
use super::Engine;

/// Names that CEL reserves; a field called so is written `__name__` in rules.
const RESERVED: [&str; 21] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "null",
    "package",
    "return",
    "true",
    "var",
    "void",
    "while",
];

impl Engine {
    /// Turns a JSON value into the value that a rule sees.
    pub(super) fn bind(&self, node: &Node, value: &Value) -> Cel {
        match value {
            Value::Null => Cel::Null,
            Value::Bool(value) => Cel::Bool(*value),
            Value::Number(number) => bind_number(node, number),
            Value::String(text) => self.bind_text(node, text),
            Value::Array(elements) => {
                let bind = |element| match &node.items {
                    Some(items) => self.bind(items, element),
                    None => bind_undeclared(element),
                };
                Cel::List(Arc::new(elements.iter().map(bind).collect()))
            }
            Value::Object(members) => {
                let mut bound = HashMap::with_capacity(members.len());
                for (name, member) in members {
                    let (name, member) = match (node.properties.get(name), &node.additional) {
                        _ if node.embedded && name == "metadata" => {
                            (name.clone(), bind_metadata(member))
                        }
                        (Some(child), _) => (escape(name), self.bind(child, member)),
                        (None, Some(child)) => (name.clone(), self.bind(child, member)),
                        (None, None) => (name.clone(), bind_undeclared(member)),
                    };
                    bound.insert(key(name), member);
                }
                Cel::Map(Map {
                    map: Arc::new(bound),
                })
            }
        }
    }

    fn bind_text(&self, node: &Node, text: &str) -> Cel {
        let plain = || Cel::String(Arc::new(text.to_owned()));
        let typed = match node
            .checks
            .format()
            .filter(|_| node.json_type == Some(JsonType::String))
        {
            Some(Format::DateTime) => text.parse().ok().map(Cel::Timestamp),
            Some(Format::Date) => format!("{text}T00:00:00Z").parse().ok().map(Cel::Timestamp),
            Some(Format::Byte) => STANDARD
                .decode(text)
                .ok()
                .map(|bytes| Cel::Bytes(Arc::new(bytes))),
            Some(Format::Duration) => self.duration.as_ref().and_then(|program| {
                let mut scope = self.functions.new_inner_scope();
                scope.add_variable_from_value("self", plain());
                program.execute(&scope).ok()
            }),
            Some(_) | None => None,
        };
        typed.unwrap_or_else(plain)
    }
}

fn key(name: String) -> Key {
    Key::String(Arc::new(name))
}

/// Binds by the declared type: a whole `number` is a double, a whole `integer` is an int however it is written.
fn bind_number(node: &Node, number: &Number) -> Cel {
    let double = || Cel::Float(number.as_f64().unwrap_or(f64::NAN));
    if node.json_type == Some(JsonType::Number) {
        return double();
    }
    match (number.as_i64(), number.as_u64()) {
        (Some(value), _) => Cel::Int(value),
        (None, Some(value)) => Cel::UInt(value),
        (None, None) => whole(number).map_or_else(double, Cel::Int),
    }
}

fn whole(number: &Number) -> Option<i64> {
    let value = number.as_f64().filter(|value| value.fract() == 0.0)?;
    format!("{value:.0}").parse().ok()
}

fn bind_undeclared(value: &Value) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(value) => Cel::Bool(*value),
        Value::Number(number) => bind_number(&Node::anything(), number),
        Value::String(text) => Cel::String(Arc::new(text.clone())),
        Value::Array(elements) => {
            Cel::List(Arc::new(elements.iter().map(bind_undeclared).collect()))
        }
        Value::Object(members) => {
            let members = members
                .iter()
                .map(|(name, member)| (key(name.clone()), bind_undeclared(member)));
            Cel::Map(Map {
                map: Arc::new(members.collect()),
            })
        }
    }
}

/// Rules see two fields of the metadata and no others.
fn bind_metadata(metadata: &Value) -> Cel {
    let seen = ["name", "generateName"].into_iter().filter_map(|name| {
        let member = metadata.get(name)?;
        Some((key(name.to_owned()), bind_undeclared(member)))
    });
    Cel::Map(Map {
        map: Arc::new(seen.collect()),
    })
}

/// Writes a field name the way rules must write it.
pub(super) fn escape(name: &str) -> String {
    if RESERVED.contains(&name) {
        return format!("__{name}__");
    }
    if !name.contains("__") && !name.contains(['.', '-', '/']) {
        return name.to_owned();
    }
    name.replace("__", "\u{0}")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__")
        .replace('\u{0}', "__underscores__")
}
