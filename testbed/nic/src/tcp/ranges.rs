//! Disjoint ranges of bytes beyond the first missing one: those that a receiver holds, or a sender knows to be SACKed.

use std::collections::VecDeque;

/// Ranges in ascending order, none touching the next. A bounded number of them, so that a peer cannot fill the memory.
///
/// A connection without loss has no ranges and uses no memory for them.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    ranges: VecDeque<(u64, u64)>,
    total: u64,
}

/// Largest number of ranges.
const RANGES_MAX: usize = 1_024;
/// Capacity in ranges up to which memory is kept.
const RANGES_KEPT: usize = 4;

impl Ranges {
    /// Adds a range, unless there would be more than [`RANGES_MAX`]. Returns whether it was added.
    pub(super) fn insert(&mut self, start: u64, end: u64) -> bool {
        if start >= end {
            return true;
        }
        // Ranges `first..last` overlap or touch it.
        let first = self.ranges.partition_point(|range| range.1 < start);
        let last = self.ranges.partition_point(|range| range.0 <= end);
        if first == last {
            if self.ranges.len() == RANGES_MAX {
                return false;
            }
            self.ranges.insert(first, (start, end));
            self.total += end - start;
            return true;
        }
        let merged = (start.min(self.ranges[first].0), end.max(self.ranges[last - 1].1));
        let before: u64 = self.ranges.range(first..last).map(|range| range.1 - range.0).sum();
        self.ranges[first] = merged;
        self.ranges.drain(first + 1..last);
        self.total = self.total - before + (merged.1 - merged.0);
        true
    }

    /// Removes all bytes below `seq`.
    pub(super) fn remove_below(&mut self, seq: u64) {
        while let Some(first) = self.ranges.front_mut() {
            if first.0 >= seq {
                return;
            }
            let end = first.1;
            self.total -= end.min(seq) - first.0;
            if end > seq {
                first.0 = seq;
                return;
            }
            self.ranges.pop_front();
        }
        if self.ranges.capacity() > RANGES_KEPT {
            self.ranges = VecDeque::new();
        }
    }

    /// Returns the first gap from `seq` on as (start, exclusive end); the end is [`u64::MAX`] beyond the last range.
    pub(super) fn gap_from(&self, seq: u64) -> (u64, u64) {
        let next = self.ranges.partition_point(|range| range.1 <= seq);
        match self.ranges.get(next) {
            Some(range) if range.0 <= seq => (range.1, self.ranges.get(next + 1).map_or(u64::MAX, |after| after.0)),
            Some(range) => (seq, range.0),
            None => (seq, u64::MAX),
        }
    }

    /// Returns the range that contains this byte.
    pub(super) fn range_of(&self, seq: u64) -> Option<(u64, u64)> {
        let at = self.ranges.partition_point(|range| range.1 <= seq);
        self.ranges.get(at).copied().filter(|range| range.0 <= seq)
    }

    /// Returns the number of bytes below `seq` in ranges.
    pub(super) fn bytes_below(&self, seq: u64) -> u64 {
        self.ranges.iter().take_while(|range| range.0 < seq).map(|range| range.1.min(seq) - range.0).sum()
    }

    /// Returns the ranges from the last to the first.
    pub(super) fn descending(&self) -> impl Iterator<Item = (u64, u64)> {
        self.ranges.iter().rev().copied()
    }

    /// Returns the end of the last range.
    pub(super) fn end(&self) -> Option<u64> {
        self.ranges.back().map(|range| range.1)
    }

    /// Returns the number of bytes in all ranges.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranges_that_touch_become_one() {
        let mut ranges = Ranges::default();
        for (start, end) in [(10, 20), (30, 40), (50, 60), (20, 30), (5, 5)] {
            assert!(ranges.insert(start, end));
        }
        assert_eq!((ranges.descending().collect::<Vec<_>>(), ranges.total()), (vec![(50, 60), (10, 40)], 40));
        assert_eq!([0, 10, 39, 40, 55, 60].map(|seq| ranges.gap_from(seq)), {
            [(0, 10), (40, 50), (40, 50), (40, 50), (60, u64::MAX), (60, u64::MAX)]
        });
        assert_eq!([9, 10, 40, 59].map(|seq| ranges.range_of(seq)), [None, Some((10, 40)), None, Some((50, 60))]);
    }

    #[test]
    fn they_are_bounded_and_leave_no_memory_behind() {
        let mut ranges = Ranges::default();
        assert_eq!(ranges.ranges.capacity(), 0);
        let count = RANGES_MAX as u64;
        (0..count).for_each(|n| assert!(ranges.insert(10 * n, 10 * n + 1)));
        assert!(!ranges.insert(5, 6), "one too many");
        assert!(ranges.insert(1, 10), "makes one of two");
        assert_eq!(ranges.total(), count + 9);
        ranges.remove_below(10 * count);
        assert_eq!((ranges.total(), ranges.is_empty(), ranges.ranges.capacity()), (0, true, 0));
    }

    proptest! {
        /// Comparison with a set of bytes.
        #[test]
        fn they_are_a_set_of_bytes(steps in prop::collection::vec((0..4u8, 0..80u64, 0..12u64), 0..60)) {
            let mut ranges = Ranges::default();
            let mut model = [false; 100];
            for (kind, seq, len) in steps {
                if kind == 0 {
                    ranges.remove_below(seq);
                    model[..seq as usize].fill(false);
                } else {
                    ranges.insert(seq, seq + len);
                    model[seq as usize..(seq + len) as usize].fill(true);
                }
                let count = |below: u64| model[..below as usize].iter().filter(|held| **held).count() as u64;
                prop_assert_eq!(ranges.total(), count(100));
                prop_assert_eq!(ranges.bytes_below(seq), count(seq));
                prop_assert_eq!(ranges.range_of(seq).is_some(), model[seq as usize]);
                let gap = (seq..100).find(|at| !model[*at as usize]).unwrap();
                let end = (gap..100).find(|at| model[*at as usize]).unwrap_or(u64::MAX);
                prop_assert_eq!(ranges.gap_from(seq), (gap, end));
                let ascending: Vec<_> = ranges.ranges.iter().copied().collect();
                prop_assert!(ascending.windows(2).all(|pair| pair[0].1 < pair[1].0));
            }
        }
    }
}
