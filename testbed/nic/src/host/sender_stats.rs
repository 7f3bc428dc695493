//! Statistics of a flow at its sender.

use weir_units::{Bytes, Span, Time};
use weir_wire::rocev2::NakCode;

/// Statistics of a flow at its sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderStats {
    /// Frames sent.
    pub frames: u64,
    /// Payload sent.
    pub payload: Bytes,
    /// Bytes sent on the wire, with FCS, preamble and gap.
    pub wire: Bytes,
    /// Messages wholly sent.
    pub messages_sent: u64,
    /// Messages acknowledged.
    pub messages_done: u64,
    /// Payload of the messages acknowledged.
    pub payload_done: Bytes,
    /// Completion times of the acknowledged messages.
    pub fct: FctSummary,
    /// Negative acknowledgements: a packet was missing.
    pub naks: u64,
    /// Negative acknowledgements: the receiver had no buffer yet.
    pub rnr_naks: u64,
    /// Negative acknowledgements that end the flow, by [`NakCode::ALL`].
    pub refusals: [u64; NakCode::ALL.len()],
    /// Frames sent again.
    pub retransmitted: u64,
    /// Number of timeouts without an acknowledgement.
    pub timeouts: u64,
    /// Acknowledgements of packets never sent.
    pub acks_unexpected: u64,
    /// Congestion notifications received.
    pub congestion_notifications: u64,
}

/// Summary of flow completion times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FctSummary {
    /// Number of completions.
    pub count: u64,
    /// Sum of the completion times.
    pub sum: Span,
    /// Shortest completion time.
    pub min: Span,
    /// Longest completion time.
    pub max: Span,
}

impl FctSummary {
    /// Returns the mean, rounded down; zero without completions.
    pub fn mean(&self) -> Span {
        if self.count == 0 { Span::ZERO } else { self.sum.divided_by(self.count) }
    }

    fn add(&mut self, fct: Span) {
        self.min = if self.count == 0 { fct } else { self.min.min(fct) };
        self.max = self.max.max(fct);
        self.sum += fct;
        self.count += 1;
    }
}

impl SenderStats {
    /// Iterates over NAK kinds with their counts, without kinds that never occurred.
    pub fn naks_by_kind(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let refusals = NakCode::ALL.map(|refusal| (refusal.name(), self.refusals[refusal as usize]));
        let all = [("sequence error", self.naks), ("receiver not ready", self.rnr_naks)].into_iter().chain(refusals);
        all.filter(|(_, count)| *count > 0)
    }

    pub(super) fn record_completion(&mut self, now: Time, released: Time, size: u64) {
        self.messages_done += 1;
        self.payload_done += Bytes::new(size);
        self.fct.add(now.since(released));
    }
}
