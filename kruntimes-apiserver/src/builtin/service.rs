//! Services: there is no network of services here, so one that asks for no address is headless.

use serde_json::{Value, json};

use super::{check_choice, check_port, check_present, elements, elements_mut, set_default, text};
use crate::{invalid, schema::FieldError};

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];

pub(super) fn prepare(object: &mut Value) {
    object["status"] = json!({ "loadBalancer": {} });
}

pub(super) fn default(object: &mut Value) {
    set_default(object, "spec", json!({}));
    let spec = &mut object["spec"];
    set_default(spec, "type", "ClusterIP");
    set_default(spec, "sessionAffinity", "None");
    for port in elements_mut(spec, "ports") {
        set_default(port, "protocol", "TCP");
        let same = port["port"].clone();
        let target = &port["targetPort"];
        if target.is_null() || *target == 0 || *target == "" {
            port["targetPort"] = same;
        }
    }
    let outside = matches!(text(spec, "type"), "NodePort" | "LoadBalancer");
    if text(spec, "type") == "LoadBalancer" {
        set_default(spec, "allocateLoadBalancerNodePorts", true);
    }
    if outside {
        set_default(spec, "externalTrafficPolicy", "Cluster");
    }
    if text(spec, "type") == "ExternalName" {
        return;
    }
    set_default(spec, "internalTrafficPolicy", "Cluster");
    // A Service that needs an address and has no ports is refused, so it must be told from a headless one.
    if elements(spec, "ports").next().is_some() {
        set_default(spec, "clusterIP", "None");
    }
    if let Some(address) = spec["clusterIP"].as_str().map(str::to_owned) {
        set_default(spec, "clusterIPs", json!([address]));
        let family = if address.contains(':') {
            "IPv6"
        } else {
            "IPv4"
        };
        set_default(spec, "ipFamilies", json!([family]));
        set_default(spec, "ipFamilyPolicy", "SingleStack");
    }
}

pub(super) fn check(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = &object["spec"];
    let named_outside = text(spec, "type") == "ExternalName";
    let ports: Vec<&Value> = elements(spec, "ports").collect();
    if ports.is_empty() && !named_outside && spec["clusterIP"].is_null() {
        errors.push(invalid::required("spec.ports", ""));
    }
    if named_outside {
        check_present(spec, "spec", "externalName", &mut errors);
    }
    check_ports(&ports, &mut errors);
    check_choice(spec, "spec", "type", &TYPES, &mut errors);
    let affinities = ["ClientIP", "None"];
    check_choice(spec, "spec", "sessionAffinity", &affinities, &mut errors);
    if let Some(old) = old.map(|old| &old["spec"])
        && !named_outside
        && text(old, "type") != "ExternalName"
        && old["clusterIP"] != spec["clusterIP"]
    {
        errors.push(invalid::invalid(
            "spec.clusterIPs[0]",
            &json!([spec["clusterIP"]]),
            "may not change once set",
        ));
    }
    errors
}

fn check_ports(ports: &[&Value], errors: &mut Vec<FieldError>) {
    for (index, port) in ports.iter().enumerate() {
        let path = format!("spec.ports[{index}]");
        let name = text(port, "name");
        if name.is_empty() {
            if ports.len() > 1 {
                errors.push(invalid::required(format!("{path}.name"), ""));
            }
        } else if ports[..index]
            .iter()
            .any(|other| text(other, "name") == name)
        {
            errors.push(invalid::duplicate(format!("{path}.name"), name));
        }
        check_port(port, &path, "port", errors);
        let protocols = ["SCTP", "TCP", "UDP"];
        check_choice(port, &path, "protocol", &protocols, errors);
        if port["targetPort"].is_i64() {
            check_port(port, &path, "targetPort", errors);
        }
        let twice = ports[..index]
            .iter()
            .any(|other| other["port"] == port["port"] && other["protocol"] == port["protocol"]);
        if twice {
            let shown = json!({ "port": port["port"], "protocol": port["protocol"] });
            errors.push(invalid::duplicate_of(path, &shown));
        }
    }
}
