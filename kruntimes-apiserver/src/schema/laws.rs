//! The laws of structural schemas: what a schema may say, depending on where it stands.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;

use super::field_error::Path;
use super::structural::{JsonType, ListType, Node, Place, SchemaError, refuse};

/// Laws of a schema that is part of the structure.
pub(super) fn check_structure(
    props: &JSONSchemaProps,
    node: &Node,
    path: &Path<'_>,
) -> Result<(), SchemaError> {
    let is = |one| node.json_type == Some(one);
    let has_members = props
        .properties
        .as_ref()
        .is_some_and(|members| !members.is_empty());
    let type_path = path.field("type");
    if node.int_or_string && node.json_type.is_some() {
        return Err(refuse(
            &type_path,
            "must be empty if x-kubernetes-int-or-string is true",
        ));
    }
    if node.json_type.is_none() && !node.int_or_string && !node.preserve_unknown {
        return Err(refuse(&type_path, "must not be empty"));
    }
    if node.embedded && !is(JsonType::Object) {
        return Err(refuse(
            &type_path,
            "must be object if x-kubernetes-embedded-resource is true",
        ));
    }
    if node.embedded && !node.preserve_unknown && !has_members {
        return Err(refuse(
            &path.field("properties"),
            "must not be empty for an embedded resource",
        ));
    }
    if has_members && props.additional_properties.is_some() {
        return Err(refuse(
            &path.field("additionalProperties"),
            "and properties are mutually exclusive",
        ));
    }
    if is(JsonType::Array) && props.items.is_none() {
        return Err(refuse(
            &path.field("items"),
            "must be specified for an array",
        ));
    }
    if (has_members || props.additional_properties.is_some())
        && !is(JsonType::Object)
        && !node.preserve_unknown
    {
        return Err(refuse(
            &type_path,
            "must be object if properties are specified",
        ));
    }
    Ok(())
}

/// Laws of a schema inside `allOf`, `anyOf`, `oneOf` or `not`.
pub(super) fn check_branch(
    props: &JSONSchemaProps,
    place: Place,
    path: &Path<'_>,
) -> Result<(), SchemaError> {
    for (keyword, given) in [
        (
            "type",
            props.type_.is_some() && place != Place::IntOrStringBranch,
        ),
        ("default", props.default.is_some()),
        ("nullable", props.nullable.is_some()),
        (
            "additionalProperties",
            props.additional_properties.is_some(),
        ),
        (
            "x-kubernetes-preserve-unknown-fields",
            props.x_kubernetes_preserve_unknown_fields.is_some(),
        ),
        (
            "x-kubernetes-embedded-resource",
            props.x_kubernetes_embedded_resource.is_some(),
        ),
        (
            "x-kubernetes-int-or-string",
            props.x_kubernetes_int_or_string.is_some(),
        ),
        (
            "x-kubernetes-list-type",
            props.x_kubernetes_list_type.is_some(),
        ),
        (
            "x-kubernetes-list-map-keys",
            props.x_kubernetes_list_map_keys.is_some(),
        ),
        (
            "x-kubernetes-map-type",
            props.x_kubernetes_map_type.is_some(),
        ),
        (
            "x-kubernetes-validations",
            props.x_kubernetes_validations.is_some(),
        ),
    ] {
        if given {
            return Err(refuse(
                &path.field(keyword),
                "must not be used inside allOf, anyOf, oneOf or not",
            ));
        }
    }
    Ok(())
}

/// Everything that a branch restricts must be declared outside of it.
pub(super) fn branches_name_declared_fields<'n>(
    node: &Node,
    branches: impl Iterator<Item = &'n Node>,
    path: &Path<'_>,
) -> Result<(), SchemaError> {
    for branch in branches {
        for (name, below) in &branch.properties {
            let Some(declared) = node.member(name) else {
                if node.preserve_unknown {
                    continue;
                }
                let properties = path.field("properties");
                return Err(refuse(
                    &properties.key(name),
                    "is used in a branch, so it must be declared outside too",
                ));
            };
            let properties = path.field("properties");
            branches_name_declared_fields(declared, std::iter::once(below), &properties.key(name))?;
        }
        if let Some(below) = &branch.items {
            let Some(declared) = &node.items else {
                return Err(refuse(
                    &path.field("items"),
                    "is used in a branch, so it must be declared outside too",
                ));
            };
            branches_name_declared_fields(
                declared,
                std::iter::once(&**below),
                &path.field("items"),
            )?;
        }
        branches_name_declared_fields(
            node,
            Box::new(branch.checks.branches()) as Box<dyn Iterator<Item = _>>,
            path,
        )?;
    }
    Ok(())
}

pub(super) fn list_type(
    props: &JSONSchemaProps,
    node: &Node,
    path: &Path<'_>,
) -> Result<ListType, SchemaError> {
    let keys = props
        .x_kubernetes_list_map_keys
        .as_deref()
        .unwrap_or_default();
    let keys_path = path.field("x-kubernetes-list-map-keys");
    let found = props.x_kubernetes_list_type.as_deref();
    if found.is_some() && node.json_type != Some(JsonType::Array) {
        return Err(refuse(
            &path.field("type"),
            "must be array if x-kubernetes-list-type is specified",
        ));
    }
    if found != Some("map") && !keys.is_empty() {
        return Err(refuse(
            &keys_path,
            "must not be specified if x-kubernetes-list-type is not map",
        ));
    }
    match found {
        None | Some("atomic") => Ok(ListType::Atomic),
        Some("set") => Ok(ListType::Set),
        Some("map") => {
            if keys.is_empty() {
                return Err(refuse(
                    &keys_path,
                    "must not be empty if x-kubernetes-list-type is map",
                ));
            }
            let items = node.items.as_deref();
            for key in keys {
                let Some(member) = items.and_then(|items| items.properties.get(key)) else {
                    return Err(refuse(
                        &keys_path,
                        &format!("names {key:?}, which is no property of the items"),
                    ));
                };
                let required = items.is_some_and(|items| items.checks.requires(key));
                if !required && member.default.is_none() {
                    return Err(refuse(
                        &keys_path,
                        &format!("names {key:?}, which is neither required nor defaulted"),
                    ));
                }
            }
            Ok(ListType::Map(keys.to_vec()))
        }
        Some(_) => Err(refuse(
            &path.field("x-kubernetes-list-type"),
            "must be atomic, set or map",
        )),
    }
}
