//! Bounds on the stages and mappings of GFC under which hold and wait never occurs (gfc 4-5).
//!
//! All bounds are computed once, when a port is configured; only [`StageTable::stage_of`] and
//! [`StageTable::rate`] are for the packet path. The reserved part of a buffer is rounded up to a byte.

use weir_units::{BitRate, Bytes, Span};

use crate::RATE_MIN;

/// Returns the upper bound on the feedback delay τ, from the generation of a message to its effect on arrivals:
/// `2·MTU/C + 2·t_w + t_r` (gfc eq. 6).
///
/// The message waits for a frame under way, crosses the wire, is processed within `reaction` (t_r); the frame then
/// under way ends at the old rate, and the new one takes the wire's delay `wire` (t_w) to show. `mtu` counts as the wire does.
pub fn feedback_delay_max(rate: BitRate, mtu: Bytes, wire: Span, reaction: Span) -> Span {
    rate.time_for(mtu) * 2 + wire * 2 + reaction
}

/// Returns the highest B_0 of conceptual GFC, `B_m − 4Cτ` (gfc Theorem 4.1); `None` if the buffer is smaller than 4Cτ.
pub fn conceptual_b0_max(b_m: Bytes, rate: BitRate, tau: Span) -> Option<Bytes> {
    b_m.checked_sub(bytes_in_at_most(rate, tau * 4))
}

/// Returns the highest B_1 of buffer-based GFC, `B_m − 2Cτ` (gfc eq. 5, from Theorem 4.1); `None` if the buffer is smaller than 2Cτ.
pub fn buffer_based_b1_max(b_m: Bytes, rate: BitRate, tau: Span) -> Option<Bytes> {
    b_m.checked_sub(bytes_in_at_most(rate, tau * 2))
}

/// Returns the highest B_0 of time-based GFC, `B_m − (√(τ/T) + 1)²·C·T` for messages every T (gfc Theorem 5.1); `None` if the
/// buffer is smaller than that.
pub fn time_based_b0_max(b_m: Bytes, rate: BitRate, tau: Span, period: Span) -> Option<Bytes> {
    // (√(τ/T) + 1)²·T = τ + T + 2·√(τT), which needs no float.
    let product = u128::from(tau.as_picos()) * u128::from(period.as_picos());
    let root_doubled = (4 * product).isqrt() + 1;
    let span = tau + period + Span::from_picos(root_doubled as u64);
    b_m.checked_sub(bytes_in_at_most(rate, span))
}

/// Rejection of a buffer's thresholds. The bound is `None` where the buffer is too small for any threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThresholdError {
    /// The lowest threshold is not below B_m, so no stage has a length.
    NotBelowBuffer,
    /// B_0 of conceptual GFC is above the bound of Theorem 4.1.
    Theorem41 {
        /// Highest valid B_0.
        highest: Option<Bytes>,
    },
    /// B_1 of buffer-based GFC is above the bound of equation 5, which follows from Theorem 4.1.
    Equation5 {
        /// Highest valid B_1.
        highest: Option<Bytes>,
    },
    /// B_0 of time-based GFC is above the bound of Theorem 5.1.
    Theorem51 {
        /// Highest valid B_0.
        highest: Option<Bytes>,
    },
}

/// Stages of buffer-based GFC: stage k begins at a queue of B_k and allows the rate R_k (gfc 4.2, 5.4).
///
/// `B_k = B_m − (B_m − B_1)/2^(k−1)`, rounded down to a byte, and `R_k = C/2^k`, never below [`RATE_MIN`]. Stage 0 lies below
/// B_1 and allows the line rate. The last stage N is the first that is no longer than a byte. Its rate goes on above B_m, unless
/// the table [stops](StageTable::with_stop) there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageTable {
    /// B_1 to B_N in bytes, ascending.
    starts: Box<[u64]>,
    /// R_0 = C to R_N.
    rates: Box<[BitRate]>,
    b_m: Bytes,
    /// Whether stage N + 1 begins at B_m.
    stops: bool,
}

impl StageTable {
    /// Creates the stages of a buffer of B_m behind a link of this rate with a feedback delay of at most τ.
    ///
    /// # Errors
    /// [`ThresholdError::NotBelowBuffer`], or [`ThresholdError::Equation5`] if B_1 leaves less than 2Cτ free.
    pub fn new(b_m: Bytes, b_1: Bytes, rate: BitRate, tau: Span) -> Result<StageTable, ThresholdError> {
        let highest = buffer_based_b1_max(b_m, rate, tau);
        if highest.is_none_or(|highest| b_1 > highest) {
            return Err(ThresholdError::Equation5 { highest });
        }
        StageTable::without_guarantee(b_m, b_1, rate)
    }

    /// Creates the stages for any B_1 below B_m, for experiments: the buffer may overflow.
    ///
    /// # Errors
    /// [`ThresholdError::NotBelowBuffer`].
    pub fn without_guarantee(b_m: Bytes, b_1: Bytes, rate: BitRate) -> Result<StageTable, ThresholdError> {
        let room = b_m.checked_sub(b_1).filter(|room| *room > Bytes::ZERO).ok_or(ThresholdError::NotBelowBuffer)?;
        let count = stage_count(room);
        // Rounding the rest of the buffer up makes a stage begin early, never late.
        let starts = (0..count).map(|halvings| b_m.get() - shifted_up(room.get(), halvings)).collect();
        let rates = (0..=count)
            .map(|k| BitRate::bps(rate.as_bps().checked_shr(k).unwrap_or(0).max(RATE_MIN.as_bps())))
            .collect();
        Ok(StageTable { starts, rates, b_m, stops: false })
    }

    /// Adds stage N + 1, which begins at B_m and stops the sender. Rates below the limiter's granularity (gfc 7) then alternate
    /// between its lowest rate and a stop, so hold and wait may occur.
    pub fn with_stop(self) -> StageTable {
        StageTable { stops: true, ..self }
    }

    /// Returns the stage that stops the sender, N + 1; `None` without a stop.
    pub fn stop(&self) -> Option<u16> {
        self.stops.then(|| self.stages() + 1)
    }

    /// Returns the last stage: the [stop](StageTable::stop), or N.
    pub fn last(&self) -> u16 {
        self.stop().unwrap_or(self.stages())
    }

    /// Returns N, the number of stages above stage 0 that have a rate.
    pub fn stages(&self) -> u16 {
        self.starts.len() as u16
    }

    /// Returns B_m.
    pub fn b_m(&self) -> Bytes {
        self.b_m
    }

    /// Returns the stage of a queue of this length: the largest k with B_k <= q, 0 below B_1.
    #[inline]
    pub fn stage_of(&self, queue: Bytes) -> u16 {
        if queue.get() < self.starts[0] { 0 } else { self.stage_above_first(queue) }
    }

    fn stage_above_first(&self, queue: Bytes) -> u16 {
        let stage = self.starts.partition_point(|start| *start <= queue.get()) as u16;
        stage + u16::from(self.stops && queue >= self.b_m)
    }

    /// Returns R_k; a stage above N has the rate of N.
    #[inline]
    pub fn rate(&self, stage: u16) -> BitRate {
        self.rates[usize::from(stage.min(self.stages()))]
    }

    /// Returns B_k, from k = 1; `None` for stage 0 and above N.
    pub fn start(&self, stage: u16) -> Option<Bytes> {
        let index = usize::from(stage).checked_sub(1)?;
        self.starts.get(index).copied().map(Bytes::new)
    }
}

/// Returns N for a `B_m − B_1` that is not zero: the smallest with `B_N − B_(N−1) = (B_m − B_1)/2^(N−1) <= 1 B` (gfc 4.2).
fn stage_count(room: Bytes) -> u32 {
    1 + (u64::BITS - (room.get() - 1).leading_zeros())
}

/// Returns `n / 2^shift`, rounded up.
fn shifted_up(n: u64, shift: u32) -> u64 {
    (u128::from(n)).div_ceil(1 << shift) as u64
}

/// Returns the bytes that pass at this rate in `span`, rounded up.
fn bytes_in_at_most(rate: BitRate, span: Span) -> Bytes {
    let bits_ps = u128::from(rate.as_bps()) * u128::from(span.as_picos());
    Bytes::new(bits_ps.div_ceil(8 * 1_000_000_000_000) as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RATES: [BitRate; 3] = [BitRate::gbps(10), BitRate::gbps(40), BitRate::gbps(100)];
    const MB: Bytes = Bytes::mb(1);

    fn tau(rate: BitRate, mtu: u64) -> Span {
        feedback_delay_max(rate, Bytes::new(mtu), Span::from_micros(1), Span::from_micros(3))
    }

    /// T, the time of 65,535 B.
    fn period(rate: BitRate) -> Span {
        rate.time_for(Bytes::new(65_535))
    }

    /// Values of gfc 5.4: 7.4 / 5.6 / 5.2 us with an MTU of 1500 B, 11.4 / 6.6 / 5.6 us with one of 4000 B.
    #[test]
    fn feedback_delays_of_the_paper() {
        assert_eq!(RATES.map(|rate| tau(rate, 1_500).as_nanos()), [7_400, 5_600, 5_240]);
        assert_eq!(RATES.map(|rate| tau(rate, 4_000).as_nanos()), [11_400, 6_600, 5_640]);
    }

    /// Values of gfc 5.4: 2Cτ is 18.5 / 56 / 130 KB (131 from the unrounded τ).
    #[test]
    fn what_buffer_based_gfc_keeps_free() {
        let free = RATES.map(|rate| MB - buffer_based_b1_max(MB, rate, tau(rate, 1_500)).unwrap());
        assert_eq!(free, [Bytes::new(18_500), Bytes::kb(56), Bytes::kb(131)]);
        let conceptual = RATES.map(|rate| MB - conceptual_b0_max(MB, rate, tau(rate, 1_500)).unwrap());
        assert_eq!(conceptual, [Bytes::kb(37), Bytes::kb(112), Bytes::kb(262)]);
    }

    /// Values of gfc 5.4: 140.8 / 191.4 / 271 KB, from an MTU of 4000 B and a τ rounded to 0.1 us.
    #[test]
    fn what_time_based_gfc_keeps_free() {
        let free =
            |mtu| RATES.map(|rate| (MB - time_based_b0_max(MB, rate, tau(rate, mtu), period(rate)).unwrap()).get());
        assert_eq!(free(4_000), [140_904, 191_544, 271_980]);
        let of_4_kib = free(4_096);
        for (free, expected) in of_4_kib.iter().zip([141_000, 191_000, 271_000u64]) {
            assert!(free.abs_diff(expected) < 1_800, "{of_4_kib:?}");
        }
        let rounded = MB - time_based_b0_max(MB, RATES[2], Span::from_nanos(5_600), period(RATES[2])).unwrap();
        assert!(rounded.get().abs_diff(271_000) < 100, "{rounded}");
    }

    /// Settings of gfc 6.1.1, which meet the bounds, and of the example in 4.1 (100 KB, 25 us), which violate Theorem 4.1.
    #[test]
    fn the_papers_settings_against_its_bounds() {
        let (rate, tau) = (RATES[0], Span::from_micros(90));
        assert_eq!(buffer_based_b1_max(MB, rate, tau), Some(Bytes::kb(775)));
        let b0_max = time_based_b0_max(MB, rate, tau, period(rate)).unwrap();
        assert!(Bytes::kb(650) < b0_max && b0_max < Bytes::kb(651), "{b0_max}");
        assert_eq!(conceptual_b0_max(Bytes::kb(100), rate, Span::from_micros(25)), None);
    }

    /// Stages of gfc 6.1.1, and of the simulation of 6.2.2: 300 KB, B_1 = 281 KB, `B_(n+1) − B_n = 19 KB / 2^n`.
    #[test]
    fn the_papers_stages() {
        let table = StageTable::new(MB, Bytes::kb(750), RATES[0], Span::from_micros(90)).unwrap();
        let starts = [1, 2, 3, 4].map(|k| table.start(k).unwrap().get());
        assert_eq!(starts, [750_000, 875_000, 937_500, 968_750]);
        let rates = [0, 1, 2, 3].map(|k| table.rate(k).as_bps() / 1_000_000);
        assert_eq!(rates, [10_000, 5_000, 2_500, 1_250]);
        assert_eq!((table.start(0), table.stages(), table.start(20)), (None, 19, None));
        let table = StageTable::without_guarantee(Bytes::kb(300), Bytes::kb(281), RATES[0]).unwrap();
        let starts = [1, 2, 3, 4].map(|k| table.start(k).unwrap().get());
        assert_eq!(starts, [281_000, 290_500, 295_250, 297_625]);
    }

    /// Numbers of stages: gfc 5.4 has 16 / 18 / 20; its own rule gives 16 / 17 / 18.
    #[test]
    fn the_last_stage_is_no_longer_than_a_byte() {
        let n = [18_500, 56_000, 131_000, 130_000, 1, 2, 3].map(|room| stage_count(Bytes::new(room)));
        assert_eq!(n, [16, 17, 18, 18, 1, 2, 3]);
    }

    #[test]
    fn thresholds_that_break_the_theorem_are_refused_with_the_bound() {
        let (rate, tau) = (RATES[0], Span::from_micros(90));
        let highest = Some(Bytes::kb(775));
        assert!(StageTable::new(MB, Bytes::kb(775), rate, tau).is_ok());
        assert_eq!(StageTable::new(MB, Bytes::new(775_001), rate, tau), Err(ThresholdError::Equation5 { highest }));
        let small = StageTable::new(Bytes::kb(200), Bytes::ZERO, rate, tau);
        assert_eq!(small, Err(ThresholdError::Equation5 { highest: None }));
        assert_eq!(StageTable::without_guarantee(MB, MB, rate), Err(ThresholdError::NotBelowBuffer));
    }

    #[test]
    fn no_stage_stops_the_peer() {
        let table = StageTable::without_guarantee(Bytes::mb(64), Bytes::ZERO, BitRate::gbps(1)).unwrap();
        assert_eq!(table.rate(table.stages()), RATE_MIN);
        assert_eq!(table.rate(u16::MAX), RATE_MIN);
    }

    #[test]
    fn a_table_with_a_stop_has_one_stage_more_from_b_m_on() {
        let table = StageTable::without_guarantee(MB, Bytes::kb(750), RATES[0]).unwrap();
        let stops = table.clone().with_stop();
        assert_eq!((table.stop(), stops.stop(), stops.stages()), (None, Some(20), 19));
        let of = |table: &StageTable| [999_999, 1_000_000, 2_000_000].map(|queue| table.stage_of(Bytes::new(queue)));
        assert_eq!((of(&table), of(&stops)), ([19, 19, 19], [19, 20, 20]));
        assert_eq!(stops.rate(20), table.rate(19));
    }

    proptest! {
        #[test]
        fn a_stage_is_the_largest_that_begins_by_then(b_m in 1..u64::MAX >> 1, below in 0.0..1.0f64, at in 0.0..1.1f64) {
            let b_1 = (b_m as f64 * below) as u64;
            prop_assume!(b_1 < b_m);
            let table = StageTable::without_guarantee(Bytes::new(b_m), Bytes::new(b_1), RATES[0]).unwrap();
            prop_assert!(table.starts.is_sorted_by(|a, b| a < b));
            prop_assert_eq!((table.starts[0], *table.starts.last().unwrap()), (b_1, b_m - 1));
            prop_assert!(table.rates.is_sorted_by(|a, b| a >= b));
            let queue = (b_m as f64 * at) as u64;
            let expected = (1..=table.stages()).filter(|k| table.start(*k).unwrap().get() <= queue).max().unwrap_or(0);
            prop_assert_eq!(table.stage_of(Bytes::new(queue)), expected);
        }
    }
}
