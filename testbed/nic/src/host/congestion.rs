//! Congestion control of a flow: an algorithm that sets its rate and window. Sans-I/O.
//!
//! Each algorithm is a file with three types. Its [`CongestionControlKind`] has a name, keys with defaults, presets and
//! gauges, and parses a [`CongestionControlConfig`] from parameters. The configuration names the feedback that the
//! algorithm needs, and builds a [`CongestionController`] for each flow, which takes sent frames and feedback, and sets
//! a rate and optionally a window. To add an algorithm: add a file, and a line in the registry here; or [`add`] it from
//! another program, as `examples/my-congestion-control` does. `docs/CONGESTION_CONTROL.md` compares the algorithms, and
//! has all keys and presets.

mod bounds;
mod dcqcn;
mod dcqcn_ns3;
mod dctcp;
mod hops;
mod hpcc;
mod hpcc_pint;
mod power_tcp;
mod registry;
#[cfg(test)]
mod tests;
mod timely;

pub use super::packet::HOPS_MAX;
pub use dcqcn_ns3::DcqcnNs3Config;
pub use hops::HopTelemetry;
pub use registry::{add, find, kinds, presets};

use std::fmt;
use std::sync::Arc;

use weir_reader::{Gauge, Plugin};
use weir_units::{BitRate, Bytes, SerialisationRounding, Span, Time};
use weir_wire::digest::DigestConfig;

use super::TelemetryMode;
use crate::parameters::{Network, Parameters, Preset, WrongValue};

/// Kind of congestion control, chosen in files by its own name, with default keys, or by a preset's name.
pub trait CongestionControlKind: Plugin {
    /// Returns the named parameter sets. A preset with the kind's own name takes precedence over the keys'
    /// defaults.
    fn presets(&self) -> &'static [Preset] {
        &[]
    }

    /// Reads and cross-checks the keys. Called for each flow or workload of a file. Errors are recorded in
    /// `parameters`, and the file is then rejected.
    fn parse(&self, parameters: &Parameters<'_>) -> Arc<dyn CongestionControlConfig>;
}

/// Congestion control with its parameters.
pub trait CongestionControlConfig: fmt::Debug + Send + Sync {
    /// Returns the feedback that the algorithm needs.
    fn feedback(&self) -> RequiredFeedback;

    /// Returns the state of a new flow on a line of this rate. Called when a connection is opened.
    fn build(&self, line: BitRate) -> Box<dyn CongestionController>;
}

/// Congestion-control state of a flow.
///
/// The caller reads rate and window after each `on_*`, which may change both. `now` never goes back. No call may
/// allocate: the calls are made for each packet.
pub trait CongestionController: fmt::Debug + Send {
    /// Handles a sent frame that takes `wire` bytes on the link.
    fn on_sent(&mut self, _now: Time, _wire: Bytes) {}

    /// Handles a congestion notification.
    fn on_cnp(&mut self, _now: Time) {}

    /// Handles an acknowledgement.
    fn on_ack(&mut self, _now: Time, _ack: &AckSignal<'_>) {}

    /// Returns the rate on the wire, as of the last call.
    fn rate(&self) -> BitRate;

    /// Returns the window, as of the last call: a frame may be sent while less payload is in flight. `None` for no
    /// window.
    fn window(&self) -> Option<Bytes> {
        None
    }

    /// Shows the value of each of the kind's gauges, in their order.
    fn gauges(&self, _show: &mut dyn FnMut(f64)) {}
}

/// Feedback that an algorithm needs from receivers and switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequiredFeedback {
    /// Least interval between the receiver's congestion notifications; `None` for no notifications.
    pub cnp_interval: Option<Span>,
    /// Whether the receiver echoes a frame's mark on its acknowledgement.
    pub echoes_ecn: bool,
    /// Telemetry in the flow's packets.
    pub telemetry: TelemetryMode,
    /// Parameters of the switches' digest, with [`TelemetryMode::Digest`]. The same for all flows of a network.
    pub digest: Option<DigestConfig>,
    /// Whether the receiver acknowledges every packet, since each acknowledgement is feedback.
    pub acks_every_packet: bool,
}

/// End-to-end congestion control of a flow. The default is none: the flow sends as fast as line rate and flow
/// control allow.
#[derive(Clone, Default)]
pub struct CongestionControlChoice(Option<ConfiguredKind>);

#[derive(Clone)]
struct ConfiguredKind {
    kind: &'static dyn CongestionControlKind,
    config: Arc<dyn CongestionControlConfig>,
}

/// Feedback of an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub struct AckSignal<'a> {
    /// Payload bytes acknowledged since the flow began.
    pub acked: u64,
    /// Payload bytes sent since the flow began, without those to be retransmitted: snd_nxt.
    pub sent: u64,
    /// Round-trip time since the acknowledged frame was sent.
    pub rtt: Span,
    /// Whether a switch marked the acknowledged frame CE.
    pub is_marked: bool,
    /// Telemetry that switches stamped on the acknowledged frame, in path order; the first [`HOPS_MAX`] hops. Empty
    /// without telemetry.
    pub hops: &'a [HopTelemetry],
    /// Digest of the busiest hop on the frame's path; `None` without a digest.
    pub digest: Option<u16>,
}

/// Flow under congestion control.
///
/// Frames are sent no earlier than [`ControlledFlow::free_at`], and while less payload is in flight than
/// [`ControlledFlow::window`]. `now` must never go back.
#[derive(Debug)]
pub(crate) struct ControlledFlow {
    controller: Box<dyn CongestionController>,
    /// Earliest instant of the next frame. A rate change takes effect from the frame after it.
    free_at: Time,
    slack: Span,
    /// Copy of the flow's window, read far more often than it changes; [`NO_WINDOW`] without a window.
    window: Bytes,
    times: SerialisationRounding,
}

/// Name for no congestion control.
pub const NONE: &str = "none";

/// Gauges of every flow under congestion control; the kind's own gauges follow.
pub const GAUGES: &[Gauge] = &[
    Gauge::plain("rate_bps", "the rate on the wire that the flow is set"),
    Gauge::plain("window_bytes", "the window; empty under algorithms without one"),
];

impl CongestionControlChoice {
    /// Returns no congestion control.
    pub fn none() -> CongestionControlChoice {
        CongestionControlChoice::default()
    }

    /// Wraps an algorithm with parameters set in code, of kind `kind`.
    pub fn new(
        kind: &'static dyn CongestionControlKind,
        config: impl CongestionControlConfig + 'static,
    ) -> CongestionControlChoice {
        CongestionControlChoice(Some(ConfiguredKind { kind, config: Arc::new(config) }))
    }

    /// Returns the congestion control of a preset in this network; `None` for an unknown name.
    pub fn preset(name: &str, line: BitRate, base_rtt: Span) -> Option<CongestionControlChoice> {
        CongestionControlChoice::parse(name, &[], Network { line, base_rtt }).ok()
    }

    /// Returns the congestion control of a kind or preset, with these values laid over the preset's. The first of a
    /// repeated key counts; keys that the kind lacks are ignored.
    ///
    /// # Errors
    /// The wrong values; empty for an unknown name.
    pub fn parse(
        name: &str,
        values: &[(&str, &str)],
        network: Network,
    ) -> Result<CongestionControlChoice, Vec<WrongValue>> {
        if name == NONE {
            return Ok(CongestionControlChoice::none());
        }
        let (kind, preset) = registry::find(name).ok_or_else(Vec::new)?;
        let parameters = Parameters::new(network, values, preset);
        let config = kind.parse(&parameters);
        match parameters.into_wrong() {
            wrong if wrong.is_empty() => Ok(CongestionControlChoice(Some(ConfiguredKind { kind, config }))),
            wrong => Err(wrong),
        }
    }

    /// Returns the algorithm's name.
    pub fn name(&self) -> &'static str {
        self.0.as_ref().map_or(NONE, |chosen| chosen.kind.id())
    }

    /// Whether the flow has no congestion control.
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the feedback that the algorithm needs.
    pub fn feedback(&self) -> RequiredFeedback {
        self.0.as_ref().map_or_else(RequiredFeedback::default, |chosen| chosen.config.feedback())
    }

    /// Returns the telemetry in the flow's packets.
    pub fn telemetry(&self) -> TelemetryMode {
        self.feedback().telemetry
    }

    /// Whether switches are to stamp the flow's packets (INT).
    pub fn wants_telemetry(&self) -> bool {
        self.telemetry() == TelemetryMode::Hops
    }

    /// Iterates over the flow's gauges: [`GAUGES`], then the kind's.
    pub fn gauges(&self) -> impl Iterator<Item = &'static Gauge> + use<> {
        let all = self.0.as_ref().map(|chosen| GAUGES.iter().chain(chosen.kind.gauges()));
        all.into_iter().flatten()
    }
}

impl fmt::Debug for CongestionControlChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => f.write_str(NONE),
            Some(chosen) => f.debug_tuple(chosen.kind.id()).field(&chosen.config).finish(),
        }
    }
}

impl ControlledFlow {
    /// Starts a flow on a line of this rate that may catch up `slack` of its pace; `None` without congestion
    /// control.
    pub(crate) fn new(control: &CongestionControlChoice, line: BitRate, slack: Span) -> Option<ControlledFlow> {
        let controller = control.0.as_ref()?.config.build(line);
        let window = controller.window().unwrap_or(NO_WINDOW);
        Some(ControlledFlow { controller, free_at: Time::ZERO, slack, window, times: SerialisationRounding::Exact })
    }

    /// Sets the rounding of frame times.
    pub(crate) fn timed(self, times: SerialisationRounding) -> ControlledFlow {
        ControlledFlow { times, ..self }
    }

    /// Returns the earliest instant of the next frame, apart from the window.
    #[inline]
    pub(crate) fn free_at(&self) -> Time {
        self.free_at
    }

    /// Returns the rate on the wire, as of the last call.
    pub(crate) fn rate(&self) -> BitRate {
        self.controller.rate()
    }

    /// Returns the window, at least 1 B: a frame may be sent while less payload is in flight. `None` for no window.
    #[inline]
    pub(crate) fn window(&self) -> Option<Bytes> {
        (self.window != NO_WINDOW).then_some(self.window)
    }

    /// Returns whether a frame may be sent with this payload in flight.
    #[inline]
    pub(crate) fn has_room(&self, in_flight: Bytes) -> bool {
        in_flight < self.window
    }

    /// Handles a sent frame that takes `wire` bytes on the link.
    #[inline]
    pub(crate) fn handle_sent(&mut self, now: Time, wire: Bytes) {
        self.controller.on_sent(now, wire);
        let start = self.free_at.max(now.saturating_sub(self.slack));
        self.free_at = start.saturating_add(self.times.round(self.controller.rate().time_for(wire)));
        self.update_window();
    }

    /// Handles a congestion notification.
    pub(crate) fn handle_cnp(&mut self, now: Time) {
        self.controller.on_cnp(now);
        self.update_window();
    }

    /// Handles an acknowledgement.
    #[inline]
    pub(crate) fn handle_ack(&mut self, now: Time, ack: &AckSignal<'_>) {
        self.controller.on_ack(now, ack);
        self.update_window();
    }

    /// Shows the value of each gauge, in the order of [`CongestionControlChoice::gauges`]; not a number for none.
    pub(crate) fn gauges(&self, show: &mut dyn FnMut(f64)) {
        show(self.rate().as_bps() as f64);
        show(self.window().map_or(f64::NAN, |window| window.get() as f64));
        self.controller.gauges(show);
    }

    #[inline]
    fn update_window(&mut self) {
        // At least one byte, so that a frame can always be sent.
        self.window = self.controller.window().map_or(NO_WINDOW, |window| window.max(Bytes::new(1)));
    }
}

/// Marker for no window: larger than any window.
const NO_WINDOW: Bytes = Bytes::new(u64::MAX);

/// Converts parts per million to a fraction.
fn fraction(ppm: u32) -> f64 {
    f64::from(ppm) / 1e6
}

/// Rounds a rate in bit/s to an integer, at least `least`, but never above `line`.
fn clamped_rate(bps: f64, least: u64, line: u64) -> u64 {
    ((bps + 0.5) as u64).max(least).min(line)
}
