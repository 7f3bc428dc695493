//! Bypass of a port's empty egress queues. If the wire would be free even behind all frames of a round, none of them has to wait. Then no
//! frame needs a queue or the scheduler.
//!
//! The scheduler decides among waiting frames. A poll sees frames together that came one after the other. Bypassing frames leave in order
//! of arrival, each burst's by port and class. Classes are therefore mixed only if they share the link in turns. A strict class goes before
//! others, and classes with credit or a rate of their own go alone.

mod sending;

use std::mem;

use arrayvec::ArrayVec;
use weir_mmu::{BufferRelease, BufferRequest, BurstRequest, Charges, Mmu, PendingBytes, RouteTotal};
use weir_units::{ClassSet, FCS_BYTES, Time, bits};

use super::tx_batch::TxBatch;
use crate::packet::{BURST_MAX, Burst, Packet, QueuedPacket};

/// Frames of a round that bypass the queues of their port. Meanwhile the queues are empty, and the port is offered nothing else.
#[derive(Debug)]
pub(super) struct QueueBypass<P> {
    /// Packets in order of departure: `Some` in the first `len` places.
    packets: [Option<P>; BURST_MAX],
    /// Charge of each packet, if charges differ.
    bytes: [u32; BURST_MAX],
    /// Charge of every packet, if known to be equal.
    each: Option<u32>,
    len: usize,
    classes: ClassSet,
    /// Sum of the lengths.
    frame_bytes: u32,
    routes: ArrayVec<RouteTotal, BURST_MAX>,
    /// Packets of each route, as a bitmap.
    members: [u64; BURST_MAX],
    /// Remaining rounds without bypass, after an attempt that failed.
    backoff: u8,
}

/// Rounds without bypass after frames could not bypass their queues: an attempt costs as much as a success saves.
const BACKOFF_ROUNDS: u8 = 16;

impl<P> QueueBypass<P> {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Records packets of these classes that are added next. `each` is their charge, if equal.
    #[inline(always)]
    fn record(&mut self, classes: ClassSet, each: Option<u32>) {
        if self.len == 0 {
            self.each = each;
        } else if let Some(bytes) = self.each
            && each != Some(bytes)
        {
            self.bytes[..self.len].fill(bytes);
            self.each = None;
        }
        self.classes |= classes;
    }

    /// Adds a burst that was [recorded](QueueBypass::record).
    #[inline(always)]
    fn put_all(&mut self, packets: &mut Burst<P>, request: &BurstRequest) {
        let (from, count) = (self.len, packets.len());
        for (place, packet) in self.packets[from..].iter_mut().zip(packets.drain(..)) {
            // The old place was taken, so there is nothing to drop.
            mem::forget(place.replace(packet));
        }
        if self.each.is_none() {
            self.bytes[from..][..count].copy_from_slice(request.bytes());
        }
        for (route, members) in request.routes_with_packets() {
            self.add(route, members << from);
        }
        self.len += count;
    }

    /// Adds the packets of a route that were [recorded](QueueBypass::record); `members` is their bitmap in the burst.
    #[inline(always)]
    fn put(&mut self, route: &RouteTotal, members: u64, packets: &mut [Option<P>; BURST_MAX], charges: &[u32]) {
        let (from, count) = (self.len, route.packets as usize);
        if self.each.is_none() {
            let places = self.bytes[from..][..count].iter_mut();
            places.zip(bits(members)).for_each(|(place, n)| *place = charges[n]);
        }
        let mut members = bits(members);
        let mut take = |place: &mut Option<P>, n: usize| {
            // The old place was taken, so there is nothing to drop.
            mem::forget(mem::replace(place, packets[n].take()));
        };
        // Unrolled by four, which the compiler does not do by itself.
        let (fours, rest) = self.packets[from..][..count].as_chunks_mut::<4>();
        for four in fours {
            for place in four {
                let Some(n) = members.next() else { break };
                take(place, n);
            }
        }
        rest.iter_mut().zip(members).for_each(|(place, n)| take(place, n));
        self.add(route, (u64::MAX >> (BURST_MAX - count)) << from);
        self.len += count;
    }

    #[inline(always)]
    fn add(&mut self, route: &RouteTotal, members: u64) {
        self.frame_bytes += route.frame_bytes;
        self.members[self.routes.len()] = members;
        self.routes.push(*route);
    }

    #[inline(always)]
    fn charges(&self) -> Charges<'_> {
        match self.each {
            Some(bytes) => Charges::Uniform { bytes, packets: self.len },
            None => Charges::Each(&self.bytes[..self.len]),
        }
    }

    /// Returns the index of a packet's route, and its charge.
    fn charged(&self, n: usize) -> (usize, BufferRequest) {
        let members = &self.members[..self.routes.len()];
        let index = members.iter().position(|members| members >> n & 1 != 0).expect("each packet has a route");
        let RouteTotal { ingress, egress, .. } = self.routes[index];
        (index, BufferRequest { ingress, egress, bytes: self.each.unwrap_or(self.bytes[n]) })
    }

    /// Returns the departures of the first packets, in order.
    fn departures(&self, count: usize) -> impl Iterator<Item = BufferRelease> {
        (0..count).map(|n| {
            let (_, BufferRequest { ingress, egress, bytes }) = self.charged(n);
            BufferRelease { ingress, egress, bytes }
        })
    }

    /// Clears the records, after all packets were taken.
    #[inline]
    fn clear(&mut self) {
        self.routes.clear();
        (self.len, self.frame_bytes, self.classes) = (0, 0, ClassSet::EMPTY);
    }

    /// Drops all packets, and passes them to `charged` with their departures; returns their number.
    pub(super) fn give_up(&mut self, charged: impl FnOnce(&[P], &[BufferRelease])) -> usize {
        let departures: ArrayVec<BufferRelease, BURST_MAX> = self.departures(self.len).collect();
        let packets: Burst<P> = self.packets.iter_mut().map_while(Option::take).collect();
        charged(&packets, &departures);
        self.clear();
        departures.len()
    }
}

impl<P: Packet> QueueBypass<P> {
    /// Writes the length of each packet into this memory, and returns the written part.
    #[inline(always)]
    fn lengths<'l>(&self, into: &'l mut [u32; BURST_MAX]) -> &'l [u32] {
        let lengths = &mut into[..self.len];
        let charged: u32 = self.routes.iter().map(|route| route.bytes).sum();
        if charged == self.frame_bytes + FCS_BYTES as u32 * self.len as u32 {
            // No frame is charged less than its length with FCS. If the sums are equal, each charge is therefore that length.
            match self.charges() {
                Charges::Uniform { bytes, .. } => lengths.fill(bytes - FCS_BYTES as u32),
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

    /// Takes all packets, in order, for the queues that they were to bypass.
    pub(super) fn take_all(&mut self, mut to: impl FnMut(QueuedPacket<P>)) {
        for n in 0..self.len {
            let (_, charged) = self.charged(n);
            let packet = self.packets[n].take().expect(NOT_TAKEN);
            to(QueuedPacket::new(packet, charged));
        }
        self.clear();
        self.backoff = BACKOFF_ROUNDS;
    }

    /// Stages the packets behind the first `sent`, which the port did not accept, and keeps the sums of the sent ones.
    #[inline(never)]
    fn stage_rest(&mut self, sent: usize, staged: &mut TxBatch<P>) {
        for n in sent..self.len {
            let (index, charged) = self.charged(n);
            let queued = QueuedPacket::new(self.packets[n].take().expect(NOT_TAKEN), charged);
            let route = &mut self.routes[index];
            route.packets -= 1;
            (route.bytes, route.frame_bytes) = (route.bytes - charged.bytes, route.frame_bytes - queued.frame_bytes);
            staged.push(queued);
        }
        self.len = sent;
    }

    /// Releases the first packets, whose sums the routes hold. With `later`, they may wait for other releases of this poll, if no one needs
    /// them earlier.
    #[inline(always)]
    fn release(&self, now: Time, mmu: &Mmu, later: Option<&mut PendingBytes>) {
        if let Some(pending_bytes) = later
            && mmu.may_release_later()
        {
            mmu.take_out(pending_bytes, &self.routes);
        } else if mmu.releases_in_order() {
            self.release_in_order(now, mmu);
        } else {
            mmu.release_sums(now, &self.routes);
        }
    }

    #[inline(never)]
    fn release_in_order(&self, now: Time, mmu: &Mmu) {
        if let [route] = &self.routes[..] {
            return mmu.release_pair(now, route, self.charges());
        }
        let departures: ArrayVec<BufferRelease, BURST_MAX> = self.departures(self.len).collect();
        mmu.release(now, &departures);
    }
}

impl<P> Default for QueueBypass<P> {
    fn default() -> QueueBypass<P> {
        QueueBypass {
            packets: [const { None }; BURST_MAX],
            bytes: [0; BURST_MAX],
            each: None,
            len: 0,
            classes: ClassSet::EMPTY,
            frame_bytes: 0,
            routes: ArrayVec::new(),
            members: [0; BURST_MAX],
            backoff: 0,
        }
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

    /// Packet with a length alone.
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
        /// Lengths are the packets' own, also where charges do not give them: with runts and with whole cells.
        #[test]
        fn lengths_are_the_packets_own(
            lengths in prop_oneof![
                prop::collection::vec(60..1_515u32, 0..=BURST_MAX),
                prop::collection::vec(14..80u32, 0..=BURST_MAX),
            ],
            cell_bytes in prop::sample::select(vec![1, 64, 208]),
        ) {
            let (charge, queue) = (Charge::in_cells(cell_bytes), |port| QueueId::new(PortId(port), Class::new(3)));
            let (mut bypass, mut request) = (QueueBypass::default(), BurstRequest::new());
            for length in &lengths {
                let (ingress, egress) = (queue(0), queue(1));
                request.push(BufferRequest { ingress, egress, bytes: charge.frame_charge(*length) }, *length);
            }
            let mut packets: Burst<OfLength> = lengths.iter().map(|length| OfLength(*length)).collect();
            bypass.record(Class::new(3).alone(), request.each_charged());
            bypass.put_all(&mut packets, &request);
            let mut buffer = [0; BURST_MAX];
            prop_assert_eq!(bypass.lengths(&mut buffer), lengths);
        }
    }
}
