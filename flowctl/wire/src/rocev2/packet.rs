//! View of a frame, parsed in place.

use std::fmt;
use std::net::Ipv4Addr;
use std::ops::Range;

use weir_units::MacAddr;

use super::icrc::icrc;
use super::{
    AETH_BYTES, BECN, CNP_RESERVED_BYTES, Dscp, ETHERTYPE_IPV4, Ecn, ICRC_BYTES, PROTOCOL_UDP, Psn, QueuePair,
    RETH_BYTES, UDP_PORT, field, ipv4_checksum, opcode,
};

/// View of a RoCEv2 frame with valid lengths and checksums and a known opcode, so that no accessor can fail. The ICRC is checked
/// separately, by [`Packet::icrc_holds`].
#[derive(Clone, Copy)]
pub struct Packet<'a> {
    /// Frame without bytes behind the IP packet.
    frame: &'a [u8],
    payload_start: usize,
}

/// Reason why bytes are no RoCEv2 frame that a host can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The frame ends before its fields do.
    Truncated,
    /// The frame is not IPv4, or has a VLAN tag or IP options, which RoCEv2 hosts here do not send.
    NotIpv4,
    /// The packet is a fragment.
    Fragment,
    /// The IPv4 header checksum is wrong.
    Checksum,
    /// The packet is not UDP to port 4791.
    NotRoce,
    /// The lengths of the headers disagree.
    Length,
    /// The transport header version is not 0.
    Version,
    /// The opcode is not supported here.
    Opcode(u8),
    /// The payload is present, absent or padded where the opcode does not allow it.
    Payload,
    /// The kind of acknowledgement is reserved by IBA.
    Syndrome(u8),
}

impl<'a> Packet<'a> {
    /// Checks a frame (without FCS). Padding behind the IP packet is left out.
    ///
    /// # Errors
    /// If the frame is no valid RoCEv2 frame: [`ReadError`].
    pub fn new(frame: &'a [u8]) -> Result<Packet<'a>, ReadError> {
        if frame.len() < field::AFTER_BTH + ICRC_BYTES {
            return Err(ReadError::Truncated);
        }
        let is_ipv4 = word(frame, field::ETHERTYPE) == ETHERTYPE_IPV4 && frame[field::IP_VERSION_IHL] == 0x45;
        if !is_ipv4 {
            return Err(ReadError::NotIpv4);
        }
        if word(frame, field::IP_FRAGMENT) & 0x3fff != 0 {
            return Err(ReadError::Fragment);
        }
        if ipv4_checksum(&frame[field::IP]) != 0 {
            return Err(ReadError::Checksum);
        }
        if frame[field::IP_PROTOCOL] != PROTOCOL_UDP || word(frame, field::UDP_DESTINATION) != UDP_PORT {
            return Err(ReadError::NotRoce);
        }
        let (ip_bytes, udp_bytes) = (word(frame, field::IP_LENGTH), word(frame, field::UDP_LENGTH));
        if usize::from(ip_bytes) != usize::from(udp_bytes) + field::IP.len() {
            return Err(ReadError::Length);
        }
        let frame = frame.get(..field::IP.start + usize::from(ip_bytes)).ok_or(ReadError::Truncated)?;
        Packet::parse_transport(frame)
    }

    /// Checks the headers behind UDP.
    fn parse_transport(frame: &'a [u8]) -> Result<Packet<'a>, ReadError> {
        if frame.len() < field::AFTER_BTH + ICRC_BYTES {
            return Err(ReadError::Length);
        }
        if frame[field::BTH_FLAGS] & 0x0f != 0 {
            return Err(ReadError::Version);
        }
        let extension_bytes = match frame[field::BTH_OPCODE] {
            opcode::WRITE_FIRST | opcode::WRITE_ONLY => RETH_BYTES,
            opcode::WRITE_MIDDLE | opcode::WRITE_LAST => 0,
            opcode::SEND_FIRST | opcode::SEND_MIDDLE | opcode::SEND_LAST | opcode::SEND_ONLY => 0,
            opcode::ACKNOWLEDGE => AETH_BYTES,
            opcode::CNP => CNP_RESERVED_BYTES,
            unknown => return Err(ReadError::Opcode(unknown)),
        };
        let packet = Packet { frame, payload_start: field::AFTER_BTH + extension_bytes };
        let behind = frame.len().checked_sub(packet.payload_start + ICRC_BYTES).ok_or(ReadError::Length)?;
        let padding = packet.padding_bytes();
        let fits = match packet.opcode() {
            opcode::WRITE_FIRST | opcode::WRITE_MIDDLE | opcode::SEND_FIRST | opcode::SEND_MIDDLE => {
                behind > 0 && padding == 0
            }
            opcode::WRITE_LAST | opcode::WRITE_ONLY | opcode::SEND_LAST | opcode::SEND_ONLY => behind > padding,
            _ => behind == 0 && padding == 0,
        };
        if fits && behind % 4 == 0 { Ok(packet) } else { Err(ReadError::Payload) }
    }

    /// Destination MAC address.
    pub fn destination(&self) -> MacAddr {
        MacAddr(array(self.frame, field::DESTINATION))
    }

    /// Source MAC address.
    pub fn source(&self) -> MacAddr {
        MacAddr(array(self.frame, field::SOURCE))
    }

    /// Destination IP address.
    pub fn destination_ip(&self) -> Ipv4Addr {
        array(self.frame, field::IP_DESTINATION).into()
    }

    /// Source IP address.
    pub fn source_ip(&self) -> Ipv4Addr {
        array(self.frame, field::IP_SOURCE).into()
    }

    /// Differentiated services code point.
    pub fn dscp(&self) -> Dscp {
        Dscp::new(self.frame[field::IP_TOS] >> 2)
    }

    /// The ECN field.
    pub fn ecn(&self) -> Ecn {
        Ecn::from_bits(self.frame[field::IP_TOS])
    }

    /// UDP source port.
    pub fn source_port(&self) -> u16 {
        word(self.frame, field::UDP_SOURCE)
    }

    /// Opcode, which has a counterpart in [`super::Operation`].
    pub fn opcode(&self) -> u8 {
        self.frame[field::BTH_OPCODE]
    }

    /// Whether BECN is set.
    pub fn becn(&self) -> bool {
        self.frame[field::BTH_CONGESTION] & BECN != 0
    }

    /// Destination queue pair.
    pub fn queue_pair(&self) -> QueuePair {
        QueuePair::new(word24(self.frame, field::BTH_QUEUE_PAIR))
    }

    /// Packet sequence number.
    pub fn psn(&self) -> Psn {
        Psn::new(word24(self.frame, field::BTH_PSN))
    }

    /// Whether the sender asks for an acknowledgement.
    pub fn ack_request(&self) -> bool {
        self.frame[field::BTH_ACK_REQUEST] & 0x80 != 0
    }

    /// Bytes of padding behind the payload, 0 to 3.
    fn padding_bytes(&self) -> usize {
        usize::from(self.frame[field::BTH_FLAGS] >> 4 & 0b11)
    }

    /// Header behind the BTH: RETH, AETH, reserved bytes of a CNP, or nothing.
    pub(super) fn extension(&self) -> &'a [u8] {
        &self.frame[field::AFTER_BTH..self.payload_start]
    }

    /// End of the IP packet in the frame; further bytes do not belong to it.
    pub fn end(&self) -> usize {
        self.frame.len()
    }

    /// The payload, without padding.
    pub fn payload(&self) -> &'a [u8] {
        &self.frame[self.payload_start..self.frame.len() - ICRC_BYTES - self.padding_bytes()]
    }

    /// Whether the ICRC is right.
    pub fn icrc_holds(&self) -> bool {
        let (covered, carried) = self.frame.split_at(self.frame.len() - ICRC_BYTES);
        icrc(covered) == carried
    }
}

impl fmt::Debug for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("Packet");
        fields.field("opcode", &self.opcode()).field("to", &self.queue_pair()).field("psn", &self.psn());
        fields.field("payload_bytes", &self.payload().len()).finish_non_exhaustive()
    }
}

fn array<const N: usize>(frame: &[u8], field: Range<usize>) -> [u8; N] {
    frame[field].try_into().expect("a field has the length of its type")
}

fn word(frame: &[u8], field: Range<usize>) -> u16 {
    u16::from_be_bytes(array(frame, field))
}

fn word24(frame: &[u8], field: Range<usize>) -> u32 {
    let [a, b, c] = array(frame, field);
    u32::from_be_bytes([0, a, b, c])
}
