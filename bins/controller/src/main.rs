//! Runs the controllers of kruntimes, for ever. See `controller --help`.

mod args;

use std::process::ExitCode;

use clap::Parser as _;
use kruntimes_k8s::clock::Clock;
use kruntimes_k8s::{definitions, runtime, workflow};
use kube::Client;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args = args::Args::parse();
    args::set_up_logs();
    let client = match Client::try_default().await {
        Ok(client) => client,
        Err(error) => return args::failed("no access to a cluster", &error),
    };
    let config = args.into_config();
    let clock = Clock::system();
    tokio::select! {
        () = runtime::run(client.clone(), config.runtime, clock.clone()) => {}
        () = definitions::run(client.clone(), config.definitions, clock.clone()) => {}
        () = workflow::run(client, config.workflow, clock) => {}
        () = args::asked_to_stop() => {}
    }
    ExitCode::SUCCESS
}
