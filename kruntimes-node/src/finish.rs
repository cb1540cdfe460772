//! What a successful task left behind, from its files into its last status (node, N-96 and section 12.1).

use std::time::Duration;

use jiff::Timestamp;
use kruntimes_core::api::ArtifactRef;
use kruntimes_core::keys::FINALIZER_ARTIFACT;
use kruntimes_core::life::{self, Failure};
use kruntimes_core::retry::reason;
use kruntimes_k8s::queue::Outcome;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::artifact::{self, Artifacts, Collected, Collection};
use crate::files::RunDir;
use crate::node::{self, until};
use crate::outputs;
use crate::reconcile::{Next, Turn};

/// First wait after the store has failed (N-143); doubles.
const AGAIN: Duration = Duration::from_secs(1);
/// Longest such wait.
const AGAIN_MAX: Duration = Duration::from_secs(30);

/// How far the artifacts are.
enum Progress {
    /// All are stored; often there are none.
    Ready(Vec<ArtifactRef>),
    /// The Run ends with this.
    Failed(Failure),
    /// Not yet.
    Later(Next),
}

fn invalid(text: &str) -> Progress {
    Progress::Failed(Failure::new(reason::ARTIFACT_INVALID, text))
}

impl Turn<'_> {
    /// Reads what a successful task left behind and writes its end (N-96).
    pub(crate) async fn collect(&mut self) -> Next {
        let workspace = node::workspace_of(&self.run);
        let Ok(dir) = self.node.files.run(&self.uid, workspace.as_deref()) else {
            let nothing = std::collections::BTreeMap::new();
            let now = self.node.clock.now();
            let change = life::succeeded(&self.status(), nothing, Vec::new(), now);
            return self.write(change).await;
        };
        let outputs = match outputs::read(&dir).await {
            Ok(outputs) => outputs,
            // N-131: nothing is collected.
            Err(failure) => return self.fail(failure).await,
        };
        match self.artifacts(dir).await {
            Progress::Ready(references) => {
                let now = self.node.clock.now();
                let change = life::succeeded(&self.status(), outputs, references, now);
                self.write(change).await
            }
            Progress::Failed(failure) => self.fail(failure).await,
            Progress::Later(next) => next,
        }
    }

    async fn fail(&mut self, failure: Failure) -> Next {
        let (status, now) = (self.status(), self.node.clock.now());
        let change = if failure.reason == reason::TIMEOUT {
            life::ended(&status, failure, now)
        } else {
            life::failed(&self.run.spec, &status, failure, true, now)
        };
        self.write(change).await
    }

    async fn artifacts(&mut self, dir: RunDir) -> Progress {
        let Some(artifacts) = self.node.artifacts.clone() else {
            return Progress::Ready(Vec::new());
        };
        let names = match dir.open_artifacts() {
            Ok(None) => return Progress::Ready(Vec::new()),
            Ok(Some(folder)) => folder.names(),
            Err(error) => Err(error),
        };
        match names {
            Ok(names) if names.is_empty() => return Progress::Ready(Vec::new()),
            Ok(names) => {
                if let Err(text) = artifact::order(names) {
                    return invalid(&text);
                }
            }
            Err(error) => return invalid(&format!("artifacts cannot be read: {error}")),
        }
        let upload = self.node.table.update(&self.uid, |entry| {
            let result = entry.upload.result.take();
            (entry.upload.busy, result, entry.upload.again)
        });
        let Some((busy, result, again)) = upload else {
            return Progress::Later(Next::Stop(Outcome::Done));
        };
        let now = self.node.clock.now();
        match result {
            Some(Collected::Done(references)) => Progress::Ready(references),
            Some(Collected::Invalid(text)) => invalid(&text),
            Some(Collected::Failed(text)) => self.store_failed(&text, now),
            None if busy => Progress::Later(Next::Stop(self.wait(now, None))),
            None => match again.filter(|again| now < *again) {
                Some(again) => Progress::Later(Next::Stop(Outcome::After(until(now, again)))),
                None => Progress::Later(self.begin(artifacts, dir).await),
            },
        }
    }

    /// Waits longer and longer for the store, but not beyond the deadline of the Run (N-143).
    fn store_failed(&self, text: &str, now: Timestamp) -> Progress {
        tracing::warn!(run = %self.run.name_any(), error = text, "artifacts cannot be stored yet");
        if self.deadline().is_some_and(|deadline| now >= deadline) {
            let timeout = self.run.spec.timeout.unwrap_or_default();
            let text = format!("timeout after {timeout}");
            return Progress::Failed(Failure::new(reason::TIMEOUT, &text));
        }
        let wait = self.node.table.update(&self.uid, |entry| {
            let doubled = AGAIN.saturating_mul(1 << entry.upload.failures.min(8));
            let wait = doubled.min(AGAIN_MAX);
            entry.upload.failures = entry.upload.failures.saturating_add(1);
            entry.upload.again = Some(kruntimes_core::duration::Duration::from(wait).after(now));
            wait
        });
        Progress::Later(Next::Stop(Outcome::After(wait.unwrap_or(AGAIN))))
    }

    /// Makes sure that everything stored will be found again, then begins to store (N-141).
    async fn begin(&mut self, artifacts: Artifacts, dir: RunDir) -> Next {
        let mut status = self.status();
        let settings = Some(artifacts.store.settings());
        if status.artifact_store != settings {
            status.artifact_store = settings;
            let change = life::observed(&status, self.node.clock.now());
            return self.write(change).await;
        }
        if !self
            .run
            .finalizers()
            .iter()
            .any(|f| f == FINALIZER_ARTIFACT)
        {
            return self.add_finalizer().await;
        }
        let epoch = self.node.table.update(&self.uid, |entry| {
            entry.upload.busy = true;
            entry.epoch
        });
        if let Some(epoch) = epoch {
            let collection = Collection {
                run: std::sync::Arc::clone(&self.run),
                uid: self.uid.clone(),
                epoch,
                dir,
            };
            artifact::spawn(self.node, artifacts, collection);
        }
        Next::Stop(self.wait(self.node.clock.now(), None))
    }

    async fn add_finalizer(&mut self) -> Next {
        let mut finalizers = self.run.finalizers().to_vec();
        finalizers.push(FINALIZER_ARTIFACT.to_owned());
        let patch = json!({ "metadata": {
            "resourceVersion": self.run.metadata.resource_version,
            "finalizers": finalizers,
        }});
        let (name, params, patch) = (
            self.run.name_any(),
            PatchParams::default(),
            Patch::Merge(&patch),
        );
        match self.node.api.patch(&name, &params, &patch).await {
            Ok(run) => {
                self.node.runs.written(run.clone());
                self.run = std::sync::Arc::new(run);
                Next::Again
            }
            Err(error) => {
                tracing::debug!(run = name, %error, "finalizer cannot be added yet");
                Next::Stop(Outcome::Retry)
            }
        }
    }
}
