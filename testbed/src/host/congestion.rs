//! Congestion control of a flow: which algorithm, and the pace that it sets.
//!
//! An algorithm is a file of its own that knows a rate, and is told of frames sent and of feedback. To add one: a variant
//! of [`CongestionControl`] with its parameters, one of `Algorithm` with its state, and a line in each `match` here.

use weir_flowctl::wire_bytes;
use weir_units::{BitRate, Span, Time};

use super::dcqcn::{Dcqcn, DcqcnConfig};

/// What controls a flow's rate end to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CongestionControl {
    /// Nothing does: the flow sends as fast as line and PFC let it.
    #[default]
    None,
    /// DCQCN: the receiver notifies the sender of frames that a switch marked.
    Dcqcn(DcqcnConfig),
}

/// A flow's pace under congestion control.
#[derive(Debug)]
pub(super) struct Controlled {
    algorithm: Algorithm,
    /// When the next frame may be sent. A change of rate counts from the frame after.
    free_at: Time,
    slack: Span,
}

#[derive(Debug)]
enum Algorithm {
    Dcqcn(Dcqcn),
}

impl CongestionControl {
    /// The algorithm's name.
    pub fn name(&self) -> &'static str {
        match self {
            CongestionControl::None => "none",
            CongestionControl::Dcqcn(_) => "dcqcn",
        }
    }

    /// How often at most the receiver sends congestion notifications; `None` for never.
    pub(super) fn cnp_interval(&self) -> Option<Span> {
        match self {
            CongestionControl::None => None,
            CongestionControl::Dcqcn(config) => Some(config.cnp_interval),
        }
    }
}

impl Controlled {
    /// A flow on a line of this rate that may catch up `slack` of its pace; `None` if nothing controls it.
    pub(super) fn new(control: &CongestionControl, line: BitRate, slack: Span) -> Option<Controlled> {
        let algorithm = match control {
            CongestionControl::None => return None,
            CongestionControl::Dcqcn(config) => Algorithm::Dcqcn(Dcqcn::new(config, line)),
        };
        Some(Controlled { algorithm, free_at: Time::ZERO, slack })
    }

    /// When the next frame may be sent.
    #[inline]
    pub(super) fn free_at(&self) -> Time {
        self.free_at
    }

    /// A frame of this length (without FCS) has been sent.
    pub(super) fn handle_sent(&mut self, now: Time, frame_bytes: u32) {
        let wire = wire_bytes(frame_bytes);
        let Algorithm::Dcqcn(dcqcn) = &mut self.algorithm;
        dcqcn.handle_sent(now, wire);
        let start = self.free_at.max(now.saturating_sub(self.slack));
        self.free_at = start.saturating_add(dcqcn.rate().time_for(wire));
    }

    /// A congestion notification has arrived.
    pub(super) fn handle_cnp(&mut self, now: Time) {
        let Algorithm::Dcqcn(dcqcn) = &mut self.algorithm;
        dcqcn.handle_cnp(now);
    }
}
