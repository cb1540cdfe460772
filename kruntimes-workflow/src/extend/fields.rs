//! Refuses, by name, fields of extensions that are off (W-6).

use std::collections::BTreeMap;

use kruntimes_core::api::{Job, Step, Strategy, WorkflowRunSpec};

use super::{Extension, Extensions};
use crate::graph::{Invalid, Problem, Subject};
use crate::location::Location;

/// Refuses the first field of jobs whose extension is off: jobs sorted, steps in order.
///
/// # Errors
///
/// Names the job or step, the field and the extension.
pub fn refuse(jobs: &BTreeMap<String, Job>, extensions: &Extensions) -> Result<(), Invalid> {
    for (name, job) in jobs {
        let location = || Location::job(name);
        let used = [
            ("if", Extension::Conditions, job.condition.is_some()),
            (
                "continueOnError",
                Extension::ContinueOnError,
                job.continue_on_error,
            ),
            ("timeout", Extension::Timeouts, job.timeout.is_some()),
            ("matrix", Extension::Matrix, job.matrix.is_some()),
            ("gate", Extension::Gates, job.gate.is_some()),
        ];
        first(&used, extensions, location, || Subject::Job(name.clone()))?;
        refuse_steps(&job.steps, extensions, location, |step| {
            Subject::Step(name.clone(), step.to_owned())
        })?;
    }
    Ok(())
}

/// Refuses the first field of steps whose extension is off.
///
/// # Errors
///
/// Names the step, the field and the extension.
pub fn refuse_steps(
    steps: &[Step],
    extensions: &Extensions,
    location: impl Fn() -> Location,
    subject: impl Fn(&str) -> Subject,
) -> Result<(), Invalid> {
    for step in steps {
        let used = [
            ("if", Extension::Conditions, step.condition.is_some()),
            (
                "continueOnError",
                Extension::ContinueOnError,
                step.continue_on_error,
            ),
            ("timeout", Extension::Timeouts, step.timeout.is_some()),
            ("retry", Extension::StepRetry, step.retry.is_some()),
            ("gate", Extension::Gates, step.gate.is_some()),
        ];
        let location = || location().step(&step.name);
        first(&used, extensions, location, || subject(&step.name))?;
    }
    Ok(())
}

/// Refuses the first field of a whole WorkflowRun whose extension is off.
///
/// # Errors
///
/// Names the field and the extension.
pub fn refuse_spec(spec: &WorkflowRunSpec, extensions: &Extensions) -> Result<(), Invalid> {
    refuse_strategy(spec.strategy.as_deref(), extensions)?;
    let used = [
        ("suspend", Extension::Gates, spec.suspend),
        ("decisions", Extension::Gates, !spec.decisions.is_empty()),
        ("reuse", Extension::Rerun, !spec.reuse.is_empty()),
    ];
    first(&used, extensions, Location::default, || Subject::Object)?;
    refuse(&spec.jobs, extensions)
}

/// Refuses the first rule for the whole execution whose extension is off.
pub(crate) fn refuse_strategy(
    strategy: Option<&Strategy>,
    extensions: &Extensions,
) -> Result<(), Invalid> {
    let Some(strategy) = strategy else {
        return Ok(());
    };
    let used = [
        (
            "strategy.timeout",
            Extension::Timeouts,
            strategy.timeout.is_some(),
        ),
        (
            "strategy.maxParallel",
            Extension::MaxParallel,
            strategy.max_parallel.is_some(),
        ),
        ("strategy.failFast", Extension::FailFast, strategy.fail_fast),
        (
            "strategy.concurrency",
            Extension::Concurrency,
            strategy.concurrency.is_some(),
        ),
    ];
    first(&used, extensions, Location::default, || Subject::Object)
}

fn first(
    used: &[(&'static str, Extension, bool)],
    extensions: &Extensions,
    location: impl Fn() -> Location,
    subject: impl Fn() -> Subject,
) -> Result<(), Invalid> {
    let mut used = used.iter();
    let off = used.find(|(_, extension, used)| *used && !extensions.has(*extension));
    let Some((field, extension, _)) = off else {
        return Ok(());
    };
    let problem = Problem::ExtensionOff {
        subject: subject(),
        field,
        extension: *extension,
    };
    Err(problem.at(location().field(*field)))
}

#[cfg(test)]
mod tests {
    use kruntimes_core::api::{Concurrency, Decision, Matrix, RetryPolicy, Reused};
    use kruntimes_core::duration::Duration;

    use super::*;
    use crate::testing::{a_job, jobs};

    type Edit = fn(&mut WorkflowRunSpec);

    fn job(spec: &mut WorkflowRunSpec) -> &mut Job {
        spec.jobs.get_mut("a").unwrap()
    }

    fn strategy(spec: &mut WorkflowRunSpec) -> &mut Strategy {
        spec.strategy.get_or_insert_default()
    }

    fn cases() -> Vec<(&'static str, Extension, Edit)> {
        vec![
            ("job \"a\" if", Extension::Conditions, |s| {
                job(s).condition = Some("true".into());
            }),
            (
                "job \"a\" continueOnError",
                Extension::ContinueOnError,
                |s| {
                    job(s).continue_on_error = true;
                },
            ),
            ("job \"a\" timeout", Extension::Timeouts, |s| {
                job(s).timeout = Some(Duration::from_secs(1));
            }),
            ("job \"a\" matrix", Extension::Matrix, |s| {
                job(s).matrix = Some(Box::new(Matrix::default()));
            }),
            ("job \"a\" gate", Extension::Gates, |s| {
                job(s).gate = Some("ok".into());
            }),
            ("job \"a\" step \"s\" if", Extension::Conditions, |s| {
                job(s).steps[0].condition = Some("true".into());
            }),
            (
                "job \"a\" step \"s\" continueOnError",
                Extension::ContinueOnError,
                |s| {
                    job(s).steps[0].continue_on_error = true;
                },
            ),
            ("job \"a\" step \"s\" timeout", Extension::Timeouts, |s| {
                job(s).steps[0].timeout = Some(Duration::from_secs(1));
            }),
            ("job \"a\" step \"s\" retry", Extension::StepRetry, |s| {
                job(s).steps[0].retry = Some(Box::new(RetryPolicy::default()));
            }),
            ("job \"a\" step \"s\" gate", Extension::Gates, |s| {
                job(s).steps[0].gate = Some("ok".into());
            }),
        ]
    }

    fn whole() -> Vec<(&'static str, Extension, Edit)> {
        vec![
            ("definition strategy.timeout", Extension::Timeouts, |s| {
                strategy(s).timeout = Some(Duration::from_secs(1));
            }),
            (
                "definition strategy.maxParallel",
                Extension::MaxParallel,
                |s| {
                    strategy(s).max_parallel = Some(1);
                },
            ),
            ("definition strategy.failFast", Extension::FailFast, |s| {
                strategy(s).fail_fast = true;
            }),
            (
                "definition strategy.concurrency",
                Extension::Concurrency,
                |s| {
                    strategy(s).concurrency = Some(Concurrency::default());
                },
            ),
            ("definition suspend", Extension::Gates, |s| s.suspend = true),
            ("definition decisions", Extension::Gates, |s| {
                s.decisions.insert("ok".into(), Decision::Approved);
            }),
            ("definition reuse", Extension::Rerun, |s| {
                s.reuse.insert("a".into(), Reused::default());
            }),
        ]
    }

    #[test]
    fn w_6_every_field_is_refused_by_name_while_its_extension_is_off() {
        let plain = WorkflowRunSpec {
            jobs: jobs([("a", a_job())]),
            ..WorkflowRunSpec::default()
        };
        assert_eq!(refuse_spec(&plain, &Extensions::none()), Ok(()));
        for (what, extension, edit) in cases().into_iter().chain(whole()) {
            let mut spec = plain.clone();
            edit(&mut spec);
            // All others being on does not help.
            let others = Extension::ALL.into_iter().filter(|one| *one != extension);
            for off in [Extensions::none(), others.collect()] {
                assert_eq!(
                    refuse_spec(&spec, &off).unwrap_err().to_string(),
                    format!("{what} is not supported: workflow extension {extension} is off")
                );
            }
            let on = Extensions::none().with(extension);
            assert_eq!(refuse_spec(&spec, &on), Ok(()), "{what}");
        }
    }
}
