//! Flags that all lists share (C-12).

use clap::Args as Group;

use crate::client::{Output, Selection, SortKey};

/// Which objects are listed, and how.
#[derive(Debug, Group)]
pub(crate) struct Listing {
    /// In all namespaces
    #[arg(short = 'A', long = "all-namespaces")]
    pub(crate) everywhere: bool,
    /// Label selector, as in `app=x,tier!=y`
    #[arg(short = 'l', long = "selector", value_name = "SELECTOR")]
    labels: Option<String>,
    /// Field selector, as in `metadata.name=x`
    #[arg(long = "field-selector", value_name = "SELECTOR")]
    fields: Option<String>,
    /// Show at most this many, the newest
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
    /// Sort by this field, as in `.metadata.name`; newest first unless given
    #[arg(long, value_name = "PATH", value_parser = SortKey::parse)]
    sort_by: Option<SortKey>,
    /// Without the line of column names
    #[arg(long)]
    pub(crate) no_headers: bool,
    /// How it is printed: table, wide, name, json, yaml, jsonl or jsonpath=TEMPLATE
    #[arg(short, long, value_parser = Output::parse, default_value = "table", value_name = "FORMAT")]
    pub(crate) output: Output,
}

impl Listing {
    /// What is asked of the server.
    pub(crate) fn selection(&self) -> Selection {
        Selection {
            everywhere: self.everywhere,
            labels: self.labels.clone(),
            fields: self.fields.clone(),
            limit: self.limit,
            sort_by: self.sort_by.clone(),
        }
    }
}
