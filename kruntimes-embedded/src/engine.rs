//! The whole of kruntimes in one process.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kruntimes_apiserver::ApiServer;
use kruntimes_core::crd::{Run, WorkflowRun};
use kruntimes_k8s::clock::Clock;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::follow::{self, Following};
use crate::logs::{LogHub, LogNews};
use crate::node::{self, BashBackend, BashBackendConfig, NodeConfig, NodeHandle, PodBackend};
use crate::progress::{Target, TargetKind};
use crate::submit::{self, Submission, SubmitError};
use crate::supervisor::Supervisor;

/// Runs at once when the machine does not say how many processors it has.
const FALLBACK_SLOTS: u32 = 2;

/// How the embedded engine is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// Directory for the workspaces of Pods; a private temporary one when absent.
    pub runtime_dir: Option<PathBuf>,
    /// Keeps the directories at the end.
    pub keep: bool,
    /// Runs at once in the provided `bash` Runtime; the number of processors when absent.
    pub slots: Option<u32>,
    /// Time between the polite and the final signal to a process group.
    pub grace: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            runtime_dir: None,
            keep: false,
            slots: None,
            grace: Duration::from_secs(2),
        }
    }
}

/// Why the engine does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The directory cannot be used. Choose another one.
    #[error("cannot use the runtime directory {path}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The API service refused the kinds of kruntimes, which is a defect.
    #[error("the API service does not start")]
    ApiServer(#[from] kruntimes_apiserver::BuildError),
}

/// What the end of the engine left behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShutdownReport {
    /// Directory that was kept.
    pub kept: Option<PathBuf>,
    /// Why the directory could not be removed.
    pub problem: Option<String>,
}

/// The running engine: API service, controllers, scheduler and local node.
///
/// Dropping it ends everything; [`Embedded::shutdown`] also waits until every
/// process is gone.
pub struct Embedded {
    server: ApiServer,
    client: Client,
    clock: Clock,
    logs: Arc<LogHub>,
    supervisor: Supervisor,
    node: NodeHandle,
    directory: RuntimeDirectory,
    slots: u32,
}

impl std::fmt::Debug for Embedded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Embedded")
            .field("directory", &self.directory.path)
            .finish_non_exhaustive()
    }
}

/// The directory of the engine's Pods.
#[derive(Debug)]
struct RuntimeDirectory {
    path: PathBuf,
    temporary: Option<tempfile::TempDir>,
    keep: bool,
}

impl RuntimeDirectory {
    fn new(options: &Options) -> Result<Self, StartError> {
        let refused = |path: &Path, source| StartError::Directory {
            path: path.to_owned(),
            source,
        };
        if let Some(path) = &options.runtime_dir {
            std::fs::create_dir_all(path).map_err(|error| refused(path, error))?;
            let path = path.canonicalize().map_err(|error| refused(path, error))?;
            return Ok(Self {
                path,
                temporary: None,
                keep: options.keep,
            });
        }
        let temporary = tempfile::Builder::new()
            .prefix("krt-")
            .tempdir()
            .map_err(|error| refused(&std::env::temp_dir(), error))?;
        Ok(Self {
            path: temporary.path().to_owned(),
            temporary: Some(temporary),
            keep: options.keep,
        })
    }

    fn close(mut self) -> ShutdownReport {
        let mut report = ShutdownReport::default();
        match self.temporary.take() {
            Some(temporary) if self.keep => report.kept = Some(temporary.keep()),
            Some(temporary) => {
                report.problem = temporary.close().err().map(|error| error.to_string());
            }
            None => report.kept = Some(self.path),
        }
        report
    }
}

impl Embedded {
    /// Starts the engine on this machine, with Pods made of processes.
    ///
    /// # Errors
    ///
    /// Returns why it does not start; nothing runs then.
    #[expect(
        clippy::unused_async,
        reason = "a store on disk will be opened here; callers need not change then"
    )]
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let directory = RuntimeDirectory::new(&options)?;
        let backend = BashBackend::new(BashBackendConfig {
            root: directory.path.clone(),
            grace: options.grace,
        });
        let mut builder = ApiServer::builder();
        for crd in kruntimes_core::crd::all() {
            builder = builder.crd(crd);
        }
        let server = builder.build()?;
        let slots = options.slots.unwrap_or_else(processors);
        let client = server.client();
        let engine = Self {
            client: client.clone(),
            clock: Clock::system(),
            logs: Arc::new(LogHub::default()),
            supervisor: Supervisor::default(),
            node: NodeHandle::default(),
            directory,
            slots,
            server,
        };
        engine.start_components(&Clients::same(&client), Arc::new(backend));
        Ok(engine)
    }

    fn start_components(&self, clients: &Clients, backend: Arc<dyn PodBackend>) {
        start_components(
            &self.supervisor,
            &self.server,
            clients,
            &self.clock,
            NodeConfig {
                client: clients.node.clone(),
                runtimed_client: clients.runtimed.clone(),
                clock: self.clock.clone(),
                backend,
                logs: Arc::clone(&self.logs) as Arc<dyn kruntimes_node::LogSink>,
                handle: self.node.clone(),
            },
        );
    }

    /// Returns a client of the engine's API service.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Returns the directory with the workspaces of the Pods.
    pub fn directory(&self) -> &Path {
        &self.directory.path
    }

    /// Creates objects and returns what can be followed.
    ///
    /// A `bash` Runtime is provided unless the submission brings one.
    ///
    /// # Errors
    ///
    /// Returns the first refusal; objects created before it stay.
    pub async fn submit(&self, submission: Submission) -> Result<Vec<Target>, SubmitError> {
        let objects = submit::provide(&self.client, submission, self.slots).await?;
        let mut targets = Vec::with_capacity(objects.len());
        for object in objects {
            targets.push(submit::target(&self.client, object).await?);
        }
        Ok(targets)
    }

    /// Creates objects like [`submit`](Self::submit) and follows each target from before it exists, so
    /// that no output is missed however soon it runs.
    ///
    /// # Errors
    ///
    /// As [`submit`](Self::submit).
    pub async fn submit_followed(
        &self,
        submission: Submission,
    ) -> Result<Vec<(Target, Following)>, SubmitError> {
        let objects = submit::provide(&self.client, submission, self.slots).await?;
        let mut followed = Vec::with_capacity(objects.len());
        for object in objects {
            let lines = self.logs.subscribe();
            let target = submit::target(&self.client, object).await?;
            let following = self.follow_from(lines, &target);
            followed.push((target, following));
        }
        Ok(followed)
    }

    /// Follows a target until it is terminal. Output counts from now on.
    pub fn follow(&self, target: &Target) -> Following {
        self.follow_from(self.logs.subscribe(), target)
    }

    fn follow_from(&self, lines: UnboundedReceiver<LogNews>, target: &Target) -> Following {
        let (client, clock) = (self.client.clone(), self.clock.clone());
        follow::follow(client, clock, lines, target.clone())
    }

    /// Requests the cancellation of a target; repeating it is harmless.
    ///
    /// # Errors
    ///
    /// Returns the answer of the API when the request was not taken.
    pub async fn cancel(&self, target: &Target) -> Result<(), kube::Error> {
        let patch = Patch::Merge(json!({"spec": {"cancelRequested": true}}));
        let params = PatchParams::default();
        let (client, namespace) = (self.client.clone(), &target.namespace);
        match target.kind {
            TargetKind::WorkflowRun => Api::<WorkflowRun>::namespaced(client, namespace)
                .patch(&target.name, &params, &patch)
                .await
                .map(drop),
            TargetKind::Run => Api::<Run>::namespaced(client, namespace)
                .patch(&target.name, &params, &patch)
                .await
                .map(drop),
        }
    }

    /// Ends the engine: every process of every Run is gone when this returns.
    pub async fn shutdown(self) -> ShutdownReport {
        self.node.stop().await;
        self.supervisor.stop().await;
        self.directory.close()
    }
}

/// The clients of the components, so that faults can be told apart.
#[derive(Clone)]
pub(crate) struct Clients {
    /// Of the scheduler.
    pub(crate) scheduler: Client,
    /// Of the WorkflowRun, definition and Runtime controllers.
    pub(crate) controllers: Client,
    /// Of the local node.
    pub(crate) node: Client,
    /// Of the daemons.
    pub(crate) runtimed: Client,
}

impl Clients {
    /// One client for all.
    pub(crate) fn same(client: &Client) -> Self {
        Self {
            scheduler: client.clone(),
            controllers: client.clone(),
            node: client.clone(),
            runtimed: client.clone(),
        }
    }
}

/// Starts every component under a supervisor. Simulation and product share this list.
pub(crate) fn start_components(
    supervisor: &Supervisor,
    server: &ApiServer,
    clients: &Clients,
    clock: &Clock,
    node: NodeConfig,
) {
    let garbage = server.clone();
    supervisor.start("garbage-collector", move || {
        let server = garbage.clone();
        Box::pin(async move { server.run_garbage_collector().await })
    });
    let (client, time) = (clients.scheduler.clone(), clock.clone());
    supervisor.start("scheduler", move || {
        let (client, time) = (client.clone(), time.clone());
        Box::pin(async move {
            let config = kruntimes_k8s::scheduler::Config::default();
            let ended = kruntimes_k8s::scheduler::run(client, config, time).await;
            tracing::warn!(?ended, "the scheduler ended");
        })
    });
    let (client, time) = (clients.controllers.clone(), clock.clone());
    supervisor.start("workflow", move || {
        let (client, time) = (client.clone(), time.clone());
        let config = kruntimes_k8s::workflow::Config::default();
        Box::pin(kruntimes_k8s::workflow::run(client, config, time))
    });
    let (client, time) = (clients.controllers.clone(), clock.clone());
    supervisor.start("definitions", move || {
        let (client, time) = (client.clone(), time.clone());
        let config = kruntimes_k8s::definitions::Config::default();
        Box::pin(kruntimes_k8s::definitions::run(client, config, time))
    });
    let (client, time) = (clients.controllers.clone(), clock.clone());
    supervisor.start("runtime", move || {
        let (client, time) = (client.clone(), time.clone());
        let config = kruntimes_k8s::runtime::Config::default();
        Box::pin(kruntimes_k8s::runtime::run(client, config, time))
    });
    supervisor.start("node", move || Box::pin(node::run(node.clone())));
}

fn processors() -> u32 {
    std::thread::available_parallelism()
        .ok()
        .and_then(|count| u32::try_from(count.get()).ok())
        .unwrap_or(FALLBACK_SLOTS)
}
