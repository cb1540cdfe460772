//! Whose objects count, what is adopted, and what a conflict or a deletion does.

use kruntimes_core::names::child_run;
use kube::api::DeleteParams;

use super::*;

fn a_run(name: &str, labels: &Value, owners: &Value) -> Run {
    serde_json::from_value(json!({
        "apiVersion": "kruntimes.io/v1alpha1",
        "kind": "Run",
        "metadata": {"name": name, "labels": labels, "ownerReferences": owners},
        "spec": {"runtime": "bash", "mode": {"task": {}}, "source": {"inline": "1"}},
    }))
    .unwrap()
}

fn owner(kind: &str, name: &str, uid: &str) -> Value {
    json!([{"apiVersion": "kruntimes.io/v1alpha1", "kind": kind, "name": name, "uid": uid, "controller": true}])
}

#[tokio::test(start_paused = true)]
async fn w_49_a_foreign_run_of_that_name_fails_the_step_and_is_left_alone() {
    let world = World::new();
    let name = child_run("wfr", "a", "s", "");
    let foreign = a_run(&name, &json!({}), &owner("Workshop", "other", "1"));
    world
        .runs()
        .create(&PostParams::default(), &foreign)
        .await
        .unwrap();
    world
        .create(json!({"a": job(&[], &["s"]), "b": job(&[], &["s"])}))
        .await;
    world.settle().await;
    let text = format!("child run default/{name} is not owned by workflowrun default/wfr");
    assert_eq!(world.status().await.message, Some(text));
    let want = [("a", JobPhase::Failed), ("b", JobPhase::Running)];
    assert_eq!(
        world.phases().await,
        want.map(|(name, phase)| (name.to_owned(), phase))
    );
    let untouched = world.runs().get(&name).await.unwrap();
    assert_eq!(untouched.owner_references()[0].name, "other");
}

#[tokio::test(start_paused = true)]
async fn w_172_case_035_an_earlier_workflow_runs_child_is_waited_for() {
    let world = World::new();
    let name = child_run("wfr", "a", "s", "");
    let labels = json!({
        "kruntimes.io/workflowrun-uid": "earlier",
        "kruntimes.io/workflow-job": "a",
        "kruntimes.io/workflow-step": "s",
    });
    let old = a_run(&name, &labels, &owner("WorkflowRun", "wfr", "earlier"));
    world
        .runs()
        .create(&PostParams::default(), &old)
        .await
        .unwrap();
    world.create(json!({"a": job(&[], &["s"])})).await;
    world.settle().await;
    assert_eq!(world.phase().await, WorkflowRunPhase::Pending);
    world
        .runs()
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
    tokio::time::advance(Duration::from_secs(61)).await;
    world.settle().await;
    assert_eq!(world.phase().await, WorkflowRunPhase::Running);
    let mine = world.runs().get(&name).await.unwrap();
    assert_ne!(mine.owner_references()[0].uid, "earlier");
}

#[tokio::test(start_paused = true)]
async fn case_035_applied_again_at_once_everything_runs_afresh() {
    let world = World::new();
    let _background = world.server.spawn_background();
    world.create(json!({"a": job(&[], &["s"])})).await;
    world.settle().await;
    let old = world.run_of("a", "s").await.uid();
    world
        .end(
            "a",
            "s",
            json!({"phase": "Succeeded", "outputs": {"old": "1"}}),
        )
        .await;
    assert_eq!(world.phase().await, WorkflowRunPhase::Succeeded);
    let api = world.workflow_runs();
    api.delete("wfr", &DeleteParams::background())
        .await
        .unwrap();
    let again = world.create(json!({"a": job(&[], &["s"])})).await;
    let start = tokio::time::Instant::now();
    let name = child_run("wfr", "a", "s", "");
    let mine = |run: Option<&Run>| {
        run.is_some_and(|run| {
            run.owner_references()
                .iter()
                .any(|one| Some(&one.uid) == again.metadata.uid.as_ref())
        })
    };
    kube::runtime::wait::await_condition(world.runs(), &name, mine)
        .await
        .unwrap();
    assert!(
        start.elapsed() < Duration::from_secs(2),
        "{:?}",
        start.elapsed()
    );
    world.settle().await;
    assert_ne!(world.run_of("a", "s").await.uid(), old);
    assert_eq!(world.phase().await, WorkflowRunPhase::Running);
    let jobs = world.status().await.jobs.unwrap();
    assert!(jobs["a"].steps[0].outputs.is_empty());
}

#[tokio::test(start_paused = true)]
async fn w_46_an_orphan_with_the_right_labels_is_adopted() {
    let mut world = World::idle();
    let object = world.create(json!({"a": job(&[], &["s"])})).await;
    let labels = json!({
        "kruntimes.io/workflowrun-uid": object.uid().unwrap(),
        "kruntimes.io/workflow-job": "a",
        "kruntimes.io/workflow-step": "s",
    });
    let orphan = a_run("found", &labels, &json!([]));
    world
        .runs()
        .create(&PostParams::default(), &orphan)
        .await
        .unwrap();
    world.start();
    world.settle().await;
    let adopted = world.runs().get("found").await.unwrap();
    assert_eq!(adopted.owner_references()[0].uid, object.uid().unwrap());
    assert_eq!(world.listed().await, ["a/s"]);
    world.succeed("a", "s").await;
    assert_eq!(world.phase().await, WorkflowRunPhase::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn w_82_a_child_deleted_by_hand_fails_its_step() {
    let world = World::new();
    world.create(json!({"a": job(&[], &["s"])})).await;
    world.settle().await;
    let name = world.run_of("a", "s").await.name_any();
    world
        .runs()
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
    world.settle().await;
    let text = format!("child run \"{name}\" for step \"s\" no longer exists");
    assert_eq!(world.status().await.message, Some(text));
    let jobs = world.status().await.jobs.unwrap();
    assert_eq!(jobs["a"].reason.as_deref(), Some("ChildMissing"));
    assert!(world.listed().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn w_64_a_workflow_run_being_deleted_is_left_alone() {
    let world = World::new();
    world.create(diamond()).await;
    world.settle().await;
    let finalizer = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    let api = world.workflow_runs();
    let params = PatchParams::default();
    api.patch("wfr", &params, &Patch::Merge(finalizer))
        .await
        .unwrap();
    api.delete("wfr", &DeleteParams::default()).await.unwrap();
    world.settle().await;
    let before = world.server.resource_version();
    world.succeed("a", "s").await;
    assert_eq!(world.server.resource_version() - before, 1);
    assert_eq!(world.listed().await, ["a/s"]);
}

#[tokio::test(start_paused = true)]
async fn w_63_a_conflict_undoes_nothing_and_ends_well() {
    let world = World::new();
    world.create(diamond()).await;
    world.settle().await;
    let api = world.workflow_runs();
    // Somebody else keeps moving the version while Runs end.
    for round in 0..20 {
        let note = json!({"metadata": {"annotations": {"example.com/round": round.to_string()}}});
        let params = PatchParams::default();
        let note = Patch::Merge(note);
        let touch = api.patch("wfr", &params, &note);
        let (touched, ()) = futures::join!(touch, world.execute_once());
        touched.unwrap();
    }
    world.execute_all().await;
    assert_eq!(world.phase().await, WorkflowRunPhase::Succeeded);
    assert_eq!(world.listed().await.len(), 5);
}

impl World {
    /// Ends one open Run, if there is one, without waiting for anybody.
    async fn execute_once(&self) {
        let runs = self.runs().list(&ListParams::default()).await.unwrap();
        let open = |run: &&Run| {
            run.status
                .as_ref()
                .is_none_or(|status| !status.phase.is_terminal())
        };
        if let Some(run) = runs.iter().find(open) {
            let patch = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
            let params = PatchParams::default();
            self.runs()
                .patch_status(&run.name_any(), &params, &patch)
                .await
                .unwrap();
        }
    }
}
