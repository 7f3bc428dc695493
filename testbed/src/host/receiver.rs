//! The receiving end of a connection: what came in order, late, twice or not at all.

use weir_units::{Bytes, Span, Time};

use super::Peer;
use crate::rocev2::{Part, Psn, QueuePair};

/// A connection to receive on; [`super::FlowConfig::receiver`] makes it from the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverConfig {
    /// The connection's end at the receiver, unique on that host.
    pub queue_pair: QueuePair,
    /// Its end at the sender, to which acknowledgements go.
    pub peer: Peer,
    /// How often at most the sender is notified of frames that a switch marked CE; `None` for never.
    pub cnp_interval: Option<Span>,
}

/// What arrived on a connection. Each frame is in order, ahead of a gap, reordered or a duplicate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverStats {
    /// Frames, duplicates included.
    pub frames: u64,
    /// Payload, without that of duplicates.
    pub payload: Bytes,
    /// Frames with the sequence number that was expected.
    pub in_order: u64,
    /// Frames that came ahead of others: each one opens a gap.
    pub gaps: u64,
    /// Sequence numbers that are missing: skipped, and not come since.
    pub lost: u64,
    /// Frames that filled a gap.
    pub reordered: u64,
    /// Frames that had come before, or that are older than the window in which that can be told.
    pub duplicates: u64,
    /// Last frames of messages.
    pub messages: u64,
    /// Frames that a switch marked CE.
    pub congestion_experienced: u64,
    /// Congestion notifications sent.
    pub congestion_notifications: u64,
    /// When the last frame arrived.
    pub last_arrival: Time,
}

/// One end's state.
#[derive(Debug)]
pub(super) struct Receiver {
    config: ReceiverConfig,
    expected: Psn,
    /// Which of the sequence numbers before `expected` have come, the last one lowest.
    seen: u128,
    /// The sequence number to acknowledge.
    ack_due: Option<Psn>,
    /// Whether a congestion notification is to be sent, and when the next one may be.
    cnp_due: bool,
    cnp_after: Time,
    stats: ReceiverStats,
}

impl Receiver {
    pub(super) fn new(config: &ReceiverConfig) -> Receiver {
        let stats = ReceiverStats::default();
        // Nothing before the first can be missing.
        Receiver {
            config: *config,
            expected: Psn::default(),
            seen: u128::MAX,
            ack_due: None,
            cnp_due: false,
            cnp_after: Time::ZERO,
            stats,
        }
    }

    pub(super) fn handle_write(
        &mut self,
        now: Time,
        psn: Psn,
        part: Part,
        ack_request: bool,
        payload_bytes: usize,
        ce: bool,
    ) {
        self.stats.frames += 1;
        self.stats.congestion_experienced += u64::from(ce);
        self.stats.last_arrival = now;
        if self.note(psn) {
            self.stats.payload += Bytes::new(payload_bytes as u64);
            self.stats.messages += u64::from(matches!(part, Part::Only(_) | Part::Last));
        }
        if ack_request {
            // One acknowledgement stands for all before it, so a later one replaces it.
            let later = |due: &Psn| due.ahead_of(psn) > 0;
            self.ack_due = self.ack_due.filter(later).or(Some(psn));
        }
    }

    /// Places a sequence number among those that have come; returns whether it is new.
    fn note(&mut self, psn: Psn) -> bool {
        let ahead = psn.ahead_of(self.expected);
        if let Ok(skipped) = u32::try_from(ahead) {
            self.seen = self.seen.checked_shl(skipped + 1).unwrap_or(0) | 1;
            self.expected = psn.plus(1);
            self.stats.lost += u64::from(skipped);
            *(if skipped == 0 { &mut self.stats.in_order } else { &mut self.stats.gaps }) += 1;
            return true;
        }
        let bit = 1u128.checked_shl(ahead.unsigned_abs() - 1).unwrap_or(0);
        let is_new = bit != 0 && self.seen & bit == 0;
        self.seen |= bit;
        if is_new {
            self.stats.lost -= 1;
            self.stats.reordered += 1;
        } else {
            self.stats.duplicates += 1;
        }
        is_new
    }

    /// The sequence number that is to be acknowledged.
    pub(super) fn ack_due(&self) -> Option<Psn> {
        self.ack_due
    }

    /// Takes the acknowledgement that is due: sequence number, and messages completed.
    pub(super) fn take_ack(&mut self) -> Option<(Psn, u32)> {
        let psn = self.ack_due.take()?;
        Some((psn, (self.stats.messages & 0xff_ffff) as u32))
    }

    /// A frame came that a switch marked; returns whether a congestion notification has become due (the notification point
    /// of DCQCN, Fig. 6).
    pub(super) fn handle_marked(&mut self, now: Time) -> bool {
        let Some(interval) = self.config.cnp_interval else { return false };
        if self.cnp_due || now < self.cnp_after {
            return false;
        }
        self.cnp_due = true;
        self.cnp_after = now.saturating_add(interval);
        true
    }

    /// Notes that the congestion notification is sent.
    pub(super) fn handle_cnp_sent(&mut self) {
        self.cnp_due = false;
        self.stats.congestion_notifications += 1;
    }

    pub(super) fn config(&self) -> &ReceiverConfig {
        &self.config
    }

    pub(super) fn stats(&self) -> &ReceiverStats {
        &self.stats
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn receiver() -> Receiver {
        let peer = Peer { mac: Default::default(), ip: [10, 0, 0, 1].into(), queue_pair: QueuePair::new(1) };
        Receiver::new(&ReceiverConfig {
            queue_pair: QueuePair::new(2),
            peer,
            cnp_interval: Some(Span::from_micros(50)),
        })
    }

    fn after(psns: &[u32]) -> ReceiverStats {
        let mut receiver = receiver();
        for psn in psns {
            receiver.handle_write(Time::ZERO, Psn::new(*psn), Part::Middle, false, 10, false);
        }
        *receiver.stats()
    }

    /// (in order, gaps, lost, reordered, duplicates)
    fn kinds(stats: &ReceiverStats) -> (u64, u64, u64, u64, u64) {
        (stats.in_order, stats.gaps, stats.lost, stats.reordered, stats.duplicates)
    }

    #[test]
    fn each_frame_has_its_kind() {
        assert_eq!(kinds(&after(&[0, 1, 2])), (3, 0, 0, 0, 0));
        assert_eq!(kinds(&after(&[0, 3, 4])), (2, 1, 2, 0, 0));
        assert_eq!(kinds(&after(&[0, 2, 1, 3])), (2, 1, 0, 1, 0));
        assert_eq!(kinds(&after(&[0, 0, 1, 0])), (2, 0, 0, 0, 2));
        assert_eq!(kinds(&after(&[0, 2, 1, 1])), (1, 1, 0, 1, 1));
        // The first 72 of the gap are out of the window when they come.
        assert_eq!(kinds(&after(&[200, 0, 100])), (0, 1, 199, 1, 1));
        assert_eq!(after(&[0, 2, 2, 1]).payload, Bytes::new(30), "a duplicate carries nothing new");
    }

    #[test]
    fn acknowledgements_coalesce_to_the_latest() {
        let mut receiver = receiver();
        for psn in [0, 2, 1] {
            receiver.handle_write(Time::ZERO, Psn::new(psn), Part::Last, true, 10, false);
        }
        assert_eq!(receiver.take_ack(), Some((Psn::new(2), 3)));
        assert_eq!(receiver.take_ack(), None);
    }

    #[test]
    fn notifications_keep_their_distance() {
        let mut receiver = receiver();
        let at = |us: u64| Time::from_nanos(us * 1_000);
        assert!(receiver.handle_marked(at(7)), "the first mark is told at once");
        assert!(!receiver.handle_marked(at(8)), "one is due already");
        receiver.handle_cnp_sent();
        assert!(!receiver.handle_marked(at(56)));
        assert!(receiver.handle_marked(at(57)));
        receiver.handle_cnp_sent();
        assert_eq!(receiver.stats().congestion_notifications, 2);
        receiver.config.cnp_interval = None;
        assert!(!receiver.handle_marked(at(1_000)));
    }

    proptest! {
        /// Within the window, the counters are those of a set of all that has come.
        #[test]
        fn counts_agree_with_a_set(psns in prop::collection::vec(0..100u32, 1..150)) {
            let stats = after(&psns);
            let seen: BTreeSet<u32> = psns.iter().copied().collect();
            let highest = u64::from(*seen.last().unwrap());
            prop_assert_eq!(stats.lost, highest + 1 - seen.len() as u64);
            prop_assert_eq!(stats.duplicates, (psns.len() - seen.len()) as u64);
            prop_assert_eq!(stats.in_order + stats.gaps + stats.reordered, seen.len() as u64);
        }
    }
}
