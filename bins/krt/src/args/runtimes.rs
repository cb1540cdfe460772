//! Flags of `krt runtime`.

use clap::Subcommand;

use super::listing::Listing;
use crate::client::Output;

pub(super) const RUNTIME: &str = "\
Examples:
  krt rt ls -A                       all pools
  krt rt get bash                    one pool and its pods: heartbeats, use, capacity
  krt rt scale bash --replicas 3";

#[derive(Debug, Subcommand)]
pub(crate) enum RuntimeVerb {
    /// List Runtimes, newest first
    #[command(visible_alias = "ls")]
    List(Listing),
    /// Show one Runtime and its pods
    Get {
        /// Name of the Runtime
        #[arg(value_name = "RUNTIME")]
        name: String,
        /// How it is printed: table, wide, name, json, yaml, jsonl or jsonpath=TEMPLATE
        #[arg(short, long, value_parser = Output::parse, default_value = "table", value_name = "FORMAT")]
        output: Output,
    },
    /// Change how many pods a Runtime has
    Scale {
        /// Name of the Runtime
        #[arg(value_name = "RUNTIME")]
        name: String,
        /// Pods wanted
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
        replicas: i32,
    },
}
