//! The Runtime controller over the in-process API service.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kruntimes_apiserver::ApiServer;
use kruntimes_core::condition;
use kruntimes_core::crd::Runtime;
use kruntimes_k8s::clock::Clock;
use kruntimes_k8s::runtime::{Config, run};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Client, Resource, ResourceExt};
use serde_json::{Value, json};

struct World {
    server: ApiServer,
    client: Client,
    _controller: tokio::task::JoinSet<()>,
}

fn world() -> World {
    let mut builder = ApiServer::builder();
    for crd in kruntimes_core::crd::all() {
        builder = builder.crd(crd);
    }
    let server = builder.build().expect("the CRDs are valid");
    let client = server.client();
    let clock = Clock::virtual_from(Timestamp::UNIX_EPOCH);
    let mut controller = tokio::task::JoinSet::new();
    controller.spawn(run(client.clone(), Config::default(), clock));
    controller.spawn(server.run_garbage_collector());
    World {
        server,
        client,
        _controller: controller,
    }
}

impl World {
    fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), "default")
    }

    async fn create_as(&self, name: &str, account: &str) {
        let spec = json!({"serviceAccountName": account, "containers": bash()});
        let runtime: Runtime = serde_json::from_value(json!({
            "apiVersion": "kruntimes.io/v1alpha1",
            "kind": "Runtime",
            "metadata": {"name": name},
            "spec": {"template": {"spec": spec}},
        }))
        .unwrap();
        let created = self
            .runtimes()
            .create(&PostParams::default(), &runtime)
            .await;
        created.expect("the Runtime is valid");
    }

    async fn merge<K>(&self, name: &str, patch: Value)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + serde::de::DeserializeOwned
            + std::fmt::Debug,
    {
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        self.api::<K>().patch(name, &params, &patch).await.unwrap();
    }

    async fn remove<K>(&self, name: &str)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + serde::de::DeserializeOwned
            + std::fmt::Debug,
    {
        let params = DeleteParams::default();
        self.api::<K>().delete(name, &params).await.unwrap();
    }

    /// Returns what the derived objects say, without metadata that changes with every write.
    async fn derived(&self) -> [Value; 5] {
        [
            gist(self.api::<Service>().get("runtime-bash").await.unwrap()),
            gist(
                self.api::<NetworkPolicy>()
                    .get("runtime-bash")
                    .await
                    .unwrap(),
            ),
            gist(self.api::<ServiceAccount>().get(DAEMON).await.unwrap()),
            gist(self.api::<Role>().get(DAEMON).await.unwrap()),
            gist(self.api::<RoleBinding>().get(BINDING).await.unwrap()),
        ]
    }

    fn runtimes(&self) -> Api<Runtime> {
        Api::namespaced(self.client.clone(), "default")
    }

    fn deployments(&self) -> Api<Deployment> {
        Api::namespaced(self.client.clone(), "default")
    }

    async fn create(&self, name: &str, containers: Value) {
        let runtime: Runtime = serde_json::from_value(json!({
            "apiVersion": "kruntimes.io/v1alpha1",
            "kind": "Runtime",
            "metadata": {"name": name},
            "spec": {"template": {"spec": {"containers": containers}}},
        }))
        .unwrap();
        let api = self.runtimes();
        let created = api.create(&PostParams::default(), &runtime).await;
        created.expect("the Runtime is valid");
    }

    /// Lets the controller settle: paused time moves only when nothing else can.
    async fn settle(&self) {
        tokio::time::advance(Duration::from_millis(1)).await;
        for _ in 0..500 {
            tokio::task::yield_now().await;
        }
    }

    async fn ready(&self, name: &str) -> (String, String, i32) {
        let status = self
            .runtimes()
            .get(name)
            .await
            .unwrap()
            .status
            .unwrap_or_default();
        let ready = condition::get(&status.conditions, "Ready").expect("a Ready condition");
        (
            ready.status.as_str().to_owned(),
            ready.reason.clone(),
            status.ready_replicas,
        )
    }
}

const DAEMON: &str = "kruntimes-runtimed";
const BINDING: &str = "kruntimes-runtimed-kruntimes-runtimed";

fn gist(object: impl serde::Serialize) -> Value {
    let mut object = serde_json::to_value(object).unwrap();
    let meta = &object["metadata"];
    let kept = json!({"labels": meta["labels"], "owner": meta["ownerReferences"][0]["name"]});
    object["metadata"] = kept;
    object
}

fn bash() -> Value {
    json!([{"name": "runtime", "image": "bash"}])
}

#[tokio::test(start_paused = true)]
async fn n_246_ready_replicas_follow_the_deployment_up_and_down() {
    let world = world();
    world.create("bash", bash()).await;
    world.settle().await;
    assert_eq!(
        world.ready("bash").await,
        ("False".into(), "NoReadyReplicas".into(), 0)
    );
    for (count, status, reason) in [
        (2, "True", "ReplicasReady"),
        (0, "False", "NoReadyReplicas"),
    ] {
        let patch = Patch::Merge(json!({"status": {"readyReplicas": count}}));
        let written = world
            .deployments()
            .patch_status("runtime-bash", &PatchParams::default(), &patch)
            .await;
        written.unwrap();
        world.settle().await;
        assert_eq!(
            world.ready("bash").await,
            (status.into(), reason.into(), count)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn n_237_drift_is_repaired_and_rest_writes_nothing() {
    let world = world();
    world.create("bash", bash()).await;
    world.settle().await;
    let patch = Patch::Merge(
        json!({"spec": {"replicas": 7}, "metadata": {"annotations": {"other": "kept"}}}),
    );
    let api = world.deployments();
    let params = PatchParams::default();
    let drifted = api.patch("runtime-bash", &params, &patch);
    drifted.await.unwrap();
    world.settle().await;
    let repaired = world.deployments().get("runtime-bash").await.unwrap();
    assert_eq!(repaired.spec.unwrap().replicas, Some(1));
    assert_eq!(repaired.metadata.annotations.unwrap()["other"], "kept");
    let before = world.server.resource_version();
    tokio::time::advance(Duration::from_secs(600)).await;
    world.settle().await;
    assert_eq!(
        world.server.resource_version(),
        before,
        "ten quiet minutes write nothing"
    );
}

#[tokio::test(start_paused = true)]
async fn n_236_n_243_impossible_runtimes_say_why_and_make_nothing() {
    let world = world();
    let long = "r".repeat(60);
    world.create(&long, bash()).await;
    world
        .create(
            "odd",
            json!([{"name": "runtime", "image": "bash", "ports": [{"containerPort": "x"}]}]),
        )
        .await;
    world.settle().await;
    assert_eq!(world.ready(&long).await.1, "InvalidName");
    assert_eq!(world.ready("odd").await.1, "ReconcileFailed");
    let api = world.deployments();
    let made = api.list(&kube::api::ListParams::default()).await.unwrap();
    assert!(made.items.is_empty());
}

#[tokio::test(start_paused = true)]
async fn deleting_a_runtime_takes_its_deployment_along() {
    let world = world();
    world.create("bash", bash()).await;
    world.settle().await;
    assert!(
        world
            .deployments()
            .get_opt("runtime-bash")
            .await
            .unwrap()
            .is_some()
    );
    let deleted = world.runtimes();
    deleted
        .delete("bash", &DeleteParams::default())
        .await
        .unwrap();
    world.settle().await;
    assert!(
        world
            .deployments()
            .get_opt("runtime-bash")
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test(start_paused = true)]
async fn a_deployment_of_something_else_is_left_alone_until_it_goes() {
    let world = world();
    let owner = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "1", "controller": true,
    });
    let selector = json!({"matchLabels": {"app": "x"}});
    let template = json!({
        "metadata": {"labels": {"app": "x"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let foreign: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "runtime-bash", "finalizers": ["a.b/c"], "ownerReferences": [owner]},
        "spec": {"selector": selector, "template": template},
    }))
    .unwrap();
    let api = world.deployments();
    let made = api.create(&PostParams::default(), &foreign).await.unwrap();
    world.create("bash", bash()).await;
    world.settle().await;
    assert_eq!(world.ready("bash").await.1, "ReconcileFailed");
    let kept = api.get("runtime-bash").await.unwrap();
    assert_eq!(
        kept.metadata.owner_references,
        made.metadata.owner_references
    );
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let params = PatchParams::default();
    api.patch("runtime-bash", &params, &release).await.unwrap();
    let _ = api.delete("runtime-bash", &DeleteParams::default()).await;
    tokio::time::advance(Duration::from_secs(60)).await;
    world.settle().await;
    let ours = api.get("runtime-bash").await.unwrap();
    assert_eq!(ours.metadata.owner_references.unwrap()[0].kind, "Runtime");
    assert_eq!(world.ready("bash").await.1, "NoReadyReplicas");
}

#[tokio::test(start_paused = true)]
async fn n_237_n_240_everything_a_runtime_needs_is_made_and_the_shared_part_outlives_it() {
    let world = world();
    world.create("bash", bash()).await;
    world.settle().await;
    let [service, policy, account, role, binding] = world.derived().await;
    for owned in [&service, &policy] {
        assert_eq!(owned["metadata"]["owner"], "bash");
    }
    for shared in [&account, &role, &binding] {
        assert_eq!(shared["metadata"]["owner"], Value::Null);
        assert_eq!(shared["metadata"]["labels"]["app"], DAEMON);
    }
    assert_eq!(service["spec"]["ports"][0]["port"], 9093);
    assert_eq!(policy["spec"]["ingress"], Value::Null, "nobody is let in");
    assert_eq!(binding["roleRef"]["name"], DAEMON);
    world.remove::<Runtime>("bash").await;
    world.settle().await;
    let services = world.api::<Service>();
    assert!(services.get_opt("runtime-bash").await.unwrap().is_none());
    let policies = world.api::<NetworkPolicy>();
    assert!(policies.get_opt("runtime-bash").await.unwrap().is_none());
    for kept in [
        world.api::<ServiceAccount>().get(DAEMON).await.is_ok(),
        world.api::<Role>().get(DAEMON).await.is_ok(),
        world.api::<RoleBinding>().get(BINDING).await.is_ok(),
    ] {
        assert!(kept);
    }
}

#[tokio::test(start_paused = true)]
async fn n_237_n_240_whatever_is_edited_or_deleted_comes_back() {
    let world = world();
    world.create("bash", bash()).await;
    world.settle().await;
    let good = world.derived().await;
    let narrowed = json!({"spec": {"selector": {"team": "evil"}}});
    world.merge::<Service>("runtime-bash", narrowed).await;
    let opened = json!({"spec": {"ingress": [{}]}});
    world.merge::<NetworkPolicy>("runtime-bash", opened).await;
    let stripped = json!({"metadata": {"labels": {"app": null}}});
    world.merge::<ServiceAccount>(DAEMON, stripped).await;
    world.merge::<Role>(DAEMON, json!({"rules": []})).await;
    let nobody = json!({"subjects": null});
    world.merge::<RoleBinding>(BINDING, nobody).await;
    world.settle().await;
    assert_eq!(world.derived().await, good, "edits are reverted");
    world.remove::<Service>("runtime-bash").await;
    world.remove::<NetworkPolicy>("runtime-bash").await;
    world.remove::<ServiceAccount>(DAEMON).await;
    world.remove::<Role>(DAEMON).await;
    world.remove::<RoleBinding>(BINDING).await;
    world.settle().await;
    let again = world.derived().await;
    let without_address = |mut service: Value| {
        for field in ["clusterIP", "clusterIPs"] {
            service["spec"][field] = Value::Null;
        }
        service
    };
    assert_eq!(
        without_address(again[0].clone()),
        without_address(good[0].clone())
    );
    assert_eq!(again[1..], good[1..], "and deletions as well");
}

#[tokio::test(start_paused = true)]
async fn n_240_runtimes_of_one_account_share_one_binding_and_an_account_keeps_its_own() {
    let world = world();
    let account: ServiceAccount = serde_json::from_value(json!({
        "metadata": {"name": "builder", "labels": {"team": "a"}},
        "automountServiceAccountToken": false,
    }))
    .unwrap();
    let accounts = world.api::<ServiceAccount>();
    accounts
        .create(&PostParams::default(), &account)
        .await
        .unwrap();
    world.create_as("one", "builder").await;
    world.create_as("two", "builder").await;
    world.create("three", bash()).await;
    world.settle().await;
    let params = kube::api::ListParams::default();
    let bindings = world.api::<RoleBinding>().list(&params).await.unwrap();
    let names: Vec<_> = bindings.iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["kruntimes-runtimed-builder", BINDING]);
    let roles = world.api::<Role>().list(&params).await.unwrap();
    assert_eq!(roles.items.len(), 1);
    let kept = accounts.get("builder").await.unwrap();
    assert_eq!(kept.automount_service_account_token, Some(false));
    assert_eq!(
        (
            kept.labels()["team"].as_str(),
            kept.labels()["app"].as_str()
        ),
        ("a", DAEMON)
    );
    assert!(kept.metadata.owner_references.is_none());
}

#[tokio::test(start_paused = true)]
async fn n_240_a_binding_to_another_role_is_replaced() {
    let world = world();
    let foreign: RoleBinding = serde_json::from_value(json!({
        "metadata": {"name": BINDING},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
        "subjects": [],
    }))
    .unwrap();
    let bindings = world.api::<RoleBinding>();
    bindings
        .create(&PostParams::default(), &foreign)
        .await
        .unwrap();
    world.create("bash", bash()).await;
    world.settle().await;
    let ours = bindings.get(BINDING).await.unwrap();
    assert_eq!(
        (&*ours.role_ref.kind, &*ours.role_ref.name),
        ("Role", DAEMON)
    );
    assert_eq!(world.ready("bash").await.1, "NoReadyReplicas");
}

#[tokio::test(start_paused = true)]
async fn n_237_n_247_one_child_that_fails_keeps_neither_the_others_nor_the_count_back() {
    let world = world();
    let owner = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "1", "controller": true,
    });
    let foreign: Service = serde_json::from_value(json!({
        "metadata": {"name": "runtime-bash", "ownerReferences": [owner], "finalizers": ["a.b/c"]},
        "spec": {"ports": [{"port": 80}], "selector": {"app": "x"}},
    }))
    .unwrap();
    let services = world.api::<Service>();
    services
        .create(&PostParams::default(), &foreign)
        .await
        .unwrap();
    world.create("bash", bash()).await;
    world.settle().await;
    assert!(
        world
            .api::<NetworkPolicy>()
            .get("runtime-bash")
            .await
            .is_ok()
    );
    assert!(world.deployments().get("runtime-bash").await.is_ok());
    let patch = Patch::Merge(json!({"status": {"readyReplicas": 3}}));
    let params = PatchParams::default();
    let deployments = world.deployments();
    let written = deployments.patch_status("runtime-bash", &params, &patch);
    written.await.unwrap();
    world.settle().await;
    let told = world.ready("bash").await;
    assert_eq!(told, ("False".into(), "ReconcileFailed".into(), 3));
}

#[tokio::test(start_paused = true)]
async fn n_245_zero_is_written_and_follows_a_deployment_that_goes() {
    let world = world();
    world.create("bash", bash()).await;
    world.settle().await;
    let stored = world.runtimes().get("bash").await.unwrap();
    let status = serde_json::to_value(stored.status).unwrap();
    assert_eq!(status["readyReplicas"], 0, "{status:#}");
    let patch = Patch::Merge(json!({"status": {"readyReplicas": 1}}));
    let params = PatchParams::default();
    let deployments = world.deployments();
    let written = deployments.patch_status("runtime-bash", &params, &patch);
    written.await.unwrap();
    world.settle().await;
    assert_eq!(world.ready("bash").await.2, 1);
    world.remove::<Deployment>("runtime-bash").await;
    world.settle().await;
    assert_eq!(
        world.ready("bash").await.2,
        0,
        "the new one has reported nothing"
    );
}
