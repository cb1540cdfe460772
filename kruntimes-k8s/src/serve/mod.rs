//! What a long-running component tells over HTTP: `/metrics`, `/healthz` and `/readyz`.
//!
//! ```no_run
//! use kruntimes_k8s::serve::{self, Addresses, Doors, Registry};
//!
//! # async fn example(client: kube::Client) -> Result<(), serve::BindError> {
//! let registry = Registry::new();
//! let addresses = Addresses::default();
//! let doors = Doors::open(&addresses).await?;
//! let ready = serve::can_list::<kruntimes_core::crd::Run>(client, None);
//! doors.serve(registry, ready).await;
//! # Ok(())
//! # }
//! ```
//!
//! A [`Registry`] belongs to whoever made it: two components of one process
//! have two. Nothing of it outlives the future of [`Doors::serve`].

mod address;
mod bounded;
mod door;
mod process;
mod ready;
mod registry;

use std::io;

use tokio::net::TcpListener;

pub use address::{Address, InvalidAddress};
pub use bounded::Bounded;
pub use process::{Leadership, build_info};
pub use ready::{Check, NotReady, can_list};
pub use registry::{Counter, Gauge, Histogram, LATENCY_BUCKETS, Registry};

/// Name of the flag of the metrics address.
pub const METRICS_FLAG: &str = "--metrics-bind-address";
/// Name of the flag of the address of the probes.
pub const PROBES_FLAG: &str = "--health-probe-bind-address";

/// Where a component listens; nowhere by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// Address of `/metrics`.
    pub metrics: Address,
    /// Address of `/healthz` and `/readyz`.
    pub probes: Address,
}

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("{flag}: cannot listen on {address}")]
pub struct BindError {
    /// The flag that asked for it.
    pub flag: &'static str,
    /// The address.
    pub address: Address,
    /// What the system says.
    pub source: io::Error,
}

/// Addresses that are taken; requests are answered from [`Self::serve`] on.
#[must_use = "nothing is answered until it serves"]
#[derive(Debug)]
pub struct Doors {
    metrics: Option<TcpListener>,
    probes: Option<TcpListener>,
}

impl Doors {
    /// Takes the addresses.
    ///
    /// # Errors
    ///
    /// Fails, naming the flag, when an address is taken or is none of this machine.
    pub async fn open(addresses: &Addresses) -> Result<Self, BindError> {
        let open = async |flag, address: &Address| {
            address.listen().await.map_err(|source| BindError {
                flag,
                address: address.clone(),
                source,
            })
        };
        Ok(Self {
            metrics: open(METRICS_FLAG, &addresses.metrics).await?,
            probes: open(PROBES_FLAG, &addresses.probes).await?,
        })
    }

    /// Returns the ports for metrics and probes, where they are served.
    pub fn ports(&self) -> (Option<u16>, Option<u16>) {
        let port = |socket: &Option<TcpListener>| Some(socket.as_ref()?.local_addr().ok()?.port());
        (port(&self.metrics), port(&self.probes))
    }

    /// Answers requests for ever.
    pub async fn serve(self, registry: Registry, ready: Check) {
        futures::join!(
            door::serve(self.metrics, door::Pages::Metrics(registry)),
            door::serve(self.probes, door::Pages::Probes(ready)),
        );
    }
}
