//! Lost answers, conflicts, cut watches and crashes of runtimed, from a seed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kruntimes_apiserver::fault::{FaultLayer, FaultPlan};
use kruntimes_core::api::RunPhase;
use kruntimes_proto::testing::{Fault, Method, Script, ScriptedServer};
use kruntimes_proto::{ClientError, ExecuteRequest};
use kube::ResourceExt as _;

use crate::world::{World, retried, status};

const RUNS: usize = 6;

/// A small generator, so that a seed is all there is to a bad day.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u32) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        u32::try_from(self.0 >> 33).unwrap() % sides
    }
}

fn harsh() -> FaultPlan {
    FaultPlan {
        delay: 0.1,
        lost_request: 0.05,
        lost_answer: 0.08,
        conflict: 0.08,
        internal_error: 0.03,
        watch_expired: 0.1,
        watch_cut: 0.3,
        watch_stall: 0.1,
        ..FaultPlan::default()
    }
}

/// Fails the first attempt of every third Run, and tells when two executions of one Run overlap.
fn server(overlaps: Arc<Mutex<Vec<String>>>) -> ScriptedServer {
    let attempts = Mutex::new(BTreeMap::<String, usize>::new());
    let live = Arc::new(Mutex::new(BTreeMap::<String, usize>::new()));
    ScriptedServer::new(move |request: &ExecuteRequest| {
        let mut attempts = attempts.lock().unwrap();
        let attempt = attempts.entry(request.id.clone()).or_default();
        *attempt += 1;
        let text = std::fs::read_to_string(format!("{}/script", request.working_dir)).unwrap();
        let number: usize = text.parse().unwrap();
        let fails = number.is_multiple_of(3) && *attempt == 1;
        let path = request.env["KRUNTIME_OUTPUTS"].clone();
        let id = request.id.clone();
        *live.lock().unwrap().entry(id.clone()).or_default() += 1;
        let (live, overlaps) = (Arc::clone(&live), Arc::clone(&overlaps));
        Script::exits(i32::from(fails))
            .after(Duration::from_millis(700 * (1 + number as u64)))
            .on_finish(move || {
                let mut live = live.lock().unwrap();
                let count = live.entry(id.clone()).or_default();
                if *count == 0 {
                    overlaps.lock().unwrap().push(id.clone());
                }
                *count = 0;
                std::fs::write(path, format!("N={number}")).unwrap();
            })
    })
}

async fn bad_day(seed: u64) {
    let mut dice = Dice(seed);
    let world = World::new(2).await;
    let overlaps = Arc::default();
    let server = server(Arc::clone(&overlaps));
    let layer = FaultLayer::new(seed, harsh());
    let handle = layer.handle();
    let client = world.api_server.client_with(&layer);
    let mut daemon = world.daemon_with(client.clone(), server.clone());
    for number in 0..RUNS {
        let spec = retried(&number.to_string(), 3, Duration::from_millis(200));
        world.submit(&format!("r{number}"), spec).await;
    }
    for _ in 0..12 {
        world
            .pass(Duration::from_millis(u64::from(300 + dice.roll(700))))
            .await;
        assert!(server.live().len() <= 2, "seed {seed}: capacity");
        let method = match dice.roll(4) {
            0 => Method::Execute,
            1 => Method::Status,
            2 => Method::Forget,
            _ => Method::Cancel,
        };
        match dice.roll(4) {
            0 => server.break_next(method, Fault::LoseAnswer),
            1 => server.break_next(
                method,
                Fault::Refuse(ClientError::Unavailable {
                    message: "x".into(),
                }),
            ),
            2 => server.break_next(
                method,
                Fault::Delay(Duration::from_secs(dice.roll(8).into())),
            ),
            _ => {
                daemon.kill().await;
                daemon = world.daemon_with(client.clone(), server.clone());
            }
        }
    }
    // Faults stop; everything must settle.
    handle.set_active(false);
    settles(seed, &world, &server).await;
    assert!(overlaps.lock().unwrap().is_empty(), "seed {seed}");
}

async fn settles(seed: u64, world: &World, server: &ScriptedServer) {
    for number in 0..RUNS {
        let run = world.until_over(&format!("r{number}")).await;
        let status = status(&run);
        let executed = server.executed(&run.uid().unwrap());
        let attempts = usize::try_from(status.attempt.unwrap()).unwrap();
        assert_eq!(status.phase, RunPhase::Succeeded, "seed {seed}: {status:?}");
        assert_eq!(status.outputs["N"], number.to_string(), "seed {seed}");
        assert!(
            executed >= 1,
            "seed {seed}: executed {executed}, attempt {attempts}"
        );
        assert_eq!(
            attempts,
            if number % 3 == 0 { 2 } else { 1 },
            "seed {seed}: r{number}"
        );
        assert_eq!(
            executed, attempts,
            "seed {seed}: r{number} executed at most once per attempt"
        );
    }
    world
        .eventually("nothing is left on disk", || {
            std::fs::read_dir(world.workspace())
                .unwrap()
                .flatten()
                .all(|e| e.file_name() == ".kruntimes")
        })
        .await;
    assert!(server.live().is_empty(), "seed {seed}");
}

/// Reliability, invariants 1 to 5, 8 and 15 under crashes and API faults.
#[tokio::test(start_paused = true)]
async fn every_run_survives_a_bad_day() {
    for seed in seeds() {
        bad_day(seed).await;
    }
}

/// Small by default; `SEEDS=1000` looks longer.
fn seeds() -> std::ops::Range<u64> {
    let count = std::env::var("SEEDS")
        .ok()
        .and_then(|count| count.parse().ok());
    0..count.unwrap_or(24)
}
