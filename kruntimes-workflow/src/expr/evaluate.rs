//! Evaluates templates: one pass to measure and to find errors, one to write.

use std::collections::BTreeMap;

use kruntimes_core::keys::OUTPUT_ENV_PREFIX;

use super::scan::Target;
use super::{Body, Contexts, Error, ErrorKind, Segment, segments};

/// Everything one text may read.
///
/// A member that is absent is not part of the context at all (section 5.2).
#[derive(Clone, Copy, Default)]
pub struct Scope<'a> {
    /// Bound inputs by name.
    pub inputs: Option<&'a BTreeMap<String, String>>,
    /// Steps and their outputs.
    pub steps: Option<&'a dyn Source>,
    /// Jobs and their outputs.
    pub jobs: Option<&'a dyn Source>,
    /// What an embedder adds (W-201).
    pub extra: Option<&'a Contexts>,
}

/// Names and the outputs they have to offer.
pub trait Source {
    /// Tells whether the name exists in the definition, visible or not.
    ///
    /// It decides where a name with dots ends (W-30), so it must not depend on
    /// what has happened so far.
    fn knows(&self, name: &str) -> bool;

    /// Returns the outputs of the name if they may be read here and now.
    fn outputs(&self, name: &str) -> Option<&BTreeMap<String, String>>;
}

impl Source for BTreeMap<String, BTreeMap<String, String>> {
    fn knows(&self, name: &str) -> bool {
        self.contains_key(name)
    }

    fn outputs(&self, name: &str) -> Option<&BTreeMap<String, String>> {
        self.get(name)
    }
}

/// How long a text is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Length in bytes.
    pub bytes: usize,
    /// Length in Unicode characters, which is what schema limits count.
    pub chars: usize,
}

impl Size {
    /// Measures one text.
    pub fn of(text: &str) -> Self {
        Self {
            bytes: text.len(),
            chars: text.chars().count(),
        }
    }

    fn add(&mut self, text: &str) {
        let more = Self::of(text);
        self.bytes += more.bytes;
        self.chars += more.chars;
    }
}

/// Returns how long the evaluated template would be, without building it.
///
/// A template can multiply large values, so callers with a limit measure first.
///
/// # Errors
///
/// The first error in reading order (W-31).
pub fn measure(template: &str, scope: &Scope<'_>) -> Result<Size, Error> {
    let mut size = Size::default();
    walk(template, scope, |piece| size.add(piece))?;
    Ok(size)
}

/// Evaluates a template; the result is its only allocation.
///
/// # Errors
///
/// The first error in reading order (W-31).
pub fn evaluate(template: &str, scope: &Scope<'_>) -> Result<String, Error> {
    let mut bytes = 0;
    walk(template, scope, |piece| bytes += piece.len())?;
    let mut result = String::with_capacity(bytes);
    walk(template, scope, |piece| result.push_str(piece))?;
    Ok(result)
}

fn walk<'a>(template: &'a str, scope: &Scope<'a>, mut emit: impl FnMut(&str)) -> Result<(), Error> {
    for segment in segments(template) {
        match segment? {
            Segment::Text(text) => emit(text),
            Segment::Expression { offset, body, .. } => {
                resolve(body, scope, &mut emit).map_err(|kind| Error { offset, kind })?;
            }
        }
    }
    Ok(())
}

fn resolve<'a>(
    body: &'a str,
    scope: &Scope<'a>,
    emit: &mut impl FnMut(&str),
) -> Result<(), ErrorKind> {
    let parsed = match Body::parse(body) {
        Ok(parsed) => parsed,
        Err(kind @ ErrorKind::UnknownPrefix(_)) => {
            let extra = scope.extra.and_then(|extra| extra.evaluate(body, scope));
            emit(&extra.ok_or(kind)??);
            return Ok(());
        }
        Err(kind) => return Err(kind),
    };
    match parsed {
        Body::Literal(content) => {
            let mut quote = "";
            for piece in content.split("''") {
                emit(quote);
                emit(piece);
                quote = "'";
            }
        }
        Body::Input(name) => {
            let inputs = scope.inputs.ok_or(ErrorKind::NoInputs)?;
            let value = inputs.get(name);
            emit(value.ok_or_else(|| ErrorKind::NoInput(name.to_owned()))?);
        }
        Body::Steps(target) => emit(output(target, scope.steps)?),
        Body::Jobs(target) => emit(output(target, scope.jobs)?),
    }
    Ok(())
}

/// Evaluates one body, such as the argument of a function.
pub(crate) fn body(body: &str, scope: &Scope<'_>) -> Result<String, ErrorKind> {
    let mut value = String::new();
    resolve(body, scope, &mut |piece| value.push_str(piece))?;
    Ok(value)
}

fn output<'a>(target: Target<'a>, source: Option<&'a dyn Source>) -> Result<&'a str, ErrorKind> {
    let source = source.ok_or(ErrorKind::NoOutputs)?;
    let (name, key) = target.split(|name| source.knows(name));
    let visible = |key: &str| !key.starts_with(OUTPUT_ENV_PREFIX);
    let outputs = source
        .outputs(name)
        .filter(|outputs| outputs.keys().any(|key| visible(key)))
        .ok_or_else(|| ErrorKind::NoOutputsFor(name.to_owned()))?;
    let value = outputs.get(key).filter(|_| visible(key));
    value
        .map(String::as_str)
        .ok_or_else(|| ErrorKind::NoOutput {
            key: key.to_owned(),
            name: name.to_owned(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        let own = |&(k, v): &(&str, &str)| (k.to_owned(), v.to_owned());
        entries.iter().map(own).collect()
    }

    fn sources(names: &[(&str, &[(&str, &str)])]) -> BTreeMap<String, BTreeMap<String, String>> {
        let own = |&(name, outputs): &(&str, &[(&str, &str)])| (name.to_owned(), map(outputs));
        names.iter().map(own).collect()
    }

    fn eval(template: &str) -> Result<String, String> {
        let inputs = map(&[
            ("x", "1"),
            ("a.b", "dotted"),
            ("data", "${{ jobs.j.outputs.k }}"),
        ]);
        let steps = sources(&[
            (
                "build",
                &[("tag", "v1"), ("with.dots", "w"), ("a.outputs.b", "deep")],
            ),
            ("lint.fast", &[("n", "1")]),
            ("silent", &[]),
            ("setup", &[("kruntimes.io/env/PATH", "/bin")]),
            (
                "mixed",
                &[
                    ("kruntimes.io/env/PATH", "/bin"),
                    ("v", "a mention of kruntimes.io/env/"),
                ],
            ),
        ]);
        let jobs = sources(&[("build", &[("tag", "from job")])]);
        let scope = Scope {
            inputs: Some(&inputs),
            steps: Some(&steps),
            jobs: Some(&jobs),
            extra: None,
        };
        let result = evaluate(template, &scope);
        if let Ok(text) = &result {
            assert_eq!(measure(template, &scope).unwrap(), Size::of(text));
        }
        result.map_err(|error| error.to_string())
    }

    /// There is no form for a default: what is missing is an error, and so is the attempt to write one.
    #[test]
    fn w_29_case_014_a_default_is_refused_by_the_text_of_what_it_is() {
        for template in [
            "${{ steps.build.outputs.tag || 'none' }}",
            "${{ steps.push.outputs.image || 'none' }}",
            "${{ steps.silent.outputs.image || 'none' }}",
        ] {
            let said = eval(template).unwrap_err();
            assert!(
                said.contains("|| 'none'") || said.starts_with("no outputs for"),
                "{said}"
            );
        }
        assert_eq!(
            eval("${{ 'none' || steps.build.outputs.tag }}").unwrap_err(),
            "unknown ref prefix: 'none' || steps (expected inputs, steps, or jobs)"
        );
    }

    #[test]
    fn expressions_are_replaced_by_their_values() {
        for (template, want) in [
            ("", ""),
            ("plain }} {{ $ ${", "plain }} {{ $ ${"),
            ("${{inputs.x}}", "1"),
            ("$${{ inputs.x }}}", "$1}"),
            ("${{\r\n\tinputs.x\n}}", "1"),
            ("a${{ inputs.x }}b${{ inputs.a.b }}c", "a1bdottedc"),
            ("${{ steps.build.outputs.tag }}", "v1"),
            // W-171: a job named like a step.
            ("${{ jobs.build.outputs.tag }}", "from job"),
            (
                "${{ steps.mixed.outputs.v }}",
                "a mention of kruntimes.io/env/",
            ),
        ] {
            assert_eq!(eval(template).as_deref(), Ok(want), "{template}");
        }
    }

    #[test]
    fn w_30_case_019_names_and_keys_may_have_dots() {
        for (template, want) in [
            ("${{ steps.lint.fast.outputs.n }}", "1"),
            ("${{ steps.build.outputs.with.dots }}", "w"),
            ("${{ steps.build.outputs.a.outputs.b }}", "deep"),
        ] {
            assert_eq!(eval(template).as_deref(), Ok(want), "{template}");
        }
    }

    #[test]
    fn w_26_a_value_is_never_scanned_again() {
        assert_eq!(
            eval("${{ inputs.data }}").unwrap(),
            "${{ jobs.j.outputs.k }}"
        );
    }

    #[test]
    fn w_27_case_017_a_literal_is_the_escape() {
        for (template, want) in [
            ("${{ '${{' }} not.ours }}", "${{ not.ours }}"),
            ("${{ 'it''s' }}", "it's"),
            ("${{ '' }}", ""),
            ("${{ '''' }}", "'"),
            ("${{ '}}' }}", "}}"),
            ("a$b$$c$$$d", "a$b$$c$$$d"),
        ] {
            assert_eq!(eval(template).as_deref(), Ok(want), "{template}");
        }
    }

    fn assert_errors(cases: &[(&str, String)]) {
        for (template, want) in cases {
            assert_eq!(eval(template).as_ref(), Err(want), "{template}");
        }
    }

    #[test]
    fn w_29_unsupported_syntax_is_an_error() {
        let prefix = "(expected inputs, steps, or jobs)";
        let steps = "(expected steps.<name>.outputs.<key>)";
        assert_errors(&[
            ("${{ inputs.x", "unterminated expression".to_owned()),
            ("${{ 'abc }}", "unterminated expression".into()),
            ("${{}}", "empty expression".into()),
            ("${{ \t\r\n }}", "empty expression".into()),
            (
                "${{ env.PATH }}",
                format!("unknown ref prefix: env {prefix}"),
            ),
            ("${{ 1 }}", format!("unknown ref prefix: 1 {prefix}")),
            (
                "${{ ${{ inputs.x }} }}",
                format!("unknown ref prefix: ${{{{ inputs {prefix}"),
            ),
            (
                "${{ format('a') }}",
                format!("unknown ref prefix: format('a') {prefix}"),
            ),
            (
                "${{ 'a' 'b' }}",
                format!("unknown ref prefix: 'a' 'b' {prefix}"),
            ),
            // Case 014: there are no operators.
            (
                "${{ steps.push.outputs.image || 'none' }}",
                format!("invalid steps ref: steps.push.outputs.image || 'none' {steps}"),
            ),
        ]);
    }

    #[test]
    fn w_31_every_reference_error_has_its_exact_text() {
        let inputs = "(expected inputs.<name>)";
        let steps = "(expected steps.<name>.outputs.<key>)";
        let jobs = "(expected jobs.<name>.outputs.<key>)";
        assert_errors(&[
            (
                "${{ inputs }}",
                format!("invalid inputs ref: inputs {inputs}"),
            ),
            (
                "${{ inputs. }}",
                format!("invalid inputs ref: inputs. {inputs}"),
            ),
            (
                "${{ inputs.x == '1' }}",
                format!("invalid inputs ref: inputs.x == '1' {inputs}"),
            ),
            ("${{ inputs.nope }}", "no input \"nope\"".into()),
            ("${{ steps }}", format!("invalid steps ref: steps {steps}")),
            (
                "${{ steps.a }}",
                format!("invalid steps ref: steps.a {steps}"),
            ),
            (
                "${{ steps.a.outputs. }}",
                format!("invalid steps ref: steps.a.outputs. {steps}"),
            ),
            (
                "${{ steps..outputs.a }}",
                format!("invalid steps ref: steps..outputs.a {steps}"),
            ),
            (
                "${{ jobs.a.result }}",
                format!("invalid jobs ref: jobs.a.result {jobs}"),
            ),
            (
                "${{ steps.ghost.outputs.x }}",
                "no outputs for ghost".into(),
            ),
        ]);
    }

    /// A producer that wrote nothing, and one that wrote something else. The words are those of W-31.
    #[test]
    fn w_31_case_013_an_output_that_was_not_written_is_named() {
        assert_errors(&[
            (
                "${{ steps.silent.outputs.x }}",
                "no outputs for silent".into(),
            ),
            (
                "${{ steps.build.outputs.x }}",
                "no output \"x\" in build".into(),
            ),
        ]);
    }

    #[test]
    fn w_31_a_context_that_is_absent_says_so() {
        let none = |template| {
            evaluate(template, &Scope::default())
                .unwrap_err()
                .to_string()
        };
        assert_eq!(none("${{ inputs.x }}"), "no inputs available");
        assert_eq!(none("${{ steps.s.outputs.k }}"), "no outputs available");
        assert_eq!(none("${{ jobs.s.outputs.k }}"), "no outputs available");
    }

    #[test]
    fn w_31_the_first_error_in_reading_order_is_returned() {
        let error = evaluate("ab ${{ nope }} ${{", &Scope::default()).unwrap_err();
        assert_eq!(error.offset, 3);
        assert!(matches!(error.kind, ErrorKind::UnknownPrefix(_)));
    }

    #[test]
    fn w_37_reserved_keys_are_invisible() {
        let wanted = eval("${{ steps.setup.outputs.kruntimes.io/env/PATH }}");
        assert_eq!(wanted.unwrap_err(), "no outputs for setup");
        let wanted = eval("${{ steps.mixed.outputs.kruntimes.io/env/PATH }}");
        assert_eq!(
            wanted.unwrap_err(),
            "no output \"kruntimes.io/env/PATH\" in mixed"
        );
    }
}
