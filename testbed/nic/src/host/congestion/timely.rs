//! TIMELY: a rate that follows the round-trip time's gradient (Mittal et al., SIGCOMM 2015, section 4 and Algorithm 1).
//!
//! Below T_low the rate is raised, above T_high it is cut; between them it is raised while the RTT falls or stays, and cut
//! in proportion to the gradient while it rises.

use weir_units::{BitRate, Bytes, Span};

use super::{AckSignal, fraction, whole_rate};

/// TIMELY's parameters, with the paper's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimelyConfig {
    /// α: the weight of a new difference in their average, in parts per million.
    pub ewma_ppm: u32,
    /// β: how deep a cut is, in parts per million.
    pub beta_ppm: u32,
    /// T_low.
    pub t_low: Span,
    /// T_high.
    pub t_high: Span,
    /// minRTT: the unit of the gradient, one for the whole network.
    pub min_rtt: Span,
    /// δ: the additive step.
    pub additive_increase: BitRate,
    /// N: from so many completions on end with no rising RTT a step is N·δ (HAI, hyperactive increase).
    pub hai: u32,
    /// Whether completions below T_low count as such whatever the gradient, and their steps become hyperactive too.
    pub hai_below_t_low: bool,
    /// What one measurement is of.
    pub completion: Completion,
    /// The rate is never cut below this.
    pub rate_min: BitRate,
}

/// How often the rate is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// When each segment of this much payload is acknowledged.
    Segment(Bytes),
    /// Once a round trip.
    RoundTrip,
}

/// A flow's state. It starts at line rate.
#[derive(Debug)]
pub(super) struct Timely {
    config: TimelyConfig,
    line: u64,
    /// In bits a second.
    rate: u64,
    /// The RTT of the last completion.
    rtt: Option<Span>,
    /// rtt_diff: the average difference, in picoseconds.
    difference: f64,
    /// Completions on end with no rising RTT.
    calm: u32,
    /// The next completion is when this much payload is acknowledged.
    completes_at: u64,
}

impl TimelyConfig {
    /// The paper's parameters, made for 10 Gb/s: T_low = 50 us, T_high = 500 us, minRTT = 20 us, β = 0.8, N = 5, segments of
    /// 16 KB; δ = 10 Mb/s and, as in DCQCN's preset, a lowest rate of a thousandth, both in proportion to the line. α, which
    /// the paper does not name, is 0.875, as in the comparison with DCQCN (Zhu et al., CoNEXT 2016).
    pub fn paper(line: BitRate) -> TimelyConfig {
        let thousandth = BitRate::bps((line.as_bps() / 1_000).max(1));
        TimelyConfig {
            ewma_ppm: 875_000,
            beta_ppm: 800_000,
            t_low: Span::from_micros(50),
            t_high: Span::from_micros(500),
            min_rtt: Span::from_micros(20),
            additive_increase: thousandth,
            hai: 5,
            hai_below_t_low: false,
            completion: Completion::Segment(Bytes::kb(16)),
            rate_min: thousandth,
        }
    }

    /// HPCC's simulator, `--cc timely`: the paper's values, but one update a round trip, hyperactive steps below T_low too,
    /// and at least 1 Gb/s on any line.
    pub fn hpcc(line: BitRate) -> TimelyConfig {
        TimelyConfig {
            hai_below_t_low: true,
            completion: Completion::RoundTrip,
            rate_min: BitRate::gbps(1),
            ..TimelyConfig::paper(line)
        }
    }
}

impl Timely {
    pub(super) fn new(config: &TimelyConfig, line: BitRate) -> Timely {
        Timely {
            config: *config,
            line: line.as_bps(),
            rate: line.as_bps(),
            rtt: None,
            difference: 0.0,
            calm: 0,
            completes_at: match config.completion {
                Completion::Segment(size) => size.get().max(1),
                Completion::RoundTrip => 1,
            },
        }
    }

    /// The rate as of the last call.
    pub(super) fn rate(&self) -> BitRate {
        BitRate::bps(self.rate)
    }

    pub(super) fn handle_ack(&mut self, ack: &AckSignal<'_>) {
        if ack.acked < self.completes_at {
            return;
        }
        self.completes_at = match self.config.completion {
            Completion::Segment(size) => {
                let segment = size.get().max(1);
                (ack.acked / segment).saturating_add(1).saturating_mul(segment)
            }
            Completion::RoundTrip => ack.sent.saturating_add(1),
        };
        // A gradient takes two measurements.
        if let Some(before) = self.rtt.replace(ack.rtt) {
            self.update(before, ack.rtt);
        }
    }

    fn update(&mut self, before: Span, rtt: Span) {
        let TimelyConfig { t_low, t_high, .. } = self.config;
        let ewma = fraction(self.config.ewma_ppm);
        let new_difference = rtt.as_picos() as f64 - before.as_picos() as f64;
        self.difference = (1.0 - ewma) * self.difference + ewma * new_difference;
        let gradient = self.difference / self.config.min_rtt.as_picos().max(1) as f64;
        let is_calm = gradient <= 0.0 || (rtt < t_low && self.config.hai_below_t_low);
        self.calm = if is_calm { self.calm.saturating_add(1) } else { 0 };

        if rtt < t_low {
            self.raise(self.config.hai_below_t_low);
        } else if rtt > t_high {
            self.cut(1.0 - t_high.as_picos() as f64 / rtt.as_picos() as f64);
        } else if gradient <= 0.0 {
            self.raise(true);
        } else {
            self.cut(gradient);
        }
    }

    fn raise(&mut self, may_be_hyperactive: bool) {
        let is_hyperactive = may_be_hyperactive && self.calm >= self.config.hai;
        let steps = if is_hyperactive { u64::from(self.config.hai) } else { 1 };
        let step = self.config.additive_increase.as_bps().saturating_mul(steps);
        self.rate = self.rate.saturating_add(step).min(self.line);
    }

    /// Cuts the rate by β times `part`.
    fn cut(&mut self, part: f64) {
        self.calm = 0;
        let factor = 1.0 - fraction(self.config.beta_ppm) * part;
        self.rate = whole_rate(self.rate as f64 * factor, self.config.rate_min.as_bps(), self.line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: BitRate = BitRate::gbps(10);
    const MBPS: u64 = 1_000_000;

    /// A flow at this rate that has seen one completion with this RTT.
    fn flow(config: &TimelyConfig, mbps: u64, rtt_us: u64) -> Timely {
        let mut flow = Timely::new(config, LINE);
        flow.rate = mbps * MBPS;
        complete(&mut flow, rtt_us);
        flow
    }

    /// The next completion; returns the rate in Mb/s.
    fn complete(flow: &mut Timely, rtt_us: u64) -> u64 {
        let acked = flow.completes_at;
        flow.handle_ack(&ack(acked, acked, rtt_us));
        flow.rate / MBPS
    }

    fn ack(acked: u64, sent: u64, rtt_us: u64) -> AckSignal<'static> {
        AckSignal { acked, sent, rtt: Span::from_micros(rtt_us), is_marked: false, hops: &[] }
    }

    #[test]
    fn below_t_low_the_rate_rises_by_a_step_whatever_the_gradient() {
        let mut flow = flow(&TimelyConfig::paper(LINE), 1_000, 20);
        assert_eq!([49, 30, 30, 30, 30, 30, 30, 30].map(|us| complete(&mut flow, us)).last(), Some(&1_080));
    }

    #[test]
    fn above_t_high_the_rate_is_cut_by_the_excess() {
        let mut flow = flow(&TimelyConfig::paper(LINE), 1_000, 2_000);
        // 1 - 0.8 (1 - 500 / 1000) = 0.6, though the RTT falls.
        assert_eq!(complete(&mut flow, 1_000), 600);
    }

    #[test]
    fn between_them_a_rising_rtt_cuts_by_the_gradient() {
        let mut flow = flow(&TimelyConfig::paper(LINE), 1_000, 100);
        // rtt_diff = 0.875 * 8 us = 7 us, gradient 7 / 20, factor 1 - 0.8 * 0.35 = 0.72.
        assert_eq!(complete(&mut flow, 108), 720);
        // rtt_diff = 0.125 * 7 + 0.875 * 0 = 0.875 us, factor 1 - 0.8 * 0.04375 = 0.965.
        assert_eq!(complete(&mut flow, 108), 694);
        // A gradient above 1 / β cuts to the floor.
        assert_eq!(complete(&mut flow, 208), 10);
    }

    #[test]
    fn between_them_a_falling_rtt_raises_and_the_fifth_time_by_more() {
        let mut flow = flow(&TimelyConfig::paper(LINE), 1_000, 200);
        let rates = [190, 180, 170, 160, 150, 140].map(|us| complete(&mut flow, us));
        assert_eq!(rates, [1_010, 1_020, 1_030, 1_040, 1_090, 1_140]);
        // A rising one ends that. The average is -10 us to five digits, so 0.125 * (-10) + 0.875 * 20 = 16.25 us, and the
        // factor a trifle less than 1 - 0.8 * 0.8125 = 0.35.
        assert_eq!(complete(&mut flow, 160), 398);
        // 0.125 * 16.25 + 0.875 * (-10) < 0.
        assert_eq!(complete(&mut flow, 150), 408);
    }

    #[test]
    fn the_simulators_steps_become_hyperactive_below_t_low() {
        let mut flow = flow(&TimelyConfig::hpcc(LINE), 1_000, 20);
        let rates = [21, 22, 23, 24, 25, 26].map(|us| complete(&mut flow, us));
        assert_eq!(rates, [1_010, 1_020, 1_030, 1_040, 1_090, 1_140]);
    }

    #[test]
    fn a_completion_is_a_segment_or_a_round_trip() {
        let completions = |config: &TimelyConfig| {
            let mut flow = Timely::new(config, LINE);
            let mut at = Vec::new();
            for kb in 1..=100 {
                let before = flow.completes_at;
                flow.handle_ack(&ack(kb * 1_000, kb * 1_000 + 39_000, 20));
                if flow.completes_at != before {
                    at.push(kb);
                }
            }
            at
        };
        assert_eq!(completions(&TimelyConfig::paper(LINE)), [16, 32, 48, 64, 80, 96]);
        // What was sent before a measurement is of the round trip before: 1 + 39 KB, then the next.
        assert_eq!(completions(&TimelyConfig::hpcc(LINE)), [1, 41, 81]);
    }
}
