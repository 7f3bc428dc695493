//! Flow control `timed-stop`: PFC's hysteresis in time and not in bytes.
//!
//! A queue that reaches `stop_at` stops its sender for `hold`, and repeats the message each half of `hold` while the queue stays there.
//! No message resumes a sender: a stop expires, so that a lost message stops no sender for good. `stop_at` is the limit less the bytes
//! that may arrive in τ, so that no lossless frame is dropped.
//!
//! The messages are MAC control frames with the opcode that IEEE 802.3 leaves to organisations.
//!
//! The types of a flow control: [`TimedStopKind`] parses the table, its config builds the flow control of a port, whose initiator sends
//! messages and whose receiver obeys them.

use std::sync::atomic::{AtomicU64, Ordering};

use weir_flowctl::kinds::FeedbackDelay;
use weir_flowctl::pfc::PauseTimers;
use weir_flowctl::{
    BufferState, ConfigRejection, Description, FlowControl, FlowControlChoice, FlowControlConfig, FlowControlContext,
    FlowControlInitiator, FlowControlKind, FlowControlReceiver, Gauge, Gauges, MessageGenerator, MessageKind,
    PortFlowControl, PortParameters, QueueLimit,
};
use weir_reader::{Key, Keys, Plugin, Table, Unit};
use weir_units::{Bytes, CLASSES, Class, ClassSet, Span, Time};
use weir_wire::mac_control::{ControlFrame, RawControlFrame};

/// Kind of the flow control, for `weir::Extensions`.
#[derive(Debug)]
pub struct TimedStopKind;

const LIMIT: Key<Bytes> = Key::size("limit", Bytes::new(1)..=Bytes::mb(2_000), "maximum length of a queue")
    .or_else("the buffer reserved for a queue less a frame");
const HOLD: Key<Span> =
    Key::time("hold", Span::from_micros(1)..=Span::from_millis(100), "duration of a stop").or("20us");

const STOPS_RECEIVED: Gauge =
    Gauge::new("stops_received", Unit::Count, "stops received", "Messages that stopped the class.");

impl Plugin for TimedStopKind {
    fn id(&self) -> &'static str {
        "timed-stop"
    }

    fn keys(&self) -> Keys {
        &[&LIMIT, &HOLD]
    }

    fn gauges(&self) -> &'static [Gauge] {
        &[STOPS_RECEIVED]
    }
}

impl FlowControlKind for TimedStopKind {
    fn parse(&self, table: &Table<'_>) -> FlowControlChoice {
        FlowControlChoice::new(TimedStopConfig { limit: table.given(&LIMIT), hold: table.get(&HOLD) })
    }
}

/// Values of a port, from its file.
#[derive(Debug)]
struct TimedStopConfig {
    limit: Option<Bytes>,
    hold: Span,
}

impl TimedStopConfig {
    /// Returns the bytes that may arrive after a queue has reached `stop_at`: τ at the line's rate, and a frame that has begun.
    fn headroom(&self, port: &FlowControlContext) -> Bytes {
        let tau = FeedbackDelay::for_port(port, None, Span::ZERO).total();
        port.rate.bytes_in(port.in_cells(tau)) + port.frame_max
    }
}

impl FlowControlConfig for TimedStopConfig {
    fn kind(&self) -> &'static str {
        TimedStopKind.id()
    }

    fn label(&self) -> &'static str {
        "timed stop"
    }

    fn message_kind(&self) -> MessageKind {
        MessageKind::Custom
    }

    fn limit(&self) -> Option<QueueLimit> {
        Some(QueueLimit { key: LIMIT.name, given: self.limit, threshold: None, is_unsafe: None })
    }

    fn build(&self, port: &FlowControlContext) -> Result<PortFlowControl, ConfigRejection> {
        let headroom = self.headroom(port);
        let Some(stop_at) = port.limit.checked_sub(headroom).filter(|stop_at| *stop_at > Bytes::ZERO) else {
            return Err(ConfigRejection {
                key: LIMIT.name,
                message: format!("{headroom} may come after a stop, and `limit` is {}", port.limit),
                help: format!("write limit above \"{headroom}\", or a smaller `reaction` in [pfc]"),
            });
        };
        // A stop is repeated before it ends, however late the message is made.
        let least = port.reaction * 2;
        if self.hold < least {
            return Err(ConfigRejection {
                key: HOLD.name,
                message: format!(
                    "`hold` {} is less than twice `reaction` {}: it may end unasked",
                    self.hold, port.reaction
                ),
                help: format!("write hold = \"{least}\" or more, or a smaller `reaction` in [pfc]"),
            });
        }
        Ok(PortFlowControl::new(TimedStopFlowControl { stop_at, hold: self.hold }))
    }

    fn describe(&self, port: &FlowControlContext) -> Option<Description> {
        let headroom = self.headroom(port);
        let stop_at = port.limit.checked_sub(headroom)?;
        let text = format!("stops for {} from {stop_at} on; {headroom} may come after that", self.hold);
        Some(Description::default().line(text))
    }

    fn loss_hint(&self) -> (&'static str, &'static str) {
        (
            "more arrived after a stop than `limit` has room for",
            "does the peer use timed-stop, and are delay and reaction right?",
        )
    }
}

/// Flow control of a port.
#[derive(Clone, Copy, Debug)]
struct TimedStopFlowControl {
    stop_at: Bytes,
    hold: Span,
}

impl FlowControl for TimedStopFlowControl {
    fn message_kind(&self) -> MessageKind {
        MessageKind::Custom
    }

    fn uses_queue_length(&self) -> bool {
        true
    }

    fn initiator(&self, port: PortParameters) -> MessageGenerator {
        MessageGenerator::from_initiator(TimedStopInitiator {
            flow_control: *self,
            classes: port.classes,
            due: [Time::ZERO; CLASSES],
        })
    }

    fn receiver(&self, _port: PortParameters) -> Box<dyn FlowControlReceiver> {
        Box::<TimedStopReceiver>::default()
    }
}

/// Sender of a port's messages.
#[derive(Debug)]
struct TimedStopInitiator {
    flow_control: TimedStopFlowControl,
    classes: ClassSet,
    /// Instant of each class from which a stop may be sent.
    due: [Time; CLASSES],
}

impl FlowControlInitiator for TimedStopInitiator {
    fn poll(&self, now: Time, buffer: &BufferState<'_>) -> Option<ControlFrame> {
        let is_full = |class: &Class| (buffer.occupancy)(*class) >= self.flow_control.stop_at;
        let is_due = |class: &Class| now >= self.due[class.index()];
        let full: ClassSet = self.classes.iter().filter(is_full).collect();
        full.iter().any(|class| is_due(&class)).then(|| ControlFrame::Raw(stop(full, self.flow_control.hold)))
    }

    fn handle_sent(&mut self, now: Time, frame: &ControlFrame, _buffer: &BufferState<'_>) {
        let ControlFrame::Raw(frame) = frame else { return };
        let Some((stopped, hold)) = parse(frame) else { return };
        stopped.iter().for_each(|class| self.due[class.index()] = now.saturating_add(hold.divided_by(2)));
    }

    fn restart(&mut self, at: Time) {
        self.due = [at; CLASSES];
    }

    fn next_wakeup(&self, now: Time) -> Time {
        // A class that is not full when it is due waits for its queue.
        self.due.iter().copied().filter(|due| *due > now).min().unwrap_or(Time::NEVER)
    }
}

/// Receiver of the peer's messages, which sets the port's pause timers and counts.
#[derive(Debug, Default)]
struct TimedStopReceiver {
    received: [AtomicU64; CLASSES],
}

impl FlowControlReceiver for TimedStopReceiver {
    fn handle(&self, now: Time, frame: &ControlFrame, pause_timers: &PauseTimers) -> bool {
        let ControlFrame::Raw(frame) = frame else { return false };
        let Some((stopped, hold)) = parse(frame) else { return false };
        for class in stopped {
            pause_timers.hold(now, class, now.saturating_add(hold));
            // One writer; read for reports only.
            self.received[class.index()].fetch_add(1, Ordering::Relaxed);
        }
        true
    }

    fn gauges(&self, _now: Time, class: Class) -> Gauges {
        Gauges::new([(&STOPS_RECEIVED, self.received[class.index()].load(Ordering::Relaxed))])
    }
}

/// Organisation of the messages: a locally administered address block, which no organisation is assigned.
const IDENTIFIER: [u8; 3] = [0x02, 0x74, 0x73];

/// Classes, one bit each, and nanoseconds, 32 bits.
fn stop(classes: ClassSet, hold: Span) -> RawControlFrame {
    let [a, b, c, d] = (hold.as_nanos() as u32).to_be_bytes();
    RawControlFrame::extension(IDENTIFIER, &[classes.bits(), a, b, c, d])
}

fn parse(frame: &RawControlFrame) -> Option<(ClassSet, Span)> {
    let &[classes, a, b, c, d, ..] = frame.extension_payload(IDENTIFIER)?;
    Some((ClassSet::from_bits(classes), Span::from_nanos(u64::from(u32::from_be_bytes([a, b, c, d])))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_flowctl::{ReceiveAccounting, TxRegulator};
    use weir_units::BitRate;

    const CLASS: Class = Class::new(3);
    const PORT: PortParameters = PortParameters { rate: BitRate::gbps(10), classes: CLASS.alone() };

    fn us(n: u64) -> Time {
        Time::from_nanos(n * 1_000)
    }

    #[test]
    fn a_stop_expires_and_is_repeated_while_the_queue_is_full() {
        let flow_control =
            PortFlowControl::new(TimedStopFlowControl { stop_at: Bytes::kb(100), hold: Span::from_micros(20) });
        let mut port = flow_control.initiator(PORT);
        let peer = TxRegulator::new(&flow_control, PORT.rate, PORT.classes);
        let buffer = |kb| BufferState {
            xoff: ClassSet::EMPTY,
            occupancy: move |_| Bytes::kb(kb),
            blocks_sent: |_| 0,
            arrived: &ReceiveAccounting::Uncounted,
        };
        assert_eq!(port.poll(us(1), buffer(99)), None);
        let stop = port.poll(us(1), buffer(100)).unwrap();
        port.handle_sent(us(1), &stop, buffer(100));
        assert!(peer.handle(us(1), &stop));
        assert_eq!((peer.paused(us(20)), peer.paused(us(21))), (CLASS.alone(), ClassSet::EMPTY));
        assert_eq!((port.poll(us(10), buffer(100)), port.next_wakeup(us(10))), (None, us(11)));
        assert_eq!((port.poll(us(11), buffer(100)), port.poll(us(11), buffer(99))), (Some(stop), None));
        assert_eq!(peer.gauges(us(2), CLASS).value("stops_received"), Some(1));
    }
}
