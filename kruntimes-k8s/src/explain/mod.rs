//! Why a Run or a WorkflowRun is in its state: one sentence, the facts behind it, and what to do next (cli, section 3.3).
//!
//! [`Picture::load`] reads what the scheduler reads, [`Picture::explain`] is a pure function of it: for a Run
//! that waits it takes the same snapshot and asks the same [`calculate`](kruntimes_sched::calculate) as the
//! scheduler, and tells apart where each Pod drops out. [`registry`] has an entry for every machine reason.
//!
//! A scheduler with plugins of its own may decide otherwise than the default plugins that are asked here.

mod ended;
mod pending;
mod picture;
mod placed;
mod pods;
mod queue;
pub mod registry;
mod text;
mod words;
mod workflow;

use kruntimes_core::duration::Duration;
use kruntimes_core::label::LabelSelector;
use kruntimes_sched::plugins::{RuntimePodAvailability, standard_with};
use kruntimes_sched::{EventKind, HEARTBEAT_LIMIT, Profile, ProfileError, Stage};
use serde::Serialize;

pub use picture::{LoadError, Picture};
pub use workflow::workflow_run;

/// The answer to "why is it in this state" (C-59).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Kind of the object: `Run` or `WorkflowRun`.
    pub kind: &'static str,
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// Phase of the object.
    pub phase: String,
    /// Machine-readable cause; [`registry::entry`] knows it, unless a plugin made it up.
    pub reason: String,
    /// The cause in one sentence without full stop.
    pub summary: String,
    /// Where the Pods of the Runtime drop out; only for a Run that waits for a place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub funnel: Vec<Stage>,
    /// How many Pods were rejected for which reason, and what would change it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rejections: Vec<Loss>,
    /// What the answer rests on, one fact per line.
    pub evidence: Vec<String>,
    /// Commands to type next, the most useful one first.
    pub next: Vec<String>,
    /// How sure the answer is.
    pub confidence: Confidence,
}

/// Pods that were rejected for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Loss {
    /// The reason.
    pub reason: String,
    /// How many Pods; zero when the Run as a whole was rejected and there is no Pod.
    pub pods: usize,
    /// What would have to happen.
    pub change: String,
}

/// How sure an [`Explanation`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// It is what the objects say.
    Certain,
    /// It is the likely reading of what the objects say.
    Likely,
    /// The reason is not known here and is shown raw.
    Unknown,
}

/// How a Run that waits is judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Age from which a heartbeat is stale, as configured at the scheduler.
    pub heartbeat_limit: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            heartbeat_limit: HEARTBEAT_LIMIT,
        }
    }
}

impl Options {
    /// Builds the default plugins, told to explain themselves.
    ///
    /// # Errors
    ///
    /// Returns an error when the default plugins do not form a profile, which is a defect.
    pub fn profile(&self) -> Result<Profile, ProfileError> {
        let availability = RuntimePodAvailability::new(self.heartbeat_limit);
        standard_with(availability).explain(true).build()
    }
}

/// Writes what has to happen, as a clause.
fn change(events: &[EventKind]) -> String {
    let words: Vec<&str> = events.iter().map(|kind| kind.as_str()).collect();
    if words.is_empty() {
        return "a change of the Run itself".to_owned();
    }
    words.join(", or ")
}

/// Writes a selector as kubectl does.
fn selector(stated: Option<&LabelSelector>) -> String {
    let Some(selector) = stated else {
        return "(none)".to_owned();
    };
    let labels = selector.match_labels.iter();
    let mut parts: Vec<String> = labels
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    for needs in &selector.match_expressions {
        let (key, values) = (&needs.key, needs.values.join(","));
        parts.push(match needs.operator.as_str() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.clone(),
            "DoesNotExist" => format!("!{key}"),
            other => format!("{key} {other} ({values})"),
        });
    }
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use kruntimes_core::label::LabelRequirement;

    use super::*;

    #[test]
    fn selectors_read_as_in_kubectl() {
        let needs = |key: &str, operator: &str, values: &[&str]| LabelRequirement {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values: values.iter().map(|&value| value.to_owned()).collect(),
        };
        let stated = LabelSelector {
            match_labels: [("app".to_owned(), "x".to_owned())].into(),
            match_expressions: vec![
                needs("tier", "In", &["a", "b"]),
                needs("old", "DoesNotExist", &[]),
                needs("new", "Exists", &[]),
            ],
        };
        assert_eq!(selector(Some(&stated)), "app=x,tier in (a,b),!old,new");
    }
}
