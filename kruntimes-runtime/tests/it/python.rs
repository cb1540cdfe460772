//! What only the Python server promises: its table of commands and its manners.

use std::path::Path;
use std::time::Duration;

use kruntimes_proto::{ClientError, ExecuteRequest, ExecutionState, RuntimeClient};
use kruntimes_runtime::Supervisor;
use kruntimes_runtime::python::Config;

use crate::bash::{run, shell};

fn python(work_dir: &Path) -> Supervisor {
    let config = Config {
        work_dir: work_dir.to_owned(),
        termination_grace: Duration::from_millis(200),
        ..Config::default()
    };
    config.supervisor().expect("python is installed")
}

fn call(id: &str, dir: &Path, handler: &str, args: &[&str]) -> ExecuteRequest {
    ExecuteRequest {
        handler: handler.to_owned(),
        ..shell(id, dir, args)
    }
}

#[tokio::test]
async fn n_233_the_request_chooses_what_python_does() {
    let dir = tempfile::tempdir().unwrap();
    let server = python(dir.path());
    let none = run(&server, shell("none", dir.path(), &[])).await;
    assert_eq!(none.error_message, "no script or args provided");
    assert_eq!((none.state, none.exit_code), (ExecutionState::Failed, -1));
    let code =
        "import sys; print(sys.argv[1:], sys.stdout.line_buffering or sys.stdout.write_through)";
    let args = run(&server, shell("args", dir.path(), &["-c", code, "a", ""])).await;
    assert_eq!(args.stdout, "['a', ''] True\n", "{args:?}");
    std::fs::write(
        dir.path().join("script"),
        "import sys; print('script', sys.argv[1:])",
    )
    .unwrap();
    let file = run(&server, shell("file", dir.path(), &["b c"])).await;
    assert_eq!(file.stdout, "script ['b c']\n");
    std::fs::write(dir.path().join("other.py"), "raise ValueError('why')").unwrap();
    let mut request = shell("raises", dir.path(), &[]);
    request.entrypoint = "other.py".to_owned();
    let raised = run(&server, request).await;
    assert_eq!(
        (raised.state, raised.exit_code),
        (ExecutionState::Failed, 1)
    );
    assert!(raised.stderr.contains("Traceback") && raised.stderr.contains("ValueError: why"));
}

#[tokio::test]
async fn functions_are_called_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let server = python(dir.path());
    std::fs::create_dir(dir.path().join("pkg")).unwrap();
    std::fs::write(dir.path().join("pkg/__init__.py"), "").unwrap();
    let code = "def run(event):\n    print('called')\n    return {'got': event['args']}\n\
                def quiet(event):\n    return None\n\
                def odd(event):\n    return {1, 2}\n";
    std::fs::write(dir.path().join("pkg/main.py"), code).unwrap();
    let end = run(&server, call("a", dir.path(), "pkg.main.run", &["x", ""])).await;
    assert_eq!(end.stdout, "called\n{\"got\": [\"x\", \"\"]}\n", "{end:?}");
    let end = run(&server, call("b", dir.path(), "pkg.main.quiet", &[])).await;
    assert_eq!((end.state, &*end.stdout), (ExecutionState::Succeeded, ""));
    for (id, handler, why) in [
        ("c", "pkg.main.odd", "not JSON serializable"),
        ("d", "pkg.main.missing", "AttributeError"),
        ("e", "pkg.none.run", "ModuleNotFoundError"),
        ("f", "os.getcwd", "ModuleNotFoundError"),
        ("g", "json.dumps", "ModuleNotFoundError"),
    ] {
        let end = run(&server, call(id, dir.path(), handler, &[])).await;
        assert_eq!(
            (end.state, end.exit_code),
            (ExecutionState::Failed, 1),
            "{handler}"
        );
        assert!(end.stderr.contains(why), "{handler}: {}", end.stderr);
    }
    let refused = server.execute(call("h", dir.path(), "nodot", &[])).await;
    assert!(
        matches!(refused, Err(ClientError::InvalidArgument { .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn n_232_an_id_is_taken_until_it_is_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let server = python(dir.path());
    let long = || shell("a", dir.path(), &["-c", "import time; time.sleep(600)"]);
    server.execute(long()).await.unwrap();
    let again = server.execute(long()).await;
    assert!(
        matches!(again, Err(ClientError::AlreadyExists { .. })),
        "{again:?}"
    );
    server.cancel("a").await.unwrap();
    let again = server.execute(long()).await;
    assert!(
        matches!(again, Err(ClientError::AlreadyExists { .. })),
        "{again:?}"
    );
    server.forget("a").await.unwrap();
    let end = run(&server, shell("a", dir.path(), &["-c", "print(1)"])).await;
    assert_eq!(end.stdout, "1\n");
}

#[tokio::test]
async fn n_234_a_time_limit_is_never_a_success() {
    let dir = tempfile::tempdir().unwrap();
    let server = python(dir.path());
    let code = "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\ntime.sleep(600)";
    let mut request = shell("a", dir.path(), &["-c", code]);
    request.timeout = Some(Duration::from_millis(600));
    let end = run(&server, request).await;
    assert_eq!(end.state, ExecutionState::Failed);
    assert_eq!((&*end.error_message, end.exit_code), ("timeout", -1));
}
