//! The way past a port's egress queues, for what finds them empty: where the wire would be free even behind all of a round's frames, none
//! of them has to wait, so that none needs a place in a queue, nor a turn.
//!
//! The scheduler decides among frames that wait. A poll sees frames together that came one after the other; those that pass the queues by
//! leave as they came, each burst's by port and class. Classes go together so only if they share the link by turns: a strict one goes
//! before others, and what needs credit or has a rate of its own goes alone.

use std::mem;

use arrayvec::ArrayVec;
use weir_flowctl::Regulator;
use weir_mmu::{Arrival, Bundle, Charges, Departure, Gone, Intake, Mmu};
use weir_units::{Bytes, ClassSet, FCS_BYTES, Span, Time};

use super::alike::bits;
use super::bursts::{BurstPort, Bursts};
use super::lateness::Waits;
use super::staged::Staged;
use crate::packet::{BURST_MAX, Burst, Packet, PortOutput, Queued};
use crate::transmission::{Manner, OutPort, Transmission, told_of};

/// Frames of a round that pass the queues of their port by. The port's queues are empty meanwhile, and it is offered nothing.
#[derive(Debug)]
pub(super) struct Bypass<P> {
    /// In the order in which they leave: `Some` in the first `len` places.
    packets: [Option<P>; BURST_MAX],
    /// What each was charged, where that is not one number.
    bytes: [u32; BURST_MAX],
    /// What every packet was charged, if that is known to be as much.
    each: Option<u32>,
    len: usize,
    classes: ClassSet,
    /// Their lengths together.
    frame_bytes: u32,
    bundles: ArrayVec<Bundle, BUNDLES_MAX>,
    /// The packets of each bundle, as bits.
    members: [u64; BUNDLES_MAX],
    /// Rounds for which nothing passes by, since what was to had to wait.
    rest: u8,
}

/// Bundles of a port and round.
const BUNDLES_MAX: usize = 16;
/// Ports that a burst's frames may pass by to.
const PORTS_MAX: usize = 8;
/// Rounds for which a port's frames go by its queues again after some found no way past them: to try costs as much as it saves.
const REST: u8 = 16;

impl<P> Bypass<P> {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn has_room(&self, packets: usize, bundles: usize) -> bool {
        self.len + packets <= BURST_MAX && self.bundles.len() + bundles <= BUNDLES_MAX
    }

    /// Takes note of packets that are put next, which are charged so much each, if that is one number.
    #[inline(always)]
    fn note(&mut self, bringing: &Bringing, each: Option<u32>) {
        if self.len == 0 {
            self.each = each;
        } else if let Some(bytes) = self.each
            && each != Some(bytes)
        {
            self.bytes[..self.len].fill(bytes);
            self.each = None;
        }
        self.classes |= bringing.classes;
        self.frame_bytes += bringing.frame_bytes;
    }

    /// Puts a burst that was [noted](Bypass::note).
    #[inline(always)]
    fn put_all(&mut self, packets: &mut Burst<P>, intake: &Intake) {
        let (from, count) = (self.len, packets.len());
        for (place, packet) in self.packets[from..].iter_mut().zip(packets.drain(..)) {
            // What was there was taken, so there is nothing to drop.
            mem::forget(place.replace(packet));
        }
        if self.each.is_none() {
            self.bytes[from..][..count].copy_from_slice(intake.bytes());
        }
        for (bundle, members) in intake.bundles_with_packets() {
            self.add(bundle, members << from);
        }
        self.len += count;
    }

    /// Puts the packets of a bundle, which are these of a burst, as bits, and were [noted](Bypass::note).
    #[inline(always)]
    fn put(&mut self, bundle: &Bundle, members: u64, packets: &mut [Option<P>; BURST_MAX], charges: &[u32]) {
        let (from, count) = (self.len, bundle.packets as usize);
        if self.each.is_none() {
            let places = self.bytes[from..][..count].iter_mut();
            places.zip(bits(members)).for_each(|(place, n)| *place = charges[n]);
        }
        let mut members = bits(members);
        let mut take = |place: &mut Option<P>, n: usize| {
            // What was there was taken, so there is nothing to drop.
            mem::forget(mem::replace(place, packets[n].take()));
        };
        // Four in a row, as the compiler does not by itself.
        let (fours, rest) = self.packets[from..][..count].as_chunks_mut::<4>();
        for four in fours {
            for place in four {
                let Some(n) = members.next() else { break };
                take(place, n);
            }
        }
        rest.iter_mut().zip(members).for_each(|(place, n)| take(place, n));
        self.add(bundle, (u64::MAX >> (BURST_MAX - count)) << from);
        self.len += count;
    }

    #[inline(always)]
    fn add(&mut self, bundle: &Bundle, members: u64) {
        self.members[self.bundles.len()] = members;
        self.bundles.push(*bundle);
    }

    /// What the packets were charged.
    #[inline(always)]
    fn charges(&self) -> Charges<'_> {
        match self.each {
            Some(bytes) => Charges::Alike { bytes, packets: self.len },
            None => Charges::Each(&self.bytes[..self.len]),
        }
    }

    /// What a packet was charged, and the bundle that it is of.
    fn charged(&self, n: usize) -> (usize, Arrival) {
        let members = &self.members[..self.bundles.len()];
        let of = members.iter().position(|members| members >> n & 1 != 0).expect("each packet is of a bundle");
        let Bundle { ingress, egress, .. } = self.bundles[of];
        (of, Arrival { ingress, egress, bytes: self.each.unwrap_or(self.bytes[n]) })
    }

    /// What the first packets were charged, in their order.
    fn departures(&self, count: usize) -> impl Iterator<Item = Departure> {
        (0..count).map(|n| {
            let (_, Arrival { ingress, egress, bytes }) = self.charged(n);
            Departure { ingress, egress, bytes }
        })
    }

    /// Forgets what is known of packets, all of which were taken.
    #[inline]
    fn clear(&mut self) {
        self.bundles.clear();
        (self.len, self.frame_bytes, self.classes) = (0, 0, ClassSet::EMPTY);
    }

    /// Gives all packets up, and shows them with what they were charged; returns how many they were.
    pub(super) fn give_up(&mut self, charged: impl FnOnce(&[P], &[Departure])) -> usize {
        let departures: ArrayVec<Departure, BURST_MAX> = self.departures(self.len).collect();
        let packets: Burst<P> = self.packets.iter_mut().map_while(Option::take).collect();
        charged(&packets, &departures);
        self.clear();
        departures.len()
    }
}

impl<P: Packet> Bypass<P> {
    /// The length of each packet, written into this memory.
    #[inline(always)]
    fn lengths<'l>(&self, into: &'l mut [u32; BURST_MAX]) -> &'l [u32] {
        let lengths = &mut into[..self.len];
        let charged: u32 = self.bundles.iter().map(|bundle| bundle.bytes).sum();
        if charged == self.frame_bytes + FCS_BYTES as u32 * self.len as u32 {
            // No frame is charged less than its length with FCS, so each is charged just that if all are.
            match self.charges() {
                Charges::Alike { bytes, .. } => lengths.fill(bytes - FCS_BYTES as u32),
                Charges::Each(charges) => {
                    lengths.iter_mut().zip(charges).for_each(|(length, charged)| *length = charged - FCS_BYTES as u32);
                }
            }
        } else {
            let packets = self.packets.iter().map_while(Option::as_ref);
            lengths.iter_mut().zip(packets).for_each(|(length, packet)| *length = packet.frame_bytes());
        }
        lengths
    }

    /// Takes all packets, in order, for the queues that they were to pass by.
    pub(super) fn take_all(&mut self, mut to: impl FnMut(Queued<P>)) {
        for n in 0..self.len {
            let (_, charged) = self.charged(n);
            let packet = self.packets[n].take().expect(NOT_TAKEN);
            to(Queued::new(packet, charged));
        }
        self.clear();
        self.rest = REST;
    }

    /// Stages the packets behind the first `sent`, which the port did not take, and leaves the sums of those that went.
    #[inline(never)]
    fn stage_rest(&mut self, sent: usize, staged: &mut Staged<P>) {
        for n in sent..self.len {
            let (of, charged) = self.charged(n);
            let queued = Queued::new(self.packets[n].take().expect(NOT_TAKEN), charged);
            let bundle = &mut self.bundles[of];
            bundle.packets -= 1;
            (bundle.bytes, bundle.frame_bytes) =
                (bundle.bytes - charged.bytes, bundle.frame_bytes - queued.frame_bytes);
            staged.push(queued);
        }
        self.len = sent;
    }

    /// Has the first packets, whose sums bundles are, leave the buffer: `later` with others that leave in this poll, if nobody waits for it.
    #[inline(always)]
    fn release(&self, now: Time, mmu: &Mmu, later: Option<&mut Gone>) {
        if let Some(gone) = later
            && mmu.may_release_later()
        {
            mmu.take_out(gone, &self.bundles);
        } else if mmu.releases_in_order() {
            self.release_in_order(now, mmu);
        } else {
            mmu.release_sums(now, &self.bundles);
        }
    }

    #[inline(never)]
    fn release_in_order(&self, now: Time, mmu: &Mmu) {
        if let [bundle] = &self.bundles[..] {
            return mmu.release_pair(now, bundle, self.charges());
        }
        let departures: ArrayVec<Departure, BURST_MAX> = self.departures(self.len).collect();
        mmu.release(now, &departures);
    }
}

impl<P> Default for Bypass<P> {
    fn default() -> Bypass<P> {
        Bypass {
            packets: [const { None }; BURST_MAX],
            bytes: [0; BURST_MAX],
            each: None,
            len: 0,
            classes: ClassSet::EMPTY,
            frame_bytes: 0,
            bundles: ArrayVec::new(),
            members: [0; BUNDLES_MAX],
            rest: 0,
        }
    }
}

/// What a burst brings a port.
struct Bringing {
    /// The port's position.
    index: usize,
    classes: ClassSet,
    packets: usize,
    bundles: usize,
    /// Their lengths together.
    frame_bytes: u32,
}

impl<P: Packet> Transmission<P, Bursts<P>> {
    /// Has packets of a burst that was admitted without exception pass the queues of their ports by, if all of them may; says whether.
    #[inline(always)]
    pub(super) fn pass_by(&mut self, packets: &mut Burst<P>, intake: &Intake) -> bool {
        let Some(first) = intake.bundles().first() else { return true };
        let to = first.egress.port();
        let (mut classes, mut frame_bytes, mut differ) = (ClassSet::EMPTY, 0, false);
        for bundle in intake.bundles() {
            classes.insert(bundle.egress.class());
            frame_bytes += bundle.frame_bytes;
            differ |= bundle.egress.port() != to;
        }
        if differ {
            return self.pass_by_to_several(packets, intake);
        }
        let index = self.position_of[to.index()];
        let port = &mut self.ports[index];
        let (packets_of_all, bundles) = (packets.len(), intake.bundles().len());
        let bringing = Bringing { index, classes, packets: packets_of_all, bundles, frame_bytes };
        let may = port.may_pass_by(&bringing);
        if may {
            port.backlog |= classes;
            port.own.bypass.note(&bringing, intake.each_charged());
            port.own.bypass.put_all(packets, intake);
        }
        may
    }

    /// [`Transmission::pass_by`] of packets to several ports.
    #[inline(never)]
    fn pass_by_to_several(&mut self, packets: &mut Burst<P>, intake: &Intake) -> bool {
        let mut ports: ArrayVec<Bringing, PORTS_MAX> = ArrayVec::new();
        for Bundle { egress, packets, frame_bytes, .. } in intake.bundles() {
            let index = self.position_of[egress.port().index()];
            let (classes, packets, frame_bytes) = (egress.class().alone(), *packets as usize, *frame_bytes);
            if let Some(port) = ports.iter_mut().find(|port| port.index == index) {
                port.classes |= classes;
                (port.packets, port.bundles) = (port.packets + packets, port.bundles + 1);
                port.frame_bytes += frame_bytes;
            } else if ports.try_push(Bringing { index, classes, packets, bundles: 1, frame_bytes }).is_err() {
                return false;
            }
        }
        if !ports.iter().all(|bringing| self.ports[bringing.index].may_pass_by(bringing)) {
            return false;
        }
        for bringing in &ports {
            let port = &mut self.ports[bringing.index];
            port.backlog |= bringing.classes;
            port.own.bypass.note(bringing, intake.each_charged());
        }
        // All of its places are taken again below, so there is nothing to drop.
        let from = &mut *self.manner.picked;
        from.iter_mut().zip(packets.drain(..)).for_each(|(place, packet)| mem::forget(place.replace(packet)));
        for (bundle, members) in intake.bundles_with_packets() {
            let index = self.position_of[bundle.egress.port().index()];
            self.ports[index].own.bypass.put(bundle, members, from, intake.bytes());
        }
        debug_assert!(from.iter().all(Option::is_none), "each packet is of a bundle");
        true
    }

    /// Sends what passes the port's queues by, if the wire, limits and credit let all of it go now; returns how many frames went. `None`
    /// if something has to wait: it is to go by the queues then.
    #[inline(always)]
    pub(super) fn send_past<D: PortOutput<P>>(
        &mut self,
        now: Time,
        index: usize,
        (held, missed): (ClassSet, Span),
        driver: &mut D,
    ) -> Option<usize> {
        let Transmission { shared, ports, counters, manner, link_overhead, .. } = self;
        let port = &mut ports[index];
        let (id, regulator) = (port.id, &shared.port(port.id).regulator);
        if !port.put_bypass_on_wire(now, held, *link_overhead, regulator) {
            return None;
        }
        let BurstPort { bypass, staged, .. } = &mut port.own;
        port.backlog -= bypass.classes;
        let sent = driver.transmit_rows(id, &mut &mut bypass.packets[..bypass.len]);
        manner.note_released(sent);
        let are_all = sent == bypass.len;
        if !are_all {
            bypass.stage_rest(sent, staged.get_or_insert_with(|| manner.take_spare()));
        }
        for Bundle { egress, packets, frame_bytes, .. } in &bypass.bundles {
            counters.add_frames(*egress, u64::from(*packets), u64::from(*frame_bytes));
        }
        let telling = self.off_ports | self.by_length;
        self.stirred |= told_of(shared, telling, bypass.bundles.iter().map(|bundle| bundle.ingress));
        bypass.release(now, &shared.mmu, telling.is_empty().then_some(&mut manner.gone));
        bypass.clear();
        if are_all && missed == Span::ZERO {
            port.own.waits = Waits::Nothing;
            port.own.open = ClassSet::EMPTY;
        } else {
            self.note_waiting(now, index, held, (missed, sent));
        }
        Some(sent)
    }
}

impl<P: Packet> OutPort<BurstPort<P>> {
    /// Whether packets of a burst may pass the port's queues by, behind others that do.
    #[inline(always)]
    fn may_pass_by(&self, bringing: &Bringing) -> bool {
        let Bringing { classes, packets, bundles, .. } = *bringing;
        let own = &self.own;
        let finds_none = !own.bypass.is_empty()
            || self.backlog.is_empty() && own.staged.is_none() && !own.has_lanes && own.bypass.rest == 0;
        finds_none && own.bypass.has_room(packets, bundles) && self.may_mix(own.bypass.classes | classes)
    }

    /// Whether frames of these classes may leave in the order in which they came.
    #[inline(always)]
    fn may_mix(&self, classes: ClassSet) -> bool {
        let may = if classes.only().is_some() { self.in_rows } else { self.plain - self.scheduler.strict() };
        ((classes - may) | (classes & self.paused)).is_empty()
    }

    /// Counts down the rounds for which nothing passes by.
    #[inline(always)]
    pub(super) fn rest(&mut self) {
        self.own.bypass.rest = self.own.bypass.rest.saturating_sub(1);
    }

    /// Puts what passes by on the wire, if that would be free at `now` even behind all of it, and nothing else holds a frame back. If not,
    /// nothing is changed. Says whether it is.
    #[inline(always)]
    fn put_bypass_on_wire(&mut self, now: Time, held: ClassSet, link_overhead: Bytes, regulator: &Regulator) -> bool {
        let Bypass { classes, frame_bytes, len, .. } = *self.own.bypass;
        // Classes may have been set otherwise since.
        if !(classes & held).is_empty() || !self.may_mix(classes) {
            return false;
        }
        let wire = Bytes::new(u64::from(frame_bytes) + link_overhead.get() * len as u64);
        let (mut shaper, mut peak) = (self.shaper.clone(), self.own.peak.clone());
        shaper.send(now, wire);
        peak.send(shaper.free_at().since(self.shaper.free_at()));
        if !shaper.is_free(now) || !peak.is_free(now) {
            return false;
        }
        if !(classes - self.plain).is_empty() && !self.count_limited(now, wire, regulator) {
            return false;
        }
        (self.shaper, self.own.peak) = (shaper, peak);
        self.count_wire(wire);
        true
    }

    /// Counts what passes by, of one class, against its rate and its credit, if both let all of it go.
    #[inline(never)]
    fn count_limited(&mut self, now: Time, wire: Bytes, regulator: &Regulator) -> bool {
        let bypass = &self.own.bypass;
        let Some(class) = bypass.classes.only() else { return false };
        let mut lengths = [0; BURST_MAX];
        // Only credit goes by the length of each.
        let lengths = if self.counts_sent || self.credit_classes.contains(class) {
            bypass.lengths(&mut lengths)
        } else {
            &[][..]
        };
        if !self.limits.waiting(now, class.alone()).is_empty()
            || !regulator.has_credit_for(class, lengths, bypass.frame_bytes)
            || !self.limits.send_all(now, class, wire)
        {
            return false;
        }
        if self.counts_sent {
            regulator.handle_all_sent(class, lengths);
        }
        true
    }
}

const NOT_TAKEN: &str = "a packet that is still to be sent";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_mmu::Charge;
    use weir_units::{Class, MacAddr, PortId, QueueId};
    use weir_wire::ethernet::Parsed;

    use super::*;

    /// A packet of which nothing is asked but its length.
    struct OfLength(u32);

    impl Packet for OfLength {
        fn frame_bytes(&self) -> u32 {
            self.0
        }

        fn is_control(&self) -> bool {
            unreachable!()
        }

        fn parse(&self) -> Parsed {
            unreachable!()
        }

        fn source(&self) -> MacAddr {
            unreachable!()
        }

        fn mark_ce(&mut self) -> bool {
            unreachable!()
        }

        fn flow_hash(&self) -> u32 {
            unreachable!()
        }
    }

    proptest! {
        /// Lengths are the packets' own, whether charges tell them or not: those of runts and of whole cells do not.
        #[test]
        fn lengths_are_the_packets_own(
            lengths in prop_oneof![
                prop::collection::vec(60..1_515u32, 0..=BURST_MAX),
                prop::collection::vec(14..80u32, 0..=BURST_MAX),
            ],
            cell_bytes in prop::sample::select(vec![1, 64, 208]),
        ) {
            let (charge, queue) = (Charge::in_cells(cell_bytes), |port| QueueId::new(PortId(port), Class::new(3)));
            let (mut bypass, mut intake) = (Bypass::default(), Intake::new());
            for length in &lengths {
                let (ingress, egress) = (queue(0), queue(1));
                intake.push(Arrival { ingress, egress, bytes: charge.of(*length) }, *length);
            }
            let mut packets: Burst<OfLength> = lengths.iter().map(|length| OfLength(*length)).collect();
            let all = Bringing {
                index: 0,
                classes: Class::new(3).alone(),
                packets: lengths.len(),
                bundles: intake.bundles().len(),
                frame_bytes: lengths.iter().sum(),
            };
            bypass.note(&all, intake.each_charged());
            bypass.put_all(&mut packets, &intake);
            let mut told = [0; BURST_MAX];
            prop_assert_eq!(bypass.lengths(&mut told), lengths);
        }
    }
}
