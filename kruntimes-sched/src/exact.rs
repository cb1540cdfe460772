//! Exact comparison of fractions and of sums of fractions.

use std::cmp::Ordering;

/// A fraction that is not negative, in lowest terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ratio {
    numerator: u128,
    denominator: u128,
}

impl Ratio {
    pub(crate) const ZERO: Self = Self {
        numerator: 0,
        denominator: 1,
    };

    /// Makes `numerator / denominator`; the denominator must not be zero.
    pub(crate) fn new(numerator: u128, denominator: u128) -> Self {
        let shared = gcd(numerator, denominator);
        Self {
            numerator: numerator / shared,
            denominator: denominator / shared,
        }
    }

    /// Returns the value in units of 2^-56, rounded down; everything from 256 on is the largest number.
    ///
    /// Of two fractions with different results, the one with the smaller result is smaller.
    pub(crate) fn fixed(self) -> u64 {
        let whole = self.numerator / self.denominator;
        let mut rest = self.numerator % self.denominator;
        if whole >= 256 {
            return u64::MAX;
        }
        let fraction = if let Some(scaled) = rest.checked_mul(1 << 56) {
            scaled / self.denominator
        } else {
            (0..56).fold(0, |bits, _| {
                let missing = self.denominator - rest;
                let carries = rest >= missing;
                rest = if carries { rest - missing } else { rest * 2 };
                (bits << 1) | u128::from(carries)
            })
        };
        u64::try_from((whole << 56) | fraction).unwrap_or(u64::MAX)
    }

    pub(crate) fn checked_add(self, other: Self) -> Option<Self> {
        let shared = gcd(self.denominator, other.denominator);
        let (left, right) = (other.denominator / shared, self.denominator / shared);
        let numerator =
            (self.numerator.checked_mul(left)?).checked_add(other.numerator.checked_mul(right)?)?;
        Some(Self::new(numerator, self.denominator.checked_mul(left)?))
    }
}

fn gcd(mut a: u128, mut b: u128) -> u128 {
    // Most amounts fit in 64 bits, where division is much cheaper.
    while b != 0 {
        (a, b) = match (u64::try_from(a), u64::try_from(b)) {
            (Ok(small), Ok(divisor)) => (b, u128::from(small % divisor)),
            _ => (b, a % b),
        };
    }
    a.max(1)
}

impl PartialOrd for Ratio {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ratio {
    fn cmp(&self, other: &Self) -> Ordering {
        if self == other {
            return Ordering::Equal;
        }
        let left = self.numerator.checked_mul(other.denominator);
        let right = other.numerator.checked_mul(self.denominator);
        match (left, right) {
            (Some(left), Some(right)) => left.cmp(&right),
            _ => by_continued_fraction(*self, *other),
        }
    }
}

/// Compares whole parts, then the reciprocals of what is left, as Euclid would: no product, no overflow.
fn by_continued_fraction(mut a: Ratio, mut b: Ratio) -> Ordering {
    let mut swapped = false;
    loop {
        let whole = (a.numerator / a.denominator).cmp(&(b.numerator / b.denominator));
        let (a_rest, b_rest) = (a.numerator % a.denominator, b.numerator % b.denominator);
        let decided = if whole != Ordering::Equal {
            Some(whole)
        } else if a_rest == 0 || b_rest == 0 {
            Some((a_rest != 0).cmp(&(b_rest != 0)))
        } else {
            None
        };
        if let Some(order) = decided {
            return if swapped { order.reverse() } else { order };
        }
        a = Ratio {
            numerator: a.denominator,
            denominator: a_rest,
        };
        b = Ratio {
            numerator: b.denominator,
            denominator: b_rest,
        };
        swapped = !swapped;
    }
}

/// A sum of fractions, compared exactly whatever its size.
#[derive(Clone, Debug)]
pub(crate) enum Sum {
    /// One fraction, and its [`Ratio::fixed`].
    Small(Ratio, u64),
    /// The terms of a sum whose fraction leaves 128 bits.
    Large(Box<[Ratio]>),
}

impl From<Ratio> for Sum {
    fn from(total: Ratio) -> Self {
        Self::Small(total, total.fixed())
    }
}

impl Sum {
    /// Brings all terms to one denominator, without a bound on its length.
    fn large(&self) -> (Natural, Natural) {
        let zero = (Natural::from(0), Natural::from(1));
        let terms = match self {
            Self::Small(total, _) => std::slice::from_ref(total),
            Self::Large(terms) => terms,
        };
        terms.iter().fold(zero, |(top, bottom), term| {
            let (numerator, denominator) = (
                Natural::from(term.numerator),
                Natural::from(term.denominator),
            );
            (
                top.times(&denominator).plus(&bottom.times(&numerator)),
                bottom.times(&denominator),
            )
        })
    }

    fn cmp_large(&self, other: &Self) -> Ordering {
        let (a, b) = (self.large(), other.large());
        a.0.times(&b.1).compare(&b.0.times(&a.1))
    }
}

impl PartialEq for Sum {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Sum {}

impl PartialOrd for Sum {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Sum {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Small(a, a_fixed), Self::Small(b, b_fixed)) => {
                a_fixed.cmp(b_fixed).then_with(|| a.cmp(b))
            }
            (Self::Small(..) | Self::Large(_), _) => self.cmp_large(other),
        }
    }
}

/// A natural number of any length, the lowest 32 bits first, without leading zeros.
#[derive(Clone, Debug)]
struct Natural(Vec<u32>);

impl From<u128> for Natural {
    fn from(value: u128) -> Self {
        let bytes = value.to_le_bytes();
        let digits = bytes
            .chunks_exact(4)
            .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        Self(digits.collect()).trimmed()
    }
}

impl Natural {
    fn trimmed(mut self) -> Self {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
        self
    }

    fn plus(&self, other: &Self) -> Self {
        let mut digits = Vec::with_capacity(self.0.len().max(other.0.len()) + 1);
        let mut carry = 0_u64;
        for at in 0..self.0.len().max(other.0.len()) {
            let digit = |n: &Self| u64::from(n.0.get(at).copied().unwrap_or(0));
            carry += digit(self) + digit(other);
            digits.push(low(carry));
            carry >>= 32;
        }
        digits.push(low(carry));
        Self(digits).trimmed()
    }

    fn times(&self, other: &Self) -> Self {
        let mut digits = vec![0_u32; self.0.len() + other.0.len()];
        for (at, left) in self.0.iter().enumerate() {
            let mut carry = 0_u64;
            for (further, right) in other.0.iter().enumerate() {
                let slot = &mut digits[at + further];
                carry += u64::from(*slot) + u64::from(*left) * u64::from(*right);
                *slot = low(carry);
                carry >>= 32;
            }
            digits[at + other.0.len()] = low(carry);
        }
        Self(digits).trimmed()
    }

    fn compare(&self, other: &Self) -> Ordering {
        let length = self.0.len().cmp(&other.0.len());
        length.then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }
}

fn low(value: u64) -> u32 {
    u32::try_from(value & u64::from(u32::MAX)).expect("32 bits remain after the mask")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The sum of some fractions in the form that fits.
    fn sum(terms: impl IntoIterator<Item = Ratio>) -> Sum {
        let terms: Vec<Ratio> = terms.into_iter().collect();
        let add = |sum: Ratio, term: &Ratio| sum.checked_add(*term);
        let total = terms.iter().try_fold(Ratio::ZERO, add);
        total.map_or_else(|| Sum::Large(terms.into()), Sum::from)
    }

    #[test]
    fn fixed_point_keeps_the_order_of_large_fractions() {
        let big = u128::MAX;
        for (case, ratio, want) in [
            ("a half", Ratio::new(1, 2), 1 << 55),
            ("almost one", Ratio::new(big - 1, big), (1 << 56) - 1),
            (
                "a third of much",
                Ratio::new(big / 3 + 1, big - 1),
                0x0055_5555_5555_5555,
            ),
            ("too much", Ratio::new(big, 3), u64::MAX),
        ] {
            assert_eq!(ratio.fixed(), want, "{case}");
        }
    }

    #[test]
    fn s_15_large_fractions_compare_exactly() {
        let big = u128::MAX;
        for (case, a, b, want) in [
            ("equal", (2, 4), (1, 2), Ordering::Equal),
            ("less", (1, 3), (1, 2), Ordering::Less),
            (
                "one apart",
                (big - 1, big),
                (big - 2, big - 1),
                Ordering::Greater,
            ),
            ("huge and whole", (big, 1), (big, 2), Ordering::Greater),
            ("zero", (0, big), (0, 1), Ordering::Equal),
        ] {
            let (a, b) = (Ratio::new(a.0, a.1), Ratio::new(b.0, b.1));
            assert_eq!(a.cmp(&b), want, "{case}");
            assert_eq!(b.cmp(&a), want.reverse(), "{case}");
        }
    }

    #[test]
    fn s_15_sums_that_leave_128_bits_compare_exactly() {
        let prime = |n: u128| (1_u128 << 100) + n;
        let many = |extra: u128| {
            let terms = (0..6).map(|n| Ratio::new(prime(2 * n), prime(2 * n + 1)));
            sum(terms.chain([Ratio::new(extra, prime(77))]))
        };
        assert!(matches!(many(0), Sum::Large(_)), "the case is large enough");
        assert!(many(3) > many(2));
        assert_eq!(many(2), many(2));
    }

    fn ratio() -> impl Strategy<Value = Ratio> {
        (any::<u64>(), 1_u64..).prop_map(|(n, d)| Ratio::new(n.into(), d.into()))
    }

    proptest! {
        #[test]
        fn both_ways_to_compare_agree(a in ratio(), b in ratio()) {
            prop_assert_eq!(by_continued_fraction(a, b), a.cmp(&b));
            if a.fixed() != b.fixed() {
                prop_assert_eq!(a.fixed().cmp(&b.fixed()), a.cmp(&b));
            }
            let (one, other) = (Sum::from(a), Sum::from(b));
            prop_assert_eq!(one.cmp_large(&other), a.cmp(&b));
        }

        #[test]
        fn the_order_of_terms_does_not_matter(
            mut terms in prop::collection::vec(ratio(), 0..5),
            other in prop::collection::vec(ratio(), 0..5),
        ) {
            let (one, second) = (sum(terms.clone()), sum(other));
            terms.reverse();
            let reversed = sum(terms);
            prop_assert_eq!(&one, &reversed);
            prop_assert_eq!(one.cmp(&second), reversed.cmp_large(&second));
        }
    }
}
