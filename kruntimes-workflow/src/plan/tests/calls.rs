//! Calls of Workflows (section 11).

use kruntimes_core::api::{Input, Output, WorkflowSpec};
use kruntimes_core::condition::{ConditionStatus, Fact};

use super::*;

fn call(needs: &[&str], workflow: &str, with: &[(&str, &str)]) -> Job {
    let own = |&(k, v): &(&str, &str)| (k.to_owned(), v.to_owned());
    Job {
        uses: Some(workflow.into()),
        needs: needs.iter().map(|&need| need.into()).collect(),
        with: with.iter().map(own).collect(),
        ..Job::default()
    }
}

/// Input `tag`, one job `ship`, output `url`.
fn publish() -> WorkflowSpec {
    let input = Input {
        required: true,
        ..Input::default()
    };
    let output = Output {
        value: "${{ inputs.tag }}:${{ jobs.ship.outputs.url }}".into(),
    };
    WorkflowSpec {
        inputs: [("tag".to_owned(), input)].into(),
        outputs: [("url".to_owned(), output)].into(),
        jobs: jobs([(
            "ship",
            a_job()
                .step("s", "ship ${{ inputs.tag }}")
                .output("url", "${{ steps.s.outputs.url }}"),
        )]),
        ..WorkflowSpec::default()
    }
}

fn graph(extra: &[(&str, Job)]) -> BTreeMap<String, Job> {
    let mut graph = jobs([("build", a_job().output("tag", "${{ steps.s.outputs.tag }}"))]);
    graph.extend(extra.iter().cloned().map(|(k, v)| (k.to_owned(), v)));
    graph
}

fn release() -> World {
    let with = &[("tag", "${{ jobs.build.outputs.tag }}")];
    let mut world = World::new(graph(&[
        ("deploy", call(&["build"], "publish", with)),
        (
            "after",
            a_job()
                .needs(&["deploy"])
                .step("s", "got ${{ jobs.deploy.outputs.url }}")
                .build(),
        ),
    ]));
    world.stored = world.stored.with_workflow("publish", publish());
    world
}

/// Runs `release` until the child is there.
fn called() -> World {
    let mut world = release();
    world.turn();
    world.turn();
    world.succeed("build", "s", &[("tag", "v1")]);
    world.starts(&["deploy"]);
    world
}

/// Ends the child well as its own controller would.
fn end_child(world: &mut World, job: &str, outputs: &[(&str, &str)]) {
    let own = |&(k, v): &(&str, &str)| (k.to_owned(), v.to_owned());
    let status = &mut world.child(job).status;
    status.phase = WorkflowRunPhase::Succeeded;
    status.outputs = outputs.iter().map(own).collect();
}

#[test]
fn w_97_w_102_w_103_w_108_a_ready_call_creates_its_child_once() {
    let mut world = called();
    let child = &world.called[0];
    assert_eq!(
        child.name,
        kruntimes_core::names::child_workflow_run("wfr", "deploy")
    );
    assert_eq!(
        child.labels.iter().collect::<Vec<_>>(),
        [(
            &"kruntimes.io/workflowrun-uid".to_owned(),
            &"uid-1".to_owned()
        )]
    );
    assert_eq!(
        child.spec.jobs["ship"].steps[0].run.as_deref(),
        Some("ship v1")
    );
    assert_eq!(
        child.annotations["kruntimes.io/workflow-output.url"],
        "v1:${{ jobs.ship.outputs.url }}"
    );
    let job = world.job("deploy");
    assert_eq!(job.phase, JobPhase::Running);
    assert_eq!(job.workflow_run_name.as_ref(), Some(&child.name));
    assert!(job.steps.is_empty());
    world.idle_turn();
    world.child("deploy").status.phase = WorkflowRunPhase::Running;
    world.idle_turn();
}

#[test]
fn w_104_w_107_the_outputs_of_a_child_are_those_of_its_caller() {
    let mut world = called();
    end_child(&mut world, "deploy", &[("url", "v1:x")]);
    world.starts(&["after/s"]);
    assert_eq!(world.job("deploy").outputs["url"], "v1:x");
    let script = world.created[1].spec.source.as_ref().unwrap();
    assert_eq!(script.inline.as_deref(), Some("got v1:x"));
}

#[test]
fn w_104_a_child_that_published_nothing_is_evaluated_from_its_annotations() {
    let mut world = called();
    let ship = |phase| JobStatus {
        phase,
        outputs: [("url".to_owned(), "x".to_owned())].into(),
        ..JobStatus::default()
    };
    let status = &mut world.child("deploy").status;
    status.phase = WorkflowRunPhase::Succeeded;
    status.jobs = Some([("ship".to_owned(), ship(JobPhase::Succeeded))].into());
    let mut unfinished = world.clone();
    world.turn();
    assert_eq!(world.job("deploy").outputs["url"], "v1:x");
    // Only succeeded jobs of the child are visible.
    let status = &mut unfinished.child("deploy").status;
    status.jobs = Some([("ship".to_owned(), ship(JobPhase::Skipped))].into());
    unfinished.turn();
    let job = unfinished.job("deploy");
    assert_eq!(job.phase, JobPhase::Failed);
    assert_eq!(job.reason.as_deref(), Some("OutputEvaluationFailed"));
    assert_eq!(
        job.message.as_deref(),
        Some("resolve outputs for job \"deploy\": output \"url\": no outputs for ship")
    );
}

#[test]
fn w_105_annotations_of_a_child_that_ended_itself_count_no_more() {
    let edit = |world: &mut World| {
        let key = "kruntimes.io/workflow-output.url".to_owned();
        world
            .child("deploy")
            .annotations
            .insert(key, "forged".into());
    };
    let fact = |kind, status, reason| {
        let mut conditions = Vec::new();
        let fact = Fact::new(kind, status, reason, "output \"url\": no outputs for ship");
        condition::set(
            &mut conditions,
            &fact,
            Time(jiff::Timestamp::UNIX_EPOCH).to_seconds(),
        );
        conditions
    };
    let mut published = called();
    edit(&mut published);
    end_child(&mut published, "deploy", &[("url", "true")]);
    published.turn();
    assert_eq!(published.job("deploy").outputs["url"], "true");
    let mut without = called();
    edit(&mut without);
    end_child(&mut without, "deploy", &[]);
    without.child("deploy").status.conditions =
        fact("Completed", ConditionStatus::True, "WorkflowRunSucceeded");
    without.turn();
    assert!(without.job("deploy").outputs.is_empty());
    let mut failed = called();
    edit(&mut failed);
    end_child(&mut failed, "deploy", &[]);
    failed.child("deploy").status.conditions = fact(
        "OutputsResolved",
        ConditionStatus::False,
        "OutputEvaluationFailed",
    );
    failed.turn();
    assert_eq!(
        failed.job("deploy").message.as_deref(),
        Some("resolve outputs for job \"deploy\": output \"url\": no outputs for ship")
    );
}

#[test]
fn w_104_a_malformed_contract_fails_the_caller() {
    let mut world = called();
    let child = world.child("deploy");
    child.annotations = [("kruntimes.io/workflow-output.".to_owned(), "x".to_owned())].into();
    child.status.phase = WorkflowRunPhase::Succeeded;
    world.turn();
    assert_eq!(
        world.job("deploy").message.as_deref(),
        Some(
            "resolve outputs for job \"deploy\": invalid workflow output annotation \"kruntimes.io/workflow-output.\""
        )
    );
}

/// A Workflow, what to give it, and what is said about the call.
struct Refused {
    spec: Option<WorkflowSpec>,
    with: &'static [(&'static str, &'static str)],
    reason: &'static str,
    text: String,
}

fn refused(spec: WorkflowSpec, reason: &'static str, text: String) -> Refused {
    Refused {
        spec: Some(spec),
        with: &[],
        reason,
        text,
    }
}

fn calling(workflow: &str) -> WorkflowSpec {
    WorkflowSpec {
        jobs: [("j".to_owned(), call(&[], workflow, &[]))].into(),
        ..WorkflowSpec::default()
    }
}

fn refusals() -> Vec<Refused> {
    let undeclared = WorkflowSpec {
        jobs: jobs([("j", a_job().step("s", "${{ inputs.who }}"))]),
        ..WorkflowSpec::default()
    };
    let unnameable = WorkflowSpec {
        outputs: [("-".to_owned(), Output { value: "1".into() })].into(),
        jobs: jobs([("j", a_job())]),
        ..WorkflowSpec::default()
    };
    let valid = "validate reusable workflow \"w\" for job \"deploy\": ";
    let made = "materialize reusable workflow \"w\" for job \"deploy\": ";
    vec![
        Refused {
            spec: None,
            with: &[],
            reason: "CallNotFound",
            text: "reusable workflow \"w\" for job \"deploy\" does not exist".to_owned(),
        },
        refused(
            calling("ghost"),
            "CallNotFound",
            format!("{valid}get workflow \"ghost\": not found"),
        ),
        refused(
            calling("w"),
            "CallCycle",
            format!("{valid}workflow call cycle: w -> w"),
        ),
        Refused {
            spec: Some(publish()),
            with: &[("tag", "${{ jobs.lint.outputs.x }}")],
            reason: "InvalidExpression",
            text: "resolve inputs for job \"deploy\": input \"tag\": no outputs for lint"
                .to_owned(),
        },
        refused(
            publish(),
            "InputBindingFailed",
            format!("{made}missing required input \"tag\""),
        ),
        refused(
            undeclared,
            "CallRejected",
            format!("{made}job \"j\" step \"s\" run: unknown input \"who\""),
        ),
        refused(
            unnameable,
            "CallRejected",
            "materialize output contract for reusable workflow \"w\" and job \"deploy\": \
             output name \"-\" cannot be represented as a WorkflowRun annotation"
                .to_owned(),
        ),
    ]
}

#[test]
fn w_96_w_167_a_call_that_is_refused_fails_its_job_only() {
    for case in refusals() {
        let mut world = World::new(graph(&[
            ("deploy", call(&[], "w", case.with)),
            ("lint", a_job().build()),
            ("then", a_job().needs(&["deploy"]).build()),
        ]));
        if let Some(spec) = case.spec {
            world.stored = world.stored.with_workflow("w", spec);
        }
        world.turn();
        world.starts(&["build/s", "lint/s"]);
        let job = world.job("deploy").clone();
        assert_eq!(job.message.as_deref(), Some(&*case.text));
        assert_eq!(job.reason.as_deref(), Some(case.reason));
        assert_eq!((job.phase, job.workflow_run_name), (JobPhase::Failed, None));
        assert_eq!(world.message(), case.text);
        world.turn();
        assert_eq!(world.job("then").phase, JobPhase::Skipped);
        assert_eq!(world.job("lint").phase, JobPhase::Running);
        while world.succeed_any() {
            world.settle();
        }
        assert_eq!(world.phase(), WorkflowRunPhase::Failed);
        assert_eq!(world.called, []);
    }
}

#[test]
fn w_99_w_174_w_175_cycles_and_depth_are_found_at_call_time() {
    let mut world = World::new(graph(&[("deploy", call(&[], "w1", &[]))]));
    for n in 1..=9 {
        let next = format!("w{}", n + 1);
        let job = if n == 9 {
            a_job().build()
        } else {
            call(&[], &next, &[])
        };
        let spec = WorkflowSpec {
            jobs: [("j".to_owned(), job)].into(),
            ..WorkflowSpec::default()
        };
        world.stored = world.stored.with_workflow(&format!("w{n}"), spec);
    }
    world.turn();
    world.turn();
    let job = world.job("deploy");
    assert_eq!(job.reason.as_deref(), Some("CallDepthExceeded"));
    let text = job.message.as_deref().unwrap();
    assert!(
        text.ends_with("workflow call depth exceeds maximum 8: w1 -> w2 -> w3 -> w4 -> w5 -> w6 -> w7 -> w8 -> w9"),
        "{text}"
    );
}

#[test]
fn w_17_w_100_what_was_not_read_is_asked_for_and_holds_back_the_call_alone() {
    let mut world = World::new(graph(&[("deploy", call(&[], "publish", &[("tag", "1")]))]));
    world.turn();
    let step = calculate(&world.state);
    let name = kruntimes_core::names::child_workflow_run("wfr", "deploy");
    assert_eq!(step.needs, [Need::ConfirmWorkflowRun(name.clone())]);
    assert_eq!(World::names(&step.action), ["build/s"]);
    world.state.absent_calls.insert(name);
    let step = calculate(&world.state);
    assert_eq!(step.needs, [Need::Workflow("publish".into())]);
    assert_eq!(
        step.desired.jobs.as_ref().unwrap()["deploy"].phase,
        JobPhase::Pending
    );
}

#[test]
fn w_160_w_176_an_existing_child_is_used_whatever_became_of_its_template() {
    let mut world = release();
    world.turn();
    world.turn();
    world.succeed("build", "s", &[("tag", "v1")]);
    // The child is created, and the status that names it is lost.
    let step = world.decide();
    world.apply(step.action, 2);
    assert_eq!(world.job("deploy").workflow_run_name, None);
    world.stored = Definitions::default();
    assert_eq!(world.turn(), Action::None);
    let name = world.called[0].name.clone();
    assert_eq!(world.job("deploy").workflow_run_name.as_ref(), Some(&name));
    assert_eq!(world.job("deploy").phase, JobPhase::Running);
    assert_eq!(world.called.len(), 1);
}

#[test]
fn a_child_without_success_fails_its_job() {
    for (phase, reason, how) in [
        (WorkflowRunPhase::Failed, "ChildFailed", "failed: no luck"),
        (
            WorkflowRunPhase::Cancelled,
            "ChildCancelled",
            "was cancelled: no luck",
        ),
    ] {
        let mut world = called();
        let status = &mut world.child("deploy").status;
        (status.phase, status.message) = (phase, Some("no luck".into()));
        world.turn();
        let name = &world.called[0].name;
        let job = world.job("deploy");
        assert_eq!(
            (job.phase, job.reason.as_deref()),
            (JobPhase::Failed, Some(reason))
        );
        let text = format!("child workflowrun \"{name}\" for job \"deploy\" {how}");
        assert_eq!(job.message.as_deref(), Some(&*text));
        assert_eq!(world.job("after").phase, JobPhase::Skipped);
        assert_eq!(world.phase(), WorkflowRunPhase::Failed);
    }
}

#[test]
fn w_82_w_170_a_recorded_child_that_is_gone_fails_its_job() {
    let mut world = called();
    let name = world.called[0].name.clone();
    world.state.calls.clear();
    world.turn();
    let job = world.job("deploy");
    assert_eq!(job.reason.as_deref(), Some("ChildMissing"));
    assert_eq!(
        job.message,
        Some(format!(
            "child workflowrun \"{name}\" for job \"deploy\" no longer exists"
        ))
    );
}

#[test]
fn w_46_a_foreign_child_does_not_exist_and_an_orphan_is_adopted() {
    let mut world = called();
    world.child("deploy").ownership = Ownership::Orphan;
    let name = world.called[0].name.clone();
    assert_eq!(world.decide().adopt.workflow_runs, [name]);
    world.child("deploy").ownership = Ownership::Foreign;
    let step = calculate(&world.state);
    assert!(matches!(step.needs[..], [Need::ConfirmWorkflowRun(_)]));
}

#[test]
fn w_40_w_49_a_child_that_cannot_be_created_fails_its_job() {
    let mut world = release();
    world.turn();
    world.turn();
    world.succeed("build", "s", &[("tag", "v1")]);
    let step = world.decide();
    let job = "deploy".to_owned();
    let foreign = Outcome::ForeignCall {
        job: job.clone(),
        child: "ns/x".into(),
        owner: "ns/wfr".into(),
    };
    let invalid = Outcome::InvalidCall {
        job,
        name: "x".into(),
        cause: "no".into(),
    };
    for (outcome, want) in [
        (
            foreign,
            "child workflowrun ns/x is not owned by workflowrun ns/wfr",
        ),
        (
            invalid,
            "create child workflowrun \"x\" for job \"deploy\": no",
        ),
    ] {
        let status = merge(step.desired.clone(), &[outcome]);
        let job = &status.jobs.as_ref().unwrap()["deploy"];
        assert_eq!(job.phase, JobPhase::Failed);
        assert_eq!(job.reason.as_deref(), Some("CallRejected"));
        assert_eq!(job.message.as_deref(), Some(want));
        assert_eq!(status.message.as_deref(), Some(want));
    }
}

#[test]
fn w_88_w_94_children_of_calls_are_asked_and_waited_for() {
    let mut world = called();
    let mut late = world.clone();
    world.state.spec.cancel_requested = true;
    let name = world.called[0].name.clone();
    let Action::RequestChildCancellation(names) = world.turn() else {
        panic!("the child is asked")
    };
    assert_eq!(names.workflow_runs, std::slice::from_ref(&name));
    world.idle_turn();
    assert_eq!(world.message(), "cancelling, 1 child left");
    world.child("deploy").status.phase = WorkflowRunPhase::Cancelled;
    world.turn();
    assert_eq!(world.phase(), WorkflowRunPhase::Cancelled);
    assert_eq!(world.job("deploy").phase, JobPhase::Failed);
    // W-94: seen only after the end was written.
    let child = late.state.calls.pop().unwrap();
    late.state.status.phase = WorkflowRunPhase::Cancelled;
    late.state.spec.cancel_requested = true;
    assert_eq!(late.turn(), Action::None);
    late.state.calls.push(child);
    assert_eq!(World::names(&late.turn()), [name]);
    assert_eq!(late.phase(), WorkflowRunPhase::Cancelled);
}

#[test]
fn w_18_an_operator_may_have_calls_checked_at_initialization() {
    let mut world = World::new(graph(&[("deploy", call(&["build"], "publish", &[]))]));
    world.state.policy.call_validation = CallValidation::AtInitialize;
    world.turn();
    assert_eq!(
        world.message(),
        "reusable workflow \"publish\" for job \"deploy\" does not exist"
    );
    assert_eq!(
        world.condition("Accepted").unwrap().1,
        "WorkflowValidationFailed"
    );
    let mut world = release();
    world.state.policy.call_validation = CallValidation::AtInitialize;
    world.turn();
    assert!(world.status().jobs.is_some());
}

#[test]
fn w_26_w_173_a_value_that_looks_like_an_expression_arrives_verbatim() {
    let evil = "${{ jobs.x.outputs.y }}";
    let mut world = release();
    world.turn();
    world.turn();
    world.succeed("build", "s", &[("tag", evil)]);
    world.turn();
    let mut child = World::new(world.called[0].spec.jobs.clone());
    child.state.annotations = world.called[0].annotations.clone();
    child.turn();
    child.starts(&["ship/s"]);
    let script = child.created[0].spec.source.as_ref().unwrap();
    assert_eq!(script.inline, Some(format!("ship {evil}")));
    child.succeed("ship", "s", &[("url", evil)]);
    child.turn();
    assert_eq!(child.status().outputs["url"], format!("{evil}:{evil}"));
    world.child("deploy").status = child.state.status.clone();
    world.starts(&["after/s"]);
    let script = world.created[1].spec.source.as_ref().unwrap();
    assert_eq!(script.inline, Some(format!("got {evil}:{evil}")));
}
