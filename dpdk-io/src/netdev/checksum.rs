//! Completes checksums that a local sender has left to the device.
//!
//! A sender on this machine, whose interface offers checksum offload, writes only the pseudo header's sum into the field. No device
//! completes it where a program forwards the frame, so it is done here, as in the kernel's `skb_checksum_help`.

/// Writes the 16-bit ones' complement sum of the frame from `start` on to `start + offset`. False, and nothing is
/// written, if the field is not within the frame.
pub(super) fn complete(frame: &mut [u8], start: usize, offset: usize) -> bool {
    let Some(field) = start.checked_add(offset).filter(|field| field + 2 <= frame.len()) else {
        return false;
    };
    let sum = match ones_complement(&frame[start..]) {
        // In UDP 0 means no checksum, and both are the same number.
        0 => 0xffff,
        sum => sum,
    };
    frame[field..field + 2].copy_from_slice(&sum.to_be_bytes());
    true
}

/// RFC 1071, eight bytes at a time.
fn ones_complement(bytes: &[u8]) -> u16 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut sum: u128 = words.iter().map(|word| u128::from(u64::from_be_bytes(*word))).sum();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    sum += u128::from(u64::from_be_bytes(last));
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_1071() {
        assert_eq!(ones_complement(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
        assert_eq!(ones_complement(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7, 0, 0, 0]), !0xddf2);
        assert_eq!(ones_complement(&[0xab]), !0xab00);
    }

    #[test]
    fn a_partial_sum_is_completed_and_never_zero() {
        // The field holds the pseudo header's sum; with the payload the sum is 0xffff, whose complement is 0.
        let mut frame = [9, 9, 0x12, 0x34, 0, 0, 0xed, 0xcb];
        assert!(complete(&mut frame, 2, 2));
        assert_eq!(frame, [9, 9, 0x12, 0x34, 0xff, 0xff, 0xed, 0xcb]);
        assert!(!complete(&mut frame, 4, 3), "half of the field is outside");
        assert!(!complete(&mut frame, 40, 0));
        assert!(!complete(&mut frame, usize::MAX, 2));
    }
}
