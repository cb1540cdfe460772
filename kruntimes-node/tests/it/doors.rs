//! What runtimed answers to others in the cluster.

use std::sync::Arc;
use std::time::Duration;

use kruntimes_node::{Artifacts, FilesystemStore};
use kruntimes_proto::artifact::v1::DownloadRequest;
use kruntimes_proto::artifact::v1::artifact_service_client::ArtifactServiceClient;
use kruntimes_proto::executor::v1::runtime_client::RuntimeClient;
use kruntimes_proto::executor::v1::{
    CancelRequest, ExecuteRequest, ExecutionState, ForgetRequest, HealthRequest, ListRequest,
    StatusRequest,
};
use kruntimes_proto::testing::{Script, ScriptedServer};
use kube::ResourceExt as _;
use tokio::net::TcpListener;
use tonic::Code;

use crate::world::{World, script};

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
