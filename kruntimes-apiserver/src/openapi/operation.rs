//! Single operations of a path, with the parameters they understand.

use serde_json::{Value, json};

use super::{META, gvk, reference};
use crate::kind::Served;

/// A query parameter: name, type, what it does.
type Parameter = (&'static str, &'static str, &'static str);

const READ: [Parameter; 1] = [(
    "resourceVersion",
    "string",
    "The state to show must not be older than this.",
)];
const SELECT: [Parameter; 4] = [
    (
        "fieldSelector",
        "string",
        "Only objects whose fields match.",
    ),
    (
        "labelSelector",
        "string",
        "Only objects whose labels match.",
    ),
    ("resourceVersion", "string", "The version to begin with."),
    (
        "resourceVersionMatch",
        "string",
        "NotOlderThan or Exact: how the version is meant.",
    ),
];
const LIST: [Parameter; 6] = [
    (
        "allowWatchBookmarks",
        "boolean",
        "A watch may tell its version between events.",
    ),
    ("continue", "string", "The page that follows this token."),
    ("limit", "integer", "Largest number of objects on a page."),
    (
        "sendInitialEvents",
        "boolean",
        "A watch begins with the objects that exist.",
    ),
    (
        "timeoutSeconds",
        "integer",
        "How long a watch lasts at most.",
    ),
    (
        "watch",
        "boolean",
        "Tell what happens from now on instead of what is.",
    ),
];
const WRITE: [Parameter; 3] = [
    (
        "dryRun",
        "string",
        "All: check everything and store nothing.",
    ),
    ("fieldManager", "string", "Who is making the change."),
    (
        "fieldValidation",
        "string",
        "Ignore, Warn or Strict: what is done about unknown and repeated fields.",
    ),
];
const FORCE: Parameter = (
    "force",
    "boolean",
    "Take over fields of others in a server-side apply.",
);
const DELETE: [Parameter; 4] = [
    (
        "dryRun",
        "string",
        "All: check everything and delete nothing.",
    ),
    (
        "gracePeriodSeconds",
        "integer",
        "Time that is left to the object.",
    ),
    (
        "orphanDependents",
        "boolean",
        "Older form of propagationPolicy.",
    ),
    (
        "propagationPolicy",
        "string",
        "Orphan, Background or Foreground: what becomes of dependents.",
    ),
];

/// What a path lets clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Get,
    List,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Action {
    pub(super) fn method(self) -> &'static str {
        match self {
            Self::Get | Self::List => "get",
            Self::Create => "post",
            Self::Update => "put",
            Self::Patch => "patch",
            Self::Delete | Self::DeleteCollection => "delete",
        }
    }

    /// Names the action for clients of the document; they call an update by its method.
    fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Create => "post",
            Self::Update => "put",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }

    /// First part of the operation's identifier.
    fn verb(self) -> &'static str {
        match self {
            Self::Get => "read",
            Self::List => "list",
            Self::Create => "create",
            Self::Update => "replace",
            Self::Patch => "patch",
            Self::Delete | Self::DeleteCollection => "delete",
        }
    }

    fn parameters(self) -> Vec<Parameter> {
        match self {
            Self::Get => READ.to_vec(),
            Self::List => [&LIST[..], &SELECT].concat(),
            Self::Create | Self::Update => WRITE.to_vec(),
            Self::Patch => [&WRITE[..], &[FORCE]].concat(),
            Self::Delete => DELETE.to_vec(),
            Self::DeleteCollection => [&DELETE[..], &SELECT].concat(),
        }
    }
}

/// One operation, before it is written down.
pub(super) struct Operation<'a> {
    pub(super) served: &'a Served,
    pub(super) action: Action,
    /// Name of the schema that is sent and received.
    pub(super) schema: &'a str,
    pub(super) list: &'a str,
    /// Last part of the operation's identifier, which tells what it is about.
    pub(super) about: String,
    pub(super) subresource: Option<&'static str>,
}

impl Operation<'_> {
    pub(super) fn write(&self) -> Value {
        let group_version = camel(&self.served.group, &self.served.version);
        let collection = if self.action == Action::DeleteCollection {
            "Collection"
        } else {
            ""
        };
        let mut written = json!({
            "description": format!("{} {}", self.action.verb(), self.served.resource()),
            "operationId": format!("{}{group_version}{collection}{}", self.action.verb(), self.about),
            "tags": [tag(&self.served.group, &self.served.version)],
            "parameters": parameters(&self.action.parameters()),
            "responses": self.responses(),
            "x-kubernetes-action": self.action.name(),
            "x-kubernetes-group-version-kind": gvk(self.served, &self.served.kind.name),
        });
        let body = match self.action {
            Action::Get | Action::List => return written,
            Action::Create | Action::Update => {
                content(&["application/json", "application/yaml"], self.schema)
            }
            Action::Patch => content(self.patches(), &format!("{META}.Patch")),
            Action::Delete | Action::DeleteCollection => {
                content(&["application/json"], &format!("{META}.DeleteOptions"))
            }
        };
        let required = !matches!(self.action, Action::Delete | Action::DeleteCollection);
        written["requestBody"] = json!({ "content": body, "required": required });
        written
    }

    /// Lists the formats of patches; only built-in kinds know which lists to merge strategically.
    fn patches(&self) -> &'static [&'static str] {
        const ALL: [&str; 4] = [
            "application/apply-patch+yaml",
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/strategic-merge-patch+json",
        ];
        if self.served.schema.is_some() {
            &ALL[..3]
        } else {
            &ALL
        }
    }

    fn responses(&self) -> Value {
        let status = format!("{META}.Status");
        if self.subresource == Some("log") {
            let text = json!({ "text/plain": { "schema": { "type": "string" } } });
            return json!({ "200": { "description": "OK", "content": text } });
        }
        let answer = |description: &str, media: &[&str], schema: &str| json!({ "description": description, "content": content(media, schema) });
        let json = ["application/json"];
        let stream = ["application/json", "application/json;stream=watch"];
        let mut responses = match self.action {
            Action::Get | Action::Update | Action::Patch => {
                json!({ "200": answer("OK", &json, self.schema) })
            }
            Action::List => json!({ "200": answer("OK", &stream, self.list) }),
            Action::Create => json!({ "201": answer("Created", &json, self.schema) }),
            Action::Delete => json!({ "200": answer("OK", &json, &status) }),
            Action::DeleteCollection => json!({ "200": answer("OK", &json, self.list) }),
        };
        responses["default"] = answer("Refused", &json, &status);
        responses
    }
}

/// Describes a body that is of one schema in each of some media types.
fn content(media: &[&str], schema: &str) -> Value {
    let entries = media
        .iter()
        .map(|media| ((*media).to_owned(), json!({ "schema": reference(schema) })));
    Value::Object(entries.collect())
}

fn parameters(all: &[Parameter]) -> Value {
    let written = all.iter().map(|(name, type_name, description)| {
        json!({
            "name": name, "in": "query", "description": description, "schema": { "type": type_name },
        })
    });
    written.collect()
}

/// Writes group and version as one word: `AppsV1`, `CoreV1`, `KruntimesIoV1alpha1`.
fn camel(group: &str, version: &str) -> String {
    let words = words(group);
    let words = words.iter().map(String::as_str).chain([version]);
    words.map(capitalized).collect()
}

fn tag(group: &str, version: &str) -> String {
    let words = words(group);
    let mut tag = words[0].clone();
    tag.extend(words[1..].iter().map(|word| capitalized(word)));
    format!("{tag}_{version}")
}

/// Takes a group apart; the domain of Kubernetes itself is left out.
fn words(group: &str) -> Vec<String> {
    let short = if group.is_empty() {
        "core"
    } else {
        group.strip_suffix(".k8s.io").unwrap_or(group)
    };
    let known = short.strip_suffix(".authorization").unwrap_or(short);
    let short = if known == "rbac" {
        "rbacAuthorization"
    } else {
        short
    };
    short.split(['.', '-']).map(str::to_owned).collect()
}

pub(super) fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_named_after_group_and_version() {
        for (group, version, want) in [
            ("", "v1", "CoreV1"),
            ("apps", "v1", "AppsV1"),
            ("rbac.authorization.k8s.io", "v1", "RbacAuthorizationV1"),
            ("kruntimes.io", "v1alpha1", "KruntimesIoV1alpha1"),
        ] {
            assert_eq!(camel(group, version), want);
        }
        assert_eq!(tag("kruntimes.io", "v1alpha1"), "kruntimesIo_v1alpha1");
        assert_eq!(
            tag("rbac.authorization.k8s.io", "v1"),
            "rbacAuthorization_v1"
        );
    }
}
