//! Shapes of jobs, steps, inputs and outputs: what excludes what, and how large it may be.

use std::collections::BTreeMap;

use kruntimes_core::api::{ActionSpec, Input, Job, Output, Step};
use kruntimes_core::keys::OUTPUT_ENV_PREFIX;
use kruntimes_core::limits::{
    ARG_MAX_CHARS, ARGS_MAX, ENV_MAX, JOBS_MAX, LABEL_MAX, OUTPUT_VALUE_MAX_BYTES,
    OUTPUTS_MAX_KEYS, SCRIPT_MAX_CHARS, STEPS_MAX,
};

use super::rules::{is_input_name, is_label, is_output_name};
use super::{Invalid, Problem, References, Subject, duplicate};
use crate::expr::Size;
use crate::extend::Extensions;
use crate::location::Location;

const ARTIFACTS_MAX: usize = 32;
const PATH_MAX_CHARS: usize = 4096;

/// One place of a definition: what to call it and where it is.
#[derive(Clone)]
struct Place {
    subject: Subject,
    location: Location,
}

impl Place {
    fn job(name: &str) -> Self {
        Self {
            subject: Subject::Job(name.to_owned()),
            location: Location::job(name),
        }
    }

    fn refuse(&self, field: &str, problem: Problem) -> Invalid {
        problem.at(self.location.clone().field(field))
    }

    fn shape(&self, field: &str, broken: bool, rule: &'static str) -> Result<(), Invalid> {
        let subject = self.subject.clone();
        ensure(!broken, || {
            self.refuse(field, Problem::Shape { subject, rule })
        })
    }

    fn limit(&self, what: &'static str, actual: usize, limit: usize) -> Result<(), Invalid> {
        let subject = self.subject.clone();
        ensure(actual <= limit, || {
            let problem = Problem::Limit {
                subject,
                what,
                actual,
                limit,
            };
            self.refuse(what, problem)
        })
    }

    fn plain(&self, what: &'static str, text: &str) -> Result<(), Invalid> {
        let subject = self.subject.clone();
        ensure(!text.contains("${{"), || {
            self.refuse(what, Problem::Expression { subject, what })
        })
    }

    fn named(&self, what: &'static str, name: &str, legal: bool) -> Result<(), Invalid> {
        let subject = self.subject.clone();
        let name = name.to_owned();
        ensure(legal, || {
            let problem = Problem::Name {
                subject,
                what,
                name,
            };
            self.refuse(what, problem)
        })
    }
}

fn ensure(holds: bool, problem: impl FnOnce() -> Invalid) -> Result<(), Invalid> {
    if holds { Ok(()) } else { Err(problem()) }
}

/// Checks the shape of every job, sorted by name.
pub(super) fn jobs(jobs: &BTreeMap<String, Job>, extensions: &Extensions) -> Result<(), Invalid> {
    let whole = Place {
        subject: Subject::Object,
        location: Location::default(),
    };
    whole.shape("jobs", jobs.is_empty(), "must contain at least one job")?;
    whole.limit("jobs", jobs.len(), JOBS_MAX)?;
    for (name, job) in jobs {
        let place = Place::job(name);
        place.named("name", name, is_label(name))?;
        match &job.uses {
            Some(workflow) => call(&place, name, job, workflow, &extensions.references)?,
            None => inline(&place, name, job, &extensions.references)?,
        }
        place.limit("needs", job.needs.len(), JOBS_MAX)?;
        for need in &job.needs {
            place.limit("needs", need.len(), LABEL_MAX)?;
        }
        place.limit("outputs", job.outputs.len(), OUTPUTS_MAX_KEYS)?;
        for (key, value) in &job.outputs {
            place.plain("outputs", key)?;
            place.limit("outputs", value.chars().count(), OUTPUT_VALUE_MAX_BYTES)?;
        }
    }
    Ok(())
}

/// A job that calls a Workflow (W-7).
fn call(
    place: &Place,
    name: &str,
    job: &Job,
    workflow: &str,
    references: &References,
) -> Result<(), Invalid> {
    let mixed = job.runs_on.is_some() || !job.steps.is_empty();
    ensure(!mixed, || {
        let problem = Problem::CallWithSteps {
            job: name.to_owned(),
            workflow: workflow.to_owned(),
        };
        place.refuse("uses", problem)
    })?;
    place.named("uses", workflow, references.allow(workflow))?;
    with(place, &job.with)
}

/// A job that runs steps (W-7).
fn inline(place: &Place, name: &str, job: &Job, references: &References) -> Result<(), Invalid> {
    let own = || name.to_owned();
    place.shape(
        "with",
        !job.with.is_empty(),
        "may set with only together with uses",
    )?;
    let runtime = job.runs_on.as_deref().unwrap_or_default();
    ensure(!runtime.is_empty(), || {
        place.refuse("runs-on", Problem::NoRuntime { job: own() })
    })?;
    place.plain("runs-on", runtime)?;
    place.named("runs-on", runtime, is_label(runtime))?;
    ensure(!job.steps.is_empty(), || {
        place.refuse("steps", Problem::NoSteps { job: own() })
    })?;
    place.limit("steps", job.steps.len(), STEPS_MAX)?;
    for step in &job.steps {
        let place = Place {
            subject: Subject::Step(own(), step.name.clone()),
            location: Location::job(name).step(&step.name),
        };
        let both = step.run.is_some() == step.uses.is_some();
        place.shape("run", both, "must set exactly one of run and uses")?;
        self::step(&place, step, references)?;
    }
    Ok(())
}

/// What every step has in common (W-8).
fn step(place: &Place, step: &Step, references: &References) -> Result<(), Invalid> {
    place.named("name", &step.name, is_label(&step.name))?;
    if let Some(action) = &step.uses {
        place.named("uses", action, references.allow(action))?;
        let extra = !(step.args.is_empty() && step.env.is_empty() && step.artifacts.is_empty());
        place.shape(
            "uses",
            extra,
            "may not set args, env or artifacts together with uses",
        )?;
        return with(place, &step.with);
    }
    place.shape(
        "with",
        !step.with.is_empty(),
        "may set with only together with uses",
    )?;
    let script = step.run.as_deref().unwrap_or_default();
    place.limit("run", script.chars().count(), SCRIPT_MAX_CHARS)?;
    place.limit("args", step.args.len(), ARGS_MAX)?;
    for arg in &step.args {
        place.limit("args", Size::of(arg).chars, ARG_MAX_CHARS)?;
    }
    place.limit("env", step.env.len(), ENV_MAX)?;
    for name in step.env.keys() {
        place.plain("env", name)?;
    }
    place.limit("artifacts", step.artifacts.len(), ARTIFACTS_MAX)?;
    for artifact in &step.artifacts {
        for text in [&artifact.from, &artifact.path] {
            place.plain("artifacts", text)?;
            place.shape(
                "artifacts",
                text.is_empty(),
                "must set from and path of artifacts",
            )?;
            place.limit("artifacts", text.chars().count(), PATH_MAX_CHARS)?;
        }
    }
    Ok(())
}

fn with(place: &Place, with: &BTreeMap<String, String>) -> Result<(), Invalid> {
    place.limit("with", with.len(), ENV_MAX)?;
    with.keys().try_for_each(|name| place.plain("with", name))
}

/// Checks an Action: its steps first, in order, then inputs and outputs.
///
/// # Errors
///
/// The first problem found.
pub fn action(spec: &ActionSpec) -> Result<(), Invalid> {
    action_with(spec, &Extensions::none())
}

/// Does what [`action`] does, for an engine that accepts extensions.
///
/// Steps of an Action run one after the other: they have no conditions of their own.
///
/// # Errors
///
/// The first problem found.
pub fn action_with(spec: &ActionSpec, extensions: &Extensions) -> Result<(), Invalid> {
    let subject = |step: &str| Subject::ActionStep(step.to_owned());
    crate::extend::refuse_steps(&spec.steps, extensions, Location::default, subject)?;
    ensure(!spec.steps.is_empty(), || {
        Problem::ActionWithoutSteps.at(Location::default().field("steps"))
    })?;
    for step in &spec.steps {
        let place = Place {
            subject: Subject::ActionStep(step.name.clone()),
            location: Location::default().step(&step.name),
        };
        let script = step.run.as_deref().is_some_and(|run| !run.is_empty());
        ensure(
            script && step.uses.is_none() && step.with.is_empty(),
            || place.refuse("run", Problem::ActionStepNotRun(step.name.clone())),
        )?;
        place.limit("steps", spec.steps.len(), STEPS_MAX)?;
        let chosen = step.condition.is_some() || step.continue_on_error || step.gate.is_some();
        place.shape("if", chosen, "may not set if, continueOnError or gate")?;
        self::step(&place, step, &extensions.references)?;
    }
    if let Some(name) = duplicate(spec.steps.iter().map(|step| step.name.as_str())) {
        let problem = Problem::DuplicateActionStep(name.to_owned());
        return Err(problem.at(Location::default().step(name).field("name")));
    }
    inputs_with(&spec.inputs, extensions)?;
    for name in spec.outputs.keys() {
        ensure(!name.starts_with(OUTPUT_ENV_PREFIX), || {
            Problem::ReservedOutput(name.clone())
                .at(Location::default().field(format!("outputs.{name}")))
        })?;
    }
    sizes(&spec.outputs)
}

/// Checks declared inputs (W-23 and section 2).
///
/// # Errors
///
/// The first problem found.
pub fn inputs(inputs: &BTreeMap<String, Input>) -> Result<(), Invalid> {
    inputs_with(inputs, &Extensions::none())
}

/// Does what [`inputs`] does, for an engine that knows further types (W-206).
///
/// # Errors
///
/// The first problem found.
pub fn inputs_with(
    inputs: &BTreeMap<String, Input>,
    extensions: &Extensions,
) -> Result<(), Invalid> {
    for (name, input) in inputs {
        let place = Place {
            subject: Subject::Input(name.clone()),
            location: Location::default().field(format!("inputs.{name}")),
        };
        place.named("inputs", name, is_input_name(name))?;
        place.limit("inputs", inputs.len(), OUTPUTS_MAX_KEYS)?;
        ensure(extensions.input_types.has(&input.input_type), || {
            let (input, name) = (name.clone(), input.input_type.as_str().to_owned());
            place.refuse("type", Problem::InputType { input, name })
        })?;
        let default = input.default.as_deref().unwrap_or_default();
        place.limit("default", default.chars().count(), OUTPUT_VALUE_MAX_BYTES)?;
    }
    Ok(())
}

/// Checks the declared outputs of a Workflow, whose names become annotations (W-103).
///
/// # Errors
///
/// The first problem found.
pub fn outputs(outputs: &BTreeMap<String, Output>) -> Result<(), Invalid> {
    for name in outputs.keys() {
        ensure(is_output_name(name), || {
            Problem::OutputName(name.clone())
                .at(Location::default().field(format!("outputs.{name}")))
        })?;
    }
    sizes(outputs)
}

fn sizes(outputs: &BTreeMap<String, Output>) -> Result<(), Invalid> {
    for (name, output) in outputs {
        let place = Place {
            subject: Subject::Output(name.clone()),
            location: Location::default().field(format!("outputs.{name}")),
        };
        place.limit("outputs", outputs.len(), OUTPUTS_MAX_KEYS)?;
        place.plain("name", name)?;
        place.shape("value", output.value.is_empty(), "must set a value")?;
        place.limit(
            "value",
            output.value.chars().count(),
            OUTPUT_VALUE_MAX_BYTES,
        )?;
    }
    Ok(())
}
