//! The paths under which the objects of a kind are found.

use serde_json::{Map, Value, json};

use super::operation::{Action, Operation, capitalized};
use crate::{discovery::Part, kind::Served};

/// Returns the path of a group and version.
pub(super) fn base(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("/api/{version}")
    } else {
        format!("/apis/{group}/{version}")
    }
}

/// Adds the paths of one kind.
pub(super) fn add(served: &Served, schema: &str, list: &str, paths: &mut Map<String, Value>) {
    let kind = &served.kind;
    let base = base(&served.group, &served.version);
    let mut put = |path: String, actions: &[Action], about: &str, part: Option<&'static str>| {
        let mut item = Map::new();
        for action in actions {
            let operation = Operation {
                served,
                action: *action,
                schema,
                list,
                about: format!("{about}{}", capitalized(part.unwrap_or_default())),
                subresource: part,
            };
            item.insert(action.method().to_owned(), operation.write());
        }
        let place = place(&path);
        item.insert("parameters".to_owned(), place);
        paths.insert(path, Value::Object(item));
    };
    let (home, about) = if kind.namespaced {
        if kind.is_stored() {
            let across = format!("{}ForAllNamespaces", kind.name);
            let everywhere = format!("{base}/{}", kind.plural);
            put(everywhere, &[Action::List], &across, None);
        }
        let home = format!("{base}/namespaces/{{namespace}}/{}", kind.plural);
        (home, format!("Namespaced{}", kind.name))
    } else {
        (format!("{base}/{}", kind.plural), kind.name.clone())
    };
    if !kind.is_stored() {
        return put(home, &[Action::Create], &about, None);
    }
    let (many, one): (&[Action], &[Action]) = if kind.fixed {
        // Applying a definition as it is succeeds, so clients must know how.
        (&[Action::List, Action::Create], &ONE[..3])
    } else if kind.is_core("Namespace") {
        (&[Action::List, Action::Create], &ONE)
    } else {
        (
            &[Action::List, Action::Create, Action::DeleteCollection],
            &ONE,
        )
    };
    put(home.clone(), many, &about, None);
    put(format!("{home}/{{name}}"), one, &about, None);
    for part in Part::all_of(served)
        .iter()
        .filter(|part| part.speaks.is_none())
    {
        let actions: Vec<Action> = part.verbs.iter().filter_map(|verb| action(verb)).collect();
        let path = format!("{home}/{{name}}/{}", part.name);
        put(path, &actions, &about, Some(part.name));
    }
}

const ONE: [Action; 4] = [Action::Get, Action::Update, Action::Patch, Action::Delete];

fn action(verb: &str) -> Option<Action> {
    match verb {
        "get" => Some(Action::Get),
        "create" => Some(Action::Create),
        "update" => Some(Action::Update),
        "patch" => Some(Action::Patch),
        _ => None,
    }
}

/// Describes the parts of a path that stand for something.
fn place(path: &str) -> Value {
    let parts = [
        ("name", "Name of the object."),
        ("namespace", "Namespace the object is in."),
    ];
    let written = parts
        .into_iter()
        .filter(|(name, _)| path.contains(&format!("{{{name}}}")))
        .map(|(name, description)| {
            json!({
                "name": name, "in": "path", "required": true, "description": description,
                "schema": { "type": "string" },
            })
        });
    written.collect()
}
