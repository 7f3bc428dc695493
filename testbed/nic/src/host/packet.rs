//! What hosts say to each other: packets without their payload.
//!
//! In virtual time these are the frames; on a port they are written as RoCEv2 and read from it ([`super::codec`]).

use arrayvec::ArrayVec;
use weir_units::archive::Value;
use weir_units::{MacAddr, Time};
use weir_wire::digest::Digest;
use weir_wire::mac_control::{ControlFrame, FRAME_BYTES};
use weir_wire::rocev2::{Dscp, Ecn, Psn, QueuePair, Syndrome};
use weir_wire::trailer;
use weir_wire::trailer::Telemetry;

use super::congestion::HOPS_MAX;
use crate::tcp;

/// A frame without payload.
#[derive(Clone, Debug, PartialEq, Eq, Value)]
pub enum NicFrame {
    /// MAC control: flow control.
    Control(ControlFrame),
    /// All else.
    Packet(NicPacket),
}

/// A packet of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Value)]
pub struct NicPacket {
    /// Address of the host that it goes to.
    pub destination: MacAddr,
    /// Address of the host that it comes from.
    pub source: MacAddr,
    /// Hash of the connection's addresses and ports in this direction: all its packets have one, and so have their frames
    /// ([`weir_wire::flow_hash`]).
    pub flow_hash: u32,
    /// Length of the frame, without FCS. On a port, what it is longer than its IP packet is the trailer that has its stamps.
    pub frame_bytes: u16,
    /// Differentiated services code point.
    pub dscp: Dscp,
    /// The ECN field.
    pub ecn: Ecn,
    /// The connection's end at the destination.
    pub queue_pair: QueuePair,
    /// What it says.
    pub says: Says,
    /// What the ports on its way have stamped, where the sender asked for it; an acknowledgement brings it back.
    pub telemetry: Option<Box<Hops>>,
}

/// What a packet says.
#[derive(Clone, Debug, PartialEq, Eq, Value)]
pub enum Says {
    /// Part of an RDMA WRITE or SEND.
    Write(Write),
    /// An acknowledgement of all up to its sequence number.
    Ack(Ack),
    /// A congestion notification.
    Cnp,
    /// Data of TCP.
    Segment(tcp::Segment),
    /// An acknowledgement of TCP, without data.
    TcpAck(TcpAck),
}

/// An acknowledgement of TCP on its way: [`tcp::Ack`], with its rare part elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Value)]
pub struct TcpAck {
    /// All bytes before this offset have arrived.
    pub ack: u64,
    /// Marks have arrived.
    pub ece: bool,
    /// The timestamp that is echoed.
    pub echo: Time,
    /// What else has arrived; `None` for nothing, as it is without losses. Memory for it is allocated with each such
    /// acknowledgement.
    pub sack: Option<Box<SackBlocks>>,
}

/// From and to (exclusive), what came last first.
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

/// What carries a message's payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Value)]
pub enum Verb {
    /// RDMA WRITE: the first packet says where the message goes.
    #[default]
    Write,
    /// SEND: the receiver has said where the next message may go.
    Send,
}

/// Part of an RDMA WRITE or SEND.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Value)]
pub struct Write {
    /// Which.
    pub verb: Verb,
    /// Packet sequence number.
    pub psn: Psn,
    /// Payload of the whole message, where the packet says it: the first of a WRITE does.
    pub message_bytes: u32,
    /// Payload of the packet.
    pub payload_bytes: u16,
    /// Whether it is its message's first.
    pub is_first: bool,
    /// Whether it is its message's last.
    pub is_last: bool,
    /// Whether the receiver is to acknowledge it.
    pub ack_request: bool,
    /// When it was sent: a stamp that the acknowledgement brings back. [`Time::NEVER`] if it is not known, as of a real frame
    /// without stamps.
    pub sent_at: Time,
    /// How busy its way has been so far, where the sender asked for it.
    pub digest: Digest,
}

/// An acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Value)]
pub struct Ack {
    /// The last packet that it acknowledges; of a negative one, the packet that was expected.
    pub psn: Psn,
    /// Messages that the receiver has completed, modulo 2^24.
    pub msn: u32,
    /// What it says: of a negative one, why the sender is to go back to the packet that was expected, or to stop.
    pub syndrome: Syndrome,
    /// Whether the packet that it answers was marked CE, where the flow's congestion control asks for that.
    pub is_marked: bool,
    /// When that was sent; [`Time::NEVER`] if it is not known.
    pub echo: Time,
    /// What that brought of its way.
    pub digest: Digest,
}

/// What the ports on a packet's way have stamped, in their order.
pub type Hops = ArrayVec<Telemetry, HOPS_MAX>;

/// What the frames of a flow bring besides, as its congestion control asks for it, and acknowledgements bring back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stamps {
    /// Nothing.
    #[default]
    None,
    /// When they were sent.
    Time,
    /// That, and a digest of how busy their way is. In virtual time only.
    Digest,
    /// That, and what the ports on their way stamp.
    Hops,
}

/// Lengths of the frames of a host, without FCS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameSizes {
    /// Payload of a full packet.
    pub payload_max: u16,
    /// Payload is filled up to a multiple of this.
    pub padded_to: u16,
    /// What a packet of a message has besides.
    pub header: u16,
    /// What the first one of a message has besides that: where it is to be written.
    pub first_extra: u16,
    /// An acknowledgement.
    pub ack: u16,
    /// A congestion notification.
    pub cnp: u16,
    /// What a segment of TCP has besides its payload, and an acknowledgement without SACK blocks all in all.
    pub tcp_header: u16,
    /// What a packet has besides where it brings [`Stamps::Time`],
    pub time_stamp: u16,
    /// where it brings [`Stamps::Digest`],
    pub digest_stamp: u16,
    /// and where it brings [`Stamps::Hops`].
    pub hop_stamps: u16,
    /// What its acknowledgement has besides that brings them back,
    pub time_stamp_back: u16,
    /// this,
    pub digest_stamp_back: u16,
    /// and these.
    pub hop_stamps_back: u16,
}

/// Places for hops in a real frame: a Clos network of three stages has no longer ways.
const PLACES: usize = 5;

/// The SACK option without its blocks, in words of 4 B, and a block (RFC 2018, 3).
const SACK_OPTION: u16 = 4;
const SACK_BLOCK: u16 = 8;
/// The longest segment.
pub(super) const MSS_MAX: u32 = 65_000;

impl FrameSizes {
    /// Headers of TCP: Ethernet 14 B, IPv4 20, TCP 20, timestamps 12 (RFC 7323, appendix A). That is no less than the least frame.
    pub const TCP_HEADER: u16 = 66;

    /// Sizes of RoCEv2 over IPv4 without VLAN tag: Ethernet 14 B, IP 20, UDP 8, BTH 12, ICRC 4; RETH 16, AETH 4, and 16 of a
    /// notification; payload in words of 4 B. Stamps are in a [`trailer`].
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
            hop_stamps: trailer::bytes_with(PLACES) as u16,
            time_stamp_back: trailer::bytes_with(0) as u16,
            digest_stamp_back: trailer::bytes_with(0) as u16,
            hop_stamps_back: trailer::bytes_with(PLACES) as u16,
        }
    }

    /// Sizes in the public ns-3 simulators of RDMA networks: 48 B of headers with each packet, 60 B an acknowledgement, stamps or
    /// not. They have no TCP: its frames are as on a real link.
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

    /// As [`FrameSizes::ns3`], and with the bytes that stamps have there: a packet's 8 B of time, 2 B of PINT, or the 42 B of
    /// INT. The headers of an acknowledgement without padding are 46 B: it stays one of 60 B with a time or PINT, and has 88 B with INT.
    pub const fn ns3_stamped(payload_max: u16) -> FrameSizes {
        FrameSizes {
            time_stamp: 8,
            digest_stamp: 2,
            hop_stamps: 42,
            hop_stamps_back: 28,
            ..FrameSizes::ns3(payload_max)
        }
    }

    /// What stamps take of a packet.
    pub(crate) const fn of_stamps(&self, stamps: Stamps) -> u16 {
        match stamps {
            Stamps::None => 0,
            Stamps::Time => self.time_stamp,
            Stamps::Digest => self.digest_stamp,
            Stamps::Hops => self.hop_stamps,
        }
    }

    /// What stamps take of the acknowledgement that brings them back.
    pub(crate) const fn of_stamps_back(&self, stamps: Stamps) -> u16 {
        match stamps {
            Stamps::None => 0,
            Stamps::Time => self.time_stamp_back,
            Stamps::Digest => self.digest_stamp_back,
            Stamps::Hops => self.hop_stamps_back,
        }
    }

    /// The lengths of frames of which all packets and acknowledgements bring these stamps.
    pub const fn bringing(self, stamps: Stamps) -> FrameSizes {
        let [out, back] = [self.of_stamps(stamps), self.of_stamps_back(stamps)];
        FrameSizes { header: self.header + out, ack: self.ack + back, ..self }
    }

    /// A packet with so much payload, the first of its message or not, without stamps.
    #[inline]
    pub(crate) fn of_write(&self, verb: Verb, payload_bytes: u16, is_first: bool) -> u16 {
        let first_extra = if is_first && verb == Verb::Write { self.first_extra } else { 0 };
        self.header + first_extra + payload_bytes.next_multiple_of(self.padded_to)
    }

    /// A segment of TCP with so much payload, [`MSS_MAX`] at most.
    #[inline]
    pub(super) fn of_segment(&self, payload_bytes: u32) -> u16 {
        self.tcp_header + payload_bytes as u16
    }

    /// An acknowledgement of TCP.
    #[inline]
    pub(super) fn of_tcp_ack(&self, ack: &TcpAck) -> u16 {
        let blocks = ack.sack.as_ref().map_or(0, |sack| sack.iter().flatten().count() as u16);
        self.tcp_header + if blocks == 0 { 0 } else { SACK_OPTION + SACK_BLOCK * blocks }
    }

    /// The shortest frame: a byte of payload, or none, and no stamps.
    pub fn frame_min(&self) -> u16 {
        (self.header + self.padded_to).min(self.ack).min(self.cnp).min(self.tcp_header)
    }

    /// The longest frame of RDMA without stamps.
    pub fn frame_max(&self) -> usize {
        usize::from(self.payload_max + self.header + self.first_extra).max(usize::from(self.ack.max(self.cnp)))
    }
}

impl NicFrame {
    /// Its length, without FCS.
    #[inline]
    pub fn frame_bytes(&self) -> u32 {
        match self {
            NicFrame::Control(_) => FRAME_BYTES as u32,
            NicFrame::Packet(packet) => u32::from(packet.frame_bytes),
        }
    }

    /// The flow-control frame that it is, if it is one.
    pub fn as_control(&self) -> Option<ControlFrame> {
        match self {
            NicFrame::Control(frame) => Some(*frame),
            NicFrame::Packet(_) => None,
        }
    }
}

impl NicPacket {
    /// Whether ports on its way are to stamp it.
    #[inline]
    pub fn collects_stamps(&self) -> bool {
        self.telemetry.is_some() && matches!(self.says, Says::Write(_))
    }

    /// Whether ports on its way are to write how busy they are.
    #[inline]
    pub fn collects_digest(&self) -> bool {
        matches!(&self.says, Says::Write(write) if write.digest.collects())
    }

    /// Whether it belongs to the first data of its flow, which switches may have another α for.
    #[inline]
    pub fn is_unscheduled(&self) -> bool {
        matches!(&self.says, Says::Segment(segment) if segment.is_unscheduled)
    }

    /// Takes the code of a port on its way.
    #[inline]
    pub fn raise_digest(&mut self, code: u16) {
        if let Says::Write(write) = &mut self.says {
            write.digest.raise(code);
        }
    }

    /// Takes what a port on its way knows.
    pub fn stamp(&mut self, telemetry: &Telemetry) {
        if let Some(hops) = &mut self.telemetry {
            // A longer way is not told to its end.
            let _ = hops.try_push(*telemetry);
        }
    }
}

const _: () = assert!(size_of::<NicFrame>() <= 64, "a frame fits a cache line");
