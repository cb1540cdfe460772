//! Flags of the verbs that talk to an API server, and the plain requests they become.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args as Group, CommandFactory as _, Subcommand};
use kruntimes_core::duration::Duration;

use super::artifacts::ArtifactVerb;
use super::files::Graph;
use super::runs::{Cancel, Get, ListRuns, Run};
use super::runtimes::RuntimeVerb;
use super::wait::{Logs, Wait};
use super::workflows::WorkflowVerb;
use super::{Args, Format, artifacts, runs, runtimes, wait};
use crate::client::{Kind, Reference};

const EXPLAIN: &str = "\
Examples:
  krt explain run build                     why does Run build not run?
  krt explain build -o json                 the same for programs
  krt explain wfr/nightly                   why did WorkflowRun nightly fail?
  krt explain build --record build.json     keep what the scheduler sees
  krt explain replay build.json             decide it again, offline
  krt explain replay build.json --expect wait:InsufficientCapacity
  krt explain --reason HeartbeatStale       what does this reason mean?
  krt explain --list                        all reasons

Exit codes:
  0  explained; for replay: the decision is as recorded, or as expected
  1  could not be carried out; for replay: the decision is another one
  2  wrong usage  3  the recording was refused";

#[derive(Debug, Subcommand)]
pub(crate) enum ClientVerb {
    /// Create a Run: a script, a program of a repository, or a function
    #[command(after_help = runs::RUN)]
    Run(Box<Run>),
    /// Show one Run
    #[command(after_help = runs::GET)]
    Get(Get),
    /// List Runs, newest first
    #[command(visible_alias = "ls", after_help = runs::LIST)]
    List(ListRuns),
    /// Ask for the end of Runs
    #[command(after_help = runs::CANCEL)]
    Cancel(Cancel),
    /// Show what a Run has written
    #[command(after_help = wait::LOGS)]
    Logs(Logs),
    /// Wait for objects: by watching, until any end
    #[command(after_help = wait::WAIT)]
    Wait(Wait),
    /// Runtimes: pools of warm pods
    #[command(subcommand, visible_alias = "rt", after_help = runtimes::RUNTIME)]
    Runtime(RuntimeVerb),
    /// Artifacts: files that Runs have stored
    #[command(subcommand, after_help = artifacts::ARTIFACT)]
    Artifact(ArtifactVerb),
    /// Say why a Run is in its state: what holds it back, where its Pods drop out, what to do next
    ///
    /// A Run that waits is judged as the scheduler judges it, by the same code with the default plugins.
    #[command(after_help = EXPLAIN)]
    Explain(ExplainFlags),
}

#[derive(Debug, Group)]
pub(crate) struct ExplainFlags {
    /// `run NAME`, `run/NAME` or `NAME`; `wfr/NAME`; or `replay FILE`
    #[arg(value_name = "WHAT", num_args = 0..=2)]
    words: Vec<String>,
    /// Explain a machine reason, offline
    #[arg(long, value_name = "REASON", conflicts_with_all = ["words", "list"])]
    reason: Option<String>,
    /// List every machine reason, offline
    #[arg(long, conflicts_with = "words")]
    list: bool,
    /// Write what the scheduler sees and decides to a file instead
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// With replay: what is to be decided, as in `bind:POD`, `wait:REASON`, `fail:REASON` or a part of it
    #[arg(long, value_name = "DECISION")]
    expect: Option<String>,
    /// Age from which a heartbeat is stale, as configured at the scheduler
    #[arg(long, value_name = "DURATION", default_value = "15s")]
    heartbeat_staleness: Duration,
    /// Print it for people, or as JSON
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// What a client verb asks for.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one per process")]
pub(crate) enum Verb {
    /// Create a Run.
    Run(Run),
    /// Show a Run.
    Get(Get),
    /// List Runs.
    List(ListRuns),
    /// End Runs.
    Cancel(Cancel),
    /// Show output.
    Logs(Logs),
    /// Wait for objects.
    Wait(Wait),
    /// Something about Runtimes.
    Runtime(RuntimeVerb),
    /// Something about artifacts.
    Artifact(ArtifactVerb),
    /// Draw a stored object.
    Graph(Graph),
    /// Something about Workflows.
    Workflow(WorkflowVerb),
    /// Explain something.
    Explain(Explain),
}

/// An explanation that is asked for.
#[derive(Debug)]
pub(crate) struct Explain {
    /// What is to be explained.
    pub(crate) what: Explained,
    /// Where the decision is to be written instead.
    pub(crate) record: Option<PathBuf>,
    /// Age from which a heartbeat is stale.
    pub(crate) heartbeat_staleness: Duration,
    /// How it is printed.
    pub(crate) format: Format,
}

/// What is to be explained.
#[derive(Debug)]
pub(crate) enum Explained {
    /// An object.
    Object(Reference),
    /// A machine reason.
    Reason(String),
    /// All machine reasons.
    Registry,
    /// A recorded decision.
    Recording {
        /// The file; `-` is standard input.
        file: PathBuf,
        /// What is to be decided.
        expect: Option<String>,
    },
}

impl ClientVerb {
    /// Turns the flags into a request; usage errors that clap cannot know end the process with code 2.
    pub(super) fn into_verb(self) -> Verb {
        match self {
            Self::Run(run) => Verb::Run(checked(*run)),
            Self::Get(get) => Verb::Get(get),
            Self::List(list) => Verb::List(list),
            Self::Cancel(cancel) => Verb::Cancel(cancel),
            Self::Logs(logs) => Verb::Logs(logs),
            Self::Wait(wait) => Verb::Wait(wait),
            Self::Runtime(verb) => Verb::Runtime(verb),
            Self::Artifact(verb) => Verb::Artifact(verb),
            Self::Explain(flags) => Verb::Explain(flags.into_request()),
        }
    }
}

impl ExplainFlags {
    fn into_request(self) -> Explain {
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        let what = match (words.as_slice(), self.reason) {
            ([], Some(reason)) => Explained::Reason(reason),
            ([], None) if self.list => Explained::Registry,
            (["replay", file], None) => Explained::Recording {
                file: PathBuf::from(file),
                expect: self.expect.clone(),
            },
            ([word], None) => Explained::Object(reference(word)),
            ([kind, name], None) if Kind::parse(kind).is_some() => {
                Explained::Object(reference(&format!("{kind}/{name}")))
            }
            _ => refuse(
                "name a Run: `krt explain run NAME`, `krt explain NAME`; or `krt explain replay FILE`",
            ),
        };
        if let Explained::Object(object) = &what
            && !matches!(object.kind, Kind::Run | Kind::WorkflowRun)
        {
            refuse(
                "only a Run or a WorkflowRun can be explained; see `kubectl describe` for other kinds",
            );
        }
        let replays = matches!(what, Explained::Recording { .. });
        if self.expect.is_some() && !replays {
            refuse("--expect belongs to `krt explain replay FILE`");
        }
        let is_run = matches!(&what, Explained::Object(object) if object.kind == Kind::Run);
        if self.record.is_some() && !is_run {
            refuse("--record belongs to `krt explain run NAME`");
        }
        Explain {
            what,
            record: self.record,
            heartbeat_staleness: self.heartbeat_staleness,
            format: self.output,
        }
    }
}

/// Refuses what contradicts itself before anything is read or sent (C-23).
fn checked(run: Run) -> Run {
    if run.file.is_some() && run.handler.is_some() && run.inline_path.is_none() {
        refuse(
            "--file with --handler needs --inline-path, the file name that the handler is imported from",
        );
    }
    if run.file.is_none() && run.repo_url.is_none() && run.words.is_empty() && run.handler.is_none()
    {
        refuse(
            "there is nothing to run: name a script with --file, a repository with --repo-url, or words after --",
        );
    }
    run
}

/// Refuses an execution that is neither created nor looked at.
pub(super) fn with_file(verb: WorkflowVerb) -> WorkflowVerb {
    if let WorkflowVerb::Run(run) = &verb
        && run.verb.is_none()
        && run.file.is_none()
    {
        // W-150
        let said = "--file is required";
        Args::command()
            .error(ErrorKind::MissingRequiredArgument, said)
            .exit()
    }
    verb
}

/// Reads the name of an object.
fn reference(text: &str) -> Reference {
    Reference::parse(text).unwrap_or_else(|said| refuse(&said))
}

/// Ends the process because of wrong usage.
fn refuse(said: &str) -> ! {
    Args::command()
        .error(ErrorKind::ValueValidation, said)
        .exit()
}
