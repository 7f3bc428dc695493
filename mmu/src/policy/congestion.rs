//! n_p: how many queues of a priority are congested, for thresholds that share by it (ABM, Reverie).

use crossbeam_utils::CachePadded;
use weir_units::archive::SharedState;
use weir_units::{CLASSES, Class, QueueId};

use crate::sync::{AtomicU32, Ordering};

/// Queues longer than a limit, counted by class; ingress and egress queues apart.
///
/// The papers define congestion by the threshold itself, which moves with n_p; the public simulator of both takes a
/// fixed length (20 KiB), and so does this. There a shorter queue counts by its part of that length.
#[derive(Debug, SharedState)]
pub struct CongestedQueues {
    #[state(same)]
    limit: u64,
    #[state(same)]
    is_partial: bool,
    /// What each queue counts, and what those of a class do together, in units of [`WHOLE`].
    parts: Box<[AtomicU32]>,
    sum: [CachePadded<AtomicU32>; CLASSES],
}

/// A congested queue.
const WHOLE: u32 = 1 << 16;

impl CongestedQueues {
    /// None yet, of the queues of `ports` ports; a queue of `limit` bytes counts.
    pub fn new(ports: usize, limit: u64) -> CongestedQueues {
        CongestedQueues {
            limit: limit.max(1),
            is_partial: false,
            parts: (0..ports * CLASSES).map(|_| AtomicU32::new(0)).collect(),
            sum: std::array::from_fn(|_| CachePadded::new(AtomicU32::new(0))),
        }
    }

    /// Whether a queue below the limit counts by its part of it, and not as nothing.
    pub fn partial(self, is_partial: bool) -> CongestedQueues {
        CongestedQueues { is_partial, ..self }
    }

    /// Takes note of a queue's length.
    ///
    /// The part's swap makes each change count once, whoever sees it. Relaxed: a count orders nothing.
    #[inline]
    pub fn note(&self, queue: QueueId, length: u64) {
        let now = if length >= self.limit {
            WHOLE
        } else if self.is_partial {
            // Below the limit, so below WHOLE.
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

    /// A number divided by n_p of a class, which is at least 1: a threshold for nobody is the threshold of the first. Numbers are
    /// below 2^48.
    ///
    /// Two lcores that change one queue at the same time may let a reader see the second change first; as a signed number the sum
    /// is below zero for an instant then, and reads as 1.
    #[inline]
    pub fn share(&self, class: Class, number: u64) -> u64 {
        let sum = (self.sum[class.index()].load(Ordering::Relaxed) as i32).max(WHOLE as i32) as u64;
        (number << 16) / sum
    }

    /// n_p of a class, at least 1, in whole queues, rounded down.
    #[cfg(test)]
    pub(crate) fn count(&self, class: Class) -> u64 {
        let sum = self.sum[class.index()].load(Ordering::Relaxed) as i32;
        (sum.max(WHOLE as i32) as u32 / WHOLE).into()
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
