//! How full a Pod would be.

use std::num::NonZeroU64;

use kruntimes_core::quantity::Quantity;
use kruntimes_core::resources::Amounts;

use crate::exact::{Ratio, Sum};

/// Utilization of the fullest resource, then the sum over all resources, as exact fractions (S-71).
///
/// Compares by the first, then by the second (S-72). The fixed-point value of
/// the first decides most comparisons without a multiplication.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Load {
    fixed: u64,
    fullest: Ratio,
    sum: Sum,
}

impl Load {
    /// Returns the load whose utilization and sum are parts of the same whole.
    pub(crate) fn over(fullest: u64, sum: u64, whole: NonZeroU64) -> Self {
        let ratio = |part: u64| Ratio::new(part.into(), whole.get().into());
        Self {
            fixed: ratio(fullest).fixed(),
            fullest: ratio(fullest),
            sum: Sum::from(ratio(sum)),
        }
    }

    /// Returns the load of a Pod that holds `usage` and takes on `request`.
    pub(crate) fn of(request: &Amounts, usage: &Amounts, capacity: &Amounts) -> Self {
        let nanos = |amount: Option<&Quantity>| {
            let nanos = amount.map_or(0, |amount| amount.as_nanos());
            u128::try_from(nanos).unwrap_or(0)
        };
        let offered = capacity.iter().filter(|(_, amount)| amount.is_positive());
        let utilizations = offered.map(|(resource, amount)| {
            let held = nanos(usage.get(resource));
            let projected = held.saturating_add(nanos(request.get(resource)));
            Ratio::new(projected, nanos(Some(amount)))
        });
        let none = (Ratio::ZERO, Some(Ratio::ZERO));
        let (fullest, total) = utilizations.clone().fold(none, |(most, sum), term| {
            let sum = sum.and_then(|sum: Ratio| sum.checked_add(term));
            (most.max(term), sum)
        });
        Self {
            fixed: fullest.fixed(),
            fullest,
            sum: total.map_or_else(|| Sum::Large(utilizations.collect()), Sum::from),
        }
    }
}
