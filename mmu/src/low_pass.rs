//! First-order low-pass filter on a queue's length (reverie 3.2), in integers.

use crate::charge::Charges;
use crate::occupancy::Occupancy;
use crate::sync::{Ordering, SharedCounter};

/// Filter `q̂ ← γ·q̂ + (1 − γ)·q`, with one step per packet event: arrivals and departures. q is w_s of a lossless ingress queue, and the
/// whole length of a lossy egress queue.
///
/// The paper's filter runs in time, and an empty queue has no events. A departure that leaves q = 0 therefore sets q̂ = 0. Otherwise a
/// drained lossless queue would resume against equation 4 and pause again at its first packets, and a drained lossy queue above its
/// threshold would drop every packet that arrives alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LowPass {
    /// Weight 1 − γ of a step, in units of 2^-32.
    weight: u32,
    /// Weight 1 − γ of an arrival, in units of 2^-32: 0 if arrivals are no steps.
    arrival_weight: u32,
    /// Mask of the headroom that counts in q of a lossless ingress queue: all bits or none. A mask saves a branch per packet.
    headroom: u32,
    /// Mask: zero if a departure caps q̂ at q, otherwise all bits.
    uncut: u64,
    /// Mask of the bits of q̂ that a step keeps: those of whole bytes, or all.
    kept_bits: u64,
}

/// Average q̂ of one queue, in units of 2^-20 bytes.
///
/// Arrivals and departures step q̂ from any lcore. Relaxed: q̂ orders no other memory.
#[derive(Debug, Default)]
pub(crate) struct Average(SharedCounter);

/// Fraction bits of q̂: a queue of 2^31 bytes leaves room for a sign.
const FRACTION_BITS: u32 = 20;

impl LowPass {
    /// Creates a filter from γ in parts per billion: 999_000_000 is 0.999. Zero disables filtering: q̂ = q.
    ///
    /// # Panics
    /// If γ is 1 or more: q̂ would never move.
    pub(crate) fn with_gamma_ppb(gamma_ppb: u32) -> LowPass {
        const BILLION: u64 = 1_000_000_000;
        assert!(u64::from(gamma_ppb) < BILLION, "γ is below 1");
        let weight = ((BILLION - u64::from(gamma_ppb)) << 32).div_ceil(BILLION);
        let weight = u32::try_from(weight).unwrap_or(u32::MAX);
        LowPass { weight, arrival_weight: weight, headroom: 0, uncut: u64::MAX, kept_bits: u64::MAX }
    }

    pub(crate) fn at_departures_only(self, departures_only: bool) -> LowPass {
        LowPass { arrival_weight: if departures_only { 0 } else { self.weight }, ..self }
    }

    pub(crate) fn cut_to_length(self, is_cut: bool) -> LowPass {
        LowPass { uncut: if is_cut { 0 } else { u64::MAX }, ..self }
    }

    pub(crate) fn with_headroom(self, counts_headroom: bool) -> LowPass {
        LowPass { headroom: if counts_headroom { u32::MAX } else { 0 }, ..self }
    }

    /// Sets whether each step rounds q̂ down to whole bytes.
    pub(crate) fn rounded_to_bytes(self, rounds: bool) -> LowPass {
        LowPass { kept_bits: if rounds { u64::MAX << FRACTION_BITS } else { u64::MAX }, ..self }
    }

    #[inline]
    pub(crate) fn length_of(self, occupancy: Occupancy) -> u64 {
        u64::from(occupancy.shared) + u64::from(occupancy.headroom & self.headroom)
    }

    /// Returns q̂ after an arrival, accepted or refused, that left the queue at `length` bytes.
    #[inline]
    pub(crate) fn arrive(self, average: u64, length: u64) -> u64 {
        LowPass::step(self.arrival_weight, average, length) & self.kept_bits
    }

    /// Returns q̂ after a departure that left the queue at `length` bytes.
    #[inline]
    pub(crate) fn depart(self, average: u64, length: u64) -> u64 {
        let uncut = if length == 0 { 0 } else { self.uncut };
        (LowPass::step(self.weight, average, length) & self.kept_bits).min(length << FRACTION_BITS | uncut)
    }

    /// Applies [`LowPass::arrive`] to packets of these sizes, `bytes` in total, one after the other, from a queue of this length.
    #[inline(always)]
    pub(crate) fn arrive_all(self, average: u64, length: u64, sizes: Charges<'_>, bytes: u64) -> u64 {
        if self.arrival_weight == 0 {
            return average & self.kept_bits;
        }
        if self.kept_bits != u64::MAX {
            return one_by_one(average, length, sizes, u64::wrapping_add, |average, length| {
                self.arrive(average, length)
            });
        }
        let before = length << FRACTION_BITS;
        let ahead = follow(self.kept(), average.wrapping_sub(before).cast_signed(), sizes);
        before.wrapping_add(bytes << FRACTION_BITS).wrapping_add_signed(ahead)
    }

    /// Applies [`LowPass::depart`] to packets of these sizes (at least one), `bytes` in total, one after the other, from a queue of this
    /// length.
    #[inline(always)]
    pub(crate) fn depart_all(self, average: u64, length: u64, sizes: Charges<'_>, bytes: u64) -> u64 {
        if self.kept_bits != u64::MAX {
            return one_by_one(average, length, sizes, u64::wrapping_sub, |average, length| {
                self.depart(average, length)
            });
        }
        let before = length << FRACTION_BITS;
        let ahead = follow(self.kept(), before.wrapping_sub(average).cast_signed(), sizes);
        // Once q̂ is at most q, later departures keep it so; q̂ of a drained queue is zero.
        let ahead = if self.uncut == 0 || length == bytes { ahead.max(0) } else { ahead };
        before.wrapping_sub(bytes << FRACTION_BITS).wrapping_sub(ahead.cast_unsigned())
    }

    /// Share γ of the distance between q̂ and q that a step leaves, in units of 2^-64.
    #[inline]
    fn kept(self) -> u64 {
        if self.weight == u32::MAX { 0 } else { u64::from(self.weight).wrapping_neg() << 32 }
    }

    /// Moves `average` (in the filter's fixed point) one step toward a length in bytes. Rounds toward q.
    #[inline]
    fn step(weight: u32, average: u64, length: u64) -> u64 {
        let target = length << FRACTION_BITS;
        if weight == u32::MAX {
            return target;
        }
        // Rounds a positive distance up and a negative one down, without a branch, since q passes q̂ in most bursts. Two halves keep
        // products within 64 bits, since lengths are below 2^32.
        let (distance, weight) = (target.wrapping_sub(average).cast_signed(), u64::from(weight));
        let (high, low) = ((distance >> 32).cast_unsigned(), distance.cast_unsigned() & u64::from(u32::MAX));
        let round_up = !(distance >> 63).cast_unsigned() & u64::from(u32::MAX);
        let part = high.wrapping_mul(weight).wrapping_add((low * weight + round_up) >> 32);
        average.wrapping_add(part)
    }
}

/// Applies one step per packet to q̂, while `moved` changes q by the packet's size.
// Not inlined: only a filter that rounds calls it.
#[inline(never)]
fn one_by_one(
    average: u64,
    length: u64,
    sizes: Charges<'_>,
    moved: impl Fn(u64, u64) -> u64,
    step: impl Fn(u64, u64) -> u64,
) -> u64 {
    let next = |(average, length), bytes: u32| {
        let length = moved(length, u64::from(bytes));
        (step(average, length), length)
    };
    sizes.iter().fold((average, length), next).0
}

/// Applies steps of q̂ while q moves in one direction by these sizes. `ahead` is the distance of q̂ ahead of q in that direction; negative
/// if q̂ is behind. Returns the new distance.
///
/// A step covers a part of the distance, rounded up, so γ times the distance, rounded down, remains on the same side. Consecutive steps
/// depend on a single product each, so other work overlaps with them. While q approaches, it may pass q̂; afterwards q̂ stays behind.
#[inline(always)]
fn follow(kept: u64, ahead: i64, sizes: Charges<'_>) -> i64 {
    match sizes {
        Charges::Each(sizes) => follow_by(kept, ahead, sizes.len(), |n| sizes[n]),
        Charges::Uniform { bytes, packets } => follow_by(kept, ahead, packets, |_| bytes),
    }
}

#[inline(always)]
fn follow_by(kept: u64, ahead: i64, count: usize, size: impl Fn(usize) -> u32) -> i64 {
    let left = |distance: u64| ((u128::from(distance) * u128::from(kept)) >> 64) as u64;
    let step = |n: usize| u64::from(size(n)) << FRACTION_BITS;
    let (mut behind, mut done) = (ahead.wrapping_neg().cast_unsigned(), 0);
    if ahead > 0 {
        let mut ahead = ahead.cast_unsigned();
        loop {
            if done == count {
                return ahead.cast_signed();
            }
            let (nearer, is_passed) = ahead.overflowing_sub(step(done));
            done += 1;
            if is_passed || nearer == 0 {
                behind = left(nearer.wrapping_neg());
                break;
            }
            ahead = left(nearer);
        }
    }
    while count - done >= STEPS {
        behind = (done..done + STEPS).fold(behind, |behind, n| left(behind + step(n)));
        done += STEPS;
    }
    behind = (done..count).fold(behind, |behind, n| left(behind + step(n)));
    behind.wrapping_neg().cast_signed()
}

const STEPS: usize = 8;

/// Converts an average to bytes, rounded up: an average above a threshold stays above it.
#[inline]
pub(crate) fn bytes_ceil(average: u64) -> u64 {
    average.div_ceil(1 << FRACTION_BITS)
}

impl Average {
    pub(crate) fn make_own(&mut self) {
        self.0.make_own();
    }

    #[inline]
    pub(crate) fn load(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Installs the steps from `before` to `after`. Steps that another lcore made meanwhile are kept and these added: events of two lcores
    /// have no defined order.
    #[inline]
    pub(crate) fn advance(&self, before: u64, after: u64) {
        if after == before {
            return;
        }
        let mut current = before;
        loop {
            let next = if current == before {
                after
            } else if after >= before {
                current + (after - before)
            } else {
                current.saturating_sub(before - after)
            };
            match self.0.compare_exchange_weak(current, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => current = now,
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Filter in floating point.
    fn exact(gamma: f64, lengths: impl Iterator<Item = u64>) -> f64 {
        lengths.fold(0.0, |average, length| gamma * average + (1.0 - gamma) * length as f64)
    }

    #[test]
    fn follows_the_formula() {
        for (ppb, gamma) in [(990_000_000, 0.99), (999_000_000, 0.999), (999_999_000, 0.999_999)] {
            let filter = LowPass::with_gamma_ppb(ppb);
            let lengths = || (0..20_000u64).map(|n| (n * 1_518) % 3_000_000);
            let average = lengths().fold(0, |average, length| filter.arrive(average, length));
            let expected = exact(gamma, lengths());
            let is = average as f64 / f64::from(1 << FRACTION_BITS);
            assert!((is - expected).abs() <= 1.0 + expected * 1e-4, "γ {gamma}: {is} for {expected}");
        }
    }

    proptest! {
        /// Compares a step with the formula in wider numbers.
        #[test]
        fn steps_round_toward_the_length(average in 0..1u64 << 51, length in 0..1u64 << 31, ppb in 1..1_000_000_000u32) {
            let filter = LowPass::with_gamma_ppb(ppb);
            let target = length << FRACTION_BITS;
            let part = (u128::from(target.abs_diff(average)) * u128::from(filter.weight)).div_ceil(1 << 32) as u64;
            let expected = if target >= average { average + part } else { average - part };
            prop_assert_eq!(filter.arrive(average, length), expected);
            prop_assert_eq!(filter.cut_to_length(true).depart(average, length), expected.min(target));
            let to_bytes = expected >> FRACTION_BITS << FRACTION_BITS;
            prop_assert_eq!(filter.rounded_to_bytes(true).arrive(average, length), to_bytes);
        }
    }

    proptest! {
        /// Compares steps together with individual steps, for packets of all sizes, and queues that q̂ is above or below.
        #[test]
        fn together_as_one_by_one(
            average in 0..1u64 << 51,
            near in any::<bool>(),
            length in 0..1u64 << 31,
            sizes in prop::collection::vec(prop_oneof![Just(0), Just(64), 0..16_000u32], 1..=64),
            ppb in prop_oneof![Just(0), Just(999_000_000), 0..1_000_000_000u32],
            (departures_only, cut, rounds, are_alike, drains) in any::<(bool, bool, bool, bool, bool)>(),
        ) {
            let length = if drains { 0 } else { length };
            let sizes = if are_alike { vec![sizes[0]; sizes.len()] } else { sizes };
            let all = if are_alike { Charges::Uniform { bytes: sizes[0], packets: sizes.len() } } else { Charges::Each(&sizes) };
            let filter = LowPass::with_gamma_ppb(ppb).at_departures_only(departures_only).cut_to_length(cut).rounded_to_bytes(rounds);
            // Near enough that q passes q̂.
            let average = if near { (length << FRACTION_BITS).saturating_add_signed((average >> 14) as i64 - (1 << 36)) } else { average };
            let arrived = sizes.iter().scan(length, |length, bytes| {
                *length += u64::from(*bytes);
                Some(*length)
            });
            let expected = arrived.fold(average, |average, length| filter.arrive(average, length));
            let bytes = sizes.iter().copied().map(u64::from).sum::<u64>();
            prop_assert_eq!(filter.arrive_all(average, length, all, bytes), expected);
            let length = length + bytes;
            let departed = sizes.iter().scan(length, |length, bytes| {
                *length -= u64::from(*bytes);
                Some(*length)
            });
            let expected = departed.fold(average, |average, length| filter.depart(average, length));
            prop_assert_eq!(filter.depart_all(average, length, all, bytes), expected);
        }
    }

    #[test]
    fn arrives_where_the_queue_stays() {
        let filter = LowPass::with_gamma_ppb(999_000_000);
        for (from, to) in [(0, 1_000_000u64), (1_000_000, 0), (1_000_000, 999_999)] {
            let start = from << FRACTION_BITS;
            let average = (0..40_000).fold(start, |average, _| filter.arrive(average, to));
            assert_eq!(bytes_ceil(average), to, "from {from}");
        }
    }

    #[test]
    fn without_a_filter_the_average_is_the_length() {
        let filter = LowPass::with_gamma_ppb(0);
        assert_eq!(bytes_ceil(filter.arrive(77 << FRACTION_BITS, 5_000)), 5_000);
    }

    #[test]
    fn the_public_simulators_filter_by_hand() {
        // γ = 1/2. 1,000 B arrive: no step. 400 B leave: (0 + 600) / 2. The rest leaves: 150, capped at zero.
        let filter = LowPass::with_gamma_ppb(500_000_000).at_departures_only(true).cut_to_length(true);
        let mut average = filter.arrive(0, 1_000);
        assert_eq!(average, 0);
        average = filter.depart(average, 600);
        assert_eq!(bytes_ceil(average), 300);
        assert_eq!(bytes_ceil(filter.depart(average, 0)), 0);
        let uncut = filter.cut_to_length(false);
        assert_eq!(
            (bytes_ceil(uncut.depart(average, 1)), uncut.depart(average, 0)),
            (151, 0),
            "a drained queue has no average"
        );
        let occupancy = Occupancy { off: true, lent: false, headroom: 4_000, shared: 1_000 };
        assert_eq!((filter.length_of(occupancy), filter.with_headroom(true).length_of(occupancy)), (1_000, 5_000));
    }

    #[test]
    fn rounding_stops_a_slow_filter_below_the_queue() {
        // γ = 0.999999: a step adds a millionth of the distance, and less than a byte counts for nothing.
        let filter = LowPass::with_gamma_ppb(999_999_000).at_departures_only(true).cut_to_length(true);
        let after =
            |filter: LowPass, length| bytes_ceil((0..2_000).fold(0, |average, _| filter.depart(average, length)));
        assert_eq!((after(filter, 900_000), after(filter.rounded_to_bytes(true), 900_000)), (1_799, 0));
        assert_eq!(after(filter.rounded_to_bytes(true), 1_100_000), 2_000);
    }

    #[test]
    fn steps_of_two_lcores_add_up() {
        let average = Average::default();
        average.advance(0, 1_000);
        // Both began at 1,000; the second finds the step of the first.
        average.advance(1_000, 1_500);
        average.advance(1_000, 900);
        assert_eq!(average.load(), 1_400);
    }
}
