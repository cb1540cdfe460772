//! What every request passes on its way between a connection and the API.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response, header};
use http_body::{Body, Frame, SizeHint};
use tokio::{
    sync::watch,
    time::{Sleep, sleep},
};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tower::Service;

use crate::{
    answer::{AnswerBody, BoxError},
    service::ApiService,
};

/// How long the body of a request may take to arrive.
const BODY_WITHIN: Duration = Duration::from_secs(60);
const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
/// Longest audit identifier taken over from a client.
const AUDIT_ID_MAX_BYTES: usize = 64;

/// The API as one connection sees it: bodies have deadlines, streams end on shutdown, and requests are counted.
#[derive(Clone)]
pub(super) struct Door {
    service: ApiService,
    shutdown: CancellationToken,
    busy: Arc<watch::Sender<usize>>,
}

impl Door {
    pub(super) fn new(service: ApiService, shutdown: CancellationToken) -> Self {
        Self {
            service,
            shutdown,
            busy: Arc::new(watch::Sender::new(0)),
        }
    }

    /// Tells how many requests are under way, answers not yet sent included.
    pub(super) fn busy(&self) -> watch::Receiver<usize> {
        self.busy.subscribe()
    }
}

impl<B> Service<Request<B>> for Door
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<DoorBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let under_way = UnderWay::begin(&self.busy);
        let shutdown = self.shutdown.clone();
        let mut service = self.service.clone();
        Box::pin(async move {
            let audit_id = audit_id(&request, &service);
            let request = request.map(TimedBody::new);
            let mut answer = service.call(request).await?;
            let headers = answer.headers_mut();
            if let Ok(id) = HeaderValue::from_str(&audit_id) {
                headers.insert(AUDIT_ID, id);
            }
            headers
                .entry(header::CACHE_CONTROL)
                .or_insert(HeaderValue::from_static("no-cache, private"));
            Ok(answer.map(|body| DoorBody::new(body, shutdown, under_way)))
        })
    }
}

/// Returns the identifier the client gave its request, or a new one.
fn audit_id<B>(request: &Request<B>, service: &ApiService) -> String {
    let given = request.headers().get(AUDIT_ID);
    given
        .and_then(|value| value.to_str().ok())
        .filter(|text| !text.is_empty() && text.len() <= AUDIT_ID_MAX_BYTES)
        .map_or_else(|| service.new_audit_id(), str::to_owned)
}

/// Counts a request for as long as it lives.
struct UnderWay(Arc<watch::Sender<usize>>);

impl UnderWay {
    fn begin(busy: &Arc<watch::Sender<usize>>) -> Self {
        busy.send_modify(|count| *count += 1);
        Self(Arc::clone(busy))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

/// A request body that fails when it does not arrive in time.
struct TimedBody<B> {
    body: B,
    deadline: Pin<Box<Sleep>>,
}

impl<B> TimedBody<B> {
    fn new(body: B) -> Self {
        Self {
            body,
            deadline: Box::pin(sleep(BODY_WITHIN)),
        }
    }
}

impl<B> Body for TimedBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let late = self.deadline.as_mut().poll(context);
        late.map(|()| Some(Err(format!("not there within {BODY_WITHIN:?}").into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of an answer; one without a known length ends when the listener stops.
pub(super) struct DoorBody {
    body: AnswerBody,
    cut: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    _under_way: UnderWay,
}

impl DoorBody {
    fn new(body: AnswerBody, shutdown: CancellationToken, under_way: UnderWay) -> Self {
        let endless = body.size_hint().exact().is_none();
        Self {
            body,
            cut: endless.then(|| Box::pin(shutdown.cancelled_owned())),
            _under_way: under_way,
        }
    }
}

impl Body for DoorBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(cut) = &mut self.cut
            && cut.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(None);
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
