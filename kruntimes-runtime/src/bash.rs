//! The Bash server: scripts and shell commands.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kruntimes_proto::ExecuteRequest;
use tokio_util::sync::CancellationToken;

use crate::adapter::{Adapter, Manners, Plan, Program, Refusal};
use crate::directory::entrypoint;
use crate::search::{self, SearchPath};
use crate::server::{Listener, ServeError, ServerHandle, rooted};
use crate::supervisor::{Options, Supervisor};

/// Sets up a Bash server.
#[derive(Clone, Debug)]
pub struct Config {
    /// Working directories must lie below it (N-226).
    pub work_dir: PathBuf,
    /// Between SIGTERM and SIGKILL (N-219).
    pub termination_grace: Duration,
    /// Directory with a file per living process group; see [`Options::records`].
    pub records: Option<PathBuf>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            work_dir: PathBuf::from("/workspace"),
            termination_grace: Options::default().termination_grace,
            records: None,
        }
    }
}

/// Starts scripts with `bash` and commands with `bash -c`.
#[derive(Clone, Debug)]
pub struct Bash {
    bash: PathBuf,
    sh: PathBuf,
}

impl Bash {
    /// Finds the shells in these directories, the first that has them winning.
    ///
    /// # Errors
    ///
    /// Fails when there is no `bash`. Without `sh`, `bash` stands in for it.
    pub fn find(path: impl IntoIterator<Item = PathBuf>) -> io::Result<Self> {
        let path = SearchPath::new(path);
        let missing = || io::Error::new(io::ErrorKind::NotFound, "there is no bash in PATH");
        let bash = path.find("bash").ok_or_else(missing)?;
        let sh = path.find("sh").unwrap_or_else(|| bash.clone());
        Ok(Self { bash, sh })
    }

    /// Finds the shells in the `PATH` of this process and the usual places.
    ///
    /// # Errors
    ///
    /// As [`find`](Self::find).
    pub fn installed() -> io::Result<Self> {
        Self::find(search::installed())
    }

    fn bash(&self, args: impl IntoIterator<Item = OsString>) -> Plan {
        Plan::Start(Program {
            path: self.bash.clone(),
            args: args.into_iter().collect(),
        })
    }
}

impl Adapter for Bash {
    fn plan(&self, request: &ExecuteRequest, directory: &Path) -> Result<Plan, Refusal> {
        let args = || request.args.iter().map(OsString::from);
        if let Some(file) = entrypoint(&request.entrypoint, directory)? {
            return Ok(self.bash(std::iter::once(file.into()).chain(args())));
        }
        Ok(match request.args.as_slice() {
            [] => Plan::Fail("no args or script provided".to_owned()),
            [shell, flag, _, ..] if flag == "-c" && shell == "bash" => self.bash(args().skip(1)),
            [shell, flag, _, ..] if flag == "-c" && shell == "sh" => Plan::Start(Program {
                path: self.sh.clone(),
                args: args().skip(1).collect(),
            }),
            lines => self.bash(["-c".into(), lines.join("\n").into()]),
        })
    }

    fn manners(&self) -> Manners {
        Manners::Replace
    }
}

impl Config {
    /// Makes the supervisor of a Bash server, without any socket.
    ///
    /// # Errors
    ///
    /// Fails when there is no bash or the work root cannot be opened.
    pub fn supervisor(&self) -> Result<Supervisor, ServeError> {
        let bash = Bash::installed().map_err(ServeError::Interpreter)?;
        let options = Options {
            termination_grace: self.termination_grace,
            records: self.records.clone(),
        };
        rooted(bash, &self.work_dir, options)
    }
}

/// Serves Bash on a unix socket until the token is cancelled or the handle is dropped.
///
/// The socket accepts connections when this returns. A socket file left by a server that is gone is
/// replaced.
///
/// # Errors
///
/// [`ServeError`] when the server cannot start.
///
/// # Panics
///
/// Panics outside a tokio runtime.
pub fn serve_unix(
    path: &Path,
    config: &Config,
    shutdown: &CancellationToken,
) -> Result<ServerHandle, ServeError> {
    let listener = Listener::unix(path)?;
    let supervisor = config.supervisor()?;
    Ok(ServerHandle::spawn(listener, supervisor, shutdown))
}
