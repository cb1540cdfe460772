//! Loading what an explanation rests on.

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kruntimes_core::api::RunPhase;
use kruntimes_core::crd::{PersistentWorkspace, Run, Runtime};
use kruntimes_core::keys::{CONDITION_SCHEDULED, LABEL_RUNTIME};
use kruntimes_core::resources::Amounts;
use kruntimes_core::{condition, nearest};
use kruntimes_sched::{Book, ProfileError, Recording, Snapshot};
use kube::api::{Api, ListParams};
use kube::core::DeserializeGuard;
use kube::{Client, ResourceExt as _};

use super::{Explanation, Options, ended, pending, placed, pods};
use crate::cache::Cached;
use crate::scheduler::seen;

/// Objects per page of a list.
const PAGE: u32 = 500;

/// Age of a Run from which silence about it means that no scheduler is there (C-158).
pub(super) const SILENT_AFTER: i64 = 5;

/// Why a Run cannot be explained.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// There is no such Run. Look at the names there are.
    #[error("there is no Run {name:?} in namespace {namespace:?}{}", meant(nearest.as_deref()))]
    NotFound {
        /// Namespace that was searched.
        namespace: String,
        /// Name that was asked for.
        name: String,
        /// Name of a Run that may have been meant.
        nearest: Option<String>,
    },
    /// Something that is needed cannot be read.
    #[error("cannot read {resource} in namespace {namespace:?}")]
    Read {
        /// Plural of the kind.
        resource: &'static str,
        /// Namespace that was read.
        namespace: String,
        /// What the API answered.
        source: Box<kube::Error>,
    },
    /// The snapshot cannot be written down.
    #[error("the snapshot has no JSON form")]
    Record(#[from] serde_json::Error),
    /// The default plugins do not work together, which is a defect.
    #[error("the default plugins form no profile")]
    Profile(#[from] ProfileError),
    /// The Run does not wait for a place, so no decision is open.
    #[error("the Run does not wait for a place, it is {phase}")]
    Decided {
        /// Its phase.
        phase: RunPhase,
    },
}

fn meant(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean {name:?}?"))
}

/// Everything an explanation of one Run looks at, read at one time.
#[derive(Clone, Debug)]
pub struct Picture {
    /// The Run.
    pub(super) run: Run,
    /// All Runs of the namespace, this one included; empty unless it waits or is about to start.
    pub(super) runs: Vec<Run>,
    /// The Pods of its Runtime.
    pub(super) pods: Vec<Pod>,
    /// Its Runtime.
    pub(super) runtime: Option<Runtime>,
    /// Names of the Runtimes there are, when its own is missing.
    pub(super) runtimes: Vec<String>,
    /// Namespaces with a Runtime of that name, when its own has none.
    pub(super) elsewhere: Vec<String>,
    /// The workspace it names.
    pub(super) workspace: Option<PersistentWorkspace>,
    /// Leases of schedulers, when none has looked at the Run; nothing when they cannot be read.
    pub(super) leases: Option<Vec<Lease>>,
    /// When all of this was read.
    pub(super) now: Timestamp,
}

impl Picture {
    /// Reads one Run and what decides about it; `now` is the present instant.
    ///
    /// # Errors
    ///
    /// Returns which read failed, or that there is no such Run.
    pub async fn load(
        client: &Client,
        namespace: &str,
        name: &str,
        now: Timestamp,
    ) -> Result<Self, LoadError> {
        let api: Api<Run> = Api::namespaced(client.clone(), namespace);
        let found = api.get_opt(name).await;
        let Some(run) = found.map_err(reading("runs", namespace))? else {
            let all = list::<Run>(client, namespace, "runs", "").await?;
            let names = all.iter().filter_map(|run| run.metadata.name.as_deref());
            return Err(LoadError::NotFound {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                nearest: nearest::nearest(name, names).map(str::to_owned),
            });
        };
        let mut picture = Self {
            run,
            runs: Vec::new(),
            pods: Vec::new(),
            runtime: None,
            runtimes: Vec::new(),
            elsewhere: Vec::new(),
            workspace: None,
            leases: None,
            now,
        };
        if !picture.phase().is_terminal() {
            picture.load_pool(client, namespace).await?;
        }
        if picture.is_silent() {
            picture.leases = leases(client).await;
        }
        Ok(picture)
    }

    /// Reads what a scheduler reads.
    async fn load_pool(&mut self, client: &Client, namespace: &str) -> Result<(), LoadError> {
        let name = self.run.spec.runtime.clone();
        self.runs = list(client, namespace, "runs", "").await?;
        let label = format!("{LABEL_RUNTIME}={name}");
        self.pods = list(client, namespace, "pods", &label).await?;
        let runtimes: Vec<Runtime> = list(client, namespace, "runtimes", "").await?;
        self.runtimes = runtimes.iter().map(kube::ResourceExt::name_any).collect();
        self.runtime = runtimes
            .into_iter()
            .find(|runtime| runtime.name_any() == name);
        if self.runtime.is_none() {
            // A person without rights to other namespaces is told about his own.
            let everywhere: Api<Runtime> = Api::all(client.clone());
            let found = everywhere.list(&ListParams::default()).await.ok();
            let of_name = found
                .into_iter()
                .flatten()
                .filter(|one| one.name_any() == name);
            self.elsewhere = of_name.filter_map(|runtime| runtime.namespace()).collect();
        }
        if let Some(workspace) = &self.run.spec.workspace {
            let api: Api<PersistentWorkspace> = Api::namespaced(client.clone(), namespace);
            let found = api.get_opt(&workspace.name).await;
            self.workspace = found.map_err(reading("persistentworkspaces", namespace))?;
        }
        Ok(())
    }

    /// Explains the Run.
    ///
    /// # Errors
    ///
    /// Returns an error when the default plugins do not form a profile, which is a defect.
    pub fn explain(&self, options: &Options) -> Result<Explanation, LoadError> {
        match self.phase() {
            RunPhase::Pending => Ok(pending::explain(self, options)?),
            RunPhase::Scheduled => Ok(placed::scheduled(self, options)),
            RunPhase::Running | RunPhase::Ready | RunPhase::Finalizing => Ok(placed::active(self)),
            RunPhase::Succeeded | RunPhase::Failed | RunPhase::Timeout | RunPhase::Cancelled => {
                Ok(ended::explain(self))
            }
        }
    }

    /// Writes down the decision about a Run that waits, to be replayed elsewhere (S-166).
    ///
    /// # Errors
    ///
    /// Fails for a Run that does not wait.
    pub fn record(&self, options: &Options) -> Result<Recording, LoadError> {
        let phase = self.phase();
        if phase != RunPhase::Pending {
            return Err(LoadError::Decided { phase });
        }
        let request = kruntimes_core::resources::request(&self.run.spec).unwrap_or_default();
        let run = seen::run(&self.run, request);
        Ok(Recording::new(
            "default",
            &options.profile()?,
            self.snapshot(),
            run,
        )?)
    }

    /// Takes the snapshot that a scheduler would take.
    pub(super) fn snapshot(&self) -> Snapshot {
        let mut book = Book::new();
        for run in &self.runs {
            book.observe(&seen::observation(run));
        }
        let namespace = self.run.metadata.namespace.as_deref().unwrap_or_default();
        let workspace = self.workspace.as_ref();
        let workspace = workspace.map(|found| std::sync::Arc::new(seen::workspace(found)));
        Snapshot::new(
            self.now,
            self.pods.iter().map(pods::seen),
            book.view(namespace),
        )
        .runtime_exists(self.runtime.is_some())
        .with_workspace(workspace)
    }

    /// The Run as the scheduler sees it.
    pub(super) fn seen_run(&self, request: Amounts) -> kruntimes_sched::Run {
        seen::run(&self.run, request)
    }

    /// Where the Run is in its life.
    pub(super) fn phase(&self) -> RunPhase {
        let status = self.run.status.as_ref();
        status.map_or(RunPhase::Pending, |status| status.phase)
    }

    /// Tells whether a Run waits so long without a word that no scheduler can have looked at it.
    pub(super) fn is_silent(&self) -> bool {
        let created = self.run.metadata.creation_timestamp.as_ref();
        let age = created.map_or(0, |time| super::words::age(time.0, self.now));
        let conditions = self.run.status.iter().flat_map(|status| &status.conditions);
        let told = conditions.map(|one| one.condition_type.as_str());
        self.phase() == RunPhase::Pending
            && age > SILENT_AFTER
            && !told.into_iter().any(|kind| kind == CONDITION_SCHEDULED)
    }

    /// One condition of the Run.
    pub(super) fn condition(&self, kind: &str) -> Option<&condition::Condition> {
        let status = self.run.status.as_ref()?;
        condition::get(&status.conditions, kind)
    }
}

fn reading(resource: &'static str, namespace: &str) -> impl FnOnce(kube::Error) -> LoadError {
    let namespace = namespace.to_owned();
    move |source| LoadError::Read {
        resource,
        namespace,
        source: Box::new(source),
    }
}

/// Reads all objects, page by page; what cannot be decoded is left out, as the scheduler does.
async fn list<K>(
    client: &Client,
    namespace: &str,
    resource: &'static str,
    labels: &str,
) -> Result<Vec<K>, LoadError>
where
    K: Cached,
{
    let api: Api<DeserializeGuard<K>> = Api::namespaced(client.clone(), namespace);
    let mut params = ListParams::default().limit(PAGE).labels(labels);
    let mut all = Vec::new();
    loop {
        let page = api
            .list(&params)
            .await
            .map_err(reading(resource, namespace))?;
        all.extend(page.items.into_iter().filter_map(|guard| guard.0.ok()));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(all),
        }
    }
}

/// The leases that schedulers hold, anywhere; nothing when they cannot be read.
async fn leases(client: &Client) -> Option<Vec<Lease>> {
    let api: Api<Lease> = Api::all(client.clone());
    let found = api.list(&ListParams::default()).await.ok()?;
    let is_scheduler = |lease: &Lease| lease.name_any().starts_with("kruntimes-scheduler");
    Some(found.items.into_iter().filter(is_scheduler).collect())
}
