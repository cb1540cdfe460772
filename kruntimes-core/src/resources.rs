//! Requests, capacity and whether one fits the other (scheduler, section 3).

use std::collections::BTreeMap;

use crate::api::RunSpec;
use crate::keys::ANNOTATION_CAPACITY_PREFIX;
use crate::message::quoted;
use crate::quantity::Quantity;

/// The built-in resource: one unit per Run.
pub const RUNS: &str = "runs";
/// Capacity of `runs` on a Pod that declares none.
pub const DEFAULT_RUNS_CAPACITY: i64 = 2;

/// Amounts by resource name.
pub type Amounts = BTreeMap<String, Quantity>;

/// A request that can never be placed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("resource request {} must be a non-negative integer", quoted(.0))]
pub struct InvalidRequest(
    /// The lexically first offending resource name.
    pub String,
);

/// Returns what a Run holds while it is active: whole numbers, no zeros, at least one `runs` (S-6, S-8).
///
/// # Errors
///
/// Returns the lexically first resource whose amount is no whole number ≥ 0 of 64 bits (S-7).
pub fn request(spec: &RunSpec) -> Result<Amounts, InvalidRequest> {
    let stated = spec.resources.as_ref().map(|r| &r.requests);
    request_of(stated.into_iter().flatten())
}

/// As [`request`], for any list of stated amounts.
///
/// # Errors
///
/// As [`request`]; the amounts must be given in name order.
pub fn request_of<'a>(
    stated: impl Iterator<Item = (&'a String, &'a Quantity)>,
) -> Result<Amounts, InvalidRequest> {
    let mut amounts = Amounts::new();
    for (name, amount) in stated {
        match amount.to_whole() {
            Some(0) => {}
            Some(whole) if whole > 0 => {
                amounts.insert(name.clone(), *amount);
            }
            Some(_) | None => return Err(InvalidRequest(name.clone())),
        }
    }
    amounts
        .entry(RUNS.to_owned())
        .or_insert(Quantity::from_whole(1));
    Ok(amounts)
}

/// Reads the capacity annotations of a Pod; `runs` falls back to 2 (S-9, S-10).
pub fn capacity<'a>(annotations: impl Iterator<Item = (&'a String, &'a String)>) -> Amounts {
    let mut amounts =
        Amounts::from([(RUNS.to_owned(), Quantity::from_whole(DEFAULT_RUNS_CAPACITY))]);
    for (key, value) in annotations {
        let Some(suffix) = key.strip_prefix(ANNOTATION_CAPACITY_PREFIX) else {
            continue;
        };
        let Ok(amount) = value.parse::<Quantity>() else {
            continue;
        };
        if !suffix.is_empty() && amount.is_positive() {
            amounts.insert(resource_name(suffix), amount);
        }
    }
    amounts
}

/// Reads a resource name back from the suffix of a capacity annotation.
pub fn resource_name(suffix: &str) -> String {
    suffix.replace("__", "/")
}

/// Writes a resource name as the suffix of a capacity annotation.
pub fn annotation_suffix(resource: &str) -> String {
    resource.replace('/', "__")
}

/// Adds `more` to `total`, saturating where a sum leaves the representable range.
pub fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = total.entry(name.clone()).or_default();
        *sum = sum.checked_add(*amount).unwrap_or(*sum);
    }
}

/// Tells whether `usage + request` stays within `capacity` for every requested resource (S-11, S-12).
pub fn fits(request: &Amounts, usage: &Amounts, capacity: &Amounts) -> bool {
    request.iter().all(|(name, wanted)| {
        if !wanted.is_positive() {
            return true;
        }
        let used = usage.get(name).copied().unwrap_or_default();
        capacity
            .get(name)
            .is_some_and(|offered| used.checked_add(*wanted).is_some_and(|sum| sum <= *offered))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts(entries: &[(&str, &str)]) -> Amounts {
        entries
            .iter()
            .map(|&(name, amount)| (name.to_owned(), amount.parse().unwrap()))
            .collect()
    }

    #[test]
    fn s_8_every_run_asks_for_at_least_one_runs() {
        for (stated, want) in [
            (amounts(&[]), amounts(&[("runs", "1")])),
            (amounts(&[("runs", "0")]), amounts(&[("runs", "1")])),
            (
                amounts(&[("runs", "3"), ("gpu", "0")]),
                amounts(&[("runs", "3")]),
            ),
            (
                amounts(&[("gpu", "1k")]),
                amounts(&[("gpu", "1000"), ("runs", "1")]),
            ),
        ] {
            assert_eq!(request_of(stated.iter()).unwrap(), want);
        }
    }

    #[test]
    fn s_7_the_first_bad_request_is_named() {
        let stated = amounts(&[("a", "1"), ("b", "500m"), ("c", "-1")]);
        assert_eq!(
            request_of(stated.iter()).unwrap_err().to_string(),
            "resource request \"b\" must be a non-negative integer"
        );
    }

    #[test]
    fn s_9_unusable_annotations_count_as_absent() {
        let annotations: BTreeMap<String, String> = [
            ("kruntimes.io/capacity.runs", "zero"),
            ("kruntimes.io/capacity.example.com__gpu", "4"),
            ("kruntimes.io/capacity.", "4"),
            ("kruntimes.io/capacity.disk", "0"),
            ("other", "1"),
        ]
        .into_iter()
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .collect();
        assert_eq!(
            capacity(annotations.iter()),
            amounts(&[("runs", "2"), ("example.com/gpu", "4")])
        );
    }

    #[test]
    fn s_11_a_missing_resource_never_fits() {
        let capacity = amounts(&[("runs", "2")]);
        assert!(fits(
            &amounts(&[("runs", "1")]),
            &amounts(&[("runs", "1")]),
            &capacity
        ));
        assert!(!fits(
            &amounts(&[("runs", "2")]),
            &amounts(&[("runs", "1")]),
            &capacity
        ));
        assert!(!fits(&amounts(&[("gpu", "1")]), &amounts(&[]), &capacity));
        assert!(fits(
            &amounts(&[("runs", "1")]),
            &amounts(&[("gpu", "9")]),
            &capacity
        ));
    }
}
