//! n_p: how many queues of a priority are congested, for thresholds that share by it (ABM, Reverie).

use crossbeam_utils::CachePadded;
use weir_units::{CLASSES, Class, QueueId};

use crate::sync::{AtomicBool, AtomicU32, Ordering};

/// Queues longer than a limit, counted by class; ingress and egress queues apart.
///
/// The papers define congestion by the threshold itself, which moves with n_p; the public simulator of both takes a
/// fixed length (20 KiB), and so does this.
#[derive(Debug)]
pub struct CongestedQueues {
    limit: u64,
    congested: Box<[AtomicBool]>,
    count: [CachePadded<AtomicU32>; CLASSES],
}

impl CongestedQueues {
    /// None yet, of the queues of `ports` ports; a queue of `limit` bytes counts.
    pub fn new(ports: usize, limit: u64) -> CongestedQueues {
        CongestedQueues {
            limit,
            congested: (0..ports * CLASSES).map(|_| AtomicBool::new(false)).collect(),
            count: std::array::from_fn(|_| CachePadded::new(AtomicU32::new(0))),
        }
    }

    /// Takes note of a queue's length.
    ///
    /// The flag's swap makes each turn count once, whoever sees it. Relaxed: a count orders nothing.
    #[inline]
    pub fn note(&self, queue: QueueId, length: u64) {
        let now = length >= self.limit;
        let flag = &self.congested[queue.index()];
        if flag.load(Ordering::Relaxed) != now && flag.swap(now, Ordering::Relaxed) != now {
            let count = &self.count[queue.class().index()];
            if now {
                count.fetch_add(1, Ordering::Relaxed);
            } else {
                count.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// n_p of a class, at least 1: a threshold for nobody is the threshold of the first.
    ///
    /// Two lcores that turn one queue at the same time may let a reader see the second turn's count first; as a signed
    /// number that is below zero for an instant, and reads as 1.
    #[inline]
    pub fn count(&self, class: Class) -> u64 {
        u64::from((self.count[class.index()].load(Ordering::Relaxed) as i32).max(1) as u32)
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
}
