//! Which Runs an event wakes, as functions over the object before and after (S-21, S-157).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use kruntimes_core::crd::{PersistentWorkspace, Run, Runtime};
use kruntimes_core::duration::Duration;
use kruntimes_core::keys::CONDITION_READY;
use kruntimes_sched::PodName;
use kube::{Resource, ResourceExt as _};

use super::names::Names;
use super::recorder::Source;
use super::seen;
use crate::cache::ObjectKey;

/// Whom an event wakes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wake {
    /// One Run.
    Run(ObjectKey),
    /// The pending Runs of one Runtime, all of them.
    Pool {
        /// Namespace and name of the Runtime.
        runtime: ObjectKey,
    },
    /// As many pending Runs of one Runtime as there is room for now on one of its Pods (S-163).
    Room {
        /// Namespace and name of the Runtime.
        runtime: ObjectKey,
        /// The Pod.
        pod: PodName,
        /// Why, for the metric.
        source: Source,
    },
}

impl Wake {
    fn room(namespace: Option<String>, runtime: &str, pod: &str, source: Source) -> Self {
        Self::Room {
            runtime: ObjectKey::new(namespace.unwrap_or_default(), runtime),
            pod: pod.into(),
            source,
        }
    }
}

/// Wakes a Run that waits, and offers what it gave up to its pool (S-22).
pub fn run_changed(old: Option<&Run>, new: Option<&Run>) -> Vec<Wake> {
    // A Run of the same name and another UID is the end of one Run and the start of another.
    let (old, new, ended) = match (old, new) {
        (Some(old), Some(new)) if old.metadata.uid != new.metadata.uid => {
            (None, Some(new), Some(old))
        }
        (old, new) => (old, new, None),
    };
    let mut wakes = Vec::new();
    if let Some(new) = new
        && seen::is_pending(new)
        && !new.spec.runtime.is_empty()
    {
        wakes.push(Wake::Run(ObjectKey::of(new)));
    }
    let left = old.filter(|old| seen::is_active(old) && !new.is_some_and(seen::is_active));
    let ended = ended.filter(|ended| seen::is_active(ended));
    wakes.extend(left.into_iter().chain(ended).map(|run| {
        let status = run.status.as_ref();
        let pod = status.and_then(|status| status.assigned_pod.as_deref());
        let (pod, source) = (pod.unwrap_or_default(), Source::CapacityReleased);
        Wake::room(run.namespace(), &run.spec.runtime, pod, source)
    }));
    wakes
}

/// Offers the room of a Pod to its pool when something changed that placement looks at (S-23 to S-25).
pub fn pod_changed(
    names: &Names,
    old: Option<&Pod>,
    new: Option<&Pod>,
    limit: Duration,
) -> Vec<Wake> {
    if let (Some(old), Some(new)) = (old, new)
        && State::of(names, old) == State::of(names, new)
        && !recovered(names, old, new, limit)
    {
        return Vec::new();
    }
    let mut wakes: Vec<Wake> = Vec::new();
    for pod in [old, new].into_iter().flatten() {
        let Some(runtime) = names.runtime_of(pod) else {
            continue;
        };
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let wake = Wake::room(pod.namespace(), runtime, name, Source::RuntimePod);
        if !wakes.contains(&wake) {
            wakes.push(wake);
        }
    }
    wakes
}

/// Wakes the pool of a Runtime that came or went, so that its Runs are told.
pub fn runtime_changed(old: Option<&Runtime>, new: Option<&Runtime>) -> Vec<Wake> {
    match (old, new) {
        (Some(_), Some(_)) | (None, None) => Vec::new(),
        (Some(one), None) | (None, Some(one)) => {
            let runtime = ObjectKey::of(one);
            vec![Wake::Pool { runtime }]
        }
    }
}

/// Returns the Run if it became active, and with that a target of affinity.
pub fn became_active<'a>(old: Option<&Run>, new: Option<&'a Run>) -> Option<&'a Run> {
    let same = |old: &&Run| new.is_some_and(|new| new.metadata.uid == old.metadata.uid);
    let was_active = old.filter(same).is_some_and(seen::is_active);
    new.filter(|new| !was_active && seen::is_active(new))
}

/// Returns the workspace that came, went or changed, so that the Runs that reference it are woken.
pub fn workspace_changed(
    old: Option<&PersistentWorkspace>,
    new: Option<&PersistentWorkspace>,
) -> Option<ObjectKey> {
    new.or(old).map(ObjectKey::of)
}

/// What placement looks at, except for the time of the last probe (S-23).
#[derive(PartialEq, Eq)]
struct State<'a> {
    uid: Option<&'a str>,
    runtime: Option<&'a str>,
    phase: &'a str,
    deleting: bool,
    ready: Option<&'a str>,
    heartbeat: Option<&'a str>,
    capacity: BTreeMap<&'a str, &'a str>,
}

impl<'a> State<'a> {
    fn of(names: &Names, pod: &'a Pod) -> Self {
        let status = |kind| seen::condition(pod, kind).map(|found| found.status.as_str());
        let annotations = pod.annotations().iter();
        Self {
            uid: pod.meta().uid.as_deref(),
            runtime: names.runtime_of(pod),
            phase: seen::phase(pod),
            deleting: pod.metadata.deletion_timestamp.is_some(),
            ready: status(CONDITION_READY),
            heartbeat: status(&names.heartbeat_condition),
            capacity: annotations
                .filter(|(key, _)| key.starts_with(&names.capacity_prefix))
                .map(|(key, value)| (key.as_str(), value.as_str()))
                .collect(),
        }
    }
}

/// Tells whether the probe before was already stale when the new one was made.
fn recovered(names: &Names, old: &Pod, new: &Pod, limit: Duration) -> bool {
    let probe = |pod| {
        let condition = seen::condition(pod, &names.heartbeat_condition)?;
        condition.last_probe_time.as_ref().map(|time| time.0)
    };
    match (probe(old), probe(new)) {
        (Some(before), Some(after)) => limit.after(before) < after,
        (None, Some(_)) => true,
        (Some(_) | None, None) => false,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{PodCondition, PodStatus};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use kruntimes_core::api::{RunPhase, RunSpec, RunStatus};
    use kruntimes_core::keys::POD_RUNTIMED_READY;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(15);

    fn run(phase: RunPhase) -> Run {
        let spec = RunSpec {
            runtime: "python".into(),
            ..RunSpec::default()
        };
        let mut run = Run::new("r", spec);
        run.metadata.namespace = Some("ns".into());
        run.metadata.uid = Some("u".into());
        run.status = Some(RunStatus {
            phase,
            assigned_pod: Some("p".into()),
            ..RunStatus::default()
        });
        run
    }

    fn released() -> Wake {
        Wake::Room {
            runtime: ObjectKey::new("ns", "python"),
            pod: "p".into(),
            source: Source::CapacityReleased,
        }
    }

    fn itself() -> Wake {
        Wake::Run(ObjectKey::new("ns", "r"))
    }

    #[test]
    fn s_22_capacity_is_released_on_leaving_the_holding_phases() {
        use RunPhase::{Failed, Finalizing, Pending, Ready, Running, Scheduled, Succeeded};
        for (from, to, want) in [
            (Scheduled, Succeeded, vec![released()]),
            (Running, Failed, vec![released()]),
            (Finalizing, Succeeded, vec![released()]),
            (Running, Pending, vec![itself(), released()]),
            (Ready, Pending, vec![itself(), released()]),
            (Pending, Scheduled, vec![]),
            (Pending, Pending, vec![itself()]),
            (Running, Running, vec![]),
            (Ready, Ready, vec![]),
            (Failed, Failed, vec![]),
        ] {
            let wakes = run_changed(Some(&run(from)), Some(&run(to)));
            assert_eq!(wakes, want, "{from} to {to}");
        }
        for (phase, want) in [
            (Running, vec![released()]),
            (Ready, vec![released()]),
            (Pending, vec![]),
            (Succeeded, vec![]),
        ] {
            assert_eq!(
                run_changed(Some(&run(phase)), None),
                want,
                "{phase} deleted"
            );
        }
        assert_eq!(run_changed(None, Some(&run(Running))), []);
    }

    #[test]
    fn s_21_a_run_becomes_a_target_once() {
        use RunPhase::{Failed, Pending, Ready, Running, Scheduled};
        for (from, to, want) in [
            (Some(Pending), Scheduled, true),
            (None, Running, true),
            (Some(Scheduled), Running, false),
            (Some(Running), Ready, false),
            (Some(Running), Failed, false),
            (Some(Pending), Pending, false),
        ] {
            let (old, new) = (from.map(run), run(to));
            let target = became_active(old.as_ref(), Some(&new));
            assert_eq!(target.is_some(), want, "{from:?} to {to}");
        }
        let mut namesake = run(Running);
        namesake.metadata.uid = Some("other".into());
        assert!(became_active(Some(&run(Running)), Some(&namesake)).is_some());
        assert!(became_active(Some(&run(Running)), None).is_none());
    }

    #[test]
    fn s_128_a_new_run_wakes_itself_unless_it_names_no_runtime() {
        let mut new = run(RunPhase::Pending);
        assert_eq!(run_changed(None, Some(&new)), [itself()]);
        new.status = None;
        assert_eq!(run_changed(None, Some(&new)), [itself()]);
        new.spec.runtime.clear();
        assert_eq!(run_changed(None, Some(&new)), []);
    }

    #[test]
    fn s_133_a_recreated_run_releases_what_its_predecessor_held() {
        let mut new = run(RunPhase::Pending);
        new.metadata.uid = Some("other".into());
        let wakes = run_changed(Some(&run(RunPhase::Running)), Some(&new));
        assert_eq!(wakes, [itself(), released()]);
    }

    fn pod() -> Pod {
        let condition = |kind: &str| PodCondition {
            type_: kind.into(),
            status: "True".into(),
            last_probe_time: Some(Time(jiff::Timestamp::from_second(100).unwrap())),
            ..PodCondition::default()
        };
        let mut pod = Pod::default();
        pod.metadata.name = Some("p".into());
        pod.metadata.namespace = Some("ns".into());
        pod.labels_mut().insert("runtime".into(), "python".into());
        pod.status = Some(PodStatus {
            phase: Some("Running".into()),
            conditions: Some(vec![condition("Ready"), condition(POD_RUNTIMED_READY)]),
            ..PodStatus::default()
        });
        pod
    }

    fn woken(runtime: &str) -> Wake {
        Wake::Room {
            runtime: ObjectKey::new("ns", runtime),
            pod: "p".into(),
            source: Source::RuntimePod,
        }
    }

    fn woken_by(old: Option<&Pod>, new: Option<&Pod>) -> Vec<Wake> {
        pod_changed(&Names::default(), old, new, LIMIT)
    }

    fn conditions(pod: &mut Pod) -> &mut Vec<PodCondition> {
        let status = pod.status.as_mut().unwrap();
        status.conditions.as_mut().unwrap()
    }

    fn probed(second: i64) -> Pod {
        let mut pod = pod();
        let time = jiff::Timestamp::from_second(second).unwrap();
        conditions(&mut pod)[1].last_probe_time = Some(Time(time));
        pod
    }

    #[test]
    fn s_23_s_24_only_the_scheduling_state_wakes_the_pool() {
        let edited = |edit: fn(&mut Pod)| {
            let mut pod = pod();
            edit(&mut pod);
            pod
        };
        let deletion = || Time(jiff::Timestamp::UNIX_EPOCH);
        let mut deleting = pod();
        deleting.metadata.deletion_timestamp = Some(deletion());
        for (case, new, wakes) in vec![
            ("nothing", pod(), false),
            ("heartbeat refreshed", probed(115), false),
            ("heartbeat recovered", probed(116), true),
            (
                "heartbeat lost",
                edited(|p| conditions(p)[1].status = "False".into()),
                true,
            ),
            (
                "not ready",
                edited(|p| conditions(p)[0].status = "False".into()),
                true,
            ),
            (
                "failed",
                edited(|p| p.status.as_mut().unwrap().phase = Some("Failed".into())),
                true,
            ),
            ("deleting", deleting, true),
            (
                "capacity",
                edited(|p| {
                    let key = "kruntimes.io/capacity.runs".to_owned();
                    p.annotations_mut().insert(key, "9".into());
                }),
                true,
            ),
            (
                "another annotation",
                edited(|p| drop(p.annotations_mut().insert("note".into(), "x".into()))),
                false,
            ),
        ] {
            let want = if wakes { vec![woken("python")] } else { vec![] };
            assert_eq!(woken_by(Some(&pod()), Some(&new)), want, "{case}");
        }
        assert_eq!(woken_by(None, Some(&pod())), [woken("python")]);
        assert_eq!(woken_by(Some(&pod()), None), [woken("python")]);
    }

    #[test]
    fn s_25_s_129_the_label_decides_whose_pool_is_woken() {
        let mut moved = pod();
        moved.labels_mut().insert("runtime".into(), "bash".into());
        let mut stray = pod();
        stray.labels_mut().clear();
        let both = woken_by(Some(&pod()), Some(&moved));
        assert_eq!(both, [woken("python"), woken("bash")]);
        assert_eq!(woken_by(Some(&pod()), Some(&stray)), [woken("python")]);
        assert_eq!(woken_by(None, Some(&stray)), []);
        assert_eq!(woken_by(Some(&stray), None), []);
    }
}
