//! How full a Pod would be, in a form that compares quickly.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::num::NonZeroU64;

use crate::load::Load;

/// A [`Load`]; most have small numbers over one denominator and need no division to compare.
#[derive(Clone, Debug)]
pub(super) enum Weight {
    /// Parts of a whole.
    Even(Parts),
    /// Whatever its numbers.
    Odd(Box<Load>),
}

/// Two fractions with the same denominator.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts {
    /// Utilization of the fullest resource.
    pub(super) fullest: u64,
    /// Sum over all resources.
    pub(super) sum: u64,
    /// What both are divided by.
    pub(super) whole: NonZeroU64,
}

impl Weight {
    fn load(&self) -> Cow<'_, Load> {
        match self {
            Self::Even(parts) => Cow::Owned(Load::over(parts.fullest, parts.sum, parts.whole)),
            Self::Odd(load) => Cow::Borrowed(load),
        }
    }

    /// Compares what is not parts of the same whole.
    #[cold]
    fn cmp_unlike(&self, other: &Self) -> Ordering {
        let (Self::Even(a), Self::Even(b)) = (self, other) else {
            return self.load().cmp(&other.load());
        };
        let scaled = |part: u64, whole: NonZeroU64| u128::from(part) * u128::from(whole.get());
        (scaled(a.fullest, b.whole).cmp(&scaled(b.fullest, a.whole)))
            .then_with(|| scaled(a.sum, b.whole).cmp(&scaled(b.sum, a.whole)))
    }
}

impl PartialEq for Weight {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Weight {}

impl PartialOrd for Weight {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Weight {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        if let (Self::Even(a), Self::Even(b)) = (self, other)
            && a.whole == b.whole
        {
            return a.fullest.cmp(&b.fullest).then(a.sum.cmp(&b.sum));
        }
        self.cmp_unlike(other)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn even((fullest, sum, whole): (u64, u64, u64)) -> Weight {
        Weight::Even(Parts {
            fullest,
            sum,
            whole: NonZeroU64::new(whole).unwrap(),
        })
    }

    fn parts() -> impl Strategy<Value = (u64, u64, u64)> {
        prop_oneof![
            (0..6_u64, 0..6_u64, 1..6_u64),
            (any::<u64>(), any::<u64>(), 1..=u64::MAX),
        ]
    }

    proptest! {
        #[test]
        fn weights_compare_as_the_loads_that_they_stand_for(a in parts(), b in parts()) {
            let (a, b) = (even(a), even(b));
            let odd = |weight: &Weight| Weight::Odd(Box::new(weight.load().into_owned()));
            let want = a.load().cmp(&b.load());
            prop_assert_eq!(a.cmp(&b), want);
            prop_assert_eq!(a.cmp(&odd(&b)), want);
            prop_assert_eq!(odd(&a).cmp(&b), want);
        }
    }
}
