//! Receiving end of a connection: reassembly and acknowledgements.

use weir_units::{Span, Time};

use super::ranges::Ranges;
use super::{Ack, Segment, TcpConfig};

/// Receiving end of a connection whose application reads all data at once.
///
/// Send the result of [`TcpReceiver::handle_segment`], then poll [`TcpReceiver::poll_ack`] until `None`; poll it again at
/// [`TcpReceiver::next_timeout`].
#[derive(Debug)]
pub struct TcpReceiver {
    every: u32,
    at_most: Span,
    is_ecn_capable: bool,
    counts_marks: bool,
    /// Offset of the first missing byte.
    next: u64,
    /// Ranges received beyond the first missing byte.
    held: Ranges,
    /// One byte of each of the most recently received ranges, the latest first.
    recent: [Option<u64>; 3],
    /// TS.Recent and Last.ACK.sent of RFC 7323, 4.3.
    echo: Time,
    last_ack: u64,
    /// Whether acknowledgements carry ECE. For DCTCP: whether the last segment was marked.
    ece: bool,
    /// Segments since the last acknowledgement.
    pending: u32,
    /// Instant at which the next acknowledgement is due; [`Time::NEVER`] if none is pending.
    due: Time,
}

impl TcpReceiver {
    /// Returns the receiving end of an established connection without data so far.
    pub fn new(config: &TcpConfig) -> TcpReceiver {
        TcpReceiver {
            every: config.delayed_ack.map_or(1, |delayed| delayed.every),
            at_most: config.delayed_ack.map_or(Span::ZERO, |delayed| delayed.at_most),
            is_ecn_capable: config.is_ecn_capable(),
            counts_marks: config.control.counts_marks(),
            next: 0,
            held: Ranges::default(),
            recent: [None; 3],
            echo: Time::ZERO,
            last_ack: 0,
            ece: false,
            pending: 0,
            due: Time::NEVER,
        }
    }

    /// Takes a segment and its CE mark. Returns the acknowledgement to send at once; there may be a second,
    /// for [`TcpReceiver::poll_ack`].
    ///
    /// With DCTCP, a change of the CE mark is acknowledged at once: the segments before it are
    /// acknowledged separately, so that the sender knows the marked bytes exactly (RFC 8257, 3.2).
    pub fn handle_segment(&mut self, now: Time, segment: &Segment, is_ce: bool) -> Option<Ack> {
        let is_turn = self.counts_marks && is_ce != self.ece;
        let before = if is_turn && self.pending > 0 { Some(self.ack()) } else { None };
        self.update_ece(is_ce, segment.cwr);
        if segment.seq <= self.last_ack && segment.sent_at >= self.echo {
            self.echo = segment.sent_at;
        }
        let is_in_order = self.take(segment);
        self.pending += 1;
        let at_once = is_turn || !is_in_order || segment.push || self.pending >= self.every;
        self.due = if at_once { now } else { self.due.min(now.saturating_add(self.at_most)) };
        before.or_else(|| self.poll_ack(now))
    }

    /// Returns the instant at which a delayed acknowledgement is due; [`Time::NEVER`] if none is pending.
    pub fn next_timeout(&self) -> Time {
        self.due
    }

    /// Returns the acknowledgement that is due.
    pub fn poll_ack(&mut self, now: Time) -> Option<Ack> {
        (self.pending > 0 && self.due <= now).then(|| self.ack())
    }

    /// Returns the number of bytes received in order, each counted once.
    pub fn received(&self) -> u64 {
        self.next
    }

    /// Returns the number of bytes received beyond the first missing byte.
    pub fn held(&self) -> u64 {
        self.held.total()
    }

    /// Updates ECE: a mark is echoed until CWR (RFC 3168, 6.1.3), or once with DCTCP (RFC 8257, 3.2).
    fn update_ece(&mut self, is_ce: bool, cwr: bool) {
        if self.counts_marks {
            self.ece = is_ce;
        } else if self.is_ecn_capable {
            self.ece = is_ce || (self.ece && !cwr);
        }
    }

    /// Takes a segment. Returns whether it is in order and no data was held out of order.
    fn take(&mut self, segment: &Segment) -> bool {
        let (start, end) = (segment.seq, segment.seq + u64::from(segment.len));
        if start > self.next {
            // A segment that would open too many gaps is treated as lost.
            if self.held.insert(start, end) {
                self.remember(start);
            }
            return false;
        }
        if end <= self.next {
            return false;
        }
        let is_only = self.held.is_empty();
        self.next = self.held.range_of(end).map_or(end, |range| range.1);
        self.held.remove_below(self.next);
        is_only
    }

    /// Records the range of this byte as the latest received.
    fn remember(&mut self, seq: u64) {
        let range = self.held.range_of(seq);
        let mut others = self.recent.into_iter().flatten().filter(|other| self.held.range_of(*other) != range);
        self.recent = [Some(seq), others.next(), others.next()];
    }

    fn ack(&mut self) -> Ack {
        self.pending = 0;
        self.due = Time::NEVER;
        self.last_ack = self.next;
        Ack { ack: self.next, ece: self.ece, sack: self.sack(), echo: self.echo }
    }

    /// Returns SACK blocks: the latest received ranges first, then the highest others that fit.
    fn sack(&self) -> [Option<(u64, u64)>; 3] {
        let mut blocks = [None; 3];
        if self.held.is_empty() {
            return blocks;
        }
        let recent = self.recent.into_iter().flatten().filter_map(|seq| self.held.range_of(seq));
        let mut count = 0;
        for range in recent.chain(self.held.descending().take(blocks.len())) {
            if count < blocks.len() && !blocks.contains(&Some(range)) {
                blocks[count] = Some(range);
                count += 1;
            }
        }
        blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::{DelayedAck, TcpCongestionChoice};

    const MSS: u64 = 1_000;

    fn instant(us: u64) -> Time {
        Time::from_nanos(1_000 * us)
    }

    fn receiver(control: TcpCongestionChoice, ecn: bool) -> TcpReceiver {
        let delayed_ack = Some(DelayedAck { every: 2, at_most: Span::from_micros(500) });
        TcpReceiver::new(&TcpConfig { ecn, delayed_ack, ..TcpConfig::linux(control) })
    }

    fn cubic() -> TcpReceiver {
        receiver(TcpCongestionChoice::cubic(), true)
    }

    /// Returns the nth segment, sent at n us.
    fn segment(n: u64) -> Segment {
        let (is_retransmission, push, cwr) = (false, false, false);
        Segment {
            seq: n * MSS,
            len: MSS as u16,
            is_retransmission,
            is_unscheduled: false,
            push,
            cwr,
            ect: true,
            sent_at: instant(n),
        }
    }

    fn blocks(list: &[(u64, u64)]) -> [Option<(u64, u64)>; 3] {
        [0, 1, 2].map(|n| list.get(n).map(|(start, end)| (start * MSS, end * MSS)))
    }

    #[test]
    fn every_other_segment_is_acknowledged_and_a_single_one_after_its_time() {
        let mut receiver = cubic();
        assert_eq!(
            (receiver.handle_segment(instant(10), &segment(0), false), receiver.next_timeout()),
            (None, instant(510))
        );
        let ack = receiver.handle_segment(instant(11), &segment(1), false).unwrap();
        assert_eq!((ack.ack, ack.ece, ack.sack, ack.echo), (2_000, false, [None; 3], instant(0)), "echoes the first");
        assert_eq!((receiver.next_timeout(), receiver.poll_ack(instant(600))), (Time::NEVER, None));
        assert_eq!(receiver.handle_segment(instant(20), &segment(2), false), None);
        assert_eq!(receiver.poll_ack(instant(519)), None);
        let ack = receiver.poll_ack(instant(520)).unwrap();
        assert_eq!((ack.ack, ack.echo, receiver.poll_ack(instant(520))), (3_000, instant(2), None));
        let last = Segment { push: true, len: 10, ..segment(3) };
        assert_eq!(
            receiver.handle_segment(instant(600), &last, false).unwrap().ack,
            3_010,
            "the end of what was written"
        );
    }

    #[test]
    fn without_delay_each_segment_is_acknowledged() {
        let mut receiver =
            TcpReceiver::new(&TcpConfig { delayed_ack: None, ..TcpConfig::linux(TcpCongestionChoice::reno()) });
        let acks = [0, 1].map(|n| receiver.handle_segment(instant(n), &segment(n), true).map(|ack| (ack.ack, ack.ece)));
        assert_eq!(acks, [Some((1_000, false)), Some((2_000, false))], "and marks mean nothing without ECN");
    }

    #[test]
    fn gaps_are_reported_at_once_the_latest_first() {
        let mut receiver = cubic();
        receiver.handle_segment(instant(0), &segment(0), false);
        let mut ack_of = |n: u64| {
            let ack = receiver.handle_segment(instant(100 + n), &segment(n), false).expect("at once");
            (ack.ack / MSS, ack.sack, ack.echo)
        };
        assert_eq!(ack_of(2), (1, blocks(&[(2, 3)]), instant(0)));
        assert_eq!(ack_of(4), (1, blocks(&[(4, 5), (2, 3)]), instant(0)));
        assert_eq!(ack_of(6), (1, blocks(&[(6, 7), (4, 5), (2, 3)]), instant(0)));
        assert_eq!(ack_of(8), (1, blocks(&[(8, 9), (6, 7), (4, 5)]), instant(0)));
        assert_eq!(ack_of(3), (1, blocks(&[(2, 5), (8, 9), (6, 7)]), instant(0)), "two became one");
        assert_eq!(ack_of(3), (1, blocks(&[(2, 5), (8, 9), (6, 7)]), instant(0)), "a double");
        // The gap is filled: the echo is that of the segment that did it.
        assert_eq!(ack_of(1), (5, blocks(&[(8, 9), (6, 7)]), instant(1)));
        assert_eq!(ack_of(0), (5, blocks(&[(8, 9), (6, 7)]), instant(1)), "an old double");
        assert_eq!(ack_of(5), (7, blocks(&[(8, 9)]), instant(5)));
        assert_eq!(ack_of(7), (9, [None; 3], instant(7)));
        assert_eq!((receiver.received(), receiver.held()), (9_000, 0));
    }

    #[test]
    fn segments_that_overlap_count_once() {
        let mut receiver = cubic();
        receiver.handle_segment(instant(0), &Segment { len: 1_500, ..segment(2) }, false);
        assert_eq!(receiver.held(), 1_500);
        receiver.handle_segment(instant(0), &Segment { len: 2_200, ..segment(0) }, false);
        assert_eq!((receiver.received(), receiver.held()), (3_500, 0));
    }

    #[test]
    fn a_mark_is_repeated_until_the_window_was_cut() {
        let mut receiver = cubic();
        let mut ece = |n: u64, is_ce: bool, cwr: bool| {
            receiver.handle_segment(instant(n), &Segment { cwr, push: true, ..segment(n) }, is_ce).unwrap().ece
        };
        let echoes = [ece(0, false, false), ece(1, true, false), ece(2, false, false), ece(3, false, true)];
        assert_eq!(echoes, [false, true, true, false]);
        assert_eq!([ece(4, true, true), ece(5, false, false), ece(6, false, true)], [true, true, false]);
    }

    #[test]
    fn dctcp_reports_the_marked_bytes_exactly() {
        let mut receiver = receiver(TcpCongestionChoice::dctcp(), false);
        let mut acks_of = |n: u64, is_ce: bool| {
            let mut acks: Vec<_> = receiver.handle_segment(instant(n), &segment(n), is_ce).into_iter().collect();
            acks.extend(receiver.poll_ack(instant(n)));
            acks.into_iter().map(|ack| (ack.ack / MSS, ack.ece)).collect::<Vec<_>>()
        };
        assert_eq!(acks_of(0, false), []);
        assert_eq!(acks_of(1, false), [(2, false)]);
        assert_eq!(acks_of(2, false), []);
        // One without a mark was pending.
        assert_eq!(acks_of(3, true), [(3, false), (4, true)]);
        assert_eq!(acks_of(4, true), []);
        assert_eq!(acks_of(5, true), [(6, true)]);
        // None was pending.
        assert_eq!(acks_of(6, false), [(7, false)]);
        assert_eq!(acks_of(7, false), []);
        assert_eq!(acks_of(8, true), [(8, false), (9, true)]);
    }
}
