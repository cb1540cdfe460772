//! Ctrl-C cancels and waits; the second one kills.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::process::{krt, text, workflow_run};

/// A run whose step has said which process it is.
struct Running {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
    step: Pid,
}

fn pid(raw: i32) -> Pid {
    Pid::from_raw(raw).unwrap()
}

/// Starts a workflow whose step writes its process id and then lasts longer than any test.
fn start(trap: &str) -> Running {
    let jobs = format!(
        "    wait:
      runs-on: bash
      steps:
      - name: long
        run: |
          {trap}
          echo pid $$
          while :; do sleep 600 & wait $!; done
    after:
      runs-on: bash
      needs: wait
      steps: [{{name: never, run: 'true'}}]
"
    );
    let mut child = krt(&["local", "run", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input
        .write_all(workflow_run("long", &jobs).as_bytes())
        .unwrap();
    drop(input);
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let number = line.trim().strip_prefix("[wait/long] pid ");
    let number = number.unwrap_or_else(|| panic!("{line}")).parse().unwrap();
    Running {
        child,
        out,
        step: pid(number),
    }
}

impl Running {
    fn signal(&self, signal: Signal) {
        let raw = i32::try_from(self.child.id()).unwrap();
        kill_process(pid(raw), signal).unwrap();
    }

    /// Waits for the end and returns exit code, standard output and standard error.
    fn end(mut self) -> (Option<i32>, String, String) {
        let mut out = String::new();
        self.out.read_to_string(&mut out).unwrap();
        let output = self.child.wait_with_output().unwrap();
        let code = output.status.code();
        assert!(
            test_kill_process(self.step).is_err(),
            "the process of the step is still there"
        );
        (code, out, text(&output.stderr))
    }
}

#[test]
fn c_14_ctrl_c_cancels_waits_and_is_code_130() {
    let running = start("");
    running.signal(Signal::INT);
    let (code, out, err) = running.end();
    assert_eq!(code, Some(130), "{err}");
    assert!(err.contains("krt: cancelling"), "{err}");
    assert!(err.contains("Cancelled wait/long"), "{err}");
    assert!(err.contains("Waiting after, did not run"), "{err}");
    assert!(out.contains("Cancelled long in"), "{out}");
}

#[test]
fn c_14_sigterm_cancels_too_and_is_code_143() {
    let running = start("");
    running.signal(Signal::TERM);
    let (code, _, err) = running.end();
    assert_eq!(code, Some(143), "{err}");
    assert!(err.contains("Cancelled wait/long"), "{err}");
}

#[test]
fn the_second_ctrl_c_kills_what_does_not_want_to_end() {
    let mut running = start("trap '' TERM INT");
    running.signal(Signal::INT);
    // The first one has arrived when it is answered.
    let mut err = BufReader::new(running.child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("krt: cancelling") {
        assert!(err.read_line(&mut said).unwrap() > 0, "{said}");
    }
    running.signal(Signal::INT);
    err.read_to_string(&mut said).unwrap();
    let (code, _, _) = running.end();
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains("krt: killing everything"), "{said}");
    assert!(
        said.contains(", killed"),
        "what was killed is named: {said}"
    );
}
