//! Judges every text of a definition in the context it will be evaluated in (section 5.2).

use std::collections::{BTreeMap, BTreeSet};

use kruntimes_core::api::{ActionSpec, Input, Job, Output, Step};
use kruntimes_core::message::quoted;

use super::{Finding, Severity};
use crate::expansion::Legs;
use crate::expr::{Body, ErrorKind, Known, Names, Segment, check, segments};
use crate::extend::Extensions;
use crate::graph;
use crate::location::Location;

/// Which inputs texts may use.
#[derive(Clone, Copy)]
pub(super) enum Inputs<'a> {
    /// None at all.
    None,
    /// Those of the definition.
    Declared(&'a BTreeMap<String, Input>),
}

/// Collects findings about texts.
pub(super) struct Texts<'a> {
    inputs: Inputs<'a>,
    extensions: &'a Extensions,
    /// Jobs that became legs; they may be named as well (W-200).
    legs: &'a Legs,
    pub(super) findings: Vec<Finding>,
}

impl<'a> Texts<'a> {
    pub(super) fn new(inputs: Inputs<'a>, extensions: &'a Extensions, legs: &'a Legs) -> Self {
        Self {
            inputs,
            extensions,
            legs,
            findings: Vec::new(),
        }
    }

    /// Judges every text of every job.
    pub(super) fn jobs(&mut self, jobs: &BTreeMap<String, Job>) {
        for (name, job) in jobs {
            let ancestors = graph::ancestors(jobs, name);
            let legs = self.legs;
            let known_job = |name: &str| jobs.contains_key(name) || legs.contains_key(name);
            let seen = |name: &str| ancestors.contains(name);
            let visible_job = |name: &str| {
                let of = legs.get(name);
                of.map_or_else(|| seen(name), |legs| legs.iter().all(|leg| seen(leg)))
            };
            let jobs_names = Some(Names {
                known: &known_job,
                visible: &visible_job,
            });
            self.map(
                &job.with,
                &Location::job(name),
                Field::Input,
                (None, jobs_names),
            );
            let mut before = BTreeSet::new();
            let known_step = |name: &str| job.steps.iter().any(|step| step.name == name);
            for step in &job.steps {
                let visible_step = |name: &str| before.contains(name);
                let steps = Some(Names {
                    known: &known_step,
                    visible: &visible_step,
                });
                let location = Location::job(name).step(&step.name);
                self.step(step, &location, (steps, jobs_names));
                before.insert(step.name.as_str());
            }
            let steps = Some(Names {
                known: &known_step,
                visible: &known_step,
            });
            if job.uses.is_none() {
                self.map(
                    &job.outputs,
                    &Location::job(name),
                    Field::Output,
                    (steps, None),
                );
            }
        }
    }

    /// Judges the declared outputs of a Workflow.
    pub(super) fn contract(
        &mut self,
        outputs: &BTreeMap<String, Output>,
        jobs: &BTreeMap<String, Job>,
    ) {
        let legs = self.legs;
        let known = |name: &str| jobs.contains_key(name) || legs.contains_key(name);
        let names = Some(Names {
            known: &known,
            visible: &known,
        });
        for (name, output) in outputs {
            let location = Location::default();
            self.text(&output.value, &location, Field::Output(name), (None, names));
        }
    }

    /// Judges every text of an Action; any job may be a dependency of the caller.
    pub(super) fn action(&mut self, spec: &ActionSpec) {
        let any = |_: &str| true;
        let jobs = Some(Names {
            known: &|_| false,
            visible: &any,
        });
        let own = |name: &str| spec.steps.iter().any(|step| step.name == name);
        let mut before = BTreeSet::new();
        for step in &spec.steps {
            // A name the Action does not have means a step of the caller (W-35).
            let visible = |name: &str| before.contains(name) || !own(name);
            let steps = Some(Names {
                known: &own,
                visible: &visible,
            });
            let location = Location::default().step(&step.name);
            self.step(step, &location, (steps, jobs));
            self.caller_steps(step, &location, &own);
            before.insert(step.name.as_str());
        }
        let steps = Some(Names {
            known: &own,
            visible: &own,
        });
        for (name, output) in &spec.outputs {
            let location = Location::default();
            self.text(&output.value, &location, Field::Output(name), (steps, jobs));
        }
    }

    fn step(&mut self, step: &Step, location: &Location, scope: Scope<'_>) {
        if let Some(script) = &step.run {
            self.text(script, location, Field::Run, scope);
            self.injection(script, location);
        }
        for (index, arg) in step.args.iter().enumerate() {
            self.text(arg, location, Field::Arg(index), scope);
        }
        self.map(&step.env, location, Field::Env, scope);
        self.map(&step.with, location, Field::Input, scope);
        if !step.args.is_empty() {
            let message = format!(
                "args of step {} have no effect: an inline script does not receive arguments",
                quoted(&step.name)
            );
            let location = location.clone().field("args");
            self.findings
                .push(Finding::new(Severity::Warning, location, message));
        }
    }

    fn map<'n>(
        &mut self,
        map: &'n BTreeMap<String, String>,
        location: &Location,
        field: impl Fn(&'n str) -> Field<'n>,
        scope: Scope<'_>,
    ) {
        for (name, text) in map {
            self.text(text, location, field(name), scope);
        }
    }

    fn text(
        &mut self,
        text: &str,
        location: &Location,
        field: Field<'_>,
        (steps, jobs): Scope<'_>,
    ) {
        let inputs = self.inputs;
        let declared = |name: &str| match inputs {
            Inputs::None => false,
            Inputs::Declared(inputs) => inputs.contains_key(name),
        };
        let known = Known {
            inputs: match inputs {
                Inputs::None => None,
                Inputs::Declared(_) => Some(&declared),
            },
            steps,
            jobs,
            extra: Some(&self.extensions.contexts),
        };
        for error in check(text, &known) {
            let said = if let ErrorKind::NoInput(name) = &error.kind {
                format!("unknown input {}", quoted(name))
            } else {
                error.to_string()
            };
            let field = field.name();
            let location = location.clone().field(field.clone()).offset(error.offset);
            let message = format!("{}{field}: {said}", owner(&location));
            self.findings
                .push(Finding::new(Severity::Error, location, message));
        }
    }

    /// Reports values that become part of a script, where a shell would execute them.
    fn injection(&mut self, script: &str, location: &Location) {
        for (offset, body) in expressions(script) {
            if let Ok(Body::Input(_) | Body::Steps(_) | Body::Jobs(_)) = Body::parse(body) {
                let message = format!(
                    "the value of {body} becomes part of the script; env passes it as data"
                );
                let location = location.clone().field("run").offset(offset);
                self.findings
                    .push(Finding::new(Severity::Advice, location, message));
            }
        }
    }

    /// Reports Action steps that read steps of whoever calls the Action (W-35).
    fn caller_steps(&mut self, step: &Step, location: &Location, own: &dyn Fn(&str) -> bool) {
        let script = step.run.iter().map(|text| (Field::Run, text));
        let args = step.args.iter().enumerate();
        let args = args.map(|(index, text)| (Field::Arg(index), text));
        let env = step.env.iter().map(|(name, text)| (Field::Env(name), text));
        for (field, text) in script.chain(args).chain(env) {
            for (offset, body) in expressions(text) {
                let Ok(Body::Steps(target)) = Body::parse(body) else {
                    continue;
                };
                let (name, _) = target.split(own);
                if !own(name) {
                    let message = format!(
                        "{body} reads a step of the caller, which a reusable Action should not rely on"
                    );
                    let location = location.clone().field(field.name()).offset(offset);
                    self.findings
                        .push(Finding::new(Severity::Warning, location, message));
                }
            }
        }
    }
}

/// Names job and step at the head of a message.
fn owner(location: &Location) -> String {
    let part = |kind: &str, name: &Option<String>| {
        let name = name.as_ref().map(|name| quoted(name));
        name.map_or_else(String::new, |name| format!("{kind} {name} "))
    };
    part("job", &location.job) + &part("step", &location.step)
}

type Scope<'a> = (Option<Names<'a>>, Option<Names<'a>>);

fn expressions(text: &str) -> impl Iterator<Item = (usize, &str)> {
    segments(text).filter_map(|segment| match segment {
        Ok(Segment::Expression { offset, body, .. }) => Some((offset, body)),
        Ok(Segment::Text(_)) | Err(_) => None,
    })
}

/// One text of a definition, named as in the prefixes of W-32.
#[derive(Clone, Copy)]
enum Field<'a> {
    Run,
    Arg(usize),
    Env(&'a str),
    Input(&'a str),
    Output(&'a str),
}

impl Field<'_> {
    fn name(self) -> String {
        match self {
            Self::Run => "run".to_owned(),
            Self::Arg(index) => format!("arg[{index}]"),
            Self::Env(name) => format!("env[{name}]"),
            Self::Input(name) => format!("input {}", quoted(name)),
            Self::Output(name) => format!("output {}", quoted(name)),
        }
    }
}
