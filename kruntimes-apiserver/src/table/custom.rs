//! The columns of custom kinds: the name, and what the definition asks for.

use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceColumnDefinition;
use serde_json::{Value, json};

use super::{NAME, age, path::JsonPath};

/// One column of a definition.
#[derive(Debug)]
pub(crate) struct Column {
    name: String,
    type_name: String,
    format: String,
    description: String,
    priority: i32,
    path: JsonPath,
}

impl Column {
    /// Compiles a column, telling what is wrong with its path.
    pub(crate) fn compile(column: &CustomResourceColumnDefinition) -> Result<Self, String> {
        let description = column
            .description
            .clone()
            .unwrap_or_else(|| format!("What {} holds.", column.json_path));
        Ok(Self {
            name: column.name.clone(),
            type_name: column.type_.clone(),
            format: column.format.clone().unwrap_or_default(),
            description,
            priority: column.priority.unwrap_or(0),
            path: JsonPath::parse(&column.json_path)?,
        })
    }

    /// Returns the column that definitions without columns have.
    pub(crate) fn age() -> Self {
        let created = ["metadata", "creationTimestamp"];
        Self {
            name: "Age".to_owned(),
            type_name: "date".to_owned(),
            format: String::new(),
            description: "Time since the object was created.".to_owned(),
            priority: 0,
            path: JsonPath::of_fields(created),
        }
    }
}

/// Describes the columns to the client.
pub(super) fn definitions(columns: &[Column]) -> Vec<Value> {
    let custom = columns.iter().map(|column| {
        json!({
            "name": column.name, "type": column.type_name, "format": column.format,
            "description": column.description, "priority": column.priority,
        })
    });
    std::iter::once(NAME.definition()).chain(custom).collect()
}

/// Fills the cells of one row.
pub(super) fn cells(columns: &[Column], object: &Value, now: Timestamp) -> Vec<Value> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let custom = columns
        .iter()
        .map(|column| match column.path.first(object) {
            Some(found) => cell(&column.type_name, found, now),
            None => Value::Null,
        });
    std::iter::once(Value::from(name)).chain(custom).collect()
}

/// Shows a value as the type of its column; what does not fit the type is left empty.
fn cell(type_name: &str, found: &Value, now: Timestamp) -> Value {
    match (type_name, found) {
        ("string", Value::String(_))
        | ("number", Value::Number(_))
        | ("boolean", Value::Bool(_)) => found.clone(),
        ("string", Value::Null) => Value::from("<no value>"),
        ("string", other) => Value::from(other.to_string()),
        ("integer", Value::Number(number)) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Value::from(whole),
            #[expect(
                clippy::cast_possible_truncation,
                reason = "an integer column shows the whole part, and the cast saturates"
            )]
            (None, Some(broken)) => Value::from(broken as i64),
            (None, None) => Value::Null,
        },
        ("date", Value::String(_)) => {
            Value::from(age::of_field(found, now).unwrap_or_else(|| "<invalid>".to_owned()))
        }
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(type_name: &str, path: &str) -> Column {
        Column::compile(&CustomResourceColumnDefinition {
            name: path.to_owned(),
            type_: type_name.to_owned(),
            json_path: path.to_owned(),
            ..CustomResourceColumnDefinition::default()
        })
        .unwrap()
    }

    #[test]
    fn cells_have_the_type_of_their_column() {
        let object = json!({ "metadata": { "name": "o" }, "spec": {
            "text": "hi", "number": 3, "broken": 2.5, "yes": true, "nothing": null, "map": { "a": 1 },
            "date": "2026-01-01T00:00:00Z",
        } });
        let now: Timestamp = "2026-01-03T00:00:00Z".parse().unwrap();
        for (type_name, path, want) in [
            ("string", ".spec.text", json!("hi")),
            ("string", ".spec.number", json!("3")),
            ("string", ".spec.yes", json!("true")),
            ("string", ".spec.map", json!("{\"a\":1}")),
            ("string", ".spec.nothing", json!("<no value>")),
            ("string", ".spec.absent", Value::Null),
            ("integer", ".spec.number", json!(3)),
            ("integer", ".spec.broken", json!(2)),
            ("integer", ".spec.text", Value::Null),
            ("number", ".spec.broken", json!(2.5)),
            ("boolean", ".spec.yes", json!(true)),
            ("boolean", ".spec.text", Value::Null),
            ("date", ".spec.date", json!("2d")),
            ("date", ".spec.text", json!("<invalid>")),
            ("date", ".spec.nothing", Value::Null),
        ] {
            let row = cells(&[column(type_name, path)], &object, now);
            assert_eq!(row, [json!("o"), want], "{type_name} {path}");
        }
    }
}
