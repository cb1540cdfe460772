//! What a task leaves behind when it ends, with the real Bash server.
//!
//! Every script takes one lock through a descriptor that all its processes inherit. The lock is free
//! for the next script only if no process of the one before is alive any more, whatever it held:
//! a port, a pipe, a file.

use std::time::Duration;

use kruntimes_core::api::{RunPhase, RunSpec};

use crate::bash::{Real, real_with};
use crate::world::{retried, script, status, with_env};

const LOCK: &str = "exec 9>>\"$LOCK\"; flock -n 9 && echo FREE=yes >> \"$KRUNTIME_OUTPUTS\";";
const GRACE: Duration = Duration::from_millis(200);

fn locking(real: &Real, spec: RunSpec) -> RunSpec {
    let lock = real.world.path("lock");
    let bye = real.world.path("bye");
    let variables = [("LOCK", &lock), ("BYE", &bye)].map(|(name, path)| (name, path.to_str()));
    let variables = variables.map(|(name, path)| (name, path.expect("the path is a text")));
    with_env(spec, &variables)
}

fn locked(real: &Real, rest: &str) -> RunSpec {
    locking(real, script(&format!("{LOCK} {rest}")))
}

/// Asserts that the next Run in the only place finds nothing of the one before.
async fn nothing_is_left(real: &Real, name: &str) {
    let done = real.world.until_over(name).await;
    assert_eq!(
        status(&done).outputs.get("FREE").map(String::as_str),
        Some("yes"),
        "{name}"
    );
}

#[tokio::test]
async fn case_052_what_holds_the_output_open_delays_nothing_and_does_not_survive() {
    let real = real_with(1, GRACE).await;
    for (round, rest) in [
        "sleep 60 &",
        "sleep 60 <&0 & disown",
        "exec 7>&1; sleep 60 > /dev/null 2>&1 &",
        "setsid sleep 60 &",
        "trap '' TERM; (sleep 60; sleep 60) &",
    ]
    .into_iter()
    .enumerate()
    {
        let (name, next) = (format!("a{round}"), format!("b{round}"));
        let spec = locked(&real, &format!("{rest}\necho done"));
        real.world.submit(&name, spec).await;
        real.world.submit(&next, locked(&real, "")).await;
        let begun = tokio::time::Instant::now();
        let done = real.world.until_over(&name).await;
        assert_eq!(status(&done).phase, RunPhase::Succeeded, "{rest}");
        assert_eq!(status(&done).outputs["FREE"], "yes", "{rest}");
        assert!(begun.elapsed() < Duration::from_secs(20), "{rest}");
        nothing_is_left(&real, &next).await;
        let lines = real.world.logs.lines();
        let said = lines.iter().filter(|line| *line == "Stdout 1 done");
        assert_eq!(said.count(), round + 1, "{rest}: {lines:?}");
    }
}

#[tokio::test]
async fn case_053_nothing_outlives_a_deadline() {
    let real = real_with(1, GRACE).await;
    let mut spec = locked(
        &real,
        "trap '' TERM; sleep 60 & setsid sleep 60 & wait; wait",
    );
    spec.timeout = Some(Duration::from_millis(600).into());
    real.world.submit("a", spec).await;
    real.world.submit("b", locked(&real, "")).await;
    let done = real.world.until_over("a").await;
    assert_eq!(status(&done).phase, RunPhase::Timeout);
    nothing_is_left(&real, "b").await;
}

#[tokio::test]
async fn case_055_a_program_behind_the_script_may_clean_up() {
    let real = real_with(1, Duration::from_secs(30)).await;
    let program = "trap 'echo bye > \"$BYE\"; exit' TERM; echo up; sleep 60 & wait";
    let spec = script(&format!("bash -c {}; true", quoted(program)));
    real.world.submit("a", locking(&real, spec)).await;
    real.world
        .eventually("it runs", || !real.world.logs.lines().is_empty())
        .await;
    real.world.cancel("a").await;
    let done = real.world.until_over("a").await;
    assert_eq!(status(&done).phase, RunPhase::Cancelled);
    let bye = std::fs::read_to_string(real.world.path("bye"));
    assert_eq!(bye.unwrap(), "bye\n");
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[tokio::test]
async fn case_062_an_attempt_begins_when_nothing_of_the_last_one_lives() {
    let real = real_with(1, GRACE).await;
    let text = format!(
        "{LOCK} test -e mark && exit 0
        touch mark; echo OLD=1 >> \"$KRUNTIME_OUTPUTS\"
        (trap '' TERM; sleep 60; sleep 60) & exit 1"
    );
    let spec = locking(&real, retried(&text, 2, Duration::ZERO));
    real.world.submit("a", spec).await;
    let done = real.world.until_over("a").await;
    assert_eq!(status(&done).phase, RunPhase::Succeeded);
    assert_eq!(status(&done).attempt, Some(2));
    let outputs: Vec<_> = status(&done).outputs.iter().collect();
    assert_eq!(outputs, [(&"FREE".to_owned(), &"yes".to_owned())]);
}
