//! Admission: places arrivals by the rule of [`placement`](super::placement), and charges the admitted ones.

use weir_units::{Alpha, Bytes, ClassSet, QueueId, Time, bits};

use super::bulk::BulkRequest;
use super::burst_request::{BURST_REQUEST_MAX, BurstRequest, mask};
use super::placement::{
    LosslessQueue, LossyQueue, PausedPort, PlacedBytes, PlacementRun, ThresholdQuery, UniformRun, bring_up_to_date,
};
use super::shared_budget::SharedBudget;
use super::{Admission, BufferRequest, ChargeContext, DropReason, Mmu};
use crate::occupancy::Occupancy;
use crate::policy::QueueView;
use crate::single_writer::PortWriter;

impl Mmu {
    /// Places or refuses each arrival and stores its verdict. Returns the classes that went OFF. For callers without a [`BurstRequest`]; others use [`Mmu::admit_burst`].
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn admit(
        &self,
        writer: &mut PortWriter,
        now: Time,
        arrivals: &[BufferRequest],
        verdicts: &mut [Admission],
    ) -> ClassSet {
        assert_eq!(arrivals.len(), verdicts.len(), "a verdict for each arrival");
        if let ([arrival], [verdict]) = (arrivals, &mut *verdicts) {
            let went_off;
            (*verdict, went_off) = self.admit_one(writer, now, arrival);
            return went_off;
        }
        let mut burst = BurstRequest::new();
        let bursts = arrivals.chunks(BURST_REQUEST_MAX).zip(verdicts.chunks_mut(BURST_REQUEST_MAX));
        bursts.fold(ClassSet::EMPTY, |went_off, (arrivals, verdicts)| {
            // Frame lengths are for the transmitter only.
            arrivals.iter().for_each(|arrival| burst.push(*arrival, 0));
            let went_off = went_off | self.admit_burst(writer, now, &mut burst);
            verdicts.iter_mut().enumerate().for_each(|(n, verdict)| *verdict = burst.verdict(n));
            burst.clear();
            went_off
        })
    }

    /// Places or refuses each packet of a burst, all of the writer's port; `burst` holds the verdicts. Returns the classes that went
    /// OFF.
    ///
    /// Reserves the shared bytes of the whole burst first and returns unused ones afterwards, so that concurrent lcores never overcommit
    /// the segment.
    #[inline]
    pub fn admit_burst(&self, writer: &mut PortWriter, now: Time, burst: &mut BurstRequest) -> ClassSet {
        (burst.bulk_admitted, burst.admitted) = (0, 0);
        if self.flags.is_plain {
            self.admit_routes(&self.plain_context(), writer, now, burst)
        } else {
            self.admit_routes_general(writer, now, burst)
        }
    }

    #[inline(never)]
    fn admit_routes_general(&self, writer: &mut PortWriter, now: Time, burst: &mut BurstRequest) -> ClassSet {
        if self.flags.is_special {
            if self.has_slices() {
                return self.admit_burst_to_slice(writer, now, burst);
            }
            burst.routes().iter().for_each(|route| self.adapt_headroom(route.ingress));
        }
        self.admit_routes(&self.context(), writer, now, burst)
    }

    #[inline(always)]
    fn admit_routes(
        &self,
        context: &ChargeContext<'_>,
        writer: &mut PortWriter,
        now: Time,
        burst: &mut BurstRequest,
    ) -> ClassSet {
        let bytes = burst.routes().iter().map(|route| u64::from(route.bytes)).sum();
        let mut budget = SharedBudget::from_grant(self.shared.reserve(bytes), now, self.lossy_alpha.get());
        let may_be_together = context.flags.is_plain && context.flags.may_admit_bulk && burst.routes().len() > 1;
        if may_be_together && self.admit_bulk_burst(writer, burst, bytes, &mut budget) {
            self.release_unused(&budget);
            return ClassSet::EMPTY;
        }
        let mut went_off = ClassSet::EMPTY;
        let mut left = mask(burst.routes().len());
        while left != 0 {
            let group = self.group(burst.routes(), left);
            left &= !group;
            went_off |= self.admit_group(context, writer, burst, group, &mut budget);
        }
        self.release_unused(&budget);
        went_off
    }

    /// Places the packets of a group of routes: of one ingress queue, and for lossy packets of one egress queue. Returns the queue's class
    /// if it went OFF.
    #[inline(always)]
    fn admit_group(
        &self,
        context: &ChargeContext<'_>,
        writer: &mut PortWriter,
        burst: &mut BurstRequest,
        group: u64,
        budget: &mut SharedBudget,
    ) -> ClassSet {
        let request = BulkRequest::new(burst.routes(), group);
        debug_assert_eq!(request.ingress.port(), writer.port(), "a packet of another port");
        let lossless = self.ingress[request.ingress.index()].limits.lossless;
        let view = lossless.then(|| self.observe_arrival(context, writer, request.ingress, request.bytes, budget));
        let segment = match view {
            _ if !context.flags.may_admit_bulk => None,
            Some(view) => self.admit_bulk_lossless(context, writer, burst, &request, view, budget),
            None => self.admit_bulk_lossy(context, writer, burst, &request, budget),
        };
        let Some(segment) = segment else { return self.admit_each(context, writer, burst, &request, view, budget) };
        burst.bulk_admitted |= group;
        burst.admitted |= group;
        for n in bits(group) {
            burst.segments[n] = segment;
            if lossless {
                let route = &burst.routes()[n];
                self.egress[route.egress.index()].add(u64::from(route.bytes));
            }
        }
        ClassSet::EMPTY
    }

    #[inline(never)]
    fn admit_each(
        &self,
        context: &ChargeContext<'_>,
        writer: &mut PortWriter,
        burst: &mut BurstRequest,
        request: &BulkRequest,
        view: Option<QueueView>,
        budget: &mut SharedBudget,
    ) -> ClassSet {
        let members = burst.members_of(request.group);
        let mut decided = [Admission::Drop(DropReason::SharedFull); BURST_REQUEST_MAX];
        let decided = &mut decided[..members.count_ones() as usize];
        let may_be_together = context.flags.may_admit_bulk && context.flags.low_pass.is_none();
        let uniform = if may_be_together { UniformRun::new(burst, request) } else { None };
        let went_off = match uniform {
            Some(run) => self.admit_run(context, writer, &run, decided, view, budget),
            None => self.admit_run(context, writer, &burst.packets_of(request.group)[..], decided, view, budget),
        };
        if decided.iter().all(|verdict| matches!(verdict, Admission::Admit(_))) {
            burst.admitted |= request.group;
        }
        if members == mask(decided.len()) {
            burst.verdicts[..decided.len()].copy_from_slice(decided);
        } else {
            bits(members).zip(decided).for_each(|(n, verdict)| burst.verdicts[n % BURST_REQUEST_MAX] = *verdict);
        }
        went_off
    }

    /// Places or refuses one arrival. Returns its class if the queue went OFF.
    #[inline]
    pub fn admit_one(&self, writer: &mut PortWriter, now: Time, arrival: &BufferRequest) -> (Admission, ClassSet) {
        self.admit_with_alpha(writer, now, arrival, self.lossy_alpha.get())
    }

    /// Places or refuses one arrival as [`Mmu::admit_one`] does. An unscheduled packet of a lossy class uses the α of
    /// [`Mmu::with_unscheduled_alpha`].
    #[inline]
    pub fn admit_either(
        &self,
        writer: &mut PortWriter,
        now: Time,
        arrival: &BufferRequest,
        is_unscheduled: bool,
    ) -> (Admission, ClassSet) {
        let own = self.unscheduled_alpha.filter(|_| is_unscheduled);
        self.admit_with_alpha(writer, now, arrival, own.unwrap_or_else(|| self.lossy_alpha.get()))
    }

    #[inline(always)]
    pub(super) fn admit_with_alpha(
        &self,
        writer: &mut PortWriter,
        now: Time,
        arrival: &BufferRequest,
        lossy_alpha: Alpha,
    ) -> (Admission, ClassSet) {
        if self.flags.is_special {
            if self.has_slices() {
                return self.admit_to_slice(writer, now, arrival, lossy_alpha);
            }
            self.adapt_headroom(arrival.ingress);
        }
        let mut budget = SharedBudget::from_grant(self.shared.reserve(u64::from(arrival.bytes)), now, lossy_alpha);
        let mut verdicts = [Admission::Drop(DropReason::SharedFull)];
        let went_off = if self.flags.is_plain {
            self.admit_alone(&self.plain_context(), writer, arrival, &mut verdicts, &mut budget)
        } else {
            self.admit_alone_general(writer, arrival, &mut verdicts, &mut budget)
        };
        self.release_unused(&budget);
        (verdicts[0], went_off)
    }

    #[inline(never)]
    fn admit_alone_general(
        &self,
        writer: &mut PortWriter,
        arrival: &BufferRequest,
        verdicts: &mut [Admission; 1],
        budget: &mut SharedBudget,
    ) -> ClassSet {
        self.admit_alone(&self.context(), writer, arrival, verdicts, budget)
    }

    #[inline(always)]
    fn admit_alone(
        &self,
        context: &ChargeContext<'_>,
        writer: &mut PortWriter,
        arrival: &BufferRequest,
        verdicts: &mut [Admission; 1],
        budget: &mut SharedBudget,
    ) -> ClassSet {
        let BufferRequest { ingress, bytes, .. } = *arrival;
        let lossless = self.ingress[ingress.index()].limits.lossless;
        let view = lossless.then(|| self.observe_arrival(context, writer, ingress, u64::from(bytes), budget));
        self.admit_run(context, writer, std::slice::from_ref(arrival), verdicts, view, budget)
    }

    /// Gives the unused part of a burst's reservation back.
    #[inline]
    fn release_unused(&self, budget: &SharedBudget) {
        self.shared.note_level(budget.pool().used);
        self.shared.release(budget.granted - budget.used);
    }

    /// Places packets of one ingress queue individually, and for lossy packets of one egress queue; `view` is a lossless queue's. Returns
    /// the queue's class if it went OFF.
    // Always: inlining for a single packet drops the loops over packets.
    #[inline(always)]
    fn admit_run(
        &self,
        context: &ChargeContext<'_>,
        writer: &mut PortWriter,
        run: &(impl PlacementRun + ?Sized),
        verdicts: &mut [Admission],
        view: Option<QueueView>,
        budget: &mut SharedBudget,
    ) -> ClassSet {
        debug_assert_eq!(run.ingress().port(), writer.port(), "a packet of another port");
        match view {
            None => {
                self.admit_lossy(context, writer, run, verdicts, budget);
                ClassSet::EMPTY
            }
            Some(view) if context.flags.port_xon_offset.is_some() => {
                self.admit_under_port_control(context, writer, run, verdicts, view, budget)
            }
            Some(view) => self.admit_lossless(context, writer, run, verdicts, view, budget),
        }
    }

    #[inline(always)]
    fn admit_lossless(
        &self,
        context: &ChargeContext<'_>,
        writer: &mut PortWriter,
        run: &(impl PlacementRun + ?Sized),
        verdicts: &mut [Admission],
        mut view: QueueView,
        budget: &mut SharedBudget,
    ) -> ClassSet {
        let id = run.ingress();
        let queue = &*self.ingress[id.index()];
        if context.flags.lends_headroom {
            self.note_lending_time(id, budget.now);
        }
        let (private, headroom_limit) = (queue.private(), queue.headroom_limit());
        let average_before = context.flags.filtered(&queue.average);
        let mut average = average_before;
        let mut placed = PlacedBytes::default();
        // Where headroom is a pool, a part is reserved only when a packet turns out to need it.
        let mut headroom = HeadroomGrant {
            bytes: if context.headroom.is_some() { 0 } else { u64::MAX },
            is_reserved: context.headroom.is_none(),
        };
        let query = ThresholdQuery { mmu: self, context, budget };
        let change = loop {
            let mut is_short = false;
            let change = queue.occupancy.update(|occupancy| {
                let mut segments = LosslessQueue {
                    query,
                    view: &mut view,
                    occupancy,
                    average: average_before,
                    headroom_limit,
                    headroom_granted: headroom.bytes,
                    is_short: false,
                };
                placed = run.place(verdicts, queue, private, &mut segments);
                (average, is_short) = (segments.average, segments.is_short);
                // Not installed: it is repeated with a reservation.
                if is_short && !headroom.is_reserved { occupancy } else { segments.occupancy }
            });
            match context.headroom {
                Some(pool) if is_short && !headroom.is_reserved => {
                    headroom = HeadroomGrant { bytes: pool.reserve(run.bytes()).bytes, is_reserved: true };
                }
                _ => break change,
            }
        };
        if let Some(pool) = context.headroom.filter(|_| headroom.is_reserved) {
            pool.release(headroom.bytes - placed.headroom);
            pool.note_level(pool.level().used);
        }
        if context.flags.lends_headroom && change.after.lent {
            // Of the reservation, which the shared segment thereby loses.
            let taken = self.headroom_difference(change);
            self.shared.cede_reserved(taken);
            budget.granted -= taken;
        }
        queue.average.advance(average_before, average);
        if change.went_off() {
            self.note_transition(id, true, budget.now);
        }
        self.finish_run(context, writer, run, verdicts, view, change.after, average, placed, budget);
        if change.went_off() { id.class().alone() } else { ClassSet::EMPTY }
    }

    /// Places packets of one lossless ingress queue under port-level flow control.
    ///
    /// The port is charged before the queue, and released after it, so that its occupancy never falls below the sum of its queues.
    fn admit_under_port_control(
        &self,
        context: &ChargeContext<'_>,
        writer: &mut PortWriter,
        run: &(impl PlacementRun + ?Sized),
        verdicts: &mut [Admission],
        mut view: QueueView,
        budget: &mut SharedBudget,
    ) -> ClassSet {
        let id = run.ingress();
        let (queue, port) = (&*self.ingress[id.index()], &*self.ports[id.port().index()]);
        let private = queue.private();
        // Other lcores only take from the queue, so the loaded length is its maximum.
        let before = queue.occupancy.load();
        let mut placed = PlacedBytes::default();
        let query = ThresholdQuery { mmu: self, context, budget };
        let port_change = port.occupancy.update(|occupancy| {
            let (port, insurance) = (id.port(), port.insurance);
            let mut segments = PausedPort { query, view: &mut view, own: before, port, occupancy, insurance };
            placed = run.place(verdicts, queue, private, &mut segments);
            segments.occupancy
        });
        let change = queue.occupancy.update(|occupancy| {
            let mut after = occupancy;
            after.shared += placed.shared as u32;
            after.headroom += placed.headroom as u32;
            let threshold = query.threshold(&mut view, after, 0, placed.shared);
            // A run that fits private buffer is not compared with the threshold.
            after.off |= placed.beyond_private && u64::from(after.shared) >= threshold.xoff;
            after
        });
        if change.went_off() {
            self.note_transition(id, true, budget.now);
        }
        let mut went_off = if change.went_off() { id.class().alone() } else { ClassSet::EMPTY };
        if port_change.went_off() {
            port.off_at.set(budget.now);
            port.changed.mark(port.lossless);
            went_off |= port.lossless;
        }
        self.finish_run(context, writer, run, verdicts, view, change.after, 0, placed, budget);
        went_off
    }

    #[inline(always)]
    fn admit_lossy(
        &self,
        context: &ChargeContext<'_>,
        writer: &mut PortWriter,
        run: &(impl PlacementRun + ?Sized),
        verdicts: &mut [Admission],
        budget: &mut SharedBudget,
    ) {
        let (ingress, egress) = (run.ingress(), run.egress());
        let (queue, egress_queue) = (&*self.ingress[ingress.index()], &self.egress[egress.index()]);
        let mut view = self.egress_view(context, egress, egress_queue.length(), budget.pool(), budget.now);
        let (length, lossy_used) = (view.length, view.egress_lossy_pool.used);
        let lossy_grant = context.egress_lossy.map(|pool| pool.reserve(run.bytes()));
        let lossy_granted = lossy_grant.map_or(u64::MAX, |grant| grant.bytes);
        let private = queue.private();
        let average_before = context.flags.filtered(&egress_queue.average);
        let mut average_after = average_before;
        let mut placed = PlacedBytes::default();
        let query = ThresholdQuery { mmu: self, context, budget };
        let change = queue.occupancy.update(|occupancy| {
            let (view, average) = (&mut view, average_before);
            let mut segments = LossyQueue { query, view, occupancy, average, length, lossy_used, lossy_granted };
            placed = run.place(verdicts, queue, private, &mut segments);
            average_after = segments.average;
            segments.occupancy
        });
        if let (Some(pool), Some(grant)) = (context.egress_lossy, lossy_grant) {
            pool.note_level(grant.before.used + placed.shared);
            pool.release(grant.bytes - placed.shared);
        }
        egress_queue.average.advance(average_before, average_after);
        budget.used += placed.shared;
        queue.add_private(placed.private);
        if placed.admitted() > 0 {
            queue.note_occupancy(change.after, private + placed.private);
            egress_queue.add(placed.admitted());
        }
        if context.flags.observes_packets {
            view.length = length + placed.admitted();
            view.average = context.flags.compared(average_after, view.length);
            self.policy.on_admit(writer, &view);
        }
    }

    /// Reports an arrival for a lossless ingress queue to the policy; returns the policy's view of the queue.
    #[inline]
    fn observe_arrival(
        &self,
        context: &ChargeContext<'_>,
        writer: &mut PortWriter,
        ingress: QueueId,
        bytes: u64,
        budget: &SharedBudget,
    ) -> QueueView {
        let occupancy = self.ingress[ingress.index()].occupancy.load();
        let view = self.ingress_view(&context.flags, ingress, occupancy, budget.pool(), budget.now);
        if context.flags.observes_packets {
            self.policy.on_arrival(writer, &view, bytes);
        }
        view
    }

    #[inline]
    #[expect(clippy::too_many_arguments, reason = "the state of a run, taken apart so that it stays in registers")]
    fn finish_run(
        &self,
        context: &ChargeContext<'_>,
        writer: &mut PortWriter,
        run: &(impl PlacementRun + ?Sized),
        verdicts: &[Admission],
        mut view: QueueView,
        after: Occupancy,
        average: u64,
        placed: PlacedBytes,
        budget: &mut SharedBudget,
    ) {
        let queue = &*self.ingress[run.ingress().index()];
        budget.used += placed.shared;
        queue.add_private(placed.private);
        if placed.admitted() > 0 {
            queue.note_occupancy(after, queue.private());
            run.charge_egress(self, verdicts, &placed);
        }
        if context.flags.observes_packets {
            bring_up_to_date(&context.flags, &mut view, after, average);
            self.policy.on_admit(writer, &view);
        }
    }

    /// Sets an ON queue's Φ to the policy's value; the shared segment gains or cedes the difference, in bytes of the buffer.
    ///
    /// Runs on the lcore that admits, so that no packet takes headroom meanwhile.
    fn adapt_headroom(&self, id: QueueId) {
        let queue = &*self.ingress[id.index()];
        let occupancy = queue.occupancy.load();
        let most = u64::from(queue.limits.headroom);
        let wanted = self.layout.in_headroom(self.policy.headroom(id)).get().min(most) as u32;
        let limit = queue.headroom_limit();
        if wanted == limit || !queue.limits.lossless || occupancy.off || occupancy.headroom > 0 {
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

/// Grant of a run in a headroom pool.
struct HeadroomGrant {
    bytes: u64,
    /// Whether the reservation was made.
    is_reserved: bool,
}
