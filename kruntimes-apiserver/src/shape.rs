//! The ways one stored object can be shown: in which version, and whole, as metadata only or as the row of a table.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::{event_alias, object::Object, table::Table};

/// How a served version relates to what is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The served version is the stored one.
    Stored,
    /// Only `apiVersion` differs, as with CRD versions without a conversion webhook.
    Renamed,
    /// Core `v1` Event over the stored `events.k8s.io/v1` Event.
    CoreEvent,
}

/// How much of an object is shown, and in what arrangement.
#[derive(Clone)]
pub(crate) enum Form {
    Whole,
    Metadata,
    Table(Table),
}

/// What one request wants to see of an object.
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) shape: Shape,
    pub(crate) api_version: String,
    pub(crate) form: Form,
}

/// Reduces a stored object to what all kinds have in common.
pub(crate) fn metadata_of(object: &Value) -> Value {
    json!({
        "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": object["metadata"],
    })
}

impl View {
    /// Renders an object; the common case costs nothing, because the bytes are kept with the object.
    pub(crate) fn bytes(&self, object: &Object) -> Bytes {
        if self.is_stored() {
            return object.json();
        }
        Bytes::from(self.value(object).to_string())
    }

    /// Whether the bytes kept with objects can be sent as they are.
    pub(crate) fn is_stored(&self) -> bool {
        self.shape == Shape::Stored && matches!(self.form, Form::Whole)
    }

    /// Converts an object to what this request works on.
    pub(crate) fn value(&self, object: &Object) -> Value {
        match &self.form {
            Form::Whole => self.full(object),
            Form::Metadata => metadata_of(&object.value),
            Form::Table(table) => table.of_one(self, object),
        }
    }

    /// Converts an object to its complete form in the served version.
    pub(crate) fn full(&self, object: &Object) -> Value {
        self.present((*object.value).clone())
    }

    /// Converts an object as [`Self::full`] does, but for its ledger of owners, which is most of many objects.
    pub(crate) fn without_ledger(&self, object: &Object) -> Value {
        let fields = object.value.as_object().into_iter().flatten();
        let fields = fields.map(|(name, field)| {
            let field = match field.as_object().filter(|_| name == "metadata") {
                Some(meta) => {
                    let kept = meta.iter().filter(|(name, _)| *name != "managedFields");
                    kept.map(|(name, field)| (name.clone(), field.clone()))
                        .collect()
                }
                None => field.clone(),
            };
            (name.clone(), field)
        });
        self.present(fields.collect())
    }

    fn present(&self, mut value: Value) -> Value {
        match self.shape {
            Shape::Stored => value,
            Shape::Renamed => {
                value["apiVersion"] = Value::from(self.api_version.as_str());
                value
            }
            Shape::CoreEvent => event_alias::to_core(value),
        }
    }

    /// Converts an object received in the served version to the stored form.
    pub(crate) fn ingest(&self, mut value: Value, stored_api_version: &str) -> Value {
        match self.shape {
            Shape::Stored => value,
            Shape::Renamed => {
                value["apiVersion"] = Value::from(stored_api_version);
                value
            }
            Shape::CoreEvent => event_alias::from_core(value),
        }
    }
}
