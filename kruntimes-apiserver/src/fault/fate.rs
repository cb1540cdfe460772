//! The decision about one request, and the refusals that are made up.

use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::{Method, Request, Response, StatusCode, Uri};
use serde_json::{Value, json};

use super::{FaultPlan, State};
use crate::{
    answer::{self, AnswerBody},
    query::Query,
    route::{self, Route},
};

/// Everything that is going to happen to one request.
#[derive(Default)]
pub(super) struct Fate {
    pub(super) delay: Option<Duration>,
    pub(super) lost_request: bool,
    pub(super) lost_answer: bool,
    pub(super) refusal: Option<Response<AnswerBody>>,
    pub(super) watch: Option<WatchFate>,
    /// Where the request goes instead.
    pub(super) redirect: Option<Uri>,
}

/// What is going to happen to one watch.
pub(super) struct WatchFate {
    pub(super) cut_after: Option<Duration>,
    /// A cut watch ends with an error rather than silently.
    pub(super) loud: bool,
}

impl Fate {
    /// Decides, counting what it decides on.
    pub(super) fn draw<B>(state: &mut State, request: &Request<B>) -> Self {
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
            fate.redirect = replay(state, &plan, request.uri(), &query);
        }
        fate
    }
}

/// Turns a watch back to an older version, if it is to be and names a version.
fn replay(state: &mut State, plan: &FaultPlan, uri: &Uri, query: &Query) -> Option<Uri> {
    let strikes = state.strikes(plan.watch_replay);
    let by = state.number(&plan.watch_replay_by);
    let redirected = rewound(uri, query, by).filter(|_| strikes)?;
    state.counts.watch_replays += 1;
    Some(redirected)
}

/// Turns a watch back by some versions, if it names one.
pub(super) fn rewound(uri: &Uri, query: &Query, by: u64) -> Option<Uri> {
    let asked: u64 = query.text("resourceVersion")?.parse().ok()?;
    // A watch that starts with the objects that exist has nothing older to tell.
    if asked <= 1 || query.flag("sendInitialEvents") {
        return None;
    }
    let from = asked.saturating_sub(by).max(1);
    let parts = uri
        .query()?
        .split('&')
        .map(|part| match part.split_once('=') {
            Some(("resourceVersion", _)) => format!("resourceVersion={from}"),
            _ => part.to_owned(),
        });
    let text = format!("{}?{}", uri.path(), parts.collect::<Vec<_>>().join("&"));
    with_path(uri, &text)
}

/// Returns the address with another path and query.
pub(super) fn with_path(uri: &Uri, path_and_query: &str) -> Option<Uri> {
    let mut whole = uri.clone().into_parts();
    whole.path_and_query = Some(path_and_query.parse().ok()?);
    Uri::from_parts(whole).ok()
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
        return Some(conflict(request.uri()));
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
        return Some(watch_expired());
    }
    if state.strikes(plan.too_many_requests) {
        state.counts.too_many_requests += 1;
        return Some(too_many_requests());
    }
    if state.strikes(plan.internal_error) {
        state.counts.internal_errors += 1;
        return Some(server_error());
    }
    None
}

pub(super) fn conflict(uri: &Uri) -> Response<AnswerBody> {
    let message = format!(
        "Operation cannot be fulfilled on {}: the object has been modified; please apply your changes to the latest \
         version and try again",
        subject(uri.path())
    );
    status(StatusCode::CONFLICT, "Conflict", &message)
}

/// Ends a watch as Kubernetes does: with an error inside of a stream that began well.
pub(super) fn watch_expired() -> Response<AnswerBody> {
    let error = status_value(StatusCode::GONE, "Expired", "too old resource version");
    let line = Bytes::from(format!("{}\n", json!({ "type": "ERROR", "object": error })));
    answer::stream("application/json", stream::once(async { Ok(line) }))
}

pub(super) fn too_many_requests() -> Response<AnswerBody> {
    let message = "the server has received too many requests and has asked us to try again later";
    let mut answer = status(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message);
    let seconds = http::HeaderValue::from_static("1");
    answer
        .headers_mut()
        .insert(http::header::RETRY_AFTER, seconds);
    answer
}

pub(super) fn server_error() -> Response<AnswerBody> {
    let message = "Internal error occurred: injected by the fault plan";
    status(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
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
