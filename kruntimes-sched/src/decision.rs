//! The value a cycle ends in.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::identity::{PodName, PodUid};
use crate::post_filter::Nomination;

/// What to do with a Run, and why (S-144).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// What to do.
    pub action: Action,
    /// How many Pods were looked at.
    pub evaluated: u64,
    /// How many Pods were rejected, in the order in which the profile declares plugins and reasons (S-47, S-118).
    pub rejections: Vec<Rejections>,
    /// Who could make room, if a plugin was asked and knows (S-160).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nomination: Option<Nomination>,
    /// What every plugin said about every Pod, unless turned off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Explanation>,
}

/// What to do with a Run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Action {
    /// Place it.
    Bind {
        /// Name of the chosen Pod.
        pod: PodName,
        /// UID of the chosen Pod.
        pod_uid: PodUid,
        /// Total score of every candidate.
        scores: BTreeMap<PodName, i64>,
    },
    /// Leave it pending; nothing fits now.
    Wait {
        /// Message for the status (S-112).
        message: String,
        /// Reason of the condition `Scheduled` = `False` (S-111).
        condition: &'static str,
        /// Every reason that was given, in plugin order.
        reasons: Vec<&'static str>,
    },
    /// End it: its own data can never be satisfied.
    Fail {
        /// Failure reason.
        reason: &'static str,
        /// Message for the status.
        message: String,
    },
    /// Repeat the cycle later and leave the Run untouched.
    Retry {
        /// What went wrong.
        error: CycleError,
    },
}

/// Pods rejected by one plugin for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rejections {
    /// The plugin.
    pub plugin: &'static str,
    /// Its declared reason.
    pub reason: &'static str,
    /// Number of Pods; zero for a rejection of the Run as a whole by a pool without Pods.
    pub pods: u64,
}

/// What every plugin said about every Pod. May contain names; statuses and metrics may not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// By Pod.
    pub pods: BTreeMap<PodName, PodReport>,
}

/// What was said about one Pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum PodReport {
    /// A filter rejected it.
    Rejected {
        /// The plugin.
        plugin: &'static str,
        /// Its declared reason.
        reason: &'static str,
    },
    /// It was a candidate.
    Scored {
        /// Sum of weight times normalized score.
        total: i64,
        /// By plugin, in profile order.
        scores: Vec<PluginScore>,
    },
}

/// What one score plugin said about one candidate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PluginScore {
    /// The plugin.
    pub plugin: &'static str,
    /// Score before normalization.
    pub raw: i64,
    /// Score after normalization, 0 to 100.
    pub normalized: i64,
    /// Weight of the plugin.
    pub weight: i64,
}

/// Why a cycle has no result. The Run is not at fault and is not touched (S-40, S-66).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[non_exhaustive]
pub enum CycleError {
    /// A plugin panicked (S-153).
    #[error("plugin \"{plugin}\" panicked")]
    Panicked {
        /// The plugin.
        plugin: &'static str,
    },
    /// A plugin could not prepare for the Run.
    #[error("prepare plugin \"{plugin}\": {cause}")]
    Prepare {
        /// The plugin.
        plugin: &'static str,
        /// What it said.
        cause: String,
    },
    /// A score plugin could not make use of the candidates.
    #[error("pre-score plugin \"{plugin}\": {cause}")]
    PreScore {
        /// The plugin.
        plugin: &'static str,
        /// What it said.
        cause: String,
    },
    /// A plugin failed to look for room.
    #[error("post-filter plugin \"{plugin}\": {cause}")]
    PostFilter {
        /// The plugin.
        plugin: &'static str,
        /// What it said.
        cause: String,
    },
    /// A plugin failed to prepare the write. The place is to be given up.
    #[error("pre-bind plugin \"{plugin}\": {cause}")]
    PreBind {
        /// The plugin.
        plugin: &'static str,
        /// What it said.
        cause: String,
    },
    /// A plugin that took the write upon itself failed. The place is to be given up.
    #[error("bind plugin \"{plugin}\": {cause}")]
    Bind {
        /// The plugin.
        plugin: &'static str,
        /// What it said.
        cause: String,
    },
    /// A filter gave a reason that it did not declare.
    #[error("plugin \"{plugin}\" gave the undeclared reason \"{reason}\"")]
    UndeclaredReason {
        /// The plugin.
        plugin: &'static str,
        /// The reason.
        reason: &'static str,
    },
    /// A score plugin failed on one candidate.
    #[error("score plugin \"{plugin}\" pod \"{pod}\": {cause}")]
    Score {
        /// The plugin.
        plugin: &'static str,
        /// The candidate.
        pod: PodName,
        /// What it said.
        cause: String,
    },
    /// A score plugin failed to normalize.
    #[error("normalize score plugin \"{plugin}\": {cause}")]
    Normalize {
        /// The plugin.
        plugin: &'static str,
        /// What it said.
        cause: String,
    },
    /// A normalized score is outside its range (S-63).
    #[error("score plugin \"{plugin}\" pod \"{pod}\" returned {score} outside 0..100")]
    OutOfRange {
        /// The plugin.
        plugin: &'static str,
        /// The candidate.
        pod: PodName,
        /// The score.
        score: i64,
    },
    /// A total leaves 64 bits (S-64).
    #[error("score plugin \"{plugin}\" overflows total score")]
    Overflow {
        /// The plugin that tipped it.
        plugin: &'static str,
    },
    /// Scoring was asked for without candidates (S-67).
    #[error("no candidates to score")]
    NoCandidates,
}
