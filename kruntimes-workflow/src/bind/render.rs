//! Substitutes inputs in a stored definition and leaves every other expression for later.

use std::collections::BTreeMap;

use kruntimes_core::api::{Job, Matrix, Output, Step, Strategy};
use kruntimes_core::limits::{ARG_MAX_CHARS, OUTPUT_VALUE_MAX_BYTES, SCRIPT_MAX_CHARS};
use kruntimes_core::message::quoted;

use crate::condition::{Condition, ConditionError};
use crate::expr::{Body, ErrorKind, Segment, Size, segments};
use crate::location::Location;

/// What an expression opener inside inserted text is written as (W-28).
const ESCAPED: &str = "${{ '${{' }}";

/// A text that cannot be rendered, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}{problem}")]
pub struct RenderError {
    /// Where.
    pub location: Box<Location>,
    /// Location prefix of the message (W-32).
    pub place: String,
    /// What.
    pub problem: RenderProblem,
}

/// Why a text cannot be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RenderProblem {
    /// An expression names an input that is not declared.
    #[error("unknown input {}", quoted(.0))]
    UnknownInput(String),
    /// An expression names a value of a matrix that is not there (W-200).
    #[error("no value {0}")]
    UnknownValue(String),
    /// A condition cannot be read (W-198).
    #[error("{0}")]
    Condition(ConditionError),
    /// An expression has no end or no body.
    #[error("{0}")]
    Syntax(ErrorKind),
    /// The rendered text breaks a limit of the API (W-40).
    #[error("rendered {field} is {bytes} bytes, exceeds {limit}")]
    TooLong {
        /// What was rendered.
        field: String,
        /// Its length.
        bytes: usize,
        /// The longest length allowed, in characters.
        limit: usize,
    },
}

/// Renders one text (W-28).
///
/// What an inserted value contains stays data: wherever an expression opener
/// would arise from inserted text, even together with its surroundings, it is
/// written as a literal.
///
/// # Errors
///
/// The first undeclared input or malformed expression, with its byte offset.
pub fn text(
    template: &str,
    inputs: &BTreeMap<String, String>,
) -> Result<String, (usize, RenderProblem)> {
    substitute(template, |body| match Body::parse(body) {
        Ok(Body::Input(name)) => {
            let unknown = || RenderProblem::UnknownInput(name.to_owned());
            inputs.get(name).map(Some).ok_or_else(unknown)
        }
        Err(kind @ ErrorKind::InvalidInputs(_)) => Err(RenderProblem::Syntax(kind)),
        Ok(Body::Steps(_) | Body::Jobs(_) | Body::Literal(_)) | Err(_) => Ok(None),
    })
}

/// Renders the references of one text that begin with `prefix`, such as `matrix.` (W-200).
///
/// # Errors
///
/// The first name without a value, or malformed expression, with its byte offset.
pub fn text_of(
    template: &str,
    prefix: &str,
    values: &BTreeMap<String, String>,
) -> Result<String, (usize, RenderProblem)> {
    substitute(template, |body| {
        let Some(name) = body.strip_prefix(prefix) else {
            return Ok(None);
        };
        let unknown = || RenderProblem::UnknownValue(body.to_owned());
        values.get(name).map(Some).ok_or_else(unknown)
    })
}

/// Replaces the expressions that have a value; the others stay as they are (W-28).
fn substitute<'a>(
    template: &str,
    value: impl Fn(&str) -> Result<Option<&'a String>, RenderProblem>,
) -> Result<String, (usize, RenderProblem)> {
    let mut result = String::new();
    // Text and values since the last expression that stays; an opener in it is never meant as one.
    let mut plain = String::new();
    for segment in segments(template) {
        match segment.map_err(|error| (error.offset, RenderProblem::Syntax(error.kind)))? {
            Segment::Text(text) => plain.push_str(text),
            Segment::Expression {
                offset,
                source,
                body,
            } => {
                if let Some(value) = value(body).map_err(|problem| (offset, problem))? {
                    plain.push_str(value);
                    continue;
                }
                result.push_str(&plain.replace("${{", ESCAPED));
                plain.clear();
                result.push_str(source);
            }
        }
    }
    result.push_str(&plain.replace("${{", ESCAPED));
    Ok(result)
}

/// Renders the jobs of a template (W-102).
///
/// # Errors
///
/// The first problem, jobs sorted by name, with the prefixes of W-32.
pub fn jobs(
    jobs: &BTreeMap<String, Job>,
    inputs: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, Job>, RenderError> {
    let mut rendered = jobs.clone();
    for (name, job) in &mut rendered {
        let place = Place::new(inputs, Location::job(name), format!("job {}", quoted(name)));
        place.map(&mut job.with, "with", |name| Field::Input(name))?;
        place.map(&mut job.outputs, "outputs", |name| Field::Output(name))?;
        place.condition(&mut job.condition)?;
        if let Some(matrix) = &mut job.matrix {
            place.matrix(matrix)?;
        }
        for step in &mut job.steps {
            let location = Location::job(name).step(&step.name);
            let prefix = format!("job {} step {}", quoted(name), quoted(&step.name));
            Place::new(inputs, location, prefix).step(step)?;
        }
    }
    Ok(rendered)
}

/// Renders the rules for the whole execution: the name of the concurrency group (W-203).
pub(super) fn strategy(
    strategy: Option<&Strategy>,
    inputs: &BTreeMap<String, String>,
) -> Result<Option<Strategy>, RenderError> {
    let mut rendered = strategy.cloned();
    let group = rendered
        .as_mut()
        .and_then(|rules| rules.concurrency.as_mut());
    if let Some(group) = group {
        let place = Place::new(inputs, Location::default(), "strategy".to_owned());
        place.one(&mut group.group, "concurrency", Field::Value)?;
    }
    Ok(rendered)
}

/// Renders the declared outputs of a template, which is what gets frozen (W-102).
///
/// # Errors
///
/// The first problem, with the prefixes of W-32.
pub fn outputs(
    outputs: &BTreeMap<String, Output>,
    inputs: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, Output>, RenderError> {
    let mut rendered = outputs.clone();
    for (name, output) in &mut rendered {
        let field = Field::Output(name);
        let place = Place::new(inputs, Location::default(), String::new());
        place.one(&mut output.value, "", field)?;
    }
    Ok(rendered)
}

/// One rendered text, as its limit and its messages name it.
#[derive(Clone, Copy)]
enum Field<'a> {
    Run,
    Arg(usize),
    Env(&'a str),
    Input(&'a str),
    Output(&'a str),
    Condition,
    Value,
}

impl Field<'_> {
    fn name(self) -> String {
        match self {
            Self::Run => "run".to_owned(),
            Self::Arg(index) => format!("arg[{index}]"),
            Self::Env(name) => format!("env[{name}]"),
            Self::Input(name) => format!("input {}", quoted(name)),
            Self::Output(name) => format!("output {}", quoted(name)),
            Self::Condition => "if".to_owned(),
            Self::Value => "value".to_owned(),
        }
    }

    fn limit(self) -> usize {
        match self {
            Self::Run => SCRIPT_MAX_CHARS,
            Self::Arg(_) => ARG_MAX_CHARS,
            Self::Output(_) => OUTPUT_VALUE_MAX_BYTES,
            Self::Env(_) | Self::Input(_) | Self::Condition | Self::Value => usize::MAX,
        }
    }
}

struct Place<'a> {
    inputs: &'a BTreeMap<String, String>,
    location: Location,
    prefix: String,
}

impl<'a> Place<'a> {
    fn new(inputs: &'a BTreeMap<String, String>, location: Location, prefix: String) -> Self {
        Self {
            inputs,
            location,
            prefix,
        }
    }

    fn step(&self, step: &mut Step) -> Result<(), RenderError> {
        if let Some(script) = &mut step.run {
            self.one(script, "run", Field::Run)?;
        }
        for (index, arg) in step.args.iter_mut().enumerate() {
            self.one(arg, "args", Field::Arg(index))?;
        }
        self.condition(&mut step.condition)?;
        self.map(&mut step.env, "env", |name| Field::Env(name))?;
        self.map(&mut step.with, "with", |name| Field::Input(name))
    }

    /// Binds the inputs of an `if`; their values stay data.
    fn condition(&self, condition: &mut Option<String>) -> Result<(), RenderError> {
        let Some(text) = condition.as_ref().filter(|text| text.contains("inputs.")) else {
            return Ok(());
        };
        let refused = |problem| self.error("if", Field::Condition, (0, problem));
        let read = Condition::parse(text);
        let read = read.map_err(|cause| refused(RenderProblem::Condition(cause)))?;
        let bound = read
            .bind("inputs.", self.inputs)
            .map_err(|name| refused(RenderProblem::UnknownInput(name)))?;
        *condition = Some(bound.to_string());
        Ok(())
    }

    fn matrix(&self, matrix: &mut Matrix) -> Result<(), RenderError> {
        let axes = matrix.axes.values_mut().flatten();
        let entries = matrix.include.iter_mut().chain(&mut matrix.exclude);
        let entries = entries.flat_map(BTreeMap::values_mut);
        for value in axes.chain(entries) {
            let problem = |found| self.error("matrix", Field::Value, found);
            // What is inserted is no expression, and legs are no templates.
            let rendered = text(value, self.inputs).map_err(problem)?;
            *value = rendered.replace(ESCAPED, "${{");
        }
        Ok(())
    }

    fn map(
        &self,
        map: &mut BTreeMap<String, String>,
        group: &str,
        field: impl Fn(&str) -> Field<'_>,
    ) -> Result<(), RenderError> {
        for (name, value) in map {
            self.one(value, group, field(name))?;
        }
        Ok(())
    }

    fn one(&self, value: &mut String, group: &str, field: Field<'_>) -> Result<(), RenderError> {
        let rendered = text(value, self.inputs).map_err(|found| self.error(group, field, found))?;
        let size = Size::of(&rendered);
        if size.chars > field.limit() {
            let problem = RenderProblem::TooLong {
                field: field.name(),
                bytes: size.bytes,
                limit: field.limit(),
            };
            return Err(self.error(group, field, (0, problem)));
        }
        *value = rendered;
        Ok(())
    }

    fn error(
        &self,
        group: &str,
        field: Field<'_>,
        (offset, problem): (usize, RenderProblem),
    ) -> RenderError {
        let mut place = match (self.prefix.as_str(), group) {
            ("", _) => String::new(),
            (prefix, group) => format!("{prefix} {group}: "),
        };
        let named = matches!(problem, RenderProblem::TooLong { .. });
        match field {
            Field::Run | Field::Condition | Field::Value => {}
            Field::Arg(_) | Field::Env(_) | Field::Input(_) | Field::Output(_) if named => {}
            Field::Arg(_) | Field::Env(_) | Field::Input(_) | Field::Output(_) => {
                place.push_str(&field.name());
                place.push_str(": ");
            }
        }
        RenderError {
            location: Box::new(self.location.clone().field(field.name()).offset(offset)),
            place,
            problem,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::expr::{Scope, evaluate};

    fn inputs(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        let own = |&(k, v): &(&str, &str)| (k.to_owned(), v.to_owned());
        entries.iter().map(own).collect()
    }

    #[test]
    fn ordinary_values_are_inserted_unchanged() {
        let inputs = inputs(&[("x", "a$b {{ }} '"), ("n", "")]);
        let rendered = text(
            "<${{ inputs.x }}${{ inputs.n }}> ${{ jobs.a.outputs.b }}",
            &inputs,
        );
        assert_eq!(rendered.unwrap(), "<a$b {{ }} '> ${{ jobs.a.outputs.b }}");
    }

    #[test]
    fn w_28_inserted_openers_stay_data() {
        for (template, x, y) in [
            ("${{ inputs.x }}", "${{ steps.s.outputs.k }}", ""),
            ("$${{ inputs.x }}", "{{ oops }}", ""),
            ("${${{ inputs.x }}", "{ oops }}", ""),
            ("${{ inputs.x }}{{ oops }}", "$", ""),
            ("${{ inputs.x }}${{ inputs.y }}", "$", "{{"),
            ("${{ inputs.x }}${{ inputs.y }}{", "${", ""),
            ("$${{ inputs.y }}{{ ${{ inputs.x }}", "${{", ""),
        ] {
            let inputs = inputs(&[("x", x), ("y", y)]);
            let want = template
                .replace("${{ inputs.x }}", x)
                .replace("${{ inputs.y }}", y);
            let rendered = text(template, &inputs).unwrap();
            assert_eq!(
                evaluate(&rendered, &Scope::default()).unwrap(),
                want,
                "{template}"
            );
        }
    }

    proptest! {
        /// Rendering first and evaluating later equals evaluating at once (W-26, W-28).
        #[test]
        fn w_28_rendering_commutes_with_evaluation(
            pieces in prop::collection::vec("[${}' ]{0,4}|\\$\\{\\{ inputs\\.[xy] \\}\\}|\\$\\{\\{ jobs\\.j\\.outputs\\.k \\}\\}", 0..8),
            x in "[${}' a]{0,6}", y in "[${}' a]{0,6}", k in "[${}' a]{0,6}",
        ) {
            let template = pieces.concat();
            let inputs = inputs(&[("x", &x), ("y", &y)]);
            let jobs: BTreeMap<_, _> = [("j".to_owned(), super::tests::inputs(&[("k", &k)]))].into();
            let scope = Scope { inputs: Some(&inputs), jobs: Some(&jobs), ..Scope::default() };
            if let Ok(want) = evaluate(&template, &scope) {
                let rendered = text(&template, &inputs).unwrap();
                let later = Scope { jobs: Some(&jobs), ..Scope::default() };
                prop_assert_eq!(evaluate(&rendered, &later).unwrap(), want);
            }
        }
    }

    #[test]
    fn w_32_w_102_errors_say_where() {
        let job = |edit: &dyn Fn(&mut Job)| {
            let mut job = Job {
                steps: vec![Step {
                    name: "s".into(),
                    ..Step::default()
                }],
                ..Job::default()
            };
            edit(&mut job);
            let jobs_in = [("j".to_owned(), job)].into();
            jobs(&jobs_in, &BTreeMap::new()).unwrap_err()
        };
        let bad = || "ab ${{ inputs.q }}".to_owned();
        let map = || BTreeMap::from([("n".to_owned(), bad())]);
        for (error, want) in [
            (job(&|j| j.with = map()), "job \"j\" with: input \"n\": "),
            (
                job(&|j| j.outputs = map()),
                "job \"j\" outputs: output \"n\": ",
            ),
            (
                job(&|j| j.steps[0].run = Some(bad())),
                "job \"j\" step \"s\" run: ",
            ),
            (
                job(&|j| j.steps[0].args = vec![bad()]),
                "job \"j\" step \"s\" args: arg[0]: ",
            ),
            (
                job(&|j| j.steps[0].env = map()),
                "job \"j\" step \"s\" env: env[n]: ",
            ),
            (
                job(&|j| j.steps[0].with = map()),
                "job \"j\" step \"s\" with: input \"n\": ",
            ),
        ] {
            assert_eq!(error.to_string(), format!("{want}unknown input \"q\""));
            assert_eq!(error.location.offset, Some(3));
        }
    }

    #[test]
    fn w_40_a_rendered_text_has_a_limit() {
        let step = Step {
            name: "s".into(),
            run: Some("${{ inputs.x }}".repeat(5)),
            ..Step::default()
        };
        let job = Job {
            steps: vec![step],
            ..Job::default()
        };
        let values = inputs(&[("x", &"y".repeat(60_000))]);
        let error = jobs(&[("j".to_owned(), job)].into(), &values).unwrap_err();
        assert_eq!(
            error.to_string(),
            "job \"j\" step \"s\" run: rendered run is 300000 bytes, exceeds 262144"
        );
    }
}
