//! Admission: places arrivals by the rule of [`placement`](super::placement), and charges the admitted ones.

use weir_units::{Alpha, Bytes, ClassSet, QueueId, Time, bits};

use super::intake::{INTAKE_MAX, Intake, mask};
use super::placement::{Asking, LosslessQueue, LossyQueue, PausedPort, Placed, Room, bring_up_to_date, place};
use super::whole::Sums;
use super::{Arrival, DropReason, Mmu, Terms, Verdict, total};
use crate::levels::Levels;
use crate::one_writer::PortWriter;
use crate::policy::QueueView;

impl Mmu {
    /// Places or refuses each arrival and stores its verdict. For callers without an [`Intake`]; others use [`Mmu::admit_burst`].
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
        let mut intake = Intake::new();
        let bursts = arrivals.chunks(INTAKE_MAX).zip(verdicts.chunks_mut(INTAKE_MAX));
        bursts.fold(ClassSet::EMPTY, |went_off, (arrivals, verdicts)| {
            // Frame lengths are for the transmitter only.
            arrivals.iter().for_each(|arrival| intake.push(*arrival, 0));
            let went_off = went_off | self.admit_burst(writer, now, &mut intake);
            verdicts.iter_mut().enumerate().for_each(|(n, verdict)| *verdict = intake.verdict(n));
            intake.clear();
            went_off
        })
    }

    /// Places or refuses each packet of a burst, all of the writer's port; the intake holds the verdicts. Returns the classes that went
    /// OFF.
    ///
    /// Reserves the shared bytes of the whole burst first and returns unused ones afterwards, so that concurrent lcores never overcommit
    /// the segment.
    #[inline]
    pub fn admit_burst(&self, writer: &mut PortWriter, now: Time, intake: &mut Intake) -> ClassSet {
        intake.whole = 0;
        if self.rules.is_plain {
            self.admit_bundles(&self.plain_terms(), writer, now, intake)
        } else {
            self.admit_bundles_by_all_terms(writer, now, intake)
        }
    }

    #[inline(never)]
    fn admit_bundles_by_all_terms(&self, writer: &mut PortWriter, now: Time, intake: &mut Intake) -> ClassSet {
        if self.rules.adapts_headroom {
            intake.bundles().iter().for_each(|bundle| self.adapt_headroom(bundle.ingress));
        }
        self.admit_bundles(&self.terms(), writer, now, intake)
    }

    #[inline(always)]
    fn admit_bundles(&self, terms: &Terms<'_>, writer: &mut PortWriter, now: Time, intake: &mut Intake) -> ClassSet {
        let bytes = intake.bundles().iter().map(|bundle| u64::from(bundle.bytes)).sum();
        let mut room = Room::of(self.shared.reserve(bytes), now, self.lossy_alpha.get());
        let may_be_together = terms.rules.is_plain && terms.rules.may_be_whole && intake.bundles().len() > 1;
        if may_be_together && self.keep_burst(writer, intake, &mut room) {
            self.leave(&room);
            return ClassSet::EMPTY;
        }
        let mut went_off = ClassSet::EMPTY;
        let mut left = mask(intake.bundles().len());
        while left != 0 {
            let group = self.group(intake.bundles(), left);
            left &= !group;
            went_off |= self.admit_group(terms, writer, intake, group, &mut room);
        }
        self.leave(&room);
        went_off
    }

    /// Places packets of some bundles of one ingress queue, and for lossy packets of one egress queue. Returns the queue's class if it went
    /// OFF.
    #[inline(always)]
    fn admit_group(
        &self,
        terms: &Terms<'_>,
        writer: &mut PortWriter,
        intake: &mut Intake,
        group: u64,
        room: &mut Room,
    ) -> ClassSet {
        let sums = Sums::of(intake.bundles(), group);
        debug_assert_eq!(sums.ingress.port(), writer.port(), "a packet of another port");
        let lossless = self.ingress[sums.ingress.index()].limits.lossless;
        let view = lossless.then(|| self.announce(terms, writer, sums.ingress, sums.bytes, room));
        let segment = match view {
            _ if !terms.rules.may_be_whole => None,
            Some(view) => self.keep_lossless(terms, writer, intake, &sums, view, room),
            None => self.keep_lossy(terms, writer, intake, &sums, room),
        };
        let Some(segment) = segment else { return self.admit_each(terms, writer, intake, group, view, room) };
        intake.whole |= group;
        for n in bits(group) {
            intake.segments[n] = segment;
            if lossless {
                let bundle = &intake.bundles()[n];
                self.egress[bundle.egress.index()].add(u64::from(bundle.bytes));
            }
        }
        ClassSet::EMPTY
    }

    #[inline(never)]
    fn admit_each(
        &self,
        terms: &Terms<'_>,
        writer: &mut PortWriter,
        intake: &mut Intake,
        group: u64,
        view: Option<QueueView>,
        room: &mut Room,
    ) -> ClassSet {
        let packets = intake.packets_of(group);
        let mut decided = [Verdict::Drop(DropReason::SharedFull); INTAKE_MAX];
        let decided = &mut decided[..packets.run.len()];
        let went_off = self.admit_run(terms, writer, &packets.run, decided, view, room);
        for (place, verdict) in packets.places.iter().zip(decided) {
            intake.verdicts[usize::from(*place)] = *verdict;
        }
        went_off
    }

    /// Places or refuses one arrival. Returns its class if the queue went OFF.
    #[inline]
    pub fn admit_one(&self, writer: &mut PortWriter, now: Time, arrival: &Arrival) -> (Verdict, ClassSet) {
        self.admit_by(writer, now, arrival, self.lossy_alpha.get())
    }

    /// Places or refuses one arrival as [`Mmu::admit_one`] does. An unscheduled packet of a lossy class uses the α of
    /// [`Mmu::with_unscheduled_alpha`].
    #[inline]
    pub fn admit_either(
        &self,
        writer: &mut PortWriter,
        now: Time,
        arrival: &Arrival,
        is_unscheduled: bool,
    ) -> (Verdict, ClassSet) {
        let own = self.unscheduled_alpha.filter(|_| is_unscheduled);
        self.admit_by(writer, now, arrival, own.unwrap_or_else(|| self.lossy_alpha.get()))
    }

    #[inline(always)]
    fn admit_by(
        &self,
        writer: &mut PortWriter,
        now: Time,
        arrival: &Arrival,
        lossy_alpha: Alpha,
    ) -> (Verdict, ClassSet) {
        if self.rules.adapts_headroom {
            self.adapt_headroom(arrival.ingress);
        }
        let mut room = Room::of(self.shared.reserve(u64::from(arrival.bytes)), now, lossy_alpha);
        let mut verdicts = [Verdict::Drop(DropReason::SharedFull)];
        let went_off = if self.rules.is_plain {
            self.admit_alone(&self.plain_terms(), writer, arrival, &mut verdicts, &mut room)
        } else {
            self.admit_alone_by_all_terms(writer, arrival, &mut verdicts, &mut room)
        };
        self.leave(&room);
        (verdicts[0], went_off)
    }

    #[inline(never)]
    fn admit_alone_by_all_terms(
        &self,
        writer: &mut PortWriter,
        arrival: &Arrival,
        verdicts: &mut [Verdict; 1],
        room: &mut Room,
    ) -> ClassSet {
        self.admit_alone(&self.terms(), writer, arrival, verdicts, room)
    }

    #[inline(always)]
    fn admit_alone(
        &self,
        terms: &Terms<'_>,
        writer: &mut PortWriter,
        arrival: &Arrival,
        verdicts: &mut [Verdict; 1],
        room: &mut Room,
    ) -> ClassSet {
        let Arrival { ingress, bytes, .. } = *arrival;
        let lossless = self.ingress[ingress.index()].limits.lossless;
        let view = lossless.then(|| self.announce(terms, writer, ingress, u64::from(bytes), room));
        self.admit_run(terms, writer, std::slice::from_ref(arrival), verdicts, view, room)
    }

    /// Gives the unused part of a burst's reservation back.
    #[inline]
    fn leave(&self, room: &Room) {
        self.shared.note_level(room.pool().used);
        self.shared.give_back(room.granted - room.used);
    }

    /// Places packets of one ingress queue individually, and for lossy packets of one egress queue; `view` is a lossless queue's. Returns
    /// the queue's class if it went OFF.
    // Always: inlining for a single packet drops the loops over packets.
    #[inline(always)]
    fn admit_run(
        &self,
        terms: &Terms<'_>,
        writer: &mut PortWriter,
        run: &[Arrival],
        verdicts: &mut [Verdict],
        view: Option<QueueView>,
        room: &mut Room,
    ) -> ClassSet {
        debug_assert_eq!(run[0].ingress.port(), writer.port(), "a packet of another port");
        match view {
            None => {
                self.admit_lossy(terms, writer, run, verdicts, room);
                ClassSet::EMPTY
            }
            Some(view) if terms.rules.port_xon_offset.is_some() => {
                self.admit_by_port(terms, writer, run, verdicts, view, room)
            }
            Some(view) => self.admit_lossless(terms, writer, run, verdicts, view, room),
        }
    }

    #[inline(always)]
    fn admit_lossless(
        &self,
        terms: &Terms<'_>,
        writer: &mut PortWriter,
        run: &[Arrival],
        verdicts: &mut [Verdict],
        mut view: QueueView,
        room: &mut Room,
    ) -> ClassSet {
        let id = run[0].ingress;
        let queue = &*self.ingress[id.index()];
        let (private, headroom_limit) = (queue.private(), queue.headroom_limit());
        let average_before = terms.rules.filtered(&queue.average);
        let mut average = average_before;
        let mut sums = Placed::default();
        // Where headroom is a pool, a part is reserved only when a packet turns out to need it.
        let mut headroom = HeadroomGrant {
            bytes: if terms.headroom.is_some() { 0 } else { u64::MAX },
            asked: terms.headroom.is_none(),
        };
        let asking = Asking { mmu: self, terms, room };
        let change = loop {
            let mut is_short = false;
            let change = queue.levels.update(|levels| {
                let mut segments = LosslessQueue {
                    asking,
                    view: &mut view,
                    levels,
                    average: average_before,
                    headroom_limit,
                    headroom_granted: headroom.bytes,
                    is_short: false,
                };
                sums = place(run, verdicts, queue, private, &mut segments);
                (average, is_short) = (segments.average, segments.is_short);
                // Not installed: it is repeated with a reservation.
                if is_short && !headroom.asked { levels } else { segments.levels }
            });
            match terms.headroom {
                Some(pool) if is_short && !headroom.asked => {
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
            self.note_turn(id, true, room.now);
        }
        self.settle(terms, writer, run, verdicts, view, change.after, average, sums, room);
        if change.went_off() { id.class().alone() } else { ClassSet::EMPTY }
    }

    /// Places packets of one lossless ingress queue under port-level flow control.
    ///
    /// The port is charged before the queue, and released after it, so that its levels never fall below the sum of its queues.
    fn admit_by_port(
        &self,
        terms: &Terms<'_>,
        writer: &mut PortWriter,
        run: &[Arrival],
        verdicts: &mut [Verdict],
        mut view: QueueView,
        room: &mut Room,
    ) -> ClassSet {
        let id = run[0].ingress;
        let (queue, port) = (&*self.ingress[id.index()], &*self.ports[id.port().index()]);
        let private = queue.private();
        // Other lcores only take from the queue, so the loaded length is its maximum.
        let before = queue.levels.load();
        let mut sums = Placed::default();
        let asking = Asking { mmu: self, terms, room };
        let port_change = port.levels.update(|levels| {
            let (port, insurance) = (id.port(), port.insurance);
            let mut segments = PausedPort { asking, view: &mut view, own: before, port, levels, insurance };
            sums = place(run, verdicts, queue, private, &mut segments);
            segments.levels
        });
        let change = queue.levels.update(|levels| {
            let mut after = levels;
            after.shared += sums.shared as u32;
            after.headroom += sums.headroom as u32;
            let threshold = asking.threshold(&mut view, after, 0, sums.shared);
            // A run that fits private buffer is not compared with the threshold.
            after.off |= sums.beyond_private && u64::from(after.shared) >= threshold.xoff;
            after
        });
        if change.went_off() {
            self.note_turn(id, true, room.now);
        }
        let mut went_off = if change.went_off() { id.class().alone() } else { ClassSet::EMPTY };
        if port_change.went_off() {
            port.off_at.set(room.now);
            port.changed.mark(port.lossless);
            went_off |= port.lossless;
        }
        self.settle(terms, writer, run, verdicts, view, change.after, 0, sums, room);
        went_off
    }

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
        let (queue, egress_queue) = (&*self.ingress[ingress.index()], &self.egress[egress.index()]);
        let mut view = self.egress_view(terms, egress, egress_queue.length(), room.pool(), room.now);
        let (length, lossy_used) = (view.length, view.egress_lossy_pool.used);
        let lossy_grant = terms.egress_lossy.map(|pool| pool.reserve(total(run)));
        let lossy_granted = lossy_grant.map_or(u64::MAX, |grant| grant.bytes);
        let private = queue.private();
        let average_before = terms.rules.filtered(&egress_queue.average);
        let mut average_after = average_before;
        let mut sums = Placed::default();
        let asking = Asking { mmu: self, terms, room };
        let change = queue.levels.update(|levels| {
            let (view, average) = (&mut view, average_before);
            let mut segments = LossyQueue { asking, view, levels, average, length, lossy_used, lossy_granted };
            sums = place(run, verdicts, queue, private, &mut segments);
            average_after = segments.average;
            segments.levels
        });
        if let (Some(pool), Some(grant)) = (terms.egress_lossy, lossy_grant) {
            pool.note_level(grant.before.used + sums.shared);
            pool.give_back(grant.bytes - sums.shared);
        }
        egress_queue.average.advance(average_before, average_after);
        room.used += sums.shared;
        queue.add_private(sums.private);
        if sums.kept() > 0 {
            queue.note_levels(change.after, private + sums.private);
            egress_queue.add(sums.kept());
        }
        if terms.rules.policy_listens {
            view.length = length + sums.kept();
            view.average = terms.rules.compared(average_after, view.length);
            self.policy.admitted(writer, &view);
        }
    }

    /// Reports an arrival for a lossless ingress queue to the policy; returns the policy's view of the queue.
    #[inline]
    fn announce(
        &self,
        terms: &Terms<'_>,
        writer: &mut PortWriter,
        ingress: QueueId,
        bytes: u64,
        room: &Room,
    ) -> QueueView {
        let levels = self.ingress[ingress.index()].levels.load();
        let view = self.ingress_view(&terms.rules, ingress, levels, room.pool(), room.now);
        if terms.rules.policy_listens {
            self.policy.arrive(writer, &view, bytes);
        }
        view
    }

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

    #[inline]
    fn charge_egress(&self, run: &[Arrival], verdicts: &[Verdict]) {
        if let ([arrival], [verdict]) = (run, verdicts) {
            // A single packet needs no sums.
            if matches!(verdict, Verdict::Keep(_)) {
                self.egress[arrival.egress.index()].add(u64::from(arrival.bytes));
            }
            return;
        }
        let kept = |(_, verdict): &(&Arrival, &Verdict)| matches!(verdict, Verdict::Keep(_));
        for (arrival, _) in run.iter().zip(verdicts).filter(kept) {
            self.egress[arrival.egress.index()].add(u64::from(arrival.bytes));
        }
    }

    /// Sets an ON queue's Φ to the policy's value; the shared segment gains or cedes the difference, in bytes of the buffer.
    ///
    /// Runs on the lcore that admits, so that no packet takes headroom meanwhile.
    fn adapt_headroom(&self, id: QueueId) {
        let queue = &*self.ingress[id.index()];
        let levels = queue.levels.load();
        let most = u64::from(queue.limits.headroom);
        let wanted = self.layout.in_headroom(self.policy.headroom(id)).get().min(most) as u32;
        let limit = queue.headroom_limit();
        if wanted == limit || !queue.limits.lossless || levels.off || levels.headroom > 0 {
            return;
        }
        let of_buffer = |charges: u32| self.layout.of_headroom(Bytes::new(u64::from(charges))).get();
        if wanted < limit {
            queue.set_headroom_limit(wanted);
            self.shared.gain(of_buffer(limit - wanted));
        } else {
            let ceded = Bytes::new(self.shared.cede(of_buffer(wanted - limit)));
            queue.set_headroom_limit(limit + self.layout.in_headroom(ceded).get() as u32);
        }
    }
}

/// Budget of a run in a headroom pool. `asked`: the reservation was made.
struct HeadroomGrant {
    bytes: u64,
    asked: bool,
}
