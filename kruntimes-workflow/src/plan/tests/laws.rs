//! Laws of the turn over random graphs and random days (W-196).

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::testing::JobBuilder;

/// A random DAG: each job may need earlier ones; names are shuffled by hashing.
fn any_graph() -> impl Strategy<Value = BTreeMap<String, Job>> {
    any_graph_with(&["true"])
}

/// The same with one of `scripts` in every step.
pub(super) fn any_graph_with(
    scripts: &'static [&'static str],
) -> impl Strategy<Value = BTreeMap<String, Job>> {
    let script = prop_oneof![4 => Just(scripts[0]), 1 => prop::sample::select(scripts)];
    let steps = prop::collection::vec(script, 1..4);
    let job = (prop::collection::vec(any::<Index>(), 0..4), steps);
    prop::collection::vec(job, 1..12).prop_map(|jobs| {
        let name = |n: usize| format!("j{}", &kruntimes_core::names::hex10(&n.to_string())[..4]);
        jobs.iter()
            .enumerate()
            .map(|(n, (needs, steps))| {
                let needs: BTreeSet<_> = needs
                    .iter()
                    .filter(|_| n > 0)
                    .map(|index| name(index.index(n)))
                    .collect();
                let needs: Vec<_> = needs.iter().map(String::as_str).collect();
                let add = |job: JobBuilder, (s, script): (usize, &&str)| {
                    job.step(&format!("s{s}"), script)
                };
                let steps = steps.iter().enumerate();
                let job = steps.fold(a_job().needs(&needs), add);
                (name(n), job.output("o", "v").build())
            })
            .collect()
    })
}

/// One thing that happens between two turns.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// A Run ends.
    End(Index, RunPhase),
    /// A Run vanishes.
    Vanish(Index),
    /// The user cancels.
    Cancel,
    /// The controller dies after this many writes of its next turn.
    Crash(usize),
}

pub(super) fn any_event() -> impl Strategy<Value = Event> {
    let phase = prop_oneof![
        6 => Just(RunPhase::Succeeded),
        1 => Just(RunPhase::Failed),
        1 => Just(RunPhase::Timeout),
        1 => Just(RunPhase::Cancelled),
    ];
    prop_oneof![
        20 => (any::<Index>(), phase).prop_map(|(index, phase)| Event::End(index, phase)),
        1 => any::<Index>().prop_map(Event::Vanish),
        1 => Just(Event::Cancel),
        4 => (0usize..3).prop_map(Event::Crash),
    ]
}

impl World {
    fn suffer(&mut self, event: &Event) {
        let open = |world: &Self| -> Vec<usize> {
            let children = world.state.children.iter().enumerate();
            let open = children.filter(|(_, child)| !child.phase.is_terminal());
            open.map(|(at, _)| at).collect()
        };
        match event {
            Event::End(index, phase) => {
                let open = open(self);
                if !open.is_empty() {
                    self.state.children[open[index.index(open.len())]].phase = *phase;
                }
            }
            Event::Vanish(index) => {
                let open = open(self);
                if !open.is_empty() {
                    let gone = self.state.children.remove(open[index.index(open.len())]);
                    // Whoever recreates it creates a new one.
                    self.created.retain(|start| start.name != gone.name);
                }
            }
            Event::Cancel => self.state.spec.cancel_requested = true,
            Event::Crash(writes) => {
                let step = self.decide();
                self.apply(step.action, *writes);
            }
        }
    }

    /// Lets happen what an engine decides by itself: Runs end or vanish.
    pub(super) fn suffer_what_ends(&mut self, event: &Event) {
        match event {
            Event::End(..) | Event::Vanish(_) => self.suffer(event),
            Event::Cancel | Event::Crash(_) => {}
        }
    }

    /// What must hold after every turn.
    fn check_invariants(&self) {
        let Some(jobs) = &self.state.status.jobs else {
            return;
        };
        for (name, job) in jobs {
            let started = job.phase == JobPhase::Running
                || job.steps.iter().any(|step| step.run_name.is_some());
            if started {
                let done = job
                    .pre
                    .iter()
                    .all(|need| jobs[need].phase == JobPhase::Succeeded);
                assert!(done, "{name} started before its needs");
            }
            let first_open = job
                .steps
                .iter()
                .position(|step| step.phase != StepPhase::Succeeded);
            let later = job
                .steps
                .iter()
                .skip(first_open.map_or(job.steps.len(), |at| at + 1));
            for step in later {
                assert_eq!(
                    step.phase,
                    StepPhase::Pending,
                    "{name}/{} overtook",
                    step.name
                );
            }
            if job.phase == JobPhase::Skipped {
                assert!(!started, "{name} is skipped and started");
            }
            if self.phase().is_terminal() {
                assert_ne!(
                    job.phase,
                    JobPhase::Running,
                    "{name} runs under a final parent"
                );
            }
        }
        if self.phase() == WorkflowRunPhase::Succeeded {
            let bad = jobs
                .values()
                .find(|job| !job.phase.is_settled() || job.phase == JobPhase::Failed);
            assert_eq!(bad, None);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the day brings, the graph finishes, and nothing starts early or twice.
    #[test]
    fn w_196_a_random_graph_finishes(graph in any_graph(), events in prop::collection::vec(any_event(), 0..60)) {
        let mut world = World::new(graph);
        let mut last = WorkflowRunPhase::Pending;
        for event in &events {
            world.suffer(event);
            world.turn();
            world.check_invariants();
            if last.is_terminal() {
                prop_assert_eq!(world.phase(), last, "a final phase changed");
            }
            last = world.phase();
        }
        loop {
            world.settle();
            if !world.succeed_any() {
                break;
            }
        }
        world.check_invariants();
        prop_assert!(world.phase().is_terminal(), "{:?}", world.status());
    }

    /// Deriving twice equals once, equal states give equal bytes, order does not matter,
    /// and a turn that was carried out leaves no action behind.
    #[test]
    fn w_182_w_196_the_turn_is_a_function(
        graph in any_graph(),
        events in prop::collection::vec(any_event(), 0..30),
        seed in any::<u64>(),
    ) {
        let mut world = World::new(graph);
        for event in &events {
            world.suffer(event);
            let step = world.decide();
            let mut shuffled = world.state.clone();
            let key = |child: &Child| kruntimes_core::names::hex10(&format!("{seed}{}", child.name));
            shuffled.children.sort_by_key(key);
            let again = calculate(&shuffled);
            prop_assert_eq!(&again, &step);
            prop_assert_eq!(
                serde_json::to_vec(&again.desired).unwrap(),
                serde_json::to_vec(&step.desired).unwrap()
            );
            let initialized = matches!(step.action, Action::Initialize(_));
            let outcomes = world.apply(step.action, usize::MAX);
            world.state.status = merge(step.desired, &outcomes);
            // What merge foretold is what the next load derives.
            let next = world.decide();
            prop_assert_eq!(&next.desired, world.status());
            if !initialized {
                prop_assert_eq!(next.action, Action::None);
            }
        }
    }
}
