//! Runs the controllers of kruntimes, for ever. See `controller --help`.

mod args;

use std::process::ExitCode;

use clap::Parser as _;
use kruntimes_core::crd::Runtime;
use kruntimes_k8s::clock::Clock;
use kruntimes_k8s::lease::{End, lead};
use kruntimes_k8s::serve::{Doors, Leadership, Registry, build_info, can_list};
use kruntimes_k8s::{definitions, pool, runtime, workflow};
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
    build_info(&registry, "controller", args::VERSION, args::COMMIT);
    let leadership = Leadership::new(&registry, "controller");
    let ready = can_list::<Runtime>(client.clone(), args.namespace());
    let clock = Clock::system();
    let lease = args.lease(client.default_namespace(), &clock);
    let work = work(client.clone(), args.into_config(&registry), clock.clone());
    let work = Box::pin(leadership.during(work));
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

/// Runs every controller; the first one that ends, ends all.
async fn work(client: Client, config: args::Configs, clock: Clock) {
    tokio::select! {
        () = runtime::run(client.clone(), config.runtime, clock.clone()) => {}
        () = definitions::run(client.clone(), config.definitions, clock.clone()) => {}
        () = pool::run(client.clone(), config.pool, clock.clone()) => {}
        () = workflow::run(client, config.workflow, clock) => {}
    }
}
