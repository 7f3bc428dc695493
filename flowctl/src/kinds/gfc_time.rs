//! `gfc-time`: time-based Gentle Flow Control (GFC 5.2). The sender's rate follows the queue's length, which CBFC's message
//! advertises periodically: C up to B_0, and `C (B_m − q) / (B_m − B_0)` above. [`gfc::time_based`](crate::gfc::time_based) has its
//! receiver; the initiator is CBFC's.

use weir_reader::{Key, Keys, Plugin, Table};
use weir_units::{BitRate, Bytes, Class, Span, Time};
use weir_wire::mac_control::ControlFrame;

use super::closed_form::{
    self, B_M, FeedbackDelay, OVERRUN, SILENCE, TAU, ThresholdBound, UNSAFE_THRESHOLDS, ageing, ageing_text,
    check_share, outlives_its_refresh, overhead_text, rate_rows, share, stops,
};
use crate::cbfc::{Advertiser, BLOCK, BlockCounters};
use crate::gfc::{ClassRates, RateMapping, ThresholdError, time_based, time_based_b0_max};
use crate::keys::LENGTHS;
use crate::kinds::cbfc::{CreditInitiator, PERIOD};
use crate::pfc::PauseTimers;
use crate::{
    ConfigRejection, Description, FlowControl, FlowControlChoice, FlowControlConfig, FlowControlContext,
    FlowControlKind, FlowControlReceiver, MessageGenerator, MessageKind, PortCheck, PortFlowControl, PortParameters,
    QueueLimit, ReceiveAccounting,
};

const B_0: Key<Bytes> = Key::size("b_0", LENGTHS, "B_0: length up to which the sender has rate C; below `b_m`")
    .or_else("the highest safe one, B_m − (√(τ/T) + 1)² C T (GFC, theorem 5.1)");

const AGEING: Key<Span> = closed_form::AGEING
    .with_help("lifetime of the peer's messages, after which classes return to the line rate; at least 4 T")
    .or_else("64 T; with the default T that is PFC's longest PAUSE, 3.36 ms at 10 Gb/s");

const STOP_AT_B_M: Key<bool> = closed_form::STOP_AT_B_M.with_help(
    "whether a queue of length B_m [stops its sender](FLOW_CONTROL.md#gfc-beyond-b_m), which otherwise keeps the \
     least rate: frames need credit, as under CBFC",
);

/// Kind `gfc-time`.
pub(super) static KIND: GfcTimeKind = GfcTimeKind;

#[derive(Debug)]
pub(super) struct GfcTimeKind;

impl Plugin for GfcTimeKind {
    fn id(&self) -> &'static str {
        "gfc-time"
    }

    fn keys(&self) -> Keys {
        &[&TAU, &B_M, &B_0, &PERIOD, &AGEING, &STOP_AT_B_M, &UNSAFE_THRESHOLDS]
    }
}

impl FlowControlKind for GfcTimeKind {
    fn parse(&self, table: &Table<'_>) -> FlowControlChoice {
        FlowControlChoice::new(GfcTimeConfig {
            tau: table.given(&TAU),
            b_m: table.given(&B_M),
            b_0: table.given(&B_0),
            period: table.given(&PERIOD),
            ageing: table.given(&AGEING),
            stop_at_b_m: table.get(&STOP_AT_B_M),
            unsafe_thresholds: table.get(&UNSAFE_THRESHOLDS),
        })
    }
}

/// Time-based GFC settings of a port, with the names of GFC (5.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GfcTimeConfig {
    /// `tau`: τ, as for [`GfcBufferConfig`](super::GfcBufferConfig).
    pub tau: Option<Span>,
    /// `b_m`: B_m, as for [`GfcBufferConfig`](super::GfcBufferConfig).
    pub b_m: Option<Bytes>,
    /// `b_0`: B_0, the length from which the sender slows down. `None` is the highest safe one,
    /// `B_m − (√(τ/T) + 1)² C T` (GFC, theorem 5.1).
    pub b_0: Option<Bytes>,
    /// `period`: T, the time between two messages. `None` is 65,535 byte times at the port's rate.
    pub period: Option<Span>,
    /// `ageing`: time after which a rate expires unless repeated. `None` is 64 times T.
    pub ageing: Option<Span>,
    /// `stop_at_b_m`: a frame needs credit, as under CBFC.
    pub stop_at_b_m: bool,
    /// `unsafe_thresholds`: B_0 may be above the highest safe one, so that frames can be lost.
    pub unsafe_thresholds: bool,
}

impl GfcTimeConfig {
    fn bound<'p>(&self, port: &'p FlowControlContext) -> ThresholdBound<'p, impl Fn(Bytes) -> Option<Bytes> + 'p> {
        let delay = FeedbackDelay::for_port(port, self.tau, Span::ZERO);
        let (tau, period) = (port.in_cells(delay.total()), port.in_cells(self.period(port.rate)));
        ThresholdBound {
            port,
            delay,
            key: B_0.name,
            symbol: "B_0",
            formula: "B_m - (√(τ/T) + 1)² C T",
            highest_below: move |b_m| time_based_b0_max(b_m, port.rate, tau, period),
            b_m: self.b_m,
            period: "T",
        }
    }

    fn for_port(&self, port: &FlowControlContext) -> Result<GfcTime, ConfigRejection> {
        let (bound, period) = (self.bound(port), self.period(port.rate));
        check_share(PERIOD.name, port.rate, period)?;
        let (b_m, highest) = (port.limit, bound.highest());
        let mapping = match self.b_0.or(highest) {
            b_0 if self.unsafe_thresholds => RateMapping::without_guarantee(b_m, b_0.unwrap_or(Bytes::ZERO), port.rate),
            Some(b_0) => {
                let tau = port.in_cells(bound.delay.total());
                RateMapping::time_based(b_m, b_0, port.rate, tau, port.in_cells(period))
            }
            None => Err(ThresholdError::Theorem51 { highest }),
        };
        let mapping = mapping.map_err(|error| bound.rejection(error))?;
        Ok(GfcTime { mapping, buffer: b_m, period, ageing: ageing(self.ageing, period), stops: self.stop_at_b_m })
    }

    fn period(&self, rate: BitRate) -> Span {
        self.period.unwrap_or_else(|| Advertiser::period_by_default(rate))
    }
}

impl FlowControlConfig for GfcTimeConfig {
    fn kind(&self) -> &'static str {
        KIND.id()
    }

    fn label(&self) -> &'static str {
        "GFC by time"
    }

    fn message_kind(&self) -> MessageKind {
        MessageKind::LengthsOrCredits
    }

    fn limit(&self) -> Option<QueueLimit> {
        let threshold = self.b_0.map(|b_0| (B_0.name, b_0));
        Some(QueueLimit { key: B_M.name, given: self.b_m, threshold, is_unsafe: Some(self.unsafe_thresholds) })
    }

    fn block(&self) -> Option<Bytes> {
        Some(BLOCK)
    }

    fn check(&self, port: &PortCheck<'_>) {
        outlives_its_refresh(port, self.ageing, PERIOD.name, self.period);
    }

    fn build(&self, port: &FlowControlContext) -> Result<PortFlowControl, ConfigRejection> {
        self.for_port(port).map(PortFlowControl::new)
    }

    fn repetition(&self, rate: BitRate) -> Option<Span> {
        Some(self.period(rate))
    }

    fn common_values(&self, port: &FlowControlContext) -> Vec<(&'static str, String)> {
        let Ok(GfcTime { mapping, .. }) = self.for_port(port) else { return Vec::new() };
        vec![(B_M.name, mapping.b_m().to_string()), (B_0.name, mapping.b_0().to_string())]
    }

    fn feedback_delay(&self, port: &FlowControlContext) -> Option<Span> {
        Some(self.bound(port).delay.total())
    }

    fn describe(&self, port: &FlowControlContext) -> Option<Description> {
        let GfcTime { mapping, period, ageing, .. } = self.for_port(port).ok()?;
        let description = self
            .bound(port)
            .describe(mapping.b_0())
            .line(format!("T = {period}"))
            .table(rate_rows(&mapping))
            .line(overhead_text(&format!("{} with one per T", share(port.rate, period))))
            .line(ageing_text(ageing));
        Some(stops(description, self.stop_at_b_m))
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

/// Time-based GFC at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GfcTime {
    /// Mapping of queue length to rate.
    pub mapping: RateMapping,
    /// Size B of one class's queue.
    pub buffer: Bytes,
    /// T, the time between two messages.
    pub period: Span,
    /// Lifetime of a rate that is not repeated: the class has the line rate then.
    pub ageing: Span,
    /// Whether a frame needs credit, as under CBFC, so that a queue of B_m stops its sender.
    pub stops: bool,
}

impl FlowControl for GfcTime {
    fn message_kind(&self) -> MessageKind {
        MessageKind::LengthsOrCredits
    }

    fn initiator(&self, port: PortParameters) -> MessageGenerator {
        MessageGenerator::from_initiator(CreditInitiator::new(port, self.period))
    }

    fn receiver(&self, _port: PortParameters) -> Box<dyn FlowControlReceiver> {
        let adjuster = time_based::TimeRateAdjuster::new(self.mapping, self.buffer, self.ageing);
        Box::new(if self.stops { adjuster.with_stop() } else { adjuster })
    }

    fn receive_accounting(&self, _link_overhead: Bytes) -> ReceiveAccounting {
        ReceiveAccounting::Blocks(BlockCounters::new(self.buffer))
    }

    fn reference_lengths(&self) -> Vec<(String, Bytes)> {
        vec![("B_0".to_owned(), self.mapping.b_0())]
    }

    fn estimated_queue(&self, rate: BitRate) -> Option<Bytes> {
        Some(self.mapping.queue(rate))
    }
}

impl FlowControlReceiver for time_based::TimeRateAdjuster {
    fn handle(&self, now: Time, frame: &ControlFrame, _pause_timers: &PauseTimers) -> bool {
        let ControlFrame::Credit(frame) = frame else { return false };
        self.handle_credit(now, frame);
        true
    }

    fn reset(&self, now: Time) {
        time_based::TimeRateAdjuster::reset(self, now);
    }

    fn rates(&self) -> Option<&ClassRates> {
        Some(time_based::TimeRateAdjuster::rates(self))
    }

    fn needs_credit(&self) -> bool {
        self.stops()
    }

    fn has_credit(&self, class: Class, frame_bytes: u32) -> bool {
        self.credits().may_send(class, frame_bytes)
    }

    fn has_credit_for(&self, class: Class, frames: &[u32], bytes: u32) -> bool {
        self.credits().may_send_all(class, frames, bytes)
    }

    fn counts_sent(&self) -> bool {
        true
    }

    fn handle_sent(&self, class: Class, frame_bytes: u32) {
        time_based::TimeRateAdjuster::handle_sent(self, class, frame_bytes);
    }

    fn handle_all_sent(&self, class: Class, frames: &[u32]) {
        time_based::TimeRateAdjuster::handle_all_sent(self, class, frames);
    }

    fn sent_total(&self, class: Class) -> u32 {
        self.credits().sent_total(class)
    }

    fn invalid_messages(&self) -> u64 {
        self.credits().stale() + self.credits().excessive()
    }

    fn excessive_credits(&self) -> u64 {
        self.credits().excessive()
    }
}
