//! Flags of `krt wait` and `krt logs`.

use std::time::Duration;

use clap::Args as Group;

use super::runs::time;
use crate::client::Reference;

pub(super) const WAIT: &str = "\
Examples:
  krt wait build                              until Run build has ended
  krt wait wfr/nightly --timeout 10m
  krt wait build test --any                   until one of them has ended
  krt wait rt/bash --for ready
  krt wait build --for condition=Scheduled
  krt wait build --for deleted

Exit codes:
  0  it is there; for --for terminal: Succeeded
  4  --timeout passed
  10 Failed   11 Timeout   12 Cancelled   13 deleted or replaced meanwhile
  1  it ended and can never get there";

pub(super) const LOGS: &str = "\
Examples:
  krt logs build              what Run build has written
  krt logs build -f           follow it to its end, over retries and lost connections
  krt logs build --tail 20    the last lines of each stream

Standard output of the Run goes to standard output, standard error to standard error.";

/// What is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    /// Any end.
    Terminal,
    /// Traffic is accepted, or the condition Ready holds.
    Ready,
    /// This phase.
    Phase(String),
    /// This status of a condition.
    Condition {
        /// Type of the condition.
        kind: String,
        /// Its status.
        status: String,
    },
    /// It is gone.
    Deleted,
}

/// Objects to wait for.
#[derive(Clone, Debug, Group)]
pub(crate) struct Wait {
    /// `NAME` of a Run, or `KIND/NAME`
    #[arg(value_name = "OBJECT", required = true, value_parser = Reference::parse)]
    pub(crate) objects: Vec<Reference>,
    /// terminal, ready, phase=PHASE, condition=TYPE[=STATUS] or deleted
    #[arg(long = "for", value_name = "GOAL", default_value = "terminal", value_parser = goal)]
    pub(crate) goal: Goal,
    /// Give up after this long
    #[arg(long, value_name = "DURATION", value_parser = time)]
    pub(crate) timeout: Option<Duration>,
    /// Until the first is there, not all
    #[arg(long)]
    pub(crate) any: bool,
    /// Until all are there; the default
    #[arg(long, conflicts_with = "any")]
    all: bool,
}

/// Output to show.
#[derive(Clone, Debug, Group)]
pub(crate) struct Logs {
    /// Name of the Run
    #[arg(value_name = "RUN")]
    pub(crate) name: String,
    /// Go on until the Run has ended
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Only the last lines of each stream; zero means all
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) tail: usize,
    /// End as the Run ended, with the codes of `krt wait`
    #[arg(long)]
    pub(crate) exit_status: bool,
}

fn goal(text: &str) -> Result<Goal, String> {
    match text.split_once('=') {
        None => match text {
            "terminal" => Ok(Goal::Terminal),
            "ready" => Ok(Goal::Ready),
            "deleted" => Ok(Goal::Deleted),
            _ => Err(
                "write terminal, ready, deleted, phase=PHASE or condition=TYPE[=STATUS]".to_owned(),
            ),
        },
        Some(("phase", phase)) if !phase.is_empty() => Ok(Goal::Phase(phase.to_owned())),
        Some(("condition", rest)) if !rest.is_empty() => {
            let (kind, status) = rest.split_once('=').unwrap_or((rest, "True"));
            Ok(Goal::Condition {
                kind: kind.to_owned(),
                status: status.to_owned(),
            })
        }
        Some(_) => Err("write phase=PHASE or condition=TYPE[=STATUS]".to_owned()),
    }
}
