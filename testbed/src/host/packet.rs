//! What hosts say to each other: packets without their payload.
//!
//! In virtual time these are the frames; on a port they are written as RoCEv2 and read from it ([`super::codec`]).

use arrayvec::ArrayVec;
use weir_flowctl::frame::{ControlFrame, FRAME_BYTES};
use weir_switch_core::Telemetry;
use weir_switch_core::packet::{Headers, Parsed};
use weir_units::{MacAddr, Time};

use super::congestion::HOPS_MAX;
use crate::link::LinkFrame;
use crate::rocev2::{Dscp, Ecn, Psn, QueuePair};

/// A frame without payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NicFrame {
    /// MAC control: flow control.
    Control(ControlFrame),
    /// All else.
    Packet(NicPacket),
}

/// A packet of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NicPacket {
    /// Of the host that it goes to.
    pub destination: MacAddr,
    /// Of the host that it comes from.
    pub source: MacAddr,
    /// The same for all packets of a connection in this direction, and that of their frames
    /// ([`weir_switch_core::parse::flow_hash`]).
    pub flow_hash: u32,
    /// Length of the frame, without FCS.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Says {
    /// Part of an RDMA WRITE.
    Write(Write),
    /// An acknowledgement of all up to its sequence number.
    Ack(Ack),
    /// A congestion notification.
    Cnp,
}

/// Part of an RDMA WRITE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// Packet sequence number.
    pub psn: Psn,
    /// Payload of the whole message.
    pub message_bytes: u32,
    /// Payload of the packet.
    pub payload_bytes: u16,
    /// Whether it is its message's first.
    pub is_first: bool,
    /// Whether it is its message's last.
    pub is_last: bool,
    /// Whether the receiver is to acknowledge it.
    pub ack_request: bool,
    /// When it was sent: a stamp that the acknowledgement brings back. [`Time::NEVER`] if it is not known, as of a real frame.
    pub sent_at: Time,
}

/// An acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// The last packet that it acknowledges; of a negative one, the packet that was expected.
    pub psn: Psn,
    /// Messages that the receiver has completed, modulo 2^24.
    pub msn: u32,
    /// Whether a packet was missing: the sender is to go back to it.
    pub is_negative: bool,
    /// Whether the packet that it answers was marked CE.
    pub is_marked: bool,
    /// When that was sent; [`Time::NEVER`] if it is not known.
    pub echo: Time,
}

/// What the ports on a packet's way have stamped, in their order.
pub type Hops = ArrayVec<Telemetry, HOPS_MAX>;

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
}

impl FrameSizes {
    /// Those of RoCEv2 over IPv4 without VLAN tag: Ethernet 14 B, IP 20, UDP 8, BTH 12, ICRC 4; RETH 16, AETH 4, and 16 of a
    /// notification; payload in words of 4 B.
    pub const fn rocev2(payload_max: u16) -> FrameSizes {
        FrameSizes { payload_max, padded_to: 4, header: 58, first_extra: 16, ack: 62, cnp: 74 }
    }

    /// Those of the public ns-3 simulators of RDMA networks: 48 B of headers with each packet, 60 B an acknowledgement.
    pub const fn ns3(payload_max: u16) -> FrameSizes {
        FrameSizes { payload_max, padded_to: 1, header: 48, first_extra: 0, ack: 60, cnp: 60 }
    }

    /// A packet with so much payload, the first of its message or not.
    #[inline]
    pub fn of_write(&self, payload_bytes: u16, is_first: bool) -> u16 {
        let first_extra = if is_first { self.first_extra } else { 0 };
        self.header + first_extra + payload_bytes.next_multiple_of(self.padded_to)
    }

    /// The longest frame.
    pub fn frame_max(&self) -> usize {
        usize::from(self.payload_max + self.header + self.first_extra).max(usize::from(self.ack.max(self.cnp)))
    }
}

impl NicFrame {
    /// The flow-control frame that it is, if it is one.
    pub fn as_control(&self) -> Option<ControlFrame> {
        match self {
            NicFrame::Control(frame) => Some(*frame),
            NicFrame::Packet(_) => None,
        }
    }
}

impl LinkFrame for NicFrame {
    fn is_control(&self) -> bool {
        matches!(self, NicFrame::Control(_))
    }

    fn dscp(&self) -> Option<u8> {
        match self {
            NicFrame::Control(_) => None,
            NicFrame::Packet(packet) => Some(packet.dscp.get()),
        }
    }
}

impl weir_switch_core::Packet for NicFrame {
    #[inline]
    fn frame_bytes(&self) -> u32 {
        match self {
            NicFrame::Control(_) => FRAME_BYTES as u32,
            NicFrame::Packet(packet) => u32::from(packet.frame_bytes),
        }
    }

    #[inline]
    fn is_control(&self) -> bool {
        matches!(self, NicFrame::Control(_))
    }

    #[inline]
    fn parse(&self) -> Parsed {
        match self {
            NicFrame::Control(frame) => Parsed::Control(Ok(*frame)),
            NicFrame::Packet(packet) => Parsed::Data(Headers {
                destination: packet.destination,
                source: packet.source,
                pcp: None,
                dscp: Some(packet.dscp.get()),
            }),
        }
    }

    #[inline]
    fn mark_ce(&mut self) -> bool {
        let NicFrame::Packet(packet) = self else { return false };
        if packet.ecn != Ecn::NotCapable {
            packet.ecn = Ecn::Ce;
        }
        packet.ecn == Ecn::Ce
    }

    #[inline]
    fn flow_hash(&self) -> u32 {
        match self {
            NicFrame::Control(_) => 0,
            NicFrame::Packet(packet) => packet.flow_hash,
        }
    }

    #[inline]
    fn wants_telemetry(&self) -> bool {
        matches!(self, NicFrame::Packet(NicPacket { telemetry: Some(_), says: Says::Write(_), .. }))
    }

    #[inline]
    fn stamp(&mut self, telemetry: &Telemetry) {
        if let NicFrame::Packet(NicPacket { telemetry: Some(hops), .. }) = self {
            // A longer way is not told to its end.
            let _ = hops.try_push(*telemetry);
        }
    }
}

const _: () = assert!(size_of::<NicFrame>() <= 64, "a frame fits a cache line");
