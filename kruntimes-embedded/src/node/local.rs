//! Pods made of processes of this machine: a Runtime Server on a unix socket.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{Container, Pod};
use kruntimes_node::{Artifacts, FilesystemStore};
use kruntimes_proto::RuntimeClient;
use kruntimes_runtime::server::{Listener, ServeError, ServerHandle};
use kruntimes_runtime::{bash, python};
use kube::ResourceExt as _;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::{BackendError, PodBackend, PodSandbox, Servers};

/// Names of the Runtime Servers this node has.
pub(crate) const LOCAL_SERVERS: &[&str] = &["bash", "python"];

/// Longest path that fits into the address of a unix socket.
const SOCKET_PATH_MAX: usize = 107;

/// How Pods are laid out on this machine.
#[derive(Clone, Debug)]
pub struct BashBackendConfig {
    /// Directory that gets one folder per namespace, with one per Pod in it.
    pub root: PathBuf,
    /// Time between the polite and the final signal.
    pub grace: Duration,
    /// Directory with a file per living process group, for whoever comes after a kill of this process.
    pub records: Option<PathBuf>,
}

/// Starts a Runtime Server per Pod: bash, python or one of [`Servers`], as its image or its `--language` says.
#[derive(Clone, Debug)]
pub struct BashBackend {
    config: BashBackendConfig,
    own: Servers,
}

impl BashBackend {
    /// Makes a backend; nothing is started yet.
    pub fn new(config: BashBackendConfig) -> Self {
        let own = Servers::default();
        Self { config, own }
    }

    /// Adds servers to those that are built in.
    pub fn with_servers(mut self, servers: Servers) -> Self {
        self.own = servers;
        self
    }

    fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.own.names().chain(LOCAL_SERVERS.iter().copied())
    }
}

/// Tells which built-in Runtime Server a container asks for.
pub(crate) fn local_server(container: &Container) -> Option<&'static str> {
    server_among(container, LOCAL_SERVERS.iter().copied())
}

/// Tells which of these servers a container asks for: by `--language`, else by the image's name.
fn server_among<'a>(
    container: &Container,
    mut names: impl Iterator<Item = &'a str> + Clone,
) -> Option<&'a str> {
    let words = || {
        let command = container.command.iter().flatten();
        command.chain(container.args.iter().flatten())
    };
    let by_flag = words()
        .zip(words().skip(1))
        .find(|(flag, _)| *flag == "--language")
        .map(|(_, language)| language.as_str())
        .or_else(|| words().find_map(|word| word.strip_prefix("--language=")));
    if let Some(language) = by_flag {
        return names.find(|name| *name == language);
    }
    let image = container.image.as_deref().unwrap_or_default();
    let last = image.rsplit('/').next().unwrap_or_default();
    let name = last.split([':', '@']).next().unwrap_or_default();
    let mut parts = name.split(['-', '_', '.']);
    parts.find_map(|part| names.clone().find(|server| *server == part))
}

#[async_trait]
impl PodBackend for BashBackend {
    async fn start(&self, pod: &Pod) -> Result<Arc<dyn PodSandbox>, BackendError> {
        let containers = pod.spec.as_ref().map(|spec| spec.containers.as_slice());
        let runtime = containers.and_then(<[Container]>::first);
        let language = runtime.and_then(|container| server_among(container, self.names()));
        let Some(language) = language else {
            let available: Vec<&str> = self.names().collect();
            return Err(BackendError::UnknownImage {
                image: runtime.and_then(|c| c.image.clone()).unwrap_or_default(),
                available: available.join(", "),
            });
        };
        let home = self.config.root.join(pod.namespace().unwrap_or_default());
        let home = home.join(pod.name_any());
        let workspace = home.join("workspace");
        make_directory(&workspace)?;
        let (socket, short) = socket_in(&home)?;
        let refused = |error: &dyn std::error::Error| BackendError::Server(error.to_string());
        let server = self
            .serve(language, &socket, &workspace)
            .map_err(|error| refused(&error))?;
        let client =
            kruntimes_proto::connect(server.endpoint()).map_err(|error| refused(&error))?;
        Ok(Arc::new(BashSandbox {
            client: Arc::new(client),
            workspace,
            server: Mutex::new(Some(server)),
            _short: short,
        }))
    }

    fn artifacts(&self) -> Option<Artifacts> {
        // No namespace is called so.
        let root = self.config.root.join(".artifacts");
        let store = make_directory(&root)
            .map_err(|error| error.to_string())
            .and_then(|()| FilesystemStore::new(root, "local").map_err(|error| error.to_string()));
        match store {
            Ok(store) => Some(Artifacts::new(Arc::new(store))),
            Err(error) => {
                tracing::warn!(error, "artifacts cannot be kept");
                None
            }
        }
    }
}

impl BashBackend {
    fn serve(
        &self,
        language: &str,
        socket: &Path,
        workspace: &Path,
    ) -> Result<ServerHandle, ServeError> {
        let (work_dir, records) = (workspace.to_owned(), self.config.records.clone());
        let (termination_grace, end) = (self.config.grace, CancellationToken::new());
        if let Some(make) = self.own.maker(language) {
            let supervisor = make(workspace, termination_grace)?;
            let listener = Listener::unix(socket)?;
            return Ok(ServerHandle::spawn(listener, supervisor, &end));
        }
        if language == "python" {
            let config = python::Config {
                work_dir,
                termination_grace,
                records,
                ..python::Config::default()
            };
            return python::serve_unix(socket, &config, &end);
        }
        let config = bash::Config {
            work_dir,
            termination_grace,
            records,
        };
        bash::serve_unix(socket, &config, &end)
    }
}

fn make_directory(path: &Path) -> Result<(), BackendError> {
    std::fs::create_dir_all(path).map_err(|source| BackendError::Directory {
        path: path.to_owned(),
        source,
    })
}

/// Names the socket in a directory, by way of a descriptor when the path is too long for an address.
fn socket_in(home: &Path) -> Result<(PathBuf, Option<File>), BackendError> {
    const NAME: &str = "runtime.sock";
    let socket = home.join(NAME);
    if socket.as_os_str().len() <= SOCKET_PATH_MAX {
        return Ok((socket, None));
    }
    let directory = File::open(home).map_err(|source| BackendError::Directory {
        path: home.to_owned(),
        source,
    })?;
    let way = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
    Ok((way.join(NAME), Some(directory)))
}

struct BashSandbox {
    client: Arc<dyn RuntimeClient>,
    workspace: PathBuf,
    server: Mutex<Option<ServerHandle>>,
    /// Keeps the short way to the socket open; after the server, which uses it until its end.
    _short: Option<File>,
}

#[async_trait]
impl PodSandbox for BashSandbox {
    fn runtime(&self) -> Arc<dyn RuntimeClient> {
        Arc::clone(&self.client)
    }

    fn workspace(&self) -> PathBuf {
        self.workspace.clone()
    }

    async fn stop(&self) {
        if let Some(server) = self.server.lock().await.take()
            && let Err(error) = server.shutdown().await
        {
            tracing::warn!(%error, "the runtime server ended with an error");
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PodSpec;

    use super::*;

    fn container(image: &str, args: &[&str]) -> Container {
        Container {
            image: Some(image.into()),
            args: Some(args.iter().map(|&arg| arg.into()).collect()),
            ..Container::default()
        }
    }

    #[tokio::test]
    async fn a_deep_directory_is_no_obstacle() {
        let dir = tempfile::tempdir().unwrap();
        let backend = BashBackend::new(BashBackendConfig {
            root: dir.path().join("x".repeat(120)),
            grace: Duration::ZERO,
            records: None,
        });
        let mut pod = Pod::default();
        pod.metadata.name = Some("runtime-bash-0".into());
        pod.spec = Some(PodSpec {
            containers: vec![container("bash", &[])],
            ..PodSpec::default()
        });
        let sandbox = backend.start(&pod).await.unwrap();
        assert!(sandbox.runtime().health().await.unwrap().healthy);
        sandbox.stop().await;
        let home = backend.config.root.join("runtime-bash-0");
        assert!(!home.join("runtime.sock").exists());
    }

    #[test]
    fn c_73_only_servers_that_exist_here_are_found() {
        for (image, args, want) in [
            ("registry.example/bash-runtime:1.0", &[][..], Some("bash")),
            ("kruntimes-runtime-bash", &[][..], Some("bash")),
            (
                "registry.example:5000/x/bash@sha256:00",
                &[][..],
                Some("bash"),
            ),
            (
                "registry.example/python-runtime:1.0",
                &[][..],
                Some("python"),
            ),
            ("bashful", &[][..], None),
            ("runtime-server", &["--language", "bash"][..], Some("bash")),
            ("runtime-server", &["--language=bash"][..], Some("bash")),
            ("bash", &["--language=python"][..], Some("python")),
            ("bash", &["--language=ruby"][..], None),
        ] {
            assert_eq!(
                local_server(&container(image, args)),
                want,
                "{image} {args:?}"
            );
        }
    }
}
