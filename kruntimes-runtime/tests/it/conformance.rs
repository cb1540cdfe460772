//! The servers keep the contract, over gRPC and in process.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kruntimes_proto::{RuntimeClient, connect};
use kruntimes_runtime::bash::{Config, serve_unix};
use kruntimes_runtime::python::Python;
use kruntimes_runtime::server::{Listener, ServerHandle};
use kruntimes_runtime::testing::{CASES, Subject};
use kruntimes_runtime::{Manners, Options, Supervisor, WorkRoot};
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
async fn n_210_n_211_n_212_n_213_n_214_n_219_n_220_n_221_n_223_n_224_n_225_n_228_n_229_n_235_bash_conforms_over_grpc()
 {
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

/// A Python program that becomes the shell script.
fn in_python(shell: &str) -> String {
    let bytes = shell.as_bytes();
    format!(
        "import os, sys\ntext = bytes({bytes:?}).decode()\n\
         os.execvp('bash', ['bash', '-c', text, 'script', *sys.argv[1:]])\n"
    )
}

async fn python_conforms(python: Python) {
    let dir = tempfile::tempdir().expect("serves");
    let socket = dir.path().join("python.sock");
    let options = Options {
        // Longer than another interpreter takes to start.
        termination_grace: Duration::from_secs(3),
        records: None,
    };
    let supervisor = Supervisor::new(python, WorkRoot::open(dir.path()).expect("serves"), options);
    let listener = Listener::unix(&socket).expect("serves");
    let server = ServerHandle::spawn(listener, supervisor, &CancellationToken::new());
    let client = connect(server.endpoint()).expect("serves");
    let subject = Subject {
        wrap: in_python,
        manners: Manners::Keep,
        ..subject(Arc::new(client), dir.path())
    };
    check(&subject).await;
    server.shutdown().await.expect("serves");
}

/// The interpreter itself, not a script that looks for one and takes its time.
fn interpreter() -> Python {
    let usual = ["/usr/bin", "/usr/local/bin"].map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    Python::find(usual.into_iter().chain(std::env::split_paths(&path)))
        .expect("python is installed")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n_210_n_211_n_212_n_213_n_214_n_219_n_220_n_221_n_223_n_224_n_225_n_234_n_235_python_conforms_over_grpc()
 {
    python_conforms(interpreter()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n_235_n_234_python_conforms_with_a_warm_interpreter() {
    python_conforms(interpreter().warmed()).await;
}
