//! A small HTTPS server on loopback with a certificate of its own: git repositories and plain files.
//!
//! Runs reach it by the same code and the same addresses as any other server; only its certificate is handed
//! to git by the variable that operators use for their own authorities.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// What a path answers, beside repositories.
#[derive(Clone)]
pub(crate) enum Answer {
    Bytes(Vec<u8>),
    Redirect(String),
    /// Nothing, ever.
    Hang,
}

pub(crate) struct Forge {
    pub(crate) port: u16,
    pub(crate) dir: tempfile::TempDir,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    root: PathBuf,
    answers: Mutex<BTreeMap<String, Answer>>,
    /// Paths that were asked for, with their queries.
    asked: Mutex<Vec<String>>,
    /// Speaks the first protocol version only, which gives what refs point to and nothing else.
    old: Mutex<bool>,
}

impl Drop for Forge {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Forge {
    pub(crate) async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["localhost".to_owned()])
            .unwrap()
            .self_signed(&key)
            .unwrap();
        std::fs::write(dir.path().join("ca.pem"), certificate.pem()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der())),
            )
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            root: dir.path().to_owned(),
            answers: Mutex::default(),
            asked: Mutex::default(),
            old: Mutex::new(false),
        });
        let served = Arc::clone(&shared);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (acceptor, served) = (acceptor.clone(), Arc::clone(&served));
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        serve(stream, &served).await;
                    }
                });
            }
        });
        Self {
            port,
            dir,
            shared,
            task,
        }
    }

    pub(crate) fn ca(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("https://localhost:{}/{path}", self.port)
    }

    pub(crate) fn answer(&self, path: &str, answer: Answer) {
        let mut answers = self.shared.answers.lock().unwrap();
        answers.insert(format!("/{path}"), answer);
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.shared.asked.lock().unwrap().clone()
    }

    pub(crate) fn speak_old(&self) {
        *self.shared.old.lock().unwrap() = true;
    }

    /// Makes a repository with what a script leaves in an empty one, and returns what the script prints.
    pub(crate) async fn repository(&self, name: &str, script: &str) -> String {
        let path = self.dir.path().join(name);
        std::fs::create_dir(&path).unwrap();
        let output = Command::new("bash")
            .args(["-euc", &format!("git init -q -b main .; {script}")])
            .current_dir(&path)
            .env("HOME", self.dir.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .envs(["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"].map(|name| (name, "test")))
            .envs(
                ["GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"].map(|name| (name, "test@example.com")),
            )
            .output()
            .await
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{error}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}

struct Request {
    target: String,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Option<Request> {
    let mut text = Vec::new();
    while !text.ends_with(b"\r\n\r\n") {
        text.push(stream.read_u8().await.ok()?);
    }
    let text = String::from_utf8(text).ok()?;
    let mut lines = text.lines();
    let target = lines.next()?.split(' ').nth(1)?.to_owned();
    let headers: BTreeMap<_, _> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = headers
        .get("content-length")
        .map_or(Some(0), |text| text.parse().ok())?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some(Request {
        target,
        headers,
        body,
    })
}

async fn serve(
    mut stream: tokio_rustls::server::TlsStream<tokio::net::TcpStream>,
    shared: &Shared,
) {
    let Some(request) = read(&mut stream).await else {
        return;
    };
    shared.asked.lock().unwrap().push(request.target.clone());
    let path = request.target.split('?').next().unwrap_or_default();
    let answer = shared.answers.lock().unwrap().get(path).cloned();
    let head = |status: &str, more: &str| {
        format!("HTTP/1.1 {status}\r\nConnection: close\r\n{more}\r\n").into_bytes()
    };
    let bytes = match answer {
        Some(Answer::Hang) => std::future::pending().await,
        Some(Answer::Redirect(to)) => head("302 Found", &format!("Location: {to}\r\n")),
        Some(Answer::Bytes(bytes)) => {
            let length = format!("Content-Length: {}\r\n", bytes.len());
            [head("200 OK", &length), bytes].concat()
        }
        None => match git(shared, &request).await {
            Some((kind, bytes)) => {
                let more = format!("Content-Type: {kind}\r\nCache-Control: no-cache\r\n");
                [head("200 OK", &more), bytes].concat()
            }
            None => head("404 Not Found", "Content-Length: 0\r\n"),
        },
    };
    let _ = stream.write_all(&bytes).await;
    let _ = stream.shutdown().await;
}

/// Answers the two requests of the smart protocol with `git upload-pack`.
async fn git(shared: &Shared, request: &Request) -> Option<(&'static str, Vec<u8>)> {
    const SERVICE: &str = "git-upload-pack";
    let target = request.target.as_str();
    if let Some(repo) = target.strip_suffix("/info/refs?service=git-upload-pack") {
        let refs = upload_pack(shared, repo, request, &["--advertise-refs"]).await?;
        let mut bytes = b"001e# service=git-upload-pack\n0000".to_vec();
        bytes.extend(refs);
        return Some(("application/x-git-upload-pack-advertisement", bytes));
    }
    let repo = target.strip_suffix(SERVICE)?.strip_suffix('/')?;
    let bytes = upload_pack(shared, repo, request, &[]).await?;
    Some(("application/x-git-upload-pack-result", bytes))
}

async fn upload_pack(
    shared: &Shared,
    repo: &str,
    request: &Request,
    args: &[&str],
) -> Option<Vec<u8>> {
    let path = shared.root.join(Path::new(repo.trim_start_matches('/')));
    if !path.is_dir() {
        return None;
    }
    let mut command = Command::new("git");
    command
        .args(["-c", "safe.directory=*", "upload-pack", "--stateless-rpc"])
        .args(args)
        .arg(path)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    if let Some(version) = request.headers.get("git-protocol")
        && !*shared.old.lock().unwrap()
    {
        command.env("GIT_PROTOCOL", version);
    }
    let mut child = command.spawn().ok()?;
    let mut input = child.stdin.take()?;
    let body = request.body.clone();
    let write = async move {
        let _ = input.write_all(&body).await;
    };
    let ((), output) = tokio::join!(write, child.wait_with_output());
    Some(output.ok()?.stdout)
}
