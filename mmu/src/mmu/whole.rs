//! Bulk admission: several packets of a queue are admitted by one decision, with the result of individual admission.
//! Individual admission asks of each packet whether it fits below a threshold T. Let a policy's thresholds be
//! [non-increasing](crate::Policy::thresholds_fall) in the bytes of the queue and of the pools, and add all packets at once. If w_s, with
//! all of them, is at most the resulting T, each packet alone fits too: w_s is lower before the last one, and T not lower. Likewise, if w_s
//! stays below Xoff, no packet turns the queue OFF.
//!
//! Under a policy that filters lengths, each packet is a step of q̂ toward a growing length. So q̂ may first fall and then rises, and never
//! exceeds both its first and its last value: T is queried with the higher of the two.
//!
//! Packets with several queue pairs are admitted [together](Mmu::keep_burst) by the same argument, if each queue has room even with the
//! whole burst in the pool.
//!
//! Private buffer comes first in all cases: it takes all of the packets, or has no room for the smallest. In any other case nothing is
//! charged here, and the packets are placed [individually](super::placement). `mmu/tests/it/reference.rs` compares both with a sequential
//! model, for each policy.

use arrayvec::ArrayVec;
use weir_units::{CLASSES, ClassSet, QueueId, bits};

use super::intake::{Bundle, INTAKE_MAX, Intake, mask};
use super::placement::Room;
use super::{Mmu, Rules, Segment, Terms};
use crate::charge::Charges;
use crate::ingress_queue::IngressQueue;
use crate::levels::Levels;
use crate::low_pass::LowPass;
use crate::one_writer::PortWriter;
use crate::policy::{PoolLevel, QueueView};

/// Bundles of one ingress queue, and for lossy packets of one egress queue, that are admitted together.
pub(super) struct Sums {
    pub(super) ingress: QueueId,
    /// Egress queue of lossy packets; one of several for lossless ones.
    pub(super) egress: QueueId,
    pub(super) bytes: u64,
    group: u64,
}

impl Sums {
    #[inline(always)]
    pub(super) fn of(bundles: &[Bundle], group: u64) -> Sums {
        let first = &bundles[group.trailing_zeros() as usize];
        let others = bits(group & (group - 1)).map(|n| u64::from(bundles[n].bytes)).sum::<u64>();
        Sums { ingress: first.ingress, egress: first.egress, bytes: u64::from(first.bytes) + others, group }
    }
}

impl Rules {
    /// Returns q̂ after the arrival of these bundles at a queue of this length, under a policy that filters. `count` is false for private
    /// packets, which do not change the length. Not for a queue with headroom in use.
    #[inline(always)]
    fn steps(&self, average: u64, length: u64, intake: &Intake, sums: &Sums, count: bool) -> u64 {
        let Some(filter) = self.low_pass else { return average };
        let are_all = sums.group.count_ones() as usize == intake.bundles().len();
        if are_all && count {
            // All packets in sequence.
            return filter.arrive_all(average, length, intake.charges(), sums.bytes);
        }
        Rules::steps_of_some(filter, average, length, intake, sums, count)
    }

    #[inline(never)]
    fn steps_of_some(filter: LowPass, average: u64, length: u64, intake: &Intake, sums: &Sums, count: bool) -> u64 {
        let sizes: ArrayVec<u32, INTAKE_MAX> =
            intake.bytes_of(sums.group).map(|bytes| if count { bytes } else { 0 }).collect();
        filter.arrive_all(average, length, Charges::Each(&sizes), if count { sums.bytes } else { 0 })
    }
}

impl IngressQueue {
    /// Charges packets to private buffer, `private` bytes of which are used, if all of them fit; returns whether they did.
    #[inline(always)]
    fn keep_private(&self, private: u32, bytes: u64) -> bool {
        let has_room = u64::from(private) + bytes <= u64::from(self.limits.private);
        if has_room {
            self.add_private(bytes as u32);
            self.note_levels(self.levels.load(), private + bytes as u32);
        }
        has_room
    }

    /// Returns whether private buffer, `private` bytes of which are used, may have room for a packet of the intake.
    #[inline]
    fn takes_one(&self, private: u32, intake: &Intake) -> bool {
        private < self.limits.private && private + intake.smallest() <= self.limits.private
    }
}

impl Mmu {
    /// Bundles among `left` that are decided together with the first.
    #[inline(always)]
    pub(super) fn group(&self, bundles: &[Bundle], left: u64) -> u64 {
        let first = left.trailing_zeros() as usize;
        let ingress = bundles[first].ingress;
        let others = left & (left - 1);
        if others == 0 || !self.ingress[ingress.index()].limits.lossless {
            return 1 << first;
        }
        bits(others).filter(|n| bundles[*n].ingress == ingress).fold(1 << first, |group, n| group | 1 << n)
    }

    /// Admits all packets of a burst with several queue pairs, if each queue has room for its own packets even after all others. Returns
    /// whether it did; if not, nothing is charged.
    ///
    /// The result equals that of one group after the other, each by [`keep_lossless`](Mmu::keep_lossless). Let the segment have room for
    /// the burst, and each queue with all of its packets be at most the threshold with the whole burst in the pool. In individual order,
    /// pool and queue would hold as much or less at each turn. As thresholds are non-increasing, the queue would admit its packets too, and
    /// no packet would turn it OFF. Other lcores only take from these queues between query and charge.
    ///
    /// For [plain](Rules::is_plain) rules, where no policy observes each group.
    #[inline(never)]
    pub(super) fn keep_burst(&self, writer: &PortWriter, intake: &mut Intake, room: &mut Room) -> bool {
        // Called here, so that the terms are known as constants.
        let terms = &self.plain_terms();
        let (mut of_class, mut classes, mut are_charged) = ([0; CLASSES], ClassSet::EMPTY, true);
        for bundle in intake.bundles() {
            debug_assert_eq!(bundle.ingress.port(), writer.port(), "a packet of another port");
            let class = bundle.ingress.class();
            classes.insert(class);
            of_class[class.index()] += bundle.bytes;
            are_charged &= bundle.bytes > 0;
        }
        let total = u64::from(of_class.iter().sum::<u32>());
        // A packet with a charge of zero always fits private buffer. Lengths of egress queues are checked one bundle at a time.
        if !are_charged || total > room.granted || intake.by_egress().is_none() {
            return false;
        }
        let (before, alpha) = (room.pool(), self.lossy_alpha.get());
        let pool = PoolLevel { used: before.used + total, ..before };
        let queues = || classes.iter().map(|class| (QueueId::new(writer.port(), class), of_class[class.index()]));
        for (id, bytes) in queues() {
            let queue = &*self.ingress[id.index()];
            if queue.takes_one(queue.private(), intake) {
                return false;
            }
            if queue.limits.lossless {
                let levels = queue.levels.load();
                let mut view = self.ingress_view(&terms.rules, id, levels, pool, room.now);
                if !self.fits(&terms.rules, &mut view, Levels { shared: levels.shared + bytes, ..levels }) {
                    return false;
                }
            }
        }
        let mut view = self.egress_view(terms, QueueId::default(), 0, pool, room.now);
        for Bundle { ingress, egress, bytes, .. } in intake.bundles() {
            if self.ingress[ingress.index()].limits.lossless {
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
            let change = queue.levels.update(|levels| Levels { shared: levels.shared + bytes, ..levels });
            queue.note_levels(change.after, queue.private());
        }
        for bundle in intake.bundles() {
            self.egress[bundle.egress.index()].add(u64::from(bundle.bytes));
        }
        let bundles = intake.bundles().len();
        intake.segments[..bundles].fill(Segment::Shared);
        intake.whole = mask(bundles);
        room.used += total;
        true
    }

    /// Charges all packets of a lossless ingress queue to one segment and returns the segment; `None` if they must be placed individually.
    /// The caller charges the egress queues.
    #[inline(always)]
    pub(super) fn keep_lossless(
        &self,
        terms: &Terms<'_>,
        writer: &mut PortWriter,
        intake: &Intake,
        sums: &Sums,
        mut view: QueueView,
        room: &mut Room,
    ) -> Option<Segment> {
        let queue = &*self.ingress[sums.ingress.index()];
        let private = queue.private();
        let average = terms.rules.filtered(&queue.average);
        if queue.keep_private(private, sums.bytes) {
            let after = terms.rules.steps(average, view.length, intake, sums, false);
            queue.average.advance(average, after);
            if terms.rules.policy_listens {
                view.average = terms.rules.compared(after, view.length);
                self.policy.admitted(writer, &view);
            }
            return Some(Segment::Private);
        }
        if queue.takes_one(private, intake) || !room.fits(0, sums.bytes as u32) {
            return None;
        }
        view.shared_pool.used = room.pool().used + sums.bytes;
        if terms.rules.port_xon_offset.is_some() {
            self.keep_by_port(&terms.rules, sums, &mut view)?;
        } else {
            let (mut fits, mut average_after) = (false, average);
            let change = queue.levels.update(|levels| {
                let after = Levels { shared: levels.shared + sums.bytes as u32, ..levels };
                average_after = terms.rules.steps(average, u64::from(levels.shared), intake, sums, true);
                view.average = average.max(average_after);
                fits = self.fits(&terms.rules, &mut view, after);
                if fits { after } else { levels }
            });
            if !fits {
                return None;
            }
            queue.average.advance(average, average_after);
            queue.note_levels(change.after, private);
            view.average = terms.rules.compared(average_after, view.length);
        }
        room.used += sums.bytes;
        if terms.rules.policy_listens {
            self.policy.admitted(writer, &view);
        }
        Some(Segment::Shared)
    }

    /// Returns whether a queue with these levels is within T and below Xoff. The view's average is q̂ in the filter's units.
    #[inline(always)]
    fn fits(&self, rules: &Rules, view: &mut QueueView, levels: Levels) -> bool {
        let shared = u64::from(levels.shared);
        view.average = rules.compared(view.average, shared);
        (view.length, view.headroom, view.off) = (shared, u64::from(levels.headroom), levels.off);
        let threshold = self.policy.threshold(view);
        shared <= threshold.admit && shared < threshold.xoff
    }

    /// Charges a port and one of its queues, the port first, as individual admission does.
    #[inline(never)]
    fn keep_by_port(&self, rules: &Rules, sums: &Sums, view: &mut QueueView) -> Option<()> {
        let (queue, port) = (&*self.ingress[sums.ingress.index()], &*self.ports[sums.ingress.port().index()]);
        let bytes = sums.bytes as u32;
        // Other lcores only take from the queue, so the loaded length is its maximum.
        let most = queue.levels.load();
        if !self.fits(rules, view, Levels { shared: most.shared + bytes, ..most }) {
            return None;
        }
        let port_threshold = self.policy.port_threshold(sums.ingress.port(), view.shared_pool);
        let mut fits = false;
        port.levels.update(|levels| {
            let after = Levels { shared: levels.shared + bytes, ..levels };
            fits = u64::from(after.shared) < port_threshold;
            if fits { after } else { levels }
        });
        if !fits {
            return None;
        }
        let change = queue.levels.update(|levels| Levels { shared: levels.shared + bytes, ..levels });
        view.length = u64::from(change.after.shared);
        queue.note_levels(change.after, queue.private());
        Some(())
    }

    /// Charges all packets of a lossy ingress queue to one egress queue and returns the segment; `None` if they must be placed
    /// individually.
    #[inline(always)]
    pub(super) fn keep_lossy(
        &self,
        terms: &Terms<'_>,
        writer: &mut PortWriter,
        intake: &Intake,
        sums: &Sums,
        room: &mut Room,
    ) -> Option<Segment> {
        let (queue, egress) = (&*self.ingress[sums.ingress.index()], &self.egress[sums.egress.index()]);
        let mut view = self.egress_view(terms, sums.egress, egress.length(), room.pool(), room.now);
        let average = terms.rules.filtered(&egress.average);
        let average_after = terms.rules.steps(average, view.length, intake, sums, true);
        view.length += sums.bytes;
        let private = queue.private();
        let segment = if queue.keep_private(private, sums.bytes) {
            Segment::Private
        } else {
            if queue.takes_one(private, intake) || !room.fits(0, sums.bytes as u32) {
                return None;
            }
            let after = QueueView {
                shared_pool: PoolLevel { used: room.pool().used + sums.bytes, ..view.shared_pool },
                egress_lossy_pool: PoolLevel {
                    used: view.egress_lossy_pool.used + sums.bytes,
                    ..view.egress_lossy_pool
                },
                average: terms.rules.compared(average.max(average_after), view.length),
                ..view
            };
            if view.length > self.policy.lossy_threshold(&after, self.lossy_alpha.get()) {
                return None;
            }
            if let Some(pool) = terms.egress_lossy {
                let grant = pool.reserve(sums.bytes);
                if grant.bytes < sums.bytes {
                    pool.give_back(grant.bytes);
                    return None;
                }
                pool.note_level(grant.before.used + sums.bytes);
            }
            let bytes = sums.bytes as u32;
            let change = queue.levels.update(|levels| Levels { shared: levels.shared + bytes, ..levels });
            queue.note_levels(change.after, private);
            room.used += sums.bytes;
            Segment::Shared
        };
        egress.add(sums.bytes);
        egress.average.advance(average, average_after);
        if terms.rules.policy_listens {
            view.average = terms.rules.compared(average_after, view.length);
            self.policy.admitted(writer, &view);
        }
        Some(segment)
    }
}
