//! The controllers that keep pools alive: workspaces, the stale-Run reaper, completed-Run retention.
//!
//! They look at the same Runs and Pods, so that they share one watch of each.
//! [`run`] runs them all; leader election is up to the caller.

use futures::{Stream, StreamExt as _, stream};
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
use crate::serve::Registry;
use crate::{cleanup, reaper, retention, workspace};

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
    /// What cleans up after deleted Runs; nothing does when absent.
    pub maintainer: Option<cleanup::Image>,
    /// Where lost Runs are counted.
    pub registry: Registry,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            namespace: None,
            binding: Binding::default(),
            heartbeat_staleness: HEARTBEAT_LIMIT,
            stale_threshold: THRESHOLD,
            workers: 4,
            maintainer: None,
            registry: Registry::new(),
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
            (cleanup::BY_STORE, |run| {
                cleanup::waits_for(run).into_iter().collect()
            }),
        ]),
        pods: Cache::default(),
    };
    let controllers = Controllers {
        workspaces: workspace::Controller::new(&shared, &config),
        reaper: reaper::Controller::new(&shared, &config),
        retention: retention::Controller::new(&shared),
        cleanup: config
            .maintainer
            .as_ref()
            .map(|image| cleanup::Controller::new(&shared, image.clone())),
        shared,
    };
    let news = controllers.news(&client, config.namespace.as_deref());
    let feed = news.for_each(|news| {
        controllers.take(news);
        std::future::ready(())
    });
    let namespace = config.namespace.as_deref();
    futures::join!(feed, controllers.work(namespace, config.workers));
}

struct Controllers {
    shared: Shared,
    workspaces: workspace::Controller,
    reaper: reaper::Controller,
    retention: retention::Controller,
    cleanup: Option<cleanup::Controller>,
}

impl Controllers {
    /// Follows everything that any of them looks at.
    fn news(&self, client: &Client, namespace: Option<&str>) -> impl Stream<Item = News> + use<> {
        let all = watcher::Config::default;
        let pools = all().labels(LABEL_RUNTIME);
        let Self {
            shared, workspaces, ..
        } = self;
        let runs = shared.runs.follow(client.clone(), namespace, all());
        let pods = shared.pods.follow(client.clone(), namespace, pools);
        let kept = &workspaces.workspaces;
        let kept = kept.follow(client.clone(), namespace, all());
        let runtimes = &workspaces.runtimes;
        let runtimes = runtimes.follow(client.clone(), namespace, all());
        stream::select(
            stream::select(runs.map(News::Run), pods.map(News::Pod)),
            stream::select(kept.map(News::Workspace), runtimes.map(News::Runtime)),
        )
    }

    fn take(&self, news: News) {
        match news {
            News::Run(change) => {
                self.workspaces.run_changed(&change);
                self.reaper.run_changed(&change);
                self.retention.run_changed(&change);
                if let Some(cleanup) = &self.cleanup {
                    cleanup.run_changed(&change);
                }
                if let Change::Undecodable { key, error } = change {
                    tracing::warn!(run = %key, error, "a Run cannot be decoded and is left alone");
                }
            }
            News::Pod(change) => {
                self.workspaces.pod_changed(&change);
                self.reaper.pod_changed(&change);
            }
            News::Workspace(change) => self.workspaces.workspace_changed(&change),
            News::Runtime(change) => self.workspaces.runtime_changed(&change),
        }
    }

    async fn work(&self, namespace: Option<&str>, workers: usize) {
        self.shared.runs.synced().await;
        self.shared.pods.synced().await;
        self.workspaces.workspaces.synced().await;
        self.workspaces.runtimes.synced().await;
        let clean = async {
            if let Some(cleanup) = &self.cleanup {
                let runtimes = &self.workspaces.runtimes;
                cleanup.work(namespace, workers, runtimes).await;
            }
        };
        futures::join!(
            clean,
            self.workspaces.work(workers),
            self.reaper.work(workers),
            self.retention.work(workers)
        );
    }
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
