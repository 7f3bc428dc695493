//! What a sender knows of the data that it has sent (RFC 6675, sections 3 and 4).

use weir_units::archive::State;

use super::Ack;
use super::ranges::Ranges;

/// Everything below `una` has arrived; of what was sent beyond, the SACKed ranges have.
#[derive(Debug, Default, State)]
pub(super) struct Scoreboard {
    una: u64,
    next: u64,
    sacked: Ranges,
    /// Bytes below here that are not SACKed are lost. It never falls.
    lost_below: u64,
    /// HighRxt: what was lost below here was sent again. A new recovery leaves it, as what the last one sent again is
    /// still on its way.
    sent_again_below: u64,
}

/// What an acknowledgement says that was not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct News {
    /// By how much `una` has moved.
    pub acked: u64,
    /// Bytes that have arrived, SACKed or acknowledged for the first time.
    pub arrived: u64,
    /// Bytes beyond `una` that were SACKed for the first time.
    pub sacked: u64,
    /// More is lost than was known.
    pub is_more_lost: bool,
}

/// DupThresh: that many segments arrived beyond one that is lost.
pub(super) const DUPLICATES: u32 = 3;

impl Scoreboard {
    /// The first byte that is not acknowledged.
    pub(super) fn una(&self) -> u64 {
        self.una
    }

    /// The first byte that was never sent.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// New data was sent.
    pub(super) fn handle_sent(&mut self, len: u64) {
        self.next += len;
    }

    /// Takes an acknowledgement in; of blocks beyond what was sent nothing.
    pub(super) fn handle_ack(&mut self, ack: &Ack, mss: u64) -> News {
        let arrived_before = self.una + self.sacked.total();
        let acked = ack.ack.min(self.next).saturating_sub(self.una);
        self.una += acked;
        self.sacked.remove_below(self.una);
        let sacked_before = self.sacked.total();
        for (start, end) in ack.sack.into_iter().flatten() {
            if end <= self.next {
                self.sacked.insert(start.max(self.una), end);
            }
        }
        let lost_below = self.lost_below.max(self.lost_by_sack(mss));
        let is_more_lost = lost_below > self.lost_below;
        self.lost_below = lost_below;
        let arrived = self.una + self.sacked.total() - arrived_before;
        News { acked, arrived, sacked: self.sacked.total() - sacked_before, is_more_lost }
    }

    /// Whether the first byte that is not acknowledged is lost (IsLost).
    pub(super) fn is_first_lost(&self) -> bool {
        self.lost_below > self.una
    }

    /// As many acknowledgements came with news as if it were.
    pub(super) fn first_is_lost(&mut self, mss: u64) {
        self.lost_below = self.lost_below.max((self.una + mss).min(self.next));
    }

    /// A timeout: whatever was sent and did not arrive is lost, its retransmissions too.
    pub(super) fn all_is_lost(&mut self) {
        self.lost_below = self.next;
        self.sent_again_below = self.una;
    }

    /// The first lost bytes that were not sent again (NextSeg, rule 1): from and to.
    pub(super) fn lost(&self) -> Option<(u64, u64)> {
        let (start, end) = self.sacked.gap_from(self.sent_again_below.max(self.una));
        (start < self.lost_below).then_some((start, end.min(self.lost_below)))
    }

    /// What was not sent again and may be late or lost, as other data beyond has arrived (NextSeg, rule 3).
    pub(super) fn doubtful(&self) -> Option<(u64, u64)> {
        let (start, end) = self.sacked.gap_from(self.sent_again_below.max(self.una));
        (end <= self.next).then_some((start, end))
    }

    /// The last segment of what was sent, if nothing beyond has arrived (NextSeg, rule 4).
    pub(super) fn tail(&self, mss: u64) -> Option<(u64, u64)> {
        let arrived = self.sacked.end().unwrap_or(self.una);
        (arrived < self.next).then(|| (arrived.max(self.next.saturating_sub(mss)), self.next))
    }

    /// All that was not SACKed below here has been sent again.
    pub(super) fn handle_sent_again(&mut self, up_to: u64) {
        self.sent_again_below = up_to;
    }

    /// SetPipe: bytes that are on their way. What was sent again counts, what is lost does not.
    pub(super) fn pipe(&self) -> u64 {
        let missing = self.next - self.una - self.sacked.total();
        missing - self.missing_below(self.lost_below) + self.missing_below(self.sent_again_below)
    }

    fn missing_below(&self, seq: u64) -> u64 {
        if seq <= self.una { 0 } else { seq - self.una - self.sacked.bytes_below(seq) }
    }

    /// Where the ranges begin of which three, or more bytes than two segments, have arrived: all below is lost.
    fn lost_by_sack(&self, mss: u64) -> u64 {
        let (mut ranges, mut bytes) = (0, 0);
        for (start, end) in self.sacked.descending() {
            ranges += 1;
            bytes += end - start;
            if ranges >= DUPLICATES || bytes > u64::from(DUPLICATES - 1) * mss {
                return start;
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use weir_units::Time;

    use super::*;

    fn ack(ack: u64, sack: &[(u64, u64)]) -> Ack {
        let block = |n: usize| sack.get(n).copied();
        Ack { ack, ece: false, sack: [block(0), block(1), block(2)], echo: Time::ZERO }
    }

    fn sent(segments: u64) -> Scoreboard {
        let mut board = Scoreboard::default();
        board.handle_sent(100 * segments);
        board
    }

    #[test]
    fn three_segments_beyond_make_a_loss_and_two_do_not() {
        let mut board = sent(10);
        assert_eq!(board.handle_ack(&ack(100, &[(200, 300)]), 100), {
            News { acked: 100, arrived: 200, sacked: 100, is_more_lost: false }
        });
        board.handle_ack(&ack(100, &[(200, 400)]), 100);
        assert!(!board.is_first_lost());
        assert_eq!((board.pipe(), board.lost()), (700, None));
        let news = board.handle_ack(&ack(100, &[(200, 500)]), 100);
        assert_eq!(news, News { acked: 0, arrived: 100, sacked: 100, is_more_lost: true });
        assert_eq!((board.pipe(), board.lost(), board.doubtful()), (500, Some((100, 200)), Some((100, 200))));
    }

    #[test]
    fn three_ranges_make_a_loss_however_small() {
        let mut board = sent(10);
        board.handle_ack(&ack(0, &[(110, 120), (210, 220)]), 100);
        assert_eq!(board.lost(), None);
        board.handle_ack(&ack(0, &[(310, 320)]), 100);
        assert_eq!(board.lost(), Some((0, 110)));
        assert_eq!(board.pipe(), 1_000 - 110 - 30);
    }

    #[test]
    fn what_is_sent_again_is_on_its_way_again() {
        let mut board = sent(10);
        // 1, 3 and 9 are missing; of 9 nobody knows.
        board.handle_ack(&ack(100, &[(200, 300), (400, 900)]), 100);
        assert_eq!((board.lost(), board.pipe()), (Some((100, 200)), 100));
        board.handle_sent_again(200);
        assert_eq!((board.lost(), board.pipe()), (Some((300, 400)), 200));
        board.handle_sent_again(400);
        assert_eq!((board.lost(), board.doubtful(), board.pipe()), (None, None, 300));
        assert_eq!(board.tail(100), Some((900, 1_000)));
        board.all_is_lost();
        assert_eq!((board.lost(), board.pipe()), (Some((100, 200)), 0));
    }

    #[test]
    fn nonsense_changes_nothing() {
        let mut board = sent(3);
        let nothing = News { acked: 0, arrived: 0, sacked: 0, is_more_lost: false };
        assert_eq!(board.handle_ack(&ack(0, &[(200, 301), (50, 20), (1_000, 2_000)]), 100), nothing);
        board.handle_ack(&ack(300, &[]), 100);
        assert_eq!(board.handle_ack(&ack(100, &[(100, 200)]), 100), nothing, "an old one");
        assert_eq!((board.pipe(), board.tail(100)), (0, None));
    }
}
