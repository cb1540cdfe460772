//! Finds names among sorted ones faster than by searching.

/// Slots that are looked at before the sorted names are searched instead.
const PROBES: usize = 16;

/// Where each name stands; built once, never iterated.
///
/// Names are text of users, so nobody may make it slow: whatever does not find
/// a slot nearby is left out and found by binary search.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// A part of the hash, and the place plus one; zero is free.
    slots: Vec<(u32, u32)>,
}

impl Places {
    /// Remembers where `names` stand, which are sorted and unique.
    pub(crate) fn of(names: &[&str]) -> Self {
        let slots = (names.len() * 2).next_power_of_two();
        let mut places = Self {
            slots: vec![(0, 0); slots],
        };
        for (at, name) in names.iter().enumerate() {
            let Ok(place) = u32::try_from(at + 1) else {
                break;
            };
            let (start, tag) = places.start(name);
            let mut near = (0..PROBES).map(|step| (start + step) & (slots - 1));
            if let Some(free) = near.find(|slot| places.slots[*slot].1 == 0) {
                places.slots[free] = (tag, place);
            }
        }
        places
    }

    /// Finds the place of a name among the names this was made of.
    pub(crate) fn find(&self, names: &[&str], name: &str) -> Option<usize> {
        let (start, wanted) = self.start(name);
        for step in 0..PROBES {
            let (tag, place) = self.slots[(start + step) & (self.slots.len() - 1)];
            if place == 0 {
                return None;
            }
            let place = place as usize - 1;
            if tag == wanted && names[place] == name {
                return Some(place);
            }
        }
        names.binary_search(&name).ok()
    }

    fn start(&self, name: &str) -> (usize, u32) {
        let hash = hash(name.as_bytes());
        let tag = u32::try_from(hash >> 32).unwrap_or_default();
        let low = u32::try_from(hash & u64::from(u32::MAX)).unwrap_or_default();
        (low as usize & (self.slots.len() - 1), tag)
    }
}

fn hash(name: &[u8]) -> u64 {
    let mixed = |sum: u64, word: u64| {
        let product = u128::from(sum ^ word) * 0x9e37_79b9_7f4a_7c15_u128;
        let (high, low) = (product >> 64, product & u128::from(u64::MAX));
        u64::try_from(high ^ low).unwrap_or_default()
    };
    let (words, rest) = name.as_chunks::<8>();
    let sum = words.iter().fold(name.len() as u64, |sum, word| {
        mixed(sum, u64::from_le_bytes(*word))
    });
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mixed(sum, u64::from_le_bytes(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_at_its_place_and_no_other() {
        let owned: Vec<String> = (0..5_000).map(|at| format!("job-{at:06}")).collect();
        let names: Vec<&str> = owned.iter().map(String::as_str).collect();
        let places = Places::of(&names);
        for (at, name) in names.iter().enumerate() {
            assert_eq!(places.find(&names, name), Some(at));
        }
        for name in ["", "job-", "job-5000", "job-0000000"] {
            assert_eq!(places.find(&names, name), None);
        }
        assert_eq!(Places::of(&[]).find(&[], "a"), None);
    }

    #[test]
    fn names_that_find_no_slot_are_still_found() {
        let owned: Vec<String> = (0..200).map(|at| format!("n{at:03}")).collect();
        let names: Vec<&str> = owned.iter().map(String::as_str).collect();
        // As if all names had met in a few slots.
        let places = Places {
            slots: vec![(1, 1); 32],
        };
        for (at, name) in names.iter().enumerate() {
            assert_eq!(places.find(&names, name), Some(at));
        }
        assert_eq!(places.find(&names, "other"), None);
    }
}
