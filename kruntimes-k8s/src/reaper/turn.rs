//! One look at one Run: load, calculate, confirm, write.

use k8s_openapi::api::core::v1::Pod;
use kruntimes_core::api::RunStatus;
use kruntimes_core::crd::Run;
use kruntimes_core::loss::{self, Fate, PodView, Seen, Verdict, Write, calculate};
use kruntimes_core::retry::{self, reason};
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use tokio::time::Instant;

use super::{Controller, sighting::Sighting, watched_pod};
use crate::cache::ObjectKey;
use crate::patch::status_patch;
use crate::queue::Outcome;
use crate::{chain, event};

/// Name under which the reaper writes Events.
const COMPONENT: &str = "kruntimes-controller";

/// Why one look did not finish. All are repeated (N-207).
#[derive(Debug, thiserror::Error)]
enum Error {
    /// Computed from an old version. No news for anybody.
    #[error("the run has changed meanwhile")]
    Stale,
    #[error("the API refused a request")]
    Api(kube::Error),
    #[error("a status has no JSON form")]
    Json(#[from] serde_json::Error),
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if status.is_conflict() => Self::Stale,
            other => Self::Api(other),
        }
    }
}

impl Controller {
    pub(super) async fn reconcile_run(&self, key: ObjectKey) -> Outcome {
        let Some(run) = self.shared.runs.get(&key) else {
            return Outcome::Done;
        };
        match self.look(&key, &run).await {
            Ok(outcome) => outcome,
            // The newer version usually arrives through the watch before the wait is over.
            Err(Error::Stale) => Outcome::Retry,
            Err(Error::Api(kube::Error::Api(status))) if status.is_not_found() => Outcome::Done,
            Err(error) => {
                tracing::warn!(run = %key, error = %chain(&error), "a lost Run cannot be dealt with, it is repeated");
                Outcome::Retry
            }
        }
    }

    async fn look(&self, key: &ObjectKey, run: &Run) -> Result<Outcome, Error> {
        let pod = watched_pod(run);
        let known = pod.as_ref().and_then(|pod| {
            let sightings = self.sightings();
            sightings.get(pod).map(|s| s.view(Instant::now()))
        });
        let mut verdict = self.judge(run, known.as_ref());
        if let Some(pod) = &pod
            && matches!(verdict, Verdict::Write(_) | Verdict::Unregister)
        {
            // A watch that lags may know nothing of the Pod, or of its latest heartbeat.
            let live = self.ask(pod).await?;
            verdict = self.judge(run, live.as_ref());
        }
        match (verdict, pod) {
            (Verdict::Sound(left), Some(pod)) => self.arm(pod, left),
            (Verdict::Nothing | Verdict::Sound(_), _) => {}
            (Verdict::Wait(time), _) => return Ok(Outcome::After(time.to_std())),
            (Verdict::Write(write), _) => self.write(key, run, &write).await?,
            (Verdict::Unregister, _) => self.unregister(key, run).await?,
        }
        Ok(Outcome::Done)
    }

    fn judge(&self, run: &Run, pod: Option<&PodView>) -> Verdict {
        let nothing = RunStatus::default();
        calculate(&Seen {
            spec: &run.spec,
            status: run.status.as_ref().unwrap_or(&nothing),
            deleting: run.metadata.deletion_timestamp.is_some(),
            registered: loss::is_registered(run.finalizers()),
            pod,
            threshold: self.threshold,
            now: self.shared.clock.now(),
        })
    }

    /// Reads a Pod from the API.
    async fn ask(&self, key: &ObjectKey) -> Result<Option<PodView>, Error> {
        let api: Api<Pod> = Api::namespaced(self.shared.client.clone(), &key.namespace);
        let Some(pod) = api.get_opt(&key.name).await? else {
            return Ok(None);
        };
        let now = Instant::now();
        let mut sightings = self.sightings();
        Ok(Some(match sightings.get_mut(key) {
            Some(sighting) => {
                sighting.update(&pod, now);
                sighting.view(now)
            }
            // Whether it stays, the watch tells.
            None => Sighting::first(&pod, now).view(now),
        }))
    }

    async fn write(&self, key: &ObjectKey, run: &Run, write: &Write) -> Result<(), Error> {
        let old = run.status.clone().unwrap_or_default();
        let version = run.resource_version();
        let Some(patch) = status_patch(version.as_deref(), &old, &write.status)? else {
            return Ok(());
        };
        let api: Api<Run> = Api::namespaced(self.shared.client.clone(), &key.namespace);
        api.patch_status(&key.name, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        let reason = write.failure.reason;
        self.metrics.acted(&run.spec.runtime, reason, write.fate);
        tracing::info!(run = %key, fate = ?write.fate, reason, "a Run was on a lost Pod");
        if let Some((reason, text)) = tell(run, write) {
            let now = self.shared.clock.now();
            event::warn(&self.shared.client, run, COMPONENT, reason, &text, now).await;
        }
        Ok(())
    }

    /// Removes the finalizers of registrations; those of others stay (N-206).
    async fn unregister(&self, key: &ObjectKey, run: &Run) -> Result<(), Error> {
        let kept: Vec<&String> = run
            .finalizers()
            .iter()
            .filter(|name| !loss::is_registration(name))
            .collect();
        let patch = json!({"metadata": {
            "resourceVersion": run.metadata.resource_version,
            "finalizers": kept,
        }});
        let api: Api<Run> = Api::namespaced(self.shared.client.clone(), &key.namespace);
        api.patch(&key.name, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        Ok(())
    }
}

/// Words the Event of a write. A cancellation is what was asked for, and is told by the status.
fn tell(run: &Run, write: &Write) -> Option<(&'static str, String)> {
    let failure = &write.failure;
    if failure.reason == reason::CANCELLED {
        return None;
    }
    let stored = run.status.as_ref().and_then(|status| status.attempt);
    let attempt = retry::current_attempt(stored);
    let policy = run.spec.retry_policy.as_ref();
    let max = retry::max_attempts(policy);
    let cause = format!("({}): {}", failure.reason, failure.message);
    Some(match write.fate {
        Fate::Released => (
            "StaleRunRetrying",
            format!("attempt {attempt}/{max} was not begun and is placed again {cause}"),
        ),
        Fate::Retried => {
            let wait = retry::backoff(policy, attempt.saturating_add(1));
            let text = format!("attempt {attempt}/{max} was lost, next in {wait} {cause}");
            ("StaleRunRetrying", text)
        }
        Fate::Ended => (
            "StaleRunFailed",
            format!("attempt {attempt}/{max} was lost {cause}"),
        ),
    })
}
