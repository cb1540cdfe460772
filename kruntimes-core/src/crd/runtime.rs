//! Bounds and rules of the `Runtime` kind (API reference, section 4).

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::rule::Rule;
use super::schema::{at_least, conditions, object, opaque_object, text};
use crate::api::VolumeSource;

/// The volume sources of the core API (T7).
const VOLUME_SOURCES: [&str; 30] = [
    "hostPath",
    "emptyDir",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "persistentVolumeClaim",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "downwardAPI",
    "fc",
    "azureFile",
    "configMap",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "projected",
    "portworxVolume",
    "scaleIO",
    "storageos",
    "csi",
    "ephemeral",
    "image",
];

impl JsonSchema for VolumeSource {
    fn schema_name() -> Cow<'static, str> {
        "VolumeSource".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let members: Map<String, Value> = VOLUME_SOURCES
            .iter()
            .map(|name| ((*name).to_owned(), opaque_object()))
            .collect();
        let present: Vec<String> = VOLUME_SOURCES
            .iter()
            .map(|name| format!("has(self.{name})"))
            .collect();
        let mut schema = Schema::default();
        schema.insert("type".to_owned(), json!("object"));
        schema.insert("properties".to_owned(), Value::Object(members));
        object(&mut schema).rule(
            Rule::new(
                format!("[{}].filter(v, v).size() <= 1", present.join(", ")),
                "workspace may hold at most one volume source",
            )
            .forbidden(),
        );
        schema
    }
}

pub(crate) fn spec(schema: &mut Schema) {
    object(schema)
        .field("port", &json!({ "minimum": 1, "default": 9091 }))
        .field("replicas", &json!({ "minimum": 1, "default": 1 }))
        .field("daemonImage", &text(2048));
}

pub(crate) fn template(schema: &mut Schema) {
    object(schema)
        .replace("spec", pod_spec())
        .require(&["spec"])
        // T2
        .rule(
            Rule::new(
                "size(self.spec.containers) == 0 || self.spec.containers[0].name == 'runtime'",
                "template.spec.containers[0].name must be runtime",
            )
            .at(".spec.containers"),
        )
        .rule(
            Rule::new(
                "size(self.spec.containers) == 0 || (has(self.spec.containers[0].image) && size(self.spec.containers[0].image) >= 1 && size(self.spec.containers[0].image) <= 2048)",
                "template.spec.containers[0].image must have 1 to 2048 characters",
            )
            .at(".spec.containers"),
        );
}

/// The fields that rules look at; everything else of a Pod spec is kept as written.
fn pod_spec() -> Value {
    json!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "required": ["containers"],
        "properties": {
            // T1
            "containers": {
                "type": "array",
                "minItems": 1,
                "items": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": true,
                    "required": ["name"],
                    "properties": { "name": { "type": "string" }, "image": { "type": "string" } },
                },
            },
            // T3
            "restartPolicy": { "type": "string", "enum": ["Always"] },
            // T4
            "ephemeralContainers": { "type": "array", "maxItems": 0, "items": opaque_object() },
            // T5
            "serviceAccountName": {
                "type": "string",
                "maxLength": 253,
                "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
            },
        },
    })
}

pub(crate) fn status(schema: &mut Schema) {
    object(schema)
        .field("readyReplicas", &at_least(0))
        .field("conditions", &conditions());
}
