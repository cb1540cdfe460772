//! Waiting for objects: by watching, over lost connections, until any end (C-17, C-62).

use std::time::Duration;

use futures::stream::FuturesUnordered;
use futures::{StreamExt as _, TryStreamExt as _};
use kube::api::DynamicObject;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, watcher};
use serde_json::Value;

use super::connect::{Connect, Server};
use super::printer::condition;
use super::problem::{Asked, Problem};
use super::{Kind, Reference};
use crate::args::wait::{Goal, Wait};
use crate::exit::Exit;
use crate::say;

/// What a waiter has seen of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    /// It goes on.
    NotYet,
    /// It is where it was waited for, or can never get there.
    End(Exit, String),
}

/// Waits for objects as asked.
pub(super) async fn run(connect: &Connect, request: Wait) -> Result<Exit, Problem> {
    let server = connect.connect().await?;
    let all = many(&server, &request.objects, &request.goal, request.any);
    let Some(deadline) = request.timeout else {
        return all.await;
    };
    match tokio::time::timeout(deadline, all).await {
        Ok(end) => end,
        Err(_) => Err(late(deadline)),
    }
}

/// Waits until Runs or WorkflowRuns have ended; the worst end counts.
pub(super) async fn until_ended(
    server: &Server,
    kind: Kind,
    names: &[String],
    deadline: Option<Duration>,
) -> Result<Exit, Problem> {
    let objects = names.iter().map(|name| Reference {
        kind,
        name: name.clone(),
    });
    let objects: Vec<Reference> = objects.collect();
    let all = many(server, &objects, &Goal::Terminal, false);
    match deadline {
        None => all.await,
        Some(deadline) => match tokio::time::timeout(deadline, all).await {
            Ok(end) => end,
            Err(_) => Err(late(deadline)),
        },
    }
}

/// Waits for one Run or WorkflowRun and says on standard error where it goes (C-24).
pub(super) async fn reported(
    server: &Server,
    object: &Reference,
    goal: &Goal,
) -> Result<Exit, Problem> {
    let mut last = String::new();
    let mut message = String::new();
    let told = |data: &Value| {
        let phase = super::runs::phase(data);
        let pod = data["status"]["assignedPod"].as_str().unwrap_or_default();
        let said = data["status"]["message"].as_str();
        said.unwrap_or_default().clone_into(&mut message);
        let now = if pod.is_empty() {
            format!("{} is {phase}", object.name)
        } else {
            format!("{} is {phase} (pod {pod})", object.name)
        };
        if now != last {
            say::notice(&format!("krt: {now}"));
            last = now;
        }
    };
    let (exit, _) = one(server, object, goal, told).await?;
    if !message.is_empty() {
        say::notice(&message);
    }
    Ok(exit)
}

/// The deadline of the caller has passed; what is waited for goes on (C-14).
pub(super) fn late(deadline: Duration) -> Problem {
    let text = format!("krt: it is not there after {deadline:?}, and goes on");
    Problem::new(text, "wait again with `krt wait`, or see `krt explain`").exit(Exit::Late)
}

async fn many(
    server: &Server,
    objects: &[Reference],
    goal: &Goal,
    any: bool,
) -> Result<Exit, Problem> {
    let waits = objects
        .iter()
        .map(|object| one(server, object, goal, |_| ()));
    let mut waits: FuturesUnordered<_> = waits.collect();
    let mut worst = Exit::Done;
    while let Some((exit, text)) = waits.try_next().await? {
        say::data(&text);
        if any {
            return Ok(exit);
        }
        worst = worst.worse(exit);
    }
    Ok(worst)
}

/// Waits for one object; returns how it ended and a line about it.
async fn one(
    server: &Server,
    object: &Reference,
    goal: &Goal,
    mut told: impl FnMut(&Value),
) -> Result<(Exit, String), Problem> {
    let (kind, name) = (object.kind, &object.name);
    let named = format!("{}.{}/{name}", kind.singular(), kruntimes_core::api::GROUP);
    let first = server.api(kind).get_opt(name).await;
    let asked = Asked::new("get", kind.plural(), &server.namespace);
    let first = first
        .map_err(|error| asked.failed(&format!("wait for {} {name}", kind.as_str()), &error))?;
    let Some(first) = first else {
        return match goal {
            Goal::Deleted => Ok((Exit::Done, format!("{named} is gone"))),
            Goal::Terminal | Goal::Ready | Goal::Phase(_) | Goal::Condition { .. } => {
                server.get(kind, name).await.map(|_| (Exit::Gone, named))
            }
        };
    };
    let uid = first.metadata.uid.clone();
    told(&first.data);
    if let Seen::End(exit, text) = judge(&first, goal, kind) {
        return Ok((exit, format!("{named} {text}")));
    }
    let mut changes = std::pin::pin!(changes(server, kind, name));
    loop {
        let change = changes.next().await;
        match change {
            Some(Ok(Some(object))) if object.metadata.uid == uid => {
                told(&object.data);
                if let Seen::End(exit, text) = judge(&object, goal, kind) {
                    return Ok((exit, format!("{named} {text}")));
                }
            }
            Some(Ok(_)) => {
                let exit = if *goal == Goal::Deleted {
                    Exit::Done
                } else {
                    Exit::Gone
                };
                return Ok((exit, format!("{named} is gone")));
            }
            Some(Err(
                watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error),
            )) if is_final(&error) => {
                let asked = Asked::new("watch", kind.plural(), &server.namespace);
                return Err(asked.failed(&format!("watch {} {name}", kind.as_str()), &error));
            }
            Some(Err(error)) => tracing::debug!(%error, "the watch is resumed"),
            None => return Ok((Exit::Gone, format!("{named} cannot be watched any more"))),
        }
    }
}

/// Every version of one object; nothing when it does not exist. Resumes after disconnects and expired versions.
pub(super) fn changes(
    server: &Server,
    kind: Kind,
    name: &str,
) -> impl futures::Stream<Item = watcher::Result<Option<DynamicObject>>> + use<> {
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let events = watcher(server.api(kind), config).default_backoff();
    let mut seen = false;
    events.filter_map(move |event| {
        let told = match event {
            Ok(watcher::Event::Init) => {
                seen = false;
                None
            }
            Ok(watcher::Event::InitApply(object) | watcher::Event::Apply(object)) => {
                seen = true;
                Some(Ok(Some(object)))
            }
            Ok(watcher::Event::InitDone) => (!seen).then_some(Ok(None)),
            Ok(watcher::Event::Delete(_)) => Some(Ok(None)),
            Err(error) => Some(Err(error)),
        };
        futures::future::ready(told)
    })
}

/// An answer that repeating will not change.
fn is_final(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(answer) if matches!(answer.code, 401 | 403 | 404))
}

fn judge(object: &DynamicObject, goal: &Goal, kind: Kind) -> Seen {
    let data = &object.data;
    let phase = super::runs::phase(data);
    let is_terminal = matches!(phase, "Succeeded" | "Failed" | "Timeout" | "Cancelled");
    let runs = matches!(kind, Kind::Run | Kind::WorkflowRun);
    let end = |exit: Exit| {
        Seen::End(
            exit,
            if runs {
                phase.to_owned()
            } else {
                "is there".to_owned()
            },
        )
    };
    let reached = match goal {
        Goal::Deleted => false,
        Goal::Terminal => is_terminal,
        Goal::Ready if runs => phase == "Ready",
        Goal::Ready => holds(data, "Ready", "True"),
        Goal::Phase(wanted) => phase.eq_ignore_ascii_case(wanted),
        Goal::Condition { kind, status } => holds(data, kind, status),
    };
    match (reached, is_terminal && runs && *goal != Goal::Deleted) {
        (true, true) if *goal == Goal::Terminal => end(Exit::of_phase(phase)),
        (true, _) => end(Exit::Done),
        // It has ended elsewhere and will never get there.
        (false, true) => end(match Exit::of_phase(phase) {
            Exit::Done => Exit::NotCarriedOut,
            other => other,
        }),
        (false, false) => Seen::NotYet,
    }
}

fn holds(object: &Value, kind: &str, status: &str) -> bool {
    condition(object, kind).is_some_and(|found| {
        found["status"]
            .as_str()
            .is_some_and(|is| is.eq_ignore_ascii_case(status))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn seen(kind: Kind, status: &Value, goal: &Goal) -> Option<Exit> {
        let object = json!({"metadata": {"name": "x"}, "status": status});
        match judge(&serde_json::from_value(object).unwrap(), goal, kind) {
            Seen::End(exit, _) => Some(exit),
            Seen::NotYet => None,
        }
    }

    #[test]
    fn c_17_c_62_waiting_stops_at_any_end_and_not_before() {
        let phase = |phase: &str| json!({ "phase": phase });
        let ready = Goal::Phase("ready".to_owned());
        let condition = |status: &str| Goal::Condition {
            kind: "Completed".to_owned(),
            status: status.to_owned(),
        };
        for (status, goal, want) in [
            (phase("Running"), Goal::Terminal, None),
            (phase("Ready"), Goal::Terminal, None),
            (phase("Succeeded"), Goal::Terminal, Some(Exit::Done)),
            (phase("Failed"), Goal::Terminal, Some(Exit::Failed)),
            (phase("Timeout"), Goal::Terminal, Some(Exit::Timeout)),
            (phase("Ready"), Goal::Ready, Some(Exit::Done)),
            (phase("Cancelled"), Goal::Ready, Some(Exit::Cancelled)),
            (phase("Ready"), ready.clone(), Some(Exit::Done)),
            (phase("Succeeded"), ready, Some(Exit::NotCarriedOut)),
            (
                phase("Failed"),
                Goal::Phase("Failed".to_owned()),
                Some(Exit::Done),
            ),
            (phase("Succeeded"), Goal::Deleted, None),
            (
                json!({"phase": "Failed", "conditions": [{"type": "Completed", "status": "False"}]}),
                condition("false"),
                Some(Exit::Done),
            ),
            (phase("Running"), condition("True"), None),
        ] {
            assert_eq!(seen(Kind::Run, &status, &goal), want, "{status} {goal:?}");
        }
        let conditions = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        assert_eq!(
            seen(Kind::Runtime, &conditions, &Goal::Ready),
            Some(Exit::Done)
        );
        assert_eq!(seen(Kind::Runtime, &json!({}), &Goal::Ready), None);
    }
}
