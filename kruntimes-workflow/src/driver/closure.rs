//! Steps as a function: for tests and for work that blocks anyway.

use std::collections::{BTreeSet, VecDeque};

use super::{End, Executor, Launch, NeverFails, News};

/// Runs every step by calling a function, one after the other.
pub struct Closure<F> {
    function: F,
    waiting: VecDeque<Launch>,
    cancelled: BTreeSet<String>,
}

impl<F: FnMut(&Launch) -> End> Closure<F> {
    /// Takes the function.
    pub fn new(function: F) -> Self {
        Self {
            function,
            waiting: VecDeque::new(),
            cancelled: BTreeSet::new(),
        }
    }
}

impl<F: FnMut(&Launch) -> End> Executor for Closure<F> {
    type Error = NeverFails;

    fn start(&mut self, launch: &Launch) -> Result<(), NeverFails> {
        self.waiting.push_back(launch.clone());
        Ok(())
    }

    fn cancel(&mut self, run: &str) -> Result<(), NeverFails> {
        self.cancelled.insert(run.to_owned());
        Ok(())
    }

    fn wait(&mut self) -> Result<News, NeverFails> {
        let Some(launch) = self.waiting.pop_front() else {
            return Ok(News::CancelRequested);
        };
        let end = if self.cancelled.contains(&launch.name) {
            End::cancelled()
        } else {
            (self.function)(&launch)
        };
        let run = launch.name;
        Ok(News::Ended { run, end })
    }
}
