//! A Runtime Server of which one call meets trouble.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use kruntimes_apiserver::fault::StrikeHandle;
use kruntimes_proto::testing::ScriptedServer;
use kruntimes_proto::{ClientError, EventStream, ExecuteRequest, Execution, Health, RuntimeClient};

use super::trouble::CallBlow;

/// The trouble of one daemon's calls, through all its lives.
#[derive(Debug, Default)]
pub(super) struct CallStrike {
    /// Where it is, and how many calls there were.
    state: Mutex<(Option<(u64, CallBlow)>, u64)>,
}

impl CallStrike {
    fn lock(&self) -> MutexGuard<'_, (Option<(u64, CallBlow)>, u64)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Plans the next trouble, and counts from here.
    pub(super) fn arm(&self, place: Option<(u64, CallBlow)>) {
        *self.lock() = (place, 0);
    }

    /// Tells whether it has happened.
    pub(super) fn struck(&self) -> bool {
        let (place, count) = *self.lock();
        place.is_some_and(|(nth, _)| count >= nth)
    }

    fn next(&self) -> Option<CallBlow> {
        let mut state = self.lock();
        state.1 += 1;
        let (place, count) = *state;
        place.filter(|(nth, _)| *nth == count).map(|(_, blow)| blow)
    }
}

/// What a daemon sees of its Runtime Server.
pub(super) struct StruckServer {
    pub(super) server: ScriptedServer,
    pub(super) strike: Arc<CallStrike>,
    pub(super) daemon: StrikeHandle,
}

fn unavailable(message: &str) -> ClientError {
    ClientError::Unavailable {
        message: message.to_owned(),
    }
}

impl StruckServer {
    /// Makes a call that is counted.
    async fn call<T>(
        &self,
        call: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        if self.daemon.is_dead() {
            return std::future::pending().await;
        }
        let answer = match self.strike.next() {
            None => call.await,
            Some(CallBlow::DaemonDiesBefore) => {
                self.daemon.crash();
                return std::future::pending().await;
            }
            Some(CallBlow::DaemonDiesAfter) => {
                drop(call.await);
                self.daemon.crash();
                return std::future::pending().await;
            }
            Some(CallBlow::ServerDiesBefore) => {
                self.server.restart();
                Err(unavailable("the server died"))
            }
            Some(CallBlow::ServerDiesAfter) => {
                drop(call.await);
                self.server.restart();
                Err(unavailable("the server died"))
            }
            Some(CallBlow::LoseAnswer) => {
                drop(call.await);
                Err(unavailable("the answer was lost"))
            }
            Some(CallBlow::Refuse) => Err(unavailable("nobody listens")),
            Some(CallBlow::Delay(wait)) => {
                tokio::time::sleep(wait).await;
                call.await
            }
        };
        if self.daemon.is_dead() {
            return std::future::pending().await;
        }
        answer
    }
}

#[async_trait]
impl RuntimeClient for StruckServer {
    async fn execute(&self, request: ExecuteRequest) -> Result<(), ClientError> {
        self.call(self.server.execute(request)).await
    }

    async fn status(&self, id: &str) -> Result<Execution, ClientError> {
        self.call(self.server.status(id)).await
    }

    async fn list(&self) -> Result<Vec<Execution>, ClientError> {
        self.call(self.server.list()).await
    }

    async fn cancel(&self, id: &str) -> Result<(), ClientError> {
        self.call(self.server.cancel(id)).await
    }

    async fn forget(&self, id: &str) -> Result<(), ClientError> {
        self.call(self.server.forget(id)).await
    }

    async fn health(&self) -> Result<Health, ClientError> {
        self.server.health().await
    }

    async fn watch(&self, ids: &[String]) -> Result<EventStream, ClientError> {
        self.server.watch(ids).await
    }
}
