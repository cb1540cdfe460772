//! The generated service traits over the plain client trait.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use kruntimes_proto::executor::v1;
use kruntimes_proto::executor::v1::runtime_events_server::RuntimeEvents;
use kruntimes_proto::executor::v1::runtime_server::Runtime;
use kruntimes_proto::{ClientError, Execution, RuntimeClient};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Request, Response, Status};

use crate::capture::TRUNCATION_MARK;

/// A `List` answer stays below the 16 MiB that every client must accept (N-8).
const LIST_MAX_BYTES: usize = 15 << 20;

/// What the fields beside the outputs take, generously.
const ENTRY_BYTES: usize = 64;

pub(super) struct Service {
    runtime: Arc<dyn RuntimeClient>,
    /// Ends open calls and streams, so that connections can close.
    hang_up: CancellationToken,
}

impl Service {
    pub(super) fn new(runtime: Arc<dyn RuntimeClient>, hang_up: CancellationToken) -> Arc<Self> {
        Arc::new(Self { runtime, hang_up })
    }

    /// Answers a panic with `Internal` instead of breaking the connection (N-217).
    async fn answer<T>(
        &self,
        call: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<Response<T>, Status> {
        let call = AssertUnwindSafe(call).catch_unwind();
        match self.hang_up.run_until_cancelled(call).await {
            None => Err(Status::unavailable("the server is going away")),
            Some(Ok(Ok(value))) => Ok(Response::new(value)),
            Some(Ok(Err(error))) => Err(error.into()),
            Some(Err(panic)) => {
                let cause = said(panic.as_ref());
                tracing::error!(cause, "a call panicked");
                Err(Status::new(
                    Code::Internal,
                    "the call failed inside the server",
                ))
            }
        }
    }
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("unknown")
}

#[tonic::async_trait]
impl Runtime for Service {
    async fn execute(
        &self,
        request: Request<v1::ExecuteRequest>,
    ) -> Result<Response<v1::ExecuteResponse>, Status> {
        let request = request.into_inner();
        let id = request.id.clone();
        self.answer(async {
            self.runtime.execute(request.into()).await?;
            Ok(v1::ExecuteResponse { id })
        })
        .await
    }

    async fn status(
        &self,
        request: Request<v1::StatusRequest>,
    ) -> Result<Response<v1::StatusResponse>, Status> {
        let id = request.into_inner().id;
        self.answer(async { Ok(self.runtime.status(&id).await?.into()) })
            .await
    }

    async fn list(
        &self,
        _request: Request<v1::ListRequest>,
    ) -> Result<Response<v1::ListResponse>, Status> {
        self.answer(async {
            let mut all = self.runtime.list().await?;
            shorten(&mut all, LIST_MAX_BYTES);
            let entries = all.into_iter().map(Into::into).collect();
            Ok(v1::ListResponse { entries })
        })
        .await
    }

    async fn cancel(
        &self,
        request: Request<v1::CancelRequest>,
    ) -> Result<Response<v1::CancelResponse>, Status> {
        let id = request.into_inner().id;
        self.answer(async {
            self.runtime.cancel(&id).await?;
            Ok(v1::CancelResponse {})
        })
        .await
    }

    async fn forget(
        &self,
        request: Request<v1::ForgetRequest>,
    ) -> Result<Response<v1::ForgetResponse>, Status> {
        let id = request.into_inner().id;
        self.answer(async {
            self.runtime.forget(&id).await?;
            Ok(v1::ForgetResponse {})
        })
        .await
    }

    async fn health(
        &self,
        _request: Request<v1::HealthRequest>,
    ) -> Result<Response<v1::HealthResponse>, Status> {
        self.answer(async { Ok(self.runtime.health().await?.into()) })
            .await
    }
}

#[tonic::async_trait]
impl RuntimeEvents for Service {
    async fn watch(
        &self,
        request: Request<v1::WatchRequest>,
    ) -> Result<Response<BoxStream<'static, Result<v1::WatchEvent, Status>>>, Status> {
        let ids = request.into_inner().ids;
        self.answer(async {
            let events = self.runtime.watch(&ids).await?;
            let events = events.map(|event| event.map(Into::into).map_err(Into::into));
            Ok(events
                .take_until(self.hang_up.clone().cancelled_owned())
                .boxed())
        })
        .await
    }
}

/// Cuts outputs so that the whole fits; no entry is dropped and short ones stay whole (N-8).
fn shorten(all: &mut [Execution], limit: usize) {
    let fixed = |one: &Execution| ENTRY_BYTES + one.id.len() + one.error_message.len();
    let mut outputs: Vec<usize> = all
        .iter()
        .flat_map(|one| [one.stdout.len(), one.stderr.len()])
        .collect();
    let mut room = limit.saturating_sub(all.iter().map(fixed).sum());
    if outputs.iter().sum::<usize>() <= room {
        return;
    }
    // Fair shares from the shortest up: what one does not need goes to the rest.
    outputs.sort_unstable();
    let mut share = 0;
    for (position, length) in outputs.iter().enumerate() {
        share = room / (outputs.len() - position);
        if *length > share {
            break;
        }
        room -= length;
    }
    for one in all {
        cut(&mut one.stdout, share);
        cut(&mut one.stderr, share);
    }
}

fn cut(text: &mut String, share: usize) {
    if text.len() <= share {
        return;
    }
    let keep = share.saturating_sub(TRUNCATION_MARK.len());
    text.truncate(text.floor_char_boundary(keep));
    if share >= TRUNCATION_MARK.len() {
        text.push_str(TRUNCATION_MARK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kruntimes_proto::ExecutionState;

    fn printed(stdout: usize, stderr: usize) -> Execution {
        Execution {
            id: "a".to_owned(),
            state: ExecutionState::Succeeded,
            exit_code: 0,
            stdout: "é".repeat(stdout / 2),
            stderr: "y".repeat(stderr),
            error_message: String::new(),
        }
    }

    #[test]
    fn n_8_long_outputs_are_shortened_and_short_ones_stay() {
        let mut all = vec![printed(900, 10), printed(4000, 4000), printed(0, 0)];
        let limit = 4000 + 3 * (ENTRY_BYTES + 1);
        shorten(&mut all, limit);
        let total: usize = all
            .iter()
            .map(|one| one.stdout.len() + one.stderr.len())
            .sum();
        assert!(total <= 4000 && total > 3900, "{total}");
        assert_eq!((all[0].stdout.len(), all[0].stderr.len()), (900, 10));
        assert!(all[1].stdout.ends_with(TRUNCATION_MARK));
        let before = all.clone();
        shorten(&mut all, limit);
        assert_eq!(all, before);
    }

    #[test]
    fn n_8_no_room_still_lists_every_entry() {
        let mut all = vec![printed(100, 100); 3];
        shorten(&mut all, 0);
        assert_eq!(all, vec![printed(0, 0); 3]);
    }
}
