//! Kills a server that is being written to, again and again, and looks whether anything it has said was lost.
//!
//! The program is both sides: the driver starts itself once more as the writer, which serves from a data directory,
//! writes with several clients at once and says on its standard output what it tries, what was acknowledged and what
//! it has seen. The driver kills it at a random moment, opens the directory and compares. In between it damages
//! copies of the directory: such a copy must hold everything or be refused by name.
//!
//! It runs for some twenty seconds, or for `KRUNTIMES_KILLS` kills. `KRUNTIMES_SEED` chooses the moments.

#![expect(clippy::print_stdout, reason = "the result of a test without harness")]

mod damage;
mod dice;
mod life;
mod model;
mod writer;

use std::{path::Path, process::ExitCode, time::Duration};

use tokio::time::Instant;

use self::{
    damage::{Damages, damage},
    dice::Dice,
    model::Model,
};

/// How long to go on unless a number of kills is asked for.
const TIME: Duration = Duration::from_secs(20);
/// Kills that one directory lives through.
const KILLS_PER_DIRECTORY: usize = 25;
/// When to stop.
struct Budget {
    kills: Option<usize>,
    begun: Instant,
}

impl Budget {
    fn is_spent(&self, kills: usize) -> bool {
        match self.kills {
            Some(wanted) => kills >= wanted,
            None => self.begun.elapsed() >= TIME,
        }
    }
}

/// What has come of it all.
#[derive(Default)]
struct Tally {
    kills: usize,
    early: usize,
    acknowledged: usize,
    damages: Damages,
    failures: Vec<String>,
}

fn number(name: &str) -> Option<usize> {
    std::env::var(name).ok()?.parse().ok()
}

fn main() -> ExitCode {
    if let Ok(directory) = std::env::var(life::DIRECTORY) {
        writer::main(Path::new(&directory));
        return ExitCode::SUCCESS;
    }
    // A filter of `cargo test` that means other tests.
    let filters = std::env::args().skip(1).filter(|arg| !arg.starts_with('-'));
    if filters.into_iter().any(|filter| !"crash".contains(&filter)) {
        println!("0 passed, 0 failed");
        return ExitCode::SUCCESS;
    }
    let seed = number("KRUNTIMES_SEED").unwrap_or(1);
    let mut dice = Dice::new(u64::try_from(seed).unwrap_or(1));
    let budget = Budget {
        kills: number("KRUNTIMES_KILLS"),
        begun: Instant::now(),
    };
    // What panics inside the library is turned into errors; only those count.
    std::panic::set_hook(Box::new(|_| {}));
    let mut tally = Tally::default();
    while !budget.is_spent(tally.kills) {
        one_directory(&mut dice, &budget, &mut tally);
    }
    report(&tally, seed)
}

/// Lives through some kills in one directory, damaging a copy of what each of them leaves.
fn one_directory(dice: &mut Dice, budget: &Budget, tally: &mut Tally) {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let mut model = Model::default();
    for _ in 0..KILLS_PER_DIRECTORY {
        if budget.is_spent(tally.kills) {
            break;
        }
        let life = life::live_and_die(directory.path(), dice);
        tally.kills += 1;
        tally.early += usize::from(life.early);
        let said = model.hear(&life.lines);
        tally.acknowledged += said.acknowledged;
        let mut problems = said.problems;
        problems.extend(damage(directory.path(), dice, &mut tally.damages));
        problems.extend(model.compare(directory.path()));
        for problem in problems {
            tally
                .failures
                .push(format!("kill {}: {problem}", tally.kills));
        }
    }
}

fn report(tally: &Tally, seed: usize) -> ExitCode {
    for failure in &tally.failures {
        println!("FAILED with seed {seed}: {failure}");
    }
    println!(
        "{} kills ({} before the first answer), {} writes acknowledged",
        tally.kills, tally.early, tally.acknowledged
    );
    let damages = &tally.damages;
    let copies = damages.whole + damages.older + damages.refused;
    println!(
        "{copies} damaged copies: {} held everything, {} all but what was never acknowledged, {} were refused by name \
         ({} after a panic of the library)",
        damages.whole, damages.older, damages.refused, damages.panics
    );
    let checks = tally.kills + copies;
    println!(
        "{} passed, {} failed",
        checks.saturating_sub(tally.failures.len()),
        tally.failures.len()
    );
    if tally.failures.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
