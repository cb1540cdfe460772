//! Counts that do not depend on what else the machine does, taken by valgrind.

use std::env;
use std::hint::black_box;
use std::process::Command;

use kruntimes_workflow::plan::{Compiled, calculate};

use crate::days::{folded, latest};
use crate::definition::{accepted, frozen, graph, wide};

/// First argument of a process that is counted.
pub(crate) const PROBE: &str = "probe";

/// Does what a counted process is to do.
pub(crate) fn probe(name: &str, size: &str) {
    let Ok(jobs) = size.parse() else { return };
    let snapshot = frozen(graph(jobs));
    match name {
        "compile" => {
            counted(|| Compiled::new(&snapshot).is_ok());
        }
        "turn" => {
            let late = latest(accepted(&frozen(wide(64, jobs))));
            counted(|| calculate(&late));
        }
        _ => {
            let state = accepted(&snapshot);
            let transitions = counted(|| {
                let compiled = Compiled::new(&snapshot).expect("it has no cycle");
                folded(&compiled, state)
            });
            assert_eq!(transitions, 2 * jobs, "every step starts and ends");
        }
    }
}

/// Returns the instructions that a probe executes in [`counted`], where valgrind is installed.
pub(crate) fn instructions(name: &str, size: usize) -> Option<f64> {
    let mut command = Command::new("valgrind");
    command
        .args([
            "--tool=callgrind",
            "--callgrind-out-file=/dev/null",
            "--toggle-collect=*count::counted*",
        ])
        .arg(env::current_exe().ok()?);
    let output = command.args([PROBE, name, &size.to_string()]).output();
    let told = String::from_utf8(output.ok()?.stderr).ok()?;
    let rest = told.rsplit_once("Collected :")?.1.trim_start();
    rest.split([' ', '\n']).next()?.parse().ok()
}

/// Does what is to be counted.
#[inline(never)]
fn counted<T>(act: impl FnOnce() -> T) -> T {
    black_box(act())
}
