//! Placement rule of the MMU: the segment of each packet of a run, or the reason to refuse it.
//!
//! [`place`] tries the segments in order. Their bounds come from a [`Segments`]:
//! - [`LosslessQueue`]: T of the queue, then headroom of its own or from a pool;
//! - [`PausedPort`]: T of the queue and of the port, then the port's insurance headroom;
//! - [`LossyQueue`]: the threshold of the egress queue, and no headroom.
//!
//! [`admission`](super::admission) charges the placed packets; [`passage`](super::passage) only asks.

use weir_units::{Alpha, PortId, Time};

use super::{Arrival, DropReason, Mmu, Rules, Segment, Terms, Verdict};
use crate::ingress_queue::IngressQueue;
use crate::levels::Levels;
use crate::policy::{QueueView, Threshold};
use crate::pool::{Grant, PoolLevel};

/// Segments other than private buffer, as one run of packets reads and changes them.
pub(super) trait Segments {
    /// Places a packet in the shared segment. An error is the reason to refuse it if headroom does not take it either.
    fn share(&mut self, bytes: u32, placed: &Placed) -> Result<(), DropReason>;

    /// Places a packet in headroom after the shared segment refused it; returns whether headroom took it.
    #[inline(always)]
    fn take_headroom(&mut self, _bytes: u32, _placed: &Placed) -> bool {
        false
    }

    /// Called after each packet, placed or refused, which `placed` includes.
    #[inline(always)]
    fn step(&mut self, _placed: &Placed) {}
}

/// Places packets of one ingress queue: private buffer, then the shared segment, then headroom, otherwise refused with a reason (dsh
/// Algorithm 1). `private` is the private buffer's occupancy before. Returns the bytes taken of each segment.
// Always: inlining for a single packet drops the loops over packets.
#[inline(always)]
pub(super) fn place(
    run: &[Arrival],
    verdicts: &mut [Verdict],
    queue: &IngressQueue,
    private: u32,
    segments: &mut impl Segments,
) -> Placed {
    let mut placed = Placed::default();
    for (arrival, verdict) in run.iter().zip(verdicts) {
        let bytes = arrival.bytes;
        *verdict = if private + placed.private + bytes <= queue.limits.private {
            Verdict::Keep(Segment::Private)
        } else {
            match segments.share(bytes, &placed) {
                Ok(()) => Verdict::Keep(Segment::Shared),
                Err(_) if segments.take_headroom(bytes, &placed) => Verdict::Keep(Segment::Headroom),
                Err(reason) => Verdict::Drop(reason),
            }
        };
        placed.count(*verdict, bytes);
        segments.step(&placed);
    }
    placed
}

#[derive(Clone, Copy, Default)]
pub(super) struct Placed {
    pub(super) private: u32,
    pub(super) shared: u64,
    pub(super) headroom: u64,
    pub(super) beyond_private: bool,
}

impl Placed {
    #[inline]
    fn count(&mut self, verdict: Verdict, bytes: u32) {
        self.beyond_private |= verdict != Verdict::Keep(Segment::Private);
        match verdict {
            Verdict::Keep(Segment::Private) => self.private += bytes,
            Verdict::Keep(Segment::Shared) => self.shared += u64::from(bytes),
            Verdict::Keep(Segment::Headroom) => self.headroom += u64::from(bytes),
            Verdict::Drop(_) => {}
        }
    }

    #[inline]
    pub(super) fn kept(&self) -> u64 {
        u64::from(self.private) + self.shared + self.headroom
    }
}

/// Grant of a burst in the shared segment, and the bytes that it has used.
pub(super) struct Room {
    before: PoolLevel,
    lossy_alpha: Alpha,
    pub(super) granted: u64,
    pub(super) used: u64,
    pub(super) now: Time,
}

impl Room {
    pub(super) fn of(grant: Grant, now: Time, lossy_alpha: Alpha) -> Room {
        Room { before: grant.before, lossy_alpha, granted: grant.bytes, used: 0, now }
    }

    /// Budget of a packet that reserves nothing.
    #[inline]
    pub(super) fn as_it_is(pool: PoolLevel, now: Time, lossy_alpha: Alpha) -> Room {
        Room { before: pool, lossy_alpha, granted: pool.free(), used: 0, now }
    }

    /// Level of the shared segment, including the burst's placed bytes.
    #[inline]
    pub(super) fn pool(&self) -> PoolLevel {
        PoolLevel { used: self.before.used + self.used, ..self.before }
    }

    /// Returns whether the grant has room for a packet after the run has placed `placed` bytes.
    #[inline]
    pub(super) fn fits(&self, placed: u64, bytes: u32) -> bool {
        self.used + placed + u64::from(bytes) <= self.granted
    }
}

#[derive(Clone, Copy)]
pub(super) struct Asking<'r> {
    pub(super) mmu: &'r Mmu,
    pub(super) terms: &'r Terms<'r>,
    pub(super) room: &'r Room,
}

impl Asking<'_> {
    /// T of a lossless queue within a run that has placed `shared` bytes so far.
    #[inline]
    pub(super) fn threshold(&self, view: &mut QueueView, levels: Levels, average: u64, shared: u64) -> Threshold {
        bring_up_to_date(&self.terms.rules, view, levels, average);
        view.shared_pool.used = self.room.pool().used + shared;
        self.mmu.policy.threshold(view)
    }
}

/// Updates a view with the run's effect on its queue so far.
#[inline]
pub(super) fn bring_up_to_date(rules: &Rules, view: &mut QueueView, levels: Levels, average: u64) {
    view.length = u64::from(levels.shared);
    view.average = rules.compared(average, view.length);
    view.headroom = u64::from(levels.headroom);
    view.off = levels.off;
}

/// Lossless ingress queue: shared up to T, then its own headroom or its part of a pool.
pub(super) struct LosslessQueue<'r> {
    pub(super) asking: Asking<'r>,
    pub(super) view: &'r mut QueueView,
    pub(super) levels: Levels,
    /// Average q̂ of the queue, under a policy that filters.
    pub(super) average: u64,
    pub(super) headroom_limit: u32,
    /// Bytes reserved in the headroom pool for the run; `u64::MAX` without a pool.
    pub(super) headroom_granted: u64,
    /// Whether a packet was refused because the reservation was too small.
    pub(super) is_short: bool,
}

impl<'r> LosslessQueue<'r> {
    /// Creates a queue that may use the shared segment, and no headroom.
    #[inline]
    pub(super) fn without_headroom(asking: Asking<'r>, view: &'r mut QueueView, levels: Levels) -> LosslessQueue<'r> {
        LosslessQueue { asking, view, levels, average: 0, headroom_limit: 0, headroom_granted: 0, is_short: false }
    }
}

impl Segments for LosslessQueue<'_> {
    #[inline(always)]
    fn share(&mut self, bytes: u32, placed: &Placed) -> Result<(), DropReason> {
        let threshold = self.asking.threshold(self.view, self.levels, self.average, placed.shared);
        let fits = u64::from(self.levels.shared) + u64::from(bytes) <= threshold.admit;
        if !fits || !self.asking.room.fits(placed.shared, bytes) {
            self.levels.off = true;
            return Err(DropReason::HeadroomViolation);
        }
        self.levels.shared += bytes;
        self.levels.off |= u64::from(self.levels.shared) >= threshold.xoff;
        Ok(())
    }

    #[inline(always)]
    fn take_headroom(&mut self, bytes: u32, placed: &Placed) -> bool {
        let is_granted = placed.headroom + u64::from(bytes) <= self.headroom_granted;
        let fits = is_granted && self.levels.headroom + bytes <= self.headroom_limit;
        if fits {
            self.levels.headroom += bytes;
        }
        self.is_short |= !is_granted;
        fits
    }

    #[inline(always)]
    fn step(&mut self, _: &Placed) {
        if let Some(filter) = self.asking.terms.rules.low_pass {
            self.average = filter.arrive(self.average, filter.length_of(self.levels));
        }
    }
}

/// Lossless ingress queue under port-level flow control (dsh IV-E): shared up to the port's threshold, then insurance headroom, which
/// pauses the whole port.
pub(super) struct PausedPort<'r> {
    pub(super) asking: Asking<'r>,
    pub(super) view: &'r mut QueueView,
    /// Levels of the queue, for its threshold; its headroom is the port's.
    pub(super) own: Levels,
    pub(super) port: PortId,
    pub(super) levels: Levels,
    pub(super) insurance: u32,
}

impl Segments for PausedPort<'_> {
    #[inline(always)]
    fn share(&mut self, bytes: u32, placed: &Placed) -> Result<(), DropReason> {
        let Asking { mmu, room, .. } = self.asking;
        let threshold = self.asking.threshold(self.view, self.own, 0, placed.shared);
        let port_threshold = mmu.policy.port_threshold(self.port, self.view.shared_pool);
        let fits = u64::from(self.own.shared) + u64::from(bytes) <= threshold.admit
            && u64::from(self.levels.shared) + u64::from(bytes) <= port_threshold;
        if !fits || !room.fits(placed.shared, bytes) {
            self.levels.off = true;
            return Err(DropReason::HeadroomViolation);
        }
        self.own.shared += bytes;
        self.levels.shared += bytes;
        self.levels.off |= u64::from(self.levels.shared) >= port_threshold;
        Ok(())
    }

    #[inline(always)]
    fn take_headroom(&mut self, bytes: u32, _: &Placed) -> bool {
        let fits = self.levels.headroom + bytes <= self.insurance;
        if fits {
            self.levels.headroom += bytes;
        }
        fits
    }
}

/// Lossy ingress queue and the egress queue of its packets: shared up to the egress queue's threshold.
pub(super) struct LossyQueue<'r> {
    pub(super) asking: Asking<'r>,
    pub(super) view: &'r mut QueueView,
    pub(super) levels: Levels,
    /// Average q̂ of the egress queue, under a policy that filters.
    pub(super) average: u64,
    /// Length of the egress queue, and below of the egress lossy pool, before the run.
    pub(super) length: u64,
    pub(super) lossy_used: u64,
    /// Bytes reserved for the run in the egress lossy pool; `u64::MAX` without a pool.
    pub(super) lossy_granted: u64,
}

impl Segments for LossyQueue<'_> {
    #[inline(always)]
    fn share(&mut self, bytes: u32, placed: &Placed) -> Result<(), DropReason> {
        let (Asking { mmu, terms, room }, view) = (self.asking, &mut *self.view);
        view.length = self.length + placed.kept();
        view.average = terms.rules.compared(self.average, view.length);
        view.shared_pool.used = room.pool().used + placed.shared;
        view.egress_lossy_pool.used = self.lossy_used + placed.shared;
        let threshold = mmu.policy.lossy_threshold(view, room.lossy_alpha);
        let is_granted = placed.shared + u64::from(bytes) <= self.lossy_granted;
        if view.length + u64::from(bytes) > threshold || !is_granted {
            Err(DropReason::EgressThreshold)
        } else if !room.fits(placed.shared, bytes) {
            Err(DropReason::SharedFull)
        } else {
            self.levels.shared += bytes;
            Ok(())
        }
    }

    #[inline(always)]
    fn step(&mut self, placed: &Placed) {
        if let Some(filter) = self.asking.terms.rules.low_pass {
            self.average = filter.arrive(self.average, self.length + placed.kept());
        }
    }
}
