//! Job workspaces and artifacts over the API.

use kruntimes_core::crd::PersistentWorkspace;
use kruntimes_core::names::job_workspace;
use kruntimes_workflow::plan::JobWorkspace;

use super::*;

fn workspaces(world: &World) -> Api<PersistentWorkspace> {
    Api::namespaced(world.client.clone(), "default")
}

fn sharing() -> Config {
    let mut config = Config::default();
    config.policy.job_workspace = JobWorkspace::MultiStep;
    config
}

fn two_jobs() -> Value {
    json!({"many": job(&[], &["one", "two"]), "single": job(&[], &["s"])})
}

#[tokio::test(start_paused = true)]
async fn w_122_w_123_a_workspace_is_there_before_the_first_run() {
    let mut world = World::idle();
    // Snapshot and status, then the workspace; its Run is never created.
    world.start_mortal_with(3, sharing());
    world
        .create(json!({"many": job(&[], &["one", "two"])}))
        .await;
    world.settle().await;
    let name = job_workspace("wfr", "many");
    let made = workspaces(&world).get(&name).await.unwrap();
    assert_eq!(made.spec.runtime, "bash");
    assert_eq!(made.spec.ttl_seconds_after_unused, None);
    assert_eq!(made.owner_references()[0].name, "wfr");
    assert_eq!(made.labels()["kruntimes.io/workflow-job"], "many");
    assert!(world.listed().await.is_empty());
    // W-157: the next instance takes it.
    world.kill().await;
    world.start_config(sharing());
    world.settle().await;
    world.execute_all().await;
    assert_eq!(world.phase().await, WorkflowRunPhase::Succeeded);
    for step in ["one", "two"] {
        let run = world.run_of("many", step).await;
        assert_eq!(run.spec.workspace.unwrap().name, name);
    }
    let all = workspaces(&world).list(&ListParams::default()).await;
    assert_eq!(all.unwrap().items.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn w_125_a_workspace_that_is_lost_wakes_and_ends_its_job() {
    let mut world = World::idle();
    world.start_config(sharing());
    world.create(two_jobs()).await;
    world.settle().await;
    let patch = Patch::Merge(json!({"status": {"phase": "Lost"}}));
    let (api, params) = (workspaces(&world), PatchParams::default());
    let name = job_workspace("wfr", "many");
    api.patch_status(&name, &params, &patch).await.unwrap();
    world.settle().await;
    assert!(world.run_of("many", "one").await.spec.cancel_requested);
    assert!(!world.run_of("single", "s").await.spec.cancel_requested);
    world
        .end("many", "one", json!({"phase": "Cancelled"}))
        .await;
    world.succeed("single", "s").await;
    let status = world.status().await;
    assert_eq!(status.phase, WorkflowRunPhase::Failed);
    let text = "workspace for job \"many\" was lost";
    assert_eq!(status.message.as_deref(), Some(text));
    let reason = status.jobs.unwrap()["many"].reason.clone();
    assert_eq!(reason.as_deref(), Some("WorkspaceLost"));
    assert_eq!(world.listed().await, ["many/one", "single/s"]);
}

#[tokio::test(start_paused = true)]
async fn w_49_a_foreign_workspace_of_that_name_fails_the_step() {
    let mut world = World::idle();
    world.start_config(sharing());
    let name = job_workspace("wfr", "many");
    let foreign: PersistentWorkspace = serde_json::from_value(json!({
        "apiVersion": "kruntimes.io/v1alpha1", "kind": "PersistentWorkspace",
        "metadata": {"name": name}, "spec": {"runtime": "bash"},
    }))
    .unwrap();
    let params = PostParams::default();
    workspaces(&world).create(&params, &foreign).await.unwrap();
    world.create(two_jobs()).await;
    world.settle().await;
    let text = format!("job workspace default/{name} is not owned by workflowrun default/wfr");
    assert_eq!(world.status().await.message, Some(text));
    assert_eq!(world.listed().await, ["single/s"]);
}

#[tokio::test(start_paused = true)]
async fn w_130_w_131_w_221_artifacts_of_one_job_are_inputs_of_another() {
    let world = World::new();
    let verify = |name: &str| {
        json!({
            "needs": ["build"], "runs-on": "bash",
            "steps": [{"name": "s", "run": "1", "artifacts": [
                {"from": format!("jobs.build.artifacts.{name}"), "path": "./in"},
            ]}],
        })
    };
    world
        .create(json!({
            "build": job(&[], &["s"]), "verify": verify("dist.tgz"), "other": verify("none"),
        }))
        .await;
    world.settle().await;
    let reference = json!({
        "name": "dist.tgz", "driver": "filesystem", "type": "file", "sizeBytes": 3,
        "createdAt": "2026-01-01T00:00:00Z", "location": {"filesystem": {"path": "a/b"}},
    });
    world
        .end(
            "build",
            "s",
            json!({"phase": "Succeeded", "artifactRefs": [reference]}),
        )
        .await;
    let run = world.run_of("verify", "s").await;
    assert_eq!(run.spec.artifact_inputs[0].path, "in");
    assert_eq!(run.spec.artifact_inputs[0].reference.name, "dist.tgz");
    let jobs = world.status().await.jobs.unwrap();
    assert_eq!(jobs["build"].artifacts.len(), 1);
    assert_eq!(jobs["other"].phase, JobPhase::Failed);
    assert_eq!(
        jobs["other"].message.as_deref(),
        Some(
            "resolve step \"s\" in job \"other\": \
             artifact input \"jobs.build.artifacts.none\" was not produced"
        )
    );
    assert_eq!(world.listed().await, ["build/s", "verify/s"]);
}
