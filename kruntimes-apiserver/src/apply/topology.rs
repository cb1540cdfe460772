//! How an object is put together: which parts merge, and what tells the items of a list apart.
//!
//! A topology is a view of what exists already, the schema of a definition or the table of the built-in kinds, so
//! nothing is built and nothing is kept per kind.

use serde_json::{Map, Value};
use thiserror::Error;

use super::keys::{self, Member, Merge, Record};
use crate::{
    kind::Served,
    schema::{JsonType, ListType, Node},
};

/// Why an item of a list cannot be told apart from the others.
#[derive(Debug, Error)]
#[non_exhaustive]
pub(crate) enum ItemError {
    /// A member of a set is no scalar.
    #[error("associative list without keys has an element that's {0}")]
    Set(&'static str),
    /// An item of a keyed list is no object.
    #[error("associative list with keys may not have non-map elements")]
    NoObject,
    /// An item has none of the fields that tell it apart.
    #[error(
        "associative list with keys has an element that omits all key fields [{0}] (and doesn't have default values for any of the key fields)"
    )]
    NoKeys(String),
}

/// What is known of one part of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Topology<'a> {
    /// Described by the schema of a definition.
    Schema(&'a Node),
    /// Described by the table of the built-in kinds.
    Table(&'static Member),
    /// An item of a list that the table describes.
    Record(&'static Record),
    /// Known by its value only: objects merge by field, everything else is one value.
    Deduced,
    /// One value, whatever it is made of.
    Whole,
}

/// How one part of an object is to be treated, given the values it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// One value with one owner.
    Leaf,
    /// An object that merges by field.
    Map,
    /// A list of scalars.
    Set,
    /// A list of objects that are told apart by some of their fields.
    Keyed,
}

impl<'a> Topology<'a> {
    /// Returns the topology of whole objects of a kind, in their stored form.
    pub(crate) fn of(served: &'a Served) -> Self {
        match &served.schema {
            Some(schema) => Self::Schema(schema.root()),
            None => Self::Table(keys::root(&served.kind.name)),
        }
    }

    /// Decides how to treat a value; null and absence fit every form.
    pub(crate) fn form(self, value: &Value) -> Form {
        let declared = match self {
            Self::Schema(node) => schema_form(node, value),
            Self::Table(member) => match member.merge {
                Merge::Default => by_value(value),
                Merge::Atomic => Form::Leaf,
                Merge::Set => Form::Set,
                Merge::Keys(_) => Form::Keyed,
            },
            Self::Record(_) | Self::Deduced => by_value(value),
            Self::Whole => Form::Leaf,
        };
        let fits = match declared {
            Form::Leaf => true,
            Form::Map => value.is_object(),
            Form::Set | Form::Keyed => value.is_array(),
        };
        if fits { declared } else { Form::Leaf }
    }

    /// Returns what is known of a member of an object, and whether it is a declared field rather than a map's entry.
    pub(crate) fn member(self, name: &str) -> (Self, bool) {
        match self {
            Self::Schema(node) => {
                if node.embedded && name == "metadata" {
                    return (Self::Table(&keys::OBJECT_META), true);
                }
                if let Some(child) = node.properties.get(name) {
                    return (Self::Schema(child), true);
                }
                match &node.additional {
                    Some(child) => (Self::Schema(child), false),
                    None => (
                        Self::Deduced,
                        node.embedded && ["apiVersion", "kind"].contains(&name),
                    ),
                }
            }
            Self::Table(member) => (Self::Table(member.below().member(name)), true),
            Self::Record(record) => (Self::Table(record.member(name)), true),
            Self::Deduced => (Self::Deduced, false),
            Self::Whole => (Self::Whole, false),
        }
    }

    /// Whether an object may have a member of this name at all.
    pub(crate) fn declares(self, name: &str) -> bool {
        match self {
            Self::Schema(node) => {
                node.preserve_unknown
                    || node.member(name).is_some()
                    || (node.embedded && ["apiVersion", "kind", "metadata"].contains(&name))
            }
            Self::Table(_) | Self::Record(_) | Self::Deduced | Self::Whole => true,
        }
    }

    /// Returns what a value was expected to be, if a schema says so and it is something else.
    pub(crate) fn expected(self, value: &Value) -> Option<&'static str> {
        let Self::Schema(node) = self else {
            return None;
        };
        if node.int_or_string || value.is_null() {
            return None;
        }
        let (fits, name) = match node.json_type? {
            JsonType::Object => (value.is_object(), "map"),
            JsonType::Array => (value.is_array(), "list"),
            JsonType::String => (value.is_string(), "string"),
            JsonType::Integer | JsonType::Number => (value.is_number(), "numeric (int or float)"),
            JsonType::Boolean => (value.is_boolean(), "boolean"),
        };
        (!fits).then_some(name)
    }

    /// Whether Kubernetes shows this part even when nobody has set it.
    pub(crate) fn is_inherent(self) -> bool {
        match self {
            Self::Table(member) => member.inherent,
            Self::Schema(_) | Self::Record(_) | Self::Deduced | Self::Whole => false,
        }
    }

    /// Returns what is known of the items of a list.
    pub(crate) fn item(self) -> Self {
        match self {
            Self::Schema(node) => node.items.as_deref().map_or(Self::Deduced, Self::Schema),
            Self::Table(member) if member.whole_items => Self::Whole,
            Self::Table(member) => Self::Record(member.below()),
            Self::Record(_) | Self::Deduced => Self::Deduced,
            Self::Whole => Self::Whole,
        }
    }

    /// Spells the path element that tells an item of this list apart.
    pub(crate) fn element(self, item: &Value) -> Result<String, ItemError> {
        let keyed = match self {
            Self::Schema(node) => matches!(node.list, ListType::Map(_)),
            Self::Table(member) => matches!(member.merge, Merge::Keys(_)),
            Self::Record(_) | Self::Deduced | Self::Whole => false,
        };
        if !keyed {
            return match item {
                Value::Null => Err(ItemError::Set("an explicit null")),
                Value::Array(_) => Err(ItemError::Set("a list type")),
                Value::Object(_) => Err(ItemError::Set("a map type")),
                scalar => Ok(format!("v:{scalar}")),
            };
        }
        let fields = item.as_object().ok_or(ItemError::NoObject)?;
        let mut found = Map::new();
        self.each_key(|name, default| {
            if let Some(value) = fields.get(name).cloned().or(default) {
                found.insert(name.to_owned(), value);
            }
        });
        if found.is_empty() {
            let mut names = Vec::new();
            self.each_key(|name, _| names.push(format!("{name:?}")));
            return Err(ItemError::NoKeys(names.join(" ")));
        }
        Ok(format!("k:{}", Value::Object(found)))
    }

    /// Visits the key fields of a list, with what items without the field are taken to say.
    fn each_key(self, mut visit: impl FnMut(&str, Option<Value>)) {
        match self {
            Self::Schema(node) => {
                let ListType::Map(names) = &node.list else {
                    return;
                };
                for name in names {
                    let field = node.items.as_ref().and_then(|items| items.member(name));
                    visit(name, field.and_then(|field| field.default.clone()));
                }
            }
            Self::Table(member) => {
                if let Merge::Keys(keys) = member.merge {
                    for key in keys {
                        visit(key.name, key.default.map(Value::from));
                    }
                }
            }
            Self::Record(_) | Self::Deduced | Self::Whole => {}
        }
    }

    /// Spells the path elements of all items, or of none if one cannot be told apart.
    pub(crate) fn elements(self, items: &[Value]) -> Option<Vec<String>> {
        items.iter().map(|item| self.element(item).ok()).collect()
    }
}

fn by_value(value: &Value) -> Form {
    if value.is_object() {
        Form::Map
    } else {
        Form::Leaf
    }
}

fn schema_form(node: &Node, value: &Value) -> Form {
    if node.int_or_string || node.whole {
        return Form::Leaf;
    }
    match node.json_type {
        Some(JsonType::Object) => Form::Map,
        Some(JsonType::Array) => match node.list {
            ListType::Atomic => Form::Leaf,
            ListType::Set => Form::Set,
            ListType::Map(_) => Form::Keyed,
        },
        Some(JsonType::String | JsonType::Integer | JsonType::Number | JsonType::Boolean) => {
            Form::Leaf
        }
        None => by_value(value),
    }
}
