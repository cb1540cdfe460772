//! Create, update and patch, of whole objects and of their status.

use std::{cell::RefCell, sync::Arc};

use http::StatusCode;
use serde_json::Value;

use crate::{
    admit::{Scope, Unknown, admit, ingest, place, replace, same_life},
    apply::{self, NAME_MAX_BYTES, Operation, Upkeep},
    builtin::NAMESPACES,
    commit::{Core, Next, Outcome},
    error::ApiError,
    invalid,
    kind::Served,
    manifest::Manifest,
    object::{Key, Object, meta_mut, meta_text},
    patch::Change,
    query::Query,
    schema::FieldError,
    shape::Form,
};

/// How often a taken generated name is drawn anew.
const NAME_TRIES: usize = 8;
/// Longest prefix of a generated name, so that the whole stays a DNS label.
const PREFIX_MAX_BYTES: usize = 58;

/// The query parameters of a write.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WriteOptions<'a> {
    pub(crate) dry_run: bool,
    pub(crate) unknown: Unknown,
    /// Who is to own what is written; nobody if empty.
    pub(crate) manager: &'a str,
    /// Whether an apply may take fields from other managers.
    pub(crate) force: bool,
}

impl<'a> WriteOptions<'a> {
    /// Reads the parameters, which refusals call by `kind`; `agent` stands in for a manager that is not named.
    pub(crate) fn of_query(
        kind: &'static str,
        query: &'a Query,
        agent: &'a str,
    ) -> Result<Self, ApiError> {
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
        let manager = query.text("fieldManager").unwrap_or(agent);
        check_manager(manager).map_err(|error| ApiError::bad_options(kind, &error))?;
        Ok(Self {
            dry_run,
            unknown,
            manager,
            force: false,
        })
    }

    /// Reads the parameters of a patch: only an apply can be forced, and it must say in whose name it is made.
    pub(crate) fn of_patch(
        query: &'a Query,
        agent: &'a str,
        change: &Change,
    ) -> Result<Self, ApiError> {
        const KIND: &str = "PatchOptions";
        let mut options = Self::of_query(KIND, query, agent)?;
        let force = query.text("force");
        if matches!(change, Change::Apply(_)) {
            if query.text("fieldManager").is_none() {
                let error = invalid::required("fieldManager", "is required for apply patch");
                return Err(ApiError::bad_options(KIND, &error));
            }
            options.force = force.is_some_and(|text| !["false", "0"].contains(&text));
        } else if force.is_some() {
            let error = invalid::forbidden("force", "may not be specified for non-apply patch");
            return Err(ApiError::bad_options(KIND, &error));
        }
        Ok(options)
    }
}

fn check_manager(name: &str) -> Result<(), FieldError> {
    if name.len() > NAME_MAX_BYTES {
        return Err(invalid::too_long("fieldManager", NAME_MAX_BYTES));
    }
    for (position, letter) in name.chars().enumerate() {
        if letter.is_control() {
            let detail = format!(
                "invalid character U+{:04X} (at position {position})",
                u32::from(letter)
            );
            return Err(invalid::invalid(
                "fieldManager",
                &Value::from(name),
                &detail,
            ));
        }
    }
    Ok(())
}

/// Names the manager of a client that names none: the first word of its user agent.
pub(crate) fn agent_name(user_agent: &str) -> String {
    let word = user_agent.split('/').next().unwrap_or_default();
    let mut name = String::new();
    for letter in word.chars().filter(|letter| !letter.is_control()) {
        if name.len() + letter.len_utf8() > NAME_MAX_BYTES {
            break;
        }
        name.push(letter);
    }
    if name.is_empty() {
        "unknown".clone_into(&mut name);
    }
    name
}

/// The result of a write, with what the caller should be warned of.
pub(crate) struct Written {
    pub(crate) outcome: Outcome,
    pub(crate) warnings: Vec<String>,
    pub(crate) created: bool,
}

impl Core {
    /// Creates an object, drawing its name where only `generateName` is given.
    pub(crate) fn create(
        &self,
        served: &Served,
        namespace: Option<&str>,
        body: Manifest,
        options: WriteOptions<'_>,
    ) -> Result<Written, ApiError> {
        let mut object = ingest(served, body)?;
        place(served, namespace, &mut object.value)?;
        if !meta_text(&object.value, "resourceVersion").is_empty() {
            return Err(ApiError::bad_request(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        let upkeep = self.upkeep(served, Scope::Main, options);
        self.admit_new(served, object, options, &upkeep)
    }

    /// Says how a write by its caller is recorded in the ledger of its object.
    pub(crate) fn upkeep(
        &self,
        served: &Served,
        scope: Scope,
        options: WriteOptions<'_>,
    ) -> Upkeep {
        if options.manager.is_empty() || !self.ledger {
            return Upkeep::Off;
        }
        Upkeep::Track {
            writer: apply::manager(served, scope, Operation::Update, options.manager),
            now: self.now(),
        }
    }

    /// Judges and inserts an object that has been taken to the stored form.
    pub(crate) fn admit_new(
        &self,
        served: &Served,
        object: Manifest,
        options: WriteOptions<'_>,
        upkeep: &Upkeep,
    ) -> Result<Written, ApiError> {
        let Manifest {
            value: mut object,
            findings,
        } = object;
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
        upkeep.open(served, &mut object);
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
            "managedFields",
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
        match store.get(served.kind.shelf, &key) {
            None => {}
            Some(taken) if taken.is_ending() => {
                return Err(ApiError::still_exists(served, &key.name));
            }
            Some(_) => return Err(ApiError::already_exists(served, &key.name)),
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
        options: WriteOptions<'_>,
    ) -> Result<Written, ApiError> {
        let mut sent = ingest(served, body)?;
        let namespace = served.kind.namespaced.then_some(key.namespace.as_str());
        place(served, namespace, &mut sent.value)?;
        let name = meta_text(&sent.value, "name");
        if name != key.name {
            return Err(ApiError::another_name(name, &key.name));
        }
        if meta_text(&sent.value, "resourceVersion").is_empty() && !served.kind.unconditional_update
        {
            self.get(served, key)?;
            return Err(ApiError::unversioned(served, &key.name));
        }
        let upkeep = self.upkeep(served, scope, options);
        self.decide(served, key, options, |current| {
            same_life(served, current, &sent.value)?;
            let sent = sent.clone();
            replace(served, scope, current, sent, options.unknown, &upkeep)
        })
    }

    /// Applies a patch to an object, or to its status, in the version the caller speaks.
    pub(crate) fn patch(
        &self,
        served: &Served,
        key: &Key,
        scope: Scope,
        patch: &Change,
        options: WriteOptions<'_>,
    ) -> Result<Written, ApiError> {
        if let Change::Apply(config) = patch {
            return self.apply(served, key, scope, config, options);
        }
        let view = served.view(Form::Whole);
        let upkeep = self.upkeep(served, scope, options);
        self.decide(served, key, options, |current| {
            let document = if patch.names_ledger() {
                view.full(current)
            } else {
                view.without_ledger(current)
            };
            let patched = patch.apply(served, document)?;
            let text = (options.unknown == Unknown::Refuse).then(|| patched.value.to_string());
            let in_patch = |error: ApiError| match error.code {
                StatusCode::BAD_REQUEST => {
                    ApiError::bad_patch(text.as_deref().unwrap_or_default(), &error.message)
                }
                _ => error,
            };
            let patched = ingest(served, patched).map_err(in_patch)?;
            let name = meta_text(&patched.value, "name");
            if name != key.name {
                return Err(ApiError::another_name(name, &key.name));
            }
            if meta_text(&patched.value, "namespace") != key.namespace {
                return Err(ApiError::another_namespace());
            }
            replace(served, scope, current, patched, options.unknown, &upkeep).map_err(in_patch)
        })
    }

    /// Changes an object by a decision that also has warnings to tell.
    pub(crate) fn decide(
        &self,
        served: &Served,
        key: &Key,
        options: WriteOptions<'_>,
        turn: impl Fn(&Arc<Object>) -> Result<(Next, Vec<String>), ApiError>,
    ) -> Result<Written, ApiError> {
        let warnings = RefCell::new(Vec::new());
        let outcome = self.change(served, key, options.dry_run, |current| {
            let (next, told) = turn(current)?;
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
        outcome.map(|outcome| Written {
            outcome,
            warnings,
            created: false,
        })
    }
}

fn finish(
    result: Result<Arc<Object>, ApiError>,
    warnings: Vec<String>,
) -> Result<Written, ApiError> {
    result.map(|object| Written {
        outcome: Outcome::Exists(object),
        warnings,
        created: true,
    })
}
