//! Deployments: how they roll, and a template that is a Pod's.

use serde_json::{Map, Value, json};

use super::{check_choice, check_least, pod, set_default, text, unchangeable};
use crate::{invalid, schema::FieldError};

const ROLLING: &str = "RollingUpdate";

pub(super) fn prepare(object: &mut Value) {
    object["status"] = json!({});
}

pub(super) fn default(object: &mut Value) {
    set_default(object, "spec", json!({ "selector": {}, "template": {} }));
    let spec = &mut object["spec"];
    set_default(spec, "replicas", 1);
    set_default(spec, "revisionHistoryLimit", 10);
    set_default(spec, "progressDeadlineSeconds", 600);
    set_default(spec, "strategy", json!({}));
    let strategy = &mut spec["strategy"];
    set_default(strategy, "type", ROLLING);
    if text(strategy, "type") == ROLLING {
        set_default(strategy, "rollingUpdate", json!({}));
        set_default(&mut strategy["rollingUpdate"], "maxUnavailable", "25%");
        set_default(&mut strategy["rollingUpdate"], "maxSurge", "25%");
    }
    set_default(&mut spec["template"], "spec", json!({ "containers": [] }));
    if let Some(template) = spec["template"].get_mut("spec") {
        pod::default_spec(template);
    }
}

pub(super) fn check(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let spec = &object["spec"];
    let mut errors = Vec::new();
    check_least(spec, "spec", "replicas", 0, &mut errors);
    check_least(spec, "spec", "minReadySeconds", 0, &mut errors);
    check_least(spec, "spec", "revisionHistoryLimit", 0, &mut errors);
    check_selector(spec, &mut errors);
    let template = "spec.template.spec";
    pod::check_spec(&spec["template"]["spec"], template, &mut errors);
    let restarts = ["Always"];
    let restart = text(&spec["template"]["spec"], "restartPolicy");
    if matches!(restart, "Never" | "OnFailure") {
        let path = format!("{template}.restartPolicy");
        errors.push(invalid::not_supported(path, restart, &restarts));
    }
    let strategy = &spec["strategy"];
    let strategies = ["Recreate", ROLLING];
    check_choice(strategy, "spec.strategy", "type", &strategies, &mut errors);
    if text(strategy, "type") == "Recreate" && strategy["rollingUpdate"].is_object() {
        errors.push(invalid::forbidden(
            "spec.strategy.rollingUpdate",
            "may not be specified when strategy `type` is 'Recreate'",
        ));
    }
    if old.is_some_and(|old| old["spec"]["selector"] != spec["selector"]) {
        errors.push(unchangeable("spec.selector", &spec["selector"]));
    }
    errors
}

/// The selector must say something, and choose the Pods of the template.
fn check_selector(spec: &Value, errors: &mut Vec<FieldError>) {
    let selector = &spec["selector"];
    let nothing = ["matchLabels", "matchExpressions"].iter().all(|part| {
        selector[*part].as_array().is_none_or(Vec::is_empty)
            && selector[*part].as_object().is_none_or(Map::is_empty)
    });
    if nothing {
        errors.push(invalid::required("spec.selector", ""));
        return;
    }
    let labels = &spec["template"]["metadata"]["labels"];
    let wanted = selector["matchLabels"].as_object();
    let meets = |expression: &Value| {
        let value = &labels[text(expression, "key")];
        let listed = super::elements(expression, "values").any(|allowed| allowed == value);
        match text(expression, "operator") {
            "In" => listed,
            "NotIn" => !listed,
            "Exists" => !value.is_null(),
            _ => value.is_null(),
        }
    };
    let fits = wanted
        .into_iter()
        .flatten()
        .all(|(name, value)| labels[name] == *value)
        && super::elements(selector, "matchExpressions").all(meets);
    if !fits {
        errors.push(invalid::invalid(
            "spec.template.metadata.labels",
            labels,
            "`selector` does not match template `labels`",
        ));
    }
}
