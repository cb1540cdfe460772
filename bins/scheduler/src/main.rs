//! Places Runs onto Runtime Pods, for ever. See `scheduler --help`.

mod args;

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser as _;
use kruntimes_core::crd::Run;
use kruntimes_k8s::clock::Clock;
use kruntimes_k8s::lease::{End, lead};
use kruntimes_k8s::scheduler::{Metrics, Scheduler};
use kruntimes_k8s::serve::{Doors, Leadership, Registry, build_info, can_list};
use kube::Client;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args = args::Args::parse();
    args::set_up_logs();
    let client = match Client::try_default().await {
        Ok(client) => client,
        Err(error) => return args::failed("no access to a cluster", &error),
    };
    let doors = match Doors::open(&args.addresses()).await {
        Ok(doors) => doors,
        Err(error) => return args::failed("no metrics and probes", &error),
    };
    let registry = Registry::new();
    build_info(&registry, "scheduler", args::VERSION, args::COMMIT);
    let leadership = Leadership::new(&registry, "scheduler");
    let ready = can_list::<Run>(client.clone(), args.namespace());
    let clock = Clock::system();
    let lease = args.lease(client.default_namespace(), &clock);
    let scheduler = match Scheduler::new(client.clone(), args.into_config(), clock.clone()) {
        Ok(scheduler) => scheduler.recorder(Arc::new(Metrics::new(&registry))),
        Err(error) => return args::failed("the scheduler cannot start", &error),
    };
    let work = Box::pin(leadership.during(scheduler.run()));
    let working = async {
        if let Some(lease) = lease {
            Box::pin(lead(client, lease, clock, args::asked_to_stop(), |_| work)).await
        } else {
            tokio::select! {
                () = work => End::Finished(()),
                () = args::asked_to_stop() => End::Stopped,
            }
        }
    };
    let end = tokio::select! {
        end = working => end,
        () = doors.serve(registry, ready) => End::Finished(()),
    };
    match end {
        End::Finished(()) | End::Stopped => ExitCode::SUCCESS,
        // Started anew, the process stands by.
        End::Lost => ExitCode::FAILURE,
    }
}
