//! The two patch formats: JSON merge patch and JSON Patch with Go's idea of testing for null.

use json_patch::{Patch, PatchOperation};
use serde_json::Value;

use crate::error::ApiError;

/// Most operations of one JSON Patch.
const OPERATIONS_MAX: usize = 10_000;
/// Bytes that the copies of one JSON Patch may make together: each can double the document.
const COPIED_MAX_BYTES: usize = 3 * 1024 * 1024;

/// A patch as received, ready to be applied to whatever version is current.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Merge(Value),
    Json(Vec<PatchOperation>),
}

impl Change {
    /// Reads a patch in the format its content type names.
    pub(crate) fn parse(content_type: &str, body: &[u8]) -> Result<Self, ApiError> {
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        let unreadable = |error: serde_json::Error| {
            ApiError::bad_request(format!("error decoding patch: {error}"))
        };
        match essence {
            "application/merge-patch+json" => {
                let patch: Value = serde_json::from_slice(body).map_err(unreadable)?;
                if !patch.is_object() {
                    return Err(ApiError::bad_request(
                        "error decoding patch: a merge patch must be an object",
                    ));
                }
                Ok(Self::Merge(patch))
            }
            "application/json-patch+json" => {
                let patch: Patch = serde_json::from_slice(body).map_err(unreadable)?;
                if patch.0.len() > OPERATIONS_MAX {
                    return Err(ApiError::too_large(OPERATIONS_MAX));
                }
                Ok(Self::Json(patch.0))
            }
            other => Err(ApiError::unsupported_media(other)),
        }
    }

    /// Applies the whole patch or nothing of it.
    pub(crate) fn apply(&self, mut document: Value) -> Result<Value, ApiError> {
        match self {
            Self::Merge(patch) => json_patch::merge(&mut document, patch),
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
        Ok(document)
    }
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
    use serde_json::json;

    use super::*;

    fn json_patch(operations: &Value, document: Value) -> Result<Value, ApiError> {
        Change::parse(
            "application/json-patch+json",
            operations.to_string().as_bytes(),
        )
        .unwrap()
        .apply(document)
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
        let change =
            Change::parse("application/merge-patch+json", br#"{"a":null,"b":{"c":1}}"#).unwrap();
        let patched = change.apply(json!({ "a": 1, "b": { "d": 2 } })).unwrap();
        assert_eq!(patched, json!({ "b": { "c": 1, "d": 2 } }));
    }

    #[test]
    fn formats_without_an_implementation_answer_415() {
        for format in [
            "application/apply-patch+yaml",
            "application/strategic-merge-patch+json",
        ] {
            assert_eq!(
                Change::parse(format, b"{}").unwrap_err().code,
                415,
                "{format}"
            );
        }
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
