//! Placement rule of the MMU: the segment of each packet of a run, or the reason to refuse it.
//!
//! [`place`] tries the segments in order. Their bounds come from a [`Segments`]:
//! - [`LosslessQueue`]: T of the queue, then headroom of its own or from a pool;
//! - [`PausedPort`]: T of the queue and of the port, then the port's insurance headroom;
//! - [`LossyQueue`]: the threshold of the egress queue, and no headroom.
//!
//! [`admission`](super::admission) charges the placed packets; [`buffer_bypass`](super::buffer_bypass) charges nothing.

use weir_units::{Alpha, PortId, Time};

use super::{Admission, BufferRequest, ChargeContext, DropReason, Mmu, PolicyFlags, Segment};
use crate::ingress_queue::IngressQueue;
use crate::occupancy::Occupancy;
use crate::policy::{QueueView, Threshold};
use crate::pool::{PoolGrant, PoolLevel};

/// Segments other than private buffer, as one run of packets reads and changes them.
pub(super) trait Segments {
    /// Places a packet in the shared segment. An error is the reason to refuse it if headroom does not take it either.
    fn share(&mut self, bytes: u32, placed: &PlacedBytes) -> Result<(), DropReason>;

    /// Places a packet in headroom after the shared segment refused it; returns whether headroom took it.
    #[inline(always)]
    fn take_headroom(&mut self, _bytes: u32, _placed: &PlacedBytes) -> bool {
        false
    }

    /// Called after each packet, placed or refused, which `placed` includes.
    #[inline(always)]
    fn step(&mut self, _placed: &PlacedBytes) {}
}

/// Places packets of one ingress queue: private buffer, then the shared segment, then headroom, otherwise refused with a reason (dsh
/// Algorithm 1). `private` is the private buffer's occupancy before. Returns the bytes taken of each segment.
// Always: inlining for a single packet drops the loops over packets.
#[inline(always)]
pub(super) fn place(
    run: &[BufferRequest],
    verdicts: &mut [Admission],
    queue: &IngressQueue,
    private: u32,
    segments: &mut impl Segments,
) -> PlacedBytes {
    let mut placed = PlacedBytes::default();
    for (arrival, verdict) in run.iter().zip(verdicts) {
        let bytes = arrival.bytes;
        *verdict = if private + placed.private + bytes <= queue.limits.private {
            Admission::Admit(Segment::Private)
        } else {
            match segments.share(bytes, &placed) {
                Ok(()) => Admission::Admit(Segment::Shared),
                Err(_) if segments.take_headroom(bytes, &placed) => Admission::Admit(Segment::Headroom),
                Err(reason) => Admission::Drop(reason),
            }
        };
        placed.count(*verdict, bytes);
        segments.step(&placed);
    }
    placed
}

#[derive(Clone, Copy, Default)]
pub(super) struct PlacedBytes {
    pub(super) private: u32,
    pub(super) shared: u64,
    pub(super) headroom: u64,
    pub(super) beyond_private: bool,
}

impl PlacedBytes {
    #[inline]
    fn count(&mut self, verdict: Admission, bytes: u32) {
        self.beyond_private |= verdict != Admission::Admit(Segment::Private);
        match verdict {
            Admission::Admit(Segment::Private) => self.private += bytes,
            Admission::Admit(Segment::Shared) => self.shared += u64::from(bytes),
            Admission::Admit(Segment::Headroom) => self.headroom += u64::from(bytes),
            Admission::Drop(_) => {}
        }
    }

    #[inline]
    pub(super) fn admitted(&self) -> u64 {
        u64::from(self.private) + self.shared + self.headroom
    }
}

/// Grant of a burst in the shared segment, and the bytes that it has used.
pub(super) struct SharedBudget {
    before: PoolLevel,
    lossy_alpha: Alpha,
    pub(super) granted: u64,
    pub(super) used: u64,
    pub(super) now: Time,
}

impl SharedBudget {
    pub(super) fn from_grant(grant: PoolGrant, now: Time, lossy_alpha: Alpha) -> SharedBudget {
        SharedBudget { before: grant.before, lossy_alpha, granted: grant.bytes, used: 0, now }
    }

    /// Budget of a packet that reserves nothing.
    #[inline]
    pub(super) fn without_reservation(pool: PoolLevel, now: Time, lossy_alpha: Alpha) -> SharedBudget {
        SharedBudget { before: pool, lossy_alpha, granted: pool.free(), used: 0, now }
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
pub(super) struct ThresholdQuery<'r> {
    pub(super) mmu: &'r Mmu,
    pub(super) context: &'r ChargeContext<'r>,
    pub(super) budget: &'r SharedBudget,
}

impl ThresholdQuery<'_> {
    /// T of a lossless queue within a run that has placed `shared` bytes so far.
    #[inline]
    pub(super) fn threshold(&self, view: &mut QueueView, occupancy: Occupancy, average: u64, shared: u64) -> Threshold {
        bring_up_to_date(&self.context.flags, view, occupancy, average);
        view.shared_pool.used = self.budget.pool().used + shared;
        self.mmu.policy.threshold(view)
    }
}

/// Updates a view with the run's effect on its queue so far.
#[inline]
pub(super) fn bring_up_to_date(flags: &PolicyFlags, view: &mut QueueView, occupancy: Occupancy, average: u64) {
    view.length = u64::from(occupancy.shared);
    view.average = flags.compared(average, view.length);
    view.headroom = u64::from(occupancy.headroom);
    view.off = occupancy.off;
}

/// Lossless ingress queue: shared up to T, then its own headroom or its part of a pool.
pub(super) struct LosslessQueue<'r> {
    pub(super) query: ThresholdQuery<'r>,
    pub(super) view: &'r mut QueueView,
    pub(super) occupancy: Occupancy,
    /// Average q̂ of the queue, under a policy that filters.
    pub(super) average: u64,
    pub(super) headroom_limit: u32,
    /// Bytes reserved in the headroom pool for the run; `u64::MAX` without a pool.
    pub(super) headroom_granted: u64,
    /// Whether a packet was refused because the reservation was too small.
    pub(super) is_short: bool,
}

impl<'r> LosslessQueue<'r> {
    /// Bytes of the reservation that the run takes with `more` charges to headroom: for the shared segment, and for headroom that was
    /// lent to it.
    #[inline(always)]
    fn reserved(&self, placed: &PlacedBytes, more: u32) -> u64 {
        let is_lent = self.query.context.flags.lends_headroom && self.occupancy.lent;
        let headroom = self.occupancy.headroom;
        // Values, not `self`: a call that takes its address would keep all of it in memory, also under policies that do not lend.
        placed.shared
            + if is_lent { self.query.mmu.lent_bytes(headroom - placed.headroom as u32, headroom + more) } else { 0 }
    }

    /// Creates a queue that may use the shared segment, and no headroom.
    #[inline]
    pub(super) fn without_headroom(
        query: ThresholdQuery<'r>,
        view: &'r mut QueueView,
        occupancy: Occupancy,
    ) -> LosslessQueue<'r> {
        LosslessQueue { query, view, occupancy, average: 0, headroom_limit: 0, headroom_granted: 0, is_short: false }
    }
}

impl Segments for LosslessQueue<'_> {
    #[inline(always)]
    fn share(&mut self, bytes: u32, placed: &PlacedBytes) -> Result<(), DropReason> {
        let threshold = self.query.threshold(self.view, self.occupancy, self.average, placed.shared);
        let fits = u64::from(self.occupancy.shared) + u64::from(bytes) <= threshold.admit;
        if !fits || !self.query.budget.fits(self.reserved(placed, 0), bytes) {
            self.occupancy.off = true;
            return Err(DropReason::HeadroomViolation);
        }
        self.occupancy.shared += bytes;
        self.occupancy.off |= u64::from(self.occupancy.shared) >= threshold.xoff;
        Ok(())
    }

    #[inline(always)]
    fn take_headroom(&mut self, bytes: u32, placed: &PlacedBytes) -> bool {
        let is_granted = placed.headroom + u64::from(bytes) <= self.headroom_granted;
        // Always true of headroom that is not lent.
        let is_reserved = self.query.budget.fits(self.reserved(placed, bytes), 0);
        let fits = is_granted && is_reserved && self.occupancy.headroom + bytes <= self.headroom_limit;
        if fits {
            self.occupancy.headroom += bytes;
        }
        self.is_short |= !is_granted;
        fits
    }

    #[inline(always)]
    fn step(&mut self, _: &PlacedBytes) {
        if let Some(filter) = self.query.context.flags.low_pass {
            self.average = filter.arrive(self.average, filter.length_of(self.occupancy));
        }
    }
}

/// Lossless ingress queue under port-level flow control (dsh IV-E): shared up to the port's threshold, then insurance headroom, which
/// pauses the whole port.
pub(super) struct PausedPort<'r> {
    pub(super) query: ThresholdQuery<'r>,
    pub(super) view: &'r mut QueueView,
    /// Occupancy of the queue, for its threshold; its headroom is the port's.
    pub(super) own: Occupancy,
    pub(super) port: PortId,
    pub(super) occupancy: Occupancy,
    pub(super) insurance: u32,
}

impl Segments for PausedPort<'_> {
    #[inline(always)]
    fn share(&mut self, bytes: u32, placed: &PlacedBytes) -> Result<(), DropReason> {
        let ThresholdQuery { mmu, budget, .. } = self.query;
        let threshold = self.query.threshold(self.view, self.own, 0, placed.shared);
        let port_threshold = mmu.policy.port_threshold(self.port, self.view.shared_pool);
        let fits = u64::from(self.own.shared) + u64::from(bytes) <= threshold.admit
            && u64::from(self.occupancy.shared) + u64::from(bytes) <= port_threshold;
        if !fits || !budget.fits(placed.shared, bytes) {
            self.occupancy.off = true;
            return Err(DropReason::HeadroomViolation);
        }
        self.own.shared += bytes;
        self.occupancy.shared += bytes;
        self.occupancy.off |= u64::from(self.occupancy.shared) >= port_threshold;
        Ok(())
    }

    #[inline(always)]
    fn take_headroom(&mut self, bytes: u32, _: &PlacedBytes) -> bool {
        let fits = self.occupancy.headroom + bytes <= self.insurance;
        if fits {
            self.occupancy.headroom += bytes;
        }
        fits
    }
}

/// Lossy ingress queue and the egress queue of its packets: shared up to the egress queue's threshold.
pub(super) struct LossyQueue<'r> {
    pub(super) query: ThresholdQuery<'r>,
    pub(super) view: &'r mut QueueView,
    pub(super) occupancy: Occupancy,
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
    fn share(&mut self, bytes: u32, placed: &PlacedBytes) -> Result<(), DropReason> {
        let (ThresholdQuery { mmu, context, budget }, view) = (self.query, &mut *self.view);
        view.length = self.length + placed.admitted();
        view.average = context.flags.compared(self.average, view.length);
        view.shared_pool.used = budget.pool().used + placed.shared;
        view.egress_lossy_pool.used = self.lossy_used + placed.shared;
        let threshold = mmu.policy.lossy_threshold(view, budget.lossy_alpha);
        let is_granted = placed.shared + u64::from(bytes) <= self.lossy_granted;
        if view.length + u64::from(bytes) > threshold || !is_granted {
            Err(DropReason::EgressThreshold)
        } else if !budget.fits(placed.shared, bytes) {
            Err(DropReason::SharedFull)
        } else {
            self.occupancy.shared += bytes;
            Ok(())
        }
    }

    #[inline(always)]
    fn step(&mut self, placed: &PlacedBytes) {
        if let Some(filter) = self.query.context.flags.low_pass {
            self.average = filter.arrive(self.average, self.length + placed.admitted());
        }
    }
}
