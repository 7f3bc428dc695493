//! ECMP: the choice of a flow's port among several of equal cost.
//!
//! A flow has a 32-bit hash, the same in all its frames. Each switch mixes it with its own seed and picks a port by the result
//! ([`select`]). Without the mixing, flows that take one port at a switch would share a port at the next switch too, and leave its other
//! ports idle: the fabric would be polarised.

use weir_wire::flow_hash;

/// Returns the port index, below `ports`, of a flow with this hash at a switch with this seed.
#[inline]
pub fn choose(hash: u32, seed: u32, ports: usize) -> usize {
    select(at_switch(hash, seed), ports)
}

/// Returns a flow's hash as mixed by a switch, which its number in the fabric identifies.
#[inline]
pub(crate) fn at_switch(hash: u32, switch: u32) -> u32 {
    flow_hash::mix(hash, switch)
}

/// Returns the port index that a hash picks: the hash's share of 2^32 times `ports`, rounded down. 0 if there is no port.
///
/// As it uses the upper bits, the hash must be mixed; for n ports the shares differ by n/2^32 at most.
#[inline]
pub fn select(hash: u32, ports: usize) -> usize {
    ((u64::from(hash) * ports as u64) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use weir_units::SplitMix64;

    use super::*;

    /// Hashes that are independent of the tested code.
    fn hashes(seed: u64) -> impl Iterator<Item = u32> {
        let mut numbers = SplitMix64::new(seed);
        std::iter::repeat_with(move || (numbers.next_u64() >> 32) as u32)
    }

    /// Computes χ² of the places of hashes, for `places` equally likely ones.
    fn chi_squared(hashes: impl Iterator<Item = u32>, places: usize, place: impl Fn(u32) -> usize) -> f64 {
        let mut counts = vec![0_u32; places];
        hashes.for_each(|hash| counts[place(hash)] += 1);
        let expected = f64::from(counts.iter().sum::<u32>()) / places as f64;
        counts.iter().map(|count| (f64::from(*count) - expected) * (f64::from(*count) - expected) / expected).sum()
    }

    /// Threshold that χ² exceeds by chance about once in 10^9 times: six standard deviations above its mean, and some for its skew.
    fn unlikely(places: usize) -> f64 {
        let freedom = (places - 1) as f64;
        freedom + 6.0 * (2.0 * freedom).sqrt() + 24.0
    }

    #[test]
    fn a_hash_picks_by_its_share() {
        let half = 1 << 31;
        assert_eq!([0, half - 1, half, u32::MAX].map(|hash| select(hash, 2)), [0, 0, 1, 1]);
        assert_eq!([0, u32::MAX / 3, u32::MAX / 3 + 1, u32::MAX].map(|hash| select(hash, 3)), [0, 0, 1, 2]);
        assert_eq!((select(u32::MAX, 64), select(u32::MAX, 1), select(u32::MAX, 0)), (63, 0, 0));
    }

    #[test]
    fn each_port_gets_its_share_within_5_percent() {
        // With 10,000 hashes a port, 5 % is five standard deviations.
        for ports in [2, 3, 4, 8, 16, 32] {
            let mut counts = vec![0_usize; ports];
            hashes(1).take(10_000 * ports).for_each(|hash| counts[select(at_switch(hash, 7), ports)] += 1);
            assert!(counts.iter().all(|count| (9_500..=10_500).contains(count)), "{counts:?}");
        }
    }

    #[test]
    fn hashes_that_count_up_are_spread_as_random_ones() {
        for ports in [2, 4, 8, 16, 64] {
            for switch in [0, 1, 319] {
                let counted = chi_squared(0..10_000, ports, |hash| select(at_switch(hash, switch), ports));
                assert!(counted < unlikely(ports), "{ports} ports at switch {switch}: {counted}");
            }
        }
    }

    #[test]
    fn choices_of_switches_are_independent() {
        // Pairs of a fat-tree of k = 16: edge and aggregation, aggregation and core, and neighbours.
        for [one, next] in [[0, 128], [5, 128], [128, 256], [0, 1], [6, 7], [255, 256]] {
            for ports in [2, 3, 4, 8, 16] {
                let pair = |hash| {
                    let [first, second] = [one, next].map(|switch| select(at_switch(hash, switch), ports));
                    first * ports + second
                };
                for kind in [hashes(2).take(10_000).collect(), Vec::from_iter(0..10_000)] {
                    let joint = chi_squared(kind.into_iter(), ports * ports, pair);
                    assert!(joint < unlikely(ports * ports), "{ports} ports at {one} and {next}: {joint}");
                }
            }
        }
    }
}
