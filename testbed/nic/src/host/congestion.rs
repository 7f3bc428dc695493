//! Congestion control of a flow: which algorithm, and the rate and the window that it sets. Sans-I/O.
//!
//! An algorithm is a file of its own, with three things in it. Its [`CongestionControlKind`] has a name, keys with defaults,
//! presets and gauges, and makes an [`Algorithm`] of parameters; that says what feedback it goes by, and begins a
//! [`FlowState`] for each flow, which is told of frames sent and of feedback, and knows a rate and, some of them, a window. To add
//! one: a file, and a line in the registry here; or [`add`] it from a program of one's own, as `examples/my-congestion-control`
//! does. `docs/CONGESTION_CONTROL.md` compares them, and has all keys and presets.

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

pub use dcqcn_ns3::DcqcnNs3Config;
pub use hops::{HOPS_MAX, HopTelemetry};
pub use registry::{add, find, kinds, presets};

use std::fmt;
use std::sync::Arc;

use weir_reader::{Gauge, Named};
use weir_units::archive::{Archive, State};
use weir_units::{BitRate, Bytes, FrameTimes, Span, Time};
use weir_wire::digest::DigestConfig;

use super::Stamps;
use crate::parameters::{Network, Parameters, Preset, WrongValue};

/// A congestion control that files choose: by its name, with all keys as by default, or by that of a preset.
pub trait CongestionControlKind: Named {
    /// Sets of parameters by name. One of the kind's own name goes before the keys' defaults.
    fn presets(&self) -> &'static [Preset] {
        &[]
    }

    /// Reads the keys, and checks what they say together. Called for each flow or workload of a file; what is wrong is noted in
    /// `parameters`, and the file is refused then.
    fn read(&self, parameters: &Parameters<'_>) -> Arc<dyn Algorithm>;
}

/// A congestion control with its parameters.
pub trait Algorithm: fmt::Debug + Send + Sync {
    /// What it goes by.
    fn feedback(&self) -> Feedback;

    /// The state of a flow that begins on a line of this rate. Called when a connection is opened.
    fn flow(&self, line: BitRate) -> Box<dyn FlowState>;
}

impl State for dyn FlowState {
    fn state(&mut self, archive: &mut Archive) {
        self.checkpoint(archive);
    }
}

/// A flow's state.
///
/// Each `handle_*` may change rate and window; they are asked for after each. `now` never goes back. None of the calls may
/// allocate: they are made for each packet.
pub trait FlowState: fmt::Debug + Send {
    /// Goes over what changes, for a checkpoint of a run in virtual time: derived by [`State`], and nothing where nothing changes. What
    /// does not say is refused by name where a checkpoint is asked for.
    fn checkpoint(&mut self, archive: &mut Archive) {
        archive.refuse(&format!("congestion control `{}`", std::any::type_name::<Self>()));
    }

    /// A frame has been sent that takes `wire` on the link.
    fn handle_sent(&mut self, _now: Time, _wire: Bytes) {}

    /// A congestion notification has arrived.
    fn handle_cnp(&mut self, _now: Time) {}

    /// An acknowledgement has arrived.
    fn handle_ack(&mut self, _now: Time, _ack: &AckSignal<'_>) {}

    /// The rate on the wire, as of the last call.
    fn rate(&self) -> BitRate;

    /// The window, as of the last call: a frame may be sent while less payload than this is in flight. `None` without one.
    fn window(&self) -> Option<Bytes> {
        None
    }

    /// Shows the value of each of the kind's gauges, in their order.
    fn gauges(&self, _show: &mut dyn FnMut(f64)) {}
}

/// What an algorithm goes by, which receivers and switches have to bring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feedback {
    /// How often at most the receiver sends congestion notifications; `None` for never.
    pub cnp_interval: Option<Span>,
    /// Whether the receiver echoes a frame's mark on its acknowledgement.
    pub echoes_ecn: bool,
    /// What its frames are to bring.
    pub stamps: Stamps,
    /// What switches digest by, with [`Stamps::Digest`]. All flows of a network have one.
    pub digest: Option<DigestConfig>,
    /// Whether the receiver acknowledges every packet, for each acknowledgement is feedback.
    pub acks_every_packet: bool,
}

/// What controls a flow's rate end to end; by default nothing does, and the flow sends as fast as line and flow control let it.
#[derive(Clone, Default)]
pub struct CongestionControl(Option<Chosen>);

#[derive(Clone)]
struct Chosen {
    kind: &'static dyn CongestionControlKind,
    algorithm: Arc<dyn Algorithm>,
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
    /// The code of the busiest hop that the frame met; `None` if it collected none.
    pub digest: Option<u16>,
}

/// A flow under congestion control.
///
/// Frames go out no earlier than [`Controlled::free_at`], and while less payload is in flight than [`Controlled::window`].
/// `now` must never go back.
#[derive(Debug, State)]
pub(crate) struct Controlled {
    flow: Box<dyn FlowState>,
    /// When the next frame may be sent. A change of rate counts from the frame after.
    free_at: Time,
    #[state(same)]
    slack: Span,
    /// The flow's, which is asked for far more often than it changes; more than any without one.
    window: Bytes,
    #[state(same)]
    times: FrameTimes,
}

/// The name of no congestion control.
pub const NONE: &str = "none";

/// What every flow under congestion control shows; a kind's own gauges follow.
pub const GAUGES: &[Gauge] = &[
    Gauge::plain("rate_bps", "the rate on the wire that the flow is set"),
    Gauge::plain("window_bytes", "the window; empty under algorithms without one"),
];

impl CongestionControl {
    /// Nothing controls the flow.
    pub fn none() -> CongestionControl {
        CongestionControl::default()
    }

    /// An algorithm whose parameters were made in code. `kind` is what it is one of.
    pub fn of(kind: &'static dyn CongestionControlKind, algorithm: impl Algorithm + 'static) -> CongestionControl {
        CongestionControl(Some(Chosen { kind, algorithm: Arc::new(algorithm) }))
    }

    /// The congestion control of a preset's name in this network; `None` if there is none of the name.
    pub fn preset(name: &str, line: BitRate, base_rtt: Span) -> Option<CongestionControl> {
        CongestionControl::read(name, &[], Network { line, base_rtt }).ok()
    }

    /// The congestion control of a kind's or preset's name, with these values laid over the preset's. If a key stands
    /// there twice the first counts; keys that the kind does not have count for nothing.
    ///
    /// # Errors
    /// The values that are wrong; none if there is no such name.
    pub fn read(name: &str, values: &[(&str, &str)], network: Network) -> Result<CongestionControl, Vec<WrongValue>> {
        if name == NONE {
            return Ok(CongestionControl::none());
        }
        let (kind, preset) = registry::find(name).ok_or_else(Vec::new)?;
        let parameters = Parameters::new(network, values, preset);
        let algorithm = kind.read(&parameters);
        match parameters.into_wrong() {
            wrong if wrong.is_empty() => Ok(CongestionControl(Some(Chosen { kind, algorithm }))),
            wrong => Err(wrong),
        }
    }

    /// The algorithm's name.
    pub fn name(&self) -> &'static str {
        self.0.as_ref().map_or(NONE, |chosen| chosen.kind.name())
    }

    /// Whether nothing controls the flow.
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// What it goes by.
    pub fn feedback(&self) -> Feedback {
        self.0.as_ref().map_or_else(Feedback::default, |chosen| chosen.algorithm.feedback())
    }

    /// What its frames are to bring.
    pub fn stamps(&self) -> Stamps {
        self.feedback().stamps
    }

    /// Whether switches are to stamp its frames (INT).
    pub fn wants_telemetry(&self) -> bool {
        self.stamps() == Stamps::Hops
    }

    /// What a flow under it shows: [`GAUGES`], and the gauges of its kind.
    pub fn gauges(&self) -> impl Iterator<Item = &'static Gauge> + use<> {
        let all = self.0.as_ref().map(|chosen| GAUGES.iter().chain(chosen.kind.gauges()));
        all.into_iter().flatten()
    }
}

impl fmt::Debug for CongestionControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => f.write_str(NONE),
            Some(chosen) => f.debug_tuple(chosen.kind.name()).field(&chosen.algorithm).finish(),
        }
    }
}

impl Controlled {
    /// A flow on a line of this rate that may catch up `slack` of its pace; `None` if nothing controls it.
    pub(crate) fn new(control: &CongestionControl, line: BitRate, slack: Span) -> Option<Controlled> {
        let flow = control.0.as_ref()?.algorithm.flow(line);
        let window = flow.window().unwrap_or(NO_WINDOW);
        Some(Controlled { flow, free_at: Time::ZERO, slack, window, times: FrameTimes::Exact })
    }

    /// One whose frames take times that are told so.
    pub(crate) fn timed(self, times: FrameTimes) -> Controlled {
        Controlled { times, ..self }
    }

    /// When the next frame may be sent, the window apart.
    #[inline]
    pub(crate) fn free_at(&self) -> Time {
        self.free_at
    }

    /// The rate on the wire, as of the last call.
    pub(crate) fn rate(&self) -> BitRate {
        self.flow.rate()
    }

    /// The window: a frame may be sent while less payload than this is in flight, so that one always can be. `None`
    /// without one.
    #[inline]
    pub(crate) fn window(&self) -> Option<Bytes> {
        (self.window != NO_WINDOW).then_some(self.window)
    }

    /// Whether a frame may be sent with so much payload in flight.
    #[inline]
    pub(crate) fn has_room(&self, in_flight: Bytes) -> bool {
        in_flight < self.window
    }

    /// A frame has been sent that takes `wire` on the link.
    #[inline]
    pub(crate) fn handle_sent(&mut self, now: Time, wire: Bytes) {
        self.flow.handle_sent(now, wire);
        let start = self.free_at.max(now.saturating_sub(self.slack));
        self.free_at = start.saturating_add(self.times.of(self.flow.rate().time_for(wire)));
        self.note_window();
    }

    /// A congestion notification has arrived.
    pub(crate) fn handle_cnp(&mut self, now: Time) {
        self.flow.handle_cnp(now);
        self.note_window();
    }

    /// An acknowledgement has arrived.
    #[inline]
    pub(crate) fn handle_ack(&mut self, now: Time, ack: &AckSignal<'_>) {
        self.flow.handle_ack(now, ack);
        self.note_window();
    }

    /// Shows the value of each gauge, in the order of [`CongestionControl::gauges`]; not a number for none.
    pub(crate) fn gauges(&self, show: &mut dyn FnMut(f64)) {
        show(self.rate().as_bps() as f64);
        show(self.window().map_or(f64::NAN, |window| window.get() as f64));
        self.flow.gauges(show);
    }

    #[inline]
    fn note_window(&mut self) {
        // One byte at least, so that a frame can always be sent.
        self.window = self.flow.window().map_or(NO_WINDOW, |window| window.max(Bytes::new(1)));
    }
}

/// Larger than any window.
const NO_WINDOW: Bytes = Bytes::new(u64::MAX);

/// A share of one in parts per million, as a factor.
fn fraction(ppm: u32) -> f64 {
    f64::from(ppm) / 1e6
}

/// A rate in bits a second rounded to a whole number, no lower than `least`, and above all no higher than `line`.
fn whole_rate(bps: f64, least: u64, line: u64) -> u64 {
    ((bps + 0.5) as u64).max(least).min(line)
}

/// Steps and intervals that make sense: none is so short that a silence of an hour takes long to make up for.
const INTERVALS: std::ops::RangeInclusive<Span> = Span::from_nanos(100)..=Span::from_secs(1_000);
