//! Cubic's window growth (RFC 9438).

use std::sync::Arc;

use weir_reader::{AnyKey, Gauge, Key, Keys, Plugin};
use weir_units::{Span, Time};

use super::cubic_linux::LinuxGrowth;
use super::hystart::{self, HyStart, HyStartConfig};
use super::{RoundTrip, TcpCongestionConfig, TcpCongestionController, TcpCongestionKind};
use crate::parameters::{Millionths, Parameters, Values, millionths, share};

/// Kind of `transport = "tcp-cubic"`.
#[derive(Debug)]
pub(super) struct CubicKind;

/// Cubic's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CubicConfig {
    /// C in millionths, in segments per cubed second.
    c_ppm: u32,
    /// Factor β_cubic of a cut after a loss, in millionths; at most 1,000,000.
    beta_ppm: u32,
    /// Whether a flow that is cut before it reached its last W_max leaves more for others (4.7).
    fast_convergence: bool,
    /// Whether the window grows at least as Reno's does (4.3).
    reno_friendly: bool,
    /// Whether the window grows in whole segments, as in Linux.
    as_linux: bool,
    /// HyStart, which ends slow start early; `None` if only losses and marks end it.
    hystart: Option<HyStartConfig>,
}

/// Cubic state of a flow. Windows are in bytes, times in seconds.
#[derive(Debug)]
struct Cubic {
    c: f64,
    beta: f64,
    fast_convergence: bool,
    reno_friendly: bool,
    /// W_max; zero before the first loss, and after a timeout.
    w_max: f64,
    /// Current epoch of growth by the cubic function; `None` before the first and after a cut.
    epoch: Option<Epoch>,
    /// Linux's growth, in place of the epoch; `None` for the RFC's.
    linux: Option<LinuxGrowth>,
    hystart: Option<HyStart>,
}

#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Time,
    /// W_max of this epoch.
    origin: f64,
    /// K: time from the start of the epoch until the window is back at the origin.
    k: f64,
    /// W_est: the window that Reno would have.
    w_est: f64,
}

const C: Key<Millionths> =
    millionths("c", 1..=1_000_000_000, "C: factor of the cubic function, in segments per cubed second (RFC 9438, 5)")
        .or("0.4");
const BETA: Key<Millionths> = share("beta", "β_cubic: factor of a cut (RFC 9438, 4.6)").or("0.7");
const FAST_CONVERGENCE: Key<bool> =
    Key::boolean("fast_convergence", "whether a flow cut below its last W_max yields more (RFC 9438, 4.7)").or("true");
const RENO_FRIENDLY: Key<bool> =
    Key::boolean("reno_friendly", "whether the window grows at least as Reno's (RFC 9438, 4.3)").or("true");
const GROWTH: Key<bool> = Key::choice(
    "growth",
    &[("rfc9438", false), ("linux", true)],
    "growth of the window by RFC 9438, 4.2 to 4.5, or as in [Linux](TCP.md#nictcp-cubic), the default with `preset \
     = \"linux\"` of `[nic.tcp]`",
)
.or("rfc9438");

const KEYS: [&dyn AnyKey; 14] = {
    let [a, b, c, d, e, f, g, h, i] = hystart::KEYS;
    [&C, &BETA, &FAST_CONVERGENCE, &RENO_FRIENDLY, &GROWTH, a, b, c, d, e, f, g, h, i]
};

impl Plugin for CubicKind {
    fn id(&self) -> &'static str {
        "tcp-cubic"
    }

    fn keys(&self) -> Keys {
        &KEYS
    }

    fn gauges(&self) -> &'static [Gauge] {
        const { &[Gauge::plain("w_max_bytes", "W_max: the window before the last cut; 0 before the first")] }
    }
}

impl TcpCongestionKind for CubicKind {
    fn parse(&self, parameters: &Parameters<'_>) -> Arc<dyn TcpCongestionConfig> {
        Arc::new(CubicConfig::parse(parameters))
    }

    fn preset(&self, name: &str) -> Values {
        if name == "linux" { &[("growth", "linux")] } else { &[] }
    }
}

impl CubicConfig {
    fn parse(parameters: &Parameters<'_>) -> CubicConfig {
        CubicConfig {
            c_ppm: parameters.millionths(&C),
            beta_ppm: parameters.millionths(&BETA),
            fast_convergence: parameters.boolean(&FAST_CONVERGENCE),
            reno_friendly: parameters.boolean(&RENO_FRIENDLY),
            as_linux: parameters.choice(&GROWTH),
            hystart: HyStartConfig::parse(parameters),
        }
    }
}

impl TcpCongestionConfig for CubicConfig {
    fn build(&self) -> Box<dyn TcpCongestionController> {
        Box::new(Cubic::new(self))
    }
}

impl Cubic {
    fn new(config: &CubicConfig) -> Cubic {
        Cubic {
            c: f64::from(config.c_ppm) / 1e6,
            beta: f64::from(config.beta_ppm.min(1_000_000)) / 1e6,
            fast_convergence: config.fast_convergence,
            reno_friendly: config.reno_friendly,
            w_max: 0.0,
            epoch: None,
            linux: config.as_linux.then(LinuxGrowth::new),
            hystart: config.hystart.map(HyStart::new),
        }
    }

    fn begin(&self, now: Time, cwnd: f64, mss: f64) -> Epoch {
        let origin = self.w_max.max(cwnd);
        let k = libm::cbrt((origin - cwnd) / (self.c * mss));
        Epoch { start: now, origin, k, w_est: cwnd }
    }

    /// W_cubic(t) = C (t - K)^3 + W_max.
    fn w_cubic(&self, epoch: &Epoch, t: f64, mss: f64) -> f64 {
        let d = t - epoch.k;
        epoch.origin + self.c * mss * (d * d * d)
    }
}

impl TcpCongestionController for Cubic {
    /// Returns β.
    fn loss_factor(&self) -> f64 {
        self.beta
    }

    /// Updates W_max before a cut (4.6, 4.7), and ends the epoch.
    fn on_cut(&mut self, cwnd: f64) {
        let reduces_w_max = self.fast_convergence && cwnd < self.w_max;
        self.w_max = if reduces_w_max { cwnd * (1.0 + self.beta) / 2.0 } else { cwnd };
        self.epoch = None;
        self.linux.iter_mut().for_each(LinuxGrowth::handle_cut);
    }

    /// Resets W_max after a timeout: the window then grows from the end of slow start (4.8).
    fn on_timeout(&mut self) {
        self.w_max = 0.0;
        self.epoch = None;
        self.linux.iter_mut().for_each(LinuxGrowth::handle_cut);
        self.hystart.iter_mut().for_each(HyStart::handle_timeout);
    }

    fn on_round_trip(&mut self, trip: &RoundTrip) -> bool {
        if let Some(linux) = &mut self.linux {
            linux.shortest = if linux.shortest == Span::ZERO { trip.rtt } else { linux.shortest.min(trip.rtt) };
        }
        self.hystart.as_mut().is_some_and(|hystart| hystart.handle_round_trip(trip))
    }

    /// Excludes an idle period from the epoch (5.8).
    fn on_idle(&mut self, idle: Span) {
        if let Some(epoch) = &mut self.epoch {
            epoch.start = epoch.start.saturating_add(idle);
        }
        self.linux.iter_mut().for_each(|linux| linux.handle_idle(idle));
    }

    /// Returns the window after `acked` bytes in congestion avoidance (4.2 to 4.5). `prior` is the window
    /// before the last cut.
    fn grown(&mut self, now: Time, rtt: Span, acked: f64, cwnd: f64, prior: f64, mss: f64) -> f64 {
        if let Some(linux) = &mut self.linux {
            let segments = linux.grown(now, acked / mss, cwnd / mss, self.w_max / mss, self.c, self.reno_friendly);
            return cwnd + segments * mss;
        }
        let mut epoch = match self.epoch {
            Some(epoch) => epoch,
            None => self.begin(now, cwnd, mss),
        };
        let alpha = if epoch.w_est < prior { 3.0 * (1.0 - self.beta) / (1.0 + self.beta) } else { 1.0 };
        epoch.w_est += alpha * mss * acked / cwnd;
        self.epoch = Some(epoch);
        let t = now.since(epoch.start).as_secs_f64();
        if self.reno_friendly && self.w_cubic(&epoch, t, mss) < epoch.w_est {
            return cwnd.max(epoch.w_est);
        }
        let target = self.w_cubic(&epoch, t + rtt.as_secs_f64(), mss).max(cwnd).min(1.5 * cwnd);
        cwnd + acked * (target - cwnd) / cwnd
    }

    fn gauges(&self, show: &mut dyn FnMut(f64)) {
        show(self.w_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: f64 = 1_000.0;

    fn defaults() -> CubicConfig {
        CubicConfig::parse(&Parameters::defaults_over(&[], &[]))
    }

    fn instant(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    fn cut_at(segments: f64) -> Cubic {
        let mut cubic = Cubic::new(&defaults());
        cubic.on_cut(segments * MSS);
        cubic
    }

    #[test]
    fn k_and_the_cubic_function_by_hand() {
        let cubic = cut_at(100.0);
        let epoch = cubic.begin(instant(0), 70.0 * MSS, MSS);
        // K = cbrt(100 · 0.3 / 0.4) = cbrt(75).
        assert!((epoch.k - 4.217_163_326_508_746).abs() < 1e-14);
        let segments = |t: f64| cubic.w_cubic(&epoch, t, MSS) / MSS;
        // 100 - 0.4 · 75; 100 - 0.4 · 2.217163^3 = 100 - 0.4 · 10.89902; 100; 100 + 0.4 · 8.
        for (t, expected) in [(0.0, 70.0), (2.0, 95.640_39), (epoch.k, 100.0), (epoch.k + 2.0, 103.2)] {
            assert!((segments(t) - expected).abs() < 1e-4, "{t}: {}", segments(t));
        }
    }

    #[test]
    fn a_flow_cut_below_its_last_w_max_reduces_it_further() {
        let mut cubic = cut_at(100.0);
        cubic.on_cut(80.0 * MSS);
        assert_eq!(cubic.w_max, 80.0 * MSS * 0.85);
        cubic.on_cut(90.0 * MSS);
        assert_eq!(cubic.w_max, 90.0 * MSS, "above it");
        let mut keeps = Cubic::new(&CubicConfig { fast_convergence: false, ..defaults() });
        [100.0, 80.0].into_iter().for_each(|segments| keeps.on_cut(segments * MSS));
        assert_eq!(keeps.w_max, 80.0 * MSS);
    }

    /// The window after a number of round trips of `rtt_ms`, each of which acknowledges all of it.
    fn after_rounds(cubic: &mut Cubic, rounds: u64, rtt_ms: u64, mut cwnd: f64, prior: f64) -> f64 {
        for round in 0..rounds {
            let segments = (cwnd / MSS) as u64;
            for n in 0..segments {
                let now = instant(round * rtt_ms + rtt_ms * n / segments);
                cwnd = cubic.grown(now, Span::from_millis(rtt_ms), MSS, cwnd, prior, MSS);
            }
        }
        cwnd
    }

    #[test]
    fn the_window_follows_the_cubic_function_over_long_paths() {
        // 1000 segments, 100 ms: Reno would gain 0.53 a round trip; K = cbrt(750) = 9.0856 s.
        let mut cubic = cut_at(1_000.0);
        let cwnd = after_rounds(&mut cubic, 91, 100, 700.0 * MSS, 1_000.0 * MSS) / MSS;
        assert!((999.0..1_000.1).contains(&cwnd), "{cwnd}");
        // Another 5 s: 1000 + 0.4 · 5^3 = 1050.
        let mut cubic = cut_at(1_000.0);
        let cwnd = after_rounds(&mut cubic, 141, 100, 700.0 * MSS, 1_000.0 * MSS) / MSS;
        assert!((1_045.0..1_051.0).contains(&cwnd), "{cwnd}");
    }

    #[test]
    fn it_is_reno_over_short_paths() {
        // 1 ms: 20 round trips take the cubic function nowhere; W_est gains 0.5294 in each, up to W_max, then 1.
        let mut cubic = cut_at(20.0);
        let cwnd = after_rounds(&mut cubic, 10, 1, 14.0 * MSS, 20.0 * MSS) / MSS;
        assert!((18.9..19.5).contains(&cwnd), "14 + 10 · 0.5294 = 19.3: {cwnd}");
        let cwnd = after_rounds(&mut cut_at(20.0), 20, 1, 14.0 * MSS, 20.0 * MSS) / MSS;
        assert!((27.5..28.8).contains(&cwnd), "20 + 8.7 · 1 = 28.7: {cwnd}");
        let mut never = Cubic::new(&CubicConfig { reno_friendly: false, ..defaults() });
        never.on_cut(20.0 * MSS);
        let cwnd = after_rounds(&mut never, 20, 1, 14.0 * MSS, 20.0 * MSS) / MSS;
        assert!(cwnd < 15.0, "{cwnd}");
    }

    #[test]
    fn after_a_timeout_it_starts_where_slow_start_ends() {
        let mut cubic = cut_at(100.0);
        cubic.on_timeout();
        let epoch = cubic.begin(instant(5), 35.0 * MSS, MSS);
        assert_eq!((epoch.k, epoch.origin), (0.0, 35.0 * MSS));
    }

    #[test]
    fn idle_time_does_not_count() {
        let rtt = Span::from_millis(100);
        let grown = |idle: Span, now: Time| {
            let mut cubic = cut_at(1_000.0);
            cubic.grown(instant(0), rtt, MSS, 700.0 * MSS, 1_000.0 * MSS, MSS);
            cubic.on_idle(idle);
            cubic.grown(now, rtt, MSS, 700.0 * MSS, 1_000.0 * MSS, MSS)
        };
        assert_eq!(grown(Span::from_secs(8), instant(9_000)), grown(Span::ZERO, instant(1_000)));
    }

    #[test]
    fn no_acknowledgement_grows_the_window_by_more_than_half_of_itself_a_round_trip() {
        let mut cubic = cut_at(1_000.0);
        cubic.grown(instant(0), Span::ZERO, MSS, 700.0 * MSS, 1_000.0 * MSS, MSS);
        let cwnd = cubic.grown(instant(60_000), Span::ZERO, MSS, 700.0 * MSS, 1_000.0 * MSS, MSS);
        assert_eq!(cwnd, 700.5 * MSS);
    }
}
