//! Where UIDs and generated name endings come from.

use std::sync::Mutex;

/// Letters Kubernetes uses for generated names: no vowels, so no words arise.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// Length of the ending that `generateName` receives.
const SUFFIX: usize = 5;

/// Draws the identifiers that objects receive on creation.
pub trait IdSource: Send + Sync {
    /// Returns a UID no other object has, in the form of a UUID.
    fn uid(&self) -> String;
    /// Returns five characters for the end of a generated name; they may repeat.
    fn suffix(&self) -> String;
}

/// Draws from the randomness of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct RandomIds;

#[expect(
    clippy::disallowed_methods,
    reason = "this is the source that everything else draws from"
)]
impl IdSource for RandomIds {
    fn uid(&self) -> String {
        uuid::Uuid::new_v4().to_string()
    }

    fn suffix(&self) -> String {
        spell(uuid::Uuid::new_v4().as_u64_pair().1)
    }
}

/// Draws the same identifiers for the same seed, in the order they are asked for.
#[derive(Debug)]
pub struct SeededIds {
    state: Mutex<Splitmix>,
}

impl SeededIds {
    /// Starts the sequence that belongs to `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            state: Mutex::new(Splitmix::new(seed)),
        }
    }

    fn draw(&self) -> u64 {
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .draw()
    }
}

impl IdSource for SeededIds {
    fn uid(&self) -> String {
        uuid::Builder::from_u128((u128::from(self.draw()) << 64) | u128::from(self.draw()))
            .with_version(uuid::Version::Random)
            .with_variant(uuid::Variant::RFC4122)
            .into_uuid()
            .to_string()
    }

    fn suffix(&self) -> String {
        spell(self.draw())
    }
}

/// The splitmix64 generator: small, seedable, good enough for identifiers and faults.
#[derive(Clone, Debug)]
pub(crate) struct Splitmix(u64);

impl Splitmix {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// Turns a number into the ending of a name.
fn spell(mut number: u64) -> String {
    let base = ALPHABET.len() as u64;
    let mut text = String::with_capacity(SUFFIX);
    for _ in 0..SUFFIX {
        let letter = usize::try_from(number % base).unwrap_or_default();
        text.push(char::from(ALPHABET[letter]));
        number /= base;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_draw_equal_identifiers() {
        let (one, other) = (SeededIds::new(7), SeededIds::new(7));
        for _ in 0..20 {
            assert_eq!(one.uid(), other.uid());
            assert_eq!(one.suffix(), other.suffix());
        }
        assert_ne!(one.uid(), SeededIds::new(8).uid());
    }

    #[test]
    fn a_uid_is_a_version_4_uuid_and_a_suffix_has_five_letters() {
        for ids in [&SeededIds::new(1) as &dyn IdSource, &RandomIds] {
            let uid = uuid::Uuid::parse_str(&ids.uid()).unwrap();
            assert_eq!(uid.get_version_num(), 4);
            assert_eq!(ids.suffix().len(), SUFFIX);
        }
    }
}
