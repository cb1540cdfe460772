//! Removes the artifacts of deleted Runs from one store. See `runtime-maintainer --help`.

mod args;

use std::process::ExitCode;

use clap::Parser as _;
use kruntimes_core::crd::Run;
use kruntimes_k8s::serve::{Doors, Registry, build_info, can_list};
use kruntimes_node::Maintainer;
use kube::Client;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args = args::Args::parse();
    args::set_up_logs();
    let store = match args.store() {
        Ok(store) => store,
        Err(error) => return args::failed("bad configuration", &error),
    };
    let client = match Client::try_default().await {
        Ok(client) => client,
        Err(error) => return args::failed("no access to a cluster", &error),
    };
    let doors = match Doors::open(&args.addresses()).await {
        Ok(doors) => doors,
        Err(error) => return args::failed("no metrics and probes", &error),
    };
    let registry = Registry::new();
    let (version, commit) = (args::VERSION, args::COMMIT);
    build_info(&registry, "runtime-maintainer", version, commit);
    let namespace = args.run_namespace.as_str();
    let maintainer = Maintainer::new(client.clone(), store)
        .in_namespace(namespace)
        .for_hash(&args.store_hash)
        .with_registry(registry.clone());
    if let Some(uid) = &args.run_uid {
        return match maintainer.once(uid).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => args::failed("the run is not cleaned", &error),
        };
    }
    tokio::select! {
        () = maintainer.run() => {}
        () = doors.serve(registry, can_list::<Run>(client, Some(namespace))) => {}
        () = args::asked_to_stop() => {}
    }
    ExitCode::SUCCESS
}
