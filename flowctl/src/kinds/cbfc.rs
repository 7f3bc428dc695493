//! `cbfc`: credit-based flow control, as InfiniBand's. The sender has credit for the free part of the queue's buffer, and sends
//! nothing without credit. [`crate::cbfc`] has the state machines of both sides.

use weir_reader::{Key, Keys, Plugin, Table};
use weir_units::{BitRate, Bytes, Class, Span, Time, count};
use weir_wire::mac_control::ControlFrame;

use super::closed_form::{LIMIT_BY_DEFAULT, PERIOD_BY_DEFAULT, check_share, limit_from, overhead_text, share};
use crate::cbfc::{Advertiser, BLOCK, BlockCounters, CreditCounters, blocks_held};
use crate::keys::{LENGTHS, PERIODS};
use crate::pfc::PauseTimers;
use crate::{
    BufferState, ConfigRejection, Description, FlowControl, FlowControlChoice, FlowControlConfig, FlowControlContext,
    FlowControlInitiator, FlowControlKind, FlowControlReceiver, MessageGenerator, MessageKind, PortFlowControl,
    PortParameters, QueueLimit, ReceiveAccounting,
};

const BUFFER: Key<Bytes> =
    Key::size("buffer", LENGTHS, "maximum length of an ingress queue, and maximum credit; equal at both ends")
        .or_else(LIMIT_BY_DEFAULT);
/// Key of T, which time-based GFC has too.
pub(super) const PERIOD: Key<Span> =
    Key::time("period", PERIODS, "T: time between two messages").or_else(PERIOD_BY_DEFAULT);

/// Kind `cbfc`.
pub(super) static KIND: CbfcKind = CbfcKind;

#[derive(Debug)]
pub(super) struct CbfcKind;

impl Plugin for CbfcKind {
    fn id(&self) -> &'static str {
        "cbfc"
    }

    fn keys(&self) -> Keys {
        &[&BUFFER, &PERIOD]
    }
}

impl FlowControlKind for CbfcKind {
    fn parse(&self, table: &Table<'_>) -> FlowControlChoice {
        FlowControlChoice::new(CbfcConfig { buffer: table.given(&BUFFER), period: table.given(&PERIOD) })
    }
}

/// CBFC settings of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CbfcConfig {
    /// `buffer`: buffer of one ingress queue. `None` is the buffer reserved for a queue, minus a frame.
    pub buffer: Option<Bytes>,
    /// `period`: the time between two messages. `None` is 65,535 byte times at the port's rate.
    pub period: Option<Span>,
}

impl CbfcConfig {
    fn period(&self, rate: BitRate) -> Span {
        self.period.unwrap_or_else(|| Advertiser::period_by_default(rate))
    }

    fn for_port(&self, port: &FlowControlContext) -> Cbfc {
        Cbfc { buffer: port.limit, period: self.period(port.rate) }
    }
}

impl FlowControlConfig for CbfcConfig {
    fn kind(&self) -> &'static str {
        KIND.id()
    }

    fn label(&self) -> &'static str {
        "CBFC"
    }

    fn message_kind(&self) -> MessageKind {
        MessageKind::LengthsOrCredits
    }

    fn limit(&self) -> Option<QueueLimit> {
        Some(QueueLimit { key: BUFFER.name, given: self.buffer, threshold: None, is_unsafe: None })
    }

    fn block(&self) -> Option<Bytes> {
        Some(BLOCK)
    }

    fn build(&self, port: &FlowControlContext) -> Result<PortFlowControl, ConfigRejection> {
        let cbfc = self.for_port(port);
        check_share(PERIOD.name, port.rate, cbfc.period)?;
        Ok(PortFlowControl::new(cbfc))
    }

    fn repetition(&self, rate: BitRate) -> Option<Span> {
        Some(self.period(rate))
    }

    fn describe(&self, port: &FlowControlContext) -> Option<Description> {
        let Cbfc { buffer, period } = self.for_port(port);
        let blocks = format!("{} blocks of {} B", count(buffer.get() / BLOCK.get()), BLOCK.get());
        let description = Description::default()
            .line(format!("buffer = {} B{}: {blocks}", count(buffer.get()), limit_from(self.buffer)))
            .line(format!("T = {period}"))
            .line(overhead_text(&format!("{} with one per T", share(port.rate, period))));
        Some(description)
    }

    fn silence_warning(&self) -> Option<&'static str> {
        Some("without credit nothing of its classes is sent")
    }

    fn loss_hint(&self) -> (&'static str, &'static str) {
        (
            "arrivals exceeded the credit",
            "does the peer speak CBFC, with the same `buffer`, and has the buffer room for that?",
        )
    }
}

/// CBFC at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cbfc {
    /// Size of one class's queue, and so the most credit that this end uses.
    pub buffer: Bytes,
    /// T, between two messages.
    pub period: Span,
}

impl FlowControl for Cbfc {
    fn message_kind(&self) -> MessageKind {
        MessageKind::LengthsOrCredits
    }

    fn initiator(&self, port: PortParameters) -> MessageGenerator {
        MessageGenerator::from_initiator(CreditInitiator::new(port, self.period))
    }

    fn receiver(&self, _port: PortParameters) -> Box<dyn FlowControlReceiver> {
        Box::new(CreditCounters::new(self.buffer))
    }

    fn receive_accounting(&self, _link_overhead: Bytes) -> ReceiveAccounting {
        ReceiveAccounting::Blocks(BlockCounters::new(self.buffer))
    }

    fn reference_lengths(&self) -> Vec<(String, Bytes)> {
        vec![("B".to_owned(), self.buffer)]
    }
}

/// Initiator of CBFC and time-based GFC: advertises credit each period.
#[derive(Debug)]
pub(super) struct CreditInitiator {
    port: PortParameters,
    advertiser: Advertiser,
}

impl CreditInitiator {
    pub(super) fn new(port: PortParameters, period: Span) -> CreditInitiator {
        CreditInitiator { port, advertiser: Advertiser::new(port.classes, period) }
    }
}

impl FlowControlInitiator for CreditInitiator {
    fn poll(&self, now: Time, buffer: &BufferState<'_>) -> Option<ControlFrame> {
        let ReceiveAccounting::Blocks(receiver) = buffer.arrived else { return None };
        if now < self.advertiser.next_wakeup() {
            return None;
        }
        self.port.classes.iter().for_each(|class| receiver.settle(class, || blocks_held((buffer.occupancy)(class))));
        self.advertiser.poll(now, receiver, buffer.blocks_sent).map(ControlFrame::Credit)
    }

    fn handle_sent(&mut self, now: Time, _frame: &ControlFrame, _buffer: &BufferState<'_>) {
        self.advertiser.handle_sent(now);
    }

    fn restart(&mut self, at: Time) {
        self.advertiser.restart(at);
    }

    fn next_wakeup(&self, _now: Time) -> Time {
        self.advertiser.next_wakeup()
    }
}

impl FlowControlReceiver for CreditCounters {
    fn handle(&self, _now: Time, frame: &ControlFrame, _pause_timers: &PauseTimers) -> bool {
        let ControlFrame::Credit(frame) = frame else { return false };
        self.handle_credit(frame);
        true
    }

    fn reset(&self, _now: Time) {
        CreditCounters::reset(self);
    }

    fn needs_credit(&self) -> bool {
        true
    }

    fn has_credit(&self, class: Class, frame_bytes: u32) -> bool {
        self.may_send(class, frame_bytes)
    }

    fn counts_sent(&self) -> bool {
        true
    }

    fn handle_sent(&self, class: Class, frame_bytes: u32) {
        CreditCounters::handle_sent(self, class, frame_bytes);
    }

    fn has_credit_for(&self, class: Class, frames: &[u32], bytes: u32) -> bool {
        self.may_send_all(class, frames, bytes)
    }

    fn handle_all_sent(&self, class: Class, frames: &[u32]) {
        CreditCounters::handle_all_sent(self, class, frames);
    }

    fn sent_total(&self, class: Class) -> u32 {
        CreditCounters::sent_total(self, class)
    }

    fn invalid_messages(&self) -> u64 {
        self.stale() + self.excessive()
    }

    fn excessive_credits(&self) -> u64 {
        self.excessive()
    }
}
