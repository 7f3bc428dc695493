//! `gfc-buffer`: buffer-based Gentle Flow Control (GFC 4.2). The sender is slowed down by stages, `R_k = C / 2^k` from
//! `B_k = B_m − (B_m − B_1) / 2^(k−1)` on; toward a peer that only knows PFC each is made of pauses.
//! [`gfc::stage`](crate::gfc::stage) and [`gfc::Pulse`](crate::gfc::Pulse) have the state machines.

mod port;

use std::ops::RangeInclusive;

use weir_reader::{Key, Keys, Plugin, Problem, Table, times_from};
use weir_units::{BitRate, Bytes, Span, count};

use super::closed_form::{
    self, B_M, FeedbackDelay, OVERRUN, REFRESH, SILENCE, TAU, ThresholdBound, UNSAFE_THRESHOLDS, ageing, ageing_text,
    as_shown, check_share, outlives_its_refresh, overhead_text, share, stops,
};
use crate::cbfc::Advertiser;
use crate::gfc::{Pulse, StageTable, ThresholdError, buffer_based_b1_max};
use crate::keys::LENGTHS;
use crate::kinds::pfc::Pfc;
use crate::{
    ConfigRejection, Description, FlowControlChoice, FlowControlConfig, FlowControlContext, FlowControlKind,
    HEADROOM_VIOLATED, MessageKind, PortCheck, PortFlowControl, Quantum, QueueLimit,
};

pub use port::{GfcBuffer, GfcPulse};

const B_1: Key<Bytes> = Key::size("b_1", LENGTHS, "B_1: length from which the sender has half the rate; below `b_m`")
    .or_else("the highest safe one, B_m − 2 C τ");
const PEER: Key<GfcPeer> = Key::choice(
    "peer",
    &[("gfc", GfcPeer::Gfc), ("pfc", GfcPeer::Pfc { period: None })],
    "flow control of the other end. Toward one that only knows PFC, pauses of P (1 − R_k/C) in each period P make \
     the stages' rates",
)
.or("gfc");
const AGEING: Key<Span> = closed_form::AGEING.with_help(
    "lifetime of the peer's messages, after which classes return to the line rate; at least 4 times `refresh`. PFC's \
     PAUSE, an invalid stage, slows a class to the last stage's rate for its pause time, at most for this",
);
const STOP_AT_B_M: Key<bool> = closed_form::STOP_AT_B_M.with_help(
    "whether a queue of length B_m [stops its sender](FLOW_CONTROL.md#gfc-beyond-b_m), which otherwise keeps the \
     least rate: stage N + 1 pauses until another is advertised or it ages; not with `peer = \"pfc\"`",
);
const PULSE_PERIOD: Key<Span> = Key::time(
    "pulse_period",
    times_from(Span::from_nanos(1)),
    "P: period of the pauses with `peer = \"pfc\"`, 100 to 65,535 quanta of 512 bit times; adds to τ. As a peer \
     sends at least a frame per P, a slower port behind loses lossless frames at any threshold",
)
.or("100us");

/// Kind `gfc-buffer`.
pub(super) static KIND: GfcBufferKind = GfcBufferKind;

#[derive(Debug)]
pub(super) struct GfcBufferKind;

impl Plugin for GfcBufferKind {
    fn id(&self) -> &'static str {
        "gfc-buffer"
    }

    fn keys(&self) -> Keys {
        &[&TAU, &B_M, &B_1, &REFRESH, &AGEING, &PEER, &PULSE_PERIOD, &STOP_AT_B_M, &UNSAFE_THRESHOLDS]
    }
}

impl FlowControlKind for GfcBufferKind {
    fn parse(&self, table: &Table<'_>) -> FlowControlChoice {
        let period = table.given(&PULSE_PERIOD);
        FlowControlChoice::new(GfcBufferConfig {
            tau: table.given(&TAU),
            b_m: table.given(&B_M),
            b_1: table.given(&B_1),
            refresh: table.given(&REFRESH),
            ageing: table.given(&AGEING),
            peer: match table.get(&PEER) {
                GfcPeer::Gfc => GfcPeer::Gfc,
                GfcPeer::Pfc { .. } => GfcPeer::Pfc { period },
            },
            stop_at_b_m: table.get(&STOP_AT_B_M),
            unsafe_thresholds: table.get(&UNSAFE_THRESHOLDS),
        })
    }
}

/// Buffer-based GFC settings of a port, with the names of GFC (4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GfcBufferConfig {
    /// `tau`: τ, upper bound on the feedback delay, without the period of pulses, which adds to it. `None` is
    /// `2 MTU/C + 2 D_prop + [pfc] reaction`, plus the transmit backlog at a NIC.
    pub tau: Option<Span>,
    /// `b_m`: B_m, upper bound on a queue's length. `None` is the buffer reserved for a queue, minus a frame.
    pub b_m: Option<Bytes>,
    /// `b_1`: B_1, the length from which the sender has half the rate. `None` is the highest safe one, `B_m − 2 C τ`.
    pub b_1: Option<Bytes>,
    /// `refresh`: time after which a stage is advertised again. `None` is 65,535 byte times at the port's rate.
    pub refresh: Option<Span>,
    /// `ageing`: time after which a stage expires unless repeated. `None` is 64 times `refresh`.
    pub ageing: Option<Span>,
    /// `peer`: flow control of the peer.
    pub peer: GfcPeer,
    /// `stop_at_b_m`: one stage more, from B_m on, stops the sender.
    pub stop_at_b_m: bool,
    /// `unsafe_thresholds`: B_1 may be above the highest safe one, so that frames can be lost.
    pub unsafe_thresholds: bool,
}

/// Flow control of the peer on a link with buffer-based GFC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GfcPeer {
    /// GFC's stages.
    Gfc,
    /// PFC alone, as at most NICs: a stage is approximated by pauses of `P (1 − R_k/C)` in each period P.
    Pfc {
        /// `pulse_period`: P, which adds to τ. `None` is its default.
        period: Option<Span>,
    },
}

impl GfcPeer {
    /// P, if stages are made of pauses.
    pub fn pulse_period(&self) -> Option<Span> {
        match self {
            GfcPeer::Gfc => None,
            GfcPeer::Pfc { period } => Some(period.unwrap_or_else(|| PULSE_PERIOD.value())),
        }
    }
}

impl GfcBufferConfig {
    fn bound<'p>(&self, port: &'p FlowControlContext) -> ThresholdBound<'p, impl Fn(Bytes) -> Option<Bytes> + 'p> {
        let delay = FeedbackDelay::for_port(port, self.tau, self.peer.pulse_period().unwrap_or(Span::ZERO));
        let tau = port.in_cells(delay.total());
        ThresholdBound {
            port,
            delay,
            key: B_1.name,
            symbol: "B_1",
            formula: "B_m - 2 C τ",
            highest_below: move |b_m| buffer_based_b1_max(b_m, port.rate, tau),
            b_m: self.b_m,
            period: "P",
        }
    }

    fn stages(&self, port: &FlowControlContext) -> Result<StageTable, ConfigRejection> {
        let bound = self.bound(port);
        let (b_m, highest) = (port.limit, bound.highest());
        let made = match self.b_1.or(highest) {
            b_1 if self.unsafe_thresholds => StageTable::without_guarantee(b_m, b_1.unwrap_or(Bytes::ZERO), port.rate),
            Some(b_1) => StageTable::new(b_m, b_1, port.rate, port.in_cells(bound.delay.total())),
            None => Err(ThresholdError::Equation5 { highest }),
        };
        let stages = made.map_err(|error| bound.rejection(error))?;
        Ok(if self.stop_at_b_m { stages.with_stop() } else { stages })
    }

    fn refresh(&self, rate: BitRate) -> Span {
        self.refresh.unwrap_or_else(|| Advertiser::period_by_default(rate))
    }
}

impl FlowControlConfig for GfcBufferConfig {
    fn kind(&self) -> &'static str {
        KIND.id()
    }

    fn label(&self) -> &'static str {
        match self.peer {
            GfcPeer::Gfc => "GFC by stages",
            GfcPeer::Pfc { .. } => "GFC by stages, pulsed",
        }
    }

    fn message_kind(&self) -> MessageKind {
        match self.peer {
            GfcPeer::Gfc => MessageKind::Stages,
            GfcPeer::Pfc { .. } => MessageKind::Pulses,
        }
    }

    fn limit(&self) -> Option<QueueLimit> {
        let threshold = self.b_1.map(|b_1| (B_1.name, b_1));
        Some(QueueLimit { key: B_M.name, given: self.b_m, threshold, is_unsafe: Some(self.unsafe_thresholds) })
    }

    fn check(&self, port: &PortCheck<'_>) {
        match self.peer {
            GfcPeer::Gfc => refuse_pulses_unasked(port),
            GfcPeer::Pfc { period } => {
                pulses_have_quanta(port, period, self.peer.pulse_period().unwrap_or_default());
                refuse_to_stop_by_pulses(port, self.stop_at_b_m);
            }
        }
        outlives_its_refresh(port, self.ageing, REFRESH.name, self.refresh);
    }

    fn build(&self, port: &FlowControlContext) -> Result<PortFlowControl, ConfigRejection> {
        let (stages, refresh) = (self.stages(port)?, self.refresh(port.rate));
        Ok(match self.peer.pulse_period() {
            None => {
                check_share(REFRESH.name, port.rate, refresh)?;
                PortFlowControl::new(GfcBuffer { stages, refresh, ageing: ageing(self.ageing, refresh) })
            }
            Some(period) => {
                let peer_pfc = Pfc { quanta: port.quanta, refresh_percent: port.refresh_percent };
                PortFlowControl::new(GfcPulse { stages, period, peer_pfc })
            }
        })
    }

    fn repetition(&self, rate: BitRate) -> Option<Span> {
        Some(self.peer.pulse_period().unwrap_or(self.refresh(rate)))
    }

    fn common_values(&self, port: &FlowControlContext) -> Vec<(&'static str, String)> {
        let Some(stages) = self.stages(port).ok().filter(|_| self.peer == GfcPeer::Gfc) else { return Vec::new() };
        vec![(B_1.name, format!("{} stages", stages.stages())), (STOP_AT_B_M.name, self.stop_at_b_m.to_string())]
    }

    fn feedback_delay(&self, port: &FlowControlContext) -> Option<Span> {
        Some(self.bound(port).delay.total())
    }

    fn describe(&self, port: &FlowControlContext) -> Option<Description> {
        let (bound, stages, rate) = (self.bound(port), self.stages(port).ok()?, port.rate);
        let description = bound.describe(stages.start(1)?);
        let named = format!("N = {} stages", stages.stages());
        Some(match self.peer.pulse_period() {
            None => {
                let refresh = self.refresh(port.rate);
                let (changing, at_rest) = (share(rate, bound.delay.total()), share(rate, refresh));
                let messages = format!(
                    "{changing} with one per τ while stages change, as in the paper; {at_rest} with one each {refresh} at rest; \
                     more if a queue swings about the start of a stage"
                );
                let description =
                    description.line(named).table(stage_rows(&stages, rate, None)).line(overhead_text(&messages));
                stops(description.line(ageing_text(ageing(self.ageing, refresh))), self.stop_at_b_m)
            }
            Some(period) => {
                let longest = longest_pause(period);
                let pulses = format!(
                    "pulses: a pause of P (1 - R_k/C) in each period P = {period}, none longer than {longest} ({} quanta); P is part \
                     of τ",
                    count(u64::from(Quantum::for_rate(rate).in_span(longest)))
                );
                let description = description.line(pulses).line(named).table(stage_rows(&stages, rate, Some(period)));
                let share = share(rate, period);
                description.line(overhead_text(&format!("{share} with one per P, none while all queues are below B_1")))
            }
        })
    }

    fn warnings(&self, port: &FlowControlContext) -> Vec<String> {
        let threshold = self.stages(port).ok().and_then(|stages| stages.start(1));
        self.bound(port).warnings(threshold, self.unsafe_thresholds)
    }

    fn silence_warning(&self) -> Option<&'static str> {
        (self.peer == GfcPeer::Gfc).then_some(SILENCE)
    }

    fn loss_hint(&self) -> (&'static str, &'static str) {
        match self.peer {
            GfcPeer::Gfc => OVERRUN,
            GfcPeer::Pfc { .. } => HEADROOM_VIOLATED,
        }
    }
}

/// Rejects a period of pulses for a peer that gets none.
fn refuse_pulses_unasked(port: &PortCheck<'_>) {
    let (period, peer) = (port.key(PULSE_PERIOD.name), port.key(PEER.name));
    if !port.doc.has(&period) || !port.doc.sound(&[&peer]) {
        return;
    }
    let given = if port.doc.has(&peer) { "" } else { " (the default)" };
    let message = format!("`pulse_period` is of a `peer` \"pfc\", but `peer` is \"gfc\"{given}");
    let problem = Problem::new(message, "write peer = \"pfc\", or take `pulse_period` out");
    port.doc.note(problem.with_key_label(period, "").with_label(peer, "the peer"));
}

/// Rejects a stop by pulses, which let a frame pass in each period, so that a failure of this port does not stop its peer.
fn refuse_to_stop_by_pulses(port: &PortCheck<'_>, stops: bool) {
    let (stop, peer) = (port.key(STOP_AT_B_M.name), port.key(PEER.name));
    if !stops || !port.doc.sound(&[&stop, &peer]) {
        return;
    }
    let message = "`stop_at_b_m` is of a `peer` \"gfc\", but `peer` is \"pfc\": pulses let a frame pass in each period";
    let problem = Problem::new(message.to_owned(), "take `stop_at_b_m` out, or write peer = \"gfc\"");
    port.doc.note(problem.with_key_label(stop, "").with_label(peer, "the peer"));
}

/// Checks that the pulse period has a valid number of quanta: few quanta make coarse rates, and a PAUSE has 16 bits for them.
fn pulses_have_quanta(port: &PortCheck<'_>, given: Option<Span>, period: Span) {
    let key = port.key(PULSE_PERIOD.name);
    let Some(rate) = port.rate.filter(|_| port.doc.sound(&[&key])) else { return };
    let (least, most) = PULSE_QUANTA.into_inner();
    let from = if given.is_some() { "" } else { " (the default)" };
    let bits_ps = u128::from(rate.as_bps()) * u128::from(period.as_picos());
    let quanta_ps = |quanta: u64| u128::from(quanta) * QUANTUM_BITS_PS;
    let quanta = match bits_ps {
        few if few < quanta_ps(least) => few / QUANTUM_BITS_PS,
        many if many > quanta_ps(most) => many.div_ceil(QUANTUM_BITS_PS),
        _ => return,
    };
    let message = format!(
        "`pulse_period` {period}{from} is {quanta} in quanta of 512 bit times at `rate` {rate}, but must be {least} to {most}"
    );
    let shortest = as_shown(quanta_ps(least).div_ceil(u128::from(rate.as_bps())) as u64);
    let longest = Span::from_picos((quanta_ps(most) / u128::from(rate.as_bps())) as u64);
    let problem = Problem::new(message, format!("write pulse_period from \"{shortest}\" to \"{longest}\""));
    port.doc.note(problem.with_label(key, "").with_label(format!("{}.rate", port.path), "the rate"));
}

const PULSE_QUANTA: RangeInclusive<u64> = 100..=65_535;
const QUANTUM_BITS_PS: u128 = 512 * 1_000_000_000_000;

/// Tabulates the first stages and the last; with pulses of this period, their pauses.
fn stage_rows(stages: &StageTable, line: BitRate, pulses: Option<Span>) -> Vec<Vec<String>> {
    let head = ["Stage k", "From B_k B", "Rate R_k"].into_iter().chain(pulses.map(|_| "Pause in each P"));
    let mut rows = vec![head.map(str::to_owned).collect::<Vec<_>>()];
    for stage in 0..=stages.stages() {
        let rate = stages.rate(stage);
        let pause = pulses.map(|period| (period - at_rate(period, rate, line)).min(longest_pause(period)));
        if stage <= STAGES_SHOWN || stage == stages.stages() {
            let start = stages.start(stage).unwrap_or(Bytes::ZERO);
            let cells = [stage.to_string(), count(start.get()), rate.to_string()];
            rows.push(cells.into_iter().chain(pause.map(|pause| pause.to_string())).collect());
        } else if stage == STAGES_SHOWN + 1 {
            rows.push(vec!["…".to_owned(); rows[0].len()]);
        }
    }
    rows
}

/// Number of stages above stage 0 that are listed, in addition to the last.
const STAGES_SHOWN: u16 = 8;

/// Returns the longest pause in a period.
fn longest_pause(period: Span) -> Span {
    period - Pulse::open_at_least(period)
}

/// Returns the part of a period in which a class of this rate runs.
fn at_rate(period: Span, rate: BitRate, line: BitRate) -> Span {
    let picos = u128::from(period.as_picos()) * u128::from(rate.as_bps()) / u128::from(line.as_bps());
    Span::from_picos(picos as u64)
}
