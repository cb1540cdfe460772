//! Building a server and holding on to it.

use std::{
    collections::BTreeMap,
    future::Future,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use http::{Request, Response};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};
use thiserror::Error;
use tokio::task::JoinSet;
use tower::{Layer, Service};

use crate::{
    access::{Access, Identity, Policy},
    answer::BoxError,
    builtin,
    clock::{Clock, SystemClock},
    commit::Core,
    crd,
    definitions::Definitions,
    disk::{Contents, Disk, Resource, Resources, StoreError, Writer},
    garbage,
    ids::{IdSource, RandomIds},
    logs::PodLogs,
    object::Key,
    registry::Registry,
    review,
    schema::SchemaError,
    service::ApiService,
    stats::{Counters, Stats},
    store::Store,
    write::WriteOptions,
};

/// Events kept per kind unless the builder is told otherwise.
const DEFAULT_WATCH_WINDOW: usize = 10_000;
/// Namespaces that exist from the start.
const FIRST_NAMESPACES: [&str; 2] = ["default", "kube-system"];

/// Why a server cannot be built.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A definition is not named `{plural}.{group}`.
    #[error("the definition must be named {expected}")]
    Name {
        /// The only name the definition may have.
        expected: String,
    },
    /// Two definitions claim one resource, or one claims a built-in resource.
    #[error("resource {name} is defined twice")]
    Duplicate {
        /// The resource, as `{plural}.{group}`.
        name: String,
    },
    /// A definition does not store exactly one of its versions.
    #[error("definition {name} must store exactly one version")]
    Storage {
        /// The definition, as `{plural}.{group}`.
        name: String,
    },
    /// A printer column's path is not one that this crate evaluates.
    #[error("printer column {path:?} of definition {name} does not compile: {reason}")]
    Column {
        /// The definition, as `{plural}.{group}`.
        name: String,
        /// The path of the column.
        path: String,
        /// What is not understood about it.
        reason: String,
    },
    /// A version's schema is not one that a cluster would accept.
    #[error("the schema of {name} {version} does not compile")]
    Schema {
        /// The definition, as `{plural}.{group}`.
        name: String,
        /// The version within the definition.
        version: String,
        /// What is wrong with the schema.
        source: SchemaError,
    },
    /// The data directory cannot be used.
    #[error("the data directory cannot be opened")]
    Store(#[from] StoreError),
}

/// Collects what a server is made of.
#[must_use]
pub struct Builder {
    crds: Vec<CustomResourceDefinition>,
    kinds: Option<Kinds>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
    logs: Option<Arc<dyn PodLogs>>,
    window: usize,
    ledger: bool,
    policy: Policy,
    data_dir: Option<PathBuf>,
}

impl Builder {
    /// Serves one more custom kind, with the schema, subresources and fields of its definition.
    pub fn crd(mut self, crd: CustomResourceDefinition) -> Self {
        self.crds.push(crd);
        self
    }

    /// Serves the kinds of another server, in the place of all definitions.
    ///
    /// Compiling definitions takes longer than everything else about a server that keeps nothing on disk.
    pub fn kinds(mut self, kinds: Kinds) -> Self {
        self.kinds = Some(kinds);
        self
    }

    /// Reads the time of `clock` for creation and deletion timestamps; the system's by default.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Draws UIDs and generated names from `ids`; random by default.
    pub fn ids(mut self, ids: Arc<dyn IdSource>) -> Self {
        self.ids = ids;
        self
    }

    /// Answers the `log` subresource of Pods from `logs`; without a source it answers 503.
    pub fn pod_logs(mut self, logs: Arc<dyn PodLogs>) -> Self {
        self.logs = Some(logs);
        self
    }

    /// Keeps this many events per kind, at least one; older versions expire with 410.
    pub fn watch_window(mut self, events: usize) -> Self {
        self.window = events;
        self
    }

    /// Keeps no `metadata.managedFields`, for programs that never apply: every write and every reader of it is cheaper.
    ///
    /// An apply still works, as the first one of its manager.
    pub fn without_field_managers(mut self) -> Self {
        self.ledger = false;
        self
    }

    /// Lets callers from the network in, and allows them what `policy` says; by default nobody but the holder of the
    /// listener's own token gets in.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Keeps the objects in this directory, which is made if it is missing, so that they outlive the process.
    ///
    /// No answer is sent and no watcher is told before what it shows is on disk, so nothing that anybody has seen is
    /// lost when the process is killed at any moment. Versions go on where they ended; the past events of an earlier
    /// process are not told, watches from then are ended with 410 as after a compaction. One server at a time can
    /// have a directory: until the last handle, service and client of it is dropped, or its process ends. It should
    /// be on a local disk.
    ///
    /// [`build`](Self::build) reads the whole directory, blocking; about a second per 100,000 objects of 2 KB.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Namespace;
    /// use kruntimes_apiserver::{ApiServer, BuildError, StoreError};
    /// use kube::Api;
    /// use serde_json::json;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let room = tempfile::tempdir()?;
    /// # let directory = room.path().join("data");
    /// let server = ApiServer::builder().data_dir(&directory).build()?;
    /// let namespaces: Api<Namespace> = Api::all(server.client());
    /// let made = serde_json::from_value(json!({ "metadata": { "name": "kept" } }))?;
    /// namespaces.create(&Default::default(), &made).await?;
    ///
    /// let second = ApiServer::builder().data_dir(&directory).build();
    /// assert!(matches!(second, Err(BuildError::Store(StoreError::InUse { .. }))));
    ///
    /// drop((server, namespaces));
    /// // The client's own worker lets go of the service when it next runs.
    /// tokio::task::yield_now().await;
    /// let server = ApiServer::builder().data_dir(&directory).build()?;
    /// let namespaces: Api<Namespace> = Api::all(server.client());
    /// assert!(namespaces.get_opt("kept").await?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn data_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.data_dir = Some(directory.into());
        self
    }

    /// Builds the server, with the namespaces `default` and `kube-system` in it.
    ///
    /// # Errors
    ///
    /// Fails when a definition contradicts itself or another, or when its schema does not compile; and when the
    /// data directory is held by another server, damaged, or not one of ours, which leaves it as it is.
    pub fn build(self) -> Result<ApiServer, BuildError> {
        let directory = self.data_dir.clone();
        self.build_on(|resources| {
            let directory = directory.as_deref();
            directory
                .map(|path| Disk::open(path, resources))
                .transpose()
        })
    }

    pub(crate) fn build_on(
        self,
        open: impl FnOnce(&Resources) -> Result<Option<(Disk, Contents)>, StoreError>,
    ) -> Result<ApiServer, BuildError> {
        let registry = match self.kinds {
            Some(kinds) => kinds.registry,
            None => Arc::new(compile(self.crds, self.clock.as_ref())?),
        };
        let mut store = Store::new(registry.next_shelf(), self.window);
        let stored = registry.kinds().map(|served| Resource {
            name: served.resource(),
            api_version: served.kind.api_version.clone(),
        });
        let resources = stored.collect();
        let writer = match open(&resources)? {
            None => None,
            Some((disk, contents)) => {
                store.restore(contents);
                Some(Writer::start(disk, store.keep_journal())?)
            }
        };
        let core = Arc::new(Core {
            registry,
            store: Mutex::new(store),
            clock: self.clock,
            ids: self.ids,
            logs: self.logs,
            ledger: self.ledger,
            counters: Counters::default(),
            access: Access::new(self.policy),
            writer,
        });
        open_namespaces(&core);
        Ok(ApiServer { core })
    }
}

fn compile(crds: Vec<CustomResourceDefinition>, clock: &dyn Clock) -> Result<Registry, BuildError> {
    let mut registry = Registry::default();
    builtin::install(&mut registry);
    review::install(&mut registry);
    for crd in &crds {
        crd::install(&mut registry, crd)?;
    }
    registry.definitions = Definitions::new(crds, clock.now());
    Ok(registry)
}

/// The kinds a server serves, ready to be served by others as well: see [`Builder::kinds`].
#[derive(Clone)]
pub struct Kinds {
    registry: Arc<Registry>,
}

fn open_namespaces(core: &Core) {
    for name in FIRST_NAMESPACES {
        let key = Key::new("", name);
        if core.lock().get(builtin::NAMESPACES, &key).is_some() {
            continue;
        }
        let namespace = json!({ "metadata": { "name": name } });
        let served = core.registry.on_shelf(builtin::NAMESPACES);
        core.create(served, None, namespace.into(), WriteOptions::default())
            .expect("the first namespaces are valid and did not exist");
    }
}

/// A running API; clones are handles to the same one.
#[derive(Clone)]
pub struct ApiServer {
    core: Arc<Core>,
}

impl ApiServer {
    /// Starts with no custom kinds, the system clock and random identifiers.
    pub fn builder() -> Builder {
        Builder {
            crds: Vec::new(),
            kinds: None,
            clock: Arc::new(SystemClock),
            ids: Arc::new(RandomIds),
            logs: None,
            window: DEFAULT_WATCH_WINDOW,
            ledger: true,
            policy: Policy::default(),
            data_dir: None,
        }
    }

    /// Returns the kinds it serves.
    pub fn kinds(&self) -> Kinds {
        Kinds {
            registry: Arc::clone(&self.core.registry),
        }
    }

    /// Returns the API as a tower service, to be mounted anywhere.
    pub fn service(&self) -> ApiService {
        ApiService::new(Arc::clone(&self.core))
    }

    /// Returns a client in namespace `default`; it lives no longer than the tokio runtime it is made in.
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime.
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.service(), "default")
    }

    /// Returns a client that makes its requests as `identity`, who may do what the policy allows.
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime.
    pub fn client_as(&self, identity: Identity) -> kube::Client {
        kube::Client::new(self.service().acting_as(identity), "default")
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Returns a client whose requests pass through `layer`, such as [`crate::fault::FaultLayer`].
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime.
    pub fn client_with<L, B>(&self, layer: &L) -> kube::Client
    where
        L: Layer<ApiService>,
        L::Service: Service<Request<kube::client::Body>, Response = Response<B>> + Send + 'static,
        <L::Service as Service<Request<kube::client::Body>>>::Future: Send + 'static,
        <L::Service as Service<Request<kube::client::Body>>>::Error: Into<BoxError>,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        kube::Client::new(layer.layer(self.service()), "default")
    }

    /// Collects garbage and empties dying namespaces until the future is dropped.
    pub fn run_garbage_collector(&self) -> impl Future<Output = ()> + Send + use<> {
        garbage::collect(Arc::clone(&self.core))
    }

    /// Spawns the background work; it stops when the guard is dropped.
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime.
    pub fn spawn_background(&self) -> Background {
        let mut tasks = JoinSet::new();
        tasks.spawn(self.run_garbage_collector());
        Background { tasks }
    }

    /// Waits until the data directory can no longer be written to, and says why.
    ///
    /// From then on writes, and reads of what could not be written, are refused with 500; whoever runs the server
    /// should end, and start again when there is room on the disk. Never returns without a data directory.
    pub async fn failed(&self) -> StoreError {
        match &self.core.writer {
            Some(writer) => writer.journal.failed().await,
            None => std::future::pending().await,
        }
    }

    /// Returns the version of the latest write; it may still be on its way to the disk.
    pub fn resource_version(&self) -> u64 {
        self.core.lock().version()
    }

    /// Returns all objects as they are at one moment, without copying them; the latest may still be on their way to
    /// the disk.
    pub fn snapshot(&self) -> Snapshot {
        let store = self.core.lock();
        let objects = self
            .core
            .registry
            .kinds()
            .map(|served| {
                let objects = store.list(served.kind.shelf, None, None);
                let values = objects.iter().map(|object| Arc::clone(object.value.tree()));
                (served.resource(), values.collect())
            })
            .collect();
        Snapshot {
            resource_version: store.version(),
            objects,
        }
    }

    /// Returns a copy of all objects, ordered by resource, namespace and name.
    pub fn dump(&self) -> Vec<Value> {
        let snapshot = self.snapshot();
        let all = snapshot.objects.values().flatten();
        all.map(|object| (**object).clone()).collect()
    }

    /// Returns what has been counted so far.
    pub fn stats(&self) -> Stats {
        self.core.counters.read()
    }

    /// Forgets all past events, so that watches and pages from older versions expire, as after a compaction.
    pub fn compact(&self) {
        self.core.lock().compact();
    }
}

/// The state of everything at one version.
#[derive(Clone, Debug)]
pub struct Snapshot {
    resource_version: u64,
    objects: BTreeMap<String, Vec<Arc<Value>>>,
}

impl Snapshot {
    /// Returns the version of the latest write in it.
    pub fn resource_version(&self) -> u64 {
        self.resource_version
    }

    /// Lists the objects of one resource, such as `runs.kruntimes.io` or `pods`, by namespace and name.
    ///
    /// Events are found under `events.events.k8s.io`, through whichever API they were written.
    pub fn objects(&self, resource: &str) -> &[Arc<Value>] {
        self.objects.get(resource).map_or(&[], Vec::as_slice)
    }

    /// Lists every resource with its objects.
    pub fn resources(&self) -> impl Iterator<Item = (&str, &[Arc<Value>])> {
        self.objects
            .iter()
            .map(|(resource, objects)| (resource.as_str(), objects.as_slice()))
    }
}

/// Keeps the background work of a server alive.
#[must_use = "the background work stops when this is dropped"]
#[derive(Debug)]
pub struct Background {
    tasks: JoinSet<()>,
}

impl Background {
    /// Stops the work and waits until it has stopped.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
    }
}
