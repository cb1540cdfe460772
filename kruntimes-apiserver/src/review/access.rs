//! May somebody do something?

use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SelfSubjectAccessReviewSpec, SubjectAccessReviewSpec,
};
use serde_json::{Value, json};

use super::{AUTHORIZATION, encoded};
use crate::{
    access::{Asked, Identity},
    commit::Core,
    error::ApiError,
    invalid,
    schema::FieldError,
};

/// Returns spec and status of a SubjectAccessReview, inside a namespace if it is a local one.
pub(super) fn review(
    core: &Core,
    spec: &SubjectAccessReviewSpec,
    local: Option<&str>,
) -> Result<(Value, Value), ApiError> {
    let resource = spec.resource_attributes.as_ref();
    let path = spec.non_resource_attributes.as_ref();
    let mut errors = one_of_two(resource, path);
    let user = spec.user.clone().unwrap_or_default();
    let groups = spec.groups.clone().unwrap_or_default();
    if user.is_empty() && groups.is_empty() {
        let detail = "at least one of user or group must be specified";
        errors.push(invalid::invalid("spec.user", &json!(""), detail));
    }
    if let Some(namespace) = local {
        errors.extend(stays_inside(namespace, resource, path));
    }
    let asked = asked(resource, path, errors)?;
    let mut identity = Identity::new(user);
    identity.groups = groups;
    Ok((encoded(spec), verdict(core, &identity, &asked)))
}

/// Returns spec and status of a SelfSubjectAccessReview.
pub(super) fn review_self(
    core: &Core,
    caller: &Identity,
    spec: &SelfSubjectAccessReviewSpec,
) -> Result<(Value, Value), ApiError> {
    let resource = spec.resource_attributes.as_ref();
    let path = spec.non_resource_attributes.as_ref();
    let asked = asked(resource, path, one_of_two(resource, path))?;
    Ok((encoded(spec), verdict(core, caller, &asked)))
}

fn verdict(core: &Core, identity: &Identity, asked: &Asked) -> Value {
    json!({ "allowed": core.access.policy.allows(identity, asked) })
}

fn one_of_two(
    resource: Option<&ResourceAttributes>,
    path: Option<&NonResourceAttributes>,
) -> Vec<FieldError> {
    match (resource, path) {
        (Some(_), Some(path)) => vec![invalid::invalid(
            "spec.nonResourceAttributes",
            &shown(path),
            "cannot be specified in combination with resourceAttributes",
        )],
        (None, None) => vec![invalid::invalid(
            "spec.resourceAttributes",
            &Value::Null,
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )],
        (Some(_), None) | (None, Some(_)) => Vec::new(),
    }
}

fn stays_inside(
    namespace: &str,
    resource: Option<&ResourceAttributes>,
    path: Option<&NonResourceAttributes>,
) -> Option<FieldError> {
    if let Some(path) = path {
        let detail = "disallowed on this kind of request";
        let field = "spec.nonResourceAttributes";
        return Some(invalid::invalid(field, &shown(path), detail));
    }
    let asked = resource?.namespace.as_deref().unwrap_or_default();
    (asked != namespace).then(|| {
        let field = "spec.resourceAttributes.namespace";
        invalid::invalid(field, &json!(asked), "must match metadata.namespace")
    })
}

/// Shows attributes as the error messages of Kubernetes do.
fn shown(path: &NonResourceAttributes) -> Value {
    json!({
        "Path": path.path.as_deref().unwrap_or_default(),
        "Verb": path.verb.as_deref().unwrap_or_default(),
    })
}

fn asked(
    resource: Option<&ResourceAttributes>,
    path: Option<&NonResourceAttributes>,
    errors: Vec<FieldError>,
) -> Result<Asked, ApiError> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let asked = match (resource, path) {
        _ if !errors.is_empty() => Err(errors),
        (Some(resource), _) => Ok(Asked {
            verb: text(&resource.verb),
            group: text(&resource.group),
            resource: text(&resource.resource),
            subresource: text(&resource.subresource),
            namespace: text(&resource.namespace),
            name: text(&resource.name),
            path: String::new(),
        }),
        (None, Some(path)) => Ok(Asked {
            verb: text(&path.verb),
            path: Some(text(&path.path))
                .filter(|path| !path.is_empty())
                .unwrap_or_else(|| "/".to_owned()),
            ..Asked::default()
        }),
        (None, None) => Err(errors),
    };
    asked.map_err(|errors| ApiError::invalid_review(AUTHORIZATION, &errors))
}
