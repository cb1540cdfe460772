//! The whole of kruntimes in one process.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kruntimes_apiserver::listen::ListenError;
use kruntimes_apiserver::{ApiServer, StoreError};
use kruntimes_core::crd::{Run, WorkflowRun};
use kruntimes_k8s::clock::Clock;
use kruntimes_workflow::extend::Extensions;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::directory::{RuntimeDirectory, ShutdownReport};
use crate::follow::{self, Following};
use crate::front::Front;
use crate::home::{Home, HomeError};
use crate::logs::{LogHub, LogNews};
use crate::node::{
    self, BashBackend, BashBackendConfig, NodeConfig, NodeHandle, PodBackend, Servers,
};
use crate::pod_log::PodLog;
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
    /// Directory of an engine that stays: objects are stored there, and the next start on it goes on
    /// where this one ended. Holds the directories of Pods as well, so that `runtime_dir` is not used.
    pub data_dir: Option<PathBuf>,
    /// Serves the API on this loopback address, for kubectl and client libraries.
    pub listen: Option<SocketAddr>,
    /// What workflows may use beyond the built-in API.
    pub extensions: Extensions,
    /// Runtime Servers beside `bash` and `python`, for Runtimes whose image names them.
    pub servers: Servers,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            runtime_dir: None,
            keep: false,
            slots: None,
            grace: Duration::from_secs(2),
            data_dir: None,
            listen: None,
            extensions: Extensions::none(),
            servers: Servers::default(),
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
    /// The data directory cannot be had.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The API cannot be served on the network. Choose another port.
    #[error("the API cannot be served on {address}")]
    Listen {
        /// The address that was asked for.
        address: SocketAddr,
        /// Why not.
        source: ListenError,
    },
    /// The provided `bash` Runtime was refused.
    #[error("the provided Runtime cannot be made")]
    Provide(#[source] SubmitError),
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
    front: Option<Front>,
    home: Option<Home>,
    extensions: Extensions,
}

impl std::fmt::Debug for Embedded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Embedded")
            .field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}

impl Embedded {
    /// Starts the engine on this machine, with Pods made of processes.
    ///
    /// On a data directory that was used before it goes on where the engine before ended, even if that
    /// was killed: what still ran of it is ended first, its Pods are started again in place, and their
    /// daemons find out which executions are lost. A `bash` Runtime is provided there from the start.
    ///
    /// # Errors
    ///
    /// Returns why it does not start; nothing runs then.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let clock = Clock::system();
        let home = match &options.data_dir {
            Some(path) => Some(Home::open(path, clock.now()).await?),
            None => None,
        };
        let directory = RuntimeDirectory::new(&options, home.as_ref())?;
        let backend = BashBackend::new(BashBackendConfig {
            root: directory.path().to_owned(),
            grace: options.grace,
            records: home.as_ref().map(|home| home.life().to_owned()),
        })
        .with_servers(options.servers.clone());
        let pod_log = options
            .listen
            .map(|_| PodLog::new(directory.path(), clock.clone()));
        let server = open(home.as_ref().map(Home::store), pod_log.clone()).await?;
        let client = server.client();
        let mut engine = Self {
            client: client.clone(),
            clock,
            logs: Arc::new(LogHub::with_pod_log(pod_log)),
            supervisor: Supervisor::default(),
            node: NodeHandle::default(),
            slots: options.slots.unwrap_or_else(processors),
            front: None,
            directory,
            server,
            home,
            extensions: options.extensions.clone(),
        };
        if let Some(address) = options.listen {
            engine.listen(address).await?;
        }
        engine.start_components(&Clients::same(&client), Arc::new(backend));
        if engine.home.is_some() {
            let provided = submit::provide_bash(&client, engine.slots).await;
            provided.map_err(StartError::Provide)?;
        }
        if let (Some(home), Some(front)) = (&mut engine.home, &engine.front) {
            home.announce(front.endpoint(), front.kubeconfig())?;
        }
        Ok(engine)
    }

    async fn listen(&mut self, address: SocketAddr) -> Result<(), StartError> {
        let state = match &self.home {
            Some(home) => home.access(),
            None => self.directory.path().join(".access"),
        };
        let front = Front::open(&self.server, address, state).await;
        self.front = Some(front.map_err(|source| StartError::Listen { address, source })?);
        Ok(())
    }

    fn start_components(&self, clients: &Clients, backend: Arc<dyn PodBackend>) {
        start_components(
            &self.supervisor,
            &self.server,
            clients,
            (&self.clock, &self.extensions),
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
        self.directory.path()
    }

    /// Returns where the API is served, when it is.
    pub fn endpoint(&self) -> Option<&str> {
        self.front.as_ref().map(Front::endpoint)
    }

    /// Returns the configuration for kubectl and client libraries, when the API is served.
    pub fn kubeconfig(&self) -> Option<&Path> {
        self.front.as_ref().map(Front::kubeconfig)
    }

    /// Counts the Runs that are being executed.
    pub fn running(&self) -> usize {
        let snapshot = self.server.snapshot();
        let runs = snapshot.objects("runs.kruntimes.io").iter();
        let active = |run: &&Arc<Value>| {
            let phase = run["status"]["phase"].as_str();
            matches!(phase, Some("Running" | "Ready" | "Finalizing"))
        };
        runs.filter(active).count()
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

    /// Waits until the engine cannot go on because objects can no longer be stored, and says why.
    ///
    /// Nothing that was acknowledged is lost. Never returns without a data directory.
    pub async fn failed(&self) -> StoreError {
        self.server.failed().await
    }

    /// Lets what runs come to its end: no Run is taken up any more, and this returns when none is
    /// executed, or after the twenty seconds that a Pod has for its end.
    pub async fn drain(&self) {
        self.node.drain().await;
    }

    /// Ends the engine: every process of every Run is gone when this returns.
    ///
    /// The status of Runs that are still executed is not touched; on a data directory the next start
    /// finds out that they are lost.
    pub async fn shutdown(self) -> ShutdownReport {
        self.node.stop().await;
        if let Some(front) = self.front {
            front.close().await;
        }
        self.supervisor.stop().await;
        drop((self.client, self.server));
        if let Some(home) = self.home {
            home.close();
        }
        self.directory.close()
    }
}

/// The clients of the components, so that faults can be told apart.
#[derive(Clone)]
pub(crate) struct Clients {
    /// Of the scheduler.
    pub(crate) scheduler: Client,
    /// Of the controllers of WorkflowRuns, definitions, Runtimes and pools.
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
    (clock, extensions): (&Clock, &Extensions),
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
    let accepted = extensions.clone();
    supervisor.start("workflow", move || {
        let (client, time) = (client.clone(), time.clone());
        let mut config = kruntimes_k8s::workflow::Config::default();
        config.policy.extensions.clone_from(&accepted);
        Box::pin(kruntimes_k8s::workflow::run(client, config, time))
    });
    let (client, time) = (clients.controllers.clone(), clock.clone());
    let accepted = extensions.clone();
    supervisor.start("definitions", move || {
        let (client, time) = (client.clone(), time.clone());
        let config = kruntimes_k8s::definitions::Config {
            extensions: accepted.clone(),
            ..kruntimes_k8s::definitions::Config::default()
        };
        Box::pin(kruntimes_k8s::definitions::run(client, config, time))
    });
    let (client, time) = (clients.controllers.clone(), clock.clone());
    supervisor.start("runtime", move || {
        let (client, time) = (client.clone(), time.clone());
        let config = kruntimes_k8s::runtime::Config::default();
        Box::pin(kruntimes_k8s::runtime::run(client, config, time))
    });
    let (client, time) = (clients.controllers.clone(), clock.clone());
    supervisor.start("pool", move || {
        let (client, time) = (client.clone(), time.clone());
        let config = kruntimes_k8s::pool::Config::default();
        Box::pin(kruntimes_k8s::pool::run(client, config, time))
    });
    supervisor.start("node", move || Box::pin(node::run(node.clone())));
}

/// Opens the API service, on disk when there is a directory for it.
async fn open(store: Option<PathBuf>, pod_log: Option<PodLog>) -> Result<ApiServer, StartError> {
    let on_disk = store.is_some();
    let build = move || {
        let mut builder = ApiServer::builder();
        for crd in kruntimes_core::crd::all() {
            builder = builder.crd(crd);
        }
        match pod_log {
            Some(pod_log) => builder = builder.pod_logs(Arc::new(pod_log)),
            // Nobody from outside can apply, so nobody needs to own fields.
            None if store.is_none() => builder = builder.without_field_managers(),
            None => {}
        }
        if let Some(store) = store {
            builder = builder.data_dir(store);
        }
        builder.build()
    };
    if !on_disk {
        return Ok(build()?);
    }
    // Reading what is stored blocks.
    let built = tokio::task::spawn_blocking(build).await;
    Ok(built.expect("opening the store does not panic")?)
}

fn processors() -> u32 {
    std::thread::available_parallelism()
        .ok()
        .and_then(|count| u32::try_from(count.get()).ok())
        .unwrap_or(FALLBACK_SLOTS)
}
