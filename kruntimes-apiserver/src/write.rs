//! Create, update and patch, of whole objects and of their status.

use std::{cell::RefCell, sync::Arc};

use http::StatusCode;
use serde_json::Value;

use crate::{
    admit::{Scope, Unknown, admit, ingest, place, replace, same_life},
    builtin::NAMESPACES,
    commit::{Core, Outcome},
    error::ApiError,
    invalid,
    kind::Served,
    manifest::Manifest,
    object::{Key, Object, meta_mut, meta_text},
    patch::Change,
    query::Query,
    shape::Form,
};

/// How often a taken generated name is drawn anew.
const NAME_TRIES: usize = 8;
/// Longest prefix of a generated name, so that the whole stays a DNS label.
const PREFIX_MAX_BYTES: usize = 58;

/// The query parameters of a write.
#[derive(Clone, Copy, Debug, Default)]
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
        body: Manifest,
        options: WriteOptions,
    ) -> Result<Written, ApiError> {
        let Manifest {
            value: mut object,
            findings,
        } = ingest(served, body)?;
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
        let warnings = admit(
            served,
            Scope::Main,
            &mut object,
            None,
            options.unknown,
            findings,
        )?;
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
            match store.get(NAMESPACES, &Key::new("", key.namespace.as_str())) {
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
        body: Manifest,
        options: WriteOptions,
    ) -> Result<Written, ApiError> {
        let mut sent = ingest(served, body)?;
        let namespace = served.kind.namespaced.then_some(key.namespace.as_str());
        place(served, namespace, &mut sent.value)?;
        let name = meta_text(&sent.value, "name");
        if name != key.name {
            return Err(ApiError::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                key.name
            )));
        }
        if meta_text(&sent.value, "resourceVersion").is_empty() && !served.kind.unconditional_update
        {
            self.get(served, key)?;
            let detail = "must be specified for an update";
            let error = invalid::invalid("metadata.resourceVersion", &Value::from(0), detail);
            return Err(ApiError::invalid(served, &key.name, &[error]));
        }
        let warnings = RefCell::new(Vec::new());
        let outcome = self.change(served, key, options.dry_run, |current| {
            same_life(served, current, &sent.value)?;
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
        let view = served.view(Form::Whole);
        let warnings = RefCell::new(Vec::new());
        let outcome = self.change(served, key, options.dry_run, |current| {
            let patched = patch.apply(served, view.full(current))?;
            let text = (options.unknown == Unknown::Refuse).then(|| patched.value.to_string());
            let in_patch = |error: ApiError| match error.code {
                StatusCode::BAD_REQUEST => {
                    ApiError::bad_patch(text.as_deref().unwrap_or_default(), &error.message)
                }
                _ => error,
            };
            let patched = ingest(served, patched).map_err(in_patch)?;
            for (field, had) in [("name", &key.name), ("namespace", &key.namespace)] {
                if meta_text(&patched.value, field) != had {
                    let value = &patched.value["metadata"][field];
                    let error =
                        invalid::invalid(format!("metadata.{field}"), value, "field is immutable");
                    return Err(ApiError::invalid(served, &key.name, &[error]));
                }
            }
            let (next, told) =
                replace(served, scope, current, patched, options.unknown).map_err(in_patch)?;
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
