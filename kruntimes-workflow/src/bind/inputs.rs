//! Binds caller values to declared inputs.

use std::collections::BTreeMap;

use kruntimes_core::api::Input;
use kruntimes_core::message::quoted;

use super::InputTypes;

/// Values that do not fit the declaration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// The caller gave a value that nobody declared.
    #[error("unknown input {}", quoted(.0))]
    Unknown(String),
    /// A value is not of the declared type (W-206).
    #[error("input {} {said}", quoted(.name))]
    Type {
        /// The input.
        name: String,
        /// What the value should be.
        said: String,
    },
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
    bind_with(declared, given, &InputTypes::default())
}

/// Does what [`bind`] does, with types beyond `string` (W-206).
///
/// An optional input that nobody gives stays empty, whatever its type.
///
/// # Errors
///
/// Those of [`bind`], and the first value, sorted by name, that is not of its type.
pub fn bind_with(
    declared: &BTreeMap<String, Input>,
    given: &BTreeMap<String, String>,
    types: &InputTypes,
) -> Result<BTreeMap<String, String>, BindError> {
    if let Some(unknown) = given.keys().find(|name| !declared.contains_key(*name)) {
        return Err(BindError::Unknown(unknown.clone()));
    }
    let bound = declared.iter().map(|(name, input)| {
        let default = input.default.as_deref().unwrap_or_default();
        let value = match given.get(name) {
            Some(value) => value,
            None if input.required && default.is_empty() => {
                return Err(BindError::Missing(name.clone()));
            }
            None if default.is_empty() => return Ok((name.clone(), String::new())),
            None => default,
        };
        let read = types.read(&input.input_type, value);
        let value = read.map_err(|said| BindError::Type {
            name: name.clone(),
            said,
        })?;
        Ok((name.clone(), value))
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

    #[test]
    fn w_206_further_types_are_checked_and_stay_text() {
        let typed = |name: &str| Input {
            input_type: name.to_owned().into(),
            ..Input::default()
        };
        let declared = |name: &str| [("x".to_owned(), typed(name))].into();
        let types = InputTypes::usual().with("upper", |value: &str| Ok(value.to_uppercase()));
        for (name, value, want) in [
            ("boolean", Some("true"), Ok("true")),
            (
                "boolean",
                Some("yes"),
                Err("input \"x\" must be true or false"),
            ),
            ("number", Some("007"), Ok("7")),
            (
                "number",
                Some("1.5"),
                Err("input \"x\" must be a whole number"),
            ),
            ("number", None, Ok("")),
            ("upper", Some("a"), Ok("A")),
            ("string", Some("${{ x"), Ok("${{ x")),
            (
                "date",
                Some("a"),
                Err("input \"x\" has a type that nobody defined"),
            ),
        ] {
            let given = value.map(|value| ("x".to_owned(), value.to_owned()));
            let bound = bind_with(&declared(name), &given.into_iter().collect(), &types);
            let want = want
                .map(|value| map(&[("x", value)]))
                .map_err(str::to_owned);
            assert_eq!(
                bound.map_err(|error| error.to_string()),
                want,
                "{name} {value:?}"
            );
        }
    }
}
