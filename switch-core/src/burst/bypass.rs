//! The way past a port's egress queues, for what finds them empty: where the wire would be free even behind all of a round's frames, none
//! of them has to wait, so that none needs a place in a queue, nor a turn.
//!
//! The scheduler decides among frames that wait. A poll sees frames together that came one after the other; those that pass the queues by
//! leave as they came, each burst's by port and class. Classes go together so only if they share the link by turns: a strict one goes
//! before others, and what needs credit or has a rate of its own goes alone.

mod sending;

use std::mem;

use arrayvec::ArrayVec;
use weir_mmu::{Arrival, Bundle, Charges, Departure, Gone, Intake, Mmu};
use weir_units::{ClassSet, FCS_BYTES, Time, bits};

use super::staged::Staged;
use crate::packet::{BURST_MAX, Burst, Packet, Queued};

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
