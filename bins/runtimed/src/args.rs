//! Flags and environment of runtimed, and the process around it.

use std::error::Error;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use kruntimes_node::{Config, NodeDirs};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

const EXAMPLES: &str = "\
Examples:
  runtimed --runtime-name bash                       serve the Pod it runs in
  runtimed --runtime-name bash --workers 8           hold eight Runs at once
  runtimed --runtime-endpoint unix:/run/bash.sock    reach the Runtime Server by a unix socket

Execution output goes to standard output, one JSON object per line, and nothing
else does; diagnostics go to standard error, filtered by RUST_LOG.

Flags of artifact stores, of the metrics, health and status listeners and of the
gateway are refused: this build has none of them yet.";

/// Claims Runs of its own Pod and has the local Runtime Server execute them.
///
/// Stops on SIGTERM and SIGINT: claims nothing new and waits up to twenty
/// seconds for tasks that are about to end.
#[derive(Debug, Parser)]
#[command(name = "runtimed", version, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Local Runtime Server: `host:port` or `unix:/path`
    #[arg(long, default_value = "localhost:9091", value_name = "ENDPOINT")]
    pub(crate) runtime_endpoint: String,

    /// Runtime this Pod belongs to
    #[arg(long, default_value = "", value_name = "NAME")]
    runtime_name: String,

    /// Runs held at once; values below one mean one
    #[arg(
        long,
        default_value_t = 2,
        value_name = "COUNT",
        allow_negative_numbers = true
    )]
    workers: i64,

    /// Workspace root, under which the Runtime Server sees the same files
    #[arg(long, default_value = "/workspace", value_name = "PATH")]
    work_dir: PathBuf,

    /// Name of the Pod; the host name when absent
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pod_name: Option<String>,

    /// Namespace of the Pod
    #[arg(
        long,
        env = "POD_NAMESPACE",
        default_value = "default",
        value_name = "NAME"
    )]
    pod_namespace: String,

    /// UID of the Pod; read from the API when absent
    #[arg(long, env = "POD_UID", value_name = "UID")]
    pod_uid: Option<String>,
}

impl Args {
    pub(crate) fn config(&self) -> Config {
        let pod_name = self.pod_name.clone().unwrap_or_else(host_name);
        Config {
            pod_uid: self.pod_uid.clone().filter(|uid| !uid.is_empty()),
            runtime: self.runtime_name.clone(),
            workers: self.workers,
            ..Config::new(&self.pod_namespace, &pod_name)
        }
    }

    pub(crate) fn files(&self) -> NodeDirs {
        NodeDirs::new(&self.work_dir)
    }
}

/// Reads the host name, which in a Pod is the name of the Pod; empty when there is none.
fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map(|name| name.trim().to_owned())
        .unwrap_or_default()
}

/// Sends diagnostics to standard error; `RUST_LOG` chooses what is said, `info` by default.
pub(crate) fn set_up_logs() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
}

/// Reports an error with its causes.
pub(crate) fn failed(what: &str, error: &(dyn Error + 'static)) -> ExitCode {
    let causes = std::iter::successors(Some(error), |error| Error::source(*error));
    let told: Vec<String> = causes.map(ToString::to_string).collect();
    tracing::error!(cause = told.join(": "), "{what}");
    ExitCode::FAILURE
}

/// Returns a token that an interrupt or a request to terminate cancels.
pub(crate) fn stop_signals() -> CancellationToken {
    let token = CancellationToken::new();
    let stop = token.clone();
    tokio::spawn(async move {
        match signal(SignalKind::terminate()) {
            Ok(mut terminate) => {
                tokio::select! {
                    _ = tokio::signal::ctrl_c() => {}
                    _ = terminate.recv() => {}
                }
            }
            // Without the handler the system ends the process by itself.
            Err(_) => drop(tokio::signal::ctrl_c().await),
        }
        stop.cancel();
    });
    token
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn flags_become_the_configuration() {
        let line =
            "runtimed --runtime-name bash --workers -1 --pod-name p --pod-namespace ci --pod-uid u";
        let args = Args::parse_from(line.split(' '));
        let config = args.config();
        assert_eq!((&*config.namespace, &*config.pod_name), ("ci", "p"));
        assert_eq!(config.pod_uid.as_deref(), Some("u"));
        assert_eq!((&*config.runtime, config.workers), ("bash", -1));
        assert_eq!(args.files(), NodeDirs::default());
    }

    #[test]
    fn flags_of_what_is_missing_are_refused() {
        for flag in [
            "--artifact-store-driver=s3",
            "--status-addr=:9093",
            "--gateway-url=x",
        ] {
            assert!(Args::try_parse_from(["runtimed", flag]).is_err(), "{flag}");
        }
    }
}
