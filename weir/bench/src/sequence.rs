//! Tracking of numbered frames: in order, reordered, duplicated, or lost.

/// Numbers below the highest within which duplicates are detected.
const WINDOW: u32 = 1 << 16;
const WORD: u32 = u64::BITS;

/// Tracker of the numbers of received frames, which were sent as 0, 1, 2 and so on.
///
/// A frame is *reordered* if a higher number arrived before it (RFC 4737), and *duplicated* if its own number did. A frame more
/// than 65,536 numbers late counts as reordered, also if it is a duplicate.
#[derive(Clone, Debug)]
pub(crate) struct Sequence {
    /// Highest number received, plus 1.
    next: u32,
    /// Bitmap of the received ones of the last [`WINDOW`] numbers, indexed by number modulo the window.
    received: Box<[u64]>,
    counts: SequenceCounts,
}

/// Counts of a [`Sequence`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SequenceCounts {
    /// Received frames without duplicates.
    pub(crate) received: u64,
    /// Received frames that arrived after a higher number.
    pub(crate) reordered: u64,
    /// Duplicates.
    pub(crate) duplicated: u64,
}

impl SequenceCounts {
    /// Returns the number of lost frames of `sent` ones.
    pub(crate) fn lost(&self, sent: u64) -> u64 {
        sent.saturating_sub(self.received)
    }
}

impl Default for Sequence {
    fn default() -> Sequence {
        Sequence { next: 0, received: vec![0; (WINDOW / WORD) as usize].into(), counts: SequenceCounts::default() }
    }
}

impl Sequence {
    /// Resets the tracker, without reallocation.
    pub(crate) fn restart(&mut self) {
        self.next = 0;
        self.received.fill(0);
        self.counts = SequenceCounts::default();
    }

    /// Records a received frame with this number.
    #[inline]
    pub(crate) fn record(&mut self, number: u32) {
        if number == self.next {
            self.clear(number);
            self.next += 1;
        } else if number > self.next {
            self.jump_to(number);
        } else if self.next - number > WINDOW {
            self.counts.reordered += 1;
            self.counts.received += 1;
            return;
        } else if self.has(number) {
            self.counts.duplicated += 1;
            return;
        } else {
            self.counts.reordered += 1;
        }
        self.counts.received += 1;
        let (word, bit) = place(number);
        self.received[word] |= bit;
    }

    /// Returns the counts so far.
    pub(crate) fn counts(&self) -> SequenceCounts {
        self.counts
    }

    /// Moves the window up to this number and marks the numbers skipped as not received.
    #[cold]
    fn jump_to(&mut self, number: u32) {
        let first = self.next.max(number.saturating_sub(WINDOW - 1));
        (first..=number).for_each(|skipped| self.clear(skipped));
        self.next = number + 1;
    }

    #[inline]
    fn clear(&mut self, number: u32) {
        let (word, bit) = place(number);
        self.received[word] &= !bit;
    }

    fn has(&self, number: u32) -> bool {
        let (word, bit) = place(number);
        self.received[word] & bit != 0
    }
}

#[inline]
fn place(number: u32) -> (usize, u64) {
    let slot = number % WINDOW;
    ((slot / WORD) as usize, 1 << (slot % WORD))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(numbers: impl IntoIterator<Item = u32>) -> (u64, u64, u64) {
        let mut sequence = Sequence::default();
        numbers.into_iter().for_each(|number| sequence.record(number));
        let SequenceCounts { received, reordered, duplicated } = sequence.counts();
        (received, reordered, duplicated)
    }

    #[test]
    fn frames_in_order_are_only_received() {
        assert_eq!(counts(0..300_000), (300_000, 0, 0));
    }

    #[test]
    fn what_is_missing_is_lost_and_not_reordered() {
        assert_eq!(counts((0..1_000).filter(|n| n % 10 != 3)), (900, 0, 0));
        let partial = SequenceCounts { received: 900, ..SequenceCounts::default() };
        assert_eq!((partial.lost(1_000), partial.lost(900), partial.lost(10)), (100, 0, 0));
        // A loss of more than the window.
        assert_eq!(counts((0..10).chain(500_000..500_010)), (20, 0, 0));
    }

    #[test]
    fn late_frames_are_reordered_and_not_lost() {
        assert_eq!(counts([0, 2, 1, 3]), (4, 1, 0));
        // Three that one overtook.
        assert_eq!(counts([3, 0, 1, 2, 4]), (5, 3, 0));
        assert_eq!(counts((1..60_000).chain([0])), (60_000, 1, 0));
    }

    #[test]
    fn duplicates_are_distinguished_from_late_frames() {
        assert_eq!(counts([0, 1, 1, 2, 0, 3]), (4, 0, 2));
        assert_eq!(counts([0, 2, 1, 1]), (3, 1, 1));
        assert_eq!(counts((0..70_000).chain([69_999, 10_000])), (70_000, 0, 2));
        // One skipped by a jump, then there twice, where an older number had the place.
        assert_eq!(counts((0..10).chain([70_000, 65_540, 65_540])), (12, 1, 1));
    }

    #[test]
    fn beyond_the_window_a_frame_counts_as_late() {
        assert_eq!(counts((1..70_000).chain([0])), (70_000, 1, 0));
    }

    #[test]
    fn it_begins_anew() {
        let mut sequence = Sequence::default();
        [0, 2, 1, 1].into_iter().for_each(|number| sequence.record(number));
        sequence.restart();
        (0..3).for_each(|number| sequence.record(number));
        assert_eq!(sequence.counts(), SequenceCounts { received: 3, reordered: 0, duplicated: 0 });
    }
}
