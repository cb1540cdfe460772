//! The sidecar of a Runtime Pod. See `runtimed --help`.

mod args;

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser as _;
use kruntimes_k8s::clock::Clock;
use kruntimes_k8s::serve::{Doors, Registry, build_info};
use kruntimes_node::{JsonLines, Runtimed};
use kube::Client;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args = args::Args::parse();
    args::set_up_logs();
    let (config, files) = (args.config(), args.files());
    if let Err(error) = config.check(&files) {
        return args::failed("bad configuration", &error);
    }
    let artifacts = match args.artifacts() {
        Ok(artifacts) => artifacts,
        Err(error) => return args::failed("bad configuration", &error),
    };
    let runtime = match kruntimes_proto::connect(&args.runtime_endpoint) {
        Ok(runtime) => Arc::new(runtime),
        Err(error) => return args::failed("bad --runtime-endpoint", &error),
    };
    let client = match Client::try_default().await {
        Ok(client) => client,
        Err(error) => return args::failed("no access to a cluster", &error),
    };
    let logs = Arc::new(JsonLines::new(std::io::stdout()));
    let status = match args.status_listener().await {
        Ok(status) => status,
        Err(error) => return args::failed("cannot listen on --status-addr", &error),
    };
    let doors = match Doors::open(&args.addresses()).await {
        Ok(doors) => doors,
        Err(error) => return args::failed("no metrics and probes", &error),
    };
    let registry = Registry::new();
    build_info(&registry, "runtimed", args::VERSION, args::COMMIT);
    let runtimed = Runtimed::new(config, client, runtime, Clock::system(), logs, files)
        .with_artifacts(artifacts)
        .with_status_listener(status)
        .with_doors(Some(doors))
        .with_registry(registry)
        .with_shutdown(args::stop_signals());
    Box::pin(runtimed.run()).await;
    ExitCode::SUCCESS
}
