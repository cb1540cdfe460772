//! The schemas of the built-in kinds, which come with the types that this crate is built with.

use std::borrow::Cow;

use k8s_openapi::{
    api::{apps, authentication, authorization, coordination, core, events, networking, rbac},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta,
};
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use super::{annotate, gvk};
use crate::kind::Served;

/// Marks what is a number or a text.
const EITHER: &str = "x-kubernetes-int-or-string";

/// Adds a type and everything it consists of.
type Add = fn(&mut SchemaGenerator) -> Cow<'static, str>;

const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";

const ROOTS: [(&str, &str, Add); 20] = [
    ("", "ConfigMap", add::<core::v1::ConfigMap>),
    ("", "Event", add::<core::v1::Event>),
    ("", "Namespace", add::<core::v1::Namespace>),
    ("", "Pod", add::<core::v1::Pod>),
    ("", "Secret", add::<core::v1::Secret>),
    ("", "Service", add::<core::v1::Service>),
    ("", "ServiceAccount", add::<core::v1::ServiceAccount>),
    (
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        add::<CustomResourceDefinition>,
    ),
    (
        "apps",
        "ControllerRevision",
        add::<apps::v1::ControllerRevision>,
    ),
    ("apps", "Deployment", add::<apps::v1::Deployment>),
    (
        AUTHENTICATION,
        "SelfSubjectReview",
        add::<authentication::v1::SelfSubjectReview>,
    ),
    (
        AUTHENTICATION,
        "TokenReview",
        add::<authentication::v1::TokenReview>,
    ),
    (
        AUTHORIZATION,
        "LocalSubjectAccessReview",
        add::<authorization::v1::LocalSubjectAccessReview>,
    ),
    (
        AUTHORIZATION,
        "SelfSubjectAccessReview",
        add::<authorization::v1::SelfSubjectAccessReview>,
    ),
    (
        AUTHORIZATION,
        "SubjectAccessReview",
        add::<authorization::v1::SubjectAccessReview>,
    ),
    (
        "coordination.k8s.io",
        "Lease",
        add::<coordination::v1::Lease>,
    ),
    ("events.k8s.io", "Event", add::<events::v1::Event>),
    (
        "networking.k8s.io",
        "NetworkPolicy",
        add::<networking::v1::NetworkPolicy>,
    ),
    ("rbac.authorization.k8s.io", "Role", add::<rbac::v1::Role>),
    (
        "rbac.authorization.k8s.io",
        "RoleBinding",
        add::<rbac::v1::RoleBinding>,
    ),
];

fn add<T: JsonSchema>(generator: &mut SchemaGenerator) -> Cow<'static, str> {
    generator.subschema_for::<T>();
    T::schema_name()
}

/// The schemas of one document under construction.
pub(super) struct Schemas {
    generator: SchemaGenerator,
    /// Kinds of this document: name of the schema, and what is known of the kind.
    built_in: Vec<(String, Value, String)>,
    others: Map<String, Value>,
}

impl Schemas {
    /// Begins with what every document needs.
    pub(super) fn new() -> Self {
        let mut settings = SchemaSettings::draft2020_12();
        settings.definitions_path = "/components/schemas".into();
        let mut generator = settings.into_generator();
        for common in [
            add::<meta::v1::DeleteOptions> as Add,
            add::<meta::v1::ListMeta>,
            add::<meta::v1::ObjectMeta>,
            add::<meta::v1::Patch>,
            add::<meta::v1::Status>,
        ] {
            common(&mut generator);
        }
        Self {
            generator,
            built_in: Vec::new(),
            others: Map::new(),
        }
    }

    /// Adds a schema that is complete; returns its name.
    pub(super) fn add(&mut self, name: String, schema: Value) -> String {
        self.others.insert(name.clone(), schema);
        name
    }

    /// Adds the schema of a built-in kind and of everything in it; returns its name.
    pub(super) fn add_built_in(&mut self, served: &Served) -> String {
        let kind = served.kind.name.as_str();
        let found = ROOTS
            .iter()
            .find(|(group, name, _)| *group == served.group && *name == kind);
        let Some((_, _, add)) = found else {
            let name = format!("io.k8s.api.{}.{kind}", served.version);
            return self.add(name, json!({ "type": "object" }));
        };
        let name = add(&mut self.generator).into_owned();
        self.built_in
            .push((name.clone(), gvk(served, kind), kind.to_owned()));
        name
    }

    /// Returns all schemas by name, in the dialect that Kubernetes clients read.
    pub(super) fn finish(mut self) -> Map<String, Value> {
        let mut schemas = self.generator.take_definitions(false);
        schemas.values_mut().for_each(translate);
        annotate::metadata(&mut schemas);
        for (name, gvk, kind) in &self.built_in {
            annotate::lists(&mut schemas, name, kind);
            let Some(root) = schemas.get_mut(name) else {
                continue;
            };
            root["x-kubernetes-group-version-kind"] = json!([gvk]);
            // Kubernetes asks for no metadata, the types do.
            let required = root.get_mut("required").and_then(Value::as_array_mut);
            if let Some(required) = required {
                required.retain(|field| field != "metadata");
            }
        }
        for kind in ["DeleteOptions", "Status"] {
            let gvk = json!({ "group": "", "version": "v1", "kind": kind });
            if let Some(schema) = schemas.get_mut(&format!("{}.{kind}", super::META)) {
                schema["x-kubernetes-group-version-kind"] = json!([gvk]);
            }
        }
        schemas.extend(self.others);
        schemas
    }
}

/// Rewrites what the types say in JSON Schema to what OpenAPI 3.0 and its Kubernetes readers understand.
fn translate(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(translate),
        Value::Object(fields) => {
            fields.values_mut().for_each(translate);
            // Next to a reference nothing else is read. A property may be called like a keyword, but is an object.
            if fields.len() > 1
                && let Some(target) = fields.get("$ref").filter(|target| target.is_string())
            {
                let target = json!([{ "$ref": target }]);
                fields.remove("$ref");
                fields.insert("allOf".to_owned(), target);
            }
            if fields.get("required") == Some(&json!([])) {
                fields.remove("required");
            }
            if fields.get(EITHER) == Some(&Value::Bool(true)) {
                fields.remove(EITHER);
                let either = json!([{ "type": "integer" }, { "type": "string" }]);
                fields.insert("oneOf".to_owned(), either);
                fields.insert("format".to_owned(), Value::from("int-or-string"));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_with_words_of_their_own_stay_readable() {
        let mut schema = json!({
            "properties": {
                "a": { "$ref": "#/x", "description": "words" },
                "b": { "$ref": "#/x" },
                "c": { "x-kubernetes-int-or-string": true },
                "$ref": { "type": "string" },
                "x-kubernetes-int-or-string": { "type": "boolean" },
            },
        });
        translate(&mut schema);
        assert_eq!(
            schema["properties"],
            json!({
                "a": { "allOf": [{ "$ref": "#/x" }], "description": "words" },
                "b": { "$ref": "#/x" },
                "c": { "format": "int-or-string", "oneOf": [{ "type": "integer" }, { "type": "string" }] },
                "$ref": { "type": "string" },
                "x-kubernetes-int-or-string": { "type": "boolean" },
            })
        );
    }
}
