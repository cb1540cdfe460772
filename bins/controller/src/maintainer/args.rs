//! Flags of the maintainer, and the process around it.

use std::error::Error;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, ValueEnum};
use kruntimes_core::api::S3Store as S3Settings;
use kruntimes_k8s::serve::{Address, Addresses};
use kruntimes_node::{FilesystemStore, S3Store, SettingsError, Store};
use tracing_subscriber::EnvFilter;

/// What is running, for the metrics.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// From which commit it was built, if whoever built it said so.
pub(crate) const COMMIT: &str = match option_env!("KRUNTIMES_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

const EXAMPLES: &str = "\
Examples:
  runtime-maintainer --run-namespace ci --store-hash 8ec520a69bdef1d2 --driver filesystem \\
      --filesystem-root /store --filesystem-volume-claim artifacts
  runtime-maintainer --run-namespace ci --store-hash 9051bf6dbafddae5 --driver s3 \\
      --s3-bucket builds --s3-prefix team-a --run-uid 7d9f6c1e-5b8a-4a53-9a51-0f6f6f0c2b11

The controller makes a Deployment of this program for each store that deleted Runs wait
for. The keys of an S3 store are found as AWS clients find them.";

/// Removes the artifacts of deleted Runs from one store and lets the Runs go.
#[derive(Debug, Parser)]
#[command(name = "runtime-maintainer", version, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Namespace of the Runs
    #[arg(long, value_name = "NAME")]
    pub(crate) run_namespace: String,

    /// Hash of the settings that the Runs carry; others are left alone
    #[arg(long, value_name = "HASH")]
    pub(crate) store_hash: String,

    /// Kind of store
    #[arg(long, value_name = "DRIVER")]
    driver: Driver,

    /// Directory of a filesystem store
    #[arg(long, value_name = "PATH")]
    filesystem_root: Option<PathBuf>,

    /// Claim of the volume that directory is on
    #[arg(long, value_name = "NAME", default_value = "")]
    filesystem_volume_claim: String,

    /// Bucket of an S3 store
    #[arg(long, value_name = "NAME", default_value = "")]
    s3_bucket: String,

    /// What keys begin with
    #[arg(long, value_name = "PREFIX")]
    s3_prefix: Option<String>,

    /// Region of the bucket
    #[arg(long, value_name = "NAME")]
    s3_region: Option<String>,

    /// Address of something else than AWS that speaks S3
    #[arg(long, value_name = "URL")]
    s3_endpoint: Option<String>,

    /// Name the bucket in the path instead of in the host
    #[arg(long)]
    s3_force_path_style: bool,

    /// Clean this Run once and exit
    #[arg(long, value_name = "UID")]
    pub(crate) run_uid: Option<String>,

    /// Address of /metrics; 0 for none
    #[arg(long, default_value = "0", value_name = "ADDRESS")]
    metrics_bind_address: Address,

    /// Address of /healthz and /readyz; 0 for none
    #[arg(long, default_value = "0", value_name = "ADDRESS")]
    health_probe_bind_address: Address,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Driver {
    Filesystem,
    S3,
}

impl Args {
    /// Makes the store.
    pub(crate) fn store(&self) -> Result<Arc<dyn Store>, SettingsError> {
        Ok(match self.driver {
            Driver::Filesystem => {
                let root = self.filesystem_root.clone().unwrap_or_default();
                Arc::new(FilesystemStore::new(root, &self.filesystem_volume_claim)?)
            }
            Driver::S3 => Arc::new(S3Store::new(S3Settings {
                bucket: self.s3_bucket.clone(),
                prefix: self.s3_prefix.clone(),
                region: self.s3_region.clone(),
                endpoint: self.s3_endpoint.clone(),
                force_path_style: self.s3_force_path_style.then_some(true),
                ..S3Settings::default()
            })?),
        })
    }

    /// Returns where to answer requests.
    pub(crate) fn addresses(&self) -> Addresses {
        Addresses {
            metrics: self.metrics_bind_address.clone(),
            probes: self.health_probe_bind_address.clone(),
        }
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

/// Reports an error with its causes.
pub(crate) fn failed(what: &str, error: &(dyn Error + 'static)) -> ExitCode {
    let causes = std::iter::successors(Some(error), |error| Error::source(*error));
    let told: Vec<String> = causes.map(ToString::to_string).collect();
    tracing::error!(cause = told.join(": "), "{what}");
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

    /// What the controller writes is what this program reads.
    #[tokio::test]
    async fn n_171_the_flags_of_the_deployment_are_understood() {
        for store in [
            r#"{"driver": "filesystem", "filesystem": {"volumeClaimName": "artifacts"}}"#,
            r#"{"driver": "s3", "s3": {"bucket": "b", "prefix": "p", "region": "r",
                "endpoint": "http://s3:1", "forcePathStyle": true, "credentialsSecretName": "s"}}"#,
        ] {
            let store = serde_json::from_str(store).unwrap();
            let image = kruntimes_k8s::cleanup::Image::default();
            let made = kruntimes_k8s::cleanup::desired("ci", &store, &image);
            let spec = made.deployment.spec.unwrap().template.spec.unwrap();
            let written = spec.containers[0].args.clone().unwrap();
            let args =
                Args::parse_from(["runtime-maintainer".to_owned()].into_iter().chain(written));
            assert_eq!(args.run_namespace, "ci");
            assert_eq!(
                args.store_hash,
                kruntimes_core::names::artifact_store(&store)
            );
            let found = args.store().unwrap().settings();
            assert_eq!(found.driver, store.driver);
            let place = |s: &S3Settings| (s.bucket.clone(), s.prefix.clone(), s.endpoint.clone());
            assert_eq!(found.s3.as_ref().map(place), store.s3.as_ref().map(place));
            assert_eq!(found.filesystem, store.filesystem);
        }
        let line = "runtime-maintainer --run-namespace n --store-hash h --driver s3";
        let bare = Args::parse_from(line.split(' '));
        assert!(bare.store().is_err(), "there is no bucket");
    }
}
