//! The goals of the scheduler, measured against their floors in the same run.
//!
//! `cargo xtask moon [GOAL…]` builds and runs it. Every line names a goal, the
//! median over the rounds with the least and the greatest, what was to be
//! reached, and whether it was. The rounds of all parts of a goal take turns,
//! so that what else happens on the machine meets them alike.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::cast_precision_loss,
    reason = "a benchmark reads the clock, starts processes, and counts far below 2^52"
)]

mod clock;
mod count;
mod fleet;
mod growth;
mod line;
mod memory;
mod speed;
mod wakes;

use std::io::{self, Write as _};

use line::Line;

/// A goal and how it is measured.
type Goal = (&'static str, fn() -> Vec<Line>);

const GOALS: [Goal; 6] = [
    ("S1", speed::decisions),
    ("S2", speed::affinity),
    ("S3", wakes::per_slot),
    ("S-176", speed::batch),
    ("M1", memory::per_run),
    ("X1", growth::exponents),
];

fn main() -> io::Result<()> {
    // Cargo adds a flag of its own.
    let asked: Vec<String> = (std::env::args().skip(1))
        .filter(|word| !word.starts_with('-'))
        .collect();
    if let [first, name, size] = asked.as_slice()
        && first == count::PROBE
    {
        count::probe(name, size);
        return Ok(());
    }
    let mut out = io::stdout().lock();
    writeln!(out, "{}", Line::HEADING)?;
    for (name, measure) in GOALS {
        if asked.is_empty() || asked.iter().any(|asked| asked == name) {
            for line in measure() {
                writeln!(out, "{line}")?;
                out.flush()?;
            }
        }
    }
    Ok(())
}
