//! Cancellation, timeout and retry.

use std::path::PathBuf;

use serde_json::json;

use super::World;
use super::graphs::job;
use super::world::heard;

pub(crate) async fn a_cancelled_workflow_leaves_no_process(world: &World) {
    let fifo = world.fifo("fifo");
    let script = format!(
        "trap '' TERM; echo $$ > {}; read -r never < {0}",
        fifo.display()
    );
    let jobs = json!({"long": job(&[], &script), "next": job(&["long"], "true")});
    world.submit("long", jobs).await;
    let process = PathBuf::from(format!("/proc/{}", heard(&fifo).await.trim()));
    assert!(process.exists());
    world.cancel("long").await;
    let status = world.end_of("long").await;
    assert_eq!(status["phase"], "Cancelled", "{status:#}");
    assert!(!process.exists(), "cancelled means that nothing runs");
    assert_eq!(
        world.run_names().await.len(),
        1,
        "nothing starts after a cancellation"
    );
}

pub(crate) async fn a_failed_attempt_is_repeated_until_it_succeeds(world: &World) {
    let journal = world.file("journal");
    let script = format!(
        "echo again >> {0}; test $(wc -l < {0}) -eq 3",
        journal.display()
    );
    let policy = json!({"retryPolicy": {"maxAttempts": 5, "backoff": "10ms"}});
    world.submit_run("stubborn", &script, policy).await;
    let status = world.end_of_run("stubborn").await;
    assert_eq!(status["phase"], "Succeeded", "{status:#}");
    assert_eq!(status["attempt"], 3);
    assert_eq!(std::fs::read_to_string(journal).unwrap().lines().count(), 3);
}

pub(crate) async fn an_overdue_run_times_out(world: &World) {
    let fifo = world.fifo("fifo");
    let script = format!("echo $$ > {}; read -r never < {0}", fifo.display());
    world
        .submit_run("slow", &script, json!({"timeout": "500ms"}))
        .await;
    let process = PathBuf::from(format!("/proc/{}", heard(&fifo).await.trim()));
    let status = world.end_of_run("slow").await;
    assert_eq!(status["phase"], "Timeout", "{status:#}");
    assert!(!process.exists());
}
