//! Bypass of the buffer for packets that leave at the instant of their arrival.

use std::slice::{from_mut, from_ref};

use weir_units::Time;

use super::placement::{Asking, LosslessQueue, LossyQueue, Room, place};
use super::{Arrival, DropReason, Mmu, Segment, Verdict};
use crate::levels::Levels;

impl Mmu {
    /// Returns whether admission and immediate release of a packet would change only the watermarks; if so, updates them. If false, or if a
    /// check would be expensive, nothing changes, and the packet must be admitted as usual.
    ///
    /// Only where one lcore owns the MMU ([`Mmu::for_one_lcore`]), so that no other lcore observes the missing charge. Only under a policy
    /// that depends on queue occupancy alone, and on nothing else that arrivals or departures change.
    #[inline]
    pub fn pass(&self, now: Time, packet: &Arrival) -> bool {
        if !self.rules.passes {
            return false;
        }
        let (queue, egress) = (&*self.ingress[packet.ingress.index()], &self.egress[packet.egress.index()]);
        let (levels, private, pool) = (queue.levels.load(), queue.private(), self.shared.level());
        if levels.off || levels.headroom > 0 {
            return false;
        }
        let (terms, room, length) =
            (self.plain_terms(), Room::as_it_is(pool, now, self.lossy_alpha.get()), egress.length());
        let asking = Asking { mmu: self, terms: &terms, room: &room };
        let (run, mut verdict) = (from_ref(packet), Verdict::Drop(DropReason::SharedFull));
        let turns_off = if queue.limits.lossless {
            let mut view = self.ingress_view(&terms.rules, packet.ingress, levels, pool, now);
            let mut segments = LosslessQueue::without_headroom(asking, &mut view, levels);
            place(run, from_mut(&mut verdict), queue, private, &mut segments);
            segments.levels.off
        } else {
            let mut view = self.egress_view(&terms, packet.egress, length, pool, now);
            let (average, lossy_used, lossy_granted) = (0, 0, u64::MAX);
            let view = &mut view;
            let mut segments = LossyQueue { asking, view, levels, average, length, lossy_used, lossy_granted };
            place(run, from_mut(&mut verdict), queue, private, &mut segments);
            false
        };
        let (to_private, to_shared) = match verdict {
            // A departure first takes from the shared segment.
            Verdict::Keep(Segment::Private) if levels.shared == 0 => (packet.bytes, 0),
            Verdict::Keep(Segment::Shared) if !turns_off => (0, packet.bytes),
            _ => return false,
        };
        queue.note_levels(Levels { shared: levels.shared + to_shared, ..levels }, private + to_private);
        egress.note_length(length + u64::from(packet.bytes));
        self.shared.note_level(pool.used + u64::from(to_shared));
        true
    }
}
