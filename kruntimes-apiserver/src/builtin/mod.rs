//! The built-in kinds: one table, and for each kind a file with what it does beyond storing.

mod access;
mod config;
mod containers;
mod deployment;
mod event;
mod lease;
mod namespace;
mod network;
mod pod;
mod probe;
mod revision;
mod service;
mod volumes;

use std::sync::Arc;

use k8s_openapi::{
    Resource,
    api::{
        apps::v1::{ControllerRevision, Deployment},
        coordination::v1::Lease,
        core::v1::{self as core, ConfigMap, Namespace, Pod, Secret, Service, ServiceAccount},
        events::v1::Event,
        networking::v1::NetworkPolicy,
        rbac::v1::{Role, RoleBinding},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    event_alias, invalid,
    kind::{Kind, Rules, Served},
    registry::Registry,
    schema::FieldError,
    shape::Shape,
    table::Columns,
    typed::{Through, through},
};

pub(crate) use config::merge_string_data;
pub(crate) use namespace::CONTENT;

/// One row of the table.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent properties of a kind, each a column of the table"
)]
struct Row {
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    short: &'static [&'static str],
    namespaced: bool,
    status: bool,
    generation: bool,
    fixed: bool,
    categories: &'static [&'static str],
    selectable: &'static [&'static str],
    through: Through,
    rules: Rules,
}

impl Row {
    fn of<K: Resource + DeserializeOwned + Serialize>(plural: &'static str) -> Self {
        Self {
            group: K::GROUP,
            kind: K::KIND,
            plural,
            short: &[],
            namespaced: true,
            status: false,
            generation: false,
            fixed: false,
            categories: &[],
            selectable: &[],
            through: through::<K>,
            rules: Rules::default(),
        }
    }

    fn short(self, short: &'static [&'static str]) -> Self {
        Self { short, ..self }
    }

    fn with_status(self) -> Self {
        Self {
            status: true,
            ..self
        }
    }

    fn counting_generations(self) -> Self {
        Self {
            generation: true,
            ..self
        }
    }

    fn in_categories(self, categories: &'static [&'static str]) -> Self {
        Self { categories, ..self }
    }

    fn selectable(self, selectable: &'static [&'static str]) -> Self {
        Self { selectable, ..self }
    }

    fn prepared_by(mut self, prepare: fn(&mut Value)) -> Self {
        self.rules.prepare = prepare;
        self
    }

    fn defaulted_by(mut self, default: fn(&mut Value)) -> Self {
        self.rules.default = default;
        self
    }

    fn checked_by(mut self, check: fn(&Value, Option<&Value>) -> Vec<FieldError>) -> Self {
        self.rules.check = check;
        self
    }
}

/// Shelf of the namespaces: they are the first row of the table.
pub(crate) const NAMESPACES: usize = 0;

const EVENT_PATHS: &[&str] = &[
    "regarding.kind",
    "regarding.namespace",
    "regarding.name",
    "regarding.uid",
    "regarding.apiVersion",
    "regarding.resourceVersion",
    "regarding.fieldPath",
    "reason",
    "reportingController",
    "deprecatedSource.component",
    "type",
];
const POD_PATHS: &[&str] = &[
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
];

/// Every kind that is served; Namespaces come first.
fn rows() -> Vec<Row> {
    let mut rows = Vec::from(cluster_rows());
    rows.extend(workload_rows());
    rows.extend(policy_rows());
    rows.extend(record_rows());
    rows
}

/// Namespaces, and the kinds that the server was built with.
fn cluster_rows() -> [Row; 2] {
    let namespaces = Row::of::<Namespace>("namespaces")
        .short(&["ns"])
        .with_status()
        .selectable(&["status.phase"])
        .prepared_by(namespace::prepare)
        .defaulted_by(namespace::default);
    let definitions = Row::of::<CustomResourceDefinition>("customresourcedefinitions")
        .short(&["crd", "crds"])
        .in_categories(&["api-extensions"]);
    [
        Row {
            namespaced: false,
            ..namespaces
        },
        Row {
            namespaced: false,
            fixed: true,
            ..definitions
        },
    ]
}

fn workload_rows() -> [Row; 3] {
    [
        Row::of::<Pod>("pods")
            .short(&["po"])
            .in_categories(&["all"])
            .with_status()
            .counting_generations()
            .selectable(POD_PATHS)
            .prepared_by(pod::prepare)
            .defaulted_by(pod::default)
            .checked_by(pod::check),
        Row::of::<Service>("services")
            .short(&["svc"])
            .in_categories(&["all"])
            .with_status()
            .prepared_by(service::prepare)
            .defaulted_by(service::default)
            .checked_by(service::check),
        Row::of::<Deployment>("deployments")
            .short(&["deploy"])
            .in_categories(&["all"])
            .with_status()
            .counting_generations()
            .prepared_by(deployment::prepare)
            .defaulted_by(deployment::default)
            .checked_by(deployment::check),
    ]
}

/// Who may do what, and who may talk to whom.
fn policy_rows() -> [Row; 4] {
    [
        Row::of::<ServiceAccount>("serviceaccounts").short(&["sa"]),
        Row::of::<Role>("roles").checked_by(access::check_role),
        Row::of::<RoleBinding>("rolebindings")
            .defaulted_by(access::default_binding)
            .checked_by(access::check_binding),
        Row::of::<NetworkPolicy>("networkpolicies")
            .short(&["netpol"])
            .counting_generations()
            .defaulted_by(network::default)
            .checked_by(network::check),
    ]
}

/// What programs write down for others and for themselves.
fn record_rows() -> [Row; 5] {
    [
        Row::of::<ConfigMap>("configmaps")
            .short(&["cm"])
            .checked_by(config::check_map),
        Row::of::<Secret>("secrets")
            .selectable(&["type"])
            .defaulted_by(config::default_secret)
            .checked_by(config::check_secret),
        Row::of::<ControllerRevision>("controllerrevisions").checked_by(revision::check),
        Row::of::<Lease>("leases").checked_by(lease::check),
        Row::of::<Event>("events")
            .short(&["ev"])
            .selectable(EVENT_PATHS)
            .checked_by(event::check),
    ]
}

/// Adds every built-in kind to the registry.
pub(crate) fn install(registry: &mut Registry) {
    for row in rows() {
        let api_version = if row.group.is_empty() {
            "v1".to_owned()
        } else {
            format!("{}/v1", row.group)
        };
        let kind = Arc::new(Kind {
            shelf: registry.next_shelf(),
            api_version,
            name: row.kind.to_owned(),
            list_name: format!("{}List", row.kind),
            plural: row.plural.to_owned(),
            singular: row.kind.to_ascii_lowercase(),
            short_names: row.short.iter().map(ToString::to_string).collect(),
            categories: row.categories.iter().map(ToString::to_string).collect(),
            namespaced: row.namespaced,
            status: row.status,
            generation: row.generation,
            unconditional_update: row.kind != "Lease",
            fixed: row.fixed,
            rules: row.rules,
        });
        let served = |group: &str, shape: Shape, through: Through| Served {
            kind: Arc::clone(&kind),
            group: group.to_owned(),
            version: "v1".to_owned(),
            shape,
            schema: None,
            through: Some(through),
            selectable: row.selectable.iter().map(ToString::to_string).collect(),
            columns: Arc::new(Columns::built_in(row.kind)),
        };
        registry.add(served(row.group, Shape::Stored, row.through));
        if row.kind == "Event" {
            registry.add(served("", Shape::CoreEvent, through::<core::Event>));
        }
    }
}

/// Translates a field selector path of a served version to the stored form.
pub(crate) fn stored_path(served: &Served, path: &str) -> String {
    if served.shape == Shape::CoreEvent {
        let path = if path == "source" {
            "source.component"
        } else {
            path
        };
        event_alias::stored_path(path)
    } else {
        path.to_owned()
    }
}

/// Fills in a field that is absent; of what is not an object it makes none.
fn set_default(object: &mut Value, field: &str, default: impl Into<Value>) {
    if let Some(fields) = object.as_object_mut()
        && fields.get(field).is_none_or(Value::is_null)
    {
        fields.insert(field.to_owned(), default.into());
    }
}

/// Returns a text field, empty when absent.
fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}

/// Lists the elements of a list field.
fn elements<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    object[field].as_array().into_iter().flatten()
}

/// Lists the elements of a list field, to be changed.
fn elements_mut<'a>(object: &'a mut Value, field: &str) -> impl Iterator<Item = &'a mut Value> {
    object
        .get_mut(field)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
}

fn unchangeable(field: &str, value: &Value) -> FieldError {
    invalid::invalid(field, value, "field is immutable")
}

/// Complains about a number below its least value.
fn check_least(object: &Value, path: &str, field: &str, least: i64, errors: &mut Vec<FieldError>) {
    if let Some(number) = object[field].as_i64().filter(|number| *number < least) {
        let detail = if least == 1 {
            "must be greater than 0".to_owned()
        } else {
            format!("must be greater than or equal to {least}")
        };
        errors.push(invalid::invalid(
            format!("{path}.{field}"),
            &Value::from(number),
            &detail,
        ));
    }
}

/// Complains about a text that is none of the allowed ones.
fn check_choice(
    object: &Value,
    path: &str,
    field: &str,
    allowed: &[&str],
    errors: &mut Vec<FieldError>,
) {
    let given = text(object, field);
    if !allowed.contains(&given) {
        let path = format!("{path}.{field}");
        errors.push(invalid::not_supported(path, given, allowed));
    }
}

/// Complains about an absent or empty text.
fn check_present(object: &Value, path: &str, field: &str, errors: &mut Vec<FieldError>) -> bool {
    let given = !text(object, field).is_empty();
    if !given {
        errors.push(invalid::required(format!("{path}.{field}"), ""));
    }
    given
}

/// Complains about a port outside of what the wire can carry; an absent one counts as zero.
fn check_port(object: &Value, path: &str, field: &str, errors: &mut Vec<FieldError>) {
    let port = object[field].as_i64().unwrap_or(0);
    if !(1..=65_535).contains(&port) {
        errors.push(invalid::invalid(
            format!("{path}.{field}"),
            &Value::from(port),
            "must be between 1 and 65535, inclusive",
        ));
    }
}
