//! Runs the tests that compare with Kubernetes, against a real control plane.
//!
//! etcd, kube-apiserver and kube-controller-manager are built from the Go modules pinned in `tests/control-plane`,
//! started on loopback, and ended with the tests, whatever happens.

mod args;
mod binaries;
mod credentials;
mod definitions;
mod plane;
mod process;
mod suite;

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use crate::root;
use args::{Args, Asked};
use plane::Plane;

/// Exit code that says "this machine cannot build a control plane", which is no failure of the tests.
const CANNOT_BUILD: u8 = 3;

/// Why the tests did not run or did not pass.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
enum Error {
    /// The Go toolchain is absent or too old. Nothing was tested.
    #[error("{0}; nothing was tested")]
    NoGo(String),
    /// Go could not build a binary.
    #[error("cannot build {name}:\n{log}")]
    Build {
        /// The binary.
        name: String,
        /// The last lines of Go, the refused download among them.
        log: String,
    },
    /// A file cannot be accessed.
    #[error(transparent)]
    Access(#[from] root::Error),
    /// A program does not start.
    #[error("cannot start {program}")]
    Start {
        /// The program.
        program: String,
        /// Why not.
        source: io::Error,
    },
    /// A certificate cannot be made.
    #[error("cannot make certificates")]
    Certificates(#[from] rcgen::Error),
    /// No port could be found, or no signal be watched.
    #[error("the machine refuses what a control plane needs")]
    Machine(#[from] io::Error),
    /// A part of the control plane ended.
    #[error("{name} ended ({status}); its last lines:\n{log}")]
    Ended {
        /// The part.
        name: &'static str,
        /// How it ended.
        status: String,
        /// The end of its log.
        log: String,
    },
    /// The control plane does not answer.
    #[error("kube-apiserver was not ready in {seconds} s; its last lines:\n{log}")]
    NotReady {
        /// How long was waited.
        seconds: u64,
        /// The end of its log.
        log: String,
    },
    /// The kubeconfig cannot be used.
    #[error("cannot use the kubeconfig {}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The definitions were not taken.
    #[error("cannot apply {file}")]
    Definition {
        /// The file.
        file: String,
        /// The answer.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No test has the name that was asked for.
    #[error("no test has {0:?} in its name")]
    NothingChosen(String),
    /// The tests failed, and have said why.
    #[error("the tests failed ({0})")]
    Tests(String),
    /// Somebody wants an end.
    #[error("interrupted by {0}")]
    Interrupted(&'static str),
}

/// Runs the command with the words behind its name.
pub(crate) fn command(words: &[&str]) -> ExitCode {
    let args = match args::parse(words) {
        Ok(Asked::Run(args)) => args,
        Ok(Asked::Help) => {
            say(args::HELP.trim_end());
            return ExitCode::SUCCESS;
        }
        Err(problem) => {
            let _ = writeln!(
                io::stderr(),
                "error: {problem}\n\n{}",
                args::HELP.trim_end()
            );
            return ExitCode::from(2);
        }
    };
    let end = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(2)
        .build()
        .map_err(Error::from)
        .and_then(|runtime| runtime.block_on(interruptible(&args)));
    match end {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {}", crate::chain(&error));
            match error {
                Error::NoGo(_) => ExitCode::from(CANNOT_BUILD),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

/// Runs everything, and ends it when somebody asks for that. Processes end with the future that owns them.
async fn interruptible(args: &Args) -> Result<(), Error> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        end = run(args) => end,
        _ = interrupt.recv() => Err(Error::Interrupted("Ctrl-C")),
        _ = terminate.recv() => Err(Error::Interrupted("SIGTERM")),
    }
}

async fn run(args: &Args) -> Result<(), Error> {
    if let Some(path) = &args.kubeconfig {
        let path = path.canonicalize().map_err(root::Error::at(path))?;
        suite::compile().await?;
        let began = Instant::now();
        definitions::apply(&path).await?;
        suite::run(&path, args.only.as_deref()).await?;
        summary("the given cluster", began);
        return Ok(());
    }
    let binaries = binaries::provide().await?;
    // Before the control plane runs: compiling beside it makes both slow.
    suite::compile().await?;
    let began = Instant::now();
    let mut plane = Plane::start(&binaries, args.keep).await?;
    say(&format!(
        "Kubernetes {} answers at {}",
        binaries.version,
        plane.address()
    ));
    let kubeconfig = plane.kubeconfig();
    definitions::apply(&kubeconfig).await?;
    plane.start_controllers(&binaries)?;
    let only = args.only.as_deref();
    let tested = tokio::select! {
        tested = suite::run(&kubeconfig, only) => tested,
        error = plane.ended() => Err(error),
    };
    if args.keep {
        if let Err(error) = &tested {
            let _ = writeln!(io::stderr(), "error: {}", crate::chain(error));
        }
        let path = kubeconfig.display();
        say(&format!(
            "the control plane stays until Ctrl-C: kubectl --kubeconfig {path} get crds"
        ));
        return Err(plane.ended().await);
    }
    tested?;
    summary(&format!("Kubernetes {}", binaries.version), began);
    Ok(())
}

fn summary(what: &str, began: Instant) {
    let seconds = began.elapsed().as_secs();
    say(&format!(
        "e2e: all tests passed against {what} in {seconds} s"
    ));
}

/// Tells how far it is.
fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}
