//! Burst that requests buffer, summed by route (ingress and egress queue), so that the MMU updates each queue once, in any order of
//! packets.

use arrayvec::ArrayVec;
use weir_units::{QueueId, bits};

use super::{Admission, BufferRequest, DropReason, Segment};
use crate::charge::Charges;

/// Maximum number of packets in a [`BurstRequest`].
pub const BURST_REQUEST_MAX: usize = 64;

/// Route of a burst: an ingress and an egress queue, with the sums over their packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteTotal {
    /// Ingress queue: port of arrival and class.
    pub ingress: QueueId,
    /// Egress queue: port of departure and class.
    pub egress: QueueId,
    /// Number of packets.
    pub packets: u32,
    /// Sum of the packets' charges, in bytes.
    pub bytes: u32,
    /// Sum of the packets' lengths without FCS, for the transmitter; the MMU ignores it.
    pub frame_bytes: u32,
}

/// Subset of a burst's packets of one route.
#[derive(Clone, Copy, Debug)]
pub struct RouteGroup {
    /// Ingress queue: port of arrival and class.
    pub ingress: QueueId,
    /// Egress queue: port of departure and class.
    pub egress: QueueId,
    /// Bit mask of the packets.
    pub members: u64,
    /// Number of packets.
    pub packets: u32,
    /// Sum of the packets' charges, in bytes.
    pub bytes: u32,
    /// Sum of the packets' lengths without FCS.
    pub frame_bytes: u32,
}

/// Burst of one ingress port: packets, oldest first, and their [routes](RouteTotal). After [`super::Mmu::admit_burst`] it also holds the
/// verdict on each packet. The memory is reused for the next burst.
#[derive(Debug)]
pub struct BurstRequest {
    routes: ArrayVec<RouteTotal, BURST_REQUEST_MAX>,
    len: usize,
    /// Index of each packet's route, except for the packets in `grouped`.
    route_of: [u8; BURST_REQUEST_MAX],
    /// Bit mask of the packets whose route is recorded only in `members`. Mostly all packets are admitted, and no packet's route is
    /// looked up.
    grouped: u64,
    /// Index of the first packet whose charge was added last.
    grouped_from: u32,
    bytes: [u32; BURST_REQUEST_MAX],
    /// Charge common to all packets, if known to be equal.
    each: Option<u32>,
    /// Bit mask of the routes all of whose packets are in one segment.
    pub(super) bulk_admitted: u64,
    /// Bit mask of the routes all of whose packets were admitted.
    pub(super) admitted: u64,
    pub(super) segments: [Segment; BURST_REQUEST_MAX],
    /// Verdict on each packet of the other routes.
    pub(super) verdicts: [Admission; BURST_REQUEST_MAX],
    /// Index of the route to each egress queue. Entries of queues without a route are stale.
    route_by_egress: [u8; EGRESS_QUEUES],
    members: [u64; BURST_REQUEST_MAX],
    shares_egress: bool,
    /// Whether routes differ in their ingress queue.
    ingress_differs: bool,
}

/// Number of egress queues with a slot each. With more queues, a burst may have several [`RouteTotal`]s of one route.
const EGRESS_QUEUES: usize = 512;

impl BurstRequest {
    /// Creates an empty burst.
    pub fn new() -> BurstRequest {
        BurstRequest {
            routes: ArrayVec::new(),
            len: 0,
            route_of: [0; BURST_REQUEST_MAX],
            grouped: 0,
            grouped_from: 0,
            bytes: [0; BURST_REQUEST_MAX],
            each: None,
            bulk_admitted: 0,
            admitted: 0,
            segments: [Segment::Private; BURST_REQUEST_MAX],
            verdicts: [Admission::Drop(DropReason::SharedFull); BURST_REQUEST_MAX],
            route_by_egress: [0; EGRESS_QUEUES],
            members: [0; BURST_REQUEST_MAX],
            shares_egress: false,
            ingress_differs: false,
        }
    }

    /// Adds packets of these routes (ingress first), lengths and charges. Stops at the first packet of a new route whose egress queue
    /// `takes` rejects. Returns the number of added packets.
    ///
    /// # Panics
    /// If the burst has no room for all of them, or routes and charges differ in number.
    #[inline(always)]
    pub fn push_each(
        &mut self,
        pairs: impl ExactSizeIterator<Item = (QueueId, QueueId)>,
        lengths: &[u32],
        bytes: impl ExactSizeIterator<Item = u32>,
        mut takes: impl FnMut(QueueId) -> bool,
    ) -> usize {
        assert_eq!(bytes.len(), pairs.len());
        let before = self.len;
        for (((ingress, egress), bytes), frame_bytes) in pairs.zip(bytes).zip(lengths) {
            let index = self.route_by_egress[egress.index() % EGRESS_QUEUES];
            let known = self.routes.get(usize::from(index));
            let is_known = known.is_some_and(|route| route.egress == egress && route.ingress == ingress);
            if !is_known && !takes(egress) {
                break;
            }
            self.push(BufferRequest { ingress, egress, bytes }, *frame_bytes);
        }
        self.len - before
    }

    /// Adds packets with these charges. Their [groups](BurstRequest::push_group) must follow, each packet in one.
    ///
    /// # Panics
    /// If the burst has no room for all of them.
    #[inline(always)]
    pub fn push_charges(&mut self, bytes: &[u32]) {
        self.each = None;
        self.bytes[self.len..][..bytes.len()].copy_from_slice(bytes);
        self.push_grouped(bytes.len());
    }

    /// Adds packets as [`BurstRequest::push_charges`] does, with an equal charge each.
    ///
    /// # Panics
    /// If the burst has no room for all of them.
    #[inline(always)]
    pub fn push_uniform_charges(&mut self, packets: usize, bytes: u32) {
        self.charge_uniformly(packets, bytes);
        self.push_grouped(packets);
    }

    #[inline(always)]
    fn push_grouped(&mut self, packets: usize) {
        // The length equals the mask's width if the burst is full; nothing is added then.
        self.grouped |= mask(packets).wrapping_shl(self.len as u32);
        self.grouped_from = self.len as u32;
        self.len += packets;
    }

    /// Adds the route of some of the packets whose charges were added last; a route may have several groups. Routes are in the order of their
    /// first packets if groups are.
    #[inline(always)]
    pub fn push_group(&mut self, RouteGroup { ingress, egress, members, packets, bytes, frame_bytes }: RouteGroup) {
        debug_assert_eq!(members.count_ones(), packets);
        self.count(RouteTotal { ingress, egress, packets, bytes, frame_bytes }, members << self.grouped_from);
    }

    /// Adds packets of one route with these charges and `frame_bytes` bytes in total.
    ///
    /// # Panics
    /// If the burst has no room for all of them.
    #[inline(always)]
    pub fn push_batch(
        &mut self,
        ingress: QueueId,
        egress: QueueId,
        frame_bytes: u32,
        bytes: impl ExactSizeIterator<Item = u32>,
    ) {
        let packets = bytes.len();
        self.each = None;
        let mut total = 0;
        let places = &mut self.bytes[self.len..][..packets];
        for (place, bytes) in places.iter_mut().zip(bytes) {
            *place = bytes;
            total += bytes;
        }
        if packets > 0 {
            self.add_batch(RouteTotal { ingress, egress, packets: packets as u32, bytes: total, frame_bytes });
        }
    }

    /// Adds `packets` (at least one) packets of one route, with a charge of `each` and `frame_bytes` bytes in total.
    ///
    /// # Panics
    /// If the burst has no room for all of them.
    #[inline(always)]
    pub fn push_uniform_batch(
        &mut self,
        ingress: QueueId,
        egress: QueueId,
        packets: usize,
        each: u32,
        frame_bytes: u32,
    ) {
        self.charge_uniformly(packets, each);
        let packets = packets as u32;
        self.add_batch(RouteTotal { ingress, egress, packets, bytes: each * packets, frame_bytes });
    }

    /// Stores an equal charge for the packets that are added next.
    #[inline(always)]
    fn charge_uniformly(&mut self, packets: usize, bytes: u32) {
        self.each = (self.len == 0 || self.each == Some(bytes)).then_some(bytes);
        self.bytes[self.len..][..packets].fill(bytes);
    }

    /// Adds the packets of a route, at least one, whose charges are already stored.
    #[inline(always)]
    fn add_batch(&mut self, route: RouteTotal) {
        let packets = route.packets as usize;
        let place = self.count(route, mask(packets) << self.len);
        self.route_of[self.len..][..packets].fill(place);
        self.len += packets;
    }

    /// Adds packets (`members` is their bit mask) to their route; returns its index.
    #[inline(always)]
    fn count(&mut self, more: RouteTotal, members: u64) -> u8 {
        let slot = more.egress.index() % EGRESS_QUEUES;
        let index = &mut self.route_by_egress[slot];
        match self.routes.get_mut(usize::from(*index)) {
            Some(route) if route.egress == more.egress && route.ingress == more.ingress => {
                route.packets += more.packets;
                route.bytes += more.bytes;
                route.frame_bytes += more.frame_bytes;
                self.members[usize::from(*index) % BURST_REQUEST_MAX] |= members;
            }
            other => {
                self.shares_egress |= other.is_some_and(|route| route.egress.index() % EGRESS_QUEUES == slot);
                self.ingress_differs |= self.routes.first().is_some_and(|route| route.ingress != more.ingress);
                *index = self.routes.len() as u8;
                self.members[usize::from(*index) % BURST_REQUEST_MAX] = members;
                self.routes.push(more);
            }
        }
        *index
    }

    /// Adds a packet of this length without FCS. All packets must be of one ingress port.
    ///
    /// # Panics
    /// If the burst is full.
    #[inline(always)]
    pub fn push(&mut self, packet: BufferRequest, frame_bytes: u32) {
        let n = self.len;
        assert!(n < BURST_REQUEST_MAX, "a burst with room for a packet");
        let BufferRequest { ingress, egress, bytes } = packet;
        let place = self.count(RouteTotal { ingress, egress, packets: 1, bytes, frame_bytes }, 1 << n);
        (self.route_of[n], self.bytes[n], self.each) = (place, bytes, None);
        self.len = n + 1;
    }

    /// Number of packets.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the burst has no packets.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of packets that can still be added.
    #[inline]
    pub fn room(&self) -> usize {
        BURST_REQUEST_MAX - self.len
    }

    /// Routes, in the order of their first packets.
    #[inline]
    pub fn routes(&self) -> &[RouteTotal] {
        &self.routes
    }

    /// Ingress queue of all packets; `None` if there is none, or they differ.
    #[inline]
    pub fn ingress(&self) -> Option<QueueId> {
        self.routes.first().filter(|_| !self.ingress_differs).map(|route| route.ingress)
    }

    /// Routes with a bit mask of each one's packets; `None` if two of them may have the same egress queue.
    #[inline]
    pub fn by_egress(&self) -> Option<impl Iterator<Item = (&RouteTotal, u64)>> {
        (!self.shares_egress).then(|| self.routes_with_packets())
    }

    /// Routes with a bit mask of each one's packets.
    #[inline]
    pub fn routes_with_packets(&self) -> impl Iterator<Item = (&RouteTotal, u64)> {
        self.routes.iter().zip(self.members.iter().copied())
    }

    #[inline(always)]
    fn place(&self, n: usize) -> usize {
        if self.grouped >> n & 1 == 0 { usize::from(self.route_of[n]) } else { self.place_by_members(n) }
    }

    #[inline(never)]
    fn place_by_members(&self, n: usize) -> usize {
        let routes = &self.members[..self.routes.len()];
        routes.iter().position(|members| members >> n & 1 != 0).expect("each packet has a route")
    }

    /// Packet `n` of the burst.
    ///
    /// # Panics
    /// If `n` is not below [`BurstRequest::len`].
    #[inline]
    pub fn packet(&self, n: usize) -> BufferRequest {
        let route = &self.routes[self.place(n)];
        BufferRequest { ingress: route.ingress, egress: route.egress, bytes: self.bytes[n] }
    }

    /// Charge of each packet.
    #[inline]
    pub fn bytes(&self) -> &[u32] {
        &self.bytes[..self.len]
    }

    /// Charges of the packets.
    #[inline]
    pub fn charges(&self) -> Charges<'_> {
        match self.each {
            Some(bytes) => Charges::Uniform { bytes, packets: self.len },
            None => Charges::Each(self.bytes()),
        }
    }

    /// Charge of every packet, if known to be equal; individual charges are not compared.
    #[inline]
    pub fn each_charged(&self) -> Option<u32> {
        self.each
    }

    /// Returns each packet's route and charge.
    #[inline(always)]
    pub fn placed(&self) -> impl ExactSizeIterator<Item = (&RouteTotal, u32)> {
        self.bytes().iter().enumerate().map(|(n, bytes)| (&self.routes[self.place(n)], *bytes))
    }

    /// Packets of the burst.
    #[inline]
    pub fn packets(&self) -> impl ExactSizeIterator<Item = BufferRequest> {
        self.placed().map(|(route, bytes)| BufferRequest { ingress: route.ingress, egress: route.egress, bytes })
    }

    /// Returns whether every packet was admitted; if not, [`BurstRequest::verdict`] holds the decision on each.
    #[inline]
    pub fn is_admitted(&self) -> bool {
        self.admitted == mask(self.routes.len())
    }

    /// Verdict on a packet.
    ///
    /// # Panics
    /// If `n` is not below [`BurstRequest::len`].
    #[inline]
    pub fn verdict(&self, n: usize) -> Admission {
        let route = self.place(n);
        if self.bulk_admitted >> route & 1 != 0 { Admission::Admit(self.segments[route]) } else { self.verdicts[n] }
    }

    /// Removes all packets.
    #[inline]
    pub fn clear(&mut self) {
        self.routes.clear();
        (self.shares_egress, self.ingress_differs) = (false, false);
        (self.len, self.grouped) = (0, 0);
    }

    #[inline]
    pub(super) fn bytes_of(&self, routes: u64) -> impl Iterator<Item = u32> {
        bits(self.members_of(routes)).map(|n| self.bytes[n % BURST_REQUEST_MAX])
    }

    #[inline]
    pub(super) fn members_of(&self, routes: u64) -> u64 {
        bits(routes).fold(0, |members, route| members | self.members[route % BURST_REQUEST_MAX])
    }

    #[inline]
    pub(super) fn smallest(&self) -> u32 {
        self.each.unwrap_or_else(|| self.bytes[..self.len].iter().copied().min().unwrap_or(0))
    }

    /// Charge of each of these packets, if they are equal.
    pub(super) fn charge_common_to(&self, members: u64) -> Option<u32> {
        self.each.or_else(|| {
            let first = self.bytes[members.trailing_zeros() as usize % BURST_REQUEST_MAX];
            bits(members).all(|n| self.bytes[n % BURST_REQUEST_MAX] == first).then_some(first)
        })
    }

    /// A route, and a bit mask of its packets.
    #[inline]
    pub(super) fn route(&self, n: usize) -> (&RouteTotal, u64) {
        (&self.routes[n], self.members[n % BURST_REQUEST_MAX])
    }

    /// Collects the packets of these routes.
    pub(super) fn packets_of(&self, routes: u64) -> ArrayVec<BufferRequest, BURST_REQUEST_MAX> {
        bits(self.members_of(routes)).map(|n| self.packet(n)).collect()
    }
}

impl Default for BurstRequest {
    fn default() -> BurstRequest {
        BurstRequest::new()
    }
}

#[inline]
pub(super) fn mask(n: usize) -> u64 {
    if n == 0 { 0 } else { u64::MAX >> (64 - n) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_units::{Class, PortId};

    use super::*;

    /// Routes, some of which share an egress queue's slot.
    fn pair(n: u16) -> (QueueId, QueueId) {
        let queue = |port| QueueId::new(PortId(port), Class::new((n % 2) as u8));
        (queue(0), queue(n / 2 % 3 * (EGRESS_QUEUES / 8) as u16 + n / 6))
    }

    proptest! {
        /// Batches of equally charged packets equal individual packets.
        #[test]
        fn by_rows_as_one_by_one(rows in prop::collection::vec((0..3u16, 1..=BURST_REQUEST_MAX, 64..66u32), 0..6)) {
            let (mut each, mut by_rows) = (BurstRequest::new(), BurstRequest::new());
            for (n, packets, bytes) in rows {
                let ((ingress, egress), packets) = (pair(n), packets.min(by_rows.room()));
                if packets > 0 {
                    by_rows.push_uniform_batch(ingress, egress, packets, bytes, (bytes - 4) * packets as u32);
                    (0..packets).for_each(|_| each.push(BufferRequest { ingress, egress, bytes }, bytes - 4));
                }
            }
            prop_assert_eq!(by_rows.routes(), each.routes());
            prop_assert_eq!(by_rows.packets().collect::<Vec<_>>(), each.packets().collect::<Vec<_>>());
            prop_assert_eq!(by_rows.charges().iter().collect::<Vec<_>>(), each.bytes());
            if let Some(bytes) = by_rows.each_charged() {
                prop_assert!(each.bytes().iter().all(|charged| *charged == bytes));
            }
        }
    }

    proptest! {
        /// Packets are equal for each method of adding, and each belongs to its route.
        #[test]
        fn by_groups_as_one_by_one(
            packets in prop::collection::vec((0..12u16, 64..9_000u32), 0..=BURST_REQUEST_MAX),
            before in prop_oneof![Just(0), 0..=BURST_REQUEST_MAX],
            is_one_charge: bool,
        ) {
            let arrivals: Vec<BufferRequest> = packets.iter().map(|(n, bytes)| {
                let (ingress, egress) = pair(*n);
                BufferRequest { ingress, egress, bytes: if is_one_charge { 80 } else { *bytes } }
            }).collect();
            let (first, rest) = arrivals.split_at(before.min(arrivals.len()));
            let (mut each, mut grouped) = (BurstRequest::new(), BurstRequest::new());
            arrivals.iter().for_each(|arrival| each.push(*arrival, arrival.bytes - 4));
            first.iter().for_each(|arrival| grouped.push(*arrival, arrival.bytes - 4));
            let mut groups: Vec<RouteGroup> = Vec::new();
            for (n, BufferRequest { ingress, egress, bytes }) in rest.iter().copied().enumerate() {
                match groups.iter_mut().find(|group| (group.ingress, group.egress) == (ingress, egress)) {
                    Some(group) => {
                        (group.members, group.packets) = (group.members | 1 << n, group.packets + 1);
                        (group.bytes, group.frame_bytes) = (group.bytes + bytes, group.frame_bytes + bytes - 4);
                    }
                    None => groups.push(RouteGroup {
                        ingress, egress, members: 1 << n, packets: 1, bytes, frame_bytes: bytes - 4,
                    }),
                }
            }
            let charges: Vec<u32> = rest.iter().map(|arrival| arrival.bytes).collect();
            match charges[..] {
                [bytes, ..] if is_one_charge => grouped.push_uniform_charges(charges.len(), bytes),
                _ => grouped.push_charges(&charges),
            }
            groups.into_iter().for_each(|group| grouped.push_group(group));
            if let Some(bytes) = grouped.each_charged() {
                prop_assert!(arrivals.iter().all(|arrival| arrival.bytes == bytes));
            }
            prop_assert_eq!(grouped.each_charged().is_some(), is_one_charge && first.is_empty() && !rest.is_empty());
            for burst in [&each, &grouped] {
                prop_assert_eq!(burst.packets().collect::<Vec<_>>(), arrivals.clone());
                for (route, members) in burst.routes().iter().zip(burst.members) {
                    let own: Vec<BufferRequest> = bits(members).map(|n| arrivals[n]).collect();
                    prop_assert!(own.iter().all(|packet| (packet.ingress, packet.egress) == (route.ingress, route.egress)));
                    prop_assert_eq!(route.bytes, own.iter().map(|packet| packet.bytes).sum::<u32>());
                    prop_assert_eq!(route.packets, members.count_ones());
                    prop_assert_eq!(route.frame_bytes, route.bytes - 4 * route.packets);
                }
                let all = burst.members[..burst.routes().len()].iter().fold(0, |all, members| all | members);
                prop_assert_eq!(all, mask(arrivals.len()));
                let mut egress: Vec<QueueId> = burst.routes().iter().map(|route| route.egress).collect();
                egress.sort();
                let shares = egress.windows(2).any(|pair| pair[0] == pair[1]);
                prop_assert!(!shares || burst.by_egress().is_none(), "one queue, several routes");
            }
        }
    }
}
