//! Invariant CRC: covers all fields that no switch or router may change (IBA A17.3.3, 7.8.1).

use crc32fast::Hasher;

use super::field;

/// Returns the ICRC, in transmission order, of a frame that ends before its ICRC.
///
/// Ethernet's CRC-32 over eight bytes of ones (in the place of a local route header), and the packet from its IP header on. Mutable fields
/// are ones: type of service, time to live, both checksums, and the BTH byte of FECN and BECN.
pub(super) fn icrc(frame: &[u8]) -> [u8; 4] {
    const LOCAL_ROUTE_HEADER: usize = 8;
    let mut masked = [0xff; LOCAL_ROUTE_HEADER + (field::AFTER_BTH - field::IP.start)];
    masked[LOCAL_ROUTE_HEADER..].copy_from_slice(&frame[field::IP.start..field::AFTER_BTH]);
    let variant = [field::IP_TOS, field::IP_TTL, field::BTH_CONGESTION];
    let variant = variant.into_iter().chain(field::IP_CHECKSUM).chain(field::UDP_CHECKSUM);
    variant.for_each(|byte| masked[LOCAL_ROUTE_HEADER + byte - field::IP.start] = 0xff);
    let mut hasher = Hasher::new();
    hasher.update(&masked);
    hasher.update(&frame[field::AFTER_BTH..]);
    hasher.finalize().to_le_bytes()
}
