//! The API over HTTPS on a loopback address, for kubectl and client libraries.
//!
//! [`Listener::bind`] prepares keys and certificates in a directory of its own and writes a kubeconfig there;
//! [`Listener::run`] serves until it is told to stop. Nothing but loopback addresses is accepted: this is the server of
//! one machine.
//!
//! ```
//! use kruntimes_apiserver::{
//!     ApiServer,
//!     listen::{ListenOptions, Listener},
//! };
//! use tokio_util::sync::CancellationToken;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let state_dir = directory.path().join("listener");
//! let server = ApiServer::builder().build()?;
//! let listener = Listener::bind(&server, ListenOptions::new(state_dir)).await?;
//! println!("kubectl --kubeconfig {} get namespaces", listener.kubeconfig().display());
//! let shutdown = CancellationToken::new();
//! let serving = tokio::spawn(listener.run(shutdown.clone()));
//! shutdown.cancel();
//! serving.await?;
//! # Ok(())
//! # }
//! ```

mod certificate;
mod connection;
mod door;
mod kubeconfig;
mod state_dir;

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use thiserror::Error;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use self::{door::Door, state_dir::StateDir};
use crate::{access::Identity, server::ApiServer, service::ApiService};

/// Connections served at one time; further ones wait to be accepted.
const CONNECTIONS_MAX: usize = 1024;
/// How long requests under way may take to end once the listener stops.
const GRACE: Duration = Duration::from_secs(5);
/// How long to wait before accepting again when the system refuses, for example for want of file descriptors.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// Name of the file that clients are pointed to.
const KUBECONFIG: &str = "kubeconfig";

/// Where to listen.
#[derive(Clone, Debug)]
pub struct ListenOptions {
    /// A loopback address; port 0 takes the port of the last time if it is free, or else any free one.
    pub address: SocketAddr,
    /// The directory that keys, token, kubeconfig and the last port are kept in; made when missing.
    pub state_dir: PathBuf,
}

impl ListenOptions {
    /// Listens on 127.0.0.1, on the same port as the last time if it is free.
    pub fn new(state_dir: impl Into<PathBuf>) -> Self {
        Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            state_dir: state_dir.into(),
        }
    }
}

/// Why the API cannot be served over the network.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The address could be reached from other machines.
    #[error("{0} is not a loopback address")]
    NotLoopback(SocketAddr),
    /// The address is taken or cannot be used.
    #[error("cannot listen on {address}")]
    Bind {
        /// The address that was asked for.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// Another listener serves from the same directory.
    #[error("the state directory {} is in use by another listener", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// Other users of the machine could read keys or replace them; taking their access away helps.
    #[error("{} is accessible to other users (mode {mode:03o}): run chmod go-rwx on it", path.display())]
    Exposed {
        /// The file or directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// A file or directory belongs to somebody else.
    #[error("{} belongs to user {owner}", path.display())]
    Foreign {
        /// The file or directory.
        path: PathBuf,
        /// The numeric identifier of its owner.
        owner: u32,
    },
    /// Keys or certificates are damaged or do not belong together; removing them makes new ones.
    #[error("the certificate authority in {} is unusable: remove ca.crt and ca.key", path.display())]
    Authority {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        source: AuthorityError,
    },
    /// A file of the state directory cannot be read or written.
    #[error("cannot use {}", path.display())]
    State {
        /// The file or directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// What is wrong with the keys and certificates of a listener.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AuthorityError {
    /// A key cannot be read or a certificate cannot be made.
    #[error("cannot make a certificate")]
    Certificate(#[source] rcgen::Error),
    /// A certificate does not hold up against the authority.
    #[error("the certificate is not accepted")]
    Tls(#[source] rustls::Error),
    /// The certificate of the authority is not one.
    #[error("ca.crt holds no certificate")]
    NoCertificate,
    /// The verifier cannot be made.
    #[error("the authority cannot be used for verification")]
    Verifier(#[source] rustls::client::VerifierBuilderError),
}

/// A bound address, ready to serve; connections are accepted from [`Self::run`] on.
#[must_use = "nothing is served until it runs"]
pub struct Listener {
    socket: TcpListener,
    tls: TlsAcceptor,
    service: ApiService,
    endpoint: String,
    kubeconfig: PathBuf,
    state: StateDir,
}

impl Listener {
    /// Takes the address, prepares keys, certificates and the kubeconfig, and issues the administrator's token.
    ///
    /// The certificate authority and the token are made once and kept, so that a kubeconfig stays valid over restarts;
    /// the server's own key and certificate are new each time and never written down.
    ///
    /// # Errors
    ///
    /// Fails when the address is not of the loopback device or is taken, when the directory is in use, and when its
    /// contents are damaged or accessible to other users.
    pub async fn bind(server: &ApiServer, options: ListenOptions) -> Result<Self, ListenError> {
        if !options.address.ip().is_loopback() {
            return Err(ListenError::NotLoopback(options.address));
        }
        let state = StateDir::open(&options.state_dir)?;
        let authority = certificate::Authority::open(&state)?;
        let token = state.token()?;
        let socket = bind(options.address, &state).await?;
        let address = local_address(&socket, options.address)?;
        state.write("port", &format!("{}\n", address.port()))?;
        let endpoint = format!("https://{address}");
        let text = kubeconfig::text(&endpoint, authority.pem(), &token);
        let kubeconfig = state.write(KUBECONFIG, &text)?;
        let core = server.core();
        core.access.issue(&token, Identity::system_admin());
        Ok(Self {
            socket,
            tls: TlsAcceptor::from(Arc::new(authority.server_config(&state)?)),
            service: ApiService::for_network(Arc::clone(core)),
            endpoint,
            kubeconfig,
            state,
        })
    }

    /// Returns the address as clients name it, such as `https://127.0.0.1:41234`.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Returns the kubeconfig for this listener: context `kruntimes`, namespace `default`, everything embedded.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Serves until `shutdown`; then cuts watches and followed logs, and gives other requests five seconds to end.
    ///
    /// Dropping the future cuts everything at once.
    pub async fn run(self, shutdown: CancellationToken) {
        let Self {
            socket,
            tls,
            service,
            state,
            ..
        } = self;
        let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                Some(_) = connections.join_next() => continue,
                accepted = accept(&socket, &slots) => accepted,
            };
            let Ok((stream, slot)) = accepted else {
                sleep(ACCEPT_AGAIN_AFTER).await;
                continue;
            };
            let door = Door::new(service.clone(), shutdown.clone());
            let connection = connection::serve(stream, tls.clone(), door, shutdown.clone());
            connections.spawn(async move {
                connection.await;
                drop(slot);
            });
        }
        drop(socket);
        // What has not ended by then is aborted with the set.
        let _ = timeout(GRACE, async {
            while connections.join_next().await.is_some() {}
        })
        .await;
        connections.shutdown().await;
        drop(state);
    }
}

/// Accepts the next connection once there is room for it.
async fn accept(
    socket: &TcpListener,
    slots: &Arc<Semaphore>,
) -> io::Result<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let slot = Arc::clone(slots).acquire_owned().await;
    let slot = slot.map_err(io::Error::other)?;
    let (stream, _) = socket.accept().await?;
    stream.set_nodelay(true)?;
    Ok((stream, slot))
}

/// Takes the address, with the port of the last time where any would do.
async fn bind(address: SocketAddr, state: &StateDir) -> Result<TcpListener, ListenError> {
    if address.port() == 0
        && let Some(port) = state.port()
        && let Ok(socket) = TcpListener::bind((address.ip(), port)).await
    {
        return Ok(socket);
    }
    let bound = TcpListener::bind(address).await;
    bound.map_err(|source| ListenError::Bind { address, source })
}

fn local_address(socket: &TcpListener, asked: SocketAddr) -> Result<SocketAddr, ListenError> {
    socket.local_addr().map_err(|source| ListenError::Bind {
        address: asked,
        source,
    })
}
