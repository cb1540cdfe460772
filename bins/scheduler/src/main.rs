//! Places Runs onto Runtime Pods, for ever. See `scheduler --help`.

mod args;

use std::process::ExitCode;

use clap::Parser as _;
use kruntimes_k8s::clock::Clock;
use kruntimes_k8s::lease::{End, lead};
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
    let clock = Clock::system();
    let lease = args.lease(client.default_namespace(), &clock);
    let work = scheduler::run(client.clone(), args.into_config(), clock.clone());
    let end = if let Some(lease) = lease {
        lead(client, lease, clock, args::asked_to_stop(), |_| work).await
    } else {
        tokio::select! {
            end = work => End::Finished(end),
            () = args::asked_to_stop() => End::Stopped,
        }
    };
    match end {
        End::Finished(Ok(())) | End::Stopped => ExitCode::SUCCESS,
        End::Finished(Err(error)) => args::failed("the scheduler cannot start", &error),
        // Started anew, the process stands by.
        End::Lost => ExitCode::FAILURE,
    }
}
