//! Requests in, answers out: the tower service and the dispatch by method and path.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header, request::Parts};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde_json::json;
use tower::Service;

use crate::{
    accept::{self, Target},
    access::{Caller, Identity},
    admit::Scope,
    answer::{self, AnswerBody, BoxError},
    commit::{Core, Outcome},
    definitions,
    delete::DeleteOptions,
    documents,
    error::ApiError,
    kind::Served,
    list::{self, ListRequest},
    logs::LogRequest,
    manifest::Manifest,
    object::{Key, Object},
    patch::Change,
    protobuf,
    query::Query,
    review,
    route::{self, Place, Route},
    selector::Selector,
    shape::{Form, View},
    subresource::{Ask, Subresource},
    table::Table,
    watch::{self, WatchRequest},
    write::{WriteOptions, Written, agent_name},
};

/// Largest request body, that of Kubernetes.
const BODY_MAX_BYTES: usize = 3 * 1024 * 1024;

type Answer = Response<AnswerBody>;

/// The API as a tower service; clones share one server.
///
/// A call returns its future at once; all work happens when that future is polled, without waiting for anything but
/// the request body. It never fails: refusals are answers.
///
/// Requests are made as `system:admin`, who may do everything, unless [`Self::acting_as`] says otherwise.
#[derive(Clone)]
pub struct ApiService {
    core: Arc<Core>,
    caller: Caller,
}

impl ApiService {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        let caller = Caller::Known(Arc::new(Identity::system_admin()));
        Self { core, caller }
    }

    /// Returns the API for callers from the network, who have to prove who they are.
    pub(crate) fn for_network(core: Arc<Core>) -> Self {
        let caller = Caller::Network;
        Self { core, caller }
    }

    /// Draws an identifier for one request from the network.
    pub(crate) fn new_audit_id(&self) -> String {
        self.core.ids.uid()
    }

    /// Makes requests as somebody else, who may do what the [`crate::Policy`] allows.
    #[must_use]
    pub fn acting_as(self, identity: Identity) -> Self {
        Self {
            caller: Caller::Known(Arc::new(identity)),
            ..self
        }
    }
}

impl<B> Service<Request<B>> for ApiService
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Answer;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Self { core, caller } = self.clone();
        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            let answer = match core.access.admit(&caller, &mut parts) {
                Ok(()) => match read(body).await.and_then(|body| legible(&mut parts, body)) {
                    Ok(body) => serve(core, &parts, &body).await,
                    Err(error) => Err(error),
                },
                Err(error) => Err(error),
            };
            Ok(answer.unwrap_or_else(|error| answer::refusal(&error)))
        })
    }
}

async fn read<B>(body: B) -> Result<Bytes, ApiError>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    match Limited::new(body, BODY_MAX_BYTES).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(ApiError::too_large(BODY_MAX_BYTES)),
        Err(error) => Err(ApiError::bad_request(format!("unreadable body: {error}"))),
    }
}

/// Turns a body in protocol buffers into JSON, where it has a JSON form.
fn legible(parts: &mut Parts, body: Bytes) -> Result<Bytes, ApiError> {
    if body.is_empty() || !content_type(parts).starts_with(protobuf::MEDIA_TYPE) {
        return Ok(body);
    }
    let Some(json) = protobuf::to_json(&body)? else {
        return Ok(body);
    };
    let format = HeaderValue::from_static("application/json");
    parts.headers.insert(header::CONTENT_TYPE, format);
    Ok(json)
}

async fn serve(core: Arc<Core>, parts: &Parts, body: &Bytes) -> Result<Answer, ApiError> {
    let route = route::parse(parts.uri.path());
    let allowed = match route {
        Route::Objects(_) | Route::Nowhere => true,
        Route::Health { .. } => [Method::GET, Method::HEAD].contains(&parts.method),
        _ => parts.method == Method::GET,
    };
    if !allowed {
        return Err(ApiError::method_not_allowed());
    }
    match route {
        Route::Objects(place) => {
            let call = Call::new(core, parts, place)?;
            call.serve(&parts.method, parts, body).await
        }
        other => documents::serve(&core.registry, other, parts),
    }
}

/// A request for objects, with everything looked up.
struct Call {
    core: Arc<Core>,
    served: Arc<Served>,
    place: Place,
    query: Query,
    view: View,
    /// Who writes, unless the query says it.
    agent: String,
}

impl Call {
    fn new(core: Arc<Core>, parts: &Parts, place: Place) -> Result<Self, ApiError> {
        let served = core
            .registry
            .find(&place.group, &place.version, &place.plural)
            .ok_or_else(ApiError::no_such_path)?;
        let scoped = place.namespace.is_some() == served.kind.namespaced;
        // Only collections of a namespaced kind can be named without a namespace.
        if !scoped && (place.namespace.is_some() || place.name.is_some()) {
            return Err(ApiError::no_such_path());
        }
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let view = served.view(form(&core, &served, &place, &query, parts)?);
        let agent = parts.headers.get(header::USER_AGENT);
        let agent = agent
            .and_then(|value| value.to_str().ok())
            .map_or_else(|| agent_name(""), agent_name);
        Ok(Self {
            core,
            served,
            place,
            query,
            view,
            agent,
        })
    }

    async fn serve(self, method: &Method, parts: &Parts, body: &Bytes) -> Result<Answer, ApiError> {
        let named = self.place.name.is_some();
        if !self.served.kind.is_stored() {
            return self.review(parts, body);
        }
        let scope = match self.place.subresource.as_deref() {
            None => Scope::Main,
            Some("status") if self.served.kind.status => Scope::Status,
            Some("log") if self.served.kind.is_core("Pod") && *method == Method::GET => {
                self.count("get-log");
                return self.log().await;
            }
            Some(name) => return self.subresource(name, parts, body),
        };
        let verb = verb(method, named, scope, self.query.flag("watch"));
        self.count(verb);
        // All namespaces together can be read, but not written to.
        let across = self.served.kind.namespaced && self.place.namespace.is_none();
        if !matches!(verb, "get" | "get-status" | "list" | "watch") {
            self.core.check_writable()?;
        }
        let core = Arc::clone(&self.core);
        let answer = match verb {
            _ if self.served.kind.fixed && !matches!(verb, "get" | "list" | "watch") => {
                let (key, format) = (self.key(), content_type(parts));
                let object =
                    definitions::write(&self.core, &self.served, &key, verb, format, body)?;
                Ok(answer::document(StatusCode::OK, self.view.bytes(&object)))
            }
            "deletecollection" if self.served.kind.is_core("Namespace") => {
                Err(ApiError::method_not_allowed())
            }
            "create" | "deletecollection" if across => Err(ApiError::method_not_allowed()),
            "get" | "get-status" => return self.get().await,
            "list" => self.list(),
            "watch" => self.watch(),
            "create" => self.create(parts, body),
            "update" | "update-status" => self.update(scope, parts, body),
            "patch" | "patch-status" => self.patch(scope, parts, body),
            "delete" => self.delete(parts, body),
            "deletecollection" => self.delete_collection(parts, body),
            _ => Err(ApiError::method_not_allowed()),
        };
        // Refusals depend on what is stored as much as other answers do.
        let seen = core.lock().version();
        core.settle(seen).await?;
        answer
    }

    fn review(&self, parts: &Parts, body: &Bytes) -> Result<Answer, ApiError> {
        if self.place.name.is_some() {
            return Err(ApiError::no_such_path());
        }
        let caller = parts.extensions.get::<Arc<Identity>>();
        let (Some(caller), &Method::POST) = (caller, &parts.method) else {
            return Err(ApiError::method_not_allowed());
        };
        self.count("create");
        let answered = review::answer(&self.core, &self.served, self.namespace(), caller, body)?;
        Ok(answer::value(StatusCode::CREATED, &answered))
    }

    fn subresource(&self, name: &str, parts: &Parts, body: &Bytes) -> Result<Answer, ApiError> {
        let found = Subresource::of(&self.served, name).ok_or_else(ApiError::no_such_path)?;
        let verb = found.verb(&parts.method);
        self.count(verb.ok_or_else(ApiError::method_not_allowed)?);
        let ask = Ask {
            served: &self.served,
            key: &self.key(),
            options: WriteOptions::of_query("UpdateOptions", &self.query, &self.agent)?,
            content_type: content_type(parts),
            body,
        };
        let (code, value) = found.serve(&self.core, &parts.method, &ask)?;
        Ok(answer::value(code, &value))
    }

    fn count(&self, verb: &'static str) {
        self.core.counters.request(verb, self.served.resource());
    }

    fn key(&self) -> Key {
        let place = &self.place;
        Key::new(
            place.namespace.clone().unwrap_or_default(),
            place.name.clone().unwrap_or_default(),
        )
    }

    fn namespace(&self) -> Option<&str> {
        self.place.namespace.as_deref()
    }

    async fn get(&self) -> Result<Answer, ApiError> {
        let object = self.find().await?;
        Ok(answer::document(StatusCode::OK, self.view.bytes(&object)))
    }

    /// Looks an object up; only its own last write has to be beyond loss, unless it is missing.
    async fn find(&self) -> Result<Arc<Object>, ApiError> {
        let found = self.core.get(&self.served, &self.key());
        let seen = match &found {
            Ok(object) => object.version,
            Err(_) => self.core.lock().version(),
        };
        self.core.settle(seen).await?;
        found
    }

    fn list(&self) -> Result<Answer, ApiError> {
        let request = ListRequest::of_query(&self.query, &self.served)?;
        let text = self
            .core
            .list(&self.served, self.namespace(), &request, &self.view)?;
        Ok(answer::document(StatusCode::OK, text))
    }

    fn watch(self) -> Result<Answer, ApiError> {
        let request = WatchRequest::of_query(&self.query, &self.served)?;
        let lines = watch::start(
            &self.core,
            self.served,
            self.place.namespace,
            request,
            self.view,
        )?;
        Ok(answer::stream("application/json", lines))
    }

    fn create(&self, parts: &Parts, body: &Bytes) -> Result<Answer, ApiError> {
        let options = WriteOptions::of_query("CreateOptions", &self.query, &self.agent)?;
        let object = Manifest::read(content_type(parts), body, &self.served.kind.name)?;
        let written = self
            .core
            .create(&self.served, self.namespace(), object, options)?;
        Ok(self.written(StatusCode::CREATED, &written))
    }

    fn update(&self, scope: Scope, parts: &Parts, body: &Bytes) -> Result<Answer, ApiError> {
        let options = WriteOptions::of_query("UpdateOptions", &self.query, &self.agent)?;
        let object = Manifest::read(content_type(parts), body, &self.served.kind.name)?;
        let written = self
            .core
            .update(&self.served, &self.key(), scope, object, options)?;
        Ok(self.written(StatusCode::OK, &written))
    }

    fn patch(&self, scope: Scope, parts: &Parts, body: &Bytes) -> Result<Answer, ApiError> {
        let change = Change::parse(content_type(parts), body, &self.served)?;
        let options = WriteOptions::of_patch(&self.query, &self.agent, &change)?;
        let written = self
            .core
            .patch(&self.served, &self.key(), scope, &change, options)?;
        let code = if written.created {
            StatusCode::CREATED
        } else {
            StatusCode::OK
        };
        Ok(self.written(code, &written))
    }

    fn written(&self, code: StatusCode, written: &Written) -> Answer {
        let text = self.view.bytes(written.outcome.object());
        answer::warn(answer::document(code, text), &written.warnings)
    }

    fn delete(&self, parts: &Parts, body: &Bytes) -> Result<Answer, ApiError> {
        let options = DeleteOptions::parse(content_type(parts), body, &self.query)?;
        match self.core.delete(&self.served, &self.key(), &options)? {
            Outcome::Exists(object) => {
                Ok(answer::document(StatusCode::OK, self.view.bytes(&object)))
            }
            // The last state of these is worth more than a confirmation.
            Outcome::Removed(object) if self.served.kind.shows_last_state() => {
                Ok(answer::document(StatusCode::OK, self.view.bytes(&object)))
            }
            Outcome::Removed(object) => Ok(answer::value(
                StatusCode::OK,
                &json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                    "details": {
                        "name": object.key.name, "group": self.served.group,
                        "kind": self.served.kind.plural, "uid": object.uid(),
                    },
                }),
            )),
        }
    }

    fn delete_collection(&self, parts: &Parts, body: &Bytes) -> Result<Answer, ApiError> {
        let options = DeleteOptions::parse(content_type(parts), body, &self.query)?;
        let selector = Selector::of_query(&self.query, &self.served)?;
        let ended =
            self.core
                .delete_collection(&self.served, self.namespace(), &selector, &options)?;
        let version = self.core.lock().version().to_string();
        let metadata = json!({ "resourceVersion": version });
        let text = list::write(&self.served, &self.view, &metadata, &ended);
        Ok(answer::document(StatusCode::OK, text))
    }

    async fn log(&self) -> Result<Answer, ApiError> {
        let key = self.key();
        self.find().await?;
        let request = LogRequest::of_query(&key.namespace, &key.name, &self.query)?;
        let Some(logs) = &self.core.logs else {
            return Err(ApiError::unavailable("no source of pod logs is configured"));
        };
        let pieces = logs.open(request).await?;
        Ok(answer::stream("text/plain", pieces))
    }
}

fn accepted(parts: &Parts) -> Option<&str> {
    let header = parts.headers.get(header::ACCEPT)?;
    header.to_str().ok()
}

fn content_type(parts: &Parts) -> &str {
    let header = parts.headers.get(header::CONTENT_TYPE);
    let text = header.and_then(|value| value.to_str().ok());
    text.unwrap_or_default()
}

/// Reads in which form the caller wants to see objects; logs are text, whatever is accepted.
fn form(
    core: &Core,
    served: &Served,
    place: &Place,
    query: &Query,
    parts: &Parts,
) -> Result<Form, ApiError> {
    if place.subresource.as_deref() == Some("log") {
        return Ok(Form::Whole);
    }
    let many = place.name.is_none() && matches!(parts.method, Method::GET | Method::DELETE);
    let list = many && !query.flag("watch");
    Ok(match accept::target(accepted(parts), list)? {
        Target::Object => Form::Whole,
        Target::Metadata => Form::Metadata,
        Target::Table(version) => {
            let columns = &served.columns;
            Form::Table(Table::of_query(query, columns, &core.clock, version)?)
        }
    })
}

/// Names what a request wants to do; an empty name is not allowed.
fn verb(method: &Method, named: bool, scope: Scope, watch: bool) -> &'static str {
    match (method.as_str(), named, scope) {
        ("GET", false, _) if watch => "watch",
        ("GET", false, _) => "list",
        ("GET", true, Scope::Main) => "get",
        ("GET", true, Scope::Status) => "get-status",
        ("POST", false, _) => "create",
        ("PUT", true, Scope::Main) => "update",
        ("PUT", true, Scope::Status) => "update-status",
        ("PATCH", true, Scope::Main) => "patch",
        ("PATCH", true, Scope::Status) => "patch-status",
        ("DELETE", true, Scope::Main) => "delete",
        ("DELETE", false, _) => "deletecollection",
        _ => "",
    }
}
