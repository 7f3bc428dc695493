//! Interface of TCP congestion control.

use std::fmt;
use std::sync::Arc;

use weir_reader::{Gauge, Plugin};
use weir_units::{Span, Time};

use crate::parameters::{Parameters, Values};

/// Kind of TCP congestion control, named in files: `transport = "tcp-cubic"`. Its [gauges](Plugin::gauges) extend those
/// of all TCP flows, in the order of [`TcpCongestionController::gauges`].
pub trait TcpCongestionKind: Plugin + fmt::Debug {
    /// Reads the keys. Errors are recorded in `parameters`, and the file is then rejected.
    fn parse(&self, parameters: &Parameters<'_>) -> Arc<dyn TcpCongestionConfig>;

    /// Returns the values that a preset of `[nic.tcp]` gives to keys of this kind's table; none by default.
    fn preset(&self, _name: &str) -> Values {
        &[]
    }
}

/// TCP congestion control with its parameters.
pub trait TcpCongestionConfig: fmt::Debug + Send + Sync {
    /// Whether receivers echo marks byte by byte (RFC 8257, 3.2). If so, all data is ECN-capable, retransmissions
    /// too.
    fn counts_marks(&self) -> bool {
        false
    }

    /// Returns the congestion-control state of a newly established connection.
    fn build(&self) -> Box<dyn TcpCongestionController>;
}

/// Round-trip measurement, with the connection's state at that instant.
#[derive(Clone, Copy, Debug)]
pub struct RoundTrip {
    /// Instant at which the acknowledgement arrived.
    pub now: Time,
    /// Round-trip time from sending the data to the acknowledgement's arrival.
    pub rtt: Span,
    /// The smoothed round-trip time.
    pub smoothed_rtt: Span,
    /// Whether the window is below the slow-start threshold.
    pub is_slow_start: bool,
    /// The window in bytes.
    pub cwnd: f64,
    /// Maximum segment size in bytes.
    pub mss: f64,
    /// SND.UNA: offset of the first unacknowledged byte.
    pub una: u64,
    /// SND.NXT: offset of the first unsent byte.
    pub next: u64,
}

/// Congestion-control state of a connection: growth in congestion avoidance, and the window after cuts. Windows are in
/// bytes. Slow start, thresholds and the minimum window are common to all kinds.
pub trait TcpCongestionController: fmt::Debug + Send {
    /// Handles an acknowledgement of this number of bytes up to `una`; data up to `next` is sent. Called before the
    /// window grows or is cut for it.
    fn on_ack(&mut self, _acked: u64, _ece: bool, _una: u64, _next: u64) {}

    /// Handles a round-trip measurement while no loss is known; returns whether slow start ends with the present
    /// window. Called after [`TcpCongestionController::on_ack`] and before the window grows.
    fn on_round_trip(&mut self, _trip: &RoundTrip) -> bool {
        false
    }

    /// Returns the window after `acked` bytes in congestion avoidance. `prior` is the window before the last cut. By default
    /// Reno's: a segment of growth per round trip.
    fn grown(&mut self, _now: Time, _rtt: Span, acked: f64, cwnd: f64, _prior: f64, mss: f64) -> f64 {
        cwnd + acked * mss / cwnd
    }

    /// Returns the factor by which a loss cuts the window.
    fn loss_factor(&self) -> f64 {
        0.5
    }

    /// Returns the factor by which a mark cuts the window; by default that of a loss.
    fn mark_factor(&self) -> f64 {
        self.loss_factor()
    }

    /// Handles a cut of the window, before the cut.
    fn on_cut(&mut self, _cwnd: f64) {}

    /// Handles a retransmission timeout.
    fn on_timeout(&mut self) {}

    /// Handles an idle period.
    fn on_idle(&mut self, _idle: Span) {}

    /// Passes the value of each of the kind's gauges to `show`, in their order.
    fn gauges(&self, _show: &mut dyn FnMut(f64)) {}
}

/// Congestion control of a connection: a kind with its parameters.
#[derive(Clone)]
pub struct TcpCongestionChoice {
    kind: &'static dyn TcpCongestionKind,
    config: Arc<dyn TcpCongestionConfig>,
}

impl TcpCongestionChoice {
    /// Returns a kind with its keys' defaults.
    pub fn with_defaults(kind: &'static dyn TcpCongestionKind) -> TcpCongestionChoice {
        TcpCongestionChoice::parse(kind, &Parameters::defaults_over(&[], &[]))
    }

    /// Returns a kind with these parameters, in which errors are recorded.
    pub fn parse(kind: &'static dyn TcpCongestionKind, parameters: &Parameters<'_>) -> TcpCongestionChoice {
        TcpCongestionChoice { kind, config: kind.parse(parameters) }
    }

    /// Returns the kind's name.
    pub fn name(&self) -> &'static str {
        self.kind.id()
    }

    /// Returns the gauges of the kind, in addition to those of all TCP flows.
    pub fn gauges(&self) -> &'static [Gauge] {
        self.kind.gauges()
    }

    pub(super) fn counts_marks(&self) -> bool {
        self.config.counts_marks()
    }

    pub(super) fn build(&self) -> Box<dyn TcpCongestionController> {
        self.config.build()
    }
}

impl fmt::Debug for TcpCongestionChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.config.fmt(f)
    }
}
