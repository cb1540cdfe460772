//! The `Ready` condition of Workflows and Actions.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kruntimes_apiserver::ApiServer;
use kruntimes_core::condition;
use kruntimes_core::crd::{Action, Workflow};
use kruntimes_k8s::clock::Clock;
use kruntimes_k8s::definitions::{Config, REASON_SURPRISING, run};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

async fn settle() {
    for _ in 0..300 {
        tokio::task::yield_now().await;
    }
}

fn workflow(script: &str) -> Workflow {
    serde_json::from_value(json!({
        "apiVersion": "kruntimes.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": "w"},
        "spec": {"jobs": {"a": {"runs-on": "bash", "steps": [{"name": "s", "run": script}]}}},
    }))
    .unwrap()
}

fn ready(status: Option<kruntimes_core::api::DefinitionStatus>) -> Value {
    let conditions = status.expect("a status").conditions;
    let found = condition::get(&conditions, "Ready").expect("a Ready condition");
    json!([
        found.status,
        found.reason,
        found.message,
        found.observed_generation
    ])
}

struct World {
    server: ApiServer,
    client: kube::Client,
    _controller: tokio::task::JoinSet<()>,
}

fn world() -> World {
    let mut builder = ApiServer::builder();
    for crd in kruntimes_core::crd::all() {
        builder = builder.crd(crd);
    }
    let server = builder.build().unwrap();
    let client = server.client();
    let mut controller = tokio::task::JoinSet::new();
    let clock = Clock::virtual_from(Timestamp::UNIX_EPOCH);
    controller.spawn(run(client.clone(), Config::default(), clock));
    World {
        server,
        client,
        _controller: controller,
    }
}

#[tokio::test(start_paused = true)]
async fn w_153_readiness_follows_the_definition_and_rest_writes_nothing() {
    let world = world();
    let workflows: Api<Workflow> = Api::namespaced(world.client.clone(), "default");
    let params = PatchParams::default();
    let broken = workflow("${{ steps.t.outputs.k }}");
    let created = workflows.create(&PostParams::default(), &broken).await;
    created.unwrap();
    settle().await;
    assert_eq!(
        ready(workflows.get("w").await.unwrap().status),
        json!([
            "False",
            "ValidationFailed",
            "job \"a\" step \"s\" run: no outputs for t",
            1
        ])
    );
    let fixed = Patch::Merge(serde_json::to_value(workflow("true")).unwrap());
    workflows.patch("w", &params, &fixed).await.unwrap();
    settle().await;
    let now = ready(workflows.get("w").await.unwrap().status);
    assert_eq!(now, json!(["True", "Accepted", "", 2]));
    let before = world.server.resource_version();
    let touch = Patch::Merge(json!({"metadata": {"labels": {"x": "y"}}}));
    workflows.patch("w", &params, &touch).await.unwrap();
    settle().await;
    assert_eq!(world.server.resource_version(), before + 1);
}

#[tokio::test(start_paused = true)]
async fn w_154_what_surprises_stays_ready_and_is_told_in_one_event() {
    let world = world();
    let workflows: Api<Workflow> = Api::namespaced(world.client.clone(), "default");
    let mut surprising = workflow("true");
    let step = &mut surprising.spec.jobs.get_mut("a").unwrap().steps[0];
    step.args = vec!["unseen".to_owned()];
    let mut call = kruntimes_core::api::Job {
        uses: Some("lib".to_owned()),
        ..kruntimes_core::api::Job::default()
    };
    call.outputs.insert("o".to_owned(), "idle".to_owned());
    surprising.spec.jobs.insert("b".to_owned(), call);
    let created = workflows.create(&PostParams::default(), &surprising).await;
    created.unwrap();
    settle().await;
    let now = ready(workflows.get("w").await.unwrap().status);
    assert_eq!(now, json!(["True", "Accepted", "", 1]));
    let events: Api<Event> = Api::namespaced(world.client.clone(), "default");
    let events = events.list(&ListParams::default()).await.unwrap();
    let [event] = &events.items[..] else {
        panic!("one event: {events:?}")
    };
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    assert_eq!(event.reason.as_deref(), Some(REASON_SURPRISING));
    let text = event.message.as_deref().unwrap();
    assert!(
        text.contains("args") && text.contains("have no effect"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn w_154_a_broken_action_says_so() {
    let world = world();
    let actions: Api<Action> = Api::namespaced(world.client.clone(), "default");
    let action: Action = serde_json::from_value(json!({
        "apiVersion": "kruntimes.io/v1alpha1",
        "kind": "Action",
        "metadata": {"name": "a"},
        "spec": {"steps": [{"name": "s", "run": "1"}, {"name": "s", "run": "2"}]},
    }))
    .unwrap();
    let created = actions.create(&PostParams::default(), &action).await;
    created.unwrap();
    settle().await;
    assert_eq!(
        ready(actions.get("a").await.unwrap().status),
        json!([
            "False",
            "ValidationFailed",
            "Action step name \"s\" is duplicated",
            1
        ])
    );
}
