//! Bulk admission: several packets of a queue are admitted by one decision, with the result of individual admission.
//!
//! Individual admission checks whether each packet fits below a threshold T. Let a policy's thresholds be
//! [non-increasing](crate::BufferPolicy::has_non_increasing_thresholds) in the bytes of the queue and of the pools, and add all packets at
//! once. If w_s, with all of them, is at most the resulting T, each packet alone fits too: w_s is lower before the last one, and T not
//! lower. Likewise, if w_s stays below Xoff, no packet turns the queue OFF.
//!
//! Under a policy that filters lengths, each packet is a step of q̂ toward a growing length. So q̂ may first fall and then rises, and never
//! exceeds both its first and its last value: T is queried with the higher of the two.
//!
//! Packets of several routes are admitted [together](Mmu::admit_bulk_burst) by the same argument, if each queue has room even with the
//! whole burst in the pool.
//!
//! Private buffer comes first in all cases: it takes all of the packets, or has no room for the smallest. In any other case nothing is
//! charged here, and the packets are [placed](super::placement) in order. `mmu/tests/it/reference.rs` compares both with a sequential
//! model, for each policy.

use arrayvec::ArrayVec;
use weir_units::{CLASSES, ClassSet, QueueId, bits};

use super::burst_request::{BURST_REQUEST_MAX, BurstRequest, RouteTotal, mask};
use super::shared_budget::SharedBudget;
use super::{ChargeContext, Mmu, PolicyFlags, Segment};
use crate::charge::Charges;
use crate::ingress_queue::IngressQueue;
use crate::low_pass::LowPass;
use crate::occupancy::Occupancy;
use crate::policy::{PoolLevel, QueueView};
use crate::single_writer::PortWriter;

/// Routes of one ingress queue, and for lossy packets of one egress queue, that are admitted together.
pub(super) struct BulkRequest {
    pub(super) ingress: QueueId,
    /// Egress queue of lossy packets; one of several for lossless ones.
    pub(super) egress: QueueId,
    pub(super) bytes: u64,
    pub(super) group: u64,
}

impl BulkRequest {
    #[inline(always)]
    pub(super) fn new(routes: &[RouteTotal], group: u64) -> BulkRequest {
        let first = &routes[group.trailing_zeros() as usize];
        let others = bits(group & (group - 1)).map(|n| u64::from(routes[n].bytes)).sum::<u64>();
        BulkRequest { ingress: first.ingress, egress: first.egress, bytes: u64::from(first.bytes) + others, group }
    }
}

impl PolicyFlags {
    /// Returns q̂ after the arrival of these routes' packets at a queue of this length, under a policy that filters. `count` is false for
    /// private packets, which do not change the length. Not for a queue with headroom in use.
    #[inline(always)]
    fn steps(&self, average: u64, length: u64, burst: &BurstRequest, request: &BulkRequest, count: bool) -> u64 {
        let Some(filter) = self.low_pass else { return average };
        let are_all = request.group.count_ones() as usize == burst.routes().len();
        if are_all && count {
            // All packets in sequence.
            return filter.arrive_all(average, length, burst.charges(), request.bytes);
        }
        PolicyFlags::steps_of_some(filter, average, length, burst, request, count)
    }

    #[inline(never)]
    fn steps_of_some(
        filter: LowPass,
        average: u64,
        length: u64,
        burst: &BurstRequest,
        request: &BulkRequest,
        count: bool,
    ) -> u64 {
        let sizes: ArrayVec<u32, BURST_REQUEST_MAX> =
            burst.bytes_of(request.group).map(|bytes| if count { bytes } else { 0 }).collect();
        filter.arrive_all(average, length, Charges::Each(&sizes), if count { request.bytes } else { 0 })
    }
}

impl IngressQueue {
    /// Charges packets to private buffer, `private` bytes of which are used, if all of them fit; returns whether they did.
    #[inline(always)]
    fn charge_private(&self, private: u32, bytes: u64) -> bool {
        let has_room = u64::from(private) + bytes <= u64::from(self.limits.private);
        if has_room {
            self.add_private(bytes as u32);
            self.note_occupancy(self.occupancy.load(), private + bytes as u32);
        }
        has_room
    }

    /// Returns whether private buffer, `private` bytes of which are used, may have room for a packet of the burst.
    #[inline]
    fn takes_one(&self, private: u32, burst: &BurstRequest) -> bool {
        private < self.limits.private && private + burst.smallest() <= self.limits.private
    }
}

impl Mmu {
    /// Returns the routes among `left` that are decided together with the first, as a bit mask.
    #[inline(always)]
    pub(super) fn group(&self, routes: &[RouteTotal], left: u64) -> u64 {
        let first = left.trailing_zeros() as usize;
        let ingress = routes[first].ingress;
        let others = left & (left - 1);
        if others == 0 || !self.ingress[ingress.index()].limits.lossless {
            return 1 << first;
        }
        bits(others).filter(|n| routes[*n].ingress == ingress).fold(1 << first, |group, n| group | 1 << n)
    }

    /// Admits all packets of a burst of several routes, if each queue has room for its own packets even after all others. Returns
    /// whether it did; if not, nothing is charged.
    ///
    /// The result equals that of one group after the other, each by [`admit_bulk_lossless`](Mmu::admit_bulk_lossless). Let the segment have
    /// room for the burst, and each queue with all of its packets be at most the threshold with the whole burst in the pool. In individual
    /// order, pool and queue would hold as much or less at each turn. As thresholds are non-increasing, the queue would admit its packets
    /// too, and no packet would turn it OFF. Other lcores only take from these queues between query and charge.
    ///
    /// `asked` is the sum of the charges. For a [plain](PolicyFlags::is_plain) MMU, whose policy observes no packets.
    #[inline(never)]
    pub(super) fn admit_bulk_burst(
        &self,
        writer: &PortWriter,
        burst: &mut BurstRequest,
        asked: u64,
        budget: &mut SharedBudget,
    ) -> bool {
        // Called here, so that the context consists of constants.
        let context = &self.plain_context();
        debug_assert!(
            burst.routes().iter().all(|route| route.ingress.port() == writer.port()),
            "a packet of another port"
        );
        let (mut of_class, mut classes) = ([0; CLASSES], ClassSet::EMPTY);
        let mut add = |ingress: QueueId, bytes: u32| {
            classes.insert(ingress.class());
            of_class[ingress.class().index()] += bytes;
        };
        match burst.ingress() {
            Some(ingress) => add(ingress, asked as u32),
            None => burst.routes().iter().for_each(|route| add(route.ingress, route.bytes)),
        }
        // A packet with a charge of zero always fits private buffer. Lengths of egress queues are checked one route at a time.
        let are_charged = match burst.each_charged() {
            Some(bytes) => bytes > 0,
            None => burst.routes().iter().all(|route| route.bytes > 0),
        };
        if !are_charged || asked > budget.granted || burst.by_egress().is_none() {
            return false;
        }
        let (before, alpha) = (budget.pool(), self.lossy_alpha.get());
        let pool = PoolLevel { used: before.used + asked, ..before };
        let queues = || classes.iter().map(|class| (QueueId::new(writer.port(), class), of_class[class.index()]));
        let mut lossless = ClassSet::EMPTY;
        for (id, bytes) in queues() {
            let queue = &*self.ingress[id.index()];
            if queue.takes_one(queue.private(), burst) {
                return false;
            }
            if queue.limits.lossless {
                lossless.insert(id.class());
                let occupancy = queue.occupancy.load();
                let mut view = self.ingress_view(&context.flags, id, occupancy, pool, budget.now);
                if !self.fits(&context.flags, &mut view, Occupancy { shared: occupancy.shared + bytes, ..occupancy }) {
                    return false;
                }
            }
        }
        let mut view = self.egress_view(context, QueueId::default(), 0, pool, budget.now);
        let lossy_routes = if classes == lossless { &[][..] } else { burst.routes() };
        for RouteTotal { ingress, egress, bytes, .. } in lossy_routes {
            if lossless.contains(ingress.class()) {
                continue;
            }
            let length = self.egress[egress.index()].length() + u64::from(*bytes);
            (view.queue, view.length, view.average) = (*egress, length, length);
            if length > self.policy.lossy_threshold(&view, alpha) {
                return false;
            }
        }
        for (id, bytes) in queues() {
            let queue = &*self.ingress[id.index()];
            let change =
                queue.occupancy.update(|occupancy| Occupancy { shared: occupancy.shared + bytes, ..occupancy });
            queue.note_occupancy(change.after, queue.private());
        }
        for route in burst.routes() {
            self.egress[route.egress.index()].add(u64::from(route.bytes));
        }
        let routes = burst.routes().len();
        burst.segments[..routes].fill(Segment::Shared);
        (burst.bulk_admitted, burst.admitted) = (mask(routes), mask(routes));
        budget.used += asked;
        true
    }

    /// Charges all packets of a lossless ingress queue to one segment and returns the segment; `None` if they must be placed individually.
    /// The caller charges the egress queues.
    #[inline(always)]
    pub(super) fn admit_bulk_lossless(
        &self,
        context: &ChargeContext<'_>,
        writer: &mut PortWriter,
        burst: &BurstRequest,
        request: &BulkRequest,
        mut view: QueueView,
        budget: &mut SharedBudget,
    ) -> Option<Segment> {
        let queue = &*self.ingress[request.ingress.index()];
        let private = queue.private();
        let average = context.flags.filtered(&queue.average);
        if queue.charge_private(private, request.bytes) {
            let after = context.flags.steps(average, view.length, burst, request, false);
            queue.average.advance(average, after);
            if context.flags.observes_packets {
                view.average = context.flags.compared(after, view.length);
                self.policy.on_admit(writer, &view);
            }
            return Some(Segment::Private);
        }
        if queue.takes_one(private, burst) || !budget.fits(0, request.bytes as u32) {
            return None;
        }
        view.shared_pool.used = budget.pool().used + request.bytes;
        if context.flags.port_xon_offset.is_some() {
            self.admit_bulk_under_port_control(&context.flags, request, &mut view)?;
        } else {
            let (mut fits, mut average_after) = (false, average);
            let change = queue.occupancy.update(|occupancy| {
                let after = Occupancy { shared: occupancy.shared + request.bytes as u32, ..occupancy };
                average_after = context.flags.steps(average, u64::from(occupancy.shared), burst, request, true);
                view.average = average.max(average_after);
                fits = self.fits(&context.flags, &mut view, after);
                if fits { after } else { occupancy }
            });
            if !fits {
                return None;
            }
            queue.average.advance(average, average_after);
            queue.note_occupancy(change.after, private);
            view.average = context.flags.compared(average_after, view.length);
        }
        budget.used += request.bytes;
        if context.flags.observes_packets {
            self.policy.on_admit(writer, &view);
        }
        Some(Segment::Shared)
    }

    /// Returns whether a queue of this occupancy is within T and below Xoff. The view's average is q̂ in the filter's units.
    #[inline(always)]
    fn fits(&self, flags: &PolicyFlags, view: &mut QueueView, occupancy: Occupancy) -> bool {
        let shared = u64::from(occupancy.shared);
        view.average = flags.compared(view.average, shared);
        (view.length, view.headroom, view.off) = (shared, u64::from(occupancy.headroom), occupancy.off);
        let threshold = self.policy.threshold(view);
        shared <= threshold.admit && shared < threshold.xoff
    }

    /// Charges a port and one of its queues, the port first, as individual admission does.
    #[inline(never)]
    fn admit_bulk_under_port_control(
        &self,
        flags: &PolicyFlags,
        request: &BulkRequest,
        view: &mut QueueView,
    ) -> Option<()> {
        let (queue, port) = (&*self.ingress[request.ingress.index()], &*self.ports[request.ingress.port().index()]);
        let bytes = request.bytes as u32;
        // Other lcores only take from the queue, so the loaded length is its maximum.
        let most = queue.occupancy.load();
        if !self.fits(flags, view, Occupancy { shared: most.shared + bytes, ..most }) {
            return None;
        }
        let port_threshold = self.policy.port_threshold(request.ingress.port(), view.shared_pool);
        let mut fits = false;
        port.occupancy.update(|occupancy| {
            let after = Occupancy { shared: occupancy.shared + bytes, ..occupancy };
            fits = u64::from(after.shared) < port_threshold;
            if fits { after } else { occupancy }
        });
        if !fits {
            return None;
        }
        let change = queue.occupancy.update(|occupancy| Occupancy { shared: occupancy.shared + bytes, ..occupancy });
        view.length = u64::from(change.after.shared);
        queue.note_occupancy(change.after, queue.private());
        Some(())
    }

    /// Charges all packets of a lossy ingress queue to one egress queue and returns the segment; `None` if they must be placed
    /// individually.
    #[inline(always)]
    pub(super) fn admit_bulk_lossy(
        &self,
        context: &ChargeContext<'_>,
        writer: &mut PortWriter,
        burst: &BurstRequest,
        request: &BulkRequest,
        budget: &mut SharedBudget,
    ) -> Option<Segment> {
        let (queue, egress) = (&*self.ingress[request.ingress.index()], &self.egress[request.egress.index()]);
        let mut view = self.egress_view(context, request.egress, egress.length(), budget.pool(), budget.now);
        let average = context.flags.filtered(&egress.average);
        let average_after = context.flags.steps(average, view.length, burst, request, true);
        view.length += request.bytes;
        let private = queue.private();
        let segment = if queue.charge_private(private, request.bytes) {
            Segment::Private
        } else {
            if queue.takes_one(private, burst) || !budget.fits(0, request.bytes as u32) {
                return None;
            }
            let after = QueueView {
                shared_pool: PoolLevel { used: budget.pool().used + request.bytes, ..view.shared_pool },
                egress_lossy_pool: PoolLevel {
                    used: view.egress_lossy_pool.used + request.bytes,
                    ..view.egress_lossy_pool
                },
                average: context.flags.compared(average.max(average_after), view.length),
                ..view
            };
            if view.length > self.policy.lossy_threshold(&after, self.lossy_alpha.get()) {
                return None;
            }
            if let Some(pool) = context.egress_lossy {
                let grant = pool.reserve(request.bytes);
                if grant.bytes < request.bytes {
                    pool.release(grant.bytes);
                    return None;
                }
                pool.note_level(grant.before.used + request.bytes);
            }
            let bytes = request.bytes as u32;
            let change =
                queue.occupancy.update(|occupancy| Occupancy { shared: occupancy.shared + bytes, ..occupancy });
            queue.note_occupancy(change.after, private);
            budget.used += request.bytes;
            Segment::Shared
        };
        egress.add(request.bytes);
        egress.average.advance(average, average_after);
        if context.flags.observes_packets {
            view.average = context.flags.compared(average_after, view.length);
            self.policy.on_admit(writer, &view);
        }
        Some(segment)
    }
}
