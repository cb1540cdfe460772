//! Places Runs onto Runtime Pods, for ever. See `scheduler --help`.

mod args;

use std::process::ExitCode;

use clap::Parser as _;
use kruntimes_k8s::clock::Clock;
use kruntimes_k8s::scheduler;
use kube::Client;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args = args::Args::parse();
    args::set_up_logs();
    let client = match Client::try_default().await {
        Ok(client) => client,
        Err(error) => return args::failed("no access to a cluster", &error),
    };
    tokio::select! {
        end = scheduler::run(client, args.into_config(), Clock::system()) => match end {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => args::failed("the scheduler cannot start", &error),
        },
        () = args::asked_to_stop() => ExitCode::SUCCESS,
    }
}
