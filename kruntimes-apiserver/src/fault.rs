//! A seeded source of trouble between a component and the API.
//!
//! One layer per component. Every decision is drawn from the seed when a request arrives, so for one client under a
//! paused clock equal seeds mean equal trouble.

use std::{
    ops::RangeInclusive,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyDataStream, BodyExt as _};
use serde_json::{Value, json};
use thiserror::Error;
use tokio::time::{Instant, sleep, sleep_until};
use tower::{Layer, Service};

use crate::{
    answer::{self, AnswerBody, BoxError},
    ids::Splitmix,
    query::Query,
    route::{self, Route},
};

/// How likely each kind of trouble is, as a probability per request between 0 and 1.
///
/// The default plan injects nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultPlan {
    /// The request waits before it reaches the API.
    pub delay: f64,
    /// How long delayed requests and stalled watches wait.
    pub delay_for: RangeInclusive<Duration>,
    /// The request never reaches the API; the caller sees a broken connection.
    pub lost_request: f64,
    /// The work is done, but the caller sees a broken connection.
    pub lost_answer: f64,
    /// An update, patch or deletion is refused with 409 although nothing has changed.
    pub conflict: f64,
    /// A further page of a list is refused with 410.
    pub page_expired: f64,
    /// Refused with 429 and `Retry-After: 1`.
    pub too_many_requests: f64,
    /// Refused with 500.
    pub internal_error: f64,
    /// A watch is told 410 at once, so that its client must list anew.
    pub watch_expired: f64,
    /// A watch ends early, with or without an error.
    pub watch_cut: f64,
    /// How long a watch that is cut lasts.
    pub watch_cut_after: RangeInclusive<Duration>,
    /// Per event of a watch: it and all behind it wait.
    pub watch_stall: f64,
}

impl Default for FaultPlan {
    fn default() -> Self {
        Self {
            delay: 0.0,
            delay_for: Duration::from_millis(1)..=Duration::from_millis(200),
            lost_request: 0.0,
            lost_answer: 0.0,
            conflict: 0.0,
            page_expired: 0.0,
            too_many_requests: 0.0,
            internal_error: 0.0,
            watch_expired: 0.0,
            watch_cut: 0.0,
            watch_cut_after: Duration::from_millis(1)..=Duration::from_secs(60),
            watch_stall: 0.0,
        }
    }
}

/// How often each kind of trouble was injected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FaultCounts {
    /// Requests that waited.
    pub delays: u64,
    /// Requests lost on the way in.
    pub lost_requests: u64,
    /// Answers lost on the way out.
    pub lost_answers: u64,
    /// Made-up 409 answers.
    pub conflicts: u64,
    /// Made-up 410 answers to pages.
    pub pages_expired: u64,
    /// Made-up 429 answers.
    pub too_many_requests: u64,
    /// Made-up 500 answers.
    pub internal_errors: u64,
    /// Watches told 410.
    pub watches_expired: u64,
    /// Watches cut short.
    pub watches_cut: u64,
    /// Events held back.
    pub watch_stalls: u64,
}

impl FaultCounts {
    /// Sums up all kinds of trouble.
    pub fn total(&self) -> u64 {
        self.delays
            + self.lost_requests
            + self.lost_answers
            + self.conflicts
            + self.pages_expired
            + self.too_many_requests
            + self.internal_errors
            + self.watches_expired
            + self.watches_cut
            + self.watch_stalls
    }
}

/// A connection that broke because the plan said so.
#[derive(Debug, Error)]
#[error("connection of {label} was reset by the fault plan")]
pub struct Reset {
    /// The label of the layer.
    label: String,
}

struct State {
    random: Splitmix,
    plan: FaultPlan,
    active: bool,
    counts: FaultCounts,
}

impl State {
    /// Draws a number below one; every call advances the sequence, whatever the plan says.
    fn roll(&mut self) -> f64 {
        unit(&mut self.random)
    }

    fn strikes(&mut self, probability: f64) -> bool {
        let roll = self.roll();
        self.active && roll < probability
    }

    fn duration(&mut self, range: &RangeInclusive<Duration>) -> Duration {
        let span = range.end().saturating_sub(*range.start());
        *range.start() + span.mul_f64(self.roll())
    }
}

#[expect(clippy::cast_precision_loss, reason = "53 bits fit a float exactly")]
fn unit(random: &mut Splitmix) -> f64 {
    (random.draw() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Steers a fault layer from outside; clones steer the same layer.
#[derive(Clone)]
pub struct FaultHandle {
    state: Arc<Mutex<State>>,
}

impl FaultHandle {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Switches trouble on or off; trouble already under way, such as a cut to come, still happens.
    pub fn set_active(&self, active: bool) {
        self.lock().active = active;
    }

    /// Replaces the plan for requests to come.
    pub fn set_plan(&self, plan: FaultPlan) {
        self.lock().plan = plan;
    }

    /// Returns what has been injected so far.
    pub fn counts(&self) -> FaultCounts {
        self.lock().counts
    }
}

/// Wraps a service so that requests meet the trouble of a plan; active from the start.
#[derive(Clone)]
pub struct FaultLayer {
    handle: FaultHandle,
    label: String,
}

impl FaultLayer {
    /// Starts the sequence of trouble that belongs to `seed`.
    pub fn new(seed: u64, plan: FaultPlan) -> Self {
        let state = State {
            random: Splitmix::new(seed),
            plan,
            active: true,
            counts: FaultCounts::default(),
        };
        Self {
            handle: FaultHandle {
                state: Arc::new(Mutex::new(state)),
            },
            label: "client".to_owned(),
        }
    }

    /// Names the component in the errors it sees.
    #[must_use]
    pub fn labelled(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Returns the handle that steers this layer.
    pub fn handle(&self) -> FaultHandle {
        self.handle.clone()
    }
}

impl<S> Layer<S> for FaultLayer {
    type Service = FaultService<S>;

    fn layer(&self, inner: S) -> FaultService<S> {
        FaultService {
            inner,
            layer: self.clone(),
        }
    }
}

/// The service a [`FaultLayer`] makes.
#[derive(Clone)]
pub struct FaultService<S> {
    inner: S,
    layer: FaultLayer,
}

impl<S, B> Service<Request<B>> for FaultService<S>
where
    S: Service<Request<B>, Response = Response<AnswerBody>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B: Send + 'static,
{
    type Response = Response<AnswerBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let fate = Fate::draw(&mut self.layer.handle.lock(), &request);
        let layer = self.layer.clone();
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        Box::pin(async move {
            if let Some(delay) = fate.delay {
                sleep(delay).await;
            }
            if fate.lost_request {
                return Err(layer.reset());
            }
            if let Some(refusal) = fate.refusal {
                return Ok(refusal);
            }
            let answer = inner.call(request).await.map_err(Into::into)?;
            if fate.lost_answer {
                return Err(layer.reset());
            }
            Ok(match fate.watch {
                Some(watch) if answer.status().is_success() => layer.trouble(answer, watch),
                _ => answer,
            })
        })
    }
}

/// Everything that is going to happen to one request.
#[derive(Default)]
struct Fate {
    delay: Option<Duration>,
    lost_request: bool,
    lost_answer: bool,
    refusal: Option<Response<AnswerBody>>,
    watch: Option<WatchFate>,
}

/// What is going to happen to one watch.
struct WatchFate {
    cut_after: Option<Duration>,
    /// A cut watch ends with an error rather than silently.
    loud: bool,
}

impl Fate {
    fn draw<B>(state: &mut State, request: &Request<B>) -> Self {
        let query = Query::parse(request.uri().query().unwrap_or_default());
        let watch = query.flag("watch");
        let plan = state.plan.clone();
        let mut fate = Self::default();
        let delayed = state.strikes(plan.delay);
        let delay = state.duration(&plan.delay_for);
        if delayed {
            state.counts.delays += 1;
            fate.delay = Some(delay);
        }
        if state.strikes(plan.lost_request) {
            state.counts.lost_requests += 1;
            fate.lost_request = true;
            return fate;
        }
        fate.refusal = refusal(state, &plan, request, &query);
        if fate.refusal.is_some() {
            return fate;
        }
        if state.strikes(plan.lost_answer) {
            state.counts.lost_answers += 1;
            fate.lost_answer = true;
        }
        if watch {
            let cut = state.strikes(plan.watch_cut);
            let after = state.duration(&plan.watch_cut_after);
            let loud = state.roll() < 0.5;
            fate.watch = Some(WatchFate {
                cut_after: cut.then_some(after),
                loud,
            });
        }
        fate
    }
}

/// Makes up a refusal, if it is to be one.
fn refusal<B>(
    state: &mut State,
    plan: &FaultPlan,
    request: &Request<B>,
    query: &Query,
) -> Option<Response<AnswerBody>> {
    let writes = [Method::PUT, Method::PATCH, Method::DELETE].contains(request.method());
    if writes && state.strikes(plan.conflict) {
        state.counts.conflicts += 1;
        let message = format!(
            "Operation cannot be fulfilled on {}: the object has been modified; please apply your changes to the \
             latest version and try again",
            subject(request.uri().path())
        );
        return Some(status(StatusCode::CONFLICT, "Conflict", &message));
    }
    if query.text("continue").is_some() && state.strikes(plan.page_expired) {
        state.counts.pages_expired += 1;
        return Some(status(
            StatusCode::GONE,
            "Expired",
            "The provided continue parameter is too old",
        ));
    }
    if query.flag("watch") && state.strikes(plan.watch_expired) {
        state.counts.watches_expired += 1;
        let error = status_value(StatusCode::GONE, "Expired", "too old resource version");
        let line = Bytes::from(format!("{}\n", json!({ "type": "ERROR", "object": error })));
        return Some(answer::stream(
            "application/json",
            stream::once(async { Ok(line) }),
        ));
    }
    if state.strikes(plan.too_many_requests) {
        state.counts.too_many_requests += 1;
        let message =
            "the server has received too many requests and has asked us to try again later";
        let mut answer = status(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message);
        let seconds = http::HeaderValue::from_static("1");
        answer
            .headers_mut()
            .insert(http::header::RETRY_AFTER, seconds);
        return Some(answer);
    }
    if state.strikes(plan.internal_error) {
        state.counts.internal_errors += 1;
        let message = "Internal error occurred: injected by the fault plan";
        return Some(status(
            StatusCode::INTERNAL_SERVER_ERROR,
            "InternalError",
            message,
        ));
    }
    None
}

fn subject(path: &str) -> String {
    match route::parse(path) {
        Route::Objects(place) if place.group.is_empty() => {
            format!("{} {:?}", place.plural, place.name.unwrap_or_default())
        }
        Route::Objects(place) => format!(
            "{}.{} {:?}",
            place.plural,
            place.group,
            place.name.unwrap_or_default()
        ),
        _ => path.to_owned(),
    }
}

fn status_value(code: StatusCode, reason: &str, message: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code.as_u16(),
    })
}

fn status(code: StatusCode, reason: &str, message: &str) -> Response<AnswerBody> {
    answer::value(code, &status_value(code, reason, message))
}

/// A watch on its way through trouble.
struct Troubled {
    pieces: BodyDataStream<AnswerBody>,
    random: Splitmix,
    layer: FaultLayer,
    cut_at: Option<Instant>,
    loud: bool,
    ended: bool,
}

impl FaultLayer {
    fn reset(&self) -> BoxError {
        Box::new(Reset {
            label: self.label.clone(),
        })
    }

    /// Puts the stalls and the cut of a watch into its stream.
    fn trouble(&self, answer: Response<AnswerBody>, fate: WatchFate) -> Response<AnswerBody> {
        let random = Splitmix::new(self.handle.lock().random.draw());
        let (parts, body) = answer.into_parts();
        let troubled = Troubled {
            pieces: body.into_data_stream(),
            random,
            layer: self.clone(),
            cut_at: fate.cut_after.map(|after| Instant::now() + after),
            loud: fate.loud,
            ended: false,
        };
        let mut answer = answer::stream("application/json", troubled.into_stream());
        *answer.headers_mut() = parts.headers;
        answer
    }
}

impl Troubled {
    fn into_stream(self) -> impl Stream<Item = Result<Bytes, BoxError>> + Send {
        stream::unfold(self, |mut watch| async move {
            let piece = watch.next().await?;
            Some((piece, watch))
        })
    }

    async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        if self.ended {
            return None;
        }
        let Some(cut_at) = self.cut_at else {
            return self.piece().await;
        };
        tokio::select! {
            biased;
            () = sleep_until(cut_at) => {
                self.ended = true;
                self.layer.handle.lock().counts.watches_cut += 1;
                self.loud.then(|| Err(self.layer.reset()))
            }
            piece = Self::piece_of(&mut self.pieces, &mut self.random, &self.layer) => piece,
        }
    }

    async fn piece(&mut self) -> Option<Result<Bytes, BoxError>> {
        Self::piece_of(&mut self.pieces, &mut self.random, &self.layer).await
    }

    async fn piece_of(
        pieces: &mut BodyDataStream<AnswerBody>,
        random: &mut Splitmix,
        layer: &FaultLayer,
    ) -> Option<Result<Bytes, BoxError>> {
        let piece = pieces.next().await?;
        let (roll, share) = (unit(random), unit(random));
        let stall = {
            let mut state = layer.handle.lock();
            let strikes = state.active && roll < state.plan.watch_stall;
            state.counts.watch_stalls += u64::from(strikes);
            let range = &state.plan.delay_for;
            let span = range.end().saturating_sub(*range.start());
            strikes.then(|| *range.start() + span.mul_f64(share))
        };
        if let Some(stall) = stall {
            sleep(stall).await;
        }
        Some(piece)
    }
}
