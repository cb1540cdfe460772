//! The immutable definition an execution reads.
//!
//! Everything after acceptance is decided from it: later edits of the
//! WorkflowRun's annotations, of Workflows or of Actions change nothing (W-51).

use std::collections::BTreeMap;

use kruntimes_core::api::{ActionSpec, Job, Output};
use kruntimes_core::limits::SNAPSHOT_MAX_BYTES;
use serde::{Deserialize, Serialize};

use crate::expansion::Legs;
use crate::graph::{Invalid, Problem};
use crate::location::Location;

/// Contents of the ControllerRevision of one WorkflowRun (W-50).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    // Members stand in byte order: equal content gives equal bytes.
    /// Frozen Actions by call site, see [`call_site`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub actions: BTreeMap<String, FrozenAction>,
    /// Concrete jobs by the job of the spec they were made of, in leg order (W-200).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub legs: Legs,
    /// Frozen output contract; empty when there is none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub outputs: BTreeMap<String, Output>,
    /// The accepted spec.
    pub spec: FrozenSpec,
}

/// The part of a WorkflowRun spec that is frozen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrozenSpec {
    /// Jobs by name.
    #[serde(default)]
    pub jobs: BTreeMap<String, Job>,
}

/// An Action as it was when the WorkflowRun was accepted (W-52).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrozenAction {
    /// Name of the Action.
    pub name: String,
    /// Its whole, unevaluated spec.
    pub spec: ActionSpec,
}

/// A snapshot that may not be used. It is reported and retried, never guessed around (W-54).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// Another WorkflowRun's UID is on it.
    #[error("workflow snapshot {0} belongs to another workflowrun")]
    Foreign(String),
    /// It has no jobs.
    #[error("workflow snapshot {0} has no jobs")]
    NoJobs(String),
    /// Its data is not a snapshot.
    #[error("workflow snapshot {name} cannot be decoded")]
    Undecodable {
        /// `<namespace>/<name>`.
        name: String,
        /// What the decoder said.
        source: serde_json::Error,
    },
    /// Status names it, but it is not there.
    #[error("workflow snapshot {0} does not exist")]
    Missing(String),
    /// There are jobs in status and no snapshot is named.
    #[error("workflowrun {0} has initialized jobs without an execution snapshot")]
    Unnamed(String),
}

/// Returns the key of one Action call.
pub fn call_site(job: &str, step: &str) -> String {
    format!("{job}\u{0}{step}")
}

impl Snapshot {
    /// Returns the serialized form, equal for equal content.
    ///
    /// # Panics
    ///
    /// Never: the content is text, lists and maps with text keys.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(&self.to_value()).expect("a JSON value serializes")
    }

    /// Returns the serialized form as a JSON value.
    ///
    /// # Panics
    ///
    /// Never: the content is text, lists and maps with text keys.
    pub fn to_value(&self) -> serde_json::Value {
        serde_json::to_value(self).expect("text, lists and text-keyed maps serialize")
    }

    /// Reads a stored snapshot; `name` is `<namespace>/<name>` for messages.
    ///
    /// Unknown members are tolerated.
    ///
    /// # Errors
    ///
    /// Data that is no snapshot, or one without jobs.
    pub fn from_value(name: &str, value: &serde_json::Value) -> Result<Self, SnapshotError> {
        let snapshot = Self::deserialize(value).map_err(|source| SnapshotError::Undecodable {
            name: name.to_owned(),
            source,
        })?;
        if snapshot.spec.jobs.is_empty() {
            return Err(SnapshotError::NoJobs(name.to_owned()));
        }
        Ok(snapshot)
    }

    /// Checks the serialized size.
    ///
    /// # Errors
    ///
    /// Above 1 MiB the definition is refused (W-13).
    pub fn check_size(&self) -> Result<(), Invalid> {
        let bytes = self.to_bytes().len();
        if bytes <= SNAPSHOT_MAX_BYTES {
            return Ok(());
        }
        let limit = SNAPSHOT_MAX_BYTES;
        Err(Problem::SnapshotTooLarge { bytes, limit }.at(Location::default()))
    }
}

#[cfg(test)]
mod tests {
    use kruntimes_core::api::Step;

    use super::*;

    fn sample() -> Snapshot {
        let step = Step {
            name: "s".into(),
            run: Some("\u{0}é${{ x }}".into()),
            ..Step::default()
        };
        let job = |needs: &[&str]| Job {
            runs_on: Some("bash".into()),
            needs: needs.iter().map(|&n| n.into()).collect(),
            steps: vec![step.clone()],
            ..Job::default()
        };
        Snapshot {
            actions: [(call_site("a", "s"), FrozenAction::default())].into(),
            legs: Legs::new(),
            outputs: [("o".to_owned(), Output { value: "v".into() })].into(),
            spec: FrozenSpec {
                jobs: [("b".to_owned(), job(&["a"])), ("a".to_owned(), job(&[]))].into(),
            },
        }
    }

    #[test]
    fn w_51_the_round_trip_is_lossless_and_sorted() {
        let snapshot = sample();
        let value = snapshot.to_value();
        assert_eq!(Snapshot::from_value("ns/n", &value).unwrap(), snapshot);
        let text = String::from_utf8(snapshot.to_bytes()).unwrap();
        assert!(text.starts_with("{\"actions\":{\"a\\u0000s\":"), "{text}");
        let value: serde_json::Map<_, _> = serde_json::from_str(&text).unwrap();
        assert!(value.keys().is_sorted());
        assert!(text.find("\"a\":{\"runs-on\"").unwrap() < text.find("\"b\":{\"needs\"").unwrap());
    }

    #[test]
    fn w_50_empty_members_are_left_out_and_unknown_ones_tolerated() {
        let mut snapshot = sample();
        snapshot.actions.clear();
        snapshot.outputs.clear();
        let mut value = snapshot.to_value();
        assert_eq!(
            value.as_object().unwrap().keys().collect::<Vec<_>>(),
            ["spec"]
        );
        value["spec"]["cancelRequested"] = true.into();
        value["later"] = 1.into();
        assert_eq!(Snapshot::from_value("ns/n", &value).unwrap(), snapshot);
    }

    #[test]
    fn w_54_what_is_no_snapshot_is_refused() {
        let text = |value| {
            Snapshot::from_value("ns/n", &value)
                .unwrap_err()
                .to_string()
        };
        let json = |text: &str| -> serde_json::Value { serde_json::from_str(text).unwrap() };
        assert_eq!(
            text(json("{\"spec\":{}}")),
            "workflow snapshot ns/n has no jobs"
        );
        assert_eq!(
            text(json("{\"spec\":{\"jobs\":1}}")),
            "workflow snapshot ns/n cannot be decoded"
        );
        assert_eq!(text(json("[]")), "workflow snapshot ns/n cannot be decoded");
    }

    #[test]
    fn w_13_the_size_is_bounded() {
        let mut snapshot = sample();
        assert!(snapshot.check_size().is_ok());
        for job in snapshot.spec.jobs.values_mut() {
            job.steps[0].run = Some("x".repeat(600_000));
        }
        let bytes = snapshot.to_bytes().len();
        assert_eq!(
            snapshot.check_size().unwrap_err().to_string(),
            format!("workflow snapshot is {bytes} bytes, exceeds 1048576 byte limit")
        );
    }
}
