//! What governs a connection's window.

use std::fmt;
use std::sync::Arc;

use weir_reader::{Gauge, Named};
use weir_units::archive::{Archive, State};
use weir_units::{Span, Time};

use crate::parameters::{Parameters, Values};

/// A window's control that files choose by its name: `transport = "tcp-cubic"`. Its [gauges](Named::gauges) are what its flows show
/// besides what all of TCP's do, in the order of [`WindowLaw::gauges`].
pub trait TcpControlKind: Named + fmt::Debug {
    /// Reads the keys. Faults are noted in `parameters`, and the file is refused then.
    fn read(&self, parameters: &Parameters<'_>) -> Arc<dyn WindowControl>;

    /// What a preset of `[nic.tcp]` makes of the keys of this control's own table; by default nothing.
    fn preset(&self, _name: &str) -> Values {
        &[]
    }
}

/// A window's control with its parameters.
pub trait WindowControl: fmt::Debug + Send + Sync {
    /// Whether receivers tell marks to the byte (RFC 8257, 3.2). Then data may always be marked, sent again or not.
    fn counts_marks(&self) -> bool {
        false
    }

    /// The state of a connection that is established.
    fn law(&self) -> Box<dyn WindowLaw>;
}

/// A round trip that was measured, and the connection by then.
#[derive(Clone, Copy, Debug)]
pub struct RoundTrip {
    /// When the acknowledgement came.
    pub now: Time,
    /// How long the data that it acknowledges and the acknowledgement were under way.
    pub rtt: Span,
    /// The smoothed round-trip time.
    pub smoothed_rtt: Span,
    /// Whether the window is below the slow-start threshold.
    pub is_slow_start: bool,
    /// The window in bytes.
    pub cwnd: f64,
    /// Bytes of a segment.
    pub mss: f64,
    /// All before is acknowledged.
    pub una: u64,
    /// All before is sent.
    pub next: u64,
}

impl State for dyn WindowLaw {
    fn state(&mut self, archive: &mut Archive) {
        self.checkpoint(archive);
    }
}

/// What differs between controls: how fast the window grows in congestion avoidance, and what cuts leave of it. Windows are in
/// bytes; slow start, thresholds and the least window are those of all.
pub trait WindowLaw: fmt::Debug + Send {
    /// Goes over what changes, for a checkpoint of a run in virtual time: derived by [`State`], and nothing where nothing changes. What
    /// does not say is refused by name where a checkpoint is asked for.
    fn checkpoint(&mut self, archive: &mut Archive) {
        archive.refuse(&format!("congestion control `{}`", std::any::type_name::<Self>()));
    }

    /// An acknowledgement has arrived, with ECE or without, of so many bytes up to `una`; up to `next` data is sent. Called before
    /// the window grows or is cut for it.
    fn handle_ack(&mut self, _acked: u64, _ece: bool, _una: u64, _next: u64) {}

    /// A round trip was measured while nothing was known to be lost. Called after [`WindowLaw::handle_ack`] and before the window grows.
    /// Returns whether slow start ends here, with the window as it is.
    fn ends_slow_start(&mut self, _trip: &RoundTrip) -> bool {
        false
    }

    /// The window after so many bytes were acknowledged in congestion avoidance. `prior` is what it was before the last cut. By default
    /// Reno's: a segment more a round trip.
    fn grown(&mut self, _now: Time, _rtt: Span, acked: f64, cwnd: f64, _prior: f64, mss: f64) -> f64 {
        cwnd + acked * mss / cwnd
    }

    /// What a loss leaves of the window.
    fn loss_factor(&self) -> f64 {
        0.5
    }

    /// What a mark leaves of it.
    fn mark_factor(&self) -> f64 {
        self.loss_factor()
    }

    /// The window is about to be cut.
    fn handle_cut(&mut self, _cwnd: f64) {}

    /// The retransmission timer has struck.
    fn handle_timeout(&mut self) {}

    /// Nothing was sent for so long.
    fn handle_idle(&mut self, _idle: Span) {}

    /// Shows the value of each of the kind's gauges, in their order.
    fn gauges(&self, _show: &mut dyn FnMut(f64)) {}
}

/// What governs the window: a kind, with its parameters.
#[derive(Clone)]
pub struct Control {
    kind: &'static dyn TcpControlKind,
    control: Arc<dyn WindowControl>,
}

impl Control {
    /// A kind with its keys' defaults.
    pub fn of(kind: &'static dyn TcpControlKind) -> Control {
        Control::read(kind, &Parameters::defaults_over(&[], &[]))
    }

    /// A kind with these parameters, in which what is wrong is noted.
    pub fn read(kind: &'static dyn TcpControlKind, parameters: &Parameters<'_>) -> Control {
        Control { kind, control: kind.read(parameters) }
    }

    /// The kind's name.
    pub fn name(&self) -> &'static str {
        self.kind.name()
    }

    /// What its flows show besides what all of TCP's do.
    pub fn gauges(&self) -> &'static [Gauge] {
        self.kind.gauges()
    }

    pub(super) fn counts_marks(&self) -> bool {
        self.control.counts_marks()
    }

    pub(super) fn law(&self) -> Box<dyn WindowLaw> {
        self.control.law()
    }
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.control.fmt(f)
    }
}
