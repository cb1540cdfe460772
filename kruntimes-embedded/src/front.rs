//! The API on the network, for kubectl and client libraries.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use kruntimes_apiserver::ApiServer;
use kruntimes_apiserver::listen::{ListenError, ListenOptions, Listener};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// An API that is served until this is closed or dropped.
#[derive(Debug)]
pub(crate) struct Front {
    endpoint: String,
    kubeconfig: PathBuf,
    stop: CancellationToken,
    serving: JoinSet<()>,
}

impl Front {
    /// Serves the API on an address; keys, token and kubeconfig are in `state_dir`.
    pub(crate) async fn open(
        server: &ApiServer,
        address: SocketAddr,
        state_dir: PathBuf,
    ) -> Result<Self, ListenError> {
        let options = ListenOptions { address, state_dir };
        let listener = Listener::bind(server, options).await?;
        let stop = CancellationToken::new();
        let endpoint = listener.endpoint().to_owned();
        let kubeconfig = listener.kubeconfig().to_owned();
        let mut serving = JoinSet::new();
        serving.spawn(listener.run(stop.clone()));
        Ok(Self {
            endpoint,
            kubeconfig,
            stop,
            serving,
        })
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Lets requests come to their end and closes all connections.
    pub(crate) async fn close(mut self) {
        self.stop.cancel();
        while self.serving.join_next().await.is_some() {}
    }
}
