//! Exact-match cache of forwarding decisions, by the first bytes of a frame.

use weir_units::{PortId, QueueId};
use weir_wire::HeaderKey;

use crate::fdb::FdbVersion;

/// Exact-match cache of routes between stations, by [`HeaderKey`] and ingress port; private to an lcore.
///
/// A hit is equal to the present result of parse, classification, learning and lookup. It holds for one version of the forwarding table and
/// one tick of its clock ([`ForwardingTable::version_at`](crate::fdb::ForwardingTable::version_at)): within that tick the source address
/// has been learned, and neither station's entry, marked as cached, has changed. Older entries are invalid.
///
/// Call [`ExactMatchCache::set_version`] with the table's version and the frames' ingress port before each lookup and insertion.
#[derive(Debug)]
pub(super) struct ExactMatchCache {
    sets: Box<[CacheSet]>,
    /// Number of a hash's bits below those that select the set.
    shift: u32,
    /// Version of the table that `epoch` stands for.
    fdb_version: FdbVersion,
    /// Number of the current version; no entry has 0.
    epoch: u64,
    /// Upper half of the third word of a valid entry, for the current port.
    tag: u64,
    /// Whether the next insertion into a full set replaces its second entry.
    victim: bool,
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

    /// Returns a label that distinguishes routes from one ingress port if their egress queues do, and these differ in
    /// [no other bits](QueueRoute::LABEL_BITS).
    #[inline(always)]
    pub(super) fn label(self) -> u8 {
        (self.0 >> QueueRoute::LABEL_BITS.trailing_zeros()) as u8
    }

    /// Bits of [labels](QueueRoute::label) within a route, and the bits of an egress queue outside labels.
    pub(super) const LABEL_BITS: u32 = 0x00ff_0000;
    pub(super) const OTHER_EGRESS_BITS: u32 = 0xff00_0000;
    /// Bits of the ingress queue within a route.
    pub(super) const INGRESS_BITS: u32 = 0xffff;

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
    key: [u64; 3],
    route: QueueRoute,
}

const ENTRIES_PER_SET: usize = 2;
const PORT_SHIFT: u32 = 32;
const EPOCH_SHIFT: u32 = 40;
const EPOCHS: u64 = 1 << (64 - EPOCH_SHIFT);

impl ExactMatchCache {
    /// Returns a cache with this number of sets, a power of two above 1.
    pub(super) fn new(sets: usize) -> ExactMatchCache {
        assert!(sets.is_power_of_two() && sets > 1);
        ExactMatchCache {
            shift: u64::BITS - sets.ilog2(),
            sets: vec![CacheSet::default(); sets].into(),
            fdb_version: FdbVersion::default(),
            epoch: 1,
            tag: 0,
            victim: false,
        }
    }

    /// Returns whether this is the table's version that was last set.
    #[inline]
    pub(super) fn is_current(&self, fdb_version: FdbVersion) -> bool {
        self.fdb_version == fdb_version
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

    /// Returns the first route of the frame's set, and whether it is the frame's, as it mostly is. No branch: a burst's frames
    /// that are not cached are found after the others.
    #[inline(always)]
    pub(super) fn first(&self, key: HeaderKey) -> (QueueRoute, bool) {
        let [first, _] = &self.sets[self.place(key)].0;
        (first.route, self.holds(first, key))
    }

    /// Returns the frame's route, if it is the second of its set.
    #[inline]
    pub(super) fn second(&self, key: HeaderKey) -> Option<QueueRoute> {
        let [_, second] = &self.sets[self.place(key)].0;
        self.holds(second, key).then_some(second.route)
    }

    #[inline(always)]
    fn holds(&self, entry: &Entry, HeaderKey { words: [first, second, third] }: HeaderKey) -> bool {
        let [one, two, three] = entry.key;
        (one ^ first) | (two ^ second) | (three ^ (third | self.tag)) == 0
    }

    /// Returns whether the frame's route is cached.
    #[inline]
    pub(super) fn contains(&self, key: HeaderKey) -> bool {
        self.first(key).1 || self.second(key).is_some()
    }

    /// Inserts a frame's route in the place of an outdated entry, or of either.
    #[inline]
    pub(super) fn insert(&mut self, key: HeaderKey, route: QueueRoute) {
        let HeaderKey { words: [one, two, three] } = key;
        let place = self.place(key);
        let CacheSet(entries) = &mut self.sets[place];
        let place = entries.iter().position(|entry| entry.key[2] >> EPOCH_SHIFT != self.epoch).unwrap_or_else(|| {
            self.victim = !self.victim;
            usize::from(self.victim)
        });
        entries[place] = Entry { key: [one, two, three | self.tag], route };
    }

    #[inline(always)]
    fn place(&self, key: HeaderKey) -> usize {
        // The parts of both addresses that differ within a vendor's, and the traffic class, have bits of their own. The factor is
        // MurmurHash3's: pairs of stations with consecutive addresses collide no more often than others.
        let [first, second, third] = key.words;
        let hash = (first ^ second.rotate_right(8) ^ third).wrapping_mul(0xff51_afd7_ed55_8ccd);
        (hash >> self.shift) as usize
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

    fn find(cache: &ExactMatchCache, key: HeaderKey) -> Option<QueueRoute> {
        let (route, is_hit) = cache.first(key);
        assert_eq!(cache.contains(key), is_hit || cache.second(key).is_some());
        if is_hit { Some(route) } else { cache.second(key) }
    }

    #[test]
    fn what_was_entered_is_found_for_its_port_and_as_of_then() {
        let mut known = ExactMatchCache::new(2_048);
        known.set_version(fdb_version(1, 1), PortId(5));
        assert_eq!(find(&known, HeaderKey::default()), None, "an empty entry is none");
        known.insert(key(1), route(5));
        assert_eq!((find(&known, key(1)), find(&known, key(2))), (Some(route(5)), None));
        known.set_version(fdb_version(1, 1), PortId(6));
        assert_eq!(find(&known, key(1)), None, "of another port");
        known.set_version(fdb_version(1, 1), PortId(5));
        assert_eq!(find(&known, key(1)), Some(route(5)));
        for then in [fdb_version(2, 1), fdb_version(1, 1), fdb_version(1, 2)] {
            known.set_version(then, PortId(5));
            assert_eq!(find(&known, key(1)), None, "as of another instant");
        }
    }

    #[test]
    fn what_was_known_long_ago_is_not_found_again_when_numbers_begin_anew() {
        let mut known = ExactMatchCache::new(2_048);
        known.set_version(fdb_version(0, 0), PortId(0));
        known.insert(key(1), route(0));
        known.epoch = EPOCHS - 1;
        known.set_version(fdb_version(1, 0), PortId(0));
        assert_eq!((known.epoch, find(&known, key(1))), (1, None));
    }

    /// Pairs of stations with consecutive addresses, as in labs.
    #[test]
    fn consecutive_addresses_hardly_collide() {
        let cache = ExactMatchCache::new(2_048);
        let address = |n: u64| [2, 0, 0, 0, (n >> 8) as u8, n as u8];
        let heads = (0..1_024u64).map(|n| {
            let mut frame = [0; 64];
            frame[..6].copy_from_slice(&address(n));
            frame[6..12].copy_from_slice(&address(n % 32));
            frame[12..15].copy_from_slice(&[8, 0, 0x45]);
            weir_wire::header_key(&frame).expect("long enough")
        });
        let places: HashSet<usize> = heads.map(|key| cache.place(key)).collect();
        // With random placement, 806 would be distinct.
        assert!(places.len() > 700, "{}", places.len());
    }
}
