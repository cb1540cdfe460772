//! OpenAPI v3: what every group and version serves, and the schemas of its kinds.
//!
//! Most programs never ask, so the documents are made on the first request and kept from then on.

mod annotate;
mod builtin;
mod custom;
mod operation;
mod paths;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::OnceLock,
};

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::{documents::tag, kind::Served, registry::Registry};

/// Where schemas stand within a document.
const SCHEMAS: &str = "#/components/schemas/";
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// The documents of all groups and versions by their path, such as `apis/apps/v1`.
#[derive(Default)]
pub(crate) struct OpenApi(OnceLock<BTreeMap<String, Document>>);

/// The document of one group and version.
pub(crate) struct Document {
    pub(crate) content: Bytes,
    /// Changes whenever the content does.
    pub(crate) tag: String,
}

impl Document {
    fn new(content: &Value) -> Self {
        let content = Bytes::from(content.to_string());
        Self {
            tag: tag(&content),
            content,
        }
    }
}

impl OpenApi {
    /// `/openapi/v3`: where each document is found, under a name that changes with its content.
    pub(crate) fn index(&self, registry: &Registry) -> Value {
        let entries: Map<String, Value> = self
            .documents(registry)
            .keys()
            .filter_map(|path| {
                Some((
                    path.clone(),
                    json!({ "serverRelativeURL": self.url(registry, path)? }),
                ))
            })
            .collect();
        json!({ "paths": entries })
    }

    /// Returns the address under which a document can be kept for ever.
    pub(crate) fn url(&self, registry: &Registry, path: &str) -> Option<String> {
        let document = self.document(registry, path)?;
        Some(format!("/openapi/v3/{path}?hash={}", document.tag))
    }

    /// Returns the document of one group and version.
    pub(crate) fn document(&self, registry: &Registry, path: &str) -> Option<&Document> {
        self.documents(registry).get(path)
    }

    fn documents(&self, registry: &Registry) -> &BTreeMap<String, Document> {
        self.0.get_or_init(|| {
            let versions: BTreeSet<(&str, &str)> = registry.versions().collect();
            let documents = versions.into_iter().map(|(group, version)| {
                let path = paths::base(group, version);
                let document = Document::new(&document(registry, group, version));
                (path.trim_start_matches('/').to_owned(), document)
            });
            documents.collect()
        })
    }
}

/// Writes the document of one group and version.
fn document(registry: &Registry, group: &str, version: &str) -> Value {
    let mut schemas = builtin::Schemas::new();
    let mut all_paths = Map::new();
    for served in registry.of_version(group, version) {
        let name = match registry.definitions.version(served) {
            Some(found) => schemas.add(custom::name(served), custom::schema(served, found)),
            None => schemas.add_built_in(served),
        };
        let list = format!("{name}List");
        if served.kind.is_stored() {
            schemas.add(list.clone(), list_schema(served, &name));
        }
        paths::add(served, &name, &list, &mut all_paths);
    }
    json!({
        "openapi": "3.0.0",
        "info": { "title": "Kubernetes-style API", "version": version },
        "paths": all_paths,
        "components": { "schemas": schemas.finish() },
    })
}

/// Refers to a schema of the same document.
fn reference(name: &str) -> Value {
    json!({ "$ref": format!("{SCHEMAS}{name}") })
}

/// Refers to a schema of the same document, with words of one's own.
fn described(name: &str, description: &str) -> Value {
    json!({ "description": description, "allOf": [reference(name)] })
}

/// Names a kind the way that clients look schemas up by.
fn gvk(served: &Served, kind: &str) -> Value {
    json!({ "group": served.group, "version": served.version, "kind": kind })
}

fn type_fields() -> [(&'static str, Value); 2] {
    let text = |description: &str| json!({ "type": "string", "description": description });
    [
        (
            "apiVersion",
            text("Group and version of the schema of this object."),
        ),
        ("kind", text("Kind of this object; it never changes.")),
    ]
}

/// Describes a list of some kind.
fn list_schema(served: &Served, item: &str) -> Value {
    let kind = &served.kind;
    let mut schema = json!({
        "type": "object",
        "description": format!("A list of objects of kind {}.", kind.name),
        "required": ["items"],
        "properties": {
            "items": { "type": "array", "description": "The objects.", "items": reference(item) },
            "metadata": described(&format!("{META}.ListMeta"), "Version and continuation of the list."),
        },
        "x-kubernetes-group-version-kind": [gvk(served, &kind.list_name)],
    });
    for (name, field) in type_fields() {
        schema["properties"][name] = field;
    }
    schema
}
