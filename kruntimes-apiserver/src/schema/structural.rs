//! Compiles an OpenAPI schema of a CustomResourceDefinition into our own tree, refusing what is not structural.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use serde_json::Value;

use super::cel::Rule;
use super::checks::Checks;
use super::field_error::Path;
use super::laws;

/// Says why a CustomResourceDefinition cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// The definition has no version of that name.
    #[error("the definition has no version {0:?}")]
    UnknownVersion(String),
    /// The schema breaks a law of structural schemas; `path` is a path inside the schema.
    #[error("schema is not structural: {path}: {reason}")]
    NotStructural {
        /// Path of the offending schema, such as `spec.properties[jobs]`.
        path: String,
        /// The law that is broken.
        reason: String,
    },
    /// A `pattern` is no regular expression that we can compile.
    #[error("{path}.pattern is not a valid regular expression")]
    Pattern {
        /// Path of the schema that holds the pattern.
        path: String,
        /// What the regular expression compiler says.
        #[source]
        source: regex::Error,
    },
    /// A CEL rule or message expression does not compile.
    #[error("{path}: rule {rule:?} does not compile")]
    Rule {
        /// Path of the schema that holds the rule.
        path: String,
        /// The text of the expression.
        rule: String,
        /// What the CEL compiler says.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A CEL rule compiles, but would fail or mean something else on a cluster.
    #[error("{path}: rule {rule:?}: {reason}")]
    RuleMeaning {
        /// Path of the schema that holds the rule.
        path: String,
        /// The text of the expression.
        rule: String,
        /// The name or construct that is refused.
        reason: String,
    },
    /// A default value breaks the schema it stands in.
    #[error("{path}: default value is invalid: {reason}")]
    Default {
        /// Path of the field, as it would be in an object.
        path: String,
        /// The first thing that is wrong with the value.
        reason: String,
    },
}

/// JSON types that a schema can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JsonType {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

impl JsonType {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        const ALL: [JsonType; 6] = [
            JsonType::Object,
            JsonType::Array,
            JsonType::String,
            JsonType::Integer,
            JsonType::Number,
            JsonType::Boolean,
        ];
        ALL.into_iter().find(|one| one.name() == text)
    }
}

/// How members of a list are told apart (`x-kubernetes-list-type`).
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum ListType {
    #[default]
    Atomic,
    Set,
    Map(Vec<String>),
}

/// One compiled schema. Branches of `allOf` and the like are nodes too, without type and structure of their own.
#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a keyword of the schema language"
)]
pub(crate) struct Node {
    pub(crate) json_type: Option<JsonType>,
    pub(super) nullable: bool,
    pub(crate) default: Option<Value>,
    pub(crate) properties: BTreeMap<String, Node>,
    pub(crate) additional: Option<Box<Node>>,
    pub(crate) items: Option<Box<Node>>,
    pub(crate) preserve_unknown: bool,
    pub(crate) embedded: bool,
    pub(crate) int_or_string: bool,
    pub(crate) list: ListType,
    /// Whether an object has one owner as a whole (`x-kubernetes-map-type: atomic`).
    pub(crate) whole: bool,
    pub(super) checks: Checks,
    pub(super) rules: Vec<Rule>,
    /// Whether this schema or one below it has rules.
    pub(super) has_rules: bool,
}

impl Node {
    /// Returns the schema that accepts everything and prunes nothing.
    pub(super) fn anything() -> Self {
        Self {
            preserve_unknown: true,
            ..Self::default()
        }
    }

    /// Returns the schema of the member called `name`, declared or by `additionalProperties`.
    pub(crate) fn member(&self, name: &str) -> Option<&Node> {
        self.properties.get(name).or(self.additional.as_deref())
    }

    fn children(&self) -> impl Iterator<Item = &Node> {
        self.properties
            .values()
            .chain(self.additional.as_deref())
            .chain(self.items.as_deref())
    }
}

/// Where a schema stands, which decides what it may say.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Part of the structure: may say everything.
    Structure,
    /// Inside `allOf`, `anyOf`, `oneOf` or `not`: may only restrict values.
    Branch,
    /// Like `Branch`, and `type` is allowed as the two halves of an int-or-string.
    IntOrStringBranch,
}

pub(super) fn compile_root(props: &JSONSchemaProps) -> Result<Node, SchemaError> {
    let path = Path::ROOT;
    if props.type_.as_deref() != Some("object") {
        return Err(refuse(&path.field("type"), "must be object at the root"));
    }
    let mut root = compile(props, Place::Structure, &path)?;
    root.embedded = true;
    Ok(root)
}

pub(super) fn compile(
    props: &JSONSchemaProps,
    place: Place,
    path: &Path<'_>,
) -> Result<Node, SchemaError> {
    refuse_foreign_keywords(props, path)?;
    let mut node = Node {
        json_type: json_type(props, path)?,
        nullable: props.nullable == Some(true),
        default: props.default.as_ref().map(|json| json.0.clone()),
        preserve_unknown: props.x_kubernetes_preserve_unknown_fields == Some(true),
        embedded: props.x_kubernetes_embedded_resource == Some(true),
        int_or_string: props.x_kubernetes_int_or_string == Some(true),
        whole: props.x_kubernetes_map_type.as_deref() == Some("atomic"),
        ..Node::default()
    };
    match place {
        Place::Structure => laws::check_structure(props, &node, path)?,
        Place::Branch | Place::IntOrStringBranch => laws::check_branch(props, place, path)?,
    }
    compile_children(props, place, path, &mut node)?;
    node.list = laws::list_type(props, &node, path)?;
    let branches = if node.int_or_string {
        Place::IntOrStringBranch
    } else {
        Place::Branch
    };
    let branches = if place == Place::IntOrStringBranch {
        place
    } else {
        branches
    };
    node.checks = Checks::compile(props, branches, path)?;
    for rule in props.x_kubernetes_validations.iter().flatten() {
        node.rules.push(Rule::compile(rule, path)?);
    }
    node.has_rules = !node.rules.is_empty() || node.children().any(|child| child.has_rules);
    if place == Place::Structure {
        laws::branches_name_declared_fields(&node, node.checks.branches(), path)?;
    }
    Ok(node)
}

fn compile_children(
    props: &JSONSchemaProps,
    place: Place,
    path: &Path<'_>,
    node: &mut Node,
) -> Result<(), SchemaError> {
    let below = if place == Place::Structure {
        Place::Structure
    } else {
        Place::Branch
    };
    let properties = path.field("properties");
    for (name, child) in props.properties.iter().flatten() {
        node.properties
            .insert(name.clone(), compile(child, below, &properties.key(name))?);
    }
    match &props.additional_properties {
        None => {}
        Some(JSONSchemaPropsOrBool::Bool(true)) => {
            node.additional = Some(Box::new(Node::anything()));
        }
        Some(JSONSchemaPropsOrBool::Bool(false)) => {
            return Err(refuse(
                &path.field("additionalProperties"),
                "must not be false",
            ));
        }
        Some(JSONSchemaPropsOrBool::Schema(child)) => {
            let child = compile(child, below, &path.field("additionalProperties"))?;
            node.additional = Some(Box::new(child));
        }
    }
    match &props.items {
        None => {}
        Some(JSONSchemaPropsOrArray::Schema(child)) => {
            node.items = Some(Box::new(compile(child, below, &path.field("items"))?));
        }
        Some(JSONSchemaPropsOrArray::Schemas(_)) => {
            return Err(refuse(
                &path.field("items"),
                "must be a schema object and not an array",
            ));
        }
    }
    Ok(())
}

fn json_type(props: &JSONSchemaProps, path: &Path<'_>) -> Result<Option<JsonType>, SchemaError> {
    match props.type_.as_deref() {
        None | Some("") => Ok(None),
        Some(text) => match JsonType::parse(text) {
            Some(found) => Ok(Some(found)),
            None => Err(refuse(
                &path.field("type"),
                "must be array, boolean, integer, number, object or string",
            )),
        },
    }
}

fn refuse_foreign_keywords(props: &JSONSchemaProps, path: &Path<'_>) -> Result<(), SchemaError> {
    for (keyword, given) in [
        ("$ref", props.ref_path.is_some()),
        ("$schema", props.schema.is_some()),
        ("id", props.id.is_some()),
        ("additionalItems", props.additional_items.is_some()),
        ("definitions", props.definitions.is_some()),
        ("dependencies", props.dependencies.is_some()),
        ("patternProperties", props.pattern_properties.is_some()),
    ] {
        if given {
            return Err(refuse(&path.field(keyword), "is not supported"));
        }
    }
    Ok(())
}

pub(super) fn refuse(path: &Path<'_>, reason: &str) -> SchemaError {
    SchemaError::NotStructural {
        path: path.to_string(),
        reason: reason.to_owned(),
    }
}
