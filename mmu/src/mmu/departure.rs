//! Departures, and reconsideration of OFF queues.

use std::mem;

use arrayvec::ArrayVec;
use weir_units::{ClassSet, PortId, QueueId, Time, bits};

use super::bulk::BulkRequest;
use super::burst_request::{BURST_REQUEST_MAX as ROUTES_MAX, RouteTotal, mask};
use super::{BufferRelease, ChargeContext, Mmu};
use crate::charge::Charges;
use crate::low_pass::LowPass;
use crate::occupancy::{Occupancy, ReleasedBytes};
use crate::xon::Xon;

impl Mmu {
    /// Releases the charges of sent packets. Each queue costs one update. Under a policy that filters lengths, the order of departures
    /// matters, and each run of a queue's packets costs one update.
    ///
    /// All packets leave first. Then the OFF queues among theirs are checked against the resulting thresholds.
    pub fn release(&self, now: Time, departures: &[BufferRelease]) {
        if let [departure] = departures {
            return self.release_one(now, departure);
        }
        if self.flags.low_pass.is_some() {
            return self.release_in_order(now, departures);
        }
        for departures in departures.chunks(ROUTES_MAX) {
            self.release_routes(now, &routes(departures));
        }
    }

    /// Adds a batch to the packets that [`Mmu::flush_pending_releases`] releases together. Under a policy that filters lengths, releases it
    /// at once.
    #[inline(always)]
    pub fn release_later(&self, now: Time, PendingReleases(routes): &mut PendingReleases, batch: DepartureBatch<'_>) {
        if self.flags.low_pass.is_some() {
            return self.release_batch_in_order(now, batch);
        }
        assert_eq!(batch.ingress.len(), batch.bytes.len(), "the queue of each packet");
        let (mut ingress, mut bytes) = (batch.ingress, batch.bytes);
        while let Some(queue) = ingress.first().copied() {
            let leading_of_queue = leading_of_queue(queue, ingress);
            let (of_queue, others) = bytes.split_at(leading_of_queue);
            let (packets, bytes_of_queue) = (leading_of_queue as u32, of_queue.iter().sum());
            let route =
                RouteTotal { ingress: queue, egress: batch.egress, packets, bytes: bytes_of_queue, frame_bytes: 0 };
            self.add_route(now, routes, route);
            (ingress, bytes) = (&ingress[leading_of_queue..], others);
        }
    }

    /// Releases the packets collected by [`Mmu::release_later`].
    #[inline]
    pub fn flush_pending_releases(&self, now: Time, PendingReleases(routes): &mut PendingReleases) {
        if !routes.is_empty() {
            self.release_routes(now, routes);
            routes.clear();
        }
    }

    /// Returns whether departures must be released in order, one at a time, because the policy filters lengths. [`Mmu::release_sums`] must
    /// not be called then.
    #[inline]
    pub fn releases_in_order(&self) -> bool {
        self.flags.low_pass.is_some()
    }

    /// Releases the charges of sent packets, summed by route.
    ///
    /// # Panics
    /// In debug builds, under a policy for which [the order counts](Mmu::releases_in_order).
    #[inline]
    pub fn release_sums(&self, now: Time, routes: &[RouteTotal]) {
        debug_assert!(!self.releases_in_order());
        self.release_routes(now, routes);
    }

    /// Returns whether packets that left one port may be [released](Mmu::flush_pending_bytes) together with those of other ports. True if
    /// the policy observes no departures and filters no lengths.
    #[inline]
    pub fn may_release_later(&self) -> bool {
        self.flags.is_plain
    }

    /// Creates the memory for packets that [`Mmu::flush_pending_bytes`] releases together.
    pub fn pending_bytes(&self) -> PendingBytes {
        PendingBytes { bytes: vec![0; self.ingress.len()].into(), queues: Vec::with_capacity(self.ingress.len()) }
    }

    /// Removes packets that left one port, summed by route, from its egress queues. Adds them to the packets that
    /// [`Mmu::flush_pending_bytes`] releases together.
    ///
    /// # Panics
    /// In debug builds, if [`Mmu::may_release_later`] is false.
    #[inline(always)]
    pub fn take_out(&self, pending: &mut PendingBytes, routes: &[RouteTotal]) {
        debug_assert!(self.may_release_later());
        if let [route] = routes {
            pending.add(route.ingress, route.bytes);
            self.egress[route.egress.index()].remove(u64::from(route.bytes));
        } else {
            self.take_out_several(pending, routes);
        }
    }

    #[inline(never)]
    fn take_out_several(&self, pending: &mut PendingBytes, routes: &[RouteTotal]) {
        // Neighbours often have the same egress queue.
        let Some((mut left, mut sum)) = routes.first().map(|route| (route.egress, 0)) else { return };
        for RouteTotal { ingress, egress, bytes, .. } in routes {
            pending.add(*ingress, *bytes);
            if *egress != left {
                self.egress[left.index()].remove(mem::take(&mut sum));
                left = *egress;
            }
            sum += u64::from(*bytes);
        }
        self.egress[left.index()].remove(sum);
    }

    /// Releases the packets of [`Mmu::take_out`]. Each ingress queue costs one update, for any number of egress ports.
    #[inline]
    pub fn flush_pending_bytes(&self, now: Time, pending: &mut PendingBytes) {
        if !pending.queues.is_empty() {
            self.release_queues(now, pending);
        }
    }

    #[inline(never)]
    fn release_queues(&self, now: Time, PendingBytes { bytes, queues }: &mut PendingBytes) {
        let (context, mut pool_releases, mut any_off) = (self.plain_context(), PoolReleases::default(), false);
        for queue in &*queues {
            let bytes = mem::take(&mut bytes[queue.index()]);
            // A lossy queue is never OFF and has no headroom, so the lossless release applies to it as well.
            let unfiltered = |_: LowPass, occupancy: &mut Occupancy, average| (occupancy.depart(bytes), average);
            any_off |= self.release_lossless(&context, now, *queue, bytes, unfiltered, &mut pool_releases);
        }
        self.release_pools(&context, &pool_releases);
        if any_off {
            queues.iter().for_each(|queue| self.reconsider_lossless(*queue, now));
        }
        queues.clear();
    }

    /// Adds packets to their route. If the list is full, releases it first.
    #[inline(always)]
    fn add_route(&self, now: Time, routes: &mut ArrayVec<RouteTotal, ROUTES_MAX>, more: RouteTotal) {
        // Neighbours often have the same queues, so the search starts at the end.
        let leading_of_queue = |route: &&mut RouteTotal| route.ingress == more.ingress && route.egress == more.egress;
        if let Some(route) = routes.iter_mut().rev().find(leading_of_queue) {
            route.packets += more.packets;
            route.bytes += more.bytes;
            return;
        }
        if routes.is_full() {
            self.release_routes(now, routes);
            routes.clear();
        }
        routes.push(more);
    }

    #[inline(never)]
    fn release_batch_in_order(&self, now: Time, DepartureBatch { egress, ingress, bytes }: DepartureBatch<'_>) {
        if let Some(queue) = ingress.first().copied()
            && self.ingress[queue.index()].limits.lossless
            && leading_of_queue(queue, ingress) == ingress.len()
        {
            return self.release_batch_of_one(now, queue, egress, Charges::Each(bytes), bytes.iter().sum());
        }
        for (ingress, bytes) in ingress.chunks(ROUTES_MAX).zip(bytes.chunks(ROUTES_MAX)) {
            let pairs = ingress.iter().zip(bytes);
            let departures: ArrayVec<BufferRelease, ROUTES_MAX> =
                pairs.map(|(ingress, bytes)| BufferRelease { ingress: *ingress, egress, bytes: *bytes }).collect();
            self.release(now, &departures);
        }
    }

    /// Releases packets of one route one after the other, for a policy for which [the order counts](Mmu::releases_in_order).
    pub fn release_pair(
        &self,
        now: Time,
        RouteTotal { ingress, egress, bytes, .. }: &RouteTotal,
        charges: Charges<'_>,
    ) {
        if self.ingress[ingress.index()].limits.lossless {
            return self.release_batch_of_one(now, *ingress, *egress, charges, *bytes);
        }
        let departure = |bytes| BufferRelease { ingress: *ingress, egress: *egress, bytes };
        let departures: ArrayVec<BufferRelease, ROUTES_MAX> = charges.iter().map(departure).collect();
        self.release(now, &departures);
    }

    /// Releases the packets of a batch that arrived at one lossless queue, given their charges and the sum.
    fn release_batch_of_one(&self, now: Time, ingress: QueueId, egress: QueueId, charges: Charges<'_>, total: u32) {
        let (context, mut pool_releases) = (self.context(), PoolReleases::default());
        let filtered =
            |filter, occupancy: &mut Occupancy, average| depart_filtered(filter, occupancy, average, charges, total);
        let is_off = self.release_lossless(&context, now, ingress, total, filtered, &mut pool_releases);
        self.egress[egress.index()].remove(u64::from(total));
        self.release_pools(&context, &pool_releases);
        if is_off {
            self.reconsider_lossless(ingress, now);
        }
    }

    /// Releases the charges of sent packets, summed by route. Not for a policy that filters lengths.
    #[inline]
    pub(super) fn release_routes(&self, now: Time, routes: &[RouteTotal]) {
        if self.flags.is_plain {
            self.release_groups(&self.plain_context(), now, routes);
        } else {
            self.release_groups_general(now, routes);
        }
    }

    #[inline(never)]
    fn release_groups_general(&self, now: Time, routes: &[RouteTotal]) {
        if self.has_slices() {
            return self.release_routes_of_slices(now, routes);
        }
        self.release_groups(&self.context(), now, routes);
    }

    #[inline(always)]
    fn release_groups(&self, context: &ChargeContext<'_>, now: Time, routes: &[RouteTotal]) {
        let (mut released, mut any_off) = (PoolReleases::default(), false);
        let mut left = mask(routes.len());
        while left != 0 {
            let group = self.group(routes, left);
            left &= !group;
            let BulkRequest { ingress, egress, bytes, .. } = BulkRequest::new(routes, group);
            let together = [BufferRelease { ingress, egress, bytes: bytes as u32 }];
            let egress = bits(group).map(|n| (routes[n].egress, routes[n].bytes));
            any_off |= self.release_run(context, now, &together, egress, &mut released);
        }
        self.release_pools(context, &released);
        if any_off {
            routes.iter().for_each(|route| self.reconsider_lossless(route.ingress, now));
        }
    }

    #[inline(never)]
    fn release_in_order(&self, now: Time, departures: &[BufferRelease]) {
        let context = self.context();
        let (mut released, mut any_off) = (PoolReleases::default(), false);
        for run in departures.chunks(ROUTES_MAX).flat_map(|departures| self.runs(departures)) {
            let egress = run.iter().map(|departure| (departure.egress, departure.bytes));
            any_off |= self.release_run(&context, now, run, egress, &mut released);
        }
        self.release_pools(&context, &released);
        if any_off {
            self.runs(departures).for_each(|run| self.reconsider_lossless(run[0].ingress, now));
        }
    }

    /// Releases the charge of one packet.
    #[inline]
    pub fn release_one(&self, now: Time, departure: &BufferRelease) {
        if self.flags.is_plain {
            self.release_alone(&self.plain_context(), now, departure);
        } else {
            self.release_alone_general(now, departure);
        }
    }

    #[inline(never)]
    fn release_alone_general(&self, now: Time, departure: &BufferRelease) {
        if self.has_slices() {
            return self.release_of_slice(now, departure);
        }
        self.release_alone(&self.context(), now, departure);
    }

    #[inline(always)]
    fn release_alone(&self, context: &ChargeContext<'_>, now: Time, departure: &BufferRelease) {
        let mut pool_releases = PoolReleases::default();
        let (alone, egress) = (std::slice::from_ref(departure), [(departure.egress, departure.bytes)]);
        let is_off = self.release_run(context, now, alone, egress.into_iter(), &mut pool_releases);
        self.release_pools(context, &pool_releases);
        if is_off {
            self.reconsider_lossless(departure.ingress, now);
        }
    }

    /// Removes packets from one ingress queue and from their egress queue: the run's own for lossy packets, those in `egress` for lossless
    /// ones. Under a policy that filters lengths, at most [`ROUTES_MAX`] packets. Returns whether the ingress queue or its port is OFF.
    // Always: inlining for a single packet drops the loops over packets.
    #[inline(always)]
    fn release_run(
        &self,
        context: &ChargeContext<'_>,
        now: Time,
        run: &[BufferRelease],
        egress: impl Iterator<Item = (QueueId, u32)>,
        pool_releases: &mut PoolReleases,
    ) -> bool {
        if !self.ingress[run[0].ingress.index()].limits.lossless {
            self.release_lossy(context, now, run, pool_releases);
            return false;
        }
        let bytes = run.iter().map(|departure| departure.bytes).sum();
        let filtered = |filter, occupancy: &mut Occupancy, average| match run {
            [_] => depart_filtered(filter, occupancy, average, Charges::Each(&[bytes]), bytes),
            _ => depart_filtered(filter, occupancy, average, Charges::Each(&sizes_of(run)), bytes),
        };
        let is_off = self.release_lossless(context, now, run[0].ingress, bytes, filtered, pool_releases);
        egress.for_each(|(queue, bytes)| {
            self.egress[queue.index()].remove(u64::from(bytes));
        });
        is_off
    }

    #[inline]
    fn release_pools(&self, context: &ChargeContext<'_>, pool_releases: &PoolReleases) {
        self.shared.release(pool_releases.shared);
        if let Some(pool) = context.headroom {
            pool.release(pool_releases.headroom);
        }
        if let Some(pool) = context.egress_lossy {
            pool.release(pool_releases.lossy);
        }
    }

    #[inline(never)]
    fn reconsider_lossless(&self, ingress: QueueId, now: Time) {
        if self.ingress[ingress.index()].limits.lossless {
            self.reconsider_queue(ingress, now);
            self.reconsider_port(ingress.port());
        }
    }

    /// Removes `bytes` from a lossless ingress queue; returns whether the queue or its port is OFF. Under a policy that filters lengths,
    /// `filtered` removes the packets one after the other, given the queue's occupancy and average. It returns the released bytes and the
    /// new average.
    // Always: inlining for a single packet drops the loops over packets.
    #[inline(always)]
    fn release_lossless(
        &self,
        context: &ChargeContext<'_>,
        now: Time,
        id: QueueId,
        bytes: u32,
        filtered: impl Fn(LowPass, &mut Occupancy, u64) -> (ReleasedBytes, u64),
        pool_releases: &mut PoolReleases,
    ) -> bool {
        let queue = &*self.ingress[id.index()];
        let average_before = context.flags.filtered(&queue.average);
        let (mut average, mut departed) = (average_before, ReleasedBytes::default());
        let change = queue.occupancy.update(|occupancy| {
            let mut after = occupancy;
            match context.flags.low_pass {
                Some(filter) => (departed, average) = filtered(filter, &mut after, average_before),
                None => departed = after.depart(bytes),
            }
            after
        });
        queue.take_private(departed.private);
        pool_releases.shared += u64::from(departed.shared);
        pool_releases.headroom += u64::from(departed.headroom);
        if context.flags.lends_headroom && change.before.lent {
            self.shared.gain(self.headroom_difference(change));
        }
        let port_off = context.flags.port_xon_offset.is_some() && self.release_port(id.port(), departed);
        queue.average.advance(average_before, average);
        if context.flags.observes_packets {
            let mut view = self.ingress_view(&context.flags, id, change.after, self.shared.level(), now);
            view.average = context.flags.compared(average, view.length);
            self.policy.on_release(id, u64::from(bytes), &view);
        }
        change.after.off || port_off
    }

    #[inline(always)]
    fn release_lossy(
        &self,
        context: &ChargeContext<'_>,
        now: Time,
        run: &[BufferRelease],
        pool_releases: &mut PoolReleases,
    ) {
        let (ingress, egress) = (run[0].ingress, run[0].egress);
        let (queue, egress_queue) = (&*self.ingress[ingress.index()], &self.egress[egress.index()]);
        let bytes: u32 = run.iter().map(|departure| departure.bytes).sum();
        let mut departed = ReleasedBytes::default();
        queue.occupancy.update(|occupancy| {
            let mut after = occupancy;
            departed = after.depart(bytes);
            after
        });
        queue.take_private(departed.private);
        pool_releases.shared += u64::from(departed.shared);
        pool_releases.lossy += u64::from(departed.shared);
        let length = egress_queue.remove(u64::from(bytes));
        if let Some(filter) = context.flags.low_pass {
            let before = egress_queue.average.load();
            let bytes = u64::from(bytes);
            let average = filter.depart_all(before, length + bytes, Charges::Each(&sizes_of(run)), bytes);
            egress_queue.average.advance(before, average);
        }
        if context.flags.observes_packets {
            self.policy.on_release(
                ingress,
                u64::from(bytes),
                &self.egress_view(context, egress, length, self.shared.level(), now),
            );
        }
    }

    /// Subtracts released bytes from the queue's port; returns whether the port is OFF.
    fn release_port(&self, port: PortId, departed: ReleasedBytes) -> bool {
        let change = self.ports[port.index()].occupancy.update(|occupancy| Occupancy {
            shared: occupancy.shared - departed.shared,
            headroom: occupancy.headroom - departed.headroom,
            ..occupancy
        });
        change.after.off
    }

    /// Reconsiders OFF queues of `port` among `classes`. T changes with the other queues, and an OFF queue that is empty has no event of
    /// its own.
    pub fn reconsider(&self, port: PortId, classes: ClassSet, now: Time) {
        for class in classes.iter() {
            self.reconsider_queue(QueueId::new(port, class), now);
        }
        self.reconsider_port(port);
    }

    fn reconsider_queue(&self, id: QueueId, now: Time) {
        let queue = &*self.ingress[id.index()];
        if !queue.occupancy.load().off {
            return;
        }
        if self.flags.lends_headroom {
            return self.reconsider_lender(id, now);
        }
        self.resume(id, now);
    }

    /// Turns an OFF queue ON if its threshold permits.
    pub(super) fn resume(&self, id: QueueId, now: Time) {
        let change = self.ingress[id.index()].occupancy.update(|occupancy| match self.may_resume(id, occupancy, now) {
            true => Occupancy { off: false, lent: false, ..occupancy },
            false => occupancy,
        });
        if change.went_on() {
            self.note_transition(id, false, now);
        }
    }

    /// Returns whether an OFF queue of this occupancy resumes under its present threshold; false for an ON queue.
    pub(super) fn may_resume(&self, id: QueueId, occupancy: Occupancy, now: Time) -> bool {
        if !occupancy.off {
            return false;
        }
        let shared = self.of_slice(id.port()).shared.level();
        let view = self.ingress_view(&self.flags, id, occupancy, shared, now);
        occupancy.resumes(self.policy.threshold(&view).xoff, self.xon.get())
    }

    fn reconsider_port(&self, id: PortId) {
        let Some(xon) = self.flags.port_xon_offset.map(Xon::below) else { return };
        let port = &*self.ports[id.index()];
        if !port.occupancy.load().off {
            return;
        }
        let change = port.occupancy.update(|occupancy| {
            let threshold = self.policy.port_threshold(id, self.shared.level());
            Occupancy { off: occupancy.off && !occupancy.resumes(threshold, xon), ..occupancy }
        });
        if change.went_on() {
            port.changed.mark(port.lossless);
        }
    }
}

/// Packets that left one egress queue in sequence.
#[derive(Clone, Copy, Debug)]
pub struct DepartureBatch<'r> {
    /// Egress queue of the packets.
    pub egress: QueueId,
    /// Ingress queue of each packet.
    pub ingress: &'r [QueueId],
    /// Charge of each packet.
    pub bytes: &'r [u32],
}

/// Packets that left and are not released yet, by route.
#[derive(Debug, Default)]
pub struct PendingReleases(ArrayVec<RouteTotal, ROUTES_MAX>);

/// Bytes that left and are not released yet, by ingress queue.
#[derive(Debug)]
pub struct PendingBytes {
    bytes: Box<[u32]>,
    queues: Vec<QueueId>,
}

impl PendingBytes {
    #[inline(always)]
    fn add(&mut self, queue: QueueId, bytes: u32) {
        let before = &mut self.bytes[queue.index()];
        // Each queue is pushed once, so the capacity suffices.
        if *before == 0 && bytes > 0 {
            self.queues.push(queue);
        }
        *before += bytes;
    }
}

/// Number of leading packets that arrived at this queue. The first packet did.
#[inline(always)]
fn leading_of_queue(queue: QueueId, ingress: &[QueueId]) -> usize {
    // Most batches have a single ingress queue, which this detects without a branch per packet.
    let differ = ingress.iter().fold(0, |differ, other| differ | (other.index() ^ queue.index()) as u16);
    if differ == 0 { ingress.len() } else { ingress.iter().take_while(|other| **other == queue).count() }
}

/// Removes packets of these sizes, `bytes` in total, from a queue with this average; each is a step of the filter. Returns the released
/// bytes and the new average.
// Not inlined, so that queues without a filter are updated in place.
#[inline(never)]
fn depart_filtered(
    filter: LowPass,
    occupancy: &mut Occupancy,
    average: u64,
    sizes: Charges<'_>,
    bytes: u32,
) -> (ReleasedBytes, u64) {
    if occupancy.headroom == 0 && bytes <= occupancy.shared {
        let average = filter.depart_all(average, u64::from(occupancy.shared), sizes, u64::from(bytes));
        return (occupancy.depart(bytes), average);
    }
    sizes.iter().fold((ReleasedBytes::default(), average), |(mut departed, average), bytes| {
        departed += occupancy.depart(bytes);
        (departed, filter.depart(average, filter.length_of(*occupancy)))
    })
}

// Not inlined: only a policy that filters lengths calls it.
#[inline(never)]
fn sizes_of(run: &[BufferRelease]) -> ArrayVec<u32, ROUTES_MAX> {
    run.iter().map(|departure| departure.bytes).collect()
}

/// Sums at most [`ROUTES_MAX`] packets by route.
#[inline]
fn routes(departures: &[BufferRelease]) -> ArrayVec<RouteTotal, ROUTES_MAX> {
    let mut routes: ArrayVec<RouteTotal, ROUTES_MAX> = ArrayVec::new();
    let Some(first) = departures.first() else { return routes };
    // Most bursts have a single route and need no search.
    let pair = |departure: &BufferRelease| (departure.ingress.index() as u32) << 16 | departure.egress.index() as u32;
    if departures.iter().fold(0, |differ, departure| differ | pair(departure) ^ pair(first)) == 0 {
        let bytes = departures.iter().map(|departure| departure.bytes).sum();
        routes.push(RouteTotal {
            packets: departures.len() as u32,
            bytes,
            ingress: first.ingress,
            egress: first.egress,
            frame_bytes: 0,
        });
        return routes;
    }
    for BufferRelease { ingress, egress, bytes } in departures.iter().copied() {
        // Neighbours often have the same queues, so the search starts at the end.
        match routes.iter_mut().rev().find(|route| route.ingress == ingress && route.egress == egress) {
            Some(route) => {
                route.packets += 1;
                route.bytes += bytes;
            }
            None => routes.push(RouteTotal { ingress, egress, packets: 1, bytes, frame_bytes: 0 }),
        }
    }
    routes
}

#[derive(Default)]
struct PoolReleases {
    shared: u64,
    headroom: u64,
    lossy: u64,
}
