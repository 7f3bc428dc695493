//! Admission: where each arrival is placed, or why it is refused.

use weir_units::{ClassSet, QueueId, Time};

use super::{Arrival, DropReason, Mmu, Rules, Segment, Terms, Verdict, total};
use crate::ingress_queue::IngressQueue;
use crate::levels::Levels;
use crate::one_writer::PortWriter;
use crate::policy::{QueueView, Threshold};
use crate::pool::{Grant, PoolLevel};
use crate::tally::Tally;

impl Mmu {
    /// Places each arrival or refuses it, and writes its verdict beside it. All arrivals are of the writer's port. Best
    /// called with whole bursts: the shared pool is touched once a call, an ingress queue once for each run of packets
    /// of the same queue.
    ///
    /// The shared bytes of the whole burst are reserved before and what was not used is returned after, so that
    /// lcores that admit at the same time never keep more than there is.
    ///
    /// Returns the classes that went OFF with this call.
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn admit(
        &self,
        writer: &mut PortWriter,
        now: Time,
        arrivals: &[Arrival],
        verdicts: &mut [Verdict],
    ) -> ClassSet {
        assert_eq!(arrivals.len(), verdicts.len(), "a verdict for each arrival");
        if let ([arrival], [verdict]) = (arrivals, &mut *verdicts) {
            let went_off;
            (*verdict, went_off) = self.admit_one(writer, now, arrival);
            return went_off;
        }
        if self.rules.adapts_headroom {
            self.runs(arrivals).for_each(|run| self.adapt_headroom(run[0].ingress));
        }
        let mut room = Room::of(self.shared.reserve(total(arrivals)), now);
        let mut went_off = ClassSet::EMPTY;
        let mut rest = verdicts;
        for run in self.runs(arrivals) {
            let (verdicts, others) = rest.split_at_mut(run.len());
            rest = others;
            went_off |= if self.rules.is_plain {
                self.admit_plain_run(writer, run, verdicts, &mut room)
            } else {
                self.admit_any_run(writer, run, verdicts, &mut room)
            };
        }
        self.leave(&room);
        went_off
    }

    /// Admits one arrival. Returns its class if that went OFF with it.
    #[inline]
    pub fn admit_one(&self, writer: &mut PortWriter, now: Time, arrival: &Arrival) -> (Verdict, ClassSet) {
        if self.rules.adapts_headroom {
            self.adapt_headroom(arrival.ingress);
        }
        let mut room = Room::of(self.shared.reserve(u64::from(arrival.bytes)), now);
        let mut verdicts = [Verdict::Drop(DropReason::SharedFull)];
        let alone = std::slice::from_ref(arrival);
        let went_off = if self.rules.is_plain {
            self.admit_run(&self.plain_terms(), writer, alone, &mut verdicts, &mut room)
        } else {
            self.admit_any_run(writer, alone, &mut verdicts, &mut room)
        };
        self.leave(&room);
        (verdicts[0], went_off)
    }

    #[inline(never)]
    fn admit_plain_run(
        &self,
        writer: &mut PortWriter,
        run: &[Arrival],
        verdicts: &mut [Verdict],
        room: &mut Room,
    ) -> ClassSet {
        self.admit_run(&self.plain_terms(), writer, run, verdicts, room)
    }

    #[inline(never)]
    fn admit_any_run(
        &self,
        writer: &mut PortWriter,
        run: &[Arrival],
        verdicts: &mut [Verdict],
        room: &mut Room,
    ) -> ClassSet {
        self.admit_run(&self.terms(), writer, run, verdicts, room)
    }

    /// Returns what a burst reserved and did not use.
    #[inline]
    fn leave(&self, room: &Room) {
        self.shared.note_level(room.pool().used);
        self.shared.give_back(room.granted - room.used);
    }

    /// Packets of one ingress queue, and if they are lossy, to one egress queue. Returns its class if it went OFF.
    // Always: of one packet alone, what is done for many is known to be done once.
    #[inline(always)]
    fn admit_run(
        &self,
        terms: &Terms<'_>,
        writer: &mut PortWriter,
        run: &[Arrival],
        verdicts: &mut [Verdict],
        room: &mut Room,
    ) -> ClassSet {
        debug_assert_eq!(run[0].ingress.port(), writer.port(), "a packet of another port");
        if !self.ingress[run[0].ingress.index()].limits.lossless {
            self.admit_lossy(terms, writer, run, verdicts, room);
            ClassSet::EMPTY
        } else if terms.rules.port_xon_offset.is_some() {
            self.admit_by_port(terms, writer, run, verdicts, room)
        } else {
            self.admit_lossless(terms, writer, run, verdicts, room)
        }
    }

    /// Packets of one lossless ingress queue: private, shared up to T, then headroom, then a violation (dsh Algorithm 1).
    #[inline(always)]
    fn admit_lossless(
        &self,
        terms: &Terms<'_>,
        writer: &mut PortWriter,
        run: &[Arrival],
        verdicts: &mut [Verdict],
        room: &mut Room,
    ) -> ClassSet {
        let id = run[0].ingress;
        let queue = &*self.ingress[id.index()];
        let mut view = self.announce(terms, writer, run, queue, room);
        let (private, limit) = (queue.private(), queue.headroom_limit());
        let average_before = terms.rules.filtered(&queue.average);
        let mut average = average_before;
        let mut sums = Placed::default();
        // Where headroom is a pool of its own, a part of it is reserved only when a packet turns out to need it.
        let mut headroom = HeadroomGrant {
            bytes: if terms.headroom.is_some() { 0 } else { u64::MAX },
            asked: terms.headroom.is_none(),
        };
        let change = loop {
            let mut short = false;
            let change = queue.levels.update(|levels| {
                let mut after = levels;
                sums = Placed::default();
                average = average_before;
                for (arrival, verdict) in run.iter().zip(&mut *verdicts) {
                    let bytes = arrival.bytes;
                    *verdict = if sums.fits_private(queue, private, bytes) {
                        Verdict::Keep(Segment::Private)
                    } else {
                        let threshold = self.threshold(terms, &mut view, after, average, room, sums.shared);
                        if after.shared as u64 + u64::from(bytes) <= threshold.admit && room.fits(sums.shared, bytes) {
                            after.shared += bytes;
                            after.off |= u64::from(after.shared) >= threshold.xoff;
                            Verdict::Keep(Segment::Shared)
                        } else {
                            after.off = true;
                            let has_room = sums.headroom + u64::from(bytes) <= headroom.bytes;
                            if after.headroom + bytes <= limit && has_room {
                                after.headroom += bytes;
                                Verdict::Keep(Segment::Headroom)
                            } else {
                                short |= !has_room;
                                Verdict::Drop(DropReason::HeadroomViolation)
                            }
                        }
                    };
                    sums.count(*verdict, bytes);
                    if let Some(filter) = terms.rules.low_pass {
                        average = filter.step(average, u64::from(after.shared));
                    }
                }
                // Not to be installed: it is done again with a reservation.
                if short && !headroom.asked { levels } else { after }
            });
            match terms.headroom {
                Some(pool) if short && !headroom.asked => {
                    headroom = HeadroomGrant { bytes: pool.reserve(total(run)).bytes, asked: true };
                }
                _ => break change,
            }
        };
        if let Some(pool) = terms.headroom.filter(|_| headroom.asked) {
            pool.give_back(headroom.bytes - sums.headroom);
            pool.note_level(pool.level().used);
        }
        queue.average.advance(average_before, average);
        if change.went_off() {
            self.note_turn(id, true);
        }
        self.settle(terms, writer, run, verdicts, view, change.after, average, sums, room);
        if change.went_off() { id.class().alone() } else { ClassSet::EMPTY }
    }

    /// Packets of one lossless ingress queue under port-level flow control (dsh IV-E): shared up to the port's
    /// threshold, then insurance headroom, which pauses the whole port.
    ///
    /// The port is charged before the queue, and released after it, so it never has less than its queues.
    fn admit_by_port(
        &self,
        terms: &Terms<'_>,
        writer: &mut PortWriter,
        run: &[Arrival],
        verdicts: &mut [Verdict],
        room: &mut Room,
    ) -> ClassSet {
        let id = run[0].ingress;
        let (queue, port) = (&*self.ingress[id.index()], &*self.ports[id.port().index()]);
        let mut view = self.announce(terms, writer, run, queue, room);
        let private = queue.private();
        // Others only take from the queue, so what it is counted with here is the most that it can have.
        let before = queue.levels.load();
        let mut sums = Placed::default();
        let port_change = port.levels.update(|levels| {
            let (mut after, mut own) = (levels, before);
            sums = Placed::default();
            for (arrival, verdict) in run.iter().zip(&mut *verdicts) {
                let bytes = arrival.bytes;
                *verdict = if sums.fits_private(queue, private, bytes) {
                    Verdict::Keep(Segment::Private)
                } else {
                    let threshold = self.threshold(terms, &mut view, own, 0, room, sums.shared);
                    let port_threshold = self.policy.port_threshold(id.port(), view.shared_pool);
                    if u64::from(own.shared) + u64::from(bytes) <= threshold.admit
                        && u64::from(after.shared) + u64::from(bytes) <= port_threshold
                        && room.fits(sums.shared, bytes)
                    {
                        own.shared += bytes;
                        after.shared += bytes;
                        after.off |= u64::from(after.shared) >= port_threshold;
                        Verdict::Keep(Segment::Shared)
                    } else {
                        after.off = true;
                        if after.headroom + bytes <= port.insurance {
                            after.headroom += bytes;
                            Verdict::Keep(Segment::Headroom)
                        } else {
                            Verdict::Drop(DropReason::HeadroomViolation)
                        }
                    }
                };
                sums.count(*verdict, bytes);
            }
            after
        });
        let change = queue.levels.update(|levels| {
            let mut after = levels;
            after.shared += sums.shared as u32;
            after.headroom += sums.headroom as u32;
            let threshold = self.threshold(terms, &mut view, after, 0, room, sums.shared);
            // A queue that all went to private buffer has not been compared with anything.
            after.off |= sums.beyond_private && u64::from(after.shared) >= threshold.xoff;
            after
        });
        if change.went_off() {
            self.note_turn(id, true);
        }
        let mut went_off = if change.went_off() { id.class().alone() } else { ClassSet::EMPTY };
        if port_change.went_off() {
            port.changed.mark(port.lossless);
            went_off |= port.lossless;
        }
        self.settle(terms, writer, run, verdicts, view, change.after, 0, sums, room);
        went_off
    }

    /// Packets of one lossy ingress queue to one egress queue.
    #[inline(always)]
    fn admit_lossy(
        &self,
        terms: &Terms<'_>,
        writer: &mut PortWriter,
        run: &[Arrival],
        verdicts: &mut [Verdict],
        room: &mut Room,
    ) {
        let (ingress, egress) = (run[0].ingress, run[0].egress);
        let (queue, egress_queue) = (&*self.ingress[ingress.index()], &*self.egress[egress.index()]);
        let mut view = self.egress_view(terms, egress, egress_queue.length(), room.pool(), room.now);
        let (length, lossy_used) = (view.length, view.egress_lossy_pool.used);
        let lossy_grant = terms.egress_lossy.map(|pool| pool.reserve(total(run)));
        let lossy_room = lossy_grant.map_or(u64::MAX, |grant| grant.bytes);
        let private = queue.private();
        let average_before = terms.rules.filtered(&egress_queue.average);
        let mut average = average_before;
        let mut sums = Placed::default();
        let change = queue.levels.update(|levels| {
            let mut after = levels;
            sums = Placed::default();
            average = average_before;
            for (arrival, verdict) in run.iter().zip(&mut *verdicts) {
                let bytes = arrival.bytes;
                *verdict = if sums.fits_private(queue, private, bytes) {
                    Verdict::Keep(Segment::Private)
                } else {
                    view.length = length + sums.kept();
                    view.average = terms.rules.compared(average, view.length);
                    view.shared_pool.used = room.pool().used + sums.shared;
                    view.egress_lossy_pool.used = lossy_used + sums.shared;
                    let threshold = self.policy.lossy_threshold(&view, terms.rules.lossy_alpha);
                    if view.length + u64::from(bytes) > threshold || sums.shared + u64::from(bytes) > lossy_room {
                        Verdict::Drop(DropReason::EgressThreshold)
                    } else if room.fits(sums.shared, bytes) {
                        after.shared += bytes;
                        Verdict::Keep(Segment::Shared)
                    } else {
                        Verdict::Drop(DropReason::SharedFull)
                    }
                };
                sums.count(*verdict, bytes);
                if let Some(filter) = terms.rules.low_pass {
                    average = filter.step(average, length + sums.kept());
                }
            }
            after
        });
        if let (Some(pool), Some(grant)) = (terms.egress_lossy, lossy_grant) {
            pool.note_level(grant.before.used + sums.shared);
            pool.give_back(grant.bytes - sums.shared);
        }
        egress_queue.average.advance(average_before, average);
        room.used += sums.shared;
        queue.add_private(sums.private);
        if sums.kept() > 0 {
            queue.note_levels(change.after, private + sums.private);
            egress_queue.add(sums.kept());
        }
        if terms.rules.policy_listens {
            view.length = length + sums.kept();
            view.average = terms.rules.compared(average, view.length);
            self.policy.admitted(writer, &view);
        }
    }

    /// Tells the policy what arrives for a lossless ingress queue; returns the queue as the policy sees it.
    #[inline]
    fn announce(
        &self,
        terms: &Terms<'_>,
        writer: &mut PortWriter,
        run: &[Arrival],
        queue: &IngressQueue,
        room: &Room,
    ) -> QueueView {
        let view = self.ingress_view(&terms.rules, run[0].ingress, queue.levels.load(), room.pool(), room.now);
        if terms.rules.policy_listens {
            self.policy.arrive(writer, &view, total(run));
        }
        view
    }

    /// T for a queue in the midst of a run.
    #[inline]
    fn threshold(
        &self,
        terms: &Terms<'_>,
        view: &mut QueueView,
        levels: Levels,
        average: u64,
        room: &Room,
        placed: u64,
    ) -> Threshold {
        bring_up_to_date(&terms.rules, view, levels, average);
        view.shared_pool.used = room.pool().used + placed;
        self.policy.threshold(view)
    }

    /// What is left to do when a run of lossless packets has been placed.
    #[inline]
    #[expect(clippy::too_many_arguments, reason = "the state of a run, taken apart so that it stays in registers")]
    fn settle(
        &self,
        terms: &Terms<'_>,
        writer: &mut PortWriter,
        run: &[Arrival],
        verdicts: &[Verdict],
        mut view: QueueView,
        after: Levels,
        average: u64,
        sums: Placed,
        room: &mut Room,
    ) {
        let queue = &*self.ingress[run[0].ingress.index()];
        room.used += sums.shared;
        queue.add_private(sums.private);
        if sums.kept() > 0 {
            queue.note_levels(after, queue.private());
            self.charge_egress(run, verdicts);
        }
        if terms.rules.policy_listens {
            bring_up_to_date(&terms.rules, &mut view, after, average);
            self.policy.admitted(writer, &view);
        }
    }

    /// Adds kept packets to their egress queues.
    #[inline]
    fn charge_egress(&self, run: &[Arrival], verdicts: &[Verdict]) {
        if let ([arrival], [verdict]) = (run, verdicts) {
            // One alone needs no sums.
            if matches!(verdict, Verdict::Keep(_)) {
                self.egress[arrival.egress.index()].add(u64::from(arrival.bytes));
            }
            return;
        }
        let mut tally = Tally::new();
        let charge = |queue: QueueId, bytes| self.egress[queue.index()].add(bytes);
        for (arrival, verdict) in run.iter().zip(verdicts) {
            if matches!(verdict, Verdict::Keep(_)) {
                tally.add(arrival.egress, u64::from(arrival.bytes), charge);
            }
        }
        tally.drain(charge);
    }

    /// Brings an ON queue's Φ to what the policy wants it to be; the shared segment gets or gives the difference.
    ///
    /// On the lcore that admits, so that nothing takes headroom meanwhile.
    fn adapt_headroom(&self, id: QueueId) {
        let queue = &*self.ingress[id.index()];
        let levels = queue.levels.load();
        let wanted = self.policy.headroom(id).get().min(u64::from(queue.limits.headroom)) as u32;
        let limit = queue.headroom_limit();
        if wanted == limit || !queue.limits.lossless || levels.off || levels.headroom > 0 {
            return;
        }
        if wanted < limit {
            queue.set_headroom_limit(wanted);
            self.shared.gain(u64::from(limit - wanted));
        } else {
            let ceded = self.shared.cede(u64::from(wanted - limit)) as u32;
            queue.set_headroom_limit(limit + ceded);
        }
    }
}

/// Tells a view what a run has made of its queue so far.
#[inline]
fn bring_up_to_date(rules: &Rules, view: &mut QueueView, levels: Levels, average: u64) {
    view.length = u64::from(levels.shared);
    view.average = rules.compared(average, view.length);
    view.headroom = u64::from(levels.headroom);
    view.off = levels.off;
}

/// What of the shared segment a burst may use, and has.
struct Room {
    before: PoolLevel,
    granted: u64,
    used: u64,
    now: Time,
}

impl Room {
    fn of(grant: Grant, now: Time) -> Room {
        Room { before: grant.before, granted: grant.bytes, used: 0, now }
    }

    /// The shared segment with what the burst has placed so far.
    #[inline]
    fn pool(&self) -> PoolLevel {
        PoolLevel { used: self.before.used + self.used, ..self.before }
    }

    /// Whether the segment has room for a packet, when the run has placed this much.
    #[inline]
    fn fits(&self, placed: u64, bytes: u32) -> bool {
        self.used + placed + u64::from(bytes) <= self.granted
    }
}

/// What of a headroom pool a run may use. `asked`: it has what it can get.
struct HeadroomGrant {
    bytes: u64,
    asked: bool,
}

/// Bytes that a run has taken so far.
#[derive(Clone, Copy, Default)]
struct Placed {
    private: u32,
    shared: u64,
    headroom: u64,
    /// Whether a packet did not fit private buffer.
    beyond_private: bool,
}

impl Placed {
    #[inline]
    fn fits_private(&self, queue: &IngressQueue, private: u32, bytes: u32) -> bool {
        private + self.private + bytes <= queue.limits.private
    }

    #[inline]
    fn count(&mut self, verdict: Verdict, bytes: u32) {
        self.beyond_private |= verdict != Verdict::Keep(Segment::Private);
        match verdict {
            Verdict::Keep(Segment::Private) => self.private += bytes,
            Verdict::Keep(Segment::Shared) => self.shared += u64::from(bytes),
            Verdict::Keep(Segment::Headroom) => self.headroom += u64::from(bytes),
            Verdict::Drop(_) => {}
        }
    }

    #[inline]
    fn kept(&self) -> u64 {
        u64::from(self.private) + self.shared + self.headroom
    }
}
