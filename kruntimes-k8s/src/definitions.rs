//! Reports whether Workflows and Actions are valid: their `Ready` condition.
//!
//! Readiness is advice (W-155). What is judged, and how, is
//! `kruntimes_workflow::lint`; the WorkflowRun controller never reads it.

use futures::StreamExt as _;
use kruntimes_core::api::DefinitionStatus;
use kruntimes_core::condition::{self, ConditionStatus, Fact};
use kruntimes_core::crd::{Action, Workflow};
use kruntimes_core::keys::CONDITION_READY;
use kruntimes_workflow::extend::Extensions;
use kruntimes_workflow::lint::{self, Finding, Severity};
use kruntimes_workflow::plan::message::{REASON_ACCEPTED, fit};
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::watcher;
use kube::{Client, ResourceExt as _};

use crate::cache::{Cache, Cached, Change, ObjectKey};
use crate::clock::Clock;
use crate::event;
use crate::patch::status_patch;
use crate::queue::{self, Outcome, WorkQueue};

/// Reason of `Ready` for a broken definition.
pub const REASON_VALIDATION_FAILED: &str = "ValidationFailed";
/// Reason of the one event about everything that executes but surprises (W-154).
pub const REASON_SURPRISING: &str = "SurprisingDefinition";

/// Who tells.
const COMPONENT: &str = "kruntimes-controller";

/// What the controller is told at start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Namespace to serve; all when absent.
    pub namespace: Option<String>,
    /// Reconciles at once, per kind.
    pub workers: usize,
    /// What the WorkflowRun controller accepts beyond the built-in API.
    pub extensions: Extensions,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            namespace: None,
            workers: 2,
            extensions: Extensions::none(),
        }
    }
}

/// Keeps the `Ready` condition of all Workflows and Actions, for ever. Dropping the future stops it.
pub async fn run(client: Client, config: Config, clock: Clock) {
    let workflows = serve::<Workflow>(client.clone(), &config, &clock);
    let actions = serve::<Action>(client, &config, &clock);
    futures::join!(workflows, actions);
}

/// A kind with nothing but conditions in its status.
trait Definition: Cached + serde::Serialize {
    fn findings(&self, extensions: &Extensions) -> Vec<Finding>;
    fn status(&self) -> DefinitionStatus;
}

impl Definition for Workflow {
    fn findings(&self, extensions: &Extensions) -> Vec<Finding> {
        lint::workflow_with(&self.spec, extensions)
    }

    fn status(&self) -> DefinitionStatus {
        self.status.clone().unwrap_or_default()
    }
}

impl Definition for Action {
    fn findings(&self, extensions: &Extensions) -> Vec<Finding> {
        lint::action_with(&self.spec, extensions)
    }

    fn status(&self) -> DefinitionStatus {
        self.status.clone().unwrap_or_default()
    }
}

async fn serve<K: Definition>(client: Client, config: &Config, clock: &Clock) {
    let queue = WorkQueue::new();
    let cache: Cache<K> = Cache::default();
    let changes = cache.follow(
        client.clone(),
        config.namespace.as_deref(),
        watcher::Config::default(),
    );
    let feed = changes.for_each(|change| {
        match change {
            Change::Applied { new, .. } => queue.add(ObjectKey::of(new.as_ref())),
            Change::Undecodable { key, error } => {
                tracing::warn!(definition = %key, error, "a definition cannot be decoded and is left alone");
            }
            Change::Deleted(_) | Change::Synced => {}
        }
        std::future::ready(())
    });
    let work = queue::work(&queue, config.workers, |key| {
        report(&client, &cache, (clock, &config.extensions), key)
    });
    futures::join!(feed, work);
}

/// Puts what executes but surprises into one text.
fn surprises(findings: &[Finding]) -> Option<String> {
    let warnings = findings
        .iter()
        .filter(|one| one.severity == Severity::Warning);
    let texts: Vec<&str> = warnings.map(|one| one.message.as_str()).collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

async fn report<K: Definition>(
    client: &Client,
    cache: &Cache<K>,
    (clock, extensions): (&Clock, &Extensions),
    key: ObjectKey,
) -> Outcome {
    let Some(object) = cache.get(&key) else {
        return Outcome::Done;
    };
    if object.meta().deletion_timestamp.is_some() {
        return Outcome::Done;
    }
    let old = object.status();
    let mut new = old.clone();
    let findings = object.findings(extensions);
    let broken = lint::first_error(&findings).map(|finding| fit(&finding.message));
    let (holds, reason, text) = match &broken {
        Some(text) => (
            ConditionStatus::False,
            REASON_VALIDATION_FAILED,
            text.as_str(),
        ),
        None => (ConditionStatus::True, REASON_ACCEPTED, ""),
    };
    let fact = Fact::new(CONDITION_READY, holds, reason, text).observed(object.meta().generation);
    condition::set(&mut new.conditions, &fact, clock.now().into());
    let patch = match status_patch(object.resource_version().as_deref(), &old, &new) {
        Ok(Some(patch)) => patch,
        Ok(None) => return Outcome::Done,
        Err(error) => {
            tracing::error!(definition = %key, %error, "a status has no JSON form");
            return Outcome::Done;
        }
    };
    let api: Api<K> = Api::namespaced(client.clone(), &key.namespace);
    match api
        .patch_status(&key.name, &PatchParams::default(), &Patch::Merge(patch))
        .await
    {
        Ok(object) => {
            if let Some(text) = surprises(&findings) {
                let (reason, now) = (REASON_SURPRISING, clock.now());
                event::warn(client, &object, COMPONENT, reason, &text, now).await;
            }
            cache.written(object);
            Outcome::Done
        }
        Err(kube::Error::Api(status)) if status.is_not_found() => Outcome::Done,
        Err(kube::Error::Api(status)) if status.is_conflict() => Outcome::Retry,
        Err(error) => {
            tracing::warn!(definition = %key, error = %crate::chain(&error), "reconcile failed, it is repeated");
            Outcome::Retry
        }
    }
}
