//! Roles and their bindings.

use serde_json::Value;

use super::{check_choice, check_present, elements, elements_mut, set_default, text};
use crate::{invalid, schema::FieldError};

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) fn check_role(object: &Value, _: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, rule) in elements(object, "rules").enumerate() {
        let path = format!("rules[{index}]");
        let none = |field: &str| elements(rule, field).next().is_none();
        if none("verbs") {
            let detail = "verbs must contain at least one value";
            errors.push(invalid::required(format!("{path}.verbs"), detail));
        }
        if !none("nonResourceURLs") {
            errors.push(invalid::invalid(
                format!("{path}.nonResourceURLs"),
                &rule["nonResourceURLs"],
                "namespaced rules cannot apply to non-resource URLs",
            ));
            continue;
        }
        for (field, what) in [("apiGroups", "api group"), ("resources", "resource")] {
            if none(field) {
                let detail = format!("resource rules must supply at least one {what}");
                errors.push(invalid::required(format!("{path}.{field}"), &detail));
            }
        }
    }
    errors
}

pub(super) fn default_binding(object: &mut Value) {
    if let Some(role) = object.get_mut("roleRef")
        && text(role, "apiGroup").is_empty()
    {
        role["apiGroup"] = Value::from(GROUP);
    }
    for subject in elements_mut(object, "subjects") {
        if text(subject, "kind") != "ServiceAccount" {
            set_default(subject, "apiGroup", GROUP);
        }
    }
}

pub(super) fn check_binding(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let role = &object["roleRef"];
    check_choice(role, "roleRef", "apiGroup", &[GROUP], &mut errors);
    let kinds = ["Role", "ClusterRole"];
    check_choice(role, "roleRef", "kind", &kinds, &mut errors);
    check_present(role, "roleRef", "name", &mut errors);
    for (index, subject) in elements(object, "subjects").enumerate() {
        let path = format!("subjects[{index}]");
        check_present(subject, &path, "name", &mut errors);
        let kinds = ["ServiceAccount", "User", "Group"];
        check_choice(subject, &path, "kind", &kinds, &mut errors);
    }
    if old.is_some_and(|old| old["roleRef"] != *role) {
        errors.push(invalid::invalid("roleRef", role, "cannot change roleRef"));
    }
    errors
}
