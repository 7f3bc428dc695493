//! Transmit backlog of a NIC.

use weir_units::{BitRate, Bytes, Span};

/// Bound on a NIC's transmit backlog: data handed over to its transmit queues, minus the data that its link has carried since. The
/// backlog leaves ahead of a PAUSE, and no PAUSE of the peer stops it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxBacklog {
    /// Time of the backlog on the link. Two frames of maximum length may take longer.
    pub time: Span,
    /// Bytes of the longest frame on the wire.
    pub frame_max: Bytes,
    /// `time_dilation`: the link's speed on the switch's clock over that in real time. The other fields are on the switch's clock.
    pub dilation: u32,
}

impl TxBacklog {
    /// Speed of a link on the switch's clock.
    pub fn on_clock(&self, link: BitRate) -> BitRate {
        link * u64::from(self.dilation)
    }

    /// Upper bound on the time of the backlog on a link of this speed, on the switch's clock.
    pub fn bound(&self, link: BitRate) -> Span {
        self.time.max(link.time_for(self.frame_max * 2))
    }

    /// Largest backlog that leaves room for a frame of maximum length.
    pub(crate) fn room(&self, link: BitRate) -> Bytes {
        link.bytes_in(self.bound(link)).saturating_sub(self.frame_max)
    }

    /// Lowest rate of a link of this speed: 200 ppm less, 100 ppm for each end's clock (IEEE 802.3). At a slightly higher
    /// rate the ring would fill over time.
    pub(crate) fn least_rate(link: BitRate) -> BitRate {
        BitRate::bps((link.as_bps() - link.as_bps() / 5_000).max(1))
    }
}
