//! Flags of the controller, and the process around it.

use std::error::Error;
use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::Parser;
use kruntimes_core::duration::Duration;
use kruntimes_k8s::clock::Clock;
use kruntimes_k8s::serve::{Address, Addresses, Registry};
use kruntimes_k8s::workflow::{Extensions, Policy};
use kruntimes_k8s::{cleanup, definitions, lease, pool, runtime, workflow};
use tracing_subscriber::EnvFilter;

/// Name of the Lease, unless another one is given (N-244).
const LEASE: &str = "kruntimes-controller.kruntimes.com";

/// What is running, for the metrics.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// From which commit it was built, if whoever built it said so.
pub(crate) const COMMIT: &str = match option_env!("KRUNTIMES_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

const EXAMPLES: &str = "\
Examples:
  controller                                  serve every namespace of the current cluster
  controller --namespace ci                   serve one namespace
  controller --workflow-workers 16            run more WorkflowRuns at once
  controller --stale-threshold 60s            be patient with Pods that are silent
  controller --workflow-extensions conditions,matrix
                                              accept more than the built-in workflows
  controller --leader-elect                   one of several replicas
  controller --metrics-bind-address 0         no metrics
  controller --health-probe-bind-address 127.0.0.1:9083
                                              probes from this machine only
  RUST_LOG=kruntimes_k8s=debug controller     say more

The cluster is taken from KUBECONFIG, ~/.kube/config, or the Pod's own service
account, in this order. Run one controller per cluster, or several with
--leader-elect: then one of them works at a time.";

/// Keeps Runtimes and PersistentWorkspaces, runs WorkflowRuns, judges Workflows and
/// Actions, moves Runs off lost Pods, and deletes Runs whose time is over.
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

    /// What workflows may use beyond the built-in API, such as conditions,matrix; `all` for everything
    #[arg(
        long,
        env = "KRUNTIMES_WORKFLOW_EXTENSIONS",
        default_value = "",
        hide_default_value = true,
        value_name = "LIST"
    )]
    workflow_extensions: Extensions,

    /// Image of the sidecar where a Runtime names none
    #[arg(long, value_name = "IMAGE")]
    default_daemon_image: Option<String>,

    /// ServiceAccount of Runtime Pods whose template names none
    #[arg(long, value_name = "NAME")]
    runtimed_service_account_name: Option<String>,

    /// Namespace of the gateway; nobody else from outside of a Runtime reaches its Pods
    #[arg(long, value_name = "NAME")]
    gateway_namespace: Option<String>,

    /// Workspaces, lost Runs and expired Runs reconciled at once, each
    #[arg(long, default_value_t = 4, value_name = "COUNT", value_parser = workers)]
    pool_workers: usize,

    /// How long a Pod may be not ready or silent before its Runs are moved or ended, such as 30s
    #[arg(long, default_value = "30s", value_name = "DURATION")]
    stale_threshold: Duration,

    /// Age from which the heartbeat of a Pod is too old to bind a workspace to it, such as 15s
    #[arg(long, default_value = "15s", value_name = "DURATION")]
    heartbeat_staleness: Duration,

    /// Image of the maintainers that remove the artifacts of deleted Runs
    #[arg(long, value_name = "IMAGE")]
    runtime_maintainer_image: Option<String>,

    /// Secrets that image is pulled with
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    runtime_maintainer_image_pull_secrets: Vec<String>,

    /// Work only while holding a Lease, so that several replicas can run
    #[arg(long)]
    leader_elect: bool,

    /// Namespace of the Lease; that of the service account or the kubeconfig when absent
    #[arg(long, value_name = "NAME", requires = "leader_elect")]
    leader_elect_namespace: Option<String>,

    /// Name of the Lease
    #[arg(long, default_value = LEASE, value_name = "NAME")]
    leader_elect_name: String,

    /// Address of /metrics, such as :8082 or 127.0.0.1:8082; 0 for none
    #[arg(long, default_value = ":8082", value_name = "ADDRESS")]
    metrics_bind_address: Address,

    /// Address of /healthz and /readyz; 0 for none
    #[arg(long, default_value = ":8083", value_name = "ADDRESS")]
    health_probe_bind_address: Address,
}

/// What each controller is told.
#[derive(Debug)]
pub(crate) struct Configs {
    pub(crate) runtime: runtime::Config,
    pub(crate) definitions: definitions::Config,
    pub(crate) workflow: workflow::Config,
    pub(crate) pool: pool::Config,
}

impl Args {
    /// Returns which Lease to hold, if one is asked for; `default` is the namespace of the client.
    pub(crate) fn lease(&self, default: &str, clock: &Clock) -> Option<lease::Config> {
        let namespace = self.leader_elect_namespace.as_deref().unwrap_or(default);
        let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "controller".to_owned());
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

    pub(crate) fn into_config(self, registry: &Registry) -> Configs {
        let defaults = runtime::Defaults::default();
        let mut policy = Policy::default();
        policy.extensions.clone_from(&self.workflow_extensions);
        Configs {
            runtime: runtime::Config {
                namespace: self.namespace.clone(),
                workers: self.runtime_workers,
                defaults: runtime::Defaults {
                    daemon_image: self.default_daemon_image.unwrap_or(defaults.daemon_image),
                    service_account: self
                        .runtimed_service_account_name
                        .unwrap_or(defaults.service_account),
                    gateway_namespace: self.gateway_namespace,
                },
            },
            definitions: definitions::Config {
                namespace: self.namespace.clone(),
                extensions: self.workflow_extensions.clone(),
                ..definitions::Config::default()
            },
            workflow: workflow::Config {
                namespace: self.namespace.clone(),
                workers: self.workflow_workers,
                policy,
                ..workflow::Config::default()
            },
            pool: pool::Config {
                namespace: self.namespace,
                workers: self.pool_workers,
                stale_threshold: self.stale_threshold,
                heartbeat_staleness: self.heartbeat_staleness,
                maintainer: Some(cleanup::Image {
                    name: self
                        .runtime_maintainer_image
                        .unwrap_or(cleanup::Image::default().name),
                    pull_secrets: self.runtime_maintainer_image_pull_secrets,
                }),
                registry: registry.clone(),
                ..pool::Config::default()
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
        let line = "controller --namespace ci --runtime-workers 2 --workflow-workers 3 \
                    --stale-threshold 1m --pool-workers 5 --default-daemon-image daemon:1 \
                    --runtimed-service-account-name runner --gateway-namespace edge \
                    --runtime-maintainer-image keep:1 --runtime-maintainer-image-pull-secrets a,b";
        let configs = Args::parse_from(line.split(' ')).into_config(&Registry::new());
        for namespace in [
            &configs.runtime.namespace,
            &configs.definitions.namespace,
            &configs.workflow.namespace,
            &configs.pool.namespace,
        ] {
            assert_eq!(namespace.as_deref(), Some("ci"));
        }
        assert!(configs.workflow.policy.extensions.is_empty());
        assert_eq!((configs.runtime.workers, configs.workflow.workers), (2, 3));
        let defaults = &configs.runtime.defaults;
        assert_eq!(defaults.daemon_image, "daemon:1");
        assert_eq!(defaults.service_account, "runner");
        assert_eq!(defaults.gateway_namespace.as_deref(), Some("edge"));
        let maintainer = configs.pool.maintainer.unwrap();
        assert_eq!(maintainer.name, "keep:1", "C-103");
        assert_eq!(maintainer.pull_secrets, ["a", "b"]);
        assert_eq!(configs.pool.workers, 5);
        assert_eq!(configs.pool.stale_threshold, Duration::from_secs(60));
    }

    #[test]
    fn w_6_extensions_are_off_unless_named() {
        let line = "controller --workflow-extensions conditions,matrix";
        let configs = Args::parse_from(line.split(' ')).into_config(&Registry::new());
        let told = "conditions,matrix";
        assert_eq!(configs.workflow.policy.extensions.to_string(), told);
        assert_eq!(configs.definitions.extensions.to_string(), told);
    }

    #[tokio::test]
    async fn n_244_the_lease_has_its_fixed_name_unless_another_is_given() {
        let clock = Clock::system();
        let args = Args::parse_from(["controller"]);
        assert!(args.lease("system", &clock).is_none());
        let args = Args::parse_from(["controller", "--leader-elect"]);
        let lease = args.lease("system", &clock).unwrap();
        assert_eq!(lease.name, "kruntimes-controller.kruntimes.com");
        assert_eq!(lease.namespace, "system");
    }

    #[test]
    fn c_103_c_126_metrics_and_probes_have_their_ports_unless_switched_off() {
        let told = |line: &str| {
            let addresses = Args::parse_from(line.split(' ')).addresses();
            (addresses.metrics.to_string(), addresses.probes.to_string())
        };
        assert_eq!(told("controller"), (":8082".into(), ":8083".into()));
        let off = "controller --metrics-bind-address 0 --health-probe-bind-address 0";
        assert_eq!(told(off), ("0".into(), "0".into()));
    }

    #[test]
    fn senseless_values_are_refused() {
        for line in [
            "controller --workflow-workers 0",
            "controller --stale-threshold soon",
            "controller --unknown",
            "controller --workflow-extensions conditions,loops",
        ] {
            assert!(Args::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
    }
}
