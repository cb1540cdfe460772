//! The built-in kinds: one table, and the little that each does beyond storing.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{
    event_alias, invalid,
    kind::{Kind, Rules, Served},
    registry::Registry,
    schema::FieldError,
    shape::Shape,
    table::Columns,
};

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
    rules: Rules,
}

impl Row {
    fn new(group: &'static str, kind: &'static str, plural: &'static str) -> Self {
        Self {
            group,
            kind,
            plural,
            short: &[],
            namespaced: true,
            status: false,
            generation: false,
            fixed: false,
            categories: &[],
            selectable: &[],
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

    fn checked_by(mut self, check: fn(&Value, Option<&Value>) -> Vec<FieldError>) -> Self {
        self.rules.check = check;
        self
    }
}

/// Shelf of the namespaces: they are the first row of the table.
pub(crate) const NAMESPACES: usize = 0;

const RBAC: &str = "rbac.authorization.k8s.io";
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

fn rows() -> Vec<Row> {
    let mut namespace = Row::new("", "Namespace", "namespaces")
        .short(&["ns"])
        .with_status()
        .selectable(&["status.phase"])
        .prepared_by(prepare_namespace);
    namespace.namespaced = false;
    let mut definitions = Row::new(
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        "customresourcedefinitions",
    )
    .short(&["crd", "crds"])
    .in_categories(&["api-extensions"]);
    definitions.namespaced = false;
    definitions.fixed = true;
    vec![
        namespace,
        Row::new("", "Pod", "pods")
            .short(&["po"])
            .in_categories(&["all"])
            .with_status()
            .counting_generations()
            .selectable(POD_PATHS)
            .prepared_by(prepare_pod)
            .checked_by(check_pod),
        Row::new("", "Service", "services")
            .short(&["svc"])
            .in_categories(&["all"])
            .with_status()
            .prepared_by(prepare_service),
        Row::new("", "ConfigMap", "configmaps")
            .short(&["cm"])
            .checked_by(check_immutable_data),
        Row::new("", "Secret", "secrets")
            .selectable(&["type"])
            .prepared_by(prepare_secret)
            .checked_by(check_secret),
        Row::new("", "ServiceAccount", "serviceaccounts").short(&["sa"]),
        Row::new("apps", "Deployment", "deployments")
            .short(&["deploy"])
            .in_categories(&["all"])
            .with_status()
            .counting_generations()
            .prepared_by(prepare_deployment)
            .checked_by(check_deployment),
        Row::new("apps", "ControllerRevision", "controllerrevisions").checked_by(check_revision),
        Row::new(RBAC, "Role", "roles"),
        Row::new(RBAC, "RoleBinding", "rolebindings").checked_by(check_role_binding),
        Row::new("networking.k8s.io", "NetworkPolicy", "networkpolicies")
            .short(&["netpol"])
            .counting_generations(),
        Row::new("coordination.k8s.io", "Lease", "leases"),
        Row::new("events.k8s.io", "Event", "events")
            .short(&["ev"])
            .selectable(EVENT_PATHS),
        definitions,
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
        let served = |group: &str, shape: Shape| Served {
            kind: Arc::clone(&kind),
            group: group.to_owned(),
            version: "v1".to_owned(),
            shape,
            schema: None,
            selectable: row.selectable.iter().map(ToString::to_string).collect(),
            columns: Arc::new(Columns::built_in(row.kind)),
        };
        registry.add(served(row.group, Shape::Stored));
        if row.kind == "Event" {
            registry.add(served("", Shape::CoreEvent));
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

fn set_default(value: &mut Value, field: &str, default: Value) {
    if value[field].is_null() {
        value[field] = default;
    }
}

fn prepare_namespace(object: &mut Value) {
    let name = object["metadata"]["name"].clone();
    set_default(&mut object["metadata"], "labels", json!({}));
    object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name;
    set_default(object, "spec", json!({}));
    object["spec"]["finalizers"] = json!(["kubernetes"]);
    object["status"] = json!({ "phase": "Active" });
}

fn prepare_pod(object: &mut Value) {
    if let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) {
        set_default(spec, "restartPolicy", json!("Always"));
        set_default(spec, "dnsPolicy", json!("ClusterFirst"));
        set_default(spec, "schedulerName", json!("default-scheduler"));
        set_default(spec, "terminationGracePeriodSeconds", json!(30));
        set_default(spec, "serviceAccountName", json!("default"));
    }
    object["status"] = json!({ "phase": "Pending" });
}

fn check_pod(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match object["spec"]["containers"].as_array() {
        Some(containers) if !containers.is_empty() => {
            for (index, container) in containers.iter().enumerate() {
                if container["name"].as_str().unwrap_or_default().is_empty() {
                    let field = format!("spec.containers[{index}].name");
                    errors.push(invalid::required(field, ""));
                }
            }
        }
        _ => errors.push(invalid::required("spec.containers", "")),
    }
    let fixed = |value: &Value| value["spec"]["nodeName"].as_str().map(str::to_owned);
    if let Some(bound) = old.and_then(fixed).filter(|name| !name.is_empty())
        && fixed(object).as_deref() != Some(bound.as_str())
    {
        errors.push(invalid::forbidden(
            "spec.nodeName",
            "pod updates may not change the node of a bound pod",
        ));
    }
    errors
}

fn prepare_service(object: &mut Value) {
    if let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) {
        set_default(spec, "type", json!("ClusterIP"));
        set_default(spec, "sessionAffinity", json!("None"));
        set_default(spec, "clusterIP", json!("None"));
    }
    object["status"] = json!({ "loadBalancer": {} });
}

fn prepare_secret(object: &mut Value) {
    set_default(object, "type", json!("Opaque"));
}

/// Moves the write-only `stringData` of a Secret into `data`.
pub(crate) fn merge_string_data(object: &mut Value) {
    let Some(fields) = object.as_object_mut() else {
        return;
    };
    let Some(Value::Object(plain)) = fields.remove("stringData") else {
        return;
    };
    set_default(object, "data", json!({}));
    for (name, text) in plain {
        if let Some(text) = text.as_str() {
            object["data"][name] = Value::from(STANDARD.encode(text));
        }
    }
}

fn check_secret(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = check_immutable_data(object, old);
    if old.is_some_and(|old| old["type"] != object["type"]) {
        errors.push(unchangeable("type", &object["type"]));
    }
    for (name, encoded) in object["data"].as_object().into_iter().flatten() {
        let decodes = encoded
            .as_str()
            .is_some_and(|text| STANDARD.decode(text).is_ok());
        if !decodes {
            let field = format!("data[{name}]");
            errors.push(invalid::invalid(field, encoded, "must be base64"));
        }
    }
    errors
}

fn check_immutable_data(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let Some(old) = old.filter(|old| old["immutable"] == Value::Bool(true)) else {
        return Vec::new();
    };
    ["immutable", "data", "binaryData"]
        .into_iter()
        .filter(|field| old[*field] != object[*field])
        .map(|field| invalid::forbidden(field, "field is immutable when `immutable` is set"))
        .collect()
}

fn prepare_deployment(object: &mut Value) {
    if let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) {
        set_default(spec, "replicas", json!(1));
        set_default(spec, "revisionHistoryLimit", json!(10));
        set_default(spec, "progressDeadlineSeconds", json!(600));
        set_default(
            spec,
            "strategy",
            json!({
                "type": "RollingUpdate",
                "rollingUpdate": { "maxUnavailable": "25%", "maxSurge": "25%" },
            }),
        );
    }
    object["status"] = json!({});
}

fn check_deployment(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let spec = &object["spec"];
    let mut errors = Vec::new();
    if !spec["selector"].is_object() {
        errors.push(invalid::required("spec.selector", ""));
    } else if let Some(wanted) = spec["selector"]["matchLabels"].as_object() {
        let labels = &spec["template"]["metadata"]["labels"];
        if wanted.iter().any(|(name, value)| labels[name] != *value) {
            errors.push(invalid::invalid(
                "spec.template.metadata.labels",
                labels,
                "`selector` does not match template `labels`",
            ));
        }
    }
    match spec["template"]["spec"]["containers"].as_array() {
        Some(containers) if !containers.is_empty() => {}
        _ => errors.push(invalid::required("spec.template.spec.containers", "")),
    }
    if let Some(replicas) = spec["replicas"].as_i64().filter(|count| *count < 0) {
        let detail = "must be greater than or equal to 0";
        errors.push(invalid::invalid("spec.replicas", &json!(replicas), detail));
    }
    if old.is_some_and(|old| old["spec"]["selector"] != spec["selector"]) {
        errors.push(unchangeable("spec.selector", &spec["selector"]));
    }
    errors
}

fn check_revision(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if old.is_some_and(|old| old["data"] != object["data"]) {
        errors.push(unchangeable("data", &object["data"]));
    }
    if !object["revision"].is_i64() {
        errors.push(invalid::required("revision", ""));
    }
    errors
}

fn check_role_binding(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !object["roleRef"]["name"].is_string() {
        errors.push(invalid::required("roleRef.name", ""));
    }
    if old.is_some_and(|old| old["roleRef"] != object["roleRef"]) {
        errors.push(invalid::invalid(
            "roleRef",
            &object["roleRef"],
            "cannot change roleRef",
        ));
    }
    errors
}

fn unchangeable(field: &str, value: &Value) -> FieldError {
    invalid::invalid(field, value, "field is immutable")
}
