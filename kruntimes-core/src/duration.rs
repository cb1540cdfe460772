//! Durations in the notation of the API: `90s`, `1m30s`, `1.5h`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// A signed length of time with nanosecond precision.
///
/// Compared by value: `60s` equals `1m0s`. Printed in canonical form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration {
    nanos: i64,
}

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseDurationError {
    /// The text does not follow the grammar.
    #[error("invalid duration {}, expected a form like \"90s\" or \"1m30s\"", crate::message::quoted(.0))]
    Syntax(String),
    /// The value does not fit in 64 bits of nanoseconds.
    #[error("duration {} is out of range", crate::message::quoted(.0))]
    Range(String),
}

impl Duration {
    /// No time at all.
    pub const ZERO: Self = Self { nanos: 0 };

    /// Makes a duration of whole seconds, saturating at the largest value.
    pub const fn from_secs(secs: i64) -> Self {
        Self {
            nanos: secs.saturating_mul(1_000_000_000),
        }
    }

    /// Makes a duration of whole milliseconds, saturating at the largest value.
    pub const fn from_millis(millis: i64) -> Self {
        Self {
            nanos: millis.saturating_mul(1_000_000),
        }
    }

    /// Makes a duration of nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self { nanos }
    }

    /// Returns the value in nanoseconds.
    pub const fn as_nanos(self) -> i64 {
        self.nanos
    }

    /// Tells whether the value is greater than zero.
    pub const fn is_positive(self) -> bool {
        self.nanos > 0
    }

    /// Returns the value for timers; a negative value becomes zero.
    pub const fn to_std(self) -> std::time::Duration {
        if self.nanos <= 0 {
            return std::time::Duration::ZERO;
        }
        std::time::Duration::from_nanos(self.nanos.unsigned_abs())
    }

    /// Returns the instant this long after `start`, saturating at the last representable one.
    pub fn after(self, start: jiff::Timestamp) -> jiff::Timestamp {
        start
            .checked_add(jiff::SignedDuration::from_nanos(self.nanos))
            .unwrap_or(jiff::Timestamp::MAX)
    }

    /// Multiplies, saturating at the largest value.
    pub const fn saturating_mul(self, factor: i64) -> Self {
        Self {
            nanos: self.nanos.saturating_mul(factor),
        }
    }
}

impl From<std::time::Duration> for Duration {
    fn from(value: std::time::Duration) -> Self {
        Self {
            nanos: i64::try_from(value.as_nanos()).unwrap_or(i64::MAX),
        }
    }
}

fn unit_nanos(unit: &str) -> Option<i128> {
    Some(match unit {
        "ns" => 1,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60 * 1_000_000_000,
        "h" => 3_600 * 1_000_000_000,
        _ => return None,
    })
}

/// Reads one `<decimal><unit>` and returns its nanoseconds and the rest.
fn component(text: &str) -> Option<(i128, &str)> {
    let number_end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, rest) = text.split_at(number_end);
    let unit_end = rest
        .find(|c: char| c.is_ascii_digit() || c == '.')
        .unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(unit_end);
    let unit = unit_nanos(unit)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let digits = |text: &str| -> Option<i128> {
        if text.is_empty() {
            return Some(0);
        }
        text.get(..text.len().min(24))?.parse().ok()
    };
    // Digits beyond a nanosecond of an hour cannot change the result.
    let fraction = &fraction[..fraction.len().min(18)];
    let scale = 10_i128.pow(u32::try_from(fraction.len()).ok()?);
    let whole = if whole.len() > 24 {
        i128::from(i64::MAX)
    } else {
        digits(whole)?
    };
    let nanos = whole
        .saturating_mul(unit)
        .saturating_add(digits(fraction)?.saturating_mul(unit) / scale);
    Some((nanos, rest))
}

impl FromStr for Duration {
    type Err = ParseDurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let syntax = || ParseDurationError::Syntax(crate::message::bounded(text, 64));
        let (negative, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        if unsigned == "0" {
            return Ok(Self::ZERO);
        }
        if unsigned.is_empty() {
            return Err(syntax());
        }
        let mut rest = unsigned;
        let mut total: i128 = 0;
        while !rest.is_empty() {
            let (nanos, tail) = component(rest).ok_or_else(syntax)?;
            total = total.saturating_add(nanos);
            rest = tail;
        }
        let total = if negative { -total } else { total };
        i64::try_from(total)
            .map(|nanos| Self { nanos })
            .map_err(|_| ParseDurationError::Range(crate::message::bounded(text, 64)))
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.nanos.unsigned_abs();
        if self.nanos < 0 {
            f.write_str("-")?;
        }
        if nanos == 0 {
            return f.write_str("0s");
        }
        if nanos < 1_000_000_000 {
            let (unit, scale) = match nanos {
                0..1_000 => ("ns", 1),
                1_000..1_000_000 => ("\u{b5}s", 1_000),
                _ => ("ms", 1_000_000),
            };
            return write_decimal(f, nanos, scale).and_then(|()| f.write_str(unit));
        }
        let (hours, rest) = (nanos / 3_600_000_000_000, nanos % 3_600_000_000_000);
        let (minutes, rest) = (rest / 60_000_000_000, rest % 60_000_000_000);
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if hours > 0 || minutes > 0 {
            write!(f, "{minutes}m")?;
        }
        write_decimal(f, rest, 1_000_000_000)?;
        f.write_str("s")
    }
}

fn write_decimal(f: &mut fmt::Formatter<'_>, value: u64, scale: u64) -> fmt::Result {
    write!(f, "{}", value / scale)?;
    let fraction = value % scale;
    if fraction == 0 {
        return Ok(());
    }
    let width = usize::try_from(scale.ilog10()).unwrap_or(0);
    let digits = format!("{fraction:0width$}");
    write!(f, ".{}", digits.trim_end_matches('0'))
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_value_are_equal_and_print_canonically() {
        for (text, want) in [
            ("60s", "1m0s"),
            ("1m0s", "1m0s"),
            ("0", "0s"),
            ("0s", "0s"),
            ("1.5h", "1h30m0s"),
            ("1h", "1h0m0s"),
            ("250ms", "250ms"),
            (".5s", "500ms"),
            ("1.5s", "1.5s"),
            ("-1m", "-1m0s"),
            ("+5s", "5s"),
            ("10us", "10\u{b5}s"),
            ("10\u{3bc}s", "10\u{b5}s"),
            ("1h2m3.004s", "1h2m3.004s"),
        ] {
            let parsed: Duration = text.parse().unwrap();
            assert_eq!(parsed.to_string(), want, "{text}");
            assert_eq!(want.parse::<Duration>().unwrap(), parsed, "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "", "-", "1", "s", "1x", "1.s.", "1..5s", "5 s", "1s ", "abc", ".s", "\u{661}s",
        ] {
            assert!(
                matches!(text.parse::<Duration>(), Err(ParseDurationError::Syntax(_))),
                "{text:?}"
            );
        }
        for text in ["9999999999999h", "99999999999999999999999999999999h"] {
            assert!(
                matches!(text.parse::<Duration>(), Err(ParseDurationError::Range(_))),
                "{text:?}"
            );
        }
    }
}
