//! What an engine is busy with, as its API tells.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Request;
use kruntimes_embedded::home::Record;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use serde_json::Value;

/// Time for all answers together.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Objects per answer.
const PAGE: usize = 500;

/// Why an engine cannot be asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoAnswer {
    /// Its kubeconfig cannot be used.
    #[error("the kubeconfig of the engine cannot be used")]
    Kubeconfig(#[from] KubeconfigError),
    /// It serves nothing yet.
    #[error("the engine is starting")]
    Starting,
    /// It refuses, or does not answer.
    #[error("the engine does not answer as expected")]
    Api(#[from] kube::Error),
    /// It takes too long.
    #[error("the engine does not answer within {} s", ANSWER_WITHIN.as_secs())]
    Late,
}

/// Objects by phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// WorkflowRuns.
    pub(crate) workflow_runs: BTreeMap<String, usize>,
    /// Runs.
    pub(crate) runs: BTreeMap<String, usize>,
    /// Pods.
    pub(crate) pods: usize,
    /// Pods that are ready.
    pub(crate) ready_pods: usize,
}

impl Counts {
    /// Asks a running engine.
    pub(crate) async fn of(record: &Record) -> Result<Self, NoAnswer> {
        let asked = tokio::time::timeout(ANSWER_WITHIN, Self::ask(record)).await;
        asked.unwrap_or(Err(NoAnswer::Late))
    }

    async fn ask(record: &Record) -> Result<Self, NoAnswer> {
        let path = record.kubeconfig.as_ref().ok_or(NoAnswer::Starting)?;
        let kubeconfig = Kubeconfig::read_from(path)?;
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        let client = Client::try_from(config)?;
        let mut counts = Self::default();
        let group = "/apis/kruntimes.io/v1alpha1";
        each(&client, &format!("{group}/workflowruns"), |object| {
            *counts.workflow_runs.entry(phase(object)).or_default() += 1;
        })
        .await?;
        each(&client, &format!("{group}/runs"), |object| {
            *counts.runs.entry(phase(object)).or_default() += 1;
        })
        .await?;
        each(&client, "/api/v1/pods", |pod| {
            counts.pods += 1;
            counts.ready_pods += usize::from(is_ready(pod));
        })
        .await?;
        Ok(counts)
    }

    /// Runs that are being executed.
    pub(crate) fn running(&self) -> usize {
        let active = ["Running", "Ready", "Finalizing"];
        let counts = active.iter().filter_map(|phase| self.runs.get(*phase));
        counts.sum()
    }
}

/// Sees every object of a list.
async fn each(client: &Client, path: &str, mut see: impl FnMut(&Value)) -> Result<(), kube::Error> {
    let mut next = String::new();
    loop {
        let uri = format!("{path}?limit={PAGE}&continue={next}");
        let request = Request::get(uri).body(Vec::new());
        let request = request.map_err(kube::Error::HttpError)?;
        let list: Value = client.request(request).await?;
        list["items"]
            .as_array()
            .into_iter()
            .flatten()
            .for_each(&mut see);
        match list["metadata"]["continue"].as_str() {
            Some(token) if !token.is_empty() => token.clone_into(&mut next),
            _ => return Ok(()),
        }
    }
}

/// The phase of an object; one that nobody has looked at yet is pending.
fn phase(object: &Value) -> String {
    let phase = object["status"]["phase"].as_str();
    phase.unwrap_or("Pending").to_owned()
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}
