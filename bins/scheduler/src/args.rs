//! Flags of the scheduler, and the process around it.

use std::error::Error;
use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::Parser;
use kruntimes_core::duration::Duration;
use kruntimes_k8s::clock::Clock;
use kruntimes_k8s::lease;
use kruntimes_k8s::scheduler::Config;
use kruntimes_k8s::serve::{Address, Addresses};
use tracing_subscriber::EnvFilter;

/// Name of the Lease, unless another one is given.
const LEASE: &str = "kruntimes-scheduler.kruntimes.com";

/// What is running, for the metrics.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// From which commit it was built, if whoever built it said so.
pub(crate) const COMMIT: &str = match option_env!("KRUNTIMES_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

const EXAMPLES: &str = "\
Examples:
  scheduler                                  serve every namespace of the current cluster
  scheduler --namespace ci                   serve one namespace
  scheduler --heartbeat-staleness 30s        tolerate slow heartbeats
  scheduler --leader-elect                   one of several replicas
  scheduler --metrics-bind-address 0         no metrics
  scheduler --health-probe-bind-address 127.0.0.1:9081
                                             probes from this machine only
  RUST_LOG=kruntimes_k8s=debug scheduler     say more

The cluster is taken from KUBECONFIG, ~/.kube/config, or the Pod's own service
account, in this order. Run one scheduler per cluster, or several with
--leader-elect: then one of them works at a time, and all of them answer
/metrics, /healthz and /readyz.";

/// Places kruntimes Runs onto warm Runtime Pods.
#[derive(Debug, Parser)]
#[command(name = "scheduler", version, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Namespace to serve; every namespace when absent
    #[arg(long, env = "KRUNTIMES_NAMESPACE", value_name = "NAME")]
    namespace: Option<String>,

    /// Age from which the heartbeat of a Runtime Pod is stale, such as 15s
    #[arg(long, default_value = "15s", value_name = "DURATION")]
    heartbeat_staleness: Duration,

    /// Work only while holding a Lease, so that several replicas can run
    #[arg(long)]
    leader_elect: bool,

    /// Namespace of the Lease; that of the service account or the kubeconfig when absent
    #[arg(long, value_name = "NAME", requires = "leader_elect")]
    leader_elect_namespace: Option<String>,

    /// Name of the Lease
    #[arg(long, default_value = LEASE, value_name = "NAME")]
    leader_elect_name: String,

    /// Address of /metrics, such as :8080 or 127.0.0.1:8080; 0 for none
    #[arg(long, default_value = ":8080", value_name = "ADDRESS")]
    metrics_bind_address: Address,

    /// Address of /healthz and /readyz; 0 for none
    #[arg(long, default_value = ":8081", value_name = "ADDRESS")]
    health_probe_bind_address: Address,

    /// Status writes in flight at once
    #[arg(long, default_value_t = 8, value_name = "COUNT", value_parser = workers)]
    workers: usize,
}

impl Args {
    /// Returns which Lease to hold, if one is asked for; `default` is the namespace of the client.
    pub(crate) fn lease(&self, default: &str, clock: &Clock) -> Option<lease::Config> {
        let namespace = self.leader_elect_namespace.as_deref().unwrap_or(default);
        let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "scheduler".to_owned());
        // Two processes of one host do not start in the same nanosecond with the same number.
        let start = clock.now().as_nanosecond();
        let identity = format!("{host}_{}_{start:x}", std::process::id());
        self.leader_elect
            .then(|| lease::Config::new(namespace, &self.leader_elect_name, identity))
    }

    /// Returns where to answer requests.
    pub(crate) fn addresses(&self) -> Addresses {
        Addresses {
            metrics: self.metrics_bind_address.clone(),
            probes: self.health_probe_bind_address.clone(),
        }
    }

    /// Returns the namespace to serve, if it is not every one.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    pub(crate) fn into_config(self) -> Config {
        Config {
            namespace: self.namespace,
            heartbeat_staleness: self.heartbeat_staleness,
            workers: self.workers,
            ..Config::default()
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
        let line = "scheduler --namespace ci --heartbeat-staleness 1m30s --workers 2";
        let config = Args::parse_from(line.split(' ')).into_config();
        assert_eq!(config.namespace.as_deref(), Some("ci"));
        assert_eq!(config.heartbeat_staleness, Duration::from_secs(90));
        assert_eq!(config.workers, 2);
        let defaults = Args::parse_from(["scheduler"]).into_config();
        assert_eq!(defaults.heartbeat_staleness, Duration::from_secs(15));
    }

    #[test]
    fn c_103_a_lease_is_held_only_on_request() {
        let clock = Clock::system();
        let lease = |line: &str| Args::parse_from(line.split(' ')).lease("home", &clock);
        assert_eq!(lease("scheduler"), None);
        let held = lease("scheduler --leader-elect").unwrap();
        assert_eq!(
            (held.namespace.as_str(), held.name.as_str()),
            ("home", LEASE)
        );
        let named = "scheduler --leader-elect --leader-elect-namespace ns --leader-elect-name l";
        let held = lease(named).unwrap();
        assert_eq!((held.namespace.as_str(), held.name.as_str()), ("ns", "l"));
    }

    #[test]
    fn c_103_c_126_metrics_and_probes_have_their_ports_unless_switched_off() {
        let told = |line: &str| {
            let addresses = Args::parse_from(line.split(' ')).addresses();
            (addresses.metrics.to_string(), addresses.probes.to_string())
        };
        assert_eq!(told("scheduler"), (":8080".into(), ":8081".into()));
        let line = "scheduler --metrics-bind-address 0 --health-probe-bind-address [::1]:1";
        assert_eq!(told(line), ("0".into(), "[::1]:1".into()));
        let refused = Args::try_parse_from(["scheduler", "--metrics-bind-address", "8080"]);
        let told = refused.unwrap_err().to_string();
        assert!(told.contains("--metrics-bind-address"), "{told}");
        assert!(told.contains("an address such as :8080"), "{told}");
    }

    #[test]
    fn senseless_values_are_refused() {
        for line in [
            "scheduler --workers 0",
            "scheduler --workers x",
            "scheduler --heartbeat-staleness soon",
            "scheduler --unknown",
        ] {
            assert!(Args::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
    }
}
