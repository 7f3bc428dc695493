//! FNV-1a hash of 128 bits, the same on every machine and in every version.

/// State of the hash. It protects against mistakes, not against malice.
#[derive(Clone, Debug)]
pub(crate) struct Hash(u128);

impl Hash {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

    pub(crate) fn new() -> Hash {
        Hash(Hash::BASIS)
    }

    /// Hash of these bytes alone, without their length.
    pub(crate) fn digest(bytes: &[u8]) -> Hash {
        Hash::new().updated(bytes)
    }

    /// Adds the length of these bytes, then the bytes: two texts hash differently from their concatenation.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        let length = (bytes.len() as u64).to_le_bytes();
        *self = self.clone().updated(&length).updated(bytes);
    }

    fn updated(self, bytes: &[u8]) -> Hash {
        Hash(bytes.iter().fold(self.0, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(Hash::PRIME)))
    }

    pub(crate) fn text(&self) -> String {
        format!("{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test vectors of the FNV authors (draft-eastlake-fnv, Appendix C).
    #[test]
    fn hashes_are_fnv_1a() {
        assert_eq!(Hash::digest(b"").text(), "6c62272e07bb014262b821756295c58d");
        assert_eq!(Hash::digest(b"a").text(), "d228cb696f1a8caf78912b704e4a8964");
        assert_eq!(Hash::digest(b"foobar").text(), "343e1662793c64bf6f0d3597ba446f18");
    }

    #[test]
    fn texts_are_kept_apart() {
        let of = |texts: [&[u8]; 2]| {
            let mut hash = Hash::new();
            texts.iter().for_each(|text| hash.add(text));
            hash.text()
        };
        assert_ne!(of([b"ab", b"c"]), of([b"a", b"bc"]));
    }
}
