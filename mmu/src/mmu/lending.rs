//! Lending of headroom: under a policy that [lends](crate::BufferPolicy::lends_headroom), the free headroom of OFF queues is room in the
//! shared segment.
//!
//! A queue lends once all frames that its peer sent before the PAUSE have arrived ([`BufferPolicy::in_flight_time`]). The free part of its
//! headroom becomes capacity of the shared segment, and so do bytes that leave its headroom later. A frame that arrives nevertheless takes
//! headroom back, if the segment has room. The queue resumes only when it is drained and has its whole headroom back, so that the next
//! PAUSE finds it free. Only free bytes change hands, so segment and headroom never hold more than their bytes.
//!
//! One lcore at a time lends or resumes a queue; others skip the queue and do not wait. So no queue resumes while an lcore lends its
//! headroom.
//!
//! [`BufferPolicy::in_flight_time`]: crate::BufferPolicy::in_flight_time

use weir_units::{Bytes, QueueId, Time};

use super::Mmu;
use crate::ingress_queue::IngressQueue;
use crate::occupancy::{Occupancy, OccupancyChange};

impl Mmu {
    /// Sets the instant from which a queue may lend if it turns OFF now. Called by the lcore that admits, before it may turn the queue OFF.
    #[inline(never)]
    pub(super) fn note_lending_time(&self, id: QueueId, now: Time) {
        let queue = &*self.ingress[id.index()];
        if !queue.occupancy.load().off {
            let in_flight = self.policy.in_flight_time(id);
            queue.loan.lend_from(in_flight.map_or(Time::NEVER, |in_flight| now.saturating_add(in_flight)));
        }
    }

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
        let before = queue.occupancy.load();
        if self.may_resume(id, before, now) {
            if !before.lent || self.take_back(queue) {
                self.resume(id, now);
            }
        } else if before.off && !before.lent && now >= queue.loan.from() {
            self.lend(queue);
        }
    }

    /// Makes the free headroom of an OFF queue part of the shared segment.
    fn lend(&self, queue: &IngressQueue) {
        queue.loan.set_returned(0);
        let change = queue.occupancy.update(|occupancy| Occupancy { lent: true, ..occupancy });
        self.shared.gain(self.size_of_headroom(queue) - self.bytes_of_headroom(change.before.headroom));
    }

    /// Takes free bytes of the shared segment back for a drained lender; returns whether it has its whole headroom.
    fn take_back(&self, queue: &IngressQueue) -> bool {
        let size = self.size_of_headroom(queue);
        let returned = queue.loan.returned();
        let returned = returned + self.shared.cede((size - returned).min(self.shared.level().free()));
        queue.loan.set_returned(returned);
        returned == size
    }

    fn size_of_headroom(&self, queue: &IngressQueue) -> u64 {
        self.layout.of_headroom(Bytes::new(u64::from(queue.limits.headroom))).get()
    }

    /// Bytes of the buffer that these charges to headroom take, rounded up.
    #[inline]
    pub(super) fn bytes_of_headroom(&self, charges: u32) -> u64 {
        self.layout.of_headroom_ceil(Bytes::new(u64::from(charges))).get()
    }

    /// Bytes of the buffer that a lender takes whose charges to headroom rise from one number to another.
    #[inline(never)]
    pub(super) fn lent_bytes(&self, from: u32, to: u32) -> u64 {
        self.bytes_of_headroom(to) - self.bytes_of_headroom(from)
    }

    /// Bytes of the buffer by which an update of a lender changed its headroom.
    #[inline]
    pub(super) fn headroom_difference(&self, change: OccupancyChange) -> u64 {
        let [before, after] = [change.before, change.after].map(|levels| self.bytes_of_headroom(levels.headroom));
        before.abs_diff(after)
    }
}
