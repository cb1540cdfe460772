//! Flags, logs, signals and exit codes of `runtime-server`.

use std::error::Error as _;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use kruntimes_runtime::server::{Listener, ServeError};
use kruntimes_runtime::{Supervisor, bash, python};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

const EXAMPLES: &str = "\
Examples:
  Serve Bash on the usual port, for the sidecar in the same Pod:
      runtime-server --language bash

  Serve Python, on its own usual port:
      runtime-server --language python

  Serve on a unix socket below another work root:
      runtime-server --language bash --socket /run/kruntimes/bash.sock --work-dir /srv/work

  Give programs ten seconds to clean up when they are stopped:
      runtime-server --language bash --termination-grace 10s";

/// Runs programs for a kruntimes sidecar, over gRPC.
///
/// Stops on SIGTERM and SIGINT, together with everything it runs, within five seconds.
#[derive(Debug, Parser)]
#[command(name = "runtime-server", version, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Language of the programs.
    #[arg(long, value_name = "LANGUAGE")]
    language: Language,

    /// Port to listen on; 9091 for bash and 9092 for python when absent.
    #[arg(long, conflicts_with = "socket")]
    port: Option<u16>,

    /// Address to listen on; the server asks nobody for a password, so think before you widen it.
    #[arg(long, default_value = "127.0.0.1", conflicts_with = "socket")]
    host: String,

    /// Unix socket to listen on instead of a port.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// Directory that working directories must lie in.
    #[arg(long, value_name = "PATH", default_value = "/workspace")]
    work_dir: PathBuf,

    /// Start an interpreter for each Python program, and keep none up to fork them from.
    #[arg(long)]
    no_warm: bool,

    /// Time between SIGTERM and SIGKILL for programs that are stopped.
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "2s",
        value_parser = duration,
        visible_alias = "session-termination-grace"
    )]
    termination_grace: Duration,

    /// The same in seconds.
    #[arg(long, value_name = "SECONDS", conflicts_with = "termination_grace")]
    session_termination_grace_seconds: Option<u32>,
}

/// Languages that are served.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Language {
    Bash,
    Python,
}

impl Language {
    fn port(self) -> u16 {
        match self {
            Self::Bash => 9091,
            Self::Python => 9092,
        }
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let parsed: kruntimes_core::duration::Duration = text
        .parse()
        .map_err(|error: kruntimes_core::duration::ParseDurationError| error.to_string())?;
    let nanos = u64::try_from(parsed.as_nanos()).map_err(|_| "a negative duration".to_owned())?;
    Ok(Duration::from_nanos(nanos))
}

impl Args {
    /// Reads the command line and sends logs to standard error, filtered by `RUST_LOG`.
    pub(crate) fn set_up_process() -> Self {
        let args = Self::parse();
        let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(io::stderr)
            .init();
        args
    }

    /// Makes what the flags describe.
    pub(crate) fn supervisor(&self) -> Result<Supervisor, ServeError> {
        let termination_grace = self
            .session_termination_grace_seconds
            .map_or(self.termination_grace, |seconds| {
                Duration::from_secs(seconds.into())
            });
        let work_dir = self.work_dir.clone();
        match self.language {
            Language::Bash => bash::Config {
                work_dir,
                termination_grace,
                ..bash::Config::default()
            }
            .supervisor(),
            Language::Python => python::Config {
                work_dir,
                termination_grace,
                warm: !self.no_warm,
                ..python::Config::default()
            }
            .supervisor(),
        }
    }

    /// Binds the socket or port.
    pub(crate) async fn listener(&self) -> Result<Listener, ServeError> {
        if let Some(path) = &self.socket {
            return Listener::unix(path);
        }
        let port = self.port.unwrap_or(self.language.port());
        Listener::tcp(&format!("{}:{port}", self.host)).await
    }
}

/// Returns a token that SIGTERM or SIGINT cancels.
pub(crate) fn stop_signals() -> io::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let token = CancellationToken::new();
    let stop = token.clone().drop_guard();
    tokio::spawn(async move {
        let _stop = stop;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    });
    Ok(token)
}

/// Prints the story of an error once and maps it to a code.
pub(crate) fn exit_code(end: Result<(), ServeError>) -> ExitCode {
    let Err(error) = end else {
        return ExitCode::SUCCESS;
    };
    let mut story = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        story = format!("{story}: {cause}");
        source = cause.source();
    }
    tracing::error!("{story}");
    ExitCode::FAILURE
}
