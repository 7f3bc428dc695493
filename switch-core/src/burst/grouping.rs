//! Grouping of a burst's frames by route: counters and requests for buffer get a sum for each route. Routes of many frames are found by a
//! scan each, others frame by frame.

use weir_mmu::RouteGroup;
use weir_units::{CLASSES, Class, PortId, QueueId, bits};

use super::exact_match::QueueRoute;
use crate::counters::Counters;
use crate::forwarding::Forwarding;
use crate::packet::{BURST_MAX, Packet};

/// Routes and lengths of a burst's frames.
pub(super) struct FrameRoutes {
    pub(super) routes: [QueueRoute; BURST_MAX],
    /// Length of each frame in bytes, without FCS.
    pub(super) lengths: [u32; BURST_MAX],
    /// Number of leading frames whose routes are known.
    pub(super) count: usize,
}

impl Default for FrameRoutes {
    #[inline(always)]
    fn default() -> FrameRoutes {
        FrameRoutes { routes: [QueueRoute::default(); BURST_MAX], lengths: [0; BURST_MAX], count: 0 }
    }
}

impl FrameRoutes {
    /// Removes frame `n` from the burst's frames.
    pub(super) fn remove(&mut self, n: usize) {
        self.routes.copy_within(n + 1.., n);
        self.lengths.copy_within(n + 1.., n);
    }

    /// Removes the first `n` frames from the burst's frames.
    pub(super) fn remove_front(&mut self, n: usize) {
        self.routes.copy_within(n.., 0);
        self.lengths.copy_within(n.., 0);
    }

    #[inline(always)]
    pub(super) fn frames(&self) -> (&[QueueRoute], &[u32]) {
        (&self.routes[..self.count], &self.lengths[..self.count])
    }
}

/// Frames of a burst on the same route.
#[derive(Clone, Copy, Debug)]
pub(super) struct BurstGroup {
    pub(super) route: QueueRoute,
    /// Bitmap of the frames.
    pub(super) members: u64,
    pub(super) packets: u32,
}

impl BurstGroup {
    /// Returns the admission request of the group.
    #[inline(always)]
    pub(super) fn with_bytes(&self, bytes: u32, frame_bytes: u32) -> RouteGroup {
        let BurstGroup { route, members, packets } = *self;
        RouteGroup { ingress: route.ingress(), egress: route.egress(), members, packets, bytes, frame_bytes }
    }
}

/// Frames that cost as much one by one as a scan of the burst.
const FRAMES_OF_SCAN: u32 = 4;

/// Groups of the leading frames of a burst by route, in order of their first frames. Groups of a route's frames are found by a scan each, as
/// long as they are large; then each frame is one.
struct BurstGroups<'r> {
    routes: &'r [QueueRoute; BURST_MAX],
    labels: [u8; BURST_MAX],
    /// Bitmap of the frames without a group.
    left: u64,
    packets_left: u32,
    /// Number of frames that scans must have found for another scan.
    scanned_min: u32,
    /// Number of frames that scans have found.
    scanned: u32,
}

impl<'r> BurstGroups<'r> {
    /// Groups the first `count` frames, all from one port, whose routes `differ` in these bits.
    #[inline(always)]
    fn new(count: usize, routes: &'r [QueueRoute; BURST_MAX], differ: u32) -> BurstGroups<'r> {
        let mut labels = [0; BURST_MAX];
        labels.iter_mut().zip(routes).for_each(|(label, route)| *label = route.label());
        BurstGroups {
            routes,
            labels,
            left: u64::MAX.checked_shr((BURST_MAX - count) as u32).unwrap_or(0),
            packets_left: count as u32,
            // Labels that do not distinguish the routes are of no use.
            scanned_min: if differ & QueueRoute::OTHER_EGRESS_BITS == 0 { 0 } else { u32::MAX },
            scanned: 0,
        }
    }
}

impl BurstGroups<'_> {
    /// Returns the next group, as long as groups are large.
    #[inline(always)]
    fn next_large(&mut self) -> Option<BurstGroup> {
        if self.scanned < self.scanned_min {
            return None;
        }
        let first = bits(self.left).next()?;
        let route = self.routes[first];
        let members = members(route.label(), &self.labels) & self.left;
        debug_assert!(bits(members).all(|n| self.routes[n] == route));
        self.left &= !members;
        // The last group has all remaining frames: counting bits takes longer.
        let packets = if self.left == 0 { self.packets_left } else { members.count_ones() };
        self.packets_left -= packets;
        self.scanned += packets;
        self.scanned_min += FRAMES_OF_SCAN;
        Some(BurstGroup { route, members, packets })
    }

    /// Returns the other frames, each as a group.
    #[inline(always)]
    fn rest(&self) -> impl Iterator<Item = BurstGroup> {
        bits(self.left).map(|n| BurstGroup { route: self.routes[n], members: 1 << n, packets: 1 })
    }
}

/// Returns the bitmap of the frames with this label. Out of line: in its caller's loop the compiler would keep copies of all labels.
#[inline(never)]
fn members(label: u8, labels: &[u8; BURST_MAX]) -> u64 {
    let mut bits = [0; BURST_MAX];
    // Equal widths, a constant length and no branch let the compiler compare 16 frames at once.
    for ((bits, other), bit) in bits.iter_mut().zip(labels).zip(&BIT_OF_EIGHT) {
        *bits = if *other == label { *bit } else { 0 };
    }
    let (eights, _) = bits.as_chunks();
    transposed(eights.iter().fold(0, |all, eight| all | u64::from_le_bytes(*eight)))
}

/// Bit of each frame in the byte of its index modulo 8.
const BIT_OF_EIGHT: [u8; BURST_MAX] = {
    let (mut bits, mut n) = ([0; BURST_MAX], 0);
    while n < BURST_MAX {
        bits[n] = 1 << (n / 8);
        n += 1;
    }
    bits
};

/// Transposes 8 by 8 bits (bit m of byte n becomes bit n of byte m), by swapping squares of 1, 2 and 4 (Hacker's Delight, 7-3).
#[inline(always)]
fn transposed(bits: u64) -> u64 {
    let change = |bits: u64, by: u32, which: u64| {
        let differ = (bits ^ bits >> by) & which;
        bits ^ differ ^ differ << by
    };
    let bits = change(bits, 7, 0x00aa_00aa_00aa_00aa);
    change(change(bits, 14, 0x0000_cccc_0000_cccc), 28, 0x0000_0000_f0f0_f0f0)
}

impl<P: Packet> Forwarding<P> {
    /// Counts the leading frames as received, and stages their requests: those whose egress port accepts them. Returns their number; the
    /// caller stages the packets.
    #[inline(always)]
    pub(super) fn stage_frames(&mut self, port: PortId, found: &FrameRoutes) -> usize {
        let (routes, lengths) = found.frames();
        let Some(first) = routes.first().copied() else { return 0 };
        match routes.iter().fold(0, |differ, route| differ | route.differs_from(first)) {
            0 => self.stage_one_route(port, first, lengths),
            differ => self.stage_groups(port, found, differ),
        }
    }

    /// [`Forwarding::stage_frames`] for at least one frame, all on the same route.
    #[inline(always)]
    fn stage_one_route(&mut self, port: PortId, route: QueueRoute, lengths: &[u32]) -> usize {
        let counts = self.counts(port);
        let Forwarding { shared, arrived, counters, request, .. } = self;
        let (ingress, egress) = (route.ingress(), route.egress());
        if !shared.accepts(egress.port(), egress.class()) {
            return 0;
        }
        let (length, packets) = (lengths[0], lengths.len());
        let frame_bytes = if have_one_length(lengths) {
            let frame_bytes = length * packets as u32;
            request.push_uniform_batch(ingress, egress, packets, shared.charge.frame_charge(length), frame_bytes);
            if counts {
                arrived[ingress.class().index()] +=
                    shared.port(port).receive_accounting().count_of(length) * packets as u32;
            }
            frame_bytes
        } else {
            let (charge, frame_bytes) = (shared.charge, lengths.iter().sum());
            request.push_batch(ingress, egress, frame_bytes, lengths.iter().map(|bytes| charge.frame_charge(*bytes)));
            if counts {
                arrived[ingress.class().index()] += shared.port(port).receive_accounting().count_of_all(lengths);
            }
            frame_bytes
        };
        counters.add_frames(ingress, lengths.len() as u64, u64::from(frame_bytes));
        lengths.len()
    }

    /// [`Forwarding::stage_frames`] for frames whose routes differ in the bits `differ`.
    #[inline(never)]
    fn stage_groups(&mut self, port: PortId, found: &FrameRoutes, differ: u32) -> usize {
        let FrameRoutes { routes, lengths, count } = found;
        let count = *count;
        let counts = self.counts(port);
        let Forwarding { shared, arrived, counters, request, .. } = self;
        // Queues of one number have one egress queue per ingress queue; else routes to one queue may come by several.
        let is_one_ingress = differ & QueueRoute::INGRESS_BITS == 0;
        let shares_egress = !is_one_ingress && !shared.classifier.is_identity();
        if shares_egress || !shared.accepts_all(routes[..count].iter().map(|route| route.egress())) {
            return self.stage_each(port, &routes[..count], &lengths[..count]);
        }
        let (length, mut groups) = (lengths[0], BurstGroups::new(count, routes, differ));
        if have_one_length(&lengths[..count]) {
            let charge = shared.charge.frame_charge(length);
            if is_one_ingress {
                counters.add_frames(routes[0].ingress(), count as u64, u64::from(length) * count as u64);
            }
            request.push_uniform_charges(count, charge);
            while let Some(group) = groups.next_large() {
                let group = group.with_bytes(group.packets * charge, group.packets * length);
                if !is_one_ingress {
                    count_group(counters, &group);
                }
                request.push_group(group);
            }
            for group in groups.rest() {
                let group = group.with_bytes(charge, length);
                if !is_one_ingress {
                    count_group(counters, &group);
                }
                request.push_group(group);
            }
        } else {
            let mut charges = [0; BURST_MAX];
            charges
                .iter_mut()
                .zip(&lengths[..count])
                .for_each(|(charge, bytes)| *charge = shared.charge.frame_charge(*bytes));
            request.push_charges(&charges[..count]);
            // The last group gets the remainder of the sums.
            let mut rest = (charges[..count].iter().sum::<u32>(), lengths[..count].iter().sum::<u32>());
            while let Some(group) = groups.next_large() {
                let is_last = groups.left == 0;
                let (bytes, frame_bytes) = if is_last { rest } else { sums_of(group.members, &charges, lengths) };
                rest = (rest.0 - bytes, rest.1 - frame_bytes);
                let group = group.with_bytes(bytes, frame_bytes);
                count_group(counters, &group);
                request.push_group(group);
            }
            for group in groups.rest() {
                let n = group.members.trailing_zeros() as usize % BURST_MAX;
                let group = group.with_bytes(charges[n], lengths[n]);
                count_group(counters, &group);
                request.push_group(group);
            }
        }
        if counts {
            let state = shared.port(port).receive_accounting();
            for (route, frame_bytes) in routes.iter().zip(lengths).take(count) {
                arrived[route.ingress().class().index()] += state.count_of(*frame_bytes);
            }
        }
        count
    }

    /// [`Forwarding::stage_frames`] for frames on routes some of which may not be accepted.
    #[inline(never)]
    fn stage_each(&mut self, port: PortId, routes: &[QueueRoute], lengths: &[u32]) -> usize {
        let counts = self.counts(port);
        let Forwarding { shared, arrived, counters, request, .. } = self;
        let (charge, pairs) = (shared.charge, routes.iter().map(|route| (route.ingress(), route.egress())));
        let takes = |egress: QueueId| shared.accepts(egress.port(), egress.class());
        let staged = request.push_each(pairs, lengths, lengths.iter().map(|bytes| charge.frame_charge(*bytes)), takes);
        let mut totals = ClassTotals::default();
        for (route, frame_bytes) in routes.iter().zip(lengths).take(staged) {
            totals.add(route.ingress().class(), *frame_bytes);
        }
        for (class, frames, bytes) in totals.classes() {
            counters.add_frames(QueueId::new(port, class), frames, bytes);
        }
        if counts {
            let state = shared.port(port).receive_accounting();
            for (route, frame_bytes) in routes.iter().zip(lengths).take(staged) {
                arrived[route.ingress().class().index()] += state.count_of(*frame_bytes);
            }
        }
        staged
    }
}

/// Frames and bytes of each class, packed in one number, so that each is added to the counters once.
#[derive(Default)]
struct ClassTotals([u64; CLASSES]);

impl ClassTotals {
    const FRAME: u64 = 1 << 40;

    #[inline(always)]
    fn add(&mut self, class: Class, frame_bytes: u32) {
        self.0[class.index()] += ClassTotals::FRAME | u64::from(frame_bytes);
    }

    /// Returns the classes with frames, with their frames and bytes.
    #[inline(always)]
    fn classes(self) -> impl Iterator<Item = (Class, u64, u64)> {
        let totals = Class::ALL.into_iter().zip(self.0).filter(|(_, totals)| *totals > 0);
        totals.map(|(class, totals)| (class, totals / ClassTotals::FRAME, totals % ClassTotals::FRAME))
    }
}

/// Returns whether all frames have one length. That is common, and their sum is then a product.
#[inline(always)]
fn have_one_length(lengths: &[u32]) -> bool {
    let length = lengths[0];
    lengths.iter().fold(0, |differ, other| differ | (other ^ length)) == 0
}

#[inline(always)]
fn count_group(counters: &mut Counters, RouteGroup { ingress, packets, frame_bytes, .. }: &RouteGroup) {
    counters.add_frames(*ingress, u64::from(*packets), u64::from(*frame_bytes));
}

/// Sums the charges and the lengths of the frames of a group.
#[inline(always)]
fn sums_of(members: u64, charges: &[u32; BURST_MAX], lengths: &[u32; BURST_MAX]) -> (u32, u32) {
    bits(members).fold((0, 0), |(bytes, frame_bytes), n| (bytes + charges[n], frame_bytes + lengths[n]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_units::{Class, PortId, QueueId};

    use super::*;

    fn route(n: u16) -> QueueRoute {
        let queue = |port| QueueId::new(PortId(port), Class::new((n % 8) as u8));
        QueueRoute::new(queue(0), queue(n / 8))
    }

    fn groups_of(count: usize, routes: &[QueueRoute; BURST_MAX]) -> Vec<BurstGroup> {
        let mut groups = BurstGroups::new(count, routes, differ(&routes[..count]));
        let mut all: Vec<BurstGroup> = std::iter::from_fn(|| groups.next_large()).collect();
        all.extend(groups.rest());
        all
    }

    fn differ(routes: &[QueueRoute]) -> u32 {
        routes.iter().fold(0, |differ, route| differ | route.differs_from(routes[0]))
    }

    #[test]
    fn routes_with_equal_labels_are_not_merged() {
        // 32 ports of eight classes have distinct labels.
        let mut routes = [route(7); BURST_MAX];
        routes[40] = route(7 + 256);
        assert_eq!((routes[40].label(), differ(&routes) & QueueRoute::LABEL_BITS), (routes[0].label(), 0));
        let groups = groups_of(BURST_MAX, &routes);
        assert!(
            groups.len() == BURST_MAX
                && groups.iter().all(|group| group.route == routes[group.members.trailing_zeros() as usize])
        );
        let groups = groups_of(40, &routes);
        assert_eq!((groups.len(), groups[0].members), (1, u64::MAX >> 24));
    }

    proptest! {
        /// Compares groups with a frame-by-frame model, for bursts of all lengths and from one route to one for each frame. Route 0 also
        /// fills the places behind the frames.
        #[test]
        fn as_one_by_one(frames in prop::collection::vec(0..256u16, 0..=BURST_MAX), most in prop_oneof![1..=12u16, Just(256)]) {
            let mut routes = [QueueRoute::default(); BURST_MAX];
            let mut model: Vec<(QueueRoute, u64)> = Vec::new();
            for (n, number) in frames.iter().enumerate() {
                routes[n] = route(number % most);
                match model.iter_mut().find(|(route, _)| *route == routes[n]) {
                    Some((_, members)) => *members |= 1 << n,
                    None => model.push((routes[n], 1 << n)),
                }
            }
            let groups = groups_of(frames.len(), &routes);
            let mut merged: Vec<(QueueRoute, u64)> = Vec::new();
            for group in &groups {
                match merged.iter_mut().find(|(route, _)| *route == group.route) {
                    // Groups do not overlap.
                    Some((_, members)) => *members += group.members,
                    None => merged.push((group.route, group.members)),
                }
            }
            prop_assert_eq!(merged, model);
            prop_assert!(groups.iter().all(|group| group.packets == group.members.count_ones()));
            prop_assert!(groups.iter().all(|group| bits(group.members).fold(0, |all, n| all | 1 << n) == group.members));
        }
    }
}
