//! How steps end, by name.

use std::collections::BTreeMap;

use crate::driver::{Attached, End, Executor, Launch, NeverFails, News};
use crate::plan::StepKey;

/// How each step ends; one that is not mentioned succeeds without outputs.
///
/// Steps are named `<job>/<step>`, steps of an Action `<job>/<step>/<action step>`, a call by its job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
    ends: BTreeMap<String, End>,
}

impl Script {
    /// A step that succeeds with outputs.
    pub fn succeeds(self, step: &str, outputs: &[(&str, &str)]) -> Self {
        self.ends(step, End::succeeded(outputs.iter().copied()))
    }

    /// A step that fails.
    pub fn fails(self, step: &str) -> Self {
        self.ends(step, End::failed("as scripted"))
    }

    /// A step that takes too long.
    pub fn times_out(self, step: &str) -> Self {
        self.ends(step, End::timed_out("as scripted"))
    }

    /// A step that somebody cancels.
    pub fn is_cancelled(self, step: &str) -> Self {
        self.ends(step, End::cancelled())
    }

    /// A step that ends in any way.
    pub fn ends(mut self, step: &str, end: End) -> Self {
        self.ends.insert(step.to_owned(), end);
        self
    }

    /// Returns how a step ends.
    pub fn end_of(&self, key: &StepKey) -> End {
        let mut name = format!("{}/{}", key.job, key.step);
        if let Some(inner) = &key.action_step {
            name = format!("{name}/{inner}");
        }
        self.named(&name)
    }

    /// Returns how the execution that a job calls ends.
    pub fn end_of_call(&self, job: &str) -> End {
        self.named(job)
    }

    fn named(&self, name: &str) -> End {
        let found = self.ends.get(name).cloned();
        found.unwrap_or_else(|| End::succeeded([("", ""); 0]))
    }

    /// Makes an executor for a [`crate::driver::Driver`] that ends steps in the order of their start.
    pub fn executor(self) -> Scripted {
        Scripted {
            script: self,
            open: Vec::new(),
            started: Vec::new(),
        }
    }
}

/// Ends steps as a [`Script`] says, without doing anything.
#[derive(Clone, Debug)]
pub struct Scripted {
    script: Script,
    open: Vec<(Launch, bool)>,
    started: Vec<String>,
}

impl Scripted {
    /// Returns the names of everything that was started, in order.
    pub fn started(&self) -> &[String] {
        &self.started
    }
}

impl Executor for Scripted {
    type Error = NeverFails;

    fn start(&mut self, launch: &Launch) -> Result<(), NeverFails> {
        self.started.push(launch.key.to_string());
        self.open.push((launch.clone(), false));
        Ok(())
    }

    fn attach(&mut self, launch: &Launch) -> Result<Attached, NeverFails> {
        let known = self.open.iter().any(|(open, _)| open.name == launch.name);
        Ok(if known {
            Attached::Running
        } else {
            Attached::Gone
        })
    }

    fn cancel(&mut self, run: &str) -> Result<(), NeverFails> {
        for (launch, cancelled) in &mut self.open {
            *cancelled |= launch.name == run;
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<News, NeverFails> {
        if self.open.is_empty() {
            return Ok(News::CancelRequested);
        }
        let (launch, cancelled) = self.open.remove(0);
        let end = if cancelled {
            End::cancelled()
        } else {
            self.script.end_of(&launch.key)
        };
        let run = launch.name;
        Ok(News::Ended { run, end })
    }
}
