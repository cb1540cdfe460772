//! Runs, Pods and snapshots that read like a sentence, for tests of plugins (S-152).
//!
//! ```
//! use kruntimes_sched::testing::{a_pod, a_run, a_snapshot, winner};
//! use kruntimes_sched::plugins;
//!
//! let snapshot = a_snapshot()
//!     .pod(a_pod("busy").offers("runs", 2).holds(a_run("other")))
//!     .pod(a_pod("idle").offers("runs", 2));
//! let profile = plugins::standard().build()?;
//! assert_eq!(winner(&snapshot.decide(&a_run("mine"), &profile)), Some("idle"));
//! # Ok::<(), kruntimes_sched::ProfileError>(())
//! ```

use std::sync::Arc;

use jiff::Timestamp;
use kruntimes_core::api::{Affinity, RunAffinity, RunAffinityTerm, WeightedRunAffinityTerm};
use kruntimes_core::keys::TOPOLOGY_RUNTIME_POD;
use kruntimes_core::label::LabelSelector;
use kruntimes_core::quantity::Quantity;
use kruntimes_core::resources::Amounts;

use crate::book::{Book, Observation, RunState};
use crate::calculate::calculate;
use crate::decision::{Action, Decision};
use crate::identity::{Namespace, PodUid};
use crate::pod::{Heartbeat, Pod};
use crate::profile::Profile;
use crate::run::{Labels, Run};
use crate::snapshot::{Nominated, Snapshot};
use crate::workspace::Workspace;

/// Namespace of everything made here.
pub const NAMESPACE: &str = "default";

/// Starts a Run of Runtime `python` with the UID `<name>-uid`.
pub fn a_run(name: &str) -> RunBuilder {
    let mut run = Run::new(NAMESPACE, name, format!("{name}-uid"));
    run.runtime = "python".into();
    RunBuilder(run)
}

/// A [`Run`] in the making.
#[derive(Clone, Debug)]
pub struct RunBuilder(Run);

impl RunBuilder {
    /// Asks for an amount of a resource.
    pub fn asks(mut self, resource: &str, amount: i64) -> Self {
        let request = Arc::make_mut(&mut self.0.request);
        request.insert(resource.to_owned(), Quantity::from_whole(amount));
        self
    }

    /// Adds a label.
    pub fn label(mut self, key: &str, value: &str) -> Self {
        Arc::make_mut(&mut self.0.labels).insert(key.to_owned(), value.to_owned());
        self
    }

    /// Tolerates no neighbour.
    pub fn exclusive(mut self) -> Self {
        self.0.exclusive = true;
        self
    }

    /// Is at a later attempt.
    pub fn attempt(mut self, attempt: i32) -> Self {
        self.0.attempt = attempt;
        self
    }

    /// Lives in another namespace.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.0.namespace = namespace.into();
        self
    }

    /// Has another UID.
    pub fn uid(mut self, uid: &str) -> Self {
        self.0.uid = uid.into();
        self
    }

    /// Wants another Runtime.
    pub fn runtime(mut self, runtime: &str) -> Self {
        self.0.runtime = runtime.into();
        self
    }

    /// References a workspace.
    pub fn workspace(mut self, workspace: &str) -> Self {
        self.0.workspace = Some(workspace.into());
        self
    }

    /// Has affinity.
    pub fn affinity(mut self, affinity: Affinity) -> Self {
        self.0.affinity = Some(Arc::new(affinity));
        self
    }

    /// Must be where a Run with this label is.
    pub fn near(mut self, key: &str, value: &str) -> Self {
        self.towards().required.push(term(key, value));
        self
    }

    /// Must not be where a Run with this label is.
    pub fn far_from(mut self, key: &str, value: &str) -> Self {
        self.away().required.push(term(key, value));
        self
    }

    /// Prefers to be where a Run with this label is.
    pub fn likes(mut self, weight: i32, key: &str, value: &str) -> Self {
        self.towards().preferred.push(weighted(weight, key, value));
        self
    }

    /// Prefers to be where no Run with this label is.
    pub fn dislikes(mut self, weight: i32, key: &str, value: &str) -> Self {
        self.away().preferred.push(weighted(weight, key, value));
        self
    }

    /// Goes before Runs of lower priority.
    pub fn priority(mut self, priority: i32) -> Self {
        self.0.priority = priority;
        self
    }

    /// Came into being at this second since the epoch.
    ///
    /// # Panics
    ///
    /// Panics when there is no such second: tests use seconds that exist.
    pub fn created(mut self, second: i64) -> Self {
        self.0.created = Some(at(second));
        self
    }

    /// Is placed with its group or not at all.
    pub fn group(mut self, group: &str) -> Self {
        self.0.group = Some(group.into());
        self
    }

    fn towards(&mut self) -> &mut RunAffinity {
        let affinity = self.0.affinity.get_or_insert_default();
        Arc::make_mut(affinity).run_affinity.get_or_insert_default()
    }

    fn away(&mut self) -> &mut RunAffinity {
        let affinity = Arc::make_mut(self.0.affinity.get_or_insert_default());
        affinity.run_anti_affinity.get_or_insert_default()
    }

    /// Finishes the Run.
    pub fn build(self) -> Run {
        self.0
    }

    /// Finishes the Run for sharing.
    pub fn shared(self) -> Arc<Run> {
        Arc::new(self.0)
    }
}

/// Makes the affinity term that selects one label.
pub fn term(key: &str, value: &str) -> RunAffinityTerm {
    RunAffinityTerm {
        label_selector: Some(LabelSelector {
            match_labels: [(key.to_owned(), value.to_owned())].into(),
            ..LabelSelector::default()
        }),
        topology_key: TOPOLOGY_RUNTIME_POD.to_owned(),
    }
}

fn weighted(weight: i32, key: &str, value: &str) -> WeightedRunAffinityTerm {
    WeightedRunAffinityTerm {
        weight,
        run_affinity_term: term(key, value),
    }
}

/// Returns an instant by its second since the epoch.
///
/// # Panics
///
/// Panics when there is no such second: tests use seconds that exist.
pub fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a test uses seconds that exist")
}

/// Starts a ready Pod with the UID `<name>-uid` and the implied capacity.
pub fn a_pod(name: &str) -> PodBuilder {
    PodBuilder {
        pod: Pod::new(name, format!("{name}-uid")),
        holds: Vec::new(),
        default_capacity: true,
    }
}

/// A [`Pod`] in the making, with the Runs on it.
#[derive(Clone, Debug)]
pub struct PodBuilder {
    pod: Pod,
    holds: Vec<Run>,
    default_capacity: bool,
}

impl PodBuilder {
    /// Offers an amount of a resource; the first call replaces the implied capacity.
    pub fn offers(mut self, resource: &str, amount: i64) -> Self {
        if std::mem::take(&mut self.default_capacity) {
            self.pod.capacity = Arc::new(Amounts::new());
        }
        let capacity = Arc::make_mut(&mut self.pod.capacity);
        capacity.insert(resource.to_owned(), Quantity::from_whole(amount));
        self
    }

    /// Adds a label.
    pub fn label(mut self, key: &str, value: &str) -> Self {
        let labels: &mut Labels = Arc::make_mut(&mut self.pod.labels);
        labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Is not ready.
    pub fn unready(mut self) -> Self {
        self.pod.ready = false;
        self
    }

    /// Gave this sign of life.
    pub fn heartbeat(mut self, heartbeat: Heartbeat) -> Self {
        self.pod.heartbeat = heartbeat;
        self
    }

    /// Has another UID.
    pub fn uid(mut self, uid: &str) -> Self {
        self.pod.uid = PodUid::from(uid);
        self
    }

    /// Holds an active Run.
    pub fn holds(mut self, run: RunBuilder) -> Self {
        self.holds.push(run.build());
        self
    }

    /// Finishes the Pod without its Runs.
    pub fn build(self) -> Pod {
        self.pod
    }
}

/// Starts a snapshot without Pods at the epoch.
pub fn a_snapshot() -> SnapshotBuilder {
    SnapshotBuilder {
        now: Timestamp::UNIX_EPOCH,
        pods: Vec::new(),
        runtime_exists: true,
        workspace: None,
        nominated: Vec::new(),
    }
}

/// A [`Snapshot`] in the making.
#[derive(Clone, Debug)]
pub struct SnapshotBuilder {
    now: Timestamp,
    pods: Vec<PodBuilder>,
    runtime_exists: bool,
    workspace: Option<Arc<Workspace>>,
    nominated: Vec<Nominated>,
}

impl SnapshotBuilder {
    /// Adds a Pod and the Runs on it.
    pub fn pod(mut self, pod: PodBuilder) -> Self {
        self.pods.push(pod);
        self
    }

    /// Is taken at this second since the epoch.
    ///
    /// # Panics
    ///
    /// Panics when there is no such second: tests use seconds that exist.
    pub fn at(mut self, second: i64) -> Self {
        self.now = at(second);
        self
    }

    /// Has no object of the Runtime's name.
    pub fn without_runtime(mut self) -> Self {
        self.runtime_exists = false;
        self
    }

    /// Knows the workspace that Runs reference.
    pub fn workspace(mut self, workspace: Workspace) -> Self {
        self.workspace = Some(Arc::new(workspace));
        self
    }

    /// Keeps room on a Pod for a Run that waits.
    pub fn nominates(mut self, run: RunBuilder, pod: &str) -> Self {
        self.nominated.push(Nominated {
            run: run.shared(),
            pod: pod.into(),
        });
        self
    }

    /// Returns a book that has seen every Run on the Pods.
    pub fn book(&self) -> Book {
        let mut book = Book::new();
        for pod in &self.pods {
            for run in &pod.holds {
                book.observe(&active(Arc::new(run.clone()), &pod.pod));
            }
        }
        book
    }

    /// Finishes the snapshot.
    pub fn build(&self) -> Snapshot {
        self.build_from(&self.book())
    }

    /// Finishes the snapshot with what another book knows.
    pub fn build_from(&self, book: &Book) -> Snapshot {
        let pods = self.pods.iter().map(|builder| builder.pod.clone());
        Snapshot::new(self.now, pods, book.view(NAMESPACE))
            .runtime_exists(self.runtime_exists)
            .with_workspace(self.workspace.clone())
            .with_nominated(self.nominated.clone())
    }

    /// Decides where a Run goes.
    pub fn decide(&self, run: &RunBuilder, profile: &Profile) -> Decision {
        calculate(&self.build(), &run.0, profile)
    }
}

/// Makes the observation of a Run that is active on a Pod.
pub fn active(run: Arc<Run>, pod: &Pod) -> Observation {
    Observation {
        run,
        state: RunState::Holding {
            pod: pod.name.clone(),
            pod_uid: Some(pod.uid.clone()),
        },
    }
}

/// Makes the observation of a Run that waits.
pub fn pending(run: Arc<Run>) -> Observation {
    Observation {
        run,
        state: RunState::Pending,
    }
}

/// Makes the observation of a Run that neither waits nor is active.
pub fn elsewhere(run: Arc<Run>) -> Observation {
    Observation {
        run,
        state: RunState::Elsewhere,
    }
}

/// Returns the chosen Pod of a decision.
pub fn winner(decision: &Decision) -> Option<&str> {
    match &decision.action {
        Action::Bind { pod, .. } => Some(pod.as_str()),
        Action::Wait { .. } | Action::Fail { .. } | Action::Retry { .. } => None,
    }
}

/// Returns the total score of a candidate.
pub fn total(decision: &Decision, pod: &str) -> Option<i64> {
    match &decision.action {
        Action::Bind { scores, .. } => scores.get(pod).copied(),
        Action::Wait { .. } | Action::Fail { .. } | Action::Retry { .. } => None,
    }
}

/// Returns the condition reason and the message of a Run that waits.
pub fn waits(decision: &Decision) -> Option<(&'static str, &str)> {
    match &decision.action {
        Action::Wait {
            condition, message, ..
        } => Some((condition, message)),
        Action::Bind { .. } | Action::Fail { .. } | Action::Retry { .. } => None,
    }
}

/// Returns how many Pods a plugin rejected for a reason.
pub fn rejected(decision: &Decision, plugin: &str, reason: &str) -> u64 {
    decision
        .rejections
        .iter()
        .filter(|seen| seen.plugin == plugin && seen.reason == reason)
        .map(|seen| seen.pods)
        .sum()
}

/// The namespace of everything made here, as an identifier.
pub fn namespace() -> Namespace {
    Namespace::from(NAMESPACE)
}
