//! Create, update and patch, of whole objects and of their status.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    builtin,
    commit::{Core, Next, Outcome},
    error::ApiError,
    invalid,
    kind::Served,
    metadata,
    object::{Key, Object, finalizers, is_ending, meta_mut, meta_text},
    patch::Change,
    query::Query,
};

/// How often a taken generated name is drawn anew.
const NAME_TRIES: usize = 8;
/// Longest prefix of a generated name, so that the whole stays a DNS label.
const PREFIX_MAX_BYTES: usize = 58;

/// Which half of an object a write is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Main,
    Status,
}

/// What is done about fields the schema does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unknown {
    Refuse,
    Warn,
    Ignore,
}

/// The query parameters of a write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: bool,
    unknown: Unknown,
}

impl WriteOptions {
    pub(crate) fn of_query(query: &Query) -> Result<Self, ApiError> {
        let dry_run = match query.text("dryRun") {
            None => false,
            Some("All") => true,
            Some(other) => {
                return Err(ApiError::bad_request(format!(
                    "dryRun: Unsupported value: {other:?}: supported values: \"All\""
                )));
            }
        };
        let unknown = match query.text("fieldValidation") {
            Some("Strict") => Unknown::Refuse,
            Some("Ignore") => Unknown::Ignore,
            None | Some("Warn") => Unknown::Warn,
            Some(other) => {
                return Err(ApiError::bad_request(format!(
                    "fieldValidation: Unsupported value: {other:?}: supported values: \"Ignore\", \"Strict\", \"Warn\""
                )));
            }
        };
        Ok(Self { dry_run, unknown })
    }
}

/// The result of a write, with what the caller should be warned of.
pub(crate) struct Written {
    pub(crate) outcome: Outcome,
    pub(crate) warnings: Vec<String>,
}

impl Core {
    /// Creates an object, drawing its name where only `generateName` is given.
    pub(crate) fn create(
        &self,
        served: &Served,
        namespace: Option<&str>,
        body: Value,
        options: WriteOptions,
    ) -> Result<Written, ApiError> {
        let mut object = ingest(served, body)?;
        place(served, namespace, &mut object)?;
        if !meta_text(&object, "resourceVersion").is_empty() {
            return Err(ApiError::bad_request(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        let prefix = meta_text(&object, "generateName").to_owned();
        let drawn = meta_text(&object, "name").is_empty() && !prefix.is_empty();
        if drawn {
            self.draw_name(&prefix, &mut object);
        }
        self.stamp_new(served, &mut object);
        let warnings = admit(served, Scope::Main, &mut object, None, options.unknown)?;
        for _ in 1..NAME_TRIES {
            match self.insert(served, &object, options.dry_run) {
                Err(error) if drawn && error.reason == "AlreadyExists" => {
                    self.draw_name(&prefix, &mut object);
                }
                result => return finish(result, warnings),
            }
        }
        finish(self.insert(served, &object, options.dry_run), warnings)
    }

    fn draw_name(&self, prefix: &str, object: &mut Value) {
        let mut end = prefix.len().min(PREFIX_MAX_BYTES);
        while !prefix.is_char_boundary(end) {
            end -= 1;
        }
        let name = format!("{}{}", &prefix[..end], self.ids.suffix());
        meta_mut(object).insert("name".to_owned(), Value::from(name));
    }

    /// Sets what only the server may set on a new object.
    fn stamp_new(&self, served: &Served, object: &mut Value) {
        let kind = &served.kind;
        if kind.status
            && let Some(fields) = object.as_object_mut()
        {
            fields.remove("status");
        }
        let meta = meta_mut(object);
        for field in [
            "resourceVersion",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "generation",
        ] {
            meta.remove(field);
        }
        meta.insert("uid".to_owned(), Value::from(self.ids.uid()));
        meta.insert("creationTimestamp".to_owned(), Value::from(self.now()));
        if kind.generation {
            meta.insert("generation".to_owned(), Value::from(1));
        }
        (kind.rules.prepare)(object);
    }

    fn insert(
        &self,
        served: &Served,
        object: &Value,
        dry_run: bool,
    ) -> Result<Arc<Object>, ApiError> {
        let key = Key::new(meta_text(object, "namespace"), meta_text(object, "name"));
        let mut store = self.lock();
        if served.kind.namespaced {
            let namespaces = self.registry.on_shelf(0).kind.shelf;
            match store.get(namespaces, &Key::new("", key.namespace.as_str())) {
                None => return Err(ApiError::no_such_namespace(&key.namespace)),
                Some(namespace) if namespace.is_ending() => {
                    return Err(ApiError::namespace_ends(served, &key.name, &key.namespace));
                }
                Some(_) => {}
            }
        }
        if store.get(served.kind.shelf, &key).is_some() {
            return Err(ApiError::already_exists(served, &key.name));
        }
        if dry_run {
            return Ok(Arc::new(Object::new(key, 0, object.clone())));
        }
        Ok(store.put(served.kind.shelf, &key, object.clone()))
    }

    /// Replaces an object, or its status, by what the caller sent.
    pub(crate) fn update(
        &self,
        served: &Served,
        key: &Key,
        scope: Scope,
        body: Value,
        options: WriteOptions,
    ) -> Result<Written, ApiError> {
        let mut sent = ingest(served, body)?;
        let namespace = served.kind.namespaced.then_some(key.namespace.as_str());
        place(served, namespace, &mut sent)?;
        let name = meta_text(&sent, "name");
        if name != key.name {
            return Err(ApiError::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                key.name
            )));
        }
        if meta_text(&sent, "resourceVersion").is_empty() && !served.kind.unconditional_update {
            let mut errors = Vec::new();
            errors.push(invalid::invalid(
                "metadata.resourceVersion",
                &Value::from(0),
                "must be specified for an update",
            ));
            self.get(served, key)?;
            return Err(ApiError::invalid(served, &key.name, &errors));
        }
        let warnings = std::cell::RefCell::new(Vec::new());
        let outcome = self.change(served, key, options.dry_run, |current| {
            let (next, told) = replace(served, scope, current, sent.clone(), options.unknown)?;
            *warnings.borrow_mut() = told;
            Ok(next)
        });
        self.written(outcome, warnings.into_inner())
    }

    /// Applies a patch to an object, or to its status, in the version the caller speaks.
    pub(crate) fn patch(
        &self,
        served: &Served,
        key: &Key,
        scope: Scope,
        patch: &Change,
        options: WriteOptions,
    ) -> Result<Written, ApiError> {
        let view = served.view(false);
        let warnings = std::cell::RefCell::new(Vec::new());
        let outcome = self.change(served, key, options.dry_run, |current| {
            let patched = patch.apply(view.full(current))?;
            let patched = ingest(served, patched)?;
            for (field, had) in [("name", &key.name), ("namespace", &key.namespace)] {
                if meta_text(&patched, field) != had {
                    let value = &patched["metadata"][field];
                    let error =
                        invalid::invalid(format!("metadata.{field}"), value, "field is immutable");
                    return Err(ApiError::invalid(served, &key.name, &[error]));
                }
            }
            let (next, told) = replace(served, scope, current, patched, options.unknown)?;
            *warnings.borrow_mut() = told;
            Ok(next)
        });
        self.written(outcome, warnings.into_inner())
    }

    fn written(
        &self,
        outcome: Result<Outcome, ApiError>,
        warnings: Vec<String>,
    ) -> Result<Written, ApiError> {
        if outcome
            .as_ref()
            .is_err_and(|error| error.reason == "Conflict")
        {
            self.counters.conflict();
        }
        outcome.map(|outcome| Written { outcome, warnings })
    }
}

fn finish(
    result: Result<Arc<Object>, ApiError>,
    warnings: Vec<String>,
) -> Result<Written, ApiError> {
    result.map(|object| Written {
        outcome: Outcome::Exists(object),
        warnings,
    })
}

/// Takes what the caller sent to the stored form, checking the outline that everything else relies on.
fn ingest(served: &Served, mut body: Value) -> Result<Value, ApiError> {
    let Some(fields) = body.as_object_mut() else {
        return Err(ApiError::bad_request(
            "the object provided is not a JSON object",
        ));
    };
    for (field, expected) in [
        ("apiVersion", served.api_version()),
        ("kind", served.kind.kind.clone()),
    ] {
        let given = fields
            .entry(field)
            .or_insert_with(|| Value::from(expected.as_str()));
        if given.as_str() != Some(expected.as_str()) {
            return Err(ApiError::bad_request(format!(
                "the {field} in the data ({}) does not match the expected {field} ({expected})",
                given.as_str().unwrap_or_default()
            )));
        }
    }
    match fields.get("metadata") {
        None | Some(Value::Object(_)) => {}
        Some(_) => return Err(ApiError::bad_request("metadata must be a JSON object")),
    }
    let meta = meta_mut(&mut body);
    meta.remove("managedFields");
    meta.remove("selfLink");
    meta.retain(|_, value| !value.is_null());
    for list in ["finalizers", "ownerReferences"] {
        if meta
            .get(list)
            .and_then(Value::as_array)
            .is_some_and(Vec::is_empty)
        {
            meta.remove(list);
        }
    }
    for map in ["labels", "annotations"] {
        if let Some(entries) = meta.get_mut(map).and_then(Value::as_object_mut) {
            entries.retain(|_, value| !value.is_null());
            if entries.is_empty() {
                meta.remove(map);
            }
        }
    }
    let mut stored = served.view(false).ingest(body, &served.kind.api_version);
    if served.kind.is_core("Secret") {
        builtin::merge_string_data(&mut stored);
    }
    Ok(stored)
}

/// Puts an object into the namespace of the request path.
fn place(served: &Served, namespace: Option<&str>, object: &mut Value) -> Result<(), ApiError> {
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
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    meta.insert("namespace".to_owned(), Value::from(namespace));
    Ok(())
}

/// Works out what a write over an existing object leads to.
fn replace(
    served: &Served,
    scope: Scope,
    current: &Object,
    mut sent: Value,
    unknown: Unknown,
) -> Result<(Next, Vec<String>), ApiError> {
    let old = &*current.value;
    let name = current.key.name.as_str();
    let version = meta_text(&sent, "resourceVersion");
    if !version.is_empty() && version != current.version.to_string() {
        return Err(ApiError::modified(served, name));
    }
    let uid = meta_text(&sent, "uid");
    if !uid.is_empty() && uid != current.uid() {
        return Err(ApiError::conflict(
            served,
            name,
            &format!(
                "StorageError: invalid object, Code: 4, Key: {name}, ResourceVersion: 0, AdditionalErrorMsg: \
                 Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                current.uid()
            ),
        ));
    }
    let mut next = match scope {
        Scope::Main => {
            keep_server_fields(served, old, &mut sent);
            sent
        }
        Scope::Status => with_field(old.clone(), "status", sent["status"].take()),
    };
    let warnings = admit(served, scope, &mut next, Some(old), unknown)?;
    if next == *old {
        return Ok((Next::Keep, warnings));
    }
    if scope == Scope::Main && served.kind.generation && desire_differs(served, &next, old) {
        raise_generation(&mut next);
    }
    if is_ending(&next) && is_released(&next) {
        return Ok((Next::Remove, warnings));
    }
    Ok((Next::Write(next), warnings))
}

/// Whether nothing holds back the removal of a dying object any more.
fn is_released(object: &Value) -> bool {
    finalizers(object).next().is_none()
        && object["metadata"]["deletionGracePeriodSeconds"]
            .as_i64()
            .unwrap_or(0)
            == 0
        && object["spec"]["finalizers"]
            .as_array()
            .is_none_or(|_| object["kind"] != "Namespace" || object["apiVersion"] != "v1")
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
        sent["spec"] = old["spec"].clone();
    }
    let meta = meta_mut(sent);
    for field in [
        "resourceVersion",
        "generation",
        "deletionGracePeriodSeconds",
    ] {
        match old["metadata"].get(field) {
            Some(value) => meta.insert(field.to_owned(), value.clone()),
            None => meta.remove(field),
        };
    }
    for field in [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
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
        value
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(name, _)| !aside(name))
            .map(|(name, field)| (name.clone(), field.clone()))
            .collect::<Vec<_>>()
    };
    fields(next) != fields(old)
}

/// Prunes, defaults and judges an object; returns warnings about fields that were dropped.
fn admit(
    served: &Served,
    scope: Scope,
    object: &mut Value,
    old: Option<&Value>,
    unknown: Unknown,
) -> Result<Vec<String>, ApiError> {
    let mut dropped = Vec::new();
    if let Some(schema) = &served.schema {
        dropped = schema.prune(object);
        schema.default(object);
    }
    let dropped: Vec<String> = dropped
        .into_iter()
        .map(|path| format!("unknown field \"{path}\""))
        .collect();
    if unknown == Unknown::Refuse && !dropped.is_empty() {
        return Err(ApiError::bad_request(format!(
            "strict decoding error: {}",
            dropped.join(", ")
        )));
    }
    if old.is_some_and(|old| old == object) {
        return Ok(if unknown == Unknown::Warn {
            dropped
        } else {
            Vec::new()
        });
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
    Ok(if unknown == Unknown::Warn {
        dropped
    } else {
        Vec::new()
    })
}
