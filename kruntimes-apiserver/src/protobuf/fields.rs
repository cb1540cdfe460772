//! The numbered fields of the built-in kinds.

use std::{collections::BTreeMap, sync::OnceLock};

/// The table of fields, read on the first body that needs it.
const TABLE: &str = include_str!("fields.txt");

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Text,
    Integer,
    Boolean,
    Bytes,
    Moment {
        micro: bool,
    },
    IntOrText,
    Quantity,
    /// JSON inside the protocol buffer.
    Json,
    /// A message that wraps a list of texts.
    Texts,
    Message(&'static str),
}

/// Whether absence can be told from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// Zero is sent, but means nothing.
    Implied,
    /// What is sent is meant.
    Told,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeat {
    Single,
    List,
    Map,
}

/// One field of a message.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) number: u64,
    /// Name in JSON; empty for a part whose fields belong to the message itself.
    pub(super) name: &'static str,
    pub(super) value: Type,
    pub(super) repeat: Repeat,
    pub(super) presence: Presence,
}

/// Returns the fields of a kind that can be sent; `None` when it has no such form here.
pub(super) fn of_kind(api_version: &str, kind: &str) -> Option<&'static [Field]> {
    let (group, version) = api_version
        .rsplit_once('/')
        .unwrap_or(("core", api_version));
    let package = match (kind, group.split_once('.')) {
        ("DeleteOptions", _) => "meta",
        (_, Some((first, "k8s.io" | "authorization.k8s.io"))) => first,
        (_, Some(_)) => return None,
        (_, None) => group,
    };
    let fields = messages().get(format!("{package}.{version}.{kind}").as_str())?;
    Some(fields)
}

/// Returns the fields of a message that another one consists of.
pub(super) fn of_message(name: &str) -> &'static [Field] {
    messages().get(name).map_or(&[], Vec::as_slice)
}

fn messages() -> &'static BTreeMap<&'static str, Vec<Field>> {
    static MESSAGES: OnceLock<BTreeMap<&'static str, Vec<Field>>> = OnceLock::new();
    MESSAGES.get_or_init(|| {
        let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
        let messages = lines.filter_map(|line| {
            let (name, fields) = line.split_once(": ")?;
            Some((name, fields.split(", ").filter_map(field).collect()))
        });
        messages.collect()
    })
}

/// Reads an entry such as `3? optional b` or `6 ports core.v1.ContainerPort*`.
fn field(entry: &'static str) -> Option<Field> {
    let mut words = entry.split(' ');
    let (number, name, type_name) = (words.next()?, words.next()?, words.next()?);
    let presence = if number.ends_with(['?', '!']) {
        Presence::Told
    } else {
        Presence::Implied
    };
    let (type_name, repeat) = match type_name.strip_suffix('*') {
        Some(type_name) => (type_name, Repeat::List),
        None => match type_name.strip_suffix('%') {
            Some(type_name) => (type_name, Repeat::Map),
            None => (type_name, Repeat::Single),
        },
    };
    Some(Field {
        number: number.trim_end_matches(['?', '!']).parse().ok()?,
        name: if name == "-" { "" } else { name },
        value: match type_name {
            "s" => Type::Text,
            "i" => Type::Integer,
            "b" => Type::Boolean,
            "y" => Type::Bytes,
            "t" => Type::Moment { micro: false },
            "u" => Type::Moment { micro: true },
            "x" => Type::IntOrText,
            "q" => Type::Quantity,
            "r" => Type::Json,
            "e" => Type::Texts,
            name => Type::Message(name),
        },
        repeat,
        presence,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_complete() {
        let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
        let entries: usize = lines.map(|line| line.split(", ").count()).sum();
        let read: usize = messages().values().map(Vec::len).sum();
        assert_eq!(read, entries);
        for (name, fields) in messages() {
            for field in fields {
                if let Type::Message(below) = field.value {
                    assert!(messages().contains_key(below), "{name} consists of {below}");
                }
            }
        }
    }

    #[test]
    fn kinds_are_found_by_group_and_version() {
        for (api_version, kind) in [
            ("v1", "Pod"),
            ("apps/v1", "Deployment"),
            ("rbac.authorization.k8s.io/v1", "Role"),
            ("authorization.k8s.io/v1", "SelfSubjectAccessReview"),
            ("coordination.k8s.io/v1", "Lease"),
            ("policy/v1", "Eviction"),
            ("v1", "DeleteOptions"),
        ] {
            assert!(of_kind(api_version, kind).is_some(), "{api_version} {kind}");
        }
        assert!(of_kind("apps.example.org/v1", "Deployment").is_none());
        assert!(of_kind("v1", "Widget").is_none());
    }
}
