//! API objects as the pure scheduler sees them.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod as ApiPod, PodCondition};
use kruntimes_core::api::{Affinity, Mode, RunPhase, RunSpec, RunStatus, SessionMode};
use kruntimes_core::crd::{PersistentWorkspace, Run as ApiRun};
use kruntimes_core::keys::CONDITION_READY;
use kruntimes_core::resources::{self, Amounts};
use kruntimes_core::retry;
use kruntimes_sched::{
    Gate, Heartbeat, Namespace, Observation, Pod, Run, RunKind, RunState, Waiting, Workspace, gate,
};
use kube::ResourceExt as _;

use super::names::Names;

/// Reads a Run and the request it was judged to have.
pub fn run(object: &ApiRun, request: Amounts) -> Run {
    let spec = &object.spec;
    let status = object.status.as_ref();
    let kind = RunKind {
        namespace: namespace(object),
        runtime: spec.runtime.as_str().into(),
        labels: Arc::new(object.labels().clone()),
        request: Arc::new(request),
        affinity: (spec.affinity.as_ref())
            .filter(|affinity| has_terms(affinity))
            .map(|affinity| Arc::new(affinity.clone())),
        workspace: (spec.workspace.as_ref()).map(|workspace| workspace.name.as_str().into()),
        exclusive: spec.mode.session.is_some(),
        priority: 0,
        group: None,
    };
    Run {
        name: object.metadata.name.clone().unwrap_or_default().into(),
        uid: object.metadata.uid.clone().unwrap_or_default().into(),
        attempt: retry::current_attempt(status.and_then(|status| status.attempt)),
        created: (object.metadata.creation_timestamp.as_ref()).map(|time| time.0),
        kind: Arc::new(kind),
    }
}

/// Drops what neither a decision nor a status write needs of a Run.
///
/// A Run that waits keeps its status, against which its next one is written.
/// One that does not is only counted: whoever writes to it reads it anew.
pub fn trim(object: &mut ApiRun) {
    let pending = is_pending(object);
    let meta = &mut object.metadata;
    meta.managed_fields = None;
    meta.annotations = None;
    meta.owner_references = None;
    meta.finalizers = None;
    let spec = &mut object.spec;
    let whole = std::mem::take(spec);
    *spec = RunSpec {
        runtime: whole.runtime,
        mode: Mode {
            session: whole.mode.session.map(|_| SessionMode::default()),
            ..Mode::default()
        },
        retry_policy: whole.retry_policy.filter(|_| pending),
        resources: whole.resources,
        workspace: whole.workspace,
        affinity: whole.affinity.filter(has_terms),
        cancel_requested: whole.cancel_requested,
        termination: whole.termination,
        ..RunSpec::default()
    };
    if !pending && let Some(status) = &mut object.status {
        let whole = std::mem::take(status);
        *status = RunStatus {
            phase: whole.phase,
            attempt: whole.attempt,
            assigned_pod: whole.assigned_pod,
            assigned_pod_uid: whole.assigned_pod_uid,
            ..RunStatus::default()
        };
    }
}

/// Reads the namespace of a Run.
pub fn namespace(object: &ApiRun) -> Namespace {
    object.metadata.namespace.clone().unwrap_or_default().into()
}

fn has_terms(affinity: &Affinity) -> bool {
    [&affinity.run_affinity, &affinity.run_anti_affinity]
        .into_iter()
        .flatten()
        .any(|lists| !lists.required.is_empty() || !lists.preferred.is_empty())
}

/// Reads where a Run stands, for the assumption book (S-13, S-14, S-78).
pub fn observation(object: &ApiRun) -> Observation {
    let status = object.status.as_ref();
    let phase = status.map_or(RunPhase::Pending, |status| status.phase);
    let assigned = status.and_then(|status| filled(status.assigned_pod.as_deref()));
    let state = match assigned {
        Some(pod) if phase.is_active() => RunState::Holding {
            pod: pod.into(),
            pod_uid: status
                .and_then(|status| filled(status.assigned_pod_uid.as_deref()))
                .map(Into::into),
        },
        None if phase == RunPhase::Pending => RunState::Pending,
        Some(_) | None => RunState::Elsewhere,
    };
    // An invalid request contributes nothing, and must not stop the others (S-14).
    let request = resources::request(&object.spec).unwrap_or_default();
    Observation {
        run: Arc::new(run(object, request)),
        state,
    }
}

fn filled(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}

/// Passes a Run through the gates of the scheduler.
pub fn gate_of(names: &Names, object: &ApiRun, now: jiff::Timestamp) -> Gate {
    let status = object.status.as_ref().map(|status| names.gated(status));
    let waiting = Waiting {
        deleting: object.metadata.deletion_timestamp.is_some(),
        spec: &object.spec,
        status: status.as_deref(),
    };
    gate(&waiting, now)
}

/// Tells whether a Run waits for a place.
pub fn is_pending(object: &ApiRun) -> bool {
    let status = object.status.as_ref();
    status.is_none_or(|status| status.phase == RunPhase::Pending)
}

/// Tells whether a Run is in a phase that holds capacity.
pub fn is_active(object: &ApiRun) -> bool {
    let status = object.status.as_ref();
    status.is_some_and(|status| status.phase.is_active())
}

/// Reads a Runtime Pod: capacity, readiness and last sign of life (S-9, S-52).
pub fn pod(names: &Names, object: &ApiPod) -> Pod {
    Pod {
        name: object.metadata.name.clone().unwrap_or_default().into(),
        uid: object.metadata.uid.clone().unwrap_or_default().into(),
        labels: Arc::new(object.labels().clone()),
        capacity: Arc::new(names.capacity_of(object)),
        ready: phase(object) == "Running"
            && object.metadata.deletion_timestamp.is_none()
            && condition(object, CONDITION_READY).is_some_and(is_true),
        heartbeat: heartbeat(names, object),
    }
}

/// Reads where a PersistentWorkspace is and whether it may be used.
pub fn workspace(object: &PersistentWorkspace) -> Workspace {
    let status = object.status.as_ref();
    let bound = |text: Option<&String>| filled(text.map(String::as_str)).map(str::to_owned);
    Workspace {
        name: object.metadata.name.clone().unwrap_or_default().into(),
        runtime: object.spec.runtime.as_str().into(),
        phase: status.map(|status| status.phase).unwrap_or_default(),
        deleting: object.metadata.deletion_timestamp.is_some(),
        bound_pod: bound(status.and_then(|s| s.bound_pod.as_ref())).map(Into::into),
        bound_pod_uid: bound(status.and_then(|s| s.bound_pod_uid.as_ref())).map(Into::into),
    }
}

pub(super) fn phase(object: &ApiPod) -> &str {
    let status = object.status.as_ref();
    status
        .and_then(|status| status.phase.as_deref())
        .unwrap_or_default()
}

pub(super) fn condition<'a>(object: &'a ApiPod, kind: &str) -> Option<&'a PodCondition> {
    let conditions = object.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == kind)
}

fn is_true(condition: &PodCondition) -> bool {
    condition.status == "True"
}

fn heartbeat(names: &Names, object: &ApiPod) -> Heartbeat {
    condition(object, &names.heartbeat_condition)
        .filter(|condition| is_true(condition))
        .and_then(|condition| condition.last_probe_time.as_ref())
        .map_or(Heartbeat::Missing, |probe| Heartbeat::At(probe.0))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PodStatus;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use kruntimes_core::api::{Condition, RunAffinity};
    use kruntimes_core::condition::ConditionStatus;
    use kruntimes_core::keys::POD_RUNTIMED_READY;

    use super::*;

    fn at(second: i64) -> jiff::Timestamp {
        jiff::Timestamp::from_second(second).unwrap()
    }

    fn pod_condition(kind: &str, status: &str) -> PodCondition {
        PodCondition {
            type_: kind.into(),
            status: status.into(),
            last_probe_time: Some(Time(at(7))),
            ..PodCondition::default()
        }
    }

    fn ready_pod() -> ApiPod {
        ApiPod {
            status: Some(PodStatus {
                phase: Some("Running".into()),
                conditions: Some(vec![
                    pod_condition("Ready", "True"),
                    pod_condition(POD_RUNTIMED_READY, "True"),
                ]),
                ..PodStatus::default()
            }),
            ..ApiPod::default()
        }
    }

    fn status(pod: &mut ApiPod) -> &mut PodStatus {
        pod.status.as_mut().unwrap()
    }

    fn conditions(pod: &mut ApiPod) -> &mut Vec<PodCondition> {
        status(pod).conditions.as_mut().unwrap()
    }

    #[test]
    fn s_53_each_defect_of_the_object_makes_the_pod_unready_or_silent() {
        let edited = |edit: fn(&mut ApiPod)| {
            let mut pod = ready_pod();
            edit(&mut pod);
            pod
        };
        let alive = Heartbeat::At(at(7));
        for (case, object, want) in vec![
            ("ready", ready_pod(), (true, alive)),
            (
                "not ready",
                edited(|p| conditions(p)[0].status = "False".into()),
                (false, alive),
            ),
            (
                "no ready condition",
                edited(|p| drop(conditions(p).remove(0))),
                (false, alive),
            ),
            (
                "pending",
                edited(|p| status(p).phase = Some("Pending".into())),
                (false, alive),
            ),
            (
                "terminating",
                edited(|p| p.metadata.deletion_timestamp = Some(Time(at(1)))),
                (false, alive),
            ),
            (
                "no heartbeat",
                edited(|p| drop(conditions(p).pop())),
                (true, Heartbeat::Missing),
            ),
            (
                "false heartbeat",
                edited(|p| conditions(p)[1].status = "False".into()),
                (true, Heartbeat::Missing),
            ),
            (
                "heartbeat without time",
                edited(|p| conditions(p)[1].last_probe_time = None),
                (true, Heartbeat::Missing),
            ),
            ("no status", ApiPod::default(), (false, Heartbeat::Missing)),
        ] {
            let seen = pod(&Names::default(), &object);
            assert_eq!((seen.ready, seen.heartbeat), want, "{case}");
        }
    }

    fn with_status(status: Option<RunStatus>) -> ApiRun {
        let mut run = ApiRun::new("r", RunSpec::default());
        run.status = status;
        run
    }

    #[test]
    fn what_is_kept_of_a_run_is_little_and_decides_alike() {
        let script = "echo ".repeat(2_000);
        let object = |phase: &str| -> ApiRun {
            let object = serde_json::json!({
                "apiVersion": "kruntimes.io/v1alpha1", "kind": "Run",
                "metadata": {
                    "name": "r", "namespace": "ns", "uid": "u", "resourceVersion": "7",
                    "creationTimestamp": "1970-01-01T00:00:09Z", "labels": {"k": "v"},
                    "annotations": {"note": script}, "finalizers": ["f"],
                },
                "spec": {
                    "runtime": "bash", "mode": {"task": {"args": [script]}},
                    "env": [{"name": "A", "value": script}], "workspace": {"name": "w"},
                    "resources": {"requests": {"runs": "2"}},
                    "retryPolicy": {"maxAttempts": 3, "backoff": "9s"},
                },
                "status": {
                    "phase": phase, "attempt": 2, "message": "m",
                    "assignedPod": if phase == "Running" { "p" } else { "" },
                    "conditions": [{
                        "type": "Running", "status": "False", "reason": "PodGone", "message": "",
                        "lastTransitionTime": "1970-01-01T00:00:09Z",
                    }],
                },
            });
            serde_json::from_value(object).unwrap()
        };
        for (phase, status) in [("Pending", true), ("Running", false), ("Succeeded", false)] {
            let whole = object(phase);
            let mut kept = whole.clone();
            trim(&mut kept);
            let gate = |object| gate_of(&Names::default(), object, at(10));
            assert_eq!(gate(&kept), gate(&whole), "{phase}");
            let (seen, want) = (observation(&kept), observation(&whole));
            assert_eq!((seen.run, seen.state), (want.run, want.state), "{phase}");
            assert_eq!(kept.status == whole.status, status, "{phase}");
            let size = serde_json::to_string(&kept).unwrap().len();
            assert!(size < 700, "{phase}: {size}");
        }
    }

    #[test]
    fn s_114_s_157_the_delay_counts_from_the_condition_that_the_names_give() {
        let condition = |kind: &str, second| Condition {
            condition_type: kind.into(),
            status: ConditionStatus::False,
            reason: "PodGone".into(),
            message: String::new(),
            last_transition_time: kruntimes_core::time::Time(at(second)),
            observed_generation: None,
        };
        let mut run = with_status(Some(RunStatus {
            attempt: Some(2),
            conditions: vec![condition("Running", 5_000), condition("Working", 100)],
            ..RunStatus::default()
        }));
        run.spec.runtime = "python".into();
        run.spec.retry_policy = serde_json::from_str(r#"{"backoff": "9s"}"#).unwrap();
        let names = |running: &str| Names {
            running_condition: running.into(),
            ..Names::default()
        };
        let left = |running, second| match gate_of(&names(running), &run, at(second)) {
            Gate::Backoff(left) => left.to_string(),
            other => format!("{other:?}").chars().take(5).collect(),
        };
        assert_eq!(left("Working", 101), "8s");
        assert_eq!(left("Working", 109), "Cycle");
        assert_eq!(left("Running", 5_001), "8s");
        assert_eq!(left("Elsewise", 101), "Cycle");
    }

    #[test]
    fn s_13_a_run_holds_a_pod_while_it_is_active_and_assigned() {
        let assigned = |phase, uid: &str| RunStatus {
            phase,
            assigned_pod: Some("p".into()),
            assigned_pod_uid: Some(uid.into()),
            ..RunStatus::default()
        };
        let holding = |uid: Option<&str>| RunState::Holding {
            pod: "p".into(),
            pod_uid: uid.map(Into::into),
        };
        let unassigned = RunStatus {
            phase: RunPhase::Running,
            ..RunStatus::default()
        };
        for (case, status, want) in [
            ("new", None, RunState::Pending),
            ("pending", Some(RunStatus::default()), RunState::Pending),
            (
                "scheduled",
                Some(assigned(RunPhase::Scheduled, "u")),
                holding(Some("u")),
            ),
            (
                "finalizing",
                Some(assigned(RunPhase::Finalizing, "u")),
                holding(Some("u")),
            ),
            (
                "without uid",
                Some(assigned(RunPhase::Ready, "")),
                holding(None),
            ),
            (
                "pending but assigned",
                Some(assigned(RunPhase::Pending, "u")),
                RunState::Elsewhere,
            ),
            ("active but nowhere", Some(unassigned), RunState::Elsewhere),
            (
                "ended",
                Some(assigned(RunPhase::Failed, "u")),
                RunState::Elsewhere,
            ),
        ] {
            assert_eq!(observation(&with_status(status)).state, want, "{case}");
        }
    }

    #[test]
    fn s_54_a_session_is_exclusive_and_empty_affinity_is_none() {
        let spec = RunSpec {
            mode: Mode {
                session: Some(SessionMode::default()),
                ..Mode::default()
            },
            affinity: Some(Affinity {
                run_affinity: Some(RunAffinity::default()),
                run_anti_affinity: None,
            }),
            ..RunSpec::default()
        };
        let seen = run(&ApiRun::new("r", spec), Amounts::new());
        assert!(seen.exclusive);
        assert_eq!(seen.affinity, None);
    }
}
