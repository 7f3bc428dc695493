//! Number n_p of congested queues of a priority, for thresholds that are divided by n_p (ABM, Reverie).

use crossbeam_utils::CachePadded;
use weir_units::{CLASSES, Class, QueueId};

use crate::sync::{AtomicU32, Ordering};

/// Counter of queues longer than a limit, by class. Ingress and egress queues have separate counters.
///
/// The papers define congestion by the threshold itself, which depends on n_p. The public simulator of both uses a fixed length (20 KiB),
/// as does this counter. In the simulator, a shorter queue counts in proportion to its length.
#[derive(Debug)]
pub struct CongestedQueues {
    limit: u64,
    is_partial: bool,
    /// Share of each queue, and below their sum by class, in units of [`FULL_SHARE`].
    parts: Box<[AtomicU32]>,
    sum: [CachePadded<AtomicU32>; CLASSES],
}

/// Share of a congested queue.
const FULL_SHARE: u32 = 1 << 16;

impl CongestedQueues {
    /// Creates an empty counter for the queues of `ports` ports; a queue of `limit` bytes counts as congested.
    pub fn new(ports: usize, limit: u64) -> CongestedQueues {
        CongestedQueues {
            limit: limit.max(1),
            is_partial: false,
            parts: (0..ports * CLASSES).map(|_| AtomicU32::new(0)).collect(),
            sum: std::array::from_fn(|_| CachePadded::new(AtomicU32::new(0))),
        }
    }

    /// Sets whether a queue below the limit counts in proportion to its length, and not as zero.
    pub fn partial(self, is_partial: bool) -> CongestedQueues {
        CongestedQueues { is_partial, ..self }
    }

    /// Updates a queue's share from its length.
    ///
    /// The swap of the share counts each change once on any lcore. Relaxed: a count orders no other memory.
    #[inline]
    pub fn note(&self, queue: QueueId, length: u64) {
        let now = if length >= self.limit {
            FULL_SHARE
        } else if self.is_partial {
            // Below the limit, so below FULL_SHARE.
            ((length << 16) / self.limit) as u32
        } else {
            0
        };
        let part = &self.parts[queue.index()];
        if part.load(Ordering::Relaxed) != now {
            let before = part.swap(now, Ordering::Relaxed);
            if before != now {
                self.sum[queue.class().index()].fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
            }
        }
    }

    /// Divides a number below 2^48 by n_p of a class, which is at least 1: without congested queues, the threshold is that of a single
    /// queue.
    ///
    /// Two lcores that change one queue concurrently may let a reader see the second change first. The sum is then briefly negative as a
    /// signed number, and reads as 1.
    #[inline]
    pub fn share(&self, class: Class, number: u64) -> u64 {
        let sum = (self.sum[class.index()].load(Ordering::Relaxed) as i32).max(FULL_SHARE as i32) as u64;
        (number << 16) / sum
    }

    /// Number n_p of a class, at least 1, in whole queues, rounded down.
    #[cfg(test)]
    pub(crate) fn count(&self, class: Class) -> u64 {
        let sum = self.sum[class.index()].load(Ordering::Relaxed) as i32;
        (sum.max(FULL_SHARE as i32) as u32 / FULL_SHARE).into()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use weir_units::PortId;

    #[test]
    fn each_queue_counts_once() {
        let class = Class::new(3);
        let congested = CongestedQueues::new(4, 20_480);
        assert_eq!(congested.count(class), 1);
        for port in 0..4 {
            for length in [20_480, 1_000_000, 20_479, 20_481] {
                congested.note(QueueId::new(PortId(port), class), length);
            }
        }
        assert_eq!(congested.count(class), 4);
        congested.note(QueueId::new(PortId(2), class), 0);
        assert_eq!((congested.count(class), congested.count(Class::new(0))), (3, 1));
    }

    #[test]
    fn queues_may_count_by_their_parts() {
        let class = Class::new(3);
        let congested = CongestedQueues::new(4, 20_480).partial(true);
        congested.note(QueueId::new(PortId(0), class), 10_240);
        assert_eq!(congested.share(class, 1_000_000), 1_000_000, "half a queue is one at least");
        congested.note(QueueId::new(PortId(1), class), 20_480);
        congested.note(QueueId::new(PortId(2), class), 2_000_000);
        // 1/2 + 1 + 1.
        assert_eq!((congested.share(class, 1_000_000), congested.count(class)), (400_000, 2));
        congested.note(QueueId::new(PortId(2), class), 5_120);
        assert_eq!(congested.share(class, 1_750_000), 1_000_000);
    }
}
