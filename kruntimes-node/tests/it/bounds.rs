//! What runtimed keeps its hands off: other namespaces, places it failed to claim, results that do not count.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use k8s_openapi::api::core::v1::Namespace;
use kruntimes_apiserver::fault::{FaultLayer, FaultPlan};
use kruntimes_core::api::RunPhase;
use kruntimes_core::crd::Run;
use kruntimes_proto::testing::{Method, Script, ScriptedServer};
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use crate::world::{POD, World, script, status};

#[tokio::test(start_paused = true)]
async fn n_5_a_run_of_the_same_name_in_another_namespace_has_no_effect() {
    let world = World::new(4).await;
    let server = ScriptedServer::default();
    let namespace = Namespace {
        metadata: ObjectMeta {
            name: Some("other".into()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    let params = PostParams::default();
    namespaces.create(&params, &namespace).await.unwrap();
    let elsewhere: Api<Run> = Api::namespaced(world.client.clone(), "other");
    let other = Run::new("a", script("x"));
    let other = elsewhere.create(&params, &other).await.unwrap();
    let assigned = json!({ "status": {
        "phase": "Scheduled", "assignedPod": POD, "assignedPodUID": world.pod_uid,
    }});
    let assigned = Patch::Merge(&assigned);
    let params = PatchParams::default();
    let patched = elsewhere.patch_status("a", &params, &assigned).await;
    let version = patched.unwrap().resource_version();
    let _daemon = world.daemon(server.clone());
    let run = world.submit("a", script("x")).await;
    world.until_phase("a", RunPhase::Succeeded).await;
    world.pass(Duration::from_secs(60)).await;
    assert_eq!(server.executed(&run.uid().unwrap()), 1);
    let uid = other.uid().unwrap();
    assert!(server.calls().iter().all(|call| call.id() != uid));
    let left = elsewhere.get("a").await.unwrap();
    assert_eq!(left.resource_version(), version);
}

#[tokio::test(start_paused = true)]
async fn n_34_a_claim_that_is_not_written_gives_its_place_back() {
    let world = World::new(1).await;
    let server = ScriptedServer::default();
    let plan = FaultPlan {
        conflict: 1.0,
        ..FaultPlan::default()
    };
    let layer = FaultLayer::new(7, plan);
    let trouble = layer.handle();
    let _daemon = world.daemon_with(world.api_server.client_with(&layer), server.clone());
    let active = "kruntimes_runtimed_active_runs{runtime=\"bash\"}";
    world
        .eventually("it is up", || world.measured(active).is_some())
        .await;
    let run = world.submit("a", script("x")).await;
    let before = trouble.counts().conflicts;
    world
        .eventually("claims are refused", || {
            trouble.counts().conflicts >= before + 3
        })
        .await;
    world
        .eventually("nothing is held", || world.measured(active) == Some(0.0))
        .await;
    assert_eq!(status(&world.get("a").await).phase, RunPhase::Scheduled);
    assert!(!world.run_dir(&run).exists(), "no source is prepared");
    let started = |call: &kruntimes_proto::testing::Call| call.method() == Method::Execute;
    assert!(!server.calls().iter().any(started), "nothing is sent");
    trouble.set_active(false);
    world.until_phase("a", RunPhase::Succeeded).await;
    assert_eq!(server.executed(&run.uid().unwrap()), 1);
}

#[tokio::test(start_paused = true)]
async fn n_133_n_134_outputs_count_for_success_only_and_keys_of_variables_are_ordinary() {
    let world = World::new(2).await;
    let server = ScriptedServer::new(|request| {
        let path = request.env["KRUNTIME_OUTPUTS"].clone();
        let text = fs::read_to_string(format!("{}/script", request.working_dir)).unwrap();
        Script::exits(i32::from(text == "bad"))
            .on_finish(move || fs::write(path, "kruntimes.io/env/COLOR=red\nA=1\n").unwrap())
    });
    let _daemon = world.daemon(server);
    world.submit("good", script("good")).await;
    let good = world.until_phase("good", RunPhase::Succeeded).await;
    let outputs = &status(&good).outputs;
    assert_eq!(outputs["kruntimes.io/env/COLOR"], "red");
    assert_eq!((outputs["A"].as_str(), outputs.len()), ("1", 2));
    world.submit("bad", script("bad")).await;
    let bad = world.until_phase("bad", RunPhase::Failed).await;
    assert!(status(&bad).outputs.is_empty());
}

/// Returns every source file of this crate, as path below `src` and text.
fn sources(at: &Path, found: &mut Vec<(PathBuf, String)>) -> io::Result<()> {
    for entry in fs::read_dir(at)? {
        let path = entry?.path();
        if path.is_dir() {
            sources(&path, found)?;
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = fs::read_to_string(&path)?;
            found.push((path, text));
        }
    }
    Ok(())
}

/// Returns the names of the files that contain one of these words.
fn with(words: &[&str]) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    sources(&root, &mut found).unwrap();
    assert!(found.len() > 20, "the sources are found");
    let mut names: Vec<String> = found
        .into_iter()
        .filter(|(_, text)| words.iter().any(|word| text.contains(word)))
        .map(|(path, _)| path.strip_prefix(&root).unwrap().display().to_string())
        .collect();
    names.sort();
    names
}

#[test]
fn n_74_one_file_writes_the_status_of_runs() {
    // That of the heartbeat is the Pod's.
    let writers = with(&["patch_status(", "replace_status("]);
    assert_eq!(writers, ["heartbeat.rs", "reconcile.rs"]);
    let readers = with(&["node.api", ".api\n", "api.get"]);
    for quiet in ["start.rs", "recovery.rs", "push.rs", "logs.rs", "server.rs"] {
        assert!(!readers.contains(&quiet.to_owned()), "{quiet}: {readers:?}");
    }
    assert!(readers.contains(&"reconcile.rs".to_owned()));
}

#[test]
fn n_1_no_file_reads_what_workflows_write_on_their_runs() {
    let words = [
        "owner_references",
        "LABEL_WORKFLOW",
        "kruntimes.io/workflow",
        "assigned_pod =",
    ];
    assert_eq!(with(&words), Vec::<String>::new());
}
