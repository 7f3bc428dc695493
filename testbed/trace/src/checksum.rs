//! Incremental update of the Internet checksum (RFC 1624), and RoCEv2's ICRC.

use crc32fast::Hasher;

/// Updates a checksum after words that it covers were replaced; both slices have the same even length.
pub(crate) fn updated(checksum: u16, before: &[u8], after: &[u8]) -> u16 {
    let words = |bytes: &[u8]| -> Vec<u32> {
        bytes.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).collect()
    };
    let mut sum = u32::from(!checksum);
    for (before, after) in words(before).into_iter().zip(words(after)) {
        sum += (!before & 0xffff) + after;
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Computes the ICRC of a RoCEv2 packet from its IP header to its last four bytes, the ICRC itself (IBA A17.3.3, 7.8.1). `udp` is the
/// start of the UDP header.
pub(crate) fn icrc(packet: &[u8], udp: usize) -> [u8; 4] {
    let (covered, bth) = (packet.len() - 4, udp + 8);
    let mut hasher = Hasher::new();
    hasher.update(&[0xff; 8]);
    let mut head = packet[..bth + 12].to_vec();
    // Fields that may change on the path: IPv4 TOS, TTL and header checksum; IPv6 traffic class, flow label and hop limit.
    let variant: &[usize] = if head[0] >> 4 == 4 { &[1, 8, 10, 11] } else { &[1, 2, 3, 7] };
    variant.iter().for_each(|at| head[*at] = 0xff);
    if head[0] >> 4 == 6 {
        head[0] |= 0x0f;
    }
    // The UDP checksum, and the byte with FECN and BECN.
    [udp + 6, udp + 7, bth + 4].into_iter().for_each(|at| head[at] = 0xff);
    hasher.update(&head);
    hasher.update(&packet[bth + 12..covered]);
    hasher.finalize().to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checksum(bytes: &[u8]) -> u16 {
        let mut sum: u32 = bytes.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    #[test]
    fn an_updated_checksum_is_that_of_the_new_bytes() {
        let before = [10, 0, 0, 1, 0xff, 0xff, 7, 9];
        let mut after = before;
        after[..4].copy_from_slice(&[192, 168, 200, 3]);
        assert_eq!(updated(checksum(&before), &before[..4], &after[..4]), checksum(&after));
    }
}
