//! `gfc-conceptual`: conceptual Gentle Flow Control (GFC 4.1). The sender's rate follows the queue's length, advertised on each
//! change: C up to B_0, and `C (B_m − q) / (B_m − B_0)` above. [`gfc::length`](crate::gfc::length) has the state machines of both sides.

use weir_reader::{Key, Keys, Plugin, Table};
use weir_units::{BitRate, Bytes, Span, Time};
use weir_wire::mac_control::ControlFrame;

use super::closed_form::{
    AGEING, B_M, FeedbackDelay, OVERRUN, REFRESH, SILENCE, TAU, ThresholdBound, UNSAFE_THRESHOLDS, ageing, ageing_text,
    check_share, outlives_its_refresh, overhead_text, rate_rows, share,
};
use crate::cbfc::Advertiser;
use crate::gfc::{ClassRates, RateMapping, ThresholdError, conceptual_b0_max, length};
use crate::keys::{LENGTHS, PERIODS};
use crate::pfc::PauseTimers;
use crate::{
    BufferState, ConfigRejection, Description, FlowControl, FlowControlChoice, FlowControlConfig, FlowControlContext,
    FlowControlInitiator, FlowControlKind, FlowControlReceiver, MessageGenerator, MessageKind, PortCheck,
    PortFlowControl, PortParameters, QueueLimit,
};

const B_0: Key<Bytes> = Key::size("b_0", LENGTHS, "B_0: length up to which the sender has rate C; below `b_m`")
    .or_else("the highest safe one, B_m − 4 C τ (GFC, theorem 4.1)");
const PERIOD: Key<Span> =
    Key::time("period", PERIODS, "T: minimum time between two messages, zero in the paper; adds to τ")
        .or_else("1,250 byte times at the port's rate: 1 us at 10 Gb/s");

/// Kind `gfc-conceptual`.
pub(super) static KIND: GfcConceptualKind = GfcConceptualKind;

#[derive(Debug)]
pub(super) struct GfcConceptualKind;

impl Plugin for GfcConceptualKind {
    fn id(&self) -> &'static str {
        "gfc-conceptual"
    }

    fn keys(&self) -> Keys {
        &[&TAU, &B_M, &B_0, &PERIOD, &REFRESH, &AGEING, &UNSAFE_THRESHOLDS]
    }
}

impl FlowControlKind for GfcConceptualKind {
    fn parse(&self, table: &Table<'_>) -> FlowControlChoice {
        FlowControlChoice::new(GfcConceptualConfig {
            tau: table.given(&TAU),
            b_m: table.given(&B_M),
            b_0: table.given(&B_0),
            period: table.given(&PERIOD),
            refresh: table.given(&REFRESH),
            ageing: table.given(&AGEING),
            unsafe_thresholds: table.get(&UNSAFE_THRESHOLDS),
        })
    }
}

/// Conceptual GFC settings of a port, with the names of GFC (4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GfcConceptualConfig {
    /// `tau`: τ, as for [`GfcBufferConfig`](super::GfcBufferConfig); without the period, which adds to it.
    pub tau: Option<Span>,
    /// `b_m`: B_m, as for [`GfcBufferConfig`](super::GfcBufferConfig).
    pub b_m: Option<Bytes>,
    /// `b_0`: B_0, the length from which the sender slows down. `None` is the highest safe one, `B_m − 4 C τ` (GFC, theorem 4.1).
    pub b_0: Option<Bytes>,
    /// `period`: minimum time between two messages, zero in the paper. `None` is 1,250 byte times at the port's rate.
    pub period: Option<Span>,
    /// `refresh`: time after which lengths are advertised again. `None` is 65,535 byte times at the port's rate.
    pub refresh: Option<Span>,
    /// `ageing`: time after which a length expires unless repeated. `None` is 64 times `refresh`.
    pub ageing: Option<Span>,
    /// `unsafe_thresholds`: B_0 may be above the highest safe one, so that frames can be lost.
    pub unsafe_thresholds: bool,
}

impl GfcConceptualConfig {
    fn bound<'p>(&self, port: &'p FlowControlContext) -> ThresholdBound<'p, impl Fn(Bytes) -> Option<Bytes> + 'p> {
        let delay = FeedbackDelay::for_port(port, self.tau, self.period(port));
        let tau = port.in_cells(delay.total());
        ThresholdBound {
            port,
            delay,
            key: B_0.name,
            symbol: "B_0",
            formula: "B_m - 4 C τ",
            highest_below: move |b_m| conceptual_b0_max(b_m, port.rate, tau),
            b_m: self.b_m,
            period: "T",
        }
    }

    fn for_port(&self, port: &FlowControlContext) -> Result<GfcConceptual, ConfigRejection> {
        let bound = self.bound(port);
        let (b_m, highest) = (port.limit, bound.highest());
        let mapping = match self.b_0.or(highest) {
            b_0 if self.unsafe_thresholds => RateMapping::without_guarantee(b_m, b_0.unwrap_or(Bytes::ZERO), port.rate),
            Some(b_0) => RateMapping::conceptual(b_m, b_0, port.rate, port.in_cells(bound.delay.total())),
            None => Err(ThresholdError::Theorem41 { highest }),
        };
        let mapping = mapping.map_err(|error| bound.rejection(error))?;
        let (period, refresh) = (self.period(port), self.refresh(port.rate));
        check_share(PERIOD.name, port.rate, period)?;
        check_share(REFRESH.name, port.rate, refresh)?;
        Ok(GfcConceptual { mapping, period, refresh, ageing: ageing(self.ageing, refresh) })
    }

    fn refresh(&self, rate: BitRate) -> Span {
        self.refresh.unwrap_or_else(|| Advertiser::period_by_default(rate))
    }

    /// Returns the minimum time between two messages, as configured or by default.
    fn period(&self, port: &FlowControlContext) -> Span {
        self.period.unwrap_or_else(|| length::LengthGenerator::period_by_default(port.rate))
    }
}

impl FlowControlConfig for GfcConceptualConfig {
    fn kind(&self) -> &'static str {
        KIND.id()
    }

    fn label(&self) -> &'static str {
        "GFC, conceptual"
    }

    fn message_kind(&self) -> MessageKind {
        MessageKind::LengthsOrCredits
    }

    fn limit(&self) -> Option<QueueLimit> {
        let threshold = self.b_0.map(|b_0| (B_0.name, b_0));
        Some(QueueLimit { key: B_M.name, given: self.b_m, threshold, is_unsafe: Some(self.unsafe_thresholds) })
    }

    fn check(&self, port: &PortCheck<'_>) {
        outlives_its_refresh(port, self.ageing, REFRESH.name, self.refresh);
    }

    fn build(&self, port: &FlowControlContext) -> Result<PortFlowControl, ConfigRejection> {
        self.for_port(port).map(PortFlowControl::new)
    }

    fn repetition(&self, rate: BitRate) -> Option<Span> {
        Some(self.refresh(rate))
    }

    fn common_values(&self, port: &FlowControlContext) -> Vec<(&'static str, String)> {
        let Ok(GfcConceptual { mapping, .. }) = self.for_port(port) else { return Vec::new() };
        vec![(B_M.name, mapping.b_m().to_string()), (B_0.name, mapping.b_0().to_string())]
    }

    fn feedback_delay(&self, port: &FlowControlContext) -> Option<Span> {
        Some(self.bound(port).delay.total())
    }

    fn describe(&self, port: &FlowControlContext) -> Option<Description> {
        let GfcConceptual { mapping, period, refresh, ageing } = self.for_port(port).ok()?;
        let (changing, at_rest) = (share(port.rate, period), share(port.rate, refresh));
        let messages =
            format!("{changing} with one per T while lengths change; {at_rest} with one each {refresh} at rest");
        let description = self.bound(port).describe(mapping.b_0());
        Some(
            description
                .line(format!("T = {period} between two messages at least; it is part of τ"))
                .table(rate_rows(&mapping))
                .line(overhead_text(&messages))
                .line(ageing_text(ageing)),
        )
    }

    fn warnings(&self, port: &FlowControlContext) -> Vec<String> {
        let threshold = self.for_port(port).ok().map(|for_port| for_port.mapping.b_0());
        self.bound(port).warnings(threshold, self.unsafe_thresholds)
    }

    fn silence_warning(&self) -> Option<&'static str> {
        Some(SILENCE)
    }

    fn loss_hint(&self) -> (&'static str, &'static str) {
        OVERRUN
    }
}

/// Conceptual GFC at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GfcConceptual {
    /// Mapping of queue length to rate.
    pub mapping: RateMapping,
    /// Minimum time between two messages.
    pub period: Span,
    /// Time without change after which the lengths are repeated.
    pub refresh: Span,
    /// Lifetime of a length that is not repeated: the class has the line rate then.
    pub ageing: Span,
}

impl FlowControl for GfcConceptual {
    fn message_kind(&self) -> MessageKind {
        MessageKind::LengthsOrCredits
    }

    fn uses_queue_length(&self) -> bool {
        true
    }

    fn initiator(&self, port: PortParameters) -> MessageGenerator {
        let generator = length::LengthGenerator::new(port.classes, self.period, self.refresh);
        MessageGenerator::from_initiator(LengthInitiator { port, generator })
    }

    fn receiver(&self, _port: PortParameters) -> Box<dyn FlowControlReceiver> {
        Box::new(length::LengthRateAdjuster::new(self.mapping, self.ageing))
    }

    fn reference_lengths(&self) -> Vec<(String, Bytes)> {
        vec![("B_0".to_owned(), self.mapping.b_0())]
    }
}

#[derive(Debug)]
struct LengthInitiator {
    port: PortParameters,
    generator: length::LengthGenerator,
}

impl FlowControlInitiator for LengthInitiator {
    fn poll(&self, now: Time, buffer: &BufferState<'_>) -> Option<ControlFrame> {
        self.generator.poll(now, &buffer.queues(self.port.classes)).map(ControlFrame::Queue)
    }

    fn handle_sent(&mut self, now: Time, frame: &ControlFrame, _buffer: &BufferState<'_>) {
        if let ControlFrame::Queue(frame) = frame {
            self.generator.handle_sent(now, frame);
        }
    }

    fn restart(&mut self, at: Time) {
        self.generator.restart(at);
    }

    fn next_wakeup(&self, now: Time) -> Time {
        self.generator.next_wakeup(now)
    }
}

impl FlowControlReceiver for length::LengthRateAdjuster {
    fn handle(&self, now: Time, frame: &ControlFrame, _pause_timers: &PauseTimers) -> bool {
        let ControlFrame::Queue(frame) = frame else { return false };
        self.handle_frame(now, frame);
        true
    }

    fn reset(&self, now: Time) {
        length::LengthRateAdjuster::reset(self, now);
    }

    fn rates(&self) -> Option<&ClassRates> {
        Some(length::LengthRateAdjuster::rates(self))
    }
}
