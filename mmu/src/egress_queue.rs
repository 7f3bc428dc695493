//! Length of an egress queue, for lossy thresholds and ECN.

use crate::low_pass::Average;
use crate::sync::{Ordering, SharedCounter};
use crate::watermark::{PersistentWatermark, Watermark};

/// Bytes queued for one (port of departure, class). Relaxed: a length orders no other memory.
#[derive(Debug, Default)]
pub(crate) struct EgressQueue {
    length: SharedCounter,
    watermark: Watermark,
    /// Average q̂ of the length, under a policy that compares averages; lossy classes only.
    pub(crate) average: Average,
    persistent: PersistentWatermark,
}

impl EgressQueue {
    pub(crate) fn make_own(&mut self) {
        self.length.make_own();
        self.average.make_own();
    }

    #[inline]
    pub(crate) fn add(&self, bytes: u64) {
        let length = self.length.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.watermark.note(length);
    }

    /// Updates the watermark with a length that lasts only an instant.
    #[inline]
    pub(crate) fn note_length(&self, length: u64) {
        self.watermark.note(length);
    }

    /// Removes bytes and returns the remaining length.
    #[inline]
    pub(crate) fn remove(&self, bytes: u64) -> u64 {
        let before = self.length.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "an egress queue of {before} B released {bytes} B");
        before.saturating_sub(bytes)
    }

    #[inline]
    pub(crate) fn length(&self) -> u64 {
        self.length.load(Ordering::Relaxed)
    }

    pub(crate) fn watermark(&self) -> &Watermark {
        &self.watermark
    }

    pub(crate) fn highest(&self) -> u64 {
        self.persistent.highest(&self.watermark)
    }

    /// Restarts the watermark, and returns its peak until then.
    pub(crate) fn restart_watermark(&self) -> u64 {
        self.persistent.restart(&self.watermark, || self.length())
    }
}
