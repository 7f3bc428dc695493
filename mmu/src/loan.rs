//! Headroom that an OFF queue has lent to the shared segment.

use weir_units::Time;

use crate::sync::{AtomicBool, AtomicU64, Ordering};

/// Loan of an ingress queue. Whether the queue lends is a bit of its occupancy; this is the rest.
#[derive(Debug)]
pub(crate) struct Loan {
    /// True while an lcore lends or resumes the queue.
    is_busy: AtomicBool,
    /// Earliest instant of lending. Relaxed: reset before the update that turns the queue ON, and set after the next that turns it OFF, so
    /// that a reader of an OFF occupancy sees no instant of an earlier PAUSE.
    from: AtomicU64,
    /// Bytes lent and not returned. Relaxed: only the lcore that lends or resumes the queue uses it.
    owed: AtomicU64,
}

impl Default for Loan {
    fn default() -> Loan {
        let never = Time::NEVER.as_picos();
        Loan { is_busy: AtomicBool::new(false), from: AtomicU64::new(never), owed: AtomicU64::new(0) }
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

    /// Sets the earliest instant of lending; [`Time::NEVER`] from RESUME to PAUSE.
    pub(crate) fn lend_from(&self, from: Time) {
        self.from.store(from.as_picos(), Ordering::Relaxed);
    }

    pub(crate) fn owed(&self) -> u64 {
        self.owed.load(Ordering::Relaxed)
    }

    pub(crate) fn owe(&self, bytes: u64) {
        self.owed.store(bytes, Ordering::Relaxed);
    }
}
