//! The course of a graph of jobs of any type: which step is next, what is skipped, when it ends.
//!
//! It knows the rules of order and failure and nothing else: no texts, no
//! names, no outputs. A program maps its own jobs, steps and children by three
//! traits; those of kruntimes implement them.

use std::collections::BTreeMap;

use kruntimes_core::api::{Job, JobPhase, RunPhase, Step};

use super::{Graph, JobId, Node};
use crate::plan::Child;

/// A job whose steps run one after the other.
pub trait Task: Node {
    /// What one of its steps is.
    type Step;

    /// Returns its steps in order; a job without any succeeds when it is ready.
    fn steps(&self) -> &[Self::Step];
}

/// Something that stands for a step that was started.
pub trait Handle {
    /// Returns how it ended, once it has.
    fn ending(&self) -> Option<Ending>;
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The next step may start.
    Succeeded,
    /// No later step starts, and no job that needs this one.
    Failed,
}

impl Task for Job {
    type Step = Step;

    fn steps(&self) -> &[Step] {
        &self.steps
    }
}

impl Handle for Child {
    fn ending(&self) -> Option<Ending> {
        match self.phase {
            RunPhase::Succeeded => Some(Ending::Succeeded),
            RunPhase::Failed | RunPhase::Timeout | RunPhase::Cancelled => Some(Ending::Failed),
            RunPhase::Pending
            | RunPhase::Scheduled
            | RunPhase::Running
            | RunPhase::Ready
            | RunPhase::Finalizing => None,
        }
    }
}

/// One consequence of what was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// This step of this job starts.
    Start(JobId, usize),
    /// A job succeeded.
    Succeeded(JobId),
    /// A job failed.
    Failed(JobId),
    /// A job will not run, because of one that it needs.
    Skipped(JobId, JobId),
    /// Every job is settled.
    Ended(Ending),
}

/// Where each job of a graph is.
#[derive(Clone, Debug)]
pub struct Progress<'a, T> {
    graph: &'a Graph<'a>,
    jobs: Vec<Slot<'a, T>>,
    settled: usize,
    failed: bool,
}

#[derive(Clone, Debug)]
struct Slot<'a, T> {
    task: &'a T,
    phase: JobPhase,
    /// Needs that have not succeeded.
    waits: usize,
    /// The step that runs, or would be next.
    step: usize,
}

impl<'a, T: Task> Progress<'a, T> {
    /// Begins; `next` gets what starts first.
    ///
    /// # Panics
    ///
    /// Panics when the graph was not compiled from these jobs.
    pub fn new(graph: &'a Graph<'a>, jobs: &'a BTreeMap<String, T>, next: &mut Vec<Next>) -> Self {
        assert_eq!(graph.len(), jobs.len(), "the graph is that of the jobs");
        let slot = |(job, task): (JobId, &'a T)| Slot {
            task,
            phase: JobPhase::Waiting,
            waits: graph.needs(job).len(),
            step: 0,
        };
        let jobs = graph.jobs().zip(jobs.values()).map(slot).collect();
        let mut progress = Self {
            graph,
            jobs,
            settled: 0,
            failed: false,
        };
        for job in graph.jobs() {
            if progress.jobs[job.index()].waits == 0 {
                progress.start(job, next);
            }
        }
        progress
    }

    /// Returns where a job is.
    ///
    /// # Panics
    ///
    /// Panics when the job belongs to a larger graph.
    pub fn phase(&self, job: JobId) -> JobPhase {
        self.jobs[job.index()].phase
    }

    /// Returns a step that starts.
    pub fn step(&self, job: JobId, step: usize) -> Option<&'a T::Step> {
        let slot = self.jobs.get(job.index())?;
        slot.task.steps().get(step)
    }

    /// Looks at what stands for a step; `next` gets the consequences.
    ///
    /// A step that is not the one that runs has none, so that seeing an end twice is harmless.
    ///
    /// # Panics
    ///
    /// Panics when the job belongs to a larger graph.
    pub fn see(&mut self, job: JobId, step: usize, handle: &impl Handle, next: &mut Vec<Next>) {
        let slot = &mut self.jobs[job.index()];
        if slot.phase != JobPhase::Running || slot.step != step {
            return;
        }
        match handle.ending() {
            None => {}
            Some(Ending::Succeeded) => {
                slot.step += 1;
                self.start(job, next);
            }
            Some(Ending::Failed) => {
                slot.phase = JobPhase::Failed;
                self.failed = true;
                self.settled += 1;
                next.push(Next::Failed(job));
                self.skip_behind(job, next);
            }
        }
        self.end(next);
    }

    /// Starts the next step of a job, or ends it and starts those that waited for it.
    fn start(&mut self, job: JobId, next: &mut Vec<Next>) {
        let mut open = vec![];
        let mut job = Some(job);
        while let Some(at) = job.or_else(|| open.pop()) {
            job = None;
            let slot = &mut self.jobs[at.index()];
            slot.phase = JobPhase::Running;
            if slot.step < slot.task.steps().len() {
                next.push(Next::Start(at, slot.step));
                continue;
            }
            slot.phase = JobPhase::Succeeded;
            self.settled += 1;
            next.push(Next::Succeeded(at));
            for dependent in self.graph.dependents(at).iter().rev() {
                let waits = &mut self.jobs[dependent.index()].waits;
                *waits -= 1;
                if *waits == 0 {
                    open.push(*dependent);
                }
            }
        }
    }

    fn skip_behind(&mut self, failed: JobId, next: &mut Vec<Next>) {
        let mut open = vec![failed];
        while let Some(need) = open.pop() {
            for job in self.graph.dependents(need) {
                let slot = &mut self.jobs[job.index()];
                if slot.phase == JobPhase::Waiting {
                    slot.phase = JobPhase::Skipped;
                    self.settled += 1;
                    next.push(Next::Skipped(*job, need));
                    open.push(*job);
                }
            }
        }
    }

    fn end(&self, next: &mut Vec<Next>) {
        if self.settled == self.jobs.len() {
            next.push(Next::Ended(if self.failed {
                Ending::Failed
            } else {
                Ending::Succeeded
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job, a step and a child of another operator.
    #[derive(Clone, Debug)]
    struct Recipe {
        after: Vec<&'static str>,
        cook: Vec<&'static str>,
    }

    impl Node for Recipe {
        fn needs(&self) -> impl Iterator<Item = &str> {
            self.after.iter().copied()
        }
    }

    impl Task for Recipe {
        type Step = &'static str;

        fn steps(&self) -> &[&'static str] {
            &self.cook
        }
    }

    /// Exit status of a process, if it has ended.
    struct Pot(Option<i32>);

    impl Handle for Pot {
        fn ending(&self) -> Option<Ending> {
            self.0.map(|status| match status {
                0 => Ending::Succeeded,
                _ => Ending::Failed,
            })
        }
    }

    fn see(
        progress: &mut Progress<'_, Recipe>,
        job: JobId,
        step: usize,
        status: Option<i32>,
    ) -> Vec<Next> {
        let mut next = Vec::new();
        progress.see(job, step, &Pot(status), &mut next);
        next
    }

    #[test]
    fn w_187_jobs_steps_and_children_of_ones_own_are_executed_by_the_same_rules() {
        let recipe = |after: &[&'static str], cook: &[&'static str]| Recipe {
            after: after.to_vec(),
            cook: cook.to_vec(),
        };
        let menu = BTreeMap::from([
            ("noodles".to_owned(), recipe(&[], &["boil", "drain"])),
            ("sauce".to_owned(), recipe(&[], &["fry"])),
            (
                "serve".to_owned(),
                recipe(&["noodles", "sauce"], &["plate"]),
            ),
            ("thank".to_owned(), recipe(&["serve"], &[])),
        ]);
        let graph = Graph::compile(&menu).unwrap();
        let id = |name: &str| graph.find(name).unwrap();
        let (noodles, sauce, serve) = (id("noodles"), id("sauce"), id("serve"));
        let mut next = Vec::new();
        let mut progress = Progress::new(&graph, &menu, &mut next);
        assert_eq!(next, [Next::Start(noodles, 0), Next::Start(sauce, 0)]);
        assert_eq!(progress.step(noodles, 1), Some(&"drain"));
        assert_eq!(see(&mut progress, sauce, 0, None), []);
        let mut burnt = progress.clone();
        assert_eq!(
            see(&mut progress, sauce, 0, Some(0)),
            [Next::Succeeded(sauce)]
        );
        assert_eq!(see(&mut progress, sauce, 0, Some(0)), []);
        assert_eq!(
            see(&mut progress, noodles, 0, Some(0)),
            [Next::Start(noodles, 1)]
        );
        assert_eq!(
            see(&mut progress, noodles, 1, Some(0)),
            [Next::Succeeded(noodles), Next::Start(serve, 0)]
        );
        assert_eq!(
            see(&mut progress, serve, 0, Some(0)),
            [
                Next::Succeeded(serve),
                Next::Succeeded(id("thank")),
                Next::Ended(Ending::Succeeded)
            ]
        );
        assert_eq!(
            see(&mut burnt, sauce, 0, Some(1)),
            [
                Next::Failed(sauce),
                Next::Skipped(serve, sauce),
                Next::Skipped(id("thank"), serve)
            ]
        );
        see(&mut burnt, noodles, 0, Some(0));
        assert_eq!(
            see(&mut burnt, noodles, 1, Some(0)),
            [Next::Succeeded(noodles), Next::Ended(Ending::Failed)]
        );
        assert_eq!(burnt.phase(serve), JobPhase::Skipped);
    }
}
