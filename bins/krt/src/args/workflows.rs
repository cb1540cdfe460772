//! Flags of `krt workflow` and `krt workflow run`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as Group, Subcommand};
use kruntimes_embedded::manifest::parse_input;

use super::files::Conversion;
use super::listing::Listing;
use super::runs::time;
use crate::client::Output;

pub(super) const WORKFLOW: &str = "\
Examples:
  krt wf create -f greet.yaml               store a Workflow
  krt wf trigger greet --input who=world    make and run a WorkflowRun of it
  krt wf run -f build.yaml --wait           run a WorkflowRun from a file
  krt wf run ls                             executions, newest first
  krt wf run get build                      one execution, job by job
  krt wf run cancel build";

const RUN: &str = "\
Examples:
  krt wf run -f build.yaml --wait    create it and wait for its end
  krt wf run ls -A                   executions anywhere, newest first
  krt wf run get build               job by job
  krt wf run retry build --failed    once more what did not succeed
  krt wf run cancel build --wait     ask for its end, and wait for it
  krt wf run delete build

Exit codes:
  0  created; with --wait: Succeeded
  3  the file was refused   4  --wait-timeout passed
  10 Failed   12 Cancelled   13 deleted meanwhile";

#[derive(Debug, Subcommand)]
pub(crate) enum WorkflowVerb {
    /// Store a Workflow from a file
    Create {
        /// File with a Workflow or a small CI workflow, or `-` for standard input
        #[arg(short, long, value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        conversion: Conversion,
        /// How it is printed; its name unless given: table, wide, name, json, yaml, jsonl or jsonpath=TEMPLATE
        #[arg(short, long, value_parser = Output::parse, default_value = "table", value_name = "FORMAT")]
        output: Output,
    },
    /// List Workflows, newest first
    #[command(visible_alias = "ls")]
    List(Listing),
    /// Show one Workflow and its jobs
    Get {
        /// Name of the Workflow
        #[arg(value_name = "WORKFLOW")]
        name: String,
        /// How it is printed: table, wide, name, json, yaml, jsonl or jsonpath=TEMPLATE
        #[arg(short, long, value_parser = Output::parse, default_value = "table", value_name = "FORMAT")]
        output: Output,
    },
    /// Delete Workflows; what was made of them stays
    Delete {
        /// Names of Workflows
        #[arg(value_name = "WORKFLOW", required = true)]
        names: Vec<String>,
    },
    /// Run a stored Workflow with inputs
    Trigger(Trigger),
    /// WorkflowRuns: executions
    #[command(after_help = RUN)]
    Run(Box<WorkflowRuns>),
}

/// A Workflow to run.
#[derive(Debug, Group)]
pub(crate) struct Trigger {
    /// Name of the Workflow
    #[arg(value_name = "WORKFLOW")]
    pub(crate) workflow: String,
    /// Name of the WorkflowRun; that of the Workflow and random characters unless given
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Value of an input; may repeat, the last of equal keys wins
    #[arg(long = "input", visible_alias = "set", value_name = "KEY=VALUE", value_parser = parse_input)]
    pub(crate) inputs: Vec<(String, String)>,
    /// Wait until it has ended
    #[arg(long)]
    pub(crate) wait: bool,
    /// Give up waiting after this long; it goes on
    #[arg(long, value_name = "DURATION", value_parser = time, requires = "wait")]
    pub(crate) wait_timeout: Option<Duration>,
    /// How it is printed; its name unless given: table, wide, name, json, yaml, jsonl or jsonpath=TEMPLATE
    #[arg(short, long, value_parser = Output::parse, default_value = "table", value_name = "FORMAT")]
    pub(crate) output: Output,
}

/// A WorkflowRun to create, or something about others.
#[derive(Debug, Group)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct WorkflowRuns {
    /// File with a WorkflowRun or a small CI workflow, or `-` for standard input
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) conversion: Conversion,
    /// Wait until it has ended
    #[arg(long)]
    pub(crate) wait: bool,
    /// Give up waiting after this long; it goes on
    #[arg(long, value_name = "DURATION", value_parser = time, requires = "wait")]
    pub(crate) wait_timeout: Option<Duration>,
    /// How it is printed; its name unless given: table, wide, name, json, yaml, jsonl or jsonpath=TEMPLATE
    #[arg(short, long, value_parser = Output::parse, default_value = "table", value_name = "FORMAT")]
    pub(crate) output: Output,
    #[command(subcommand)]
    pub(crate) verb: Option<RunVerb>,
}

const RETRY: &str = "\
Examples:
  krt wf run retry ci                    everything once more
  krt wf run retry ci --failed --wait    only what did not succeed, and what comes after it
  krt wf run retry ci --from test        job test, and what comes after it
  krt wf run retry ci --from test.unit   job test from its step unit on

Files of a job's workspace are not taken over.";

/// A WorkflowRun to run once more.
#[derive(Debug, Group)]
pub(crate) struct Retry {
    /// Name of the WorkflowRun
    #[arg(value_name = "WORKFLOWRUN")]
    pub(crate) name: String,
    /// Repeat only jobs that did not succeed, and those that need them
    #[arg(long)]
    pub(crate) failed: bool,
    /// Repeat this job, from this step on if one is named, and those that need it
    #[arg(long, value_name = "JOB[.STEP]", conflicts_with = "failed")]
    pub(crate) from: Option<String>,
    /// Wait until it has ended
    #[arg(long)]
    pub(crate) wait: bool,
    /// Give up waiting after this long; it goes on
    #[arg(long, value_name = "DURATION", value_parser = time, requires = "wait")]
    pub(crate) wait_timeout: Option<Duration>,
    /// How it is printed; its name unless given
    #[arg(short, long, value_parser = Output::parse, default_value = "table", value_name = "FORMAT")]
    pub(crate) output: Output,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RunVerb {
    /// List WorkflowRuns, newest first
    #[command(visible_alias = "ls")]
    List(Listing),
    /// Show one WorkflowRun and its jobs
    Get {
        /// Name of the WorkflowRun
        #[arg(value_name = "WORKFLOWRUN")]
        name: String,
        /// How it is printed: table, wide, name, json, yaml, jsonl or jsonpath=TEMPLATE
        #[arg(short, long, value_parser = Output::parse, default_value = "table", value_name = "FORMAT")]
        output: Output,
    },
    /// Ask for the end of WorkflowRuns
    Cancel {
        /// Names of WorkflowRuns
        #[arg(value_name = "WORKFLOWRUN", required = true)]
        names: Vec<String>,
        /// Wait until they have ended
        #[arg(long)]
        wait: bool,
    },
    /// Run a WorkflowRun that has ended once more, or a part of it
    ///
    /// A new WorkflowRun is made and the old one stays as it is. Results of jobs that are not
    /// repeated are taken over, which the server has to accept (workflow extension `rerun`).
    #[command(after_help = RETRY)]
    Retry(Retry),
    /// Delete WorkflowRuns and everything they own
    Delete {
        /// Names of WorkflowRuns
        #[arg(value_name = "WORKFLOWRUN", required = true)]
        names: Vec<String>,
    },
}
