//! Frames on emulated links, and how much a link holds.

use weir_dpdk_io::{Mbuf, Mempool};
use weir_results::feedback::FeedbackProbe;
use weir_scenario::link::{FaultPlan, LinkFrame, ipv4_dscp};
use weir_units::{BitRate, Span, Time};
use weir_wire::mac_control::ControlFrame;

use super::board::Board;
use super::instants::PortInstants;
use crate::lane::Lane;

/// Frames that one poll moves in each direction at most.
pub(super) const BURST: usize = 32;

/// A frame on a link.
#[derive(Debug)]
pub(super) struct OnLink {
    pub(super) mbuf: Mbuf,
    /// The arrival that a control frame was sent for, if that is known.
    pub(super) crossed: Option<Time>,
}

/// What a link needs to be made.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkShape {
    /// Propagation delay, one way.
    pub(super) delay: Span,
    /// Frames that it holds in each direction.
    pub(super) frames: usize,
    /// What goes wrong in each direction.
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
    /// The frame, without FCS.
    pub(super) fn bytes(&self) -> &[u8] {
        self.mbuf.data()
    }

    /// A frame that enters a link from the port of these instants.
    pub(super) fn from_port(mbuf: Mbuf, instants: &PortInstants, board: &Board) -> OnLink {
        let crossed = if ControlFrame::is_control(mbuf.data()) { instants.crossed(board) } else { None };
        OnLink { mbuf, crossed }
    }

    /// Tells the probe of the data that flows the other way of a control frame that is delivered.
    pub(super) fn tell(&self, now: Time, probe: Option<&mut FeedbackProbe>) {
        if let (Some(probe), Some(crossed)) = (probe, self.crossed) {
            probe.handle_message(now, crossed, self.bytes());
        }
    }

    /// A copy of this frame; `None` if the pool is exhausted.
    pub(super) fn copy(&self, pool: &Mempool) -> Option<OnLink> {
        self.mbuf.copy(pool).map(|mbuf| OnLink { mbuf, ..*self })
    }
}

impl LinkShape {
    /// A link whose ends send at `rate` and are polled up to `late` late. It holds the delay and a late poll at line rate, in
    /// frames a quarter of the usual size.
    pub(super) fn new(rate: BitRate, delay: Span, late: Span, faults: [FaultPlan; 2]) -> LinkShape {
        const FRAME_BYTES: u64 = 256;
        let frames = (rate.bytes_in(delay + late).get() / FRAME_BYTES) as usize + BURST * 2;
        LinkShape { delay, frames, faults }
    }

    /// Both directions.
    pub(super) fn lanes(&self) -> [Lane<OnLink>; 2] {
        self.faults.map(|faults| Lane::new(self.delay, self.frames, faults))
    }

    /// Mbufs that the link and whoever polls it may hold.
    pub(super) fn mbufs(&self) -> usize {
        let on_lanes = self.faults.iter().map(|faults| Lane::<OnLink>::frames_max(self.frames, faults));
        on_lanes.sum::<usize>() + 4 * BURST
    }
}
