//! Events on Runs, sent without holding up a reconcile (node, N-188).

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kruntimes_core::crd::Run;
use kruntimes_core::life::{ChangeKind, Failure};
use kruntimes_core::limits::MESSAGE_MAX_BYTES;
use kruntimes_core::message::bounded;
use kruntimes_core::{names, retry};
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client, Resource as _, ResourceExt as _};
use tokio::sync::mpsc;

/// Events that may wait; what exceeds this is dropped.
const WAITING: usize = 256;

/// One Event before it gets its form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) warning: bool,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// Takes Events; [`Outbox::deliver`] sends them.
#[derive(Clone, Debug)]
pub(crate) struct Events {
    sender: mpsc::Sender<Event>,
    host: String,
}

/// The sending end.
#[derive(Debug)]
pub(crate) struct Outbox(mpsc::Receiver<Event>);

impl Note {
    fn new(warning: bool, reason: &'static str, message: &str) -> Self {
        Self {
            warning,
            reason,
            message: bounded(message, MESSAGE_MAX_BYTES),
        }
    }

    pub(crate) fn start_failed(failure: &Failure) -> Self {
        Self::new(true, "RunExecutionStartFailed", &failure.message)
    }

    pub(crate) fn value_from_ignored(name: &str) -> Self {
        let text = format!("environment variable {name} is empty: valueFrom is not resolved");
        Self::new(true, "EnvValueFromIgnored", &text)
    }

    /// Words the Event of a status write, if it has one (N-98, N-111, N-118).
    pub(crate) fn of(run: &Run, kind: &ChangeKind) -> Option<Self> {
        let policy = run.spec.retry_policy.as_ref();
        let max = retry::max_attempts(policy);
        let attempt = retry::current_attempt(run.status.as_ref().and_then(|s| s.attempt));
        Some(match kind {
            ChangeKind::RetryScheduled(failure) => {
                let wait = retry::backoff(policy, attempt);
                let text = format!(
                    "attempt {}/{max} failed ({}), next in {wait}: {}",
                    attempt - 1,
                    failure.reason,
                    failure.message
                );
                Self::new(true, "RunFailedRetrying", &text)
            }
            ChangeKind::RetryBegun => Self::new(
                false,
                "RunRetrying",
                &format!("attempt {attempt}/{max} starts"),
            ),
            ChangeKind::Ended(None) if attempt > 1 => {
                let text = format!("attempt {attempt}/{max} succeeded");
                Self::new(false, "RunSucceeded", &text)
            }
            ChangeKind::Claimed | ChangeKind::Observed | ChangeKind::Ended(None) => return None,
            ChangeKind::Ended(Some(failure)) => {
                let reason = match failure.reason {
                    retry::reason::CANCELLED => "RunCancelled",
                    _ if max > 1 && attempt >= max => "RunRetriesExhausted",
                    retry::reason::TIMEOUT => "RunTimedOut",
                    _ => "RunFailed",
                };
                let text = format!(
                    "attempt {attempt}/{max} ended ({}): {}",
                    failure.reason, failure.message
                );
                Self::new(true, reason, &text)
            }
        })
    }
}

impl Events {
    pub(crate) fn new(host: &str) -> (Self, Outbox) {
        let (sender, receiver) = mpsc::channel(WAITING);
        let events = Self {
            sender,
            host: host.to_owned(),
        };
        (events, Outbox(receiver))
    }

    /// Hands an Event over; when too many wait it is dropped with a log line.
    pub(crate) fn record(&self, run: &Run, note: &Note, now: Timestamp) {
        if self.sender.try_send(self.form(run, note, now)).is_err() {
            tracing::warn!(reason = note.reason, "event dropped, too many wait");
        }
    }

    fn form(&self, run: &Run, note: &Note, now: Timestamp) -> Event {
        let name = run.name_any();
        let identity = format!(
            "{}/{}/{}/{}",
            run.uid().unwrap_or_default(),
            note.reason,
            note.message,
            now
        );
        Event {
            metadata: ObjectMeta {
                name: Some(format!(
                    "{}.{}",
                    names::trim(&name, 236),
                    names::hash(&identity, 16)
                )),
                namespace: run.namespace(),
                ..ObjectMeta::default()
            },
            involved_object: ObjectReference {
                resource_version: None,
                ..run.object_ref(&())
            },
            type_: Some(if note.warning { "Warning" } else { "Normal" }.to_owned()),
            reason: Some(note.reason.to_owned()),
            message: Some(note.message.clone()),
            source: Some(EventSource {
                component: Some("runtimed".to_owned()),
                host: Some(self.host.clone()),
            }),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            count: Some(1),
            ..Event::default()
        }
    }
}

impl Outbox {
    /// Sends Events one after the other, for ever; one that is refused is dropped.
    pub(crate) async fn deliver(mut self, client: Client, namespace: &str) {
        let api: Api<Event> = Api::namespaced(client, namespace);
        while let Some(event) = self.0.recv().await {
            if let Err(error) = api.create(&PostParams::default(), &event).await
                && !matches!(&error, kube::Error::Api(status) if status.is_already_exists())
            {
                tracing::warn!(%error, reason = ?event.reason, "event cannot be recorded");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kruntimes_core::api::{RetryPolicy, RunSpec, RunStatus};

    use super::*;

    fn run(max: i32, attempt: i32) -> Run {
        let spec = RunSpec {
            retry_policy: Some(RetryPolicy {
                max_attempts: Some(max),
                ..RetryPolicy::default()
            }),
            ..RunSpec::default()
        };
        let mut run = Run::new("r", spec);
        run.status = Some(RunStatus {
            attempt: Some(attempt),
            ..RunStatus::default()
        });
        run
    }

    #[test]
    fn n_111_texts_count_attempts() {
        let failed = |reason| Some(Failure::new(reason, "boom"));
        for (run, kind, reason, text) in [
            (
                run(3, 2),
                ChangeKind::RetryScheduled(Failure::new("RuntimeError", "boom")),
                "RunFailedRetrying",
                "attempt 1/3 failed (RuntimeError), next in 1s: boom",
            ),
            (
                run(3, 2),
                ChangeKind::RetryBegun,
                "RunRetrying",
                "attempt 2/3 starts",
            ),
            (
                run(3, 3),
                ChangeKind::Ended(failed("RuntimeError")),
                "RunRetriesExhausted",
                "attempt 3/3 ended (RuntimeError): boom",
            ),
            (
                run(3, 1),
                ChangeKind::Ended(failed("Timeout")),
                "RunTimedOut",
                "attempt 1/3 ended (Timeout): boom",
            ),
            (
                run(1, 1),
                ChangeKind::Ended(failed("RuntimeError")),
                "RunFailed",
                "attempt 1/1 ended (RuntimeError): boom",
            ),
            (
                run(3, 3),
                ChangeKind::Ended(failed("Cancelled")),
                "RunCancelled",
                "attempt 3/3 ended (Cancelled): boom",
            ),
            (
                run(3, 2),
                ChangeKind::Ended(None),
                "RunSucceeded",
                "attempt 2/3 succeeded",
            ),
        ] {
            let note = Note::of(&run, &kind).unwrap();
            assert_eq!((note.reason, &*note.message), (reason, text));
        }
        // N-98
        assert_eq!(Note::of(&run(3, 1), &ChangeKind::Ended(None)), None);
    }

    #[test]
    fn n_188_messages_are_bounded_whatever_a_task_or_its_author_wrote() {
        let long = "\u{e9}".repeat(5_000);
        let failure = Failure::new("RuntimeError", &long);
        for note in [
            Note::start_failed(&failure),
            Note::value_from_ignored(&long),
            Note::of(&run(3, 2), &ChangeKind::RetryScheduled(failure.clone())).unwrap(),
            Note::of(&run(1, 1), &ChangeKind::Ended(Some(failure))).unwrap(),
        ] {
            assert!(note.warning, "{}", note.reason);
            let length = note.message.len();
            assert!(
                (900..=MESSAGE_MAX_BYTES).contains(&length),
                "{}: {length} bytes",
                note.reason
            );
        }
        assert_eq!(MESSAGE_MAX_BYTES, 1024);
    }
}
