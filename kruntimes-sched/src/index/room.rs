//! What a Pod has left, read once for all classes.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use kruntimes_core::quantity::Quantity;
use kruntimes_core::resources::Amounts;

use crate::occupancy::Occupancy;
use crate::pod::Pod;

use super::weight::{Parts, Weight};

/// Names of resources below which nobody looks which are still in use.
const FEW: usize = 1024;

/// Numbers that stand for the names of resources, because numbers compare quickly.
#[derive(Debug)]
pub(super) struct Resources {
    numbers: BTreeMap<Box<str>, u32>,
    /// How many there may be before those that are not in use are dropped.
    most: usize,
}

impl Default for Resources {
    fn default() -> Self {
        Self {
            numbers: BTreeMap::new(),
            most: FEW,
        }
    }
}

impl Resources {
    /// Tells whether it is time to drop what is not in use.
    pub(super) fn are_many(&self) -> bool {
        self.numbers.len() > self.most
    }

    /// Notes that nothing else is in use than what is there.
    pub(super) fn settle(&mut self) {
        self.most = FEW.max(2 * self.numbers.len());
    }

    fn known(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    fn number(&mut self, name: &str) -> Option<u32> {
        let next = u32::try_from(self.numbers.len()).ok()?;
        Some(self.known(name).unwrap_or_else(|| {
            self.numbers.insert(name.into(), next);
            next
        }))
    }
}

/// One resource that a Pod offers.
#[derive(Debug)]
struct Part {
    resource: u32,
    capacity: u64,
    used: u64,
    /// What one unit adds to the load, in parts of the whole.
    factor: u64,
}

/// What a Pod offers and what is used of it, where both are whole numbers of a usual size.
#[derive(Debug)]
pub(super) struct Room {
    /// In the order of the numbers of the resources.
    parts: Box<[Part]>,
    /// The smallest number that all capacities divide.
    whole: NonZeroU64,
    /// Whether the usage has numbers of the usual kind, too.
    is_even: bool,
}

/// What Runs of a class ask for: positive whole numbers, in the order of the resources.
#[derive(Debug)]
pub(super) struct Wanted(Box<[(u32, u64)]>);

/// What a [`Room`] says about a request.
pub(super) enum Offer {
    /// It does not fit.
    None,
    /// It fits, and this would be the load.
    Fits(Weight),
    /// The numbers are unusual.
    Unknown,
}

impl Wanted {
    /// Reads a request; nothing if its numbers are unusual.
    pub(super) fn of(request: &Amounts, resources: &mut Resources) -> Option<Self> {
        let asked = request.iter().filter(|(_, amount)| !amount.is_zero());
        let read = asked.map(|(name, amount)| Some((resources.number(name)?, whole(*amount)?)));
        read.collect::<Option<_>>().map(Self::sorted)
    }

    /// Reads the part of a request that any Pod could fulfil.
    pub(super) fn of_known(request: &Amounts, resources: &Resources) -> Option<Self> {
        let known = request
            .iter()
            .filter_map(|(name, amount)| Some((resources.known(name)?, *amount)));
        let read = known.map(|(number, amount)| Some((number, whole(amount)?)));
        read.collect::<Option<_>>().map(Self::sorted)
    }

    fn sorted(mut asked: Vec<(u32, u64)>) -> Self {
        asked.sort_unstable();
        Self(asked.into())
    }
}

impl Room {
    /// Reads what a Pod offers; nothing if its numbers are unusual.
    pub(super) fn of(pod: &Pod, resources: &mut Resources) -> Option<Self> {
        let mut all = 1;
        let mut parts = Vec::with_capacity(pod.capacity.len());
        let offered = pod.capacity.iter();
        for (resource, amount) in offered.filter(|(_, amount)| amount.is_positive()) {
            let capacity = whole(*amount)?;
            all = least_common_multiple(all, capacity)?;
            parts.push(Part {
                resource: resources.number(resource)?,
                capacity,
                used: 0,
                factor: 0,
            });
        }
        for part in &mut parts {
            part.factor = all / part.capacity;
        }
        parts.sort_unstable_by_key(|part| part.resource);
        Some(Self {
            parts: parts.into(),
            whole: NonZeroU64::new(all)?,
            is_even: true,
        })
    }

    /// Notes what the Pod holds now.
    pub(super) fn fill(&mut self, held: &Occupancy, resources: &Resources) {
        self.is_even = true;
        for part in &mut self.parts {
            part.used = 0;
        }
        for (name, used) in held.usage() {
            let number = resources.known(name);
            let part = number.and_then(|number| {
                let mut parts = self.parts.iter_mut();
                parts.find(|part| part.resource == number)
            });
            match (part, whole(*used)) {
                (Some(part), Some(used)) => part.used = used,
                (Some(_), None) => self.is_even = false,
                (None, _) => {}
            }
        }
    }

    /// Notes that a Run came or went; tells whether the numbers before and after are of the usual kind.
    pub(super) fn follow(&mut self, asked: &Wanted, came: bool) -> bool {
        if !self.is_even {
            return false;
        }
        let mut parts = self.parts.iter_mut().peekable();
        for (resource, amount) in &asked.0 {
            while parts.next_if(|part| part.resource < *resource).is_some() {}
            let Some(part) = parts.next_if(|part| part.resource == *resource) else {
                continue;
            };
            let used = if came {
                part.used.checked_add(*amount)
            } else {
                part.used.checked_sub(*amount)
            };
            let Some(used) = used else {
                return false;
            };
            part.used = used;
        }
        true
    }

    /// Says whether there is room for a request, and how full the Pod would be.
    pub(super) fn offer(&self, wanted: &Wanted) -> Offer {
        if !self.is_even {
            return Offer::Unknown;
        }
        let mut wanted = wanted.0.iter().peekable();
        let (mut fullest, mut sum) = (0, 0_u64);
        for part in &self.parts {
            let mut projected = part.used;
            if let Some((resource, asked)) = wanted.peek()
                && *resource <= part.resource
            {
                projected = projected.saturating_add(*asked);
                if *resource != part.resource || projected > part.capacity {
                    return Offer::None;
                }
                wanted.next();
            }
            let share = projected.checked_mul(part.factor);
            let Some((share, total)) = share.and_then(|s| Some((s, sum.checked_add(s)?))) else {
                return Offer::Unknown;
            };
            fullest = share.max(fullest);
            sum = total;
        }
        if wanted.next().is_some() {
            return Offer::None;
        }
        let whole = self.whole;
        Offer::Fits(Weight::Even(Parts {
            fullest,
            sum,
            whole,
        }))
    }
}

fn whole(amount: Quantity) -> Option<u64> {
    const NANO: u64 = 1_000_000_000;
    match u64::try_from(amount.as_nanos()) {
        // Division by a constant of the usual size is quick.
        Ok(nanos) => (nanos % NANO == 0).then_some(nanos / NANO),
        Err(_) => u64::try_from(amount.to_whole()?).ok(),
    }
}

fn least_common_multiple(a: u64, b: u64) -> Option<u64> {
    let (mut shared, mut rest) = (a, b);
    while rest != 0 {
        (shared, rest) = (rest, shared % rest);
    }
    (a / shared).checked_mul(b)
}
