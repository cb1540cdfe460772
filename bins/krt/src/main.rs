//! The kruntimes command line.

mod args;
mod board;
mod diagnostics;
mod elapsed;
mod exit;
mod failures;
mod file;
mod lines;
mod local;
mod paint;
mod screen;
mod signals;
mod summary;
mod tree;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let args = args::Args::parse();
    args::set_up_process();
    if let Err(error) = kruntimes_runtime::process::unblock_signals() {
        tracing::warn!(%error, "signals stay blocked as krt was started");
    }
    let runtime = args::runtime();
    let end = match args.into_command() {
        args::Command::LocalRun(request) => runtime.block_on(local::run(request)),
    };
    // Kills what still runs; what is left of the engine removes its files afterwards.
    drop(runtime);
    drop(end.engine);
    end.exit.into()
}
