//! Flags, and the plain requests they become.

pub(crate) mod artifacts;
pub(crate) mod client;
mod engine;
pub(crate) mod files;
pub(crate) mod listing;
pub(crate) mod runs;
pub(crate) mod runtimes;
pub(crate) mod wait;
pub(crate) mod workflows;

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args as Group, CommandFactory as _, Parser, Subcommand, ValueEnum};
use kruntimes_embedded::manifest::parse_input;
use kruntimes_workflow::extend::Extensions;

use crate::client::Connect;
use crate::paint::When;

pub(crate) use engine::Up;

const EXAMPLES: &str = "\
Examples:
  krt local run build.yaml                     run a file on this machine
  krt local run greet.yaml --input who=world   run a Workflow with an input
  generate | krt local run -                   run what another program writes
  krt local run build.yaml -o json | jq .status.phase

Exit codes:
  0    done: everything ended Succeeded
  1    could not be carried out
  2    wrong usage
  3    the file or an input was refused; nothing ran
  10   ended Failed      11  ended Timeout      12  ended Cancelled
  13   was deleted meanwhile
  130  stopped by Ctrl-C  143  stopped by SIGTERM";

const OVERVIEW: &str = "\
Examples:
  krt local run build.yaml                     run a file on this machine, without any server
  krt local up --detach                        start an engine that stays
  krt explain run build                        why does Run build not run?

Exit codes:
  0    done
  1    could not be carried out: network, rights, not found, conflict
  2    wrong usage
  3    an input was refused
  4    --wait-timeout or --timeout passed; what was waited for goes on
  10   ended Failed      11  ended Timeout      12  ended Cancelled
  13   was deleted or replaced meanwhile
  130  stopped by Ctrl-C  143  stopped by SIGTERM";

/// Runs workflows, functions and scripts on warm pools.
#[derive(Debug, Parser)]
#[command(name = "krt", version, after_help = OVERVIEW)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
    #[command(flatten)]
    connect: Connect,
    /// When to use colour; `NO_COLOR` and TERM=dumb turn it off
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    color: When,
    /// Write plain ASCII instead of ticks and lines
    #[arg(long, global = true)]
    ascii: bool,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run things on this machine, without cluster, container or isolation
    #[command(subcommand, after_help = EXAMPLES)]
    Local(Local),
    /// Say everything that is wrong with files, without any server
    #[command(after_help = files::LINT)]
    Lint(files::Lint),
    /// Workflows, and their executions (`krt wf run`)
    #[command(subcommand, visible_alias = "wf", after_help = workflows::WORKFLOW)]
    Workflow(WorkflowCommand),
    #[command(flatten)]
    Client(client::ClientVerb),
}

#[derive(Debug, Subcommand)]
enum WorkflowCommand {
    #[command(flatten)]
    Files(WorkflowFiles),
    #[command(flatten)]
    Server(workflows::WorkflowVerb),
}

#[derive(Debug, Subcommand)]
enum WorkflowFiles {
    /// Print the jobs of a file and what needs what
    #[command(after_help = files::GRAPH)]
    Graph(files::Graph),
    /// Print a small CI workflow file as a manifest
    #[command(after_help = files::CONVERT)]
    Convert(files::Convert),
}

#[derive(Debug, Subcommand)]
enum Local {
    /// Run a file: a WorkflowRun, a Workflow, a Run, or several documents
    ///
    /// Steps run as ordinary processes with the rights of the caller. What they write to standard
    /// output appears on standard output with job and step in front, progress and problems on
    /// standard error. Without a document of kind Runtime named `bash` one is provided.
    #[command(after_help = EXAMPLES)]
    Run {
        /// File to run, or `-` for standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        options: RunOptions,
    },
    /// Workflows on this machine
    #[command(subcommand, visible_alias = "workflow")]
    Wf(LocalWorkflow),
    #[command(flatten)]
    Engine(engine::Engine),
}

#[derive(Debug, Subcommand)]
enum LocalWorkflow {
    /// Run a file; the same as `krt local run FILE`
    #[command(after_help = EXAMPLES)]
    Run {
        /// File to run, or `-` for standard input
        #[arg(short, long, value_name = "FILE")]
        file: Option<PathBuf>,
        #[command(flatten)]
        options: RunOptions,
    },
}

#[derive(Debug, Group)]
struct RunOptions {
    /// Value of an input of the Workflow; may repeat, the last of equal keys wins
    #[arg(long = "input", visible_alias = "set", value_name = "KEY=VALUE", value_parser = parse_input)]
    inputs: Vec<(String, String)>,
    /// Directory for the files of the steps; a temporary one unless given
    #[arg(long, value_name = "DIR")]
    runtime_dir: Option<PathBuf>,
    /// Print the result as a table, or the final object as JSON and nothing else
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    /// Keep the files of the steps
    #[arg(long)]
    keep: bool,
    /// Steps that may run at once in the provided Runtime; the number of processors unless given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    slots: Option<u32>,
    /// What workflows may use beyond the built-in API, such as conditions,matrix; `all` for everything
    #[arg(
        long,
        value_name = "LIST",
        default_value = "",
        hide_default_value = true
    )]
    workflow_extensions: Extensions,
}

/// How the result is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Table,
    /// One JSON document.
    Json,
}

/// What the caller wants.
pub(crate) enum Command {
    /// Run a file on this machine.
    LocalRun(LocalRun),
    /// Start an engine that stays.
    Up(Up),
    /// End an engine.
    Down {
        /// Directory as it was given.
        dir: Option<PathBuf>,
        /// Whether to kill it.
        now: bool,
    },
    /// Tell about an engine.
    Status {
        /// Directory as it was given.
        dir: Option<PathBuf>,
        /// How it is printed.
        format: Format,
    },
    /// Look at files only.
    Files(files::Files),
    /// Print the kubeconfig of an engine.
    Kubeconfig {
        /// Directory as it was given.
        dir: Option<PathBuf>,
        /// Whether to print only where it is.
        path: bool,
    },
    /// Ask an API server.
    Client(Box<Connect>, Box<client::Verb>),
}

/// A file to run on this machine.
pub(crate) struct LocalRun {
    /// The file; `-` is standard input.
    pub(crate) file: PathBuf,
    /// Values of inputs, in the order given.
    pub(crate) inputs: Vec<(String, String)>,
    /// Directory for the files of the steps.
    pub(crate) runtime_dir: Option<PathBuf>,
    /// How the result is printed.
    pub(crate) format: Format,
    /// Whether the files stay.
    pub(crate) keep: bool,
    /// Steps at once.
    pub(crate) slots: Option<u32>,
    /// What workflows may use beyond the built-in API.
    pub(crate) extensions: Extensions,
    /// When to use colour.
    pub(crate) color: When,
    /// Whether to use ASCII only.
    pub(crate) ascii: bool,
}

impl Args {
    /// Turns the flags into a request; usage errors that clap cannot know end the process with code 2.
    pub(crate) fn into_command(self) -> Command {
        let connect = Box::new(self.connect);
        match self.verb {
            Verb::Client(verb) => Command::Client(connect, Box::new(verb.into_verb())),
            Verb::Workflow(WorkflowCommand::Server(verb)) => {
                let verb = client::Verb::Workflow(client::with_file(verb));
                Command::Client(connect, Box::new(verb))
            }
            Verb::Workflow(WorkflowCommand::Files(WorkflowFiles::Graph(graph)))
                if graph.object.is_some() =>
            {
                Command::Client(connect, Box::new(client::Verb::Graph(graph)))
            }
            Verb::Workflow(WorkflowCommand::Files(verb)) => {
                connect_to_nothing(&connect);
                Command::Files(match verb {
                    WorkflowFiles::Graph(graph) => files::Files::Graph(graph),
                    WorkflowFiles::Convert(convert) => files::Files::Convert(convert),
                })
            }
            Verb::Lint(mut lint) => {
                connect_to_nothing(&connect);
                (lint.color, lint.ascii) = (self.color, self.ascii);
                Command::Files(files::Files::Lint(lint))
            }
            Verb::Local(local) => {
                connect_to_nothing(&connect);
                local.into_command(self.color, self.ascii)
            }
        }
    }
}

impl Local {
    fn into_command(self, color: When, ascii: bool) -> Command {
        let (file, options) = match self {
            Self::Run { file, options } => (file, options),
            Self::Wf(LocalWorkflow::Run { file, options }) => {
                let Some(file) = file else {
                    // W-150
                    let said = "--file is required";
                    Args::command()
                        .error(ErrorKind::MissingRequiredArgument, said)
                        .exit();
                };
                (file, options)
            }
            Self::Engine(engine) => return engine.into_command(),
        };
        Command::LocalRun(LocalRun {
            file,
            inputs: options.inputs,
            runtime_dir: options.runtime_dir,
            format: options.output,
            keep: options.keep,
            slots: options.slots,
            extensions: options.workflow_extensions,
            color,
            ascii,
        })
    }
}

/// Refuses flags of a connection where there is none.
fn connect_to_nothing(connect: &Connect) {
    if let Some(flag) = connect.given() {
        let said = format!("{flag} has no meaning here: this command connects to no server");
        Args::command()
            .error(ErrorKind::ArgumentConflict, said)
            .exit();
    }
}

impl Command {
    /// How much is logged unless somebody asks: an engine that stays has nobody who follows it.
    fn log_level(&self) -> &'static str {
        match self {
            Self::Up(_) => "warn",
            Self::LocalRun(_)
            | Self::Files(_)
            | Self::Down { .. }
            | Self::Status { .. }
            | Self::Client(..)
            | Self::Kubeconfig { .. } => "off",
        }
    }
}

/// Reads `KEY=VALUE`.
fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        Some(_) | None => Err("write it as KEY=VALUE".to_owned()),
    }
}

/// Sends the logs of the libraries to standard error, as much of them as `KRT_LOG` asks for.
pub(crate) fn set_up_process(command: &Command) {
    use tracing_subscriber::EnvFilter;

    let filter = EnvFilter::try_from_env("KRT_LOG");
    let filter = filter.unwrap_or_else(|_| EnvFilter::new(command.log_level()));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
}

/// Starts the threads of the process.
///
/// # Panics
///
/// Panics when the system has no threads to give: there is nothing to report it with.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let built = builder.enable_all().build();
    built.expect("the system gives threads to a new process")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<LocalRun, clap::Error> {
        let words = std::iter::once("krt").chain(words.iter().copied());
        match Args::try_parse_from(words)?.into_command() {
            Command::LocalRun(request) => Ok(request),
            _ => panic!("a file is to be run"),
        }
    }

    #[test]
    fn the_definition_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn both_spellings_ask_for_the_same() {
        let short = ["local", "run", "a.yaml", "--input", "k=v=w", "--set", "k="];
        let long = [
            "local", "wf", "run", "-f", "a.yaml", "--set", "k=v=w", "--input", "k=",
        ];
        for words in [&short[..], &long[..]] {
            let request = parsed(words).unwrap();
            assert_eq!(request.file, PathBuf::from("a.yaml"));
            // W-146: the text splits at the first `=`, the value may be empty.
            let want = [("k", "v=w"), ("k", "")].map(|(k, v)| (k.to_owned(), v.to_owned()));
            assert_eq!(request.inputs, want);
        }
    }

    #[test]
    fn c_14_wrong_usage_is_code_2() {
        for words in [
            &["local", "run"][..],
            &["local", "run", "f", "--input", "kv"],
            &["local", "run", "f", "--input", "=v"],
            &["local", "run", "f", "-o", "yml"],
            &["local", "run", "f", "--slots", "0"],
            &["local", "run", "f", "--color", "pink"],
            &["local", "up", "--port", "70000"],
            &["local", "up", "--slots", "0"],
            &["local", "status", "-o", "yml"],
            &["local", "down", "file"],
            &["locl"],
        ] {
            let Err(error) = parsed(words) else {
                panic!("{words:?} is refused")
            };
            assert_eq!(error.exit_code(), 2, "{words:?}");
        }
    }

    #[test]
    fn w_146_the_refusal_of_an_input_has_its_text() {
        let Err(error) = parsed(&["local", "run", "f", "--input", "kv"]) else {
            panic!("an input without `=` is refused")
        };
        assert!(
            error.to_string().contains("--input must be key=value"),
            "{error}"
        );
    }
}
