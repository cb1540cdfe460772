//! Conditions: a bounded list of typed facts about one object.

use serde::{Deserialize, Serialize};

use crate::time::Time;

/// One fact about an object, keyed by `type` (API reference, section 1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(transform = crate::crd::scalar::condition)
)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What the fact is about.
    #[serde(rename = "type")]
    pub condition_type: String,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// Machine-readable cause, in CamelCase.
    pub reason: String,
    /// The same for people; may be empty.
    #[serde(default)]
    pub message: String,
    /// When `status` last changed.
    pub last_transition_time: Time,
    /// Generation of the spec the fact was derived from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// Whether a fact holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// Nobody knows.
    Unknown,
}

impl ConditionStatus {
    /// Returns the word the API uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// A fact to be recorded with [`set`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact<'a> {
    /// What the fact is about.
    pub condition_type: &'a str,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// Machine-readable cause.
    pub reason: &'a str,
    /// The same for people.
    pub message: &'a str,
    /// Generation of the spec the fact was derived from.
    pub observed_generation: Option<i64>,
}

impl<'a> Fact<'a> {
    /// Makes a fact without generation.
    pub fn new(
        condition_type: &'a str,
        status: ConditionStatus,
        reason: &'a str,
        message: &'a str,
    ) -> Self {
        Self {
            condition_type,
            status,
            reason,
            message,
            observed_generation: None,
        }
    }

    /// Adds the generation the fact was derived from.
    pub fn observed(mut self, generation: Option<i64>) -> Self {
        self.observed_generation = generation;
        self
    }
}

/// Records a fact and tells whether anything changed.
///
/// The transition time moves only when `status` changes; a new reason or
/// message keeps it (N-9).
pub fn set(conditions: &mut Vec<Condition>, fact: &Fact<'_>, now: Time) -> bool {
    let fresh = |last_transition_time| Condition {
        condition_type: fact.condition_type.to_owned(),
        status: fact.status,
        reason: fact.reason.to_owned(),
        message: fact.message.to_owned(),
        last_transition_time,
        observed_generation: fact.observed_generation,
    };
    let Some(found) = conditions
        .iter_mut()
        .find(|condition| condition.condition_type == fact.condition_type)
    else {
        conditions.push(fresh(now));
        return true;
    };
    let since = if found.status == fact.status {
        found.last_transition_time
    } else {
        now
    };
    let next = fresh(since);
    let changed = *found != next;
    *found = next;
    changed
}

/// Finds a fact by its type.
pub fn get<'a>(conditions: &'a [Condition], condition_type: &str) -> Option<&'a Condition> {
    conditions
        .iter()
        .find(|condition| condition.condition_type == condition_type)
}

/// Tells whether a fact is known to hold.
pub fn is_true(conditions: &[Condition], condition_type: &str) -> bool {
    get(conditions, condition_type).is_some_and(|found| found.status == ConditionStatus::True)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Time {
        Time(jiff::Timestamp::from_second(second).unwrap())
    }

    #[test]
    fn n_9_the_transition_time_moves_only_with_the_status() {
        let mut conditions = Vec::new();
        let running = |status, reason| Fact::new("Running", status, reason, "");
        assert!(set(
            &mut conditions,
            &running(ConditionStatus::True, "Claimed"),
            at(1)
        ));
        assert!(!set(
            &mut conditions,
            &running(ConditionStatus::True, "Claimed"),
            at(2)
        ));
        assert!(set(
            &mut conditions,
            &running(ConditionStatus::True, "Retrying"),
            at(3)
        ));
        assert_eq!(conditions[0].last_transition_time, at(1));
        assert!(set(
            &mut conditions,
            &running(ConditionStatus::False, "Completed"),
            at(4)
        ));
        assert_eq!(conditions[0].last_transition_time, at(4));
        assert_eq!(conditions.len(), 1);
    }
}
