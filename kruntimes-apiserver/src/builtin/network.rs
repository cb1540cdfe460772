//! NetworkPolicies: which directions they speak of.

use serde_json::{Value, json};

use super::{check_choice, elements, elements_mut, set_default};
use crate::{invalid, schema::FieldError};

pub(super) fn default(object: &mut Value) {
    set_default(object, "spec", json!({ "podSelector": {} }));
    let spec = &mut object["spec"];
    if elements(spec, "policyTypes").next().is_none() {
        let outwards = elements(spec, "egress").next().is_some();
        let types = if outwards {
            json!(["Ingress", "Egress"])
        } else {
            json!(["Ingress"])
        };
        spec["policyTypes"] = types;
    }
    for direction in ["ingress", "egress"] {
        for rule in elements_mut(spec, direction) {
            for port in elements_mut(rule, "ports") {
                set_default(port, "protocol", "TCP");
            }
        }
    }
}

pub(super) fn check(object: &Value, _: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = &object["spec"];
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for (at, rule) in elements(spec, direction).enumerate() {
            for (index, port) in elements(rule, "ports").enumerate() {
                let path = format!("spec.{direction}[{at}].ports[{index}]");
                let known = ["TCP", "UDP", "SCTP"];
                check_choice(port, &path, "protocol", &known, &mut errors);
            }
            for (index, peer) in elements(rule, peers).enumerate() {
                if peer.as_object().is_none_or(serde_json::Map::is_empty) {
                    let path = format!("spec.{direction}[{at}].{peers}[{index}]");
                    errors.push(invalid::required(path, "must specify a peer"));
                }
            }
        }
    }
    for (index, kind) in elements(spec, "policyTypes").enumerate() {
        let allowed = ["Ingress", "Egress"];
        let given = kind.as_str().unwrap_or_default();
        if !allowed.contains(&given) {
            let path = format!("spec.policyTypes[{index}]");
            errors.push(invalid::not_supported(path, given, &allowed));
        }
    }
    errors
}
