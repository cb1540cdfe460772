//! Where the API server is, and as whom krt speaks to it (C-2, C-3).

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args as Group};
use kruntimes_embedded::home::{self, Presence};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use super::problem::Problem;
use crate::place::Place;
use crate::say;

/// Directory of the local engine, as `krt local` takes it.
const DATA_DIR: &str = "KRT_DATA_DIR";

/// Flags that lead to a server; the same as those of kubectl.
#[derive(Clone, Debug, Default, Group)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Connect {
    /// Namespace; that of the context unless given, else `default`
    #[arg(short, long, global = true, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// Kubeconfig file; `KUBECONFIG` unless given, else a running local engine, else ~/.kube/config
    #[arg(long, global = true, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig
    #[arg(long, global = true, value_name = "NAME")]
    context: Option<String>,
    /// Cluster of the kubeconfig
    #[arg(long, global = true, value_name = "NAME")]
    cluster: Option<String>,
    /// User of the kubeconfig
    #[arg(long, global = true, value_name = "NAME")]
    user: Option<String>,
    /// Address of the API server, instead of the one in the kubeconfig
    #[arg(short, long, global = true, value_name = "URL")]
    server: Option<String>,
    /// Bearer token, instead of the credentials in the kubeconfig
    #[arg(long, global = true, value_name = "TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Act as this user
    #[arg(long = "as", global = true, value_name = "USER")]
    act_as: Option<String>,
    /// Act as a member of this group; may repeat
    #[arg(
        long = "as-group",
        global = true,
        value_name = "GROUP",
        requires = "act_as"
    )]
    act_as_groups: Vec<String>,
    /// Act with this UID
    #[arg(
        long = "as-uid",
        global = true,
        value_name = "UID",
        requires = "act_as"
    )]
    act_as_uid: Option<String>,
    /// Certificates of the authorities that the server is checked with
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        conflicts_with = "insecure_skip_tls_verify"
    )]
    certificate_authority: Option<PathBuf>,
    /// Client certificate, instead of the credentials in the kubeconfig
    #[arg(long, global = true, value_name = "FILE", requires = "client_key")]
    client_certificate: Option<PathBuf>,
    /// Key of the client certificate
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        requires = "client_certificate"
    )]
    client_key: Option<PathBuf>,
    /// Give up a request after this long; zero means never. Watches go on
    #[arg(long, global = true, value_name = "DURATION", value_parser = crate::args::runs::time)]
    request_timeout: Option<Duration>,
    /// Ask for answers that are not compressed
    #[arg(long, global = true)]
    disable_compression: bool,
    /// Do not check the certificate of the server
    #[arg(long, global = true)]
    insecure_skip_tls_verify: bool,
    /// Name that the certificate of the server must carry
    #[arg(long, global = true, value_name = "NAME")]
    tls_server_name: Option<String>,
    /// Say which server is used
    #[arg(short, long, global = true, action = ArgAction::Count)]
    verbose: u8,
}

/// A server to talk to.
pub(crate) struct Server {
    /// The client.
    pub(crate) client: Client,
    /// Namespace of everything that names none.
    pub(crate) namespace: String,
    /// Longest that a request may take.
    pub(crate) limit: Option<Duration>,
}

/// Where a configuration comes from.
enum Source {
    /// Files in the notation of kubectl; the text says which.
    Files(Box<Kubeconfig>, String),
    /// The service account of the Pod that krt runs in.
    Cluster,
}

impl Connect {
    /// Names the first flag that was given, for verbs that connect to nothing.
    pub(crate) fn given(&self) -> Option<&'static str> {
        [
            (self.namespace.is_some(), "--namespace"),
            (self.kubeconfig.is_some(), "--kubeconfig"),
            (self.context.is_some(), "--context"),
            (self.cluster.is_some(), "--cluster"),
            (self.user.is_some(), "--user"),
            (self.server.is_some(), "--server"),
            (self.token.is_some(), "--token"),
            (self.act_as.is_some(), "--as"),
            (
                self.certificate_authority.is_some(),
                "--certificate-authority",
            ),
            (self.client_certificate.is_some(), "--client-certificate"),
            (self.request_timeout.is_some(), "--request-timeout"),
            (self.disable_compression, "--disable-compression"),
            (self.insecure_skip_tls_verify, "--insecure-skip-tls-verify"),
            (self.tls_server_name.is_some(), "--tls-server-name"),
        ]
        .into_iter()
        .find_map(|(given, name)| given.then_some(name))
    }

    /// Connects; nothing is sent yet.
    pub(crate) async fn connect(&self) -> Result<Server, Problem> {
        let (mut config, named) = match self.source()? {
            Source::Files(kubeconfig, named) => {
                let options = KubeConfigOptions {
                    context: self.context.clone(),
                    cluster: self.cluster.clone(),
                    user: self.user.clone(),
                };
                let config = Config::from_custom_kubeconfig(*kubeconfig, &options).await;
                let config = config.map_err(|error| {
                    let next =
                        "see `kubectl config get-contexts`, or name another file with --kubeconfig";
                    Problem::of(&error, next)
                })?;
                (config, named)
            }
            Source::Cluster => {
                let config = Config::incluster().map_err(|_| nowhere())?;
                (config, "the service account of this Pod".to_owned())
            }
        };
        self.adjust(&mut config)?;
        if self.verbose > 0 {
            say::notice(&format!("krt: using {} from {named}", config.cluster_url));
        }
        let namespace = self.namespace.clone();
        let namespace = namespace.unwrap_or_else(|| config.default_namespace.clone());
        let client = Client::try_from(config).map_err(|error| {
            Problem::of(
                &error,
                "check the certificates and keys that the kubeconfig names",
            )
        })?;
        let limit = self.request_timeout.filter(|limit| !limit.is_zero());
        Ok(Server {
            client,
            namespace,
            limit,
        })
    }

    fn source(&self) -> Result<Source, Problem> {
        if let Some(path) = &self.kubeconfig {
            return read(path, path.display().to_string());
        }
        let variable = std::env::var_os("KUBECONFIG").filter(|value| !value.is_empty());
        if let Some(variable) = variable {
            let merged = Kubeconfig::from_env().map_err(|error| {
                Problem::of(
                    &error,
                    "correct KUBECONFIG, or name a file with --kubeconfig",
                )
            })?;
            let named = format!("KUBECONFIG={}", variable.display());
            return Ok(Source::Files(Box::new(merged.unwrap_or_default()), named));
        }
        let picks = self.context.is_some() || self.cluster.is_some() || self.user.is_some();
        if let Some(path) = (!picks).then(engine).flatten() {
            return read(&path, format!("the local engine ({})", path.display()));
        }
        let home = etcetera::home_dir()
            .ok()
            .map(|home| home.join(".kube/config"));
        match home.filter(|path| path.is_file()) {
            Some(path) => read(&path, path.display().to_string()),
            None => Ok(Source::Cluster),
        }
    }

    fn adjust(&self, config: &mut Config) -> Result<(), Problem> {
        if let Some(server) = &self.server {
            config.cluster_url = server.parse().map_err(|error| {
                let next = "write it like https://host:port";
                Problem::new(format!("krt: --server {server:?}: {error}"), next)
                    .exit(crate::exit::Exit::Usage)
            })?;
        }
        if let Some(token) = &self.token {
            config.auth_info = kube::config::AuthInfo {
                token: Some(token.clone().into()),
                ..kube::config::AuthInfo::default()
            };
        }
        if let (Some(certificate), Some(key)) = (&self.client_certificate, &self.client_key) {
            let named = |path: &PathBuf| Some(path.to_string_lossy().into_owned());
            config.auth_info = kube::config::AuthInfo {
                client_certificate: named(certificate),
                client_key: named(key),
                ..kube::config::AuthInfo::default()
            };
        }
        if let Some(path) = &self.certificate_authority {
            std::fs::metadata(path).map_err(|error| {
                let said = format!("krt: --certificate-authority {}: {error}", path.display());
                Problem::new(said, "name a file with certificates in PEM")
            })?;
            config.root_cert = None;
            config.root_cert_file = Some(path.clone());
        }
        config.disable_compression |= self.disable_compression;
        if let Some(user) = &self.act_as {
            config.auth_info.impersonate = Some(user.clone());
            let groups = self.act_as_groups.clone();
            config
                .auth_info
                .impersonate_uid
                .clone_from(&self.act_as_uid);
            config.auth_info.impersonate_groups = (!groups.is_empty()).then_some(groups);
        }
        if self.insecure_skip_tls_verify {
            config.accept_invalid_certs = true;
        }
        if self.tls_server_name.is_some() {
            config.tls_server_name.clone_from(&self.tls_server_name);
        }
        Ok(())
    }
}

fn read(path: &std::path::Path, named: String) -> Result<Source, Problem> {
    let kubeconfig = Kubeconfig::read_from(path)
        .map_err(|error| Problem::of(&error, "name another file with --kubeconfig"))?;
    Ok(Source::Files(Box::new(kubeconfig), named))
}

/// The kubeconfig of a local engine that serves.
fn engine() -> Option<PathBuf> {
    let dir = std::env::var_os(DATA_DIR).filter(|dir| !dir.is_empty());
    let place = Place::find(dir.map(PathBuf::from)).ok()?;
    match home::look(&place.dir) {
        Ok(Presence::Somebody(Some(record))) => record.kubeconfig,
        Ok(Presence::Nobody | Presence::Somebody(None)) | Err(_) => None,
    }
}

fn nowhere() -> Problem {
    Problem::new(
        "krt: there is no API server to talk to: no --kubeconfig, no KUBECONFIG, no local engine, no ~/.kube/config"
            .to_owned(),
        "start a local engine with `krt local up --detach`, or name a file with --kubeconfig",
    )
}
