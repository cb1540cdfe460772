//! The simulation in its two sizes.

use std::io;
use std::process::{Command, ExitStatus};

use crate::root;

/// Small worlds and bad days of a night.
const NIGHT: [(&str, &str); 2] = [("KRT_SCHEDULES", "200000"), ("KRT_DAYS", "200")];

/// Why the simulation did not pass.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    /// Cargo cannot be started.
    #[error("cannot start cargo")]
    Cargo(#[source] io::Error),
    /// An invariant was broken.
    #[error("the simulation ended with {0}")]
    Ended(ExitStatus),
}

/// Runs the simulation in the size of the tests, or of a night in release mode.
///
/// # Errors
///
/// Fails when an invariant was broken.
pub(crate) fn run(nightly: bool) -> Result<(), Error> {
    let mut cargo = Command::new("cargo");
    cargo.args(["test", "--package", "kruntimes-embedded", "--test", "it"]);
    if nightly {
        cargo.arg("--release").envs(NIGHT);
    }
    cargo.args(["simulation", "--", "--nocapture"]);
    let status = cargo.current_dir(root::path()).status();
    let status = status.map_err(Error::Cargo)?;
    if status.success() {
        Ok(())
    } else {
        Err(Error::Ended(status))
    }
}
