//! The controllers that keep pools alive: workspaces, the stale-Run reaper, completed-Run retention.
//!
//! They look at the same Runs and Pods, so that they share one watch of each.
//! [`run`] runs them all; leader election is up to the caller.

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kruntimes_core::crd::{PersistentWorkspace, Run, Runtime};
use kruntimes_core::duration::Duration;
use kruntimes_core::keys::LABEL_RUNTIME;
use kruntimes_core::loss::THRESHOLD;
use kruntimes_core::workspace::Binding;
use kruntimes_sched::HEARTBEAT_LIMIT;
use kube::runtime::watcher;
use kube::{Client, ResourceExt as _};

use crate::cache::{Cache, Change, ObjectKey};
use crate::clock::Clock;
use crate::{reaper, retention, workspace};

/// What the controllers are told at start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Namespace to serve; all when absent.
    pub namespace: Option<String>,
    /// When workspaces are bound.
    pub binding: Binding,
    /// Age from which the heartbeat of a Pod is too old for a new workspace.
    pub heartbeat_staleness: Duration,
    /// How long a Pod may be not ready or silent before its Runs are acted on; not positive means 30 s.
    pub stale_threshold: Duration,
    /// Reconciles at once, per controller.
    pub workers: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            namespace: None,
            binding: Binding::default(),
            heartbeat_staleness: HEARTBEAT_LIMIT,
            stale_threshold: THRESHOLD,
            workers: 4,
        }
    }
}

impl Config {
    /// Returns the threshold in effect.
    pub(crate) fn stale_threshold(&self) -> Duration {
        if self.stale_threshold.is_positive() {
            self.stale_threshold
        } else {
            THRESHOLD
        }
    }
}

/// Index of Runs by the Pod whose loss would concern them.
pub(crate) const BY_POD: &str = "pod";
/// Index of Runs that are not over by the workspace they reference.
pub(crate) const BY_WORKSPACE: &str = "workspace";

/// What the controllers share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    pub(crate) runs: Cache<Run>,
    pub(crate) pods: Cache<Pod>,
}

enum News {
    Run(Change<Run>),
    Pod(Change<Pod>),
    Workspace(Change<PersistentWorkspace>),
    Runtime(Change<Runtime>),
}

/// Runs the controllers, for ever. Dropping the future stops them.
pub async fn run(client: Client, config: Config, clock: Clock) {
    let shared = Shared {
        client: client.clone(),
        clock,
        runs: Cache::new(&[
            (BY_WORKSPACE, |run| value(workspace_in_use(run))),
            (BY_POD, |run| value(reaper::watched_pod(run))),
        ]),
        pods: Cache::default(),
    };
    let namespace = config.namespace.as_deref();
    let all = watcher::Config::default;
    let workspaces = workspace::Controller::new(&shared, &config);
    let reaper = reaper::Controller::new(&shared, &config);
    let retention = retention::Controller::new(&shared);
    let news = stream::select(
        stream::select(
            shared
                .runs
                .follow(client.clone(), namespace, all())
                .map(News::Run),
            shared
                .pods
                .follow(client.clone(), namespace, all().labels(LABEL_RUNTIME))
                .map(News::Pod),
        ),
        stream::select(
            workspaces
                .workspaces
                .follow(client.clone(), namespace, all())
                .map(News::Workspace),
            workspaces
                .runtimes
                .follow(client, namespace, all())
                .map(News::Runtime),
        ),
    );
    let feed = news.for_each(|news| {
        match news {
            News::Run(change) => {
                workspaces.run_changed(&change);
                reaper.run_changed(&change);
                retention.run_changed(&change);
                if let Change::Undecodable { key, error } = change {
                    tracing::warn!(run = %key, error, "a Run cannot be decoded and is left alone");
                }
            }
            News::Pod(change) => {
                workspaces.pod_changed(&change);
                reaper.pod_changed(&change);
            }
            News::Workspace(change) => workspaces.workspace_changed(&change),
            News::Runtime(change) => workspaces.runtime_changed(&change),
        }
        std::future::ready(())
    });
    let work = async {
        shared.runs.synced().await;
        shared.pods.synced().await;
        workspaces.workspaces.synced().await;
        workspaces.runtimes.synced().await;
        futures::join!(
            workspaces.work(config.workers),
            reaper.work(config.workers),
            retention.work(config.workers)
        );
    };
    futures::join!(feed, work);
}

fn value(key: Option<ObjectKey>) -> Vec<String> {
    key.map(|key| key.to_string()).into_iter().collect()
}

/// Returns the workspace a Run uses or waits for; one that is over uses none.
pub(crate) fn workspace_in_use(run: &Run) -> Option<ObjectKey> {
    let over = (run.status.as_ref()).is_some_and(|status| status.phase.is_terminal());
    let workspace = run.spec.workspace.as_ref().filter(|_| !over)?;
    Some(ObjectKey::new(
        run.namespace().unwrap_or_default(),
        &workspace.name,
    ))
}
