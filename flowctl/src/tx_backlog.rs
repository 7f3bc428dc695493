//! The transmit backlog of a NIC.

use weir_units::{BitRate, Bytes, Span};

/// The bound on a NIC's transmit backlog: data that its transmit queues were handed over and its link has not carried yet.
///
/// It stands ahead of a PAUSE, and no PAUSE of the peer's holds it. It is reckoned and not read: what was handed over, less what
/// the link carries meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxBacklog {
    /// How long the link may take for it, where two frames of the greatest length do not take longer.
    pub time: Span,
    /// What the longest frame takes on the wire.
    pub frame_max: Bytes,
    /// `time_dilation`: how many times as fast the link is on the switch's clock, which the other fields are on.
    pub dilation: u32,
}

impl TxBacklog {
    /// The speed of a link on the switch's clock.
    pub fn on_clock(&self, link: BitRate) -> BitRate {
        link * u64::from(self.dilation)
    }

    /// How long a link of this speed, on the switch's clock, takes for the backlog at most.
    pub fn bound(&self, link: BitRate) -> Span {
        self.time.max(link.time_for(self.frame_max * 2))
    }

    /// The backlog in which a frame of the greatest length still has room.
    pub(crate) fn room(&self, link: BitRate) -> Bytes {
        link.bytes_in(self.bound(link)).saturating_sub(self.frame_max)
    }

    /// What a link of this speed carries at least: 200 ppm less. IEEE 802.3 lets the NIC's clock be off by 100 ppm, and the machine's may
    /// be too. A little too much each second would fill the ring in the end.
    pub(crate) fn least_rate(link: BitRate) -> BitRate {
        BitRate::bps((link.as_bps() - link.as_bps() / 5_000).max(1))
    }
}
