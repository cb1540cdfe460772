//! Random histories of two namespaces with equal names, over an API that loses, delays and repeats (S-79 to S-81, S-140).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use kruntimes_core::crd::Run;
use kruntimes_k8s::scheduler::{Config, Scheduler};
use kube::api::Api;
use kube::{Client, ResourceExt as _};
use tokio::task::JoinSet;

use super::world::{create_pod, create_run, enliven};
use super::*;

/// Histories of the normal run; `KRT_SHELL_HISTORIES` asks for more.
const HISTORIES: u64 = 24;
const STEPS: u32 = 24;
const RUNS: u64 = 5;
const PODS: [(&str, u32); 2] = [("p", 2), ("q", 1)];

/// Numbers that look random and follow from a seed alone (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

fn weather() -> FaultPlan {
    FaultPlan {
        watch_replay: 0.3,
        delay_for: Duration::from_millis(1)..=Duration::from_millis(300),
        watch_cut_after: Duration::from_millis(1)..=Duration::from_secs(5),
        ..trouble()
    }
}

/// One of the two namespaces.
struct Place {
    client: Client,
    runs: Api<Run>,
    pods: Api<Pod>,
}

impl Place {
    async fn all(&self) -> Vec<Run> {
        self.runs.list(&ListParams::default()).await.unwrap().items
    }

    async fn report(&self, name: &str, status: serde_json::Value) {
        let patch = Patch::Merge(json!({ "status": status }));
        let params = PatchParams::default();
        self.runs.patch_status(name, &params, &patch).await.unwrap();
    }

    /// Asserts that no Pod holds more than it offers or shares a session.
    async fn check(&self, case: &str) {
        let mut held: BTreeMap<String, (u64, usize, bool)> = BTreeMap::new();
        for run in self.all().await {
            let status = run.status.clone().unwrap_or_default();
            if !status.phase.is_active() {
                continue;
            }
            let uid = status
                .assigned_pod_uid
                .expect("name and UID are set together");
            let asked = run
                .spec
                .resources
                .as_ref()
                .and_then(|r| r.requests.get("runs"));
            let asked = asked.map_or(1, |asked| asked.to_string().parse().unwrap());
            let held = held.entry(uid).or_default();
            held.0 += asked;
            held.1 += 1;
            held.2 |= run.spec.mode.session.is_some();
        }
        for pod in self.pods.list(&ListParams::default()).await.unwrap() {
            let (used, neighbours, exclusive) =
                held.get(&pod.uid().unwrap()).copied().unwrap_or_default();
            let offered: u64 = pod.annotations()["kruntimes.io/capacity.runs"]
                .parse()
                .unwrap();
            assert!(used <= offered, "{case}: {} holds {used}", pod.name_any());
            assert!(
                !exclusive || neighbours == 1,
                "{case}: a session shares a pod"
            );
        }
    }

    /// Lets one thing happen that users, nodes and controllers do.
    async fn happen(&self, dice: &mut Dice, now: jiff::Timestamp) {
        let name = format!("r{}", dice.below(RUNS));
        let found = self.runs.get_opt(&name).await.unwrap();
        let Some(run) = found else {
            let spec = match dice.below(6) {
                0 => json!({"mode": {"session": {}}}),
                1 => json!({"resources": {"requests": {"runs": "2"}}}),
                _ => json!({}),
            };
            create_run(&self.client, &name, &spec).await;
            return;
        };
        let status = run.status.unwrap_or_default();
        let active = status.phase.is_active();
        match dice.below(5) {
            0 if active => self.report(&name, json!({"phase": "Succeeded"})).await,
            1 if active => self.lose(&name, status.attempt.unwrap_or(1) + 1, now).await,
            2 => self.remove(&name).await,
            3 if status.phase.is_terminal() => self.remove(&name).await,
            4 => self.replace_pod(dice, now).await,
            _ => {}
        }
    }

    async fn remove(&self, name: &str) {
        let params = DeleteParams::default();
        self.runs.delete(name, &params).await.unwrap();
    }

    /// The Run waits again, for another attempt.
    async fn lose(&self, name: &str, attempt: i32, now: jiff::Timestamp) {
        let lost = json!({
            "phase": "Pending", "attempt": attempt, "assignedPod": null, "assignedPodUID": null,
            "conditions": [{
                "type": "Running", "status": "False", "reason": "PodGone", "message": "",
                "lastTransitionTime": now,
            }],
        });
        self.report(name, lost).await;
    }

    /// A Pod goes and another one of its name comes; its Runs wait again.
    async fn replace_pod(&self, dice: &mut Dice, now: jiff::Timestamp) {
        let (name, runs) = PODS[usize::from(dice.below(2) == 0)];
        let params = DeleteParams::default().grace_period(0);
        self.pods.delete(name, &params).await.unwrap();
        for run in self.all().await {
            let status = run.status.clone().unwrap_or_default();
            if status.phase.is_active() && status.assigned_pod.as_deref() == Some(name) {
                let attempt = status.attempt.unwrap_or(1) + 1;
                self.lose(&run.name_any(), attempt, now).await;
            }
        }
        create_pod(&self.client, name, runs).await;
        enliven(&self.client, name, now).await;
    }
}

/// Plays one history on a world that others were played on, and leaves nothing behind.
async fn play(world: &World, places: &[Place; 2], seed: u64) {
    let mut dice = Dice(seed);
    for place in places {
        for (name, runs) in PODS {
            create_pod(&place.client, name, runs).await;
            enliven(&place.client, name, world.clock().now()).await;
        }
    }
    let faults = FaultLayer::new(seed, weather());
    let config = Config {
        heartbeat_staleness: kruntimes_core::duration::Duration::from_secs(86_400),
        ..Config::default()
    };
    let client = world.server.client_with(&faults);
    let scheduler = Scheduler::new(client, config, world.clock()).unwrap();
    let mut working = JoinSet::new();
    working.spawn(scheduler.run());
    for step in 0..STEPS {
        let place = &places[usize::from(dice.below(2) == 0)];
        place.happen(&mut dice, world.clock().now()).await;
        let pause = Duration::from_millis(dice.below(400));
        tokio::time::timeout(pause, std::future::pending::<()>())
            .await
            .unwrap_err();
        for place in places {
            place.check(&format!("history {seed}, step {step}")).await;
        }
    }
    faults.handle().set_active(false);
    for round in 0.. {
        world.pass(5).await;
        let mut left = 0;
        for place in places {
            place.check(&format!("history {seed}, end")).await;
            for run in place.all().await {
                let status = run.status.clone().unwrap_or_default();
                if status.phase.is_active() {
                    let done = json!({"phase": "Succeeded"});
                    place.report(&run.name_any(), done).await;
                }
                left += usize::from(!status.phase.is_terminal());
            }
        }
        if left == 0 {
            break;
        }
        assert!(round < 60, "history {seed}: {left} runs are never placed");
    }
    working.shutdown().await;
    for place in places {
        for run in place.all().await {
            place.remove(&run.name_any()).await;
        }
        for (name, _) in PODS {
            let params = DeleteParams::default().grace_period(0);
            place.pods.delete(name, &params).await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn s_79_s_80_s_81_s_140_no_history_of_the_shell_overcommits_a_pod_or_forgets_a_run() {
    let asked = std::env::var("KRT_SHELL_HISTORIES");
    let histories = asked.map_or(HISTORIES, |text| text.parse().expect("a number"));
    let mut world = World::new().await;
    world.stop().await;
    let other = world.namespace("other").await;
    let places = [world.client(), other].map(|client| Place {
        runs: Api::default_namespaced(client.clone()),
        pods: Api::default_namespaced(client.clone()),
        client,
    });
    for seed in 0..histories {
        play(&world, &places, seed).await;
    }
}
