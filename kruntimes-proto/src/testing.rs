//! A Runtime Server that plays a script, for tests and simulations.
//!
//! ```
//! use std::time::Duration;
//! use kruntimes_proto::testing::{Script, ScriptedServer};
//! use kruntimes_proto::{ExecuteRequest, ExecutionState, RuntimeClient};
//!
//! # let rt = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
//! # rt.block_on(async {
//! let server = ScriptedServer::new(|request| match request.entrypoint.as_str() {
//!     "bad" => Script::exits(3).stderr("no such thing"),
//!     _ => Script::exits(0).after(Duration::from_secs(5)).stdout("done"),
//! });
//! let request = ExecuteRequest { id: "a".into(), ..ExecuteRequest::default() };
//! server.execute(request).await.unwrap();
//! assert_eq!(server.status("a").await.unwrap().state, ExecutionState::Running);
//! tokio::time::sleep(Duration::from_secs(6)).await;
//! assert_eq!(server.status("a").await.unwrap().stdout, "done");
//! assert_eq!(server.executed("a"), 1);
//! # });
//! ```

mod script;
mod server;

pub use script::{Call, Dialect, Fault, Method, Script};
pub use server::ScriptedServer;
