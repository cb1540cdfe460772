//! Parts of built-in objects that have a path and a type of their own: scale, finalize, binding and eviction.

use bytes::Bytes;
use http::{Method, StatusCode};
use k8s_openapi::api::{
    autoscaling::v1::Scale as ScaleObject, core::v1::Binding as BindingObject,
    policy::v1::Eviction as EvictionObject,
};
use serde_json::{Value, json};

use crate::{
    admit::{Scope, Unknown, ingest, replace},
    commit::{Core, Next, Outcome},
    delete::DeleteOptions,
    error::ApiError,
    invalid,
    kind::Served,
    manifest::Manifest,
    object::{Key, Object, meta_text},
    patch::Change,
    strict::{Findings, Place},
    typed::{Through, decode, through},
    write::WriteOptions,
};

/// A subresource other than `status` and `log`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subresource {
    Scale,
    Finalize,
    Binding,
    Eviction,
}

/// A request for a subresource.
pub(crate) struct Ask<'a> {
    pub(crate) served: &'a Served,
    pub(crate) key: &'a Key,
    pub(crate) options: WriteOptions<'a>,
    pub(crate) content_type: &'a str,
    pub(crate) body: &'a Bytes,
}

impl Subresource {
    /// Finds the subresource of a kind by its name in the path.
    pub(crate) fn of(served: &Served, name: &str) -> Option<Self> {
        let kind = &served.kind;
        match name {
            "scale" if kind.name == "Deployment" && served.through.is_some() => Some(Self::Scale),
            "finalize" if kind.is_core("Namespace") => Some(Self::Finalize),
            "binding" if kind.is_core("Pod") => Some(Self::Binding),
            "eviction" if kind.is_core("Pod") => Some(Self::Eviction),
            _ => None,
        }
    }

    /// Names what a request does, for the counters; nothing where the method is not allowed.
    pub(crate) fn verb(self, method: &Method) -> Option<&'static str> {
        match (self, method.as_str()) {
            (Self::Scale, "GET") => Some("get-scale"),
            (Self::Scale, "PUT") => Some("update-scale"),
            (Self::Scale, "PATCH") => Some("patch-scale"),
            (Self::Finalize, "PUT") => Some("update-finalize"),
            (Self::Binding, "POST") => Some("create-binding"),
            (Self::Eviction, "POST") => Some("create-eviction"),
            _ => None,
        }
    }

    /// Carries out a request whose method is allowed.
    pub(crate) fn serve(
        self,
        core: &Core,
        method: &Method,
        ask: &Ask<'_>,
    ) -> Result<(StatusCode, Value), ApiError> {
        match self {
            Self::Scale => scale(core, method, ask).map(|scale| (StatusCode::OK, scale)),
            Self::Finalize => finalize(core, ask).map(|object| (StatusCode::OK, object)),
            Self::Binding => bind(core, ask).map(|()| (StatusCode::CREATED, done())),
            Self::Eviction => evict(core, ask).map(|()| (StatusCode::CREATED, done())),
        }
    }
}

fn done() -> Value {
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201 })
}

/// Reads the body as another kind than that of the path.
fn read(ask: &Ask<'_>, kind: &str, api_version: &str, through: Through) -> Result<Value, ApiError> {
    let mut sent = Manifest::read(ask.content_type, ask.body, kind)?.value;
    let fields = sent.as_object_mut();
    for (field, expected) in [("kind", kind), ("apiVersion", api_version)] {
        let given = fields.as_ref().and_then(|fields| fields.get(field));
        if let Some(given) = given.filter(|given| !given.is_null() && *given != expected) {
            return Err(ApiError::bad_request(format!(
                "the {field} in the data ({given}) does not match the expected {field} ({expected})"
            )));
        }
    }
    let sent = typed(kind, through, &sent)?;
    let name = meta_text(&sent, "name");
    if !name.is_empty() && name != ask.key.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            ask.key.name
        )));
    }
    Ok(sent)
}

fn typed(kind: &str, through: Through, sent: &Value) -> Result<Value, ApiError> {
    let mut findings = Findings::default();
    decode(through, sent, &Place::Root, &mut findings).map_err(|why| {
        ApiError::bad_request(format!(
            "{kind} in version \"v1\" cannot be handled as a {kind}: {why}"
        ))
    })
}

/// Shows how many copies a Deployment wants and has.
fn scale_of(deployment: &Object) -> Value {
    let value = &deployment.value;
    let meta = &value["metadata"];
    let mut metadata =
        json!({ "name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"] });
    metadata["resourceVersion"] = meta["resourceVersion"].clone();
    metadata["creationTimestamp"] = meta["creationTimestamp"].clone();
    json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
        "spec": { "replicas": value["spec"]["replicas"].as_i64().unwrap_or(0) },
        "status": {
            "replicas": value["status"]["replicas"].as_i64().unwrap_or(0),
            "selector": selector_text(&value["spec"]["selector"]),
        },
    })
}

/// Writes a selector as a query parameter would have it.
fn selector_text(selector: &Value) -> String {
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let equal = labels.map(|(name, value)| format!("{name}={}", text(value)));
    let expressions = selector["matchExpressions"].as_array();
    let other = expressions.into_iter().flatten().map(|one| {
        let key = text(&one["key"]);
        let values = one["values"].as_array().into_iter().flatten();
        let values = values.map(text).collect::<Vec<_>>().join(",");
        match one["operator"].as_str() {
            Some("In") => format!("{key} in ({values})"),
            Some("NotIn") => format!("{key} notin ({values})"),
            Some("DoesNotExist") => format!("!{key}"),
            _ => key,
        }
    });
    equal.chain(other).collect::<Vec<_>>().join(",")
}

fn scale(core: &Core, method: &Method, ask: &Ask<'_>) -> Result<Value, ApiError> {
    let served = ask.served;
    let (patch, whole) = match method.as_str() {
        "GET" => return Ok(scale_of(&*core.get(served, ask.key)?)),
        "PATCH" => {
            let patch = Change::parse(ask.content_type, ask.body, served)?;
            (Some(patch), Value::Null)
        }
        _ => {
            let whole = read(ask, "Scale", "autoscaling/v1", through::<ScaleObject>)?;
            (None, whole)
        }
    };
    let upkeep = core.upkeep(served, Scope::Main, ask.options);
    let outcome = core.change(served, ask.key, ask.options.dry_run, |current| {
        let asked = match &patch {
            Some(patch) => {
                let patched = patch.apply(served, scale_of(current))?.value;
                typed("Scale", through::<ScaleObject>, &patched)?
            }
            None => whole.clone(),
        };
        let version = meta_text(&asked, "resourceVersion");
        if !version.is_empty() && version != current.version.to_string() {
            return Err(ApiError::modified(served, &ask.key.name));
        }
        let replicas = asked["spec"]["replicas"].as_i64().unwrap_or(0);
        if replicas < 0 {
            let detail = "must be greater than or equal to 0";
            let error = invalid::invalid("spec.replicas", &Value::from(replicas), detail);
            return Err(ApiError::invalid_as(
                "Scale",
                "autoscaling",
                &ask.key.name,
                &[error],
            ));
        }
        let mut wanted = (*current.value).clone();
        wanted["spec"]["replicas"] = Value::from(replicas);
        let wanted = wanted.into();
        let (next, _) = replace(
            served,
            Scope::Main,
            current,
            wanted,
            Unknown::Ignore,
            &upkeep,
        )?;
        Ok(next)
    })?;
    Ok(scale_of(outcome.object()))
}

/// Replaces the finalizers in the spec of a namespace, which nothing else changes.
fn finalize(core: &Core, ask: &Ask<'_>) -> Result<Value, ApiError> {
    let served = ask.served;
    let sent = Manifest::read(ask.content_type, ask.body, &served.kind.name)?;
    let sent = ingest(served, sent)?.value;
    if meta_text(&sent, "name") != ask.key.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({}) does not match the name on the URL ({})",
            meta_text(&sent, "name"),
            ask.key.name
        )));
    }
    let outcome = core.change(served, ask.key, ask.options.dry_run, |current| {
        let version = meta_text(&sent, "resourceVersion");
        if !version.is_empty() && version != current.version.to_string() {
            return Err(ApiError::modified(served, &ask.key.name));
        }
        let mut next = (*current.value).clone();
        match sent["spec"].get("finalizers").and_then(Value::as_array) {
            Some(names) if !names.is_empty() => next["spec"] = json!({ "finalizers": names }),
            _ => next["spec"] = json!({}),
        }
        Ok(if next == *current.value {
            Next::Keep
        } else {
            Next::Write(next)
        })
    })?;
    Ok((*outcome.object().value).clone())
}

/// Puts a Pod on a node, once.
fn bind(core: &Core, ask: &Ask<'_>) -> Result<(), ApiError> {
    let sent = read(ask, "Binding", "v1", through::<BindingObject>)?;
    let node = sent["target"]["name"].as_str().unwrap_or_default();
    let name = &ask.key.name;
    if node.is_empty() {
        let errors = [invalid::required("target.name", "")];
        return Err(ApiError::invalid_as("Binding", "", name, &errors));
    }
    core.change(ask.served, ask.key, ask.options.dry_run, |current| {
        let refuse = |why: &str| Err(ApiError::conflict_about("pods/binding", "", name, why));
        if current.is_ending() {
            return refuse(&format!(
                "pod {name} is being deleted, cannot be assigned to a host"
            ));
        }
        if let Some(bound) = current.value["spec"]["nodeName"].as_str()
            && !bound.is_empty()
        {
            return refuse(&format!("pod {name} is already assigned to node {bound:?}"));
        }
        let mut next = (*current.value).clone();
        next["spec"]["nodeName"] = Value::from(node);
        let scheduled = json!({
            "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": core.now(),
        });
        let mut conditions = next["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.retain(|condition| condition["type"] != "PodScheduled");
        conditions.push(scheduled);
        next["status"]["conditions"] = Value::from(conditions);
        Ok(Next::Write(next))
    })?;
    Ok(())
}

/// Deletes a Pod as its caller would; there are no disruption budgets that could forbid it.
fn evict(core: &Core, ask: &Ask<'_>) -> Result<(), ApiError> {
    let sent = read(ask, "Eviction", "policy/v1", through::<EvictionObject>)?;
    let options = DeleteOptions::of_value(&sent["deleteOptions"])?;
    let options = options.rehearsed(ask.options.dry_run);
    match core.delete(ask.served, ask.key, &options)? {
        Outcome::Exists(_) | Outcome::Removed(_) => Ok(()),
    }
}
