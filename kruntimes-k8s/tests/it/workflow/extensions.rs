//! The extensions that a controller may be told to accept (W-198 to W-209).

use kruntimes_core::condition;
use kruntimes_k8s::workflow::{Extensions, Policy};

use super::*;

impl World {
    /// Starts a controller that accepts these extensions.
    fn accepting(extensions: &str) -> Self {
        let mut world = Self::idle();
        world.start_config(accepting(extensions));
        world
    }

    async fn submit(&self, name: &str, spec: Value) {
        let object: WorkflowRun = serde_json::from_value(json!({
            "apiVersion": "kruntimes.io/v1alpha1",
            "kind": "WorkflowRun",
            "metadata": {"name": name},
            "spec": spec,
        }))
        .unwrap();
        let params = PostParams::default();
        let created = self.workflow_runs().create(&params, &object).await;
        created.expect("the WorkflowRun is valid");
        self.settle().await;
    }

    async fn change(&self, name: &str, change: Value) {
        let (api, params) = (self.workflow_runs(), PatchParams::default());
        let patched = api.patch(name, &params, &Patch::Merge(change)).await;
        patched.expect("the change is valid");
        self.settle().await;
    }

    async fn told(&self, name: &str) -> (WorkflowRunPhase, String) {
        let status = self.status_of(name).await;
        (status.phase, status.message.unwrap_or_default())
    }

    /// Ends the Runs of one WorkflowRun.
    async fn end_runs_of(&self, name: &str, phase: &str) {
        let object = self.workflow_runs().get(name).await.unwrap();
        let uid = object.uid().unwrap();
        let labelled = ListParams::default().labels(&format!("kruntimes.io/workflowrun-uid={uid}"));
        for run in self.runs().list(&labelled).await.unwrap() {
            let patch = Patch::Merge(json!({"status": {"phase": phase}}));
            let params = PatchParams::default();
            let name = run.name_any();
            self.runs()
                .patch_status(&name, &params, &patch)
                .await
                .unwrap();
        }
        self.settle().await;
    }
}

fn accepting(extensions: &str) -> Config {
    let mut policy = Policy::default();
    policy.extensions = extensions.parse::<Extensions>().unwrap();
    Config {
        policy,
        ..Config::default()
    }
}

fn with(mut job: Value, field: &str, value: Value) -> Value {
    job[field] = value;
    job
}

#[tokio::test(start_paused = true)]
async fn w_6_a_controller_refuses_fields_of_extensions_by_name_unless_it_accepts_them() {
    let spec = || json!({"jobs": {"a": with(job(&[], &["s"]), "if", json!("always()"))}});
    let world = World::new();
    world.submit("wfr", spec()).await;
    let text = "job \"a\" if is not supported: workflow extension conditions is off";
    assert_eq!(
        world.told("wfr").await,
        (WorkflowRunPhase::Failed, text.to_owned())
    );
    assert!(world.listed().await.is_empty());
    let world = World::accepting("conditions");
    world.submit("wfr", spec()).await;
    assert_eq!(world.listed().await, ["a/s"]);
}

#[tokio::test(start_paused = true)]
async fn w_198_w_199_w_200_conditions_and_legs_run_in_a_cluster() {
    let world = World::accepting("conditions,continue-on-error,matrix");
    let legs = with(
        job(&[], &["s"]),
        "matrix",
        json!({"axes": {"v": ["2", "1"]}}),
    );
    let flaky = with(job(&[], &["s"]), "continueOnError", json!(true));
    let rescue = with(job(&["t"], &["s"]), "if", json!("failure()"));
    let jobs =
        json!({"t": legs, "flaky": flaky, "rescue": rescue, "next": job(&["flaky"], &["s"])});
    world.submit("wfr", json!({"jobs": jobs})).await;
    assert_eq!(world.listed().await, ["flaky/s", "t.1/s", "t.2/s"]);
    let failed = || json!({"phase": "Failed"});
    world.end("flaky", "s", failed()).await;
    world.end("t.1", "s", failed()).await;
    world.succeed("t.2", "s").await;
    world.succeed("next", "s").await;
    world.succeed("rescue", "s").await;
    let status = world.status().await;
    assert_eq!(status.phase, WorkflowRunPhase::Failed);
    let jobs = status.jobs.unwrap();
    assert_eq!(jobs["flaky"].conclusion, Some(JobPhase::Succeeded));
    assert_eq!(jobs["rescue"].phase, JobPhase::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn w_209_a_deadline_wakes_the_controller_at_its_moment_and_not_before() {
    let world = World::accepting("timeouts");
    let slow = with(job(&[], &["s"]), "timeout", json!("90s"));
    world.submit("wfr", json!({"jobs": {"slow": slow}})).await;
    let deadline = world.status().await.jobs.unwrap()["slow"].deadline;
    assert_eq!(deadline.unwrap().to_string(), "1970-01-01T00:01:30Z");
    let before = world.server.resource_version();
    tokio::time::advance(Duration::from_secs(89)).await;
    world.settle().await;
    assert_eq!(world.server.resource_version(), before, "nothing is polled");
    tokio::time::advance(Duration::from_millis(1001)).await;
    world.settle().await;
    assert!(world.run_of("slow", "s").await.spec.cancel_requested);
    world.end("slow", "s", json!({"phase": "Cancelled"})).await;
    assert_eq!(
        world.told("wfr").await,
        (
            WorkflowRunPhase::Failed,
            "job \"slow\" timed out".to_owned()
        )
    );
}

/// A new controller finds the deadline in the status.
#[tokio::test(start_paused = true)]
async fn w_209_a_deadline_outlives_the_controller() {
    let mut world = World::accepting("timeouts");
    let spec = json!({"strategy": {"timeout": "1m"}, "jobs": {"a": job(&[], &["s"])}});
    world.submit("wfr", spec).await;
    world.kill().await;
    tokio::time::advance(Duration::from_secs(30)).await;
    let clock = Clock::virtual_from(Timestamp::from_second(30).unwrap());
    let (client, config) = (world.client.clone(), accepting("timeouts"));
    world.controllers.spawn(run(client, config, clock));
    world.settle().await;
    assert!(!world.run_of("a", "s").await.spec.cancel_requested);
    tokio::time::advance(Duration::from_millis(30_001)).await;
    world.settle().await;
    world.end("a", "s", json!({"phase": "Cancelled"})).await;
    let status = world.status().await;
    let completed = condition::get(&status.conditions, "Completed").unwrap();
    assert_eq!(completed.reason, "WorkflowRunTimedOut");
}

fn grouped(policy: &str) -> Value {
    let concurrency = json!({"group": "db", "policy": policy});
    json!({"strategy": {"concurrency": concurrency}, "jobs": {"a": job(&[], &["s"])}})
}

/// Case 143: the next one starts however the holder leaves, without a timer.
#[tokio::test(start_paused = true)]
async fn w_203_a_group_is_free_as_soon_as_its_holder_is_over_or_goes_away() {
    for leaves in ["ends", "is cancelled", "is deleted", "hangs in deletion"] {
        let world = World::accepting("concurrency");
        for name in ["a", "b", "c"] {
            world.submit(name, grouped("Queue")).await;
        }
        let waits = |behind: &str| {
            let text = format!("waits for workflowrun \"{behind}\" of its concurrency group");
            (WorkflowRunPhase::Pending, text)
        };
        assert_eq!(world.told("b").await, waits("a"));
        assert_eq!(world.told("c").await.0, WorkflowRunPhase::Pending);
        match leaves {
            "ends" => world.end_runs_of("a", "Succeeded").await,
            "is cancelled" => {
                world
                    .change("a", json!({"spec": {"cancelRequested": true}}))
                    .await;
                assert_eq!(world.told("b").await, waits("a"), "its Run is still there");
                world.end_runs_of("a", "Cancelled").await;
            }
            how => {
                if how == "hangs in deletion" {
                    let kept = json!({"metadata": {"finalizers": ["example.com/kept"]}});
                    world.change("a", kept).await;
                }
                let api = world.workflow_runs();
                api.delete("a", &kube::api::DeleteParams::default())
                    .await
                    .unwrap();
                world.settle().await;
            }
        }
        assert_eq!(
            world.told("b").await.0,
            WorkflowRunPhase::Running,
            "a {leaves}"
        );
        assert_eq!(world.told("c").await, waits("b"), "a {leaves}");
    }
}

/// Case 145: exactly the newest survives, and the reason names it.
#[tokio::test(start_paused = true)]
async fn w_203_the_newest_of_a_group_replaces_all_others_and_touches_no_other_group() {
    let world = World::accepting("concurrency");
    let mut other = grouped("CancelRunning");
    other["strategy"]["concurrency"]["group"] = json!("other");
    world.submit("other", other).await;
    for name in ["a", "b", "c"] {
        world.submit(name, grouped("CancelRunning")).await;
    }
    assert_eq!(world.told("b").await.0, WorkflowRunPhase::Cancelled);
    assert_eq!(world.told("c").await.0, WorkflowRunPhase::Pending);
    world.end_runs_of("a", "Cancelled").await;
    assert_eq!(world.told("a").await.0, WorkflowRunPhase::Cancelled);
    assert_eq!(world.told("c").await.0, WorkflowRunPhase::Running);
    assert_eq!(world.told("other").await.0, WorkflowRunPhase::Running);
    let status = world.status_of("b").await;
    let completed = condition::get(&status.conditions, "Completed").unwrap();
    assert_eq!(
        completed.message,
        "WorkflowRun was cancelled: workflowrun \"c\" of its concurrency group replaces it"
    );
}

/// Several that are seen at once are decided one after the other.
#[tokio::test(start_paused = true)]
async fn w_203_one_of_many_enters_when_a_controller_starts() {
    let mut world = World::idle();
    for name in ["a", "b", "c", "d", "e", "f"] {
        world.submit(name, grouped("Queue")).await;
    }
    world.start_config(accepting("concurrency"));
    world.start_config(accepting("concurrency"));
    world.settle().await;
    let names = world.workflow_run_names().await;
    let mut running = Vec::new();
    for name in names {
        if world.told(&name).await.0 != WorkflowRunPhase::Pending {
            running.push(name);
        }
    }
    assert_eq!(running, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn w_202_gates_and_suspension_wait_for_a_change_of_the_spec() {
    let world = World::accepting("gates");
    let gated = with(job(&[], &["s"]), "gate", json!("ship"));
    world
        .submit(
            "wfr",
            json!({"suspend": true, "jobs": {"a": gated, "b": job(&[], &["s"])}}),
        )
        .await;
    assert!(world.listed().await.is_empty());
    world
        .change("wfr", json!({"spec": {"suspend": false}}))
        .await;
    assert_eq!(world.listed().await, ["b/s"]);
    world
        .change("wfr", json!({"spec": {"decisions": {"ship": "Approved"}}}))
        .await;
    assert_eq!(world.listed().await, ["a/s", "b/s"]);
    let (api, params) = (world.workflow_runs(), PatchParams::default());
    let change = json!({"spec": {"decisions": {"ship": "Denied"}}});
    let refused = api
        .patch("wfr", &params, &Patch::Merge(change))
        .await
        .unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("a decision may not be changed or withdrawn"),
        "{refused}"
    );
}

#[tokio::test(start_paused = true)]
async fn w_207_a_new_workflow_run_reuses_what_succeeded() {
    let world = World::accepting("rerun");
    let reader = json!({"runs-on": "bash", "needs": ["a"], "steps": [
        {"name": "s", "run": "got ${{ jobs.a.outputs.o }}"},
    ]});
    let reuse = json!({"a": {"outputs": {"o": "old"}}});
    let mut a = job(&[], &["s"]);
    a["outputs"] = json!({"o": "${{ steps.s.outputs.o }}"});
    world
        .submit(
            "wfr",
            json!({"jobs": {"a": a, "b": reader}, "reuse": reuse}),
        )
        .await;
    assert_eq!(world.listed().await, ["b/s"]);
    let source = world.run_of("b", "s").await.spec.source.unwrap();
    assert_eq!(source.inline.as_deref(), Some("got old"));
    world.succeed("b", "s").await;
    assert_eq!(world.phase().await, WorkflowRunPhase::Succeeded);
}

/// W-164: a controller that dies after any single write leaves nothing that another one does twice.
#[tokio::test(start_paused = true)]
async fn w_164_w_200_crashes_in_a_run_with_legs_and_conditions_change_nothing() {
    let legs = with(
        job(&[], &["s"]),
        "matrix",
        json!({"axes": {"v": ["2", "1"]}}),
    );
    let last = with(job(&["t"], &["s"]), "if", json!("always()"));
    let spec = json!({"jobs": {"t": legs, "last": last}});
    for writes in 0..10 {
        let mut world = World::idle();
        world.start_mortal_with(writes, accepting("all"));
        world.submit("wfr", spec.clone()).await;
        world.kill().await;
        world.start_config(accepting("all"));
        world.settle().await;
        world.execute_all().await;
        assert_eq!(
            world.phase().await,
            WorkflowRunPhase::Succeeded,
            "after {writes} writes"
        );
        assert_eq!(world.listed().await, ["last/s", "t.1/s", "t.2/s"]);
    }
}
