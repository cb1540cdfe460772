//! Exact quantities in the notation of Kubernetes.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

const NANO: i128 = 1_000_000_000;

/// An exact amount with nano precision: `500m`, `1k`, `1Gi`, `1e3`.
///
/// Equality, order and hash look at the value alone: `1k` equals `1000`. The
/// family of suffixes is kept for printing. Arithmetic is exact (S-15, S-147).
#[derive(Clone, Copy, Debug, Default)]
pub struct Quantity {
    nanos: i128,
    family: Family,
}

/// Which family of suffixes a quantity prints with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Family {
    /// `m`, `k`, `M`, …
    #[default]
    Decimal,
    /// `Ki`, `Mi`, …
    Binary,
    /// `e3`, `e6`, …
    Exponent,
}

/// Why a text is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseQuantityError {
    /// The text does not follow the grammar.
    #[error("invalid quantity {}, expected a form like \"2\", \"500m\" or \"1Gi\"", crate::message::quoted(.0))]
    Syntax(String),
    /// The value is too large.
    #[error("quantity {} is out of range", crate::message::quoted(.0))]
    Range(String),
}

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self::from_whole(0);

    /// Makes a quantity of whole units.
    pub const fn from_whole(value: i64) -> Self {
        Self {
            nanos: value as i128 * NANO,
            family: Family::Decimal,
        }
    }

    /// Makes a quantity of thousandths.
    pub const fn from_millis(value: i64) -> Self {
        Self {
            nanos: value as i128 * (NANO / 1000),
            family: Family::Decimal,
        }
    }

    /// Returns the value in billionths.
    pub const fn as_nanos(self) -> i128 {
        self.nanos
    }

    /// Returns the value in whole units, or nothing when it has a fraction or leaves 64 bits.
    pub fn to_whole(self) -> Option<i64> {
        if self.nanos % NANO != 0 {
            return None;
        }
        i64::try_from(self.nanos / NANO).ok()
    }

    /// Tells whether the value is greater than zero.
    pub const fn is_positive(self) -> bool {
        self.nanos > 0
    }

    /// Tells whether the value is zero.
    pub const fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Adds, or returns nothing when the sum does not fit.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        Some(Self {
            nanos: self.nanos.checked_add(other.nanos)?,
            family: self.family,
        })
    }

    /// Subtracts, or returns nothing when the difference does not fit.
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        Some(Self {
            nanos: self.nanos.checked_sub(other.nanos)?,
            family: self.family,
        })
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl Hash for Quantity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.nanos.hash(state);
    }
}

/// Numerator and denominator of a suffix, and its family.
fn scale(suffix: &str) -> Option<(i128, i128, Family)> {
    let decimal = |power: u32| Some((10_i128.pow(power), 1, Family::Decimal));
    let binary = |power: u32| Some((1_i128 << (10 * power), 1, Family::Binary));
    match suffix {
        "" => decimal(0),
        "n" => Some((1, 1_000_000_000, Family::Decimal)),
        "u" => Some((1, 1_000_000, Family::Decimal)),
        "m" => Some((1, 1_000, Family::Decimal)),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?;
            let exponent: i32 = exponent
                .strip_prefix('+')
                .unwrap_or(exponent)
                .parse()
                .ok()?;
            let power = exponent.unsigned_abs().min(30);
            let (up, down) = if exponent < 0 { (0, power) } else { (power, 0) };
            Some((10_i128.pow(up), 10_i128.pow(down), Family::Exponent))
        }
    }
}

impl FromStr for Quantity {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let shown = || crate::message::bounded(text, 64);
        let syntax = || ParseQuantityError::Syntax(shown());
        let range = || ParseQuantityError::Range(shown());
        let (negative, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let end = unsigned
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(syntax());
        }
        let (up, down, family) = scale(suffix).ok_or_else(syntax)?;
        let digits = format!("{whole}{fraction}");
        let digits = digits.trim_start_matches('0');
        if digits.len() > 36 || fraction.len() > 36 {
            return Err(range());
        }
        let mantissa: i128 = if digits.is_empty() {
            0
        } else {
            digits.parse().map_err(|_| syntax())?
        };
        let places = u32::try_from(fraction.len()).map_err(|_| range())?;
        let nanos = to_nanos(mantissa, up, down, places).ok_or_else(range)?;
        Ok(Self {
            nanos: if negative { -nanos } else { nanos },
            family,
        })
    }
}

/// `mantissa × up ÷ (down × 10^places)` in nanos; what is finer than a nano is rounded up.
fn to_nanos(mantissa: i128, up: i128, down: i128, places: u32) -> Option<i128> {
    let mut numerator = mantissa;
    let mut denominator = down.checked_mul(10_i128.checked_pow(places)?)?;
    for mut factor in [up, NANO] {
        let shared = gcd(factor, denominator);
        factor /= shared;
        denominator /= shared;
        numerator = numerator.checked_mul(factor)?;
    }
    Some(numerator / denominator + i128::from(numerator % denominator != 0))
}

fn gcd(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        if self.family == Family::Binary && self.nanos % NANO == 0 {
            return self.write_binary(f);
        }
        let mut mantissa = self.nanos;
        let mut power = -9_i32;
        while power < 18 && mantissa % 1000 == 0 {
            mantissa /= 1000;
            power += 3;
        }
        if self.family == Family::Exponent && power != 0 {
            return write!(f, "{mantissa}e{power}");
        }
        let suffix = match power {
            -9 => "n",
            -6 => "u",
            -3 => "m",
            0 => "",
            3 => "k",
            6 => "M",
            9 => "G",
            12 => "T",
            15 => "P",
            _ => "E",
        };
        write!(f, "{mantissa}{suffix}")
    }
}

impl Quantity {
    fn write_binary(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut mantissa = self.nanos / NANO;
        let mut suffixes = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].into_iter();
        let mut suffix = suffixes.next().unwrap_or_default();
        for next in suffixes {
            if mantissa % 1024 != 0 {
                break;
            }
            mantissa /= 1024;
            suffix = next;
        }
        write!(f, "{mantissa}{suffix}")
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Quantity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity such as \"2\" or \"1Gi\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Quantity, E> {
                Ok(Quantity::from_whole(value))
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Quantity, E> {
                value.to_string().parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Quantity {
        text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    #[test]
    fn s_147_values_print_canonically_and_compare_by_value() {
        for (text, want) in [
            ("1000", "1k"),
            ("1k", "1k"),
            ("500m", "500m"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("5.", "5"),
            ("1024Ki", "1Mi"),
            ("1.5Gi", "1536Mi"),
            ("1e3", "1e3"),
            ("1E3", "1e3"),
            ("1E", "1E"),
            ("12E-1", "1200e-3"),
            ("-2", "-2"),
            ("+2", "2"),
            ("0", "0"),
            ("0.1n", "1n"),
            ("9223372036854775807", "9223372036854775807"),
        ] {
            assert_eq!(parsed(text).to_string(), want, "{text}");
            assert_eq!(parsed(want), parsed(text), "{text}");
        }
        assert_eq!(parsed("1k"), parsed("1000"));
        assert!(parsed("1Gi") > parsed("1G"));
    }

    #[test]
    fn s_6_only_whole_numbers_of_64_bits_are_whole() {
        assert_eq!(parsed("1k").to_whole(), Some(1000));
        assert_eq!(parsed("500m").to_whole(), None);
        assert_eq!(parsed("9223372036854775807").to_whole(), Some(i64::MAX));
        assert_eq!(parsed("9223372036854775808").to_whole(), None);
    }

    #[test]
    fn other_texts_are_refused_without_panic() {
        for text in [
            "", "-", ".", "1.2.3", "k", "1 k", "1kk", "1e", "1ee3", "1Zi", "\u{661}",
        ] {
            assert!(text.parse::<Quantity>().is_err(), "{text:?}");
        }
        for text in ["1e99", &"9".repeat(60), &format!("0.{}", "1".repeat(60))] {
            assert!(text.parse::<Quantity>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn numbers_and_texts_are_read_alike() {
        let both: Vec<Quantity> = serde_json::from_str("[2, \"2\", -1]").unwrap();
        assert_eq!(both[0], both[1]);
        assert_eq!(both[2], parsed("-1"));
        assert!(serde_json::from_str::<Quantity>("1.5").is_err());
    }
}
