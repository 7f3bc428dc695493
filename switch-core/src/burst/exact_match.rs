//! Exact-match cache of forwarding decisions, by the first bytes of a frame.

use weir_units::{PortId, QueueId};
use weir_wire::Head;

use crate::fdb::AsOf;

/// Exact-match cache of routes between stations, by [`Head`] and ingress port; private to an lcore.
///
/// A hit is equal to the present result of parse, classification, learning and lookup. It holds for one version of the forwarding table and
/// one tick of its clock ([`ForwardingTable::as_of`](crate::fdb::ForwardingTable::as_of)): within that tick the source address has been
/// learned, and neither station's entry has changed. Older entries are invalid.
///
/// Call [`ExactMatch::follow`] with the table's version and the frames' ingress port before each lookup and insertion.
#[derive(Debug)]
pub(super) struct ExactMatch {
    sets: Box<[Set; SETS]>,
    /// Version of the table for entries of the current `epoch`.
    as_of: AsOf,
    /// Number of the current version; no entry has 0.
    epoch: u64,
    /// Upper half of the third word of a valid entry, for the current port.
    now: u64,
}

/// Ingress and egress queues of a frame, as one number: egress in the upper half.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Way(u32);

impl Way {
    #[inline(always)]
    pub(super) fn new(ingress: QueueId, egress: QueueId) -> Way {
        Way((egress.index() as u32) << 16 | ingress.index() as u32)
    }

    #[inline(always)]
    pub(super) fn ingress(self) -> QueueId {
        QueueId::of_index(usize::from(self.0 as u16))
    }

    #[inline(always)]
    pub(super) fn egress(self) -> QueueId {
        QueueId::of_index((self.0 >> 16) as usize)
    }

    /// Returns a label that distinguishes routes from one ingress port: both sides have the same class, so the egress queue suffices. Its
    /// lowest bits suffice if routes differ in [no others](Way::LABEL_BITS).
    #[inline(always)]
    pub(super) fn label(self) -> u8 {
        (self.0 >> Way::LABEL_BITS.trailing_zeros()) as u8
    }

    /// Bits of [labels](Way::label) within a route, and the bits of an egress queue outside labels.
    pub(super) const LABEL_BITS: u32 = 0x00ff_0000;
    pub(super) const OTHER_EGRESS_BITS: u32 = 0xff00_0000;

    #[inline(always)]
    pub(super) fn differs_from(self, other: Way) -> u32 {
        self.0 ^ other.0
    }
}

/// Set of entries with equal hashes: one cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Set([Entry; WAYS]);

/// Entry of the cache. The upper half of the third word, which heads leave free, has epoch and port.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    words: [u64; 3],
    way: Way,
}

const WAYS: usize = 2;
const SETS: usize = 2_048;
const PORT_SHIFT: u32 = 32;
const EPOCH_SHIFT: u32 = 40;
const EPOCHS: u64 = 1 << (64 - EPOCH_SHIFT);

impl ExactMatch {
    pub(super) fn new() -> ExactMatch {
        let sets: Box<[Set]> = vec![Set::default(); SETS].into();
        ExactMatch { sets: sets.try_into().expect("as many"), as_of: AsOf::default(), epoch: 1, now: 0 }
    }

    /// Sets the table's version and the ingress port for later lookups and insertions.
    #[inline]
    pub(super) fn follow(&mut self, as_of: AsOf, port: PortId) {
        if self.as_of != as_of {
            self.forget(as_of);
        }
        debug_assert!(port.0 < 1 << (EPOCH_SHIFT - PORT_SHIFT));
        self.now = self.epoch << EPOCH_SHIFT | u64::from(port.0) << PORT_SHIFT;
    }

    #[cold]
    fn forget(&mut self, as_of: AsOf) {
        self.as_of = as_of;
        self.epoch += 1;
        if self.epoch == EPOCHS {
            self.sets.fill(Set::default());
            self.epoch = 1;
        }
    }

    #[inline(always)]
    pub(super) fn find(&self, head: Head) -> Option<Way> {
        let Head { words: [first, second, third] } = head;
        let third = third | self.now;
        let is_it = |entry: &Entry| {
            let [one, two, three] = entry.words;
            (one ^ first) | (two ^ second) | (three ^ third) == 0
        };
        let [first, second] = &self.sets[Self::place(head)].0;
        if is_it(first) {
            return Some(first.way);
        }
        is_it(second).then_some(second.way)
    }

    /// Inserts a frame's route. The set keeps the last inserted entry and replaces the other.
    #[inline]
    pub(super) fn enter(&mut self, head: Head, way: Way) {
        let Head { words: [one, two, three] } = head;
        let Set([first, second]) = &mut self.sets[Self::place(head)];
        *second = *first;
        *first = Entry { words: [one, two, three | self.now], way };
    }

    #[inline(always)]
    fn place(head: Head) -> usize {
        // Fibonacci hashing, with a factor per word: the high bits depend on every bit.
        const FACTORS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f];
        let [first, second, third] = head.words;
        let hash = first.wrapping_mul(FACTORS[0]) ^ (second ^ third << 32).wrapping_mul(FACTORS[1]);
        (hash >> (u64::BITS - SETS.ilog2())) as usize
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use weir_units::Class;

    use super::*;

    fn way(port: u16) -> Way {
        let queue = |port| QueueId::new(PortId(port), Class::new(3));
        let way = Way::new(queue(port), queue(port + 1));
        assert_eq!((way.ingress(), way.egress()), (queue(port), queue(port + 1)));
        way
    }

    fn as_of(version: u64, tick: u64) -> AsOf {
        AsOf { version, tick }
    }

    fn head(n: u64) -> Head {
        Head { words: [2 | n << 32, n << 24, 0] }
    }

    #[test]
    fn what_was_entered_is_found_for_its_port_and_as_of_then() {
        let mut known = ExactMatch::new();
        known.follow(as_of(1, 1), PortId(5));
        assert_eq!(known.find(Head::default()), None, "an empty entry is none");
        known.enter(head(1), way(5));
        assert_eq!((known.find(head(1)), known.find(head(2))), (Some(way(5)), None));
        known.follow(as_of(1, 1), PortId(6));
        assert_eq!(known.find(head(1)), None, "of another port");
        known.follow(as_of(1, 1), PortId(5));
        assert_eq!(known.find(head(1)), Some(way(5)));
        for then in [as_of(2, 1), as_of(1, 1), as_of(1, 2)] {
            known.follow(then, PortId(5));
            assert_eq!(known.find(head(1)), None, "as of another instant");
        }
    }

    #[test]
    fn what_was_known_long_ago_is_not_found_again_when_numbers_begin_anew() {
        let mut known = ExactMatch::new();
        known.follow(as_of(0, 0), PortId(0));
        known.enter(head(1), way(0));
        known.epoch = EPOCHS - 1;
        known.follow(as_of(1, 0), PortId(0));
        assert_eq!((known.epoch, known.find(head(1))), (1, None));
    }

    /// Pairs of stations with consecutive addresses, as in labs.
    #[test]
    fn stations_in_a_row_hardly_get_in_each_others_way() {
        let address = |n: u64| [2, 0, 0, 0, (n >> 8) as u8, n as u8];
        let heads = (0..1_024u64).map(|n| {
            let mut frame = [0; 64];
            frame[..6].copy_from_slice(&address(n));
            frame[6..12].copy_from_slice(&address(n % 32));
            frame[12..15].copy_from_slice(&[8, 0, 0x45]);
            weir_wire::head(&frame).expect("long enough")
        });
        let places: HashSet<usize> = heads.map(ExactMatch::place).collect();
        // With random placement, 806 would be distinct.
        assert!(places.len() > 700, "{}", places.len());
    }
}
