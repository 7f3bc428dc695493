//! RoCEv2 frames: RDMA over UDP and IPv4 (InfiniBand Architecture Specification, Annex A17).
//!
//! A frame without its FCS:
//!
//! | bytes | header |
//! |---|---|
//! | 0..14 | Ethernet, ethertype 0x0800 |
//! | 14..34 | IPv4 without options |
//! | 34..42 | UDP to port 4791; the source port spreads flows over equal paths |
//! | 42..54 | BTH, base transport header |
//! | 54.. | RETH (16) or AETH (4) or the 16 reserved bytes of a CNP, where the opcode asks for them |
//! | | payload, padded to a multiple of 4 |
//! | last 4 | ICRC |
//!
//! Supported opcodes are those of a reliable connection with RDMA WRITEs and SENDs (IBA 9.2.1), and the congestion notification packet.
//! [`Packet`] reads fields in place; [`Repr`] holds the contents of a valid frame.

mod icrc;
mod ids;
mod packet;
mod repr;
mod syndrome;
#[cfg(test)]
mod tests;

pub use ids::{Dscp, Ecn, PathMtu, Psn, QueuePair};
pub use packet::{Packet, ReadError};
pub use repr::{Operation, PacketPosition, Repr, Reth, WriteError, source_port};
pub use syndrome::{NakCode, Syndrome};

use std::ops::Range;

/// The UDP port of RoCEv2.
pub const UDP_PORT: u16 = 4791;

/// Largest overhead of an RDMA WRITE frame around its payload and padding, in bytes without FCS: all headers, RETH and ICRC.
pub const OVERHEAD_BYTES_MAX: usize = field::AFTER_BTH + RETH_BYTES + ICRC_BYTES;

/// Offsets of fields in a frame.
mod field {
    use super::Range;

    pub(super) const DESTINATION: Range<usize> = 0..6;
    pub(super) const SOURCE: Range<usize> = 6..12;
    pub(super) const ETHERTYPE: Range<usize> = 12..14;
    pub(super) const IP: Range<usize> = 14..34;
    pub(super) const IP_VERSION_IHL: usize = 14;
    pub(super) const IP_TOS: usize = 15;
    pub(super) const IP_LENGTH: Range<usize> = 16..18;
    pub(super) const IP_FRAGMENT: Range<usize> = 20..22;
    pub(super) const IP_TTL: usize = 22;
    pub(super) const IP_PROTOCOL: usize = 23;
    pub(super) const IP_CHECKSUM: Range<usize> = 24..26;
    pub(super) const IP_SOURCE: Range<usize> = 26..30;
    pub(super) const IP_DESTINATION: Range<usize> = 30..34;
    pub(super) const UDP_SOURCE: Range<usize> = 34..36;
    pub(super) const UDP_DESTINATION: Range<usize> = 36..38;
    pub(super) const UDP_LENGTH: Range<usize> = 38..40;
    pub(super) const UDP_CHECKSUM: Range<usize> = 40..42;
    pub(super) const BTH_OPCODE: usize = 42;
    /// Solicited event, migration request, pad count (2 bits), transport version (4 bits).
    pub(super) const BTH_FLAGS: usize = 43;
    pub(super) const BTH_PARTITION: Range<usize> = 44..46;
    /// FECN, BECN, 6 reserved bits.
    pub(super) const BTH_CONGESTION: usize = 46;
    pub(super) const BTH_QUEUE_PAIR: Range<usize> = 47..50;
    /// Acknowledge request, 7 reserved bits.
    pub(super) const BTH_ACK_REQUEST: usize = 50;
    pub(super) const BTH_PSN: Range<usize> = 51..54;
    pub(super) const AFTER_BTH: usize = 54;
}

const ETHERTYPE_IPV4: u16 = 0x0800;
const PROTOCOL_UDP: u8 = 17;
const RETH_BYTES: usize = 16;
const AETH_BYTES: usize = 4;
const CNP_RESERVED_BYTES: usize = 16;
const ICRC_BYTES: usize = 4;

/// Backward explicit congestion notification, in a byte that the ICRC does not cover.
const BECN: u8 = 0x40;

mod opcode {
    pub(super) const SEND_FIRST: u8 = 0x00;
    pub(super) const SEND_MIDDLE: u8 = 0x01;
    pub(super) const SEND_LAST: u8 = 0x02;
    pub(super) const SEND_ONLY: u8 = 0x04;
    pub(super) const WRITE_FIRST: u8 = 0x06;
    pub(super) const WRITE_MIDDLE: u8 = 0x07;
    pub(super) const WRITE_LAST: u8 = 0x08;
    pub(super) const WRITE_ONLY: u8 = 0x0a;
    pub(super) const ACKNOWLEDGE: u8 = 0x11;
    pub(super) const CNP: u8 = 0x81;
}

/// Returns the checksum of an IPv4 header (RFC 1071): 0 for a header with a valid checksum.
pub fn ipv4_checksum(header: &[u8]) -> u16 {
    let words = header.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded + (folded >> 16)) as u16)
}
