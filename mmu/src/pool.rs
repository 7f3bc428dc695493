//! The shared pool: reserve first, roll back on refusal, so that check-then-add never overshoots.

use crate::sync::{AtomicU64, Ordering};
use crate::watermark::Watermark;

/// Bytes of the shared segment in use, over all ingress queues.
///
/// Relaxed throughout: the counter publishes no other memory. What it promises is arithmetic on itself (grants
/// never exceed the capacity), which the single modification order of one atomic gives.
#[derive(Debug)]
pub(crate) struct Pool {
    used: AtomicU64,
    capacity: u64,
    watermark: Watermark,
}

/// What a reservation got.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    /// Bytes reserved by others when this reservation was made.
    pub before: u64,
    /// Bytes reserved, at most what was asked for.
    pub bytes: u64,
}

impl Pool {
    pub(crate) fn new(capacity: u64) -> Pool {
        Pool { used: AtomicU64::new(0), capacity, watermark: Watermark::default() }
    }

    /// Reserves up to `want` bytes: less, or nothing, when the pool is nearly full.
    ///
    /// While a refused part is being rolled back others see the pool fuller than it is, never emptier.
    #[inline]
    pub(crate) fn reserve(&self, want: u64) -> Grant {
        let before = self.used.fetch_add(want, Ordering::Relaxed);
        let bytes = want.min(self.capacity.saturating_sub(before));
        if bytes < want {
            self.used.fetch_sub(want - bytes, Ordering::Relaxed);
        }
        Grant { before: before.min(self.capacity), bytes }
    }

    /// Returns bytes that were reserved, or whose packets have left.
    #[inline]
    pub(crate) fn give_back(&self, bytes: u64) {
        if bytes > 0 {
            let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
            debug_assert!(before >= bytes, "the shared pool gave back {bytes} of {before}");
        }
    }

    /// Notes the level reached by packets kept, not by reservations under way.
    #[inline]
    pub(crate) fn note_level(&self, level: u64) {
        self.watermark.note(level);
    }

    #[inline]
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed).min(self.capacity)
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    pub(crate) fn watermark(&self) -> &Watermark {
        &self.watermark
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
        assert_eq!((grant.before, grant.bytes), (900, 100));
        assert_eq!(pool.reserve(1).bytes, 0);
        assert_eq!(pool.used(), 1_000);
        pool.give_back(1_000);
        assert_eq!(pool.used(), 0);
    }
}
