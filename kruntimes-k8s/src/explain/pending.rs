//! Why a Run waits for a place.

use kruntimes_core::keys::{CONDITION_RUNNING, CONDITION_SCHEDULED};
use kruntimes_core::message::quoted;
use kruntimes_core::nearest;
use kruntimes_core::resources::{Amounts, RUNS};
use kruntimes_sched::{
    Action, Decision, Gate, Profile, ProfileError, Snapshot, Stage, calculate, funnel, supplies,
    term_outlooks,
};
use kube::ResourceExt as _;

use super::picture::Picture;
use super::queue::Queue;
use super::words::{age, attempt, counted, seconds, since};
use super::{Confidence, Explanation, Loss, Options, change, pods, registry, selector};
use crate::scheduler::{Names, REEXAMINE_AFTER, seen};

/// A Run that is not looked at by anybody.
pub(super) const SCHEDULER_SILENT: &str = "SchedulerSilent";
/// A Run that would be placed now.
pub(super) const PLACEABLE: &str = "Placeable";

/// Explains a Run that waits.
pub(super) fn explain(picture: &Picture, options: &Options) -> Result<Explanation, ProfileError> {
    let mut told = match seen::gate_of(&Names::default(), &picture.run, picture.now) {
        Gate::Ignore if picture.run.metadata.deletion_timestamp.is_some() => {
            let finalizers = picture.run.finalizers().join(", ");
            plain(
                picture,
                "Deleting",
                format!("it is being deleted and is held by: {finalizers}"),
            )
        }
        Gate::Ignore => plain(
            picture,
            "RuntimeNotFound",
            "spec.runtime is empty".to_owned(),
        ),
        Gate::Cancel => {
            let text = "its end was requested; the scheduler ends it when it looks at it";
            plain(picture, "Cancelled", text.to_owned())
        }
        Gate::Invalid(invalid) => plain(picture, "InvalidResources", invalid.to_string()),
        Gate::Backoff(left) => {
            let left = left.as_nanos().max(0).div_euclid(1_000_000_000) + 1;
            let because = picture.condition(CONDITION_RUNNING);
            let reason = because.map_or("a failure", |running| &running.reason);
            let text = format!(
                "{} in {} after {reason}",
                attempt(&picture.run),
                seconds(left)
            );
            plain(picture, "RetryBackoff", text)
        }
        Gate::Cycle(request) => cycle(picture, options, request)?,
    };
    told.evidence.extend(told_so_far(picture, &told.reason));
    if picture.is_silent() {
        return Ok(silent(picture, told));
    }
    Ok(told)
}

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
        evidence: Vec::new(),
        next: registry::next(reason, run),
        confidence: Confidence::Certain,
    }
}

/// What the object itself says about its waiting.
fn told_so_far(picture: &Picture, reason: &str) -> Vec<String> {
    let mut lines = Vec::new();
    match picture.condition(CONDITION_SCHEDULED) {
        Some(scheduled) => {
            let (status, told) = (scheduled.status.as_str(), &scheduled.reason);
            let age = since(scheduled.last_transition_time, picture.now);
            lines.push(format!("condition Scheduled={status}/{told}, since {age}"));
            if told != reason && reason != PLACEABLE {
                lines.push(format!(
                    "the condition says {told}, what is seen now says {reason}"
                ));
            }
        }
        None => lines.push("no condition Scheduled".to_owned()),
    }
    lines.push(attempt(&picture.run));
    lines
}

/// One cycle of the scheduler, told.
fn cycle(
    picture: &Picture,
    options: &Options,
    request: Amounts,
) -> Result<Explanation, ProfileError> {
    let profile = options.profile()?;
    let (snapshot, run) = (picture.snapshot(), picture.seen_run(request));
    let decision = calculate(&snapshot, &run, &profile);
    let stages = funnel(&snapshot, &run, &profile, options.heartbeat_limit);
    let rejections = losses(&decision, &stages, &profile);
    let mut told = match &decision.action {
        Action::Bind { pod, .. } => {
            let text = format!("nothing holds it back any more: it goes to pod {pod} next");
            plain(picture, PLACEABLE, text)
        }
        Action::Wait { condition, .. } => {
            waits(picture, options, &snapshot, &run, &stages, condition)
        }
        Action::Fail { reason, message } => plain(picture, reason, message.clone()),
        Action::Retry { error } => plain(
            picture,
            "SchedulerError",
            format!("the scheduler fails on it: {error}"),
        ),
    };
    let again = seconds(i64::try_from(REEXAMINE_AFTER.as_secs()).unwrap_or(i64::MAX));
    told.evidence.push(match &decision.action {
        Action::Wait { message, .. } => format!(
            "the scheduler says: {message}; it looks again on each such event, at the latest after {again}"
        ),
        Action::Bind { .. } | Action::Fail { .. } | Action::Retry { .. } => {
            kruntimes_sched::explain(&decision, &profile).sentence
        }
    });
    told.funnel = stages;
    told.rejections = rejections;
    Ok(told)
}

/// The rejections as a table, told apart further than the plugins do.
fn losses(decision: &Decision, stages: &[Stage], profile: &Profile) -> Vec<Loss> {
    let of_pods = stages
        .iter()
        .filter(|stage| stage.lost > 0)
        .map(|stage| Loss {
            reason: stage.reason.clone(),
            pods: stage.lost,
            change: change(&stage.events),
        });
    let of_the_run = decision
        .rejections
        .iter()
        .filter(|seen| seen.pods == 0)
        .map(|seen| Loss {
            reason: seen.reason.to_owned(),
            pods: 0,
            change: change(&profile.events_of(&[seen.plugin])),
        });
    of_pods.chain(of_the_run).collect()
}

/// Words the cause of waiting, by the reason of the condition (S-111).
fn waits(
    picture: &Picture,
    options: &Options,
    snapshot: &Snapshot,
    run: &kruntimes_sched::Run,
    stages: &[Stage],
    condition: &str,
) -> Explanation {
    let told = |text: String| plain(picture, condition, text);
    match condition {
        "RuntimeNotFound" => no_runtime(picture, told),
        "NoReadyPods" => no_ready_pods(picture, told),
        "HeartbeatStale" => {
            let silence = pods::silence(&picture.pods, options.heartbeat_limit, picture.now);
            let limit = pods::limit(options.heartbeat_limit);
            let pods = counted(silence.pods.len(), "pod");
            let mut told = told(match silence.newest {
                Some(age) => {
                    format!(
                        "last heartbeat {} ago on {pods} (limit {limit})",
                        seconds(age)
                    )
                }
                None => format!("no heartbeat on {pods} (limit {limit})"),
            });
            let pod = silence.pods.first().map_or("POD", String::as_str);
            told.next = told
                .next
                .iter()
                .map(|next| next.replace("{pod}", pod))
                .collect();
            told.evidence
                .push(format!("silent: {}", silence.pods.join(", ")));
            told
        }
        "RequestExceedsCapacity" => {
            let supplies = supplies(snapshot, run, options.heartbeat_limit);
            let short = supplies.iter().find(|one| one.largest < one.asked);
            told(short.map_or_else(String::new, |one| {
                let (name, asked, largest) = (&one.resource, one.asked, one.largest);
                format!(
                    "requests {name}={asked}, largest pod offers {largest}; it will not start without a change"
                )
            }))
        }
        "UnsatisfiedRunAffinity" | "UnsatisfiedRunAntiAffinity" => affinity(snapshot, run, told),
        "WorkspaceNotBound" | "WorkspaceLost" => workspace(picture, told),
        "InsufficientCapacity" => busy(picture, options, snapshot, run, stages, told),
        _ => {
            let mut raw = told("the scheduler gives a reason that is not known here".to_owned());
            raw.confidence = Confidence::Unknown;
            raw
        }
    }
}

fn no_runtime(picture: &Picture, told: impl Fn(String) -> Explanation) -> Explanation {
    let name = &picture.run.spec.runtime;
    let namespace = picture.run.namespace().unwrap_or_default();
    let names: Vec<&str> = picture.runtimes.iter().map(String::as_str).collect();
    let mut told = told(format!(
        "no Runtime {} in namespace {}",
        quoted(name),
        quoted(&namespace)
    ));
    if let Some(meant) = nearest::nearest(name, names.iter().copied()) {
        told.evidence
            .push(format!("there is a Runtime {}", quoted(meant)));
    } else if let Some(list) = nearest::listed(&names) {
        told.evidence.push(format!("there are: {list}"));
    } else {
        told.evidence
            .push("the namespace has no Runtime at all".to_owned());
    }
    if !picture.elsewhere.is_empty() {
        let list = picture.elsewhere.join(", ");
        told.evidence
            .push(format!("a Runtime of that name is in: {list}"));
    }
    told
}

fn no_ready_pods(picture: &Picture, told: impl Fn(String) -> Explanation) -> Explanation {
    let runtime = picture.runtime.as_ref();
    let wanted = runtime
        .and_then(|runtime| runtime.spec.replicas)
        .unwrap_or(1);
    let wanted = usize::try_from(wanted).unwrap_or(0).max(picture.pods.len());
    let mut told = told(format!(
        "0 of {} ready in Runtime {}",
        counted(wanted, "pod"),
        quoted(&picture.run.spec.runtime)
    ));
    let mut problems = picture.pods.iter().filter_map(pods::problem);
    if let Some(problem) = problems.next() {
        told.evidence.push(problem);
    } else if picture.pods.is_empty() {
        told.evidence.push("the Runtime has no pod yet".to_owned());
    }
    let status = runtime.and_then(|runtime| runtime.status.as_ref());
    let ready = status.into_iter().flat_map(|status| &status.conditions);
    for one in ready.filter(|one| one.condition_type == "Ready") {
        let (status, reason) = (one.status.as_str(), &one.reason);
        told.evidence
            .push(format!("Runtime Ready={status}/{reason}: {}", one.message));
    }
    told
}

fn affinity(
    snapshot: &Snapshot,
    run: &kruntimes_sched::Run,
    told: impl Fn(String) -> Explanation,
) -> Explanation {
    let all = snapshot.pods().len();
    let terms = term_outlooks(snapshot, run);
    let words = terms.iter().map(|term| {
        let kind = if term.away {
            "anti-affinity"
        } else {
            "affinity"
        };
        let selector = selector(term.term.label_selector.as_ref());
        format!(
            "{kind} term {selector} excludes {} of {}",
            term.excludes,
            counted(all, "pod")
        )
    });
    let words: Vec<String> = words.collect();
    let worst = terms
        .iter()
        .enumerate()
        .max_by_key(|(_, term)| term.excludes);
    let worst = worst.map_or(0, |(index, _)| index);
    let mut told = told(words.get(worst).cloned().unwrap_or_default());
    told.evidence.extend(words);
    for term in terms.iter().filter(|term| !term.away && !term.seedable) {
        let selector = selector(term.term.label_selector.as_ref());
        told.evidence.push(if term.excludes == all {
            format!(
                "no active Run matches {selector} on any of the pods, and this Run does not match it itself; \
                 a Run with these labels could start the group"
            )
        } else {
            format!("Runs that match {selector} are on the other pods")
        });
    }
    told
}

fn workspace(picture: &Picture, told: impl Fn(String) -> Explanation) -> Explanation {
    let name = picture
        .run
        .spec
        .workspace
        .as_ref()
        .map_or("", |workspace| &workspace.name);
    let name = quoted(name);
    let Some(found) = &picture.workspace else {
        return told(format!("there is no PersistentWorkspace {name}"));
    };
    let seen = seen::workspace(found);
    let mut told = if seen.runtime.as_str() != picture.run.spec.runtime {
        let (its, asked) = (&seen.runtime, &picture.run.spec.runtime);
        told(format!(
            "workspace {name} belongs to Runtime \"{its}\", the Run asks for \"{asked}\""
        ))
    } else if seen.deleting {
        told(format!("workspace {name} is being deleted"))
    } else {
        match seen.phase {
            kruntimes_core::api::WorkspacePhase::Lost => {
                told(format!("workspace {name}: its pod is gone; data lost"))
            }
            kruntimes_core::api::WorkspacePhase::Released => told(format!(
                "workspace {name} was released and cannot be used again"
            )),
            kruntimes_core::api::WorkspacePhase::Pending => {
                told(format!("workspace {name} unbound"))
            }
            kruntimes_core::api::WorkspacePhase::Bound => told(format!(
                "workspace {name}: its pod is not there or cannot take the Run"
            )),
        }
    };
    told.evidence.push(format!(
        "workspace phase {:?}, pod {}",
        seen.phase,
        seen.bound_pod
            .map_or("none".to_owned(), |pod| pod.to_string())
    ));
    told
}

/// Every place is taken.
fn busy(
    picture: &Picture,
    options: &Options,
    snapshot: &Snapshot,
    run: &kruntimes_sched::Run,
    stages: &[Stage],
    told: impl Fn(String) -> Explanation,
) -> Explanation {
    let is_short = |resource: &str| {
        let reason = format!("Insufficient {resource}");
        stages
            .iter()
            .any(|stage| stage.lost > 0 && stage.reason == reason)
    };
    let supplies = supplies(snapshot, run, options.heartbeat_limit);
    let short = supplies.iter().find(|one| is_short(&one.resource));
    let queue = Queue::of(picture);
    let cause = match short {
        Some(one) => {
            let noun = if one.resource == RUNS {
                "slots"
            } else {
                &one.resource
            };
            format!("{} of {} {noun} used", one.used, one.offered)
        }
        None => "every pod is held exclusively, or would have to be".to_owned(),
    };
    let position = queue.position;
    let rate = queue.rate();
    let mut told = told(format!("{cause}, queue position {position}, {rate}"));
    told.evidence.push(format!(
        "position {position} of {} that wait for Runtime {}, by age",
        counted(queue.waiting, "Run"),
        quoted(&picture.run.spec.runtime)
    ));
    if let Some(one) = short {
        let (asked, name) = (one.asked, &one.resource);
        told.evidence
            .push(format!("it asks for {asked} {name} on one pod"));
    }
    told
}

/// A Run that nobody has looked at (row 9 of C-160).
fn silent(picture: &Picture, would_be: Explanation) -> Explanation {
    let created = picture.run.metadata.creation_timestamp.as_ref();
    let waited = created.map_or(0, |time| age(time.0, picture.now));
    let text = format!(
        "the scheduler has not looked at this Run for {}",
        seconds(waited)
    );
    let mut told = plain(picture, SCHEDULER_SILENT, text);
    told.confidence = Confidence::Likely;
    told.evidence
        .push("no condition Scheduled: every scheduler writes one within a second".to_owned());
    match &picture.leases {
        None => told
            .evidence
            .push("leases of schedulers cannot be read".to_owned()),
        Some(leases) if leases.is_empty() => {
            told.evidence
                .push("no scheduler holds a lease in this cluster".to_owned());
        }
        Some(leases) => told.evidence.extend(leases.iter().map(|lease| {
            let spec = lease.spec.as_ref();
            let holder = spec
                .and_then(|spec| spec.holder_identity.as_deref())
                .unwrap_or("nobody");
            let renewed = spec.and_then(|spec| spec.renew_time.as_ref());
            let renewed = renewed.map_or("never renewed".to_owned(), |time| {
                format!("renewed {} ago", seconds(age(time.0, picture.now)))
            });
            let namespace = lease.namespace().unwrap_or_default();
            format!(
                "lease {namespace}/{}: held by {holder}, {renewed}",
                lease.name_any()
            )
        })),
    }
    told.evidence.push(attempt(&picture.run));
    let (reason, summary) = (&would_be.reason, &would_be.summary);
    told.evidence.push(format!(
        "a scheduler that looked now would say {reason}: {summary}"
    ));
    Explanation {
        funnel: would_be.funnel,
        rejections: would_be.rejections,
        ..told
    }
}
