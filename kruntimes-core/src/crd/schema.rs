//! A small vocabulary to tighten the schemas that are derived from the types.

use schemars::Schema;
use serde_json::{Map, Value, json};

use super::rule::Rule;

/// LABEL63: a value that fits a label.
pub(super) fn label63() -> Value {
    json!({
        "minLength": 1,
        "maxLength": 63,
        "pattern": "^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$",
    })
}

/// DNS253: an object name.
pub(super) fn dns253() -> Value {
    json!({
        "minLength": 1,
        "maxLength": 253,
        "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
    })
}

/// Text of at most `max` characters.
pub(super) fn text(max: u32) -> Value {
    json!({ "maxLength": max })
}

/// Text of at least one and at most `max` characters.
pub(super) fn filled(max: u32) -> Value {
    json!({ "minLength": 1, "maxLength": max })
}

/// A number of at least `min`.
pub(super) fn at_least(min: i64) -> Value {
    json!({ "minimum": min })
}

/// A number between two bounds, both allowed.
pub(super) fn between(min: i64, max: i64) -> Value {
    json!({ "minimum": min, "maximum": max })
}

/// A list of at most `max` entries that obey `items`.
pub(super) fn list(max: u32, items: &Value) -> Value {
    json!({ "maxItems": max, "items": items })
}

/// A map of at most `max` keys.
pub(super) fn map(max: u32) -> Value {
    json!({ "maxProperties": max })
}

/// The list of conditions: keyed by `type`, bounded.
pub(super) fn conditions() -> Value {
    json!({
        "maxItems": 16,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    })
}

/// An object whose members are kept as written.
pub(super) fn opaque_object() -> Value {
    json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// Starts to tighten the schema of a struct.
///
/// Optional fields lose the `null` that schemars adds, since the API knows only
/// absent and present, and defaults that stand for "absent" are dropped; those
/// of the API are set by [`Object::field`].
pub(super) fn object(schema: &mut Schema) -> Object<'_> {
    let schema = schema.ensure_object();
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        for property in properties.values_mut() {
            without_null(property);
            if let Some(property) = property.as_object_mut() {
                property.remove("default");
            }
        }
    }
    Object(schema)
}

/// The schema of a struct while it is being tightened.
pub(super) struct Object<'a>(&'a mut Map<String, Value>);

impl Object<'_> {
    /// Adds keywords to the schema of the field `name`.
    ///
    /// # Panics
    ///
    /// Panics when the type has no such field: the tables and the types are ours.
    pub(super) fn field(&mut self, name: &str, keywords: &Value) -> &mut Self {
        merge(self.property(name), keywords);
        self
    }

    /// Replaces the schema of the field `name` but for its description.
    pub(super) fn replace(&mut self, name: &str, schema: Value) -> &mut Self {
        let property = self.property(name);
        let description = property.get("description").cloned();
        *property = schema;
        if let Some(description) = description {
            property["description"] = description;
        }
        self
    }

    /// Requires fields that the type defaults when it reads them.
    pub(super) fn require(&mut self, names: &[&str]) -> &mut Self {
        for name in names {
            self.property(name);
            let required = self.0.entry("required").or_insert_with(|| json!([]));
            let required = required.as_array_mut().expect("`required` is a list");
            if !required.iter().any(|known| known == name) {
                required.push(json!(name));
            }
        }
        self
    }

    /// Adds a rule to the object itself.
    pub(super) fn rule(&mut self, rule: Rule) -> &mut Self {
        add_rule(self.0, rule);
        self
    }

    /// Adds a rule to the value of the field `name`.
    pub(super) fn field_rule(&mut self, name: &str, rule: Rule) -> &mut Self {
        let property = self.property(name);
        add_rule(
            property.as_object_mut().expect("a schema is an object"),
            rule,
        );
        self
    }

    fn property(&mut self, name: &str) -> &mut Value {
        self.0
            .get_mut("properties")
            .and_then(|properties| properties.get_mut(name))
            .unwrap_or_else(|| unreachable!("the type has no field {name}"))
    }
}

fn add_rule(schema: &mut Map<String, Value>, rule: Rule) {
    schema
        .entry("x-kubernetes-validations")
        .or_insert_with(|| json!([]))
        .as_array_mut()
        .expect("rules are a list")
        .push(rule.into_value());
}

/// Merges `more` into `target`, member by member.
fn merge(target: &mut Value, more: &Value) {
    match (target, more) {
        (Value::Object(target), Value::Object(more)) => {
            for (key, value) in more {
                merge(target.entry(key.as_str()).or_insert(Value::Null), value);
            }
        }
        (target, more) => *target = more.clone(),
    }
}

/// Turns "T or null" into "T".
fn without_null(schema: &mut Value) {
    let null = json!({ "type": "null" });
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            object.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = object.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    let Some(Value::Array(choices)) = object.get_mut("anyOf") else {
        return;
    };
    let with_null = choices.len();
    choices.retain(|choice| *choice != null);
    if choices.len() == with_null {
        return;
    }
    if let Some(Value::Object(only)) = choices.pop() {
        object.remove("anyOf");
        for (key, value) in only {
            object.entry(key).or_insert(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn optional_fields_lose_their_null_and_keep_their_description() {
        let cases = [
            (
                json!({ "type": ["string", "null"], "enum": ["a", null] }),
                json!({ "type": "string", "enum": ["a"] }),
            ),
            (
                json!({ "description": "d", "anyOf": [{ "type": "object", "description": "x" }, { "type": "null" }] }),
                json!({ "description": "d", "type": "object" }),
            ),
            (
                json!({ "anyOf": [{ "type": "integer" }, { "type": "string" }] }),
                json!({ "anyOf": [{ "type": "integer" }, { "type": "string" }] }),
            ),
        ];
        for (mut given, want) in cases {
            without_null(&mut given);
            assert_eq!(given, want);
        }
    }
}
