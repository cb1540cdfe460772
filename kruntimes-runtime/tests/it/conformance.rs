//! The Bash server keeps the contract, over gRPC and in process.

use std::sync::Arc;
use std::time::Duration;

use kruntimes_proto::{RuntimeClient, connect};
use kruntimes_runtime::Manners;
use kruntimes_runtime::bash::{Config, serve_unix};
use kruntimes_runtime::testing::{CASES, Subject};
use tokio_util::sync::CancellationToken;

fn config(work_dir: &std::path::Path) -> Config {
    Config {
        work_dir: work_dir.to_owned(),
        termination_grace: Duration::from_millis(300),
        ..Config::default()
    }
}

fn subject(client: Arc<dyn RuntimeClient>, work_dir: &std::path::Path) -> Subject {
    Subject {
        client,
        work_dir: work_dir.join("conformance"),
        wrap: str::to_owned,
        manners: Manners::Replace,
    }
}

/// Runs the cases whose names match; each failure names its case.
async fn check(subject: &Subject) {
    for case in CASES {
        let copy = subject.clone();
        let end = tokio::spawn(async move { (case.check)(&copy).await }).await;
        assert!(end.is_ok(), "{}: {end:?}", case.name);
    }
    let left = subject.client.list().await.expect("list");
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n_235_bash_conforms_over_grpc() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("bash.sock");
    let server = serve_unix(&socket, &config(dir.path()), &CancellationToken::new()).unwrap();
    let client = connect(server.endpoint()).unwrap();
    check(&subject(Arc::new(client), dir.path())).await;
    server.shutdown().await.unwrap();
    assert!(!socket.exists());
}

#[tokio::test]
async fn n_235_bash_conforms_in_process_on_one_thread() {
    let dir = tempfile::tempdir().unwrap();
    let supervisor = config(dir.path()).supervisor().unwrap();
    check(&subject(Arc::new(supervisor), dir.path())).await;
}
