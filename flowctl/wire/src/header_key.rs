//! Key of a frame: its first bytes as words.

/// First bytes of a frame that is long enough for [`parse_fast`](crate::ethernet::parse_fast): addresses, a VLAN tag, ethertype, and the
/// traffic class of IPv4 or IPv6. Frames with equal keys have equal results of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeaderKey {
    /// Addresses, ethertype, and the two bytes behind it, as in memory, without ECN; and a 32-bit number: the bytes behind a tag, or 0
    /// without one.
    pub words: [u64; 3],
}

/// Mask of the ECN bits of an IPv4 traffic class. In an IPv6 header these bits belong to the flow label, and in a tag to the VLAN; neither
/// is used.
const ECN_OF_WORD: u64 = 0b11 << 56;
const ECN_OF_TAGGED: u32 = 0b11 << 24;
const TAG: [u8; 2] = [0x81, 0x00];

/// Returns the key of a frame; `None` if it is too short for a fast parse.
#[inline(always)]
pub fn header_key(frame: &[u8]) -> Option<HeaderKey> {
    let frame = frame.first_chunk::<{ crate::ethernet::FAST_PARSE_BYTES_MIN }>()?;
    let eight = |at: usize| frame[at..].first_chunk().map_or(0, |eight| u64::from_le_bytes(*eight));
    let (addresses, rest) = (eight(0), eight(8));
    let behind = frame[16..].first_chunk().map_or(0, |four| u32::from_le_bytes(*four)) & !ECN_OF_TAGGED;
    // No branch: frames of a burst differ.
    let behind = if frame[12..14] == TAG { behind } else { 0 };
    Some(HeaderKey { words: [addresses, rest & !ECN_OF_WORD, u64::from(behind)] })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ethernet::tests::some_frame;
    use crate::ethernet::{FastHeaders, parse_fast};

    #[test]
    fn ecn_and_what_follows_make_no_difference() {
        let mut frame = [0; 64];
        frame[12..16].copy_from_slice(&[8, 0, 0x45, 26 << 2]);
        let before = header_key(&frame);
        frame[15] |= 3;
        frame[16..].fill(7);
        assert_eq!(header_key(&frame), before);
        frame[15] ^= 4;
        assert_ne!(header_key(&frame), before, "another class");
        assert_eq!(header_key(&frame[..57]), None);
    }

    proptest! {
        /// A frame, and another that differs in some bytes.
        #[test]
        fn what_has_the_same_head_looks_alike(frame in some_frame(), changes in prop::collection::vec((0..98usize, 0..8u8), 0..3)) {
            let mut other = frame.clone();
            for (at, bit) in changes {
                if let Some(byte) = other.get_mut(at) {
                    *byte ^= 1 << bit;
                }
            }
            prop_assert_eq!(header_key(&frame).is_none(), frame.len() < 58);
            if header_key(&frame) == header_key(&other) {
                prop_assert_eq!(parse_fast(&frame), parse_fast(&other));
            } else {
                prop_assert_ne!(&frame, &other);
            }
            if header_key(&frame).is_none() {
                prop_assert_eq!(parse_fast(&frame), FastHeaders::OTHER);
            }
        }
    }
}
