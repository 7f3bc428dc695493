//! The highest value that a counter reached.

use crate::sync::{AtomicU64, Ordering};

/// A maximum kept by several lcores. Relaxed throughout: it orders nothing, and a reader wants only the number.
#[derive(Debug, Default)]
pub(crate) struct Watermark(AtomicU64);

impl Watermark {
    /// Notes a level. The load first keeps the common case, no new maximum, free of a locked instruction.
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
