//! Bytes added up by queue, so that a burst touches a queue's counter once and not once a packet.

use weir_units::QueueId;

/// Sums for a few queues; one that meets another in its place hands it on.
pub(crate) struct Tally {
    sums: [(QueueId, u64); PLACES],
}

/// A burst goes to few queues.
const PLACES: usize = 8;

impl Tally {
    #[inline]
    pub(crate) fn new() -> Tally {
        Tally { sums: [(QueueId::default(), 0); PLACES] }
    }

    /// Adds bytes to a queue's sum; `hand_on` gets what has to make room.
    #[inline]
    pub(crate) fn add(&mut self, queue: QueueId, bytes: u64, mut hand_on: impl FnMut(QueueId, u64)) {
        let place = &mut self.sums[(queue.port().index() + queue.class().index()) % PLACES];
        if place.0 != queue {
            if place.1 > 0 {
                hand_on(place.0, place.1);
            }
            *place = (queue, 0);
        }
        place.1 += bytes;
    }

    /// Hands on all sums.
    #[inline]
    pub(crate) fn drain(self, mut hand_on: impl FnMut(QueueId, u64)) {
        self.sums.iter().filter(|(_, bytes)| *bytes > 0).for_each(|(queue, bytes)| hand_on(*queue, *bytes));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use weir_units::{Class, PortId};

    #[test]
    fn nothing_is_lost_when_there_are_too_many_queues() {
        let queue = |port| QueueId::new(PortId(port), Class::new(3));
        let (mut tally, mut sums) = (Tally::new(), [0; 20]);
        for n in 0..100u16 {
            tally.add(queue(n % 20), u64::from(n), |queue, bytes| sums[queue.port().index()] += bytes);
        }
        tally.drain(|queue, bytes| sums[queue.port().index()] += bytes);
        assert!(sums.iter().enumerate().all(|(n, sum)| *sum == 5 * n as u64 + 200));
    }
}
