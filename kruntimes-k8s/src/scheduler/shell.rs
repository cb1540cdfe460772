//! Watches, queue and workers of the scheduler.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::Pod as ApiPod;
use kruntimes_core::crd::{PersistentWorkspace, Run as ApiRun, Runtime as ApiRuntime};
use kruntimes_core::resources::Amounts;
use kruntimes_sched::{
    Book, Index, Namespace, Placement, Point, Profile, Run, RunUid, Vocabulary, WaitingRoom,
};
use kube::Client;
use kube::runtime::watcher;
use tokio::time::Instant;

use super::events;
use super::intents::{NoPerformer, Performer};
use super::line::Line;
use super::pools::Pools;
use super::recorder::{NoRecorder, Recorder};
use super::writer::Writer;
use super::{Config, seen};
use crate::cache::{Cache, Change, ObjectKey};
use crate::clock::Clock;
use crate::queue::{self, WorkQueue};

/// Index of pending Runs by `<namespace>/<runtime>` (S-26, S-27).
pub(super) const PENDING_BY_RUNTIME: &str = "pending-by-runtime";
/// Index of pending Runs by `<namespace>/<workspace>` (S-26).
pub(super) const PENDING_BY_WORKSPACE: &str = "pending-by-workspace";

/// Everything one scheduler works with.
pub(super) struct Shell {
    client: Client,
    pub(super) writer: Writer,
    pub(super) config: Config,
    pub(super) clock: Clock,
    pub(super) profile: Profile,
    pub(super) recorder: Arc<dyn Recorder>,
    pub(super) performer: Arc<dyn Performer>,
    pub(super) runs: Cache<ApiRun>,
    pub(super) runtimes: Cache<ApiRuntime>,
    pub(super) workspaces: Cache<PersistentWorkspace>,
    pods: Cache<ApiPod>,
    pub(super) queue: WorkQueue<ObjectKey>,
    state: Mutex<State>,
}

/// What is read as one: usage, assumptions and Pods of the same instant (S-33).
#[derive(Debug)]
pub(super) struct State {
    /// The book, and the Pods ordered for quick decisions.
    pub(super) index: Index,
    pub(super) pools: Pools,
    /// Labels and requests of the Runs that were seen.
    pub(super) vocabulary: Vocabulary,
    /// The Runs that wait for a change.
    pub(super) line: Line,
    /// The Runs that wait for a permission.
    pub(super) room: WaitingRoom,
    /// The Runs that have it and are about to be bound.
    pub(super) allowed: BTreeMap<ObjectKey, Placement>,
    /// Binds whose outcome nobody knows yet. Their places stay reserved, and
    /// their Runs are read before anything else is done with them (S-86).
    pub(super) unsettled: BTreeMap<ObjectKey, Placement>,
    /// When the watch told of Runs that are not placed yet.
    pub(super) arrivals: BTreeMap<ObjectKey, Instant>,
}

impl State {
    pub(super) fn new(profile: &Profile) -> Self {
        Self {
            index: Index::for_profile(profile, Book::new()),
            pools: Pools::default(),
            vocabulary: Vocabulary::default(),
            line: Line::default(),
            room: WaitingRoom::default(),
            allowed: BTreeMap::new(),
            unsettled: BTreeMap::new(),
            arrivals: BTreeMap::new(),
        }
    }

    /// Shows a Run to the book.
    fn observe(&mut self, object: &ApiRun) {
        let mut seen = seen::observation(object);
        self.vocabulary.share(Arc::make_mut(&mut seen.run));
        self.index.book_mut().observe(&seen);
    }
}

impl Shell {
    pub(super) fn new(client: Client, config: Config, clock: Clock, profile: Profile) -> Self {
        let state = Mutex::new(State::new(&profile));
        Self {
            writer: Writer::new(client.clone(), config.names.clone()),
            client,
            config,
            clock,
            profile,
            recorder: Arc::new(NoRecorder),
            performer: Arc::new(NoPerformer),
            runs: Cache::trimmed(
                &[
                    (PENDING_BY_RUNTIME, pending_by_runtime),
                    (PENDING_BY_WORKSPACE, pending_by_workspace),
                ],
                seen::trim,
            ),
            runtimes: Cache::default(),
            workspaces: Cache::default(),
            pods: Cache::default(),
            queue: WorkQueue::new(),
            state,
        }
    }

    /// Uses other plugins; nothing may have been seen yet.
    pub(super) fn use_profile(&mut self, profile: Profile) {
        // Nobody reads explanations here, and decisions without them are quick.
        self.profile = profile.without_explanations();
        self.state = Mutex::new(State::new(&self.profile));
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // Plugins panic inside the pure crate, which contains it; the book is whole at every exit.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) async fn run(&self) {
        let namespace = self.config.namespace.as_deref();
        let all = watcher::Config::default;
        let names = &self.config.names;
        let of_runtimes = all().labels(&names.runtime_label);
        let client = || self.client.clone();
        let runs = (self.runs).follow_named(client(), namespace, &names.runs, all());
        let runtimes = (self.runtimes).follow_named(client(), namespace, &names.runtimes, all());
        let workspaces =
            (self.workspaces).follow_named(client(), namespace, &names.workspaces, all());
        let pods = self.pods.follow(client(), namespace, of_runtimes);
        let working = async {
            // Nothing is placed before everything that holds capacity is known (S-125).
            futures::join!(
                self.runs.synced(),
                self.pods.synced(),
                self.runtimes.synced(),
                self.workspaces.synced()
            );
            let workers = self.config.workers;
            let sort = |keys: &mut [ObjectKey]| self.sort(keys);
            let sorts = !self.profile.plugins(Point::QueueSort).is_empty();
            let sort = sorts.then_some(&sort as &queue::Sort<'_, ObjectKey>);
            queue::work_sorted(&self.queue, workers, sort, |key| self.reconcile(key)).await;
        };
        futures::join!(
            consume(runs, |change| self.run_changed(&change)),
            consume(pods, |change| self.pod_changed(&change)),
            consume(runtimes, |change| self.runtime_changed(&change)),
            consume(workspaces, |change| self.workspace_changed(&change)),
            working,
        );
    }

    /// Puts keys into the order of the profile; what is gone costs nothing and goes first.
    fn sort(&self, keys: &mut [ObjectKey]) {
        let mut runs: Vec<Arc<Run>> = Vec::new();
        let mut sorted = Vec::new();
        for key in keys.iter() {
            match self.runs.get(key) {
                Some(run) => runs.push(Arc::new(seen::run(&run, Amounts::new()))),
                None => sorted.push(key.clone()),
            }
        }
        self.profile.sort(&mut runs, self.clock.now());
        let key = |run: &Arc<Run>| ObjectKey::new(run.namespace.as_str(), run.name.as_str());
        sorted.extend(runs.iter().map(key));
        keys.clone_from_slice(&sorted);
    }

    pub(super) fn run_changed(&self, change: &Change<ApiRun>) {
        let (old, new) = parts("Run", change);
        if let (None, Some(new)) = (old, new)
            && self.runs.is_synced()
        {
            let arrivals = &mut self.state().arrivals;
            arrivals.insert(ObjectKey::of(new), Instant::now());
        }
        self.show(old, new);
        if let (Some(gone), None) = (old, new) {
            self.abandon(&ObjectKey::of(gone));
        }
        self.wake(old, events::run_changed(old, new));
        self.attract(events::became_active(old, new));
    }

    /// Takes in the answer to an own write or an own read (read your writes).
    ///
    /// The Run itself is not woken by what its own cycle wrote.
    pub(super) fn written(&self, object: ApiRun) {
        let Some(change) = self.runs.written(object) else {
            return;
        };
        let (old, new) = parts("Run", &change);
        self.show(old, new);
        let mut wakes = events::run_changed(old, new);
        wakes.retain(|wake| !matches!(wake, events::Wake::Run(_)));
        self.wake(old, wakes);
        self.attract(events::became_active(old, new));
    }

    /// Takes in that the API does not know the Run any more.
    pub(super) fn vanished(&self, key: &ObjectKey, uid: Option<&str>) {
        if let Some(change) = self.runs.vanished(key, uid) {
            self.run_changed(&change);
        }
    }

    /// Shows a Run to the book: always the version the cache holds by now, never an older one.
    fn show(&self, old: Option<&ApiRun>, new: Option<&ApiRun>) {
        let Some(any) = new.or(old) else {
            return;
        };
        let key = ObjectKey::of(any);
        let mut state = self.state();
        let current = self.runs.get(&key);
        let known = current.as_ref().and_then(|run| run.metadata.uid.as_ref());
        if let Some(old) = old
            && let Some(uid) = &old.metadata.uid
            && known != Some(uid)
        {
            let uid = RunUid::from(uid.as_str());
            state.index.book_mut().forget(&seen::namespace(old), &uid);
        }
        if !current.as_deref().is_some_and(seen::is_pending) {
            state.line.dismiss(&(&key).into());
            if !current.as_deref().is_some_and(seen::is_active) {
                state.arrivals.remove(&key);
            }
        }
        if let Some(current) = current {
            state.observe(&current);
        }
    }

    /// Shows a dequeued Run to the book (gate 2), or drops what is held for a Run that is gone (gate 1).
    pub(super) fn observed(&self, key: &ObjectKey) -> Option<Arc<ApiRun>> {
        let mut state = self.state();
        let current = self.runs.get(key);
        if let Some(run) = &current {
            state.observe(run);
        } else {
            let namespace = Namespace::from(key.namespace.as_str());
            state.index.book_mut().forget_named(&namespace, &key.name);
        }
        current
    }
}

fn pending_by_runtime(run: &ApiRun) -> Vec<String> {
    if !seen::is_pending(run) || run.spec.runtime.is_empty() {
        return Vec::new();
    }
    let namespace = run.metadata.namespace.as_deref().unwrap_or_default();
    vec![format!("{namespace}/{}", run.spec.runtime)]
}

fn pending_by_workspace(run: &ApiRun) -> Vec<String> {
    let workspace = run
        .spec
        .workspace
        .as_ref()
        .filter(|_| seen::is_pending(run));
    let namespace = run.metadata.namespace.as_deref().unwrap_or_default();
    let value = workspace.map(|workspace| format!("{namespace}/{}", workspace.name));
    value.into_iter().collect()
}

/// Splits a change into before and after; what cannot be decoded is reported and changes nothing.
pub(super) fn parts<'a, K>(kind: &str, change: &'a Change<K>) -> (Option<&'a K>, Option<&'a K>) {
    match change {
        Change::Applied { old, new } => (old.as_deref(), Some(new)),
        Change::Deleted(old) => (Some(old), None),
        Change::Undecodable { key, error } => {
            tracing::warn!(kind, %key, error, "object cannot be decoded, it is ignored");
            (None, None)
        }
        Change::Synced => (None, None),
    }
}

async fn consume<T>(changes: impl Stream<Item = T>, take: impl Fn(T)) {
    let mut changes = std::pin::pin!(changes);
    while let Some(change) = changes.next().await {
        take(change);
    }
}

#[cfg(test)]
mod tests {
    use kruntimes_core::api::{RunPhase, RunSpec, RunStatus};
    use serde_json::json;

    use super::*;

    #[test]
    fn s_26_s_27_only_pending_runs_have_an_index_entry() {
        use RunPhase::{Failed, Finalizing, Pending, Ready, Running, Scheduled, Succeeded};
        let run = |spec: serde_json::Value, phase: Option<RunPhase>| {
            let spec: RunSpec = serde_json::from_value(spec).unwrap();
            let mut run = ApiRun::new("r", spec);
            run.metadata.namespace = Some("ns".into());
            run.status = phase.map(|phase| RunStatus {
                phase,
                ..RunStatus::default()
            });
            run
        };
        let whole = json!({
            "runtime": "python", "mode": {"task": {}}, "workspace": {"name": "w"},
        });
        let bare = json!({"runtime": "", "mode": {"task": {}}});
        for phase in [None, Some(Pending)] {
            let waiting = run(whole.clone(), phase);
            assert_eq!(pending_by_runtime(&waiting), ["ns/python"]);
            assert_eq!(pending_by_workspace(&waiting), ["ns/w"]);
            let bare = run(bare.clone(), phase);
            assert!(pending_by_runtime(&bare).is_empty());
            assert!(pending_by_workspace(&bare).is_empty());
        }
        for phase in [Scheduled, Running, Ready, Finalizing, Succeeded, Failed] {
            let other = run(whole.clone(), Some(phase));
            assert!(pending_by_runtime(&other).is_empty(), "{phase}");
            assert!(pending_by_workspace(&other).is_empty(), "{phase}");
        }
    }
}
