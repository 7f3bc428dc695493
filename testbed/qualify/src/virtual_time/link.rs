//! Links, and the frames on them.

use weir_switch_core::Packet;
use weir_units::{BitRate, Bytes, LINK_OVERHEAD, MacAddr, PortId, SerialisationDelay, Span, Time};
use weir_wire::ethernet::Parsed;

use super::{EventSchedule, VirtualEvent};

/// Frame as a few numbers, or a control frame's meaning.
#[derive(Clone, Debug)]
pub(super) struct TesterFrame {
    /// Length without FCS.
    pub(super) bytes: u32,
    pub(super) parsed: Parsed,
    pub(super) source: MacAddr,
    /// Number of the stream, and of the frame in it.
    pub(super) stream: usize,
    pub(super) number: u64,
    pub(super) ect: bool,
    pub(super) ce: bool,
}

/// One direction of a link, away from its sender.
#[derive(Debug)]
pub(super) struct TesterLink {
    pub(super) far: FarEnd,
    pub(super) is_up: bool,
    delay: Span,
    serialisation: SerialisationDelay,
    free_at: Time,
}

/// Receiver of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FarEnd {
    TrafficTester(usize),
    Switch(usize, PortId),
}

impl TesterLink {
    pub(super) fn new(far: FarEnd, rate: BitRate, delay: Span) -> TesterLink {
        TesterLink { far, is_up: true, delay, serialisation: SerialisationDelay::new(rate), free_at: Time::ZERO }
    }

    /// Sends a frame after those before it; it arrives with its last byte, or is lost on a link that is down. Returns the end of its
    /// transmission.
    pub(super) fn send(&mut self, now: Time, frame: TesterFrame, events: &mut EventSchedule) -> Time {
        let wire_bytes = Bytes::new(u64::from(frame.bytes)) + LINK_OVERHEAD;
        self.free_at = self.free_at.max(now) + self.serialisation.time_for(wire_bytes);
        if self.is_up {
            let event = match self.far {
                FarEnd::TrafficTester(port) => VirtualEvent::ToTester(port, frame),
                FarEnd::Switch(switch, port) => VirtualEvent::ToSwitch(switch, port, frame),
            };
            events.schedule(self.free_at + self.delay, event);
        }
        self.free_at
    }

    /// Instant from which on the next frame can start.
    pub(super) fn free_at(&self) -> Time {
        self.free_at
    }
}

impl Packet for TesterFrame {
    fn frame_bytes(&self) -> u32 {
        self.bytes
    }

    fn is_control(&self) -> bool {
        matches!(self.parsed, Parsed::Control(_))
    }

    fn parse(&self) -> Parsed {
        self.parsed
    }

    fn source(&self) -> MacAddr {
        self.source
    }

    fn mark_ce(&mut self) -> bool {
        self.ce |= self.ect;
        self.ce
    }

    fn flow_hash(&self) -> u32 {
        self.stream as u32
    }
}
