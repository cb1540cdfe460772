//! The `format` keyword: which texts and numbers the known formats accept.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Number;

/// Formats that Kubernetes checks; all others are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Byte,
    Cidr,
    Date,
    DateTime,
    Duration,
    Hostname,
    Int32,
    Int64,
    Ipv4,
    Ipv6,
    Mac,
    Uri,
    Uuid,
}

const NAMES: [(&str, Format); 14] = [
    ("byte", Format::Byte),
    ("cidr", Format::Cidr),
    ("date", Format::Date),
    ("date-time", Format::DateTime),
    ("datetime", Format::DateTime),
    ("duration", Format::Duration),
    ("hostname", Format::Hostname),
    ("int32", Format::Int32),
    ("int64", Format::Int64),
    ("ipv4", Format::Ipv4),
    ("ipv6", Format::Ipv6),
    ("mac", Format::Mac),
    ("uri", Format::Uri),
    ("uuid", Format::Uuid),
];

impl Format {
    pub(super) fn parse(name: &str) -> Option<Self> {
        NAMES
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, format)| *format)
    }

    pub(super) fn name(self) -> &'static str {
        NAMES
            .iter()
            .find(|(_, format)| *format == self)
            .map_or("", |(name, _)| name)
    }

    pub(super) fn accepts_text(self, text: &str) -> bool {
        match self {
            Self::Byte => STANDARD.decode(text).is_ok(),
            Self::Cidr => is_cidr(text),
            Self::Date => text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok(),
            Self::DateTime => {
                text.as_bytes()
                    .get(10)
                    .is_some_and(|at| b"Tt ".contains(at))
                    && is_timestamp(text)
            }
            Self::Duration => is_duration(text),
            Self::Hostname => is_hostname(text),
            Self::Int32 | Self::Int64 => true,
            Self::Ipv4 => text.parse::<Ipv4Addr>().is_ok(),
            Self::Ipv6 => text.parse::<Ipv6Addr>().is_ok(),
            Self::Mac => is_mac(text),
            Self::Uri => is_uri(text),
            Self::Uuid => is_uuid(text),
        }
    }

    pub(super) fn accepts_number(self, number: &Number) -> bool {
        let whole = |low: f64, high: f64| {
            number
                .as_f64()
                .is_some_and(|value| value >= low && value <= high)
        };
        match self {
            Self::Int32 => whole(f64::from(i32::MIN), f64::from(i32::MAX)),
            Self::Int64 => number
                .as_u64()
                .is_none_or(|value| i64::try_from(value).is_ok()),
            Self::Byte
            | Self::Cidr
            | Self::Date
            | Self::DateTime
            | Self::Duration
            | Self::Hostname
            | Self::Ipv4
            | Self::Ipv6
            | Self::Mac
            | Self::Uri
            | Self::Uuid => true,
        }
    }
}

fn is_timestamp(text: &str) -> bool {
    text.parse::<jiff::Timestamp>().is_ok()
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };
    let limit = match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    bits.bytes().all(|byte| byte.is_ascii_digit())
        && bits.parse::<u8>().is_ok_and(|bits| bits <= limit)
}

/// Accepts what Go's duration parser does: signed decimal numbers, each with a unit.
fn is_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    let mut seen = false;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        if !number.bytes().any(|byte| byte.is_ascii_digit()) || number.matches('.').count() > 1 {
            return false;
        }
        let unit = ["ns", "us", "µs", "μs", "ms", "s", "m", "h"]
            .into_iter()
            .find(|unit| {
                let after = tail.strip_prefix(unit);
                after.is_some_and(|after| {
                    after.is_empty() || after.starts_with(|c: char| c.is_ascii_digit() || c == '.')
                })
            });
        let Some(unit) = unit else { return false };
        rest = &tail[unit.len()..];
        seen = true;
    }
    seen
}

fn is_hostname(text: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .chars()
                .all(|c| c.is_alphanumeric() || c == '-' || c == '_')
    };
    text.len() <= 255 && text.strip_suffix('.').unwrap_or(text).split('.').all(label)
}

fn is_mac(text: &str) -> bool {
    let separator = if text.contains('-') { '-' } else { ':' };
    let groups: Vec<_> = text.split(separator).collect();
    let hex = |group: &&str| group.len() == 2 && group.bytes().all(|byte| byte.is_ascii_hexdigit());
    [6, 8, 20].contains(&groups.len()) && groups.iter().all(hex)
}

fn is_uri(text: &str) -> bool {
    if text.chars().any(|c| c.is_control() || c == ' ') {
        return false;
    }
    let Some((scheme, rest)) = text.split_once(':') else {
        return text.starts_with('/');
    };
    let first = scheme.starts_with(|c: char| c.is_ascii_alphabetic());
    let tail = scheme
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    (first && tail && !rest.is_empty()) || text.starts_with('/')
}

/// Accepts the dashes left out, as Kubernetes does.
fn is_uuid(text: &str) -> bool {
    let dashed = text.len() == 36
        && [8, 13, 18, 23]
            .iter()
            .all(|at| text.as_bytes()[*at] == b'-');
    let digits = text.bytes().filter(|byte| *byte != b'-').count();
    let hex = text
        .bytes()
        .all(|byte| byte == b'-' || byte.is_ascii_hexdigit());
    hex && digits == 32 && (dashed || text.len() == 32)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_are_judged_by_format() {
        for (format, good, bad) in [
            ("byte", &["", "aGk="][..], &["a", "a-b="][..]),
            (
                "cidr",
                &["10.0.0.0/8", "fd00::/64"],
                &["10.0.0.0", "10.0.0.0/33", "10.0.0.0/+8"],
            ),
            (
                "date",
                &["2024-02-29"],
                &["2023-02-29", "2024-02-29T00:00:00Z"],
            ),
            (
                "date-time",
                &["2024-02-29T00:00:00Z", "2024-02-29T00:00:00.5+02:00"],
                &["2024-02-29", "now"],
            ),
            (
                "duration",
                &["0", "1h30m", "1.5s", "-3ms", "5µs"],
                &["", "5", "1d", "s", "1.2.3s", "5mm"],
            ),
            ("hostname", &["a", "a-b.example."], &["", "-a", "a..b"]),
            ("ipv4", &["10.0.0.1"], &["10.0.0.256", "::1"]),
            ("ipv6", &["::1"], &["10.0.0.1"]),
            (
                "mac",
                &["00:11:22:33:44:55"],
                &["00:11:22:33:44", "0:11:22:33:44:55"],
            ),
            ("uri", &["https://a/b", "/b"], &["", "a b", "b"]),
            (
                "uuid",
                &["7d9f0f3e-7a0a-4d3c-9a4c-0d4f5b6a7c8d"],
                &["7d9f", "7d9f0f3e-7a0a-4d3c-9a4c-0d4f5b6a7c8g"],
            ),
        ] {
            let format = Format::parse(format).expect("the format is known");
            for text in good {
                assert!(format.accepts_text(text), "{format:?} must accept {text:?}");
            }
            for text in bad {
                assert!(
                    !format.accepts_text(text),
                    "{format:?} must refuse {text:?}"
                );
            }
        }
    }

    #[test]
    fn numbers_are_judged_by_format() {
        for (format, value, want) in [
            ("int32", json!(2_147_483_647_i64), true),
            ("int32", json!(2_147_483_648_i64), false),
            ("int32", json!(-2_147_483_649_i64), false),
            ("int64", json!(i64::MAX), true),
            ("int64", json!(u64::MAX), false),
        ] {
            let number = value.as_number().expect("the case holds a number");
            let format = Format::parse(format).expect("the format is known");
            assert_eq!(format.accepts_number(number), want, "{format:?} {value}");
        }
    }

    #[test]
    fn an_unknown_format_is_ignored() {
        assert_eq!(Format::parse("double"), None);
        assert_eq!(Format::parse("semver"), None);
    }
}
