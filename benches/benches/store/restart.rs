//! R1: a server with many objects is killed and comes back; and what an object takes in memory.
//!
//! Each measurement is a process of its own, so that memory and caches of one do not help the next.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use kube::Api;
use tokio::runtime::Runtime;

use crate::{a_server, load, median, spread};

const OBJECTS: usize = 100_000;
const RESTARTS: usize = 10;
/// Environment variables of a child: what it does, and in which directory.
const TASK: &str = "KRUNTIMES_BENCH_TASK";
const DIRECTORY: &str = "KRUNTIMES_BENCH_DIRECTORY";

fn objects() -> usize {
    let asked = std::env::var("KRUNTIMES_OBJECTS").ok();
    asked
        .and_then(|number| number.parse().ok())
        .unwrap_or(OBJECTS)
}

/// Does what the parent asks for, if there is one, and waits to be killed.
pub(crate) fn is_child() -> bool {
    let Ok(task) = std::env::var(TASK) else {
        return false;
    };
    let directory = std::env::var(DIRECTORY).ok();
    let directory = directory.as_deref().map(Path::new);
    let begun = Instant::now();
    let server = a_server(directory);
    let opened = begun.elapsed();
    let runtime = Runtime::new().expect("a runtime can be built");
    runtime.block_on(async {
        let client = server.client();
        if task == "fill" {
            load::fill(&client, objects()).await;
        }
        let runs: Api<kruntimes_core::api::Run> = Api::default_namespaced(client);
        let last = format!("run-{}", objects() - 1);
        runs.get(&last).await.expect("every object is there");
    });
    println!("{} {}", opened.as_nanos(), resident());
    std::io::stdout().flush().expect("the parent listens");
    // Until the parent kills this process.
    std::io::stdin()
        .read_to_end(&mut Vec::new())
        .expect("the input is a pipe");
    true
}

/// Bytes of this process in memory.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or_default() * 1024
}

/// A process that has done its task, with how long it took until it answered.
struct Worker {
    child: Child,
    ready: Duration,
    opened: Duration,
    resident: u64,
}

fn start(task: &str, directory: Option<&Path>, objects: usize) -> Worker {
    let program = std::env::current_exe().expect("the program knows its own path");
    let mut command = Command::new(program);
    command
        .env(TASK, task)
        .env("KRUNTIMES_OBJECTS", objects.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    if let Some(directory) = directory {
        command.env(DIRECTORY, directory);
    }
    let begun = Instant::now();
    let mut child = command
        .spawn()
        .expect("the program can be started once more");
    let output: ChildStdout = child.stdout.take().expect("the output is a pipe");
    let mut line = String::new();
    BufReader::new(output)
        .read_line(&mut line)
        .expect("the child says when it is done");
    let ready = begun.elapsed();
    let mut numbers = line.split_whitespace().map(|word| word.parse::<u64>().ok());
    let mut number = || {
        numbers
            .next()
            .flatten()
            .expect("the child says two numbers")
    };
    Worker {
        child,
        ready,
        opened: Duration::from_nanos(number()),
        resident: number(),
    }
}

impl Worker {
    fn kill(mut self) {
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a killed child ends");
    }
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub(crate) fn measure() {
    let objects = objects();
    let few = start("fill", None, 1);
    let base = few.resident;
    few.kill();
    let full = start("fill", None, objects);
    let per_object = |resident: u64| resident.saturating_sub(base) / objects as u64;
    println!(
        "memory per object, created in memory: {} B",
        per_object(full.resident)
    );
    full.kill();

    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let data = directory.path().join("data");
    let full = start("fill", Some(&data), objects);
    println!(
        "memory per object, created on disk: {} B",
        per_object(full.resident)
    );
    full.kill();
    let file = fs::metadata(data.join("objects.redb")).expect("the file is there");
    println!("disk per object: {} B", file.len() / objects as u64);
    let (mut ready, mut rates, mut memory) = (Vec::new(), Vec::new(), 0);
    for _ in 0..RESTARTS {
        let back = start("open", Some(&data), objects);
        ready.push(back.ready);
        rates.push(objects as f64 / back.opened.as_secs_f64());
        memory = per_object(back.resident);
        back.kill();
    }
    let worst = ready.iter().max().copied().unwrap_or_default();
    println!("memory per object, after a restart: {memory} B");
    println!(
        "R1: {objects} objects, from start of the process to the first answer: p50 {:?}, worst {worst:?}; \
         {:.0} records/s read",
        spread(ready).0,
        median(rates)
    );
}
