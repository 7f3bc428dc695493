//! One direction of a link in virtual time: its sender's wire, and the way from there.

use std::collections::VecDeque;

use weir_flowctl::wire_bytes;
use weir_switch_core::Packet;
use weir_units::{BitRate, PortId, Serialiser, Span, Time};

use super::frame::{FramePool, SimFrame};
use crate::link::{FaultCounters, FaultPlan, Lane};

/// A frame takes its time on the wire, with FCS, preamble and gap, and then the propagation delay: it has arrived with its
/// last byte. One that is sent while another is on the wire waits for that one's end.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) to: Far,
    serialiser: Serialiser,
    free_at: Time,
    /// Frames on the wire and before it, with the instant at which each one's last byte leaves: where what befalls a frame
    /// has to wait for that.
    leaving: VecDeque<(Time, SimFrame)>,
    has_faults: bool,
    lane: Lane<SimFrame>,
}

/// What is at the far end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Far {
    Switch(usize, PortId),
    Host(usize),
}

/// What a frame of the least length takes of the wire.
const FRAME_WIRE_BYTES_MIN: u64 = 84;
/// Frames that a sender may hand over at one instant, and be it for the copies that faults make.
const BURST: usize = 256;

impl Wire {
    pub(super) fn new(rate: BitRate, delay: Span, faults: FaultPlan, to: Far) -> Wire {
        let under_way = (rate.bytes_in(delay).get() / FRAME_WIRE_BYTES_MIN) as usize + BURST;
        let has_faults = !faults.is_none();
        // A lane with faults wants room for three of each frame.
        let capacity = if has_faults { 3 * under_way } else { under_way };
        Wire {
            to,
            serialiser: Serialiser::new(rate),
            free_at: Time::ZERO,
            leaving: VecDeque::new(),
            has_faults,
            lane: Lane::new(delay, capacity, faults),
        }
    }

    /// Puts a frame on the wire at `now`, or behind those that are there.
    #[inline]
    pub(super) fn send(&mut self, now: Time, frame: SimFrame) {
        let leaves = self.free_at.max(now) + self.serialiser.time_for(wire_bytes(frame.frame_bytes()));
        self.free_at = leaves;
        if self.has_faults {
            self.leaving.push_back((leaves, frame));
        } else {
            // Nothing can come between.
            self.lane.handle(leaves, frame, |_| None);
        }
    }

    /// The next frame that has arrived by `now`.
    #[inline]
    pub(super) fn poll(&mut self, now: Time, pool: &FramePool) -> Option<SimFrame> {
        while let Some((leaves, _)) = self.leaving.front()
            && *leaves <= now
            && let Some((leaves, frame)) = self.leaving.pop_front()
        {
            self.lane.handle(leaves, frame, |frame| Some(pool.copy(frame)));
        }
        self.lane.poll(now)
    }

    /// When [`Wire::poll`] is to be called next.
    #[inline]
    pub(super) fn next_wakeup(&self) -> Time {
        self.leaving.front().map_or(Time::NEVER, |(leaves, _)| *leaves).min(self.lane.next_wakeup())
    }

    pub(super) fn fault_counters(&self) -> FaultCounters {
        self.lane.fault_counters()
    }
}
