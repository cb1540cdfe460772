//! Pods without processes: a scripted Runtime Server each, and a ledger of what they executed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use kruntimes_proto::testing::{Script, ScriptedServer};
use kruntimes_proto::{ExecuteRequest, RuntimeClient};
use kube::ResourceExt as _;
use serde_json::Value;

use crate::node::{BackendError, PodBackend, PodSandbox};

/// What all Runtime Servers of a world executed.
#[derive(Debug, Default)]
pub struct Ledger {
    begun: Mutex<BTreeMap<String, usize>>,
    servers: Mutex<Vec<(String, ScriptedServer)>>,
    twice: Mutex<Vec<String>>,
}

impl Ledger {
    /// Returns how often work was begun for a Run.
    pub fn executed(&self, uid: &str) -> usize {
        let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.get(uid).copied().unwrap_or(0)
    }

    /// Returns how often work was begun for all Runs.
    pub fn total(&self) -> usize {
        let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.values().sum()
    }

    /// Returns the Runs that were begun while they were still alive elsewhere.
    pub fn twice(&self) -> Vec<String> {
        self.twice
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Returns the Runs that are being executed now.
    pub fn live(&self) -> Vec<String> {
        let servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        servers
            .iter()
            .flat_map(|(_, server)| server.live())
            .collect()
    }

    /// Makes the Runtime Server of a Pod, whose executions are noted here.
    pub fn server(self: &Arc<Self>, pod: &str) -> ScriptedServer {
        let (ledger, uid) = (Arc::clone(self), pod.to_owned());
        let server = ScriptedServer::new(move |request| {
            let attempt = ledger.begin(&uid, &request.id);
            act(request, attempt)
        });
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        servers.push((pod.to_owned(), server.clone()));
        server
    }

    /// Notes that work begins and returns the number of the attempt, from zero.
    fn begin(&self, pod: &str, uid: &str) -> usize {
        let servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let elsewhere = servers
            .iter()
            .filter(|(other, _)| other != pod)
            .any(|(_, server)| server.live().iter().any(|live| live == uid));
        if elsewhere {
            let mut twice = self.twice.lock().unwrap_or_else(PoisonError::into_inner);
            twice.push(uid.to_owned());
        }
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let count = begun.entry(uid.to_owned()).or_default();
        *count += 1;
        *count - 1
    }
}

/// Makes Pods of scripted servers.
#[derive(Debug)]
pub struct SimulatedBackend {
    root: PathBuf,
    ledger: Arc<Ledger>,
}

impl SimulatedBackend {
    /// Makes a backend whose workspaces lie below `root`.
    pub fn new(root: &Path, ledger: &Arc<Ledger>) -> Self {
        Self {
            root: root.to_owned(),
            ledger: Arc::clone(ledger),
        }
    }
}

#[async_trait]
impl PodBackend for SimulatedBackend {
    async fn start(&self, pod: &Pod) -> Result<Arc<dyn PodSandbox>, BackendError> {
        let name = pod.uid().unwrap_or_default();
        let workspace = self.root.join(&name);
        std::fs::create_dir_all(&workspace).map_err(|source| BackendError::Directory {
            path: workspace.clone(),
            source,
        })?;
        let server = self.ledger.server(&name);
        Ok(Arc::new(SimulatedSandbox { server, workspace }))
    }
}

/// Reads the script of a Run as runtimed prepared it, and does what it says for this attempt.
fn act(request: &ExecuteRequest, attempt: usize) -> Script {
    let path = Path::new(&request.working_dir).join(&request.entrypoint);
    let Ok(text) = std::fs::read_to_string(&path) else {
        return Script::exits(97).stderr(format!("no script at {}", path.display()));
    };
    let Ok(script) = serde_json::from_str::<Value>(&text) else {
        return Script::exits(98).stderr("the script is not a simulated one");
    };
    let exits = script["exits"].as_array().cloned().unwrap_or_default();
    let exit = exits.get(attempt).or(exits.last()).and_then(Value::as_i64);
    let exit = exit.and_then(|code| i32::try_from(code).ok()).unwrap_or(0);
    let outputs = request.env.get("KRUNTIME_OUTPUTS").cloned();
    let values = script["outputs"].clone();
    Script::exits(exit)
        .after(Duration::from_millis(script["ms"].as_u64().unwrap_or(0)))
        .stdout("working\n")
        .on_finish(move || write_outputs(outputs, &values))
}

fn write_outputs(path: Option<String>, values: &Value) {
    let Some(path) = path else { return };
    let lines = values.as_object().into_iter().flatten();
    let lines: Vec<String> = lines.map(|(key, value)| format!("{key}={value}")).collect();
    let text = lines.join(
        "
",
    );
    // A run directory that is gone means that nobody waits for the outputs.
    let _ = std::fs::write(path, text);
}

struct SimulatedSandbox {
    server: ScriptedServer,
    workspace: PathBuf,
}

#[async_trait]
impl PodSandbox for SimulatedSandbox {
    fn runtime(&self) -> Arc<dyn RuntimeClient> {
        Arc::new(self.server.clone())
    }

    fn workspace(&self) -> PathBuf {
        self.workspace.clone()
    }

    async fn stop(&self) {
        self.server.restart();
    }
}
