//! Parts that crash, and parts that are there twice.

use futures::future::join_all;
use serde_json::json;

use super::World;
use super::graphs::job;
use super::world::{heard, tell};

pub(crate) async fn restarted_controllers_go_on_where_they_were(world: &World) {
    let (journal, started, go) = (
        world.file("journal"),
        world.fifo("started"),
        world.fifo("go"),
    );
    let says = |what: &str| format!("echo {what} >> {}", journal.display());
    let middle = format!(
        "{}; echo here > {}; read -r word < {}; echo word=$word >> \"$KRUNTIME_OUTPUTS\"",
        says("middle"),
        started.display(),
        go.display()
    );
    let jobs = json!({
        "first": job(&[], &says("first")),
        "middle": job(&["first"], &middle),
        "last": job(&["middle"], &says("last")),
    });
    world.submit("patient", jobs).await;
    assert_eq!(heard(&started).await, "here\n");
    for part in ["workflow", "scheduler", "runtime", "definitions", "pool"] {
        world.crash(part);
    }
    tell(&go, "on\n").await;
    let status = world.end_of("patient").await;
    assert_eq!(status["phase"], "Succeeded", "{status:#}");
    let journal = std::fs::read_to_string(journal).unwrap();
    assert_eq!(journal, "first\nmiddle\nlast\n", "every step ran once");
    assert_eq!(world.run_names().await.len(), 3);
}

pub(crate) async fn two_schedulers_place_every_run_once(world: &World) {
    world.start_scheduler("other scheduler");
    let journal = world.file("journal");
    let names: Vec<String> = (0..12).map(|number| format!("run-{number}")).collect();
    for name in &names {
        let script = format!("echo {name} >> {}", journal.display());
        world.submit_run(name, &script, json!({})).await;
    }
    let ends = join_all(names.iter().map(|name| world.end_of_run(name))).await;
    for status in ends {
        assert_eq!(status["phase"], "Succeeded", "{status:#}");
        assert!(status["attempt"].as_i64().unwrap_or(1) <= 1, "{status:#}");
    }
    let journal = std::fs::read_to_string(journal).unwrap();
    let mut lines: Vec<&str> = journal.lines().collect();
    lines.sort_unstable();
    let mut wanted: Vec<&str> = names.iter().map(String::as_str).collect();
    wanted.sort_unstable();
    assert_eq!(lines, wanted);
}
