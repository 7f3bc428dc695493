//! Bursts of several queues: the packets of each are put together, so that a burst touches each queue once, in whatever order
//! they came. A burst has come, or gone, at one instant, and a queue's packets keep their order.

use arrayvec::ArrayVec;

use super::{Arrival, Mmu};

/// The packets that are put together at once; longer bursts are cut.
pub(super) const GATHERED_MAX: usize = 64;

impl Mmu {
    /// Whether packets of one queue may lie apart from each other: two runs are of two queues.
    #[inline]
    pub(super) fn is_mixed(&self, packets: &[Arrival]) -> bool {
        self.runs(packets).nth(2).is_some()
    }

    /// Hands on the packets of each queue together, as [`Mmu::runs`] tells queues apart, with their places in `packets`. The queue
    /// of the first packet comes first.
    ///
    /// # Panics
    /// If there are more packets than [`GATHERED_MAX`].
    #[inline]
    pub(super) fn gather(&self, packets: &[Arrival], mut hand_on: impl FnMut(&[Arrival], &[u8])) {
        assert!(packets.len() <= GATHERED_MAX, "packets to gather: {}", packets.len());
        let mut left = u64::MAX >> (GATHERED_MAX - packets.len());
        while left != 0 {
            let first = &packets[left.trailing_zeros() as usize];
            let mut run: ArrayVec<Arrival, GATHERED_MAX> = ArrayVec::new();
            let mut places: ArrayVec<u8, GATHERED_MAX> = ArrayVec::new();
            let mut rest = left;
            while rest != 0 {
                let place = rest.trailing_zeros();
                rest &= rest - 1;
                let packet = &packets[place as usize];
                if self.are_of_one_queue(first, packet) {
                    run.push(*packet);
                    places.push(place as u8);
                    left &= !(1 << place);
                }
            }
            hand_on(&run, &places);
        }
    }
}
