//! One stored version of one object, shared by everyone who reads it.

use std::{
    ops::Deref,
    sync::{Arc, OnceLock},
};

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

/// The content of an object: text, tree or both, each made from the other when it is first asked for.
///
/// A tree takes several times the memory of its text, so only what was written lately keeps both.
#[derive(Debug)]
pub(crate) struct Body {
    text: OnceLock<Bytes>,
    tree: OnceLock<Arc<Value>>,
}

impl Body {
    fn of_tree(tree: Value) -> Self {
        Self {
            text: OnceLock::new(),
            tree: OnceLock::from(Arc::new(tree)),
        }
    }

    fn of_text(text: Bytes) -> Self {
        Self {
            text: OnceLock::from(text),
            tree: OnceLock::new(),
        }
    }

    fn text(&self) -> &Bytes {
        self.text.get_or_init(|| {
            let text = self.tree().to_string();
            // Without the room that growing left over.
            Bytes::from(text.into_boxed_str().into_boxed_bytes())
        })
    }

    /// Returns the tree and keeps it from now on.
    pub(crate) fn tree(&self) -> &Arc<Value> {
        self.tree.get_or_init(|| Arc::new(self.parse()))
    }

    /// Shows the tree without keeping it, for those who go through many objects once.
    pub(crate) fn show<T>(&self, look: impl FnOnce(&Value) -> T) -> T {
        match self.tree.get() {
            Some(tree) => look(tree),
            None => look(&self.parse()),
        }
    }

    fn parse(&self) -> Value {
        let text = self.text.get().expect("a body has a text or a tree");
        serde_json::from_slice(text).expect("the text was written from a tree")
    }
}

impl Deref for Body {
    type Target = Value;

    fn deref(&self) -> &Value {
        self.tree()
    }
}

/// What the store itself has to know of an object, kept so that no text is parsed for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) uid: Arc<str>,
    /// UIDs of the owners, in the order of the references.
    pub(crate) owners: Arc<[Arc<str>]>,
    /// Carries a deletion timestamp.
    pub(crate) ending: bool,
}

impl Facts {
    fn of(value: &Value) -> Self {
        let owners = value["metadata"]["ownerReferences"].as_array();
        Self {
            uid: Arc::from(meta_text(value, "uid")),
            owners: owners
                .into_iter()
                .flatten()
                .filter_map(|owner| owner["uid"].as_str().map(Arc::from))
                .collect(),
            ending: is_ending(value),
        }
    }
}

/// An object as it was after one write; never changed afterwards.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) key: Arc<Key>,
    pub(crate) version: u64,
    pub(crate) value: Body,
    pub(crate) facts: Facts,
}

impl Object {
    /// Wraps a complete value whose `metadata.resourceVersion` is `version`.
    pub(crate) fn new(key: impl Into<Arc<Key>>, version: u64, value: Value) -> Self {
        Self {
            key: key.into(),
            version,
            facts: Facts::of(&value),
            value: Body::of_tree(value),
        }
    }

    /// Takes up an object that was written in an earlier life.
    pub(crate) fn stored(key: Key, version: u64, facts: Facts, text: Bytes) -> Self {
        Self {
            key: Arc::new(key),
            version,
            facts,
            value: Body::of_text(text),
        }
    }

    /// Returns the same object under another `apiVersion`, as versions without a conversion webhook are converted.
    pub(crate) fn renamed(&self, api_version: &str) -> Self {
        let mut value = (*self.value).clone();
        value["apiVersion"] = Value::from(api_version);
        Self::new(Arc::clone(&self.key), self.version, value).cold()
    }

    /// Returns the same object with nothing but its text.
    pub(crate) fn cold(&self) -> Self {
        Self {
            key: Arc::clone(&self.key),
            version: self.version,
            facts: self.facts.clone(),
            value: Body::of_text(self.json()),
        }
    }

    /// Returns the JSON text; it is made once, however many lists and watches send it.
    pub(crate) fn json(&self) -> Bytes {
        self.value.text().clone()
    }

    pub(crate) fn uid(&self) -> &str {
        &self.facts.uid
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.facts.ending
    }

    pub(crate) fn is_owned(&self) -> bool {
        !self.facts.owners.is_empty()
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
