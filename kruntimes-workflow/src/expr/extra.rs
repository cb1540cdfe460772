//! Contexts and functions that an embedder adds to the language (W-201).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{ErrorKind, Scope};
use crate::extend::Plugin;

/// A function of texts. It has to be pure; the error is its own words.
pub trait Function: Send + Sync {
    /// Computes the result.
    ///
    /// # Errors
    ///
    /// Says what is wrong with the arguments.
    fn call(&self, arguments: &[&str]) -> Result<String, String>;
}

impl<F: Fn(&[&str]) -> Result<String, String> + Send + Sync> Function for F {
    fn call(&self, arguments: &[&str]) -> Result<String, String> {
        self(arguments)
    }
}

/// Read-only contexts by prefix, and functions by name. Prefixes that are not here stay errors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contexts {
    values: BTreeMap<String, BTreeMap<String, String>>,
    functions: BTreeMap<String, Plugin<dyn Function>>,
}

impl Contexts {
    /// Adds a context: `${{ <prefix>.<name> }}` reads its values.
    ///
    /// `inputs`, `steps` and `jobs` keep their meaning whatever is added.
    pub fn with(mut self, prefix: &str, values: BTreeMap<String, String>) -> Self {
        self.values.insert(prefix.to_owned(), values);
        self
    }

    /// Adds a function: `${{ <name>(<literal or reference>, …) }}` calls it.
    pub fn with_function(mut self, name: &str, function: impl Function + 'static) -> Self {
        let function: Arc<dyn Function> = Arc::new(function);
        self.functions
            .insert(name.to_owned(), Plugin::new(function));
        self
    }

    /// Tells whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty() && self.functions.is_empty()
    }

    /// Tells whether a prefix has a context.
    pub fn has(&self, prefix: &str) -> bool {
        self.values.contains_key(prefix)
    }

    /// Tells whether there is a function of that name.
    pub fn has_function(&self, name: &str) -> bool {
        self.functions.contains_key(name)
    }

    /// Reads `<prefix>.<name>`; `None` when the prefix is not here.
    pub fn read(&self, reference: &str) -> Option<Result<&str, ErrorKind>> {
        let (prefix, name) = reference.split_once('.')?;
        let values = self.values.get(prefix)?;
        let found = values.get(name).map(String::as_str);
        Some(found.ok_or_else(|| ErrorKind::NoValue(reference.to_owned())))
    }

    /// Calls a function; `None` when there is none of that name.
    pub fn call(&self, name: &str, arguments: &[&str]) -> Option<Result<String, ErrorKind>> {
        let function = self.functions.get(name)?;
        let failed = |said| ErrorKind::Function {
            name: name.to_owned(),
            said,
        };
        Some(function.call(arguments).map_err(failed))
    }

    /// Evaluates a body that the built-in grammar does not know; `None` when it is not known here either.
    pub(super) fn evaluate(
        &self,
        body: &str,
        scope: &Scope<'_>,
    ) -> Option<Result<String, ErrorKind>> {
        let Some((name, arguments)) = call(body) else {
            return self.read(body).map(|found| found.map(str::to_owned));
        };
        if !self.functions.contains_key(name) {
            return None;
        }
        let arguments: Result<Vec<String>, ErrorKind> = arguments
            .into_iter()
            .map(|argument| super::evaluate::body(argument, scope))
            .collect();
        match arguments {
            Ok(arguments) => {
                let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                self.call(name, &arguments)
            }
            Err(kind) => Some(Err(kind)),
        }
    }

    /// Says whether a body that the built-in grammar does not know is known here.
    pub(super) fn check(&self, body: &str) -> Option<Result<(), ErrorKind>> {
        match call(body) {
            Some((name, _)) => self.functions.contains_key(name).then_some(Ok(())),
            None => self.read(body).map(|found| found.map(|_| ())),
        }
    }
}

/// Splits `name(argument, …)`; a comma inside of a literal separates nothing.
fn call(body: &str) -> Option<(&str, Vec<&str>)> {
    let (name, rest) = body.split_once('(')?;
    let inner = rest.strip_suffix(')')?;
    let mut arguments = Vec::new();
    let (mut from, mut quoted) = (0, false);
    for (at, c) in inner.char_indices() {
        match c {
            '\'' => quoted = !quoted,
            ',' if !quoted => {
                arguments.push(inner[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    let last = inner[from..].trim();
    if !(arguments.is_empty() && last.is_empty()) {
        arguments.push(last);
    }
    Some((name.trim(), arguments))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::{Known, check, evaluate, measure};

    fn contexts() -> Contexts {
        let values = [("sha".to_owned(), "${{ abc".to_owned())].into();
        Contexts::default()
            .with("git", values)
            .with("inputs", [("x".to_owned(), "never".to_owned())].into())
            .with_function("upper", |given: &[&str]| Ok(given.concat().to_uppercase()))
            .with_function("fails", |_: &[&str]| Err("as it likes".to_owned()))
    }

    #[test]
    fn w_201_contexts_and_functions_are_read_by_prefix_and_others_stay_errors() {
        let contexts = contexts();
        let inputs = [("x".to_owned(), "v1".to_owned())].into();
        let scope = Scope {
            inputs: Some(&inputs),
            extra: Some(&contexts),
            ..Scope::default()
        };
        let unknown = |first: &str| {
            Err(format!(
                "unknown ref prefix: {first} (expected inputs, steps, or jobs)"
            ))
        };
        for (template, want) in [
            // W-26: what a context yields is not scanned again.
            ("at ${{ git.sha }}", Ok("at ${{ abc".to_owned())),
            (
                "${{ upper('a,b', inputs.x, git.sha) }}",
                Ok("A,BV1${{ ABC".to_owned()),
            ),
            ("${{ upper() }}", Ok(String::new())),
            ("${{ inputs.x }}", Ok("v1".to_owned())),
            ("${{ git.ghost }}", Err("no value git.ghost".to_owned())),
            ("${{ upper(inputs.y) }}", Err("no input \"y\"".to_owned())),
            (
                "${{ fails('a') }}",
                Err("function \"fails\" failed: as it likes".to_owned()),
            ),
            ("${{ env.PATH }}", unknown("env")),
            ("${{ lower('a') }}", unknown("lower('a')")),
        ] {
            let result = evaluate(template, &scope).map_err(|error| error.to_string());
            assert_eq!(result, want, "{template}");
            if let Ok(text) = &result {
                assert_eq!(measure(template, &scope).unwrap().bytes, text.len());
            }
        }
        let known = Known {
            extra: Some(&contexts),
            ..Known::default()
        };
        let said = check(
            "${{ git.sha }}${{ upper('a') }}${{ env.X }}${{ git.y }}",
            &known,
        );
        let said: Vec<String> = said.iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [unknown("env").unwrap_err(), "no value git.y".to_owned()]
        );
    }
}
