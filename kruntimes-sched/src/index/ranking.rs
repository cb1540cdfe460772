//! The winner among the candidates, without giving every one of them a score.

use std::cmp::Reverse;

use super::lead::Lead;
use super::order::Order;
use super::recipe::Recipe;

/// Largest normalized score.
const BEST: i64 = 100;

/// The winning Pod and its total.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Winner {
    pub(super) slot: usize,
    pub(super) total: i64,
}

/// Scales a raw preference by the largest one (S-69).
fn share(raw: i64, most: i64) -> i64 {
    if most > 0 { raw * BEST / most } else { 0 }
}

/// Turns the number of candidates with less load into a score, `last` being that of all others (S-73).
fn score(rank: usize, last: usize) -> Option<i64> {
    if last == 0 {
        return Some(BEST);
    }
    i64::try_from((last - rank).checked_mul(100)? / last).ok()
}

impl Recipe {
    /// Adds the weighted scores up; nothing when they leave 64 bits, which a scan reports.
    fn total(self, preference: i64, load: i64) -> Option<i64> {
        let preferred = preference.checked_mul(self.preference)?;
        preferred.checked_add(load.checked_mul(self.load)?)
    }

    /// Chooses among slots that are listed one by one, each with its raw preference.
    pub(super) fn among(self, lead: &Lead, mut listed: Vec<(usize, i64)>) -> Option<Winner> {
        listed.sort_unstable_by(|a, b| lead.compare(a.0, b.0));
        let last = listed.len().checked_sub(1)?;
        let most = listed.iter().map(|(_, raw)| *raw).max()?;
        let name = |slot| lead.name(slot);
        let mut best: Option<Winner> = None;
        let mut rank = 0;
        for (position, &(slot, raw)) in listed.iter().enumerate() {
            if position > 0 && lead.weight(listed[position - 1].0) != lead.weight(slot) {
                rank = position;
            }
            let total = self.total(share(raw, most), score(rank, last)?)?;
            best = Some(better(name, best, Winner { slot, total }));
        }
        best
    }

    /// Chooses among all slots when nothing is preferred.
    ///
    /// Of loads only the smallest is worth 100; of equal ones the smallest name comes first.
    pub(super) fn first(self, lead: &Lead) -> Option<Winner> {
        let total = self.total(0, BEST)?;
        let slot = lead.first()?;
        Some(Winner { slot, total })
    }

    /// Chooses among all slots but the `excluded` ones.
    ///
    /// `special` lists the slots whose raw preference is another than
    /// `elsewhere`, which is that of all others. Both lists hold filed slots only
    /// and have none in common.
    pub(super) fn among_all(
        self,
        order: &Order,
        excluded: &[usize],
        special: &[(usize, i64)],
        elsewhere: i64,
    ) -> Option<Winner> {
        let positions = |slots: &mut dyn Iterator<Item = usize>| {
            let mut positions: Vec<usize> = slots.map(|slot| order.position(slot)).collect();
            positions.sort_unstable();
            positions
        };
        let gone = positions(&mut excluded.iter().copied());
        let mut apart = positions(&mut special.iter().map(|(slot, _)| *slot));
        apart.extend(&gone);
        apart.sort_unstable();

        let last = (order.len() - gone.len()).checked_sub(1)?;
        let others = order.len() - apart.len();
        let raws = special.iter().map(|(_, raw)| *raw);
        let most = raws.chain((others > 0).then_some(elsewhere)).max()?;
        let rank = |slot: usize| {
            let below = order.below(order.weight(slot)?);
            Some(below - gone.partition_point(|position| *position < below))
        };
        let name = |slot| order.name(slot);
        let mut best: Option<Winner> = None;
        for &(slot, raw) in special {
            let total = self.total(share(raw, most), score(rank(slot)?, last)?)?;
            best = Some(better(name, best, Winner { slot, total }));
        }
        if others > 0 {
            let first = order.select(skip(0, &apart))?;
            let least = score(rank(first)?, last)?;
            let slot = lightest(order, &gone, &apart, least, last)?;
            let total = self.total(share(elsewhere, most), least)?;
            best = Some(better(name, best, Winner { slot, total }));
        }
        best
    }
}

/// Takes the greater total; the smaller name breaks ties (S-65).
fn better(name: impl Fn(usize) -> u64, best: Option<Winner>, next: Winner) -> Winner {
    let key = |winner: &Winner| (winner.total, Reverse(name(winner.slot)));
    match best {
        Some(best) if best.total > next.total => best,
        Some(best) if best.total == next.total && key(&best) >= key(&next) => best,
        Some(_) | None => next,
    }
}

/// Moves a position past the taken ones, as if those were not there.
fn skip(position: usize, taken: &[usize]) -> usize {
    let mut at = position;
    for taken in taken {
        if *taken > at {
            break;
        }
        at += 1;
    }
    at
}

/// Returns the smallest name among the ordinary slots whose load is worth `least`, the best of theirs.
///
/// Scores are cut off, so that several ranks share one: those up to the
/// largest `r` for which `(last - r) * 100 / last` is `least`. All slots of
/// the last rank's load belong to it.
fn lightest(
    order: &Order,
    gone: &[usize],
    apart: &[usize],
    least: i64,
    last: usize,
) -> Option<usize> {
    let worth = usize::try_from(least).ok()?;
    let rank = last - worth.checked_mul(last)?.div_ceil(100);
    let weight = order.weight(order.select(skip(rank, gone))?)?;
    let end = order.through(weight);
    let mut start = 0;
    let mut found: Option<usize> = None;
    for stop in apart.iter().copied().chain([order.len()]) {
        if let Some(slot) = order.least(start, stop.min(end)) {
            let smaller = found.is_none_or(|found| order.name(slot) < order.name(found));
            found = if smaller { Some(slot) } else { found };
        }
        start = stop + 1;
        if start >= end {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_skip_what_is_taken() {
        for (position, taken, want) in [
            (0, vec![], 0),
            (0, vec![0, 1, 3], 2),
            (1, vec![0, 1, 3], 4),
            (2, vec![5], 2),
            (5, vec![5], 6),
        ] {
            assert_eq!(skip(position, &taken), want, "{position} {taken:?}");
        }
    }

    #[test]
    fn s_73_a_rank_is_worth_its_share_cut_off() {
        for (rank, last, want) in [(0, 0, 100), (0, 2, 100), (1, 2, 50), (1, 3, 66), (3, 3, 0)] {
            assert_eq!(score(rank, last), Some(want), "{rank} of {last}");
        }
    }
}
