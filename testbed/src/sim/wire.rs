//! One direction of a link in virtual time: its sender's wire, and the way from there.

use std::collections::VecDeque;

use weir_flowctl::wire_bytes;
use weir_switch_core::Packet;
use weir_units::{BitRate, Serialiser, Span, Time};

use crate::host::NicFrame;
use crate::link::{FaultCounters, FaultPlan, Lane};

/// A frame takes its time on the wire, with FCS, preamble and gap, and then the propagation delay: it has arrived with its
/// last byte. One that is sent while another is on the wire waits for that one's end.
#[derive(Debug)]
pub(super) struct Wire {
    /// The station at the far end, and its port.
    pub(super) to: (u32, u16),
    serialiser: Serialiser,
    delay: Span,
    free_at: Time,
    way: Way,
    /// Whether frames come through.
    is_up: bool,
    /// Frames that were sent while it was not, or were on the way when it went down.
    cut_off: u64,
}

/// Frames on the wire, before it and behind it.
#[derive(Debug)]
enum Way {
    /// With the instant at which each one has arrived.
    Plain(VecDeque<(Time, NicFrame)>),
    Faulty(Box<FaultyWay>),
}

#[derive(Debug)]
struct FaultyWay {
    /// With the instant at which each one's last byte leaves: what befalls a frame has to wait for that.
    leaving: VecDeque<(Time, NicFrame)>,
    lane: Lane<NicFrame>,
}

/// What a frame of the least length takes of the wire.
const FRAME_WIRE_BYTES_MIN: u64 = 84;
/// Frames that a sender may hand over at one instant, and be it for the copies that faults make.
const BURST: usize = 256;

impl Wire {
    pub(super) fn new(rate: BitRate, delay: Span, faults: FaultPlan, to: (u32, u16)) -> Wire {
        let way = if faults.is_none() {
            Way::Plain(VecDeque::new())
        } else {
            // A lane with faults wants room for three of each frame.
            let under_way = (rate.bytes_in(delay).get() / FRAME_WIRE_BYTES_MIN) as usize + BURST;
            Way::Faulty(Box::new(FaultyWay { leaving: VecDeque::new(), lane: Lane::new(delay, 3 * under_way, faults) }))
        };
        Wire { to, serialiser: Serialiser::new(rate), delay, free_at: Time::ZERO, way, is_up: true, cut_off: 0 }
    }

    /// Puts a frame on the wire at `now`, or behind those that are there.
    #[inline]
    pub(super) fn send(&mut self, now: Time, frame: NicFrame) {
        let leaves = self.free_at.max(now) + self.serialiser.time_for(wire_bytes(frame.frame_bytes()));
        self.free_at = leaves;
        if !self.is_up {
            self.cut_off += 1;
            return;
        }
        match &mut self.way {
            Way::Plain(frames) => frames.push_back((leaves + self.delay, frame)),
            Way::Faulty(way) => way.leaving.push_back((leaves, frame)),
        }
    }

    /// The next frame that has arrived by `now`.
    #[inline]
    pub(super) fn poll(&mut self, now: Time) -> Option<NicFrame> {
        match &mut self.way {
            Way::Plain(frames) => {
                if frames.front()?.0 > now {
                    return None;
                }
                frames.pop_front().map(|(_, frame)| frame)
            }
            Way::Faulty(way) => way.poll(now),
        }
    }

    /// When [`Wire::poll`] is to be called next.
    #[inline]
    pub(super) fn next_wakeup(&self) -> Time {
        match &self.way {
            Way::Plain(frames) => frames.front().map_or(Time::NEVER, |(arrives, _)| *arrives),
            Way::Faulty(way) => way.next_wakeup(),
        }
    }

    /// Cuts the wire, with what is on it, or mends it.
    pub(super) fn set_up(&mut self, is_up: bool) {
        self.is_up = is_up;
        if !is_up {
            self.cut_off += match &mut self.way {
                Way::Plain(frames) => {
                    let cut_off = frames.len();
                    frames.clear();
                    cut_off as u64
                }
                Way::Faulty(way) => {
                    let cut_off = way.leaving.len() + way.lane.held();
                    way.leaving.clear();
                    way.lane.clear();
                    cut_off as u64
                }
            };
        }
    }

    /// When the last frame that was sent arrives; [`Time::NEVER`] if the wire is cut.
    pub(super) fn last_arrives(&self) -> Time {
        if self.is_up { self.free_at + self.delay } else { Time::NEVER }
    }

    /// Frames lost because the wire was cut.
    pub(super) fn cut_off(&self) -> u64 {
        self.cut_off
    }

    pub(super) fn fault_counters(&self) -> FaultCounters {
        match &self.way {
            Way::Plain(_) => FaultCounters::default(),
            Way::Faulty(way) => way.lane.fault_counters(),
        }
    }

    /// Frames on their way.
    pub(super) fn under_way(&self) -> usize {
        match &self.way {
            Way::Plain(frames) => frames.len(),
            Way::Faulty(way) => way.leaving.len() + way.lane.held(),
        }
    }
}

impl FaultyWay {
    fn poll(&mut self, now: Time) -> Option<NicFrame> {
        while let Some((leaves, _)) = self.leaving.front()
            && *leaves <= now
            && let Some((leaves, frame)) = self.leaving.pop_front()
        {
            self.lane.handle(leaves, frame, |frame| Some(frame.clone()));
        }
        self.lane.poll(now)
    }

    fn next_wakeup(&self) -> Time {
        self.leaving.front().map_or(Time::NEVER, |(leaves, _)| *leaves).min(self.lane.next_wakeup())
    }
}
