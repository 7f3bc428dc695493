//! Watermarks: peaks of a counter.

use crate::sync::{AtomicU64, Ordering};

/// Maximum that several lcores update. Relaxed throughout: a maximum orders no other memory.
#[derive(Debug, Default)]
pub(crate) struct Watermark(AtomicU64);

impl Watermark {
    /// Records a level. The load first keeps the common case, no new maximum, free of a locked instruction.
    #[inline]
    pub(crate) fn note(&self, level: u64) {
        if level > self.0.load(Ordering::Relaxed) {
            self.0.fetch_max(level, Ordering::Relaxed);
        }
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Peak of a [`Watermark`] before its last restart. Only the control thread accesses it.
#[derive(Debug, Default)]
pub(crate) struct PersistentWatermark(AtomicU64);

impl PersistentWatermark {
    /// Peak since the counter was created, regardless of restarts of `mark`. One thread restarts and reads.
    pub(crate) fn highest(&self, mark: &Watermark) -> u64 {
        self.0.load(Ordering::Relaxed).max(mark.get())
    }

    /// Restarts `mark` from the counter's current level, which `level` reads. Returns the peak until then.
    ///
    /// The level is read after the mark was cleared: an earlier packet is in the level or has left, and a later one records itself. A level
    /// that is reached and left during this call counts to the time before, or to none.
    pub(crate) fn restart(&self, mark: &Watermark, level: impl FnOnce() -> u64) -> u64 {
        let before = mark.0.swap(0, Ordering::Relaxed);
        self.0.fetch_max(before, Ordering::Relaxed);
        mark.note(level());
        before
    }
}
