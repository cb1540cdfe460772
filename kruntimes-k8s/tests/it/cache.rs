//! The local copy of a kind behind a watch that breaks.

use std::time::Duration;

use futures::StreamExt as _;
use kruntimes_apiserver::ApiServer;
use kruntimes_apiserver::fault::{FaultLayer, FaultPlan};
use kruntimes_k8s::cache::Cache;
use kube::api::{DeleteParams, PostParams};
use kube::runtime::watcher;
use kube::{Api, ResourceExt as _};
use tokio::task::JoinSet;

use k8s_openapi::api::core::v1::ConfigMap;

async fn pass(seconds: u64) {
    // The clock is paused, so this ends as soon as nothing else has anything to do.
    tokio::time::timeout(Duration::from_secs(seconds), std::future::pending::<()>())
        .await
        .unwrap_err();
}

async fn make(api: &Api<ConfigMap>, name: &str) {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(name.to_owned());
    api.create(&PostParams::default(), &object).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn case_094_expired_versions_and_pages_cost_a_new_list_and_nothing_else() {
    let server = ApiServer::builder().build().unwrap();
    let api = Api::<ConfigMap>::default_namespaced(server.client());
    for name in ["a", "b", "c", "d", "e"] {
        make(&api, name).await;
    }
    let faults = FaultLayer::new(
        1,
        FaultPlan {
            watch_cut: 1.0,
            watch_cut_after: Duration::from_secs(1)..=Duration::from_secs(1),
            ..FaultPlan::default()
        },
    );
    let handle = faults.handle();
    let cache = Cache::<ConfigMap>::default();
    let names = || -> Vec<String> {
        let all = cache.list();
        all.iter().map(|object| object.name_any()).collect()
    };
    let config = watcher::Config::default().page_size(2);
    let changes = cache.follow(server.client_with(&faults), Some("default"), config);
    let mut following = JoinSet::new();
    following.spawn(changes.for_each(|_| std::future::ready(())));
    cache.synced().await;
    handle.set_plan(FaultPlan {
        watch_expired: 1.0,
        page_expired: 1.0,
        ..FaultPlan::default()
    });
    pass(5).await;
    api.delete("a", &DeleteParams::default()).await.unwrap();
    make(&api, "f").await;
    pass(60).await;
    assert!(
        handle.counts().pages_expired > 1,
        "it lists again and again"
    );
    assert_eq!(names(), ["a", "b", "c", "d", "e"], "half a list is no list");
    assert!(cache.is_synced());
    handle.set_plan(FaultPlan::default());
    pass(10).await;
    assert_eq!(names(), ["b", "c", "d", "e", "f"]);
}
