//! Pool that queues share. Reservations come first and are rolled back on refusal, so that check-then-add never overshoots.

use crate::sync::{AtomicU64, Ordering, SharedCounter};
use crate::watermark::{PersistentWatermark, Watermark};

/// Bytes of a pool in use, over all queues that share the pool.
///
/// Mostly Relaxed: the counters publish no other memory. Their guarantee (granted bytes never exceed the capacity) is arithmetic, which the
/// single modification order of one atomic provides. Only where the capacity changes must a reservation see the change ([`Pool::cede`]).
#[derive(Debug)]
pub(crate) struct Pool {
    used: SharedCounter,
    /// Constant, except under a policy that adapts or lends headroom; see [`Pool::cede`].
    capacity: AtomicU64,
    watermark: Watermark,
    persistent: PersistentWatermark,
}

/// State of a pool as seen by one lcore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolLevel {
    /// Capacity in bytes.
    pub capacity: u64,
    /// Bytes in use, at most the capacity.
    pub used: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolGrant {
    /// State of the pool before the reservation, without this reservation.
    pub before: PoolLevel,
    /// Bytes reserved, at most the requested.
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
            used: SharedCounter::new(0),
            capacity: AtomicU64::new(capacity),
            watermark: Watermark::default(),
            persistent: PersistentWatermark::default(),
        }
    }

    pub(crate) fn make_own(&mut self) {
        self.used.make_own();
    }

    /// Reserves up to `want` bytes: less, or zero, when the pool is nearly full.
    ///
    /// While a refused part is rolled back, others see the pool fuller than it is, never emptier.
    ///
    /// Acquire: pairs with the Release in [`Pool::cede`].
    #[inline]
    pub(crate) fn reserve(&self, want: u64) -> PoolGrant {
        let used = self.used.fetch_add(want, Ordering::Acquire);
        let capacity = self.capacity();
        let bytes = want.min(capacity.saturating_sub(used));
        if bytes < want {
            self.used.fetch_sub(want - bytes, Ordering::Relaxed);
        }
        PoolGrant { before: PoolLevel { capacity, used: used.min(capacity) }, bytes }
    }

    /// Returns bytes that were reserved, or whose packets have left.
    #[inline]
    pub(crate) fn release(&self, bytes: u64) {
        if bytes > 0 {
            let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
            debug_assert!(before >= bytes, "a pool gave back {bytes} of {before}");
        }
    }

    /// Removes up to `bytes` of free capacity for a segment outside the pool; returns the number of bytes.
    ///
    /// The bytes are reserved first, so that the pool's used bytes always fit the remaining capacity. Release on their return: a later
    /// reservation of the same bytes sees the smaller capacity.
    pub(crate) fn cede(&self, bytes: u64) -> u64 {
        let grant = self.reserve(bytes);
        self.cede_reserved(grant.bytes);
        grant.bytes
    }

    /// Removes capacity that the caller has reserved.
    pub(crate) fn cede_reserved(&self, bytes: u64) {
        self.capacity.fetch_sub(bytes, Ordering::Relaxed);
        self.used.fetch_sub(bytes, Ordering::Release);
    }

    /// Adds capacity that a segment outside the pool gave up. The bytes must be free, since a reservation in progress may take them.
    pub(crate) fn gain(&self, bytes: u64) {
        self.capacity.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Updates the watermark with admitted packets, not with reservations in progress.
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

    pub(crate) fn highest(&self) -> u64 {
        self.persistent.highest(&self.watermark)
    }

    /// Restarts the watermark from the current level, which `used` reads and which includes reservations in progress.
    /// Returns the peak until then.
    pub(crate) fn restart_watermark(&self, used: impl FnOnce() -> u64) -> u64 {
        self.persistent.restart(&self.watermark, used)
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
        pool.release(1_000);
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
