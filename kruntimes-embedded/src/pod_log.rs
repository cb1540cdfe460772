//! The logs of Pods: what runtimed says, kept on disk and read by `kubectl logs`.
//!
//! Container `runtimed` says JSON lines, as in a cluster; any other says the same output for people.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures::{StreamExt as _, stream};
use jiff::{SignedDuration, Timestamp};
use kruntimes_apiserver::{LogError, LogRequest, LogStream, PodLogs};
use kruntimes_k8s::clock::Clock;
use kruntimes_node::{LogRecord, LogSink};
use serde::Deserialize;
use tokio::sync::watch;

const FILE: &str = "output.jsonl";
/// A file that has grown this large is put aside, and what was put aside before is dropped.
const FILE_MAX_BYTES: u64 = 8 << 20;
/// Read at once; longer than any line.
const CHUNK_BYTES: u64 = 1 << 20;

/// The logs of all Pods below one directory.
#[derive(Clone, Debug)]
pub(crate) struct PodLog {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    root: PathBuf,
    clock: Clock,
    pods: Mutex<BTreeMap<PathBuf, Written>>,
    changed: watch::Sender<()>,
}

/// What is written of one Pod.
#[derive(Debug)]
struct Written {
    file: File,
    len: u64,
    /// How often the file was put aside in this life.
    turn: u64,
}

/// Where a reader is.
#[derive(Clone, Copy, Debug)]
struct Mark {
    turn: u64,
    offset: u64,
}

impl PodLog {
    pub(crate) fn new(root: &Path, clock: Clock) -> Self {
        Self {
            inner: Arc::new(Inner {
                root: root.to_owned(),
                clock,
                pods: Mutex::default(),
                changed: watch::Sender::new(()),
            }),
        }
    }
}

impl LogSink for PodLog {
    fn record(&self, record: LogRecord) {
        let directory = self.inner.root.join(&record.namespace).join(&record.pod);
        if let Err(error) = self.inner.append(&directory, &record) {
            tracing::warn!(%error, pod = record.pod, "output of a Run cannot be kept");
        }
        self.inner.changed.send_replace(());
    }
}

impl Inner {
    fn append(&self, directory: &Path, record: &LogRecord) -> io::Result<()> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        self.with(directory, |written, directory| {
            if written.len > FILE_MAX_BYTES {
                std::fs::rename(directory.join(FILE), aside(directory))?;
                *written = Written::open(directory, written.turn + 1)?;
            }
            written.file.write_all(&line)?;
            written.len += line.len() as u64;
            Ok(())
        })
    }

    fn with<T>(
        &self,
        directory: &Path,
        act: impl FnOnce(&mut Written, &Path) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
        if !pods.contains_key(directory) {
            let written = Written::open(directory, 0)?;
            pods.insert(directory.to_owned(), written);
        }
        let written = pods.get_mut(directory);
        act(written.expect("it was just put there"), directory)
    }

    /// Reads whole lines behind a mark and moves it; empty when there are none yet.
    fn read(&self, directory: &Path, mark: &mut Mark) -> io::Result<Vec<u8>> {
        self.with(directory, |written, directory| {
            loop {
                let behind = written.turn.saturating_sub(mark.turn);
                let path = match behind {
                    0 => directory.join(FILE),
                    1 => aside(directory),
                    _ => {
                        // What lies between was dropped before it could be read.
                        *mark = Mark {
                            turn: written.turn - 1,
                            offset: 0,
                        };
                        continue;
                    }
                };
                let mut text = Vec::new();
                if let Ok(mut file) = File::open(path) {
                    file.seek(SeekFrom::Start(mark.offset))?;
                    file.take(CHUNK_BYTES).read_to_end(&mut text)?;
                }
                let lines = text.iter().rposition(|byte| *byte == b'\n');
                text.truncate(lines.map_or(0, |last| last + 1));
                mark.offset += text.len() as u64;
                if text.is_empty() && behind == 1 {
                    *mark = Mark {
                        turn: written.turn,
                        offset: 0,
                    };
                    continue;
                }
                return Ok(text);
            }
        })
    }

    /// The oldest thing there is of a Pod.
    fn start(&self, directory: &Path) -> io::Result<Mark> {
        self.with(directory, |written, directory| {
            // A file that an earlier life put aside counts as the turn before.
            let turn = written
                .turn
                .saturating_sub(u64::from(aside(directory).exists()));
            Ok(Mark { turn, offset: 0 })
        })
    }
}

impl Written {
    fn open(directory: &Path, turn: u64) -> io::Result<Self> {
        std::fs::create_dir_all(directory)?;
        let mut options = OpenOptions::new();
        options.create(true).read(true).append(true);
        let mut file = options.open(directory.join(FILE))?;
        let mut len = file.metadata()?.len();
        let mut last = [b'\n'];
        if len > 0 {
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
        }
        if last != *b"\n" {
            // A life that was killed has not come to the end of its line.
            file.write_all(b"\n")?;
            len += 1;
        }
        // There is a turn before the first one, for what an earlier life put aside.
        let turn = turn.max(1);
        Ok(Self { file, len, turn })
    }
}

fn aside(directory: &Path) -> PathBuf {
    directory.join(format!("{FILE}.old"))
}

/// What is needed of a line to show it.
#[derive(Deserialize)]
struct Shown {
    ts: Timestamp,
    run_name: String,
    message: String,
}

/// How a log is wanted.
struct Wish {
    json: bool,
    timestamps: bool,
    since: Option<Timestamp>,
}

impl Wish {
    fn show(&self, line: &[u8]) -> Option<String> {
        let shown: Shown = serde_json::from_slice(line).ok()?;
        if self.since.is_some_and(|since| shown.ts < since) {
            return None;
        }
        let text = if self.json {
            String::from_utf8_lossy(line).into_owned()
        } else {
            format!("[{}] {}", shown.run_name, shown.message)
        };
        Some(if self.timestamps {
            format!("{} {text}\n", shown.ts)
        } else {
            format!("{text}\n")
        })
    }

    fn lines(&self, text: &[u8]) -> Vec<String> {
        let lines = text.split(|byte| *byte == b'\n');
        lines.filter_map(|line| self.show(line)).collect()
    }
}

#[async_trait]
impl PodLogs for PodLog {
    async fn open(&self, request: LogRequest) -> Result<LogStream, LogError> {
        if request.previous {
            let container = request.container.unwrap_or_default();
            return Err(LogError::Container(container));
        }
        let inner = Arc::clone(&self.inner);
        let directory = inner.root.join(&request.namespace).join(&request.pod);
        let seconds = request.since_seconds.and_then(|s| i64::try_from(s).ok());
        let since = seconds.map(SignedDuration::from_secs);
        let wish = Wish {
            json: request.container.as_deref() == Some("runtimed"),
            timestamps: request.timestamps,
            since: since.and_then(|since| inner.clock.now().checked_sub(since).ok()),
        };
        let failed = |error: io::Error| LogError::Source(Box::new(error));
        let changes = inner.changed.subscribe();
        let mut mark = inner.start(&directory).map_err(failed)?;
        let mut lines = Vec::new();
        loop {
            let text = inner.read(&directory, &mut mark).map_err(failed)?;
            if text.is_empty() {
                break;
            }
            lines.extend(wish.lines(&text));
        }
        let tail = request
            .tail_lines
            .and_then(|tail| usize::try_from(tail).ok());
        let skipped = lines.len().saturating_sub(tail.unwrap_or(usize::MAX));
        let mut text: String = lines.drain(skipped..).collect();
        if let Some(limit) = request.limit_bytes {
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            text.truncate(text.floor_char_boundary(limit));
        }
        let first = stream::iter((!text.is_empty()).then(|| Ok(text.into())));
        if !request.follow {
            return Ok(first.boxed());
        }
        let follower = Follower {
            inner,
            directory,
            wish,
            mark,
            changes,
        };
        let rest = stream::try_unfold(follower, |mut follower| async move {
            let text = follower.next().await?;
            Ok(Some((text.into(), follower)))
        });
        Ok(first.chain(rest).boxed())
    }
}

struct Follower {
    inner: Arc<Inner>,
    directory: PathBuf,
    wish: Wish,
    mark: Mark,
    changes: watch::Receiver<()>,
}

impl Follower {
    /// Waits for lines that are new.
    async fn next(&mut self) -> Result<String, io::Error> {
        loop {
            self.changes.mark_unchanged();
            let text = self.inner.read(&self.directory, &mut self.mark)?;
            let text = self.wish.lines(&text).concat();
            if !text.is_empty() {
                return Ok(text);
            }
            // The sender lives in `self`, so waiting cannot fail.
            let _ = self.changes.changed().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use kruntimes_node::LogStream as Source;

    use super::*;

    fn record(run: &str, message: &str) -> LogRecord {
        LogRecord {
            run_uid: "u".into(),
            run_name: run.into(),
            namespace: "default".into(),
            runtime: "bash".into(),
            pod: "p".into(),
            assigned_pod_uid: None,
            stream: Source::Stdout,
            message: message.into(),
            ts: Timestamp::UNIX_EPOCH,
            seq: 0,
            attempt: 1,
            audit: None,
        }
    }

    fn request(change: impl FnOnce(&mut LogRequest)) -> LogRequest {
        let mut request = LogRequest::default();
        request.namespace = "default".into();
        request.pod = "p".into();
        change(&mut request);
        request
    }

    async fn text(log: &PodLog, change: impl FnOnce(&mut LogRequest)) -> String {
        let mut stream = log.open(request(change)).await.unwrap();
        let mut text = String::new();
        while let Some(piece) = stream.next().await {
            text += std::str::from_utf8(&piece.unwrap()).unwrap();
        }
        text
    }

    #[tokio::test]
    async fn output_is_kept_over_lives_and_shown_as_it_is_wanted() {
        let dir = tempfile::tempdir().unwrap();
        let log = PodLog::new(dir.path(), Clock::system());
        assert_eq!(text(&log, |_| {}).await, "");
        log.record(record("a", "one"));
        log.record(record("b", "two"));
        drop(log);
        let file = dir.path().join("default/p").join(FILE);
        let mut file = OpenOptions::new().append(true).open(file).unwrap();
        file.write_all(b"{\"run_na").unwrap();
        let log = PodLog::new(dir.path(), Clock::system());
        log.record(record("a", "three"));
        assert_eq!(text(&log, |_| {}).await, "[a] one\n[b] two\n[a] three\n");
        assert_eq!(
            text(&log, |r| (r.tail_lines, r.timestamps) = (Some(1), true)).await,
            "1970-01-01T00:00:00Z [a] three\n"
        );
        assert_eq!(text(&log, |r| r.limit_bytes = Some(3)).await, "[a]");
        assert_eq!(text(&log, |r| r.since_seconds = Some(60)).await, "");
        let json = text(&log, |r| r.container = Some("runtimed".into())).await;
        assert!(json.starts_with("{\"run_uid\":\"u\""), "{json}");
        assert_eq!(json.lines().count(), 3, "half a line is none");
        assert!(log.open(request(|r| r.previous = true)).await.is_err());
    }

    #[tokio::test]
    async fn a_follower_misses_nothing_when_a_file_is_put_aside_and_the_disk_is_not_filled() {
        let dir = tempfile::tempdir().unwrap();
        let log = PodLog::new(dir.path(), Clock::system());
        let mut stream = log.open(request(|r| r.follow = true)).await.unwrap();
        let long = "x".repeat(60_000);
        let mut seen = 0;
        for number in 0..400 {
            log.record(record("a", &format!("{number} {long}")));
            if number % 100 == 99 {
                while seen <= number {
                    let piece = stream.next().await.unwrap().unwrap();
                    for line in std::str::from_utf8(&piece).unwrap().lines() {
                        assert!(line.starts_with(&format!("[a] {seen} ")), "{seen}");
                        seen += 1;
                    }
                }
            }
        }
        let home = dir.path().join("default/p");
        let sizes = home
            .read_dir()
            .unwrap()
            .map(|file| file.unwrap().metadata().unwrap().len());
        assert!(sizes.sum::<u64>() < 2 * FILE_MAX_BYTES + CHUNK_BYTES);
        let kept = text(&log, |_| {}).await;
        assert!(kept.lines().count() > 100);
        assert!(kept.lines().last().unwrap().starts_with("[a] 399 "));
    }
}
