//! Placement rule of the MMU: the segment of each packet of a run, or the reason to refuse it.
//!
//! A [`PlacementRun`] tries the segments in order: packet by packet, or many equal packets at once. Bounds come from a [`Segments`]:
//! - [`LosslessQueue`]: T of the queue, then headroom of its own or from a pool;
//! - [`PausedPort`]: T of the queue and of the port, then the port's insurance headroom;
//! - [`LossyQueue`]: the threshold of the egress queue, and no headroom.
//!
//! [`admission`](super::admission) charges the placed packets; [`buffer_bypass`](super::buffer_bypass) charges nothing.

use weir_units::{PortId, QueueId, bits};

use super::bulk::BulkRequest;
use super::burst_request::BurstRequest;
use super::shared_budget::SharedBudget;
use super::{Admission, BufferRequest, ChargeContext, DropReason, Mmu, PolicyFlags, Segment};
use crate::ingress_queue::IngressQueue;
use crate::occupancy::Occupancy;
use crate::policy::{QueueView, Threshold};

/// Segments other than private buffer, as one run of packets reads and changes them.
pub(super) trait Segments {
    /// Places a packet in the shared segment. An error is the reason to refuse it if headroom does not take it either.
    fn share(&mut self, bytes: u32, placed: &PlacedBytes) -> Result<(), DropReason>;

    /// Places leading packets of `count` equal ones in the shared segment, as [`Segments::share`] does one by one. Returns their number, after
    /// which `share` must be called. Not for a policy that filters.
    #[inline(always)]
    fn share_leading(&mut self, _count: usize, _bytes: u32, _placed: &PlacedBytes) -> usize {
        0
    }

    /// Places a packet in headroom after the shared segment refused it; returns whether headroom took it.
    #[inline(always)]
    fn take_headroom(&mut self, _bytes: u32, _placed: &PlacedBytes) -> bool {
        false
    }

    /// Called after each packet, placed or refused, which `placed` includes. For a policy that filters.
    #[inline(always)]
    fn step(&mut self, _placed: &PlacedBytes) {}
}

/// Packets of one ingress queue, and for lossy packets of one egress queue, that are placed in order.
pub(super) trait PlacementRun {
    fn ingress(&self) -> QueueId;

    /// Egress queue of lossy packets; one of several for lossless ones.
    fn egress(&self) -> QueueId;

    /// Sum of the charges.
    fn bytes(&self) -> u64;

    /// Places each packet: private buffer, then the shared segment, then headroom, otherwise refused with a reason (dsh Algorithm 1).
    /// `private` is the private buffer's occupancy before. Returns the bytes taken of each segment.
    fn place(
        &self,
        verdicts: &mut [Admission],
        queue: &IngressQueue,
        private: u32,
        segments: &mut impl Segments,
    ) -> PlacedBytes;

    /// Charges the egress queues of the admitted packets.
    fn charge_egress(&self, mmu: &Mmu, verdicts: &[Admission], placed: &PlacedBytes);
}

impl PlacementRun for [BufferRequest] {
    #[inline(always)]
    fn ingress(&self) -> QueueId {
        self[0].ingress
    }

    #[inline(always)]
    fn egress(&self) -> QueueId {
        self[0].egress
    }

    #[inline(always)]
    fn bytes(&self) -> u64 {
        // A single packet needs no sum.
        if let [packet] = self {
            u64::from(packet.bytes)
        } else {
            self.iter().map(|packet| u64::from(packet.bytes)).sum()
        }
    }

    // Always: inlining for a single packet drops the loops over packets.
    #[inline(always)]
    fn place(
        &self,
        verdicts: &mut [Admission],
        queue: &IngressQueue,
        private: u32,
        segments: &mut impl Segments,
    ) -> PlacedBytes {
        let mut placed = PlacedBytes::default();
        for (arrival, verdict) in self.iter().zip(verdicts) {
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

    #[inline]
    fn charge_egress(&self, mmu: &Mmu, verdicts: &[Admission], _: &PlacedBytes) {
        if let ([arrival], [verdict]) = (self, verdicts) {
            // A single packet needs no sums.
            if matches!(verdict, Admission::Admit(_)) {
                mmu.egress[arrival.egress.index()].add(u64::from(arrival.bytes));
            }
            return;
        }
        let is_admitted = |(_, verdict): &(&BufferRequest, &Admission)| matches!(verdict, Admission::Admit(_));
        for (arrival, _) in self.iter().zip(verdicts).filter(is_admitted) {
            mmu.egress[arrival.egress.index()].add(u64::from(arrival.bytes));
        }
    }
}

/// Equally charged packets, under [non-increasing](crate::BufferPolicy::has_non_increasing_thresholds) thresholds and without a filter. A
/// segment that refuses one of them refuses all later ones, so each segment takes its packets together.
pub(super) struct UniformRun<'b> {
    burst: &'b BurstRequest,
    request: &'b BulkRequest,
    /// Charge of each packet; not zero.
    charge: u32,
}

impl<'b> UniformRun<'b> {
    /// Returns the packets of a request as a run, if their charges are equal.
    pub(super) fn new(burst: &'b BurstRequest, request: &'b BulkRequest) -> Option<UniformRun<'b>> {
        let charge = burst.charge_common_to(burst.members_of(request.group)).filter(|charge| *charge > 0)?;
        Some(UniformRun { burst, request, charge })
    }
}

impl PlacementRun for UniformRun<'_> {
    #[inline(always)]
    fn ingress(&self) -> QueueId {
        self.request.ingress
    }

    #[inline(always)]
    fn egress(&self) -> QueueId {
        self.request.egress
    }

    #[inline(always)]
    fn bytes(&self) -> u64 {
        self.request.bytes
    }

    #[inline(always)]
    fn place(
        &self,
        verdicts: &mut [Admission],
        queue: &IngressQueue,
        private: u32,
        segments: &mut impl Segments,
    ) -> PlacedBytes {
        let (charge, mut placed) = (self.charge, PlacedBytes::default());
        let in_private = (queue.limits.private.saturating_sub(private) / charge) as usize;
        let mut rest = place_leading(verdicts, in_private, Admission::Admit(Segment::Private), charge, &mut placed);
        while !rest.is_empty() {
            let shared = segments.share_leading(rest.len(), charge, &placed);
            rest = place_leading(rest, shared, Admission::Admit(Segment::Shared), charge, &mut placed);
            if rest.is_empty() {
                break;
            }
            let Err(reason) = segments.share(charge, &placed) else {
                rest = place_leading(rest, 1, Admission::Admit(Segment::Shared), charge, &mut placed);
                continue;
            };
            while !rest.is_empty() && segments.take_headroom(charge, &placed) {
                rest = place_leading(rest, 1, Admission::Admit(Segment::Headroom), charge, &mut placed);
            }
            rest = place_leading(rest, usize::MAX, Admission::Drop(reason), charge, &mut placed);
        }
        placed
    }

    #[inline]
    fn charge_egress(&self, mmu: &Mmu, _: &[Admission], placed: &PlacedBytes) {
        let all = self.burst.members_of(self.request.group);
        let admitted = if placed.admitted() == self.request.bytes {
            all
        } else {
            let packets = placed.admitted() / u64::from(self.charge);
            bits(all).take(packets as usize).fold(0, |admitted, n| admitted | 1 << n)
        };
        for n in bits(self.request.group) {
            let (route, members) = self.burst.route(n);
            mmu.egress[route.egress.index()].add(u64::from((members & admitted).count_ones() * self.charge));
        }
    }
}

/// Gives the first `count` packets this verdict, all if there are fewer; returns the others.
#[inline(always)]
fn place_leading<'v>(
    verdicts: &'v mut [Admission],
    count: usize,
    verdict: Admission,
    charge: u32,
    placed: &mut PlacedBytes,
) -> &'v mut [Admission] {
    let (leading, rest) = verdicts.split_at_mut(count.min(verdicts.len()));
    if !leading.is_empty() {
        leading.fill(verdict);
        placed.count(verdict, charge * leading.len() as u32);
    }
    rest
}

/// Returns the largest number up to `count` that `fits`, as every smaller one does.
#[inline(always)]
fn most_that_fit(count: usize, mut fits: impl FnMut(usize) -> bool) -> usize {
    let (mut most, mut too_many) = (0, count + 1);
    while too_many - most > 1 {
        let middle = (most + too_many) / 2;
        if fits(middle) {
            most = middle;
        } else {
            too_many = middle;
        }
    }
    most
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

    /// Places packets that do not turn the queue OFF.
    #[inline(always)]
    fn share_leading(&mut self, count: usize, bytes: u32, placed: &PlacedBytes) -> usize {
        let granted = self.query.budget.rest(self.reserved(placed, 0)) / u64::from(bytes);
        let leading = most_that_fit(count.min(granted as usize), |n| {
            let before = bytes * (n as u32 - 1);
            let occupancy = Occupancy { shared: self.occupancy.shared + before, ..self.occupancy };
            let shared = placed.shared + u64::from(before);
            let threshold = self.query.threshold(self.view, occupancy, self.average, shared);
            let after = u64::from(occupancy.shared + bytes);
            after <= threshold.admit && (occupancy.off || after < threshold.xoff)
        });
        self.occupancy.shared += bytes * leading as u32;
        leading
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

impl LossyQueue<'_> {
    /// Returns whether the egress queue's threshold admits a packet after `admitted` bytes of the run, `shared` of them in the shared segment.
    #[inline(always)]
    fn is_below_threshold(&mut self, bytes: u32, admitted: u64, shared: u64) -> bool {
        let (ThresholdQuery { mmu, context, budget }, view) = (self.query, &mut *self.view);
        view.length = self.length + admitted;
        view.average = context.flags.compared(self.average, view.length);
        view.shared_pool.used = budget.pool().used + shared;
        view.egress_lossy_pool.used = self.lossy_used + shared;
        view.length + u64::from(bytes) <= mmu.policy.lossy_threshold(view, budget.lossy_alpha)
    }
}

impl Segments for LossyQueue<'_> {
    #[inline(always)]
    fn share(&mut self, bytes: u32, placed: &PlacedBytes) -> Result<(), DropReason> {
        let is_granted = placed.shared + u64::from(bytes) <= self.lossy_granted;
        if !self.is_below_threshold(bytes, placed.admitted(), placed.shared) || !is_granted {
            Err(DropReason::EgressThreshold)
        } else if !self.query.budget.fits(placed.shared, bytes) {
            Err(DropReason::SharedFull)
        } else {
            self.occupancy.shared += bytes;
            Ok(())
        }
    }

    #[inline(always)]
    fn share_leading(&mut self, count: usize, bytes: u32, placed: &PlacedBytes) -> usize {
        let granted =
            (self.lossy_granted - placed.shared).min(self.query.budget.rest(placed.shared)) / u64::from(bytes);
        let leading = most_that_fit(count.min(granted as usize), |n| {
            let before = u64::from(bytes) * (n as u64 - 1);
            self.is_below_threshold(bytes, placed.admitted() + before, placed.shared + before)
        });
        self.occupancy.shared += bytes * leading as u32;
        leading
    }

    #[inline(always)]
    fn step(&mut self, placed: &PlacedBytes) {
        if let Some(filter) = self.query.context.flags.low_pass {
            self.average = filter.arrive(self.average, self.length + placed.admitted());
        }
    }
}
