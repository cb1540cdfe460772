//! A Runtime Server of one's own in a few lines: a [`Handler`] and [`serve`].
//!
//! The handler does the work in the process of the server. Ids, repeated calls, time limits, cancels, capped
//! outputs, events, the socket and the end of the server are the kit's. A language whose programs are processes
//! implements [`Adapter`] instead and goes through [`Supervisor`].
//!
//! ```no_run
//! use kruntimes_runtime::kit::{Failure, Handler, Job, Options, serve};
//!
//! struct Shout;
//!
//! #[async_trait::async_trait]
//! impl Handler for Shout {
//!     async fn run(&self, job: Job) -> Result<(), Failure> {
//!         job.stdout.write(job.text()?.to_uppercase());
//!         Ok(())
//!     }
//! }
//!
//! # async fn doc() -> Result<(), kruntimes_runtime::server::ServeError> {
//! serve("127.0.0.1:9091", Shout, Options::default()).await
//! # }
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use kruntimes_proto::ExecuteRequest;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::adapter::{Adapter, Manners, Plan, Refusal};
use crate::directory::entrypoint;
use crate::server::{Listener, ServeError, rooted, serve_supervisor};
use crate::supervisor::{self, Supervisor};
use crate::work::Work;

pub use crate::work::{Failure, Output};

/// Does what Runs of a Runtime ask for, inside the process of the server.
#[async_trait]
pub trait Handler: Send + Sync + 'static {
    /// Does one job to its end.
    ///
    /// When `job.stop` is cancelled the result is decided already, and the future is dropped after the grace
    /// period. Blocking work belongs on a thread of its own ([`tokio::task::spawn_blocking`]) which looks at
    /// `job.stop` and holds an [`Output`]: the job has ended when that is dropped.
    ///
    /// # Errors
    ///
    /// [`Failure`] makes the execution `FAILED`, with this exit code and message.
    async fn run(&self, job: Job) -> Result<(), Failure>;

    /// Refuses requests that can never be done, before anything begins.
    ///
    /// # Errors
    ///
    /// [`Refusal`] is answered as an invalid argument.
    fn check(&self, request: &ExecuteRequest) -> Result<(), Refusal> {
        let _ = request;
        Ok(())
    }
}

/// One request under way.
#[derive(Debug)]
pub struct Job {
    /// What was asked for. Its environment is not that of this process: look names up here.
    pub request: ExecuteRequest,
    /// Working directory; it exists and lies below the work root.
    pub directory: PathBuf,
    /// The file that the entrypoint names (`script` when it is empty), if there is one.
    pub file: Option<PathBuf>,
    /// Standard output.
    pub stdout: Output,
    /// Standard error.
    pub stderr: Output,
    /// Cancelled when the job is to end.
    pub stop: CancellationToken,
}

impl Job {
    /// Reads the program: the file of the entrypoint, else the arguments as lines.
    ///
    /// # Errors
    ///
    /// Fails when there is neither, or the file is no text.
    pub fn text(&self) -> Result<String, Failure> {
        match &self.file {
            Some(file) => std::fs::read_to_string(file).map_err(|error| {
                Failure::new(format!("read {}: {error}", self.request.entrypoint))
            }),
            None if self.request.args.is_empty() => Err(Failure::new("no script or args provided")),
            None => Ok(self.request.args.join("\n")),
        }
    }
}

/// Sets up a server.
#[derive(Clone, Debug)]
pub struct Options {
    /// Working directories must lie below it (N-226).
    pub work_dir: PathBuf,
    /// How long a job may go on after it was told to stop (N-219).
    pub termination_grace: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            work_dir: PathBuf::from("/workspace"),
            termination_grace: supervisor::Options::default().termination_grace,
        }
    }
}

/// Makes the executions of a handler, without any socket; for tests, and for engines in the same process.
///
/// # Errors
///
/// Fails when the work root cannot be opened.
///
/// # Panics
///
/// Panics outside a tokio runtime.
pub fn supervisor(handler: impl Handler, options: &Options) -> Result<Supervisor, ServeError> {
    let supervised = supervisor::Options {
        termination_grace: options.termination_grace,
        records: None,
    };
    rooted(Handled(Arc::new(handler)), &options.work_dir, supervised)
}

/// Serves a handler on `unix:PATH` or `ADDRESS:PORT` until SIGTERM or SIGINT.
///
/// # Errors
///
/// [`ServeError`] when the server cannot start or breaks down.
///
/// # Panics
///
/// Panics outside a tokio runtime.
pub async fn serve(
    endpoint: &str,
    handler: impl Handler,
    options: Options,
) -> Result<(), ServeError> {
    let shutdown = CancellationToken::new();
    let mut terminate = signal(SignalKind::terminate()).map_err(ServeError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(ServeError::Signals)?;
    let supervisor = supervisor(handler, &options)?;
    let listener = match endpoint.strip_prefix("unix:") {
        Some(path) => Listener::unix(Path::new(path))?,
        None => Listener::tcp(endpoint).await?,
    };
    tracing::info!(endpoint = listener.endpoint(), "serving");
    let mut serving = Box::pin(serve_supervisor(listener, supervisor, shutdown.clone()));
    tokio::select! {
        end = &mut serving => return end,
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    shutdown.cancel();
    serving.await
}

/// A handler as what the supervisor asks.
struct Handled<H>(Arc<H>);

impl<H: Handler> Adapter for Handled<H> {
    fn plan(&self, request: &ExecuteRequest, directory: &Path) -> Result<Plan, Refusal> {
        self.0.check(request)?;
        let file = entrypoint(&request.entrypoint, directory)?;
        let (handler, request) = (Arc::clone(&self.0), request.clone());
        let directory = directory.to_owned();
        Ok(Plan::Work(Work::new(move |desk| async move {
            let job = Job {
                request,
                directory,
                file,
                stdout: desk.stdout,
                stderr: desk.stderr,
                stop: desk.stop,
            };
            handler.run(job).await
        })))
    }

    fn manners(&self) -> Manners {
        Manners::Keep
    }
}
