//! A filter and a scorer of one's own, and what their tests look like.
//!
//! `cargo run -p kruntimes-sched --example custom_plugin` prints why a Run waits.
//! `docs/guides/custom-scheduler-plugin.md` walks through this file.
#![expect(clippy::print_stdout, reason = "an example shows its result")]

use std::error::Error;

use kruntimes_sched::plugins::{by_maximum, standard};
use kruntimes_sched::{
    Broken, EventKind, Filter, PodState, PrepareError, Prepared, Profile, ProfileError, Reason,
    Run, Score, Scored, Scorer, Snapshot, Verdict,
};

/// Keeps Runs with the label `tier: gold` on Pods with the label `tier: gold`.
struct GoldTier;

impl Filter for GoldTier {
    fn name(&self) -> &'static str {
        "GoldTier"
    }

    fn reasons(&self) -> &'static [Reason] {
        const REASONS: &[Reason] = &[Reason::new("NotGold")
            .message("waiting for a gold pod of runtime {runtime}")
            .condition("NotGold")];
        REASONS
    }

    fn prepare<'a>(&'a self, _: &'a Snapshot, run: &'a Run) -> Result<Prepared<'a>, PrepareError> {
        if run.labels.get("tier").is_none_or(|tier| tier != "gold") {
            return Ok(Prepared::Skip);
        }
        Ok(Prepared::Check(Box::new(|state: &PodState| {
            match state.pod.labels.get("tier") {
                Some(tier) if tier == "gold" => Verdict::Fits,
                Some(_) | None => Verdict::Rejects("NotGold"),
            }
        })))
    }

    fn events(&self) -> &'static [EventKind] {
        &[EventKind::PodChanged]
    }
}

/// Prefers Pods where Runs of the same team are at work.
struct TeamSpirit;

struct Team<'a>(Option<&'a String>);

impl Score for TeamSpirit {
    fn name(&self) -> &'static str {
        "TeamSpirit"
    }

    fn prepare<'a>(
        &'a self,
        _: &'a Snapshot,
        run: &'a Run,
    ) -> Result<Box<dyn Scorer + 'a>, PrepareError> {
        Ok(Box::new(Team(run.labels.get("team"))))
    }
}

impl Scorer for Team<'_> {
    fn score(&self, state: &PodState) -> Result<i64, Broken> {
        let mates = state.occupancy.holds();
        let mates = mates.filter(|hold| self.0.is_some() && hold.run.labels.get("team") == self.0);
        Ok(i64::try_from(mates.count()).unwrap_or(i64::MAX))
    }

    fn normalize(&self, scores: &mut [Scored]) -> Result<(), Broken> {
        by_maximum(scores)
    }
}

fn profile() -> Result<Profile, ProfileError> {
    standard().filter(GoldTier).score(2, TeamSpirit).build()
}

fn main() -> Result<(), Box<dyn Error>> {
    use kruntimes_sched::testing::{a_pod, a_run, a_snapshot};

    let profile = profile()?;
    let snapshot = a_snapshot().pod(a_pod("plain"));
    let decision = snapshot.decide(&a_run("r").label("tier", "gold"), &profile);
    print!("{}", kruntimes_sched::explain(&decision, &profile));
    Ok(())
}

#[cfg(test)]
mod tests {
    use kruntimes_sched::testing::{a_pod, a_run, a_snapshot, rejected, waits, winner};

    use super::*;

    #[test]
    fn s_152_gold_runs_go_to_gold_pods() {
        let snapshot = a_snapshot()
            .pod(a_pod("a"))
            .pod(a_pod("b").label("tier", "gold"));
        let profile = profile().unwrap();
        let gold = a_run("r").label("tier", "gold");
        assert_eq!(winner(&snapshot.decide(&gold, &profile)), Some("b"));
        assert_eq!(winner(&snapshot.decide(&a_run("s"), &profile)), Some("a"));

        let decision = a_snapshot().pod(a_pod("a")).decide(&gold, &profile);
        assert_eq!(rejected(&decision, "GoldTier", "NotGold"), 1);
        let message = "waiting for a gold pod of runtime \"python\"";
        assert_eq!(waits(&decision), Some(("NotGold", message)));
    }

    #[test]
    fn s_151_s_152_what_a_scorer_learns_once_ranks_team_mates_first() {
        let mate = a_run("mate").label("team", "red");
        let snapshot = a_snapshot()
            .pod(a_pod("busy").offers("runs", 9).holds(mate))
            .pod(a_pod("idle").offers("runs", 9));
        let profile = profile().unwrap();
        let red = a_run("r").label("team", "red");
        assert_eq!(winner(&snapshot.decide(&red, &profile)), Some("busy"));
        assert_eq!(
            winner(&snapshot.decide(&a_run("s"), &profile)),
            Some("idle")
        );
    }

    #[test]
    fn the_example_runs() {
        main().unwrap();
    }
}
