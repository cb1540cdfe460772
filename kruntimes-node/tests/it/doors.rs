//! What runtimed answers to others in the cluster.

use std::sync::Arc;
use std::time::Duration;

use kruntimes_apiserver::fault::{FaultLayer, FaultPlan};
use kruntimes_core::api::RunPhase;
use kruntimes_node::{Artifacts, FilesystemStore};
use kruntimes_proto::Health;
use kruntimes_proto::artifact::v1::DownloadRequest;
use kruntimes_proto::artifact::v1::artifact_service_client::ArtifactServiceClient;
use kruntimes_proto::executor::v1::runtime_client::RuntimeClient;
use kruntimes_proto::executor::v1::{
    CancelRequest, ExecuteRequest, ExecutionState, ForgetRequest, HealthRequest, ListRequest,
    StatusRequest,
};
use kruntimes_proto::testing::{Script, ScriptedServer};
use kube::ResourceExt as _;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tonic::Code;

use crate::world::{POD, World, script};

async fn open(world: &World) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    *world.status.lock().unwrap() = Some(listener);
    address
}

#[tokio::test]
async fn n_6_others_may_look_and_nothing_else() {
    let world = World::new(2).await;
    let address = open(&world).await;
    let server = ScriptedServer::new(|_| Script::exits(0).after(Duration::from_secs(600)));
    let _daemon = world.daemon(server.clone());
    let run = world.submit("a", script("x")).await;
    let uid = run.uid().unwrap();
    world
        .eventually("it runs", || server.live() == [uid.clone()])
        .await;
    let mut client = RuntimeClient::connect(address.clone()).await.unwrap();
    let found = client
        .status(StatusRequest { id: uid.clone() })
        .await
        .unwrap()
        .into_inner();
    assert_eq!(
        (found.id, found.state),
        (uid.clone(), ExecutionState::Running.into())
    );
    let missing = client.status(StatusRequest { id: "none".into() }).await;
    assert_eq!(missing.unwrap_err().code(), Code::NotFound);
    let codes = [
        client
            .execute(ExecuteRequest::default())
            .await
            .unwrap_err()
            .code(),
        client.list(ListRequest {}).await.unwrap_err().code(),
        client
            .cancel(CancelRequest { id: uid.clone() })
            .await
            .unwrap_err()
            .code(),
        client
            .forget(ForgetRequest { id: uid.clone() })
            .await
            .unwrap_err()
            .code(),
        client.health(HealthRequest {}).await.unwrap_err().code(),
    ];
    assert_eq!(codes, [Code::Unimplemented; 5]);
    assert_eq!(server.live(), [uid]);
    let mut artifacts = ArtifactServiceClient::connect(address).await.unwrap();
    let refused = artifacts.download(DownloadRequest::default()).await;
    assert_eq!(refused.unwrap_err().code(), Code::Unimplemented, "N-7");
}

#[tokio::test]
async fn n_7_n_164_n_165_artifacts_are_handed_out_where_there_is_a_store() {
    let mut world = World::new(2).await;
    let root = world.path("store");
    std::fs::create_dir(&root).unwrap();
    let store = FilesystemStore::new(&root, "claim").unwrap();
    world.artifacts = Some(Artifacts::new(Arc::new(store)));
    let address = open(&world).await;
    let server = ScriptedServer::new(|request| {
        let path = format!("{}/a.txt", request.env["KRUNTIME_ARTIFACTS_DIR"]);
        Script::exits(0).on_finish(move || std::fs::write(path, "hello").unwrap())
    });
    let _daemon = world.daemon(server);
    world.submit("a", script("x")).await;
    world.until_over("a").await;
    let mut client = ArtifactServiceClient::connect(address).await.unwrap();
    let request = |artifact: &str| DownloadRequest {
        namespace: "default".into(),
        run_name: "a".into(),
        artifact_name: artifact.into(),
    };
    let mut frames = client
        .download(request("a.txt"))
        .await
        .unwrap()
        .into_inner();
    let first = frames.message().await.unwrap().unwrap();
    assert_eq!(first.metadata.unwrap().size_bytes, 5);
    let second = frames.message().await.unwrap().unwrap();
    assert_eq!(second.data, b"hello");
    assert_eq!(frames.message().await.unwrap(), None);
    let missing = client.download(request("b")).await.unwrap_err();
    assert_eq!(missing.code(), Code::NotFound);
}

/// Asks for a page and returns the number of the status and the text.
async fn page(port: u16, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: here\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

#[tokio::test]
async fn n_23_c_132_readiness_names_what_is_missing_and_health_does_not_care() {
    let world = World::new(2).await;
    let (_, probes) = world.open_doors().await;
    let server = ScriptedServer::new(|_| Script::never_ends());
    let faults = FaultLayer::new(1, FaultPlan::default());
    let handle = faults.handle();
    let client = world.api_server.client_with(&faults);
    let daemon = world.daemon_with(client, server.clone());
    world.submit("a", script("x")).await;
    world.until_phase("a", RunPhase::Running).await;
    assert_eq!(page(probes, "/readyz").await, (200, "ok\n".into()));

    let health = |healthy, text: &str| Health {
        healthy,
        message: text.into(),
    };
    server.set_health(health(false, "no room for work"));
    let (status, text) = page(probes, "/readyz").await;
    assert_eq!(status, 503);
    assert_eq!(text, "runtime server: no room for work\n");
    server.set_health(health(true, ""));

    handle.set_plan(FaultPlan {
        internal_error: 1.0,
        ..FaultPlan::default()
    });
    handle.set_active(true);
    let (status, text) = page(probes, "/readyz").await;
    assert_eq!(status, 503);
    assert!(text.starts_with("cannot list runs"), "{text}");
    assert_eq!(page(probes, "/healthz").await, (200, "ok\n".into()));
    handle.set_active(false);

    // N-198: what shuts down takes no more work, while what it holds goes on.
    daemon.shutdown.cancel();
    let (status, text) = page(probes, "/readyz").await;
    assert_eq!(
        (status, &*text),
        (503, "runtimed: it is shutting down\n"),
        "N-198"
    );
    assert_eq!(page(probes, "/healthz").await.0, 200);
}

#[tokio::test]
async fn n_22_nothing_is_claimed_before_the_own_pod_is_known() {
    let mut world = World::new(2).await;
    let (pods, params) = (world.pods(), kube::api::DeleteParams::default());
    pods.delete(POD, &params).await.unwrap();
    let (_, probes) = world.open_doors().await;
    let server = ScriptedServer::new(|_| Script::exits(0));
    let _daemon = world.daemon(server.clone());
    let (status, text) = page(probes, "/readyz").await;
    assert_eq!((status, &*text), (503, "pod: its UID is not known yet\n"));
    assert_eq!(page(probes, "/healthz").await.0, 200);
    // Without a UID in its status any Pod of the name may claim it; this one does not know who it is.
    world.create("a", script("x")).await;
    let assigned = json!({ "status": { "phase": "Scheduled", "assignedPod": POD } });
    world.patch_status("a", &assigned).await;
    let (status, _) = page(probes, "/readyz").await;
    assert_eq!(status, 503);
    assert_eq!(
        world.get("a").await.status.unwrap().phase,
        RunPhase::Scheduled
    );
    assert_eq!(server.calls().len(), 0, "nothing is asked of the server");
    world.pod_uid = world.make_pod(&json!({})).await;
    world.until_phase("a", RunPhase::Succeeded).await;
    assert_eq!(page(probes, "/readyz").await, (200, "ok\n".into()));
}

#[tokio::test(start_paused = true)]
async fn n_187_c_126_what_a_runtimed_does_is_counted() {
    let world = World::new(1).await;
    let server = ScriptedServer::new(|request| {
        let text = std::fs::read_to_string(format!("{}/script", request.working_dir)).unwrap();
        Script::exits(i32::from(text == "bad")).after(Duration::from_secs(3))
    });
    let _daemon = world.daemon(server.clone());
    let active = "kruntimes_runtimed_active_runs{runtime=\"bash\"}";
    world.submit("good", script("good")).await;
    world.until_phase("good", RunPhase::Running).await;
    assert_eq!(world.measured(active), Some(1.0));
    // A claim that is refused for want of room leaves no trace.
    let bad = crate::world::retried("bad", 2, Duration::from_secs(1));
    world.submit("bad", bad).await;
    world.until_over("good").await;
    world.until_phase("bad", RunPhase::Running).await;
    assert_eq!(world.measured(active), Some(1.0));
    world.until_over("bad").await;
    world
        .eventually("nothing is held", || world.measured(active) == Some(0.0))
        .await;
    world.submit("late", script("good")).await;
    world.cancel("late").await;
    world.until_over("late").await;
    for (series, want) in [
        ("runs_total{runtime=\"bash\",result=\"Succeeded\"}", 1.0),
        ("runs_total{runtime=\"bash\",result=\"Failed\"}", 1.0),
        ("runs_total{runtime=\"bash\",result=\"Cancelled\"}", 1.0),
        (
            "run_retries_total{runtime=\"bash\",reason=\"RuntimeError\"}",
            1.0,
        ),
        (
            "run_failures_total{runtime=\"bash\",phase=\"Failed\",reason=\"RuntimeError\"}",
            1.0,
        ),
        ("run_duration_seconds_count{runtime=\"bash\"}", 3.0),
    ] {
        let found = world.measured(&format!("kruntimes_runtimed_{series}"));
        assert_eq!(found, Some(want), "{series}");
    }
    let dispatched = "kruntimes_runtimed_dispatch_duration_seconds_count{runtime=\"bash\"}";
    assert!(world.measured(dispatched).unwrap() >= 2.0);
    let age = "kruntimes_runtimed_heartbeat_age_seconds{runtime=\"bash\"}";
    assert!(world.measured(age).unwrap() <= 6.0);
}

/// The number of series depends on nothing that users name (C-129).
#[tokio::test(start_paused = true)]
async fn c_129_many_runs_make_no_more_series() {
    let world = World::new(4).await;
    let _daemon = world.daemon(ScriptedServer::new(|_| Script::exits(0)));
    let series = |world: &World| world.registry.text().lines().count();
    world.submit("first", script("x")).await;
    world.until_over("first").await;
    let before = series(&world);
    for number in 0..40 {
        let name = format!("run-{number}");
        world.submit(&name, script("x")).await;
    }
    for number in 0..40 {
        world.until_over(&format!("run-{number}")).await;
    }
    assert_eq!(series(&world), before);
    let done = "kruntimes_runtimed_runs_total{runtime=\"bash\",result=\"Succeeded\"}";
    assert_eq!(world.measured(done), Some(41.0));
}
