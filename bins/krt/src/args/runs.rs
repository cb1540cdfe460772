//! Flags of the verbs about Runs.

use std::path::PathBuf;
use std::time::Duration as Time;

use clap::{Args as Group, ValueEnum};
use kruntimes_core::duration::Duration;

use super::listing::Listing;
use crate::client::Output;

pub(super) const RUN: &str = "\
Examples:
  krt run -f build.sh --wait                    run a script and wait for its end
  echo 'echo hello' | krt run -f - --logs       run what another program writes, show its output
  name=$(krt run -f job.sh -o name --wait)      exactly the name, even when the Run fails
  krt run -r python --handler app.main --repo-url https://example.org/app.git --commit-sha v1
  krt run -f train.sh --request gpu=1 --timeout 30m --retry-attempts 3

Exit codes:
  0  created; with --wait: Succeeded, or Ready for a function or session
  3  refused by the server     4  --wait-timeout passed
  10 Failed   11 Timeout   12 Cancelled   13 deleted meanwhile";

pub(super) const LIST: &str = "\
Examples:
  krt ls                                newest first
  krt ls -A --active                    what is going on anywhere
  krt ls --phase failed --phase timeout -o wide
  krt ls -l kruntimes.io/workflow-job=build -o name";

pub(super) const GET: &str = "\
Examples:
  krt get build            everything about one Run
  krt get build -o yaml    as it is stored
  krt get build -w         a line per change, until it has ended
  krt get build -o jsonpath='{.status.phase}'";

pub(super) const CANCEL: &str = "\
Examples:
  krt cancel build test    ask for the end of two Runs
  krt cancel -l team=x --wait";

/// How long to wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum WaitFor {
    /// The end of a task; `Ready` of a function or session.
    #[default]
    Reached,
    /// The end.
    Terminal,
}

/// A Run to create.
#[derive(Debug, Group)]
pub(crate) struct Run {
    /// Runtime that executes it
    #[arg(short, long, default_value = "bash", value_name = "NAME")]
    pub(crate) runtime: String,
    /// Name of the Run; `run-` and random characters unless given
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Limit of one attempt, as in `90s`; zero means none
    #[arg(long, default_value = "0s", value_name = "DURATION", value_parser = duration)]
    pub(crate) timeout: Duration,
    /// Script to run, or `-` for standard input
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["repo_url", "entrypoint", "words"])]
    pub(crate) file: Option<PathBuf>,
    /// Path of the inline script in function mode; then --file goes with --handler
    #[arg(long, value_name = "PATH", requires_all = ["file", "handler"])]
    pub(crate) inline_path: Option<String>,
    /// Script of the repository to run
    #[arg(long, value_name = "PATH")]
    pub(crate) entrypoint: Option<String>,
    /// Function to serve, as in `module.function`
    #[arg(long, value_name = "NAME", conflicts_with_all = ["entrypoint", "words"])]
    pub(crate) handler: Option<String>,
    /// A function that was not called for so many seconds ends
    #[arg(long, value_name = "SECONDS", requires = "handler")]
    pub(crate) idle_timeout: Option<i32>,
    /// Git repository with the source
    #[arg(long, value_name = "URL")]
    pub(crate) repo_url: Option<String>,
    /// Commit, branch or tag of the repository
    #[arg(long, value_name = "REF", requires = "repo_url")]
    pub(crate) commit_sha: Option<String>,
    /// Environment variable; may repeat, a bare KEY is empty
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) env: Vec<String>,
    /// Label; may repeat
    #[arg(long, value_name = "KEY=VALUE", value_parser = super::pair)]
    pub(crate) label: Vec<(String, String)>,
    /// What the Run asks for, as in `gpu=1`; may repeat
    #[arg(long, value_name = "RESOURCE=N", value_parser = super::pair)]
    pub(crate) request: Vec<(String, String)>,
    /// PersistentWorkspace to work in
    #[arg(long, value_name = "NAME")]
    pub(crate) workspace: Option<String>,
    /// Attempts in all; more than zero sets a retry policy
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) retry_attempts: i32,
    /// Wait before the second attempt; `1s` when attempts are set and this is not
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "retry_attempts")]
    pub(crate) retry_backoff: Option<Duration>,
    /// Reasons that are tried again; all unless given
    #[arg(
        long,
        value_name = "REASON,…",
        value_delimiter = ',',
        requires = "retry_attempts"
    )]
    pub(crate) retry_on: Vec<String>,
    /// Delete the Run so many seconds after its end
    #[arg(long, value_name = "SECONDS")]
    pub(crate) ttl: Option<i32>,
    /// Wait until it has ended, or serves
    #[arg(long, value_enum, num_args = 0..=1, default_missing_value = "reached", require_equals = true)]
    pub(crate) wait: Option<WaitFor>,
    /// Give up waiting after this long; the Run goes on
    #[arg(long, value_name = "DURATION", value_parser = time)]
    pub(crate) wait_timeout: Option<Time>,
    /// Show the output, and wait until it has ended
    #[arg(short = 'F', long)]
    pub(crate) logs: bool,
    /// Delete the Run when it has ended
    #[arg(long)]
    pub(crate) rm: bool,
    /// How the Run is printed; its name unless given: table, wide, name, json, yaml, jsonl or jsonpath=TEMPLATE
    #[arg(short, long, value_parser = Output::parse, default_value = "table", value_name = "FORMAT")]
    pub(crate) output: Output,
    /// Arguments of the script of the repository
    #[arg(last = true, value_name = "WORD")]
    pub(crate) words: Vec<String>,
}

/// A Run to print.
#[derive(Debug, Group)]
pub(crate) struct Get {
    /// Name of the Run
    #[arg(value_name = "RUN")]
    pub(crate) name: String,
    /// How it is printed: table, wide, name, json, yaml, jsonl or jsonpath=TEMPLATE
    #[arg(short, long, value_parser = Output::parse, default_value = "table", value_name = "FORMAT")]
    pub(crate) output: Output,
    /// The whole inline source
    #[arg(long)]
    pub(crate) full: bool,
    /// Print it again whenever it changes, until it has ended
    #[arg(short, long)]
    pub(crate) watch: bool,
}

/// Runs to print.
#[derive(Debug, Group)]
pub(crate) struct ListRuns {
    #[command(flatten)]
    pub(crate) list: Listing,
    /// Only those of this Runtime
    #[arg(long, value_name = "NAME")]
    pub(crate) runtime: Option<String>,
    /// Only those in this phase; may repeat, in any case
    #[arg(long = "phase", value_name = "PHASE", value_parser = phase)]
    pub(crate) phases: Vec<String>,
    /// Only those that have not ended
    #[arg(long)]
    pub(crate) active: bool,
    /// Only those that ended Failed or Timeout
    #[arg(long)]
    pub(crate) failed: bool,
}

/// Runs to end.
#[derive(Debug, Group)]
pub(crate) struct Cancel {
    /// Names of Runs
    #[arg(value_name = "RUN", required_unless_present = "labels")]
    pub(crate) names: Vec<String>,
    /// Label selector of Runs
    #[arg(short = 'l', long = "selector", value_name = "SELECTOR")]
    pub(crate) labels: Option<String>,
    /// Wait until they have ended
    #[arg(long)]
    pub(crate) wait: bool,
    /// Give up waiting after this long
    #[arg(long, value_name = "DURATION", value_parser = time)]
    pub(crate) wait_timeout: Option<Time>,
}

/// Reads a duration; a bare zero is one.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    text.parse()
        .map_err(|error: kruntimes_core::duration::ParseDurationError| error.to_string())
}

/// Reads a duration for a timer.
pub(crate) fn time(text: &str) -> Result<Time, String> {
    duration(text).map(Duration::to_std)
}

const PHASES: [&str; 9] = [
    "Pending",
    "Scheduled",
    "Running",
    "Ready",
    "Finalizing",
    "Succeeded",
    "Failed",
    "Timeout",
    "Cancelled",
];

fn phase(text: &str) -> Result<String, String> {
    let found = PHASES.iter().find(|phase| phase.eq_ignore_ascii_case(text));
    let found = found.map(|phase| (*phase).to_owned());
    found.ok_or_else(|| format!("there are {}", PHASES.join(", ")))
}
