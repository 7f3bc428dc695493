//! Work of an lcore: packets, their receive bursts, and their processing time.

use std::iter::Sum;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_units::Span;

/// Packets that a task took since the start, and the bursts that they came in: those that it received; of one that receives none,
/// those that it got of other lcores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketTally {
    /// Packets.
    pub packets: u64,
    /// Bursts, none of them empty.
    pub bursts: u64,
}

impl PacketTally {
    /// Counts a burst of `packets` packets.
    #[inline(always)]
    pub(crate) fn record(&mut self, packets: usize) {
        self.packets += packets as u64;
        self.bursts += 1;
    }
}

impl Sum for PacketTally {
    fn sum<I: Iterator<Item = PacketTally>>(tallies: I) -> PacketTally {
        tallies.fold(PacketTally::default(), |sum, one| PacketTally {
            packets: sum.packets + one.packets,
            bursts: sum.bursts + one.bursts,
        })
    }
}

/// A lcore's work as it was at an instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Packets and bursts of all its tasks.
    pub tally: PacketTally,
    /// Packets whose time was taken.
    pub timed_packets: u64,
    /// The time of the polls in which they were taken, and in which others moved on, in real time.
    pub timed: Span,
}

impl Work {
    /// Difference from an earlier count.
    pub fn since(&self, earlier: &Work) -> Work {
        Work {
            tally: PacketTally {
                packets: self.tally.packets.saturating_sub(earlier.tally.packets),
                bursts: self.tally.bursts.saturating_sub(earlier.tally.bursts),
            },
            timed_packets: self.timed_packets.saturating_sub(earlier.timed_packets),
            timed: self.timed - earlier.timed.min(self.timed),
        }
    }
}

/// A poll that took longer was interrupted: neither its time nor its packets are timed.
const POLL_MAX: Span = Span::from_millis(1);

/// Counts work, for the loop that does it.
#[derive(Debug, Default)]
pub(crate) struct WorkCount(Work);

impl WorkCount {
    /// Counts a poll of duration `took` in which packets moved; `tally` is the tasks' total so far.
    #[inline]
    pub(crate) fn record(&mut self, tally: PacketTally, took: Span, stats: &WorkStats) {
        let Work { tally: before, timed_packets, timed } = self.0;
        self.0.tally = tally;
        if took <= POLL_MAX {
            self.0.timed_packets = timed_packets + (tally.packets - before.packets);
            self.0.timed = timed + took;
        }
        stats.store(&self.0);
    }
}

/// An lcore's work, for anybody to read. Relaxed: the loop alone writes, and a reader may be a poll behind.
#[derive(Debug, Default)]
pub(crate) struct WorkStats {
    packets: AtomicU64,
    bursts: AtomicU64,
    timed_packets: AtomicU64,
    timed_picos: AtomicU64,
}

impl WorkStats {
    #[inline]
    fn store(&self, work: &Work) {
        self.packets.store(work.tally.packets, Ordering::Relaxed);
        self.bursts.store(work.tally.bursts, Ordering::Relaxed);
        self.timed_packets.store(work.timed_packets, Ordering::Relaxed);
        self.timed_picos.store(work.timed.as_picos(), Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Work {
        let read = |of: &AtomicU64| of.load(Ordering::Relaxed);
        Work {
            tally: PacketTally { packets: read(&self.packets), bursts: read(&self.bursts) },
            timed_packets: read(&self.timed_packets),
            timed: Span::from_picos(read(&self.timed_picos)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poll_that_was_interrupted_is_counted_and_not_timed() {
        let (mut count, stats) = (WorkCount::default(), WorkStats::default());
        let mut tally = PacketTally::default();
        let mut poll = |packets: &[usize], took| {
            packets.iter().for_each(|packets| tally.record(*packets));
            count.record(tally, took, &stats);
            stats.read()
        };
        poll(&[32, 8], Span::from_micros(2));
        let before = poll(&[32], Span::from_millis(9));
        assert_eq!((before.tally, before.timed_packets), (PacketTally { packets: 72, bursts: 3 }, 40));
        // Packets that only left take time too.
        poll(&[], Span::from_micros(1));
        let work = poll(&[4], Span::from_micros(1));
        assert_eq!((work.timed_packets, work.timed), (44, Span::from_micros(4)));
        let since =
            Work { tally: PacketTally { packets: 4, bursts: 1 }, timed_packets: 4, timed: Span::from_micros(2) };
        assert_eq!(work.since(&before), since);
    }
}
