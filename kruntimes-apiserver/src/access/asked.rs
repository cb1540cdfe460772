//! What a request wants to do, in the words that rules are written in.

use http::{Method, request::Parts};
use serde_json::{Map, Value};

use crate::{
    query::Query,
    route::{self, Place, Route},
};

/// A verb on a resource, or on a path that is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) verb: String,
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    /// Empty for all namespaces and for cluster scope.
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// The path of a request that is not about a resource; empty otherwise.
    pub(crate) path: String,
}

impl Asked {
    /// Reads method, path and query of a request.
    pub(crate) fn of(parts: &Parts) -> Self {
        let path = parts.uri.path();
        match route::parse(path) {
            Route::Objects(place) => {
                let query = Query::parse(parts.uri.query().unwrap_or_default());
                Self::of_place(&parts.method, place, &query)
            }
            _ => Self {
                verb: parts.method.as_str().to_ascii_lowercase(),
                path: path.to_owned(),
                ..Self::default()
            },
        }
    }

    fn of_place(method: &Method, place: Place, query: &Query) -> Self {
        let named = place.name.is_some();
        let verb = match method.as_str() {
            "GET" | "HEAD" if named => "get",
            "GET" | "HEAD" if query.flag("watch") => "watch",
            "GET" | "HEAD" => "list",
            "POST" => "create",
            "PUT" => "update",
            "PATCH" => "patch",
            "DELETE" if named => "delete",
            "DELETE" => "deletecollection",
            _ => "",
        };
        let name = place.name.unwrap_or_else(|| selected_name(query));
        // A namespace is inside itself, so that a rule for it covers looking at it.
        let inside =
            (place.group.is_empty() && place.plural == "namespaces" && named).then(|| name.clone());
        Self {
            verb: verb.to_owned(),
            group: place.group,
            resource: place.plural,
            subresource: place.subresource.unwrap_or_default(),
            namespace: place.namespace.or(inside).unwrap_or_default(),
            name,
            path: String::new(),
        }
    }

    /// Says who cannot do this, as Kubernetes says it.
    pub(crate) fn refusal(&self, user: &str) -> String {
        let Self { verb, group, .. } = self;
        if !self.path.is_empty() {
            return format!(
                "forbidden: User {user:?} cannot {verb} path {:?}",
                self.path
            );
        }
        let about = self.qualified();
        let about = if self.name.is_empty() {
            about
        } else {
            format!("{about} {:?}", self.name)
        };
        let resource = self.full_resource();
        let place = if self.namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace {:?}", self.namespace)
        };
        format!(
            "{about} is forbidden: User {user:?} cannot {verb} resource {resource:?} in API group {group:?} {place}"
        )
    }

    /// Returns the `details` of the refusal.
    pub(crate) fn details(&self) -> Value {
        let mut details = Map::new();
        for (field, text) in [
            ("name", &self.name),
            ("group", &self.group),
            ("kind", &self.resource),
        ] {
            if !text.is_empty() {
                details.insert(field.to_owned(), Value::from(text.as_str()));
            }
        }
        Value::Object(details)
    }

    /// Returns `pods` or `pods/log`.
    pub(crate) fn full_resource(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.clone()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        }
    }

    fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.resource.clone()
        } else {
            format!("{}.{}", self.resource, self.group)
        }
    }
}

/// Returns the one name that a list or watch is restricted to.
fn selected_name(query: &Query) -> String {
    let terms = query.text("fieldSelector").unwrap_or_default();
    terms
        .split(',')
        .filter_map(|term| term.strip_prefix("metadata.name="))
        .map(|name| name.trim_start_matches('='))
        .next()
        .unwrap_or_default()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(method: &str, uri: &str) -> String {
        let request = http::Request::builder().method(method).uri(uri);
        let (parts, ()) = request.body(()).unwrap().into_parts();
        Asked::of(&parts).refusal("eve")
    }

    #[test]
    fn refusals_name_verb_resource_and_place() {
        for (method, uri, want) in [
            (
                "GET",
                "/apis/g.io/v1/namespaces/default/runs",
                "runs.g.io is forbidden: User \"eve\" cannot list resource \"runs\" in API group \"g.io\" in the namespace \"default\"",
            ),
            (
                "GET",
                "/api/v1/pods?watch=1&fieldSelector=metadata.name%3Dp",
                "pods \"p\" is forbidden: User \"eve\" cannot watch resource \"pods\" in API group \"\" at the cluster scope",
            ),
            (
                "GET",
                "/api/v1/namespaces/a",
                "namespaces \"a\" is forbidden: User \"eve\" cannot get resource \"namespaces\" in API group \"\" in the namespace \"a\"",
            ),
            (
                "DELETE",
                "/api/v1/namespaces/a/pods",
                "pods is forbidden: User \"eve\" cannot deletecollection resource \"pods\" in API group \"\" in the namespace \"a\"",
            ),
            (
                "GET",
                "/api/v1/namespaces/a/pods/p/log",
                "pods \"p\" is forbidden: User \"eve\" cannot get resource \"pods/log\" in API group \"\" in the namespace \"a\"",
            ),
            (
                "POST",
                "/other",
                "forbidden: User \"eve\" cannot post path \"/other\"",
            ),
        ] {
            assert_eq!(refusal(method, uri), want, "{method} {uri}");
        }
    }
}
