//! `krt artifact`: what Runs have stored (C-33 to C-36).

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use kruntimes_proto::artifact::v1::artifact_service_client::ArtifactServiceClient;
use kruntimes_proto::artifact::v1::{ArtifactMetadata, DownloadRequest, DownloadResponse};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tonic::transport::Endpoint;

use super::Kind;
use super::connect::{Connect, Server};
use super::printer::{Output, text};
use super::problem::Problem;
use super::table::Table;
use crate::args::artifacts::{ArtifactVerb, Download};
use crate::exit::Exit;
use crate::say;

/// Largest piece of content (C-35).
const PIECE_MAX_BYTES: usize = 64 * 1024;

/// Does what a verb about artifacts asks for.
pub(super) async fn run(connect: &Connect, verb: ArtifactVerb) -> Result<Exit, Problem> {
    let server = connect.connect().await?;
    match verb {
        ArtifactVerb::List { run, output } => {
            let found = server.get(Kind::Run, &run).await?;
            list(&run, &found.data, output);
            Ok(Exit::Done)
        }
        ArtifactVerb::Download(request) => download(&server, request).await,
    }
}

fn stored(run: &Value) -> Vec<Value> {
    let stored = run["status"]["artifacts"].as_array();
    stored.cloned().unwrap_or_default()
}

fn list(run: &str, object: &Value, output: Output) {
    let all = stored(object);
    match output {
        Output::Table | Output::Wide if all.is_empty() => {
            say::notice(&format!("krt: Run {run} has no artifacts"));
        }
        Output::Table | Output::Wide => say::data(&table(&all).render(true)),
        Output::Name => {
            for one in &all {
                say::data(&text(&one["name"]));
            }
        }
        Output::Jsonl => {
            for one in &all {
                say::data(&one.to_string());
            }
        }
        Output::Json | Output::Yaml | Output::JsonPath(_) => {
            say::data(&output.written(&json!({"items": all})));
        }
    }
}

fn table(all: &[Value]) -> Table {
    let mut table = Table::new(&["NAME", "TYPE", "SIZE", "CONTENT-TYPE", "DIGEST"]);
    for one in all {
        let columns = ["name", "type", "sizeBytes", "contentType", "digest"];
        table.row(columns.iter().map(|name| text(&one[*name])).collect());
    }
    table
}

async fn download(server: &Server, request: Download) -> Result<Exit, Problem> {
    let run = server.get(Kind::Run, &request.run).await?;
    let all = stored(&run.data);
    let Some(known) = all
        .iter()
        .find(|one| one["name"] == request.artifact.as_str())
    else {
        let names: Vec<String> = all.iter().map(|one| text(&one["name"])).collect();
        let has = if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        };
        let said = format!(
            "krt: Run {} has no artifact {}: there are {has}",
            request.run, request.artifact
        );
        return Err(Problem::new(
            said,
            &format!("see `krt artifact ls {}`", request.run),
        ));
    };
    let target = request.output.clone().unwrap_or_else(|| {
        let end = if known["type"] == "directory" {
            ".tar.gz"
        } else {
            ""
        };
        PathBuf::from(format!("{}{end}", request.artifact))
    });
    if target.exists() && !request.force {
        let said = format!("krt: {} exists", target.display());
        return Err(Problem::new(
            said,
            "name another file with -o, or replace it with --force",
        ));
    }
    let wanted = DownloadRequest {
        namespace: server.namespace.clone(),
        run_name: request.run.clone(),
        artifact_name: request.artifact.clone(),
    };
    let done = fetch(&request.status_addr, wanted, &target).await;
    let bytes = done.map_err(|error| {
        let said = format!("krt: cannot download {}: {error}", request.artifact);
        let next = "is the port forwarded? `kubectl port-forward POD 19093:9093` with a Pod of the Runtime";
        Problem::new(said, next)
    })?;
    say::notice(&format!(
        "krt: {bytes} bytes in {}, digest checked",
        target.display()
    ));
    Ok(Exit::Done)
}

/// Why a download was given up; nothing is left of it then.
#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error("{0} is no HOST:PORT")]
    Address(String),
    #[error("{}: {}", .0.code(), .0.message())]
    Refused(#[from] Box<tonic::Status>),
    #[error("cannot connect to {0}: {1}")]
    Connect(String, String),
    #[error("the content does not begin with its description")]
    NoMetadata,
    #[error("the content is described twice")]
    SecondMetadata,
    #[error("a piece of {0} bytes, more than {PIECE_MAX_BYTES}")]
    LargePiece(usize),
    #[error("{got} bytes came, {said} were announced")]
    Size { got: i64, said: i64 },
    #[error("the digest is {got}, {said} was announced")]
    Digest { got: String, said: String },
    #[error("{0}: {1}")]
    File(PathBuf, std::io::Error),
}

/// Brings the content into a hidden file beside the target, checks it, and puts it in place (C-35).
async fn fetch(address: &str, wanted: DownloadRequest, target: &Path) -> Result<i64, FetchError> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"));
    let endpoint = endpoint.map_err(|_| FetchError::Address(address.to_owned()))?;
    let channel = endpoint.connect().await.map_err(|error| {
        let cause = std::error::Error::source(&error)
            .map_or_else(|| error.to_string(), ToString::to_string);
        FetchError::Connect(address.to_owned(), cause)
    })?;
    let mut client = ArtifactServiceClient::new(channel);
    let refused = |status: tonic::Status| FetchError::Refused(Box::new(status));
    let mut frames = client.download(wanted).await.map_err(refused)?.into_inner();
    let first = frames.message().await.map_err(refused)?;
    let Some(DownloadResponse {
        metadata: Some(metadata),
        data,
    }) = first
    else {
        return Err(FetchError::NoMetadata);
    };
    let mut arriving = Arriving::new(target)?;
    arriving.take(&data)?;
    while let Some(frame) = frames.message().await.map_err(refused)? {
        if frame.metadata.is_some() {
            return Err(FetchError::SecondMetadata);
        }
        arriving.take(&frame.data)?;
    }
    arriving.finish(&metadata)
}

/// A file that grows beside its place; dropped, it is removed.
struct Arriving {
    target: PathBuf,
    file: tempfile::NamedTempFile,
    digest: Sha256,
    bytes: i64,
}

impl Arriving {
    fn new(target: &Path) -> Result<Self, FetchError> {
        let parent = target
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        let file = tempfile::Builder::new().prefix(".krt-").tempfile_in(parent);
        Ok(Self {
            target: target.to_owned(),
            file: file.map_err(|error| FetchError::File(parent.to_owned(), error))?,
            digest: Sha256::new(),
            bytes: 0,
        })
    }

    fn take(&mut self, piece: &[u8]) -> Result<(), FetchError> {
        if piece.len() > PIECE_MAX_BYTES {
            return Err(FetchError::LargePiece(piece.len()));
        }
        self.digest.update(piece);
        self.bytes += i64::try_from(piece.len()).unwrap_or(i64::MAX);
        let written = self.file.write_all(piece);
        written.map_err(|error| FetchError::File(self.target.clone(), error))
    }

    fn finish(self, metadata: &ArtifactMetadata) -> Result<i64, FetchError> {
        let (got, said) = (self.bytes, metadata.size_bytes);
        if got != said {
            return Err(FetchError::Size { got, said });
        }
        let mut hex = String::new();
        for byte in self.digest.finalize() {
            // Writing to a text cannot fail.
            let _ = write!(hex, "{byte:02x}");
        }
        let (got, said) = (format!("sha256:{hex}"), &metadata.digest);
        if said.starts_with("sha256:") && *said != got {
            let said = said.clone();
            return Err(FetchError::Digest { got, said });
        }
        let failed = |error| FetchError::File(self.target.clone(), error);
        self.file.as_file().sync_all().map_err(failed)?;
        self.file
            .persist(&self.target)
            .map_err(|kept| failed(kept.error))?;
        Ok(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use futures::stream::{self, BoxStream, StreamExt as _};
    use kruntimes_proto::artifact::v1::artifact_service_server::{
        ArtifactService, ArtifactServiceServer,
    };
    use tonic::{Request, Response, Status};

    use super::*;

    /// Sends these frames to whoever asks.
    struct Canned(Vec<DownloadResponse>);

    #[tonic::async_trait]
    impl ArtifactService for Canned {
        async fn download(
            &self,
            request: Request<DownloadRequest>,
        ) -> Result<Response<BoxStream<'static, Result<DownloadResponse, Status>>>, Status>
        {
            if request.into_inner().artifact_name != "a" {
                return Err(Status::not_found("no such artifact"));
            }
            let frames: Vec<_> = self.0.iter().cloned().map(Ok).collect();
            Ok(Response::new(stream::iter(frames).boxed()))
        }
    }

    async fn fetched(
        frames: Vec<DownloadResponse>,
        artifact: &str,
        target: &Path,
    ) -> Result<i64, FetchError> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
        let service = ArtifactServiceServer::new(Canned(frames));
        let serving = tonic::transport::Server::builder()
            .add_service(service)
            .serve_with_incoming(incoming);
        let wanted = DownloadRequest {
            namespace: "default".to_owned(),
            run_name: "r".to_owned(),
            artifact_name: artifact.to_owned(),
        };
        tokio::select! {
            done = fetch(&address, wanted, target) => done,
            end = serving => panic!("the server ended: {end:?}"),
        }
    }

    fn described(size_bytes: i64, digest: &str) -> DownloadResponse {
        DownloadResponse {
            metadata: Some(ArtifactMetadata {
                name: "a".to_owned(),
                size_bytes,
                digest: digest.to_owned(),
                ..ArtifactMetadata::default()
            }),
            data: Vec::new(),
        }
    }

    fn piece(data: &[u8]) -> DownloadResponse {
        DownloadResponse {
            metadata: None,
            data: data.to_vec(),
        }
    }

    const ABC: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[tokio::test]
    async fn c_35_an_artifact_arrives_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("out");
        for (frames, artifact, says) in [
            (vec![], "a", "does not begin with its description"),
            (
                vec![piece(b"abc")],
                "a",
                "does not begin with its description",
            ),
            (
                vec![described(3, ABC), described(3, ABC)],
                "a",
                "described twice",
            ),
            (
                vec![described(3, ABC), piece(b"ab")],
                "a",
                "2 bytes came, 3 were announced",
            ),
            (
                vec![described(3, ABC), piece(b"abd")],
                "a",
                "the digest is sha256:",
            ),
            (
                vec![described(70_000, ""), piece(&[0; 70_000])],
                "a",
                "a piece of 70000 bytes",
            ),
            (
                vec![described(3, ABC), piece(b"abc")],
                "b",
                "no such artifact",
            ),
        ] {
            let error = fetched(frames, artifact, &target)
                .await
                .unwrap_err()
                .to_string();
            assert!(error.contains(says), "{error}");
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "{says}");
        }
        let whole = vec![described(3, ABC), piece(b"a"), piece(b"bc")];
        assert_eq!(fetched(whole, "a", &target).await.unwrap(), 3);
        assert_eq!(std::fs::read(&target).unwrap(), b"abc");
    }

    #[test]
    fn c_33_artifacts_have_their_columns() {
        let all = [
            json!({"name": "bin", "type": "file", "sizeBytes": 3, "contentType": "text/plain", "digest": ABC}),
            json!({"name": "logs", "type": "directory", "sizeBytes": 0}),
        ];
        insta::assert_snapshot!(table(&all).render(true), @r"
        NAME   TYPE        SIZE   CONTENT-TYPE   DIGEST
        bin    file        3      text/plain     sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad
        logs   directory   0      -              -
        ");
    }
}
