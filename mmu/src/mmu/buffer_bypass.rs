//! Bypass of the buffer for packets that leave at the instant of their arrival.

use std::slice::{from_mut, from_ref};

use weir_units::Time;

use super::placement::{LosslessQueue, LossyQueue, PlacementRun, ThresholdQuery};
use super::shared_budget::SharedBudget;
use super::{Admission, BufferRequest, DropReason, Mmu, Segment};
use crate::occupancy::Occupancy;

impl Mmu {
    /// Returns whether admission and immediate release of a packet would change only the watermarks; if so, updates them. If false, or if a
    /// check would be expensive, nothing changes, and the packet must be admitted as usual.
    ///
    /// Only where one lcore owns the MMU ([`Mmu::for_one_lcore`]), so that no other lcore observes the missing charge. Only under a policy
    /// that depends on queue occupancy alone, and on nothing else that arrivals or departures change.
    #[inline]
    pub fn bypass_buffer(&self, now: Time, packet: &BufferRequest) -> bool {
        if !self.flags.may_bypass {
            return false;
        }
        let (queue, egress) = (&*self.ingress[packet.ingress.index()], &self.egress[packet.egress.index()]);
        let (occupancy, private, pool) = (queue.occupancy.load(), queue.private(), self.shared.level());
        if occupancy.off || occupancy.headroom > 0 {
            return false;
        }
        let (context, budget, length) = (
            self.plain_context(),
            SharedBudget::without_reservation(pool, now, self.lossy_alpha.get()),
            egress.length(),
        );
        let query = ThresholdQuery { mmu: self, context: &context, budget: &budget };
        let (run, mut verdict) = (from_ref(packet), Admission::Drop(DropReason::SharedFull));
        let turns_off = if queue.limits.lossless {
            let mut view = self.ingress_view(&context.flags, packet.ingress, occupancy, pool, now);
            let mut segments = LosslessQueue::without_headroom(query, &mut view, occupancy);
            run.place(from_mut(&mut verdict), queue, private, &mut segments);
            segments.occupancy.off
        } else {
            let mut view = self.egress_view(&context, packet.egress, length, pool, now);
            let (average, lossy_used, lossy_granted) = (0, 0, u64::MAX);
            let view = &mut view;
            let mut segments = LossyQueue { query, view, occupancy, average, length, lossy_used, lossy_granted };
            run.place(from_mut(&mut verdict), queue, private, &mut segments);
            false
        };
        let (to_private, to_shared) = match verdict {
            // A departure first takes from the shared segment.
            Admission::Admit(Segment::Private) if occupancy.shared == 0 => (packet.bytes, 0),
            Admission::Admit(Segment::Shared) if !turns_off => (0, packet.bytes),
            _ => return false,
        };
        queue.note_occupancy(Occupancy { shared: occupancy.shared + to_shared, ..occupancy }, private + to_private);
        egress.note_length(length + u64::from(packet.bytes));
        self.shared.note_level(pool.used + u64::from(to_shared));
        true
    }
}
