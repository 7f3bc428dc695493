//! Frames in flight, and their memory.

use std::slice::from_ref;

use prefetch_index::prefetch_index;
use weir_nic::host::NicFrame;
use weir_scenario::link::LinkFrame;
use weir_switch_core::packet::Packet;
use weir_units::{MacAddr, Time};
use weir_wire::ethernet::{Headers, Parsed};
use weir_wire::mac_control::{ControlFrame, FRAME_BYTES};
use weir_wire::rocev2::Ecn;
use weir_wire::trailer::Telemetry;

use super::llr::LlrMessage;

/// Frame between two hosts: a pointer to its content, like an mbuf, and metadata.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    content: Box<NicFrame>,
    metadata: FrameMetadata,
}

/// Fields that switches read. Stored next to the pointer, since each access to the content is a cache miss in a large
/// fabric. Two words, since a frame is moved several times per hop.
#[derive(Clone, Copy, Debug)]
struct FrameMetadata {
    /// Destination address, type-of-service byte (DSCP and ECN), and kind. For flow control, in place of the first two:
    /// the arrival time in ps that triggered it, plus 1; 0 if unknown.
    head: u64,
    /// Flow hash, then the number that link layer retry gives the frame, then length without FCS. For flow control, in place of the
    /// hash: the receiving port.
    tail: u64,
}

const _: () = assert!(size_of::<Frame>() == 24);

const TOS_SHIFT: u32 = 48;
const KIND_SHIFT: u32 = 56;
/// ECN field: both bits set for CE, none for not ECN-capable.
const ECN: u64 = 0b11 << TOS_SHIFT;
const NUMBER_SHIFT: u32 = 32;
const LENGTH_SHIFT: u32 = 48;
/// Kinds: flow control, data, data that collects telemetry, data that collects a digest, and unscheduled data; below the MAC, messages of
/// link layer retry and frames with a bad FCS.
// Constants rather than an enum, since the head is an integer.
const CONTROL: u64 = 0;
const DATA: u64 = 1;
const STAMPED: u64 = 2;
const DIGESTED: u64 = 3;
const UNSCHEDULED: u64 = 4;
const LLR_MESSAGE: u64 = 5;
const BAD_FCS: u64 = 6;

/// Content of frames below the MAC.
const NO_CONTENT: NicFrame = NicFrame::Control(ControlFrame::Pause(0));

/// Free frame memory, last in first out, since the most recent is cached.
#[derive(Debug, Default)]
#[expect(clippy::vec_box, reason = "frames reuse the boxes")]
pub(super) struct FramePool(Vec<Box<NicFrame>>);

impl Frame {
    /// Returns the content, with the ECN marks set on the path.
    #[inline]
    pub(super) fn content(&mut self) -> &mut NicFrame {
        if let NicFrame::Packet(packet) = &mut *self.content {
            packet.ecn = Ecn::from_bits(self.metadata.tos());
        }
        &mut self.content
    }

    #[inline]
    pub(super) fn prefetch(&self) {
        // As long as a cache line, and mostly across two.
        let content = from_ref(&*self.content);
        prefetch_index(content, 0);
        prefetch_index(content, 1);
    }

    /// Sets the arrival time that triggered this flow control.
    pub(super) fn set_crossed(&mut self, at: Time) {
        debug_assert!(self.is_flow_control() && at.as_picos() + 1 < 1 << KIND_SHIFT);
        self.metadata.head = CONTROL << KIND_SHIFT | (at.as_picos() + 1);
    }

    /// Returns the arrival time that triggered this flow control, if known.
    pub(super) fn crossed(&self) -> Option<Time> {
        debug_assert!(self.is_flow_control());
        self.metadata.head.checked_sub(1).map(Time::from_picos)
    }

    /// Sets the length without FCS of this flow control, modulo 2^32: an ordered set is shorter than a frame's overhead.
    pub(super) fn set_frame_bytes(&mut self, frame_bytes: u32) {
        debug_assert!(self.is_flow_control());
        self.metadata.tail = u64::from(frame_bytes as u16) << LENGTH_SHIFT | u64::from(self.port());
    }

    /// Whether the frame is an ordered set of flow control, which link layer retry does not cover.
    pub(super) fn is_ordered_set(&self) -> bool {
        self.is_flow_control()
            && matches!(&*self.content, NicFrame::Control(message) if message.ordered_set().is_some())
    }

    /// Sets the port that receives this flow control.
    pub(super) fn set_port(&mut self, port: u16) {
        debug_assert!(self.is_flow_control());
        self.metadata.tail |= u64::from(port);
    }

    /// Returns the port set by [`Frame::set_port`].
    pub(super) fn port(&self) -> u16 {
        self.metadata.tail as u16
    }

    pub(super) fn destination(&self) -> MacAddr {
        self.metadata.destination()
    }

    #[inline]
    pub(super) fn is_flow_control(&self) -> bool {
        self.metadata.kind() == CONTROL
    }

    /// Sets the number that link layer retry gives the frame on its next link.
    pub(super) fn set_number(&mut self, number: u16) {
        self.metadata.tail = self.metadata.tail & !(0xffff << NUMBER_SHIFT) | u64::from(number) << NUMBER_SHIFT;
    }

    pub(super) fn number(&self) -> u16 {
        (self.metadata.tail >> NUMBER_SHIFT) as u16
    }

    /// Whether the frame is below the MAC: a message of link layer retry, or a frame with a bad FCS.
    pub(super) fn is_below_mac(&self) -> bool {
        self.metadata.kind() >= LLR_MESSAGE
    }

    /// Returns the message of link layer retry.
    pub(super) fn llr_message(&self) -> Option<LlrMessage> {
        let FrameMetadata { head, tail } = self.metadata;
        let number = (tail >> NUMBER_SHIFT) as u16;
        (self.metadata.kind() == LLR_MESSAGE).then_some(match head as u8 {
            0 => LlrMessage::Ack(number),
            1 => LlrMessage::Nack(number),
            2 => LlrMessage::Init(number),
            _ => LlrMessage::Echo(number),
        })
    }

    /// Returns a frame whose bad FCS is found by the receiving MAC.
    pub(super) fn bad_fcs() -> Frame {
        let metadata = FrameMetadata { head: BAD_FCS << KIND_SHIFT, tail: 0 };
        Frame { content: Box::new(NO_CONTENT), metadata }
    }

    /// Returns the content, without the marks set by switches.
    pub(super) fn unmarked_content(&self) -> &NicFrame {
        &self.content
    }
}

impl FrameMetadata {
    #[inline]
    fn new(content: &NicFrame) -> FrameMetadata {
        match content {
            NicFrame::Control(_) => {
                FrameMetadata { head: CONTROL << KIND_SHIFT, tail: (FRAME_BYTES as u64) << LENGTH_SHIFT }
            }
            NicFrame::Packet(packet) => {
                let tos = packet.dscp.get() << 2 | packet.ecn.bits();
                let kind = match packet.collects_stamps() {
                    true => STAMPED,
                    false if packet.collects_digest() => DIGESTED,
                    false if packet.is_unscheduled() => UNSCHEDULED,
                    false => DATA,
                };
                FrameMetadata {
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
        // Signed, for ordered sets.
        (self.tail as i64 >> LENGTH_SHIFT) as u32
    }

    #[inline]
    fn flow_hash(self) -> u32 {
        self.tail as u32
    }
}

impl FramePool {
    #[inline]
    pub(super) fn allocate(&mut self, content: NicFrame) -> Frame {
        let metadata = FrameMetadata::new(&content);
        let content = match self.0.pop() {
            Some(mut place) => {
                *place = content;
                place
            }
            None => Box::new(content),
        };
        Frame { content, metadata }
    }

    /// Returns a copy of a frame.
    pub(super) fn copy(&mut self, frame: &Frame) -> Frame {
        Frame { metadata: frame.metadata, ..self.allocate(NicFrame::clone(&frame.content)) }
    }

    /// Returns the frame that carries a message of link layer retry.
    pub(super) fn allocate_llr_message(&mut self, message: LlrMessage) -> Frame {
        let (kind, number) = match message {
            LlrMessage::Ack(number) => (0, number),
            LlrMessage::Nack(number) => (1, number),
            LlrMessage::Init(number) => (2, number),
            LlrMessage::Echo(number) => (3, number),
        };
        let metadata =
            FrameMetadata { head: LLR_MESSAGE << KIND_SHIFT | kind, tail: u64::from(number) << NUMBER_SHIFT };
        Frame { metadata, ..self.allocate(NO_CONTENT) }
    }

    /// Returns the number of frames for which memory is free.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Takes the memory of `other` beyond `kept` frames.
    pub(super) fn take_from(&mut self, other: &mut FramePool, kept: usize) {
        if other.0.len() > kept {
            self.0.append(&mut other.0.split_off(kept));
        }
    }

    #[inline]
    pub(super) fn recycle(&mut self, frame: Frame) {
        self.0.push(frame.content);
    }
}

impl LinkFrame for Frame {
    fn is_control(&self) -> bool {
        self.metadata.kind() == CONTROL
    }

    fn dscp(&self) -> Option<u8> {
        (self.metadata.kind() != CONTROL && !self.is_below_mac()).then_some(self.metadata.tos() >> 2)
    }
}

impl Packet for Frame {
    #[inline]
    fn frame_bytes(&self) -> u32 {
        self.metadata.frame_bytes()
    }

    #[inline]
    fn is_control(&self) -> bool {
        self.metadata.kind() == CONTROL
    }

    #[inline]
    fn parse(&self) -> Parsed {
        if self.metadata.kind() == CONTROL
            && let NicFrame::Control(frame) = &*self.content
        {
            return Parsed::Control(Ok(*frame));
        }
        Parsed::Data(Headers {
            destination: self.metadata.destination(),
            pcp: None,
            dscp: Some(self.metadata.tos() >> 2),
        })
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
        let is_capable = self.metadata.head & ECN != 0;
        if is_capable {
            self.metadata.head |= ECN;
        }
        is_capable
    }

    #[inline]
    fn flow_hash(&self) -> u32 {
        self.metadata.flow_hash()
    }

    #[inline]
    fn wants_telemetry(&self) -> bool {
        self.metadata.kind() == STAMPED
    }

    #[inline]
    fn stamp(&mut self, telemetry: &Telemetry) {
        if let NicFrame::Packet(packet) = &mut *self.content {
            packet.stamp(telemetry);
        }
    }

    #[inline]
    fn wants_digest(&self) -> bool {
        self.metadata.kind() == DIGESTED
    }

    #[inline]
    fn is_unscheduled(&self) -> bool {
        self.metadata.kind() == UNSCHEDULED
    }

    #[inline]
    fn raise_digest(&mut self, code: u16) {
        if let NicFrame::Packet(packet) = &mut *self.content {
            packet.raise_digest(code);
        }
    }
}
