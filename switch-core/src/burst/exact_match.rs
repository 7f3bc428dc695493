//! Exact-match cache of forwarding decisions, by the first bytes of a frame.

use weir_units::{PortId, QueueId};
use weir_wire::HeaderKey;

use crate::fdb::FdbVersion;

/// Exact-match cache of routes between stations, by [`HeaderKey`] and ingress port; private to an lcore.
///
/// A hit is equal to the present result of parse, classification, learning and lookup. It holds for one version of the forwarding table and
/// one tick of its clock ([`ForwardingTable::version_at`](crate::fdb::ForwardingTable::version_at)): within that tick the source address
/// has been learned, and neither station's entry has changed. Older entries are invalid.
///
/// Call [`ExactMatchCache::set_version`] with the table's version and the frames' ingress port before each lookup and insertion.
#[derive(Debug)]
pub(super) struct ExactMatchCache {
    sets: Box<[CacheSet; SETS]>,
    /// Version of the table that `epoch` stands for.
    fdb_version: FdbVersion,
    /// Number of the current version; no entry has 0.
    epoch: u64,
    /// Upper half of the third word of a valid entry, for the current port.
    tag: u64,
}

/// Ingress and egress queues of a frame, as one number: egress in the upper half.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct QueueRoute(u32);

impl QueueRoute {
    #[inline(always)]
    pub(super) fn new(ingress: QueueId, egress: QueueId) -> QueueRoute {
        QueueRoute((egress.index() as u32) << 16 | ingress.index() as u32)
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
    /// lowest bits suffice if routes differ in [no others](QueueRoute::LABEL_BITS).
    #[inline(always)]
    pub(super) fn label(self) -> u8 {
        (self.0 >> QueueRoute::LABEL_BITS.trailing_zeros()) as u8
    }

    /// Bits of [labels](QueueRoute::label) within a route, and the bits of an egress queue outside labels.
    pub(super) const LABEL_BITS: u32 = 0x00ff_0000;
    pub(super) const OTHER_EGRESS_BITS: u32 = 0xff00_0000;

    #[inline(always)]
    pub(super) fn differs_from(self, other: QueueRoute) -> u32 {
        self.0 ^ other.0
    }
}

/// Set of entries with equal hashes: one cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct CacheSet([Entry; ENTRIES_PER_SET]);

/// Entry of the cache. The upper half of the third word, which a [`HeaderKey`] leaves free, has epoch and port.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    words: [u64; 3],
    route: QueueRoute,
}

const ENTRIES_PER_SET: usize = 2;
const SETS: usize = 2_048;
const PORT_SHIFT: u32 = 32;
const EPOCH_SHIFT: u32 = 40;
const EPOCHS: u64 = 1 << (64 - EPOCH_SHIFT);

impl ExactMatchCache {
    pub(super) fn new() -> ExactMatchCache {
        let sets: Box<[CacheSet]> = vec![CacheSet::default(); SETS].into();
        ExactMatchCache {
            sets: sets.try_into().expect("a vector of SETS sets"),
            fdb_version: FdbVersion::default(),
            epoch: 1,
            tag: 0,
        }
    }

    /// Sets the table's version and the ingress port for later lookups and insertions.
    #[inline]
    pub(super) fn set_version(&mut self, fdb_version: FdbVersion, port: PortId) {
        if self.fdb_version != fdb_version {
            self.invalidate(fdb_version);
        }
        debug_assert!(port.0 < 1 << (EPOCH_SHIFT - PORT_SHIFT));
        self.tag = self.epoch << EPOCH_SHIFT | u64::from(port.0) << PORT_SHIFT;
    }

    #[cold]
    fn invalidate(&mut self, fdb_version: FdbVersion) {
        self.fdb_version = fdb_version;
        self.epoch += 1;
        if self.epoch == EPOCHS {
            self.sets.fill(CacheSet::default());
            self.epoch = 1;
        }
    }

    #[inline(always)]
    pub(super) fn find(&self, key: HeaderKey) -> Option<QueueRoute> {
        let HeaderKey { words: [first, second, third] } = key;
        let third = third | self.tag;
        let is_it = |entry: &Entry| {
            let [one, two, three] = entry.words;
            (one ^ first) | (two ^ second) | (three ^ third) == 0
        };
        let [first, second] = &self.sets[Self::place(key)].0;
        if is_it(first) {
            return Some(first.route);
        }
        is_it(second).then_some(second.route)
    }

    /// Inserts a frame's route. The set keeps the last inserted entry and replaces the other.
    #[inline]
    pub(super) fn insert(&mut self, key: HeaderKey, route: QueueRoute) {
        let HeaderKey { words: [one, two, three] } = key;
        let CacheSet([first, second]) = &mut self.sets[Self::place(key)];
        *second = *first;
        *first = Entry { words: [one, two, three | self.tag], route };
    }

    #[inline(always)]
    fn place(key: HeaderKey) -> usize {
        // Fibonacci hashing, with a factor per word: the high bits depend on every bit.
        const FACTORS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f];
        let [first, second, third] = key.words;
        let hash = first.wrapping_mul(FACTORS[0]) ^ (second ^ third << 32).wrapping_mul(FACTORS[1]);
        (hash >> (u64::BITS - SETS.ilog2())) as usize
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use weir_units::Class;

    use super::*;

    fn route(port: u16) -> QueueRoute {
        let queue = |port| QueueId::new(PortId(port), Class::new(3));
        let route = QueueRoute::new(queue(port), queue(port + 1));
        assert_eq!((route.ingress(), route.egress()), (queue(port), queue(port + 1)));
        route
    }

    fn fdb_version(version: u64, tick: u64) -> FdbVersion {
        FdbVersion { changes: version, tick }
    }

    fn key(n: u64) -> HeaderKey {
        HeaderKey { words: [2 | n << 32, n << 24, 0] }
    }

    #[test]
    fn what_was_entered_is_found_for_its_port_and_as_of_then() {
        let mut known = ExactMatchCache::new();
        known.set_version(fdb_version(1, 1), PortId(5));
        assert_eq!(known.find(HeaderKey::default()), None, "an empty entry is none");
        known.insert(key(1), route(5));
        assert_eq!((known.find(key(1)), known.find(key(2))), (Some(route(5)), None));
        known.set_version(fdb_version(1, 1), PortId(6));
        assert_eq!(known.find(key(1)), None, "of another port");
        known.set_version(fdb_version(1, 1), PortId(5));
        assert_eq!(known.find(key(1)), Some(route(5)));
        for then in [fdb_version(2, 1), fdb_version(1, 1), fdb_version(1, 2)] {
            known.set_version(then, PortId(5));
            assert_eq!(known.find(key(1)), None, "as of another instant");
        }
    }

    #[test]
    fn what_was_known_long_ago_is_not_found_again_when_numbers_begin_anew() {
        let mut known = ExactMatchCache::new();
        known.set_version(fdb_version(0, 0), PortId(0));
        known.insert(key(1), route(0));
        known.epoch = EPOCHS - 1;
        known.set_version(fdb_version(1, 0), PortId(0));
        assert_eq!((known.epoch, known.find(key(1))), (1, None));
    }

    /// Pairs of stations with consecutive addresses, as in labs.
    #[test]
    fn consecutive_addresses_hardly_collide() {
        let address = |n: u64| [2, 0, 0, 0, (n >> 8) as u8, n as u8];
        let heads = (0..1_024u64).map(|n| {
            let mut frame = [0; 64];
            frame[..6].copy_from_slice(&address(n));
            frame[6..12].copy_from_slice(&address(n % 32));
            frame[12..15].copy_from_slice(&[8, 0, 0x45]);
            weir_wire::header_key(&frame).expect("long enough")
        });
        let places: HashSet<usize> = heads.map(ExactMatchCache::place).collect();
        // With random placement, 806 would be distinct.
        assert!(places.len() > 700, "{}", places.len());
    }
}
