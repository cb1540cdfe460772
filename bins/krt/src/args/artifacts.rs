//! Flags of `krt artifact`.

use std::path::PathBuf;

use clap::{Args as Group, Subcommand};

use crate::client::Output;

pub(super) const ARTIFACT: &str = "\
Examples:
  krt artifact ls build                          what Run build has stored
  kubectl port-forward POD 19093:9093 &          POD is one of the Runtime
  krt artifact download build app -o app.tar.gz  checked and put in place at its end

Exit codes:
  0  done  1  could not be carried out; nothing is left of a download  2  wrong usage";

#[derive(Debug, Subcommand)]
pub(crate) enum ArtifactVerb {
    /// List what a Run has stored
    #[command(visible_alias = "ls")]
    List {
        /// Name of the Run
        #[arg(value_name = "RUN")]
        run: String,
        /// How it is printed: table, wide, name, json, yaml, jsonl or jsonpath=TEMPLATE
        #[arg(short, long, value_parser = Output::parse, default_value = "table", value_name = "FORMAT")]
        output: Output,
    },
    /// Fetch an artifact into a file; size and digest are checked
    #[command(visible_alias = "get")]
    Download(Download),
}

/// An artifact to fetch.
#[derive(Debug, Group)]
pub(crate) struct Download {
    /// Name of the Run
    #[arg(value_name = "RUN")]
    pub(crate) run: String,
    /// Name of the artifact
    #[arg(value_name = "ARTIFACT")]
    pub(crate) artifact: String,
    /// File to write; the name of the artifact unless given, with .tar.gz for a directory
    #[arg(short, long, value_name = "PATH")]
    pub(crate) output: Option<PathBuf>,
    /// Replace the file
    #[arg(long)]
    pub(crate) force: bool,
    /// Where the status port of a Pod of the Runtime is reached
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:19093")]
    pub(crate) status_addr: String,
}
