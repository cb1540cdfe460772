//! S3: how many Runs are woken for a place that becomes free.

use std::collections::VecDeque;
use std::sync::Arc;

use kruntimes_sched::{
    Action, EventKind, Handout, Index, Line, PoolKey, Profile, Run, RunKey, Ticket, reserve,
    unreserve,
};

use crate::fleet::{NOW, index, pod_of, profile, run, runs};
use crate::line::{Line as Row, Reach};

/// Runs that wait, over four decades.
const BACKLOG: [usize; 5] = [100, 1_000, 10_000, 100_000, 1_000_000];
const PODS: usize = 100;
/// Places that become free, one after the other.
const FREED: usize = 1_000;

/// A pool, its line, and the Runs that hold a place with their Pod.
struct World {
    profile: Profile,
    index: Index,
    line: Line<()>,
    held: VecDeque<(Arc<Run>, kruntimes_sched::PodName)>,
    /// Cycles of woken Runs.
    woken: usize,
    placed: usize,
}

impl World {
    /// Fills the pool; everybody else waits.
    fn full(waiting: usize) -> Self {
        let mut world = Self {
            profile: profile(),
            index: index(PODS),
            line: Line::default(),
            held: VecDeque::new(),
            woken: 0,
            placed: 0,
        };
        let mut turned_away = 0;
        let all = runs(0..waiting + PODS * 12, run);
        for run in &all {
            world.cycle(run, None);
            turned_away += usize::from(world.line.rejected_by(&RunKey::of(run)).is_some());
        }
        assert!(turned_away >= waiting, "the pool is full");
        (world.woken, world.placed) = (0, 0);
        world
    }

    /// One cycle, as the scheduler of a cluster has it: a place, or a place in the line.
    fn cycle(&mut self, run: &Arc<Run>, ticket: Option<&Ticket<()>>) {
        self.woken += 1;
        let decision = self.index.decide(run, &self.profile, NOW);
        if let Action::Bind { pod, .. } = &decision.action {
            let pod = pod_of(&self.index, pod);
            let profile = &self.profile;
            let taken = (self.index).change(|book| reserve(profile, book, run, &pod, NOW));
            assert!(taken.is_ok(), "nobody else reserves");
            self.held.push_back((Arc::clone(run), pod.name.clone()));
            self.placed += 1;
            return;
        }
        let by = decision.rejections.iter().map(|seen| seen.plugin).collect();
        self.line.wait(run, by, true, ticket);
    }

    /// The Run that has held its place longest ends.
    fn free(&mut self, waiting: &[Arc<Run>]) {
        let Some((run, pod)) = self.held.pop_front() else {
            return;
        };
        let profile = &self.profile;
        (self.index).change(|book| unreserve(profile, book, &run));
        let ticket = Ticket {
            pool: PoolKey::of(&run),
            pod,
            kind: EventKind::CapacityReleased,
            source: (),
        };
        self.line.reopen(&ticket);
        let mut keys = VecDeque::from(self.offer(&ticket));
        while let Some(key) = keys.pop_front() {
            let ticket = self.line.leave(&key);
            let number = key.name.as_str().trim_start_matches("run-").parse();
            let run: &Arc<Run> = &waiting[number.unwrap_or(0_usize)];
            self.cycle(run, ticket.as_ref());
            keys.extend(ticket.into_iter().flat_map(|ticket| self.offer(&ticket)));
        }
    }

    fn offer(&mut self, ticket: &Ticket<()>) -> Vec<RunKey> {
        let pod = pod_of(&self.index, &ticket.pod);
        let occupancy = self.index.book().occupancy(&ticket.pool.namespace, &pod);
        let handout = Handout {
            helps: &|_| true,
            order: None,
            skip: &|_| false,
        };
        self.line.offer(ticket, &pod, &occupancy, &handout)
    }
}

/// Counts cycles of woken Runs per freed place at every backlog.
pub(crate) fn per_slot() -> Vec<Row> {
    let ratios = BACKLOG.map(|waiting| {
        let mut world = World::full(waiting);
        let all = runs(0..waiting + PODS * 12, run);
        let freed = FREED.min(waiting);
        (0..freed).for_each(|_| world.free(&all));
        assert_eq!(world.placed, freed, "every freed place is taken");
        world.woken as f64 / freed as f64
    });
    vec![Row {
        goal: "S3",
        what: "Runs woken for a place that becomes free, 100 to 1,000,000 waiting".into(),
        rounds: ratios.to_vec(),
        unit: "Runs",
        reach: Reach::AllAtMost(2.0),
    }]
}
