//! A pool that queues share: reserve first, roll back on refusal, so that check-then-add never overshoots.

use weir_units::archive::SharedState;

use crate::sync::{AtomicU64, Ordering, Word};
use crate::watermark::{Former, Watermark};

/// Bytes of a pool in use, over all queues that share it.
///
/// Mostly Relaxed: the counters publish no other memory. What they promise is arithmetic on themselves (what is granted
/// never exceeds the capacity), which the single modification order of one atomic gives. Only where the capacity moves
/// does a reservation have to see it move, see [`Pool::cede`].
#[derive(Debug, SharedState)]
pub(crate) struct Pool {
    used: Word,
    /// Moves only under a policy that adapts headroom; see [`Pool::cede`].
    capacity: AtomicU64,
    watermark: Watermark,
    former: Former,
}

/// A pool's state as one lcore saw it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolLevel {
    /// Bytes of the pool.
    pub capacity: u64,
    /// Bytes in use, at most the capacity.
    pub used: u64,
}

/// What a reservation got.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    /// The pool as others had it when this reservation was made.
    pub before: PoolLevel,
    /// Bytes reserved, at most what was asked for.
    pub bytes: u64,
}

impl PoolLevel {
    /// Free bytes.
    #[inline]
    pub fn free(self) -> u64 {
        self.capacity.saturating_sub(self.used)
    }
}

impl Pool {
    pub(crate) fn new(capacity: u64) -> Pool {
        Pool {
            used: Word::new(0),
            capacity: AtomicU64::new(capacity),
            watermark: Watermark::default(),
            former: Former::default(),
        }
    }

    /// One lcore has the pool for itself.
    pub(crate) fn make_own(&mut self) {
        self.used.make_own();
    }

    /// Reserves up to `want` bytes: less, or nothing, when the pool is nearly full.
    ///
    /// While a refused part is being rolled back others see the pool fuller than it is, never emptier.
    ///
    /// Acquire: pairs with the Release in [`Pool::cede`].
    #[inline]
    pub(crate) fn reserve(&self, want: u64) -> Grant {
        let used = self.used.fetch_add(want, Ordering::Acquire);
        let capacity = self.capacity();
        let bytes = want.min(capacity.saturating_sub(used));
        if bytes < want {
            self.used.fetch_sub(want - bytes, Ordering::Relaxed);
        }
        Grant { before: PoolLevel { capacity, used: used.min(capacity) }, bytes }
    }

    /// Returns bytes that were reserved, or whose packets have left.
    #[inline]
    pub(crate) fn give_back(&self, bytes: u64) {
        if bytes > 0 {
            let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
            debug_assert!(before >= bytes, "a pool gave back {bytes} of {before}");
        }
    }

    /// Takes up to `bytes` of free room out of the pool, for a segment outside it; returns how many.
    ///
    /// They are reserved first, so what the pool holds always fits what it has left. Release on their return: who
    /// reserves the same bytes after that sees the smaller capacity.
    pub(crate) fn cede(&self, bytes: u64) -> u64 {
        let grant = self.reserve(bytes);
        self.capacity.fetch_sub(grant.bytes, Ordering::Relaxed);
        self.used.fetch_sub(grant.bytes, Ordering::Release);
        grant.bytes
    }

    /// Adds room that a segment outside the pool no longer has.
    pub(crate) fn gain(&self, bytes: u64) {
        self.capacity.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Notes the level reached by packets kept, not by reservations under way.
    #[inline]
    pub(crate) fn note_level(&self, level: u64) {
        self.watermark.note(level);
    }

    #[inline]
    pub(crate) fn level(&self) -> PoolLevel {
        let capacity = self.capacity();
        PoolLevel { capacity, used: self.used.load(Ordering::Relaxed).min(capacity) }
    }

    #[inline]
    fn capacity(&self) -> u64 {
        self.capacity.load(Ordering::Relaxed)
    }

    pub(crate) fn watermark(&self) -> &Watermark {
        &self.watermark
    }

    /// The highest level since the start.
    pub(crate) fn highest(&self) -> u64 {
        self.former.highest(&self.watermark)
    }

    /// Has the highest level noted anew, from that of now. Reservations under way are in it, as in any other look at the pool.
    pub(crate) fn restart_watermark(&self) {
        self.former.restart(&self.watermark, || self.level().used);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_full_pool_grants_what_is_left() {
        let pool = Pool::new(1_000);
        assert_eq!(pool.reserve(900).bytes, 900);
        let grant = pool.reserve(200);
        assert_eq!((grant.before.used, grant.bytes), (900, 100));
        assert_eq!(pool.reserve(1).bytes, 0);
        assert_eq!(pool.level().used, 1_000);
        pool.give_back(1_000);
        assert_eq!(pool.level().used, 0);
    }

    #[test]
    fn only_free_room_is_ceded() {
        let pool = Pool::new(1_000);
        let _ = pool.reserve(700);
        assert_eq!(pool.cede(500), 300);
        assert_eq!(pool.level(), PoolLevel { capacity: 700, used: 700 });
        pool.gain(300);
        assert_eq!(pool.level().free(), 300);
    }
}
