//! Whom an event wakes (S-21 to S-28, S-141, S-163, and the goal S3: two wake-ups per freed slot at most).

use super::*;

#[tokio::test(start_paused = true)]
async fn s_163_a_freed_slot_wakes_two_runs_at_most_whatever_the_backlog() {
    for backlog in [10_u64, 100] {
        let world = World::new().await;
        world.ready_pod("p", 2).await;
        for name in ["first", "second"] {
            world.run(name, json!({})).await;
            world.until_scheduled(name).await;
        }
        for n in 0..backlog {
            // Some are too large for what becomes free.
            let runs = if n % 4 == 3 { "2" } else { "1" };
            let requests = json!({"resources": {"requests": {"runs": runs}}});
            world.run(&format!("r{n}"), requests).await;
        }
        world.pass(1).await;
        let mut freed = 0;
        for _ in 0..5 {
            world.ready("p").await;
            let placed = placed(&world, "a full pod").await;
            assert_eq!(placed.len(), 2, "{placed:?}");
            world
                .report(&placed[0], json!({"phase": "Succeeded"}))
                .await;
            freed += 1;
            world.pass(1).await;
        }
        let woken = world.counts.get("wakeups capacity_released");
        assert!(woken >= freed, "{woken} for {freed}");
        assert!(woken <= 2 * freed, "{woken} for {freed} of {backlog}");
    }
}

#[tokio::test(start_paused = true)]
async fn s_163_what_one_run_does_not_take_reaches_the_next_without_a_timer() {
    let world = World::new().await;
    world.ready_pod("p", 1).await;
    world.run("first", json!({})).await;
    world.until_scheduled("first").await;
    let nobody = json!({
        "labelSelector": {"matchLabels": {"edited": "never"}},
        "topologyKey": "kruntimes.io/runtime-pod",
    });
    let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": [nobody]});
    let alone = json!({"affinity": {"runAffinity": required}});
    for n in 0..3 {
        world.run(&format!("alone{n}"), alone.clone()).await;
        world.until_waiting(&format!("alone{n}")).await;
    }
    world.pass(1).await;
    world.run("last", json!({})).await;
    world.until_waiting("last").await;
    let start = Instant::now();
    world.report("first", json!({"phase": "Succeeded"})).await;
    world.until_scheduled("last").await;
    assert_eq!(start.elapsed().as_nanos(), 0, "no timer was needed");
    let woken = world.counts.get("wakeups capacity_released");
    assert!(woken <= 2, "those that are alike are asked once: {woken}");
}

#[tokio::test(start_paused = true)]
async fn s_163_every_run_is_served_although_few_are_woken() {
    const COUNT: usize = 40;
    let world = World::new().await;
    for pod in ["a", "b"] {
        world.ready_pod(pod, 2).await;
    }
    for n in 0..COUNT {
        let spec = match n % 5 {
            0 => json!({"resources": {"requests": {"runs": "2"}}}),
            1 => json!({"mode": {"session": {}}}),
            _ => json!({}),
        };
        world.run(&format!("r{n}"), spec).await;
    }
    let mut ended = 0;
    for _ in 0..COUNT * 2 {
        for pod in ["a", "b"] {
            world.ready(pod).await;
        }
        world.pass(1).await;
        for run in placed(&world, "few are woken").await {
            world.report(&run, json!({"phase": "Succeeded"})).await;
            ended += 1;
        }
        if ended == COUNT {
            break;
        }
    }
    assert_eq!(ended, COUNT);
}

#[tokio::test(start_paused = true)]
async fn s_163_an_event_that_nobody_asked_for_wakes_nobody() {
    let world = World::new().await;
    world.ready_pod("p", 1).await;
    world.run("first", json!({})).await;
    world.until_scheduled("first").await;
    // This one has its place, and no room there.
    world.workspace("w").await;
    world.bind_workspace("w", "p").await;
    world.pass(1).await;
    world.run("r", json!({"workspace": {"name": "w"}})).await;
    world.until_waiting("r").await;
    let cycles = world.counts.get("duration python");
    world.workspace("another").await;
    world.bind_workspace("w", "p").await;
    world.pass(1).await;
    assert_eq!(world.counts.get("wakeups workspace"), 0);
    assert_eq!(world.counts.get("duration python"), cycles);
}
