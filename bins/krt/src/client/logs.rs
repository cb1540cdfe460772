//! `krt logs`: what a Run has written (C-32, C-54 to C-56, as far as the logs of Pods hold it).

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::time::Duration;

use futures::io::Lines;
use futures::{AsyncBufRead, AsyncBufReadExt as _, Stream, StreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject, LogParams};
use kube::runtime::watcher;
use serde::Deserialize;

use super::connect::{Connect, Server};
use super::printer::condition;
use super::problem::{Asked, Problem};
use super::{Kind, runs, wait};
use crate::args::wait::Logs;
use crate::exit::Exit;
use crate::say;

/// Container that says what Runs write, as JSON lines.
const CONTAINER: &str = "runtimed";
/// Silence after the end of a Run from which its output is complete.
const QUIET: Duration = Duration::from_millis(500);
/// Wait before a lost log is opened again; doubled up to the other.
const AGAIN: Duration = Duration::from_millis(200);
const AGAIN_MAX: Duration = Duration::from_secs(5);

/// One line of output.
#[derive(Debug, Deserialize)]
struct Record {
    run_uid: String,
    stream: String,
    message: String,
    seq: u64,
    attempt: i32,
}

/// Shows the output of a Run.
pub(super) async fn run(connect: &Connect, request: Logs) -> Result<Exit, Problem> {
    let server = connect.connect().await?;
    show(&server, &request).await
}

/// As [`run`], of a server that is known.
pub(super) async fn show(server: &Server, request: &Logs) -> Result<Exit, Problem> {
    let run = server.get(Kind::Run, &request.name).await?;
    let mut reader = Reader {
        pods: Api::namespaced(server.client.clone(), &server.namespace),
        server,
        name: &request.name,
        uid: run.uid().unwrap_or_default(),
        next: BTreeMap::new(),
        attempt: 0,
    };
    if !request.follow {
        reader.once(&run, request.tail).await?;
        let phase = runs::phase(&run.data);
        return Ok(if request.exit_status {
            Exit::of_phase(phase)
        } else {
            Exit::Done
        });
    }
    if request.tail > 0 && pod(&run).is_some() {
        reader.once(&run, request.tail).await?;
    }
    let exit = reader.follow(run).await?;
    Ok(match exit {
        Exit::Gone => Exit::Gone,
        exit if request.exit_status => exit,
        _ => Exit::Done,
    })
}

fn pod(run: &DynamicObject) -> Option<&str> {
    run.data["status"]["assignedPod"]
        .as_str()
        .filter(|pod| !pod.is_empty())
}

fn is_terminal(run: &DynamicObject) -> bool {
    matches!(
        runs::phase(&run.data),
        "Succeeded" | "Failed" | "Timeout" | "Cancelled"
    )
}

/// Every version of the Run.
type Changes = Pin<Box<dyn Stream<Item = watcher::Result<Option<DynamicObject>>> + Send>>;

/// How reading a log ended.
enum Read {
    /// There is nothing more to come.
    Over(Exit),
    /// It is to be opened again, if there was news as soon as the first time.
    Lost {
        /// Whether a line was read.
        progress: bool,
    },
}

/// Reads the logs of the Pods that a Run has been on.
struct Reader<'a> {
    server: &'a Server,
    pods: Api<Pod>,
    name: &'a str,
    uid: String,
    /// Number of the next line by attempt and stream; what is below has been shown.
    next: BTreeMap<(i32, String), u64>,
    attempt: i32,
}

impl Reader<'_> {
    /// Shows what is there; with `tail` only the last lines of each stream.
    async fn once(&mut self, run: &DynamicObject, tail: usize) -> Result<(), Problem> {
        let Some(pod) = pod(run) else {
            return Err(self.no_pod(run));
        };
        let params = LogParams {
            container: Some(CONTAINER.to_owned()),
            ..LogParams::default()
        };
        let text = self.pods.logs(pod, &params).await;
        let text = text.map_err(|error| self.unreadable(pod, &error))?;
        let mut records: VecDeque<Record> =
            text.lines().filter_map(|line| self.parse(line)).collect();
        if tail > 0 {
            let mut left: BTreeMap<String, usize> = BTreeMap::new();
            for record in &records {
                *left.entry(record.stream.clone()).or_default() += 1;
            }
            records.retain(|record| {
                let left = left
                    .get_mut(&record.stream)
                    .expect("every stream was counted");
                *left -= 1;
                // What is left out counts as shown.
                let is_shown = *left < tail;
                if !is_shown {
                    let key = (record.attempt, record.stream.clone());
                    self.next.insert(key, record.seq + 1);
                }
                is_shown
            });
        }
        if records.is_empty() && is_terminal(run) {
            say::notice(&format!(
                "krt: the log of pod {pod} holds nothing of Run {}",
                self.name
            ));
        }
        for record in records {
            self.show(&record);
        }
        Ok(())
    }

    /// Shows everything until the Run has ended.
    async fn follow(&mut self, mut run: DynamicObject) -> Result<Exit, Problem> {
        let mut changes: Changes = Box::pin(wait::changes(self.server, Kind::Run, self.name));
        let mut again = AGAIN;
        loop {
            let Some(placed) = self.placed(run, &mut changes).await? else {
                return Ok(Exit::Gone);
            };
            run = placed;
            let pod = pod(&run).unwrap_or_default().to_owned();
            match self.open(&pod).await {
                Ok(lines) => match self.read(lines, &mut run, &pod, &mut changes).await {
                    Read::Over(exit) => return Ok(exit),
                    Read::Lost { progress } if progress => again = AGAIN,
                    Read::Lost { .. } => {}
                },
                Err(error) if is_terminal(&run) => return Err(self.unreadable(&pod, &error)),
                Err(error) => {
                    tracing::debug!(%error, "the log is opened again");
                    run = self.server.get(Kind::Run, self.name).await?;
                }
            }
            tokio::time::sleep(again).await;
            again = (again * 2).min(AGAIN_MAX);
        }
    }

    /// Waits until the Run has a Pod, and says why it has none once per change; nothing when it is gone.
    async fn placed(
        &self,
        mut run: DynamicObject,
        changes: &mut Changes,
    ) -> Result<Option<DynamicObject>, Problem> {
        let mut told = String::new();
        while pod(&run).is_none() {
            if is_terminal(&run) {
                return Err(self.no_pod(&run));
            }
            let waits = why(&run);
            if waits != told {
                say::notice(&format!("krt: Run {} is {waits}", self.name));
                told = waits;
            }
            match changes.next().await {
                Some(Ok(Some(next))) if self.is_it(&next) => run = next,
                Some(Err(error)) => tracing::debug!(%error, "the watch is resumed"),
                Some(Ok(_)) | None => return Ok(None),
            }
        }
        Ok(Some(run))
    }

    /// Shows lines until the log or the Run ends, or the Run moves to another Pod.
    async fn read(
        &mut self,
        mut lines: Lines<impl AsyncBufRead + Unpin>,
        run: &mut DynamicObject,
        pod: &str,
        changes: &mut Changes,
    ) -> Read {
        let mut progress = false;
        loop {
            let quiet = if is_terminal(run) {
                QUIET
            } else {
                Duration::MAX
            };
            tokio::select! {
                biased;
                line = lines.next() => match line {
                    Some(Ok(line)) => {
                        progress = true;
                        if let Some(record) = self.parse(&line) {
                            self.show(&record);
                        }
                    }
                    Some(Err(_)) | None if is_terminal(run) => return Read::Over(ended(run)),
                    Some(Err(_)) | None => return Read::Lost { progress },
                },
                change = changes.next() => match change {
                    Some(Ok(Some(next))) if self.is_it(&next) => {
                        *run = next;
                        if self::pod(run) != Some(pod) && !is_terminal(run) {
                            return Read::Lost { progress };
                        }
                    }
                    Some(Err(error)) => tracing::debug!(%error, "the watch is resumed"),
                    Some(Ok(_)) | None => return Read::Over(Exit::Gone),
                },
                () = tokio::time::sleep(quiet) => return Read::Over(ended(run)),
            }
        }
    }

    /// Tells the Run from a later one of the same name.
    fn is_it(&self, run: &DynamicObject) -> bool {
        run.metadata.uid.as_deref() == Some(self.uid.as_str())
    }

    async fn open(&self, pod: &str) -> kube::Result<Lines<impl AsyncBufRead + use<>>> {
        let params = LogParams {
            container: Some(CONTAINER.to_owned()),
            follow: true,
            ..LogParams::default()
        };
        Ok(self.pods.log_stream(pod, &params).await?.lines())
    }

    /// Reads a line of the container; lines of other Runs, and what is no record, are none.
    fn parse(&self, line: &str) -> Option<Record> {
        let record: Record = serde_json::from_str(line).ok()?;
        (record.run_uid == self.uid).then_some(record)
    }

    /// Shows a line unless it was shown.
    fn show(&mut self, record: &Record) {
        let next = self
            .next
            .entry((record.attempt, record.stream.clone()))
            .or_default();
        if record.seq < *next {
            return;
        }
        *next = record.seq + 1;
        if record.attempt > self.attempt {
            if self.attempt > 0 {
                say::notice(&format!("krt: attempt {}", record.attempt));
            }
            self.attempt = record.attempt;
        }
        match record.stream.as_str() {
            "stdout" => say::data(&record.message),
            "stderr" => say::notice(&record.message),
            _ => {}
        }
    }

    fn no_pod(&self, run: &DynamicObject) -> Problem {
        let name = self.name;
        let text = format!(
            "krt: Run {name} has no pod, so it has written nothing: it is {}",
            why(run)
        );
        Problem::new(
            text,
            &format!("see `krt explain {name}`, or wait for it with --follow"),
        )
    }

    fn unreadable(&self, pod: &str, error: &kube::Error) -> Problem {
        let asked = Asked::core("get", "pods/log", &self.server.namespace);
        let gone = matches!(error, kube::Error::Api(answer) if answer.is_not_found());
        if gone {
            let text = format!("krt: pod {pod} is gone, and its log with it");
            let next = format!("see `krt get {}` for the message that was kept", self.name);
            return Problem::new(text, &next);
        }
        asked.failed(&format!("read the log of pod {pod}"), error)
    }
}

fn ended(run: &DynamicObject) -> Exit {
    Exit::of_phase(runs::phase(&run.data))
}

/// The phase of a Run and why it waits.
fn why(run: &DynamicObject) -> String {
    let phase = runs::phase(&run.data);
    match condition(&run.data, "Scheduled") {
        Some(one) if phase == "Pending" => {
            let reason = one["reason"].as_str().unwrap_or_default();
            format!(
                "{phase} ({reason}): {}",
                one["message"].as_str().unwrap_or_default()
            )
        }
        Some(_) | None => phase.to_owned(),
    }
}
