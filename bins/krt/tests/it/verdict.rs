//! One definition, one verdict: the linter, the API service and the engine agree.

use kruntimes_apiserver::ApiServer;
use kruntimes_core::api::{WorkflowRunPhase, WorkflowRunSpec};
use kruntimes_core::crd;
use kruntimes_embedded::manifest::{self, Known, has_errors};
use kruntimes_workflow::plan::{State, calculate};
use serde_json::{Map, Value, json};

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn pick<'a>(&mut self, all: &[&'a str]) -> &'a str {
        let index = usize::try_from(self.roll(all.len() as u64)).unwrap();
        all[index]
    }

    /// Happens once in so many times.
    fn once_in(&mut self, times: u64) -> bool {
        self.roll(times) == 0
    }
}

const JOBS: [&str; 4] = ["a", "b", "c", "build.all"];
const STEPS: [&str; 4] = ["s", "t", "compile", "x.y"];
const BAD: [&str; 4] = ["", "-a", "ä", "a b"];

fn step(dice: &mut Dice) -> Value {
    let mut step = Map::new();
    let name = if dice.once_in(40) {
        dice.pick(&BAD)
    } else {
        dice.pick(&STEPS)
    };
    step.insert("name".into(), name.into());
    if !dice.once_in(30) {
        step.insert("run".into(), "make".into());
    }
    if dice.once_in(40) {
        step.insert("uses".into(), "action".into());
    }
    if dice.once_in(40) {
        step.insert("with".into(), json!({"k": "v"}));
    }
    if dice.once_in(10) {
        step.insert("env".into(), json!({"A": "1"}));
    }
    if dice.once_in(20) {
        step.insert("args".into(), json!(["x"]));
    }
    if dice.once_in(60) {
        step.insert(dice.pick(&["shell", "rum", "timeout"]).into(), "x".into());
    }
    if dice.once_in(60) {
        step.insert("env".into(), json!(["not", "a", "map"]));
    }
    Value::Object(step)
}

fn job(dice: &mut Dice) -> Value {
    let mut job = Map::new();
    let steps: Vec<Value> = (0..=dice.roll(3)).map(|_| step(dice)).collect();
    if !dice.once_in(40) {
        let runtime = if dice.once_in(30) {
            dice.pick(&BAD)
        } else {
            "bash"
        };
        job.insert("runs-on".into(), runtime.into());
    }
    if dice.once_in(50) {
        job.insert("steps".into(), json!([]));
    } else if !dice.once_in(40) {
        job.insert("steps".into(), steps.into());
    }
    if dice.once_in(25) {
        job.insert("uses".into(), dice.pick(&["other", "../x", "x@v1"]).into());
        if !dice.once_in(3) {
            job.remove("steps");
            job.remove("runs-on");
        }
    }
    if dice.once_in(40) {
        job.insert("with".into(), json!({"k": "v"}));
    }
    if dice.once_in(3) {
        let mut needs: Vec<&str> = (0..dice.roll(3)).map(|_| dice.pick(&JOBS)).collect();
        needs.dedup();
        job.insert("needs".into(), needs.into());
    }
    if dice.once_in(50) {
        job.insert("timeout-minutes".into(), 5.into());
    }
    Value::Object(job)
}

fn definition(seed: u64) -> Value {
    let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let mut jobs = Map::new();
    let count = if dice.once_in(60) {
        0
    } else {
        1 + dice.roll(4)
    };
    for _ in 0..count {
        let name = if dice.once_in(50) {
            dice.pick(&BAD[1..])
        } else {
            dice.pick(&JOBS)
        };
        jobs.insert(name.into(), job(&mut dice));
    }
    json!({
        "apiVersion": "kruntimes.io/v1alpha1",
        "kind": "WorkflowRun",
        "metadata": {"name": format!("w{seed}")},
        "spec": {"jobs": jobs},
    })
}

/// Whether the API takes it; nothing is stored.
async fn served(client: &kube::Client, object: &Value) -> Result<(), String> {
    let path = "/apis/kruntimes.io/v1alpha1/namespaces/default/workflowruns?dryRun=All&fieldValidation=Strict";
    let body = serde_json::to_vec(object).unwrap();
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .body(body)
        .unwrap();
    let answer = client.request_text(request).await;
    answer.map(drop).map_err(|error| error.to_string())
}

/// Whether the engine accepts it when it sees it stored. Actions are left to their own lookups.
fn accepted(object: &Value) -> Result<(), String> {
    let spec: WorkflowRunSpec =
        serde_json::from_value(object["spec"].clone()).map_err(|error| error.to_string())?;
    let state = State {
        name: "w".into(),
        uid: "u".into(),
        spec,
        ..State::default()
    };
    let status = calculate(&state).desired;
    match status.phase {
        WorkflowRunPhase::Failed => Err(status.message.unwrap_or_default()),
        _ => Ok(()),
    }
}

#[tokio::test]
async fn w_154_w_155_c_66_linter_api_and_engine_agree_about_500_definitions() {
    let mut builder = ApiServer::builder();
    for definition in crd::all() {
        builder = builder.crd(definition);
    }
    let client = builder.build().unwrap().client();
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}});
    let request = http::Request::post("/api/v1/namespaces")
        .header("content-type", "application/json")
        .body(serde_json::to_vec(&namespace).unwrap())
        .unwrap();
    // It may be there already.
    let _ = client.request_text(request).await;
    let (mut good, mut bad) = (0, 0);
    for seed in 0..500 {
        let object = definition(seed);
        let text = serde_json::to_string_pretty(&object).unwrap();
        let linted = match manifest::read("w.yaml", &text) {
            Ok(manifest) => manifest.check(&Known::default()),
            Err(findings) => findings,
        };
        let refused = has_errors(&linted);
        let api = served(&client, &object).await;
        let engine = accepted(&object);
        let want = api.is_err() || engine.is_err();
        assert_eq!(
            refused, want,
            "seed {seed}: {text}\nlinter: {linted:#?}\nAPI: {api:?}\nengine: {engine:?}"
        );
        if refused {
            bad += 1;
        } else {
            good += 1;
        }
    }
    assert!(good > 50 && bad > 50, "{good} good, {bad} bad");
}
