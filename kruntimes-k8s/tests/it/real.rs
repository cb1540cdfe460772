//! The rules of the custom resources against a real control plane, which `cargo xtask e2e` starts.
//!
//! The definitions must be there, and `KRUNTIMES_E2E_KUBECONFIG` must name its kubeconfig; else nothing is compared.

use std::io::{self, Write as _};
use std::path::Path;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::rules::{self, Cluster, every_rule};

/// Environment variable with the path of the kubeconfig.
const KUBECONFIG: &str = "KRUNTIMES_E2E_KUBECONFIG";

/// Returns a client of the real control plane, none when there is no such thing.
async fn client() -> Option<Client> {
    let Some(path) = std::env::var_os(KUBECONFIG) else {
        let _ = writeln!(io::stderr(), "skipped: {KUBECONFIG} is not set");
        return None;
    };
    let kubeconfig = Kubeconfig::read_from(Path::new(&path)).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    Some(Client::try_from(config.unwrap()).unwrap())
}

macro_rules! against_a_real_control_plane {
    ($($module:ident: $($name:ident),+;)+) => {
        $($(
            #[tokio::test]
            async fn $name() {
                if let Some(client) = client().await {
                    rules::$module::$name(&Cluster::open(client).await).await;
                }
            }
        )+)+
    };
}

every_rule!(against_a_real_control_plane);
