//! A Kubernetes-style API service in one process, as a tower service under an ordinary `kube::Client`.
//!
//! Start at [`ApiServer::builder`]: hand in custom resource definitions, take [`ApiServer::client`], and keep the
//! guard of [`ApiServer::spawn_background`] for as long as garbage collection should run. Nothing here knows what the
//! resources mean; schemas come from their definitions. Objects live in memory.
//!
//! ```
//! use k8s_openapi::api::core::v1::Namespace;
//! use kruntimes_apiserver::ApiServer;
//! use kube::{Api, ResourceExt};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = ApiServer::builder().build()?;
//! let background = server.spawn_background();
//! let namespaces: Api<Namespace> = Api::all(server.client());
//! let found = namespaces.list(&Default::default()).await?;
//! let names: Vec<String> = found.iter().map(ResourceExt::name_any).collect();
//! assert_eq!(names, ["default", "kube-system"]);
//! background.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! Left out so far, and refused rather than ignored: server-side apply and strategic merge patch (415), subresources
//! other than `status` and `log` (404).

mod accept;
mod access;
mod admit;
mod answer;
mod apply;
mod builtin;
mod clock;
mod commit;
mod crd;
mod definitions;
mod delete;
mod discovery;
mod documents;
mod error;
mod event_alias;
pub mod fault;
mod garbage;
mod ids;
mod invalid;
mod kind;
mod list;
pub mod listen;
mod logs;
mod metadata;
mod object;
mod openapi;
mod patch;
mod query;
mod registry;
mod route;
pub mod schema;
mod selector;
mod server;
mod service;
mod shape;
mod stats;
mod store;
mod table;
mod watch;
mod write;

pub use access::{Identity, Policy, Rule};
pub use answer::{AnswerBody, BoxError};
pub use clock::{Clock, SystemClock};
pub use ids::{IdSource, RandomIds, SeededIds};
pub use logs::{LogError, LogRequest, LogStream, PodLogs};
pub use server::{ApiServer, Background, BuildError, Builder, Snapshot};
pub use service::ApiService;
pub use stats::Stats;
