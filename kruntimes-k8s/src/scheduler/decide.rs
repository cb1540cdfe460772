//! Where a Run goes: by the index where it can tell, by a look at every Pod of the pool otherwise.

use std::sync::Arc;

use jiff::Timestamp;
use kruntimes_sched::{Decision, Profile, Run, Snapshot, Workspace, calculate};

use super::shell::State;
use crate::cache::ObjectKey;

impl State {
    /// Decides about one Run, at one instant.
    ///
    /// Both ways give the same decision, but for the scores of Pods that lost.
    pub(super) fn decide(
        &mut self,
        profile: &Profile,
        run: &Run,
        workspace: Option<Arc<Workspace>>,
        has_runtime: bool,
        now: Timestamp,
    ) -> Decision {
        let pool = ObjectKey::new(run.namespace.as_str(), run.runtime.as_str());
        // A name that no Pod bears leaves no trace in the index.
        if self.pools.pods(&pool).next().is_some()
            && let Some(quick) = self.quick(profile, run, workspace.as_ref(), has_runtime, now)
        {
            return quick;
        }
        let pods = self.pools.pods(&pool).cloned();
        let view = self.index.book().view(run.namespace.as_str());
        let snapshot = Snapshot::new(now, pods, view)
            .runtime_exists(has_runtime)
            .with_workspace(workspace);
        calculate(&snapshot, run, profile)
    }

    fn quick(
        &mut self,
        profile: &Profile,
        run: &Run,
        workspace: Option<&Arc<Workspace>>,
        has_runtime: bool,
        now: Timestamp,
    ) -> Option<Decision> {
        let namespace = &run.namespace;
        self.index.set_runtime(namespace, &run.runtime, has_runtime);
        if let Some(workspace) = workspace {
            self.index.set_workspace(namespace, Arc::clone(workspace));
        }
        let decision = self.index.quick(run, profile, now);
        if let Some(workspace) = workspace {
            self.index.remove_workspace(namespace, &workspace.name);
        }
        decision
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod as ApiPod;
    use kruntimes_sched::{Action, WorkspaceName, plugins};
    use serde_json::json;

    use super::super::names::Names;
    use super::*;

    fn pod(name: &str, runtime: &str, runs: u32) -> ApiPod {
        let object = json!({
            "metadata": {
                "name": name, "namespace": "ns", "uid": name,
                "labels": {"runtime": runtime},
                "annotations": {"kruntimes.io/capacity.runs": runs.to_string()},
            },
            "status": {"phase": "Running", "conditions": [
                {"type": "Ready", "status": "True"},
                {"type": "kruntimes.io/RuntimedReady", "status": "True",
                 "lastProbeTime": "1970-01-01T00:00:00Z"},
            ]},
        });
        serde_json::from_value(object).unwrap()
    }

    /// Says where a Run of a Runtime goes and whether the index knew.
    fn answer(state: &mut State, profile: &Profile, run: &Run, bound: Option<&str>) -> String {
        let bound = bound.map(|pod| {
            let name = run.workspace.clone().unwrap_or_default();
            Arc::new(Workspace::new(name, run.runtime.clone()).bound(pod, pod))
        });
        let now = Timestamp::UNIX_EPOCH;
        let decision = state.decide(profile, run, bound.clone(), true, now);
        let explained = profile.to_builder().explain(true).build().unwrap();
        let scanned = state.decide(&explained, run, bound, true, now);
        match (decision.action, scanned.action) {
            (Action::Bind { pod, .. }, Action::Bind { pod: other, .. }) => {
                assert_eq!(pod, other);
                pod.to_string()
            }
            (
                Action::Wait { condition, .. },
                Action::Wait {
                    condition: other, ..
                },
            ) => {
                assert_eq!(condition, other);
                condition.to_owned()
            }
            differ => panic!("{differ:?}"),
        }
    }

    #[test]
    fn s_32_s_143_the_index_and_a_look_at_every_pod_agree_while_pods_come_change_and_go() {
        let profile = plugins::standard().explain(false).build().unwrap();
        let mut state = State::new(&profile);
        let names = Names::default();
        let mut bash = Run::new("ns", "r", "r");
        bash.runtime = "bash".into();
        let mut python = bash.clone();
        python.runtime = "python".into();
        let steps = vec![
            (None, None, ["NoReadyPods", "NoReadyPods"]),
            (None, Some(pod("a", "bash", 1)), ["a", "NoReadyPods"]),
            (None, Some(pod("b", "bash", 9)), ["b", "NoReadyPods"]),
            (
                Some(pod("b", "bash", 9)),
                Some(pod("b", "python", 9)),
                ["a", "b"],
            ),
            (
                Some(pod("a", "bash", 1)),
                Some(pod("a", "bash", 0)),
                ["a", "b"],
            ),
            (Some(pod("a", "bash", 0)), None, ["NoReadyPods", "b"]),
        ];
        for (at, (old, new, want)) in steps.into_iter().enumerate() {
            let State {
                pools,
                index,
                vocabulary,
                ..
            } = &mut state;
            pools.change(index, vocabulary, &names, old.as_ref(), new.as_ref());
            let found = [&bash, &python].map(|run| answer(&mut state, &profile, run, None));
            assert_eq!(found, want, "step {at}");
        }
        let quick = (state.index).quick(&python, &profile, Timestamp::UNIX_EPOCH);
        assert!(quick.is_some(), "the index knows the pool");
    }

    #[test]
    fn s_32_a_workspace_is_known_for_the_cycle_that_it_was_read_for() {
        let profile = plugins::standard().explain(false).build().unwrap();
        let mut state = State::new(&profile);
        let names = Names::default();
        for name in ["a", "b"] {
            let State {
                pools,
                index,
                vocabulary,
                ..
            } = &mut state;
            let pod = pod(name, "bash", 9);
            pools.change(index, vocabulary, &names, None, Some(&pod));
        }
        let mut run = Run::new("ns", "r", "r");
        run.runtime = "bash".into();
        run.workspace = Some(WorkspaceName::from("w"));
        let found = [None, Some("b"), Some("c"), None]
            .map(|bound| answer(&mut state, &profile, &run, bound));
        assert_eq!(
            found,
            [
                "WorkspaceNotBound",
                "b",
                "WorkspaceNotBound",
                "WorkspaceNotBound"
            ]
        );
    }
}
