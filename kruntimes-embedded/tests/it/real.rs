//! The scenarios against a real control plane, which `cargo xtask e2e` starts.
//!
//! The definitions must be there, and `KRUNTIMES_E2E_KUBECONFIG` must name its kubeconfig; else nothing is run.

use std::io::{self, Write as _};
use std::path::Path;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::sync::Mutex;

use crate::scenarios::{self, World, every_scenario};

/// Environment variable with the path of the kubeconfig.
const KUBECONFIG: &str = "KRUNTIMES_E2E_KUBECONFIG";

/// One world at a time: the local node serves the Deployments of all namespaces.
static ALONE: Mutex<()> = Mutex::const_new(());

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
    ($($name:ident),+ $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                if let Some(client) = client().await {
                    let _alone = ALONE.lock().await;
                    let world = World::start(client).await;
                    scenarios::$name(&world).await;
                    world.stop().await;
                }
            }
        )+
    };
}

every_scenario!(against_a_real_control_plane);
