//! The plain discovery lists: which groups, versions and resources there are.

use serde_json::{Value, json};

use crate::{error::ApiError, kind::Served, registry::Registry};

/// `/version`; the minor version is that of the API types this crate is built with.
pub(crate) fn version() -> Value {
    json!({
        "major": "1", "minor": "33", "gitVersion": "v1.33.0+kruntimes", "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "rustc", "platform": "any",
    })
}

/// `/api`.
pub(crate) fn core_versions() -> Value {
    json!({ "kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [] })
}

/// `/apis`.
pub(crate) fn groups(registry: &Registry) -> Value {
    let groups: Vec<Value> = registry
        .groups()
        .into_iter()
        .map(|(name, versions)| group_entry(name, &versions))
        .collect();
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
}

/// `/apis/{group}`.
pub(crate) fn group(registry: &Registry, name: &str) -> Result<Value, ApiError> {
    let groups = registry.groups();
    let versions = groups.get(name).ok_or_else(ApiError::no_such_path)?;
    let mut entry = group_entry(name, versions);
    entry["kind"] = Value::from("APIGroup");
    entry["apiVersion"] = Value::from("v1");
    Ok(entry)
}

fn group_entry(name: &str, versions: &[&str]) -> Value {
    let mut versions = versions.to_vec();
    versions
        .sort_by_key(|version| std::cmp::Reverse(kube::core::Version::parse(version).priority()));
    let entry =
        |version: &str| json!({ "groupVersion": format!("{name}/{version}"), "version": version });
    let preferred = versions.first().map(|version| entry(version));
    let versions: Vec<Value> = versions.iter().map(|version| entry(version)).collect();
    json!({ "name": name, "versions": versions, "preferredVersion": preferred })
}

/// `/api/v1` or `/apis/{group}/{version}`.
pub(crate) fn resources(
    registry: &Registry,
    group: &str,
    version: &str,
) -> Result<Value, ApiError> {
    let mut resources = Vec::new();
    for served in registry.of_version(group, version) {
        resources.push(resource(served));
        if served.kind.status {
            resources.push(subresource(served, "status", &["get", "patch", "update"]));
        }
        if served.kind.is_core("Pod") {
            resources.push(subresource(served, "log", &["get"]));
        }
    }
    if resources.is_empty() {
        return Err(ApiError::no_such_path());
    }
    let group_version = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    Ok(json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources,
    }))
}

fn resource(served: &Served) -> Value {
    let kind = &served.kind;
    json!({
        "name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced, "kind": kind.name,
        "shortNames": kind.short_names, "categories": kind.categories,
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
    })
}

fn subresource(served: &Served, name: &str, verbs: &[&str]) -> Value {
    let kind = &served.kind;
    json!({
        "name": format!("{}/{name}", kind.plural), "singularName": "", "namespaced": kind.namespaced,
        "kind": kind.name, "verbs": verbs,
    })
}
