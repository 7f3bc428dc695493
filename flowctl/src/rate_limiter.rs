//! GFC's rate limiter of one egress queue (gfc 5.3).

use weir_units::{BitRate, Bytes, Span, Time};

/// Lowest rate of a limiter, 8 kb/s, as on commodity switches (gfc 7): no limiter ever stops its queue.
pub const RATE_MIN: BitRate = BitRate::bps(8_000);

/// Rate limiter of a queue, at a rate R_r between [`RATE_MIN`] and the line rate C.
///
/// After a frame that took R_l on the wire the queue waits `R_c = (C − R_r)/R_r · R_l` (gfc 5.3): the next frame may
/// start `R_l + R_c = R_l · C/R_r` after this one started. A change of R_r scales the remaining
/// wait, so that over any window the queue sends at most the rates' integral and one frame: an oscillating
/// rate gains nothing.
///
/// As in [`Shaper`](crate::Shaper), a late poll may catch up by at most `slack`, which is zero in virtual time.
/// Rates count bytes on the wire, with FCS, preamble and gap.
#[derive(Clone, Debug)]
pub struct RateLimiter {
    line: BitRate,
    rate: BitRate,
    time_per_byte: TimePerByte,
    free_at: Time,
    slack: Span,
}

impl RateLimiter {
    /// Creates a limiter at the line rate.
    pub fn new(line: BitRate, slack: Span) -> RateLimiter {
        RateLimiter { line, rate: line, time_per_byte: TimePerByte::for_rate(line), free_at: Time::ZERO, slack }
    }

    /// Returns whether the next frame may start at `now`.
    #[inline]
    pub fn is_free(&self, now: Time) -> bool {
        self.free_at <= now
    }

    /// Counts a frame that starts at `now` and takes `wire` bytes on the wire ([`wire_bytes`](crate::wire_bytes)).
    #[inline]
    pub fn send(&mut self, now: Time, wire: Bytes) {
        let start = self.free_at.max(now.saturating_sub(self.slack));
        self.free_at = start.saturating_add(self.time_per_byte.time_for(wire));
    }

    /// Discards line time before `floor` that was not used.
    #[inline]
    pub fn give_up_before(&mut self, floor: Time) {
        self.free_at = self.free_at.max(floor);
    }

    /// Returns the instant at which the next frame may start.
    pub fn free_at(&self) -> Time {
        self.free_at
    }

    /// Returns R_r.
    pub fn rate(&self) -> BitRate {
        self.rate
    }

    /// Sets the line rate C, to which R_r is cut.
    pub fn set_line(&mut self, now: Time, line: BitRate) {
        self.line = line;
        self.set_rate(now, self.rate);
    }

    /// Sets R_r, clamped to [`RATE_MIN`] and the line rate, with effect on the current wait. Setting the same rate costs a
    /// comparison.
    pub fn set_rate(&mut self, now: Time, rate: BitRate) {
        let rate = rate.clamp(RATE_MIN.min(self.line), self.line);
        if rate == self.rate {
            return;
        }
        // The rest of the frame passes at the new rate. Rounded up: never above the rate.
        let left = u128::from(self.free_at.since(now).as_picos()) * u128::from(self.rate.as_bps());
        let wait = u64::try_from(left.div_ceil(u128::from(rate.as_bps()))).unwrap_or(u64::MAX);
        // Time not used at the old rate gives no credit at the new one.
        self.free_at = now.saturating_add(Span::from_picos(wait));
        self.rate = rate;
        self.time_per_byte = TimePerByte::for_rate(rate);
    }
}

/// Picoseconds a byte, rounded up where [`SerialisationDelay`](weir_units::SerialisationDelay) rounds down: a limit is kept, not met.
#[derive(Clone, Copy, Debug)]
struct TimePerByte {
    ps_per_byte_q20: u64,
}

impl TimePerByte {
    const FRACTION_BITS: u32 = 20;

    fn for_rate(rate: BitRate) -> TimePerByte {
        let scaled = (8_000_000_000_000u128 << Self::FRACTION_BITS).div_ceil(u128::from(rate.as_bps()));
        TimePerByte { ps_per_byte_q20: scaled as u64 }
    }

    #[inline]
    fn time_for(self, size: Bytes) -> Span {
        let scaled = u128::from(size.get()) * u128::from(self.ps_per_byte_q20);
        Span::from_picos(((scaled + ((1 << Self::FRACTION_BITS) - 1)) >> Self::FRACTION_BITS) as u64)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LINE: BitRate = BitRate::gbps(10);
    /// 1.23 us at 10 Gb/s.
    const FRAME: Bytes = Bytes::new(1_538);

    fn at(ns: u64) -> Time {
        Time::from_nanos(ns)
    }

    fn limiter(rate: BitRate) -> RateLimiter {
        let mut limiter = RateLimiter::new(LINE, Span::ZERO);
        limiter.set_rate(Time::ZERO, rate);
        limiter
    }

    #[test]
    fn the_wait_is_the_papers() {
        // R_l = 1,230.4 ns; at a quarter of the rate R_c = 3·R_l.
        let mut limiter = limiter(BitRate::mbps(2_500));
        limiter.send(at(100), FRAME);
        assert_eq!(limiter.free_at(), Time::from_picos(100_000 + 4 * 1_230_400));
        assert!(!limiter.is_free(at(5_021)) && limiter.is_free(at(5_022)));
    }

    #[test]
    fn a_change_takes_effect_on_the_current_wait() {
        let mut limiter = limiter(RATE_MIN);
        limiter.send(at(0), FRAME);
        assert_eq!(limiter.free_at(), Time::ZERO + Span::from_micros(1_538_000));
        // Half of it has passed at 8 kb/s; 769 B are left.
        limiter.set_rate(Time::ZERO + Span::from_millis(769), LINE);
        assert_eq!(limiter.free_at(), Time::ZERO + Span::from_millis(769) + Span::from_picos(769 * 800));
        limiter.set_rate(Time::ZERO + Span::from_millis(769), RATE_MIN);
        assert_eq!(limiter.free_at(), Time::ZERO + Span::from_millis(2 * 769));
    }

    #[test]
    fn rates_are_cut_to_what_the_limiter_can() {
        let mut limiter = limiter(BitRate::bps(1));
        assert_eq!(limiter.rate(), RATE_MIN);
        limiter.set_rate(Time::ZERO, BitRate::gbps(400));
        assert_eq!(limiter.rate(), LINE);
    }

    #[test]
    fn a_late_poll_catches_up_within_its_slack() {
        let mut limiter = RateLimiter::new(LINE, Span::from_micros(10));
        limiter.set_rate(Time::ZERO, BitRate::gbps(5));
        let late = at(1_000_000);
        let mut sent = 0;
        while limiter.is_free(late) {
            limiter.send(late, FRAME);
            sent += 1_538;
        }
        assert!((6_250..=6_250 + 1_538).contains(&sent), "{sent} B");
    }

    /// Random rate from 8 kb/s to 10 Gb/s, log-uniform.
    fn any_rate() -> impl Strategy<Value = BitRate> {
        (3.9031..10.0f64).prop_map(|log| BitRate::bps(10f64.powf(log) as u64))
    }

    proptest! {
        /// A backlogged queue polled at the earliest instant sends, from the start of any frame on, at most the integral of the
        /// rate and one frame, for any sequence of rates.
        #[test]
        fn no_window_exceeds_the_rate_and_one_frame(
            steps in prop::collection::vec((any_rate(), 1..50_000u64, 84..9_042u64), 1..100),
        ) {
            let mut limiter = RateLimiter::new(LINE, Span::ZERO);
            let mut now = Time::ZERO;
            // In bits times picoseconds. For each frame: the rates' integral and the bits sent before its start.
            let (mut integral, mut sent) = (0u128, 0u128);
            let mut starts: Vec<(u128, u128)> = Vec::new();
            for (rate, ns, frame) in steps {
                limiter.set_rate(now, rate);
                let end = now + Span::from_nanos(ns);
                loop {
                    let next = limiter.free_at().max(now);
                    let until = next.min(end);
                    integral += u128::from(until.since(now).as_picos()) * u128::from(limiter.rate().as_bps());
                    now = until;
                    if next >= end {
                        break;
                    }
                    prop_assert!(limiter.is_free(now));
                    let bits = u128::from(frame) * 8 * 1_000_000_000_000;
                    starts.push((integral, sent));
                    limiter.send(now, Bytes::new(frame));
                    sent += bits;
                }
            }
            // Between the starts of two frames no more is sent than the rates allow; the last frame adds to that.
            let ahead: Vec<_> = starts.iter().map(|(integral, sent)| *sent as i128 - *integral as i128).collect();
            prop_assert!(ahead.is_sorted_by(|earlier, later| earlier >= later), "{ahead:?}");
        }

        /// Polled at the earliest instant, the queue gets its rate to 0.1 %.
        #[test]
        fn the_long_run_is_the_rate(rate in any_rate(), frame in 84..9_042u64) {
            let mut limiter = limiter(rate);
            for _ in 0..1_000 {
                let now = limiter.free_at();
                limiter.send(now, Bytes::new(frame));
            }
            let sent = Bytes::new(frame) * 1_000;
            let exact = rate.time_for(sent).as_picos();
            let taken = limiter.free_at().as_picos();
            prop_assert!(taken >= exact - 1 && taken - exact <= exact / 1_000, "{taken} ps for {exact} ps");
        }
    }
}
