//! Why an outputs file is refused.

use crate::limits::{
    OUTPUT_KEY_MAX_BYTES, OUTPUT_VALUE_MAX_BYTES, OUTPUTS_MAX_BYTES, OUTPUTS_MAX_KEYS,
};
use crate::message::quoted;

/// Why an outputs file is refused. The Run fails and is not repeated (N-131).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OutputsError {
    /// A line is neither `KEY=VALUE` nor the opener of a block.
    #[error("outputs line {line} must use KEY=VALUE format")]
    NoSeparator {
        /// Counts from one.
        line: u64,
        /// The key written before, whose value may have been meant to go on.
        after: Option<String>,
    },
    /// Nothing stands before `=` or `<<`.
    #[error("outputs line {line} has an empty key")]
    EmptyKey {
        /// Counts from one.
        line: u64,
    },
    /// The bytes are no text.
    #[error("outputs line {line} is not valid UTF-8")]
    NotUtf8 {
        /// Counts from one.
        line: u64,
    },
    /// Nothing stands after `<<`.
    #[error("outputs line {line} opens a block for key {} with an empty marker", quoted(.key))]
    EmptyMarker {
        /// Counts from one.
        line: u64,
        /// The key of the block.
        key: String,
    },
    /// The file ends inside a block.
    #[error(
        "outputs line {line} opens a block for key {}, but its marker {} never stands alone on a line{}",
        quoted(.key),
        quoted(&shortened(.marker)),
        quotes_note(.marker)
    )]
    UnterminatedBlock {
        /// Line that opened the block, counted from one.
        line: u64,
        /// The key of the block.
        key: String,
        /// The marker in force, quotes included.
        marker: String,
    },
    /// A key is longer than allowed.
    #[error("outputs line {line} has a key of {bytes} bytes, limit {OUTPUT_KEY_MAX_BYTES}")]
    KeyTooLong {
        /// Counts from one.
        line: u64,
        /// Size of the key.
        bytes: u64,
    },
    /// A line does not fit, and no single value is to blame.
    #[error("outputs line {line} has {bytes} bytes, limit {}", super::KEPT_MAX)]
    LineTooLong {
        /// Counts from one.
        line: u64,
        /// Size of the line as far as it was read.
        bytes: u64,
    },
    /// A value is longer than allowed.
    #[error("{}: {}{bytes} bytes, limit {OUTPUT_VALUE_MAX_BYTES}", shown(.key), if *.more { "more than " } else { "" })]
    ValueTooLong {
        /// The key of the value.
        key: String,
        /// Size of the value as far as it was read.
        bytes: u64,
        /// Whether reading stopped before the end of the value.
        more: bool,
    },
    /// There are more keys than allowed.
    #[error("outputs line {line} adds key {}, limit {OUTPUTS_MAX_KEYS} keys", quoted(.key))]
    TooManyKeys {
        /// Counts from one.
        line: u64,
        /// The key that is one too many.
        key: String,
    },
    /// All keys and values together are larger than allowed.
    #[error("outputs line {line} with key {} brings the total to {bytes} bytes, limit {OUTPUTS_MAX_BYTES}", quoted(.key))]
    TotalTooLarge {
        /// Counts from one.
        line: u64,
        /// The key that crossed the limit.
        key: String,
        /// Size of all keys and values with this one.
        bytes: usize,
    },
}

impl OutputsError {
    /// Returns the reason of the Run's conditions.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoSeparator { .. }
            | Self::EmptyKey { .. }
            | Self::NotUtf8 { .. }
            | Self::EmptyMarker { .. }
            | Self::UnterminatedBlock { .. } => "OutputsInvalid",
            Self::KeyTooLong { .. }
            | Self::LineTooLong { .. }
            | Self::ValueTooLong { .. }
            | Self::TooManyKeys { .. }
            | Self::TotalTooLarge { .. } => "OutputsTooLarge",
        }
    }

    /// Returns advice to append to the message, where the likely mistake is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoSeparator { after, .. } => after.as_deref().map(|key| {
                format!(
                    "the line follows the value of {}; a value of several lines needs the block form KEY<<MARKER",
                    quoted(key)
                )
            }),
            Self::EmptyKey { .. }
            | Self::NotUtf8 { .. }
            | Self::EmptyMarker { .. }
            | Self::UnterminatedBlock { .. }
            | Self::KeyTooLong { .. }
            | Self::LineTooLong { .. }
            | Self::ValueTooLong { .. }
            | Self::TooManyKeys { .. }
            | Self::TotalTooLarge { .. } => None,
        }
    }

    pub(super) fn value_too_long(key: &str, bytes: u64, more: bool) -> Self {
        Self::ValueTooLong {
            key: key.to_owned(),
            bytes,
            more,
        }
    }
}

/// A marker as long as a message can bear.
fn shortened(marker: &str) -> String {
    crate::message::bounded(marker, 128)
}

fn quotes_note(marker: &str) -> &'static str {
    let quoted_by =
        |quote: char| marker.len() > 1 && marker.starts_with(quote) && marker.ends_with(quote);
    if quoted_by('\'') || quoted_by('"') {
        "; quotes are part of the marker and are not stripped"
    } else {
        ""
    }
}

/// The key as it is, or quoted when it would disturb the message.
fn shown(key: &str) -> String {
    if key.chars().any(|c| c.is_control() || c == '"') {
        return quoted(key);
    }
    key.to_owned()
}
