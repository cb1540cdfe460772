//! Flags of the verbs that only look at files: no server, no kubeconfig.

use std::path::PathBuf;

use clap::{Args as Group, ValueEnum};
use kruntimes_embedded::manifest::parse_input;
use kruntimes_workflow::convert::{Kind, Options};

use crate::client::Reference;
use crate::paint::When;

pub(crate) const LINT: &str = "\
Examples:
  krt lint build.yaml                  everything that is wrong, with lines and hints
  krt lint workflows/ actions/         references are looked up in all of them
  generate | krt lint - -o sarif       for code hosts
  krt lint build.yaml --with actions/  look references up there, judge build.yaml only
  krt lint build.yaml --fix            correct misspelt names in the file

Exit codes:
  0  no error  1  a file cannot be read  2  wrong usage  3  errors were found";

pub(crate) const GRAPH: &str = "\
Examples:
  krt wf graph -f build.yaml                    one line per job
  krt wf graph -f build.yaml -o svg > build.svg
  krt wf graph -f build.yaml -o mermaid         for Markdown
  krt wf graph wfr/nightly                      a stored execution with its phases

Exit codes:
  0  printed  1  the file cannot be read  2  wrong usage  3  the file was refused";

pub(crate) const CONVERT: &str = "\
Examples:
  krt wf convert -f ci.yml --runtime-map ubuntu-latest=bash
  krt wf convert -f ci.yml --allow-drop timeout-minutes

Exit codes:
  0  printed  1  the file cannot be read  2  wrong usage  3  the file was refused";

/// A verb that only looks at files.
#[derive(Debug)]
pub(crate) enum Files {
    /// Judge files.
    Lint(Lint),
    /// Print a graph.
    Graph(Graph),
    /// Print a CI file as a manifest.
    Convert(Convert),
}

#[derive(Debug, Group)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct Lint {
    /// Files, directories, or `-` for standard input
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// How findings are printed
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Report,
    /// Take warnings for errors
    #[arg(long)]
    pub(crate) strict: bool,
    /// Look calls up in these files and directories too, which are not judged; may repeat
    #[arg(long, value_name = "PATH")]
    pub(crate) with: Vec<PathBuf>,
    /// Correct misspelt names where only one is near, and judge what is left
    #[arg(long)]
    pub(crate) fix: bool,
    /// Refuse calls of what is in none of the files
    #[arg(long)]
    pub(crate) require_refs: bool,
    #[command(flatten)]
    mapping: Mapping,
    /// When to use colour; set from the global flag
    #[arg(skip)]
    pub(crate) color: When,
    /// Whether to write ASCII only; set from the global flag
    #[arg(skip)]
    pub(crate) ascii: bool,
}

impl Lint {
    /// How CI files are read.
    pub(crate) fn conversion(&self) -> Options {
        self.mapping.options()
    }
}

/// How findings are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Report {
    /// For people.
    #[default]
    Text,
    /// One JSON list.
    Json,
    /// SARIF 2.1.0.
    Sarif,
    /// Commands of a CI log.
    Github,
}

#[derive(Debug, Group)]
pub(crate) struct Graph {
    /// A stored Workflow or WorkflowRun, as in `wf/NAME` or `wfr/NAME`; that of a run shows its phases
    #[arg(value_name = "OBJECT", value_parser = Reference::parse, conflicts_with_all = ["name", "runtime_map"])]
    pub(crate) object: Option<Reference>,
    /// File with the Workflow or WorkflowRun, or `-` for standard input
    #[arg(
        short,
        long,
        value_name = "FILE",
        required_unless_present = "object",
        conflicts_with = "object"
    )]
    pub(crate) file: Option<PathBuf>,
    /// Which of several objects
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// How the graph is printed
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Picture,
    #[command(flatten)]
    mapping: Mapping,
}

impl Graph {
    /// How a CI file is read.
    pub(crate) fn conversion(&self) -> Options {
        self.mapping.options()
    }
}

/// How a graph is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Picture {
    /// One line per job.
    #[default]
    Text,
    /// The language of Graphviz.
    Dot,
    /// The language of Mermaid.
    Mermaid,
    /// A picture.
    Svg,
    /// Jobs, their needs and their phases.
    Json,
}

#[derive(Debug, Group)]
pub(crate) struct Convert {
    /// CI file, or `-` for standard input
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// How the manifest is printed
    #[arg(short, long, value_parser = ["yaml"], default_value = "yaml")]
    output: String,
    /// What the file becomes; a Workflow when it declares inputs or outputs unless given
    #[arg(long, value_enum, value_name = "KIND")]
    kind: Option<Target>,
    #[command(flatten)]
    conversion: Conversion,
}

impl Convert {
    /// How the file is read.
    pub(crate) fn options(&self) -> Options {
        Options {
            kind: self.kind.map(|kind| match kind {
                Target::Workflow => Kind::Workflow,
                Target::WorkflowRun => Kind::WorkflowRun,
            }),
            ..self.conversion.options()
        }
    }
}

/// What a small CI workflow file may lose or change on its way.
#[derive(Debug, Group)]
pub(crate) struct Conversion {
    /// Keys of a CI file that may be lost; never those that change what runs
    #[arg(long, value_name = "KEY", value_delimiter = ',')]
    allow_drop: Vec<String>,
    /// Write `KRUNTIME_OUTPUTS` where scripts of a CI file write `GITHUB_OUTPUT`
    #[arg(long)]
    rewrite_output_var: bool,
    #[command(flatten)]
    mapping: Mapping,
}

impl Conversion {
    /// How a CI file is read.
    pub(crate) fn options(&self) -> Options {
        Options {
            droppable: self.allow_drop.iter().cloned().collect(),
            rewrite_output_variable: self.rewrite_output_var,
            ..self.mapping.options()
        }
    }
}

/// What a CI file becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Target {
    /// A reusable definition.
    #[value(name = "Workflow", alias = "workflow")]
    Workflow,
    /// One execution.
    #[value(name = "WorkflowRun", alias = "workflowrun")]
    WorkflowRun,
}

#[derive(Debug, Group)]
struct Mapping {
    /// Runtime for what a CI file calls its runner; may repeat
    #[arg(long, value_name = "FROM=TO", value_parser = parse_input)]
    runtime_map: Vec<(String, String)>,
}

impl Mapping {
    fn options(&self) -> Options {
        Options {
            runtimes: self.runtime_map.iter().cloned().collect(),
            ..Options::default()
        }
    }
}
