//! Line time of a shaped port: the time that frames waited for the wire, and the lost part of it.

use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use weir_units::Span;

/// Line time of one port. Its transmitter writes, anyone reads; the numbers are independent, so Relaxed suffices.
#[derive(Debug, Default)]
pub(crate) struct LineTimeCounters(CachePadded<[AtomicU64; 5]>);

/// Line time of a shaped port, on the switch's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineTimeLoss {
    /// Time in which only the rate or the device kept the port from sending waiting frames.
    pub waited: Span,
    /// Part of `waited` in which the wire was idle because the lcore polled late, beyond the time that may be made up.
    pub lost_late: Span,
    /// Time in which the wire was idle because the device accepted no frames.
    pub lost_refused: Span,
    /// Largest line time that one poll had to make up, which is the length of its burst.
    pub burst_max: Span,
    /// Line time that frames had already waited for, and that the last such poll could still make up or lose.
    pub pending: Span,
}

impl LineTimeLoss {
    /// Returns the lost line time, for all reasons.
    pub fn lost(&self) -> Span {
        self.lost_late + self.lost_refused
    }

    /// Computes the share of line time lost while frames waited, in percent, 0 to 100. Time that was pending at the beginning of
    /// [`LineTimeLoss::since`] counts too: part of it may be lost later.
    pub fn percent_below_rate(&self) -> f64 {
        let at_stake = self.waited + self.pending;
        self.lost().as_picos() as f64 * 100.0 / at_stake.as_picos().max(1) as f64
    }

    /// Subtracts the counts of `before`, and keeps its pending time. The longest burst is no sum and stays.
    pub fn since(&self, before: &LineTimeLoss) -> LineTimeLoss {
        LineTimeLoss {
            waited: self.waited.saturating_sub(before.waited),
            lost_late: self.lost_late.saturating_sub(before.lost_late),
            lost_refused: self.lost_refused.saturating_sub(before.lost_refused),
            burst_max: self.burst_max,
            pending: before.pending,
        }
    }
}

impl LineTimeCounters {
    const WAITED: usize = 0;
    const LATE: usize = 1;
    const REFUSED: usize = 2;
    const BURST_MAX: usize = 3;
    const PENDING: usize = 4;

    /// Records the time that frames waited, and the line time that a poll makes up and gives up.
    #[inline]
    pub(crate) fn record_waited(&self, waited: Span, to_make_up: Span, given_up: Span) {
        self.add(Self::WAITED, waited);
        // Time given up is pending until it is counted as lost.
        self.0[Self::PENDING].store((to_make_up + given_up).as_picos(), Ordering::Relaxed);
        if to_make_up.as_picos() > self.0[Self::BURST_MAX].load(Ordering::Relaxed) {
            self.0[Self::BURST_MAX].store(to_make_up.as_picos(), Ordering::Relaxed);
        }
    }

    pub(crate) fn record_lost(&self, lost: Span, refused: bool) {
        self.add(if refused { Self::REFUSED } else { Self::LATE }, lost);
    }

    /// One writer, so a load and a store suffice.
    #[inline]
    fn add(&self, n: usize, span: Span) {
        self.0[n].store(self.0[n].load(Ordering::Relaxed) + span.as_picos(), Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> LineTimeLoss {
        let [waited, lost_late, lost_refused, burst_max, pending] =
            std::array::from_fn(|n| Span::from_picos(self.0[n].load(Ordering::Relaxed)));
        LineTimeLoss { waited, lost_late, lost_refused, burst_max, pending }
    }
}
