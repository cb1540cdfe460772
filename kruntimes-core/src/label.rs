//! Label selectors.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::message::quoted;

/// A label selector in the shape of the Kubernetes API; all parts are AND-ed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(transform = crate::crd::scalar::plain)
)]
#[serde(rename_all = "camelCase")]
pub struct LabelSelector {
    /// Labels that must have exactly these values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Requirements on single labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelRequirement>,
}

/// A requirement on one label.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(
    feature = "crd",
    derive(schemars::JsonSchema),
    schemars(transform = crate::crd::scalar::plain)
)]
#[serde(rename_all = "camelCase")]
pub struct LabelRequirement {
    /// Label key.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    /// Values of `In` and `NotIn`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// Why a selector does not compile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectorError {
    /// The operator is none of the four.
    #[error("{} is not a valid label selector operator", quoted(.0))]
    UnknownOperator(String),
    /// `In` or `NotIn` without values.
    #[error("for {operator} operator, values set of label {} must be non-empty", quoted(.key))]
    NoValues {
        /// The operator.
        operator: String,
        /// The label key.
        key: String,
    },
    /// `Exists` or `DoesNotExist` with values.
    #[error("values set of label {} must be empty for {operator}", quoted(.key))]
    UnexpectedValues {
        /// The operator.
        operator: String,
        /// The label key.
        key: String,
    },
    /// The key is no label key.
    #[error("{} is not a valid label key", quoted(.0))]
    InvalidKey(String),
}

/// A compiled selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    DoesNotExist(String),
}

impl LabelSelector {
    /// Tells whether nothing is selected by, which Kubernetes reads as "everything".
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }

    /// Compiles the selector.
    ///
    /// # Errors
    ///
    /// Returns the first requirement that has no meaning.
    pub fn compile(&self) -> Result<Selector, SelectorError> {
        let mut requirements = Vec::new();
        for (key, value) in &self.match_labels {
            check_key(key)?;
            requirements.push(Requirement::In(key.clone(), vec![value.clone()]));
        }
        for requirement in &self.match_expressions {
            requirements.push(requirement.compile()?);
        }
        Ok(Selector { requirements })
    }
}

impl LabelRequirement {
    fn compile(&self) -> Result<Requirement, SelectorError> {
        check_key(&self.key)?;
        let key = self.key.clone();
        let with_values = |values: &Vec<String>| {
            if values.is_empty() {
                return Err(SelectorError::NoValues {
                    operator: self.operator.clone(),
                    key: self.key.clone(),
                });
            }
            Ok(values.clone())
        };
        let without_values = || {
            if self.values.is_empty() {
                return Ok(());
            }
            Err(SelectorError::UnexpectedValues {
                operator: self.operator.clone(),
                key: self.key.clone(),
            })
        };
        match self.operator.as_str() {
            "In" => Ok(Requirement::In(key, with_values(&self.values)?)),
            "NotIn" => Ok(Requirement::NotIn(key, with_values(&self.values)?)),
            "Exists" => without_values().map(|()| Requirement::Exists(key)),
            "DoesNotExist" => without_values().map(|()| Requirement::DoesNotExist(key)),
            other => Err(SelectorError::UnknownOperator(other.to_owned())),
        }
    }
}

fn check_key(key: &str) -> Result<(), SelectorError> {
    let name = key.rsplit_once('/').map_or(key, |(_, name)| name);
    let legal = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    if name.len() <= 63
        && name.chars().all(legal)
        && ends(name.chars().next())
        && ends(name.chars().last())
    {
        return Ok(());
    }
    Err(SelectorError::InvalidKey(key.to_owned()))
}

impl Selector {
    /// Tells whether `labels` satisfy every requirement. An empty selector matches everything.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.requirements
            .iter()
            .all(|requirement| match requirement {
                Requirement::In(key, values) => labels.get(key).is_some_and(|v| values.contains(v)),
                Requirement::NotIn(key, values) => {
                    labels.get(key).is_none_or(|v| !values.contains(v))
                }
                Requirement::Exists(key) => labels.contains_key(key),
                Requirement::DoesNotExist(key) => !labels.contains_key(key),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expression(key: &str, operator: &str, values: &[&str]) -> LabelSelector {
        LabelSelector {
            match_expressions: vec![LabelRequirement {
                key: key.into(),
                operator: operator.into(),
                values: values.iter().map(|&v| v.into()).collect(),
            }],
            ..LabelSelector::default()
        }
    }

    #[test]
    fn s_59_each_operator_decides_as_in_kubernetes() {
        let labels = BTreeMap::from([("a".to_owned(), "x".to_owned())]);
        for (selector, want) in [
            (expression("a", "In", &["x", "y"]), true),
            (expression("a", "In", &["y"]), false),
            (expression("b", "In", &["x"]), false),
            (expression("a", "NotIn", &["x"]), false),
            (expression("b", "NotIn", &["x"]), true),
            (expression("a", "Exists", &[]), true),
            (expression("b", "Exists", &[]), false),
            (expression("a", "DoesNotExist", &[]), false),
            (expression("b", "DoesNotExist", &[]), true),
        ] {
            assert_eq!(
                selector.compile().unwrap().matches(&labels),
                want,
                "{selector:?}"
            );
        }
    }

    #[test]
    fn selectors_without_meaning_do_not_compile() {
        for selector in [
            expression("a", "Near", &[]),
            expression("a", "In", &[]),
            expression("a", "Exists", &["x"]),
            expression("", "Exists", &[]),
        ] {
            assert!(selector.compile().is_err(), "{selector:?}");
        }
    }
}
