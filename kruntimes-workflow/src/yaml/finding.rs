//! What is wrong with a file, and where.

use std::ops::Range;

/// One remark about a manifest file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Number of the rule, such as `K002`; `K000` for what no numbered rule covers.
    pub code: &'static str,
    /// What is wrong, in one sentence without full stop.
    pub message: String,
    /// What to write instead, where that is known.
    pub help: Option<String>,
    /// Index of the document in the file, counted from zero.
    pub document: usize,
    /// Path in the object, such as `spec.jobs.build.needs[0]`; empty for the whole document.
    pub path: String,
    /// Bytes of the file that the remark is about.
    pub span: Range<usize>,
    /// Line of the first byte, counted from one.
    pub line: usize,
    /// Column of the first byte in characters, counted from one.
    pub column: usize,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The file cannot be used.
    Error,
    /// It can, with another effect than its text suggests.
    Warning,
    /// It can; there is a safer way.
    Advice,
}

impl Severity {
    /// Returns the word that stands before the code in a diagnostic.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Advice => "advice",
        }
    }
}

impl Finding {
    /// Adds what to write instead.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Adds what to write instead, if anything is known.
    pub fn maybe_help(mut self, help: Option<String>) -> Self {
        if help.is_some() {
            self.help = help;
        }
        self
    }
}

/// Tells whether any finding makes the file unusable.
pub fn has_errors(findings: &[Finding]) -> bool {
    findings
        .iter()
        .any(|finding| finding.severity == Severity::Error)
}
