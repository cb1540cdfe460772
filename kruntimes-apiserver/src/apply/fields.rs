//! Sets of field paths, and the `FieldsV1` JSON in which they are told.

use std::{collections::BTreeMap, fmt::Write as _};

use serde_json::{Map, Value};
use thiserror::Error;

/// Deepest path of a set; JSON that can be read at all is not much deeper.
const DEPTH_MAX: usize = 128;

/// Why a value is not a set of fields.
#[derive(Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) enum FieldsError {
    /// A path element does not start with `f:`, `k:`, `v:` or `i:`, or what follows does not fit.
    #[error("{0:?} is not a path element")]
    Element(String),
    /// A path element leads to something else than an object.
    #[error("{0:?} must hold an object")]
    Node(String),
    /// The paths are longer than any object has them.
    #[error("paths are longer than {DEPTH_MAX} elements")]
    Depth,
}

/// A set of paths into one object, as a tree.
///
/// Path elements are kept in their JSON spelling: `f:name`, `k:{"name":"a"}`, `v:"a"` or `i:0`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSet(BTreeMap<String, Branch>);

/// What the set says of one path: whether it is in the set, and which longer paths are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Branch {
    pub(crate) member: bool,
    pub(crate) below: FieldSet,
}

impl Branch {
    pub(crate) fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }
}

/// Spells a field name as a path element.
pub(crate) fn field(name: &str) -> String {
    format!("f:{name}")
}

impl FieldSet {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn get(&self, element: &str) -> Option<&Branch> {
        self.0.get(element)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, &Branch)> {
        self.0.iter()
    }

    /// Keeps what is known of one path element, unless it is nothing.
    pub(crate) fn put(&mut self, element: String, branch: Branch) {
        if !branch.is_empty() {
            self.0.insert(element, branch);
        }
    }

    /// Removes an element and everything below it.
    pub(crate) fn cut(&mut self, element: &str) {
        self.0.remove(element);
    }

    /// Removes single paths below one element; longer paths stay.
    pub(crate) fn remove_below(&mut self, element: &str, names: &[&str]) {
        let Some(branch) = self.0.get_mut(element) else {
            return;
        };
        branch.member = false;
        for name in names {
            if let Some(found) = branch.below.0.get_mut(*name) {
                found.member = false;
                if found.is_empty() {
                    branch.below.0.remove(*name);
                }
            }
        }
        if branch.is_empty() {
            self.0.remove(element);
        }
    }

    /// Removes the membership of one element.
    pub(crate) fn remove(&mut self, element: &str) {
        self.remove_below(element, &[]);
    }

    pub(crate) fn union(&mut self, other: &Self) {
        for (element, branch) in &other.0 {
            let own = self.0.entry(element.clone()).or_default();
            own.member |= branch.member;
            own.below.union(&branch.below);
        }
    }

    pub(crate) fn subtract(&mut self, other: &Self) {
        self.0.retain(|element, branch| {
            if let Some(taken) = other.0.get(element) {
                branch.member &= !taken.member;
                branch.below.subtract(&taken.below);
            }
            !branch.is_empty()
        });
    }

    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let mut shared = Self::default();
        for (element, branch) in &self.0 {
            if let Some(met) = other.0.get(element) {
                let both = Branch {
                    member: branch.member && met.member,
                    below: branch.below.intersection(&met.below),
                };
                shared.put(element.clone(), both);
            }
        }
        shared
    }

    /// Reads `FieldsV1`.
    pub(crate) fn parse(fields: &Map<String, Value>) -> Result<Self, FieldsError> {
        parse(fields, DEPTH_MAX)
    }

    /// Writes `FieldsV1`.
    pub(crate) fn to_json(&self) -> Map<String, Value> {
        self.0
            .iter()
            .map(|(element, branch)| {
                let mut node = branch.below.to_json();
                if branch.member && !node.is_empty() {
                    node.insert(".".to_owned(), Value::Object(Map::new()));
                }
                (element.clone(), Value::Object(node))
            })
            .collect()
    }

    /// Lists the paths of the set as Kubernetes prints them, such as `.spec.parts[name="a"].count`.
    pub(crate) fn paths(&self) -> Vec<String> {
        let mut found = Vec::new();
        self.collect("", &mut found);
        found
    }

    /// Collects the paths of one level before the longer ones, as Kubernetes does.
    fn collect(&self, prefix: &str, found: &mut Vec<String>) {
        let path = |element: &str| {
            let mut path = prefix.to_owned();
            print(element, &mut path);
            path
        };
        let members = self.0.iter().filter(|(_, branch)| branch.member);
        found.extend(members.map(|(element, _)| path(element)));
        for (element, branch) in &self.0 {
            branch.below.collect(&path(element), found);
        }
    }
}

fn parse(fields: &Map<String, Value>, depth: usize) -> Result<FieldSet, FieldsError> {
    if depth == 0 {
        return Err(FieldsError::Depth);
    }
    let mut set = FieldSet::default();
    for (element, node) in fields.iter().filter(|(element, _)| *element != ".") {
        let Some(node) = node.as_object() else {
            return Err(FieldsError::Node(element.clone()));
        };
        let branch = Branch {
            member: node.is_empty() || node.contains_key("."),
            below: parse(node, depth - 1)?,
        };
        set.put(canonical(element)?, branch);
    }
    Ok(set)
}

/// Checks a path element and spells it the way we do.
fn canonical(element: &str) -> Result<String, FieldsError> {
    let refuse = || FieldsError::Element(element.to_owned());
    let Some((kind, rest)) = element.split_once(':') else {
        return Err(refuse());
    };
    match kind {
        "f" => Ok(element.to_owned()),
        "v" => {
            let value: Value = serde_json::from_str(rest).map_err(|_| refuse())?;
            Ok(format!("v:{value}"))
        }
        "k" => {
            let keys: Map<String, Value> = serde_json::from_str(rest).map_err(|_| refuse())?;
            Ok(format!("k:{}", Value::Object(keys)))
        }
        "i" => {
            let index: u32 = rest.parse().map_err(|_| refuse())?;
            Ok(format!("i:{index}"))
        }
        _ => Err(refuse()),
    }
}

/// Appends a path element as Kubernetes prints it.
pub(crate) fn print(element: &str, path: &mut String) {
    let (kind, rest) = element.split_once(':').unwrap_or(("f", element));
    let written = match kind {
        "f" => write!(path, ".{rest}"),
        "k" => {
            let keys: Map<String, Value> = serde_json::from_str(rest).unwrap_or_default();
            let keys: Vec<String> = keys
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            write!(path, "[{}]", keys.join(","))
        }
        "v" => write!(path, "[={rest}]"),
        _ => write!(path, "[{rest}]"),
    };
    written.expect("writing to a string does not fail");
}

/// Whether two sets in their JSON form share a path.
///
/// This and [`covers`] let the common write look at its own paths only, without reading whole sets.
pub(crate) fn touches(fields: &Map<String, Value>, paths: &FieldSet) -> bool {
    paths.iter().any(|(element, branch)| {
        let node = fields.get(element).and_then(Value::as_object);
        node.is_some_and(|node| (branch.member && is_member(node)) || touches(node, &branch.below))
    })
}

/// Whether a set in its JSON form has all of these paths.
pub(crate) fn covers(fields: &Map<String, Value>, paths: &FieldSet) -> bool {
    paths.iter().all(|(element, branch)| {
        let node = fields.get(element).and_then(Value::as_object);
        node.is_some_and(|node| (!branch.member || is_member(node)) && covers(node, &branch.below))
    })
}

fn is_member(node: &Map<String, Value>) -> bool {
    node.is_empty() || node.contains_key(".")
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    pub(crate) fn set(fields: &Value) -> FieldSet {
        FieldSet::parse(fields.as_object().unwrap()).unwrap()
    }

    #[test]
    fn paths_are_printed_as_kubernetes_prints_them() {
        let fields = json!({
            "f:spec": { "f:parts": { "k:{\"port\":80,\"name\":\"a\"}": { ".": {}, "f:count": {} } },
                        "f:tags": { "v:\"b\"": {} }, "f:list": { "i:3": {} } },
        });
        assert_eq!(
            set(&fields).paths(),
            [
                ".spec.list[3]",
                ".spec.parts[name=\"a\",port=80]",
                ".spec.parts[name=\"a\",port=80].count",
                ".spec.tags[=\"b\"]"
            ]
        );
    }

    #[test]
    fn what_is_not_a_set_is_refused() {
        for (fields, want) in [
            (json!({ "spec": {} }), "\"spec\" is not a path element"),
            (json!({ "x:a": {} }), "\"x:a\" is not a path element"),
            (json!({ "k:[]": {} }), "\"k:[]\" is not a path element"),
            (json!({ "i:-1": {} }), "\"i:-1\" is not a path element"),
            (json!({ "f:a": 1 }), "\"f:a\" must hold an object"),
        ] {
            let error = FieldSet::parse(fields.as_object().unwrap()).unwrap_err();
            assert_eq!(error.to_string(), want);
        }
        let deep = (0..DEPTH_MAX).fold(json!({}), |inner, _| json!({ "f:a": inner }));
        let deep = FieldSet::parse(deep.as_object().unwrap());
        assert_eq!(deep, Err(FieldsError::Depth));
    }

    fn any_set() -> impl Strategy<Value = FieldSet> {
        let element = prop::sample::select(vec!["f:a", "f:b", "k:{\"name\":\"x\"}", "v:1", "i:0"]);
        let leaf = any::<bool>().prop_map(|member| Branch {
            member,
            below: FieldSet::default(),
        });
        let branch = leaf.prop_recursive(3, 24, 4, move |inner| {
            let below = prop::collection::btree_map(element.clone(), inner, 0..4);
            (any::<bool>(), below).prop_map(|(member, children)| {
                let mut below = FieldSet::default();
                for (element, child) in children {
                    below.put(element.to_owned(), child);
                }
                Branch { member, below }
            })
        });
        branch.prop_map(|branch| branch.below)
    }

    proptest! {
        #[test]
        fn a_set_survives_its_json(set in any_set()) {
            prop_assert_eq!(FieldSet::parse(&set.to_json()), Ok(set));
        }

        #[test]
        fn sets_obey_the_laws_of_sets(a in any_set(), b in any_set()) {
            let mut union = a.clone();
            union.union(&b);
            let mut other = b.clone();
            other.union(&a);
            prop_assert_eq!(&union, &other);
            let mut only_a = union.clone();
            only_a.subtract(&b);
            let mut rest = a.clone();
            rest.subtract(&b);
            prop_assert_eq!(&only_a, &rest);
            let shared = a.intersection(&b);
            rest.union(&shared);
            prop_assert_eq!(&rest, &a);
            prop_assert_eq!(touches(&a.to_json(), &b), !shared.is_empty());
            prop_assert_eq!(covers(&a.to_json(), &b), shared == b);
        }
    }
}
