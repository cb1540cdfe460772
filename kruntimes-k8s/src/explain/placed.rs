//! Why a Run that has a place does not run, and what one that runs is doing.

use k8s_openapi::api::core::v1::Pod;
use kruntimes_core::condition::ConditionStatus;
use kruntimes_core::keys::{CONDITION_RUNNING, CONDITION_RUNTIME_ACCEPTED, CONDITION_SCHEDULED};
use kruntimes_core::life;
use kruntimes_sched::{Book, Namespace};
use kube::ResourceExt as _;

use super::picture::{Picture, SILENT_AFTER};
use super::words::{age, attempt, seconds, since};
use super::{Confidence, Explanation, Options, pods, registry};
use crate::scheduler::seen;

/// Assigned, and nobody has taken it.
pub(super) const NOT_CLAIMED: &str = "NotClaimed";

fn plain(picture: &Picture, reason: &str, summary: String) -> Explanation {
    let run = &picture.run;
    Explanation {
        kind: "Run",
        namespace: run.namespace().unwrap_or_default(),
        name: run.name_any(),
        phase: picture.phase().to_string(),
        reason: reason.to_owned(),
        summary,
        funnel: Vec::new(),
        rejections: Vec::new(),
        evidence: vec![attempt(run)],
        next: registry::next(reason, run),
        confidence: Confidence::Certain,
    }
}

/// Explains a Run that is assigned and not yet claimed (row 10 of C-160).
pub(super) fn scheduled(picture: &Picture, options: &Options) -> Explanation {
    let status = picture.run.status.clone().unwrap_or_default();
    let pod = status.assigned_pod.unwrap_or_default();
    let scheduled = picture.condition(CONDITION_SCHEDULED);
    let waited = scheduled.map_or(0, |one| age(one.last_transition_time.0, picture.now));
    if waited <= SILENT_AFTER {
        let text = format!(
            "assigned to pod {pod} {} ago, about to start there",
            seconds(waited)
        );
        return plain(picture, "Assigned", text);
    }
    let (cause, confidence) = not_claimed(picture, options, &pod);
    let text = format!(
        "assigned to pod {pod} {} ago, not claimed: {cause}",
        seconds(waited)
    );
    let mut told = plain(picture, NOT_CLAIMED, text);
    told.confidence = confidence;
    let found = picture.pods.iter().find(|one| one.name_any() == pod);
    told.evidence.extend(found.and_then(pods::restarts));
    told
}

fn not_claimed(picture: &Picture, options: &Options, name: &str) -> (String, Confidence) {
    let uid = picture
        .run
        .status
        .as_ref()
        .and_then(|status| status.assigned_pod_uid.as_deref());
    let Some(pod) = picture.pods.iter().find(|pod| pod.name_any() == name) else {
        return ("the pod is gone".to_owned(), Confidence::Certain);
    };
    if uid.is_some_and(|uid| pod.uid().as_deref() != Some(uid)) {
        return (
            "the pod was replaced by another of its name".to_owned(),
            Confidence::Certain,
        );
    }
    if let Some(problem) = pods::problem(pod) {
        return (problem, Confidence::Certain);
    }
    let silence = pods::silence(
        std::slice::from_ref(pod),
        options.heartbeat_limit,
        picture.now,
    );
    if !silence.pods.is_empty() {
        let last = silence
            .newest
            .map_or("never".to_owned(), |age| format!("{} ago", seconds(age)));
        return (
            format!("runtimed is silent, last heartbeat {last}"),
            Confidence::Likely,
        );
    }
    if let Some(resource) = missing(picture, pod) {
        return (
            format!("admission waits for {resource} on the pod"),
            Confidence::Likely,
        );
    }
    let text = "runtimed is alive but does not take it; it may lack the right to write the status";
    (text.to_owned(), Confidence::Likely)
}

/// The resource that the other Runs of a Pod leave too little of.
fn missing(picture: &Picture, pod: &Pod) -> Option<String> {
    let request = kruntimes_core::resources::request(&picture.run.spec).ok()?;
    let run = picture.seen_run(request);
    let mut book = Book::new();
    for other in &picture.runs {
        book.observe(&seen::observation(other));
    }
    let pod = pods::seen(pod);
    let held = book.occupancy(&Namespace::from(run.namespace.as_str()), &pod);
    let usage = held.usage_without(&run.uid);
    let short = run.request.iter().find(|(name, asked)| {
        let one = [((*name).clone(), **asked)].into();
        !kruntimes_core::resources::fits(&one, &usage, &pod.capacity)
    });
    short.map(|(name, _)| name.clone())
}

/// Explains a Run that is being executed, waits for its next attempt on the same Pod, or accepts traffic.
pub(super) fn active(picture: &Picture) -> Explanation {
    let status = picture.run.status.clone().unwrap_or_default();
    let pod = status.assigned_pod.clone().unwrap_or_default();
    let running = picture.condition(CONDITION_RUNNING);
    if life::is_in_backoff(&status) {
        let due = life::retry_due(&picture.run.spec, &status, None);
        let left = due.map_or(0, |due| due.as_second() - picture.now.as_second());
        let because = running.map_or("a failure", |running| &running.reason);
        let text = format!(
            "{} in {} after {because}, on pod {pod}",
            attempt(&picture.run),
            seconds(left)
        );
        return plain(picture, "RetryBackoff", text);
    }
    let started = status.start_time;
    let ran = started.map_or_else(String::new, |start| {
        format!(" for {}", since(start, picture.now))
    });
    let phase = picture.phase();
    let reason = running.map_or_else(|| phase.to_string(), |running| running.reason.clone());
    let mut told = plain(picture, &reason, format!("{phase} on pod {pod}{ran}"));
    if let Some(running) = running {
        let since = since(running.last_transition_time, picture.now);
        told.evidence.push(format!(
            "condition Running={}/{reason}, since {since}",
            running.status.as_str()
        ));
    }
    if let Some(limit) = picture.run.spec.timeout {
        told.evidence.push(format!("limit {limit}"));
    }
    if let Some(accepted) = picture.condition(CONDITION_RUNTIME_ACCEPTED) {
        told.evidence.push(match accepted.status {
            ConditionStatus::True => "the Runtime Server has the execution".to_owned(),
            ConditionStatus::False | ConditionStatus::Unknown => {
                format!(
                    "the Runtime Server has not reported the execution ({})",
                    accepted.reason
                )
            }
        });
    }
    if picture.run.spec.cancel_requested {
        told.evidence.push("cancellation was requested".to_owned());
    }
    told
}
