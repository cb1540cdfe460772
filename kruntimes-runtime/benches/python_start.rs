//! What a warm interpreter saves: the same programs started on their own and forked, in turns.
//!
//! `cargo bench -p kruntimes-runtime --bench python_start` prints the median and the 95th percentile of the time from
//! `Execute` to the end, in milliseconds.

use std::path::Path;
use std::time::Duration;

use futures::StreamExt as _;
use kruntimes_proto::{ExecuteRequest, RuntimeClient as _};
use kruntimes_runtime::Supervisor;
use kruntimes_runtime::python::Config;
use tokio::time::Instant;

const ROUNDS: usize = 200;

fn server(work_dir: &Path, warm: bool) -> Supervisor {
    let config = Config {
        work_dir: work_dir.to_owned(),
        warm,
        ..Config::default()
    };
    config.supervisor().expect("python is installed")
}

async fn once(server: &Supervisor, work_dir: &Path, code: &str) -> Duration {
    let id = "a".to_owned();
    let mut events = server
        .watch(std::slice::from_ref(&id))
        .await
        .expect("watch");
    let request = ExecuteRequest {
        id: id.clone(),
        args: vec!["-c".to_owned(), code.to_owned()],
        working_dir: work_dir.to_string_lossy().into_owned(),
        ..ExecuteRequest::default()
    };
    let start = Instant::now();
    server.execute(request).await.expect("execute");
    while let Some(Ok(event)) = events.next().await {
        if event.state.is_final() {
            break;
        }
    }
    let took = start.elapsed();
    let end = server.status(&id).await.expect("status");
    assert_eq!(end.exit_code, 0, "{end:?}");
    server.forget(&id).await.expect("forget");
    took
}

fn print(name: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |share: usize| times[times.len() * share / 100].as_secs_f64() * 1000.0;
    #[expect(clippy::print_stdout, reason = "the numbers are the result")]
    {
        println!("{name:<28} p50 {:6.2}  p95 {:6.2}", at(50), at(95));
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let dir = tempfile::tempdir().expect("a directory");
    let servers = [false, true].map(|warm| server(dir.path(), warm));
    for code in ["pass", "import json, re, subprocess"] {
        let mut times = [Vec::new(), Vec::new()];
        // The first ones start what stays.
        for round in 0..ROUNDS + 10 {
            for (server, times) in servers.iter().zip(&mut times) {
                let took = once(server, dir.path(), code).await;
                if round >= 10 {
                    times.push(took);
                }
            }
        }
        let [own, forked] = times;
        print(&format!("{code}: own"), own);
        print(&format!("{code}: forked"), forked);
    }
}
