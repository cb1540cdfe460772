//! Discovery: which groups, versions and resources there are, as separate lists and all in one document.

use std::cmp::Reverse;

use kube::core::Version;
use serde_json::{Value, json};

use crate::{error::ApiError, kind::Served, registry::Registry, subresource::Subresource};

/// `/version`; the minor version is that of the API types this crate is built with.
pub(crate) fn version() -> Value {
    json!({
        "major": "1", "minor": "33", "gitVersion": "v1.33.0+kruntimes", "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

/// `/`: every path that lists something.
pub(crate) fn paths(registry: &Registry) -> Value {
    let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for (group, versions) in registry.groups() {
        paths.push(format!("/apis/{group}"));
        paths.extend(
            versions
                .iter()
                .map(|version| format!("/apis/{group}/{version}")),
        );
    }
    let others = ["/healthz", "/livez", "/openapi/v3", "/readyz", "/version"];
    paths.extend(others.map(str::to_owned));
    json!({ "paths": paths })
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
        .map(|(name, versions)| group_entry(name, versions))
        .collect();
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
}

/// `/apis/{group}`.
pub(crate) fn group(registry: &Registry, name: &str) -> Result<Value, ApiError> {
    let mut groups = registry.groups();
    let versions = groups.remove(name).ok_or_else(ApiError::no_such_path)?;
    let mut entry = group_entry(name, versions);
    entry["kind"] = Value::from("APIGroup");
    entry["apiVersion"] = Value::from("v1");
    Ok(entry)
}

fn group_entry(name: &str, versions: Vec<&str>) -> Value {
    let entry =
        |version: &str| json!({ "groupVersion": format!("{name}/{version}"), "version": version });
    let versions: Vec<Value> = by_priority(versions).into_iter().map(entry).collect();
    json!({ "name": name, "versions": versions, "preferredVersion": versions.first() })
}

/// Orders versions as clients prefer them: stable before beta before alpha, newer before older.
fn by_priority(mut versions: Vec<&str>) -> Vec<&str> {
    versions.sort_by_key(|version| Reverse(Version::parse(version).priority()));
    versions
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
        resources.extend(Part::all_of(served).iter().map(|part| part.plain(served)));
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
    let mut entry = json!({
        "name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced, "kind": kind.name,
        "verbs": verbs(served),
    });
    add_names(served, &mut entry);
    entry
}

/// Adds the short names and the categories of a kind that has some.
fn add_names(served: &Served, entry: &mut Value) {
    let kind = &served.kind;
    for (field, names) in [
        ("shortNames", &kind.short_names),
        ("categories", &kind.categories),
    ] {
        if !names.is_empty() {
            entry[field] = json!(names);
        }
    }
}

/// Lists what can be done with the objects of a kind.
fn verbs(served: &Served) -> &'static [&'static str] {
    if !served.kind.is_stored() {
        &["create"]
    } else if served.kind.fixed {
        &["get", "list", "watch"]
    } else if served.kind.is_core("Namespace") {
        &[
            "create", "delete", "get", "list", "patch", "update", "watch",
        ]
    } else {
        &[
            "create",
            "delete",
            "deletecollection",
            "get",
            "list",
            "patch",
            "update",
            "watch",
        ]
    }
}

/// A subresource, as discovery tells of it.
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) verbs: &'static [&'static str],
    /// Group, version and kind of what it exchanges, where that is not the kind itself.
    pub(crate) speaks: Option<[&'static str; 3]>,
}

impl Part {
    /// Lists the subresources of a kind by name.
    pub(crate) fn all_of(served: &Served) -> Vec<Self> {
        let mut parts = Vec::new();
        let mut add = |name, verbs, speaks| {
            parts.push(Self {
                name,
                verbs,
                speaks,
            });
        };
        if served.kind.is_core("Pod") {
            add("binding", &["create"][..], Some(["", "v1", "Binding"]));
            let eviction = ["policy", "v1", "Eviction"];
            add("eviction", &["create"][..], Some(eviction));
            add("log", &["get"][..], None);
        }
        if served.kind.is_core("Namespace") {
            add("finalize", &["update"][..], None);
        }
        if Subresource::of(served, "scale").is_some() {
            let scale = ["autoscaling", "v1", "Scale"];
            add("scale", &["get", "patch", "update"][..], Some(scale));
        }
        if served.kind.status {
            add("status", &["get", "patch", "update"][..], None);
        }
        parts
    }

    fn kind<'a>(&self, served: &'a Served) -> &'a str {
        self.speaks.map_or(served.kind.name.as_str(), |gvk| gvk[2])
    }

    fn plain(&self, served: &Served) -> Value {
        let kind = &served.kind;
        let mut entry = json!({
            "name": format!("{}/{}", kind.plural, self.name), "singularName": "", "namespaced": kind.namespaced,
            "kind": self.kind(served), "verbs": self.verbs,
        });
        if let Some([group, version, _]) = self.speaks.filter(|gvk| !gvk[0].is_empty()) {
            entry["group"] = Value::from(group);
            entry["version"] = Value::from(version);
        }
        entry
    }

    fn aggregated(&self, served: &Served) -> Value {
        let response = match self.speaks {
            Some([group, version, kind]) => {
                json!({ "group": group, "version": version, "kind": kind })
            }
            None => response_kind(served),
        };
        json!({ "subresource": self.name, "responseKind": response, "verbs": self.verbs })
    }
}

/// Names the kind of an answer; as in Kubernetes the group of a built-in kind is left to the reader.
fn response_kind(served: &Served) -> Value {
    let (group, version) = if served.schema.is_some() {
        (served.group.as_str(), served.version.as_str())
    } else {
        ("", "")
    };
    json!({ "group": group, "version": version, "kind": served.kind.name })
}

/// `/api` for clients that take everything about a group in one document.
pub(crate) fn aggregated_core(registry: &Registry) -> Value {
    aggregated_list(&[aggregated_group(registry, "", vec!["v1"])])
}

/// `/apis` for clients that take everything about all groups in one document.
pub(crate) fn aggregated_groups(registry: &Registry) -> Value {
    let groups: Vec<Value> = registry
        .groups()
        .into_iter()
        .map(|(name, versions)| aggregated_group(registry, name, versions))
        .collect();
    aggregated_list(&groups)
}

fn aggregated_list(groups: &[Value]) -> Value {
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": groups,
    })
}

fn aggregated_group(registry: &Registry, name: &str, versions: Vec<&str>) -> Value {
    let versions: Vec<Value> = by_priority(versions)
        .into_iter()
        .map(|version| {
            let resources: Vec<Value> = registry
                .of_version(name, version)
                .map(|served| aggregated_resource(served))
                .collect();
            json!({ "version": version, "resources": resources, "freshness": "Current" })
        })
        .collect();
    let metadata = if name.is_empty() {
        json!({})
    } else {
        json!({ "name": name })
    };
    json!({ "metadata": metadata, "versions": versions })
}

fn aggregated_resource(served: &Served) -> Value {
    let kind = &served.kind;
    let mut entry = json!({
        "resource": kind.plural, "responseKind": response_kind(served),
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular, "verbs": verbs(served),
    });
    add_names(served, &mut entry);
    let parts: Vec<Value> = Part::all_of(served)
        .iter()
        .map(|part| part.aggregated(served))
        .collect();
    if !parts.is_empty() {
        entry["subresources"] = Value::from(parts);
    }
    entry
}
