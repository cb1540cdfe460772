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

/// Programs that are forked find what they would find in an interpreter of their own.
#[tokio::test]
async fn n_233_n_235_a_forked_program_sees_what_a_started_one_sees() {
    let dir = tempfile::tempdir().unwrap();
    let look = "import os, sys, json\n\
        names = sorted(n for n in os.environ if n not in ('KRUNTIME_PROCESS_GROUP', 'LC_CTYPE'))\n\
        print(json.dumps([names, sys.argv, sys.path, os.getcwd(), __name__, sys.stdout.write_through]))\n\
        print(sorted(vars()), os.getpid() == os.getpgrp(), sys.stdin.read(), file=sys.stderr)\n";
    std::fs::write(dir.path().join("script"), look).unwrap();
    std::fs::write(dir.path().join("other.py"), look).unwrap();
    std::fs::write(dir.path().join("module.py"), look).unwrap();
    let ways: &[&[&str]] = &[
        &["a", "b c"],
        &["-c", look, "x"],
        &["-m", "module", "y"],
        &["other.py", "z"],
        &["-c", "raise ValueError('why')"],
        &["-c", "import sys; sys.exit('told')"],
        &["-c", "import sys; sys.exit(300)"],
        &["-c", "this is no python"],
        &["-m", "nowhere"],
        &["missing.py"],
        &[
            "-c",
            "import atexit, threading, time\natexit.register(print, 'last')\nthreading.Timer(0.05, print, ['later']).start()",
        ],
        &[
            "-c",
            "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        ],
    ];
    let mut ends = Vec::new();
    for warm in [false, true] {
        let config = Config {
            work_dir: dir.path().to_owned(),
            warm,
            ..Config::default()
        };
        let server = config.supervisor().unwrap();
        for (number, words) in ways.iter().enumerate() {
            let mut request = shell(&format!("{number}"), dir.path(), words);
            if number > 0 {
                request.entrypoint = "no-such-file".to_owned();
            }
            let home = dir.path().to_string_lossy().into_owned();
            request.env.insert("HOME".to_owned(), home);
            request.env.insert("GIVEN".to_owned(), "é=1".to_owned());
            let end = run(&server, request).await;
            ends.push((
                end.state,
                end.exit_code,
                end.stdout,
                end.stderr,
                end.error_message,
            ));
        }
    }
    let (own, forked) = ends.split_at(ways.len());
    for ((words, own), forked) in ways.iter().zip(own).zip(forked) {
        assert_eq!(own, forked, "{words:?}");
    }
}

/// An orphan of a fork that never called exec has no environment of its own, and is found all the same.
#[tokio::test]
async fn n_221_a_daemon_of_a_forked_program_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let server = python(dir.path());
    let code = "import os, time\n\
        r, w = os.pipe()\n\
        if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        \
        os.write(w, str(os.getpid()).encode())\n        os.close(1), os.close(2)\n        time.sleep(600)\n    os._exit(0)\n\
        os.wait()\nprint(os.read(r, 20).decode())";
    let end = run(&server, shell("a", dir.path(), &["-c", code])).await;
    assert_eq!(end.state, ExecutionState::Succeeded, "{end:?}");
    let daemon = end.stdout.trim();
    assert!(
        !daemon.is_empty() && !Path::new("/proc").join(daemon).exists(),
        "{daemon}"
    );
}

/// The warm process is not needed, only missed.
#[tokio::test]
async fn programs_go_on_without_a_warm_interpreter() {
    let dir = tempfile::tempdir().unwrap();
    let server = python(dir.path());
    // Known by the mark that it shows; what was forked from it shows another one.
    let find = "import os\n\
        for pid in filter(str.isdigit, os.listdir('/proc')):\n    \
        try:\n        \
        warm = b'KRUNTIME_PROCESS_GROUP=warm\\0' in open(f'/proc/{pid}/environ', 'rb').read()\n        \
        parent = int(open(f'/proc/{pid}/stat').read().rsplit(')', 1)[1].split()[1])\n        \
        if warm and parent == os.getppid():\n            \
        os.kill(int(pid), 9)\n            \
        print('killed')\n    \
        except OSError:\n        pass\n";
    let end = run(&server, shell("a", dir.path(), &["-c", find])).await;
    assert!(end.stdout.contains("killed"), "{end:?}");
    for id in ["b", "c", "d"] {
        let end = run(&server, shell(id, dir.path(), &["-c", "print('still')"])).await;
        assert_eq!(end.stdout, "still\n", "{end:?}");
    }
}
