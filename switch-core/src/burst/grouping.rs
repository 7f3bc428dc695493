//! Grouping of a burst's frames by route, one route at a time. With few routes, this costs less than handling each frame.

use arrayvec::ArrayVec;
use weir_mmu::RouteGroup;
use weir_units::bits;

use super::exact_match::QueueRoute;
use crate::packet::BURST_MAX;

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

/// Largest number of groups: each costs a scan of all frames.
const ROUTES_MAX: usize = 8;
/// Number of groups that must hold at least half of the frames; otherwise there are probably many more.
const ROUTES_OF_HALF: usize = 4;

pub(super) type BurstGroups = ArrayVec<BurstGroup, ROUTES_MAX>;

/// Groups the first `count` frames, all from one port, by route, in order of their first frames. Routes `differ` in these bits. Returns
/// whether there are few enough routes.
#[inline(always)]
pub(super) fn group_by_route(
    count: usize,
    routes: &[QueueRoute; BURST_MAX],
    differ: u32,
    groups: &mut BurstGroups,
) -> bool {
    if differ & QueueRoute::OTHER_EGRESS_BITS != 0 {
        return false;
    }
    let mut labels = [0; BURST_MAX];
    labels.iter_mut().zip(routes).for_each(|(label, route)| *label = route.label());
    let (mut left, mut packets_left) = (u64::MAX.checked_shr((BURST_MAX - count) as u32).unwrap_or(0), count as u32);
    while let Some(first) = bits(left).next() {
        if groups.is_full() || groups.len() == ROUTES_OF_HALF && packets_left as usize * 2 > count {
            return false;
        }
        let route = routes[first];
        let members = members(route.label(), &labels) & left;
        debug_assert!(bits(members).all(|n| routes[n] == route));
        left &= !members;
        // The last group has all remaining frames: counting bits takes longer.
        let packets = if left == 0 { packets_left } else { members.count_ones() };
        packets_left -= packets;
        groups.push(BurstGroup { route, members, packets });
    }
    true
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_units::{Class, PortId, QueueId};

    use super::*;

    fn route(n: u16) -> QueueRoute {
        let queue = |port| QueueId::new(PortId(port), Class::new((n % 8) as u8));
        QueueRoute::new(queue(0), queue(n / 8))
    }

    fn groups_of(count: usize, routes: &[QueueRoute; BURST_MAX]) -> Option<BurstGroups> {
        let mut groups = BurstGroups::new();
        group_by_route(count, routes, differ(&routes[..count]), &mut groups).then_some(groups)
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
        assert!(groups_of(BURST_MAX, &routes).is_none());
        let groups = groups_of(40, &routes).unwrap();
        assert_eq!((groups.len(), groups[0].members), (1, u64::MAX >> 24));
    }

    proptest! {
        /// Compares groups with a frame-by-frame model, for bursts of all lengths and from one route to more than can be grouped. Route 0
        /// also fills the places behind the frames.
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
            let of_first: u32 = model.iter().take(ROUTES_OF_HALF).map(|(_, members)| members.count_ones()).sum();
            let has_few = model.len() <= ROUTES_OF_HALF || model.len() <= ROUTES_MAX && of_first as usize * 2 >= frames.len();
            prop_assert_eq!(groups.is_some(), has_few);
            let Some(groups) = groups else { return Ok(()) };
            prop_assert_eq!(groups.iter().map(|group| (group.route, group.members)).collect::<Vec<_>>(), model);
            prop_assert!(groups.iter().all(|group| group.packets == group.members.count_ones()));
            prop_assert!(groups.iter().all(|group| bits(group.members).fold(0, |all, n| all | 1 << n) == group.members));
        }
    }
}
