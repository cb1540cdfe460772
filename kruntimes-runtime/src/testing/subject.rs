//! What is tested, and the vocabulary of the cases.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kruntimes_proto::{ClientError, ExecuteRequest, Execution, RuntimeClient};

use crate::adapter::Manners;

/// No single wait of a case takes longer on a machine that is merely slow.
const PATIENCE: Duration = Duration::from_mins(1);

/// How often a server without events is asked.
const ASK_AGAIN: Duration = Duration::from_millis(20);

/// Names the server under test and how to talk to it.
#[derive(Clone)]
pub struct Subject {
    /// Reaches the server.
    pub client: Arc<dyn RuntimeClient>,
    /// Absolute directory below the server's work root that this process can write to.
    pub work_dir: PathBuf,
    /// Writes a program of the server's language that becomes this shell script, for example by exec.
    pub wrap: fn(&str) -> String,
    /// How the server treats repeated and cancelled ids.
    pub manners: Manners,
}

impl Subject {
    /// Makes a directory for one id, with the script in it, and the request to run it.
    pub(super) fn request(&self, id: &str, shell: &str) -> ExecuteRequest {
        let directory = self.directory(id);
        std::fs::create_dir_all(&directory).expect("the work directory can be written");
        std::fs::write(directory.join("script"), (self.wrap)(shell))
            .expect("the work directory can be written");
        ExecuteRequest {
            id: id.to_owned(),
            working_dir: directory.to_string_lossy().into_owned(),
            env: BTreeMap::new(),
            ..ExecuteRequest::default()
        }
    }

    pub(super) fn directory(&self, id: &str) -> PathBuf {
        self.work_dir.join(id)
    }

    /// Starts a script under an id.
    pub(super) async fn start(&self, id: &str, shell: &str) {
        self.execute(self.request(id, shell)).await;
    }

    pub(super) async fn execute(&self, request: ExecuteRequest) {
        let id = request.id.clone();
        let started = self.client.execute(request).await;
        assert!(started.is_ok(), "execute {id}: {started:?}");
    }

    pub(super) async fn read(&self, id: &str) -> Execution {
        let read = self.client.status(id).await;
        read.unwrap_or_else(|error| unreachable!("status {id}: {error}"))
    }

    /// Waits for the end and returns it.
    pub(super) async fn end(&self, id: &str) -> Execution {
        self.wait(id, "to end", |execution| execution.state.is_final())
            .await
    }

    /// Runs a script to its end.
    pub(super) async fn run(&self, id: &str, shell: &str) -> Execution {
        self.start(id, shell).await;
        self.end(id).await
    }

    /// Waits until the script has said it is ready.
    pub(super) async fn ready(&self, id: &str) -> Execution {
        self.wait(id, "to be ready", |execution| {
            execution.stdout.contains("ready")
        })
        .await
    }

    /// Drops an id whatever its state, so that cases leave nothing behind.
    pub(super) async fn clear(&self, id: &str) {
        let _ = self.client.cancel(id).await;
        let _ = self.client.forget(id).await;
    }

    async fn wait(&self, id: &str, what: &str, until: impl Fn(&Execution) -> bool) -> Execution {
        let wait = async {
            let mut events = match self.client.watch(&[id.to_owned()]).await {
                Ok(events) => Some(events),
                Err(ClientError::Unimplemented { .. }) => None,
                Err(error) => unreachable!("watch {id}: {error}"),
            };
            loop {
                let execution = self.read(id).await;
                if until(&execution) {
                    return execution;
                }
                assert!(
                    !execution.state.is_final(),
                    "{id} ended early: {execution:?}"
                );
                match &mut events {
                    Some(events) => {
                        let event = events.next().await;
                        assert!(
                            matches!(event, Some(Ok(_))),
                            "events of {id} broke: {event:?}"
                        );
                    }
                    None => tokio::time::sleep(ASK_AGAIN).await,
                }
            }
        };
        let waited = tokio::time::timeout(PATIENCE, wait).await;
        waited.unwrap_or_else(|_| unreachable!("{id} was expected {what}"))
    }

    /// Reads a number that a script wrote into its directory.
    pub(super) fn pid(&self, id: &str, file: &str) -> u32 {
        let text = std::fs::read_to_string(self.directory(id).join(file)).unwrap_or_default();
        let pid = text.trim().parse();
        pid.unwrap_or_else(|_| unreachable!("{id} wrote no process id to {file}"))
    }

    /// Checks that no process of this number exists, not even as a zombie.
    pub(super) fn gone(&self, id: &str, file: &str) {
        let pid = self.pid(id, file);
        let path = format!("/proc/{pid}");
        assert!(
            !Path::new(&path).exists(),
            "process {pid} ({id}, {file}) is still there"
        );
    }
}
