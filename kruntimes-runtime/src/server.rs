//! Any [`RuntimeClient`] on a socket: the gRPC services and their life.

mod service;

use std::future::Future;
use std::io;
use std::os::unix::net::{UnixListener as StdUnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::TryFutureExt;
use kruntimes_proto::executor::v1::runtime_events_server::RuntimeEventsServer;
use kruntimes_proto::executor::v1::runtime_server::RuntimeServer;
use kruntimes_proto::{MAX_MESSAGE_BYTES, RuntimeClient};
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::{TcpListenerStream, UnixListenerStream};
use tokio_util::sync::CancellationToken;

use crate::adapter::Adapter;
use crate::directory::WorkRoot;
use crate::supervisor::{Options, Supervisor};
use service::Service;

/// Time to stop everything that runs, after which the server goes anyway (N-227).
const STOP_WITHIN: Duration = Duration::from_millis(4500);

/// Time for open calls and streams to end after that.
const HANG_UP_WITHIN: Duration = Duration::from_millis(300);

/// Says why a server did not start or did not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The socket or port cannot be had.
    #[error("cannot listen on {endpoint}")]
    Listen {
        /// Where.
        endpoint: String,
        /// The cause.
        source: io::Error,
    },
    /// The work root cannot be opened.
    #[error("cannot open the work root {}", path.display())]
    WorkRoot {
        /// Where.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The interpreter is missing.
    #[error("cannot find the interpreter")]
    Interpreter(#[source] io::Error),
    /// The process cannot listen to the signals that stop it.
    #[error("cannot listen to signals")]
    Signals(#[source] io::Error),
    /// The transport broke.
    #[error("the server broke down")]
    Transport(#[source] tonic::transport::Error),
    /// The task of the server panicked or was ended from outside.
    #[error("the task of the server was lost")]
    Lost(#[source] tokio::task::JoinError),
}

/// Makes a supervisor whose executions live below `work_dir`.
pub(crate) fn rooted(
    adapter: impl Adapter,
    work_dir: &Path,
    options: Options,
) -> Result<Supervisor, ServeError> {
    let root = WorkRoot::open(work_dir).map_err(|source| ServeError::WorkRoot {
        path: work_dir.to_owned(),
        source,
    })?;
    Ok(Supervisor::new(adapter, root, options))
}

/// Accepts connections on a unix socket or a TCP port.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    endpoint: String,
}

#[derive(Debug)]
enum Socket {
    Unix(UnixListener, SocketFile),
    Tcp(TcpListener),
}

/// Removes the file when the server is gone.
///
/// The socket stays open until then, though nothing is accepted any more: closed earlier, while the last
/// calls go on, it would invite a next server to take the path, and that server's file would be removed.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    _open: StdUnixListener,
}

impl SocketFile {
    fn new(path: &Path, listener: &StdUnixListener) -> io::Result<Self> {
        Ok(Self {
            // The way that led here may be closed before the server is.
            path: path.canonicalize()?,
            _open: listener.try_clone()?,
        })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Somebody else may have removed it, which is as good.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Listener {
    /// Binds a unix socket; a file that nobody listens on is replaced.
    ///
    /// # Errors
    ///
    /// Fails when the path cannot be bound, or a server listens there.
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime.
    pub fn unix(path: &Path) -> Result<Self, ServeError> {
        let endpoint = format!("unix:{}", path.display());
        let bound = bind(path).and_then(|listener| {
            listener.set_nonblocking(true)?;
            let file = SocketFile::new(path, &listener)?;
            Ok(Socket::Unix(UnixListener::from_std(listener)?, file))
        });
        match bound {
            Ok(socket) => Ok(Self { socket, endpoint }),
            Err(source) => Err(ServeError::Listen { endpoint, source }),
        }
    }

    /// Binds an address such as `127.0.0.1:9091`; port 0 lets the system choose.
    ///
    /// # Errors
    ///
    /// Fails when the address cannot be bound.
    pub async fn tcp(address: &str) -> Result<Self, ServeError> {
        let bound = async {
            let listener = TcpListener::bind(address).await?;
            let endpoint = listener.local_addr()?.to_string();
            Ok((listener, endpoint))
        };
        match bound.await {
            Ok((listener, endpoint)) => Ok(Self {
                socket: Socket::Tcp(listener),
                endpoint,
            }),
            Err(source) => Err(ServeError::Listen {
                endpoint: address.to_owned(),
                source,
            }),
        }
    }

    /// Returns what [`kruntimes_proto::connect`] takes.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }
}

fn bind(path: &Path) -> io::Result<StdUnixListener> {
    match StdUnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let abandoned = UnixStream::connect(path)
                .is_err_and(|refused| refused.kind() == io::ErrorKind::ConnectionRefused);
            if !abandoned {
                return Err(error);
            }
            std::fs::remove_file(path)?;
            StdUnixListener::bind(path)
        }
        bound => bound,
    }
}

/// Serves `runtime` until `stopping` is done, then hangs up within a moment.
///
/// Calls are answered while `stopping` runs, so work that is being ended can still be read.
///
/// # Errors
///
/// [`ServeError::Transport`] when accepting connections fails for good.
pub async fn serve(
    listener: Listener,
    runtime: Arc<dyn RuntimeClient>,
    stopping: impl Future<Output = ()> + Send,
) -> Result<(), ServeError> {
    let hang_up = CancellationToken::new();
    let service = Service::new(runtime, hang_up.clone());
    let tasks =
        RuntimeServer::from_arc(Arc::clone(&service)).max_decoding_message_size(MAX_MESSAGE_BYTES);
    let router = tonic::transport::Server::builder()
        .add_service(tasks)
        .add_service(RuntimeEventsServer::from_arc(service));
    // Covers this future being dropped as well: open calls belong to the tasks of their connections.
    let hanging_up = hang_up.clone().drop_guard();
    let stopping = async move {
        stopping.await;
        drop(hanging_up);
    };
    let late = async move {
        hang_up.cancelled().await;
        tokio::time::sleep(HANG_UP_WITHIN).await;
    };
    let serving = async {
        match listener.socket {
            Socket::Unix(listener, _file) => {
                let incoming = UnixListenerStream::new(listener);
                router
                    .serve_with_incoming_shutdown(incoming, stopping)
                    .await
            }
            Socket::Tcp(listener) => {
                let incoming = TcpListenerStream::new(listener);
                router
                    .serve_with_incoming_shutdown(incoming, stopping)
                    .await
            }
        }
    };
    tokio::select! {
        end = serving => end.map_err(ServeError::Transport),
        () = late => Ok(()),
    }
}

/// Serves a supervisor until the token is cancelled, then ends its executions (N-227).
///
/// # Errors
///
/// As [`serve`].
pub async fn serve_supervisor(
    listener: Listener,
    supervisor: Supervisor,
    shutdown: CancellationToken,
) -> Result<(), ServeError> {
    let runtime = Arc::new(supervisor.clone());
    let stopping = async move {
        shutdown.cancelled().await;
        if tokio::time::timeout(STOP_WITHIN, supervisor.shutdown())
            .await
            .is_err()
        {
            tracing::warn!("executions are left to be killed");
        }
    };
    serve(listener, runtime, stopping).await
}

/// Owns a server that runs in a task; dropping it stops the server as cancelling its token does.
#[derive(Debug)]
pub struct ServerHandle {
    endpoint: String,
    shutdown: CancellationToken,
    task: Option<JoinHandle<Result<(), ServeError>>>,
}

impl ServerHandle {
    /// Starts serving in a task of the current runtime.
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime.
    pub fn spawn(listener: Listener, supervisor: Supervisor, shutdown: &CancellationToken) -> Self {
        // Dropping the handle must not cancel what else the caller's token stands for.
        let shutdown = shutdown.child_token();
        let endpoint = listener.endpoint().to_owned();
        let task = tokio::spawn(serve_supervisor(listener, supervisor, shutdown.clone()));
        Self {
            endpoint,
            shutdown,
            task: Some(task),
        }
    }

    /// Returns what [`kruntimes_proto::connect`] takes.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Stops the server and returns when its processes are gone.
    ///
    /// # Errors
    ///
    /// The error the server ended with, if it did.
    pub async fn shutdown(mut self) -> Result<(), ServeError> {
        self.shutdown.cancel();
        match self.task.take() {
            Some(task) => task.map_err(ServeError::Lost).await?,
            None => Ok(()),
        }
    }
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_path_is_taken_until_its_server_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let Listener {
            socket: Socket::Unix(old, old_file),
            ..
        } = Listener::unix(&path).unwrap()
        else {
            panic!("a unix socket was asked for")
        };
        // It accepts no more, but its last calls go on.
        drop(old);
        assert!(Listener::unix(&path).is_err());
        drop(old_file);
        assert!(!path.exists());
        let _next = Listener::unix(&path).unwrap();
        assert!(UnixStream::connect(&path).is_ok());
    }
}
