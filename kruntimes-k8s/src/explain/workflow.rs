//! Why a WorkflowRun is in its state: the root cause among its jobs (cli, C-160 rows 22 to 25).

use jiff::Timestamp;
use kruntimes_core::api::{JobPhase, JobStatus, StepPhase, WorkflowRunPhase, WorkflowRunStatus};
use kruntimes_core::condition::{self, ConditionStatus};
use kruntimes_core::crd::WorkflowRun;
use kruntimes_core::keys::{CONDITION_ACCEPTED, CONDITION_COMPLETED};
use kube::ResourceExt as _;

use super::words::{counted, since};
use super::{Confidence, Explanation};

/// Explains a WorkflowRun from what it says of itself.
pub fn workflow_run(run: &WorkflowRun, now: Timestamp) -> Explanation {
    let status = run.status.clone().unwrap_or_default();
    let namespace = run.namespace().unwrap_or_default();
    let mut told = Explanation {
        kind: "WorkflowRun",
        name: run.name_any(),
        phase: status.phase.to_string(),
        reason: status.phase.to_string(),
        summary: String::new(),
        funnel: Vec::new(),
        rejections: Vec::new(),
        evidence: Vec::new(),
        next: Vec::new(),
        confidence: Confidence::Certain,
        namespace,
    };
    match refusal(&status) {
        Some((reason, message)) => {
            told.reason = reason;
            told.summary = message;
        }
        None => judge(run, &status, &mut told),
    }
    for one in &status.conditions {
        let (kind, is, reason) = (&one.condition_type, one.status.as_str(), &one.reason);
        let age = since(one.last_transition_time, now);
        told.evidence
            .push(format!("condition {kind}={is}/{reason}, since {age}"));
    }
    let (name, flag) = (&told.name, format!("-n {}", told.namespace));
    told.next.push(format!("krt wf run get {name} {flag}"));
    told
}

/// Why it was not accepted.
fn refusal(status: &WorkflowRunStatus) -> Option<(String, String)> {
    let accepted = condition::get(&status.conditions, CONDITION_ACCEPTED)?;
    let refused = accepted.status == ConditionStatus::False;
    refused.then(|| (accepted.reason.clone(), accepted.message.clone()))
}

fn judge(run: &WorkflowRun, status: &WorkflowRunStatus, told: &mut Explanation) {
    let jobs = Jobs::new(status);
    let completed = condition::get(&status.conditions, CONDITION_COMPLETED);
    if let Some(completed) = completed {
        told.reason.clone_from(&completed.reason);
    }
    match status.phase {
        WorkflowRunPhase::Succeeded => {
            told.summary = format!("{} succeeded", counted(jobs.all.len(), "job"));
        }
        WorkflowRunPhase::Failed => {
            let root = jobs.with(JobPhase::Failed).next();
            told.summary = root.map_or_else(
                || status.message.clone().unwrap_or_default(),
                |(name, job)| format!("job {name} failed{}", at(job)),
            );
            jobs.failures(told);
        }
        WorkflowRunPhase::Cancelled => {
            let by = if run.spec.cancel_requested {
                "spec.cancelRequested"
            } else {
                "its owner"
            };
            told.summary = format!("cancelled by {by}");
            jobs.never_started(told);
            jobs.stopped(told);
        }
        WorkflowRunPhase::Pending | WorkflowRunPhase::Running => {
            let running: Vec<&str> = jobs.with(JobPhase::Running).map(|(name, _)| name).collect();
            told.summary = if jobs.all.is_empty() {
                "the workflow controller has not looked at it yet".to_owned()
            } else if running.is_empty() {
                "no job runs at the moment".to_owned()
            } else {
                format!("runs {}", running.join(", "))
            };
            jobs.progress(told);
        }
    }
}

/// ` at step x: why`.
fn at(job: &JobStatus) -> String {
    let step = job.steps.iter().find(|step| step.phase.is_unsuccessful());
    let step = step.map_or_else(String::new, |step| {
        format!(" at step {} ({})", step.name, step.phase.as_str())
    });
    let why = job.message.as_deref().or(job.reason.as_deref());
    // The rest of a long message is with the Run of the step.
    let why = why.and_then(|why| why.lines().next());
    why.map_or_else(|| step.clone(), |why| format!("{step}: {why}"))
}

/// The jobs of a WorkflowRun.
struct Jobs<'a> {
    all: Vec<(&'a str, &'a JobStatus)>,
}

impl<'a> Jobs<'a> {
    fn new(status: &'a WorkflowRunStatus) -> Self {
        let jobs = status.jobs.iter().flatten();
        Self {
            all: jobs.map(|(name, job)| (name.as_str(), job)).collect(),
        }
    }

    fn with(&self, phase: JobPhase) -> impl Iterator<Item = (&'a str, &'a JobStatus)> {
        self.all
            .iter()
            .copied()
            .filter(move |(_, job)| job.phase == phase)
    }

    fn get(&self, name: &str) -> Option<&'a JobStatus> {
        self.all
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, job)| *job)
    }

    /// Each failed job with its step, each skipped one with what blocks it, and the commands for the first step.
    fn failures(&self, told: &mut Explanation) {
        for (name, job) in self.with(JobPhase::Failed) {
            told.evidence.push(format!("job {name} failed{}", at(job)));
            let steps = job.steps.iter().filter(|step| step.phase.is_unsuccessful());
            for child in steps.filter_map(|step| step.run_name.as_deref()) {
                let flag = format!("-n {}", told.namespace);
                told.next.push(format!("krt explain run/{child} {flag}"));
                told.next.push(format!("krt logs {child} {flag} --tail 50"));
            }
            if let Some(child) = &job.workflow_run_name {
                told.next
                    .push(format!("krt explain wfr/{child} -n {}", told.namespace));
            }
        }
        for (name, _) in self.with(JobPhase::Skipped) {
            told.evidence
                .push(format!("job {name} skipped: {}", self.blocked(name)));
        }
    }

    /// Follows the predecessors to the job that failed: `blocked by a, blocked by b (Failed at step c)`.
    fn blocked(&self, name: &str) -> String {
        let mut chain = Vec::new();
        let mut current = name;
        // A chain is never longer than there are jobs.
        for _ in 0..self.all.len() {
            let needs = self.get(current).map_or(&[][..], |job| &job.pre);
            let blocker = needs.iter().find_map(|need| {
                let job = self.get(need)?;
                let blocks = matches!(job.phase, JobPhase::Failed | JobPhase::Skipped);
                blocks.then_some((need.as_str(), job))
            });
            let Some((need, job)) = blocker else { break };
            let step = job.steps.iter().find(|step| step.phase.is_unsuccessful());
            let place = step.map_or_else(String::new, |step| format!(" at step {}", step.name));
            chain.push(format!("blocked by {need} ({}{place})", job.phase));
            current = need;
        }
        chain.join(", which is ")
    }

    fn never_started(&self, told: &mut Explanation) {
        let waiting = self
            .with(JobPhase::Pending)
            .chain(self.with(JobPhase::Waiting));
        for (name, _) in waiting {
            told.evidence
                .push(format!("job {name} never started and will not"));
        }
    }

    fn stopped(&self, told: &mut Explanation) {
        for (name, job) in &self.all {
            let steps = job
                .steps
                .iter()
                .filter(|step| step.phase == StepPhase::Cancelled);
            for step in steps {
                told.evidence
                    .push(format!("step {name}/{} was stopped", step.name));
            }
        }
    }

    fn progress(&self, told: &mut Explanation) {
        for (name, job) in self.with(JobPhase::Running) {
            for step in job
                .steps
                .iter()
                .filter(|step| step.phase == StepPhase::Running)
            {
                told.evidence.push(format!(
                    "step {name}/{} is {}",
                    step.name,
                    step.phase.as_str()
                ));
                if let Some(child) = &step.run_name {
                    told.next
                        .push(format!("krt explain run/{child} -n {}", told.namespace));
                }
            }
        }
        for (name, job) in self.with(JobPhase::Waiting) {
            let needs = job
                .pre
                .iter()
                .filter(|need| self.get(need).is_some_and(|job| !job.phase.is_settled()));
            let needs: Vec<&str> = needs.map(String::as_str).collect();
            told.evidence
                .push(format!("job {name} waits for {}", needs.join(", ")));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn told(status: &Value, cancelled: bool) -> Explanation {
        let object = json!({
            "apiVersion": "kruntimes.io/v1alpha1", "kind": "WorkflowRun",
            "metadata": {"name": "ci", "namespace": "team"},
            "spec": {"jobs": {}, "cancelRequested": cancelled},
            "status": status,
        });
        let run: WorkflowRun = serde_json::from_value(object).unwrap();
        workflow_run(&run, Timestamp::UNIX_EPOCH)
    }

    fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
        json!({"type": kind, "status": status, "reason": reason, "message": message,
               "lastTransitionTime": "1970-01-01T00:00:00Z"})
    }

    #[test]
    fn c_160_row_22_a_workflow_run_that_was_not_accepted_says_why() {
        let why = "jobs.a: dependency cycle a -> b -> a";
        let accepted = condition("Accepted", "False", "WorkflowValidationFailed", why);
        let told = told(&json!({"phase": "Failed", "conditions": [accepted]}), false);
        assert_eq!(
            (told.reason.as_str(), told.summary.as_str()),
            ("WorkflowValidationFailed", why)
        );
    }

    #[test]
    fn c_160_rows_23_25_a_failure_names_job_and_step_and_whom_it_blocks() {
        let status = json!({"phase": "Failed", "jobs": {
            "build": {"phase": "Failed", "reason": "StepFailed", "message": "step failed\nmore", "steps": [
                {"name": "compile", "phase": "Succeeded"},
                {"name": "package", "phase": "Timeout", "runName": "ci-1"}]},
            "test": {"phase": "Skipped", "pre": ["build"]},
            "ship": {"phase": "Skipped", "pre": ["lint", "test"]},
            "lint": {"phase": "Succeeded"},
            "report": {"phase": "Failed", "reason": "OutputEvaluationFailed", "message": "steps.x.outputs.y missing"},
        }});
        insta::assert_snapshot!(told(&status, false).to_string(), @r"
        WorkflowRun team/ci is Failed (Failed): job build failed at step package (Timeout): step failed

        Evidence:
          job build failed at step package (Timeout): step failed
          job report failed: steps.x.outputs.y missing
          job ship skipped: blocked by test (Skipped), which is blocked by build (Failed at step package)
          job test skipped: blocked by build (Failed at step package)

        Next:
          krt explain run/ci-1 -n team
          krt logs ci-1 -n team --tail 50
          krt wf run get ci -n team
        ");
    }

    #[test]
    fn c_160_row_24_what_never_started_after_a_cancellation_is_said() {
        let status = json!({"phase": "Cancelled", "jobs": {
            "build": {"phase": "Failed", "steps": [{"name": "compile", "phase": "Cancelled"}]},
            "test": {"phase": "Waiting", "pre": ["build"]},
        }});
        let told = told(&status, true);
        assert_eq!(told.summary, "cancelled by spec.cancelRequested");
        assert!(
            told.evidence
                .contains(&"job test never started and will not".to_owned()),
            "{told}"
        );
        assert!(
            told.evidence
                .contains(&"step build/compile was stopped".to_owned()),
            "{told}"
        );
    }

    #[test]
    fn c_59_one_that_runs_says_which_step_runs_and_who_waits_for_whom() {
        let status = json!({"phase": "Running", "jobs": {
            "build": {"phase": "Running", "steps": [{"name": "compile", "phase": "Running", "runName": "ci-1"}]},
            "test": {"phase": "Waiting", "pre": ["build"]},
        }});
        let told = told(&status, false);
        assert_eq!(told.summary, "runs build");
        assert_eq!(
            told.evidence,
            ["step build/compile is Running", "job test waits for build"]
        );
        assert_eq!(told.next[0], "krt explain run/ci-1 -n team");
    }
}
