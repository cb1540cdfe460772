//! The client that speaks gRPC over a unix socket or TCP.

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt};
use tonic::transport::{Channel, Endpoint};

use crate::client::{ClientError, EventStream, RuntimeClient};
use crate::execution::{ExecuteRequest, Execution, Health};
use crate::executor::v1;

/// Bounds one received message: two capped outputs fit many times over (N-8).
pub const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// Says why an endpoint cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// Neither `unix:/path` nor `host:port`.
    #[error("endpoint `{endpoint}` is neither `unix:/path` nor `host:port`")]
    Malformed {
        /// What was given.
        endpoint: String,
    },
    /// The address part cannot be parsed.
    #[error("endpoint `{endpoint}` has no usable address")]
    Address {
        /// What was given.
        endpoint: String,
        /// The cause.
        source: tonic::transport::Error,
    },
}

/// Prepares a client for `unix:/path` or `host:port`.
///
/// Connects with the first call and again after every loss, so the server may start later or restart.
///
/// # Errors
///
/// Fails when the endpoint has neither form; an absent server is found by the first call.
///
/// # Panics
///
/// Panics outside a tokio runtime.
pub fn connect(endpoint: &str) -> Result<GrpcClient, EndpointError> {
    let malformed = || EndpointError::Malformed {
        endpoint: endpoint.to_owned(),
    };
    let address = if let Some(path) = endpoint.strip_prefix("unix:") {
        if !path.starts_with('/') {
            return Err(malformed());
        }
        endpoint.to_owned()
    } else {
        let bare = endpoint.strip_prefix("http://").unwrap_or(endpoint);
        let (host, port) = bare.rsplit_once(':').ok_or_else(malformed)?;
        if host.is_empty() || port.parse::<u16>().is_err() {
            return Err(malformed());
        }
        format!("http://{bare}")
    };
    let channel = Endpoint::from_shared(address)
        .map_err(|source| EndpointError::Address {
            endpoint: endpoint.to_owned(),
            source,
        })?
        .connect_lazy();
    Ok(GrpcClient::new(channel))
}

/// Calls a Runtime Server over a shared, reconnecting channel. Clones share the connection.
#[derive(Clone, Debug)]
pub struct GrpcClient {
    channel: Channel,
}

impl GrpcClient {
    /// Wraps a channel that the caller made.
    pub fn new(channel: Channel) -> Self {
        Self { channel }
    }

    /// Lends the channel, for clients of functions and sessions on the same server.
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    fn runtime(&self) -> v1::runtime_client::RuntimeClient<Channel> {
        v1::runtime_client::RuntimeClient::new(self.channel())
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
    }
}

#[async_trait]
impl RuntimeClient for GrpcClient {
    async fn execute(&self, request: ExecuteRequest) -> Result<(), ClientError> {
        self.runtime()
            .execute(v1::ExecuteRequest::from(request))
            .await?;
        Ok(())
    }

    async fn status(&self, id: &str) -> Result<Execution, ClientError> {
        let request = v1::StatusRequest { id: id.to_owned() };
        Ok(self.runtime().status(request).await?.into_inner().into())
    }

    async fn list(&self) -> Result<Vec<Execution>, ClientError> {
        let answer = self.runtime().list(v1::ListRequest {}).await?;
        let entries = answer.into_inner().entries;
        Ok(entries.into_iter().map(Into::into).collect())
    }

    async fn cancel(&self, id: &str) -> Result<(), ClientError> {
        let request = v1::CancelRequest { id: id.to_owned() };
        self.runtime().cancel(request).await?;
        Ok(())
    }

    async fn forget(&self, id: &str) -> Result<(), ClientError> {
        let request = v1::ForgetRequest { id: id.to_owned() };
        self.runtime().forget(request).await?;
        Ok(())
    }

    async fn health(&self) -> Result<Health, ClientError> {
        let answer = self.runtime().health(v1::HealthRequest {}).await?;
        Ok(answer.into_inner().into())
    }

    async fn watch(&self, ids: &[String]) -> Result<EventStream, ClientError> {
        let request = v1::WatchRequest { ids: ids.to_vec() };
        let answer = v1::runtime_events_client::RuntimeEventsClient::new(self.channel())
            .watch(request)
            .await?;
        let events = answer.into_inner().map_ok(Into::into).map_err(Into::into);
        Ok(events.boxed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn endpoints_have_two_forms() {
        for good in [
            "unix:/run/x.sock",
            "127.0.0.1:9091",
            "localhost:1",
            "[::1]:9091",
            "http://h:80",
        ] {
            assert!(connect(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "unix:relative",
            "unix:",
            "host",
            ":9091",
            "host:",
            "host:99999",
            "a b:1",
        ] {
            assert!(connect(bad).is_err(), "{bad}");
        }
    }

    #[tokio::test]
    async fn an_absent_server_is_unavailable() {
        let dir = tempfile::tempdir().unwrap();
        let client = connect(&format!("unix:{}/none.sock", dir.path().display())).unwrap();
        let error = client.health().await.unwrap_err();
        assert!(
            matches!(error, ClientError::Unavailable { .. }),
            "{error:?}"
        );
    }
}
