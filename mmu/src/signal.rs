//! Signal from the counters to the port's transmitter: a state, not a sequence of events.
//!
//! The OFF bit of a class is in one word with the counters that determine it, and changes in the same compare-and-swap
//! ([`crate::occupancy`]). The mark here only requests a check: the transmitter clears the mark and then reads the bits. So the last check
//! sees the last state, in any order of marks. Many changes coalesce into one check, and none is lost.

use weir_units::{ClassSet, Time};

use crate::sync::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Classes of one ingress port whose state changed since the transmitter's last check.
#[derive(Debug, Default)]
pub(crate) struct ChangedClasses(AtomicU8);

impl ChangedClasses {
    /// Marks classes. Release; pairs with Acquire in [`ChangedClasses::take`]: a reader of the mark sees the state set before the mark.
    #[inline]
    pub(crate) fn mark(&self, classes: ClassSet) {
        self.0.fetch_or(classes.bits(), Ordering::Release);
    }

    /// Takes all marks. The plain load keeps the usual case, no mark, cheap; a missed mark is seen at the next call.
    #[inline]
    pub(crate) fn take(&self) -> ClassSet {
        if self.0.load(Ordering::Relaxed) == 0 {
            ClassSet::EMPTY
        } else {
            ClassSet::from_bits(self.0.swap(0, Ordering::Acquire))
        }
    }
}

/// Instant of the last transition to OFF.
///
/// Relaxed: the instant is set before [`ChangedClasses::mark`], which orders the store. A reader of the mark sees an instant no earlier
/// than that transition.
#[derive(Debug, Default)]
pub(crate) struct LastXoff(AtomicU64);

impl LastXoff {
    #[inline]
    pub(crate) fn set(&self, now: Time) {
        self.0.store(now.as_picos(), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Time {
        Time::from_picos(self.0.load(Ordering::Relaxed))
    }
}

/// Number of OFF queues of an ingress port.
///
/// Each transition adds or subtracts one, so the order of two lcores' updates does not matter. Relaxed: a count orders no other memory. If
/// a transition to ON is counted before its transition to OFF, the count is briefly negative, and reads as zero.
#[derive(Debug, Default)]
pub(crate) struct XoffQueues(AtomicU32);

impl XoffQueues {
    #[inline]
    pub(crate) fn note(&self, off: bool) {
        self.0.fetch_add(if off { 1 } else { u32::MAX }, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) as i32 > 0
    }
}
