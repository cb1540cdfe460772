//! What may I do?

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{
    access::{Identity, Rule},
    commit::Core,
    error::ApiError,
};

/// Returns spec and status of a SelfSubjectRulesReview; as in Kubernetes, the spec comes back empty.
pub(super) fn review(
    core: &Core,
    caller: &Identity,
    spec: &Value,
) -> Result<(Value, Value), ApiError> {
    let namespace = spec["namespace"].as_str().unwrap_or_default();
    if namespace.is_empty() {
        return Err(ApiError::bad_request("no namespace on request"));
    }
    let rules = core.access.policy.rules_for(caller);
    let here = rules.iter().filter(|rule| rule.applies_in(namespace));
    let (paths, resources): (Vec<&Rule>, Vec<&Rule>) = here.partition(|rule| rule.is_for_paths());
    let resources: Vec<Value> = resources
        .into_iter()
        .map(|rule| of_resources(core, rule))
        .collect();
    let paths: Vec<Value> = paths
        .into_iter()
        .map(|rule| json!({ "verbs": rule.verbs, "nonResourceURLs": rule.paths }))
        .collect();
    let status =
        json!({ "resourceRules": resources, "nonResourceRules": paths, "incomplete": false });
    Ok((json!({}), status))
}

/// Writes a rule in the words of a Role, which knows no exceptions: what is left is listed instead.
fn of_resources(core: &Core, rule: &Rule) -> Value {
    let resources: Vec<&str> = if rule.except.is_empty() {
        rule.resources.iter().map(String::as_str).collect()
    } else {
        let left = core.registry.kinds().map(|served| &served.kind.plural);
        let left: BTreeSet<&str> = left
            .filter(|plural| !rule.except.contains(plural))
            .map(String::as_str)
            .collect();
        left.into_iter().collect()
    };
    let mut written =
        json!({ "verbs": rule.verbs, "apiGroups": rule.groups, "resources": resources });
    if !rule.names.is_empty() {
        written["resourceNames"] = json!(rule.names);
    }
    written
}
