//! The feedback delay τ of what an end of a link sends: see [`weir_results::feedback`].
//!
//! In virtual time it needs no instant of each frame. The arrival that a message is for goes along with it, and when it is taken the wire
//! knows when the last frame that was sent before comes in: τ ends then, or with the message where none is left. The end of the link that
//! obeys keeps what was measured, so that parts on several threads have nothing to tell each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_results::feedback::{FeedbackDelays, FeedbackStats};
use weir_switch_core::Feedback;
use weir_units::archive::{State, Value};
use weir_units::{Span, Time};

use super::frame::Frame;

/// What an end of a link measures.
#[derive(Debug, Default, State)]
pub(super) struct EndFeedback {
    /// None before the first message.
    delays: Option<Box<FeedbackDelays>>,
    /// A message that is not known to be obeyed.
    waiting: Option<Waiting>,
    /// When the last control frame that this end sent arrives, and the last data frame before it.
    control: [Time; 2],
    /// When the port last obeyed, in picoseconds; a host obeys at once.
    #[state(same)]
    applied: Option<Arc<AtomicU64>>,
}

#[derive(Clone, Copy, Debug, Value)]
struct Waiting {
    came: Time,
    crossed: Time,
    /// When the last data frame came in that was sent before, or the message was taken.
    end: Time,
}

impl EndFeedback {
    /// For a switch's port, which notes when it obeys.
    pub(super) fn of_port(port: &Feedback) -> EndFeedback {
        EndFeedback { applied: Some(port.applied_at.clone()), ..EndFeedback::default() }
    }

    /// This end has sent a control frame: when what it sent before comes in, and when that frame does.
    pub(super) fn note_sent(&mut self, before: Time, arrives: Time) {
        let data = self.last_data(before);
        self.control = [arrives, data];
    }

    /// When the last data frame comes in, if the last frame at all does then.
    fn last_data(&self, last: Time) -> Time {
        let [control, data] = self.control;
        if last == control { data } else { last }
    }

    /// A control frame is taken; what this end has sent so far comes in until `sent_until`.
    pub(super) fn handle(&mut self, now: Time, frame: &Frame, sent_until: Time) {
        let Some(control) = frame.says().as_control() else { return };
        self.settle();
        let delays = self.delays.get_or_insert_default();
        if !delays.slows_down(&control) {
            return;
        }
        if let Some(crossed) = frame.crossed() {
            self.waiting = Some(Waiting { came: now, crossed, end: self.last_data(sent_until).max(now) });
        }
    }

    /// Measures the message that waits, if it was obeyed; one that was not is obeyed before the next one or never.
    fn settle(&mut self) {
        let delay = self.waiting.take().and_then(|waiting| self.applied(waiting));
        if let (Some(delays), Some(delay)) = (&mut self.delays, delay) {
            delays.record(delay);
        }
    }

    /// τ of a message that was obeyed.
    fn applied(&self, waiting: Waiting) -> Option<Span> {
        // Relaxed: only this node's thread writes it.
        let obeyed = self.applied.as_ref().is_none_or(|at| at.load(Ordering::Relaxed) >= waiting.came.as_picos());
        obeyed.then(|| waiting.end.since(waiting.crossed))
    }

    /// What has been measured.
    pub(super) fn stats(&self) -> FeedbackStats {
        let Some(delays) = &self.delays else { return FeedbackStats::default() };
        let mut delays = delays.clone();
        let last = self.waiting.and_then(|waiting| self.applied(waiting));
        last.into_iter().for_each(|delay| delays.record(delay));
        delays.stats()
    }
}
