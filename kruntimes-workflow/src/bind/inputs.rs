//! Binds caller values to declared inputs.

use std::collections::BTreeMap;

use kruntimes_core::api::Input;
use kruntimes_core::message::quoted;

/// Values that do not fit the declaration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// The caller gave a value that nobody declared.
    #[error("unknown input {}", quoted(.0))]
    Unknown(String),
    /// The caller gave no value for a required input without default.
    #[error("missing required input {}", quoted(.0))]
    Missing(String),
}

/// Returns a value for every declared input (W-19).
///
/// Values are plain text: `${{` in them is not an expression (W-24).
///
/// # Errors
///
/// Undeclared keys before missing ones, each kind sorted (W-20).
pub fn bind(
    declared: &BTreeMap<String, Input>,
    given: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, BindError> {
    if let Some(unknown) = given.keys().find(|name| !declared.contains_key(*name)) {
        return Err(BindError::Unknown(unknown.clone()));
    }
    let bound = declared.iter().map(|(name, input)| {
        let default = input.default.as_deref().unwrap_or_default();
        match given.get(name) {
            Some(value) => Ok((name.clone(), value.clone())),
            None if input.required && default.is_empty() => Err(BindError::Missing(name.clone())),
            None => Ok((name.clone(), default.to_owned())),
        }
    });
    bound.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(required: bool, default: Option<&str>) -> Input {
        Input {
            required,
            default: default.map(str::to_owned),
            ..Input::default()
        }
    }

    fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        let own = |&(k, v): &(&str, &str)| (k.to_owned(), v.to_owned());
        entries.iter().map(own).collect()
    }

    #[test]
    fn w_19_w_20_w_21_w_24_binding_is_a_table() {
        let required = || input(true, None);
        for (case, declared, given, want) in [
            ("default", input(false, Some("d")), &[][..], Ok("d")),
            (
                "caller wins",
                input(false, Some("d")),
                &[("x", "c")],
                Ok("c"),
            ),
            ("optional without default", input(false, None), &[], Ok("")),
            (
                "missing",
                required(),
                &[],
                Err("missing required input \"x\""),
            ),
            ("an empty value was given", required(), &[("x", "")], Ok("")),
            (
                "an empty value beats the default",
                input(false, Some("d")),
                &[("x", "")],
                Ok(""),
            ),
            (
                "an empty default is none",
                input(true, Some("")),
                &[],
                Err("missing required input \"x\""),
            ),
            (
                "W-12: a default satisfies required",
                input(true, Some("d")),
                &[],
                Ok("d"),
            ),
            (
                "unknown before missing",
                required(),
                &[("z", "1"), ("y", "2")],
                Err("unknown input \"y\""),
            ),
            (
                "W-24: values are plain text",
                required(),
                &[("x", "${{ nope")],
                Ok("${{ nope"),
            ),
        ] {
            let result = bind(&[("x".to_owned(), declared)].into(), &map(given));
            let want = want
                .map(|value| map(&[("x", value)]))
                .map_err(str::to_owned);
            assert_eq!(result.map_err(|error| error.to_string()), want, "{case}");
        }
    }
}
