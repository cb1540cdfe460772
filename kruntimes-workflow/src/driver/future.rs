//! The same loop with futures. It needs no particular runtime and spawns nothing.
//!
//! Dropping the future of [`run`] at any point loses nothing that was stored:
//! running again goes on from there.

use std::future::Future;

use kruntimes_core::api::{ActionSpec, WorkflowSpec};
use kruntimes_core::time::Time;

use super::{Attached, Command, Error, Execution, Interrupted, Launch, News, Session};

/// Runs steps; the methods mean what those of [`super::Executor`] mean.
pub trait Executor: Send {
    /// Why nothing can be run at all.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Begins a step.
    fn start(&mut self, launch: &Launch) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Looks for a step that was under way when the process ended.
    fn attach(
        &mut self,
        _launch: &Launch,
    ) -> impl Future<Output = Result<Attached, Self::Error>> + Send {
        std::future::ready(Ok(Attached::Gone))
    }

    /// Asks a step to end.
    fn cancel(&mut self, run: &str) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Waits until something happens.
    fn wait(&mut self) -> impl Future<Output = Result<News, Self::Error>> + Send;

    /// Waits until something happens, at most until a deadline passes.
    fn wait_until(
        &mut self,
        _deadline: Time,
    ) -> impl Future<Output = Result<Option<News>, Self::Error>> + Send {
        async { self.wait().await.map(Some) }
    }
}

/// Knows reusable definitions; the methods mean what those of [`super::Source`] mean.
pub trait Source: Send {
    /// Why it cannot be asked.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Reads a Workflow.
    fn workflow(
        &mut self,
        name: &str,
    ) -> impl Future<Output = Result<Option<WorkflowSpec>, Self::Error>> + Send;

    /// Reads an Action.
    fn action(
        &mut self,
        name: &str,
    ) -> impl Future<Output = Result<Option<ActionSpec>, Self::Error>> + Send;
}

/// Keeps states; the methods mean what those of [`super::Store`] mean.
pub trait Store: Send {
    /// Why it does not work.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Returns what was last saved under a name.
    fn load(
        &mut self,
        name: &str,
    ) -> impl Future<Output = Result<Option<String>, Self::Error>> + Send;

    /// Saves a state for good.
    fn save(
        &mut self,
        name: &str,
        text: &str,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// Drives a stored execution to its end, from wherever it is.
///
/// # Errors
///
/// Fails when there is no such execution or when a part fails. The state stays
/// stored and can be run again.
pub async fn run(
    name: &str,
    executor: &mut impl Executor,
    source: &mut impl Source,
    store: &mut impl Store,
    interrupted: Interrupted,
    mut clock: impl FnMut() -> Time + Send,
) -> Result<Execution, Error> {
    let text = store.load(name).await.map_err(Error::store)?;
    let text = text.ok_or_else(|| Error::Unknown(name.to_owned()))?;
    let mut session = Session::new(Execution::from_json(&text)?, interrupted);
    loop {
        match session.next(clock())? {
            Command::Save { name, text } => {
                store.save(&name, &text).await.map_err(Error::store)?;
            }
            Command::Load(name) => {
                let text = store.load(&name).await.map_err(Error::store)?;
                session.loaded(&name, text.as_deref())?;
            }
            Command::ReadWorkflow(name) => {
                let found = source.workflow(&name).await.map_err(Error::source)?;
                session.workflow(&name, found);
            }
            Command::ReadAction(name) => {
                let found = source.action(&name).await.map_err(Error::source)?;
                session.action(&name, found);
            }
            Command::Attach(launch) => {
                let found = executor.attach(&launch).await.map_err(Error::executor)?;
                session.attached(&launch.name, found);
            }
            Command::Start(launch) => executor.start(&launch).await.map_err(Error::executor)?,
            Command::Cancel(run) => executor.cancel(&run).await.map_err(Error::executor)?,
            Command::Wait => session.tell(executor.wait().await.map_err(Error::executor)?),
            Command::WaitUntil(deadline) => {
                let news = executor.wait_until(deadline).await;
                if let Some(news) = news.map_err(Error::executor)? {
                    session.tell(news);
                }
            }
            Command::Done => return Ok(session.into_execution()),
        }
    }
}
