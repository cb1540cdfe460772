//! What happens on one simulated day.

use std::time::Duration;

use kruntimes_core::api::API_VERSION;
use serde_json::{Map, Value, json};

use super::Dice;
use crate::submit::NAMESPACE;

/// The work of one day, drawn from a seed.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Pods of the pool.
    pub replicas: u64,
    /// Runs that one Pod takes at once.
    pub slots: u64,
    /// How long faults and crashes go on, in virtual time.
    pub trouble_lasts: Duration,
    intents: Vec<Intent>,
}

/// One thing a user wants done.
#[derive(Clone, Debug)]
pub struct Intent {
    /// Kind of the object.
    pub kind: String,
    /// Name of the object.
    pub name: String,
    /// Whether the user changes their mind.
    pub cancelled: bool,
    object: Value,
}

impl Plan {
    /// Draws a day.
    pub fn draw(dice: &mut Dice) -> Self {
        let mut intents = Vec::new();
        for number in 0..dice.between(1, 3) {
            intents.push(workflow_run(dice, &format!("flow-{number}")));
        }
        for number in 0..dice.between(0, 4) {
            intents.push(run(dice, &format!("run-{number}")));
        }
        Self {
            replicas: dice.between(1, 3),
            slots: dice.between(1, 3),
            trouble_lasts: Duration::from_secs(dice.between(5, 60)),
            intents,
        }
    }

    /// The pool.
    pub fn runtime(&self) -> Value {
        json!({
            "apiVersion": API_VERSION,
            "kind": "Runtime",
            "metadata": {"name": "sim", "namespace": NAMESPACE},
            "spec": {
                "replicas": self.replicas,
                "capacity": {"resources": {"runs": self.slots.to_string()}},
                "template": {"spec": {"containers": [{"name": "runtime", "image": "sim"}]}},
            },
        })
    }

    /// The objects to create.
    pub fn targets(&self) -> Vec<Value> {
        self.intents
            .iter()
            .map(|intent| intent.object.clone())
            .collect()
    }

    /// What is cancelled on the way.
    pub fn cancels(&self) -> Vec<Intent> {
        let cancelled = self.intents.iter().filter(|intent| intent.cancelled);
        cancelled.cloned().collect()
    }
}

/// A script is a line that the simulated Runtime Server reads: what each attempt does.
fn script(dice: &mut Dice, exits: &[u64]) -> String {
    let ms = match dice.below(4) {
        0 => dice.between(0, 5),
        1 | 2 => dice.between(10, 800),
        _ => dice.between(1000, 9000),
    };
    let outputs = json!({"value": dice.roll() % 1000});
    json!({"ms": ms, "exits": exits, "outputs": outputs}).to_string()
}

fn workflow_run(dice: &mut Dice, name: &str) -> Intent {
    let count = dice.between(1, 6);
    let mut jobs = Map::new();
    for number in 0..count {
        let needs: Vec<String> = (0..number)
            .filter(|_| dice.chance(40))
            .map(|earlier| format!("job-{earlier}"))
            .collect();
        let steps: Vec<Value> = (0..dice.between(1, 3))
            .map(|step| {
                let exit = u64::from(dice.chance(12));
                json!({"name": format!("step-{step}"), "run": script(dice, &[exit])})
            })
            .collect();
        let mut job = json!({"runs-on": "sim", "needs": needs, "steps": steps});
        if dice.chance(30) {
            job["outputs"] = json!({"value": "${{ steps.step-0.outputs.value }}"});
        }
        jobs.insert(format!("job-{number}"), job);
    }
    let object = json!({
        "apiVersion": API_VERSION,
        "kind": "WorkflowRun",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"jobs": jobs},
    });
    Intent {
        kind: "WorkflowRun".to_owned(),
        name: name.to_owned(),
        cancelled: dice.chance(25),
        object,
    }
}

fn run(dice: &mut Dice, name: &str) -> Intent {
    let attempts = dice.between(1, 4);
    let exits: Vec<u64> = (0..attempts).map(|_| u64::from(dice.chance(50))).collect();
    let mut spec = json!({
        "runtime": "sim",
        "mode": {"task": {}},
        "source": {"inline": script(dice, &exits)},
        "retryPolicy": {"maxAttempts": attempts, "backoff": "500ms"},
    });
    if dice.chance(30) {
        spec["timeout"] = json!("4s");
    }
    let object = json!({
        "apiVersion": API_VERSION,
        "kind": "Run",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    });
    Intent {
        kind: "Run".to_owned(),
        name: name.to_owned(),
        cancelled: dice.chance(25),
        object,
    }
}
