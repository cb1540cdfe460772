//! Tests a kube-rs controller without a cluster, while conflicts, lost answers and broken watches get in its way.
//!
//! `cargo run -p kruntimes-apiserver --example test_a_controller` prints `hello, world`. The clock is paused, so the
//! minutes that the controller spends backing off take no time.

use std::{
    error::Error,
    io::{Write as _, stdout},
    sync::Arc,
    time::Duration,
};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kruntimes_apiserver::{
    ApiServer,
    fault::{FaultLayer, FaultPlan},
};
use kube::{
    Api, Client, CustomResource, CustomResourceExt as _, Resource as _, ResourceExt as _,
    api::PostParams,
    runtime::{Controller, controller::Action, wait::await_condition, watcher},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Asks for a greeting, which the controller leaves in a ConfigMap of the same name.
#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.org", version = "v1", kind = "Greeting", namespaced)]
struct GreetingSpec {
    who: String,
}

/// The controller under test: any kube-rs controller will do, it only needs a client.
async fn greet(greeting: Arc<Greeting>, client: Arc<Client>) -> Result<Action, kube::Error> {
    let maps: Api<ConfigMap> = Api::default_namespaced((*client).clone());
    let owner = greeting.controller_owner_ref(&());
    let map = serde_json::from_value(json!({
        "metadata": { "name": greeting.name_any(), "ownerReferences": [owner] },
        "data": { "text": format!("hello, {}", greeting.spec.who) },
    }));
    let map = map.map_err(kube::Error::SerdeError)?;
    match maps.create(&PostParams::default(), &map).await {
        // An earlier attempt got through, although nobody heard of it.
        Err(kube::Error::Api(status)) if status.is_already_exists() => {}
        other => drop(other?),
    }
    Ok(Action::await_change())
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let server = ApiServer::builder().crd(Greeting::crd()).build()?;
    let _background = server.spawn_background();
    let trouble = FaultLayer::new(
        42,
        FaultPlan {
            lost_answer: 0.3,
            internal_error: 0.3,
            watch_cut: 0.5,
            ..FaultPlan::default()
        },
    );
    let (client, config) = (server.client_with(&trouble), watcher::Config::default());
    let controller = Controller::new(Api::<Greeting>::default_namespaced(client.clone()), config)
        .run(
            greet,
            |_, _, _| Action::requeue(Duration::from_secs(60)),
            Arc::new(client),
        );
    tokio::spawn(controller.for_each(|_| async {}));

    // The test itself speaks through a client that nothing gets in the way of.
    let greetings: Api<Greeting> = Api::default_namespaced(server.client());
    let wanted = Greeting::new(
        "first",
        GreetingSpec {
            who: "world".to_owned(),
        },
    );
    greetings.create(&PostParams::default(), &wanted).await?;
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
    let made = await_condition(maps, "first", |map: Option<&ConfigMap>| map.is_some()).await?;
    let text = made
        .and_then(|map| map.data)
        .and_then(|mut data| data.remove("text"));
    writeln!(stdout(), "{}", text.unwrap_or_default())?;
    assert!(
        trouble.handle().counts().total() > 0,
        "the way was not rough"
    );
    Ok(())
}
