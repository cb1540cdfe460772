//! What happens in one small world.

use std::time::Duration;

use kruntimes_apiserver::fault::Site;
use kruntimes_core::api::API_VERSION;
use serde_json::{Value, json};

use super::trouble::{self, Part, Trouble};
use crate::submit::NAMESPACE;
use crate::world::Dice;

/// Something that a user or the surroundings do at a certain time.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Act {
    Create(Value),
    Cancel(String),
    Delete(String),
    /// The first Pod goes with all its processes.
    LosePod,
    /// A Pod of the first one's name comes.
    BringPod,
    Freeze(Part, Duration),
    Thaw(Part),
    Skew(Part, i64),
    StartSecondScheduler,
    StopSecondScheduler,
    /// All watches of a component end.
    Cut(Part),
    /// The API forgets the past, and all watches of a component end.
    Compact(Part),
}

/// One small world.
#[derive(Clone, Debug)]
pub(super) struct Draw {
    /// Name of the kind of trouble.
    pub(super) kind: String,
    pub(super) trouble: Trouble,
    /// How many versions old the lists after a relapse are.
    pub(super) relapse: Option<u64>,
    /// What is done, by time.
    pub(super) acts: Vec<(Duration, Act)>,
}

/// Reads the schedule of this number.
pub(super) fn draw(number: u64) -> Draw {
    let table = trouble::table();
    let mut dice = Dice::new(number.wrapping_mul(0x2545_f491_4f6c_dd1d));
    let count = u64::try_from(table.len()).unwrap_or(u64::MAX);
    let row = usize::try_from(number % count).unwrap_or(0);
    let (kind, trouble) = table[row].clone();
    let trouble = trouble.placed(&mut dice);
    let mut acts = Vec::new();
    // Time limits would end Runs by a wrong clock, which is what a clock is for.
    let limits = !matches!(trouble, Trouble::Skew(..));
    let runs = [1, 1, 1, 2, 2, 3][dice.below(6)];
    for number in 0..runs {
        add_run(&mut dice, &format!("run-{number}"), limits, &mut acts);
    }
    add_trouble(&mut dice, &trouble, &mut acts);
    acts.sort_by_key(|(at, _)| *at);
    Draw {
        kind,
        relapse: relapse(&trouble, &mut dice),
        trouble,
        acts,
    }
}

/// How old the lists after a relapse are.
fn relapse(trouble: &Trouble, dice: &mut Dice) -> Option<u64> {
    match trouble {
        Trouble::Relapse(..) => Some(dice.between(1, 12)),
        _ => None,
    }
}

fn add_run(dice: &mut Dice, name: &str, limits: bool, acts: &mut Vec<(Duration, Act)>) {
    let begin = Duration::from_millis(dice.between(0, 400));
    let mut at = begin + Duration::from_millis(dice.between(0, 1500));
    let cancelled = dice.chance(20);
    // One that is cancelled may be one that ends in no other way.
    let endless = cancelled && dice.chance(50);
    acts.push((begin, Act::Create(run(dice, name, limits, endless))));
    if cancelled {
        acts.push((at, Act::Cancel(name.to_owned())));
        at += Duration::from_millis(dice.between(0, 200));
    }
    if dice.chance(20) {
        acts.push((at, Act::Delete(name.to_owned())));
        at += Duration::from_millis(dice.between(0, 200));
        if dice.chance(50) {
            acts.push((at, Act::Create(run(dice, name, limits, false))));
        }
    }
}

fn run(dice: &mut Dice, name: &str, limits: bool, endless: bool) -> Value {
    let ms = match dice.below(4) {
        _ if endless => 3_600_000,
        0 => dice.between(0, 5),
        1 | 2 => dice.between(10, 800),
        _ => dice.between(1000, 3000),
    };
    let attempts = dice.between(1, 3);
    let exits: Vec<u64> = (0..attempts).map(|_| u64::from(dice.chance(40))).collect();
    let script = json!({"ms": ms, "exits": exits, "outputs": {"value": dice.roll() % 1000}});
    let mut spec = json!({
        "runtime": "sim",
        "mode": {"task": {}},
        "source": {"inline": script.to_string()},
        "retryPolicy": {"maxAttempts": attempts, "backoff": "300ms"},
    });
    if limits && dice.chance(25) {
        spec["timeout"] = json!("2s");
    }
    if dice.chance(30) {
        spec["ttlSecondsAfterFinished"] = json!(dice.between(1, 4));
    }
    json!({
        "apiVersion": API_VERSION,
        "kind": "Run",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    })
}

fn add_trouble(dice: &mut Dice, trouble: &Trouble, acts: &mut Vec<(Duration, Act)>) {
    let at = Duration::from_millis(dice.between(20, 2500));
    let lasts = match dice.below(4) {
        0 => dice.between(20, 45),
        _ => dice.between(6, 14),
    };
    let lasts = Duration::from_secs(lasts);
    match trouble {
        Trouble::Freeze(part) => {
            acts.push((at, Act::Freeze(*part, lasts)));
            acts.push((at + lasts, Act::Thaw(*part)));
        }
        Trouble::Skew(part, by) => {
            acts.push((at, Act::Skew(*part, *by)));
            acts.push((at + lasts, Act::Skew(*part, 0)));
        }
        Trouble::TwoSchedulers => {
            acts.push((at / 8, Act::StartSecondScheduler));
            acts.push((at + lasts, Act::StopSecondScheduler));
        }
        Trouble::Compaction(part) => acts.push((at, Act::Compact(*part))),
        Trouble::Api(part, strike) if strike.site == Site::Watch => {
            acts.push((at, Act::Cut(*part)));
        }
        Trouble::Api(part, strike) if strike.site == Site::Read => {
            acts.push((at, Act::Compact(*part)));
        }
        Trouble::PodReplaced => {
            acts.push((at, Act::LosePod));
            let again = at + Duration::from_millis(dice.between(0, 1200));
            acts.push((again, Act::BringPod));
        }
        Trouble::PodGone => {
            acts.push((at, Act::LosePod));
            // Some Pod comes in the end, or nothing could ever run.
            acts.push((at + lasts, Act::BringPod));
        }
        // What watches and reads of them meet has no need of a loss.
        _ if trouble.part() == Some(Part::Pool) && !trouble.strikes_writes() => {}
        // The controllers of pools write when a Pod is lost or a Run is kept no longer.
        _ if trouble.part() == Some(Part::Pool) => {
            acts.push((at, Act::LosePod));
            acts.push((at + Duration::from_secs(2), Act::BringPod));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_numbers_draw_equal_worlds() {
        assert_eq!(format!("{:?}", draw(77)), format!("{:?}", draw(77)));
        assert_ne!(format!("{:?}", draw(77)), format!("{:?}", draw(77 + 1)));
    }

    #[test]
    fn every_kind_of_trouble_has_its_turn() {
        let table = trouble::table();
        let kinds: std::collections::BTreeSet<String> = (0..u64::try_from(table.len()).unwrap())
            .map(|number| draw(number).kind)
            .collect();
        assert_eq!(kinds.len(), table.len());
    }
}
