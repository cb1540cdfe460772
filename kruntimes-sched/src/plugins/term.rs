//! Compiled affinity terms and where their targets are.

use std::collections::BTreeMap;

use kruntimes_core::api::{Affinity, RunAffinity, RunAffinityTerm, WeightedRunAffinityTerm};
use kruntimes_core::keys::TOPOLOGY_RUNTIME_POD;
use kruntimes_core::label::Selector;
use kruntimes_core::message::quoted;

use crate::book::View;
use crate::identity::{PodName, PodUid};
use crate::plugin::Invalid;
use crate::pod::Pod;
use crate::run::Run;

/// Failure reason of a Run whose affinity has no meaning (S-109).
const INVALID_AFFINITY: &str = "InvalidAffinity";

/// Which of the two directions of [`Affinity`] is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Be where the targets are.
    Towards,
    /// Be where they are not.
    Away,
}

impl Direction {
    fn of(self, affinity: &Affinity) -> Option<&RunAffinity> {
        match self {
            Self::Towards => affinity.run_affinity.as_ref(),
            Self::Away => affinity.run_anti_affinity.as_ref(),
        }
    }

    /// Returns the required terms of a Run.
    pub(crate) fn required(self, run: &Run) -> &[RunAffinityTerm] {
        let lists = run.affinity.as_deref().and_then(|both| self.of(both));
        lists.map_or(&[], |lists| &lists.required)
    }

    /// Returns the preferred terms of a Run.
    pub(crate) fn preferred(self, run: &Run) -> &[WeightedRunAffinityTerm] {
        let lists = run.affinity.as_deref().and_then(|both| self.of(both));
        lists.map_or(&[], |lists| &lists.preferred)
    }
}

/// A term whose selector is compiled and whose targets are found, once per cycle (S-38, S-56).
#[derive(Debug)]
pub(crate) struct Term<'a> {
    selector: Selector,
    /// UIDs of the Pods with a target; a target that records no UID counts for every Pod of the name.
    targets: BTreeMap<&'a PodName, Vec<Option<&'a PodUid>>>,
}

impl<'a> Term<'a> {
    /// Compiles a term and finds its targets among everything that holds capacity, except the Run itself (S-35).
    pub(crate) fn new(term: &RunAffinityTerm, view: &'a View, run: &Run) -> Result<Self, Invalid> {
        let selector = compile(term)?;
        let mut targets: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (name, uid, held) in view.sites_in_any_order() {
            let hit = |hold: &crate::Hold| selector.matches(&hold.run.labels);
            if held.others(&run.uid).any(hit) {
                targets.entry(name).or_default().push(uid);
            }
        }
        Ok(Self { selector, targets })
    }

    /// Tells whether the Pod holds a target.
    pub(crate) fn is_on(&self, pod: &Pod) -> bool {
        self.targets.get(&pod.name).is_some_and(|uids| {
            uids.iter()
                .any(|recorded| recorded.is_none_or(|uid| *uid == pod.uid))
        })
    }

    /// Tells whether the Run itself may be the first of its cohort (S-100, S-101).
    pub(crate) fn is_seedable(&self, run: &Run) -> bool {
        self.targets.is_empty() && self.selector.matches(&run.labels)
    }
}

/// Compiles the selector of a term, or says why the Run can never be placed (S-39, S-42).
pub(crate) fn compile(term: &RunAffinityTerm) -> Result<Selector, Invalid> {
    #[cfg(test)]
    tests::COMPILED.with(|count| count.set(count.get() + 1));
    if term.topology_key != TOPOLOGY_RUNTIME_POD {
        let key = quoted(&term.topology_key);
        return Err(invalid(&format!(
            "unsupported run affinity topology key {key}"
        )));
    }
    let stated = term.label_selector.as_ref();
    let Some(selector) = stated.filter(|selector| !selector.is_empty()) else {
        return Err(invalid("run affinity term has no label selector"));
    };
    selector
        .compile()
        .map_err(|cause| invalid(&format!("parse run affinity selector: {cause}")))
}

/// Says what is wrong with the affinity of a Run.
pub(super) fn invalid(text: &str) -> Invalid {
    Invalid {
        reason: INVALID_AFFINITY,
        message: format!("pre-filter run affinity: {text}"),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;

    use kruntimes_core::label::LabelSelector;

    use crate::book::Book;
    use crate::calculate::calculate;
    use crate::identity::RunUid;
    use crate::plugins::standard;
    use crate::snapshot::Snapshot;

    use super::*;

    thread_local! {
        pub(super) static COMPILED: Cell<u32> = const { Cell::new(0) };
    }

    #[test]
    fn s_38_a_selector_is_compiled_once_per_term_whatever_the_number_of_pods() {
        let term = |value: &str| RunAffinityTerm {
            label_selector: Some(LabelSelector {
                match_labels: [("stage".to_owned(), value.to_owned())].into(),
                ..LabelSelector::default()
            }),
            topology_key: TOPOLOGY_RUNTIME_POD.into(),
        };
        let lists = |required, preferred| RunAffinity {
            required: vec![term(required); 2],
            preferred: vec![WeightedRunAffinityTerm {
                weight: 7,
                run_affinity_term: term(preferred),
            }],
        };
        let mut run = Run::new("ns", "r", RunUid::from("u"));
        run.labels = Arc::new([("stage".to_owned(), "a".to_owned())].into());
        run.affinity = Some(Arc::new(Affinity {
            run_affinity: Some(lists("a", "b")),
            run_anti_affinity: Some(lists("c", "d")),
        }));
        let pods = (0..20).map(|at| Pod::new(format!("p{at:02}"), format!("u{at}")));
        let now = jiff::Timestamp::UNIX_EPOCH;
        let snapshot = Snapshot::new(now, pods, Book::new().view("ns"));
        let profile = standard().build().unwrap();
        COMPILED.with(|count| count.set(0));
        let decision = calculate(&snapshot, &run, &profile);
        assert!(matches!(decision.action, crate::Action::Bind { .. }));
        assert_eq!(COMPILED.with(Cell::get), 6, "one per term");
    }
}
