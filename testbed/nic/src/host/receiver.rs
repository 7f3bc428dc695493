//! The receiving end of a connection: what came in order, late, twice or not at all.

use weir_units::archive::{State, Value};
use weir_units::{Bytes, Class, Span, Time};
use weir_wire::rocev2::{Dscp, Psn, QueuePair, Syndrome};

use super::packet::{Ack, TcpAck, Write};
use super::stream::Receiving;
use super::{HostConfig, Peer, Stamps, Transport, codec};
use crate::tcp::{AckPoint, Segment};

/// A packet that is missing is not asked for twice within this time (as in the public simulators of RDMA networks).
const ASKED_AGAIN: Span = Span::from_micros(500);
/// Added to a sequence number, the one before it.
const PSN_BEFORE: u32 = (1 << 24) - 1;

/// A connection to receive on; [`super::FlowConfig::receiver`] makes it from the flow.
#[derive(Clone, Debug, State)]
pub struct ReceiverConfig {
    /// The connection's end at the receiver, unique on that host.
    pub queue_pair: QueuePair,
    /// Its end at the sender, to which acknowledgements go.
    pub peer: Peer,
    /// How often at most the sender is notified of frames that a switch marked CE; `None` for never.
    #[state(same)]
    pub cnp_interval: Option<Span>,
    /// Whether what got lost is sent again: then what comes out of order is dropped, and asked for.
    #[state(same)]
    pub wants_repeats: bool,
    /// Whether each packet has an acknowledgement of its own, which one after it does not stand for.
    #[state(same)]
    pub answers_each: bool,
    /// Whether an acknowledgement echoes the mark of the packet that it answers.
    #[state(same)]
    pub echoes_ecn: bool,
    /// What packets bring and acknowledgements bring back.
    #[state(same)]
    pub stamps: Stamps,
    /// What carries the flow.
    #[state(same)]
    pub transport: Transport,
    /// The flow's class,
    #[state(same)]
    pub class: Class,
    /// and its code point. Acknowledgements of TCP have both, unless they have [their own](crate::tcp::TcpConfig::acks); RDMA's
    /// have the host's.
    #[state(same)]
    pub dscp: Dscp,
}

/// What arrived on a connection. Each frame is in order, ahead of a gap, reordered or a duplicate.
///
/// TCP has no sequence numbers to tell a loss by: nothing counts as lost, and a frame as reordered that comes in order while
/// something beyond it is there already. Nor can the ends of its messages be told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Value)]
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
#[derive(Debug, State)]
pub(super) struct Receiver {
    config: ReceiverConfig,
    expected: Psn,
    /// Which of the sequence numbers before `expected` have come, the last one lowest.
    seen: u128,
    /// The acknowledgement that is due.
    ack_due: Option<Ack>,
    /// What was asked for last, by a negative acknowledgement, and when that may be done again.
    asked: Option<(Psn, Time)>,
    flow_hash: u32,
    /// Whether a congestion notification is to be sent, and when the next one may be.
    cnp_due: bool,
    cnp_after: Time,
    /// The connection, if it is TCP's.
    #[state(fixed)]
    tcp: Option<Box<Receiving>>,
    stats: ReceiverStats,
    /// Acknowledgements that stand in the host's queue, where they do one by one.
    pub(super) queued: u32,
    /// Whether it is to be closed when it owes nothing more.
    pub(super) is_closing: bool,
}

impl Receiver {
    pub(super) fn new(config: &ReceiverConfig, host: &HostConfig) -> Receiver {
        let stats = ReceiverStats::default();
        // Nothing before the first can be missing.
        Receiver {
            config: config.clone(),
            expected: Psn::default(),
            seen: u128::MAX,
            ack_due: None,
            asked: None,
            flow_hash: codec::flow_hash(host, config.queue_pair, &config.peer),
            cnp_due: false,
            cnp_after: Time::ZERO,
            tcp: match &config.transport {
                Transport::Rdma => None,
                Transport::Tcp(tcp) => Some(Box::new(Receiving::new(tcp))),
            },
            stats,
            queued: 0,
            is_closing: false,
        }
    }

    /// The class and the code point of TCP's acknowledgements.
    pub(super) fn ack_point(&self) -> (Class, Dscp) {
        let own = match &self.config.transport {
            Transport::Rdma => None,
            Transport::Tcp(tcp) => tcp.acks,
        };
        own.map_or((self.config.class, self.config.dscp), |AckPoint { class, dscp }| (class, dscp))
    }

    /// Whether an acknowledgement or a notification is due.
    pub(super) fn owes(&self) -> bool {
        self.ack_due.is_some() || self.cnp_due || self.queued > 0
    }

    /// A packet has arrived, marked CE or not.
    #[inline]
    pub(super) fn handle_write(&mut self, now: Time, write: &Write, is_marked: bool) {
        self.stats.frames += 1;
        self.stats.congestion_experienced += u64::from(is_marked);
        self.stats.last_arrival = now;
        if self.config.wants_repeats && write.psn.ahead_of(self.expected) > 0 {
            self.stats.gaps += 1;
            return self.ask(now, write);
        }
        if self.note(write.psn) {
            self.stats.payload += Bytes::new(u64::from(write.payload_bytes));
            self.stats.messages += u64::from(write.is_last);
        }
        if write.ack_request {
            let is_marked = is_marked && self.config.echoes_ecn;
            let ack = |psn| Ack {
                psn,
                msn: 0,
                syndrome: Syndrome::ACK,
                is_marked,
                echo: write.sent_at,
                digest: write.digest,
            };
            // A packet came again: all before what is expected has come.
            let psn = if self.config.wants_repeats { self.expected.plus(PSN_BEFORE) } else { write.psn };
            // One acknowledgement stands for all before it, so a later one replaces it.
            let is_later = |due: &Ack| !due.syndrome.is_negative() && due.psn.ahead_of(psn) > 0;
            self.ack_due = self.ack_due.filter(is_later).or(Some(ack(psn)));
        }
    }

    /// A segment of TCP has arrived, marked CE or not. Calls `answer` with each acknowledgement that is to be sent.
    pub(super) fn handle_segment(
        &mut self,
        now: Time,
        segment: &Segment,
        is_marked: bool,
        mut answer: impl FnMut(TcpAck),
    ) {
        let Some(tcp) = &mut self.tcp else { return };
        let (next, held) = (tcp.end.received(), tcp.end.held());
        let first = tcp.end.handle_segment(now, segment, is_marked);
        let second = tcp.end.poll_ack(now);
        for ack in first.into_iter().chain(second) {
            self.queued += 1;
            answer(ack.into());
        }
        let new = tcp.end.received() + tcp.end.held() - (next + held);
        let stats = &mut self.stats;
        stats.frames += 1;
        stats.congestion_experienced += u64::from(is_marked);
        stats.last_arrival = now;
        stats.payload += Bytes::new(new);
        let kind = if new == 0 {
            &mut stats.duplicates
        } else if segment.seq > next {
            &mut stats.gaps
        } else if held > 0 {
            &mut stats.reordered
        } else {
            &mut stats.in_order
        };
        *kind += 1;
    }

    /// A delayed acknowledgement may be due by now. Calls `answer` with it.
    pub(super) fn handle_delay_over(&mut self, now: Time, mut answer: impl FnMut(TcpAck)) {
        let Some(tcp) = &mut self.tcp else { return };
        tcp.watched_at = Time::NEVER;
        if let Some(ack) = tcp.end.poll_ack(now) {
            self.queued += 1;
            answer(ack.into());
        }
    }

    /// When the host is to look for a delayed acknowledgement; `None` if it will do so already, or there is none.
    pub(super) fn watch(&mut self) -> Option<Time> {
        let tcp = self.tcp.as_mut()?;
        let due = tcp.end.next_timeout();
        let is_news = due < tcp.watched_at;
        if is_news {
            tcp.watched_at = due;
        }
        is_news.then_some(due)
    }

    /// Asks for the packet that is missing, unless that was done just now: what is under way behind it asks for it too.
    fn ask(&mut self, now: Time, write: &Write) {
        if self.asked.is_some_and(|(psn, until)| psn == self.expected && now < until) {
            return;
        }
        self.asked = Some((self.expected, now.saturating_add(ASKED_AGAIN)));
        let syndrome = Syndrome::SequenceError;
        let (echo, digest) = (write.sent_at, write.digest);
        self.ack_due = Some(Ack { psn: self.expected, msn: 0, syndrome, is_marked: false, echo, digest });
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

    /// Whether an acknowledgement is due.
    #[inline]
    pub(super) fn owes_ack(&self) -> bool {
        self.ack_due.is_some()
    }

    /// Takes the acknowledgement that is due.
    #[inline]
    pub(super) fn take_ack(&mut self) -> Option<Ack> {
        let ack = self.ack_due.take()?;
        Some(Ack { msn: (self.stats.messages & 0xff_ffff) as u32, ..ack })
    }

    /// The hash of its frames.
    pub(super) fn flow_hash(&self) -> u32 {
        self.flow_hash
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

    /// Names the sender's end, and the number of the first packet that it sends.
    pub(super) fn connect(&mut self, peer: Peer, first: Psn, host: &HostConfig) {
        self.config.peer = peer;
        self.expected = first;
        self.flow_hash = codec::flow_hash(host, self.config.queue_pair, &peer);
    }

    /// Names the sender's end.
    pub(super) fn set_peer(&mut self, queue_pair: QueuePair, host: &HostConfig) {
        self.config.peer.queue_pair = queue_pair;
        self.flow_hash = codec::flow_hash(host, self.config.queue_pair, &self.config.peer);
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
    use weir_wire::digest::Digest;

    use super::super::Verb;
    use super::*;

    fn receiver() -> Receiver {
        let peer = Peer { ip: [10, 0, 0, 1].into(), queue_pair: QueuePair::new(1), ..Peer::UNKNOWN };
        let host = HostConfig::new(Default::default(), [10, 0, 0, 2].into(), weir_units::BitRate::gbps(10));
        let config = ReceiverConfig {
            queue_pair: QueuePair::new(2),
            peer,
            cnp_interval: Some(Span::from_micros(50)),
            wants_repeats: false,
            answers_each: false,
            echoes_ecn: false,
            stamps: Stamps::None,
            transport: Transport::Rdma,
            class: Class::new(3),
            dscp: Dscp::new(3),
        };
        Receiver::new(&config, &host)
    }

    fn write(psn: u32, ends_message: bool) -> Write {
        Write {
            verb: Verb::Write,
            psn: Psn::new(psn),
            message_bytes: 10,
            payload_bytes: 10,
            is_first: false,
            is_last: ends_message,
            ack_request: ends_message,
            sent_at: Time::NEVER,
            digest: Digest::NONE,
        }
    }

    fn after(psns: &[u32]) -> ReceiverStats {
        let mut receiver = receiver();
        for psn in psns {
            receiver.handle_write(Time::ZERO, &write(*psn, false), false);
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
            receiver.handle_write(Time::ZERO, &write(psn, true), false);
        }
        let ack = receiver.take_ack().unwrap();
        assert_eq!((ack.psn, ack.msn, ack.syndrome), (Psn::new(2), 3, Syndrome::ACK));
        assert_eq!(receiver.take_ack(), None);
    }

    #[test]
    fn what_is_missing_is_asked_for_once_and_what_came_before_it_is_dropped() {
        let mut receiver = receiver();
        receiver.config.wants_repeats = true;
        let mut after = |at: u64, psn: u32| {
            receiver.handle_write(Time::from_nanos(at), &write(psn, true), false);
            let ack = receiver.take_ack();
            (ack.map(|ack| (ack.psn.get(), ack.syndrome.is_negative())), receiver.stats.messages)
        };
        assert_eq!(after(0, 0), (Some((0, false)), 1));
        assert_eq!(after(1, 2), (Some((1, true)), 1));
        assert_eq!(after(2, 3), (None, 1), "it has been asked for");
        assert_eq!(after(500_001, 4), (Some((1, true)), 1), "and may be again by now");
        assert_eq!(after(500_002, 1), (Some((1, false)), 2));
        assert_eq!(after(500_003, 0), (Some((1, false)), 2), "a duplicate is told what has come");
        assert_eq!(after(500_004, 3), (Some((2, true)), 2), "another one is asked for at once");
        assert_eq!((receiver.stats.gaps, receiver.stats.duplicates, receiver.stats.lost), (4, 1, 0));
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
