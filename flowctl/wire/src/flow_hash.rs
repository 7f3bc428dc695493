//! Hash of a frame's flow, by which ECMP keeps a flow on one path.

use std::net::Ipv4Addr;

use weir_units::MacAddr;

use crate::ethernet::{IPV6_BYTES, IpOffset, network_header};

/// Protocol numbers of IP.
const TCP: u8 = 6;
const UDP: u8 = 17;

/// Returns a hash of a frame's flow: MAC addresses, and for IP packets the IP addresses, protocol, and the ports of TCP and UDP. The source
/// port of RoCEv2 packets stands for the queue pair.
pub fn flow_hash(frame: &[u8]) -> u32 {
    let stations = hash_on(0, frame.get(..12).unwrap_or(frame));
    let (at, addresses, protocol, header) = match network_header(frame).1 {
        Some(IpOffset::V4(at)) => (at, 12..20, 9, usize::from(frame[at] & 15) * 4),
        Some(IpOffset::V6(at)) => (at, 8..40, 6, IPV6_BYTES),
        None => return stations,
    };
    let ip = hash_on(stations, &frame[at + addresses.start..at + addresses.end]);
    let protocol = frame[at + protocol];
    // A fragment after the first has no ports, but RoCEv2 and most TCP are never fragmented.
    match frame.get(at + header..at + header + 4) {
        Some(ports) if matches!(protocol, TCP | UDP) => hash_on(ip ^ u32::from(protocol), ports),
        _ => mix(ip, u32::from(protocol)),
    }
}

/// Returns the [`flow_hash`] of frames over UDP and IPv4, from source and destination addresses and ports.
pub fn udp_flow_hash([from, to]: [(MacAddr, Ipv4Addr); 2], ports: [u16; 2]) -> u32 {
    let stations = hash_on(hash_on(0, &to.0.0[..4]), &[to.0.0[4], to.0.0[5], from.0.0[0], from.0.0[1]]);
    let ip = hash_on(hash_on(hash_on(stations, &from.0.0[2..]), &from.1.octets()), &to.1.octets());
    let [source, destination] = ports.map(u16::to_be_bytes);
    hash_on(ip ^ u32::from(UDP), &[source[0], source[1], destination[0], destination[1]])
}

/// Adds bytes to a hash, four at a time.
fn hash_on(hash: u32, bytes: &[u8]) -> u32 {
    bytes.chunks(4).fold(hash, |hash, chunk| {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        mix(hash, u32::from_be_bytes(word))
    })
}

/// Mixes a word into a hash.
///
/// For each word the result is a permutation of the 32-bit numbers, in which each bit depends on all bits of the hash. Hashes need not be
/// random; consecutive numbers suffice. The constants are those of Wellons' `lowbias32`.
#[inline]
pub fn mix(hash: u32, word: u32) -> u32 {
    /// Spreads small numbers over all bits: 2^32 divided by the golden ratio.
    const SPREAD: u32 = 0x9e37_79b9;
    let mut mixed = hash ^ word.wrapping_add(1).wrapping_mul(SPREAD);
    mixed = (mixed ^ (mixed >> 16)).wrapping_mul(0x7feb_352d);
    mixed = (mixed ^ (mixed >> 15)).wrapping_mul(0x846c_a68b);
    mixed ^ (mixed >> 16)
}

#[cfg(test)]
mod tests {
    use crate::ethernet::tests::{frame, ipv4};

    use super::*;

    const ETHERTYPE_IPV4: u16 = 0x0800;

    #[test]
    fn frames_of_a_flow_have_one_hash() {
        let packet = |class: u8, source: u8, length: usize| {
            let mut ip = ipv4(class);
            ip[15] = source;
            ip.extend([0xc0, 0, 0x12, 0xb7]);
            ip.resize(length, class);
            flow_hash(&frame(&[], ETHERTYPE_IPV4, &ip))
        };
        assert_eq!(packet(0, 1, 60), packet(0x6b, 1, 1_000), "neither class nor length nor payload count");
        assert_ne!(packet(0, 1, 60), packet(0, 2, 60));
        assert_ne!(packet(0, 1, 60), packet(0, 1, 23), "with its ports cut off, it is hashed by its addresses");
        let mut other = ipv4(0);
        other.extend([0xc0, 1, 0x12, 0xb7]);
        let mut one = ipv4(0);
        one.extend([0xc0, 0, 0x12, 0xb7]);
        assert_ne!(
            flow_hash(&frame(&[], ETHERTYPE_IPV4, &one)),
            flow_hash(&frame(&[], ETHERTYPE_IPV4, &other)),
            "the source port tells flows apart"
        );
        assert_ne!(flow_hash(&[]), flow_hash(&frame(&[], 0x1234, &[])));
    }
}
