//! Congestion control of a flow: which algorithm, and the rate and the window that it sets. Sans-I/O.
//!
//! An algorithm is a file of its own that is told of frames sent and of feedback, and knows a rate and, some of them, a
//! window. To add one: a variant of [`CongestionControl`] with its parameters, one of `Algorithm` with its state, and a line
//! in each `match` here. `docs/CONGESTION_CONTROL.md` compares them, and has the presets.

mod bounds;
mod dcqcn;
mod dcqcn_ns3;
mod hops;
mod hpcc;
mod power_tcp;
mod presets;
#[cfg(test)]
mod tests;
mod timely;

pub use dcqcn::DcqcnConfig;
pub use dcqcn_ns3::DcqcnNs3Config;
pub use hops::{HOPS_MAX, HopTelemetry};
pub use hpcc::HpccConfig;
pub use power_tcp::PowerTcpConfig;
pub use timely::{Completion, TimelyConfig};

use weir_units::{BitRate, Bytes, Span, Time};

use super::Stamps;
use dcqcn::Dcqcn;
use dcqcn_ns3::DcqcnNs3;
use hpcc::Hpcc;
use power_tcp::{PowerTcp, ThetaPowerTcp};
use timely::Timely;

/// What controls a flow's rate end to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CongestionControl {
    /// Nothing does: the flow sends as fast as line and flow control let it.
    #[default]
    None,
    /// DCQCN: the receiver notifies the sender of frames that a switch marked.
    Dcqcn(DcqcnConfig),
    /// DCQCN as the public ns-3 simulators have it: each acknowledgement echoes the mark, and timers do the rest.
    DcqcnNs3(DcqcnNs3Config),
    /// TIMELY: the round-trip time's gradient.
    Timely(TimelyConfig),
    /// HPCC: bytes in flight on the busiest link, from what switches stamp.
    Hpcc(HpccConfig),
    /// PowerTCP: power of the busiest link, from what switches stamp.
    PowerTcp(PowerTcpConfig),
    /// θ-PowerTCP: power from the round-trip time alone.
    ThetaPowerTcp(PowerTcpConfig),
}

/// What an acknowledgement tells the sender.
#[derive(Clone, Copy, Debug)]
pub struct AckSignal<'a> {
    /// Payload bytes acknowledged since the flow began.
    pub acked: u64,
    /// Payload bytes sent since the flow began, those to be sent again not counted: snd_nxt.
    pub sent: u64,
    /// From the sending of the frame that is acknowledged until now.
    pub rtt: Span,
    /// Whether a switch marked that frame CE.
    pub is_marked: bool,
    /// What the switches stamped on that frame, in the order of its way; the first [`HOPS_MAX`] count. Empty without
    /// telemetry.
    pub hops: &'a [HopTelemetry],
}

/// A flow under congestion control.
///
/// Frames go out no earlier than [`Controlled::free_at`], and while less payload is in flight than [`Controlled::window`].
/// `now` must never go back.
#[derive(Debug)]
pub struct Controlled {
    algorithm: Algorithm,
    /// When the next frame may be sent. A change of rate counts from the frame after.
    free_at: Time,
    slack: Span,
}

/// An algorithm's state. Those that remember every hop are boxed, for hosts have thousands of flows.
#[derive(Debug)]
enum Algorithm {
    Dcqcn(Dcqcn),
    DcqcnNs3(DcqcnNs3),
    Timely(Timely),
    Hpcc(Box<Hpcc>),
    PowerTcp(Box<PowerTcp>),
    ThetaPowerTcp(ThetaPowerTcp),
}

impl CongestionControl {
    /// The algorithm's name.
    pub fn name(&self) -> &'static str {
        match self {
            CongestionControl::None => "none",
            CongestionControl::Dcqcn(_) => "dcqcn",
            CongestionControl::DcqcnNs3(_) => "dcqcn-ns3",
            CongestionControl::Timely(_) => "timely",
            CongestionControl::Hpcc(_) => "hpcc",
            CongestionControl::PowerTcp(_) => "powertcp",
            CongestionControl::ThetaPowerTcp(_) => "theta-powertcp",
        }
    }

    /// How often at most the receiver sends congestion notifications; `None` for never.
    pub fn cnp_interval(&self) -> Option<Span> {
        match self {
            CongestionControl::Dcqcn(config) => Some(config.cnp_interval),
            _ => None,
        }
    }

    /// Whether the receiver echoes a frame's mark on its acknowledgement.
    pub fn echoes_ecn(&self) -> bool {
        matches!(self, CongestionControl::DcqcnNs3(_))
    }

    /// What its frames are to bring.
    pub fn stamps(&self) -> Stamps {
        match self {
            CongestionControl::None | CongestionControl::Dcqcn(_) | CongestionControl::DcqcnNs3(_) => Stamps::None,
            CongestionControl::Timely(_) | CongestionControl::ThetaPowerTcp(_) => Stamps::Time,
            CongestionControl::Hpcc(_) | CongestionControl::PowerTcp(_) => Stamps::Hops,
        }
    }

    /// Whether switches are to stamp its frames (INT).
    pub fn wants_telemetry(&self) -> bool {
        self.stamps() == Stamps::Hops
    }

    /// Whether the receiver acknowledges every packet, for each acknowledgement is feedback.
    pub fn acks_every_packet(&self) -> bool {
        !matches!(self, CongestionControl::None | CongestionControl::Dcqcn(_))
    }
}

impl Controlled {
    /// A flow on a line of this rate that may catch up `slack` of its pace; `None` if nothing controls it.
    pub fn new(control: &CongestionControl, line: BitRate, slack: Span) -> Option<Controlled> {
        let algorithm = match control {
            CongestionControl::None => return None,
            CongestionControl::Dcqcn(config) => Algorithm::Dcqcn(Dcqcn::new(config, line)),
            CongestionControl::DcqcnNs3(config) => Algorithm::DcqcnNs3(DcqcnNs3::new(config, line)),
            CongestionControl::Timely(config) => Algorithm::Timely(Timely::new(config, line)),
            CongestionControl::Hpcc(config) => Algorithm::Hpcc(Box::new(Hpcc::new(config, line))),
            CongestionControl::PowerTcp(config) => Algorithm::PowerTcp(Box::new(PowerTcp::new(config, line))),
            CongestionControl::ThetaPowerTcp(config) => Algorithm::ThetaPowerTcp(ThetaPowerTcp::new(config, line)),
        };
        Some(Controlled { algorithm, free_at: Time::ZERO, slack })
    }

    /// When the next frame may be sent, the window apart.
    #[inline]
    pub fn free_at(&self) -> Time {
        self.free_at
    }

    /// The rate on the wire, as of the last call.
    pub fn rate(&self) -> BitRate {
        match &self.algorithm {
            Algorithm::Dcqcn(flow) => flow.rate(),
            Algorithm::DcqcnNs3(flow) => flow.rate(),
            Algorithm::Timely(flow) => flow.rate(),
            Algorithm::Hpcc(flow) => flow.rate(),
            Algorithm::PowerTcp(flow) => flow.rate(),
            Algorithm::ThetaPowerTcp(flow) => flow.rate(),
        }
    }

    /// The window: a frame may be sent while less payload than this is in flight, so that one always can be. `None`
    /// without one.
    pub fn window(&self) -> Option<Bytes> {
        match &self.algorithm {
            Algorithm::Dcqcn(_) | Algorithm::DcqcnNs3(_) | Algorithm::Timely(_) => None,
            Algorithm::Hpcc(flow) => Some(flow.window()),
            Algorithm::PowerTcp(flow) => Some(flow.window()),
            Algorithm::ThetaPowerTcp(flow) => Some(flow.window()),
        }
    }

    /// A frame has been sent that takes `wire` on the link.
    pub fn handle_sent(&mut self, now: Time, wire: Bytes) {
        match &mut self.algorithm {
            Algorithm::Dcqcn(flow) => flow.handle_sent(now, wire),
            Algorithm::DcqcnNs3(flow) => flow.advance(now),
            _ => {}
        }
        let start = self.free_at.max(now.saturating_sub(self.slack));
        self.free_at = start.saturating_add(self.rate().time_for(wire));
    }

    /// A congestion notification has arrived. All but DCQCN take no notice.
    pub fn handle_cnp(&mut self, now: Time) {
        if let Algorithm::Dcqcn(flow) = &mut self.algorithm {
            flow.handle_cnp(now);
        }
    }

    /// An acknowledgement has arrived.
    pub fn handle_ack(&mut self, now: Time, ack: &AckSignal<'_>) {
        match &mut self.algorithm {
            Algorithm::Dcqcn(_) => {}
            Algorithm::DcqcnNs3(flow) => flow.handle_ack(now, ack.is_marked),
            Algorithm::Timely(flow) => flow.handle_ack(ack),
            Algorithm::Hpcc(flow) => flow.handle_ack(ack),
            Algorithm::PowerTcp(flow) => flow.handle_ack(ack),
            Algorithm::ThetaPowerTcp(flow) => flow.handle_ack(now, ack),
        }
    }
}

/// A share of one in parts per million, as a factor.
fn fraction(ppm: u32) -> f64 {
    f64::from(ppm) / 1e6
}

/// A rate in bits a second rounded to a whole number, no lower than `least`, and above all no higher than `line`.
fn whole_rate(bps: f64, least: u64, line: u64) -> u64 {
    ((bps + 0.5) as u64).max(least).min(line)
}
