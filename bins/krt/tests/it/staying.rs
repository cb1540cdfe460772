//! `krt local up`, `down`, `status` and `kubeconfig`.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::process::Signal;

use crate::engine::{Engine, exists, kubeconfig, local};
use crate::process::{krt, object, text};

fn said(output: &std::process::Output) -> String {
    text(&output.stderr)
}

#[test]
fn without_an_engine_every_command_says_how_to_start_one() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("my engine");
    for verb in ["status", "kubeconfig"] {
        let output = local(verb, &home, &[]);
        assert_eq!(output.status.code(), Some(5), "{verb}");
        let start = format!("krt local up --dir '{}'", home.display());
        assert!(said(&output).contains(&start), "{}", said(&output));
    }
    let status = local("status", &home, &["-o", "json"]);
    assert_eq!(status.status.code(), Some(5));
    assert_eq!(object(&status)["running"], false);
    // Nothing to end is no error.
    for words in [&[][..], &["--now"]] {
        let down = local("down", &home, words);
        assert_eq!(down.status.code(), Some(0), "{}", said(&down));
        assert!(said(&down).contains("no engine is running"));
    }
    assert!(!home.exists(), "asking makes nothing");
}

#[test]
fn an_engine_in_the_background_is_ready_when_the_command_returns() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    let up = local("up", &home, &["--detach"]);
    assert_eq!(up.status.code(), Some(0), "{}", said(&up));
    let path = kubeconfig(&home);
    assert!(said(&up).contains(&format!("export KUBECONFIG={}", path.display())));
    assert!(up.stdout.is_empty());
    let status = object(&local("status", &home, &["-o", "json"]));
    assert_eq!(status["running"], true, "{status}");
    assert_eq!(status["kubeconfig"], path.to_str().unwrap());
    let pid = u32::try_from(status["pid"].as_u64().unwrap()).unwrap();
    assert!(exists(pid));
    let shown = text(&local("status", &home, &[]).stdout);
    assert!(
        shown.contains(&format!("process {pid}, since 20")),
        "{shown}"
    );
    let printed = text(&local("kubeconfig", &home, &[]).stdout);
    assert_eq!(printed, std::fs::read_to_string(&path).unwrap());
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (mode(&home), mode(path.parent().unwrap()), mode(&path)),
        (0o700, 0o700, 0o600)
    );

    for words in [&[][..], &["--detach"]] {
        let second = local("up", &home, words);
        assert_eq!(second.status.code(), Some(1));
        let already = format!("already (process {pid}, since ");
        assert!(said(&second).contains(&already), "{}", said(&second));
        assert!(
            said(&second).contains("krt local down"),
            "{}",
            said(&second)
        );
    }

    let down = local("down", &home, &[]);
    assert_eq!(down.status.code(), Some(0), "{}", said(&down));
    assert!(!exists(pid));
    assert_eq!(local("status", &home, &[]).status.code(), Some(5));
    let log = std::fs::read_to_string(home.join("engine.log")).unwrap();
    assert!(log.contains("krt: the engine has ended"), "{log}");
}

#[test]
fn the_lock_decides_and_not_what_a_killed_engine_has_left_written() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    let engine = Engine::start(&home);
    let first = object(&local("status", &home, &["-o", "json"]));
    engine.crash();
    assert!(home.join("engine.json").exists());
    assert_eq!(local("status", &home, &[]).status.code(), Some(5));
    let engine = Engine::start(&home);
    let second = object(&local("status", &home, &["-o", "json"]));
    assert_ne!(first["pid"], second["pid"]);
    // A kubeconfig that somebody holds stays good.
    assert_eq!(first["endpoint"], second["endpoint"]);
    let down = local("down", &home, &["--now"]);
    assert_eq!(down.status.code(), Some(0), "{}", said(&down));
    assert_eq!(engine.ended().0, None, "it was killed");
}

#[test]
fn a_start_that_fails_says_why_in_both_ways() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("holiday.jpg"), "").unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let home = dir.path().join("home");
    for detach in [&[][..], &["--detach"]] {
        let foreign = local("up", dir.path(), detach);
        assert_eq!(foreign.status.code(), Some(1));
        assert!(
            said(&foreign).contains("holds files but no engine"),
            "{}",
            said(&foreign)
        );
        let words = [detach, &["--port", &port]].concat();
        let refused = local("up", &home, &words);
        assert_eq!(refused.status.code(), Some(1));
        assert!(said(&refused).contains("--port"), "{}", said(&refused));
    }
    assert_eq!(dir.path().read_dir().unwrap().count(), 2);
}

#[test]
fn the_variable_names_the_directory_and_the_users_data_is_the_default() {
    let dir = tempfile::tempdir().unwrap();
    let status = |name: &str, value: &Path| {
        let mut command = krt(&["local", "status", "-o", "json"]);
        command
            .env_remove("KRT_DATA_DIR")
            .env_remove("XDG_DATA_HOME");
        command.env("HOME", dir.path()).env(name, value);
        object(&command.output().unwrap())["directory"].clone()
    };
    let at = |path: &str| dir.path().join(path);
    let text = |path: std::path::PathBuf| path.to_str().unwrap().to_owned();
    assert_eq!(status("KRT_DATA_DIR", &at("x")), text(at("x")));
    assert_eq!(status("XDG_DATA_HOME", &at("y")), text(at("y/krt/default")));
    let default = text(at(".local/share/krt/default"));
    assert_eq!(status("KRT_DATA_DIR", Path::new("")), default);
}

#[test]
fn an_engine_ends_at_a_signal_when_nothing_runs() {
    let dir = tempfile::tempdir().unwrap();
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let engine = Engine::start(&dir.path().join("home"));
        engine.signal(signal);
        let (ended, said) = engine.ended();
        assert_eq!(ended, Some(code), "{said}");
        assert!(said.contains("krt: the engine has ended"), "{said}");
    }
}
