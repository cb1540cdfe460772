//! The Python server: scripts, interpreter arguments, and functions by name.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kruntimes_proto::ExecuteRequest;
use tokio_util::sync::CancellationToken;

use crate::adapter::{Adapter, Manners, Plan, Program, Refusal};
use crate::directory::entrypoint;
use crate::process::Warm;
use crate::search::{self, SearchPath};
use crate::server::{Listener, ServeError, ServerHandle, rooted};
use crate::supervisor::{Options, Supervisor};

/// Calls a function below the working directory; its arguments are module, function and the rest.
const CALL: &str = include_str!("python_call.py");

/// Forks processes from an interpreter that is up.
const WARM: &str = include_str!("python_warm.py");

/// Sets up a Python server.
#[derive(Clone, Debug)]
pub struct Config {
    /// Working directories must lie below it (N-226).
    pub work_dir: PathBuf,
    /// Between SIGTERM and SIGKILL (N-219).
    pub termination_grace: Duration,
    /// Directory with a file per living process group; see [`Options::records`].
    pub records: Option<PathBuf>,
    /// Keeps one interpreter up and forks programs from it, which saves each its start (about 12 MB).
    pub warm: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            work_dir: PathBuf::from("/workspace"),
            termination_grace: Options::default().termination_grace,
            records: None,
            warm: true,
        }
    }
}

/// Starts everything with one Python interpreter, its output unbuffered (N-233).
#[derive(Clone, Debug)]
pub struct Python {
    interpreter: PathBuf,
    warm: Option<Arc<Warm>>,
}

impl Python {
    /// Finds the interpreter in these directories: the first `python3`, else the first `python`.
    ///
    /// # Errors
    ///
    /// Fails when there is neither.
    pub fn find(path: impl IntoIterator<Item = PathBuf>) -> io::Result<Self> {
        let path = SearchPath::new(path);
        let missing = || io::Error::new(io::ErrorKind::NotFound, "there is no python3 in PATH");
        let interpreter = path.find("python3").or_else(|| path.find("python"));
        Ok(Self {
            interpreter: interpreter.ok_or_else(missing)?,
            warm: None,
        })
    }

    /// Starts an interpreter ahead, which programs are forked from where that makes no difference to them.
    ///
    /// A program is started on its own all the same when its arguments or its environment choose how the
    /// interpreter works.
    pub fn warmed(self) -> Self {
        let args = ["-u", "-c", WARM].map(OsString::from).to_vec();
        let warm = Warm::start(self.interpreter.clone(), args);
        Self {
            warm: Some(Arc::new(warm)),
            ..self
        }
    }

    /// Finds the interpreter in the `PATH` of this process and the usual places.
    ///
    /// # Errors
    ///
    /// As [`find`](Self::find).
    pub fn installed() -> io::Result<Self> {
        Self::find(search::installed())
    }

    fn start(
        &self,
        request: &ExecuteRequest,
        directory: &Path,
        args: impl IntoIterator<Item = OsString>,
    ) -> Plan {
        let args: Vec<OsString> = std::iter::once("-u".into()).chain(args).collect();
        let path = self.interpreter.clone();
        match &self.warm {
            Some(warm) if can_be_forked(&args[1..], directory, request.env.keys()) => {
                Plan::Fork(Arc::clone(warm), Program { path, args })
            }
            Some(_) | None => Plan::Start(Program { path, args }),
        }
    }
}

/// Tells whether a program is the same in an interpreter that was started before it was known.
fn can_be_forked<'a>(
    args: &[OsString],
    directory: &Path,
    names: impl IntoIterator<Item = &'a String>,
) -> bool {
    let plain = match args.first().and_then(|arg| arg.to_str()) {
        Some("-c" | "-m") => args.len() > 1,
        Some(first) => {
            let compiled = Path::new(first).extension().is_some_and(|end| end == "pyc");
            !first.starts_with('-') && !compiled && directory.join(first).is_file()
        }
        None => false,
    };
    // What is read at the start of an interpreter, or of any program.
    let early = ["PYTHON", "LD_", "LC_", "LANG", "MALLOC_", "GLIBC_"];
    let mut names = names.into_iter();
    plain && !names.any(|name| early.iter().any(|early| name.starts_with(early)))
}

/// Splits a handler into module and function.
fn handler(text: &str) -> Result<(&str, &str), Refusal> {
    let is_name = |part: &str| {
        let letter = part.starts_with(|c: char| c == '_' || c.is_alphabetic());
        letter && part.chars().all(|c| c == '_' || c.is_alphanumeric())
    };
    match text.rsplit_once('.') {
        Some((module, function)) if module.split('.').all(is_name) && is_name(function) => {
            Ok((module, function))
        }
        Some(_) | None => Err(Refusal::new(format!(
            "handler `{text}` must be <module>.<function>"
        ))),
    }
}

impl Adapter for Python {
    fn plan(&self, request: &ExecuteRequest, directory: &Path) -> Result<Plan, Refusal> {
        let args = || request.args.iter().map(OsString::from);
        if !request.handler.is_empty() {
            let (module, function) = handler(&request.handler)?;
            let call = ["-c", CALL, module, function].map(OsString::from);
            return Ok(self.start(request, directory, call.into_iter().chain(args())));
        }
        if let Some(file) = entrypoint(&request.entrypoint, directory)? {
            return Ok(self.start(
                request,
                directory,
                std::iter::once(file.into()).chain(args()),
            ));
        }
        if request.args.is_empty() {
            return Ok(Plan::Fail("no script or args provided".to_owned()));
        }
        Ok(self.start(request, directory, args()))
    }

    fn manners(&self) -> Manners {
        Manners::Keep
    }
}

impl Config {
    /// Makes the supervisor of a Python server, without any socket.
    ///
    /// # Errors
    ///
    /// Fails when there is no interpreter or the work root cannot be opened.
    pub fn supervisor(&self) -> Result<Supervisor, ServeError> {
        let python = Python::installed().map_err(ServeError::Interpreter)?;
        let python = if self.warm { python.warmed() } else { python };
        let options = Options {
            termination_grace: self.termination_grace,
            records: self.records.clone(),
        };
        rooted(python, &self.work_dir, options)
    }
}

/// Serves Python on a unix socket until the token is cancelled or the handle is dropped.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handler_names_a_module_and_a_function() {
        assert_eq!(handler("main.run"), Ok(("main", "run")));
        assert_eq!(handler("a.b_1.run"), Ok(("a.b_1", "run")));
        for text in [
            "run", ".run", "main.", "a..b", "a-b.run", "a/b.run", "a.1", "a. b",
        ] {
            assert!(handler(text).is_err(), "{text}");
        }
    }

    #[test]
    fn python3_comes_before_python() {
        let dir = tempfile::tempdir().unwrap();
        let place = |name: &str| {
            let place = dir.path().join(name);
            std::fs::create_dir(&place).unwrap();
            place
        };
        let (first, second) = (place("first"), place("second"));
        std::fs::write(first.join("python"), "").unwrap();
        let found = |path: [&PathBuf; 2]| Python::find(path.map(Clone::clone));
        assert_eq!(
            found([&first, &second]).unwrap().interpreter,
            first.join("python")
        );
        std::fs::write(second.join("python3"), "").unwrap();
        assert_eq!(
            found([&first, &second]).unwrap().interpreter,
            second.join("python3")
        );
        assert!(Python::find([PathBuf::from("relative")]).is_err());
    }
}
