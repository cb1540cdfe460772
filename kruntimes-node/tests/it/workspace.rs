//! PersistentWorkspaces: who may use one, what Runs share in it, and its removal.

use std::fs;
use std::time::Duration;

use kruntimes_core::api::{
    PersistentWorkspaceSpec, RunPhase, RunSpec, WorkspaceMode, WorkspaceRef,
};
use kruntimes_core::crd::PersistentWorkspace;
use kruntimes_proto::ExecuteRequest;
use kruntimes_proto::testing::{Call, Script, ScriptedServer};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use crate::bash::real_with;
use crate::world::{NS, POD, World, conditions, message, retried, script, status};

const FINALIZER: &str = "kruntimes.io/persistent-workspace-cleanup";

fn workspaces(world: &World) -> Api<PersistentWorkspace> {
    Api::namespaced(world.client.clone(), NS)
}

/// Makes a workspace in the state its controller would give it.
pub(crate) async fn workspace(world: &World, name: &str, runtime: &str, status: &Value) {
    let mut workspace = PersistentWorkspace::new(
        name,
        PersistentWorkspaceSpec {
            runtime: runtime.into(),
            mode: WorkspaceMode::RuntimePodLocal,
            ..PersistentWorkspaceSpec::default()
        },
    );
    workspace.metadata.finalizers = Some(vec![FINALIZER.into(), "example.com/other".into()]);
    let api = workspaces(world);
    api.create(&PostParams::default(), &workspace)
        .await
        .unwrap();
    let patch = json!({ "status": status });
    api.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
}

fn bound(world: &World) -> Value {
    json!({ "phase": "Bound", "boundPod": POD, "boundPodUID": world.pod_uid, "runtime": "bash" })
}

fn within(name: &str, spec: RunSpec) -> RunSpec {
    RunSpec {
        workspace: Some(WorkspaceRef {
            name: name.into(),
            ..WorkspaceRef::default()
        }),
        ..spec
    }
}

fn requests(server: &ScriptedServer) -> Vec<ExecuteRequest> {
    let executed = |call| match call {
        Call::Execute(request) => Some(request),
        Call::Other(..) => None,
    };
    server.calls().into_iter().filter_map(executed).collect()
}

#[tokio::test(start_paused = true)]
async fn n_254_the_binding_is_checked_again() {
    let world = World::new(8).await;
    let server = ScriptedServer::new(|_| Script::exits(0));
    let _daemon = world.daemon(server.clone());
    let here = bound(&world);
    let mut other = here.clone();
    other["boundPodUID"] = "another".into();
    let phase = |phase: &str| {
        let mut status = here.clone();
        status["phase"] = phase.into();
        status
    };
    for (name, runtime, state, why) in [
        (
            "pending",
            "bash",
            json!({ "phase": "Pending" }),
            "is not bound",
        ),
        ("lost", "bash", phase("Lost"), "is lost with its pod"),
        ("released", "bash", phase("Released"), "is released"),
        ("foreign", "bash", other, "is bound to another pod"),
        (
            "runtime",
            "python",
            here.clone(),
            "belongs to another runtime",
        ),
    ] {
        workspace(&world, name, runtime, &state).await;
        world.submit(name, within(name, script("x"))).await;
        let done = world.until_over(name).await;
        let want = format!("prepare source: persistent workspace \"{name}\" {why}");
        assert_eq!(message(&done), want);
        assert!(conditions(&done).contains(&"Completed=False PrepareSource".to_owned()));
    }
    world.submit("none", within("none", script("x"))).await;
    let done = world.until_over("none").await;
    let want = "prepare source: persistent workspace \"none\" does not exist";
    assert_eq!(message(&done), want);
    assert!(requests(&server).is_empty());
    workspace(&world, "good", "bash", &here).await;
    world.submit("good", within("good", script("x"))).await;
    let done = world.until_over("good").await;
    assert_eq!(
        status(&done).phase,
        RunPhase::Succeeded,
        "{}",
        message(&done)
    );
    let request = requests(&server).remove(0);
    let root = world.workspace().join("persistent/good");
    assert_eq!(request.working_dir, root.display().to_string());
}

#[tokio::test(start_paused = true)]
async fn n_254_a_workspace_that_is_bound_late_may_be_used_by_the_next_attempt() {
    let world = World::new(2).await;
    let server = ScriptedServer::new(|_| Script::exits(0));
    let _daemon = world.daemon(server.clone());
    workspace(&world, "w", "bash", &json!({ "phase": "Pending" })).await;
    let spec = within("w", retried("x", 2, Duration::from_secs(5)));
    world.submit("a", spec).await;
    world.until("a", |status| status.attempt == Some(2)).await;
    let patch = json!({ "status": bound(&world) });
    let api = workspaces(&world);
    api.patch_status("w", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    let done = world.until_over("a").await;
    assert_eq!(
        status(&done).phase,
        RunPhase::Succeeded,
        "{}",
        message(&done)
    );
}

#[tokio::test(start_paused = true)]
async fn n_257_deleted_data_goes_when_the_last_run_is_over() {
    let world = World::new(2).await;
    let server = ScriptedServer::new(|_| Script::exits(0).after(Duration::from_secs(60)));
    let daemon = world.daemon(server.clone());
    workspace(&world, "w", "bash", &bound(&world)).await;
    let run = world.submit("a", within("w", script("x"))).await;
    world.until_phase("a", RunPhase::Running).await;
    let root = world.workspace().join("persistent/w");
    let own = root.join(".kruntimes/runs").join(run.uid().unwrap());
    world.eventually("it is prepared", || own.exists()).await;
    fs::write(root.join("data"), "x").unwrap();
    let api = workspaces(&world);
    api.delete("w", &DeleteParams::default()).await.unwrap();
    world.pass(Duration::from_secs(30)).await;
    let before = api.get("w").await.unwrap();
    assert!(root.join("data").exists(), "a run uses it");
    assert_eq!(before.finalizers().len(), 2);
    // The answer does not depend on the process that saw the deletion.
    daemon.kill().await;
    let _daemon = world.daemon(server);
    world.until_over("a").await;
    world.eventually("it is removed", || !root.exists()).await;
    world.pass(Duration::from_secs(1)).await;
    let after = api.get("w").await.unwrap();
    assert_eq!(after.finalizers(), ["example.com/other"]);
    assert_eq!(
        after.status, before.status,
        "the status is the controller's"
    );
    world.submit("late", within("w", script("x"))).await;
    let late = world.until_over("late").await;
    let want = "prepare source: persistent workspace \"w\" is being deleted";
    assert_eq!(message(&late), want);
    world.pass(Duration::from_secs(1)).await;
    assert!(!root.exists());
}

#[tokio::test(start_paused = true)]
async fn n_257_n_258_data_of_another_pod_of_this_name_is_not_ours() {
    let world = World::new(2).await;
    let _daemon = world.daemon(ScriptedServer::default());
    let mut state = bound(&world);
    state["boundPodUID"] = "former".into();
    workspace(&world, "w", "bash", &state).await;
    let root = world.workspace().join("persistent/w");
    fs::create_dir_all(&root).unwrap();
    let api = workspaces(&world);
    api.delete("w", &DeleteParams::default()).await.unwrap();
    world.pass(Duration::from_secs(60)).await;
    assert!(root.exists());
    assert_eq!(api.get("w").await.unwrap().finalizers().len(), 2);
}

#[tokio::test]
async fn n_126_w_220_two_runs_share_files_and_keep_their_own_apart() {
    let real = real_with(2, Duration::from_millis(200)).await;
    let world = &real.world;
    workspace(world, "w", "bash", &bound(world)).await;
    let first = "echo hello > shared; echo tmp > \"$TMPDIR/t\"; cd && pwd > home; echo A=1 >> \"$KRUNTIME_OUTPUTS\"";
    let run = world.submit("a", within("w", script(first))).await;
    let done = world.until_over("a").await;
    assert_eq!(
        status(&done).phase,
        RunPhase::Succeeded,
        "{}",
        message(&done)
    );
    let root = world.workspace().join("persistent/w");
    let own = root.join(".kruntimes/runs").join(run.uid().unwrap());
    world.eventually("its own is gone", || !own.exists()).await;
    let second =
        "echo \"B=$(cat shared) $(cat \"$TMPDIR/t\") $(cat ~/home)\" >> \"$KRUNTIME_OUTPUTS\"";
    world.submit("b", within("w", script(second))).await;
    let done = world.until_over("b").await;
    let home = root.join(".home");
    assert_eq!(
        status(&done).outputs["B"],
        format!("hello tmp {}", home.display()),
        "{}",
        message(&done)
    );
    assert!(!status(&done).outputs.contains_key("A"));
}

#[tokio::test]
async fn w_140_w_222_a_tool_is_installed_once_and_used_by_the_next_run() {
    let real = real_with(2, Duration::from_millis(200)).await;
    let world = &real.world;
    let install = "dir=$(\"$KRUNTIME_TOOL_CACHE/bin/kruntime-cache\" ensure tool/1 -- sh -c \
                   'printf \"echo I am a tool\" > \"$KRUNTIME_CACHE_STAGING/tool\"; echo built') \
                   && echo \"DIR=$dir\" >> \"$KRUNTIME_OUTPUTS\"";
    for name in ["a", "b"] {
        world.submit(name, script(install)).await;
        let done = world.until_over(name).await;
        assert_eq!(
            status(&done).phase,
            RunPhase::Succeeded,
            "{}",
            message(&done)
        );
        let dir = status(&done).outputs["DIR"].clone();
        let using = format!("echo \"SAYS=$(sh {dir}/tool)\" >> \"$KRUNTIME_OUTPUTS\"");
        world.submit(&format!("{name}-use"), script(&using)).await;
        let done = world.until_over(&format!("{name}-use")).await;
        assert_eq!(status(&done).outputs["SAYS"], "I am a tool");
    }
    let lines = world.logs.lines();
    let built = lines.iter().filter(|line| line.contains("built")).count();
    assert_eq!(built, 1, "{lines:?}");
}
