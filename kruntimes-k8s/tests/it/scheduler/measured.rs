//! What the metrics say about what happened (S-118 to S-123, C-126).

use std::sync::Arc;

use kruntimes_k8s::clock::Clock;
use kruntimes_k8s::scheduler::{Config, Metrics, Scheduler};
use kruntimes_k8s::serve::Registry;
use kruntimes_sched::plugins::standard;
use kruntimes_sched::{Attempt, Refused, Reserve};

use super::*;

async fn measured() -> (World, Registry) {
    let mut world = World::new().await;
    let registry = Registry::new();
    let metrics = Arc::new(Metrics::new(&registry));
    world
        .start_with(|scheduler| scheduler.recorder(metrics))
        .await;
    (world, registry)
}

/// Returns the value of one series as it is written; nothing when there is none.
fn sample(registry: &Registry, series: &str) -> Option<String> {
    let text = registry.text();
    let mut values = text.lines().filter_map(|line| {
        let (name, value) = line.rsplit_once(' ')?;
        (name == format!("kruntimes_scheduler_{series}")).then(|| value.to_owned())
    });
    values.next()
}

#[tokio::test(start_paused = true)]
async fn s_118_every_pod_that_a_filter_turned_down_counts_once() {
    let (world, registry) = measured().await;
    for name in ["a", "b"] {
        world.pod(name, 1).await;
    }
    world.pass(1).await;
    world.run("r", json!({})).await;
    world.until_waiting("r").await;
    let plugin = "plugin=\"RuntimePodAvailability\",reason=\"RuntimePodUnavailable\"";
    let series = format!("filter_rejections_total{{{plugin}}}");
    assert_eq!(sample(&registry, &series).as_deref(), Some("2"));
}

/// Refuses the first place.
struct Once(std::sync::atomic::AtomicBool);

impl Reserve for Once {
    fn name(&self) -> &'static str {
        "Once"
    }

    fn reserve(&self, _: &Attempt<'_>) -> Result<(), Refused> {
        let first = !self.0.swap(true, std::sync::atomic::Ordering::Relaxed);
        if first { Err(Refused("Busy")) } else { Ok(()) }
    }
}

#[tokio::test(start_paused = true)]
async fn s_119_a_lost_place_counts_by_its_stage_and_no_other_failure_does() {
    let mut world = World::new().await;
    let registry = Registry::new();
    let metrics = Arc::new(Metrics::new(&registry));
    let profile = standard().reserve(Once(false.into())).build().unwrap();
    let faults = FaultLayer::new(1, FaultPlan::default());
    let handle = faults.handle();
    world
        .start_equipped(&faults, |scheduler| {
            scheduler.recorder(metrics).profile(profile)
        })
        .await;
    world.ready_pod("p", 9).await;
    world.run("refused", json!({})).await;
    world.until_scheduled("refused").await;
    let count = |stage: &str| {
        let series = format!("reservation_conflicts_total{{stage=\"{stage}\"}}");
        sample(&registry, &series)
    };
    assert_eq!(
        (count("reserve").as_deref(), count("bind")),
        (Some("1"), None)
    );
    for (plan, want) in [
        (
            FaultPlan {
                internal_error: 1.0,
                ..FaultPlan::default()
            },
            None,
        ),
        (
            FaultPlan {
                conflict: 1.0,
                ..FaultPlan::default()
            },
            Some("1"),
        ),
    ] {
        handle.set_plan(plan);
        let name = format!("r{}", want.is_some());
        world.run(&name, json!({})).await;
        // Shorter than the wait after the first error.
        let moment = tokio::time::timeout(Duration::from_millis(1), std::future::pending::<()>());
        moment.await.unwrap_err();
        handle.set_plan(FaultPlan::default());
        world.until_scheduled(&name).await;
        assert_eq!(count("bind").as_deref(), want);
        assert_eq!(count("reserve").as_deref(), Some("1"));
    }
}

#[tokio::test(start_paused = true)]
async fn s_120_wake_ups_count_by_source_and_waking_nobody_leaves_no_sample() {
    let (world, registry) = measured().await;
    let woken = |source: &str| {
        let series = format!("pending_run_wakeups_total{{source=\"{source}\"}}");
        sample(&registry, &series)
    };
    world.ready_pod("p", 2).await;
    world.workspace("w").await;
    world.pass(1).await;
    for source in [
        "runtime_pod",
        "capacity_released",
        "workspace",
        "affinity_target",
    ] {
        assert_eq!(woken(source), None, "{source}");
    }
    for name in ["a", "b"] {
        world.run(name, json!({})).await;
        world.until_scheduled(name).await;
    }
    for name in ["c", "d", "e"] {
        world.run(name, json!({})).await;
        world.until_waiting(name).await;
        world.pass(1).await;
    }
    assert_eq!(woken("capacity_released"), None);
    world.report("a", json!({"phase": "Succeeded"})).await;
    world.until_scheduled("c").await;
    assert_eq!(woken("capacity_released").as_deref(), Some("1"));
    world.ready_pod("q", 2).await;
    world.until_scheduled("e").await;
    assert_eq!(woken("runtime_pod").as_deref(), Some("2"));
}

#[tokio::test(start_paused = true)]
async fn s_121_results_and_durations_are_those_of_the_outcomes() {
    let (world, registry) = measured().await;
    let selector = json!({"matchExpressions": [{"key": "a", "operator": "In"}]});
    let term = json!({"labelSelector": selector, "topologyKey": "kruntimes.io/runtime-pod"});
    let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
    let cancelled = json!({"runtime": "never", "cancelRequested": true});
    let invalid = json!({"runtime": "never", "resources": {"requests": {"gpu": "500m"}}});
    world.run("cancelled", cancelled).await;
    world.run("invalid", invalid).await;
    world
        .run("lost", json!({"affinity": {"runAffinity": required}}))
        .await;
    for name in ["cancelled", "invalid", "lost"] {
        world.until(name, |status| status.phase.is_terminal()).await;
    }
    let status = world.status("lost").await;
    assert!(
        status
            .message
            .unwrap()
            .starts_with("pod selection failed: ")
    );
    let get = |series: &str| sample(&registry, series);
    let python = "runtime=\"python\"";
    let result = |result: &str| get(&format!("sync_total{{{python},result=\"{result}\"}}"));
    assert_eq!(result("selection_error").as_deref(), Some("1"));
    assert_eq!(
        get(&format!("no_pods_total{{{python}}}")).as_deref(),
        Some("1")
    );
    assert!(!registry.text().contains("never"), "gates before the cycle");

    world.run("r", json!({})).await;
    world.until_waiting("r").await;
    assert_eq!(result("no_pods").as_deref(), Some("1"));
    assert_eq!(
        get(&format!("no_pods_total{{{python}}}")).as_deref(),
        Some("2")
    );
    world.pass(7).await;
    world.ready_pod("p", 1).await;
    world.until_scheduled("r").await;
    assert_eq!(result("scheduled").as_deref(), Some("1"));
    let queued = |part: &str| get(&format!("run_queue_duration_seconds_{part}{{{python}}}"));
    assert_eq!(queued("count").as_deref(), Some("1"));
    assert_eq!(queued("sum").as_deref(), Some("7"));
    let cycles = || get(&format!("sync_duration_seconds_count{{{python}}}"));
    assert_eq!(cycles().as_deref(), Some("3"), "invalid, waiting, placed");

    // Waiting out a delay is a dequeue that passed gate 7, too.
    let failed = json!({
        "phase": "Pending", "attempt": 2, "assignedPod": null, "assignedPodUID": null,
        "conditions": [{
            "type": "Running", "status": "False", "reason": "PodGone", "message": "",
            "lastTransitionTime": world.clock().now(),
        }],
    });
    world.report("r", failed).await;
    world
        .until("r", |status| {
            reason(status) == Some(("False", "RetryBackoff"))
        })
        .await;
    assert_eq!(cycles().as_deref(), Some("4"));
}

#[tokio::test(start_paused = true)]
async fn s_121_an_assignment_before_the_creation_is_not_measured() {
    let mut world = World::new().await;
    world.stop().await;
    let registry = Registry::new();
    let behind = Clock::virtual_from("2025-12-31T23:59:00Z".parse().unwrap());
    let scheduler = Scheduler::new(world.client(), Config::default(), behind).unwrap();
    let scheduler = scheduler.recorder(Arc::new(Metrics::new(&registry)));
    let mut working = tokio::task::JoinSet::new();
    working.spawn(scheduler.run());
    world.ready_pod("p", 1).await;
    world.run("r", json!({})).await;
    world.until_scheduled("r").await;
    let scheduled = "sync_total{runtime=\"python\",result=\"scheduled\"}";
    assert_eq!(sample(&registry, scheduled).as_deref(), Some("1"));
    assert!(!registry.text().contains("queue_duration_seconds_count{"));
}

#[tokio::test(start_paused = true)]
async fn s_122_no_label_tells_whose_run_it_was() {
    let (world, registry) = measured().await;
    world.ready_pod("the-pod", 1).await;
    let requests = json!({"resources": {"requests": {"secret.example/gpu": "1"}}});
    world.run("the-run", requests).await;
    world.run("another-run", json!({})).await;
    world.until_waiting("the-run").await;
    world.until_scheduled("another-run").await;
    let text = registry.text();
    for word in [
        "the-pod",
        "the-run",
        "another-run",
        "secret",
        "default",
        "edited",
    ] {
        assert!(!text.contains(word), "{word} is in {text}");
    }
    let allowed = [
        "runtime", "result", "plugin", "reason", "stage", "source", "le",
    ];
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (_, labels) = line.split_once('{').unwrap();
        for label in labels.split("\",").filter_map(|pair| pair.split_once('=')) {
            assert!(allowed.contains(&label.0), "{line}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn s_123_s_156_two_schedulers_of_one_process_count_for_themselves() {
    let (world, here) = measured().await;
    let (elsewhere, there) = measured().await;
    world.ready_pod("p", 1).await;
    world.run("r", json!({})).await;
    world.until_scheduled("r").await;
    elsewhere.run("r", json!({})).await;
    elsewhere.until_waiting("r").await;
    let result = |registry: &Registry, result: &str| {
        let series = format!("sync_total{{runtime=\"python\",result=\"{result}\"}}");
        sample(registry, &series)
    };
    assert_eq!(result(&here, "scheduled").as_deref(), Some("1"));
    assert_eq!(result(&here, "no_pods"), None);
    assert_eq!(result(&there, "scheduled"), None);
    assert_eq!(result(&there, "no_pods").as_deref(), Some("1"));
}

#[test]
fn c_126_the_families_have_their_names_types_and_labels() {
    let registry = Registry::new();
    let _metrics = Metrics::new(&registry);
    let text = registry.text();
    let types: Vec<_> = (text.lines())
        .filter_map(|line| line.strip_prefix("# TYPE kruntimes_scheduler_"))
        .collect();
    assert_eq!(
        types,
        [
            "filter_rejections_total counter",
            "no_pods_total counter",
            "pending_run_wakeups_total counter",
            "reservation_conflicts_total counter",
            "run_queue_duration_seconds histogram",
            "sync_duration_seconds histogram",
            "sync_total counter",
        ]
    );
}
