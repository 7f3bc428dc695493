//! Frames on emulated links, and the capacity of a link.

use weir_dpdk_io::{Mbuf, Mempool};
use weir_results::feedback::FeedbackProbe;
use weir_scenario::link::{FaultPlan, LinkFrame, ipv4_dscp};
use weir_units::{BitRate, Span, Time};
use weir_wire::mac_control::ControlFrame;

use super::instants::PortInstants;
use super::shared_stats::SharedStats;
use crate::delayed_link::DelayedLink;

/// Largest number of frames moved in each direction by one poll.
pub(super) const BURST: usize = 32;

#[derive(Debug)]
pub(super) struct InFlightFrame {
    pub(super) mbuf: Mbuf,
    /// Arrival time that triggered a control frame, if known.
    pub(super) crossed: Option<Time>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct LinkConfig {
    /// Propagation delay, one direction.
    pub(super) delay: Span,
    /// Frames that each direction can hold.
    pub(super) frames: usize,
    pub(super) faults: [FaultPlan; 2],
}

impl LinkFrame for InFlightFrame {
    fn is_control(&self) -> bool {
        ControlFrame::is_control(self.bytes())
    }

    fn dscp(&self) -> Option<u8> {
        ipv4_dscp(self.bytes())
    }
}

impl InFlightFrame {
    /// Returns the frame's bytes, without FCS.
    pub(super) fn bytes(&self) -> &[u8] {
        self.mbuf.data()
    }

    /// Creates a frame entering a link from the port with these timestamps.
    pub(super) fn from_port(mbuf: Mbuf, instants: &PortInstants, shared_stats: &SharedStats) -> InFlightFrame {
        let crossed = if ControlFrame::is_control(mbuf.data()) { instants.crossed(shared_stats) } else { None };
        InFlightFrame { mbuf, crossed }
    }

    /// Passes a delivered control frame to the feedback probe of the opposite direction's data.
    pub(super) fn pass_to_probe(&self, now: Time, probe: Option<&mut FeedbackProbe>) {
        if let (Some(probe), Some(crossed)) = (probe, self.crossed) {
            probe.handle_message(now, crossed, self.bytes());
        }
    }

    /// Copies the frame; `None` if the pool is exhausted.
    pub(super) fn copy(&self, pool: &Mempool) -> Option<InFlightFrame> {
        self.mbuf.copy(pool).map(|mbuf| InFlightFrame { mbuf, ..*self })
    }
}

impl LinkConfig {
    /// Creates the parameters of a link whose ends send at `rate` and are polled at most `late` late. Capacity covers
    /// the delay and a late poll at line rate, in frames a quarter of the usual size.
    pub(super) fn new(rate: BitRate, delay: Span, late: Span, faults: [FaultPlan; 2]) -> LinkConfig {
        const FRAME_BYTES: u64 = 256;
        let frames = (rate.bytes_in(delay + late).get() / FRAME_BYTES) as usize + BURST * 2;
        LinkConfig { delay, frames, faults }
    }

    pub(super) fn directions(&self) -> [DelayedLink<InFlightFrame>; 2] {
        self.faults.map(|faults| DelayedLink::new(self.delay, self.frames, faults))
    }

    /// Returns the number of mbufs that the link and its poller may hold.
    pub(super) fn mbufs(&self) -> usize {
        let in_flight = self.faults.iter().map(|faults| DelayedLink::<InFlightFrame>::frames_max(self.frames, faults));
        in_flight.sum::<usize>() + 4 * BURST
    }
}
