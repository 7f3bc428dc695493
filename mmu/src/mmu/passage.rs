//! Packets that leave at the very instant at which they arrive.

use weir_units::Time;

use super::{Arrival, Mmu};
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
        let (queue, egress) = (&*self.ingress[packet.ingress.index()], &*self.egress[packet.egress.index()]);
        let (levels, private, pool) = (queue.levels.load(), queue.private(), self.shared.level());
        let bytes = u64::from(packet.bytes);
        let length = egress.length();
        let fits_private = private + packet.bytes <= queue.limits.private;
        let passes = if fits_private {
            // What leaves is taken from the shared segment first.
            levels.shared == 0
        } else {
            let fits_queue = if queue.limits.lossless {
                let view = self.ingress_view(&self.plain_terms().rules, packet.ingress, levels, pool, now);
                let (threshold, after) = (self.policy.threshold(&view), u64::from(levels.shared) + bytes);
                after <= threshold.admit && after < threshold.xoff
            } else {
                let view = self.egress_view(&self.plain_terms(), packet.egress, length, pool, now);
                length + bytes <= self.policy.lossy_threshold(&view, self.rules.lossy_alpha)
            };
            fits_queue && pool.used + bytes <= pool.capacity
        };
        if !passes || levels.off || levels.headroom > 0 {
            return false;
        }
        let (to_private, to_shared) = if fits_private { (packet.bytes, 0) } else { (0, packet.bytes) };
        queue.note_levels(Levels { shared: levels.shared + to_shared, ..levels }, private + to_private);
        egress.note_length(length + bytes);
        self.shared.note_level(pool.used + u64::from(to_shared));
        true
    }
}
