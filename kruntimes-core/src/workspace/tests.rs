//! Tables and laws of the workspace turn.

use super::*;

const UID: &str = "workspace-uid";

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn candidate(name: &str) -> Candidate {
    Candidate {
        name: name.into(),
        uid: format!("{name}-uid"),
    }
}

/// A workspace and its surroundings, which a test edits.
#[expect(
    clippy::struct_excessive_bools,
    reason = "the facts of a state, to be edited one by one"
)]
#[derive(Clone)]
struct World {
    spec: PersistentWorkspaceSpec,
    status: PersistentWorkspaceStatus,
    pods: Vec<Candidate>,
    deleting_pods: Vec<String>,
    runtime: bool,
    used: bool,
    deleting: bool,
    held: bool,
    binding: Binding,
    now: i64,
}

impl World {
    fn new(pods: &[&str]) -> Self {
        Self {
            spec: PersistentWorkspaceSpec {
                runtime: "bash".into(),
                ..PersistentWorkspaceSpec::default()
            },
            status: PersistentWorkspaceStatus::default(),
            pods: pods.iter().map(|name| candidate(name)).collect(),
            deleting_pods: Vec::new(),
            runtime: true,
            used: false,
            deleting: false,
            held: true,
            binding: Binding::Immediate,
            now: 100,
        }
    }

    fn ttl(mut self, seconds: i32) -> Self {
        self.spec.ttl_seconds_after_unused = Some(seconds);
        self
    }

    fn step(&self) -> Step {
        let bound = self.status.bound_pod.clone().unwrap_or_default();
        let home = self.pods.iter().find(|pod| pod.name == bound);
        calculate(&State {
            namespace: "ns",
            name: "cache",
            uid: UID,
            generation: Some(1),
            deleting: self.deleting,
            held: self.held,
            spec: &self.spec,
            status: &self.status,
            binding: self.binding,
            runtime_exists: self.runtime,
            home: home.map(|pod| Home {
                uid: &pod.uid,
                deleting: self.deleting_pods.contains(&pod.name),
            }),
            candidates: self.pods.clone(),
            used: self.used,
            now: at(self.now),
        })
    }

    /// Takes a turn and carries it out.
    fn turn(&mut self) -> Step {
        let step = self.step();
        self.status = step.status.clone();
        self.held = match step.action {
            Action::Hold => true,
            Action::LetGo => false,
            Action::None | Action::Delete => self.held,
        };
        step
    }

    fn fact(&self, kind: &str) -> (&str, &str) {
        let found = condition::get(&self.status.conditions, kind).unwrap();
        (found.status.as_str(), &found.reason)
    }
}

#[test]
fn s_103_n_251_the_uid_decides_and_the_order_of_the_pods_does_not() {
    for pods in [["a", "b"], ["b", "a"]] {
        let mut world = World::new(&pods);
        world.turn();
        assert_eq!(world.status.bound_pod.as_deref(), Some("b"));
    }
    let spread = (0..100).map(|n| fnv::index(&format!("{n}"), 4));
    let chosen: std::collections::BTreeSet<usize> = spread.collect();
    assert_eq!(chosen.len(), 4, "every pod is chosen by some workspace");
}

#[test]
fn n_252_a_binding_is_recorded_whole() {
    let mut world = World::new(&["p"]);
    world.turn();
    let status = &world.status;
    assert_eq!(status.phase, WorkspacePhase::Bound);
    assert_eq!(status.runtime.as_deref(), Some("bash"));
    assert_eq!(status.bound_pod.as_deref(), Some("p"));
    assert_eq!(status.bound_pod_uid.as_deref(), Some("p-uid"));
    assert_eq!(status.path.as_deref(), Some("/workspace/persistent/cache"));
    for (kind, want) in [
        ("Accepted", ("True", "Accepted")),
        ("RuntimeReady", ("True", "RuntimeFound")),
        ("Bound", ("True", "Bound")),
        ("InUse", ("False", "Unused")),
    ] {
        assert_eq!(world.fact(kind), want);
    }
    let observed = status.conditions.iter().map(|c| c.observed_generation);
    assert!(observed.into_iter().all(|generation| generation == Some(1)));
}

#[test]
fn n_250_an_unbound_workspace_waits_for_a_candidate() {
    let mut world = World::new(&[]);
    world.turn();
    assert_eq!(world.status.phase, WorkspacePhase::Pending);
    assert_eq!(world.fact("Bound"), ("False", "NoReadyRuntimePods"));
    world.pods.push(candidate("late"));
    world.turn();
    assert_eq!(world.status.bound_pod.as_deref(), Some("late"));
}

#[test]
fn n_251_the_choice_is_made_once() {
    let mut world = World::new(&["m"]);
    world.turn();
    world.pods.extend(["a", "z"].map(candidate));
    world.now += 1;
    let before = world.status.clone();
    assert_eq!(world.turn().status, before);
}

#[test]
fn s_104_n_253_a_bound_workspace_is_lost_with_its_pod_and_for_good() {
    let bound = {
        let mut world = World::new(&["p"]);
        world.turn();
        world
    };
    let happen = |world: &mut World, reason: &str| match reason {
        "BoundPodDeleted" => world.pods.clear(),
        "BoundPodReplaced" => world.pods[0].uid = "other".into(),
        _ => world.deleting_pods.push("p".into()),
    };
    for reason in ["BoundPodDeleted", "BoundPodReplaced", "BoundPodDeleting"] {
        let mut world = bound.clone();
        happen(&mut world, reason);
        world.turn();
        assert_eq!(world.status.phase, WorkspacePhase::Lost, "{reason}");
        assert_eq!(world.fact("Bound"), ("False", reason));
        // The very Pod comes back, and others with it.
        world.pods = ["p", "q"].map(candidate).into();
        world.deleting_pods.clear();
        world.turn();
        assert_eq!(world.status.phase, WorkspacePhase::Lost, "{reason}");
        assert_eq!(
            world.fact("Bound"),
            ("False", reason),
            "the first reason stays"
        );
        assert_eq!(world.status.bound_pod_uid.as_deref(), Some("p-uid"));
    }
}

#[test]
fn n_253_a_missing_runtime_changes_the_condition_only() {
    let mut world = World::new(&["p"]);
    world.turn();
    world.runtime = false;
    world.turn();
    assert_eq!(world.status.phase, WorkspacePhase::Bound);
    assert_eq!(world.fact("RuntimeReady"), ("False", "RuntimeNotFound"));
    let told = condition::get(&world.status.conditions, "RuntimeReady").unwrap();
    assert_eq!(told.message, "Runtime \"bash\" does not exist");
}

#[test]
fn n_255_the_last_use_is_recorded_once_per_use() {
    let mut world = World::new(&["p"]);
    world.turn();
    let used_at = |world: &World| world.status.last_used_time.map(|time| time.0.as_second());
    assert_eq!(used_at(&world), Some(100), "never used: found unused");
    world.now = 150;
    world.turn();
    assert_eq!(used_at(&world), Some(100), "a repeated turn moves nothing");
    (world.now, world.used) = (200, true);
    world.turn();
    assert_eq!(world.fact("InUse"), ("True", "ActiveRuns"));
    assert_eq!(used_at(&world), Some(100));
    (world.now, world.used) = (300, false);
    world.turn();
    assert_eq!(used_at(&world), Some(300));
    world.now = 400;
    world.turn();
    assert_eq!(used_at(&world), Some(300));
}

#[test]
fn n_256_an_unused_workspace_is_released_and_then_deleted() {
    let mut world = World::new(&["p"]).ttl(60);
    world.used = true;
    assert_eq!(world.turn().again, None);
    (world.now, world.used) = (200, false);
    assert_eq!(world.turn().again, Some(at(260)));
    world.now = 259;
    assert_eq!(world.turn().again, Some(at(260)));
    world.now = 260;
    let step = world.turn();
    assert_eq!((step.action, step.again), (Action::None, None));
    assert_eq!(world.status.phase, WorkspacePhase::Released);
    assert_eq!(world.fact("Bound"), ("False", "CleanupRequested"));
    // A Run that comes now is refused by the scheduler; it does not keep the workspace.
    world.used = true;
    let before = world.status.clone();
    let step = world.turn();
    assert_eq!((step.action, step.status), (Action::Delete, before));
}

#[test]
fn n_256_use_and_policy_keep_a_workspace() {
    let aged = |ttl: Option<i32>, policy, used| {
        let mut world = World::new(&["p"]);
        world.spec.ttl_seconds_after_unused = ttl;
        world.spec.cleanup_policy = policy;
        world.turn();
        (world.now, world.used) = (1_000_000, used);
        world.turn();
        world.status.phase
    };
    let (after, retain) = (CleanupPolicy::DeleteAfterTTL, CleanupPolicy::Retain);
    assert_eq!(aged(Some(5), after, false), WorkspacePhase::Released);
    assert_eq!(aged(Some(5), after, true), WorkspacePhase::Bound);
    assert_eq!(aged(Some(5), retain, false), WorkspacePhase::Bound);
    assert_eq!(aged(None, after, false), WorkspacePhase::Bound);
    assert_eq!(aged(Some(0), after, false), WorkspacePhase::Released);
}

#[test]
fn n_256_a_lost_workspace_goes_when_its_time_is_over_and_stays_lost() {
    let mut world = World::new(&["p"]).ttl(60);
    world.turn();
    world.pods.clear();
    let step = world.turn();
    assert_eq!(step.again, Some(at(160)));
    world.now = 160;
    let step = world.turn();
    assert_eq!(step.action, Action::Delete);
    assert_eq!(world.status.phase, WorkspacePhase::Lost);
}

#[test]
fn n_257_the_finalizer_comes_before_the_binding() {
    let mut world = World::new(&["p"]);
    world.held = false;
    assert_eq!(world.turn().action, Action::Hold);
    assert_eq!(world.turn().action, Action::None);
}

#[test]
fn n_257_n_258_only_a_living_pod_holds_up_a_deletion() {
    let bound = {
        let mut world = World::new(&["p"]);
        world.turn();
        world.deleting = true;
        world
    };
    assert_eq!(bound.step().action, Action::None, "the daemon cleans up");
    assert_eq!(bound.step().status, bound.status);
    let mut gone = bound.clone();
    gone.pods.clear();
    assert_eq!(gone.step().action, Action::LetGo);
    let mut replaced = bound.clone();
    replaced.pods[0].uid = "other".into();
    assert_eq!(replaced.step().action, Action::LetGo);
    let mut leaving = bound.clone();
    leaving.deleting_pods.push("p".into());
    assert_eq!(leaving.step().action, Action::LetGo);
    let mut never = World::new(&[]);
    never.deleting = true;
    assert_eq!(never.step().action, Action::LetGo);
    never.held = false;
    assert_eq!(never.step().action, Action::None);
}

#[test]
fn s_105_a_workspace_may_wait_for_its_first_run() {
    let mut world = World::new(&["p"]);
    world.binding = Binding::WaitForFirstRun;
    world.turn();
    assert_eq!(world.status.phase, WorkspacePhase::Pending);
    assert_eq!(world.fact("Bound"), ("False", "WaitForFirstRun"));
    world.status.bound_pod = Some("p".into());
    world.status.bound_pod_uid = Some("p-uid".into());
    world.turn();
    assert_eq!(world.status.phase, WorkspacePhase::Bound);
}

/// A turn that was carried out leaves nothing to do until something new is seen; final phases stay.
#[test]
fn n_260_every_state_settles() {
    let mut worlds = 0;
    for pods in [&[][..], &["p"], &["a", "b", "c"]] {
        for ttl in [None, Some(0), Some(30)] {
            for flags in 0..16_u8 {
                let mut world = World::new(pods);
                world.spec.ttl_seconds_after_unused = ttl;
                world.used = flags & 1 != 0;
                world.runtime = flags & 2 != 0;
                world.held = flags & 4 != 0;
                world.turn();
                if flags & 8 != 0 {
                    world.pods.clear();
                }
                for _ in 0..3 {
                    world.turn();
                    world.now += 7;
                }
                let before = world.clone();
                let step = world.turn();
                let ended = step.action == Action::Delete;
                assert!(ended || step.action == Action::None, "{step:?}");
                assert_eq!(world.status, before.status);
                worlds += 1;
            }
        }
    }
    assert_eq!(worlds, 144);
}
