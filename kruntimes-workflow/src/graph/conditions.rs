//! Conditions of a definition, read before anything runs (W-38, W-198).

use std::collections::{BTreeMap, BTreeSet};

use kruntimes_core::api::Job;

use super::{Invalid, Problem, Subject, ancestors};
use crate::condition::{Condition, ConditionError};
use crate::expr::Body;
use crate::extend::Extensions;
use crate::location::Location;

/// What a condition reads beyond the references of expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference<'a> {
    /// `needs.<job>.result`, also written `jobs.<job>.result`.
    JobResult(&'a str),
    /// `steps.<step>.outcome` or `steps.<step>.conclusion`.
    StepResult(&'a str, StepResult),
    /// An expression; `needs.` of outputs means `jobs.`.
    Expression(&'a str),
    /// `needs.<rest>` that names outputs.
    NeedsOutput(&'a str),
}

/// Which result of a step is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepResult {
    /// How its Run ended.
    Outcome,
    /// What later steps go by.
    Conclusion,
}

/// Sorts a reference of a condition.
pub fn reference(text: &str) -> Reference<'_> {
    let needs = text.strip_prefix("needs.");
    let of_job = needs.or_else(|| text.strip_prefix("jobs."));
    if let Some(job) = of_job.and_then(|rest| named(rest, ".result")) {
        return Reference::JobResult(job);
    }
    if let Some(rest) = needs {
        return Reference::NeedsOutput(rest);
    }
    let step = text.strip_prefix("steps.");
    let result = |suffix, result| {
        let step = step.and_then(|rest| named(rest, suffix))?;
        Some(Reference::StepResult(step, result))
    };
    result(".outcome", StepResult::Outcome)
        .or_else(|| result(".conclusion", StepResult::Conclusion))
        .unwrap_or(Reference::Expression(text))
}

/// Takes a field off; `<name>.outputs.result` is an output of that name and no field.
fn named<'a>(rest: &'a str, field: &str) -> Option<&'a str> {
    let name = rest.strip_suffix(field)?;
    (!name.ends_with(".outputs")).then_some(name)
}

/// Names that a condition may use.
struct Names<'a> {
    jobs: BTreeSet<&'a str>,
    steps: BTreeSet<&'a str>,
    extensions: &'a Extensions,
}

/// Checks every condition of every job: its syntax, and the names it uses.
pub(super) fn check(jobs: &BTreeMap<String, Job>, extensions: &Extensions) -> Result<(), Invalid> {
    for (name, job) in jobs {
        let conditional = |step: &&kruntimes_core::api::Step| step.condition.is_some();
        if job.condition.is_none() && !job.steps.iter().any(|step| conditional(&step)) {
            continue;
        }
        let mut names = Names {
            jobs: ancestors(jobs, name),
            steps: BTreeSet::new(),
            extensions,
        };
        if let Some(text) = &job.condition {
            names.one(text).map_err(|cause| {
                let (subject, cause) = (Subject::Job(name.clone()), Box::new(cause));
                Problem::Condition { subject, cause }.at(Location::job(name).field("if"))
            })?;
        }
        for step in &job.steps {
            if let Some(text) = &step.condition {
                names.one(text).map_err(|cause| {
                    let subject = Subject::Step(name.clone(), step.name.clone());
                    let cause = Box::new(cause);
                    let location = Location::job(name).step(&step.name).field("if");
                    Problem::Condition { subject, cause }.at(location)
                })?;
            }
            names.steps.insert(&step.name);
        }
    }
    Ok(())
}

impl Names<'_> {
    fn one(&self, text: &str) -> Result<(), ConditionError> {
        let condition = Condition::parse(text)?;
        for name in condition.functions() {
            if !self.extensions.contexts.has_function(name) {
                return Err(ConditionError::UnknownFunction(name.to_owned()));
            }
        }
        condition
            .references()
            .into_iter()
            .try_for_each(|text| self.reference(text))
    }

    fn reference(&self, text: &str) -> Result<(), ConditionError> {
        let job = |name: &str| self.jobs.contains(name) || self.is_matrix(name);
        let known = |known: bool, kind: &str, name: &str| {
            let said = || ConditionError::Reference(format!("no {kind} {name} may be read here"));
            if known { Ok(()) } else { Err(said()) }
        };
        let expression = match reference(text) {
            Reference::JobResult(name) => return known(job(name), "job", name),
            Reference::StepResult(name, _) => {
                return known(self.steps.contains(name), "step", name);
            }
            Reference::NeedsOutput(rest) => format!("jobs.{rest}"),
            Reference::Expression(text) => text.to_owned(),
        };
        match Body::parse(&expression) {
            Ok(Body::Jobs(target)) => {
                let (name, _) = target.split(job);
                known(job(name), "job", name)
            }
            Ok(Body::Steps(target)) => {
                let (name, _) = target.split(|name| self.steps.contains(name));
                known(self.steps.contains(name), "step", name)
            }
            // A definition that is rendered later has its inputs then.
            Ok(Body::Input(_) | Body::Literal(_)) => Ok(()),
            Err(kind) => {
                let (prefix, _) = expression.split_once('.').unwrap_or_default();
                if prefix == "matrix" || self.extensions.contexts.has(prefix) {
                    return Ok(());
                }
                Err(ConditionError::Reference(kind.to_string()))
            }
        }
    }

    /// Tells whether all legs of a matrix are among the ancestors.
    fn is_matrix(&self, name: &str) -> bool {
        let prefix = format!("{name}.");
        self.jobs.iter().any(|job| job.starts_with(&prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::validate_with;
    use crate::testing::{a_job, jobs};

    fn said(text: &str, step: Option<&str>) -> Result<(), String> {
        let mut all = jobs([
            ("a", a_job()),
            ("b", a_job().needs(&["a"]).step("one", "1").step("two", "2")),
            ("c", a_job()),
        ]);
        let job = all.get_mut("b").unwrap();
        match step {
            None => job.condition = Some(text.to_owned()),
            Some(step) => {
                let mut steps = job.steps.iter_mut();
                let found = steps.find(|found| found.name == step).unwrap();
                found.condition = Some(text.to_owned());
            }
        }
        validate_with(&all, &Extensions::all()).map_err(|error| error.to_string())
    }

    #[test]
    fn w_38_w_198_names_in_conditions_are_checked_before_anything_runs() {
        let job = |said: &str| Err(format!("job \"b\" if: {said}"));
        let step = |said: &str| Err(format!("job \"b\" step \"two\" if: {said}"));
        for (text, at, want) in [
            ("needs.a.result == 'skipped'", None, Ok(())),
            (
                "jobs.a.result == 'success' && needs.a.outputs.x == '1'",
                None,
                Ok(()),
            ),
            ("jobs.a.outputs.x == inputs.y", None, Ok(())),
            ("needs.a.outputs.result == '1'", None, Ok(())),
            ("steps.one.outputs.outcome == '1'", Some("two"), Ok(())),
            (
                "needs.c.result == 'success'",
                None,
                job("no job c may be read here"),
            ),
            (
                "jobs.ghost.outputs.x == ''",
                None,
                job("no job ghost may be read here"),
            ),
            (
                "steps.one.outcome == 'x'",
                None,
                job("no step one may be read here"),
            ),
            (
                "steps.one.outcome == 'failure' || always()",
                Some("two"),
                Ok(()),
            ),
            (
                "steps.one.outputs.k == jobs.a.outputs.k",
                Some("two"),
                Ok(()),
            ),
            (
                "steps.two.conclusion == 'failure'",
                Some("two"),
                step("no step two may be read here"),
            ),
            (
                "upper('a') == 'A'",
                Some("two"),
                step("unknown function \"upper\" in condition"),
            ),
            (
                "env.X == 'A'",
                Some("two"),
                step("unknown ref prefix: env (expected inputs, steps, or jobs)"),
            ),
        ] {
            assert_eq!(said(text, at), want, "{text}");
        }
    }
}
