//! The patch formats: JSON merge patch, strategic merge patch, and JSON Patch with Go's idea of testing for null.

use json_patch::{Patch, PatchOperation};
use serde_json::Value;

use crate::{
    apply::config, error::ApiError, kind::Served, manifest::Manifest, strategic, strict::Findings,
};

/// Most operations of one JSON Patch.
const OPERATIONS_MAX: usize = 10_000;
/// Bytes that the copies of one JSON Patch may make together: each can double the document.
const COPIED_MAX_BYTES: usize = 3 * 1024 * 1024;

/// A patch as received, ready to be applied to whatever version is current.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Merge(Manifest),
    Strategic(Manifest),
    Json(Vec<PatchOperation>),
    /// The configuration of a server-side apply.
    Apply(Manifest),
}

const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const APPLY_PATCH: &str = "application/apply-patch+yaml";
const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";

impl Change {
    /// Reads a patch in the format its content type names; the strategic one is for built-in kinds only.
    pub(crate) fn parse(
        content_type: &str,
        body: &[u8],
        served: &Served,
    ) -> Result<Self, ApiError> {
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        let unreadable = |error: serde_json::Error| {
            ApiError::bad_request(format!("error decoding patch: {error}"))
        };
        match essence {
            MERGE_PATCH => Ok(Self::Merge(read_object(body)?)),
            STRATEGIC_PATCH if served.through.is_some() => Ok(Self::Strategic(read_object(body)?)),
            JSON_PATCH => {
                let patch: Patch = serde_json::from_slice(body).map_err(unreadable)?;
                if patch.0.len() > OPERATIONS_MAX {
                    return Err(ApiError::too_large(OPERATIONS_MAX));
                }
                Ok(Self::Json(patch.0))
            }
            APPLY_PATCH => Ok(Self::Apply(config::parse(body)?)),
            _ if served.through.is_some() => Err(ApiError::unsupported_media(&[
                JSON_PATCH,
                MERGE_PATCH,
                STRATEGIC_PATCH,
                APPLY_PATCH,
            ])),
            _ => Err(ApiError::unsupported_media(&[
                JSON_PATCH,
                MERGE_PATCH,
                APPLY_PATCH,
            ])),
        }
    }

    /// Whether the patch may say something about the owners of fields.
    pub(crate) fn names_ledger(&self) -> bool {
        match self {
            Self::Merge(patch) | Self::Strategic(patch) | Self::Apply(patch) => {
                patch.value["metadata"].get("managedFields").is_some()
            }
            Self::Json(operations) => operations.iter().any(|operation| {
                let names = |path: &str| {
                    path.starts_with("/metadata/managedFields") || "/metadata".starts_with(path)
                };
                let from = match operation {
                    PatchOperation::Move(moved) => names(moved.from.as_str()),
                    PatchOperation::Copy(copied) => names(copied.from.as_str()),
                    PatchOperation::Add(_)
                    | PatchOperation::Remove(_)
                    | PatchOperation::Replace(_)
                    | PatchOperation::Test(_) => false,
                };
                from || names(operation.path().as_str())
            }),
        }
    }

    /// Applies the whole patch or nothing of it.
    pub(crate) fn apply(&self, served: &Served, mut document: Value) -> Result<Manifest, ApiError> {
        let mut findings = Findings::default();
        match self {
            // An apply has owners and the absent object to think of, see `Core::apply`; merged alone it is this.
            Self::Merge(patch) | Self::Apply(patch) => {
                json_patch::merge(&mut document, &patch.value);
                findings.clone_from(&patch.findings);
            }
            Self::Strategic(patch) => {
                document = strategic::merge(served, document, &patch.value)?;
                findings.clone_from(&patch.findings);
            }
            Self::Json(operations) => {
                let mut copied: usize = 0;
                for operation in operations {
                    if tests_absence(&document, operation) {
                        continue;
                    }
                    copied = copied.saturating_add(copied_bytes(&document, operation));
                    if copied > COPIED_MAX_BYTES {
                        return Err(ApiError::too_large(COPIED_MAX_BYTES));
                    }
                    json_patch::patch(&mut document, std::slice::from_ref(operation)).map_err(
                        |error| {
                            ApiError::unprocessable(format!(
                                "the server rejected our request due to an error in our request: {error}"
                            ))
                        },
                    )?;
                }
            }
        }
        Ok(Manifest {
            value: document,
            findings,
        })
    }
}

/// Reads a patch that is itself shaped like the object.
fn read_object(body: &[u8]) -> Result<Manifest, ApiError> {
    let patch = Manifest::read_json(body)
        .map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}")))?;
    if !patch.value.is_object() {
        return Err(ApiError::bad_request(
            "error decoding patch: a merge patch must be an object",
        ));
    }
    Ok(patch)
}

/// How much a copy adds to the document.
fn copied_bytes(document: &Value, operation: &PatchOperation) -> usize {
    let PatchOperation::Copy(copy) = operation else {
        return 0;
    };
    document
        .pointer(copy.from.as_str())
        .map_or(0, |value| value.to_string().len())
}

/// Whether the operation tests for null where there is nothing, which holds in Kubernetes.
fn tests_absence(document: &Value, operation: &PatchOperation) -> bool {
    match operation {
        PatchOperation::Test(test) => {
            test.value.is_null() && document.pointer(test.path.as_str()).is_none()
        }
        PatchOperation::Add(_)
        | PatchOperation::Remove(_)
        | PatchOperation::Replace(_)
        | PatchOperation::Move(_)
        | PatchOperation::Copy(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::{builtin, registry::Registry};

    /// ConfigMaps, as a built-in kind, or the same without a type, as a custom one.
    fn served(built_in: bool) -> Arc<Served> {
        let mut registry = Registry::default();
        builtin::install(&mut registry);
        let maps = registry.find("", "v1", "configmaps").unwrap();
        Arc::new(Served {
            kind: Arc::clone(&maps.kind),
            group: maps.group.clone(),
            version: maps.version.clone(),
            shape: maps.shape.clone(),
            schema: None,
            through: maps.through.filter(|_| built_in),
            selectable: Vec::new(),
            columns: Arc::clone(&maps.columns),
        })
    }

    fn apply(format: &str, patch: &[u8], document: Value) -> Result<Value, ApiError> {
        let served = served(true);
        let change = Change::parse(format, patch, &served)?;
        change.apply(&served, document).map(|patched| patched.value)
    }

    fn json_patch(operations: &Value, document: Value) -> Result<Value, ApiError> {
        apply(JSON_PATCH, operations.to_string().as_bytes(), document)
    }

    #[test]
    fn testing_an_absent_path_for_null_holds() {
        let patch = json!([
            { "op": "test", "path": "/metadata/finalizers", "value": null },
            { "op": "add", "path": "/metadata/finalizers", "value": ["a"] },
        ]);
        let patched = json_patch(&patch, json!({ "metadata": {} })).unwrap();
        assert_eq!(patched, json!({ "metadata": { "finalizers": ["a"] } }));
        assert!(json_patch(&patch, patched).is_err());
    }

    #[test]
    fn testing_an_absent_path_for_a_value_fails() {
        let patch = json!([{ "op": "test", "path": "/a", "value": 1 }]);
        assert_eq!(json_patch(&patch, json!({})).unwrap_err().code, 422);
    }

    #[test]
    fn a_merge_patch_deletes_with_null_and_keeps_the_rest() {
        let patch = br#"{"a":null,"b":{"c":1}}"#;
        let patched = apply(MERGE_PATCH, patch, json!({ "a": 1, "b": { "d": 2 } })).unwrap();
        assert_eq!(patched, json!({ "b": { "c": 1, "d": 2 } }));
    }

    #[test]
    fn each_kind_accepts_its_own_formats() {
        for (format, built_in) in [
            ("application/json", true),
            ("text/plain", true),
            (STRATEGIC_PATCH, false),
            ("", false),
        ] {
            let error = Change::parse(format, b"{}", &served(built_in)).unwrap_err();
            assert_eq!(error.code, 415, "{format}");
        }
        assert!(Change::parse(STRATEGIC_PATCH, b"{}", &served(true)).is_ok());
    }

    #[test]
    fn copies_cannot_multiply_a_document_without_end() {
        let copies: Vec<Value> = (0..40)
            .map(|n| json!({ "op": "copy", "from": "/a", "path": format!("/a/{n}") }))
            .collect();
        let error = json_patch(&Value::from(copies), json!({ "a": { "b": 1 } })).unwrap_err();
        assert_eq!(error.code, 413);
    }
}
