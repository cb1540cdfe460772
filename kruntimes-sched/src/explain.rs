//! A decision in words, for the person who asks why.

use std::fmt;

use serde::Serialize;

use crate::decision::{Action, Decision, Explanation, PodReport, Rejections};
use crate::event::EventKind;
use crate::post_filter::Nomination;
use crate::profile::Profile;

/// Why a Run goes where it goes, or waits (S-144, S-166). Its `Display` form is for terminals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// The whole answer in one sentence.
    pub sentence: String,
    /// How many Pods were looked at.
    pub evaluated: u64,
    /// How many Pods were rejected by whom, for which reason.
    pub rejections: Vec<Rejections>,
    /// What would have to happen for a waiting Run to be looked at again.
    pub events: Vec<EventKind>,
    /// Who would have to go, if a plugin was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nomination: Option<Nomination>,
    /// What every plugin said about every Pod, if that was kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<Explanation>,
}

/// Puts a decision of this profile into words.
pub fn explain(decision: &Decision, profile: &Profile) -> Answer {
    let waits = matches!(decision.action, Action::Wait { .. });
    let by: Vec<&str> = decision.rejections.iter().map(|seen| seen.plugin).collect();
    let events = if waits {
        profile.events_of(&by)
    } else {
        Vec::new()
    };
    Answer {
        sentence: sentence(decision, &events),
        evaluated: decision.evaluated,
        rejections: decision.rejections.clone(),
        events,
        nomination: decision.nomination.clone(),
        pods: decision.explanation.clone(),
    }
}

fn sentence(decision: &Decision, events: &[EventKind]) -> String {
    match &decision.action {
        Action::Bind { pod, scores, .. } => {
            let total = scores.get(pod).copied().unwrap_or_default();
            let candidates = scores.len();
            format!(
                "The Run goes to pod {pod}, the best of {} with {total} points.",
                counted(candidates, "candidate")
            )
        }
        Action::Wait { message, .. } => {
            let cause = cause(decision);
            let hope: Vec<&str> = events.iter().map(|kind| kind.as_str()).collect();
            let hope = match hope.as_slice() {
                [] => "nothing but a change of the Run itself can help".to_owned(),
                hope => format!("it is looked at again when {}", hope.join(", or ")),
            };
            format!("The Run is {message}: {cause}; {hope}.")
        }
        Action::Fail { reason, message } => {
            format!("The Run can never be placed ({reason}): {message}.")
        }
        Action::Retry { error } => {
            format!("The scheduler, not the Run, is at fault and tries again: {error}.")
        }
    }
}

fn cause(decision: &Decision) -> String {
    let pods = usize::try_from(decision.evaluated).unwrap_or(usize::MAX);
    if pods == 0 && decision.rejections.is_empty() {
        return "the pool has no pod".to_owned();
    }
    let reasons: Vec<String> = (decision.rejections.iter())
        .map(|seen| match seen.pods {
            0 => seen.reason.to_owned(),
            pods => format!("{pods} {}", seen.reason),
        })
        .collect();
    format!(
        "none of {} fits ({})",
        counted(pods, "pod"),
        reasons.join(", ")
    )
}

fn counted(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.sentence)?;
        for seen in &self.rejections {
            let (pods, reason) = (seen.pods, seen.reason);
            writeln!(f, "  {pods:>5} rejected by {}: {reason}", seen.plugin)?;
        }
        if let Some(nomination) = &self.nomination {
            let victims = nomination.victims.iter();
            let names: Vec<&str> = victims.map(|victim| victim.name.as_str()).collect();
            let pod = &nomination.pod;
            writeln!(f, "  room on pod {pod} if these end: {}", names.join(", "))?;
        }
        for (pod, report) in self.pods.iter().flat_map(|all| &all.pods) {
            match report {
                PodReport::Rejected { plugin, reason } => {
                    writeln!(f, "  {pod}: {reason} ({plugin})")?;
                }
                PodReport::Scored { total, scores } => {
                    write!(f, "  {pod}: {total}")?;
                    for part in scores {
                        let (plugin, raw) = (part.plugin, part.raw);
                        let (normalized, weight) = (part.normalized, part.weight);
                        write!(f, "  {plugin} {normalized} x {weight} (raw {raw})")?;
                    }
                    writeln!(f)?;
                }
            }
        }
        Ok(())
    }
}
