//! A Kubernetes-style API service in one process, as a tower service under an ordinary `kube::Client`.
//!
//! Made for authors of operators: their controllers, and kubectl, find here what they rely on in a cluster: schemas
//! with defaults, pruning and CEL rules, watches without gaps, conflicts, finalizers, garbage collection, discovery,
//! tables and OpenAPI. It starts in milliseconds, takes its time from the tokio clock, which a test can pause, and
//! draws its identifiers from a seed, if you like.
//!
//! # In a test
//!
//! Hand in the definitions of your kinds, take a client, and keep the guard of [`ApiServer::spawn_background`] for as
//! long as garbage collection should run. `examples/test_a_controller.rs` runs a whole controller this way, with
//! [`fault`] between it and the API.
//!
//! ```
//! use kruntimes_apiserver::ApiServer;
//! use kube::{Api, CustomResource, CustomResourceExt as _, api::PostParams};
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
//! #[kube(group = "example.org", version = "v1", kind = "Lamp", namespaced)]
//! struct LampSpec {
//!     #[schemars(range(max = 100))]
//!     brightness: u8,
//! }
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = ApiServer::builder().crd(Lamp::crd()).build()?;
//! let _background = server.spawn_background();
//! let lamps: Api<Lamp> = Api::default_namespaced(server.client());
//! let lamp = Lamp::new("desk", LampSpec { brightness: 80 });
//! let made = lamps.create(&PostParams::default(), &lamp).await?;
//! assert_eq!(made.metadata.generation, Some(1));
//! let glaring = Lamp::new("sun", LampSpec { brightness: 101 });
//! assert!(lamps.create(&PostParams::default(), &glaring).await.is_err());
//! # Ok(())
//! # }
//! ```
//!
//! # In a server of your own
//!
//! [`ApiServer::service`] is a tower service from HTTP requests to HTTP answers; it never fails, and can be mounted
//! wherever one can.
//!
//! ```
//! use http_body_util::BodyExt as _;
//! use kruntimes_apiserver::ApiServer;
//! use kube::client::Body;
//! use tower::ServiceExt as _;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//! let server = ApiServer::builder().build()?;
//! let request = http::Request::get("/api/v1/namespaces/default").body(Body::empty())?;
//! let answer = server.service().oneshot(request).await?;
//! assert_eq!(answer.status(), 200);
//! let text = answer.into_body().collect().await?.to_bytes();
//! assert!(text.starts_with(b"{"));
//! # Ok(())
//! # }
//! ```
//!
//! # On the network
//!
//! [`listen`] serves the same API to kubectl and to client libraries of any language, over HTTPS on a loopback
//! address.
//!
//! # On disk
//!
//! Objects live in memory. With [`Builder::data_dir`] they are on disk as well, before anybody is told of them, and
//! a server that was killed at any moment goes on from there.
//!
//! # What is missing
//!
//! Left out, and refused rather than ignored: subresources other than `status`, `log`, `scale`, `finalize`, `binding` and
//! `eviction` (404), answers in protocol buffers (406; bodies in them are read).

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
mod disk;
mod documents;
mod error;
mod event;
mod event_alias;
pub mod fault;
mod garbage;
mod ids;
mod index;
mod invalid;
mod kind;
mod list;
pub mod listen;
mod logs;
mod manifest;
mod metadata;
mod object;
mod openapi;
mod patch;
mod protobuf;
mod query;
mod registry;
mod review;
mod route;
pub mod schema;
mod selector;
mod server;
mod service;
mod shape;
mod stats;
mod store;
mod strategic;
mod strict;
mod subresource;
mod table;
mod typed;
mod watch;
mod write;

pub use access::{Identity, Policy, Rule};
pub use answer::{AnswerBody, BoxError};
pub use clock::{Clock, SystemClock};
pub use disk::{Cause, StoreError};
pub use ids::{IdSource, RandomIds, SeededIds};
pub use logs::{LogError, LogRequest, LogStream, PodLogs};
pub use server::{ApiServer, Background, BuildError, Builder, Kinds, Snapshot};
pub use service::ApiService;
pub use stats::Stats;
