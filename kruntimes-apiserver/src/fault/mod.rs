//! A seeded source of trouble between a component and the API.
//!
//! One layer per component. Every decision about a request is drawn from the seed when the request arrives, so for one
//! client under a paused clock equal seeds mean equal trouble.
//!
//! ```
//! use k8s_openapi::api::core::v1::Namespace;
//! use kruntimes_apiserver::{
//!     ApiServer,
//!     fault::{FaultLayer, FaultPlan},
//! };
//! use kube::{Api, api::ListParams};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = ApiServer::builder().build()?;
//! let plan = FaultPlan {
//!     internal_error: 1.0,
//!     ..FaultPlan::default()
//! };
//! let layer = FaultLayer::new(7, plan).labelled("my-controller");
//! let namespaces: Api<Namespace> = Api::all(server.client_with(&layer));
//! assert!(namespaces.list(&ListParams::default()).await.is_err());
//! layer.handle().set_active(false);
//! assert!(namespaces.list(&ListParams::default()).await.is_ok());
//! assert_eq!(layer.handle().counts().internal_errors, 1);
//! # Ok(())
//! # }
//! ```

mod fate;
mod plan;
mod strike;
mod watch;

use std::{
    ops::RangeInclusive,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use http::{Request, Response};
use thiserror::Error;
use tokio::time::sleep;
use tower::{Layer, Service};

use self::fate::Fate;
pub use self::plan::{FaultCounts, FaultPlan};
pub use self::strike::{Blow, Site, Strike, StrikeHandle, StrikeLayer, StrikeService};
use crate::{
    answer::{AnswerBody, BoxError},
    ids::Splitmix,
};

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

    fn number(&mut self, range: &RangeInclusive<u64>) -> u64 {
        let span = range.end().saturating_sub(*range.start());
        let drawn = self.random.draw();
        range.start().saturating_add(match span.checked_add(1) {
            Some(choices) => drawn % choices,
            None => drawn,
        })
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

impl FaultLayer {
    fn reset(&self) -> BoxError {
        Box::new(Reset {
            label: self.label.clone(),
        })
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

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
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
            if let Some(uri) = fate.redirect {
                *request.uri_mut() = uri;
            }
            let answer = inner.call(request).await.map_err(Into::into)?;
            if fate.lost_answer {
                return Err(layer.reset());
            }
            Ok(match fate.watch {
                Some(watch) if answer.status().is_success() => layer.trouble(answer, &watch),
                _ => answer,
            })
        })
    }
}
