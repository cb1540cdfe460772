//! Flags and environment of runtimed, and the process around it.

mod artifacts;

use std::error::Error;
use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use kruntimes_k8s::serve::{Address, Addresses};
use kruntimes_node::{Artifacts, Config, GitTool, NodeDirs, SettingsError};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use artifacts::ArtifactArgs;

/// What is running, for the metrics.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// From which commit it was built, if whoever built it said so.
pub(crate) const COMMIT: &str = match option_env!("KRUNTIMES_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

const EXAMPLES: &str = "\
Examples:
  runtimed --runtime-name bash                       serve the Pod it runs in
  runtimed --runtime-name bash --workers 8           hold eight Runs at once
  runtimed --runtime-endpoint unix:/run/bash.sock    reach the Runtime Server by a unix socket
  runtimed --runtime-name bash --artifact-store-driver s3 --artifact-s3-bucket builds
                                                     keep artifacts in a bucket

Execution output goes to standard output, one JSON object per line, and nothing
else does; diagnostics go to standard error, filtered by RUST_LOG.

Flags of the gateway are refused: this build has none yet.

The keys of an S3 store are found as AWS clients find them: AWS_ACCESS_KEY_ID and
AWS_SECRET_ACCESS_KEY, a web identity, or the role of the machine.

Git sources are fetched by the git program. It is given the proxy variables of
this process, GIT_SSL_CAINFO, and nothing else.";

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

    /// Address for other components of the cluster, such as :9093; 0 for none
    #[arg(long, default_value = ":9093", value_name = "ADDRESS")]
    status_addr: Address,

    /// Address of /metrics, such as :9090 or 127.0.0.1:9090; 0 for none
    #[arg(long, default_value = ":9090", value_name = "ADDRESS")]
    metrics_bind_address: Address,

    /// Address of /healthz and /readyz; 0 for none
    #[arg(long, default_value = ":9094", value_name = "ADDRESS")]
    health_probe_bind_address: Address,

    #[command(flatten)]
    artifacts: ArtifactArgs,

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
            git: GitTool {
                env: network_variables(),
                ..GitTool::default()
            },
            ..Config::new(&self.pod_namespace, &pod_name)
        }
    }

    /// Makes the artifact store, if there is one.
    pub(crate) fn artifacts(&self) -> Result<Option<Artifacts>, SettingsError> {
        self.artifacts.settings().open(&self.runtime_name)
    }

    /// Takes the status address, if there is one.
    pub(crate) async fn status_listener(&self) -> io::Result<Option<TcpListener>> {
        self.status_addr.listen().await
    }

    /// Returns where metrics and probes are answered.
    pub(crate) fn addresses(&self) -> Addresses {
        Addresses {
            metrics: self.metrics_bind_address.clone(),
            probes: self.health_probe_bind_address.clone(),
        }
    }

    pub(crate) fn files(&self) -> NodeDirs {
        NodeDirs::new(&self.work_dir)
    }
}

/// Reads what git needs to know of the network around it.
fn network_variables() -> Vec<(OsString, OsString)> {
    const PROXIES: [&str; 4] = ["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"];
    let lower = PROXIES.map(str::to_lowercase);
    let names = PROXIES.into_iter().chain(lower.iter().map(String::as_str));
    names
        .chain(["GIT_SSL_CAINFO"])
        .filter_map(|name| Some((name.into(), std::env::var_os(name)?)))
        .collect()
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
        for flag in ["--status-addr=9093", "--gateway-url=x"] {
            assert!(Args::try_parse_from(["runtimed", flag]).is_err(), "{flag}");
        }
    }

    #[tokio::test]
    async fn n_19_a_store_that_cannot_work_is_named() {
        let args = |line: &str| Args::parse_from(format!("runtimed {line}").split(' '));
        let missing = args("--artifact-store-driver filesystem --runtime-name bash");
        let error = missing.artifacts().unwrap_err().to_string();
        assert!(error.starts_with("--artifact-store-root"), "{error}");
        let s3 = args("--artifact-store-driver s3 --runtime-name bash");
        let error = s3.artifacts().unwrap_err().to_string();
        assert!(error.starts_with("--artifact-s3-bucket"), "{error}");
        let good = args(
            "--artifact-store-driver filesystem --artifact-store-root /a --artifact-volume-claim c --runtime-name bash",
        );
        assert!(good.artifacts().unwrap().is_some());
        assert!(args("--workers 2").artifacts().unwrap().is_none());
        let negative = args("--max-artifact-bytes -1");
        assert!(negative.artifacts().is_err());
    }

    #[test]
    fn c_126_c_132_metrics_and_health_have_their_ports_unless_switched_off() {
        let told = |line: &str| {
            let addresses = Args::parse_from(line.split(' ')).addresses();
            (addresses.metrics.to_string(), addresses.probes.to_string())
        };
        assert_eq!(told("runtimed"), (":9090".into(), ":9094".into()));
        let off = "runtimed --metrics-bind-address 0 --health-probe-bind-address 127.0.0.1:1";
        assert_eq!(told(off), ("0".into(), "127.0.0.1:1".into()));
    }

    #[tokio::test]
    async fn the_status_address_is_taken_or_off() {
        let args = |address: &str| Args::parse_from(["runtimed", "--status-addr", address]);
        let listener = args("127.0.0.1:0").status_listener().await.unwrap();
        assert!(listener.is_some());
        assert!(args(":0").status_listener().await.unwrap().is_some());
        assert!(args("0").status_listener().await.unwrap().is_none());
    }
}
