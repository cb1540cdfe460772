//! The definitions of the custom kinds as objects: they can be read like any other, but are fixed once the server is
//! built.
//!
//! They are not in the store. Most programs never look at them, so they are put together on the first look.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::{
    clock::whole_seconds,
    commit::Core,
    error::ApiError,
    kind::Served,
    object::{Key, Object, meta_text},
    patch::Change,
};

/// Media type of a server-side apply; what it applies is JSON as often as not.
const APPLY: &str = "application/apply-patch";

/// Version of every definition: none ever changes.
const VERSION: u64 = 1;

/// The definitions a server was built with.
#[derive(Default)]
pub(crate) struct Definitions {
    crds: Vec<CustomResourceDefinition>,
    born: Timestamp,
    objects: OnceLock<Vec<Arc<Object>>>,
}

impl Definitions {
    pub(crate) fn new(crds: Vec<CustomResourceDefinition>, born: Timestamp) -> Self {
        Self {
            crds,
            born,
            objects: OnceLock::new(),
        }
    }

    /// Returns what the definition behind a kind says about one of its versions.
    pub(crate) fn version(&self, served: &Served) -> Option<&CustomResourceDefinitionVersion> {
        let defines = |crd: &&CustomResourceDefinition| {
            crd.spec.group == served.group && crd.spec.names.plural == served.kind.plural
        };
        let versions = &self.crds.iter().find(defines)?.spec.versions;
        versions
            .iter()
            .find(|version| version.name == served.version)
    }

    /// Lists the definitions as objects, by name, beginning behind `start`.
    pub(crate) fn list(&self, start: Option<&Key>) -> Vec<Arc<Object>> {
        let all = self.objects().iter();
        all.filter(|object| start.is_none_or(|start| *object.key > *start))
            .cloned()
            .collect()
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Arc<Object>> {
        self.objects().iter().find(|object| *object.key == *key)
    }

    fn objects(&self) -> &[Arc<Object>] {
        self.objects.get_or_init(|| {
            let mut objects: Vec<Arc<Object>> = self
                .crds
                .iter()
                .map(|crd| {
                    let key = Key::new("", format!("{}.{}", crd.spec.names.plural, crd.spec.group));
                    let value = established(crd, &key.name, self.born);
                    Arc::new(Object::new(key, VERSION, value))
                })
                .collect();
            objects.sort_by(|one, other| one.key.cmp(&other.key));
            objects
        })
    }
}

/// Writes what a definition asks for, with everything filled in that it may leave out.
fn completed(crd: &CustomResourceDefinition) -> Value {
    let mut spec = crd.spec.clone();
    let kind = &spec.names.kind;
    let singular = || kind.to_lowercase();
    let list_kind = || format!("{kind}List");
    spec.names.singular = Some(spec.names.singular.clone().unwrap_or_else(singular));
    spec.names.list_kind = Some(spec.names.list_kind.clone().unwrap_or_else(list_kind));
    let mut spec = json!(spec);
    if spec["conversion"].is_null() {
        spec["conversion"] = json!({ "strategy": "None" });
    }
    spec
}

/// Shows a definition as a control plane does once the kind is served.
fn established(crd: &CustomResourceDefinition, name: &str, born: Timestamp) -> Value {
    let born = whole_seconds(born);
    let spec = completed(crd);
    let names = spec["names"].clone();
    let stored = crd.spec.versions.iter().filter(|version| version.storage);
    let stored: Vec<&str> = stored.map(|version| version.name.as_str()).collect();
    let condition = |type_name: &str, reason: &str, message: &str| {
        json!({
            "type": type_name, "status": "True", "reason": reason, "message": message,
            "lastTransitionTime": born,
        })
    };
    let mut metadata = json!(crd.metadata);
    metadata["name"] = Value::from(name);
    metadata["uid"] = Value::from(uid(name));
    metadata["resourceVersion"] = Value::from(VERSION.to_string());
    metadata["generation"] = Value::from(1);
    metadata["creationTimestamp"] = Value::from(born.as_str());
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": spec,
        "status": {
            "conditions": [
                condition("NamesAccepted", "NoConflicts", "no other kind has these names"),
                condition("Established", "InitialNamesAccepted", "the kind is served"),
            ],
            "acceptedNames": names,
            "storedVersions": stored,
        },
    })
}

/// Derives an identifier that is the same whenever a server is built with this definition.
fn uid(name: &str) -> String {
    let digest = Sha256::digest(name.as_bytes());
    let bytes = std::array::from_fn(|index| digest[index]);
    let uuid = uuid::Builder::from_custom_bytes(bytes).into_uuid();
    uuid.to_string()
}

/// Answers an attempt to write definitions: one that asks for what is there anyway succeeds, all others are refused.
pub(crate) fn write(
    core: &Core,
    served: &Served,
    key: &Key,
    verb: &str,
    content_type: &str,
    body: &Bytes,
) -> Result<Arc<Object>, ApiError> {
    let asked = match verb {
        "patch" if content_type.starts_with(APPLY) => parse(body)?,
        "patch" => {
            let current = core.get(served, key)?;
            let patch = Change::parse(content_type, body, served)?;
            patch.apply(served, (*current.value).clone())?.value
        }
        "create" | "update" => parse(body)?,
        _ => return Err(ApiError::fixed(served, &key.name)),
    };
    let name = meta_text(&asked, "name").to_owned();
    let present = core.get(served, &Key::new("", name.as_str()));
    if verb == "create" {
        return Err(match present {
            Ok(_) => ApiError::already_exists(served, &name),
            Err(_) => ApiError::fixed(served, &name),
        });
    }
    let asked: CustomResourceDefinition = serde_json::from_value(asked)
        .map_err(|error| ApiError::bad_request(format!("error decoding the object: {error}")))?;
    match present {
        Ok(present) if present.value["spec"] == completed(&asked) => Ok(present),
        _ => Err(ApiError::fixed(served, &name)),
    }
}

fn parse(body: &Bytes) -> Result<Value, ApiError> {
    serde_json::from_slice(body)
        .map_err(|error| ApiError::bad_request(format!("error decoding the object: {error}")))
}
