//! Calls to the Runtime Server, each with its limit (node, sections 5 and 9).

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kruntimes_proto::{ClientError, EventStream, ExecuteRequest, Execution, RuntimeClient};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

/// Limit of a start (N-78).
const EXECUTE_LIMIT: Duration = Duration::from_secs(10);
/// Limit of a look at one execution or at all (N-88, N-189).
pub(crate) const STATUS_LIMIT: Duration = Duration::from_secs(5);
/// Limit of a stop (N-116) and of one try to forget.
const CANCEL_LIMIT: Duration = Duration::from_secs(5);
/// Limit of a health test (N-27).
const HEALTH_LIMIT: Duration = Duration::from_secs(2);
/// How long a good answer counts, so that a claim seldom pays for a call.
const HEALTH_FRESH: Duration = Duration::from_secs(1);

/// The Runtime Server of this Pod.
pub(crate) struct Server {
    client: Arc<dyn RuntimeClient>,
    healthy_at: Mutex<Option<Instant>>,
    pushing: AtomicBool,
}

async fn within<T>(
    limit: Duration,
    call: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, ClientError> {
    timeout(limit, call).await.unwrap_or_else(|_| {
        let limit = kruntimes_core::duration::Duration::from(limit);
        Err(ClientError::DeadlineExceeded {
            message: format!("no answer within {limit}"),
        })
    })
}

impl Server {
    pub(crate) fn new(client: Arc<dyn RuntimeClient>) -> Self {
        Self {
            client,
            healthy_at: Mutex::new(None),
            pushing: AtomicBool::new(false),
        }
    }

    pub(crate) async fn execute(&self, request: ExecuteRequest) -> Result<(), ClientError> {
        within(EXECUTE_LIMIT, self.client.execute(request)).await
    }

    pub(crate) async fn status(&self, uid: &str) -> Result<Execution, ClientError> {
        self.status_within(uid, STATUS_LIMIT).await
    }

    pub(crate) async fn status_within(
        &self,
        uid: &str,
        limit: Duration,
    ) -> Result<Execution, ClientError> {
        within(limit.min(STATUS_LIMIT), self.client.status(uid)).await
    }

    pub(crate) async fn list(&self) -> Result<Vec<Execution>, ClientError> {
        within(STATUS_LIMIT, self.client.list()).await
    }

    pub(crate) async fn cancel(&self, uid: &str) -> Result<(), ClientError> {
        within(CANCEL_LIMIT, self.client.cancel(uid)).await
    }

    pub(crate) async fn forget(&self, uid: &str) -> Result<(), ClientError> {
        within(CANCEL_LIMIT, self.client.forget(uid)).await
    }

    pub(crate) async fn watch(&self) -> Result<EventStream, ClientError> {
        within(STATUS_LIMIT, self.client.watch(&[])).await
    }

    /// Tells whether the server reports changes by itself at present.
    pub(crate) fn is_pushing(&self) -> bool {
        self.pushing.load(Ordering::Relaxed)
    }

    pub(crate) fn set_pushing(&self, pushing: bool) {
        self.pushing.store(pushing, Ordering::Relaxed);
    }

    /// Tests whether work can be accepted; a good answer counts for a second (N-27).
    pub(crate) async fn is_healthy(&self) -> bool {
        // Held across the call on purpose: many waiting Runs ask once.
        let mut healthy_at = self.healthy_at.lock().await;
        if healthy_at.is_some_and(|at| at.elapsed() < HEALTH_FRESH) {
            return true;
        }
        let healthy = self.ask_health().await.is_ok();
        *healthy_at = healthy.then(Instant::now);
        healthy
    }

    /// Asks for health now; the error is the text of what is wrong.
    pub(crate) async fn ask_health(&self) -> Result<(), String> {
        match within(HEALTH_LIMIT, self.client.health()).await {
            Ok(health) if health.healthy => Ok(()),
            Ok(health) => Err(health.message),
            Err(error) => Err(error.to_string()),
        }
    }
}
