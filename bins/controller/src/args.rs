//! Flags of the controller, and the process around it.

use std::error::Error;
use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::Parser;
use kruntimes_k8s::{definitions, runtime, workflow};
use tracing_subscriber::EnvFilter;

const EXAMPLES: &str = "\
Examples:
  controller                                  serve every namespace of the current cluster
  controller --namespace ci                   serve one namespace
  controller --workflow-workers 16            run more WorkflowRuns at once
  RUST_LOG=kruntimes_k8s=debug controller     say more

The cluster is taken from KUBECONFIG, ~/.kube/config, or the Pod's own service
account, in this order. Run exactly one controller per cluster.";

/// Keeps Runtimes, runs WorkflowRuns, and judges Workflows and Actions.
#[derive(Debug, Parser)]
#[command(name = "controller", version, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Namespace to serve; every namespace when absent
    #[arg(long, env = "KRUNTIMES_NAMESPACE", value_name = "NAME")]
    namespace: Option<String>,

    /// Runtimes reconciled at once
    #[arg(long, default_value_t = 4, value_name = "COUNT", value_parser = workers)]
    runtime_workers: usize,

    /// WorkflowRuns reconciled at once
    #[arg(long, default_value_t = 8, value_name = "COUNT", value_parser = workers)]
    workflow_workers: usize,
}

/// What each controller is told.
#[derive(Debug)]
pub(crate) struct Configs {
    pub(crate) runtime: runtime::Config,
    pub(crate) definitions: definitions::Config,
    pub(crate) workflow: workflow::Config,
}

impl Args {
    pub(crate) fn into_config(self) -> Configs {
        Configs {
            runtime: runtime::Config {
                namespace: self.namespace.clone(),
                workers: self.runtime_workers,
                ..runtime::Config::default()
            },
            definitions: definitions::Config {
                namespace: self.namespace.clone(),
                ..definitions::Config::default()
            },
            workflow: workflow::Config {
                namespace: self.namespace,
                workers: self.workflow_workers,
                ..workflow::Config::default()
            },
        }
    }
}

fn workers(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=1024) => Ok(count),
        Ok(_) | Err(_) => Err("expected a number from 1 to 1024".to_owned()),
    }
}

/// Sends logs to standard error; `RUST_LOG` chooses what is said, `info` by default.
pub(crate) fn set_up_logs() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
}

/// Reports an error with those of its causes that it does not repeat itself.
pub(crate) fn failed(what: &str, error: &(dyn Error + 'static)) -> ExitCode {
    let mut told = error.to_string();
    for cause in std::iter::successors(error.source(), |cause| Error::source(*cause)) {
        let cause = cause.to_string();
        if !told.contains(&cause) {
            told = format!("{told}: {cause}");
        }
    }
    tracing::error!(cause = told, "{what}");
    ExitCode::FAILURE
}

/// Waits for an interrupt or a request to terminate.
pub(crate) async fn asked_to_stop() {
    use tokio::signal::unix::{SignalKind, signal};

    let interrupt = tokio::signal::ctrl_c();
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        // Without the handler the system ends the process by itself.
        let _ = interrupt.await;
        return;
    };
    tokio::select! {
        _ = interrupt => {}
        _ = terminate.recv() => {}
    }
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
        let line = "controller --namespace ci --runtime-workers 2 --workflow-workers 3";
        let configs = Args::parse_from(line.split(' ')).into_config();
        for namespace in [
            &configs.runtime.namespace,
            &configs.definitions.namespace,
            &configs.workflow.namespace,
        ] {
            assert_eq!(namespace.as_deref(), Some("ci"));
        }
        assert_eq!((configs.runtime.workers, configs.workflow.workers), (2, 3));
    }

    #[test]
    fn senseless_values_are_refused() {
        for line in ["controller --workflow-workers 0", "controller --unknown"] {
            assert!(Args::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
    }
}
