//! Tables: what `kubectl get` shows, made by the server so that every client shows the same columns.

mod age;
mod builtin;
mod custom;
mod path;
mod pod;

use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinitionVersion;
use serde_json::{Value, json};

pub(crate) use self::custom::Column as CustomColumn;
use crate::{
    clock::Clock,
    error::ApiError,
    object::Object,
    query::Query,
    shape::{View, metadata_of},
};

/// One column of a built-in kind.
struct Column {
    name: &'static str,
    type_name: &'static str,
    format: &'static str,
    /// Columns of priority 1 are shown only when asked for.
    priority: i32,
    description: &'static str,
}

const NAME: Column = Column {
    name: "Name",
    type_name: "string",
    format: "name",
    priority: 0,
    description: "Name of the object, unique among its kind within a namespace.",
};

impl Column {
    const fn text(name: &'static str, description: &'static str) -> Self {
        Self {
            name,
            type_name: "string",
            format: "",
            priority: 0,
            description,
        }
    }

    /// A column that is shown only when asked for.
    const fn wide(name: &'static str, description: &'static str) -> Self {
        Self {
            priority: 1,
            ..Self::text(name, description)
        }
    }

    fn definition(&self) -> Value {
        json!({
            "name": self.name, "type": self.type_name, "format": self.format,
            "description": self.description, "priority": self.priority,
        })
    }
}

/// The columns of a built-in kind, and how its cells are filled.
pub(crate) struct Printer {
    columns: &'static [Column],
    cells: fn(&Value, Timestamp) -> Vec<Value>,
}

/// The columns of a kind.
pub(crate) enum Columns {
    /// Fixed columns over the stored form of a built-in kind.
    BuiltIn(&'static Printer),
    /// The columns that a definition asks for.
    Custom(Vec<CustomColumn>),
}

impl Columns {
    /// Returns the columns of a built-in kind.
    pub(crate) fn built_in(kind: &str) -> Self {
        Self::BuiltIn(builtin::printer(kind))
    }

    /// Compiles the columns of one version of a definition, telling the path that cannot be compiled and why.
    pub(crate) fn custom(
        version: &CustomResourceDefinitionVersion,
    ) -> Result<Self, (String, String)> {
        let asked = version.additional_printer_columns.as_deref();
        let columns = match asked {
            None | Some([]) => vec![CustomColumn::age()],
            Some(asked) => asked
                .iter()
                .map(|column| {
                    CustomColumn::compile(column).map_err(|why| (column.json_path.clone(), why))
                })
                .collect::<Result<_, _>>()?,
        };
        Ok(Self::Custom(columns))
    }

    fn definitions(&self) -> Vec<Value> {
        match self {
            Self::BuiltIn(printer) => printer.columns.iter().map(Column::definition).collect(),
            Self::Custom(columns) => custom::definitions(columns),
        }
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        match self {
            Self::BuiltIn(printer) => (printer.cells)(object, now),
            Self::Custom(columns) => custom::cells(columns, object, now),
        }
    }
}

/// How much of an object comes along with its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Include {
    Nothing,
    Metadata,
    Object,
}

/// A request for rows instead of objects.
#[derive(Clone)]
pub(crate) struct Table {
    columns: Arc<Columns>,
    clock: Arc<dyn Clock>,
    version: &'static str,
    include: Include,
    /// Whether the columns are still to be described.
    head: bool,
}

impl Table {
    /// Reads how much of the objects is wanted; `version` is that of the table itself.
    pub(crate) fn of_query(
        query: &Query,
        columns: &Arc<Columns>,
        clock: &Arc<dyn Clock>,
        version: &'static str,
    ) -> Result<Self, ApiError> {
        let include = match query.text("includeObject") {
            None | Some("Metadata") => Include::Metadata,
            Some("None") => Include::Nothing,
            Some("Object") => Include::Object,
            Some(other) => {
                return Err(ApiError::bad_request(format!(
                    "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: \
                     must be 'Metadata', 'Object', 'None', or empty"
                )));
            }
        };
        Ok(Self {
            columns: Arc::clone(columns),
            clock: Arc::clone(clock),
            version,
            include,
            head: true,
        })
    }

    /// Leaves out the description of the columns from now on, as later events of a watch do.
    pub(crate) fn continue_below(&mut self) {
        self.head = false;
    }

    /// Writes a table of one object.
    pub(crate) fn of_one(&self, view: &View, object: &Object) -> Value {
        let version = &object.value["metadata"]["resourceVersion"];
        self.table(
            &json!({ "resourceVersion": version }),
            &[self.row(view, object)],
        )
    }

    /// Writes a table of many objects under the metadata of their list.
    pub(crate) fn of_list(&self, view: &View, metadata: &Value, objects: &[Arc<Object>]) -> Bytes {
        let rows = objects.iter().map(|object| self.row(view, object));
        let rows: Vec<Value> = rows.collect();
        Bytes::from(self.table(metadata, &rows).to_string())
    }

    fn table(&self, metadata: &Value, rows: &[Value]) -> Value {
        let columns = self.head.then(|| self.columns.definitions());
        json!({
            "kind": "Table", "apiVersion": self.version, "metadata": metadata,
            "columnDefinitions": columns, "rows": rows,
        })
    }

    fn row(&self, view: &View, object: &Object) -> Value {
        let now = self.clock.now();
        let shown = match self.include {
            Include::Nothing => Value::Null,
            Include::Metadata => metadata_of(&object.value),
            Include::Object => view.full(object),
        };
        let mut row = json!({ "cells": self.columns.cells(&object.value, now), "object": shown });
        if let Some(condition) = builtin::condition(&object.value) {
            row["conditions"] = json!([condition]);
        }
        row
    }
}
