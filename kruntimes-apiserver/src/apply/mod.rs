//! Server-side apply and the ledger of owners in `metadata.managedFields`.
//!
//! Every write is recorded with its manager; an apply is worked out by [`turn`] from the configuration, the object and
//! what its managers own. The semantics are those of Kubernetes. Two simplifications: the versions of a kind differ in
//! nothing but their name, so field paths are never converted; and Events are recorded under the paths of
//! `events.k8s.io/v1`, whichever of their two APIs a write came through.

mod compare;
pub(crate) mod config;
mod fields;
pub(crate) mod keys;
mod ledger;
mod merge;
mod refusal;
mod topology;
mod turn;
mod upkeep;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

pub(crate) use self::{
    ledger::{Ledger, Manager, NAME_MAX_BYTES, Operation},
    upkeep::{Upkeep, settle},
};
use self::{
    topology::Topology,
    turn::{Applied, first, relevant, turn},
};
use crate::{
    admit::{Scope, ingest, replace},
    commit::Core,
    error::ApiError,
    kind::Served,
    manifest::Manifest,
    object::{Key, Object, meta_mut, meta_text},
    shape::{Form, Shape},
    strict::{Findings, Place},
    typed::{self, decode},
    write::{WriteOptions, Written},
};

impl Core {
    /// Applies a configuration; the object is created if it is the object itself and absent.
    pub(crate) fn apply(
        &self,
        served: &Served,
        key: &Key,
        scope: Scope,
        config: &Manifest,
        options: WriteOptions<'_>,
    ) -> Result<Written, ApiError> {
        let config = receive(served, key, scope, config)?;
        let applier = manager(served, scope, Operation::Apply, options.manager);
        let now = self.now();
        let applied = Applied {
            config: &config.value,
            applier: &applier,
            force: options.force,
            now: &now,
        };
        loop {
            match self.apply_to_existing(served, key, scope, &applied, &config.findings, options) {
                Err(error) if error.reason == "NotFound" && scope == Scope::Main => {}
                result => return result,
            }
            match self.apply_to_nothing(served, key, &applied, &config.findings, options) {
                // Somebody else was faster, so there is an object to apply to.
                Err(error) if error.reason == "AlreadyExists" => {}
                result => return result,
            }
        }
    }

    fn apply_to_existing(
        &self,
        served: &Served,
        key: &Key,
        scope: Scope,
        applied: &Applied<'_>,
        findings: &Findings,
        options: WriteOptions<'_>,
    ) -> Result<Written, ApiError> {
        self.decide(served, key, options, |current| {
            let mut live = (*current.value).clone();
            let ledger = Ledger::take(&mut live);
            let (next, ledger) = turn(Topology::of(served), &live, ledger, applied)
                .map_err(|conflicts| refusal::conflict(&conflicts))?;
            let next = shown(served, key, next, findings);
            let next = ingest(served, next)?;
            let upkeep = Upkeep::Given(ledger);
            replace(served, scope, current, next, options.unknown, &upkeep)
        })
    }

    fn apply_to_nothing(
        &self,
        served: &Served,
        key: &Key,
        applied: &Applied<'_>,
        findings: &Findings,
        options: WriteOptions<'_>,
    ) -> Result<Written, ApiError> {
        let mut object = applied.config.clone();
        let uid = meta_text(&object, "uid");
        if !uid.is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            );
            return Err(ApiError::conflict(served, &key.name, &why));
        }
        meta_mut(&mut object).remove("resourceVersion");
        let object = ingest(served, shown(served, key, object, findings))?;
        let upkeep = Upkeep::Given(first(Topology::of(served), applied));
        self.admit_new(served, object, options, &upkeep)
    }
}

/// Takes an object from the stored form to that of the caller's version, which is what is read and judged.
fn shown(served: &Served, key: &Key, object: Value, findings: &Findings) -> Manifest {
    let object = Object::new(key.clone(), 0, object);
    Manifest {
        value: served.view(Form::Whole).full(&object),
        findings: findings.clone(),
    }
}

/// Judges a configuration and takes it to the stored form.
fn receive(
    served: &Served,
    key: &Key,
    scope: Scope,
    config: &Manifest,
) -> Result<Manifest, ApiError> {
    let Manifest {
        value: config,
        findings,
    } = config;
    let text = |field: &str| config[field].as_str().unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    if version != served.api_version() || kind != served.kind.name {
        let slash = if version.contains('/') { "" } else { "/" };
        return Err(ApiError::bad_request(format!(
            "invalid object type: {slash}{version}, Kind={kind}"
        )));
    }
    check_metadata(key, &config["metadata"])?;
    let mut complaints = check_type(served, config);
    let config = served
        .view(Form::Whole)
        .ingest(config.clone(), &served.kind.api_version);
    complaints.extend(config::complaints(Topology::of(served), &config));
    if !complaints.is_empty() {
        return Err(ApiError::untyped(served, &config, &complaints));
    }
    let mut config = relevant(config, subresource(scope), served.kind.status);
    let meta = meta_mut(&mut config);
    for (field, value) in [("name", &key.name), ("namespace", &key.namespace)] {
        if !value.is_empty() {
            meta.insert(field.to_owned(), Value::from(value.as_str()));
        }
    }
    Ok(Manifest {
        value: config,
        findings: findings.clone(),
    })
}

fn check_metadata(key: &Key, metadata: &Value) -> Result<(), ApiError> {
    if metadata.get("managedFields").is_some() {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    for (field, expected) in [("name", &key.name), ("namespace", &key.namespace)] {
        let given = metadata[field].as_str().unwrap_or_default();
        if !given.is_empty() && given != expected {
            return Err(ApiError::bad_request(format!(
                "the {field} of the object ({given}) does not match the {field} on the URL ({expected})"
            )));
        }
    }
    Ok(())
}

/// Returns what the type of a built-in kind, or that of metadata, has against a configuration.
fn check_type(served: &Served, config: &Value) -> Vec<String> {
    let mut unknown = Findings::default();
    let decoded = match (served.through, config.get("metadata")) {
        (Some(through), _) => decode(through, config, &Place::Root, &mut unknown),
        (None, Some(meta)) if !meta.is_null() => {
            let place = Place::Field(&Place::Root, "metadata");
            decode(typed::through::<ObjectMeta>, meta, &place, &mut unknown)
        }
        (None, _) => return Vec::new(),
    };
    let complaint = |text: String| {
        let path = text
            .strip_prefix("unknown field \"")
            .and_then(|text| text.strip_suffix('"'));
        path.map(|path| format!(".{path}: field not declared in schema"))
    };
    match decoded {
        Err(why) => vec![format!(".{why}")],
        Ok(_) => unknown
            .into_texts()
            .into_iter()
            .filter_map(complaint)
            .collect(),
    }
}

/// Describes whoever writes to a kind under this name.
pub(crate) fn manager(served: &Served, scope: Scope, operation: Operation, name: &str) -> Manager {
    let api_version = match served.shape {
        Shape::CoreEvent => served.kind.api_version.clone(),
        Shape::Stored | Shape::Renamed => served.api_version(),
    };
    Manager {
        name: name.to_owned(),
        operation,
        api_version,
        subresource: subresource(scope).to_owned(),
    }
}

fn subresource(scope: Scope) -> &'static str {
    match scope {
        Scope::Main => "",
        Scope::Status => "status",
    }
}
