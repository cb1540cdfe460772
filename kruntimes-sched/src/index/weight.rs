//! How full a Pod would be, in a form that compares quickly.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::num::NonZeroU64;

use crate::load::Load;

/// A [`Load`]; most have small numbers over one denominator and need no division to compare.
#[derive(Clone, Debug)]
pub(super) enum Weight {
    /// Parts of a whole.
    Even {
        /// Utilization of the fullest resource.
        fullest: u64,
        /// Sum over all resources.
        sum: u64,
        /// What both are divided by.
        whole: NonZeroU64,
    },
    /// Whatever its numbers.
    Odd(Box<Load>),
}

impl Weight {
    fn load(&self) -> Cow<'_, Load> {
        match self {
            Self::Even {
                fullest,
                sum,
                whole,
            } => Cow::Owned(Load::over(*fullest, *sum, *whole)),
            Self::Odd(load) => Cow::Borrowed(load),
        }
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
    fn cmp(&self, other: &Self) -> Ordering {
        let (
            Self::Even {
                fullest: a,
                sum: a_sum,
                whole: a_whole,
            },
            Self::Even {
                fullest: b,
                sum: b_sum,
                whole: b_whole,
            },
        ) = (self, other)
        else {
            return self.load().cmp(&other.load());
        };
        if a_whole == b_whole {
            return a.cmp(b).then(a_sum.cmp(b_sum));
        }
        let scaled = |part: u64, whole: NonZeroU64| u128::from(part) * u128::from(whole.get());
        (scaled(*a, *b_whole).cmp(&scaled(*b, *a_whole)))
            .then_with(|| scaled(*a_sum, *b_whole).cmp(&scaled(*b_sum, *a_whole)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn even((fullest, sum, whole): (u64, u64, u64)) -> Weight {
        Weight::Even {
            fullest,
            sum,
            whole: NonZeroU64::new(whole).unwrap(),
        }
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
