//! An engine that stays, as a child process.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};

use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use rustix::process::{Pid, Signal, kill_process};

use crate::process::krt;

/// A running engine in a directory; killed with all it started when the test fails.
pub(crate) struct Engine {
    child: Child,
    dir: PathBuf,
    /// What it says, line by line, until its end.
    lines: Receiver<String>,
    said: String,
    over: bool,
}

impl Engine {
    /// Starts an engine and returns when it serves.
    pub(crate) fn start(dir: &Path) -> Self {
        Self::start_with(dir, &[])
    }

    /// The same, with further flags.
    pub(crate) fn start_with(dir: &Path, flags: &[&str]) -> Self {
        let mut child = krt(&["local", "up", "--slots", "4", "--dir"])
            .arg(dir)
            .args(flags)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let err = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let mut lines = err.lines().map_while(Result::ok);
            lines.try_for_each(|line| sender.send(line))
        });
        let mut engine = Self {
            child,
            dir: dir.to_owned(),
            lines,
            said: String::new(),
            over: false,
        };
        engine.heard("krt: the engine serves https://127.0.0.1:");
        engine
    }

    /// Waits until the engine has said this.
    pub(crate) fn heard(&mut self, text: &str) {
        while !self.said.contains(text) {
            let line = self.lines.recv();
            let line = line.unwrap_or_else(|_| panic!("it ended: {}", self.said));
            self.said = format!("{}{line}\n", self.said);
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(pid(self.child.id()), signal).unwrap();
    }

    /// Kills the engine as a crash would, and nothing else.
    pub(crate) fn crash(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.over = true;
    }

    /// Waits for the end; returns the exit code and all that was said.
    pub(crate) fn ended(mut self) -> (Option<i32>, String) {
        let code = self.child.wait().unwrap().code();
        self.over = true;
        let rest: Vec<String> = self.lines.iter().collect();
        (code, format!("{}{}", self.said, rest.join("\n")))
    }

    /// Connects as any client does.
    pub(crate) async fn client(&self) -> Client {
        client(&self.dir).await
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if !self.over {
            let _ = self.child.kill();
            let _ = self.child.wait();
            local("down", &self.dir, &["--now"]);
        }
    }
}

/// Connects to the engine in a directory.
pub(crate) async fn client(dir: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig(dir)).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    Client::try_from(config.unwrap()).unwrap()
}

/// Where the kubeconfig of an engine is, as the command says it.
pub(crate) fn kubeconfig(dir: &Path) -> PathBuf {
    let output = local("kubeconfig", dir, &["--path"]);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().into()
}

/// Runs a command about the engine in a directory.
pub(crate) fn local(verb: &str, dir: &Path, words: &[&str]) -> Output {
    let mut command = krt(&["local", verb, "--dir"]);
    command.arg(dir).args(words).output().unwrap()
}

pub(crate) fn pid(raw: u32) -> Pid {
    Pid::from_raw(i32::try_from(raw).unwrap()).unwrap()
}

/// Tells whether a process of this number runs; one that only nobody has collected yet does not.
pub(crate) fn exists(raw: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{raw}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().unwrap_or_default();
    !state.is_empty() && !state.starts_with('Z')
}

/// Makes a named pipe and opens it, so that neither end ever waits for the other to come.
pub(crate) fn pipe(path: &Path) -> File {
    let made = std::process::Command::new("mkfifo").arg(path).status();
    assert!(made.unwrap().success());
    let mut options = OpenOptions::new();
    options.read(true).write(true).open(path).unwrap()
}
