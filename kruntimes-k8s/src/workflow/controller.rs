//! Wiring of the WorkflowRun controller, and one reconcile.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures::{StreamExt as _, stream};
use k8s_openapi::api::apps::v1::ControllerRevision;
use kruntimes_core::api::{CleanupPolicy, WorkflowRunStatus, WorkspaceMode};
use kruntimes_core::crd::{PersistentWorkspace, Run, WorkflowRun};
use kruntimes_core::keys::LABEL_WORKFLOW_RUN_UID;
use kruntimes_core::limits::CALL_DEPTH_MAX;
use kruntimes_core::time::Time;
use kruntimes_workflow::plan::{Policy, State, Step, calculate, merge};
use kruntimes_workflow::snapshot::{Snapshot, SnapshotError};
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::watcher;
use kube::{Client, Resource, ResourceExt as _};
use serde_json::Value;

use super::child::controller_of;
use crate::cache::{Cache, Cached, Change, ObjectKey};
use crate::clock::Clock;
use crate::patch::status_patch;
use crate::queue::{self, Outcome, WorkQueue};

/// Index of children by the UID on their label.
pub(super) const BY_OWNER: &str = "owner";
/// Index of live WorkflowRuns by their concurrency group.
pub(super) const BY_GROUP: &str = "group";

/// Rounds of reading that one decision may take: children, then one per level of calls.
const ROUNDS: usize = 2 + CALL_DEPTH_MAX;

/// What the WorkflowRun controller is told at start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Namespace to serve; all when absent.
    pub namespace: Option<String>,
    /// Choices of the operator.
    pub policy: Policy,
    /// Reconciles at once.
    pub workers: usize,
    /// What workspaces of jobs are like.
    pub shared: Shared,
}

/// What the workspaces that jobs get are like; a Workflow has no say in it (W-124).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shared {
    /// Where their data lives.
    pub mode: WorkspaceMode,
    /// What happens when they expire.
    pub cleanup_policy: CleanupPolicy,
    /// Seconds they are kept after their job is settled; absent keeps them as long as their WorkflowRun.
    pub ttl_seconds: Option<i32>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            namespace: None,
            policy: Policy::default(),
            workers: 8,
            shared: Shared::default(),
        }
    }
}

/// Why one reconcile did not finish. Nothing was patched, and all are repeated (W-17, W-61).
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("the API refused a request")]
    Api(#[from] kube::Error),
    #[error("an object has no JSON form")]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    #[error("workflowrun {0} has no UID")]
    NoUid(ObjectKey),
    #[error("{0} is still held by an object that goes away")]
    NameTaken(ObjectKey),
    #[error("a decision keeps asking for {0}")]
    Undecided(String),
}

/// What became of the status write of a turn.
pub(super) enum Written {
    /// The status is new.
    Changed,
    /// There was nothing to write, or nothing to write it to.
    Nothing,
    /// Somebody else was faster (W-63).
    Conflict,
    /// All is written; a deadline passes then (W-209).
    Due(Time),
}

/// The controller's view of the cluster.
pub(super) struct Shell {
    pub(super) client: Client,
    pub(super) clock: Clock,
    pub(super) policy: Policy,
    pub(super) shared: Shared,
    pub(super) queue: WorkQueue<ObjectKey>,
    pub(super) workflow_runs: Cache<WorkflowRun>,
    pub(super) runs: Cache<Run>,
    pub(super) workspaces: Cache<PersistentWorkspace>,
    pub(super) revisions: Cache<ControllerRevision>,
    /// Held while a member of a concurrency group decides whether to enter.
    pub(super) entrance: tokio::sync::Mutex<()>,
    /// Decoded snapshots by UID of their WorkflowRun. A snapshot is immutable.
    pub(super) decoded: Mutex<BTreeMap<String, Arc<Snapshot>>>,
}

/// Runs WorkflowRuns, for ever. Dropping the future stops it.
pub async fn run(client: Client, config: Config, clock: Clock) {
    let shell = Shell {
        client: client.clone(),
        clock,
        policy: config.policy,
        shared: config.shared,
        queue: WorkQueue::new(),
        workflow_runs: Cache::new(&[(BY_OWNER, owner_uid), (BY_GROUP, live_group)]),
        runs: Cache::new(&[(BY_OWNER, owner_uid)]),
        workspaces: Cache::new(&[(BY_OWNER, owner_uid)]),
        revisions: Cache::default(),
        entrance: tokio::sync::Mutex::default(),
        decoded: Mutex::default(),
    };
    let namespace = config.namespace.as_deref();
    let all = watcher::Config::default();
    // Only what a WorkflowRun may own is kept in memory.
    let labelled = watcher::Config::default().labels(LABEL_WORKFLOW_RUN_UID);
    let workflow_runs = shell
        .workflow_runs
        .follow(client.clone(), namespace, all)
        .flat_map(|change| stream::iter(shell.concerned(&change)));
    let runs = shell
        .runs
        .follow(client.clone(), namespace, labelled.clone())
        .filter_map(|change| std::future::ready(owner_key(&change)));
    let workspaces = shell
        .workspaces
        .follow(client.clone(), namespace, labelled.clone())
        .filter_map(|change| std::future::ready(owner_key(&change)));
    let revisions = shell
        .revisions
        .follow(client, namespace, labelled)
        .filter_map(|change| std::future::ready(owner_key(&change)));
    let keys = stream::select(
        stream::select(workflow_runs, runs),
        stream::select(workspaces, revisions),
    );
    let feed = keys.for_each(|key| {
        shell.queue.add(key);
        std::future::ready(())
    });
    let reconcile = |key| shell.reconcile(key);
    let work = async {
        shell.workflow_runs.synced().await;
        shell.runs.synced().await;
        shell.workspaces.synced().await;
        shell.revisions.synced().await;
        queue::work(&shell.queue, config.workers, reconcile).await;
    };
    futures::join!(feed, work);
}

/// The UID on the label of a child.
fn owner_uid(object: &impl Resource) -> Vec<String> {
    let uid = object.labels().get(LABEL_WORKFLOW_RUN_UID);
    uid.cloned().into_iter().collect()
}

/// The concurrency group of a WorkflowRun that lives (W-203).
fn live_group(object: &WorkflowRun) -> Vec<String> {
    let status = object.status.as_ref();
    let over = status.is_some_and(|status| status.phase.is_terminal());
    let live = !over && object.metadata.deletion_timestamp.is_none();
    group(object)
        .filter(|_| live)
        .map(str::to_owned)
        .into_iter()
        .collect()
}

/// The concurrency group of a WorkflowRun.
pub(super) fn group(object: &WorkflowRun) -> Option<&str> {
    let strategy = object.spec.strategy.as_ref()?;
    Some(strategy.concurrency.as_ref()?.group.as_str())
}

/// Finds the WorkflowRun a changed object belongs to (W-69).
fn owner_key<K: Cached>(change: &Change<K>) -> Option<ObjectKey> {
    let (Change::Applied { new: object, .. } | Change::Deleted(object)) = change else {
        return None;
    };
    let owner = controller_of(object.meta())?;
    let ours = owner.kind == WorkflowRun::kind(&())
        && owner.api_version == WorkflowRun::api_version(&())
        && !owner.name.is_empty();
    ours.then(|| ObjectKey::new(object.namespace().unwrap_or_default(), &owner.name))
}

impl Shell {
    /// Names whom a changed WorkflowRun concerns: itself, and the one that called it.
    fn concerned(&self, change: &Change<WorkflowRun>) -> Vec<ObjectKey> {
        let own = match change {
            Change::Applied { new, .. } => Some(ObjectKey::of(new.as_ref())),
            // One that is gone leaves no memory.
            Change::Deleted(old) => {
                self.forget(old);
                None
            }
            Change::Undecodable { key, error } => {
                tracing::warn!(workflow_run = %key, error, "a WorkflowRun cannot be decoded and is left alone");
                None
            }
            Change::Synced => None,
        };
        let rivals = self.rivals_of(change);
        own.into_iter()
            .chain(owner_key(change))
            .chain(rivals)
            .collect()
    }

    /// Wakes whom an own request has changed; the watch does not report it once more.
    pub(super) fn noted(&self, change: Option<&Change<WorkflowRun>>) {
        for key in change.into_iter().flat_map(|change| self.concerned(change)) {
            self.queue.add(key);
        }
    }

    async fn reconcile(&self, key: ObjectKey) -> Outcome {
        let Some(object) = self.workflow_runs.get(&key) else {
            return Outcome::Done;
        };
        // Who enters a group is decided one after the other, each seeing what the one before has written.
        let enters =
            group(&object).is_some() && object.status.as_ref().is_none_or(|s| s.jobs.is_none());
        let entrance = if enters {
            Some(self.entrance.lock().await)
        } else {
            None
        };
        let turn = self.turn(&key, &object).await;
        drop(entrance);
        match turn {
            Ok(Written::Changed | Written::Nothing) => Outcome::Done,
            Ok(Written::Due(at)) => {
                let left = at.0.duration_since(self.clock.now());
                Outcome::After(std::time::Duration::try_from(left).unwrap_or_default())
            }
            // The newer version usually arrives through the watch before the wait is over.
            Ok(Written::Conflict) => Outcome::Retry,
            Err(error) => {
                if let Error::Snapshot(invalid) = &error {
                    self.tell_snapshot(&object, &crate::chain(invalid)).await;
                }
                tracing::warn!(workflow_run = %key, error = %crate::chain(&error), "reconcile failed, it is repeated");
                Outcome::Retry
            }
        }
    }

    /// One turn (W-56).
    async fn turn(&self, key: &ObjectKey, object: &WorkflowRun) -> Result<Written, Error> {
        let mut state = self.load(key, object).await?;
        let step = self.calculate(key, &mut state).await?;
        self.adopt(key, object, &step.adopt).await?;
        let outcomes = self.apply(key, object, &state, step.action).await?;
        let desired = merge(step.desired, &outcomes);
        if desired.phase.is_terminal() {
            self.forget(object);
        }
        let written = self.patch(key, object, &desired).await?;
        self.expire(key, &state, &desired).await?;
        if matches!(written, Written::Changed) {
            self.tell_failures(object, &desired).await;
        }
        Ok(match (step.wake, written) {
            (Some(at), Written::Changed | Written::Nothing) => Written::Due(at),
            (_, written) => written,
        })
    }

    /// Decides, with every fact the decision asks for.
    async fn calculate(&self, key: &ObjectKey, state: &mut State) -> Result<Step, Error> {
        for _ in 0..ROUNDS {
            let step = calculate(state);
            if step.needs.is_empty() {
                return Ok(step);
            }
            self.supply(key, state, step.needs).await?;
        }
        let step = calculate(state);
        match step.needs.first() {
            None => Ok(step),
            Some(need) => Err(Error::Undecided(format!("{need:?}"))),
        }
    }

    /// Writes the status once, only if it differs, and only onto the version it was computed from (W-63).
    async fn patch(
        &self,
        key: &ObjectKey,
        object: &WorkflowRun,
        desired: &WorkflowRunStatus,
    ) -> Result<Written, Error> {
        let old = match &object.status {
            Some(status) => serde_json::to_value(status)?,
            None => Value::Null,
        };
        let new = match desired {
            desired if object.status.is_none() && *desired == WorkflowRunStatus::default() => {
                Value::Null
            }
            desired => serde_json::to_value(desired)?,
        };
        let version = object.resource_version();
        let Some(patch) = status_patch(version.as_deref(), &old, &new)? else {
            return Ok(Written::Nothing);
        };
        let api: Api<WorkflowRun> = Api::namespaced(self.client.clone(), &key.namespace);
        let params = PatchParams::default();
        match api
            .patch_status(&key.name, &params, &Patch::Merge(patch))
            .await
        {
            Ok(object) => {
                self.noted(self.workflow_runs.written(object).as_ref());
                Ok(Written::Changed)
            }
            Err(kube::Error::Api(status)) if status.is_conflict() => Ok(Written::Conflict),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(Written::Nothing),
            Err(error) => Err(error.into()),
        }
    }
}
