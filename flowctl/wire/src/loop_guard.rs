//! Frames of a loop guard, which a switch sends by each port to learn whether they return to it: a token, under IEEE's first ethertype for
//! local experiments.

use weir_units::{FCS_BYTES, MacAddr};

use crate::ethernet::{self, TAG_BYTES};

/// Destination of frames that other bridges forward: a locally administered group address.
pub const FORWARDED: MacAddr = MacAddr([0x03, b'W', b'e', b'i', b'r', 0x01]);

const ETHERTYPE: [u8; 2] = 0x88b5_u16.to_be_bytes();
/// Length without FCS: that of the shortest frame.
const FRAME_BYTES: usize = (weir_units::FRAME_BYTES_MIN - FCS_BYTES) as usize;

/// Encodes a frame without FCS. Its destination is [`FORWARDED`], or an address that bridges do not forward.
pub fn encode(destination: MacAddr, source: MacAddr, token: u64) -> [u8; FRAME_BYTES] {
    let mut frame = [0; FRAME_BYTES];
    frame[..6].copy_from_slice(&destination.0);
    frame[6..12].copy_from_slice(&source.0);
    frame[12..14].copy_from_slice(&ETHERTYPE);
    frame[14..22].copy_from_slice(&token.to_be_bytes());
    frame
}

/// Returns the token of a frame of a loop guard; `None` for other frames. A bridge may have added a VLAN tag.
pub fn token(frame: &[u8]) -> Option<u64> {
    let tag_bytes = ethernet::tag(frame).map_or(0, |_| TAG_BYTES);
    let bytes = frame.get(12 + tag_bytes..)?.strip_prefix(&ETHERTYPE)?.get(..8)?;
    bytes.try_into().ok().map(u64::from_be_bytes)
}

/// Returns whether a frame is one of a loop guard that bridges forward.
pub fn is_forwarded(frame: &[u8]) -> bool {
    frame.starts_with(&FORWARDED.0) && token(frame).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lldp::NEAREST_BRIDGE;

    #[test]
    fn frames_have_this_layout() {
        let frame = encode(FORWARDED, MacAddr([2, 0, 0, 0, 0, 1]), 0x0102_0304_0506_0708);
        assert_eq!(frame.len(), 60);
        assert_eq!(frame[..22], *b"\x03Weir\x01\x02\0\0\0\0\x01\x88\xb5\x01\x02\x03\x04\x05\x06\x07\x08");
        assert_eq!((token(&frame), is_forwarded(&frame)), (Some(0x0102_0304_0506_0708), true));
        let tagged = [&frame[..12], &[0x81, 0, 0, 10], &frame[12..]].concat();
        assert_eq!((token(&tagged), is_forwarded(&tagged)), (token(&frame), true));
        let frame = encode(NEAREST_BRIDGE, MacAddr::default(), 7);
        assert_eq!((token(&frame), is_forwarded(&frame)), (Some(7), false));
        assert_eq!([token(&frame[..21]), token(&[]), token(&[0; 60])], [None; 3]);
    }
}
