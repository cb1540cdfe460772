//! Artifacts and workspaces (sections 13.2 and 13.3).

use kruntimes_core::api::{ArtifactRef, StepArtifact, WorkspacePhase};

use super::*;

fn artifact(name: &str, made_by: &str) -> ArtifactRef {
    serde_json::from_value(serde_json::json!({
        "name": name, "driver": "filesystem", "type": "file", "sizeBytes": 1,
        "createdAt": "2026-01-01T00:00:00Z",
        "location": {"filesystem": {"path": format!("{made_by}/{name}")}},
    }))
    .unwrap()
}

fn importing(imports: &[(&str, &str)]) -> kruntimes_core::api::Step {
    let import = |&(from, path): &(&str, &str)| StepArtifact {
        from: from.into(),
        path: path.into(),
    };
    kruntimes_core::api::Step {
        name: "s".into(),
        run: Some("1".into()),
        artifacts: imports.iter().map(import).collect(),
        ..kruntimes_core::api::Step::default()
    }
}

fn succeed_with(world: &mut World, job: &str, step: &str, names: &[&str]) {
    world.succeed(job, step, &[]);
    let run = world.run(job, step);
    run.artifacts = names.iter().map(|name| artifact(name, step)).collect();
}

#[test]
fn w_128_w_130_w_131_w_138_artifacts_travel_as_references_that_name_no_step() {
    let mut world = World::accepted(jobs([
        ("build", a_job().step("one", "1").step("two", "2")),
        (
            "verify",
            a_job().needs(&["build"]).step_with(importing(&[(
                "jobs.build.artifacts.dist.tgz",
                "./in/dist.tgz",
            )])),
        ),
    ]));
    world.turn();
    succeed_with(&mut world, "build", "one", &["dist.tgz", "log"]);
    world.turn();
    succeed_with(&mut world, "build", "two", &["dist.tgz"]);
    world.starts(&["verify/s"]);
    let made = &world.job("build").artifacts;
    let paths: Vec<_> = made
        .values()
        .map(|found| &*found.location.filesystem.as_ref().unwrap().path)
        .collect();
    assert_eq!(paths, ["two/dist.tgz", "one/log"]);
    let inputs = &world.created[2].spec.artifact_inputs;
    assert_eq!(inputs.len(), 1);
    assert_eq!(inputs[0].path, "in/dist.tgz");
    assert_eq!(inputs[0].reference, artifact("dist.tgz", "two"));
}

#[test]
fn w_129_w_130_an_import_that_cannot_be_resolved_fails_its_step_alone() {
    for (path, name, reason, cause) in [
        (
            "x",
            "other",
            "ArtifactMissing",
            "artifact input \"jobs.build.artifacts.other\" was not produced",
        ),
        (
            "../x",
            "log",
            "StepFailed",
            "artifact path \"../x\" may not leave the work directory",
        ),
    ] {
        let from = format!("jobs.build.artifacts.{name}");
        let verify = a_job().needs(&["build"]);
        let mut world = World::accepted(jobs([
            ("build", a_job()),
            ("lint", a_job()),
            ("verify", verify.step_with(importing(&[(&from, path)]))),
        ]));
        world.turn();
        succeed_with(&mut world, "build", "s", &["log"]);
        world.turn();
        world.turn();
        let job = world.job("verify");
        assert_eq!(
            (job.phase, job.reason.as_deref()),
            (JobPhase::Failed, Some(reason))
        );
        assert_eq!(
            job.message,
            Some(format!("resolve step \"s\" in job \"verify\": {cause}"))
        );
        assert_eq!(world.job("lint").phase, JobPhase::Running);
        assert_eq!(world.created.len(), 2);
    }
}

#[test]
fn w_131_a_call_offers_the_artifacts_of_its_child() {
    let call = Job {
        uses: Some("w".into()),
        ..Job::default()
    };
    let mut world = World::new([("c".to_owned(), call)].into());
    let spec = kruntimes_core::api::WorkflowSpec {
        jobs: jobs([("a", a_job())]),
        ..kruntimes_core::api::WorkflowSpec::default()
    };
    world.stored = world.stored.with_workflow("w", spec);
    world.turn();
    world.turn();
    let made = |phase, names: &[&str], by: &str| JobStatus {
        phase,
        artifacts: names
            .iter()
            .map(|name| ((*name).to_owned(), artifact(name, by)))
            .collect(),
        ..JobStatus::default()
    };
    let status = &mut world.child("c").status;
    status.phase = WorkflowRunPhase::Succeeded;
    let child = [
        ("a", made(JobPhase::Succeeded, &["log", "one"], "a")),
        ("b", made(JobPhase::Succeeded, &["log"], "b")),
        ("s", made(JobPhase::Skipped, &["two"], "s")),
    ];
    status.jobs = Some(child.map(|(name, job)| (name.to_owned(), job)).into());
    world.turn();
    let names: Vec<_> = world.job("c").artifacts.keys().cloned().collect();
    assert_eq!(names, ["a.log", "b.log", "one"]);
}

#[test]
fn w_84_artifacts_have_a_limit() {
    let mut world = World::accepted(jobs([("a", a_job())]));
    world.turn();
    let names: Vec<_> = (0..33).map(|n| format!("n{n}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    succeed_with(&mut world, "a", "s", &names);
    world.turn();
    assert_eq!(world.job("a").reason.as_deref(), Some("OutputsTooLarge"));
    assert_eq!(
        world.message(),
        "artifacts of job \"a\" have 33 names, exceeds 32"
    );
}

fn sharing(policy: JobWorkspace) -> World {
    let mut world = World::new(jobs([
        ("many", a_job().step("one", "1").step("two", "2")),
        ("single", a_job()),
        (
            "waits",
            a_job().needs(&["many"]).step("a", "1").step("b", "2"),
        ),
    ]));
    world.state.policy.job_workspace = policy;
    world.turn();
    world
}

#[test]
fn w_119_w_122_w_123_a_job_of_several_runs_shares_a_workspace() {
    let mut world = sharing(JobWorkspace::MultiStep);
    assert!(world.state.workspaces.is_empty(), "not at initialization");
    world.starts(&["many/one", "single/s"]);
    let name = kruntimes_core::names::job_workspace("wfr", "many");
    let first = &world.created[0];
    let workspace = first.workspace.as_ref().unwrap();
    assert_eq!((&workspace.name, &*workspace.runtime), (&name, "bash"));
    let labels: Vec<_> = workspace.labels.iter().map(|(k, v)| (&**k, &**v)).collect();
    assert_eq!(
        labels,
        [
            ("kruntimes.io/workflow-job", "many"),
            ("kruntimes.io/workflowrun-uid", "uid-1")
        ]
    );
    assert_eq!(first.spec.workspace.as_ref().unwrap().name, name);
    assert_eq!(world.created[1].spec.workspace, None);
    world.succeed("many", "one", &[]);
    world.starts(&["many/two"]);
    let second = &world.created[2];
    assert_eq!(second.spec.workspace.as_ref().unwrap().name, name);
    assert_eq!(second.workspace, None, "it is there");
    assert_eq!(world.state.workspaces.len(), 1, "a waiting job has none");
}

#[test]
fn w_122_the_policy_decides_and_does_not_change_within_a_job() {
    let mut never = sharing(JobWorkspace::Never);
    never.turn();
    assert!(never.created.iter().all(|run| run.spec.workspace.is_none()));
    never.state.policy.job_workspace = JobWorkspace::Always;
    never.succeed("many", "one", &[]);
    never.turn();
    assert_eq!(never.created[2].spec.workspace, None);
    let mut always = sharing(JobWorkspace::Always);
    always.turn();
    assert_eq!(always.state.workspaces.len(), 2);
}

#[test]
fn w_126_steps_meet_in_their_workspace_and_affinity_is_a_hint_on_request() {
    let mut shared = sharing(JobWorkspace::MultiStep);
    shared.turn();
    assert!(shared.created.iter().all(|run| run.spec.affinity.is_none()));
    let mut never = sharing(JobWorkspace::Never);
    never.state.policy.affinity_hint = true;
    never.turn();
    let affinity = never.created[0].spec.affinity.clone().unwrap();
    let terms = affinity.run_affinity.unwrap();
    assert!(terms.required.is_empty() && affinity.run_anti_affinity.is_none());
    let [preferred] = &terms.preferred[..] else {
        panic!("one term: {terms:?}")
    };
    let selector = preferred.run_affinity_term.label_selector.as_ref().unwrap();
    let labels = &never.created[0].labels;
    assert_eq!(selector.match_labels.len(), 2);
    for (key, value) in &selector.match_labels {
        assert_eq!(labels.get(key), Some(value));
    }
}

#[test]
fn w_157_a_workspace_without_its_run_is_used_again() {
    let mut world = sharing(JobWorkspace::MultiStep);
    let step = world.decide();
    let Action::StartRunnableSteps(targets) = step.action else {
        panic!("two jobs are ready")
    };
    let name = targets.steps[0].workspace.as_ref().unwrap().name.clone();
    world.state.workspaces.push(Workspace {
        name,
        ..Workspace::default()
    });
    // The create of the first turn finds it; the Run is described alike.
    let again = world.decide();
    let Action::StartRunnableSteps(again) = again.action else {
        panic!("two jobs are ready")
    };
    assert_eq!(again, targets);
}

#[test]
fn w_125_a_lost_workspace_ends_its_job() {
    for phase in [WorkspacePhase::Lost, WorkspacePhase::Released] {
        let mut world = sharing(JobWorkspace::MultiStep);
        world.turn();
        world.state.workspaces[0].phase = phase;
        let mut between = world.clone();
        let run = world.created[0].name.clone();
        assert_eq!(World::names(&world.turn()), [run]);
        let job = world.job("many");
        assert_eq!(job.phase, JobPhase::Running);
        assert_eq!(job.reason.as_deref(), Some("WorkspaceLost"));
        world.idle_turn();
        world.end("many", "one", RunPhase::Cancelled);
        world.turn();
        let job = world.job("many");
        assert_eq!(job.phase, JobPhase::Failed);
        assert_eq!(job.reason.as_deref(), Some("WorkspaceLost"));
        assert_eq!(
            job.message.as_deref(),
            Some("workspace for job \"many\" was lost")
        );
        assert_eq!(world.job("single").phase, JobPhase::Running);
        // Between two steps there is nobody to ask, and nothing starts.
        between.succeed("many", "one", &[]);
        assert_eq!(between.turn(), Action::None);
        assert_eq!(between.job("many").phase, JobPhase::Failed);
    }
}

#[test]
fn w_125_a_workspace_that_vanished_is_lost_and_one_of_a_finished_job_is_not_missed() {
    let mut world = sharing(JobWorkspace::MultiStep);
    world.turn();
    let mut finished = world.clone();
    world.state.workspaces.clear();
    let step = calculate(&world.state);
    assert!(matches!(step.needs[..], [Need::ConfirmWorkspace(_)]));
    assert_eq!(World::names(&world.turn()), [world.created[0].name.clone()]);
    finished.succeed("many", "one", &[]);
    finished.turn();
    finished.succeed("many", "two", &[]);
    finished.state.workspaces.clear();
    finished.starts(&["waits/a"]);
    assert_eq!(finished.job("many").phase, JobPhase::Succeeded);
}

#[test]
fn w_49_a_workspace_that_is_not_ours_fails_the_step() {
    let mut world = sharing(JobWorkspace::MultiStep);
    let step = world.decide();
    let Action::StartRunnableSteps(targets) = step.action else {
        panic!("two jobs are ready")
    };
    let outcome = Outcome::ForeignWorkspace {
        key: targets.steps[0].key.clone(),
        workspace: "ns/w".into(),
        owner: "ns/wfr".into(),
    };
    let status = merge(step.desired, &[outcome]);
    assert_eq!(
        status.message.as_deref(),
        Some("job workspace ns/w is not owned by workflowrun ns/wfr")
    );
}
