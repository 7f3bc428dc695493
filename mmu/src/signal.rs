//! From the counters to the port's transmitter: state, not events.
//!
//! Whether a class should be paused is one bit beside the counters it follows from, changed in the same
//! compare-and-swap ([`crate::ingress_queue`]). This mark only says *look again*; the transmitter clears it and
//! then reads the bits, so whatever order marks arrive in, the last look sees the last state. A flood of changes
//! coalesces into one look, and none is lost.

use weir_units::archive::SharedState;
use weir_units::{ClassSet, Time};

use crate::sync::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Classes of one ingress port whose state changed since the transmitter last looked.
#[derive(Debug, Default, SharedState)]
pub(crate) struct Changed(AtomicU8);

impl Changed {
    /// Release; pairs with Acquire in [`Changed::take`]: who takes the mark sees the state that was set before it.
    #[inline]
    pub(crate) fn mark(&self, classes: ClassSet) {
        self.0.fetch_or(classes.bits(), Ordering::Release);
    }

    /// Takes all marks. The plain load keeps the usual answer, none, cheap; a mark that it misses is there next time.
    #[inline]
    pub(crate) fn take(&self) -> ClassSet {
        if self.0.load(Ordering::Relaxed) == 0 {
            ClassSet::EMPTY
        } else {
            ClassSet::from_bits(self.0.swap(0, Ordering::Acquire))
        }
    }
}

/// When something last went OFF.
///
/// Relaxed: it is set before [`Changed::mark`], which orders it, so that who takes the mark sees an instant no earlier than the
/// turn's.
#[derive(Debug, Default, SharedState)]
pub(crate) struct Instant(AtomicU64);

impl Instant {
    #[inline]
    pub(crate) fn set(&self, now: Time) {
        self.0.store(now.as_picos(), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Time {
        Time::from_picos(self.0.load(Ordering::Relaxed))
    }
}

/// How many queues of an ingress port are OFF.
///
/// Each turn adds or takes one, so the order in which two lcores come to count does not matter. Relaxed: a count orders
/// nothing; read while a turn back is counted before its turn, it is below zero for an instant, which is none.
#[derive(Debug, Default, SharedState)]
pub(crate) struct OffQueues(AtomicU32);

impl OffQueues {
    #[inline]
    pub(crate) fn note(&self, off: bool) {
        self.0.fetch_add(if off { 1 } else { u32::MAX }, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) as i32 > 0
    }
}
