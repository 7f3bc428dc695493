//! Packets that leave at the very instant at which they arrive.

use std::slice::{from_mut, from_ref};

use weir_units::Time;

use super::placement::{Asking, LosslessQueue, LossyQueue, Room, place};
use super::{Arrival, DropReason, Mmu, Segment, Verdict};
use crate::levels::Levels;

impl Mmu {
    /// Whether a packet that is admitted and at once released would leave nothing changed but the highest levels, which are
    /// noted then. If not, or where that can't be told cheaply, nothing is noted, and it is to be admitted as any other.
    ///
    /// Only where one lcore has the MMU for itself ([`Mmu::for_one_lcore`]), so that no other sees that it was not charged; and
    /// only under a policy that goes by what queues hold, and by nothing that arrivals or departures change besides.
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
            // What leaves is taken from the shared segment first.
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
