//! What only the Bash server promises: its table of commands.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use futures::StreamExt;
use kruntimes_proto::{ClientError, ExecuteRequest, Execution, RuntimeClient};
use kruntimes_runtime::Supervisor;
use kruntimes_runtime::bash::Config;

pub(crate) fn bash(work_dir: &Path) -> Supervisor {
    let config = Config {
        work_dir: work_dir.to_owned(),
        termination_grace: Duration::from_millis(200),
        ..Config::default()
    };
    config.supervisor().expect("bash is installed")
}

pub(crate) fn shell(id: &str, dir: &Path, args: &[&str]) -> ExecuteRequest {
    ExecuteRequest {
        id: id.to_owned(),
        working_dir: dir.to_string_lossy().into_owned(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        ..ExecuteRequest::default()
    }
}

pub(crate) async fn run(server: &dyn RuntimeClient, request: ExecuteRequest) -> Execution {
    let id = request.id.clone();
    let mut events = server
        .watch(std::slice::from_ref(&id))
        .await
        .expect("watch");
    server.execute(request).await.expect("execute");
    loop {
        let execution = server.status(&id).await.expect("status");
        if execution.state.is_final() {
            return execution;
        }
        events
            .next()
            .await
            .expect("an event before the end")
            .expect("event");
    }
}

#[tokio::test]
async fn arguments_choose_the_command() {
    let dir = tempfile::tempdir().unwrap();
    let server = bash(dir.path());
    for (args, want) in [
        (&["echo $0 one"][..], "bash one\n"),
        (&["echo a", "echo b"], "a\nb\n"),
        (&["bash", "-c", "echo \"$0 $1.\"", "zero", ""], "zero .\n"),
        (&["sh", "-c", "echo $0 $#", "zero", "", "x"], "zero 2\n"),
        // Only two words: lines like any others.
        (&["echo sh", "echo -c"], "sh\n-c\n"),
        (&["echo x", "", "echo y"], "x\ny\n"),
    ] {
        // The name that bash gives itself is its path.
        let end = run(&server, shell("a", dir.path(), args)).await;
        let stdout = end
            .stdout
            .replace("/usr/bin/bash", "bash")
            .replace("/bin/bash", "bash");
        assert_eq!(stdout, want, "{args:?}: {end:?}");
    }
    let end = run(&server, shell("none", dir.path(), &[])).await;
    assert_eq!(end.error_message, "no args or script provided");
    assert_eq!((end.state.is_final(), end.exit_code), (true, -1));
}

#[tokio::test]
async fn n_230_a_file_comes_first_and_need_not_be_executable() {
    let dir = tempfile::tempdir().unwrap();
    let server = bash(dir.path());
    std::fs::write(dir.path().join("script"), "echo \"script $# [$1] [$2]\"").unwrap();
    std::fs::write(dir.path().join("-x.sh"), "echo dash").unwrap();
    std::fs::create_dir(dir.path().join("folder")).unwrap();
    let end = run(&server, shell("a", dir.path(), &["", "b c"])).await;
    assert_eq!(end.stdout, "script 2 [] [b c]\n");
    for (entrypoint, want) in [
        ("./x/../-x.sh", "dash\n"),
        ("folder", "args\n"),
        ("missing", "args\n"),
    ] {
        let mut request = shell("b", dir.path(), &["echo args"]);
        entrypoint.clone_into(&mut request.entrypoint);
        assert_eq!(run(&server, request).await.stdout, want, "{entrypoint}");
    }
}

#[tokio::test]
async fn n_226_work_stays_below_the_root_after_links() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let server = bash(&root);
    symlink(dir.path(), root.join("out")).unwrap();
    std::fs::write(dir.path().join("secret"), "echo leaked").unwrap();
    symlink(dir.path().join("secret"), root.join("script")).unwrap();
    for request in [
        shell("a", &root.join("out/new"), &["true"]),
        shell("a", dir.path(), &["true"]),
        shell("a", &root.join("../x"), &["true"]),
        // The file is a link that leads out (N-64).
        shell("a", &root, &["true"]),
    ] {
        let directory = request.working_dir.clone();
        let answer = server.execute(request).await;
        assert!(
            matches!(answer, Err(ClientError::InvalidArgument { .. })),
            "{directory}: {answer:?}"
        );
    }
    assert!(!dir.path().join("new").exists());
    assert!(server.list().await.unwrap().is_empty());
}

#[tokio::test]
async fn n_231_the_environment_is_overlaid_and_path_serves_the_script() {
    let dir = tempfile::tempdir().unwrap();
    let server = bash(dir.path());
    let tool = dir.path().join("bin/my-tool");
    std::fs::create_dir(dir.path().join("bin")).unwrap();
    std::fs::write(&tool, "#!/bin/sh\necho tool\n").unwrap();
    std::fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut request = shell(
        "a",
        dir.path(),
        &["my-tool; [ -n \"$CARGO_MANIFEST_DIR\" ] && echo inherited"],
    );
    // There is no bash in this PATH, and the interpreter is found all the same.
    request.env.insert(
        "PATH".to_owned(),
        dir.path().join("bin").to_string_lossy().into_owned(),
    );
    assert_eq!(run(&server, request).await.stdout, "tool\ninherited\n");
}

#[tokio::test]
async fn texts_no_process_can_have_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let server = bash(dir.path());
    for (name, value) in [("", "x"), ("A=B", "x"), ("A\0", "x"), ("A", "x\0")] {
        let mut request = shell("a", dir.path(), &["true"]);
        request.env.insert(name.to_owned(), value.to_owned());
        let answer = server.execute(request).await;
        assert!(
            matches!(answer, Err(ClientError::InvalidArgument { .. })),
            "{name:?}: {answer:?}"
        );
    }
    let answer = server.execute(shell("a", dir.path(), &["a\0b"])).await;
    assert!(
        matches!(answer, Err(ClientError::InvalidArgument { .. })),
        "{answer:?}"
    );
}
