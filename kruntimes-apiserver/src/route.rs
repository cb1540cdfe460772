//! What a request path points at.

use percent_encoding::percent_decode_str;

/// The place a path names, before anything is looked up.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// `/`.
    Root,
    /// `/version`.
    Version,
    /// `/healthz`, `/livez`, `/readyz`, and the single checks below each.
    Health { check: String, below: Vec<String> },
    /// `/openapi/v3`.
    Schemas,
    /// `/openapi/v3/{path}`, where the path is that of a group and version.
    SchemasOf(String),
    /// `/api`.
    CoreVersions,
    /// `/apis`.
    Groups,
    /// `/apis/{group}`.
    Group(String),
    /// `/api/v1` or `/apis/{group}/{version}`.
    Resources { group: String, version: String },
    /// Objects of a kind, one object, or a subresource of it.
    Objects(Place),
    /// Nothing that is served.
    Nowhere,
}

/// Which objects a path names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    /// Namespace of the path; absent for cluster scope and for all namespaces.
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
}

/// Takes a path apart.
pub(crate) fn parse(path: &str) -> Route {
    let words: Vec<String> = path
        .split('/')
        .filter(|word| !word.is_empty())
        .map(|word| percent_decode_str(word).decode_utf8_lossy().into_owned())
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => Route::Root,
        ["version"] => Route::Version,
        [check @ ("healthz" | "livez" | "readyz"), below @ ..] => Route::Health {
            check: (*check).to_owned(),
            below: below.iter().map(ToString::to_string).collect(),
        },
        ["openapi", "v3"] => Route::Schemas,
        ["openapi", "v3", path @ ..] => Route::SchemasOf(path.join("/")),
        ["api"] => Route::CoreVersions,
        ["apis"] => Route::Groups,
        ["apis", group] => Route::Group((*group).to_owned()),
        ["api", version] => resources("", version),
        ["apis", group, version] => resources(group, version),
        ["api", version, rest @ ..] => objects("", version, rest),
        ["apis", group, version, rest @ ..] => objects(group, version, rest),
        _ => Route::Nowhere,
    }
}

fn resources(group: &str, version: &str) -> Route {
    Route::Resources {
        group: group.to_owned(),
        version: version.to_owned(),
    }
}

fn objects(group: &str, version: &str, rest: &[&str]) -> Route {
    let mut place = Place {
        group: group.to_owned(),
        version: version.to_owned(),
        ..Place::default()
    };
    let rest = match rest {
        ["namespaces", _, "status" | "finalize"] => rest,
        ["namespaces", namespace, inside @ ..] if !inside.is_empty() => {
            place.namespace = Some((*namespace).to_owned());
            inside
        }
        _ => rest,
    };
    let (plural, name, subresource) = match rest {
        [plural] => (plural, None, None),
        [plural, name] => (plural, Some(name), None),
        [plural, name, subresource] => (plural, Some(name), Some(subresource)),
        _ => return Route::Nowhere,
    };
    (*plural).clone_into(&mut place.plural);
    place.name = name.map(ToString::to_string);
    place.subresource = subresource.map(ToString::to_string);
    Route::Objects(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(path: &str) -> String {
        match parse(path) {
            Route::Objects(place) => format!(
                "{}|{}|{}|{}|{}|{}",
                place.group,
                place.version,
                place.plural,
                place.namespace.unwrap_or_default(),
                place.name.unwrap_or_default(),
                place.subresource.unwrap_or_default()
            ),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn paths_name_their_objects() {
        for (path, want) in [
            ("/api/v1/pods", "|v1|pods|||"),
            ("/api/v1/namespaces", "|v1|namespaces|||"),
            ("/api/v1/namespaces/a", "|v1|namespaces||a|"),
            ("/api/v1/namespaces/a/status", "|v1|namespaces||a|status"),
            ("/api/v1/namespaces/a/pods", "|v1|pods|a||"),
            ("/api/v1/namespaces/a/pods/p/log", "|v1|pods|a|p|log"),
            (
                "/apis/g.io/v1/namespaces/a/runs/r/status",
                "g.io|v1|runs|a|r|status",
            ),
            ("/apis/g.io", "Group(\"g.io\")"),
            ("/nothing", "Nowhere"),
        ] {
            assert_eq!(place(path), want, "{path}");
        }
    }
}
