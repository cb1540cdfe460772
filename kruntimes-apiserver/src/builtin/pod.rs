//! Pods: defaults of their spec, its rules, and the little of it that can change.

use serde_json::{Value, json};

use super::{check_choice, containers, elements, set_default, text, volumes};
use crate::{invalid, schema::FieldError};

const CHANGEABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
    `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing \
    tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
const DEADLINE_MAX_SECONDS: i64 = 2_147_483_647;
const RESTARTS: [&str; 3] = ["Always", "OnFailure", "Never"];
const DNS: [&str; 4] = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];

pub(super) fn prepare(object: &mut Value) {
    if object["spec"].is_object() {
        let account = text(&object["spec"], "serviceAccountName");
        if account.is_empty() && text(&object["spec"], "serviceAccount").is_empty() {
            object["spec"]["serviceAccountName"] = Value::from("default");
        }
    }
    let quality = containers::quality(&object["spec"]);
    object["status"] = json!({ "phase": "Pending", "qosClass": quality });
}

pub(super) fn default(object: &mut Value) {
    if let Some(spec) = object.get_mut("spec") {
        default_spec(spec);
        set_default(spec, "enableServiceLinks", true);
        for list in [containers::MAIN, containers::FIRST] {
            containers::default_requests(spec, list);
        }
    }
}

/// Fills in the spec of a Pod or of a template.
pub(super) fn default_spec(spec: &mut Value) {
    set_default(spec, "restartPolicy", "Always");
    set_default(spec, "dnsPolicy", "ClusterFirst");
    set_default(spec, "schedulerName", "default-scheduler");
    set_default(spec, "terminationGracePeriodSeconds", 30);
    set_default(spec, "securityContext", json!({}));
    // Two names of one field; the newer one counts.
    let account = match text(spec, "serviceAccountName") {
        "" => text(spec, "serviceAccount").to_owned(),
        name => name.to_owned(),
    };
    if !account.is_empty() {
        spec["serviceAccountName"] = Value::from(account.as_str());
        spec["serviceAccount"] = Value::from(account);
    }
    volumes::default(spec);
    containers::default(spec);
}

pub(super) fn check(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_spec(&object["spec"], "spec", &mut errors);
    let (spec, old) = (&object["spec"], old.map(|old| &old["spec"]));
    if old.is_some_and(|old| frozen(spec) != frozen(old) || loses_toleration(spec, old)) {
        errors.push(invalid::forbidden("spec", CHANGEABLE));
    }
    errors
}

/// Judges the spec of a Pod or of a template.
pub(super) fn check_spec(spec: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let volumes = volumes::check(spec, path, errors);
    containers::check(spec, path, &volumes, errors);
    check_choice(spec, path, "restartPolicy", &RESTARTS, errors);
    check_choice(spec, path, "dnsPolicy", &DNS, errors);
    if let Some(seconds) = spec["activeDeadlineSeconds"].as_i64()
        && !(1..=DEADLINE_MAX_SECONDS).contains(&seconds)
    {
        errors.push(invalid::invalid(
            format!("{path}.activeDeadlineSeconds"),
            &Value::from(seconds),
            "must be between 1 and 2147483647, inclusive",
        ));
    }
}

/// Returns the part of a spec that an update must leave as it is.
fn frozen(spec: &Value) -> Value {
    let mut spec = spec.clone();
    for list in [containers::MAIN, containers::FIRST] {
        for container in super::elements_mut(&mut spec, list) {
            container["image"] = Value::Null;
        }
    }
    if let Some(fields) = spec.as_object_mut() {
        fields.remove("activeDeadlineSeconds");
        fields.remove("tolerations");
        let grace = fields.get("terminationGracePeriodSeconds");
        if grace.and_then(Value::as_i64).is_some_and(|grace| grace < 0) {
            fields.insert("terminationGracePeriodSeconds".to_owned(), Value::from(1));
        }
    }
    spec
}

fn loses_toleration(spec: &Value, old: &Value) -> bool {
    elements(old, "tolerations").any(|known| elements(spec, "tolerations").all(|one| one != known))
}
