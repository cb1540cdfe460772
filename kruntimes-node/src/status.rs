//! The gRPC listener for the other components of the cluster (node, section 2.6).
//!
//! Nobody who reaches it can start, cancel or forget work: of the Runtime Server only `Status` is passed on.

use std::sync::Arc;

use kruntimes_proto::MAX_MESSAGE_BYTES;
use kruntimes_proto::artifact::v1::artifact_service_server::ArtifactServiceServer;
use kruntimes_proto::executor::v1;
use kruntimes_proto::executor::v1::runtime_server::{Runtime, RuntimeServer};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

use crate::artifact::Downloads;
use crate::node::Node;

/// Passes `Status` on to the local server; every other method is `Unimplemented` (N-6).
struct Proxy(Arc<Node>);

#[tonic::async_trait]
impl Runtime for Proxy {
    async fn status(
        &self,
        request: Request<v1::StatusRequest>,
    ) -> Result<Response<v1::StatusResponse>, Status> {
        let found = self.0.server.status(&request.get_ref().id).await?;
        Ok(Response::new(found.into()))
    }
}

/// Answers for ever; nothing when there is no listener.
pub(crate) async fn serve(node: &Arc<Node>, listener: Option<TcpListener>) {
    let Some(listener) = listener else {
        return std::future::pending().await;
    };
    let proxy =
        RuntimeServer::new(Proxy(Arc::clone(node))).max_decoding_message_size(MAX_MESSAGE_BYTES);
    // N-7: without a store there is nothing to hand out.
    let downloads = node.artifacts.as_ref().map(|artifacts| {
        ArtifactServiceServer::new(Downloads {
            namespace: node.config.namespace.clone(),
            runtime: node.config.runtime.clone(),
            runs: node.runs.clone(),
            store: Some(Arc::clone(&artifacts.store)),
        })
    });
    let served = tonic::transport::Server::builder()
        .add_service(proxy)
        .add_optional_service(downloads)
        .serve_with_incoming(TcpListenerStream::new(listener))
        .await;
    if let Err(error) = served {
        tracing::error!(%error, "the status listener is closed");
    }
    std::future::pending::<()>().await;
}
