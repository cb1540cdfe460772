//! Transitions handed to whoever wants them (W-208).
//!
//! What happened is data first ([`crate::explain::changes`]); a [`Hook`] is told
//! of it. [`Hooks`] compares what was stored last with what is stored now, so it
//! fits behind every driver's observer:
//!
//! ```
//! use kruntimes_workflow::driver::{Closure, Driver, End, MemoryStore, Shelf};
//! use kruntimes_workflow::hooks::Hooks;
//! use kruntimes_workflow::testing::{a_job, jobs};
//!
//! let (send, seen) = std::sync::mpsc::channel();
//! let hooks = Hooks::default().with(move |told: &kruntimes_workflow::hooks::Told<'_>| {
//!     send.send(format!("{} {}", told.execution, told.event)).unwrap();
//! });
//! let steps = Closure::new(|_| End::succeeded([("", ""); 0]));
//! let mut driver = Driver::new(steps, Shelf::default(), MemoryStore::default()).observer(hooks.observer());
//! driver.submit("demo", jobs([("a", a_job())])).unwrap();
//! driver.run("demo").unwrap();
//! drop(driver);
//! let seen: Vec<String> = seen.iter().collect();
//! assert_eq!(seen.first().unwrap(), "demo workflow accepted");
//! assert_eq!(seen.last().unwrap(), "demo workflow ended Succeeded");
//! ```

use std::collections::BTreeMap;

use kruntimes_core::api::WorkflowRunStatus;

use crate::explain::{Event, changes};

/// One transition of one execution.
#[derive(Clone, Copy, Debug)]
pub struct Told<'a> {
    /// Name of the execution.
    pub execution: &'a str,
    /// What happened.
    pub event: &'a Event,
}

/// Is told of transitions: to log them, to notify, to trace.
pub trait Hook: Send {
    /// Takes one transition. It was stored already, and cannot be refused.
    fn on(&mut self, told: &Told<'_>);
}

impl<F: FnMut(&Told<'_>) + Send> Hook for F {
    fn on(&mut self, told: &Told<'_>) {
        self(told);
    }
}

/// Hooks, and the last status each execution was seen with.
#[derive(Default)]
pub struct Hooks {
    hooks: Vec<Box<dyn Hook>>,
    last: BTreeMap<String, WorkflowRunStatus>,
}

impl Hooks {
    /// Adds one; all are told, in this order.
    pub fn with(mut self, hook: impl Hook + 'static) -> Self {
        self.hooks.push(Box::new(hook));
        self
    }

    /// Takes up an execution at a status whose past is known, so that it is not told again.
    pub fn resume(mut self, execution: &str, status: &WorkflowRunStatus) -> Self {
        self.last.insert(execution.to_owned(), status.clone());
        self
    }

    /// Takes a status that was stored, and tells what is new in it.
    pub fn see(&mut self, execution: &str, status: &WorkflowRunStatus) {
        let fresh = WorkflowRunStatus::default();
        let before = self.last.get(execution).unwrap_or(&fresh);
        for event in &changes(before, status) {
            for hook in &mut self.hooks {
                hook.on(&Told { execution, event });
            }
        }
        self.last.insert(execution.to_owned(), status.clone());
    }

    /// Drops what is remembered of an execution that is over.
    pub fn forget(&mut self, execution: &str) {
        self.last.remove(execution);
    }

    /// Makes the observer of a driver.
    pub fn observer(mut self) -> impl FnMut(&str, &WorkflowRunStatus) + Send + 'static {
        move |execution, status| self.see(execution, status)
    }
}

#[cfg(test)]
mod tests {
    use kruntimes_core::api::{JobPhase, JobStatus, WorkflowRunPhase};

    use super::*;

    #[test]
    fn w_208_every_hook_is_told_every_transition_once() {
        let (send, seen) = std::sync::mpsc::channel();
        let again = send.clone();
        let mut hooks = Hooks::default()
            .with(move |told: &Told<'_>| send.send(format!("1 {}", told.event)).unwrap())
            .with(move |told: &Told<'_>| again.send(format!("2 {}", told.event)).unwrap());
        let job = |phase| JobStatus {
            phase,
            ..JobStatus::default()
        };
        let status = |phase, of_job| WorkflowRunStatus {
            phase,
            jobs: Some([("a".to_owned(), job(of_job))].into()),
            ..WorkflowRunStatus::default()
        };
        let running = status(WorkflowRunPhase::Running, JobPhase::Running);
        hooks.see("x", &status(WorkflowRunPhase::Pending, JobPhase::Pending));
        hooks.see("x", &running);
        hooks.see("x", &running);
        let mut hooks = hooks.resume("y", &running);
        hooks.see(
            "y",
            &status(WorkflowRunPhase::Succeeded, JobPhase::Succeeded),
        );
        drop(hooks);
        let seen: Vec<String> = seen.iter().collect();
        let want = [
            "workflow accepted",
            "jobs.a began",
            "jobs.a ended Succeeded",
            "workflow ended Succeeded",
        ];
        let want = want.map(|text| [format!("1 {text}"), format!("2 {text}")]);
        assert_eq!(seen, want.concat());
    }
}
