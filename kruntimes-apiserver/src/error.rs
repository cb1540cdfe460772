//! Refusals, each of which becomes a `metav1.Status` with the wording of Kubernetes.

use std::error::Error;

use http::StatusCode;
use serde_json::{Value, json};

use crate::{
    disk::StoreError,
    invalid,
    kind::{Served, dotted},
    schema::FieldError,
};

/// A refusal on its way to the caller.
#[derive(Clone, Debug)]
pub(crate) struct ApiError {
    pub(crate) code: StatusCode,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) details: Option<Box<Value>>,
}

impl ApiError {
    fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: None,
        }
    }

    fn about(mut self, served: &Served, name: &str) -> Self {
        let mut details = json!({ "name": name, "kind": served.kind.plural });
        if !served.group.is_empty() {
            details["group"] = Value::from(served.group.as_str());
        }
        self.details = Some(Box::new(details));
        self
    }

    pub(crate) fn not_found(served: &Served, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", served.resource());
        Self::new(StatusCode::NOT_FOUND, "NotFound", message).about(served, name)
    }

    pub(crate) fn no_such_path() -> Self {
        let mut error = Self::new(
            StatusCode::NOT_FOUND,
            "NotFound",
            "the server could not find the requested resource",
        );
        error.details = Some(Box::new(json!({})));
        error
    }

    pub(crate) fn no_such_namespace(name: &str) -> Self {
        let mut error = Self::new(
            StatusCode::NOT_FOUND,
            "NotFound",
            format!("namespaces \"{name}\" not found"),
        );
        error.details = Some(Box::new(json!({ "name": name, "kind": "namespaces" })));
        error
    }

    pub(crate) fn namespace_ends(served: &Served, name: &str, namespace: &str) -> Self {
        let cause = format!("namespace {namespace} is being terminated");
        let mut error = Self::forbidden(
            served,
            name,
            &format!(
                "unable to create new content in namespace {namespace} because it is being terminated"
            ),
        );
        if let Some(details) = error.details.as_deref_mut() {
            details["causes"] = json!([{
                "reason": "NamespaceTerminating", "message": cause, "field": "metadata.namespace",
            }]);
        }
        error
    }

    pub(crate) fn forbidden(served: &Served, name: &str, why: &str) -> Self {
        let message = format!("{} \"{name}\" is forbidden: {why}", served.resource());
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message).about(served, name)
    }

    pub(crate) fn already_exists(served: &Served, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", served.resource());
        Self::new(StatusCode::CONFLICT, "AlreadyExists", message).about(served, name)
    }

    /// The name is taken by an object that is on its way out.
    pub(crate) fn still_exists(served: &Served, name: &str) -> Self {
        let mut error = Self::already_exists(served, name);
        error.message = format!("object is being deleted: {}", error.message);
        error
    }

    pub(crate) fn modified(served: &Served, name: &str) -> Self {
        Self::conflict(
            served,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    pub(crate) fn conflict(served: &Served, name: &str, why: &str) -> Self {
        Self::conflict_about(&served.kind.plural, &served.group, name, why)
    }

    /// Tells of a conflict over something that is not named as a path names it.
    pub(crate) fn conflict_about(what: &str, group: &str, name: &str, why: &str) -> Self {
        let dotted = dotted(what, group);
        let message = format!("Operation cannot be fulfilled on {dotted} \"{name}\": {why}");
        let mut error = Self::new(StatusCode::CONFLICT, "Conflict", message);
        error.details = Some(Box::new(
            json!({ "name": name, "group": group, "kind": what }),
        ));
        error
    }

    pub(crate) fn invalid(served: &Served, name: &str, errors: &[FieldError]) -> Self {
        Self::invalid_as(&served.kind.name, &served.group, name, errors)
    }

    /// Refuses an object of another kind than that of the path.
    pub(crate) fn invalid_as(kind: &str, group: &str, name: &str, errors: &[FieldError]) -> Self {
        let mut error = Self::invalid_object(&dotted(kind, group), name, errors);
        if let Some(details) = error.details.as_deref_mut() {
            details["kind"] = Value::from(kind);
            for (field, text) in [("name", name), ("group", group)] {
                if !text.is_empty() {
                    details[field] = Value::from(text);
                }
            }
        }
        error
    }

    /// Refuses an update that does not say which state it means; Kubernetes names the resource here, not the kind.
    pub(crate) fn unversioned(served: &Served, name: &str) -> Self {
        let detail = "must be specified for an update";
        let fault = invalid::invalid("metadata.resourceVersion", &Value::from(0), detail);
        let mut error = Self::invalid(served, name, std::slice::from_ref(&fault));
        error.message = format!("{} \"{name}\" is invalid: {fault}", served.resource());
        if let Some(details) = error.details.as_deref_mut() {
            details["kind"] = Value::from(served.kind.plural.as_str());
        }
        error
    }

    /// Refuses the options of a deletion.
    pub(crate) fn invalid_options(errors: &[FieldError]) -> Self {
        let mut error = Self::invalid_object("DeleteOptions.meta.k8s.io", "", errors);
        if let Some(details) = error.details.as_deref_mut() {
            details["group"] = Value::from("meta.k8s.io");
            details["kind"] = Value::from("DeleteOptions");
        }
        error
    }

    /// Refuses a review, which Kubernetes names by its group alone.
    pub(crate) fn invalid_review(group: &str, errors: &[FieldError]) -> Self {
        let mut error = Self::invalid_object(&format!(".{group}"), "", errors);
        if let Some(details) = error.details.as_deref_mut() {
            details["group"] = Value::from(group);
        }
        error
    }

    fn invalid_object(kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let told: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let told = match told.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let causes: Vec<Value> = errors
            .iter()
            .map(|error| json!({ "reason": error.kind.reason(), "message": error.message, "field": error.field }))
            .collect();
        let message = format!("{kind} \"{name}\" is invalid: {told}");
        let mut error = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message);
        error.details = Some(Box::new(json!({ "causes": causes })));
        error
    }

    /// Tells an applier that others own what it would change.
    pub(crate) fn apply_conflict(message: String, causes: &[Value]) -> Self {
        let mut error = Self::new(StatusCode::CONFLICT, "Conflict", message);
        error.details = Some(Box::new(json!({ "causes": causes })));
        error
    }

    /// Refuses a configuration that no object of the kind can look like; Kubernetes blames itself and gives no reason.
    pub(crate) fn untyped(served: &Served, config: &Value, complaints: &[String]) -> Self {
        let told = match complaints {
            [one] => one.clone(),
            many => format!("errors:\n  {}", many.join("\n  ")),
        };
        let text = |field: &str| config["metadata"][field].as_str().unwrap_or_default();
        let version = match served.api_version() {
            version if version.contains('/') => version,
            version => format!("/{version}"),
        };
        let message = format!(
            "failed to create typed patch object ({}/{}; {version}, Kind={}): {told}",
            text("namespace"),
            text("name"),
            served.kind.name
        );
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
    }

    /// Refuses the parameters of a write, which Kubernetes treats as an object called `CreateOptions` or the like.
    pub(crate) fn bad_options(kind: &str, error: &FieldError) -> Self {
        let message = format!("{kind}.meta.k8s.io \"\" is invalid: {error}");
        let mut refusal = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message);
        refusal.details = Some(Box::new(json!({
            "group": "meta.k8s.io", "kind": kind,
            "causes": [{ "reason": error.kind.reason(), "message": error.message, "field": error.field }],
        })));
        refusal
    }

    /// Refuses a patch that is well-formed but cannot be carried out.
    pub(crate) fn unprocessable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message)
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// The object says another name than the path, which Kubernetes calls a URL.
    pub(crate) fn another_name(given: &str, asked: &str) -> Self {
        Self::bad_request(if given.is_empty() {
            format!(
                "the name of the object ({asked} based on URL) was undeterminable: name must be provided"
            )
        } else {
            format!("the name of the object ({given}) does not match the name on the URL ({asked})")
        })
    }

    pub(crate) fn another_namespace() -> Self {
        Self::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        )
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
    }

    /// Refuses a body whose format is none of those that are read here.
    pub(crate) fn unsupported_media(accepted: &[&str]) -> Self {
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "UnsupportedMediaType",
            format!(
                "the body of the request was in an unknown format - accepted media types include: {}",
                accepted.join(", ")
            ),
        )
    }

    /// Refuses to change what is given once and for all when the server is built.
    pub(crate) fn fixed(served: &Served, name: &str) -> Self {
        let message = format!(
            "{} \"{name}\" cannot be written: the kinds of this server are fixed when it starts",
            served.resource()
        );
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message).about(served, name)
    }

    pub(crate) fn not_acceptable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    /// Refuses a body that is not an object of the kind.
    pub(crate) fn undecodable(served: &Served, why: &str) -> Self {
        let kind = &served.kind.name;
        let version = &served.version;
        Self::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {kind}: {why}"
        ))
    }

    /// Refuses a patch for what it would turn the object into.
    pub(crate) fn bad_patch(patch: &str, why: &str) -> Self {
        let cause = format!("Invalid value: {}: {why}", Value::from(patch));
        let mut error = Self::unprocessable(format!(" \"\" is invalid: patch: {cause}"));
        error.details = Some(Box::new(json!({
            "causes": [{ "reason": "FieldValueInvalid", "message": cause, "field": "patch" }],
        })));
        error
    }

    pub(crate) fn too_large(limit: usize) -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "RequestEntityTooLarge",
            format!("Request entity too large: limit is {limit}"),
        )
    }

    /// Tells a watcher that its version has left the window.
    pub(crate) fn too_old(asked: u64, oldest: u64) -> Self {
        Self::new(
            StatusCode::GONE,
            "Expired",
            format!("too old resource version: {asked} ({oldest})"),
        )
    }

    /// Tells a lister that the snapshot of its pages has left the window.
    pub(crate) fn continue_expired() -> Self {
        Self::new(
            StatusCode::GONE,
            "Expired",
            "The provided continue parameter is too old to display a consistent list result. \
             You must start a new list without the continue parameter.",
        )
    }

    pub(crate) fn too_new(asked: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        let mut error = Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message);
        error.details = Some(Box::new(json!({
            "causes": [{ "reason": "ResourceVersionTooLarge", "message": "Too large resource version" }],
            "retryAfterSeconds": 1,
        })));
        error
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "ServiceUnavailable",
            message,
        )
    }

    fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
    }

    /// Renders the refusal as the `metav1.Status` the caller receives.
    pub(crate) fn to_status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code.as_u16(),
        });
        if !self.reason.is_empty() {
            status["reason"] = Value::from(self.reason);
        }
        if let Some(details) = &self.details {
            status["details"] = (**details).clone();
        }
        status
    }
}

impl From<StoreError> for ApiError {
    fn from(failure: StoreError) -> Self {
        let first: &(dyn Error + 'static) = &failure;
        let causes = std::iter::successors(Some(first), |error| (*error).source());
        let causes: Vec<String> = causes.map(ToString::to_string).collect();
        let message = format!("Internal error occurred: {}", causes.join(": "));
        Self::internal(message)
    }
}
