//! The kruntimes command line.

mod args;
mod background;
mod board;
mod client;
mod counts;
mod diagnostics;
mod down;
mod elapsed;
mod exit;
mod failures;
mod file;
mod graph;
mod lines;
mod lint;
mod local;
mod paint;
mod place;
mod say;
mod screen;
mod signals;
mod status;
mod summary;
mod tree;
mod up;

use std::process::ExitCode;

use args::Command;
use args::files::Files;
use clap::Parser as _;

fn main() -> ExitCode {
    let command = args::Args::parse().into_command();
    args::set_up_process(&command);
    if let Err(error) = kruntimes_runtime::process::unblock_signals() {
        tracing::warn!(%error, "signals stay blocked as krt was started");
    }
    let runtime = args::runtime();
    let end = runtime.block_on(async {
        match command {
            Command::LocalRun(request) => local::run(request).await,
            Command::Up(request) => up::run(request).await,
            Command::Down { dir, now } => down::run(dir, now).await.into(),
            Command::Status { dir, format } => status::run(dir, format).await.into(),
            Command::Files(Files::Lint(request)) => lint::run(&request).into(),
            Command::Files(Files::Graph(request)) => graph::run(&request).into(),
            Command::Files(Files::Convert(request)) => graph::convert_file(&request).into(),
            Command::Client(connect, verb) => Box::pin(client::run(*connect, *verb)).await.into(),
            Command::Kubeconfig { dir, path } => status::kubeconfig(dir, path).into(),
        }
    });
    // Kills what still runs; what is left of the engine removes its files afterwards.
    drop(runtime);
    drop(end.engine);
    end.exit.into()
}
