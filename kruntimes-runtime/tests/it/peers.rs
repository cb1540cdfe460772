//! The protocol with peers that know nothing but the `.proto` files: a client and a server in Python.
//!
//! Their library is installed below the target directory the first time. Where there is no Python, or the library
//! cannot be had, a line says so and the tests end there; with `CI=true` the latter is a failure.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use kruntimes_proto::connect;
use kruntimes_runtime::Manners;
use kruntimes_runtime::bash::Config;
use kruntimes_runtime::server::{Listener, ServerHandle};
use kruntimes_runtime::testing::{CONTRACT, Programs, Subject};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

/// The scripts and what they need.
const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers");
const PROTOCOL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../kruntimes-proto/proto");
const FILES: &[&str] = &[
    "executor/v1/runtime.proto",
    "executor/v1/events.proto",
    "executor/v1/function.proto",
    "executor/v1/session.proto",
    "artifact/v1/artifact.proto",
];

/// Where library and generated code are; both tests need them once.
static INSTALLED: OnceCell<Option<PathBuf>> = OnceCell::const_new();

async fn installed() -> Option<&'static Path> {
    let installed = INSTALLED.get_or_init(async || match install().await {
        Ok(place) => Some(place),
        Err(why) => {
            let _ = writeln!(io::stderr(), "skipped: {why}");
            None
        }
    });
    installed.await.as_deref()
}

async fn install() -> Result<PathBuf, String> {
    if succeeds("python3", &["--version"], Path::new("."))
        .await
        .is_err()
    {
        return Err("there is no python3 in PATH".to_owned());
    }
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("peers");
    let wanted = fs::read_to_string(Path::new(SCRIPTS).join("requirements.txt"))
        .expect("the script is there");
    // What was installed is written last, so that half an installation is none.
    let mark = place.join("installed");
    if !fs::read_to_string(&mark).is_ok_and(|text| text == wanted) {
        let _ = fs::remove_dir_all(&place);
        fs::create_dir_all(&place).expect("the target directory can be written");
        fs::write(place.join("requirements.txt"), &wanted)
            .expect("the target directory can be written");
        let made = library(&place).await;
        if let Err(why) = made {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "{why}");
            return Err(why);
        }
        fs::write(mark, wanted).expect("the target directory can be written");
    }
    // Generated every time: it is quick, and the files may have changed.
    let out = [
        "-m",
        "grpc_tools.protoc",
        "-I",
        PROTOCOL,
        "--python_out=.",
        "--grpc_python_out=.",
    ];
    let words = [&out[..], FILES].concat();
    let python = place.join("venv/bin/python");
    succeeds(python, &words, &place)
        .await
        .expect("the files are read by another compiler");
    Ok(place)
}

async fn library(place: &Path) -> Result<(), String> {
    succeeds("python3", &["-m", "venv", "venv"], place).await?;
    let words = "-m pip install --quiet --no-deps -r requirements.txt";
    let words: Vec<&str> = words.split(' ').collect();
    let installed = succeeds(place.join("venv/bin/python"), &words, place).await;
    installed.map_err(|why| format!("the gRPC library for Python cannot be installed: {why}"))
}

async fn succeeds(program: impl AsRef<Path>, words: &[&str], place: &Path) -> Result<(), String> {
    let output = Command::new(program.as_ref())
        .args(words)
        .current_dir(place)
        .output()
        .await;
    let output = output.map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

/// A script with the generated code in reach, and nothing between it and loopback.
fn script(place: &Path, name: &str, words: &[&str]) -> Command {
    let mut command = Command::new(place.join("venv/bin/python"));
    command.arg(Path::new(SCRIPTS).join(name)).args(words);
    command
        .env("PYTHONPATH", place)
        .env("NO_PROXY", "127.0.0.1,localhost");
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n_216_a_python_client_made_of_the_proto_files_drives_our_server() {
    let Some(place) = installed().await else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let work_dir = dir.path().to_str().unwrap();
    let config = Config {
        work_dir: dir.path().to_owned(),
        ..Config::default()
    };
    let socket = dir.path().join("s");
    for listener in [Listener::tcp("127.0.0.1:0").await, Listener::unix(&socket)] {
        let supervisor = config.supervisor().unwrap();
        let server = ServerHandle::spawn(listener.unwrap(), supervisor, &CancellationToken::new());
        let output = script(place, "client.py", &[server.endpoint(), work_dir])
            .output()
            .await
            .unwrap();
        let complaints = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            output.stdout,
            b"held\n",
            "{}: {complaints}",
            server.endpoint()
        );
        server.shutdown().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n_235_a_python_server_made_of_the_proto_files_keeps_the_contract() {
    let Some(place) = installed().await else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let endpoint = format!("unix:{}", dir.path().join("s").display());
    let mut server = script(
        place,
        "server.py",
        &[&endpoint, dir.path().to_str().unwrap()],
    );
    let mut server = server.stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(server.stdout.take().unwrap()).lines();
    assert_eq!(said.next_line().await.unwrap().as_deref(), Some("serving"));
    let subject = Subject {
        client: Arc::new(connect(&endpoint).unwrap()),
        work_dir: dir.path().join("conformance"),
        wrap: str::to_owned,
        manners: Manners::Keep,
    };
    let programs = Programs {
        print: "echo out",
        fail: "echo before; exit 3",
        endless: "echo ready; exec sleep 300",
        flood: "echo first; head -c 3000000 /dev/zero | tr '\\0' y",
    };
    for case in CONTRACT {
        let copy = subject.clone();
        let end = tokio::spawn(async move { (case.check)(&copy, &programs).await }).await;
        assert!(end.is_ok(), "{}: {end:?}", case.name);
    }
    server.kill().await.unwrap();
}
