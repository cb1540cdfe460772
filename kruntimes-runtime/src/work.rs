//! Executions without a process: a future of the server, its outputs, its end.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kruntimes_proto::ExecutionState;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::capture::Capture;
use crate::run::{Run, Terms, Unfinished};

/// Does one execution inside the process of the server.
pub struct Work(Box<dyn FnOnce(Desk) -> Doing + Send>);

type Doing = BoxFuture<'static, Result<(), Failure>>;

impl Work {
    /// Makes work of a function that is called once the execution can be seen by callers.
    pub fn new<F>(work: impl FnOnce(Desk) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        Self(Box::new(move |desk| Box::pin(work(desk))))
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Work")
    }
}

/// Gives work its outputs and the sign to stop.
#[derive(Debug)]
pub struct Desk {
    /// Standard output.
    pub stdout: Output,
    /// Standard error.
    pub stderr: Output,
    /// Cancelled when the execution is to end; what goes on after the grace period is dropped.
    pub stop: CancellationToken,
}

/// Says how work failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// Told as the exit code; not 0.
    pub exit_code: i32,
    /// Told as the message of the execution.
    pub message: String,
}

impl Failure {
    /// Makes a failure with exit code 1.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            exit_code: 1,
            message: message.into(),
        }
    }
}

/// One output stream of work; the beginning is kept up to the usual limit, the rest is forgotten (N-222).
///
/// An execution has ended when its future is done **and** no clone of its outputs is left, so a thread
/// that holds one is waited for. Whoever keeps one for ever keeps the execution from its end.
#[derive(Clone)]
pub struct Output {
    run: Arc<Run>,
    stream: fn(&Run) -> &Capture,
    _lease: mpsc::Sender<Infallible>,
}

impl Output {
    /// Appends bytes; callers can read them at once.
    pub fn write(&self, bytes: impl AsRef<[u8]>) {
        if (self.stream)(&self.run).push(bytes.as_ref()) {
            self.run.tell_output();
        }
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Output")
    }
}

impl io::Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Self::write(self, bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Does the work until its end, ends it when asked, and records the result.
pub(crate) async fn drive(run: Arc<Run>, work: Work, terms: Terms, shutdown: CancellationToken) {
    let _record = Unfinished(Arc::clone(&run));
    let (lease, mut leases) = mpsc::channel(1);
    let output = |stream| Output {
        run: Arc::clone(&run),
        stream,
        _lease: lease.clone(),
    };
    let stop = CancellationToken::new();
    let desk = Desk {
        stdout: output(|run| &run.stdout),
        stderr: output(|run| &run.stderr),
        stop: stop.clone(),
    };
    drop(lease);
    // The work of one execution never takes the server down (N-217).
    let doing = async move { (work.0)(desk).await };
    let mut doing = Box::pin(AssertUnwindSafe(doing).catch_unwind());
    let end = tokio::select! {
        biased;
        end = &mut doing => Ok(end),
        why = run.stopped(terms, &shutdown) => Err(why),
    };
    if end.is_err() {
        stop.cancel();
        // How it ends now makes no difference: the server has asked for it.
        let _ = tokio::time::timeout(terms.grace, &mut doing).await;
    }
    drop(doing);
    while leases.recv().await.is_some() {}
    match end {
        Err(why) => run.conclude_stopped(why),
        Ok(Ok(Ok(()))) => run.conclude(ExecutionState::Succeeded, 0, String::new()),
        Ok(Ok(Err(failure))) => {
            // Zero would say the opposite of the state.
            let code = if failure.exit_code == 0 {
                1
            } else {
                failure.exit_code
            };
            run.conclude(ExecutionState::Failed, code, failure.message);
        }
        Ok(Err(_panic)) => run.fail("the work panicked".to_owned()),
    }
}
