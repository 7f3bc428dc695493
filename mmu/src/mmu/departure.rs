//! Departures, and the sweep that looks again at what is OFF.

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
    /// Returns what sent packets were charged. Each queue costs one update; under a policy that filters lengths, where the
    /// order of departures counts, each run of its packets does.
    ///
    /// First all of them leave, then the OFF queues among theirs are looked at under the thresholds that this makes.
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

    /// Adds a row to what is [released](Mmu::release_leaving) together. Under a policy that filters lengths it is released at once.
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

    /// Releases what left.
    #[inline]
    pub fn release_leaving(&self, now: Time, Leaving(bundles): &mut Leaving) {
        if !bundles.is_empty() {
            self.release_bundles(now, bundles);
            bundles.clear();
        }
    }

    /// Whether departures are to be told of in their order, each by itself, as the policy filters lengths: [`Mmu::release_sums`] may not
    /// be called then.
    #[inline]
    pub fn releases_in_order(&self) -> bool {
        self.rules.low_pass.is_some()
    }

    /// Returns what sent packets were charged, summed by pair of queues.
    ///
    /// # Panics
    /// In debug builds, under a policy for which [the order counts](Mmu::releases_in_order).
    #[inline]
    pub fn release_sums(&self, now: Time, bundles: &[Bundle]) {
        debug_assert!(!self.releases_in_order());
        self.release_bundles(now, bundles);
    }

    /// Whether packets that left may be [released](Mmu::release_gone) together with others that left other ports: the policy does not hear
    /// of departures, and filters no lengths.
    #[inline]
    pub fn may_release_later(&self) -> bool {
        self.rules.is_plain
    }

    /// Memory for what is [released](Mmu::release_gone) together.
    pub fn gone(&self) -> Gone {
        Gone { bytes: vec![0; self.ingress.len()].into(), queues: Vec::with_capacity(self.ingress.len()) }
    }

    /// Takes packets that left one port, summed by pair of queues, out of its egress queues, and adds them to what is
    /// [released](Mmu::release_gone) together.
    ///
    /// # Panics
    /// In debug builds, where they [may not be](Mmu::may_release_later).
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

    /// Releases what left by [`Mmu::take_out`]: each ingress queue costs one update, however many ports its packets left by.
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
            // A lossy queue is never OFF and has no headroom: it is released as a lossless one without.
            let unfiltered = |_: LowPass, levels: &mut Levels, average| (levels.depart(bytes), average);
            any_off |= self.release_lossless(&terms, now, *queue, bytes, unfiltered, &mut left);
        }
        self.give_back(&terms, &left);
        if any_off {
            queues.iter().for_each(|queue| self.reconsider_lossless(*queue, now));
        }
        queues.clear();
    }

    /// Adds packets to others of their pair of queues. What there is no room for beside them is released first.
    #[inline(always)]
    fn bundle(&self, now: Time, bundles: &mut ArrayVec<Bundle, BUNDLED_MAX>, more: Bundle) {
        // Neighbours are often alike, so the last one comes first.
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

    /// Returns what packets of one pair of queues were charged, one after the other: for a policy for which
    /// [the order counts](Mmu::releases_in_order).
    pub fn release_pair(&self, now: Time, Bundle { ingress, egress, bytes, .. }: &Bundle, charges: Charges<'_>) {
        if self.ingress[ingress.index()].limits.lossless {
            return self.release_row_of_one(now, *ingress, *egress, charges, *bytes);
        }
        let departure = |bytes| Departure { ingress: *ingress, egress: *egress, bytes };
        let departures: ArrayVec<Departure, BUNDLED_MAX> = charges.iter().map(departure).collect();
        self.release(now, &departures);
    }

    /// Returns what packets of a row were charged that came by one lossless queue, one by one and together.
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

    /// Returns what sent packets were charged, as [`Mmu::release`] does, summed by pair of queues. Not for a policy that filters
    /// lengths.
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

    /// Returns what one packet was charged.
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

    /// Takes packets, under a policy that filters lengths [`BUNDLED_MAX`] at most, out of one ingress queue, and if they are lossy, of one
    /// egress queue; lossless ones out of these egress queues. Returns whether the ingress queue, or its port, is OFF.
    // Always: of one packet alone, what is done for many is known to be done once.
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

    /// Returns what has left to the pools.
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

    /// Looks again at a queue that packets have left, if it is lossless, and at its port.
    #[inline(never)]
    fn reconsider_lossless(&self, ingress: QueueId, now: Time) {
        if self.ingress[ingress.index()].limits.lossless {
            self.reconsider_queue(ingress, now);
            self.reconsider_port(ingress.port());
        }
    }

    /// Takes packets of so many bytes out of a lossless ingress queue; returns whether it, or its port, is OFF. Under a policy that filters
    /// lengths `filtered` takes them out, one after the other, of a queue of these levels and this average; it returns what they leave
    /// behind, and the average after them.
    // Always: of one packet alone, what is done for many is known to be done once.
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

    /// Takes packets out of a lossy ingress queue and the egress queue that they left by.
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

    /// Takes what left a queue out of its port; returns whether the port is OFF.
    fn release_port(&self, port: PortId, departed: Departed) -> bool {
        let change = self.ports[port.index()].levels.update(|levels| Levels {
            shared: levels.shared - departed.shared,
            headroom: levels.headroom - departed.headroom,
            ..levels
        });
        change.after.off
    }

    /// Looks again at OFF queues of `port` (those in `classes`): T moves when other queues move, and a queue that
    /// is OFF and empty gets no event of its own.
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

    /// Looks again at a port that is OFF as a whole.
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

/// Packets that left one egress queue, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct DepartureRow<'r> {
    /// The queue that they left.
    pub egress: QueueId,
    /// The queue that each came by.
    pub ingress: &'r [QueueId],
    /// What each was charged.
    pub bytes: &'r [u32],
}

/// Packets that left, by pair of queues, until they are released.
#[derive(Debug, Default)]
pub struct Leaving(ArrayVec<Bundle, BUNDLED_MAX>);

/// Bytes of packets that left, by the queues that they came by, until they are released.
#[derive(Debug)]
pub struct Gone {
    /// By queue.
    bytes: Box<[u32]>,
    /// Queues that any left.
    queues: Vec<QueueId>,
}

impl Gone {
    #[inline(always)]
    fn add(&mut self, queue: QueueId, bytes: u32) {
        let before = &mut self.bytes[queue.index()];
        // Each queue once, so that there is room.
        if *before == 0 && bytes > 0 {
            self.queues.push(queue);
        }
        *before += bytes;
    }
}

/// How many of the first packets came by this queue, as the first one did.
#[inline(always)]
fn alike(queue: QueueId, ingress: &[QueueId]) -> usize {
    // Most rows came by one queue, which is told without a branch for each packet.
    let differ = ingress.iter().fold(0, |differ, other| differ | (other.index() ^ queue.index()) as u16);
    if differ == 0 { ingress.len() } else { ingress.iter().take_while(|other| **other == queue).count() }
}

/// Takes packets of these sizes, so many bytes together, out of a queue of this average, each a step of the filter; returns what they leave
/// behind, and the average after them.
// Apart, so that queues without a filter are changed in place.
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

/// What packets of a run were charged.
// Apart: only a policy that filters lengths asks for it.
#[inline(never)]
fn sizes_of(run: &[Departure]) -> ArrayVec<u32, BUNDLED_MAX> {
    run.iter().map(|departure| departure.bytes).collect()
}

/// Sums packets up by pair of queues. They are [`BUNDLED_MAX`] at most.
#[inline]
fn bundles(departures: &[Departure]) -> ArrayVec<Bundle, BUNDLED_MAX> {
    let mut bundles: ArrayVec<Bundle, BUNDLED_MAX> = ArrayVec::new();
    let Some(first) = departures.first() else { return bundles };
    // All of one pair of queues, as most bursts are, needs no search.
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
        // Neighbours are often alike, so the last one comes first.
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

/// Bytes that a burst takes out of the pools.
#[derive(Default)]
struct Left {
    shared: u64,
    headroom: u64,
    lossy: u64,
}
