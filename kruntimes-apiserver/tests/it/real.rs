//! The suite against a real control plane, named by the kubeconfig in `KRUNTIMES_E2E_KUBECONFIG`.
//!
//! `cargo xtask e2e` starts one and sets the variable. Without it there is nothing to compare with, and the claims
//! are skipped.

use std::{
    io::{self, Write as _},
    path::Path,
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, Config, CustomResourceExt as _,
    api::PostParams,
    config::{KubeConfigOptions, Kubeconfig},
    runtime::wait::{await_condition, conditions},
};
use tokio::sync::OnceCell;

use crate::suite::{self, Widget};

/// Environment variable with the path of the kubeconfig.
const KUBECONFIG: &str = "KRUNTIMES_E2E_KUBECONFIG";

/// Returns a client of the real control plane, where the kinds of the suite are served; none when there is no such thing.
pub(crate) async fn client() -> Option<Client> {
    static DEFINED: OnceCell<()> = OnceCell::const_new();
    let Some(path) = std::env::var_os(KUBECONFIG) else {
        let _ = writeln!(io::stderr(), "skipped: {KUBECONFIG} is not set");
        return None;
    };
    let kubeconfig = Kubeconfig::read_from(Path::new(&path)).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let client = Client::try_from(config.unwrap()).unwrap();
    DEFINED
        .get_or_init(async || {
            define(&client, Widget::crd()).await;
            define(&client, suite::apply::assembly()).await;
        })
        .await;
    Some(client)
}

async fn define(client: &Client, definition: CustomResourceDefinition) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    match definitions
        .create(&PostParams::default(), &definition)
        .await
    {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.is_already_exists() => {}
        Err(error) => panic!("{error}"),
    }
    let established = conditions::is_crd_established();
    let name = definition.metadata.name.unwrap_or_default();
    await_condition(definitions, &name, established)
        .await
        .unwrap();
}

macro_rules! against_a_real_control_plane {
    ($($module:ident: $($name:ident),+;)+) => {
        $($(
            #[tokio::test]
            async fn $name() {
                if let Some(client) = client().await {
                    let _: () = suite::$module::$name(client).await;
                }
            }
        )+)+
    };
}

suite::every_claim!(against_a_real_control_plane);
