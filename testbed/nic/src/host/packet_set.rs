//! Set of packets in a window of sequence numbers.

use weir_wire::rocev2::Psn;

/// Packets that one sender may have in flight under selective retransmission: the window of a [`PacketSet`]. It exceeds the
/// bandwidth-delay product of 400 Gb/s and 300 us in packets of 4 KiB.
pub(super) const WINDOW: u32 = 1 << 12;

/// Bitmap of the packets from a first one on, fewer than [`WINDOW`]. Its memory grows with the farthest packet.
#[derive(Clone, Debug, Default)]
pub(super) struct PacketSet {
    /// Ring of a power of two of bits, by the lower bits of the sequence number.
    chunks: Vec<u64>,
    count: u32,
}

impl PacketSet {
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn len(&self) -> u32 {
        self.count
    }

    /// Returns whether the set holds a packet; `first` is the first of the window.
    #[inline]
    pub(super) fn contains(&self, first: Psn, psn: Psn) -> bool {
        u32::try_from(psn.ahead_of(first)).is_ok_and(|ahead| ahead < self.bits()) && self.bit(psn)
    }

    /// Inserts a packet of the window; returns whether it is new.
    pub(super) fn insert(&mut self, first: Psn, psn: Psn) -> bool {
        debug_assert!((0..WINDOW as i32).contains(&psn.ahead_of(first)), "a packet of the window");
        if psn.ahead_of(first) as u32 >= self.bits() {
            self.grow(first, psn);
        }
        let is_new = !self.bit(psn);
        let (chunk, mask) = self.position(psn);
        self.chunks[chunk] |= mask;
        self.count += u32::from(is_new);
        is_new
    }

    /// Removes the first packet of the window, which then begins at the next one; returns whether the set held it.
    #[inline]
    pub(super) fn remove_first(&mut self, first: Psn) -> bool {
        if self.count == 0 || !self.bit(first) {
            return false;
        }
        let (chunk, mask) = self.position(first);
        self.chunks[chunk] &= !mask;
        self.count -= 1;
        true
    }

    fn grow(&mut self, first: Psn, farthest: Psn) {
        let held: Vec<Psn> = (0..self.bits()).map(|ahead| first.plus(ahead)).filter(|psn| self.bit(*psn)).collect();
        let bits = (farthest.ahead_of(first) as u32 + 1).next_power_of_two().max(u64::BITS);
        self.chunks = vec![0; (bits / u64::BITS) as usize];
        for psn in held {
            let (chunk, mask) = self.position(psn);
            self.chunks[chunk] |= mask;
        }
    }

    fn bits(&self) -> u32 {
        self.chunks.len() as u32 * u64::BITS
    }

    fn position(&self, psn: Psn) -> (usize, u64) {
        let bit = psn.get() & (self.bits() - 1);
        ((bit / u64::BITS) as usize, 1 << (bit % u64::BITS))
    }

    fn bit(&self, psn: Psn) -> bool {
        let (chunk, mask) = self.position(psn);
        self.chunks[chunk] & mask != 0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Packets near a moving first one, across the end of the sequence space.
        #[test]
        fn a_set_is_a_set(steps in prop::collection::vec((0..WINDOW, 0..100u32, any::<bool>()), 1..200)) {
            let start = (1 << 24) - 300;
            let (mut first, mut set, mut reference) = (0u32, PacketSet::default(), BTreeSet::new());
            let psn = |number: u32| Psn::new((start + number) % (1 << 24));
            for (ahead, removed, is_far) in steps {
                let number = first + if is_far { ahead } else { ahead % 80 };
                prop_assert_eq!(set.contains(psn(first), psn(number)), reference.contains(&number));
                prop_assert_eq!(set.insert(psn(first), psn(number)), reference.insert(number));
                for _ in 0..removed {
                    prop_assert_eq!(set.remove_first(psn(first)), reference.remove(&first));
                    first += 1;
                }
                prop_assert_eq!((set.len() as usize, set.is_empty()), (reference.len(), reference.is_empty()));
            }
        }
    }
}
