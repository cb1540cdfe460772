//! The kit for profiles and books of one's own, tested on good ones and on bad ones (S-177).

use std::sync::Arc;

use jiff::Timestamp;
use kruntimes_core::resources::Amounts;
use kruntimes_sched::conformance::{self, Ledger, history};
use kruntimes_sched::plugins::standard;
use kruntimes_sched::{Book, Namespace, Observation, Pod, Profile, Run, View};

/// Histories of the normal run; `KRT_HISTORIES` asks for more.
const HISTORIES: u64 = 2_000;

fn profile() -> Profile {
    standard().explain(false).build().unwrap()
}

#[test]
fn s_79_s_80_s_81_s_140_no_history_breaks_the_book() {
    #[expect(
        clippy::disallowed_methods,
        reason = "the long run is asked for from outside"
    )]
    let asked = std::env::var("KRT_HISTORIES");
    let histories = asked.map_or(HISTORIES, |text| text.parse().expect("a number"));
    let profile = profile();
    for seed in 0..histories {
        let end = history(&profile, Book::new(), seed);
        assert_eq!(end, Ok(()), "history {seed}");
    }
}

#[test]
fn s_177_the_default_profile_and_the_book_conform() {
    assert_eq!(conformance::profile(&profile()), []);
    assert_eq!(conformance::ledger(&profile(), Book::new, 50), []);
}

#[test]
fn s_177_what_a_profile_lacks_is_named_by_item() {
    let items = |builder: kruntimes_sched::ProfileBuilder| {
        let failures = conformance::profile(&builder.build().unwrap());
        let mut items: Vec<_> = failures.iter().map(|failure| failure.item).collect();
        items.dedup();
        items
    };
    let without = |name: &str| items(standard().remove(name));
    assert_eq!(without("LeastLoaded"), ["V3", "V5"]);
    assert_eq!(without("PreferredRunAffinity"), ["V5"]);
    let lacking = without("RunAffinity");
    assert_eq!(lacking, ["V7", "S-101", "S-57", "S-99", "S-100"]);
    let failures = conformance::profile(&standard().remove("RunAffinity").build().unwrap());
    let text = failures[1].to_string();
    assert!(
        text.starts_with("S-101 (stranger): expected a wait, found Bind"),
        "{text}"
    );
}

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    /// Gives the place up as soon as the Run is seen waiting.
    ForgetsEarly,
    /// Keeps the place of a Run that was seen elsewhere.
    NeverForgets,
    /// Reserves without looking.
    Overcommits,
    /// Drops everything at the list of another namespace.
    MixesNamespaces,
}

/// A book with a fault.
struct Faulty(Book, Fault);

impl Ledger for Faulty {
    fn observe(&mut self, seen: &Observation) {
        let pending = seen.state == kruntimes_sched::RunState::Pending;
        match self.1 {
            Fault::ForgetsEarly if pending => self.0.release(&seen.run.namespace, &seen.run.uid),
            Fault::NeverForgets if !pending => {}
            _ => Book::observe(&mut self.0, seen),
        }
    }

    fn observe_all(&mut self, namespace: &Namespace, seen: &[Observation]) {
        if self.1 == Fault::MixesNamespaces && namespace.as_str() == "another" {
            self.0 = Book::new();
        }
        Book::observe_all(&mut self.0, namespace, seen);
    }

    fn reserve(
        &mut self,
        profile: &Profile,
        run: &Arc<Run>,
        pod: &Arc<Pod>,
        now: Timestamp,
    ) -> bool {
        if self.1 == Fault::Overcommits {
            let endless = Pod {
                capacity: Arc::new([("runs".to_owned(), "1k".parse().unwrap())].into()),
                ..pod.as_ref().clone()
            };
            return Book::reserve(&mut self.0, run, &endless).is_ok();
        }
        Ledger::reserve(&mut self.0, profile, run, pod, now)
    }

    fn release(&mut self, profile: &Profile, run: &Run) {
        Ledger::release(&mut self.0, profile, run);
    }

    fn used(&self, namespace: &Namespace, pod: &Pod) -> Amounts {
        self.0.used(namespace, pod)
    }

    fn view(&self, namespace: &Namespace) -> View {
        Ledger::view(&self.0, namespace)
    }
}

#[test]
fn s_177_every_fault_of_a_book_is_found() {
    for (fault, want) in [
        (Fault::ForgetsEarly, "S-78"),
        (Fault::NeverForgets, "S-78"),
        (Fault::Overcommits, "S-81"),
        (Fault::MixesNamespaces, "S-79"),
    ] {
        let make = || Faulty(Book::new(), fault);
        let failures = conformance::ledger(&profile(), make, 200);
        let items: Vec<_> = failures.iter().map(|failure| failure.item).collect();
        assert!(items.contains(&want), "{want} is not in {items:?}");
    }
}
