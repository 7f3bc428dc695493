//! Receiving end of a connection: tracks packets in order, reordered, duplicate and lost.

use weir_units::{Bytes, Class, Span, Time};
use weir_wire::rocev2::{Dscp, Psn, QueuePair, Syndrome};

use super::packet::{Ack, TcpAck, Write};
use super::packet_set::{PacketSet, WINDOW};
use super::stream::TcpReceiveSide;
use super::{HostConfig, Peer, TelemetryMode, Transport, codec};
use crate::tcp::{AckPoint, Segment};

/// Least time between two requests for the same missing packet, as in the public simulators of RDMA networks.
const NAK_INTERVAL: Span = Span::from_micros(500);
/// Addend that yields the preceding sequence number.
const PSN_BEFORE: u32 = (1 << 24) - 1;

/// Configuration of a receiving end; [`super::FlowConfig::receiver`] derives it from the flow.
#[derive(Clone, Debug)]
pub struct ReceiverConfig {
    /// Queue pair at the receiver, unique on that host.
    pub queue_pair: QueuePair,
    /// Sending end, to which acknowledgements go.
    pub peer: Peer,
    /// Least interval between congestion notifications for CE-marked frames; `None` for no notifications.
    pub cnp_interval: Option<Span>,
    /// True if lost packets are retransmitted: out-of-order packets are then dropped and NAKed, unless `is_selective`.
    pub retransmits: bool,
    /// True if only missing packets are retransmitted: packets are accepted in any order.
    pub is_selective: bool,
    /// True if every packet has its own acknowledgement, which no later acknowledgement replaces.
    pub acks_every_packet: bool,
    /// True if an acknowledgement echoes the CE mark of the acknowledged packet.
    pub echoes_ecn: bool,
    /// Telemetry that acknowledgements echo.
    pub telemetry: TelemetryMode,
    /// Transport of the flow.
    pub transport: Transport,
    /// Code point of the flow. TCP acknowledgements take the flow's code point, and its class at the receiver's port, unless they have
    /// [their own](crate::tcp::TcpConfig::acks); RDMA's take the host's.
    pub dscp: Dscp,
}

/// Statistics of a receiving end. Each frame is in order, ahead of a gap, reordered or a duplicate.
///
/// TCP has no packet sequence numbers that show a loss: `lost` stays 0, and an in-order frame counts as reordered while
/// later data is held. Message ends are unknown for TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverStats {
    /// Received frames, duplicates included.
    pub frames: u64,
    /// Received payload, without that of duplicates.
    pub payload: Bytes,
    /// Frames with the expected sequence number.
    pub in_order: u64,
    /// Frames ahead of the expected sequence number: each opens a gap.
    pub gaps: u64,
    /// Sequence numbers that were skipped and have not arrived since.
    pub lost: u64,
    /// Frames that filled a gap.
    pub reordered: u64,
    /// Frames that had already arrived, or are older than the duplicate window (128 packets).
    pub duplicates: u64,
    /// Last frames of messages; under selective retransmission, messages that have arrived with all before them.
    pub messages: u64,
    /// Frames that a switch marked CE.
    pub congestion_experienced: u64,
    /// Congestion notifications sent.
    pub congestion_notifications: u64,
    /// Instant of the last frame's arrival.
    pub last_arrival: Time,
}

/// Packets that arrived out of order under selective retransmission.
#[derive(Debug, Default)]
struct OutOfOrder {
    /// First packet that has not arrived.
    missing: Psn,
    /// Packets after `missing` that have arrived.
    packets: PacketSet,
    /// Last packets of their messages among them.
    last: PacketSet,
}

/// State of a receiving end.
#[derive(Debug)]
pub(super) struct Receiver {
    config: ReceiverConfig,
    expected: Psn,
    /// Bitmap of received sequence numbers before `expected`; the lowest bit is the latest.
    seen: u128,
    /// Packets that arrived out of order; `None` if they are dropped.
    out_of_order: Option<Box<OutOfOrder>>,
    /// Pending acknowledgement.
    ack_due: Option<Ack>,
    /// Last packet that a NAK requested, and the instant from which it may be requested again.
    asked: Option<(Psn, Time)>,
    flow_hash: u32,
    /// Whether a congestion notification is pending. `cnp_after` is the earliest instant of the next.
    cnp_due: bool,
    cnp_after: Time,
    /// Receive side of the TCP connection; `None` with RDMA.
    tcp: Option<Box<TcpReceiveSide>>,
    stats: ReceiverStats,
    /// Acknowledgements in the host's queue, if the host queues them one by one.
    pub(super) queued: u32,
    /// Whether the end closes once nothing is pending.
    pub(super) is_closing: bool,
}

impl Receiver {
    pub(super) fn new(config: &ReceiverConfig, host: &HostConfig) -> Receiver {
        let stats = ReceiverStats::default();
        // All ones: no packet before the first can be missing.
        Receiver {
            config: config.clone(),
            expected: Psn::default(),
            seen: u128::MAX,
            out_of_order: config.is_selective.then(Box::default),
            ack_due: None,
            asked: None,
            flow_hash: codec::flow_hash(host, config.queue_pair, &config.peer),
            cnp_due: false,
            cnp_after: Time::ZERO,
            tcp: match &config.transport {
                Transport::Rdma => None,
                Transport::Tcp(tcp) => Some(Box::new(TcpReceiveSide::new(tcp))),
            },
            stats,
            queued: 0,
            is_closing: false,
        }
    }

    /// Returns the class and code point of TCP acknowledgements.
    pub(super) fn ack_point(&self, host: &HostConfig) -> (Class, Dscp) {
        let own = match &self.config.transport {
            Transport::Rdma => None,
            Transport::Tcp(tcp) => tcp.acks,
        };
        own.map_or((self.class(host), self.config.dscp), |AckPoint { class, dscp }| (class, dscp))
    }

    /// Whether an acknowledgement or a notification is pending.
    pub(super) fn has_pending_answers(&self) -> bool {
        self.ack_due.is_some() || self.cnp_due || self.queued > 0
    }

    /// Handles the arrival of an RDMA packet. Returns by how many packets it is late under selective retransmission.
    #[inline]
    pub(super) fn handle_write(&mut self, now: Time, write: &Write, is_marked: bool) -> u32 {
        self.stats.frames += 1;
        self.stats.congestion_experienced += u64::from(is_marked);
        self.stats.last_arrival = now;
        if self.out_of_order.is_some() {
            return self.handle_selective(write, is_marked);
        }
        if self.config.retransmits && write.psn.ahead_of(self.expected) > 0 {
            self.stats.gaps += 1;
            self.queue_nak(now, write);
            return 0;
        }
        if self.record(write.psn) {
            self.stats.payload += Bytes::new(u64::from(write.payload_bytes));
            self.stats.messages += u64::from(write.is_last);
        }
        if write.ack_request {
            let is_marked = is_marked && self.config.echoes_ecn;
            let ack = |psn| Ack {
                psn,
                ahead: 0,
                msn: 0,
                syndrome: Syndrome::ACK,
                is_marked,
                echo: write.sent_at,
                digest: write.digest,
            };
            // The packet is a repeat: everything before `expected` has arrived.
            let psn = if self.config.retransmits { self.expected.plus(PSN_BEFORE) } else { write.psn };
            // Acknowledgements are cumulative: a later one replaces an earlier one.
            let is_later = |due: &Ack| !due.syndrome.is_negative() && due.psn.ahead_of(psn) > 0;
            self.ack_due = self.ack_due.filter(is_later).or(Some(ack(psn)));
        }
        0
    }

    /// Handles the arrival of a TCP segment. Calls `answer` with each acknowledgement to send.
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

    /// Handles the delayed-acknowledgement timer, which may be early. Calls `answer` with an acknowledgement that
    /// is due.
    pub(super) fn handle_delay_over(&mut self, now: Time, mut answer: impl FnMut(TcpAck)) {
        let Some(tcp) = &mut self.tcp else { return };
        tcp.watched_at = Time::NEVER;
        if let Some(ack) = tcp.end.poll_ack(now) {
            self.queued += 1;
            answer(ack.into());
        }
    }

    /// Returns the instant at which the host must check for a delayed acknowledgement; `None` if an earlier check
    /// is set or none waits.
    pub(super) fn watch(&mut self) -> Option<Time> {
        let tcp = self.tcp.as_mut()?;
        let due = tcp.end.next_timeout();
        let is_earlier = due < tcp.watched_at;
        if is_earlier {
            tcp.watched_at = due;
        }
        is_earlier.then_some(due)
    }

    /// Sends a NAK for the missing packet, unless one was sent recently: packets already in flight behind it would
    /// ask again.
    fn queue_nak(&mut self, now: Time, write: &Write) {
        if self.asked.is_some_and(|(psn, until)| psn == self.expected && now < until) {
            return;
        }
        self.asked = Some((self.expected, now.saturating_add(NAK_INTERVAL)));
        let syndrome = Syndrome::SequenceError;
        let (echo, digest) = (write.sent_at, write.digest);
        let psn = self.expected;
        self.ack_due = Some(Ack { psn, ahead: 0, msn: 0, syndrome, is_marked: false, echo, digest });
    }

    /// Handles the arrival of a packet in any order, within the sender's window; each has its own acknowledgement. Returns by how many
    /// packets it is late.
    #[inline(never)]
    fn handle_selective(&mut self, write: &Write, is_marked: bool) -> u32 {
        let (Some(out_of_order), stats) = (&mut self.out_of_order, &mut self.stats) else { return 0 };
        let OutOfOrder { missing, packets, last } = &mut **out_of_order;
        let ahead = write.psn.ahead_of(*missing);
        let is_new = ahead >= 0 && (ahead as u32) < WINDOW && !packets.contains(*missing, write.psn);
        if ahead > 0 && is_new {
            packets.insert(*missing, write.psn);
            if write.is_last {
                last.insert(*missing, write.psn);
            }
        } else if is_new {
            // Messages complete in order, each once all its packets have arrived.
            stats.messages += u64::from(write.is_last);
            *missing = missing.plus(1);
            while packets.remove_first(*missing) {
                stats.messages += u64::from(last.remove_first(*missing));
                *missing = missing.plus(1);
            }
        }
        let acknowledged = missing.plus(PSN_BEFORE);
        self.ack_due = Some(Ack {
            psn: acknowledged,
            ahead: write.psn.ahead_of(acknowledged).clamp(-(WINDOW as i32), WINDOW as i32) as i16,
            msn: 0,
            syndrome: Syndrome::ACK,
            is_marked: is_marked && self.config.echoes_ecn,
            echo: write.sent_at,
            digest: write.digest,
        });
        if !is_new {
            stats.duplicates += 1;
            return 0;
        }
        stats.payload += Bytes::new(u64::from(write.payload_bytes));
        let skipped = write.psn.ahead_of(self.expected);
        if skipped < 0 {
            stats.lost -= 1;
            stats.reordered += 1;
            return skipped.unsigned_abs() - 1;
        }
        self.expected = write.psn.plus(1);
        stats.lost += skipped as u64;
        *(if skipped == 0 { &mut stats.in_order } else { &mut stats.gaps }) += 1;
        0
    }

    /// Records a sequence number as received; returns whether it is new.
    fn record(&mut self, psn: Psn) -> bool {
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

    /// Returns whether an RDMA acknowledgement is pending.
    #[inline]
    pub(super) fn has_pending_ack(&self) -> bool {
        self.ack_due.is_some()
    }

    /// Takes the pending acknowledgement.
    #[inline]
    pub(super) fn take_ack(&mut self) -> Option<Ack> {
        let ack = self.ack_due.take()?;
        Some(Ack { msn: (self.stats.messages & 0xff_ffff) as u32, ..ack })
    }

    /// Returns the flow hash of the receiver's frames.
    pub(super) fn flow_hash(&self) -> u32 {
        self.flow_hash
    }

    /// Handles a CE mark; returns whether a congestion notification has become due (notification point of DCQCN,
    /// Fig. 6).
    pub(super) fn handle_marked(&mut self, now: Time) -> bool {
        let Some(interval) = self.config.cnp_interval else { return false };
        if self.cnp_due || now < self.cnp_after {
            return false;
        }
        self.cnp_due = true;
        self.cnp_after = now.saturating_add(interval);
        true
    }

    /// Records that the congestion notification is sent.
    pub(super) fn handle_cnp_sent(&mut self) {
        self.cnp_due = false;
        self.stats.congestion_notifications += 1;
    }

    /// Sets the sender's end and the number of its first packet.
    pub(super) fn connect(&mut self, peer: Peer, first: Psn, host: &HostConfig) {
        self.config.peer = peer;
        self.expected = first;
        if let Some(out_of_order) = &mut self.out_of_order {
            out_of_order.missing = first;
        }
        self.flow_hash = codec::flow_hash(host, self.config.queue_pair, &peer);
    }

    /// Sets the queue pair of the sender's end.
    pub(super) fn set_peer(&mut self, queue_pair: QueuePair, host: &HostConfig) {
        self.config.peer.queue_pair = queue_pair;
        self.flow_hash = codec::flow_hash(host, self.config.queue_pair, &self.config.peer);
    }

    /// Returns the class of frames to the sender that have the flow's code point.
    #[inline]
    pub(super) fn class(&self, host: &HostConfig) -> Class {
        Class::new(host.group_of_dscp[usize::from(self.config.dscp.get())])
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

    use super::super::RdmaOperation;
    use super::*;

    fn receiver() -> Receiver {
        let peer = Peer { ip: [10, 0, 0, 1].into(), queue_pair: QueuePair::new(1), ..Peer::UNKNOWN };
        let host = HostConfig::new(Default::default(), [10, 0, 0, 2].into(), weir_units::BitRate::gbps(10));
        let config = ReceiverConfig {
            queue_pair: QueuePair::new(2),
            peer,
            cnp_interval: Some(Span::from_micros(50)),
            retransmits: false,
            is_selective: false,
            acks_every_packet: false,
            echoes_ecn: false,
            telemetry: TelemetryMode::None,
            transport: Transport::Rdma,
            dscp: Dscp::new(3),
        };
        Receiver::new(&config, &host)
    }

    fn write(psn: u32, ends_message: bool) -> Write {
        Write {
            operation: RdmaOperation::Write,
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

    /// Returns the counters `(in order, gaps, lost, reordered, duplicates)`.
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
    fn a_missing_packet_is_requested_once_and_later_packets_are_dropped() {
        let mut receiver = receiver();
        receiver.config.retransmits = true;
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
    fn messages_in_any_order_arrive_once_all_their_packets_and_all_before_have() {
        let mut receiver = receiver();
        receiver.out_of_order = Some(Box::default());
        let mut after = |psn: u32, is_last| {
            receiver.handle_write(Time::ZERO, &write(psn, is_last), false);
            let ack = receiver.take_ack().unwrap();
            (ack.psn.plus(1).get(), ack.ahead, ack.msn)
        };
        // Messages of packets 0 and 1, of 2, and of 3 and 4.
        assert_eq!(after(1, true), (0, 2, 0));
        assert_eq!(after(2, true), (0, 3, 0));
        assert_eq!(after(4, true), (0, 5, 0));
        assert_eq!(after(0, false), (3, -2, 2), "0 to 2 have arrived");
        assert_eq!(after(1, true), (3, -1, 2), "a duplicate");
        assert_eq!(after(3, false), (5, -1, 3));
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
        /// Within the window, the counters are those of a set of all received packets.
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
