//! Departures, and reconsideration of OFF queues.

use std::mem;

use arrayvec::ArrayVec;
use weir_units::{CLASSES, ClassSet, PortId, QueueId, Time, bits};

use super::intake::{Bundle, INTAKE_MAX as BUNDLED_MAX, mask};
use super::whole::Sums;
use super::{Departure, Mmu, Terms};
use crate::charge::Charges;
use crate::levels::{Departed, Levels};
use crate::low_pass::LowPass;
use crate::xon::Xon;

impl Mmu {
    /// Releases the charges of sent packets. Each queue costs one update. Under a policy that filters lengths, the order of departures
    /// matters, and each run of a queue's packets costs one update.
    ///
    /// All packets leave first. Then the OFF queues among theirs are checked against the resulting thresholds.
    pub fn release(&self, now: Time, departures: &[Departure]) {
        if let [departure] = departures {
            return self.release_one(now, departure);
        }
        if self.rules.low_pass.is_some() {
            return self.release_in_order(now, departures);
        }
        for departures in departures.chunks(BUNDLED_MAX) {
            self.release_bundles(now, &bundles(departures));
        }
    }

    /// Adds a row to the packets that [`Mmu::release_leaving`] releases together. Under a policy that filters lengths, releases the row at
    /// once.
    #[inline(always)]
    pub fn release_later(&self, now: Time, Leaving(bundles): &mut Leaving, row: DepartureRow<'_>) {
        if self.rules.low_pass.is_some() {
            return self.release_row_in_order(now, row);
        }
        assert_eq!(row.ingress.len(), row.bytes.len(), "the queue of each packet");
        let (mut ingress, mut bytes) = (row.ingress, row.bytes);
        while let Some(queue) = ingress.first().copied() {
            let alike = alike(queue, ingress);
            let (of_queue, others) = bytes.split_at(alike);
            let (packets, bytes_of_queue) = (alike as u32, of_queue.iter().sum());
            let bundle = Bundle { ingress: queue, egress: row.egress, packets, bytes: bytes_of_queue, frame_bytes: 0 };
            self.bundle(now, bundles, bundle);
            (ingress, bytes) = (&ingress[alike..], others);
        }
    }

    /// Releases the packets collected by [`Mmu::release_later`].
    #[inline]
    pub fn release_leaving(&self, now: Time, Leaving(bundles): &mut Leaving) {
        if !bundles.is_empty() {
            self.release_bundles(now, bundles);
            bundles.clear();
        }
    }

    /// Returns whether departures must be released in order, one at a time, because the policy filters lengths. [`Mmu::release_sums`] must
    /// not be called then.
    #[inline]
    pub fn releases_in_order(&self) -> bool {
        self.rules.low_pass.is_some()
    }

    /// Releases the charges of sent packets, summed by queue pair.
    ///
    /// # Panics
    /// In debug builds, under a policy for which [the order counts](Mmu::releases_in_order).
    #[inline]
    pub fn release_sums(&self, now: Time, bundles: &[Bundle]) {
        debug_assert!(!self.releases_in_order());
        self.release_bundles(now, bundles);
    }

    /// Returns whether packets that left one port may be [released](Mmu::release_gone) together with those of other ports. True if the
    /// policy observes no departures and filters no lengths.
    #[inline]
    pub fn may_release_later(&self) -> bool {
        self.rules.is_plain
    }

    /// Creates the memory for packets that [`Mmu::release_gone`] releases together.
    pub fn gone(&self) -> Gone {
        Gone { bytes: vec![0; self.ingress.len()].into(), queues: Vec::with_capacity(self.ingress.len()) }
    }

    /// Removes packets that left one port, summed by queue pair, from its egress queues. Adds them to the packets that
    /// [`Mmu::release_gone`] releases together.
    ///
    /// # Panics
    /// In debug builds, if [`Mmu::may_release_later`] is false.
    #[inline(always)]
    pub fn take_out(&self, gone: &mut Gone, bundles: &[Bundle]) {
        debug_assert!(self.may_release_later());
        if let [bundle] = bundles {
            gone.add(bundle.ingress, bundle.bytes);
            self.egress[bundle.egress.index()].remove(u64::from(bundle.bytes));
        } else {
            self.take_out_several(gone, bundles);
        }
    }

    #[inline(never)]
    fn take_out_several(&self, gone: &mut Gone, bundles: &[Bundle]) {
        let Some(port) = bundles.first().map(|bundle| bundle.egress.port()) else { return };
        let (mut of_class, mut classes) = ([0; CLASSES], ClassSet::EMPTY);
        for Bundle { ingress, egress, bytes, .. } in bundles {
            debug_assert_eq!(egress.port(), port, "packets that left one port");
            gone.add(*ingress, *bytes);
            classes.insert(egress.class());
            of_class[egress.class().index()] += bytes;
        }
        for class in classes.iter() {
            self.egress[QueueId::new(port, class).index()].remove(u64::from(of_class[class.index()]));
        }
    }

    /// Releases the packets of [`Mmu::take_out`]. Each ingress queue costs one update, for any number of egress ports.
    #[inline]
    pub fn release_gone(&self, now: Time, gone: &mut Gone) {
        if !gone.queues.is_empty() {
            self.release_queues(now, gone);
        }
    }

    #[inline(never)]
    fn release_queues(&self, now: Time, Gone { bytes, queues }: &mut Gone) {
        let (terms, mut left, mut any_off) = (self.plain_terms(), Left::default(), false);
        for queue in &*queues {
            let bytes = mem::take(&mut bytes[queue.index()]);
            // A lossy queue is never OFF and has no headroom, so the lossless release applies to it as well.
            let unfiltered = |_: LowPass, levels: &mut Levels, average| (levels.depart(bytes), average);
            any_off |= self.release_lossless(&terms, now, *queue, bytes, unfiltered, &mut left);
        }
        self.give_back(&terms, &left);
        if any_off {
            queues.iter().for_each(|queue| self.reconsider_lossless(*queue, now));
        }
        queues.clear();
    }

    /// Adds packets to the bundle of their queue pair. If the list is full, releases it first.
    #[inline(always)]
    fn bundle(&self, now: Time, bundles: &mut ArrayVec<Bundle, BUNDLED_MAX>, more: Bundle) {
        // Neighbours often have the same queues, so the search starts at the end.
        let alike = |bundle: &&mut Bundle| bundle.ingress == more.ingress && bundle.egress == more.egress;
        if let Some(bundle) = bundles.iter_mut().rev().find(alike) {
            bundle.packets += more.packets;
            bundle.bytes += more.bytes;
            return;
        }
        if bundles.is_full() {
            self.release_bundles(now, bundles);
            bundles.clear();
        }
        bundles.push(more);
    }

    #[inline(never)]
    fn release_row_in_order(&self, now: Time, DepartureRow { egress, ingress, bytes }: DepartureRow<'_>) {
        if let Some(queue) = ingress.first().copied()
            && self.ingress[queue.index()].limits.lossless
            && alike(queue, ingress) == ingress.len()
        {
            return self.release_row_of_one(now, queue, egress, Charges::Each(bytes), bytes.iter().sum());
        }
        for (ingress, bytes) in ingress.chunks(BUNDLED_MAX).zip(bytes.chunks(BUNDLED_MAX)) {
            let pairs = ingress.iter().zip(bytes);
            let departures: ArrayVec<Departure, BUNDLED_MAX> =
                pairs.map(|(ingress, bytes)| Departure { ingress: *ingress, egress, bytes: *bytes }).collect();
            self.release(now, &departures);
        }
    }

    /// Releases packets of one queue pair one after the other, for a policy for which [the order counts](Mmu::releases_in_order).
    pub fn release_pair(&self, now: Time, Bundle { ingress, egress, bytes, .. }: &Bundle, charges: Charges<'_>) {
        if self.ingress[ingress.index()].limits.lossless {
            return self.release_row_of_one(now, *ingress, *egress, charges, *bytes);
        }
        let departure = |bytes| Departure { ingress: *ingress, egress: *egress, bytes };
        let departures: ArrayVec<Departure, BUNDLED_MAX> = charges.iter().map(departure).collect();
        self.release(now, &departures);
    }

    /// Releases packets of a row that arrived at one lossless queue, given their charges and the sum.
    fn release_row_of_one(&self, now: Time, ingress: QueueId, egress: QueueId, charges: Charges<'_>, total: u32) {
        let (terms, mut left) = (self.terms(), Left::default());
        let filtered = |filter, levels: &mut Levels, average| depart_filtered(filter, levels, average, charges, total);
        let is_off = self.release_lossless(&terms, now, ingress, total, filtered, &mut left);
        self.egress[egress.index()].remove(u64::from(total));
        self.give_back(&terms, &left);
        if is_off {
            self.reconsider_lossless(ingress, now);
        }
    }

    /// Releases the charges of sent packets, summed by queue pair. Not for a policy that filters lengths.
    #[inline]
    fn release_bundles(&self, now: Time, bundles: &[Bundle]) {
        if self.rules.is_plain {
            self.release_groups(&self.plain_terms(), now, bundles);
        } else {
            self.release_groups_by_all_terms(now, bundles);
        }
    }

    #[inline(never)]
    fn release_groups_by_all_terms(&self, now: Time, bundles: &[Bundle]) {
        self.release_groups(&self.terms(), now, bundles);
    }

    #[inline(always)]
    fn release_groups(&self, terms: &Terms<'_>, now: Time, bundles: &[Bundle]) {
        let (mut released, mut any_off) = (Left::default(), false);
        let mut left = mask(bundles.len());
        while left != 0 {
            let group = self.group(bundles, left);
            left &= !group;
            let Sums { ingress, egress, bytes, .. } = Sums::of(bundles, group);
            let together = [Departure { ingress, egress, bytes: bytes as u32 }];
            let egress = bits(group).map(|n| (bundles[n].egress, bundles[n].bytes));
            any_off |= self.release_run(terms, now, &together, egress, &mut released);
        }
        self.give_back(terms, &released);
        if any_off {
            bundles.iter().for_each(|bundle| self.reconsider_lossless(bundle.ingress, now));
        }
    }

    #[inline(never)]
    fn release_in_order(&self, now: Time, departures: &[Departure]) {
        let terms = self.terms();
        let (mut released, mut any_off) = (Left::default(), false);
        for run in departures.chunks(BUNDLED_MAX).flat_map(|departures| self.runs(departures)) {
            let egress = run.iter().map(|departure| (departure.egress, departure.bytes));
            any_off |= self.release_run(&terms, now, run, egress, &mut released);
        }
        self.give_back(&terms, &released);
        if any_off {
            self.runs(departures).for_each(|run| self.reconsider_lossless(run[0].ingress, now));
        }
    }

    /// Releases the charge of one packet.
    #[inline]
    pub fn release_one(&self, now: Time, departure: &Departure) {
        if self.rules.is_plain {
            self.release_alone(&self.plain_terms(), now, departure);
        } else {
            self.release_alone_by_all_terms(now, departure);
        }
    }

    #[inline(never)]
    fn release_alone_by_all_terms(&self, now: Time, departure: &Departure) {
        self.release_alone(&self.terms(), now, departure);
    }

    #[inline(always)]
    fn release_alone(&self, terms: &Terms<'_>, now: Time, departure: &Departure) {
        let mut left = Left::default();
        let (alone, egress) = (std::slice::from_ref(departure), [(departure.egress, departure.bytes)]);
        let is_off = self.release_run(terms, now, alone, egress.into_iter(), &mut left);
        self.give_back(terms, &left);
        if is_off {
            self.reconsider_lossless(departure.ingress, now);
        }
    }

    /// Removes packets from one ingress queue and from their egress queue: the run's own for lossy packets, those in `egress` for lossless
    /// ones. Under a policy that filters lengths, at most [`BUNDLED_MAX`] packets. Returns whether the ingress queue or its port is OFF.
    // Always: inlining for a single packet drops the loops over packets.
    #[inline(always)]
    fn release_run(
        &self,
        terms: &Terms<'_>,
        now: Time,
        run: &[Departure],
        egress: impl Iterator<Item = (QueueId, u32)>,
        left: &mut Left,
    ) -> bool {
        if !self.ingress[run[0].ingress.index()].limits.lossless {
            self.release_lossy(terms, now, run, left);
            return false;
        }
        let bytes = run.iter().map(|departure| departure.bytes).sum();
        let filtered = |filter, levels: &mut Levels, average| match run {
            [_] => depart_filtered(filter, levels, average, Charges::Each(&[bytes]), bytes),
            _ => depart_filtered(filter, levels, average, Charges::Each(&sizes_of(run)), bytes),
        };
        let is_off = self.release_lossless(terms, now, run[0].ingress, bytes, filtered, left);
        egress.for_each(|(queue, bytes)| {
            self.egress[queue.index()].remove(u64::from(bytes));
        });
        is_off
    }

    #[inline]
    fn give_back(&self, terms: &Terms<'_>, left: &Left) {
        self.shared.give_back(left.shared);
        if let Some(pool) = terms.headroom {
            pool.give_back(left.headroom);
        }
        if let Some(pool) = terms.egress_lossy {
            pool.give_back(left.lossy);
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
    /// `filtered` removes the packets one after the other, given the queue's levels and average. It returns the released bytes and the new
    /// average.
    // Always: inlining for a single packet drops the loops over packets.
    #[inline(always)]
    fn release_lossless(
        &self,
        terms: &Terms<'_>,
        now: Time,
        id: QueueId,
        bytes: u32,
        filtered: impl Fn(LowPass, &mut Levels, u64) -> (Departed, u64),
        left: &mut Left,
    ) -> bool {
        let queue = &*self.ingress[id.index()];
        let average_before = terms.rules.filtered(&queue.average);
        let (mut average, mut departed) = (average_before, Departed::default());
        let change = queue.levels.update(|levels| {
            let mut after = levels;
            match terms.rules.low_pass {
                Some(filter) => (departed, average) = filtered(filter, &mut after, average_before),
                None => departed = after.depart(bytes),
            }
            after
        });
        queue.take_private(departed.private);
        left.shared += u64::from(departed.shared);
        left.headroom += u64::from(departed.headroom);
        let port_off = terms.rules.port_xon_offset.is_some() && self.release_port(id.port(), departed);
        queue.average.advance(average_before, average);
        if terms.rules.policy_listens {
            let mut view = self.ingress_view(&terms.rules, id, change.after, self.shared.level(), now);
            view.average = terms.rules.compared(average, view.length);
            self.policy.released(id, u64::from(bytes), &view);
        }
        change.after.off || port_off
    }

    #[inline(always)]
    fn release_lossy(&self, terms: &Terms<'_>, now: Time, run: &[Departure], left: &mut Left) {
        let (ingress, egress) = (run[0].ingress, run[0].egress);
        let (queue, egress_queue) = (&*self.ingress[ingress.index()], &self.egress[egress.index()]);
        let bytes: u32 = run.iter().map(|departure| departure.bytes).sum();
        let mut departed = Departed::default();
        queue.levels.update(|levels| {
            let mut after = levels;
            departed = after.depart(bytes);
            after
        });
        queue.take_private(departed.private);
        left.shared += u64::from(departed.shared);
        left.lossy += u64::from(departed.shared);
        let length = egress_queue.remove(u64::from(bytes));
        if let Some(filter) = terms.rules.low_pass {
            let before = egress_queue.average.load();
            let bytes = u64::from(bytes);
            let average = filter.depart_all(before, length + bytes, Charges::Each(&sizes_of(run)), bytes);
            egress_queue.average.advance(before, average);
        }
        if terms.rules.policy_listens {
            self.policy.released(
                ingress,
                u64::from(bytes),
                &self.egress_view(terms, egress, length, self.shared.level(), now),
            );
        }
    }

    /// Subtracts released bytes from the queue's port; returns whether the port is OFF.
    fn release_port(&self, port: PortId, departed: Departed) -> bool {
        let change = self.ports[port.index()].levels.update(|levels| Levels {
            shared: levels.shared - departed.shared,
            headroom: levels.headroom - departed.headroom,
            ..levels
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
        if !queue.levels.load().off {
            return;
        }
        let change = queue.levels.update(|levels| {
            if !levels.off {
                return levels;
            }
            let view = self.ingress_view(&self.rules, id, levels, self.shared.level(), now);
            Levels { off: !levels.resumes(self.policy.threshold(&view).xoff, self.xon.get()), ..levels }
        });
        if change.went_on() {
            self.note_turn(id, false, now);
        }
    }

    fn reconsider_port(&self, id: PortId) {
        let Some(xon) = self.rules.port_xon_offset.map(Xon::below) else { return };
        let port = &*self.ports[id.index()];
        if !port.levels.load().off {
            return;
        }
        let change = port.levels.update(|levels| {
            let threshold = self.policy.port_threshold(id, self.shared.level());
            Levels { off: levels.off && !levels.resumes(threshold, xon), ..levels }
        });
        if change.went_on() {
            port.changed.mark(port.lossless);
        }
    }
}

/// Packets that left one egress queue in sequence.
#[derive(Clone, Copy, Debug)]
pub struct DepartureRow<'r> {
    /// Egress queue of the packets.
    pub egress: QueueId,
    /// Ingress queue of each packet.
    pub ingress: &'r [QueueId],
    /// Charge of each packet.
    pub bytes: &'r [u32],
}

/// Packets that left and are not released yet, by queue pair.
#[derive(Debug, Default)]
pub struct Leaving(ArrayVec<Bundle, BUNDLED_MAX>);

/// Bytes that left and are not released yet, by ingress queue.
#[derive(Debug)]
pub struct Gone {
    bytes: Box<[u32]>,
    queues: Vec<QueueId>,
}

impl Gone {
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
fn alike(queue: QueueId, ingress: &[QueueId]) -> usize {
    // Most rows have a single ingress queue, which this detects without a branch per packet.
    let differ = ingress.iter().fold(0, |differ, other| differ | (other.index() ^ queue.index()) as u16);
    if differ == 0 { ingress.len() } else { ingress.iter().take_while(|other| **other == queue).count() }
}

/// Removes packets of these sizes, `bytes` in total, from a queue with this average; each is a step of the filter. Returns the released
/// bytes and the new average.
// Not inlined, so that queues without a filter are updated in place.
#[inline(never)]
fn depart_filtered(
    filter: LowPass,
    levels: &mut Levels,
    average: u64,
    sizes: Charges<'_>,
    bytes: u32,
) -> (Departed, u64) {
    if levels.headroom == 0 && bytes <= levels.shared {
        let average = filter.depart_all(average, u64::from(levels.shared), sizes, u64::from(bytes));
        return (levels.depart(bytes), average);
    }
    sizes.iter().fold((Departed::default(), average), |(mut departed, average), bytes| {
        departed += levels.depart(bytes);
        (departed, filter.depart(average, filter.length_of(*levels)))
    })
}

// Not inlined: only a policy that filters lengths calls it.
#[inline(never)]
fn sizes_of(run: &[Departure]) -> ArrayVec<u32, BUNDLED_MAX> {
    run.iter().map(|departure| departure.bytes).collect()
}

/// Sums at most [`BUNDLED_MAX`] packets by queue pair.
#[inline]
fn bundles(departures: &[Departure]) -> ArrayVec<Bundle, BUNDLED_MAX> {
    let mut bundles: ArrayVec<Bundle, BUNDLED_MAX> = ArrayVec::new();
    let Some(first) = departures.first() else { return bundles };
    // Most bursts have a single queue pair and need no search.
    let pair = |departure: &Departure| (departure.ingress.index() as u32) << 16 | departure.egress.index() as u32;
    if departures.iter().fold(0, |differ, departure| differ | pair(departure) ^ pair(first)) == 0 {
        let bytes = departures.iter().map(|departure| departure.bytes).sum();
        bundles.push(Bundle {
            packets: departures.len() as u32,
            bytes,
            ingress: first.ingress,
            egress: first.egress,
            frame_bytes: 0,
        });
        return bundles;
    }
    for Departure { ingress, egress, bytes } in departures.iter().copied() {
        // Neighbours often have the same queues, so the search starts at the end.
        match bundles.iter_mut().rev().find(|bundle| bundle.ingress == ingress && bundle.egress == egress) {
            Some(bundle) => {
                bundle.packets += 1;
                bundle.bytes += bytes;
            }
            None => bundles.push(Bundle { ingress, egress, packets: 1, bytes, frame_bytes: 0 }),
        }
    }
    bundles
}

#[derive(Default)]
struct Left {
    shared: u64,
    headroom: u64,
    lossy: u64,
}
