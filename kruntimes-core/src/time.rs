//! Instants as the API writes them.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// An instant, written as RFC 3339 UTC with second precision.
///
/// A fraction is accepted on read and kept in memory, but never written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub Timestamp);

impl Time {
    /// Drops the fraction of a second, which is what a reader of the stored value will see.
    pub fn to_seconds(self) -> Self {
        Self(Timestamp::from_second(self.0.as_second()).unwrap_or(self.0))
    }
}

impl From<Timestamp> for Time {
    fn from(value: Timestamp) -> Self {
        Self(value)
    }
}

impl From<Time> for Timestamp {
    fn from(value: Time) -> Self {
        value.0
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_seconds().0.fmt(f)
    }
}

impl FromStr for Time {
    type Err = jiff::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_read_and_not_written() {
        let time: Time = serde_json::from_str("\"2026-01-02T03:04:05.9Z\"").unwrap();
        assert_eq!(
            serde_json::to_string(&time).unwrap(),
            "\"2026-01-02T03:04:05Z\""
        );
        assert_ne!(time, time.to_seconds());
    }

    #[test]
    fn offsets_are_written_as_utc() {
        let time: Time = serde_json::from_str("\"2026-01-02T05:04:05+02:00\"").unwrap();
        assert_eq!(time.to_string(), "2026-01-02T03:04:05Z");
    }
}
