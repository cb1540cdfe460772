//! From what a caller sends to what is stored: placing, merging with what only the server sets, judging.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value};

use crate::{
    apply::{Upkeep, settle},
    builtin,
    commit::Next,
    error::ApiError,
    kind::Served,
    manifest::Manifest,
    metadata,
    object::{Object, finalizers, is_ending, meta_mut, meta_text},
    shape::Form,
    strict::{Findings, Place},
    typed::{self, decode},
};

/// Which half of an object a write is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Main,
    Status,
}

/// What is done about fields the schema does not know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Unknown {
    Refuse,
    #[default]
    Warn,
    Ignore,
}

/// Takes what the caller sent to the stored form, which the type of a built-in kind can read.
pub(crate) fn ingest(served: &Served, sent: Manifest) -> Result<Manifest, ApiError> {
    let Manifest {
        mut value,
        mut findings,
    } = sent;
    let Some(fields) = value.as_object_mut() else {
        return Err(ApiError::undecodable(
            served,
            "the data is not a JSON object",
        ));
    };
    check_kind(served, fields)?;
    let mut ledger = None;
    if let Some(meta) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
        // Read by those who keep it, and not worth a turn through its type.
        ledger = meta.remove("managedFields").filter(|list| !list.is_null());
        meta.remove("selfLink");
        for map in ["labels", "annotations"] {
            if let Some(entries) = meta.get_mut(map).and_then(Value::as_object_mut) {
                entries.retain(|_, value| !value.is_null());
            }
        }
    }
    let undecodable = |why: String| ApiError::undecodable(served, &why);
    let is_list = |list: &Value| {
        list.as_array()
            .is_some_and(|list| list.iter().all(Value::is_object))
    };
    if ledger.as_ref().is_some_and(|ledger| !is_list(ledger)) {
        return Err(undecodable(
            "metadata.managedFields: not a list of entries".to_owned(),
        ));
    }
    if let Some(through) = served.through {
        value = decode(through, &value, &Place::Root, &mut findings).map_err(undecodable)?;
    } else if let Some(meta) = fields.get_mut("metadata").filter(|meta| !meta.is_null()) {
        let place = Place::Field(&Place::Root, "metadata");
        *meta = decode(typed::through::<ObjectMeta>, meta, &place, &mut findings)
            .map_err(undecodable)?;
    }
    let meta = meta_mut(&mut value);
    for empty in ["finalizers", "ownerReferences", "labels", "annotations"] {
        let is_empty = meta.get(empty).is_some_and(|value| {
            value.as_array().is_some_and(Vec::is_empty)
                || value.as_object().is_some_and(Map::is_empty)
        });
        if is_empty {
            meta.remove(empty);
        }
    }
    if let Some(ledger) = ledger {
        meta.insert("managedFields".to_owned(), ledger);
    }
    let mut value = served
        .view(Form::Whole)
        .ingest(value, &served.kind.api_version);
    if served.kind.is_core("Secret") {
        builtin::merge_string_data(&mut value);
    }
    Ok(Manifest { value, findings })
}

/// Checks that the data is of the kind the path names; for built-in kinds it need not say so.
fn check_kind(served: &Served, fields: &mut Map<String, Value>) -> Result<(), ApiError> {
    for (field, expected) in [
        ("kind", served.kind.name.clone()),
        ("apiVersion", served.api_version()),
    ] {
        let given = fields.get(field).filter(|given| !given.is_null());
        match given {
            None if served.through.is_some() => {
                fields.insert(field.to_owned(), Value::from(expected));
            }
            None => {
                return Err(ApiError::bad_request(format!(
                    "the object provided is unrecognized (must be of type {}): Object '{}' is missing",
                    served.kind.name,
                    if field == "kind" {
                        "Kind"
                    } else {
                        "apiVersion"
                    },
                )));
            }
            Some(given) if given.as_str() == Some(expected.as_str()) => {}
            Some(given) => {
                return Err(ApiError::bad_request(format!(
                    "the {field} in the data ({}) does not match the expected {field} ({expected})",
                    given.as_str().unwrap_or_default()
                )));
            }
        }
    }
    Ok(())
}

/// Puts an object into the namespace of the request path.
pub(crate) fn place(
    served: &Served,
    namespace: Option<&str>,
    object: &mut Value,
) -> Result<(), ApiError> {
    let meta = meta_mut(object);
    if !served.kind.namespaced {
        meta.remove("namespace");
        return Ok(());
    }
    let Some(namespace) = namespace else {
        return Err(ApiError::method_not_allowed());
    };
    let given = meta
        .get("namespace")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if !given.is_empty() && given != namespace {
        return Err(ApiError::another_namespace());
    }
    meta.insert("namespace".to_owned(), Value::from(namespace));
    Ok(())
}

/// Refuses an update that means an object of another life; for a patch such a UID is only a forbidden change.
pub(crate) fn same_life(served: &Served, current: &Object, sent: &Value) -> Result<(), ApiError> {
    let (name, uid) = (current.key.name.as_str(), meta_text(sent, "uid"));
    if uid.is_empty() || uid == current.uid() {
        return Ok(());
    }
    let detail = format!(
        "StorageError: invalid object, Code: 4, Key: {name}, ResourceVersion: 0, AdditionalErrorMsg: Precondition \
         failed: UID in precondition: {uid}, UID in object meta: {}",
        current.uid()
    );
    Err(ApiError::conflict(served, name, &detail))
}

/// Works out what a write over an existing object leads to.
pub(crate) fn replace(
    served: &Served,
    scope: Scope,
    current: &Object,
    sent: Manifest,
    unknown: Unknown,
    upkeep: &Upkeep,
) -> Result<(Next, Vec<String>), ApiError> {
    let Manifest {
        value: mut sent,
        findings,
    } = sent;
    let old = &*current.value;
    let name = current.key.name.as_str();
    let version = meta_text(&sent, "resourceVersion");
    if !version.is_empty() && version != current.version.to_string() {
        return Err(ApiError::modified(served, name));
    }
    settle(scope, old, &mut sent);
    let mut next = match scope {
        Scope::Main => {
            keep_server_fields(served, old, &mut sent);
            sent
        }
        Scope::Status => with_field(old.clone(), "status", sent["status"].take()),
    };
    let warnings = admit(served, scope, &mut next, Some(old), unknown, findings)?;
    if next == *old && !upkeep.differs(old) {
        return Ok((Next::Keep, warnings));
    }
    if scope == Scope::Main && served.kind.generation && desire_differs(served, &next, old) {
        raise_generation(&mut next);
    }
    if is_ending(&next) && is_released(served, &next) {
        return Ok((Next::Remove, warnings));
    }
    upkeep.keep(served, old, &mut next);
    Ok((Next::Write(next), warnings))
}

/// Whether nothing holds back the removal of a dying object any more.
///
/// Namespaces are never released by a write: the collector removes them when they are empty.
pub(crate) fn is_released(served: &Served, object: &Value) -> bool {
    let grace = object["metadata"]["deletionGracePeriodSeconds"].as_i64();
    finalizers(object).next().is_none()
        && grace.unwrap_or(0) == 0
        && !served.kind.is_core("Namespace")
}

/// Adds one to the generation of an object.
pub(crate) fn raise_generation(object: &mut Value) {
    let generation = object["metadata"]["generation"].as_i64().unwrap_or(0);
    meta_mut(object).insert("generation".to_owned(), Value::from(generation + 1));
}

/// Overwrites what a main write cannot change by what is stored.
fn keep_server_fields(served: &Served, old: &Value, sent: &mut Value) {
    if served.kind.status {
        let status = old["status"].clone();
        *sent = with_field(sent.take(), "status", status);
    }
    if served.kind.is_core("Namespace") {
        // Only the finalize subresource changes the finalizers of a namespace.
        sent["spec"] = old["spec"].clone();
    }
    let meta = meta_mut(sent);
    for field in ["resourceVersion", "generation", "creationTimestamp"] {
        match old["metadata"].get(field) {
            Some(value) => meta.insert(field.to_owned(), value.clone()),
            None => meta.remove(field),
        };
    }
    for field in [
        "uid",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generateName",
    ] {
        if let Some(value) = old["metadata"].get(field)
            && !meta.contains_key(field)
        {
            meta.insert(field.to_owned(), value.clone());
        }
    }
}

fn with_field(mut object: Value, field: &str, value: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        if value.is_null() {
            fields.remove(field);
        } else {
            fields.insert(field.to_owned(), value);
        }
    }
    object
}

/// Whether anything but metadata and status differs.
fn desire_differs(served: &Served, next: &Value, old: &Value) -> bool {
    let aside = |name: &str| name == "metadata" || (served.kind.status && name == "status");
    let fields = |value: &Value| {
        value.as_object().map_or(0, |fields| {
            fields.keys().filter(|name| !aside(name)).count()
        })
    };
    let same = |(name, field): (&String, &Value)| aside(name) || old.get(name) == Some(field);
    fields(next) != fields(old) || !next.as_object().into_iter().flatten().all(same)
}

/// Prunes, defaults and judges an object; returns warnings about what the body held in vain.
pub(crate) fn admit(
    served: &Served,
    scope: Scope,
    object: &mut Value,
    old: Option<&Value>,
    unknown: Unknown,
    mut findings: Findings,
) -> Result<Vec<String>, ApiError> {
    (served.kind.rules.default)(object);
    if let Some(schema) = &served.schema {
        for path in schema.prune(object) {
            findings.unknown(&path);
        }
        schema.default(object);
    }
    if unknown == Unknown::Refuse && !findings.is_empty() {
        return Err(ApiError::undecodable(served, &findings.refusal()));
    }
    let warnings = match unknown {
        Unknown::Warn => findings.into_texts(),
        Unknown::Refuse | Unknown::Ignore => Vec::new(),
    };
    if old.is_some_and(|old| old == object) {
        return Ok(warnings);
    }
    let mut errors = Vec::new();
    if scope == Scope::Main {
        errors.extend(metadata::check(&served.kind, object));
        errors.extend(
            old.map(|old| metadata::check_change(object, old))
                .unwrap_or_default(),
        );
        errors.extend((served.kind.rules.check)(object, old));
    }
    if let Some(schema) = &served.schema {
        errors.extend(match scope {
            Scope::Main => schema.validate(object, old),
            Scope::Status => schema.validate_status(object, old),
        });
    }
    if !errors.is_empty() {
        let name = meta_text(object, "name").to_owned();
        return Err(ApiError::invalid(served, &name, &errors));
    }
    Ok(warnings)
}
