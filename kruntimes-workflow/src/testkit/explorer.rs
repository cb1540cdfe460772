//! Walks every world that can be reached.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kruntimes_core::api::{Job, JobPhase, Strategy, WorkflowRunPhase, WorkflowRunStatus};

use super::world::{Broken, World, writes};
use super::{Rule, Script, Violation};
use crate::definitions::Definitions;
use crate::extend::{Extension, Extensions};
use crate::plan::{Action, State};

/// Worlds that are looked at unless another limit is set.
const LIMIT: usize = 200_000;

/// Tries every order of completions and every crash point of one definition (W-194).
///
/// A crash point lies after each single write of a turn (section 16): the
/// snapshot, each workspace, each child, each request to cancel, the status. What is not yet
/// written is lost, and the next turn decides from what is there.
#[derive(Clone, Debug)]
pub struct Explorer {
    jobs: BTreeMap<String, Job>,
    script: Script,
    annotations: BTreeMap<String, String>,
    definitions: Arc<Definitions>,
    crashes: bool,
    cancels: bool,
    limit: usize,
    extensions: Extensions,
    strategy: Option<Box<Strategy>>,
    one_end: bool,
}

/// What was found out.
#[derive(Clone, Debug, PartialEq)]
pub struct Explored {
    /// Different worlds that can be reached.
    pub worlds: usize,
    /// The end that every way without a cancellation leads to. Messages of skipped jobs are left
    /// out: they name the predecessor that failed first.
    pub status: WorkflowRunStatus,
    /// The ends of ways with a cancellation.
    pub cancelled: BTreeSet<WorkflowRunPhase>,
}

impl Explorer {
    /// Takes jobs and how their steps end.
    pub fn new(jobs: BTreeMap<String, Job>, script: Script) -> Self {
        Self {
            jobs,
            script,
            annotations: BTreeMap::new(),
            definitions: Arc::default(),
            crashes: true,
            cancels: false,
            limit: LIMIT,
            extensions: Extensions::none(),
            strategy: None,
            one_end: true,
        }
    }

    /// Adds annotations, such as the output contract of a Workflow.
    pub fn annotations(mut self, annotations: BTreeMap<String, String>) -> Self {
        self.annotations = annotations;
        self
    }

    /// Adds the Actions and Workflows that can be called.
    ///
    /// A called Workflow is judged and rendered as ever; how its execution ends
    /// is scripted under the name of the calling job.
    pub fn definitions(mut self, definitions: Definitions) -> Self {
        self.definitions = Arc::new(definitions);
        self
    }

    /// Lets the user cancel at any moment.
    pub fn cancels(mut self) -> Self {
        self.cancels = true;
        self
    }

    /// Leaves crashes out: for definitions whose worlds are too many.
    pub fn without_crashes(mut self) -> Self {
        self.crashes = false;
        self
    }

    /// Accepts extensions, with rules for the whole execution (section 18.1).
    ///
    /// Where a deadline is set, every moment before and after it is looked at.
    pub fn extensions(mut self, extensions: Extensions, strategy: Strategy) -> Self {
        // What depends on who is first, or on time, ends in more than one way.
        let timed = extensions.has(Extension::Timeouts);
        self.one_end = !strategy.fail_fast && !timed;
        self.extensions = extensions;
        self.strategy = (strategy != Strategy::default()).then(|| Box::new(strategy));
        self
    }

    /// Sets how many worlds may be looked at.
    pub fn limit(mut self, worlds: usize) -> Self {
        self.limit = worlds;
        self
    }

    /// Walks through every world.
    ///
    /// # Errors
    ///
    /// Returns the first broken rule.
    pub fn explore(&self) -> Result<Explored, Box<Violation>> {
        let mut state = State {
            namespace: "ns".into(),
            name: "wfr".into(),
            uid: "uid-1".into(),
            generation: Some(1),
            annotations: self.annotations.clone(),
            ..State::default()
        };
        state.spec.jobs = self.jobs.clone();
        state.spec.strategy.clone_from(&self.strategy);
        state.policy.extensions.clone_from(&self.extensions);
        let mut walk = Walk {
            explorer: self,
            seen: BTreeSet::new(),
            open: Vec::new(),
            end: None,
            cancelled: BTreeSet::new(),
        };
        let definitions = Arc::clone(&self.definitions);
        let world = World { state, definitions };
        walk.reach(world, &[], String::from("the beginning"));
        while let Some((world, way)) = walk.open.pop() {
            walk.leave(&world, &way).map_err(|(rule, found)| {
                Box::new(Violation {
                    rule,
                    found,
                    way: way.clone(),
                })
            })?;
        }
        Ok(Explored {
            worlds: walk.seen.len(),
            status: walk.end.unwrap_or_default(),
            cancelled: walk.cancelled,
        })
    }
}

struct Walk<'a> {
    explorer: &'a Explorer,
    seen: BTreeSet<String>,
    open: Vec<(World, Vec<String>)>,
    end: Option<WorkflowRunStatus>,
    cancelled: BTreeSet<WorkflowRunPhase>,
}

impl Walk<'_> {
    /// Remembers a world that was not seen before.
    fn reach(&mut self, world: World, way: &[String], by: String) {
        if self.seen.insert(world.fingerprint()) {
            let mut way = way.to_vec();
            way.push(by);
            self.open.push((world, way));
        }
    }

    /// Does everything that can happen next in a world.
    fn leave(&mut self, world: &World, way: &[String]) -> Result<(), Broken> {
        let (explorer, limit) = (self.explorer, self.explorer.limit);
        if self.seen.len() > limit {
            return Err((Rule::Bounded, format!("more than {limit} worlds")));
        }
        let step = world.decide()?;
        let writes = writes(&step.action).len();
        let still = step.action == Action::None && step.desired == world.state.status;
        let idle = still && step.wake.is_none();
        let from = if explorer.crashes { 1 } else { writes + 1 };
        for kept in from..=writes + 1 {
            let mut next = world.clone();
            next.carry_out(step.clone(), kept)?;
            let by = if kept > writes {
                "a turn".to_owned()
            } else {
                format!("a turn that crashed after write {kept} of {}", writes + 1)
            };
            self.reach(next, way, by);
        }
        let (open, calls) = (world.open(), world.open_calls());
        for child in &open {
            let mut next = world.clone();
            let by = next.end(*child, &explorer.script);
            self.reach(next, way, by);
        }
        for child in &calls {
            let mut next = world.clone();
            let by = next.end_call(*child, &explorer.script);
            self.reach(next, way, by);
        }
        // A turn takes no time: else nothing would ever have to happen before a deadline.
        if still && let Some(at) = step.wake {
            let mut next = world.clone();
            next.state.now = at;
            self.reach(next, way, format!("the time became {at}"));
        }
        if explorer.cancels && !world.state.spec.cancel_requested {
            let mut next = world.clone();
            next.state.spec.cancel_requested = true;
            self.reach(next, way, "a request to cancel".to_owned());
        }
        if idle && open.is_empty() && calls.is_empty() {
            return self.finish(world);
        }
        Ok(())
    }

    fn finish(&mut self, world: &World) -> Result<(), Broken> {
        let status = &world.state.status;
        if !status.phase.is_terminal() {
            return Err((Rule::Finishes, format!("{status:?}")));
        }
        if world.state.spec.cancel_requested {
            self.cancelled.insert(status.phase);
            return Ok(());
        }
        let status = &comparable(status);
        match &self.end {
            None => self.end = Some(status.clone()),
            Some(end) if end == status || !self.explorer.one_end => {}
            Some(end) => return Err((Rule::SameEnd, format!("{status:?}\n  and {end:?}"))),
        }
        Ok(())
    }
}

/// Leaves out what may depend on the order: a skipped job blames the predecessor that failed first.
fn comparable(status: &WorkflowRunStatus) -> WorkflowRunStatus {
    let mut status = status.clone();
    for job in status.jobs.iter_mut().flat_map(BTreeMap::values_mut) {
        if job.phase == JobPhase::Skipped {
            job.message = None;
        }
    }
    status
}
