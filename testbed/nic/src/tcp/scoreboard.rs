//! SACK scoreboard of a sender (RFC 6675, sections 3 and 4).

use super::Ack;
use super::ranges::Ranges;

/// Scoreboard of sent data: everything below `una` has arrived, and the SACKed ranges beyond.
#[derive(Debug, Default)]
pub(super) struct Scoreboard {
    una: u64,
    next: u64,
    sacked: Ranges,
    /// Offset below which bytes that are not SACKed are lost. Never falls.
    lost_below: u64,
    /// HighRxt: offset below which lost bytes were retransmitted. A new recovery keeps it, since retransmissions of the
    /// last one are still in flight.
    retransmitted_below: u64,
}

/// New information in an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AckUpdate {
    /// Advance of `una` in bytes.
    pub acked: u64,
    /// Bytes acknowledged or SACKed for the first time.
    pub arrived: u64,
    /// Bytes beyond `una` that were SACKed for the first time.
    pub sacked: u64,
    /// Whether more bytes are known to be lost.
    pub is_more_lost: bool,
}

/// DupThresh: number of segments beyond a missing one from which it counts as lost.
pub(super) const DUPLICATES: u32 = 3;

impl Scoreboard {
    /// Returns the offset of the first unacknowledged byte.
    pub(super) fn una(&self) -> u64 {
        self.una
    }

    /// Returns the offset of the first byte never sent.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Records new data as sent.
    pub(super) fn handle_sent(&mut self, len: u64) {
        self.next += len;
    }

    /// Records an acknowledgement; SACK blocks beyond sent data are ignored.
    pub(super) fn handle_ack(&mut self, ack: &Ack, mss: u64) -> AckUpdate {
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
        AckUpdate { acked, arrived, sacked: self.sacked.total() - sacked_before, is_more_lost }
    }

    /// Whether the first unacknowledged byte is lost (IsLost).
    pub(super) fn is_first_lost(&self) -> bool {
        self.lost_below > self.una
    }

    /// Marks the first segment as lost, after enough duplicate acknowledgements.
    pub(super) fn mark_first_lost(&mut self, mss: u64) {
        self.lost_below = self.lost_below.max((self.una + mss).min(self.next));
    }

    /// Marks all outstanding data as lost after a timeout, retransmissions included.
    pub(super) fn mark_all_lost(&mut self) {
        self.lost_below = self.next;
        self.retransmitted_below = self.una;
    }

    /// Returns the first lost range not yet retransmitted (NextSeg, rule 1), as (start, exclusive end).
    pub(super) fn lost(&self) -> Option<(u64, u64)> {
        let (start, end) = self.sacked.gap_from(self.retransmitted_below.max(self.una));
        (start < self.lost_below).then_some((start, end.min(self.lost_below)))
    }

    /// Returns the first range not yet retransmitted that is late or lost, since later data has arrived (NextSeg,
    /// rule 3).
    pub(super) fn doubtful(&self) -> Option<(u64, u64)> {
        let (start, end) = self.sacked.gap_from(self.retransmitted_below.max(self.una));
        (end <= self.next).then_some((start, end))
    }

    /// Returns the last segment sent, if nothing beyond has arrived (NextSeg, rule 4).
    pub(super) fn tail(&self, mss: u64) -> Option<(u64, u64)> {
        let arrived = self.sacked.end().unwrap_or(self.una);
        (arrived < self.next).then(|| (arrived.max(self.next.saturating_sub(mss)), self.next))
    }

    /// Records that all bytes below `up_to` that are not SACKed were retransmitted.
    pub(super) fn handle_retransmitted(&mut self, up_to: u64) {
        self.retransmitted_below = up_to;
    }

    /// Returns the bytes in flight (SetPipe). Retransmitted bytes count, lost bytes do not.
    pub(super) fn pipe(&self) -> u64 {
        let missing = self.next - self.una - self.sacked.total();
        missing - self.missing_below(self.lost_below) + self.missing_below(self.retransmitted_below)
    }

    fn missing_below(&self, seq: u64) -> u64 {
        if seq <= self.una { 0 } else { seq - self.una - self.sacked.bytes_below(seq) }
    }

    /// Returns the offset below which all is lost: three ranges, or more bytes than two segments, have arrived from
    /// there on.
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
            AckUpdate { acked: 100, arrived: 200, sacked: 100, is_more_lost: false }
        });
        board.handle_ack(&ack(100, &[(200, 400)]), 100);
        assert!(!board.is_first_lost());
        assert_eq!((board.pipe(), board.lost()), (700, None));
        let update = board.handle_ack(&ack(100, &[(200, 500)]), 100);
        assert_eq!(update, AckUpdate { acked: 0, arrived: 100, sacked: 100, is_more_lost: true });
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
    fn retransmitted_data_is_in_flight_again() {
        let mut board = sent(10);
        // 1, 3 and 9 are missing; of 9 nobody knows.
        board.handle_ack(&ack(100, &[(200, 300), (400, 900)]), 100);
        assert_eq!((board.lost(), board.pipe()), (Some((100, 200)), 100));
        board.handle_retransmitted(200);
        assert_eq!((board.lost(), board.pipe()), (Some((300, 400)), 200));
        board.handle_retransmitted(400);
        assert_eq!((board.lost(), board.doubtful(), board.pipe()), (None, None, 300));
        assert_eq!(board.tail(100), Some((900, 1_000)));
        board.mark_all_lost();
        assert_eq!((board.lost(), board.pipe()), (Some((100, 200)), 0));
    }

    #[test]
    fn nonsense_changes_nothing() {
        let mut board = sent(3);
        let nothing = AckUpdate { acked: 0, arrived: 0, sacked: 0, is_more_lost: false };
        assert_eq!(board.handle_ack(&ack(0, &[(200, 301), (50, 20), (1_000, 2_000)]), 100), nothing);
        board.handle_ack(&ack(300, &[]), 100);
        assert_eq!(board.handle_ack(&ack(100, &[(100, 200)]), 100), nothing, "an old one");
        assert_eq!((board.pipe(), board.tail(100)), (0, None));
    }
}
