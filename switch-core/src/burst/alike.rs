//! Frames of a burst put together by their ways, a way at a time: where there are few ways, this costs less than a look at each frame's
//! place.

use arrayvec::ArrayVec;

use super::exact_match::Way;
use crate::packet::BURST_MAX;

/// Frames of a burst that go the same way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alike {
    pub(super) way: Way,
    /// Which frames, as bits.
    pub(super) members: u64,
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

/// The ways of the first `count` frames, in the order of their first ones; `None` if there are too many.
#[inline(always)]
pub(super) fn alike(count: usize, ways: &[Way; BURST_MAX]) -> Option<ArrayVec<Alike, WAYS_MAX>> {
    let mut groups = ArrayVec::new();
    let mut left = u64::MAX.checked_shr((BURST_MAX - count) as u32).unwrap_or(0);
    while left != 0 {
        if groups.is_full() || groups.len() == WAYS_OF_HALF && left.count_ones() as usize * 2 > count {
            return None;
        }
        let way = ways[left.trailing_zeros() as usize % BURST_MAX];
        let members = members(way, ways) & left;
        left &= !members;
        groups.push(Alike { way, members });
    }
    Some(groups)
}

/// The frames that go this way, as bits.
// Apart: in its caller's loop the compiler would keep copies of all ways.
#[inline(never)]
fn members(way: Way, ways: &[Way; BURST_MAX]) -> u64 {
    let mut members = [0; 2];
    for (half, members) in members.iter_mut().enumerate() {
        // Numbers of one width, of a number that is known, and no branch: so the compiler looks at several frames at once.
        for (other, bit) in ways[half * HALF..(half + 1) * HALF].iter().zip(&BITS) {
            *members |= if *other == way { *bit } else { 0 };
        }
    }
    u64::from(members[0]) | u64::from(members[1]) << HALF
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
        fn as_one_by_one(frames in prop::collection::vec(0..12u16, 0..=BURST_MAX), most in 1..=12u16) {
            let mut ways = [Way::default(); BURST_MAX];
            let mut model: Vec<(Way, u64)> = Vec::new();
            for (n, number) in frames.iter().enumerate() {
                ways[n] = way(number % most);
                match model.iter_mut().find(|(way, _)| *way == ways[n]) {
                    Some((_, members)) => *members |= 1 << n,
                    None => model.push((ways[n], 1 << n)),
                }
            }
            let groups = alike(frames.len(), &ways);
            let of_first: u32 = model.iter().take(WAYS_OF_HALF).map(|(_, members)| members.count_ones()).sum();
            let has_few = model.len() <= WAYS_OF_HALF || model.len() <= WAYS_MAX && of_first as usize * 2 >= frames.len();
            prop_assert_eq!(groups.is_some(), has_few);
            let Some(groups) = groups else { return Ok(()) };
            prop_assert_eq!(groups.iter().map(|group| (group.way, group.members)).collect::<Vec<_>>(), model);
        }
    }
}
