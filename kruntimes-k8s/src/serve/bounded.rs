//! Label values that users choose, told apart up to a number.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Stands for all values that came too late to be told apart.
const OTHER: &str = "_other";

/// Keeps the series of a label few: anybody who makes objects can invent names (C-129).
#[derive(Debug)]
pub struct Bounded {
    known: Mutex<BTreeSet<String>>,
    max: usize,
}

impl Bounded {
    /// Tells the first `max` values apart.
    pub fn new(max: usize) -> Self {
        Self {
            known: Mutex::default(),
            max,
        }
    }

    /// Returns the value, if it is one of those told apart, and `_other` otherwise.
    pub fn label<'a>(&self, value: &'a str) -> &'a str {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.contains(value) {
            return value;
        }
        if known.len() >= self.max {
            return OTHER;
        }
        known.insert(value.to_owned());
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_129_invented_values_end_up_as_one() {
        let names = Bounded::new(2);
        let told = ["a", "b", "c", "a", "d"].map(|value| names.label(value));
        assert_eq!(told, ["a", "b", "_other", "a", "_other"]);
    }
}
