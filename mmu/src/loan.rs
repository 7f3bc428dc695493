//! Headroom that an OFF queue has lent to the shared segment.

use weir_units::Time;

use crate::sync::{AtomicBool, AtomicU64, Ordering};

/// Loan of an ingress queue. Whether the queue lends is a bit of its occupancy; this is the rest.
#[derive(Debug)]
pub(crate) struct Loan {
    /// True while an lcore lends or resumes the queue.
    is_busy: AtomicBool,
    /// Earliest instant of lending. Relaxed: set by the lcore that admits while the queue is ON, before the update that turns it OFF, so
    /// that a reader of an OFF occupancy sees the instant of this PAUSE.
    from: AtomicU64,
    /// Bytes that the shared segment has returned. Relaxed: only the lcore that lends or resumes the queue uses it.
    returned: AtomicU64,
}

impl Default for Loan {
    fn default() -> Loan {
        let never = Time::NEVER.as_picos();
        Loan { is_busy: AtomicBool::new(false), from: AtomicU64::new(never), returned: AtomicU64::new(0) }
    }
}

impl Loan {
    /// Returns true if the caller may lend or resume the queue, until [`Loan::end`]. Acquire: pairs with Release there.
    pub(crate) fn begin(&self) -> bool {
        self.is_busy.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    pub(crate) fn end(&self) {
        self.is_busy.store(false, Ordering::Release);
    }

    pub(crate) fn from(&self) -> Time {
        Time::from_picos(self.from.load(Ordering::Relaxed))
    }

    /// Sets the earliest instant of lending, should the queue turn OFF now.
    pub(crate) fn lend_from(&self, from: Time) {
        self.from.store(from.as_picos(), Ordering::Relaxed);
    }

    pub(crate) fn returned(&self) -> u64 {
        self.returned.load(Ordering::Relaxed)
    }

    pub(crate) fn set_returned(&self, bytes: u64) {
        self.returned.store(bytes, Ordering::Relaxed);
    }
}
