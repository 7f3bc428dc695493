//! Grouping of a burst's frames by route, one route at a time. With few routes, this costs less than handling each frame.

use arrayvec::ArrayVec;
use weir_mmu::Group;
use weir_units::bits;

use super::exact_match::Way;
use crate::packet::BURST_MAX;

/// Frames of a burst on the same route.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alike {
    pub(super) way: Way,
    /// Bitmap of the frames.
    pub(super) members: u64,
    pub(super) packets: u32,
}

impl Alike {
    /// Returns the admission request of the group.
    #[inline(always)]
    pub(super) fn group(&self, bytes: u32, frame_bytes: u32) -> Group {
        let Alike { way, members, packets } = *self;
        Group { ingress: way.ingress(), egress: way.egress(), members, packets, bytes, frame_bytes }
    }
}

/// Largest number of groups: each costs a scan of all frames.
const WAYS_MAX: usize = 8;
/// Number of groups that must hold at least half of the frames; otherwise there are probably many more.
const WAYS_OF_HALF: usize = 4;

pub(super) type Groups = ArrayVec<Alike, WAYS_MAX>;

/// Groups the first `count` frames, all from one port, by route, in order of their first frames. Routes `differ` in these bits. Returns
/// whether there are few enough routes.
#[inline(always)]
pub(super) fn alike(count: usize, ways: &[Way; BURST_MAX], differ: u32, groups: &mut Groups) -> bool {
    if differ & Way::OTHER_EGRESS_BITS != 0 {
        return false;
    }
    let mut labels = [0; BURST_MAX];
    labels.iter_mut().zip(ways).for_each(|(label, way)| *label = way.label());
    let (mut left, mut packets_left) = (u64::MAX.checked_shr((BURST_MAX - count) as u32).unwrap_or(0), count as u32);
    while let Some(first) = bits(left).next() {
        if groups.is_full() || groups.len() == WAYS_OF_HALF && packets_left as usize * 2 > count {
            return false;
        }
        let way = ways[first];
        let members = members(way.label(), &labels) & left;
        debug_assert!(bits(members).all(|n| ways[n] == way));
        left &= !members;
        // The last group has all remaining frames: counting bits takes longer.
        let packets = if left == 0 { packets_left } else { members.count_ones() };
        packets_left -= packets;
        groups.push(Alike { way, members, packets });
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

    fn way(n: u16) -> Way {
        let queue = |port| QueueId::new(PortId(port), Class::new((n % 8) as u8));
        Way::new(queue(0), queue(n / 8))
    }

    fn groups_of(count: usize, ways: &[Way; BURST_MAX]) -> Option<Groups> {
        let mut groups = Groups::new();
        alike(count, ways, differ(&ways[..count]), &mut groups).then_some(groups)
    }

    fn differ(ways: &[Way]) -> u32 {
        ways.iter().fold(0, |differ, way| differ | way.differs_from(ways[0]))
    }

    #[test]
    fn ways_whose_labels_are_alike_are_not_put_together() {
        // 32 ports of eight classes have distinct labels.
        let mut ways = [way(7); BURST_MAX];
        ways[40] = way(7 + 256);
        assert_eq!((ways[40].label(), differ(&ways) & Way::LABEL_BITS), (ways[0].label(), 0));
        assert!(groups_of(BURST_MAX, &ways).is_none());
        let groups = groups_of(40, &ways).unwrap();
        assert_eq!((groups.len(), groups[0].members), (1, u64::MAX >> 24));
    }

    proptest! {
        /// Compares groups with a frame-by-frame model, for bursts of all lengths and from one route to more than can be grouped. Route 0
        /// also fills the places behind the frames.
        #[test]
        fn as_one_by_one(frames in prop::collection::vec(0..256u16, 0..=BURST_MAX), most in prop_oneof![1..=12u16, Just(256)]) {
            let mut ways = [Way::default(); BURST_MAX];
            let mut model: Vec<(Way, u64)> = Vec::new();
            for (n, number) in frames.iter().enumerate() {
                ways[n] = way(number % most);
                match model.iter_mut().find(|(way, _)| *way == ways[n]) {
                    Some((_, members)) => *members |= 1 << n,
                    None => model.push((ways[n], 1 << n)),
                }
            }
            let groups = groups_of(frames.len(), &ways);
            let of_first: u32 = model.iter().take(WAYS_OF_HALF).map(|(_, members)| members.count_ones()).sum();
            let has_few = model.len() <= WAYS_OF_HALF || model.len() <= WAYS_MAX && of_first as usize * 2 >= frames.len();
            prop_assert_eq!(groups.is_some(), has_few);
            let Some(groups) = groups else { return Ok(()) };
            prop_assert_eq!(groups.iter().map(|group| (group.way, group.members)).collect::<Vec<_>>(), model);
            prop_assert!(groups.iter().all(|group| group.packets == group.members.count_ones()));
            prop_assert!(groups.iter().all(|group| bits(group.members).fold(0, |all, n| all | 1 << n) == group.members));
        }
    }
}
