//! A control plane on loopback: etcd, kube-apiserver and the two controllers that behaviour depends on.

use std::ffi::OsString;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::{Instant, sleep, timeout};

use super::binaries::Binaries;
use super::credentials::Credentials;
use super::process::Part;
use super::{Error, definitions};

/// Longest time from the start of kube-apiserver until it is ready.
const READY_IN: Duration = Duration::from_secs(120);
/// Longest time for one answer, and the pause before the next question.
const ONE_ANSWER: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(100);
/// What of kube-controller-manager runs: a bare API server collects no garbage and empties no namespace.
const CONTROLLERS: &str = "garbage-collector-controller,namespace-controller";

/// The running control plane. Dropping it ends every process and removes its data.
pub(super) struct Plane {
    // Parts end in this order, and the directory after all of them.
    controllers: Option<Part>,
    server: Part,
    etcd: Part,
    credentials: Credentials,
    ports: Ports,
    directory: PathBuf,
    _temporary: Option<TempDir>,
}

/// Loopback ports that were free a moment ago.
#[derive(Clone, Copy, Debug)]
struct Ports {
    server: u16,
    clients: u16,
    peers: u16,
    controllers: u16,
}

impl Ports {
    fn free() -> Result<Self, Error> {
        // All at once, so that they differ.
        let held = [(); 4].map(|()| TcpListener::bind("127.0.0.1:0"));
        let mut ports = Vec::new();
        for listener in held {
            ports.push(listener?.local_addr()?.port());
        }
        Ok(Self {
            server: ports[0],
            clients: ports[1],
            peers: ports[2],
            controllers: ports[3],
        })
    }
}

impl Plane {
    /// Starts etcd and kube-apiserver and waits until the server is ready.
    pub(super) async fn start(binaries: &Binaries, keep: bool) -> Result<Self, Error> {
        let temporary = tempfile::Builder::new()
            .prefix("kruntimes-e2e-")
            .tempdir()?;
        let directory = temporary.path().to_owned();
        let temporary = if keep {
            let _: PathBuf = temporary.keep();
            None
        } else {
            Some(temporary)
        };
        let ports = Ports::free()?;
        let credentials = Credentials::make(&directory, ports.server)?;
        let etcd = Part::start("etcd", &binaries.path("etcd"), etcd(ports), &directory)?;
        let program = binaries.path("kube-apiserver");
        let arguments = server(ports, &credentials, &directory);
        let server = Part::start("kube-apiserver", &program, arguments, &directory)?;
        let mut plane = Self {
            controllers: None,
            server,
            etcd,
            credentials,
            ports,
            directory,
            _temporary: temporary,
        };
        plane.ready().await?;
        Ok(plane)
    }

    /// Starts the controllers. Kinds that exist by now are known to them at once.
    pub(super) fn start_controllers(&mut self, binaries: &Binaries) -> Result<(), Error> {
        let program = binaries.path("kube-controller-manager");
        let arguments = [
            flag("kubeconfig", self.credentials.kubeconfig()),
            flag("controllers", CONTROLLERS),
            flag("leader-elect", "false"),
            flag("bind-address", "127.0.0.1"),
            flag("secure-port", self.ports.controllers.to_string()),
            flag("cert-dir", self.directory.join("controllers")),
        ];
        let name = "kube-controller-manager";
        self.controllers = Some(Part::start(name, &program, arguments, &self.directory)?);
        Ok(())
    }

    /// Where the API is served.
    pub(super) fn address(&self) -> String {
        format!("https://127.0.0.1:{}", self.ports.server)
    }

    /// The kubeconfig of the administrator.
    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.credentials.kubeconfig()
    }

    /// Waits until a part ends, which should not happen.
    pub(super) async fn ended(&mut self) -> Error {
        let controllers = async {
            match &mut self.controllers {
                Some(part) => part.ended().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            error = self.etcd.ended() => error,
            error = self.server.ended() => error,
            error = controllers => error,
        }
    }

    async fn ready(&mut self) -> Result<(), Error> {
        let client = definitions::client(&self.credentials.kubeconfig()).await?;
        let asking = async {
            let end = Instant::now() + READY_IN;
            while Instant::now() < end {
                let question = http::Request::get("/readyz").body(Vec::new());
                let Ok(question) = question else { return false };
                let answer = timeout(ONE_ANSWER, client.request_text(question)).await;
                if matches!(answer, Ok(Ok(_))) {
                    return true;
                }
                sleep(PAUSE).await;
            }
            false
        };
        let is_ready = tokio::select! {
            is_ready = asking => is_ready,
            error = self.etcd.ended() => return Err(error),
            error = self.server.ended() => return Err(error),
        };
        if is_ready {
            return Ok(());
        }
        Err(Error::NotReady {
            seconds: READY_IN.as_secs(),
            log: self.server.last_lines(),
        })
    }
}

fn flag(name: &str, value: impl Into<OsString>) -> OsString {
    let mut flag = OsString::from(format!("--{name}="));
    flag.push(value.into());
    flag
}

fn etcd(ports: Ports) -> [OsString; 8] {
    let clients = format!("http://127.0.0.1:{}", ports.clients);
    let peers = format!("http://127.0.0.1:{}", ports.peers);
    [
        flag("name", "e2e"),
        flag("data-dir", "etcd"),
        flag("listen-client-urls", &clients),
        flag("advertise-client-urls", &clients),
        flag("listen-peer-urls", &peers),
        flag("initial-advertise-peer-urls", &peers),
        flag("initial-cluster", format!("e2e={peers}")),
        // The data need not outlive a power cut.
        flag("unsafe-no-fsync", "true"),
    ]
}

fn server(ports: Ports, credentials: &Credentials, directory: &Path) -> [OsString; 15] {
    let etcd = format!("http://127.0.0.1:{}", ports.clients);
    [
        flag("etcd-servers", etcd),
        flag("bind-address", "127.0.0.1"),
        flag("secure-port", ports.server.to_string()),
        flag("tls-cert-file", credentials.path("server.crt")),
        flag("tls-private-key-file", credentials.path("server.key")),
        flag("cert-dir", directory.join("server")),
        flag("token-auth-file", credentials.path("tokens.csv")),
        flag("authorization-mode", "RBAC"),
        flag("service-account-issuer", "https://kubernetes.default.svc"),
        flag(
            "service-account-key-file",
            credentials.path("service-accounts.pub"),
        ),
        flag(
            "service-account-signing-key-file",
            credentials.path("service-accounts.key"),
        ),
        flag("service-cluster-ip-range", "10.0.0.0/24"),
        // Nobody makes service accounts here, and Pods must be accepted without one.
        flag("disable-admission-plugins", "ServiceAccount"),
        flag("endpoint-reconciler-type", "none"),
        flag("v", "1"),
    ]
}
