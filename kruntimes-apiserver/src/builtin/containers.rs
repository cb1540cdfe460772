//! Containers of Pods and templates: defaults, rules, and the quality of service that their resources amount to.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{
    check_choice, check_port, check_present, elements, elements_mut, probe, set_default, text,
};
use crate::{invalid, metadata::check_dns_label, schema::FieldError};

pub(super) const MAIN: &str = "containers";
pub(super) const FIRST: &str = "initContainers";

/// Fills in all containers of a spec.
pub(super) fn default(spec: &mut Value) {
    let on_host = spec["hostNetwork"] == Value::Bool(true);
    for list in [MAIN, FIRST, "ephemeralContainers"] {
        for container in elements_mut(spec, list) {
            default_one(container, on_host);
        }
    }
}

fn default_one(container: &mut Value, on_host: bool) {
    set_default(container, "terminationMessagePath", "/dev/termination-log");
    set_default(container, "terminationMessagePolicy", "File");
    set_default(container, "resources", json!({}));
    let pull = pull_policy(text(container, "image"));
    set_default(container, "imagePullPolicy", pull);
    for port in elements_mut(container, "ports") {
        set_default(port, "protocol", "TCP");
        if on_host {
            let same = port["containerPort"].clone();
            set_default(port, "hostPort", same);
        }
    }
    for variable in elements_mut(container, "env") {
        let source = variable.get_mut("valueFrom");
        if let Some(field) = source.and_then(|source| source.get_mut("fieldRef")) {
            set_default(field, "apiVersion", "v1");
        }
    }
    probe::default(container);
}

/// An image whose tag is not fixed is looked for each time.
fn pull_policy(image: &str) -> &'static str {
    let last = image.rsplit('/').next().unwrap_or_default();
    let tagged = |name: &str| name.split_once(':').map(|(_, tag)| tag.to_owned());
    match last.split_once('@') {
        Some((name, _)) if tagged(name).as_deref() != Some("latest") => "IfNotPresent",
        Some(_) => "Always",
        None => match tagged(last).as_deref() {
            None | Some("latest") => "Always",
            Some(_) => "IfNotPresent",
        },
    }
}

/// Requests follow limits where none are given.
pub(super) fn default_requests(spec: &mut Value, list: &str) {
    for container in elements_mut(spec, list) {
        let Some(limits) = container["resources"]["limits"].as_object().cloned() else {
            continue;
        };
        set_default(&mut container["resources"], "requests", json!({}));
        for (name, limit) in limits {
            set_default(&mut container["resources"]["requests"], &name, limit);
        }
    }
}

/// Names the quality of service class of a new Pod.
pub(super) fn quality(spec: &Value) -> &'static str {
    let containers = || elements(spec, MAIN).chain(elements(spec, FIRST));
    let amount = |container: &Value, part: &str, name: &str| {
        let amount = &container["resources"][part][name];
        amount
            .as_str()
            .filter(|text| *text != "0")
            .map(str::to_owned)
    };
    let names = ["cpu", "memory"];
    let any = containers().any(|container| {
        let given = |part: &str| {
            names
                .iter()
                .any(|name| amount(container, part, name).is_some())
        };
        given("limits") || given("requests")
    });
    let all = containers().all(|container| {
        names.iter().all(|name| {
            let limit = amount(container, "limits", name);
            let request = amount(container, "requests", name);
            limit.is_some() && request.is_none_or(|request| Some(request) == limit)
        })
    });
    match (any, all) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

/// Judges all containers of a spec, whose volumes have these names.
pub(super) fn check(
    spec: &Value,
    path: &str,
    volumes: &BTreeSet<&str>,
    errors: &mut Vec<FieldError>,
) {
    let mut names = BTreeSet::new();
    for list in [FIRST, MAIN] {
        for (index, container) in elements(spec, list).enumerate() {
            let path = format!("{path}.{list}[{index}]");
            check_one(container, &path, volumes, errors);
            let name = text(container, "name");
            if !name.is_empty() && !names.insert(name) {
                errors.push(invalid::duplicate(format!("{path}.name"), name));
            }
        }
    }
    if elements(spec, MAIN).next().is_none() {
        errors.push(invalid::required(format!("{path}.{MAIN}"), ""));
    }
}

fn check_one(
    container: &Value,
    path: &str,
    volumes: &BTreeSet<&str>,
    errors: &mut Vec<FieldError>,
) {
    if check_present(container, path, "name", errors) {
        check_dns_label(text(container, "name"), &format!("{path}.name"), errors);
    }
    check_present(container, path, "image", errors);
    for (index, port) in elements(container, "ports").enumerate() {
        let path = format!("{path}.ports[{index}]");
        if port["containerPort"].as_i64().unwrap_or(0) == 0 {
            errors.push(invalid::required(format!("{path}.containerPort"), ""));
        } else {
            check_port(port, &path, "containerPort", errors);
        }
        let protocols = ["SCTP", "TCP", "UDP"];
        check_choice(port, &path, "protocol", &protocols, errors);
    }
    for (index, variable) in elements(container, "env").enumerate() {
        let path = format!("{path}.env[{index}]");
        check_present(variable, &path, "name", errors);
        if !text(variable, "value").is_empty() && variable["valueFrom"].is_object() {
            errors.push(invalid::invalid(
                format!("{path}.valueFrom"),
                &Value::from(""),
                "may not be specified when `value` is not empty",
            ));
        }
    }
    check_mounts(container, path, volumes, errors);
    let policies = ["Always", "IfNotPresent", "Never"];
    check_choice(container, path, "imagePullPolicy", &policies, errors);
    for part in ["limits", "requests"] {
        let amounts = container["resources"][part].as_object();
        check_amounts(amounts, &format!("{path}.resources.{part}"), errors);
    }
}

fn check_mounts(
    container: &Value,
    path: &str,
    volumes: &BTreeSet<&str>,
    errors: &mut Vec<FieldError>,
) {
    let mut places = BTreeSet::new();
    for (index, mount) in elements(container, "volumeMounts").enumerate() {
        let path = format!("{path}.volumeMounts[{index}]");
        let name = text(mount, "name");
        if check_present(mount, &path, "name", errors) && !volumes.contains(name) {
            errors.push(invalid::not_found(format!("{path}.name"), name));
        }
        let place = text(mount, "mountPath");
        if check_present(mount, &path, "mountPath", errors) && !places.insert(place) {
            errors.push(invalid::invalid(
                format!("{path}.mountPath"),
                &Value::from(place),
                "must be unique",
            ));
        }
    }
}

fn check_amounts(amounts: Option<&Map<String, Value>>, path: &str, errors: &mut Vec<FieldError>) {
    for (name, amount) in amounts.into_iter().flatten() {
        if amount.as_str().is_some_and(|text| text.starts_with('-')) {
            errors.push(invalid::invalid(
                format!("{path}[{name}]"),
                amount,
                "must be greater than or equal to 0",
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_fixed_tags_are_kept() {
        for (image, want) in [
            ("i", "Always"),
            ("i:1", "IfNotPresent"),
            ("i:latest", "Always"),
            ("r.io:5000/i", "Always"),
            ("r.io:5000/i:1", "IfNotPresent"),
            ("i@sha256:00", "IfNotPresent"),
            ("i:latest@sha256:00", "Always"),
            ("", "Always"),
        ] {
            assert_eq!(pull_policy(image), want, "{image}");
        }
    }

    #[test]
    fn quality_follows_requests_and_limits() {
        let spec = |resources: Value| json!({ "containers": [{ "resources": resources }] });
        for (resources, want) in [
            (json!({}), "BestEffort"),
            (
                json!({ "limits": { "cpu": "1", "memory": "1Gi" } }),
                "Guaranteed",
            ),
            (json!({ "requests": { "cpu": "1" } }), "Burstable"),
            (
                json!({ "limits": { "cpu": "1", "memory": "1Gi" }, "requests": { "cpu": "500m" } }),
                "Burstable",
            ),
        ] {
            assert_eq!(quality(&spec(resources.clone())), want, "{resources}");
        }
    }
}
