//! One misfortune at a counted request, and the death of the component that made the request.
//!
//! Where a [`FaultLayer`](super::FaultLayer) rolls dice at every request, this layer does one thing at one place, so
//! that every place at which a component talks to the API can be tried in turn.
//!
//! ```
//! use k8s_openapi::api::core::v1::Namespace;
//! use kruntimes_apiserver::{
//!     ApiServer,
//!     fault::{Blow, Site, Strike, StrikeLayer},
//! };
//! use kube::Api;
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = ApiServer::builder().build()?;
//! let strike = Strike { site: Site::Write, nth: 1, blow: Blow::LoseAnswer };
//! let layer = StrikeLayer::new("my-controller", Some(strike));
//! let namespaces: Api<Namespace> = Api::all(server.client_with(&layer));
//! let made = serde_json::from_value(json!({ "metadata": { "name": "made" } }))?;
//! assert!(namespaces.create(&Default::default(), &made).await.is_err());
//! assert!(namespaces.get_opt("made").await?.is_some());
//! assert!(layer.handle().struck());
//! # Ok(())
//! # }
//! ```

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use futures::{StreamExt as _, stream};
use http::{Method, Request, Response, Uri};
use http_body_util::BodyExt as _;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep, sleep_until, timeout},
};
use tower::{Layer, Service};

use super::{Reset, fate};
use crate::{
    answer::{self, AnswerBody, BoxError},
    query::Query,
    route::{self, Route},
};

/// What kind of request is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Site {
    /// Everything that changes an object.
    Write,
    /// Everything that is answered once.
    Read,
    /// Everything that is answered as long as it lasts.
    Watch,
}

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blow {
    /// Its component dies; the API never hears of it.
    CrashBefore,
    /// It is carried out, and its component dies before it hears of that.
    CrashAfter,
    /// The connection breaks before the API hears of it.
    LoseRequest,
    /// It is carried out, and the connection breaks.
    LoseAnswer,
    /// It is refused with 409 although nothing has changed.
    Conflict,
    /// It is refused with 500.
    ServerError,
    /// It is refused with 429 and `Retry-After: 1`.
    Throttle,
    /// It waits this long.
    Delay(Duration),
    /// As a watch, it is told 410 at once.
    Expire,
    /// As a watch, it ends after this long.
    Cut(Duration),
    /// As a watch, it tells nothing for this long, and then everything.
    Stall(Duration),
    /// As a watch, it begins this many versions too early.
    Rewind(u64),
}

/// One misfortune.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strike {
    /// Which requests are counted.
    pub site: Site,
    /// Which of them it is; the first is 1.
    pub nth: u64,
    /// What happens to it.
    pub blow: Blow,
}

#[derive(Default)]
struct State {
    strike: Option<Strike>,
    struck: bool,
    counts: [u64; 3],
    dead: bool,
    frozen_until: Option<Instant>,
    stale: Option<Stale>,
}

/// What a component that has just started is shown.
#[derive(Clone, Copy)]
struct Stale {
    version: u64,
    until: Instant,
}

/// Steers a layer from outside; clones steer the same layer.
#[derive(Clone)]
pub struct StrikeHandle {
    label: Arc<str>,
    state: Arc<Mutex<State>>,
    crash: Arc<Notify>,
    /// Counts how often all watches were cut.
    cuts: watch::Sender<u64>,
}

impl StrikeHandle {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Plans another misfortune, and counts from here.
    pub fn arm(&self, strike: Option<Strike>) {
        let mut state = self.lock();
        state.strike = strike;
        state.struck = false;
        state.counts = [0; 3];
    }

    /// Ends all watches that are open.
    pub fn cut_watches(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Tells whether the misfortune has happened.
    pub fn struck(&self) -> bool {
        self.lock().struck
    }

    /// Returns how many requests of this kind were made.
    pub fn count(&self, site: Site) -> u64 {
        self.lock().counts[site as usize]
    }

    /// Kills the component: from now on no request of it is carried out or answered.
    pub fn crash(&self) {
        self.lock().dead = true;
        self.crash.notify_one();
    }

    /// Waits for the death of the component, whose future is then to be dropped.
    pub async fn crashed(&self) {
        self.crash.notified().await;
    }

    /// Lets the next life of the component make requests.
    pub fn revive(&self) {
        self.lock().dead = false;
    }

    /// Keeps requests and answers of the component back until then.
    pub fn freeze_until(&self, until: Instant) {
        self.lock().frozen_until = Some(until);
    }

    /// Shows lists as they were at `version`, and lets watches tell nothing, for this long.
    pub fn serve_stale(&self, version: u64, time: Duration) {
        let until = Instant::now() + time;
        self.lock().stale = Some(Stale { version, until });
    }

    /// Tells whether the component is dead and has not been started again.
    pub fn is_dead(&self) -> bool {
        self.lock().dead
    }

    async fn thaw(&self) {
        let until = self.lock().frozen_until;
        if let Some(until) = until.filter(|until| *until > Instant::now()) {
            sleep_until(until).await;
        }
    }

    /// Counts a request and says what happens to it.
    fn judge<B>(&self, request: &Request<B>) -> Verdict {
        let query = Query::parse(request.uri().query().unwrap_or_default());
        let site = if request.method() != Method::GET {
            Site::Write
        } else if query.flag("watch") {
            Site::Watch
        } else {
            Site::Read
        };
        let mut state = self.lock();
        if state.dead {
            return Verdict::silence();
        }
        state.counts[site as usize] += 1;
        let count = state.counts[site as usize];
        let strike = state
            .strike
            .filter(|strike| strike.site == site && strike.nth == count);
        state.struck |= strike.is_some();
        let mut verdict = Verdict {
            blow: strike.map(|strike| strike.blow),
            watch: site == Site::Watch,
            ..Verdict::default()
        };
        let now = Instant::now();
        match (site, state.stale.filter(|stale| stale.until > now)) {
            (Site::Watch, Some(stale)) => verdict.hold = Some(stale.until - now),
            (Site::Read, Some(stale)) => verdict.redirect = list_at(request.uri(), &query, stale),
            _ => {}
        }
        if let Some(Blow::Rewind(by)) = verdict.blow {
            verdict.redirect = fate::rewound(request.uri(), &query, by);
        }
        verdict
    }
}

/// Turns a list back to an older version.
fn list_at(uri: &Uri, query: &Query, stale: Stale) -> Option<Uri> {
    let Route::Objects(place) = route::parse(uri.path()) else {
        return None;
    };
    if place.name.is_some() || query.has("continue") || query.has("resourceVersion") {
        return None;
    }
    let asked = uri.query().unwrap_or_default();
    let text = format!(
        "{}?{asked}&resourceVersion={}&resourceVersionMatch=Exact",
        uri.path(),
        stale.version
    );
    fate::with_path(uri, &text)
}

#[derive(Default)]
struct Verdict {
    silent: bool,
    watch: bool,
    blow: Option<Blow>,
    redirect: Option<Uri>,
    hold: Option<Duration>,
}

impl Verdict {
    fn silence() -> Self {
        Self {
            silent: true,
            ..Self::default()
        }
    }
}

/// Wraps a service so that one request meets a misfortune.
#[derive(Clone)]
pub struct StrikeLayer {
    handle: StrikeHandle,
}

impl StrikeLayer {
    /// Begins to count; `label` names the component in the errors it sees.
    pub fn new(label: &str, strike: Option<Strike>) -> Self {
        let state = State {
            strike,
            ..State::default()
        };
        Self {
            handle: StrikeHandle {
                label: Arc::from(label),
                state: Arc::new(Mutex::new(state)),
                crash: Arc::default(),
                cuts: watch::Sender::new(0),
            },
        }
    }

    /// Returns the handle that steers this layer.
    pub fn handle(&self) -> StrikeHandle {
        self.handle.clone()
    }
}

impl<S> Layer<S> for StrikeLayer {
    type Service = StrikeService<S>;

    fn layer(&self, inner: S) -> StrikeService<S> {
        StrikeService {
            inner,
            handle: self.handle.clone(),
        }
    }
}

/// The service a [`StrikeLayer`] makes.
#[derive(Clone)]
pub struct StrikeService<S> {
    inner: S,
    handle: StrikeHandle,
}

type Answer = Result<Response<AnswerBody>, BoxError>;

impl<S, B> Service<Request<B>> for StrikeService<S>
where
    S: Service<Request<B>, Response = Response<AnswerBody>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B: Send + 'static,
{
    type Response = Response<AnswerBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Answer> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let handle = self.handle.clone();
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        Box::pin(async move {
            handle.thaw().await;
            let cut = handle.cuts.subscribe();
            let verdict = handle.judge(&request);
            if let Some(end) = before(&handle, &verdict, request.uri()).await {
                return end;
            }
            if let Some(uri) = verdict.redirect {
                *request.uri_mut() = uri;
            }
            let answer = inner.call(request).await.map_err(Into::into)?;
            handle.thaw().await;
            if verdict.blow == Some(Blow::CrashAfter) {
                handle.crash();
            }
            if handle.is_dead() {
                std::future::pending::<()>().await;
            }
            let hold = match verdict.blow {
                Some(Blow::LoseAnswer) => return Err(reset(&handle)),
                Some(Blow::Stall(hold)) => Some(hold),
                _ => verdict.hold,
            };
            let end = match verdict.blow {
                Some(Blow::Cut(after)) => Some(after),
                _ => None,
            };
            Ok(if verdict.watch {
                watched(answer, cut, hold, end)
            } else {
                answer
            })
        })
    }
}

fn reset(handle: &StrikeHandle) -> BoxError {
    Box::new(Reset {
        label: handle.label.to_string(),
    })
}

/// Does what comes before the API hears of a request; returns its end, if it never does.
async fn before(handle: &StrikeHandle, verdict: &Verdict, uri: &Uri) -> Option<Answer> {
    if verdict.silent {
        std::future::pending::<()>().await;
    }
    match verdict.blow? {
        Blow::CrashBefore => {
            handle.crash();
            std::future::pending().await
        }
        Blow::LoseRequest => Some(Err(reset(handle))),
        Blow::Conflict => Some(Ok(fate::conflict(uri))),
        Blow::ServerError => Some(Ok(fate::server_error())),
        Blow::Throttle => Some(Ok(fate::too_many_requests())),
        Blow::Expire => Some(Ok(fate::watch_expired())),
        Blow::Delay(wait) => {
            sleep(wait).await;
            None
        }
        Blow::CrashAfter | Blow::LoseAnswer | Blow::Cut(_) | Blow::Stall(_) | Blow::Rewind(_) => {
            None
        }
    }
}

/// Lets a watch tell nothing for `hold`, and ends it when all are cut or after `end`.
fn watched(
    answer: Response<AnswerBody>,
    mut cut: watch::Receiver<u64>,
    hold: Option<Duration>,
    end: Option<Duration>,
) -> Response<AnswerBody> {
    let (_, body) = answer.into_parts();
    let pieces = stream::once(async move {
        if let Some(hold) = hold {
            sleep(hold).await;
        }
        body.into_data_stream()
    });
    let ended = async move {
        let cut = async move {
            // A layer that is gone cuts nothing any more.
            if cut.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        match end {
            Some(end) => drop(timeout(end, cut).await),
            None => cut.await,
        }
    };
    let pieces = pieces.flatten().take_until(Box::pin(ended));
    answer::stream("application/json", pieces)
}
