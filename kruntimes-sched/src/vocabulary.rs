//! What many Runs, and many Pods, have in common, kept once.

use std::sync::Arc;

use kruntimes_core::resources::Amounts;

use crate::pod::Pod;
use crate::register::{Keyed, Register};
use crate::run::{Labels, Run, RunKind};

/// Entries below which nothing is swept out.
const FEW: usize = 64;

/// Kinds, labels and requests of Runs and what Pods offer, each kept once however many have it.
///
/// Runs that are read from objects own all of them; of most there are only a
/// few different ones. A Run that went through
/// [`Vocabulary::share`] costs a fraction of the memory and is placed more
/// quickly. What no Run has any more is dropped.
///
/// ```
/// use std::sync::Arc;
/// use kruntimes_sched::{Run, Vocabulary};
///
/// let mut vocabulary = Vocabulary::default();
/// let [one, other] = ["one", "other"].map(|name| {
///     let mut run = Run::new("ns", name, name);
///     vocabulary.share(&mut run);
///     run
/// });
/// assert!(Arc::ptr_eq(&one.kind, &other.kind));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Vocabulary {
    labels: Shelf<Labels>,
    amounts: Shelf<Amounts>,
    kinds: Shelf<RunKind>,
}

impl Vocabulary {
    /// Replaces what a Run owns and another one has, too.
    pub fn share(&mut self, run: &mut Run) {
        if self.kinds.has(&mut run.kind) {
            return;
        }
        self.labels.share(&mut run.labels);
        self.amounts.share(&mut run.request);
        self.kinds.add(&run.kind);
    }

    /// Replaces what a Pod owns and another one has, too.
    pub fn share_pod(&mut self, pod: &mut Pod) {
        self.labels.share(&mut pod.labels);
        self.amounts.share(&mut pod.capacity);
    }
}

#[derive(Clone, Debug)]
struct Shelf<T> {
    known: Register<Known<T>>,
    /// How many entries there may be before those that nobody uses are looked for.
    most: usize,
}

#[derive(Clone, Debug)]
struct Known<T>(Arc<T>);

impl<T: Eq + std::hash::Hash> Keyed for Known<T> {
    type Key = T;

    fn key(&self) -> &T {
        &self.0
    }
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self {
            known: Register::default(),
            most: FEW,
        }
    }
}

impl<T: Eq + std::hash::Hash> Shelf<T> {
    fn share(&mut self, own: &mut Arc<T>) {
        if !self.has(own) {
            self.add(own);
        }
    }

    /// Replaces a value by the one that is known, if one is.
    fn has(&self, own: &mut Arc<T>) -> bool {
        let known = self.known.get(own);
        if let Some(Known(shared)) = known {
            *own = Arc::clone(shared);
        }
        known.is_some()
    }

    /// Adds a value that is not known.
    fn add(&mut self, own: &Arc<T>) {
        if self.known.len() >= self.most {
            self.known.retain(|known| Arc::strong_count(&known.0) > 1);
            self.most = FEW.max(self.known.len() * 2);
        }
        self.known.insert(Known(Arc::clone(own)));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn run(number: usize) -> Run {
        let mut run = Run::new("ns", format!("r{number}"), format!("u{number}"));
        run.labels = Arc::new(BTreeMap::from([("n".into(), number.to_string())]));
        run
    }

    #[test]
    fn what_nobody_has_any_more_is_dropped() {
        let mut vocabulary = Vocabulary::default();
        let mut kept = run(0);
        vocabulary.share(&mut kept);
        for number in 1..1_000 {
            vocabulary.share(&mut run(number));
        }
        assert!(vocabulary.kinds.known.len() <= FEW);
        // A kind that is still there keeps its labels.
        assert!(vocabulary.labels.known.len() <= 2 * FEW);
        let mut again = run(0);
        vocabulary.share(&mut again);
        assert!(Arc::ptr_eq(&again.labels, &kept.labels));
    }
}
