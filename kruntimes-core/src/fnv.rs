//! A stable spread of identities.

/// Returns the FNV-1a hash of 32 bits.
pub fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

/// Returns the same number below `count` for the same text, on every platform; zero when `count` is.
pub fn index(text: &str, count: usize) -> usize {
    let hash = usize::try_from(hash(text)).unwrap_or(0);
    hash.checked_rem(count).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s_103_the_hash_is_fnv_1a() {
        assert_eq!(hash("workspace-uid"), 0x8d19_3991);
        assert_eq!(index("workspace-uid", 2), 1);
        assert_eq!(index("workspace-uid", 0), 0);
    }
}
