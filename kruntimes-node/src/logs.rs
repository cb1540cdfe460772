//! Execution logs as records: what of an execution's output is new, line by line (node, section 13).

use std::hash::{DefaultHasher, Hasher as _};
use std::io::Write;
use std::sync::{Mutex, PoisonError};

use serde::{Serialize, Serializer};

/// Longest text of one record, in bytes; longer lines become several records (N-181).
const RECORD_MAX_BYTES: usize = 64 * 1024;

/// Where a record comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogStream {
    /// Standard output of an execution.
    Stdout,
    /// Standard error of an execution.
    Stderr,
    /// What was asked for, without its content.
    Audit,
}

/// One line of output, or one audited operation (N-176).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LogRecord {
    /// UID of the Run.
    pub run_uid: String,
    /// Name of the Run.
    pub run_name: String,
    /// Namespace of the Run.
    pub namespace: String,
    /// Runtime of the Run.
    pub runtime: String,
    /// Pod that executes it.
    pub pod: String,
    /// UID of that Pod, when known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assigned_pod_uid: Option<String>,
    /// Where the text comes from.
    pub stream: LogStream,
    /// The text, without its line end.
    pub message: String,
    /// When it was seen, with nanoseconds.
    #[serde(serialize_with = "nanoseconds")]
    pub ts: jiff::Timestamp,
    /// Counts the records of one attempt and stream, from zero.
    pub seq: u64,
    /// The attempt that wrote it.
    pub attempt: i32,
    /// The rest of an audit record.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub audit: Option<Audit>,
}

/// What an audit record adds; never command text, input or output (N-182).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Audit {
    /// Identifies the invocation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invocation_id: Option<String>,
    /// What was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// How it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// Status code of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_code: Option<i32>,
    /// Exit code of a command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Whether the operation ran out of time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timed_out: Option<bool>,
    /// How long it took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_milliseconds: Option<u64>,
}

fn nanoseconds<S: Serializer>(ts: &jiff::Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{ts:.9}"))
}

/// Takes log records; they arrive in order per Run and stream, each at least once.
pub trait LogSink: Send + Sync {
    /// Takes one record. Must not block for long.
    fn record(&self, record: LogRecord);

    /// Learns that a Run is released: its work is over and its output complete.
    ///
    /// Called once per Run that was held, for its last attempt.
    fn ended(&self, end: RunEnd) {
        drop(end);
    }
}

/// The end of the last attempt of a Run on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunEnd {
    /// Namespace of the Run.
    pub namespace: String,
    /// Name of the Run.
    pub run_name: String,
    /// UID of the Run.
    pub run_uid: String,
    /// Which attempt ended, from 1.
    pub attempt: i32,
    /// Exit code of the process, when it ended by itself.
    pub exit_code: Option<i32>,
}

/// Writes one JSON object per line.
#[derive(Debug)]
pub struct JsonLines<W> {
    writer: Mutex<W>,
}

impl<W: Write> JsonLines<W> {
    /// Wraps a writer; each record is one call to it, followed by a flush.
    pub fn new(writer: W) -> Self {
        Self {
            writer: Mutex::new(writer),
        }
    }
}

impl<W: Write + Send> LogSink for JsonLines<W> {
    fn record(&self, record: LogRecord) {
        let line = match serde_json::to_vec(&record) {
            Ok(mut line) => {
                line.push(b'\n');
                line
            }
            Err(error) => {
                tracing::error!(%error, "a log record has no JSON form");
                return;
            }
        };
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = writer.write_all(&line).and_then(|()| writer.flush()) {
            tracing::error!(%error, "execution logs cannot be written");
        }
    }
}

/// Finds what is new in the text an execution has written so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cursor {
    emitted: usize,
    hash: u64,
    seq: u64,
}

/// One line and its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) seq: u64,
    pub(crate) text: String,
}

impl Cursor {
    /// Takes the complete lines that are new, and with `end` also an unfinished last one (N-177).
    ///
    /// Text that no longer starts with what was taken before is taken anew from its beginning (N-178).
    pub(crate) fn take(&mut self, text: &str, end: bool) -> Vec<Line> {
        let known = text
            .get(..self.emitted)
            .is_some_and(|start| hash(start) == self.hash);
        if !known {
            self.emitted = 0;
        }
        let rest = &text[self.emitted..];
        let upto = if end {
            rest.len()
        } else {
            rest.rfind('\n').map_or(0, |last| last + 1)
        };
        if upto == 0 {
            return Vec::new();
        }
        let fresh = &rest[..upto];
        self.emitted += upto;
        self.hash = hash(&text[..self.emitted]);
        let lines = fresh.strip_suffix('\n').unwrap_or(fresh).split('\n');
        lines
            .flat_map(|line| pieces(line.strip_suffix('\r').unwrap_or(line)))
            .map(|text| {
                let seq = self.seq;
                self.seq += 1;
                Line {
                    seq,
                    text: text.to_owned(),
                }
            })
            .collect()
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(text.as_bytes());
    hasher.finish()
}

/// Cuts a line into pieces of bounded length; an empty line is one empty piece.
fn pieces(line: &str) -> Vec<&str> {
    let mut rest = line;
    let mut found = Vec::new();
    while rest.len() > RECORD_MAX_BYTES {
        let (piece, tail) = rest.split_at(rest.floor_char_boundary(RECORD_MAX_BYTES));
        found.push(piece);
        rest = tail;
    }
    found.push(rest);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(lines: Vec<Line>) -> Vec<String> {
        lines.into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn n_177_complete_lines_come_at_once_and_the_rest_at_the_end() {
        let mut cursor = Cursor::default();
        assert_eq!(texts(cursor.take("a\r\n\nb", false)), ["a", ""]);
        assert!(cursor.take("a\r\n\nb", false).is_empty());
        assert_eq!(texts(cursor.take("a\r\n\nbc\nd", false)), ["bc"]);
        let last = cursor.take("a\r\n\nbc\nd\n", true);
        assert_eq!(
            last,
            [Line {
                seq: 3,
                text: "d".into()
            }]
        );
        assert!(cursor.take("a\r\n\nbc\nd\n", true).is_empty());
    }

    #[test]
    fn n_178_changed_text_is_taken_from_its_beginning() {
        let mut cursor = Cursor::default();
        cursor.take("one\ntwo\n", false);
        assert_eq!(texts(cursor.take("two\nthree\n", false)), ["two", "three"]);
        assert_eq!(texts(cursor.take("x\n", false)), ["x"]);
        assert_eq!(
            texts(cursor.take("\u{e9}\u{e9}\n", false)),
            ["\u{e9}\u{e9}"]
        );
    }

    #[test]
    fn n_181_a_record_is_one_line_of_bounded_length() {
        let mut cursor = Cursor::default();
        let long = "\u{e9}".repeat(40_000);
        let lines = texts(cursor.take(&long, true));
        assert_eq!(lines.len(), 2);
        assert!(lines.iter().all(|line| line.len() <= RECORD_MAX_BYTES));
        assert_eq!(lines.concat(), long);
    }

    #[test]
    fn n_176_records_are_json_lines() {
        #[derive(Clone, Default)]
        struct Shared(std::sync::Arc<Mutex<Vec<u8>>>);
        impl Write for Shared {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.0.lock().unwrap().extend_from_slice(bytes);
                Ok(bytes.len())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let written = Shared::default();
        JsonLines::new(written.clone()).record(LogRecord {
            run_uid: "u".into(),
            run_name: "r".into(),
            namespace: "ns".into(),
            runtime: "bash".into(),
            pod: "p".into(),
            assigned_pod_uid: None,
            stream: LogStream::Stderr,
            message: "say \"hi\"\n\u{1}".into(),
            ts: jiff::Timestamp::UNIX_EPOCH,
            seq: 4,
            attempt: 1,
            audit: None,
        });
        assert_eq!(
            String::from_utf8(written.0.lock().unwrap().clone()).unwrap(),
            "{\"run_uid\":\"u\",\"run_name\":\"r\",\"namespace\":\"ns\",\"runtime\":\"bash\",\"pod\":\"p\",\
             \"stream\":\"stderr\",\"message\":\"say \\\"hi\\\"\\n\\u0001\",\
             \"ts\":\"1970-01-01T00:00:00.000000000Z\",\"seq\":4,\"attempt\":1}\n"
        );
    }

    #[test]
    fn n_182_an_audit_record_has_no_place_for_content() {
        let audit = Audit {
            invocation_id: Some("i".into()),
            operation: Some("exec".into()),
            outcome: Some("failed".into()),
            status_code: Some(1),
            exit_code: Some(2),
            timed_out: Some(false),
            duration_milliseconds: Some(3),
        };
        let form = serde_json::to_value(audit).unwrap();
        let mut names: Vec<_> = form.as_object().unwrap().keys().cloned().collect();
        names.sort();
        assert_eq!(
            names,
            [
                "duration_milliseconds",
                "exit_code",
                "invocation_id",
                "operation",
                "outcome",
                "status_code",
                "timed_out",
            ]
        );
        let nothing = serde_json::to_value(Audit::default()).unwrap();
        assert_eq!(nothing, serde_json::json!({}));
    }
}
