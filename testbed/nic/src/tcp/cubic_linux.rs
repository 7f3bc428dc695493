//! Cubic's growth in whole segments, as in `bictcp_update` of Linux's `tcp_cubic.c` (6.18).
//!
//! Where a window is small, as with several flows at a bottleneck, Linux's rounding matters more than the cubic function: windows
//! grow more slowly than in RFC 9438. After slow start has ended without a loss they grow faster, by a twentieth a round trip.

use weir_units::{Span, Time};

/// A flow's growth since its window was last cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinuxGrowth {
    /// `delay_min`: the shortest round trip; zero before the first.
    pub shortest: Span,
    epoch: Option<Epoch>,
    /// `cnt`: acknowledged segments per segment of window growth.
    cnt: f64,
    /// Window in segments for which `cnt` was computed, and the instant.
    worked_out: Option<(f64, Time)>,
    /// `snd_cwnd_cnt`: segments acknowledged since the window grew.
    acked: f64,
}

#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Time,
    /// W_max, in segments.
    origin: f64,
    /// K in seconds: time from the start of the epoch until the window is back at the origin.
    k: f64,
    /// `ack_cnt`: acknowledged segments not yet counted in Reno's window.
    acked: f64,
    /// `tcp_cwnd`: the window that Reno would have.
    reno: f64,
}

/// Shortest interval between computations of `cnt` for an unchanged window: `HZ / 32`.
const UPDATE_EVERY: Span = Span::from_nanos(31_250_000);
/// Acknowledged windows per segment of growth of Reno's window: `beta_scale` >> 3 with β = 717/1024.
const RENO_WINDOWS: f64 = 15.0 / 8.0;
/// Upper limit of `cnt` before the first loss.
const FIRST_CNT_MAX: f64 = 20.0;
/// Lower limit of `cnt`.
const CNT_MIN: f64 = 2.0;
/// Acknowledged windows per segment of growth while the cubic function is not above the window.
const STANDSTILL: f64 = 100.0;

impl LinuxGrowth {
    pub(super) fn new() -> LinuxGrowth {
        LinuxGrowth { shortest: Span::ZERO, epoch: None, cnt: 0.0, worked_out: None, acked: 0.0 }
    }

    /// Starts a new epoch after a cut or a timeout; the shortest round trip is kept.
    pub(super) fn handle_cut(&mut self) {
        *self = LinuxGrowth { shortest: self.shortest, ..LinuxGrowth::new() };
    }

    /// Excludes an idle period from the epoch.
    pub(super) fn handle_idle(&mut self, idle: Span) {
        self.epoch.iter_mut().for_each(|epoch| epoch.start = epoch.start.saturating_add(idle));
    }

    /// Returns the growth in segments of a window of `cwnd` for `acked` segments. `w_max` is zero before the first loss; `c` is in
    /// segments per cubed second.
    pub(super) fn grown(&mut self, now: Time, acked: f64, cwnd: f64, w_max: f64, c: f64, reno_friendly: bool) -> f64 {
        let cwnd = libm::floor(cwnd).max(1.0);
        self.epoch.iter_mut().for_each(|epoch| epoch.acked += acked);
        let is_due = |(window, at): (f64, Time)| window != cwnd || now.since(at) > UPDATE_EVERY;
        if self.worked_out.is_none_or(is_due) {
            self.work_out(now, acked, cwnd, w_max, c, reno_friendly);
        }
        // tcp_cong_avoid_ai
        let mut grown = 0.0;
        if self.acked >= self.cnt {
            (self.acked, grown) = (0.0, 1.0);
        }
        self.acked += acked;
        if self.acked >= self.cnt {
            let more = libm::floor(self.acked / self.cnt);
            self.acked -= more * self.cnt;
            grown += more;
        }
        grown
    }

    fn work_out(&mut self, now: Time, acked: f64, cwnd: f64, w_max: f64, c: f64, reno_friendly: bool) {
        let begin = || {
            let origin = w_max.max(cwnd);
            Epoch { start: now, origin, k: libm::cbrt((origin - cwnd) / c), acked, reno: cwnd }
        };
        let epoch = self.epoch.get_or_insert_with(begin);
        let is_of_this_instant = self.worked_out.is_some_and(|(_, at)| at == now);
        self.worked_out = Some((cwnd, now));
        if !is_of_this_instant {
            let d = (now.since(epoch.start) + self.shortest).as_secs_f64() - epoch.k;
            // The distance to the origin is truncated to whole numbers, above and below it.
            let distance = libm::floor(c * (d * d * d).abs());
            let target = if d < 0.0 { epoch.origin - distance } else { epoch.origin + distance };
            self.cnt = if target > cwnd { libm::floor(cwnd / (target - cwnd)) } else { STANDSTILL * cwnd };
            if w_max == 0.0 {
                self.cnt = self.cnt.min(FIRST_CNT_MAX);
            }
        }
        if reno_friendly {
            let each = libm::floor(cwnd * RENO_WINDOWS);
            while epoch.acked > each {
                epoch.acked -= each;
                epoch.reno += 1.0;
            }
            if epoch.reno > cwnd {
                self.cnt = self.cnt.min(libm::floor(cwnd / (epoch.reno - cwnd)));
            }
        }
        self.cnt = self.cnt.max(CNT_MIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the window after round trips of `rtt_ms`, each acknowledging the window in pairs of segments.
    fn after(growth: &mut LinuxGrowth, rounds: u64, rtt_ms: u64, mut cwnd: f64, w_max: f64) -> f64 {
        for round in 0..rounds {
            let pairs = (cwnd / 2.0) as u64;
            for n in 0..pairs {
                let now = Time::ZERO + Span::from_micros(1_000 * rtt_ms * round + 1_000 * rtt_ms * n / pairs);
                cwnd += growth.grown(now, 2.0, cwnd, w_max, 0.4, true);
            }
        }
        cwnd
    }

    #[test]
    fn without_a_loss_before_it_grows_by_a_twentieth_a_round_trip() {
        // 40 segments: two in each round trip of the first, 44, 46, ...: 40 · 1.05^10 = 65.
        let cwnd = after(&mut LinuxGrowth::new(), 10, 10, 40.0, 0.0);
        assert!((60.0..66.0).contains(&cwnd), "{cwnd}");
    }

    #[test]
    fn it_lags_behind_renos_window_where_that_governs() {
        // 10 ms: Reno's window gains 8/15 in each of 30 round trips, 16 in all; the window is worked out each 31.25 ms at most.
        let cwnd = after(&mut LinuxGrowth::new(), 30, 10, 20.0, 28.0);
        assert!((32.0..36.0).contains(&cwnd), "20 + 16, less what is rounded: {cwnd}");
        let never = {
            let (mut growth, mut cwnd) = (LinuxGrowth::new(), 20.0);
            for n in 0..300 {
                cwnd += growth.grown(Time::ZERO + Span::from_millis(n), 2.0, cwnd, 28.0, 0.4, false);
            }
            cwnd
        };
        assert!((22.0..=23.0).contains(&never), "28 - 0.4 · (2.71 - 0.3)^3 = 22.4, and a whole segment of it: {never}");
    }

    #[test]
    fn over_long_paths_it_is_the_cubic_function() {
        // K = cbrt(300 / 0.4) = 9.0856 s, and 5 s later 1000 + 0.4 · 5^3 = 1050.
        let cwnd = after(&mut LinuxGrowth::new(), 141, 100, 700.0, 1_000.0);
        assert!((1_040.0..1_052.0).contains(&cwnd), "{cwnd}");
    }

    #[test]
    fn a_cut_begins_anew_and_the_shortest_round_trip_stays() {
        let mut growth = LinuxGrowth { shortest: Span::from_millis(3), ..LinuxGrowth::new() };
        after(&mut growth, 5, 10, 20.0, 28.0);
        growth.handle_cut();
        assert!(growth.epoch.is_none() && growth.worked_out.is_none() && growth.acked == 0.0);
        assert_eq!(growth.shortest, Span::from_millis(3));
    }
}
