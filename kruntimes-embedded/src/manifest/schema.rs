//! The schemas of the kinds: the ones the server uses, compiled when first needed.

use kruntimes_workflow::yaml::Segment;
use std::sync::OnceLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kruntimes_apiserver::schema::KindSchema;
use kruntimes_core::api::VERSION;
use kruntimes_core::crd;

/// One kind and its schema.
pub(super) struct Definition {
    pub(super) kind: &'static str,
    root: JSONSchemaProps,
    crd: CustomResourceDefinition,
    compiled: OnceLock<KindSchema>,
}

/// Returns the kinds in the order of [`crd::KINDS`].
pub(super) fn definitions() -> &'static [Definition] {
    static ALL: OnceLock<Vec<Definition>> = OnceLock::new();
    ALL.get_or_init(|| {
        let all = crd::KINDS.into_iter().zip(crd::all());
        all.map(|(kind, crd)| Definition::new(kind, crd)).collect()
    })
}

/// Returns the schema of a kind.
pub(super) fn definition(kind: &str) -> Option<&'static Definition> {
    definitions().iter().find(|known| known.kind == kind)
}

impl Definition {
    fn new(kind: &'static str, crd: CustomResourceDefinition) -> Self {
        let version = crd.spec.versions.iter().find(|v| v.name == VERSION);
        let schema = version.and_then(|version| version.schema.as_ref());
        let mut root = schema
            .and_then(|schema| schema.open_api_v3_schema.clone())
            .unwrap_or_default();
        root.properties
            .get_or_insert_default()
            .insert("metadata".to_owned(), metadata());
        Self {
            kind,
            root,
            crd,
            compiled: OnceLock::new(),
        }
    }

    /// The schema as data, `metadata` included, which a definition leaves to the server.
    pub(super) fn root(&self) -> &JSONSchemaProps {
        &self.root
    }

    /// The schema as the server applies it.
    pub(super) fn compiled(&self) -> &KindSchema {
        self.compiled.get_or_init(|| {
            KindSchema::compile(&self.crd, VERSION).expect("the definitions of this crate compile")
        })
    }

    /// Names the members that the schema knows at a path.
    pub(super) fn members_at(&self, path: &[Segment]) -> Vec<&str> {
        let found = path
            .iter()
            .try_fold(&self.root, |props, segment| inner(props, segment));
        let members = found.and_then(|props| props.properties.as_ref());
        members
            .into_iter()
            .flatten()
            .map(|(name, _)| name.as_str())
            .collect()
    }
}

/// Returns the schema of a member or element.
pub(super) fn inner<'a>(
    props: &'a JSONSchemaProps,
    segment: &Segment,
) -> Option<&'a JSONSchemaProps> {
    match segment {
        Segment::Field(name) => {
            let declared = props
                .properties
                .as_ref()
                .and_then(|members| members.get(name));
            declared.or(match &props.additional_properties {
                Some(JSONSchemaPropsOrBool::Schema(schema)) => Some(schema),
                Some(JSONSchemaPropsOrBool::Bool(_)) | None => None,
            })
        }
        Segment::Index(_) => match &props.items {
            Some(JSONSchemaPropsOrArray::Schema(schema)) => Some(schema),
            Some(JSONSchemaPropsOrArray::Schemas(_)) | None => None,
        },
    }
}

/// The part of `metadata` that people write, and the part that comes with an exported object.
fn metadata() -> JSONSchemaProps {
    let of = |kind: &str| JSONSchemaProps {
        type_: Some(kind.to_owned()),
        ..JSONSchemaProps::default()
    };
    let texts = || JSONSchemaProps {
        additional_properties: Some(JSONSchemaPropsOrBool::Schema(Box::new(of("string")))),
        ..of("object")
    };
    let written = ["name", "generateName", "namespace"].map(|name| (name, of("string")));
    let maps = ["labels", "annotations"].map(|name| (name, texts()));
    let exported = EXPORTED.map(|name| (name, JSONSchemaProps::default()));
    let all = written.into_iter().chain(maps).chain(exported);
    JSONSchemaProps {
        properties: Some(all.map(|(name, props)| (name.to_owned(), props)).collect()),
        ..of("object")
    }
}

/// Members of `metadata` that the server writes; they are left out of what is submitted.
pub(super) const EXPORTED: [&str; 10] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generation",
    "managedFields",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_compiles_and_knows_its_members() {
        for known in definitions() {
            known.compiled();
            let top = known.members_at(&[]);
            assert!(
                top.contains(&"spec") && top.contains(&"metadata"),
                "{top:?}"
            );
        }
        let path = ["spec", "jobs", "any"].map(|name| Segment::Field(name.to_owned()));
        let job = definition("WorkflowRun").unwrap().members_at(&path);
        assert!(
            job.contains(&"runs-on") && job.contains(&"needs"),
            "{job:?}"
        );
    }
}
