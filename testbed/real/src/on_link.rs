//! Frames on emulated links, and the capacity of a link.

use weir_dpdk_io::{Mbuf, Mempool};
use weir_results::feedback::FeedbackProbe;
use weir_scenario::link::{FaultPlan, LinkFrame, ipv4_dscp};
use weir_units::{BitRate, Span, Time};
use weir_wire::mac_control::ControlFrame;

use super::board::Board;
use super::instants::PortInstants;
use crate::lane::Lane;

/// Largest number of frames moved in each direction by one poll.
pub(super) const BURST: usize = 32;

#[derive(Debug)]
pub(super) struct OnLink {
    pub(super) mbuf: Mbuf,
    /// Arrival time that triggered a control frame, if known.
    pub(super) crossed: Option<Time>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct LinkShape {
    /// Propagation delay, one direction.
    pub(super) delay: Span,
    /// Frames that each direction can hold.
    pub(super) frames: usize,
    pub(super) faults: [FaultPlan; 2],
}

impl LinkFrame for OnLink {
    fn is_control(&self) -> bool {
        ControlFrame::is_control(self.bytes())
    }

    fn dscp(&self) -> Option<u8> {
        ipv4_dscp(self.bytes())
    }
}

impl OnLink {
    /// Returns the frame's bytes, without FCS.
    pub(super) fn bytes(&self) -> &[u8] {
        self.mbuf.data()
    }

    /// Creates a frame entering a link from the port with these timestamps.
    pub(super) fn from_port(mbuf: Mbuf, instants: &PortInstants, board: &Board) -> OnLink {
        let crossed = if ControlFrame::is_control(mbuf.data()) { instants.crossed(board) } else { None };
        OnLink { mbuf, crossed }
    }

    /// Passes a delivered control frame to the feedback probe of the opposite direction's data.
    pub(super) fn tell(&self, now: Time, probe: Option<&mut FeedbackProbe>) {
        if let (Some(probe), Some(crossed)) = (probe, self.crossed) {
            probe.handle_message(now, crossed, self.bytes());
        }
    }

    /// Copies the frame; `None` if the pool is exhausted.
    pub(super) fn copy(&self, pool: &Mempool) -> Option<OnLink> {
        self.mbuf.copy(pool).map(|mbuf| OnLink { mbuf, ..*self })
    }
}

impl LinkShape {
    /// Creates the parameters of a link whose ends send at `rate` and are polled at most `late` late. Capacity covers
    /// the delay and a late poll at line rate, in frames a quarter of the usual size.
    pub(super) fn new(rate: BitRate, delay: Span, late: Span, faults: [FaultPlan; 2]) -> LinkShape {
        const FRAME_BYTES: u64 = 256;
        let frames = (rate.bytes_in(delay + late).get() / FRAME_BYTES) as usize + BURST * 2;
        LinkShape { delay, frames, faults }
    }

    pub(super) fn lanes(&self) -> [Lane<OnLink>; 2] {
        self.faults.map(|faults| Lane::new(self.delay, self.frames, faults))
    }

    /// Returns the number of mbufs that the link and its poller may hold.
    pub(super) fn mbufs(&self) -> usize {
        let on_lanes = self.faults.iter().map(|faults| Lane::<OnLink>::frames_max(self.frames, faults));
        on_lanes.sum::<usize>() + 4 * BURST
    }
}
