//! An mbuf as the switch core sees a packet.

use weir_dpdk_io::{Mbuf, Mempool};
use weir_switch_core::{Packet, PacketAllocator};
use weir_units::{FCS_BYTES, FRAME_BYTES_MIN, MacAddr};
use weir_wire::ethernet::{FastHeaders, Parsed};
use weir_wire::mac_control::ControlFrame;
use weir_wire::trailer::{self, Telemetry};
use weir_wire::{HeaderKey, ethernet, flow_hash, loop_guard};

/// A frame in an mbuf.
#[derive(Debug)]
#[repr(transparent)]
pub struct Frame(pub Mbuf);

impl From<Mbuf> for Frame {
    #[inline(always)]
    fn from(mbuf: Mbuf) -> Frame {
        Frame(mbuf)
    }
}

impl From<Frame> for Mbuf {
    #[inline(always)]
    fn from(frame: Frame) -> Mbuf {
        frame.0
    }
}

impl Packet for Frame {
    #[inline]
    fn frame_bytes(&self) -> u32 {
        self.0.len()
    }

    #[inline]
    fn is_control(&self) -> bool {
        ControlFrame::is_control(self.0.data())
    }

    // Always: as for `ForwardingTable::lookup`, each packet would pay for a call.
    #[inline(always)]
    fn parse(&self) -> Parsed {
        ethernet::parse(self.0.data())
    }

    #[inline(always)]
    fn parse_fast(&self) -> FastHeaders {
        ethernet::parse_fast(self.0.data())
    }

    #[inline(always)]
    fn header_key(&self) -> Option<HeaderKey> {
        weir_wire::header_key(self.0.data())
    }

    #[inline(always)]
    fn prefetch(&self) {
        self.0.prefetch_descriptor();
    }

    #[inline(always)]
    fn prefetch_early(&self) {
        self.0.prefetch_early();
    }

    #[inline]
    fn source(&self) -> MacAddr {
        ethernet::source(self.0.data())
    }

    #[inline]
    fn is_of_loop_guard(&self) -> bool {
        loop_guard::is_forwarded(self.0.data())
    }

    #[inline]
    fn tag(&self) -> Option<u16> {
        ethernet::tag(self.0.data())
    }

    fn set_tag(&mut self, tag: Option<u16>) -> bool {
        const TAG_BYTES: u16 = ethernet::TAG_BYTES as u16;
        match (self.tag(), tag) {
            (None, None) => {}
            (Some(_), Some(tag)) => ethernet::write_tag(self.0.data_mut(), tag),
            (None, Some(tag)) => {
                if self.0.prepend(TAG_BYTES).is_none() {
                    return false;
                }
                ethernet::insert_tag(self.0.data_mut(), tag);
            }
            (Some(_), None) => {
                ethernet::remove_tag(self.0.data_mut());
                self.0.trim_front(TAG_BYTES);
                let missing = SHORTEST_BYTES.saturating_sub(self.0.len()).min(u32::from(TAG_BYTES));
                if let Some(padding) = self.0.append(missing as u16) {
                    padding.fill(0);
                }
            }
        }
        true
    }

    fn mark_ce(&mut self) -> bool {
        ethernet::mark_ce(self.0.data_mut())
    }

    fn flow_hash(&self) -> u32 {
        flow_hash::flow_hash(self.0.data())
    }

    #[inline]
    fn wants_telemetry(&self) -> bool {
        trailer::has_place(self.0.data())
    }

    #[inline]
    fn stamp(&mut self, telemetry: &Telemetry) {
        trailer::stamp(self.0.data_mut(), telemetry);
    }
}

/// Length of the shortest Ethernet frame, without FCS.
const SHORTEST_BYTES: u32 = (FRAME_BYTES_MIN - FCS_BYTES) as u32;

/// Pools of the frames that the switch makes itself.
#[derive(Clone, Debug)]
pub struct FrameStore {
    /// Pool for copies of flooded frames: the buffer's own.
    pub data: Mempool,
    /// Separate pool for flow-control frames, so that a full buffer does not keep a PAUSE from being sent.
    pub control: Mempool,
}

impl PacketAllocator<Frame> for FrameStore {
    fn copy(&mut self, packet: &Frame) -> Option<Frame> {
        packet.0.copy(&self.data).map(Frame)
    }

    fn control(&mut self, frame: &ControlFrame, source: MacAddr) -> Option<Frame> {
        let bytes = frame.encode(source);
        let mut mbuf = self.control.alloc()?;
        mbuf.append(bytes.len() as u16)?.copy_from_slice(&bytes);
        Some(Frame(mbuf))
    }
}
