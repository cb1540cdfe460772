//! A Runtime of one's own: Runs that are SQL scripts for SQLite.
//!
//! `cargo run -p kruntimes-examples --bin sqlite_runtime` prints `answer<tab>42` and `{"answer":"42"}`, the output
//! and the outputs of its Run. With an endpoint, `unix:PATH` or `0.0.0.0:9091`, and a work root it serves a Pod
//! instead. The guide `docs/guides/custom-runtime.md` goes through it.

mod sql;

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use futures::StreamExt as _;
use kruntimes_embedded::node::Servers;
use kruntimes_embedded::{Embedded, Options, Progress, Submission};
use kruntimes_runtime::kit;
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.as_slice() {
        [] => demo().await,
        [endpoint, work_dir] => {
            let options = options(Path::new(work_dir), Duration::from_secs(2));
            Ok(kit::serve(endpoint, sql::Sqlite, options).await?)
        }
        _ => Err("usage: sqlite_runtime [ENDPOINT WORK_DIR]".into()),
    }
}

fn options(work_dir: &Path, termination_grace: Duration) -> kit::Options {
    kit::Options {
        work_dir: work_dir.to_owned(),
        termination_grace,
    }
}

/// Runs one script through the whole engine: API, scheduler, daemon and this Runtime Server.
#[expect(clippy::print_stdout, reason = "the example shows its result")]
async fn demo() -> Result<(), Box<dyn Error>> {
    let servers = Servers::default().with("sqlite", |work_dir, grace| {
        kit::supervisor(sql::Sqlite, &options(work_dir, grace))
    });
    let engine = Embedded::start(Options {
        servers,
        ..Options::default()
    })
    .await?;
    let runtime = json!({
        "apiVersion": "kruntimes.io/v1alpha1",
        "kind": "Runtime",
        "metadata": {"name": "sqlite"},
        "spec": {
            "replicas": 1,
            "capacity": {"resources": {"runs": "4"}},
            "template": {"spec": {"containers": [{"name": "runtime", "image": "sqlite-runtime"}]}},
        },
    });
    let run = json!({
        "apiVersion": "kruntimes.io/v1alpha1",
        "kind": "Run",
        "metadata": {"name": "answer"},
        "spec": {
            "runtime": "sqlite",
            "mode": {"task": {}},
            "source": {"inline": "
                CREATE TABLE answers (name TEXT, value INTEGER);
                INSERT INTO answers VALUES ('answer', 6 * 7);
                INSERT INTO outputs SELECT name, value FROM answers;
                SELECT name, value FROM answers;"},
        },
    });
    let submission = Submission {
        runtimes: vec![runtime],
        targets: vec![run],
        ..Submission::default()
    };
    let targets = engine.submit(submission).await?;
    let mut progress = engine.follow(&targets[0]);
    while let Some(news) = progress.next().await {
        match news {
            Progress::Output { line, .. } => println!("{line}"),
            Progress::Ended(ending) => println!("{}", ending.object["status"]["outputs"]),
            Progress::Transition { .. } => {}
        }
    }
    engine.shutdown().await;
    Ok(())
}
