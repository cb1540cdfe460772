//! Deletion: at once, after a grace period, or once the finalizers are through.

use std::sync::Arc;

use jiff::SignedDuration;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    admit::raise_generation,
    clock::whole_seconds,
    commit::{Core, Next, Outcome},
    error::ApiError,
    invalid,
    kind::Served,
    manifest::Manifest,
    object::{Key, Object, finalizers, meta_mut},
    query::Query,
    selector::Selector,
};

/// Finalizer that holds an owner until its dependents are gone.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// Finalizer that holds an owner until its dependents have let go of it.
pub(crate) const ORPHAN: &str = "orphan";
const OPTIONS: &str = "DeleteOptions";
/// Namespaces that cannot be deleted.
const KEPT_NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// What happens to the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

impl Propagation {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "Background" => Some(Self::Background),
            "Foreground" => Some(Self::Foreground),
            "Orphan" => Some(Self::Orphan),
            _ => None,
        }
    }
}

/// Conditions under which a deletion may happen.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Preconditions {
    uid: Option<String>,
    resource_version: Option<String>,
}

/// `metav1.DeleteOptions`, from the body or from the query, as far as they have been judged.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    grace_period_seconds: Option<i64>,
    propagation_policy: Option<Propagation>,
    orphan_dependents: Option<bool>,
    preconditions: Option<Preconditions>,
    dry_run: bool,
}

/// The options as they were sent.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Sent {
    grace_period_seconds: Option<i64>,
    propagation_policy: Option<String>,
    orphan_dependents: Option<bool>,
    preconditions: Option<Preconditions>,
    dry_run: Option<Vec<String>>,
}

impl Sent {
    fn read(value: &Value) -> Result<Self, ApiError> {
        let kind = &value["kind"];
        if !kind.is_null() && kind != OPTIONS {
            return Err(ApiError::bad_request(format!(
                "the kind in the data ({kind}) does not match the expected kind ({OPTIONS})"
            )));
        }
        Self::deserialize(value)
            .map_err(|error| ApiError::bad_request(format!("invalid {OPTIONS}: {error}")))
    }

    fn judged(self) -> Result<DeleteOptions, ApiError> {
        let mut errors = Vec::new();
        let policy = self.propagation_policy.as_deref();
        if let (Some(policy), Some(_)) = (policy, self.orphan_dependents) {
            let detail = "orphanDependents and deletionPropagation cannot be both set";
            let policy = Value::from(policy);
            errors.push(invalid::invalid("propagationPolicy", &policy, detail));
        }
        let propagation_policy = policy.and_then(Propagation::parse);
        if let (Some(policy), None) = (policy, propagation_policy) {
            let allowed = ["Foreground", "Background", "Orphan", "nil"];
            errors.push(invalid::not_supported(
                "propagationPolicy",
                policy,
                &allowed,
            ));
        }
        let rehearsals = self.dry_run.unwrap_or_default();
        if rehearsals.iter().any(|one| one != "All") {
            let mut error = invalid::not_supported("dryRun", "", &["All"]);
            let given = Value::from(rehearsals.clone());
            error.message = format!("Unsupported value: {given}: supported values: \"All\"");
            errors.push(error);
        }
        if !errors.is_empty() {
            return Err(ApiError::invalid_options(&errors));
        }
        Ok(DeleteOptions {
            grace_period_seconds: self.grace_period_seconds,
            propagation_policy,
            orphan_dependents: self.orphan_dependents,
            preconditions: self.preconditions,
            dry_run: !rehearsals.is_empty(),
        })
    }
}

impl DeleteOptions {
    pub(crate) fn parse(content_type: &str, body: &[u8], query: &Query) -> Result<Self, ApiError> {
        // Kubernetes reads the one or the other, never both.
        if !body.is_empty() {
            return Sent::read(&Manifest::read(content_type, body, OPTIONS)?.value)?.judged();
        }
        let dry_run = query.text("dryRun").map(|asked| vec![asked.to_owned()]);
        let orphan = query.text("orphanDependents");
        let sent = Sent {
            grace_period_seconds: query.number("gracePeriodSeconds")?,
            propagation_policy: query.text("propagationPolicy").map(str::to_owned),
            orphan_dependents: orphan.map(|_| query.flag("orphanDependents")),
            dry_run,
            ..Sent::default()
        };
        sent.judged()
    }

    /// Reads options that are a part of something else; a null asks for nothing.
    pub(crate) fn of_value(value: &Value) -> Result<Self, ApiError> {
        if value.is_null() {
            return Ok(Self::default());
        }
        Sent::read(value)?.judged()
    }

    /// Also rehearses when somebody else asks for it.
    pub(crate) fn rehearsed(self, dry_run: bool) -> Self {
        Self {
            dry_run: self.dry_run || dry_run,
            ..self
        }
    }

    /// Deletes with the given care for dependents, without grace.
    pub(crate) fn with_propagation(propagation: Propagation) -> Self {
        Self {
            propagation_policy: Some(propagation),
            ..Self::default()
        }
    }

    /// Only if the object is still the one with this UID and version.
    pub(crate) fn only_if(mut self, object: &Object) -> Self {
        self.preconditions = Some(Preconditions {
            uid: Some(object.uid().to_owned()),
            resource_version: Some(object.version.to_string()),
        });
        self
    }

    fn propagation(&self) -> Option<Propagation> {
        self.propagation_policy.or(match self.orphan_dependents {
            Some(true) => Some(Propagation::Orphan),
            Some(false) => Some(Propagation::Background),
            None => None,
        })
    }
}

impl Core {
    /// Deletes one object, or marks it when something still holds it.
    pub(crate) fn delete(
        &self,
        served: &Served,
        key: &Key,
        options: &DeleteOptions,
    ) -> Result<Outcome, ApiError> {
        if served.kind.is_core("Namespace") && KEPT_NAMESPACES.contains(&key.name.as_str()) {
            let why = "this namespace may not be deleted";
            return Err(ApiError::forbidden(served, &key.name, why));
        }
        let dry_run = options.dry_run;
        let outcome = self.change(served, key, dry_run, |current| {
            check_preconditions(served, current, options)?;
            Ok(self.end(served, current, options))
        });
        if outcome
            .as_ref()
            .is_err_and(|error| error.reason == "Conflict")
        {
            self.counters.conflict();
        }
        outcome
    }

    /// Deletes everything that matches and returns the last or marked states.
    pub(crate) fn delete_collection(
        &self,
        served: &Served,
        namespace: Option<&str>,
        selector: &Selector,
        options: &DeleteOptions,
    ) -> Result<Vec<Arc<Object>>, ApiError> {
        let listed = self.lock().list(served.kind.shelf, namespace, None);
        let mut ended = Vec::new();
        for object in listed {
            if !selector.admits(&object) {
                continue;
            }
            match self.delete(served, &object.key, options) {
                Ok(outcome) => ended.push(Arc::clone(outcome.object())),
                Err(error) if error.reason == "NotFound" => {}
                Err(error) => return Err(error),
            }
        }
        Ok(ended)
    }

    /// Works out how the end of an object begins.
    fn end(&self, served: &Served, current: &Object, options: &DeleteOptions) -> Next {
        let mut value = (*current.value).clone();
        set_propagation(&mut value, options.propagation());
        let grace = grace_seconds(served, current, options);
        let held = finalizers(&value).next().is_some() || served.kind.is_core("Namespace");
        if !held && grace == 0 {
            return Next::Remove;
        }
        let meta = meta_mut(&mut value);
        let until = self
            .clock
            .now()
            .saturating_add(SignedDuration::from_secs(grace));
        let until = until.map_or_else(|_| self.now(), whole_seconds);
        if !current.is_ending() {
            meta.insert("deletionTimestamp".to_owned(), Value::from(until));
            if !served.kind.is_core("Namespace") {
                meta.insert("deletionGracePeriodSeconds".to_owned(), Value::from(grace));
            }
            if served.kind.generation {
                raise_generation(&mut value);
            }
            if served.kind.is_core("Namespace") {
                value["status"]["phase"] = json!("Terminating");
            }
        } else if meta
            .get("deletionGracePeriodSeconds")
            .and_then(Value::as_i64)
            .is_some_and(|running| grace < running)
        {
            meta.insert("deletionTimestamp".to_owned(), Value::from(until));
            meta.insert("deletionGracePeriodSeconds".to_owned(), Value::from(grace));
        }
        if value == *current.value {
            Next::Keep
        } else {
            Next::Write(value)
        }
    }
}

/// Only Pods that run on a node are given time: everything else ends at once.
fn grace_seconds(served: &Served, current: &Object, options: &DeleteOptions) -> i64 {
    let value = &current.value;
    let placed = value["spec"]["nodeName"]
        .as_str()
        .is_some_and(|name| !name.is_empty());
    let over = matches!(
        value["status"]["phase"].as_str(),
        Some("Succeeded" | "Failed")
    );
    if !served.kind.is_core("Pod") || !placed || over {
        return 0;
    }
    options
        .grace_period_seconds
        .or_else(|| value["spec"]["terminationGracePeriodSeconds"].as_i64())
        .unwrap_or(30)
        .max(0)
}

fn set_propagation(value: &mut Value, propagation: Option<Propagation>) {
    let Some(propagation) = propagation else {
        return;
    };
    let mut names: Vec<String> = finalizers(value)
        .filter(|name| *name != FOREGROUND && *name != ORPHAN)
        .map(str::to_owned)
        .collect();
    match propagation {
        Propagation::Background => {}
        Propagation::Foreground => names.push(FOREGROUND.to_owned()),
        Propagation::Orphan => names.push(ORPHAN.to_owned()),
    }
    set_finalizers(value, names);
}

/// Replaces the finalizers of an object, dropping an empty list.
pub(crate) fn set_finalizers(value: &mut Value, names: Vec<String>) {
    let meta = meta_mut(value);
    if names.is_empty() {
        meta.remove("finalizers");
    } else {
        meta.insert("finalizers".to_owned(), Value::from(names));
    }
}

fn check_preconditions(
    served: &Served,
    current: &Object,
    options: &DeleteOptions,
) -> Result<(), ApiError> {
    let Some(wanted) = &options.preconditions else {
        return Ok(());
    };
    // Kubernetes names the kind here, not the resource.
    let conflict = |why: &str| {
        ApiError::conflict_about(&served.kind.name, &served.group, &current.key.name, why)
    };
    if let Some(uid) = wanted.uid.as_deref().filter(|uid| *uid != current.uid()) {
        let why = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). \
             The object might have been deleted and then recreated",
            current.uid()
        );
        return Err(conflict(&why));
    }
    let version = current.version.to_string();
    if let Some(asked) = wanted
        .resource_version
        .as_deref()
        .filter(|asked| *asked != version)
    {
        let why = format!(
            "the ResourceVersion in the precondition ({asked}) does not match the ResourceVersion in record \
             ({version}). The object might have been modified"
        );
        return Err(conflict(&why));
    }
    Ok(())
}
