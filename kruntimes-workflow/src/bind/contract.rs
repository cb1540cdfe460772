//! The output contract of a Workflow, frozen as annotations of a WorkflowRun.

use std::collections::BTreeMap;

use kruntimes_core::api::Output;
use kruntimes_core::keys::ANNOTATION_WORKFLOW_OUTPUT_PREFIX;
use kruntimes_core::limits::OUTPUT_CONTRACT_MAX_BYTES;
use kruntimes_core::message::quoted;

use crate::graph::is_output_name;

/// Outputs that cannot be frozen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ContractError {
    /// The name does not fit an annotation.
    #[error("output name {} cannot be represented as a WorkflowRun annotation", quoted(.0))]
    Name(String),
    /// Keys and values together are too large.
    #[error(
        "output contract is {bytes} bytes, exceeds {OUTPUT_CONTRACT_MAX_BYTES} byte annotation limit"
    )]
    TooLarge {
        /// The full total.
        bytes: usize,
    },
}

/// Freezes declared outputs (W-103). No outputs make no annotations.
///
/// # Errors
///
/// The first name that does not fit, sorted, else the total size.
pub fn annotations(
    outputs: &BTreeMap<String, Output>,
) -> Result<BTreeMap<String, String>, ContractError> {
    let mut frozen = BTreeMap::new();
    for (name, output) in outputs {
        if !is_output_name(name) {
            return Err(ContractError::Name(name.clone()));
        }
        let key = format!("{ANNOTATION_WORKFLOW_OUTPUT_PREFIX}{name}");
        frozen.insert(key, output.value.clone());
    }
    let bytes = frozen
        .iter()
        .map(|(key, value)| key.len() + value.len())
        .sum();
    if bytes > OUTPUT_CONTRACT_MAX_BYTES {
        return Err(ContractError::TooLarge { bytes });
    }
    Ok(frozen)
}

/// Reads a contract back from annotations; others are left out.
///
/// A malformed name is kept as it is, so that evaluation can refuse it by name.
pub fn from_annotations(annotations: &BTreeMap<String, String>) -> BTreeMap<String, Output> {
    let output = |(key, value): (&String, &String)| {
        let name = key.strip_prefix(ANNOTATION_WORKFLOW_OUTPUT_PREFIX)?;
        let value = value.clone();
        Some((name.to_owned(), Output { value }))
    };
    annotations.iter().filter_map(output).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contract(name: &str, value: &str) -> BTreeMap<String, Output> {
        [(
            name.to_owned(),
            Output {
                value: value.to_owned(),
            },
        )]
        .into()
    }

    #[test]
    fn w_103_a_contract_survives_the_annotations() {
        let outputs = contract("image.tag_1", "${{ jobs.a.outputs.b }}");
        let mut frozen = annotations(&outputs).unwrap();
        assert_eq!(
            frozen.keys().collect::<Vec<_>>(),
            ["kruntimes.io/workflow-output.image.tag_1"]
        );
        frozen.insert("someone/else".into(), "x".into());
        assert_eq!(from_annotations(&frozen), outputs);
        assert_eq!(annotations(&BTreeMap::new()), Ok(BTreeMap::new()));
    }

    #[test]
    fn w_103_names_and_sizes_are_bounded() {
        for name in ["", "-a", "a_", "a b", &"a".repeat(48)] {
            assert_eq!(
                annotations(&contract(name, "")).unwrap_err().to_string(),
                format!("output name \"{name}\" cannot be represented as a WorkflowRun annotation")
            );
        }
        // The prefix `kruntimes.io/workflow-output.` has 29 bytes.
        let fits = OUTPUT_CONTRACT_MAX_BYTES - 30;
        assert!(annotations(&contract("a", &"v".repeat(fits))).is_ok());
        assert_eq!(
            annotations(&contract("a", &"v".repeat(fits + 1)))
                .unwrap_err()
                .to_string(),
            "output contract is 245761 bytes, exceeds 245760 byte annotation limit"
        );
    }
}
