//! The driver of this crate as a subject: sessions over states in memory.

use std::collections::{BTreeMap, BTreeSet};

use kruntimes_core::api::{ActionSpec, WorkflowRunSpec, WorkflowRunStatus, WorkflowSpec};
use kruntimes_core::time::Time;

use super::{Seen, Subject};
use crate::driver::{Attached, Command, End, Execution, Interrupted, News, Session};
use crate::extend::Extensions;

/// [`Session`]s over a store in memory, with Runs that end when they are told to.
#[derive(Debug, Default)]
pub struct Library {
    workflows: BTreeMap<String, WorkflowSpec>,
    actions: BTreeMap<String, ActionSpec>,
    store: BTreeMap<String, String>,
    session: Option<Session>,
    root: Option<String>,
    open: BTreeSet<String>,
    deaf: bool,
}

impl Library {
    /// One that does not hear of any end: a driver that is wrong.
    #[cfg(test)]
    pub(super) fn deaf() -> Self {
        Self {
            deaf: true,
            ..Self::default()
        }
    }

    fn stored(&self, name: &str) -> Option<Execution> {
        let found = self
            .session
            .as_ref()
            .and_then(|session| session.execution(name));
        found.cloned().or_else(|| {
            let text = self.store.get(name)?;
            Execution::from_json(text).ok()
        })
    }

    /// Carries out one command; `false` when there is nothing more to do.
    fn carry_out(&mut self, session: &mut Session, command: Command) -> bool {
        match command {
            Command::Save { name, text } => {
                self.store.insert(name, text);
            }
            Command::Load(name) => {
                let text = self.store.get(&name).cloned();
                if session.loaded(&name, text.as_deref()).is_err() {
                    return false;
                }
            }
            Command::Attach(launch) => {
                let known = self.open.contains(&launch.name);
                let found = if known {
                    Attached::Running
                } else {
                    Attached::Gone
                };
                session.attached(&launch.name, found);
            }
            Command::Start(launch) => {
                self.open.insert(launch.name);
            }
            Command::Cancel(_) => {}
            Command::ReadWorkflow(name) => {
                let found = self.workflows.get(&name).cloned();
                session.workflow(&name, found);
            }
            Command::ReadAction(name) => {
                let found = self.actions.get(&name).cloned();
                session.action(&name, found);
            }
            Command::Wait | Command::WaitUntil(_) | Command::Done => return false,
        }
        true
    }
}

impl Subject for Library {
    fn reset(&mut self) {
        *self = Self {
            deaf: self.deaf,
            ..Self::default()
        };
    }

    fn define_workflow(&mut self, name: &str, spec: WorkflowSpec) {
        self.workflows.insert(name.to_owned(), spec);
    }

    fn define_action(&mut self, name: &str, spec: ActionSpec) {
        self.actions.insert(name.to_owned(), spec);
    }

    fn submit(&mut self, name: &str, spec: WorkflowRunSpec) -> Result<(), String> {
        let none = Extensions::none();
        let made = Execution::of_spec(name, spec, BTreeMap::new(), &none);
        let made = made.map_err(|error| error.to_string())?;
        self.store.insert(name.to_owned(), made.to_json());
        self.root = Some(name.to_owned());
        Ok(())
    }

    fn cancel(&mut self, name: &str) {
        if let Some(session) = &mut self.session {
            session.tell(News::CancelRequested);
        } else if let Some(mut stored) = self.stored(name) {
            stored.spec.cancel_requested = true;
            self.store.insert(name.to_owned(), stored.to_json());
        }
    }

    fn settle(&mut self) {
        let session = self.session.take().or_else(|| {
            let stored = self.stored(self.root.as_deref()?)?;
            Some(Session::new(stored, Interrupted::Again))
        });
        let Some(mut session) = session else { return };
        while let Ok(command) = session.next(Time::default()) {
            if !self.carry_out(&mut session, command) {
                break;
            }
        }
        self.session = Some(session);
    }

    fn crash(&mut self) {
        self.session = None;
    }

    fn runs(&mut self, of: &str) -> Vec<Seen> {
        let stored = self.stored(of).unwrap_or_default();
        let runs = stored.runs.into_iter().map(|(name, run)| {
            let inner = run.action_step.map(|inner| format!("/{inner}"));
            Seen {
                name,
                place: format!("{}/{}{}", run.job, run.step, inner.unwrap_or_default()),
                spec: run.spec,
                open: !run.phase.is_terminal(),
                cancel_asked: run.cancel_asked,
            }
        });
        runs.collect()
    }

    fn end(&mut self, run: &str, end: End) {
        self.open.remove(run);
        if self.deaf {
            return;
        }
        if let Some(session) = &mut self.session {
            let run = run.to_owned();
            session.tell(News::Ended { run, end });
        }
    }

    fn status(&mut self, name: &str) -> WorkflowRunStatus {
        self.stored(name).unwrap_or_default().status
    }
}
