//! Contents of a valid frame, encoded and decoded.

use std::net::Ipv4Addr;
use std::ops::Range;

use weir_units::MacAddr;

use super::icrc::icrc;
use super::syndrome::Syndrome;
use super::{
    AETH_BYTES, BECN, CNP_RESERVED_BYTES, Dscp, ETHERTYPE_IPV4, Ecn, ICRC_BYTES, PROTOCOL_UDP, Packet, Psn, QueuePair,
    RETH_BYTES, ReadError, UDP_PORT, field, ipv4_checksum, opcode,
};

/// Fields of a RoCEv2 frame, except its payload.
///
/// Not kept: IP identification and time to live, the solicited-event and migration bits, the partition key. They are written with a NIC's
/// defaults (0, 64, no, yes, 0xffff), and ignored in received frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Destination MAC address.
    pub destination: MacAddr,
    /// Source MAC address.
    pub source: MacAddr,
    /// Destination IP address.
    pub destination_ip: Ipv4Addr,
    /// Source IP address.
    pub source_ip: Ipv4Addr,
    /// Differentiated services code point.
    pub dscp: Dscp,
    /// The ECN field.
    pub ecn: Ecn,
    /// UDP source port, see [`source_port`].
    pub source_port: u16,
    /// Destination queue pair.
    pub queue_pair: QueuePair,
    /// Packet sequence number.
    pub psn: Psn,
    /// The opcode and its header.
    pub operation: Operation,
}

/// Operation of a frame: opcode and extended header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A packet of an RDMA WRITE over a reliable connection.
    Write {
        /// Position in the message.
        position: PacketPosition,
        /// Whether an acknowledgement is requested.
        ack_request: bool,
    },
    /// A packet of a SEND over a reliable connection, into the receiver's next posted buffer. All packets but the last of a message have
    /// the path MTU as payload.
    Send {
        /// Whether the packet is its message's first.
        is_first: bool,
        /// Whether the packet is its message's last.
        is_last: bool,
        /// Whether an acknowledgement is requested.
        ack_request: bool,
    },
    /// An acknowledgement of all packets up to the frame's PSN.
    Acknowledge {
        /// Kind of the acknowledgement.
        syndrome: Syndrome,
        /// Message sequence number: messages that the responder completed, modulo 2^24.
        msn: u32,
        /// Whether BECN is set: a switch marked the acknowledged packet. NICs leave it clear, and report marks by congestion notification
        /// packets.
        becn: bool,
    },
    /// A congestion notification packet (A17.9.2): the queue pair has to slow down.
    CongestionNotification,
}

/// Position of a packet in its message. All packets but the last have the path MTU as payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketPosition {
    /// Single packet: the whole message.
    Only(Reth),
    /// The first of several.
    First(Reth),
    /// Neither first nor last.
    Middle,
    /// The last of several.
    Last,
}

/// RDMA extended transport header: destination of a message (IBA 9.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reth {
    /// Address in the responder's memory.
    pub virtual_address: u64,
    /// Key that permits the write.
    pub remote_key: u32,
    /// Bytes of the whole message.
    pub message_bytes: u32,
}

/// Reason why a frame can't be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// The buffer is shorter than the frame.
    BufferTooSmall {
        /// Length of the frame in bytes.
        needed: usize,
    },
    /// The payload does not fit the operation: missing, not allowed, or, in a packet that is not its message's last, of a length that is no
    /// multiple of 4.
    Payload,
}

impl Operation {
    fn opcode(&self) -> u8 {
        match self {
            Operation::Write { position: PacketPosition::Only(_), .. } => opcode::WRITE_ONLY,
            Operation::Write { position: PacketPosition::First(_), .. } => opcode::WRITE_FIRST,
            Operation::Write { position: PacketPosition::Middle, .. } => opcode::WRITE_MIDDLE,
            Operation::Write { position: PacketPosition::Last, .. } => opcode::WRITE_LAST,
            Operation::Send { is_first: true, is_last: true, .. } => opcode::SEND_ONLY,
            Operation::Send { is_first: true, is_last: false, .. } => opcode::SEND_FIRST,
            Operation::Send { is_first: false, is_last: false, .. } => opcode::SEND_MIDDLE,
            Operation::Send { is_first: false, is_last: true, .. } => opcode::SEND_LAST,
            Operation::Acknowledge { .. } => opcode::ACKNOWLEDGE,
            Operation::CongestionNotification => opcode::CNP,
        }
    }

    fn extension_bytes(&self) -> usize {
        match self {
            Operation::Write { position: PacketPosition::Only(_) | PacketPosition::First(_), .. } => RETH_BYTES,
            Operation::Write { .. } | Operation::Send { .. } => 0,
            Operation::Acknowledge { .. } => AETH_BYTES,
            Operation::CongestionNotification => CNP_RESERVED_BYTES,
        }
    }

    fn may_carry(&self, payload_bytes: usize) -> bool {
        match self {
            Operation::Write { position: PacketPosition::First(_) | PacketPosition::Middle, .. }
            | Operation::Send { is_last: false, .. } => payload_bytes > 0 && payload_bytes.is_multiple_of(4),
            Operation::Write { .. } | Operation::Send { .. } => payload_bytes > 0,
            _ => payload_bytes == 0,
        }
    }

    fn write_extension(&self, extension: &mut [u8]) {
        match *self {
            Operation::Write { position: PacketPosition::Only(reth) | PacketPosition::First(reth), .. } => {
                extension[0..8].copy_from_slice(&reth.virtual_address.to_be_bytes());
                extension[8..12].copy_from_slice(&reth.remote_key.to_be_bytes());
                extension[12..16].copy_from_slice(&reth.message_bytes.to_be_bytes());
            }
            Operation::Write { .. } | Operation::Send { .. } => {}
            Operation::Acknowledge { syndrome, msn, .. } => {
                put24(extension, 1..4, msn);
                extension[0] = syndrome.to_byte();
            }
            Operation::CongestionNotification => extension.fill(0),
        }
    }

    fn read(packet: &Packet<'_>) -> Result<Operation, ReadError> {
        let extension = packet.extension();
        let reth = || Reth {
            virtual_address: u64::from_be_bytes(std::array::from_fn(|byte| extension[byte])),
            remote_key: u32::from_be_bytes(std::array::from_fn(|byte| extension[8 + byte])),
            message_bytes: u32::from_be_bytes(std::array::from_fn(|byte| extension[12 + byte])),
        };
        let ack_request = packet.ack_request();
        let write = |part| Operation::Write { position: part, ack_request };
        let send = |is_first, is_last| Operation::Send { is_first, is_last, ack_request };
        Ok(match packet.opcode() {
            opcode::WRITE_ONLY => write(PacketPosition::Only(reth())),
            opcode::WRITE_FIRST => write(PacketPosition::First(reth())),
            opcode::WRITE_MIDDLE => write(PacketPosition::Middle),
            opcode::WRITE_LAST => write(PacketPosition::Last),
            opcode::SEND_ONLY => send(true, true),
            opcode::SEND_FIRST => send(true, false),
            opcode::SEND_MIDDLE => send(false, false),
            opcode::SEND_LAST => send(false, true),
            opcode::ACKNOWLEDGE => Operation::Acknowledge {
                syndrome: Syndrome::from_byte(extension[0])?,
                msn: u32::from_be_bytes([0, extension[1], extension[2], extension[3]]),
                becn: packet.becn(),
            },
            opcode::CNP => Operation::CongestionNotification,
            unknown => return Err(ReadError::Opcode(unknown)),
        })
    }
}

impl Repr {
    /// Decodes a frame.
    ///
    /// # Errors
    /// If the opcode or the syndrome is unknown: [`ReadError`].
    pub fn read(packet: &Packet<'_>) -> Result<Repr, ReadError> {
        Ok(Repr {
            destination: packet.destination(),
            source: packet.source(),
            destination_ip: packet.destination_ip(),
            source_ip: packet.source_ip(),
            dscp: packet.dscp(),
            ecn: packet.ecn(),
            source_port: packet.source_port(),
            queue_pair: packet.queue_pair(),
            psn: packet.psn(),
            operation: Operation::read(packet)?,
        })
    }

    /// Returns the length of the frame with this payload in bytes, without FCS.
    pub fn frame_bytes(&self, payload_bytes: usize) -> usize {
        field::AFTER_BTH + self.operation.extension_bytes() + payload_bytes.next_multiple_of(4) + ICRC_BYTES
    }

    /// Writes the frame, without FCS, at the start of `buffer`, and returns its length.
    ///
    /// # Errors
    /// If the buffer is too small or the payload does not fit the operation: [`WriteError`].
    pub fn write(&self, payload: &[u8], buffer: &mut [u8]) -> Result<usize, WriteError> {
        let needed = self.frame_bytes(payload.len());
        let ip_bytes = u16::try_from(needed - field::IP.start).map_err(|_| WriteError::Payload)?;
        if !self.operation.may_carry(payload.len()) {
            return Err(WriteError::Payload);
        }
        let frame = buffer.get_mut(..needed).ok_or(WriteError::BufferTooSmall { needed })?;
        self.write_ethernet(frame);
        self.write_ip(frame, ip_bytes);
        self.write_transport(frame, payload.len());
        let payload_start = field::AFTER_BTH + self.operation.extension_bytes();
        self.operation.write_extension(&mut frame[field::AFTER_BTH..payload_start]);
        let (covered, icrc_field) = frame.split_at_mut(needed - ICRC_BYTES);
        let (content, padding) = covered[payload_start..].split_at_mut(payload.len());
        content.copy_from_slice(payload);
        padding.fill(0);
        icrc_field.copy_from_slice(&icrc(covered));
        Ok(needed)
    }

    fn write_ethernet(&self, frame: &mut [u8]) {
        frame[field::DESTINATION].copy_from_slice(&self.destination.0);
        frame[field::SOURCE].copy_from_slice(&self.source.0);
        put(frame, field::ETHERTYPE, ETHERTYPE_IPV4);
    }

    fn write_ip(&self, frame: &mut [u8], ip_bytes: u16) {
        const DONT_FRAGMENT: u16 = 0x4000;
        const TIME_TO_LIVE: u8 = 64;
        frame[field::IP].fill(0);
        frame[field::IP_VERSION_IHL] = 0x45;
        frame[field::IP_TOS] = self.dscp.get() << 2 | self.ecn.bits();
        put(frame, field::IP_LENGTH, ip_bytes);
        put(frame, field::IP_FRAGMENT, DONT_FRAGMENT);
        frame[field::IP_TTL] = TIME_TO_LIVE;
        frame[field::IP_PROTOCOL] = PROTOCOL_UDP;
        frame[field::IP_SOURCE].copy_from_slice(&self.source_ip.octets());
        frame[field::IP_DESTINATION].copy_from_slice(&self.destination_ip.octets());
        let checksum = ipv4_checksum(&frame[field::IP]);
        put(frame, field::IP_CHECKSUM, checksum);
        put(frame, field::UDP_SOURCE, self.source_port);
        put(frame, field::UDP_DESTINATION, UDP_PORT);
        put(frame, field::UDP_LENGTH, ip_bytes - field::IP.len() as u16);
        // RoCEv2 over IPv4 sends none: the ICRC covers more.
        put(frame, field::UDP_CHECKSUM, 0);
    }

    fn write_transport(&self, frame: &mut [u8], payload_bytes: usize) {
        const MIGRATED: u8 = 0x40;
        const PARTITION_DEFAULT: u16 = 0xffff;
        let is_cnp = self.operation == Operation::CongestionNotification;
        let padding = (payload_bytes.next_multiple_of(4) - payload_bytes) as u8;
        frame[field::BTH_OPCODE] = self.operation.opcode();
        frame[field::BTH_FLAGS] = if is_cnp { 0 } else { MIGRATED } | padding << 4;
        put(frame, field::BTH_PARTITION, PARTITION_DEFAULT);
        let becn = is_cnp || matches!(self.operation, Operation::Acknowledge { becn: true, .. });
        frame[field::BTH_CONGESTION] = if becn { BECN } else { 0 };
        put24(frame, field::BTH_QUEUE_PAIR, self.queue_pair.get());
        let ack_request = matches!(
            self.operation,
            Operation::Write { ack_request: true, .. } | Operation::Send { ack_request: true, .. }
        );
        frame[field::BTH_ACK_REQUEST] = u8::from(ack_request) << 7;
        put24(frame, field::BTH_PSN, self.psn.get());
    }
}

/// Returns the UDP source port of a queue pair's frames, 0xc000 to 0xffff. It is a hash of both ends, so that the flows between two hosts
/// take different paths. Linux' RDMA core has the same hash, so flows are spread as there.
pub fn source_port(local: QueuePair, remote: QueuePair) -> u16 {
    let product = u64::from(local.get()) * u64::from(remote.get());
    let mixed = product ^ product >> 20;
    let label = (mixed ^ mixed >> 40) & 0xf_ffff;
    0xc000 | ((label & 0x3fff) ^ (label >> 14)) as u16
}

fn put(frame: &mut [u8], field: Range<usize>, value: u16) {
    frame[field].copy_from_slice(&value.to_be_bytes());
}

fn put24(frame: &mut [u8], field: Range<usize>, value: u32) {
    frame[field].copy_from_slice(&value.to_be_bytes()[1..]);
}
