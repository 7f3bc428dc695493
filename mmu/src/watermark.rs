//! The highest value that a counter reached.

use weir_units::archive::SharedState;

use crate::sync::{AtomicU64, Ordering};

/// A maximum kept by several lcores. Relaxed throughout: it orders nothing, and a reader wants only the number.
#[derive(Debug, Default, SharedState)]
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

/// The highest that a [`Watermark`] reached before it was restarted. Packets never touch it: only the control thread does.
#[derive(Debug, Default, SharedState)]
pub(crate) struct Former(AtomicU64);

impl Former {
    /// The highest since the counter was made, however often `mark` was restarted. One thread restarts and reads.
    pub(crate) fn highest(&self, mark: &Watermark) -> u64 {
        self.0.load(Ordering::Relaxed).max(mark.get())
    }

    /// Starts `mark` anew from the counter's level of now, which `level` reads.
    ///
    /// The level is read after the mark was emptied: a packet that came before that is in the level or has left, and one that
    /// comes later notes itself. A level that is reached and left while this runs counts to the time before, or to none.
    pub(crate) fn restart(&self, mark: &Watermark, level: impl FnOnce() -> u64) {
        let before = mark.0.swap(0, Ordering::Relaxed);
        self.0.fetch_max(before, Ordering::Relaxed);
        mark.note(level());
    }
}
