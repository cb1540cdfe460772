//! The CRDs of the chart on a cluster.

use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Client, Config};

use super::{Error, say};
use crate::root;

/// Longest time from applying a definition until its objects are served.
const ESTABLISHED_IN: Duration = Duration::from_secs(30);

/// Returns a client of the cluster that a kubeconfig names.
///
/// # Errors
///
/// Fails when the file cannot be used.
pub(super) async fn client(kubeconfig: &Path) -> Result<Client, Error> {
    let unusable = |source| Error::Kubeconfig {
        path: kubeconfig.to_owned(),
        source,
    };
    let read = Kubeconfig::read_from(kubeconfig).map_err(|error| unusable(error.into()))?;
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
    let config = config.map_err(|error| unusable(error.into()))?;
    Client::try_from(config).map_err(|error| unusable(error.into()))
}

/// Applies every file of the chart's `crds` folder and waits until all of them are established.
///
/// # Errors
///
/// Fails with the first file that is not taken.
pub(super) async fn apply(kubeconfig: &Path) -> Result<(), Error> {
    let api: Api<CustomResourceDefinition> = Api::all(client(kubeconfig).await?);
    let directory = root::path().join("charts/kruntimes/crds");
    let files = root::files(&directory)?;
    for path in &files {
        let refused = |source| Error::Definition {
            file: path.display().to_string(),
            source,
        };
        let text = fs::read_to_string(path).map_err(root::Error::at(path))?;
        let definition: CustomResourceDefinition =
            serde_saphyr::from_str(&text).map_err(|error| refused(error.into()))?;
        let name = definition.metadata.name.clone().unwrap_or_default();
        let params = PatchParams::apply("cargo-xtask-e2e").force();
        let applied = api.patch(&name, &params, &Patch::Apply(&definition)).await;
        applied.map_err(|error| refused(error.into()))?;
        let established = await_condition(api.clone(), &name, conditions::is_crd_established());
        let late = || io::Error::from(io::ErrorKind::TimedOut);
        tokio::time::timeout(ESTABLISHED_IN, established)
            .await
            .map_err(|_| refused(late().into()))?
            .map_err(|error| refused(error.into()))?;
    }
    say(&format!("{} definitions are established", files.len()));
    Ok(())
}
