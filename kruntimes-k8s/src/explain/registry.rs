//! Every machine reason: what it means, and what to type next. Works offline.

use std::fmt::Write as _;

use kruntimes_core::crd::Run;
use kube::ResourceExt as _;
use serde::Serialize;

use super::words::namespace_flag;

/// What is known about one reason.
///
/// In the commands `{run}`, `{runtime}`, `{workspace}`, `{pod}` and `{-n}` stand for the names of the Run at hand
/// and the flag of its namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// The reason.
    pub reason: &'static str,
    /// Where it stands: a phase, or the condition it belongs to.
    pub seen: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// Commands to type next.
    pub next: &'static [&'static str],
}

const fn entry_of(
    reason: &'static str,
    seen: &'static str,
    meaning: &'static str,
    next: &'static [&'static str],
) -> Entry {
    Entry {
        reason,
        seen,
        meaning,
        next,
    }
}

const WAITS: &str = "Pending, Scheduled=False";
const ENDED: &str = "Failed, Completed=False";
const LOGS: &[&str] = &["krt logs {run} {-n} --tail 50"];
const RERUN: &[&str] = &["krt get {run} {-n}", "krt rt get {runtime} {-n}"];

/// All reasons, those of waiting Runs first.
pub const ENTRIES: &[Entry] = &[
    entry_of(
        "RuntimeNotFound",
        WAITS,
        "the namespace has no Runtime of the name in spec.runtime",
        &["krt rt ls {-n}"],
    ),
    entry_of(
        "NoReadyPods",
        WAITS,
        "no Pod of the Runtime is running and ready",
        &[
            "krt rt get {runtime} {-n}",
            "kubectl describe pods -l runtime={runtime} {-n}",
        ],
    ),
    entry_of(
        "HeartbeatStale",
        WAITS,
        "Pods are ready, but none has given a sign of life within the limit",
        &["kubectl logs {pod} -c runtimed {-n}"],
    ),
    entry_of(
        "InsufficientCapacity",
        WAITS,
        "every Pod that could take the Run is full; it starts when another Run ends",
        &[
            "krt ls --runtime {runtime} {-n}",
            "krt rt scale {runtime} {-n} --replicas N",
        ],
    ),
    entry_of(
        "RequestExceedsCapacity",
        WAITS,
        "the Run asks for more of a resource than any Pod offers, so it cannot start without a change",
        &["krt rt get {runtime} {-n}", "krt get {run} {-n} -o yaml"],
    ),
    entry_of(
        "UnsatisfiedRunAffinity",
        WAITS,
        "no Pod that could take the Run holds the Runs that its required affinity selects",
        &[
            "krt ls --runtime {runtime} {-n} -o wide",
            "krt get {run} {-n} -o yaml",
        ],
    ),
    entry_of(
        "UnsatisfiedRunAntiAffinity",
        WAITS,
        "every Pod that could take the Run holds a Run that its required anti-affinity selects",
        &[
            "krt ls --runtime {runtime} {-n} -o wide",
            "krt get {run} {-n} -o yaml",
        ],
    ),
    entry_of(
        "WorkspaceNotBound",
        WAITS,
        "the PersistentWorkspace is missing, not bound to a Pod, or of another Runtime",
        &["kubectl describe persistentworkspace {workspace} {-n}"],
    ),
    entry_of(
        "WorkspaceLost",
        WAITS,
        "the Pod that held the data of the PersistentWorkspace is gone, and the data with it",
        &[
            "kubectl get persistentworkspace {workspace} {-n} -o yaml",
            "kubectl delete persistentworkspace {workspace} {-n}",
        ],
    ),
    entry_of(
        "RetryBackoff",
        WAITS,
        "an attempt failed, and the next one waits for its delay",
        &["krt get {run} {-n}"],
    ),
    entry_of(
        "SchedulerSilent",
        "Pending without condition Scheduled",
        "no scheduler has looked at the Run; derived by krt after 5 s",
        &["kubectl get leases --all-namespaces", "krt local status"],
    ),
    entry_of(
        "Placeable",
        "Pending",
        "a Pod could take the Run now; the scheduler has not done so yet",
        &["krt wait {run} {-n}"],
    ),
    entry_of(
        "Assigned",
        "Scheduled=True",
        "the scheduler has chosen a Pod",
        &["krt wait {run} {-n}"],
    ),
    entry_of(
        "NotClaimed",
        "Scheduled",
        "assigned to a Pod, whose runtimed has not taken it; derived by krt after 5 s",
        &[
            "kubectl describe pod {pod} {-n}",
            "kubectl logs {pod} -c runtimed {-n}",
        ],
    ),
    entry_of(
        "Claimed",
        "Running=True",
        "runtimed has taken the Run and executes it",
        &["krt logs {run} {-n} -f"],
    ),
    entry_of(
        "Retrying",
        "Running=True",
        "the next attempt has begun on the same Pod",
        &["krt logs {run} {-n} -f"],
    ),
    entry_of(
        "RunCompleted",
        "Completed=True",
        "the Run succeeded",
        &["krt get {run} {-n}"],
    ),
    entry_of(
        "PrepareSource",
        ENDED,
        "the source could not be cloned, checked out or written",
        LOGS,
    ),
    entry_of(
        "RuntimeError",
        ENDED,
        "the process ended with an error",
        LOGS,
    ),
    entry_of(
        "RuntimeExecute",
        ENDED,
        "the Runtime Server refused the start or did not answer",
        &[
            "kubectl logs {pod} -c runtime {-n}",
            "kubectl describe pod {pod} {-n}",
        ],
    ),
    entry_of(
        "SessionRegister",
        ENDED,
        "the session could not be registered",
        LOGS,
    ),
    entry_of(
        "Timeout",
        "Timeout",
        "the Run took longer than spec.timeout allows",
        LOGS,
    ),
    entry_of(
        "IdleTimeout",
        "Timeout",
        "the function was not called for too long",
        LOGS,
    ),
    entry_of(
        "LeaseExpired",
        "Timeout",
        "the client of the session gave no sign of life",
        LOGS,
    ),
    entry_of(
        "Cancelled",
        "Cancelled",
        "its end was requested",
        &["krt get {run} {-n}"],
    ),
    entry_of(
        "PodGone",
        ENDED,
        "the Pod vanished or was replaced while the Run was on it",
        RERUN,
    ),
    entry_of(
        "PodTerminating",
        ENDED,
        "the Pod was deleted while the Run was on it",
        RERUN,
    ),
    entry_of(
        "PodUnhealthy",
        ENDED,
        "the Pod was not ready, or silent, for too long",
        RERUN,
    ),
    entry_of(
        "ExecutionLost",
        ENDED,
        "the Runtime Server restarted and no longer knew the execution",
        &["kubectl describe pod {pod} {-n}", "krt get {run} {-n}"],
    ),
    entry_of(
        "OutputsInvalid",
        ENDED,
        "the outputs file breaks its grammar: KEY=VALUE lines, or KEY<<MARKER blocks",
        &["krt get {run} {-n} -o yaml"],
    ),
    entry_of(
        "OutputsTooLarge",
        ENDED,
        "the outputs file breaks a limit: 64 keys, key 128 B, value 8 KiB, total 64 KiB",
        &["krt get {run} {-n} -o yaml"],
    ),
    entry_of(
        "ArtifactInvalid",
        ENDED,
        "an artifact was refused: 32 per Run, name 255 B, 1 GiB each, 10 GiB per Run, no links outside",
        LOGS,
    ),
    entry_of(
        "InvalidResources",
        ENDED,
        "a request in spec.resources is no whole number of at least zero",
        &["krt get {run} {-n} -o yaml"],
    ),
    entry_of(
        "InvalidAffinity",
        ENDED,
        "a selector in spec.affinity has no meaning",
        &["krt get {run} {-n} -o yaml"],
    ),
];

/// Finds what is known about a reason.
pub fn entry(reason: &str) -> Option<&'static Entry> {
    ENTRIES.iter().find(|entry| entry.reason == reason)
}

/// The commands to type next for a Run with a reason; looking at the object is always one.
pub(super) fn next(reason: &str, run: &Run) -> Vec<String> {
    let known = entry(reason).map_or(&["krt get {run} {-n} -o yaml"][..], |entry| entry.next);
    let status = run.status.as_ref();
    let pod = status.and_then(|status| status.assigned_pod.as_deref());
    let workspace = run
        .spec
        .workspace
        .as_ref()
        .map_or("", |workspace| &workspace.name);
    let filled = known.iter().map(|command| {
        let command = command
            .replace("{run}", &run.name_any())
            .replace("{runtime}", &run.spec.runtime)
            .replace("{workspace}", workspace)
            .replace("{-n}", &namespace_flag(run));
        match pod {
            Some(pod) => command.replace("{pod}", pod),
            None => command,
        }
    });
    filled.collect()
}

/// Renders an entry for people, with `NAMES` where the Run at hand would be.
pub fn text(entry: &Entry) -> String {
    let mut out = format!("{} ({})\n  {}\n", entry.reason, entry.seen, entry.meaning);
    for command in entry.next {
        let command = command
            .replace("{run}", "RUN")
            .replace("{runtime}", "RUNTIME")
            .replace("{workspace}", "WORKSPACE")
            .replace("{pod}", "POD")
            .replace("{-n}", "-n NAMESPACE");
        let _ = writeln!(out, "  next: {command}");
    }
    out
}

#[cfg(test)]
mod tests {
    use kruntimes_core::retry::reason;

    use super::*;

    #[test]
    fn c_59_c_158_every_reason_has_one_entry_with_a_next_command() {
        let stable = [
            "RuntimeNotFound",
            "NoReadyPods",
            "HeartbeatStale",
            "InsufficientCapacity",
            "RequestExceedsCapacity",
            "UnsatisfiedRunAffinity",
            "UnsatisfiedRunAntiAffinity",
            "WorkspaceNotBound",
            "WorkspaceLost",
            "RetryBackoff",
            "SchedulerSilent",
            reason::PREPARE_SOURCE,
            reason::RUNTIME_EXECUTE,
            reason::RUNTIME_ERROR,
            reason::EXECUTION_LOST,
            reason::TIMEOUT,
            reason::POD_GONE,
            reason::POD_TERMINATING,
            reason::POD_UNHEALTHY,
            reason::CANCELLED,
            reason::OUTPUTS_INVALID,
            reason::OUTPUTS_TOO_LARGE,
            reason::ARTIFACT_INVALID,
            reason::INVALID_RESOURCES,
            reason::INVALID_AFFINITY,
            reason::SESSION_REGISTER,
            reason::IDLE_TIMEOUT,
            reason::LEASE_EXPIRED,
        ];
        for name in stable {
            let entries = ENTRIES.iter().filter(|entry| entry.reason == name);
            let entries: Vec<&Entry> = entries.collect();
            let [entry] = entries.as_slice() else {
                panic!("{name} has {} entries", entries.len())
            };
            assert!(!entry.next.is_empty(), "{name}");
            assert!(!text(entry).contains('{'), "{name}");
        }
        assert_eq!(entry("Nonsense"), None);
    }
}
