//! Several executors in one process, chosen by what a job asks for (W-204).

use std::collections::BTreeMap;

use super::{Attached, Executor, Launch, News};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a step cannot be run by any executor.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// No executor serves the runtime.
    #[error("no executor serves runtime {}", kruntimes_core::message::quoted(.0))]
    Unserved(String),
    /// Nothing is under way, so that there is nothing to wait for.
    #[error("no step is under way")]
    Idle,
    /// The executor of a runtime failed.
    #[error("the executor of runtime {} failed", kruntimes_core::message::quoted(.runtime))]
    Executor {
        /// The runtime.
        runtime: String,
        /// What it says.
        source: BoxError,
    },
}

/// An executor whose error is no longer of a type of its own.
trait Boxed {
    fn start(&mut self, launch: &Launch) -> Result<(), BoxError>;
    fn attach(&mut self, launch: &Launch) -> Result<Attached, BoxError>;
    fn cancel(&mut self, run: &str) -> Result<(), BoxError>;
    fn wait(&mut self) -> Result<News, BoxError>;
}

impl<E: Executor> Boxed for E {
    fn start(&mut self, launch: &Launch) -> Result<(), BoxError> {
        Executor::start(self, launch).map_err(Into::into)
    }

    fn attach(&mut self, launch: &Launch) -> Result<Attached, BoxError> {
        Executor::attach(self, launch).map_err(Into::into)
    }

    fn cancel(&mut self, run: &str) -> Result<(), BoxError> {
        Executor::cancel(self, run).map_err(Into::into)
    }

    fn wait(&mut self) -> Result<News, BoxError> {
        Executor::wait(self).map_err(Into::into)
    }
}

/// Hands each step to the executor of its `runs-on`.
///
/// It waits for the executor whose step began first; what the others have to
/// tell is heard after that. Where that is too late, give them one way to tell.
#[derive(Default)]
pub struct ByRuntime {
    executors: BTreeMap<String, Box<dyn Boxed + Send>>,
    /// Steps under way and their runtime, in the order of their start.
    open: Vec<(String, String)>,
}

impl ByRuntime {
    /// Adds the executor of a runtime.
    pub fn with(mut self, runtime: &str, executor: impl Executor + Send + 'static) -> Self {
        self.executors
            .insert(runtime.to_owned(), Box::new(executor));
        self
    }

    fn of<T>(
        &mut self,
        runtime: &str,
        ask: impl FnOnce(&mut dyn Boxed) -> Result<T, BoxError>,
    ) -> Result<T, RouteError> {
        let Some(executor) = self.executors.get_mut(runtime) else {
            return Err(RouteError::Unserved(runtime.to_owned()));
        };
        ask(executor.as_mut()).map_err(|source| RouteError::Executor {
            runtime: runtime.to_owned(),
            source,
        })
    }
}

impl Executor for ByRuntime {
    type Error = RouteError;

    fn start(&mut self, launch: &Launch) -> Result<(), RouteError> {
        let runtime = launch.runs_on().to_owned();
        self.of(&runtime, |executor| executor.start(launch))?;
        self.open.push((launch.name.clone(), runtime));
        Ok(())
    }

    fn attach(&mut self, launch: &Launch) -> Result<Attached, RouteError> {
        let runtime = launch.runs_on().to_owned();
        let found = self.of(&runtime, |executor| executor.attach(launch))?;
        if found == Attached::Running {
            self.open.push((launch.name.clone(), runtime));
        }
        Ok(found)
    }

    fn cancel(&mut self, run: &str) -> Result<(), RouteError> {
        let found = self.open.iter().find(|(open, _)| open == run);
        let Some(runtime) = found.map(|(_, runtime)| runtime.clone()) else {
            return Ok(());
        };
        self.of(&runtime, |executor| executor.cancel(run))
    }

    fn wait(&mut self) -> Result<News, RouteError> {
        let runtime = self.open.first().map(|(_, runtime)| runtime.clone());
        let news = self.of(&runtime.ok_or(RouteError::Idle)?, |executor| {
            executor.wait()
        })?;
        if let News::Ended { run, .. } = &news {
            self.open.retain(|(open, _)| open != run);
        }
        Ok(news)
    }
}
