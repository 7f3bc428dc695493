//! Frames on their way, and the memory for them.

use std::slice::from_ref;

use prefetch_index::prefetch_index;
use weir_nic::host::NicFrame;
use weir_scenario::link::LinkFrame;
use weir_switch_core::packet::Packet;
use weir_units::archive::Value;
use weir_units::{MacAddr, Time};
use weir_wire::ethernet::{Headers, Parsed};
use weir_wire::mac_control::FRAME_BYTES;
use weir_wire::rocev2::Ecn;
use weir_wire::trailer::Telemetry;

/// A frame between two hosts, by pointer, as an mbuf is, so that what it says stays where it is; and its label.
#[derive(Clone, Debug, Value)]
pub(super) struct Frame {
    content: Box<NicFrame>,
    label: Label,
}

/// What switches go by. It goes along with the pointer, since each look at the frame itself is a cache miss in a large fabric; in
/// two words, since it is moved several times at each hop.
#[derive(Clone, Copy, Debug, Value)]
struct Label {
    /// Destination address, then the type-of-service byte (DSCP and ECN), then what kind it is. For flow control, in place of the first
    /// two: the arrival that it is for, in picoseconds and one more, or 0.
    head: u64,
    /// Hash of the flow, then the length without FCS. For flow control, in place of the hash: the port that it comes to.
    tail: u64,
}

const _: () = assert!(size_of::<Frame>() == 24);

const TOS_SHIFT: u32 = 48;
const KIND_SHIFT: u32 = 56;
/// The bits of the ECN field: set for CE, none for what is not ECN-capable.
const ECN: u64 = 0b11 << TOS_SHIFT;
const LENGTH_SHIFT: u32 = 32;
/// Kinds: flow control, other frames, and those of them that collect telemetry or a digest, or are unscheduled.
// The head is a number: see there.
const CONTROL: u64 = 0;
const DATA: u64 = 1;
const STAMPED: u64 = 2;
const DIGESTED: u64 = 3;
const UNSCHEDULED: u64 = 4;

/// Memory of frames that have arrived, for the next ones; the last that came back goes first, since it is in the cache.
#[derive(Debug, Default)]
#[expect(clippy::vec_box, reason = "the memory goes from frame to frame")]
pub(super) struct Spare(Vec<Box<NicFrame>>);

impl Frame {
    /// What it says, with what has been done to it on the way.
    #[inline]
    pub(super) fn content(&mut self) -> &mut NicFrame {
        if let NicFrame::Packet(packet) = &mut *self.content {
            packet.ecn = Ecn::from_bits(self.label.tos());
        }
        &mut self.content
    }

    /// Asks for what it says, ahead of its use.
    #[inline]
    pub(super) fn prefetch(&self) {
        // As long as a cache line, and mostly across two.
        let content = from_ref(&*self.content);
        prefetch_index(content, 0);
        prefetch_index(content, 1);
    }

    /// Flow control is for an arrival at this instant.
    pub(super) fn set_crossed(&mut self, at: Time) {
        debug_assert!(self.is_flow_control() && at.as_picos() + 1 < 1 << KIND_SHIFT);
        self.label.head = CONTROL << KIND_SHIFT | (at.as_picos() + 1);
    }

    /// The arrival that flow control is for, if it is known.
    pub(super) fn crossed(&self) -> Option<Time> {
        debug_assert!(self.is_flow_control());
        self.label.head.checked_sub(1).map(Time::from_picos)
    }

    /// Flow control comes to this port.
    pub(super) fn set_port(&mut self, port: u16) {
        debug_assert!(self.is_flow_control());
        self.label.tail |= u64::from(port);
    }

    /// The port that flow control comes to, as [`Frame::set_port`] has it.
    pub(super) fn port(&self) -> u16 {
        self.label.tail as u16
    }

    #[inline]
    pub(super) fn is_flow_control(&self) -> bool {
        self.label.kind() == CONTROL
    }

    /// What it says, but for what switches have marked.
    pub(super) fn says(&self) -> &NicFrame {
        &self.content
    }
}

impl Label {
    #[inline]
    fn of(content: &NicFrame) -> Label {
        match content {
            NicFrame::Control(_) => Label { head: CONTROL << KIND_SHIFT, tail: (FRAME_BYTES as u64) << LENGTH_SHIFT },
            NicFrame::Packet(packet) => {
                let tos = packet.dscp.get() << 2 | packet.ecn.bits();
                let kind = match packet.collects_stamps() {
                    true => STAMPED,
                    false if packet.collects_digest() => DIGESTED,
                    false if packet.is_unscheduled() => UNSCHEDULED,
                    false => DATA,
                };
                Label {
                    head: packet.destination.to_u64() | u64::from(tos) << TOS_SHIFT | kind << KIND_SHIFT,
                    tail: u64::from(packet.flow_hash) | u64::from(packet.frame_bytes) << LENGTH_SHIFT,
                }
            }
        }
    }

    #[inline]
    fn destination(self) -> MacAddr {
        MacAddr::from_u64(self.head)
    }

    #[inline]
    fn tos(self) -> u8 {
        (self.head >> TOS_SHIFT) as u8
    }

    #[inline]
    fn kind(self) -> u64 {
        self.head >> KIND_SHIFT
    }

    #[inline]
    fn frame_bytes(self) -> u32 {
        (self.tail >> LENGTH_SHIFT) as u32
    }

    #[inline]
    fn flow_hash(self) -> u32 {
        self.tail as u32
    }
}

impl Spare {
    #[inline]
    pub(super) fn frame(&mut self, content: NicFrame) -> Frame {
        let label = Label::of(&content);
        let content = match self.0.pop() {
            Some(mut place) => {
                *place = content;
                place
            }
            None => Box::new(content),
        };
        Frame { content, label }
    }

    /// For how many frames there is memory.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Takes what another one has beyond so much.
    pub(super) fn take_from(&mut self, other: &mut Spare, kept: usize) {
        if other.0.len() > kept {
            self.0.append(&mut other.0.split_off(kept));
        }
    }

    #[inline]
    pub(super) fn take_back(&mut self, frame: Frame) {
        self.0.push(frame.content);
    }
}

impl LinkFrame for Frame {
    fn is_control(&self) -> bool {
        self.label.kind() == CONTROL
    }

    fn dscp(&self) -> Option<u8> {
        (self.label.kind() != CONTROL).then_some(self.label.tos() >> 2)
    }
}

impl Packet for Frame {
    #[inline]
    fn frame_bytes(&self) -> u32 {
        self.label.frame_bytes()
    }

    #[inline]
    fn is_control(&self) -> bool {
        self.label.kind() == CONTROL
    }

    #[inline]
    fn parse(&self) -> Parsed {
        if self.label.kind() == CONTROL
            && let NicFrame::Control(frame) = &*self.content
        {
            return Parsed::Control(Ok(*frame));
        }
        Parsed::Data(Headers { destination: self.label.destination(), pcp: None, dscp: Some(self.label.tos() >> 2) })
    }

    #[inline]
    fn source(&self) -> MacAddr {
        match &*self.content {
            NicFrame::Control(_) => MacAddr::default(),
            NicFrame::Packet(packet) => packet.source,
        }
    }

    #[inline]
    fn mark_ce(&mut self) -> bool {
        let is_capable = self.label.head & ECN != 0;
        if is_capable {
            self.label.head |= ECN;
        }
        is_capable
    }

    #[inline]
    fn flow_hash(&self) -> u32 {
        self.label.flow_hash()
    }

    #[inline]
    fn wants_telemetry(&self) -> bool {
        self.label.kind() == STAMPED
    }

    #[inline]
    fn stamp(&mut self, telemetry: &Telemetry) {
        if let NicFrame::Packet(packet) = &mut *self.content {
            packet.stamp(telemetry);
        }
    }

    #[inline]
    fn wants_digest(&self) -> bool {
        self.label.kind() == DIGESTED
    }

    #[inline]
    fn is_unscheduled(&self) -> bool {
        self.label.kind() == UNSCHEDULED
    }

    #[inline]
    fn raise_digest(&mut self, code: u16) {
        if let NicFrame::Packet(packet) = &mut *self.content {
            packet.raise_digest(code);
        }
    }
}
