//! Frames as bytes, parsed by the code that parses those in mbufs.

use weir_switch_core::Packet;
use weir_units::{FCS_BYTES, FRAME_BYTES_MIN, MacAddr};
use weir_wire::ethernet::{FastHeaders, Parsed, TAG_BYTES};
use weir_wire::mac_control::ControlFrame;
use weir_wire::trailer::{self, Telemetry};
use weir_wire::{HeaderKey, ethernet, flow_hash, loop_guard};

/// Bytes of a frame that are kept: all headers. The rest of a longer frame is a number.
const KEPT_BYTES: usize = 104;
/// Room for a tag in front of the frame.
const ROOM: usize = 8;
/// Length of the shortest Ethernet frame, without FCS.
const SHORTEST_BYTES: u32 = (FRAME_BYTES_MIN - FCS_BYTES) as u32;

/// Frame with its headers as bytes.
#[derive(Clone, Debug)]
pub(super) struct FuzzFrame {
    head: [u8; ROOM + KEPT_BYTES],
    start: u8,
    end: u8,
    /// Bytes behind the kept ones.
    tail: u32,
    /// Port that received the frame.
    pub(super) from: u8,
    /// Number of the headers that decide the frame's class; `None` if order is not checked.
    pub(super) stream: Option<u8>,
    /// Number in order of arrival.
    pub(super) sequence: u32,
}

impl FuzzFrame {
    /// Number of different streams of a port.
    pub(super) const STREAMS: usize = 16;

    /// Creates a frame of `frame_bytes`, without FCS, that begins with `head`.
    pub(super) fn new(head: &[u8], frame_bytes: u32) -> FuzzFrame {
        let kept = KEPT_BYTES.min(frame_bytes as usize);
        let mut frame = FuzzFrame {
            head: [0; ROOM + KEPT_BYTES],
            start: ROOM as u8,
            end: (ROOM + kept) as u8,
            tail: frame_bytes - kept as u32,
            from: 0,
            stream: None,
            sequence: 0,
        };
        let given = head.len().min(kept);
        frame.head[ROOM..ROOM + given].copy_from_slice(&head[..given]);
        frame
    }

    /// Sets the length, without FCS, of a frame that keeps all bytes that it can.
    #[inline]
    pub(super) fn set_length(&mut self, frame_bytes: u32) {
        let kept = (KEPT_BYTES as u32).min(frame_bytes);
        self.end = self.start + kept as u8;
        self.tail = frame_bytes - kept;
    }

    #[inline(always)]
    pub(super) fn data(&self) -> &[u8] {
        &self.head[usize::from(self.start)..usize::from(self.end)]
    }

    #[inline]
    pub(super) fn data_mut(&mut self) -> &mut [u8] {
        &mut self.head[usize::from(self.start)..usize::from(self.end)]
    }
}

impl Packet for FuzzFrame {
    #[inline]
    fn frame_bytes(&self) -> u32 {
        u32::from(self.end - self.start) + self.tail
    }

    #[inline]
    fn is_control(&self) -> bool {
        ControlFrame::is_control(self.data())
    }

    #[inline]
    fn parse(&self) -> Parsed {
        ethernet::parse(self.data())
    }

    #[inline]
    fn parse_fast(&self) -> FastHeaders {
        ethernet::parse_fast(self.data())
    }

    #[inline]
    fn header_key(&self) -> Option<HeaderKey> {
        weir_wire::header_key(self.data())
    }

    #[inline]
    fn source(&self) -> MacAddr {
        ethernet::source(self.data())
    }

    #[inline]
    fn is_of_loop_guard(&self) -> bool {
        loop_guard::is_forwarded(self.data())
    }

    #[inline]
    fn tag(&self) -> Option<u16> {
        ethernet::tag(self.data())
    }

    fn set_tag(&mut self, tag: Option<u16>) -> bool {
        const TAG: u8 = TAG_BYTES as u8;
        match (self.tag(), tag) {
            (None, None) => {}
            (Some(_), Some(tag)) => ethernet::write_tag(self.data_mut(), tag),
            (None, Some(tag)) => {
                if self.start < TAG {
                    return false;
                }
                self.start -= TAG;
                ethernet::insert_tag(self.data_mut(), tag);
            }
            (Some(_), None) => {
                ethernet::remove_tag(self.data_mut());
                self.start += TAG;
                let missing = SHORTEST_BYTES.saturating_sub(self.frame_bytes()).min(TAG_BYTES as u32) as usize;
                let end = usize::from(self.end);
                self.head[end..end + missing].fill(0);
                self.end += missing as u8;
            }
        }
        true
    }

    fn mark_ce(&mut self) -> bool {
        ethernet::mark_ce(self.data_mut())
    }

    fn flow_hash(&self) -> u32 {
        flow_hash::flow_hash(self.data())
    }

    #[inline]
    fn wants_telemetry(&self) -> bool {
        self.tail == 0 && trailer::has_place(self.data())
    }

    fn stamp(&mut self, telemetry: &Telemetry) {
        trailer::stamp(self.data_mut(), telemetry);
    }
}
