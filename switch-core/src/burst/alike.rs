//! Frames of a burst put together by their ways, a way at a time: where there are few ways, this costs less than a look at each frame's
//! place.

use arrayvec::ArrayVec;
use weir_mmu::Group;

use super::exact_match::Way;
use crate::packet::BURST_MAX;

/// Frames of a burst that go the same way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alike {
    pub(super) way: Way,
    /// Which frames, as bits.
    pub(super) members: u64,
    /// Their lengths, together, and what they are charged.
    pub(super) frame_bytes: u32,
    charge: u32,
}

/// The most ways of which frames are put together at a glance: each costs a look at all frames.
const WAYS_MAX: usize = 8;
/// So many ways have to be those of half of the frames, or there are likely many more.
const WAYS_OF_HALF: usize = 4;

/// Frames of which each has a bit of 32.
const HALF: usize = BURST_MAX / 2;

/// Each frame's bit.
const BITS: [u32; HALF] = {
    let (mut bits, mut n) = ([0; HALF], 0);
    while n < HALF {
        bits[n] = 1 << n;
        n += 1;
    }
    bits
};

/// Few ways.
pub(super) type Ways = ArrayVec<Alike, WAYS_MAX>;

impl Alike {
    /// The ways of the first `count` frames, in the order of their first ones; `None` if there are too many. Behind these frames all
    /// lengths and charges are 0.
    #[inline(always)]
    pub(super) fn groups(
        count: usize,
        ways: &[Way; BURST_MAX],
        lengths: &[u32; BURST_MAX],
        charges: &[u32; BURST_MAX],
    ) -> Option<Ways> {
        let mut groups = ArrayVec::new();
        let mut left = u64::MAX.checked_shr((BURST_MAX - count) as u32).unwrap_or(0);
        while left != 0 {
            if groups.is_full() || groups.len() == WAYS_OF_HALF && left.count_ones() as usize * 2 > count {
                return None;
            }
            let mut group = Alike::of(ways[left.trailing_zeros() as usize % BURST_MAX], ways, lengths, charges);
            group.members &= left;
            left &= !group.members;
            groups.push(group);
        }
        Some(groups)
    }

    /// The frames that go this way.
    #[inline(always)]
    fn of(way: Way, ways: &[Way; BURST_MAX], lengths: &[u32; BURST_MAX], charges: &[u32; BURST_MAX]) -> Alike {
        let (mut members, mut frame_bytes, mut charge) = ([0; 2], 0, 0);
        for (half, members) in members.iter_mut().enumerate() {
            let here = half * HALF..(half + 1) * HALF;
            // Numbers of one width, of a number that is known, and no branch: so the compiler looks at several frames at once.
            let frames = ways[here.clone()].iter().zip(&lengths[here.clone()]).zip(&charges[here]);
            for (((other, length), charged), bit) in frames.zip(&BITS) {
                let is_alike = if *other == way { u32::MAX } else { 0 };
                *members |= is_alike & bit;
                frame_bytes += is_alike & length;
                charge += is_alike & charged;
            }
        }
        let members = u64::from(members[0]) | u64::from(members[1]) << HALF;
        Alike { way, members, frame_bytes, charge }
    }

    /// What asks to be admitted.
    pub(super) fn charged(&self) -> Group {
        let Alike { way, members, charge, .. } = *self;
        Group { ingress: way.ingress(), egress: way.egress(), members, bytes: charge }
    }
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

    proptest! {
        /// Groups against frames one by one, of bursts of all lengths, from one way to more than are put together. The way with number
        /// 0 is also what stands behind the frames.
        #[test]
        fn as_one_by_one(frames in prop::collection::vec((0..12u16, 60..16_000u32), 0..=BURST_MAX), most in 1..=12u16) {
            let (mut ways, mut lengths, mut charges) = ([Way::default(); BURST_MAX], [0; BURST_MAX], [0; BURST_MAX]);
            let mut model: Vec<(Way, u64, u32)> = Vec::new();
            for (n, (number, length)) in frames.iter().enumerate() {
                (ways[n], lengths[n], charges[n]) = (way(number % most), *length, *length + 4);
                match model.iter_mut().find(|(way, ..)| *way == ways[n]) {
                    Some((_, members, bytes)) => (*members, *bytes) = (*members | 1 << n, *bytes + length),
                    None => model.push((ways[n], 1 << n, *length)),
                }
            }
            let groups = Alike::groups(frames.len(), &ways, &lengths, &charges);
            let of_first: u32 = model.iter().take(WAYS_OF_HALF).map(|(_, members, _)| members.count_ones()).sum();
            let has_few = model.len() <= WAYS_OF_HALF || model.len() <= WAYS_MAX && of_first as usize * 2 >= frames.len();
            prop_assert_eq!(groups.is_some(), has_few);
            let Some(groups) = groups else { return Ok(()) };
            let told = groups.iter().map(|group| (group.way, group.members, group.frame_bytes));
            prop_assert_eq!(told.collect::<Vec<_>>(), model);
            prop_assert!(groups.iter().all(|group| group.charged().bytes == group.frame_bytes + 4 * group.members.count_ones()));
        }
    }
}
