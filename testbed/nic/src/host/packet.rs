//! Packets between hosts, without their payload.
//!
//! In virtual time a packet is the frame itself. A port writes it as RoCEv2 and parses it from RoCEv2
//! ([`super::codec`]).

use arrayvec::ArrayVec;
use weir_units::{MacAddr, Time};
use weir_wire::digest::Digest;
use weir_wire::mac_control::{ControlFrame, FRAME_BYTES};
use weir_wire::rocev2::{Dscp, Ecn, Psn, QueuePair, Syndrome};
use weir_wire::trailer;
use weir_wire::trailer::Telemetry;

use crate::tcp;

/// A frame without payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NicFrame {
    /// MAC control frame for flow control.
    Control(ControlFrame),
    /// Packet of a connection.
    Packet(NicPacket),
}

/// Packet of a connection, without payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NicPacket {
    /// MAC address of the receiving host.
    pub destination: MacAddr,
    /// MAC address of the sending host.
    pub source: MacAddr,
    /// Hash of the packet's addresses and ports ([`weir_wire::flow_hash`]): equal for all packets of a direction, unless the sender chooses
    /// [entropy values](super::entropy).
    pub flow_hash: u32,
    /// Length of the frame, without FCS. On a port, bytes beyond the IP packet are the trailer with the stamps.
    pub frame_bytes: u16,
    /// Differentiated services code point.
    pub dscp: Dscp,
    /// ECN field of the IP header.
    pub ecn: Ecn,
    /// Queue pair of the connection at the destination.
    pub queue_pair: QueuePair,
    /// Kind of the packet, with its fields.
    pub kind: PacketKind,
    /// Telemetry that the ports of the path stamped, if the sender asked for it; echoed by the acknowledgement.
    pub telemetry: Option<Box<Hops>>,
}

/// Kind of a packet, with the fields of that kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PacketKind {
    /// Packet of an RDMA WRITE or SEND.
    Write(Write),
    /// RDMA acknowledgement, cumulative up to its sequence number, or NAK.
    Ack(Ack),
    /// Congestion notification packet (CNP).
    Cnp,
    /// TCP segment with data.
    Segment(tcp::Segment),
    /// TCP acknowledgement without data.
    TcpAck(TcpAck),
}

/// TCP acknowledgement: [`tcp::Ack`] with its SACK blocks boxed, since they are rare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpAck {
    /// Cumulative acknowledgement: every byte before this offset has arrived.
    pub ack: u64,
    /// ECN echo: CE marks have arrived.
    pub ece: bool,
    /// Echoed timestamp.
    pub echo: Time,
    /// SACK blocks; `None` if there are none, as without losses. Each acknowledgement with blocks allocates.
    pub sack: Option<Box<SackBlocks>>,
}

/// SACK blocks as (start, exclusive end), the most recent first.
pub(super) type SackBlocks = [Option<(u64, u64)>; 3];

impl From<tcp::Ack> for TcpAck {
    #[inline]
    fn from(ack: tcp::Ack) -> TcpAck {
        let tcp::Ack { ack, ece, sack, echo } = ack;
        TcpAck { ack, ece, echo, sack: sack[0].is_some().then(|| Box::new(sack)) }
    }
}

impl From<&TcpAck> for tcp::Ack {
    #[inline]
    fn from(ack: &TcpAck) -> tcp::Ack {
        tcp::Ack { ack: ack.ack, ece: ack.ece, sack: ack.sack.as_deref().copied().unwrap_or_default(), echo: ack.echo }
    }
}

/// RDMA operation that carries a message's payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RdmaOperation {
    /// RDMA WRITE: its first packet names the destination address.
    #[default]
    Write,
    /// RDMA SEND: the receiver has posted a buffer for the message.
    Send,
}

/// Fields of a packet of an RDMA WRITE or SEND.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// RDMA operation of the message.
    pub operation: RdmaOperation,
    /// Packet sequence number.
    pub psn: Psn,
    /// Payload of the whole message in bytes, where the packet has it: in the first of a WRITE.
    pub message_bytes: u32,
    /// Payload of the packet in bytes.
    pub payload_bytes: u16,
    /// Whether the packet is the first of its message.
    pub is_first: bool,
    /// Whether the packet is the last of its message.
    pub is_last: bool,
    /// Whether the sender requests an acknowledgement of the packet.
    pub ack_request: bool,
    /// Instant of sending, echoed by the acknowledgement; [`Time::NEVER`] if unknown, as in a real frame without
    /// stamps.
    pub sent_at: Time,
    /// Digest of the path's utilisation so far, if the sender asked for it.
    pub digest: Digest,
}

/// Fields of an RDMA acknowledgement or NAK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// Last acknowledged packet; in a NAK, the expected packet.
    pub psn: Psn,
    /// Number of packets by which the packet that arrived is after `psn`, under selective retransmission; negative if it is before.
    pub ahead: i16,
    /// Messages that the receiver has completed, modulo 2^24.
    pub msn: u32,
    /// AETH syndrome; in a NAK, the reason to go back to the expected packet or to stop.
    pub syndrome: Syndrome,
    /// Whether the acknowledged packet was marked CE, if the flow's congestion control asks for the echo.
    pub is_marked: bool,
    /// Instant of sending of the acknowledged packet; [`Time::NEVER`] if unknown.
    pub echo: Time,
    /// Digest of the acknowledged packet.
    pub digest: Digest,
}

/// Number of hops that a sender remembers. A three-stage Clos network has six links.
pub const HOPS_MAX: usize = 8;

/// Telemetry stamped by the ports of a packet's path, in path order.
pub type Hops = ArrayVec<Telemetry, HOPS_MAX>;

/// Telemetry in a flow's packets, as its congestion control requires; acknowledgements echo it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TelemetryMode {
    /// Packets without telemetry.
    #[default]
    None,
    /// Instant of sending.
    Time,
    /// Instant of sending, and a digest of the path's utilisation. In virtual time only.
    Digest,
    /// Instant of sending, and the telemetry of each port of the path.
    Hops,
}

/// Lengths of a host's frames in bytes, without FCS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameSizes {
    /// Largest payload of a packet.
    pub payload_max: u16,
    /// Alignment of the payload: padded to a multiple of this.
    pub padded_to: u16,
    /// Overhead of each packet of a message.
    pub header: u16,
    /// Further overhead of the first packet of a WRITE: its destination (RETH).
    pub first_extra: u16,
    /// Length of an RDMA acknowledgement.
    pub ack: u16,
    /// Length of a congestion notification.
    pub cnp: u16,
    /// Overhead of a TCP segment; length of a TCP acknowledgement without SACK blocks.
    pub tcp_header: u16,
    /// Further overhead of a packet with [`TelemetryMode::Time`].
    pub time_stamp: u16,
    /// Further overhead of a packet with [`TelemetryMode::Digest`].
    pub digest_stamp: u16,
    /// Further overhead of a packet with [`TelemetryMode::Hops`].
    pub hop_stamps: u16,
    /// Further overhead of an acknowledgement that echoes [`TelemetryMode::Time`].
    pub time_stamp_back: u16,
    /// Further overhead of an acknowledgement that echoes [`TelemetryMode::Digest`].
    pub digest_stamp_back: u16,
    /// Further overhead of an acknowledgement that echoes [`TelemetryMode::Hops`].
    pub hop_stamps_back: u16,
}

/// Hops with room in a real frame's trailer: the longest path in a three-stage Clos network.
const TRAILER_HOPS_MAX: usize = 5;

/// Length of the SACK option without its blocks, padded to words of 4 B, and of a block (RFC 2018, 3).
const SACK_OPTION: u16 = 4;
const SACK_BLOCK: u16 = 8;
/// Largest payload of a TCP segment, in bytes.
pub(super) const MSS_MAX: u32 = 65_000;

impl FrameSizes {
    /// Headers of TCP: Ethernet 14 B, IPv4 20, TCP 20, timestamps 12 (RFC 7323, appendix A). No shorter than the
    /// minimum frame.
    pub const TCP_HEADER: u16 = 66;

    /// Returns the sizes of RoCEv2 over IPv4 without VLAN tag: Ethernet 14 B, IP 20, UDP 8, BTH 12, ICRC 4; RETH 16,
    /// AETH 4, and 16 of a notification; payload in words of 4 B. Stamps are in a [`trailer`].
    pub const fn rocev2(payload_max: u16) -> FrameSizes {
        FrameSizes {
            payload_max,
            padded_to: 4,
            header: 58,
            first_extra: 16,
            ack: 62,
            cnp: 74,
            tcp_header: FrameSizes::TCP_HEADER,
            time_stamp: trailer::bytes_with(0) as u16,
            digest_stamp: trailer::bytes_with(0) as u16,
            hop_stamps: trailer::bytes_with(TRAILER_HOPS_MAX) as u16,
            time_stamp_back: trailer::bytes_with(0) as u16,
            digest_stamp_back: trailer::bytes_with(0) as u16,
            hop_stamps_back: trailer::bytes_with(TRAILER_HOPS_MAX) as u16,
        }
    }

    /// Returns the sizes of the public ns-3 simulators of RDMA networks: 48 B of headers a packet, 60 B an
    /// acknowledgement, with or without stamps. The simulators have no TCP: its frames are as on a real link.
    pub const fn ns3(payload_max: u16) -> FrameSizes {
        FrameSizes {
            payload_max,
            padded_to: 1,
            header: 48,
            first_extra: 0,
            ack: 60,
            cnp: 60,
            tcp_header: FrameSizes::TCP_HEADER,
            time_stamp: 0,
            digest_stamp: 0,
            hop_stamps: 0,
            time_stamp_back: 0,
            digest_stamp_back: 0,
            hop_stamps_back: 0,
        }
    }

    /// Returns [`FrameSizes::ns3`] plus the stamps of those simulators: in a packet, 8 B of time, 2 B of PINT, or 42 B
    /// of INT. An acknowledgement's headers without padding are 46 B: it keeps 60 B with a time or PINT, and has 88 B
    /// with INT.
    pub const fn ns3_stamped(payload_max: u16) -> FrameSizes {
        FrameSizes {
            time_stamp: 8,
            digest_stamp: 2,
            hop_stamps: 42,
            hop_stamps_back: 28,
            ..FrameSizes::ns3(payload_max)
        }
    }

    /// Returns the overhead of stamps in a packet.
    pub(crate) const fn of_stamps(&self, telemetry: TelemetryMode) -> u16 {
        match telemetry {
            TelemetryMode::None => 0,
            TelemetryMode::Time => self.time_stamp,
            TelemetryMode::Digest => self.digest_stamp,
            TelemetryMode::Hops => self.hop_stamps,
        }
    }

    /// Returns the overhead of echoed stamps in an acknowledgement.
    pub(crate) const fn of_stamps_back(&self, telemetry: TelemetryMode) -> u16 {
        match telemetry {
            TelemetryMode::None => 0,
            TelemetryMode::Time => self.time_stamp_back,
            TelemetryMode::Digest => self.digest_stamp_back,
            TelemetryMode::Hops => self.hop_stamps_back,
        }
    }

    /// Returns the lengths of a flow in which every packet and acknowledgement has these stamps.
    pub const fn with_telemetry(self, telemetry: TelemetryMode) -> FrameSizes {
        let [out, back] = [self.of_stamps(telemetry), self.of_stamps_back(telemetry)];
        FrameSizes { header: self.header + out, ack: self.ack + back, ..self }
    }

    /// Returns the length of an RDMA packet without stamps.
    #[inline]
    pub(crate) fn of_write(&self, operation: RdmaOperation, payload_bytes: u16, is_first: bool) -> u16 {
        let first_extra = if is_first && operation == RdmaOperation::Write { self.first_extra } else { 0 };
        self.header + first_extra + payload_bytes.next_multiple_of(self.padded_to)
    }

    /// Returns the length of a TCP segment with this payload, at most [`MSS_MAX`].
    #[inline]
    pub(super) fn of_segment(&self, payload_bytes: u32) -> u16 {
        self.tcp_header + payload_bytes as u16
    }

    /// Returns the length of a TCP acknowledgement with its SACK blocks.
    #[inline]
    pub(super) fn of_tcp_ack(&self, ack: &TcpAck) -> u16 {
        let blocks = ack.sack.as_ref().map_or(0, |sack| sack.iter().flatten().count() as u16);
        self.tcp_header + if blocks == 0 { 0 } else { SACK_OPTION + SACK_BLOCK * blocks }
    }

    /// Returns the length of the shortest frame, with at most the padding's payload and no stamps.
    pub fn frame_min(&self) -> u16 {
        (self.header + self.padded_to).min(self.ack).min(self.cnp).min(self.tcp_header)
    }

    /// Returns the length of the longest RDMA frame without stamps.
    pub fn frame_max(&self) -> usize {
        usize::from(self.payload_max + self.header + self.first_extra).max(usize::from(self.ack.max(self.cnp)))
    }
}

impl NicFrame {
    /// Returns the frame's length in bytes, without FCS.
    #[inline]
    pub fn frame_bytes(&self) -> u32 {
        match self {
            NicFrame::Control(_) => FRAME_BYTES as u32,
            NicFrame::Packet(packet) => u32::from(packet.frame_bytes),
        }
    }

    /// Returns the flow-control frame, if this is a MAC control frame.
    pub fn as_control(&self) -> Option<ControlFrame> {
        match self {
            NicFrame::Control(frame) => Some(*frame),
            NicFrame::Packet(_) => None,
        }
    }
}

impl NicPacket {
    /// Returns whether the ports of the path are to stamp the packet with their telemetry.
    #[inline]
    pub fn collects_stamps(&self) -> bool {
        self.telemetry.is_some() && matches!(self.kind, PacketKind::Write(_))
    }

    /// Returns whether the ports of the path are to write their utilisation into the packet's digest.
    #[inline]
    pub fn collects_digest(&self) -> bool {
        matches!(&self.kind, PacketKind::Write(write) if write.digest.collects())
    }

    /// Returns whether the segment belongs to the flow's unscheduled bytes, for which switches may use another α.
    #[inline]
    pub fn is_unscheduled(&self) -> bool {
        matches!(&self.kind, PacketKind::Segment(segment) if segment.is_unscheduled)
    }

    /// Raises the digest to the code of a port on the path.
    #[inline]
    pub fn raise_digest(&mut self, code: u16) {
        if let PacketKind::Write(write) = &mut self.kind {
            write.digest.raise(code);
        }
    }

    /// Appends the telemetry of a port on the path.
    pub fn stamp(&mut self, telemetry: &Telemetry) {
        if let Some(hops) = &mut self.telemetry {
            // Hops beyond the array's capacity are left out.
            let _ = hops.try_push(*telemetry);
        }
    }
}

const _: () = assert!(size_of::<NicFrame>() <= 64, "a frame fits a cache line");
