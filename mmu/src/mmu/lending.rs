//! Lending of headroom: under a policy that [lends](crate::BufferPolicy::lends_headroom), the free headroom of OFF queues is room in the
//! shared segment.
//!
//! A queue lends once all frames that its peer sent before the PAUSE have arrived ([`BufferPolicy::in_flight_time`]). Its whole headroom
//! becomes part of the shared segment, and the bytes in it count as used there. Frames that arrive nevertheless go to its headroom if the
//! segment has room. The queue resumes only when it is drained and has its whole headroom back, so the next PAUSE finds it free: bytes of
//! the segment that become free go to drained lenders first. In sum, segment and headroom never hold more than their bytes.
//!
//! One lcore at a time lends or resumes a queue; others skip the queue and do not wait. So no queue resumes while an lcore lends its
//! headroom.
//!
//! [`BufferPolicy::in_flight_time`]: crate::BufferPolicy::in_flight_time

use weir_units::{Bytes, QueueId, Time};

use super::Mmu;
use crate::ingress_queue::IngressQueue;
use crate::occupancy::Occupancy;

impl Mmu {
    /// Lends the headroom of an OFF queue, or resumes it, where either is due.
    #[inline(never)]
    pub(super) fn reconsider_lender(&self, id: QueueId, now: Time) {
        let queue = &*self.ingress[id.index()];
        if queue.loan.begin() {
            self.lend_or_resume(id, queue, now);
            queue.loan.end();
        }
    }

    fn lend_or_resume(&self, id: QueueId, queue: &IngressQueue, now: Time) {
        let resumes = |occupancy: Occupancy| {
            let view = self.ingress_view(&self.flags, id, occupancy, self.shared.level(), now);
            occupancy.off && occupancy.resumes(self.policy.threshold(&view).xoff, self.xon.get())
        };
        let before = queue.occupancy.load();
        let from = queue.loan.from();
        if !resumes(before) {
            if before.off && !before.lent && now >= from {
                self.lend(queue);
            }
            return;
        }
        if before.lent && !self.take_back(queue) {
            return;
        }
        // Before the queue is ON: its next PAUSE starts without an instant, until that is known.
        queue.loan.lend_from(Time::NEVER);
        let change = queue.occupancy.update(|occupancy| match resumes(occupancy) {
            true => Occupancy { off: false, lent: false, ..occupancy },
            false => occupancy,
        });
        if change.went_on() {
            self.note_transition(id, false, now);
        } else {
            queue.loan.lend_from(from);
        }
    }

    /// Makes the headroom of an OFF queue part of the shared segment.
    fn lend(&self, queue: &IngressQueue) {
        let size = self.layout.of_headroom(Bytes::new(u64::from(queue.limits.headroom))).get();
        if self.bytes_of_headroom(queue.occupancy.load().headroom) >= size {
            return;
        }
        self.shared.gain_reserved(size);
        let change = queue.occupancy.update(|occupancy| Occupancy { lent: true, ..occupancy });
        queue.loan.owe(size);
        self.shared.release(size - self.bytes_of_headroom(change.before.headroom));
    }

    /// Takes free bytes of the shared segment back for a lender; returns whether it has its whole headroom.
    fn take_back(&self, queue: &IngressQueue) -> bool {
        let owed = queue.loan.owed();
        let left = owed - self.shared.cede(owed.min(self.shared.level().free()));
        queue.loan.owe(left);
        left == 0
    }

    /// Bytes of the buffer that these charges to headroom take, rounded up.
    #[inline]
    pub(super) fn bytes_of_headroom(&self, charges: u32) -> u64 {
        self.layout.of_headroom_ceil(Bytes::new(u64::from(charges))).get()
    }
}
