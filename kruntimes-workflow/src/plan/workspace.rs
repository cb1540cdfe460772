//! The directory that the Runs of one job share (section 13.2).

use std::collections::BTreeMap;

use kruntimes_core::api::{
    Job, JobPhase, JobStatus, RunPhase, StepStatus, WorkspacePhase, WorkspaceRef,
};
use kruntimes_core::keys::{LABEL_WORKFLOW_JOB, LABEL_WORKFLOW_RUN_UID};
use kruntimes_core::names;

use super::children::Children;
use super::derive::{Derivation, fail};
use super::{ChildNames, JobWorkspace, Need, Reason, State, Workspace, message};
use crate::snapshot::{Snapshot, call_site};

/// A workspace to create before the Run that needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnsureWorkspace {
    /// Derived name; also the idempotency key.
    pub name: String,
    /// Labels that let it be found again.
    pub labels: BTreeMap<String, String>,
    /// Runtime whose volume holds it.
    pub runtime: String,
}

/// Returns the workspace of a job that starts a Run, if it has one, and whether to create it (W-122, W-123).
///
/// A job that started stays with what its first Run was given, whatever the policy is now.
pub(super) fn of(
    state: &State,
    snapshot: &Snapshot,
    children: &Children<'_>,
    name: &str,
    job: &Job,
) -> Option<(WorkspaceRef, Option<EnsureWorkspace>)> {
    let started = children.runs(name).next().is_some();
    let wanted = match state.policy.job_workspace {
        _ if started => children.runs(name).any(|run| run.workspace.is_some()),
        JobWorkspace::Never => false,
        JobWorkspace::Always => true,
        JobWorkspace::MultiStep => expanded(snapshot, name, job) > 1,
    };
    if !wanted {
        return None;
    }
    let workspace = names::job_workspace(&state.name, name);
    let reference = WorkspaceRef {
        name: workspace.clone(),
        kind: None,
        api_group: None,
    };
    if started {
        return uses(children, name, &workspace).then_some((reference, None));
    }
    let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let ensure = EnsureWorkspace {
        name: workspace,
        labels: [
            label(LABEL_WORKFLOW_RUN_UID, &state.uid),
            label(LABEL_WORKFLOW_JOB, name),
        ]
        .into(),
        runtime: job.runs_on.clone().unwrap_or_default(),
    };
    Some((reference, Some(ensure)))
}

/// Counts the Runs that a job becomes.
fn expanded(snapshot: &Snapshot, name: &str, job: &Job) -> usize {
    if snapshot.actions.is_empty() {
        return job.steps.len();
    }
    let runs = |step: &kruntimes_core::api::Step| {
        let action = snapshot.actions.get(&call_site(name, &step.name));
        action.map_or(1, |action| action.spec.steps.len())
    };
    job.steps.iter().map(runs).sum()
}

fn uses(children: &Children<'_>, job: &str, workspace: &str) -> bool {
    let mut runs = children.runs(job);
    runs.any(|child| child.workspace.as_deref() == Some(workspace))
}

/// What is known of the workspace that a running job uses.
enum Condition {
    /// It is not there to be used.
    Lost,
    /// Nobody looked for it past the list.
    Unseen,
    /// Nothing stands against it.
    Fine,
}

fn condition(state: &State, children: &Children<'_>, job: &str) -> Condition {
    if !children.runs(job).any(|run| run.workspace.is_some()) {
        return Condition::Fine;
    }
    let name = names::job_workspace(&state.name, job);
    if !uses(children, job, &name) {
        return Condition::Fine;
    }
    let gone = |found: &Workspace| match found.phase {
        WorkspacePhase::Lost | WorkspacePhase::Released => true,
        WorkspacePhase::Pending | WorkspacePhase::Bound => found.deleting,
    };
    match children.workspace(&name) {
        Some(found) if gone(found) => Condition::Lost,
        Some(_) => Condition::Fine,
        None if state.absent_workspaces.contains(&name) => Condition::Lost,
        None => Condition::Unseen,
    }
}

/// Names the unfinished Runs, not yet asked, whose workspace is lost (W-125).
pub(super) fn stranded(
    state: &State,
    children: &Children<'_>,
    jobs: &BTreeMap<String, JobStatus>,
) -> ChildNames {
    let mut found = Vec::new();
    for (name, job) in jobs {
        found.extend(stranded_in(state, children, name, job));
    }
    found.sort();
    ChildNames {
        runs: found,
        workflow_runs: Vec::new(),
    }
}

/// The same for one job.
pub(super) fn stranded_in(
    state: &State,
    children: &Children<'_>,
    name: &str,
    job: &JobStatus,
) -> Vec<String> {
    let lost = || matches!(condition(state, children, name), Condition::Lost);
    if job.phase != JobPhase::Running || !lost() {
        return Vec::new();
    }
    let open = children.runs(name).filter(|run| !run.phase.is_terminal());
    let unasked = open.filter(|run| !run.cancel_asked);
    unasked.map(|run| run.name.clone()).collect()
}

impl Derivation<'_> {
    /// Fails a job whose workspace is lost once none of its Runs is left (W-125).
    pub(super) fn watch_workspace(&mut self, name: &str, job: &mut JobStatus) {
        let done = |step: &StepStatus| step.conclusion().is_done();
        if job.phase != JobPhase::Running || job.steps.iter().all(done) {
            return;
        }
        match condition(self.state, &self.children, name) {
            Condition::Fine => return,
            Condition::Unseen => {
                let workspace = names::job_workspace(&self.state.name, name);
                self.needs.push(Need::ConfirmWorkspace(workspace));
                return;
            }
            Condition::Lost => {}
        }
        let text = message::workspace_lost(name);
        let active = |run: &super::Child| !RunPhase::is_terminal(run.phase);
        if self.children.runs(name).any(active) {
            job.reason = Some(Reason::WorkspaceLost.as_str().to_owned());
            job.message = Some(text);
        } else {
            fail(job, Reason::WorkspaceLost, text);
        }
    }
}
