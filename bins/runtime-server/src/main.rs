//! A Runtime Server in a process of its own.

mod args;

use std::process::ExitCode;

use kruntimes_runtime::process::{own_all_children, unblock_signals};
use kruntimes_runtime::server::{ServeError, serve_supervisor};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args = args::Args::set_up_process();
    own_all_children();
    let unblocked = unblock_signals().map_err(ServeError::Signals);
    args::exit_code(match unblocked {
        Ok(()) => run(&args).await,
        Err(error) => Err(error),
    })
}

async fn run(args: &args::Args) -> Result<(), ServeError> {
    let shutdown = args::stop_signals().map_err(ServeError::Signals)?;
    let supervisor = args.supervisor()?;
    let listener = args.listener().await?;
    tracing::info!(endpoint = listener.endpoint(), "serving");
    serve_supervisor(listener, supervisor, shutdown).await
}
