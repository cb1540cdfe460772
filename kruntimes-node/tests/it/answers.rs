//! What becomes of Runs when the Runtime Server answers late, oddly or not at all.

use std::time::Duration;

use kruntimes_core::api::RunPhase;
use kruntimes_proto::testing::{Dialect, Fault, Method, Script, ScriptedServer};
use kruntimes_proto::{ClientError, ExecuteRequest, RuntimeClient as _};
use kube::ResourceExt as _;
use tokio::time::Instant;

use crate::world::{World, conditions, message, script, status};

fn asked(server: &ScriptedServer, method: Method) -> usize {
    let calls = server.calls();
    calls.iter().filter(|call| call.method() == method).count()
}

#[tokio::test(start_paused = true)]
async fn n_78_a_start_is_given_ten_seconds() {
    let world = World::new(1).await;
    let server = ScriptedServer::default();
    server.break_next(Method::Execute, Fault::Delay(Duration::from_secs(600)));
    let _daemon = world.daemon(server.clone());
    let begun = Instant::now();
    let run = world.submit("a", script("x")).await;
    let done = world.until_over("a").await;
    let took = begun.elapsed();
    assert!(
        took >= Duration::from_secs(10) && took < Duration::from_secs(12),
        "{took:?}"
    );
    assert_eq!(status(&done).phase, RunPhase::Failed);
    assert!(conditions(&done).contains(&"Completed=False RuntimeExecute".to_owned()));
    assert!(message(&done).ends_with("no answer within 10s"));
    assert_eq!(server.executed(&run.uid().unwrap()), 0);
}

#[tokio::test(start_paused = true)]
async fn n_82_an_execution_that_exists_is_taken_over_while_it_lives_and_replaced_once_it_ended() {
    let earlier = Script::exits(3);
    let live = Script::exits(0).after(Duration::from_secs(5));
    for (name, first, executed) in [("ended", earlier, 2), ("live", live, 1)] {
        let world = World::new(1).await;
        let server = ScriptedServer::default()
            .speak(Dialect::Python)
            .without_events();
        let uid = world.submit(name, script("x")).await.uid().unwrap();
        server.script(&uid, first);
        let request = ExecuteRequest {
            id: uid.clone(),
            ..ExecuteRequest::default()
        };
        server.execute(request).await.unwrap();
        // The start does not learn of it by asking first.
        let silent = ClientError::Unavailable {
            message: "x".into(),
        };
        server.break_next(Method::Status, Fault::Refuse(silent));
        let _daemon = world.daemon(server.clone());
        let done = world.until_over(name).await;
        assert_eq!(status(&done).phase, RunPhase::Succeeded, "{name}");
        assert_eq!(status(&done).attempt, Some(1), "{name}");
        assert_eq!(server.executed(&uid), executed, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn n_88_n_89_a_server_without_events_is_asked_twice_a_second_and_given_five_seconds() {
    let world = World::new(1).await;
    let server = ScriptedServer::new(|_| Script::never_ends()).without_events();
    let _daemon = world.daemon(server.clone());
    world.submit("a", script("x")).await;
    world
        .eventually("it runs", || server.live().len() == 1)
        .await;
    world.pass(Duration::from_secs(2)).await;
    let before = asked(&server, Method::Status);
    world.pass(Duration::from_secs(5)).await;
    let looks = asked(&server, Method::Status) - before;
    assert!((9..=11).contains(&looks), "{looks} looks in five seconds");
    server.break_next(Method::Status, Fault::Delay(Duration::from_secs(600)));
    world.pass(Duration::from_secs(1)).await;
    let hanging = asked(&server, Method::Status);
    world.pass(Duration::from_secs(3)).await;
    assert_eq!(asked(&server, Method::Status), hanging, "it is waited for");
    world.pass(Duration::from_secs(3)).await;
    assert!(asked(&server, Method::Status) > hanging, "and then no more");
}

#[tokio::test(start_paused = true)]
async fn n_95_one_slow_answer_delays_no_other_run() {
    let world = World::new(3).await;
    let server =
        ScriptedServer::new(|_| Script::exits(0).after(Duration::from_secs(3))).without_events();
    let _daemon = world.daemon(server.clone());
    for name in ["a", "b", "c"] {
        world.submit(name, script("x")).await;
    }
    world
        .eventually("all run", || server.live().len() == 3)
        .await;
    world.pass(Duration::from_millis(2_500)).await;
    server.break_next(Method::Status, Fault::Delay(Duration::from_secs(60)));
    world.pass(Duration::from_millis(1_500)).await;
    let mut over = 0;
    for name in ["a", "b", "c"] {
        over += u32::from(status(&world.get(name).await).phase == RunPhase::Succeeded);
    }
    assert_eq!(over, 2, "only the one that was asked for waits");
    for name in ["a", "b", "c"] {
        world.until_phase(name, RunPhase::Succeeded).await;
    }
}

#[tokio::test(start_paused = true)]
async fn n_125_what_still_runs_is_stopped_before_it_is_forgotten() {
    let world = World::new(1).await;
    let server = ScriptedServer::default();
    let running = ClientError::FailedPrecondition {
        message: "still running".into(),
    };
    server.break_next(Method::Forget, Fault::Refuse(running));
    let _daemon = world.daemon(server.clone());
    let uid = world.submit("a", script("x")).await.uid().unwrap();
    world.until_phase("a", RunPhase::Succeeded).await;
    world
        .eventually("it is asked again", || asked(&server, Method::Forget) == 2)
        .await;
    let calls = server.calls();
    let ends: Vec<Method> = calls
        .iter()
        .filter(|call| call.id() == uid)
        .map(kruntimes_proto::testing::Call::method)
        .filter(|method| matches!(method, Method::Forget | Method::Cancel))
        .collect();
    assert_eq!(ends, [Method::Forget, Method::Cancel, Method::Forget]);
}
