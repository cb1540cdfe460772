//! Which workspaces an event concerns (N-260).

use k8s_openapi::api::core::v1::Pod;
use kruntimes_core::crd::{Run, Runtime};
use kruntimes_sched::Heartbeat;
use kube::ResourceExt as _;

use crate::cache::{Change, ObjectKey};
use crate::pool::workspace_in_use;
use crate::scheduler::{Names, seen};

/// Returns the workspaces that a Run begins or ceases to use.
pub(super) fn by_run(change: &Change<Run>) -> Vec<ObjectKey> {
    let (before, after) = match change {
        Change::Applied { old, new } => (
            old.as_deref().and_then(workspace_in_use),
            workspace_in_use(new),
        ),
        Change::Deleted(run) => (workspace_in_use(run), None),
        Change::Undecodable { .. } | Change::Synced => (None, None),
    };
    if before == after {
        return Vec::new();
    }
    before.into_iter().chain(after).collect()
}

/// Returns the Pod whose being there changed: workspaces bound to it may be lost.
pub(super) fn moved_pod(change: &Change<Pod>) -> Option<ObjectKey> {
    let identity = |pod: &Pod| {
        (
            pod.metadata.uid.clone(),
            pod.metadata.deletion_timestamp.is_some(),
        )
    };
    match change {
        Change::Applied {
            old: Some(old),
            new,
        } if identity(old) == identity(new) => None,
        Change::Applied { new: pod, .. } | Change::Deleted(pod) => {
            Some(ObjectKey::of(pod.as_ref()))
        }
        Change::Undecodable { .. } | Change::Synced => None,
    }
}

/// Returns the Runtime of a Pod that a workspace could be bound to.
pub(super) fn offered_runtime(change: &Change<Pod>) -> Option<ObjectKey> {
    let Change::Applied { new, .. } = change else {
        return None;
    };
    let names = Names::default();
    let seen = seen::pod(&names, new);
    let offered = seen.ready && seen.heartbeat != Heartbeat::Missing;
    let runtime = names.runtime_of(new).filter(|_| offered)?;
    Some(ObjectKey::new(new.namespace().unwrap_or_default(), runtime))
}

/// Returns a Runtime that is new or gone; an edited one concerns no workspace.
pub(super) fn runtime_that_came_or_went(change: &Change<Runtime>) -> Option<ObjectKey> {
    match change {
        Change::Applied {
            old: None,
            new: runtime,
        }
        | Change::Deleted(runtime) => Some(ObjectKey::of(runtime.as_ref())),
        Change::Applied { old: Some(_), .. } | Change::Undecodable { .. } | Change::Synced => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kruntimes_core::api::{RunPhase, RunStatus};
    use kruntimes_core::testing::a_run;
    use serde_json::{Value, json};

    use super::*;

    fn run(phase: RunPhase, workspace: Option<&str>) -> Arc<Run> {
        let mut spec = a_run().build();
        spec.workspace = workspace.map(|name| kruntimes_core::api::WorkspaceRef {
            name: name.into(),
            ..Default::default()
        });
        let mut run = Run::new("r", spec);
        run.metadata.namespace = Some("ns".into());
        run.status = Some(RunStatus {
            phase,
            ..RunStatus::default()
        });
        Arc::new(run)
    }

    fn pod(uid: &str, more: &Value) -> Arc<Pod> {
        let mut pod = json!({
            "metadata": {"namespace": "ns", "name": "p", "uid": uid, "labels": {"runtime": "bash"}},
            "status": {"phase": "Running", "conditions": [
                {"type": "Ready", "status": "True"},
                {"type": "kruntimes.io/RuntimedReady", "status": "True", "lastProbeTime": "2026-01-01T00:00:00Z"},
            ]},
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            pod["metadata"][key] = value.clone();
        }
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn n_260_a_run_reaches_its_workspace_when_its_use_begins_and_ends() {
        let cache = vec![ObjectKey::new("ns", "cache")];
        let pending = run(RunPhase::Pending, Some("cache"));
        let running = run(RunPhase::Running, Some("cache"));
        let ended = run(RunPhase::Failed, Some("cache"));
        let applied = |old: Option<&Arc<Run>>, new: &Arc<Run>| {
            by_run(&Change::Applied {
                old: old.cloned(),
                new: Arc::clone(new),
            })
        };
        assert_eq!(applied(None, &pending), cache);
        assert_eq!(applied(Some(&pending), &running), []);
        assert_eq!(applied(Some(&running), &ended), cache);
        assert_eq!(by_run(&Change::Deleted(running)), cache);
        assert_eq!(by_run(&Change::Deleted(ended)), []);
        assert_eq!(applied(None, &run(RunPhase::Running, None)), []);
    }

    #[test]
    fn n_260_a_pod_reaches_what_is_bound_to_it_only_when_it_comes_or_goes() {
        let plain = pod("1", &json!({}));
        let leaving = pod("1", &json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}));
        let other = pod("2", &json!({}));
        let moved = |old: Option<&Arc<Pod>>, new: &Arc<Pod>| {
            moved_pod(&Change::Applied {
                old: old.cloned(),
                new: Arc::clone(new),
            })
            .is_some()
        };
        assert!(moved(None, &plain));
        assert!(!moved(Some(&plain), &plain), "a heartbeat is no move");
        assert!(moved(Some(&plain), &leaving));
        assert!(moved(Some(&plain), &other));
        assert!(moved_pod(&Change::Deleted(plain)).is_some());
    }

    #[test]
    fn n_260_only_a_pod_that_can_be_bound_reaches_the_unbound() {
        let offers = |pod: &Arc<Pod>| {
            offered_runtime(&Change::Applied {
                old: None,
                new: Arc::clone(pod),
            })
        };
        let bash = Some(ObjectKey::new("ns", "bash"));
        assert_eq!(offers(&pod("1", &json!({}))), bash);
        let leaving = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        assert_eq!(offers(&pod("1", &leaving)), None);
        assert_eq!(offers(&pod("1", &json!({"labels": {}}))), None);
    }
}
