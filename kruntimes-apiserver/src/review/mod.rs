//! Questions to the policy: kinds that are created to be answered, and never stored.

mod access;
mod rules;
mod token;

use std::sync::Arc;

use bytes::Bytes;
use k8s_openapi::api::authentication::v1::UserInfo;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    access::Identity,
    commit::Core,
    error::ApiError,
    kind::{Kind, NOT_STORED, Rules, Served},
    registry::Registry,
    shape::Shape,
    table::Columns,
};

const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";

/// Adds the review kinds to the registry.
pub(crate) fn install(registry: &mut Registry) {
    for (group, name, namespaced) in [
        (AUTHENTICATION, "TokenReview", false),
        (AUTHENTICATION, "SelfSubjectReview", false),
        (AUTHORIZATION, "SubjectAccessReview", false),
        (AUTHORIZATION, "SelfSubjectAccessReview", false),
        (AUTHORIZATION, "SelfSubjectRulesReview", false),
        (AUTHORIZATION, "LocalSubjectAccessReview", true),
    ] {
        let singular = name.to_ascii_lowercase();
        let kind = Kind {
            shelf: NOT_STORED,
            api_version: format!("{group}/v1"),
            name: name.to_owned(),
            list_name: format!("{name}List"),
            plural: format!("{singular}s"),
            singular,
            short_names: Vec::new(),
            categories: Vec::new(),
            namespaced,
            status: false,
            generation: false,
            unconditional_update: false,
            fixed: false,
            rules: Rules::default(),
        };
        registry.add(Served {
            kind: Arc::new(kind),
            group: group.to_owned(),
            version: "v1".to_owned(),
            shape: Shape::Stored,
            schema: None,
            through: None,
            selectable: Vec::new(),
            columns: Arc::new(Columns::built_in(name)),
        });
    }
}

/// Answers one review for the caller of the request.
pub(crate) fn answer(
    core: &Core,
    served: &Served,
    namespace: Option<&str>,
    caller: &Identity,
    body: &Bytes,
) -> Result<Value, ApiError> {
    let sent = object(served, body)?;
    let metadata = &sent["metadata"];
    let mut answered = json!({
        "kind": served.kind.name, "apiVersion": served.kind.api_version,
        "metadata": if metadata.is_object() { metadata.clone() } else { json!({}) },
    });
    let spec = &sent["spec"];
    let (spec, status) = match served.kind.name.as_str() {
        "TokenReview" => token::review(core, &decoded(served, spec)?)?,
        "SelfSubjectReview" => {
            answered["metadata"]["creationTimestamp"] = Value::from(core.now());
            (Value::Null, json!({ "userInfo": described(caller) }))
        }
        "SubjectAccessReview" => access::review(core, &decoded(served, spec)?, None)?,
        "LocalSubjectAccessReview" => {
            let namespace = namespace.unwrap_or_default();
            answered["metadata"]["namespace"] = Value::from(namespace);
            access::review(core, &decoded(served, spec)?, Some(namespace))?
        }
        "SelfSubjectAccessReview" => access::review_self(core, caller, &decoded(served, spec)?)?,
        _ => rules::review(core, caller, spec)?,
    };
    if !spec.is_null() {
        answered["spec"] = spec;
    }
    answered["status"] = status;
    Ok(answered)
}

/// Reads the body as an object of the kind, which it need not name.
fn object(served: &Served, body: &Bytes) -> Result<Value, ApiError> {
    let sent: Value = serde_json::from_slice(body)
        .ok()
        .filter(Value::is_object)
        .ok_or_else(|| {
            ApiError::bad_request(format!(
                "the object provided is unrecognized (must be of type {})",
                served.kind.name
            ))
        })?;
    for (field, expected) in [
        ("kind", &served.kind.name),
        ("apiVersion", &served.kind.api_version),
    ] {
        let given = sent[field].as_str().unwrap_or_default();
        if !given.is_empty() && given != expected {
            return Err(unreadable(served, &format!("its {field} is {given:?}")));
        }
    }
    Ok(sent)
}

fn decoded<T: DeserializeOwned>(served: &Served, spec: &Value) -> Result<T, ApiError> {
    let spec = if spec.is_null() {
        json!({})
    } else {
        spec.clone()
    };
    serde_json::from_value(spec).map_err(|error| unreadable(served, &error.to_string()))
}

fn unreadable(served: &Served, why: &str) -> ApiError {
    let Kind { name, .. } = &*served.kind;
    let version = &served.version;
    ApiError::bad_request(format!(
        "{name} in version {version:?} cannot be handled as a {name}: {why}"
    ))
}

fn encoded(spec: &impl serde::Serialize) -> Value {
    serde_json::to_value(spec).expect("API types are maps of strings, which JSON can express")
}

/// Describes a user as reviews tell of it.
fn described(identity: &Identity) -> Value {
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    encoded(&UserInfo {
        username: some(&identity.user),
        uid: some(&identity.uid),
        groups: (!identity.groups.is_empty()).then(|| identity.groups.clone()),
        extra: (!identity.extra.is_empty()).then(|| identity.extra.clone()),
    })
}
