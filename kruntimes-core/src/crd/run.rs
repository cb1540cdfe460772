//! Bounds and rules of the `Run` kind (API reference, sections 3.1 to 3.7).

use schemars::Schema;
use serde_json::{Value, json};

use super::rule::{
    Rule, cancel_is_final, plain_segments, positive_duration, same, same_duration, same_if,
};
use super::schema::{
    at_least, between, conditions, dns253, filled, label63, list, map, object, text,
};
use crate::keys::TOPOLOGY_RUNTIME_POD;
use crate::limits;

/// Most resource names in one request: the value of each is compared on every update.
const REQUESTS_MAX: u32 = 7;

pub(crate) fn spec(schema: &mut Schema) {
    let spec = &mut object(schema);
    spec.field("runtime", &label63())
        .field("env", &list(256, &json!({})))
        .field("artifactInputs", &list(32, &json!({})))
        .field("cancelRequested", &json!({ "default": false }))
        .field("ttlSecondsAfterFinished", &at_least(0))
        .field_rule("timeout", positive_duration("timeout"));
    for rule in mode_rules().into_iter().chain(update_rules()) {
        spec.rule(rule);
    }
}

/// R5, R6, R7, R11 and R12: what the mode allows.
fn mode_rules() -> [Rule; 5] {
    [
        Rule::new(
            "!has(self.source) || !has(self.source.inlinePath) || (has(self.mode.__function__) && has(self.source.inline))",
            "source.inlinePath needs mode.function and source.inline",
        )
        .forbidden()
        .at(".source.inlinePath"),
        Rule::new(
            "!has(self.mode.__function__) || !has(self.source) || !has(self.source.inline) || has(self.source.inlinePath)",
            "source.inlinePath is required for mode.function with source.inline",
        )
        .required()
        .at(".source.inlinePath"),
        Rule::new(
            "!has(self.mode.task) || !has(self.mode.task.entrypoint) || (has(self.source) && has(self.source.inline)) || (!self.mode.task.entrypoint.startsWith('/') && self.mode.task.entrypoint.split('/').all(s, s != '..'))",
            "mode.task.entrypoint must be a relative path without '..' segments",
        )
        .at(".mode.task.entrypoint"),
        Rule::new(
            "!has(self.mode.session) || !has(self.workspace)",
            "workspace may not be set with mode.session",
        )
        .forbidden()
        .at(".workspace"),
        Rule::new(
            "!has(self.termination) || self.termination.mode != 'Drain' || has(self.mode.session)",
            "termination.mode Drain requires mode.session",
        )
        .forbidden()
        .at(".termination.mode"),
    ]
}

/// R8, R9, R10 and R13: what an update may change. Durations and quantities are compared by value.
fn update_rules() -> Vec<Rule> {
    let session = same_if(
        "mode.session",
        &[
            same("mode.session.leaseTimeoutSeconds"),
            same("mode.session.queueSize"),
            same_duration("mode.session.operationTimeout"),
        ]
        .join(" && "),
    );
    let mode = [same("mode.task"), same("mode.__function__"), session].join(" && ");
    let retry_policy = [
        same("retryPolicy.maxAttempts"),
        same_duration("retryPolicy.backoff"),
        same("retryPolicy.retryableReasons"),
    ]
    .join(" && ");
    let mut rules = vec![
        Rule::immutable("runtime", "self.runtime == oldSelf.runtime"),
        Rule::immutable("mode", mode),
        Rule::immutable("timeout", same_duration("timeout")),
        Rule::immutable("retryPolicy", same_if("retryPolicy", &retry_policy)),
        // The requests themselves are compared by the rule of `Resources`.
        Rule::immutable("resources", "has(self.resources) == has(oldSelf.resources)"),
    ];
    let plain = ["source", "env", "artifactInputs", "workspace", "affinity"];
    rules.extend(plain.map(|path| Rule::immutable(path, same(path))));
    rules.push(cancel_is_final());
    rules.push(
        Rule::new(
            "!has(oldSelf.termination) || (has(self.termination) && (self.termination.mode == oldSelf.termination.mode || (oldSelf.termination.mode == 'Drain' && self.termination.mode == 'Immediate')))",
            "termination may not be withdrawn, and may only move from Drain to Immediate",
        )
        .forbidden()
        .at(".termination"),
    );
    rules
}

pub(crate) fn mode(schema: &mut Schema) {
    // R1
    object(schema).rule(Rule::new(
        "[has(self.task), has(self.__function__), has(self.session)].filter(m, m).size() == 1",
        "mode must hold exactly one of task, function and session",
    ));
}

pub(crate) fn task(schema: &mut Schema) {
    object(schema)
        .field("entrypoint", &text(4096))
        .field("args", &list(256, &text(8192)));
}

pub(crate) fn function(schema: &mut Schema) {
    object(schema)
        .field("handler", &text(512))
        .field("idleTimeoutSeconds", &at_least(1));
}

pub(crate) fn session(schema: &mut Schema) {
    object(schema)
        .field("leaseTimeoutSeconds", &at_least(1))
        .field("queueSize", &between(1, 32))
        .field_rule("operationTimeout", positive_duration("operationTimeout"));
}

pub(crate) fn source(schema: &mut Schema) {
    let inline_path = plain_segments("self.inlinePath");
    object(schema)
        .field("inline", &text(262_144))
        .field("inlinePath", &filled(4096))
        .field("repoURL", &text(2048))
        .field("commitSHA", &text(256))
        // R2
        .rule(
            Rule::new(
                "!has(self.inline) || !has(self.repoURL)",
                "source.inline and source.repoURL may not be set together",
            )
            .forbidden()
            .at(".repoURL"),
        )
        // R3
        .rule(
            Rule::new(
                "!has(self.commitSHA) || has(self.repoURL)",
                "source.commitSHA requires source.repoURL",
            )
            .forbidden()
            .at(".commitSHA"),
        )
        // R4
        .rule(
            Rule::new(
                format!("!has(self.inlinePath) || ({inline_path})"),
                "source.inlinePath must be a relative path without empty, '.' or '..' segments",
            )
            .at(".inlinePath"),
        );
}

pub(crate) fn env_var(schema: &mut Schema) {
    object(schema).replace("valueFrom", value_from());
}

/// The shape of the core API. It is accepted so that manifests apply, and never resolved.
fn value_from() -> Value {
    let text = json!({ "type": "string" });
    let flag = json!({ "type": "boolean" });
    let selector = |required: &[&str], properties: Value| json!({ "type": "object", "required": required, "properties": properties });
    let key_of = || {
        selector(
            &["key"],
            json!({ "name": text, "key": text, "optional": flag }),
        )
    };
    let divisor = json!({
        "anyOf": [{ "type": "integer" }, { "type": "string" }],
        "x-kubernetes-int-or-string": true,
    });
    json!({
        "type": "object",
        "properties": {
            "configMapKeyRef": key_of(),
            "secretKeyRef": key_of(),
            "fieldRef": selector(&["fieldPath"], json!({ "apiVersion": text, "fieldPath": text })),
            "resourceFieldRef": selector(
                &["resource"],
                json!({ "containerName": text, "resource": text, "divisor": divisor }),
            ),
            "fileKeyRef": selector(
                &["volumeName", "path", "key"],
                json!({ "volumeName": text, "path": text, "key": text, "optional": flag }),
            ),
        },
    })
}

pub(crate) fn retry_policy(schema: &mut Schema) {
    object(schema)
        .field("maxAttempts", &between(1, 100))
        .field("maxAttempts", &json!({ "default": 1 }))
        .field("backoff", &json!({ "default": "1s" }))
        .field("retryableReasons", &list(32, &text(128)));
}

pub(crate) fn resources(schema: &mut Schema) {
    // `1`, "1" and "1000m" are one value.
    let value = "self.requests.all(k, k in oldSelf.requests && quantity(string(self.requests[k])).compareTo(quantity(string(oldSelf.requests[k]))) == 0) && oldSelf.requests.all(k, k in self.requests)";
    object(schema).field("requests", &map(REQUESTS_MAX)).rule(
        Rule::new(
            same_if("requests", value),
            "resources.requests is immutable",
        )
        .forbidden()
        .at(".requests"),
    );
}

pub(crate) fn workspace_ref(schema: &mut Schema) {
    let only = |value: &str| json!({ "enum": [value], "default": value });
    object(schema)
        .field("name", &dns253())
        .field("kind", &only("PersistentWorkspace"))
        .field("apiGroup", &only(crate::api::API_VERSION));
}

pub(crate) fn artifact_input(schema: &mut Schema) {
    object(schema).field("path", &filled(4096)).rule(
        Rule::new(
            plain_segments("self.path"),
            "artifactInputs[].path must be a relative path without empty, '.' or '..' segments",
        )
        .at(".path"),
    );
}

pub(crate) fn affinity(schema: &mut Schema) {
    object(schema);
}

pub(crate) fn run_affinity(schema: &mut Schema) {
    for name in [
        "requiredDuringSchedulingIgnoredDuringExecution",
        "preferredDuringSchedulingIgnoredDuringExecution",
    ] {
        object(schema).field(name, &list(32, &json!({})));
    }
}

pub(crate) fn term(schema: &mut Schema) {
    object(schema)
        .field("labelSelector", &json!({ "x-kubernetes-map-type": "atomic" }))
        .field("topologyKey", &json!({ "enum": [TOPOLOGY_RUNTIME_POD] }))
        .require(&["labelSelector"])
        // R14
        .field_rule(
            "labelSelector",
            Rule::new(
                "(has(self.matchLabels) && size(self.matchLabels) > 0) || (has(self.matchExpressions) && size(self.matchExpressions) > 0)",
                "labelSelector must hold at least one matchLabels or matchExpressions entry",
            )
            .required(),
        );
}

pub(crate) fn weighted_term(schema: &mut Schema) {
    object(schema).field("weight", &between(1, 100));
}

pub(crate) fn status(schema: &mut Schema) {
    object(schema)
        .field("phase", &json!({ "default": "Pending" }))
        .require(&["phase"])
        .field("assignedPodUID", &text(253))
        .field(
            "message",
            &json!({ "maxLength": limits::STATUS_MESSAGE_MAX }),
        )
        .field("outputs", &map(64))
        .field("artifactRefs", &list(32, &json!({})))
        .field("conditions", &conditions());
}

pub(crate) fn endpoint(schema: &mut Schema) {
    object(schema).field("url", &text(2048)).field(
        "caBundle",
        &json!({ "format": "byte", "maxLength": 16_384 }),
    );
}
