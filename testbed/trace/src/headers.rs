//! Places of a frame's headers: IPv4 and IPv6 after up to two VLAN tags, and their transports.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use weir_wire::rocev2::UDP_PORT;

const TYPE_AT: usize = 12;
const TAGS: [u16; 2] = [0x8100, 0x88a8];
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const ARP: u16 = 0x0806;
/// Bytes of the UDP header and the BTH of RoCEv2 (IBA 9.2.1).
pub(crate) const UDP_AND_BTH_BYTES: usize = 20;
/// Bytes of the TCP header without options.
const TCP_BYTES: usize = 20;

/// Network protocol of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    /// An IP packet.
    Ip(Ip),
    /// ARP for IPv4 over Ethernet, with the start of its body.
    Arp(usize),
    /// Another protocol.
    Other,
}

/// An IP packet in a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ip {
    /// Start of the header in the frame.
    pub(crate) start: usize,
    /// End of the packet in the frame, without padding.
    pub(crate) end: usize,
    /// Source and destination.
    pub(crate) addresses: [IpAddr; 2],
    /// Differentiated services code point.
    pub(crate) dscp: u8,
    /// Whether it is a fragment with no transport header.
    pub(crate) is_later_fragment: bool,
    /// The transport header.
    pub(crate) transport: Transport,
}

/// Transport header of an IP packet, with its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// TCP.
    Tcp(usize),
    /// UDP.
    Udp(usize),
    /// ICMPv6, whose checksum covers addresses.
    IcmpV6(usize),
    /// Another protocol, or a packet that is too short.
    Other,
}

/// Returns whether the bytes of a truncated frame of this length have the headers up to RoCEv2's BTH, or TCP's. Frames of other protocols
/// need only the headers that name their protocol.
pub(crate) fn has_required_headers(frame: &[u8], length: usize) -> bool {
    let at = type_at(frame);
    let ip_bytes = match word(frame, at) {
        None => return false,
        Some(IPV4) => 20,
        Some(IPV6) => 40,
        Some(_) => return true,
    };
    if frame.len() < at + 2 + ip_bytes {
        return false;
    }
    let Network::Ip(ip) = network(frame, length) else { return true };
    match ip.transport {
        Transport::Udp(start) if word(frame, start + 2).is_some_and(|port| port != UDP_PORT) => true,
        Transport::Udp(start) => frame.len() >= start + UDP_AND_BTH_BYTES,
        Transport::Tcp(start) => frame.len() >= start + TCP_BYTES,
        Transport::IcmpV6(_) | Transport::Other => true,
    }
}

/// Reads the headers of a frame of this length; `frame` must contain them ([`has_required_headers`]).
pub(crate) fn network(frame: &[u8], length: usize) -> Network {
    let at = type_at(frame);
    let body = at + 2;
    match word(frame, at) {
        Some(IPV4) => ipv4(frame, body, length).map_or(Network::Other, Network::Ip),
        Some(IPV6) => ipv6(frame, body, length).map_or(Network::Other, Network::Ip),
        Some(ARP) if frame.len() >= body + 28 && frame[body..body + 6] == [0, 1, 8, 0, 6, 4] => Network::Arp(body),
        _ => Network::Other,
    }
}

/// Finds the EtherType, after up to two VLAN tags.
fn type_at(frame: &[u8]) -> usize {
    let mut at = TYPE_AT;
    for _ in 0..2 {
        if word(frame, at).is_some_and(|kind| TAGS.contains(&kind)) {
            at += 4;
        }
    }
    at
}

impl Ip {
    /// Returns the places of the two addresses in the frame.
    pub(crate) fn address_fields(&self) -> [Range<usize>; 2] {
        let (first, bytes) = if self.addresses[0].is_ipv4() { (12, 4) } else { (8, 16) };
        let source = self.start + first..self.start + first + bytes;
        [source.clone(), source.end..source.end + bytes]
    }
}

fn ipv4(frame: &[u8], start: usize, length: usize) -> Option<Ip> {
    let header = frame.get(start..start + 20)?;
    let bytes = usize::from(header[0] & 0x0f) * 4;
    if header[0] >> 4 != 4 || bytes < 20 {
        return None;
    }
    let end = start + usize::from(word(frame, start + 2)?);
    if end > length || end < start + bytes {
        return None;
    }
    let address = |at: usize| -> Option<IpAddr> {
        Some(Ipv4Addr::from(<[u8; 4]>::try_from(frame.get(at..at + 4)?).ok()?).into())
    };
    let is_later_fragment = word(frame, start + 6)? & 0x1fff != 0;
    let transport = if is_later_fragment { Transport::Other } else { transport(header[9], start + bytes, end, false) };
    let addresses = [address(start + 12)?, address(start + 16)?];
    Some(Ip { start, end, addresses, dscp: header[1] >> 2, is_later_fragment, transport })
}

fn ipv6(frame: &[u8], start: usize, length: usize) -> Option<Ip> {
    let header = frame.get(start..start + 40)?;
    if header[0] >> 4 != 6 {
        return None;
    }
    let end = start + 40 + usize::from(word(frame, start + 4)?);
    if end > length {
        return None;
    }
    let address = |at: usize| -> Option<IpAddr> {
        Some(Ipv6Addr::from(<[u8; 16]>::try_from(frame.get(at..at + 16)?).ok()?).into())
    };
    let dscp = (header[0] << 4 | header[1] >> 4) >> 2;
    // Extension headers are not followed.
    let transport = transport(header[6], start + 40, end, true);
    let addresses = [address(start + 8)?, address(start + 24)?];
    Some(Ip { start, end, addresses, dscp, is_later_fragment: false, transport })
}

fn transport(protocol: u8, at: usize, end: usize, is_v6: bool) -> Transport {
    match protocol {
        6 if at + TCP_BYTES <= end => Transport::Tcp(at),
        17 if at + 8 <= end => Transport::Udp(at),
        58 if is_v6 && at + 4 <= end => Transport::IcmpV6(at),
        _ => Transport::Other,
    }
}

/// Two bytes in network order.
pub(crate) fn word(frame: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(frame.get(at..at + 2)?.try_into().ok()?))
}
