//! One stored version of one object, shared by everyone who reads it.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::Value;

/// Where an object lives within its kind; cluster-scoped objects have an empty namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Key {
    pub(crate) fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

/// An object as it was after one write; never changed afterwards.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) key: Key,
    pub(crate) version: u64,
    pub(crate) value: Arc<Value>,
    json: OnceLock<Bytes>,
}

impl Object {
    /// Wraps a complete value whose `metadata.resourceVersion` is `version`.
    pub(crate) fn new(key: Key, version: u64, value: Value) -> Self {
        Self {
            key,
            version,
            value: Arc::new(value),
            json: OnceLock::new(),
        }
    }

    /// Returns the JSON text; it is made once, however many lists and watches send it.
    pub(crate) fn json(&self) -> Bytes {
        self.json
            .get_or_init(|| Bytes::from(self.value.to_string()))
            .clone()
    }

    pub(crate) fn uid(&self) -> &str {
        meta_text(&self.value, "uid")
    }

    pub(crate) fn is_ending(&self) -> bool {
        is_ending(&self.value)
    }

    pub(crate) fn owners(&self) -> &[Value] {
        self.value["metadata"]["ownerReferences"]
            .as_array()
            .map_or(&[], Vec::as_slice)
    }

    pub(crate) fn has_finalizer(&self, name: &str) -> bool {
        finalizers(&self.value).any(|entry| entry == name)
    }
}

/// Returns a text field of `metadata`, empty when absent.
pub(crate) fn meta_text<'a>(value: &'a Value, field: &str) -> &'a str {
    value["metadata"][field].as_str().unwrap_or_default()
}

/// Whether the object carries a deletion timestamp.
pub(crate) fn is_ending(value: &Value) -> bool {
    value["metadata"]["deletionTimestamp"].is_string()
}

/// Lists the finalizers of an object.
pub(crate) fn finalizers(value: &Value) -> impl Iterator<Item = &str> {
    value["metadata"]["finalizers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

/// Returns the metadata of a value that has passed the check of its outline.
pub(crate) fn meta_mut(value: &mut Value) -> &mut serde_json::Map<String, Value> {
    if !value["metadata"].is_object() {
        value["metadata"] = Value::Object(serde_json::Map::new());
    }
    value["metadata"]
        .as_object_mut()
        .expect("metadata was made an object just above")
}
