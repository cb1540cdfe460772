//! Runs one command in a single process; no cluster is needed.
//!
//! `cargo run -p kruntimes-examples --bin hello_run` prints `hello from kruntimes`.

use futures::StreamExt as _;
use kruntimes_embedded::{Embedded, Options, Progress, Submission};
use serde_json::json;

#[tokio::main]
#[expect(clippy::print_stdout, reason = "the example shows its result")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Embedded::start(Options::default()).await?;
    let run = json!({
        "apiVersion": "kruntimes.io/v1alpha1",
        "kind": "Run",
        "metadata": {"name": "hello"},
        "spec": {
            "runtime": "bash",
            "mode": {"task": {}},
            "source": {"inline": "echo hello from kruntimes"},
        },
    });
    let submission = Submission {
        targets: vec![run],
        ..Submission::default()
    };
    let targets = engine.submit(submission).await?;
    let mut progress = engine.follow(&targets[0]);
    while let Some(news) = progress.next().await {
        if let Progress::Output { line, .. } = news {
            println!("{line}");
        }
    }
    engine.shutdown().await;
    Ok(())
}
