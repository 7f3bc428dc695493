//! Feedback delay τ of flow control sent by one end of a link: see [`weir_results::feedback`].
//!
//! Virtual time needs no timestamps per frame. A message carries the arrival time that caused it. When the message is
//! handled, the wire knows the arrival time of the last frame sent before. τ ends then, or with the message if no frame
//! is in flight. The end that obeys the message keeps the measurements, so logical processes exchange none.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_results::feedback::{FeedbackDelays, FeedbackStats};
use weir_switch_core::FeedbackInstants;
use weir_units::{Span, Time};

use super::frame::Frame;

/// Feedback delay measured at one end of a link.
#[derive(Debug, Default)]
pub(super) struct EndFeedback {
    /// `None` before the first message.
    delays: Option<Box<FeedbackDelays>>,
    /// Message not known to be applied yet.
    pending: Option<PendingMessage>,
    /// Arrival times of this end's last control frame, and of the last data frame before it.
    control: [Time; 2],
    /// Time at which the port last applied a message, in ps; `None` for a host, which applies it at once.
    applied: Option<Arc<AtomicU64>>,
}

#[derive(Clone, Copy, Debug)]
struct PendingMessage {
    arrived: Time,
    crossed: Time,
    /// Arrival time of the last data frame sent before, or the time the message was handled if later.
    end: Time,
}

impl EndFeedback {
    /// Creates the measurement of a switch port, which records when it applies a message.
    pub(super) fn for_port(port: &FeedbackInstants) -> EndFeedback {
        EndFeedback { applied: Some(port.applied_at.clone()), ..EndFeedback::default() }
    }

    /// Records a sent control frame: the arrival time of the frame before it, and its own.
    pub(super) fn record_sent(&mut self, before: Time, arrives: Time) {
        let data = self.last_data(before);
        self.control = [arrives, data];
    }

    /// Returns the arrival time of the last data frame, given that of the last frame.
    fn last_data(&self, last: Time) -> Time {
        let [control, data] = self.control;
        if last == control { data } else { last }
    }

    /// Handles a received control frame. `sent_until` is the arrival time of the last frame that this end has sent.
    pub(super) fn handle(&mut self, now: Time, frame: &Frame, sent_until: Time) {
        let Some(control) = frame.unmarked_content().as_control() else { return };
        self.record_applied();
        let delays = self.delays.get_or_insert_default();
        if !delays.slows_down(&control) {
            return;
        }
        if let Some(crossed) = frame.crossed() {
            self.pending = Some(PendingMessage { arrived: now, crossed, end: self.last_data(sent_until).max(now) });
        }
    }

    /// Records the pending message if it was applied. A message is applied before the next one arrives, or never.
    fn record_applied(&mut self) {
        let delay = self.pending.take().and_then(|pending| self.applied(pending));
        if let (Some(delays), Some(delay)) = (&mut self.delays, delay) {
            delays.record(delay);
        }
    }

    /// Returns τ of a message if it was applied.
    fn applied(&self, pending: PendingMessage) -> Option<Span> {
        // Relaxed: only this node's thread writes it.
        let obeyed = self.applied.as_ref().is_none_or(|at| at.load(Ordering::Relaxed) >= pending.arrived.as_picos());
        obeyed.then(|| pending.end.since(pending.crossed))
    }

    pub(super) fn stats(&self) -> FeedbackStats {
        let Some(delays) = &self.delays else { return FeedbackStats::default() };
        let mut delays = delays.clone();
        let last = self.pending.and_then(|pending| self.applied(pending));
        last.into_iter().for_each(|delay| delays.record(delay));
        delays.stats()
    }
}
