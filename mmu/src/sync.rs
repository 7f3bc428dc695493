//! Atomics: core's, or loom's when a model is explored (`RUSTFLAGS="--cfg loom"`).

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Counter shared by lcores.
///
/// If one lcore owns the counter, an update is a load and a store, and not atomic. This saves the cost of an atomic read-modify-write,
/// which makes the processor wait for all earlier memory accesses.
#[derive(Debug, Default)]
pub(crate) struct SharedCounter {
    value: AtomicU64,
    is_own: bool,
}

impl SharedCounter {
    pub(crate) fn new(value: u64) -> SharedCounter {
        SharedCounter { value: AtomicU64::new(value), is_own: false }
    }

    /// Makes one lcore the owner of the counter.
    pub(crate) fn make_own(&mut self) {
        self.is_own = true;
    }

    #[inline]
    pub(crate) fn load(&self, ordering: Ordering) -> u64 {
        self.value.load(ordering)
    }

    #[inline]
    pub(crate) fn fetch_add(&self, more: u64, ordering: Ordering) -> u64 {
        if self.is_own { self.replace(|value| value.wrapping_add(more)) } else { self.value.fetch_add(more, ordering) }
    }

    #[inline]
    pub(crate) fn fetch_sub(&self, less: u64, ordering: Ordering) -> u64 {
        if self.is_own { self.replace(|value| value.wrapping_sub(less)) } else { self.value.fetch_sub(less, ordering) }
    }

    /// Compares and exchanges as the atomics do. Always succeeds for an owned counter if `current` was just loaded.
    #[inline]
    pub(crate) fn compare_exchange_weak(
        &self,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        if self.is_own {
            debug_assert_eq!(self.value.load(Ordering::Relaxed), current, "another lcore came between");
            self.value.store(new, Ordering::Relaxed);
            return Ok(current);
        }
        self.value.compare_exchange_weak(current, new, success, failure)
    }

    /// Relaxed: an lcore sees its own accesses in order.
    #[inline]
    fn replace(&self, change: impl FnOnce(u64) -> u64) -> u64 {
        let before = self.value.load(Ordering::Relaxed);
        self.value.store(change(before), Ordering::Relaxed);
        before
    }
}
