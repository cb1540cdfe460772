//! The invariants, looked at after every change.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{StreamExt as _, stream};
use kruntimes_apiserver::Snapshot;
use kruntimes_core::api::{JobPhase, RunPhase, RunStatus, WorkflowRunStatus};
use kruntimes_core::crd::{Run, WorkflowRun};
use kruntimes_core::{keys, resources, retry};
use kruntimes_k8s::cache::{Cache, Change};
use kube::runtime::watcher;
use kube::{Client, ResourceExt as _};
use serde_json::Value;

use super::Ledger;

/// A broken invariant of reliability: its number and what was seen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// Invariant 1.
    #[error("invariant 1, capacity: pod {pod} holds {held} of {capacity} runs")]
    OverCapacity {
        /// The Pod.
        pod: String,
        /// Active Runs on it.
        held: u64,
        /// Its capacity.
        capacity: u64,
    },
    /// Invariant 2.
    #[error("invariant 2, one owner: {runs:?} were begun while alive elsewhere")]
    TwoOwners {
        /// UIDs of the Runs.
        runs: Vec<String>,
    },
    /// Invariant 3.
    #[error("invariant 3, terminal is final: {object} changed from {from} to {to}")]
    TerminalChanged {
        /// The object.
        object: String,
        /// State before.
        from: String,
        /// State after.
        to: String,
    },
    /// Invariant 4.
    #[error("invariant 4, order: run {run} went from {from} to {to}")]
    OutOfOrder {
        /// The Run.
        run: String,
        /// Phase and attempt before.
        from: String,
        /// Phase and attempt after.
        to: String,
    },
    /// Invariant 5.
    #[error(
        "invariant 5, accounted: run {run} ended {phase} with {executed} executions of {allowed} allowed"
    )]
    Unaccounted {
        /// The Run.
        run: String,
        /// Its final phase.
        phase: RunPhase,
        /// Executions begun.
        executed: usize,
        /// Attempts allowed.
        allowed: usize,
    },
    /// Invariant 5, against a world without trouble.
    #[error("invariant 5, accounted: run {run} {seen}, and would end {expected} without trouble")]
    OtherEnd {
        /// The Run.
        run: String,
        /// How it ended.
        seen: String,
        /// How it should.
        expected: String,
    },
    /// Invariant 7.
    #[error("invariant 7, no lost wake-up: still open at the end: {open:?}")]
    NeverSettled {
        /// What is not terminal.
        open: Vec<String>,
    },
    /// Invariant 9.
    #[error("invariant 9, DAG: {0}")]
    Graph(String),
    /// Invariant 10.
    #[error("invariant 10, cancellation: {0}")]
    Cancellation(String),
    /// Invariant 15.
    #[error("invariant 15, no leak: {0}")]
    Leaked(String),
    /// Invariant 13.
    #[error("invariant 13, convergence: written at rest: {written:?}")]
    Restless {
        /// What was written.
        written: Vec<String>,
    },
}

enum Seen {
    Run(Change<Run>),
    WorkflowRun(Change<WorkflowRun>),
}

/// Looks at every change of Runs and WorkflowRuns, through a client without faults.
pub struct Checker {
    changes: BoxStream<'static, Seen>,
    runs: Cache<Run>,
    flows: Cache<WorkflowRun>,
    ledger: Arc<Ledger>,
    slots: u64,
    /// Executions beyond the attempts that count for nothing.
    forgiven: usize,
    count: u64,
}

impl Checker {
    /// Begins to look; Pods take `slots` Runs each, and `ledger` knows what was executed.
    pub fn new(client: &Client, ledger: Arc<Ledger>, slots: u64) -> Self {
        let runs = Cache::new(&[("pod", |run: &Run| {
            let active = run
                .status
                .as_ref()
                .filter(|status| status.phase.is_active());
            active.and_then(place).into_iter().collect()
        })]);
        let flows = Cache::default();
        let config = watcher::Config::default;
        let changes = stream::select(
            runs.follow(client.clone(), None, config()).map(Seen::Run),
            flows
                .follow(client.clone(), None, config())
                .map(Seen::WorkflowRun),
        )
        .boxed();
        Self {
            changes,
            runs,
            flows,
            ledger,
            slots,
            forgiven: 0,
            count: 0,
        }
    }

    /// Returns how many changes were looked at.
    pub fn changes(&self) -> u64 {
        self.count
    }

    /// Lets a Run be begun this much more often than it has attempts: a start that was lost with its server before
    /// anybody heard of it is sent again.
    pub fn forgive(&mut self, executions: usize) {
        self.forgiven = executions;
    }

    /// Looks at what happens during a stretch of time.
    ///
    /// # Errors
    ///
    /// Returns the first broken invariant.
    pub async fn watch_for(&mut self, time: Duration) -> Result<(), Violation> {
        let end = tokio::time::sleep(time);
        tokio::pin!(end);
        loop {
            tokio::select! {
                biased;
                Some(seen) = self.changes.next() => {
                    self.count += 1;
                    match seen {
                        Seen::Run(change) => self.check_run(change)?,
                        Seen::WorkflowRun(change) => Self::check_flow(change)?,
                    }
                }
                () = &mut end => return Ok(()),
            }
        }
    }

    fn check_run(&self, change: Change<Run>) -> Result<(), Violation> {
        let (old, new) = match change {
            Change::Applied { old, new } => (old, new),
            Change::Deleted(run) => return self.check_account(&run),
            Change::Undecodable { .. } | Change::Synced => return Ok(()),
        };
        let twice = self.ledger.twice();
        if !twice.is_empty() {
            return Err(Violation::TwoOwners { runs: twice });
        }
        let name = new.name_any();
        let status = new.status.clone().unwrap_or_default();
        if let Some(before) = old.and_then(|old| old.status.clone()) {
            check_final(&name, &before, &status)?;
            check_order(&name, &before, &status)?;
        } else {
            self.check_birth(&new)?;
        }
        if let Some(pod) = place(&status) {
            self.check_capacity(&pod)?;
        }
        Ok(())
    }

    fn check_capacity(&self, pod: &str) -> Result<(), Violation> {
        let held = self.runs.by_index("pod", pod).len();
        let held = u64::try_from(held).unwrap_or(u64::MAX);
        if held > self.slots {
            return Err(Violation::OverCapacity {
                pod: pod.to_owned(),
                held,
                capacity: self.slots,
            });
        }
        Ok(())
    }

    /// A child comes into being only when its job may run, and never beside a live sibling (invariant 9).
    fn check_birth(&self, run: &Run) -> Result<(), Violation> {
        let label = |key: &str| run.labels().get(key).cloned();
        let (Some(uid), Some(job), Some(step)) = (
            label(keys::LABEL_WORKFLOW_RUN_UID),
            label(keys::LABEL_WORKFLOW_JOB),
            label(keys::LABEL_WORKFLOW_STEP),
        ) else {
            return Ok(());
        };
        let flows = self.flows.list();
        let Some(flow) = flows
            .iter()
            .find(|flow| flow.uid().as_deref() == Some(&uid))
        else {
            return Ok(());
        };
        let of = |job: &str| -> Vec<Arc<Run>> {
            let runs = self.runs.list().into_iter();
            runs.filter(|other| {
                other.labels().get(keys::LABEL_WORKFLOW_RUN_UID) == Some(&uid)
                    && other
                        .labels()
                        .get(keys::LABEL_WORKFLOW_JOB)
                        .map(String::as_str)
                        == Some(job)
            })
            .collect()
        };
        let live = of(&job)
            .into_iter()
            .filter(|other| other.uid() != run.uid() && !phase_of(other).is_terminal());
        if let Some(other) = live.last() {
            let text = format!(
                "step {step} of {job} began while {} lives",
                other.name_any()
            );
            return Err(Violation::Graph(text));
        }
        let spec = flow.spec.jobs.get(&job);
        for need in spec.into_iter().flat_map(|job| &job.needs) {
            let steps = flow.spec.jobs.get(need).map_or(0, |job| job.steps.len());
            let done = of(need)
                .iter()
                .filter(|run| phase_of(run) == RunPhase::Succeeded)
                .count();
            if done < steps {
                let text = format!("{job} began with {done} of {steps} steps of {need} succeeded");
                return Err(Violation::Graph(text));
            }
        }
        Ok(())
    }

    fn check_flow(change: Change<WorkflowRun>) -> Result<(), Violation> {
        let Change::Applied {
            old: Some(old),
            new,
        } = change
        else {
            return Ok(());
        };
        let before = old.status.clone().unwrap_or_default();
        let after = new.status.clone().unwrap_or_default();
        if before.phase.is_terminal()
            && (before.phase != after.phase || before.outputs != after.outputs)
        {
            return Err(Violation::TerminalChanged {
                object: new.name_any(),
                from: before.phase.to_string(),
                to: after.phase.to_string(),
            });
        }
        check_frozen_outputs(&new.name_any(), &before, &after)
    }

    /// What must hold when everything has come to its end.
    pub(super) fn finish(&self, snapshot: &Snapshot) -> Result<(), Violation> {
        let live = self.ledger.live();
        if !live.is_empty() {
            let text = format!("still executing after the end: {live:?}");
            return Err(Violation::Cancellation(text));
        }
        for object in snapshot.objects("runs.kruntimes.io") {
            let run: Run = serde_json::from_value(Value::clone(object)).map_err(|error| {
                Violation::Graph(format!("a stored Run cannot be read: {error}"))
            })?;
            self.check_account(&run)?;
        }
        Ok(())
    }

    /// Trouble that loses no execution changes no end: each Run ends as its script says, however it got there.
    pub(super) fn check_ends(&self) -> Result<(), Violation> {
        for run in self.runs.list() {
            let Some(script) = expectation(&run) else {
                continue;
            };
            let executed = self.ledger.executed(&run.uid().unwrap_or_default());
            let attempt = run.status.as_ref().and_then(|status| status.attempt);
            let attempt = retry::current_attempt(attempt);
            let end = |phase: RunPhase, attempt: i32, executed: usize| {
                format!("{phase} in attempt {attempt} after {executed} executions")
            };
            let seen = end(phase_of(&run), attempt, executed);
            let tries = usize::try_from(script.1).unwrap_or(0);
            let expected = end(script.0, script.1, tries);
            if seen != expected {
                let message = run.status.as_ref().and_then(|s| s.message.clone());
                return Err(Violation::OtherEnd {
                    run: run.name_any(),
                    seen: format!("ended {seen} ({})", message.unwrap_or_default()),
                    expected,
                });
            }
        }
        Ok(())
    }

    /// Executions never exceed the attempts, and success is never silent (invariant 5).
    fn check_account(&self, run: &Run) -> Result<(), Violation> {
        let phase = phase_of(run);
        let executed = self.ledger.executed(&run.uid().unwrap_or_default());
        let allowed = retry::max_attempts(run.spec.retry_policy.as_ref());
        let allowed = usize::try_from(allowed).unwrap_or(0);
        let fits = resources::request(&run.spec).is_ok();
        if executed > allowed + self.forgiven
            || (phase == RunPhase::Succeeded && executed == 0)
            || !fits
        {
            return Err(Violation::Unaccounted {
                run: run.name_any(),
                phase,
                executed,
                allowed,
            });
        }
        Ok(())
    }
}

/// Reads from the script of a Run how it ends, and in which attempt; nothing for one that is cut short.
fn expectation(run: &Run) -> Option<(RunPhase, i32)> {
    let cut = run.spec.cancel_requested || run.spec.timeout.is_some();
    if cut || run.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let script = run.spec.source.as_ref()?.inline.as_ref()?;
    let script: Value = serde_json::from_str(script).ok()?;
    let exits = script["exits"].as_array()?;
    let allowed = retry::max_attempts(run.spec.retry_policy.as_ref());
    let good = exits.iter().position(|exit| exit == 0);
    let good = good.and_then(|index| i32::try_from(index + 1).ok());
    Some(match good.filter(|attempt| *attempt <= allowed) {
        Some(attempt) => (RunPhase::Succeeded, attempt),
        None => (RunPhase::Failed, allowed),
    })
}

/// Names the Pod of a Run, which another of its name is not.
fn place(status: &RunStatus) -> Option<String> {
    let uid = status.assigned_pod_uid.as_deref().unwrap_or_default();
    let pod = status.assigned_pod.as_ref()?;
    Some(format!("{pod} {uid}"))
}

fn phase_of(run: &Run) -> RunPhase {
    run.status
        .as_ref()
        .map(|status| status.phase)
        .unwrap_or_default()
}

fn check_final(run: &str, before: &RunStatus, after: &RunStatus) -> Result<(), Violation> {
    let same = before.phase == after.phase
        && before.completion_time == after.completion_time
        && before.outputs == after.outputs;
    if before.phase.is_terminal() && !same {
        return Err(Violation::TerminalChanged {
            object: run.to_owned(),
            from: format!("{} at {:?}", before.phase, before.completion_time),
            to: format!("{} at {:?}", after.phase, after.completion_time),
        });
    }
    Ok(())
}

/// Phases move along the graph of the API reference, section 3.8, and attempts never fall.
fn check_order(run: &str, before: &RunStatus, after: &RunStatus) -> Result<(), Violation> {
    use RunPhase::{Cancelled, Failed, Pending, Running, Scheduled, Succeeded, Timeout};
    let legal = before.phase == after.phase
        || matches!(
            (before.phase, after.phase),
            (Pending, Scheduled | Failed | Cancelled)
                | (Scheduled, Running | Cancelled | Pending | Timeout)
                | (Running, Succeeded | Failed | Timeout | Cancelled | Pending)
        );
    let attempts = before.attempt.unwrap_or(0) <= after.attempt.unwrap_or(0);
    if legal && attempts {
        return Ok(());
    }
    Err(Violation::OutOfOrder {
        run: run.to_owned(),
        from: format!("{} attempt {:?}", before.phase, before.attempt),
        to: format!("{} attempt {:?}", after.phase, after.attempt),
    })
}

/// Outputs of a settled job never change: dependents may have read them (invariant 9).
fn check_frozen_outputs(
    flow: &str,
    before: &WorkflowRunStatus,
    after: &WorkflowRunStatus,
) -> Result<(), Violation> {
    let none = BTreeMap::new();
    let now = after.jobs.as_ref().unwrap_or(&none);
    for (name, job) in before.jobs.iter().flatten() {
        let settled = job.phase == JobPhase::Succeeded;
        if settled
            && now
                .get(name)
                .is_none_or(|after| after.outputs != job.outputs)
        {
            let text = format!("outputs of {flow}/{name} changed after it succeeded");
            return Err(Violation::Graph(text));
        }
    }
    Ok(())
}
