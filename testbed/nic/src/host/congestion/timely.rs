//! TIMELY: a rate that follows the round-trip time's gradient (Mittal et al., SIGCOMM 2015, section 4 and Algorithm 1).
//!
//! Below T_low the rate is raised, above T_high it is cut; between them it is raised while the RTT falls or stays, and cut
//! in proportion to the gradient while it rises.

use std::str::FromStr;
use std::sync::Arc;

use weir_reader::{Gauge, Key, Keys, Plugin};
use weir_units::{BitRate, Bytes, Span, Time, UnitError};

use super::bounds::{OptionalWindow, WINDOW, WINDOW_FOLLOWS_RATE};
use super::{
    AckSignal, CongestionControlConfig, CongestionControlKind, CongestionController, RequiredFeedback, TelemetryMode,
    clamped_rate, fraction,
};
use crate::parameters::{Millionths, Parameters, Preset, TIMES, line_rate, share};

/// Kind of `congestion_control = "timely"`.
#[derive(Debug)]
pub(super) struct TimelyKind;

/// TIMELY's parameters, with the paper's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TimelyConfig {
    /// Weight α of a new difference in the average, in parts per million.
    ewma_ppm: u32,
    /// Multiplicative decrease β, in parts per million.
    beta_ppm: u32,
    /// Lower RTT threshold T_low.
    t_low: Span,
    /// Upper RTT threshold T_high.
    t_high: Span,
    /// Unit minRTT of the gradient, one for the whole network.
    min_rtt: Span,
    /// Additive increase δ.
    additive_increase: BitRate,
    /// Number N of consecutive completions without a rising RTT from which a step is N·δ (HAI, hyperactive increase).
    hai: u32,
    /// Whether completions below T_low count for HAI at any gradient, and their steps become hyperactive too.
    hai_below_t_low: bool,
    /// Interval of a measurement.
    interval: MeasurementInterval,
    /// Lower bound of the rate.
    rate_min: BitRate,
    /// Window in addition to the rate.
    window: OptionalWindow,
}

/// Interval between updates of the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MeasurementInterval {
    /// Acknowledgement of each segment of this payload.
    Segment(Bytes),
    /// Once a round trip.
    RoundTrip,
}

/// State of a flow. It starts at line rate.
#[derive(Debug)]
struct Timely {
    config: TimelyConfig,
    line: u64,
    /// Rate in bit/s.
    rate: u64,
    /// RTT of the last completion.
    rtt: Option<Span>,
    /// Average RTT difference rtt_diff, in picoseconds.
    difference: f64,
    /// Consecutive completions without a rising RTT.
    calm: u32,
    /// Acknowledged payload at which the next measurement completes.
    completes_at: u64,
}

const EWMA: Key<Millionths> =
    share("ewma", "α: weight of a new RTT difference in the average (Zhu et al., CoNEXT 2016)").or("0.875");
const BETA: Key<Millionths> = share("beta", "β: depth of a cut (TIMELY, 4.3)").or("0.8");
const T_LOW: Key<Span> =
    Key::time("t_low", TIMES, "T_low: the rate rises below it; at most `t_high` (TIMELY, 4.3.1)").or("50us");
const T_HIGH: Key<Span> = Key::time("t_high", TIMES, "T_high: the rate is cut above it (TIMELY, 4.3.1)").or("500us");
const MIN_RTT: Key<Span> = Key::time("min_rtt", TIMES, "minRTT: unit of the gradient (TIMELY, 4.3)").or("20us");
const DELTA: Key<BitRate> = line_rate("delta", "δ: additive step (TIMELY, 4.3: 10 Mb/s at 10 Gb/s)").or("line/1000");
const HAI: Key<u32> = Key::<u32>::integer(
    "hai",
    1..=1_000,
    "N: consecutive completions without rising RTT before steps are N·δ (TIMELY, 4.3.2)",
)
.or("5");
const HAI_BELOW_T_LOW: Key<bool> =
    Key::boolean("hai_below_t_low", "whether completions below T_low count for `hai` too (HPCC's simulator)")
        .or("false");
const SEGMENT: Key<MeasurementInterval> = Key::number(
    "segment",
    "size above 0, or `round-trip`",
    "bytes per measurement of RTT, or one measurement per round trip (TIMELY, 3; HPCC's simulator)",
)
.or("16KB");
const RATE_MIN: Key<BitRate> = line_rate("rate_min", "minimum rate (public simulators)").or("line/1000");

impl Plugin for TimelyKind {
    fn id(&self) -> &'static str {
        "timely"
    }

    fn keys(&self) -> Keys {
        &[
            &EWMA,
            &BETA,
            &T_LOW,
            &T_HIGH,
            &MIN_RTT,
            &DELTA,
            &HAI,
            &HAI_BELOW_T_LOW,
            &SEGMENT,
            &RATE_MIN,
            &WINDOW,
            &WINDOW_FOLLOWS_RATE,
        ]
    }

    fn gauges(&self) -> &'static [Gauge] {
        const {
            &[
                Gauge::plain("rtt_us", "the round-trip time of the last completion"),
                Gauge::plain("gradient", "rtt_diff over minRTT"),
            ]
        }
    }
}

impl CongestionControlKind for TimelyKind {
    /// Returns the presets. The keys' defaults are the paper's, for 10 Gb/s; δ and the lowest rate are in proportion to the
    /// line, as in DCQCN's preset. The paper does not name α: the value is that of the comparison with DCQCN (Zhu et al., CoNEXT 2016).
    fn presets(&self) -> &'static [Preset] {
        &[
            Preset {
                name: "timely",
                about: "TIMELY paper (SIGCOMM 2015), rates in proportion to the line",
                values: &[],
            },
            Preset {
                name: "timely-hpcc",
                about: "HPCC's public simulator, run.py --cc timely",
                values: &[("hai_below_t_low", "true"), ("segment", "round-trip"), ("rate_min", "1Gbps")],
            },
        ]
    }

    fn parse(&self, parameters: &Parameters<'_>) -> Arc<dyn CongestionControlConfig> {
        Arc::new(TimelyConfig::parse(parameters))
    }
}

impl TimelyConfig {
    fn parse(parameters: &Parameters<'_>) -> TimelyConfig {
        let (t_low, t_high) = (parameters.time(&T_LOW), parameters.time(&T_HIGH));
        if t_low > t_high {
            let message = format!("t_low, {t_low}, is above t_high, {t_high}");
            parameters.refuse(&T_LOW, message, "write a lower `t_low` or a higher `t_high`");
        }
        TimelyConfig {
            ewma_ppm: parameters.millionths(&EWMA),
            beta_ppm: parameters.millionths(&BETA),
            t_low,
            t_high,
            min_rtt: parameters.time(&MIN_RTT),
            additive_increase: parameters.rate(&DELTA),
            hai: parameters.integer(&HAI),
            hai_below_t_low: parameters.boolean(&HAI_BELOW_T_LOW),
            interval: parameters.converted(&SEGMENT),
            rate_min: parameters.rate(&RATE_MIN),
            window: OptionalWindow::parse(parameters),
        }
    }
}

impl FromStr for MeasurementInterval {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<MeasurementInterval, UnitError> {
        let size = || text.parse().ok().filter(|size| *size > Bytes::ZERO).map(MeasurementInterval::Segment);
        let interval = if text == "round-trip" { Some(MeasurementInterval::RoundTrip) } else { size() };
        interval.ok_or_else(|| UnitError::new(text, "a size above 0 with its unit, or \"round-trip\"", "16KB"))
    }
}

impl CongestionControlConfig for TimelyConfig {
    fn feedback(&self) -> RequiredFeedback {
        RequiredFeedback { telemetry: TelemetryMode::Time, acks_every_packet: true, ..RequiredFeedback::default() }
    }

    fn build(&self, line: BitRate) -> Box<dyn CongestionController> {
        Box::new(Timely::new(self, line))
    }
}

impl Timely {
    fn new(config: &TimelyConfig, line: BitRate) -> Timely {
        Timely {
            config: *config,
            line: line.as_bps(),
            rate: line.as_bps(),
            rtt: None,
            difference: 0.0,
            calm: 0,
            completes_at: match config.interval {
                MeasurementInterval::Segment(size) => size.get().max(1),
                MeasurementInterval::RoundTrip => 1,
            },
        }
    }

    fn update(&mut self, before: Span, rtt: Span) {
        let TimelyConfig { t_low, t_high, .. } = self.config;
        let ewma = fraction(self.config.ewma_ppm);
        let new_difference = rtt.as_picos() as f64 - before.as_picos() as f64;
        self.difference = (1.0 - ewma) * self.difference + ewma * new_difference;
        let gradient = self.gradient();
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
        self.rate = clamped_rate(self.rate as f64 * factor, self.config.rate_min.as_bps(), self.line);
    }

    fn gradient(&self) -> f64 {
        self.difference / self.config.min_rtt.as_picos().max(1) as f64
    }
}

impl CongestionController for Timely {
    fn rate(&self) -> BitRate {
        BitRate::bps(self.rate)
    }

    fn window(&self) -> Option<Bytes> {
        self.config.window.window_at(self.rate, self.line)
    }

    fn on_ack(&mut self, _now: Time, ack: &AckSignal<'_>) {
        if ack.acked < self.completes_at {
            return;
        }
        self.completes_at = match self.config.interval {
            MeasurementInterval::Segment(size) => {
                let segment = size.get().max(1);
                (ack.acked / segment).saturating_add(1).saturating_mul(segment)
            }
            MeasurementInterval::RoundTrip => ack.sent.saturating_add(1),
        };
        // A gradient needs two measurements.
        if let Some(before) = self.rtt.replace(ack.rtt) {
            self.update(before, ack.rtt);
        }
    }

    fn gauges(&self, show: &mut dyn FnMut(f64)) {
        show(self.rtt.map_or(f64::NAN, |rtt| rtt.as_picos() as f64 / 1e6));
        show(self.gradient());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::Network;

    const LINE: BitRate = BitRate::gbps(10);
    const MBPS: u64 = 1_000_000;

    fn preset(name: &str) -> TimelyConfig {
        let preset = TimelyKind.presets().iter().find(|preset| preset.name == name).expect("a preset");
        let network = Network { line: LINE, base_rtt: Span::ZERO };
        TimelyConfig::parse(&Parameters::new(network, &[], preset.values))
    }

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
        flow.on_ack(Time::ZERO, &ack(acked, acked, rtt_us));
        flow.rate / MBPS
    }

    fn ack(acked: u64, sent: u64, rtt_us: u64) -> AckSignal<'static> {
        AckSignal { acked, sent, rtt: Span::from_micros(rtt_us), is_marked: false, hops: &[], digest: None }
    }

    #[test]
    fn below_t_low_the_rate_rises_by_a_step_whatever_the_gradient() {
        let mut flow = flow(&preset("timely"), 1_000, 20);
        assert_eq!([49, 30, 30, 30, 30, 30, 30, 30].map(|us| complete(&mut flow, us)).last(), Some(&1_080));
    }

    #[test]
    fn above_t_high_the_rate_is_cut_by_the_excess() {
        let mut flow = flow(&preset("timely"), 1_000, 2_000);
        // 1 - 0.8 (1 - 500 / 1000) = 0.6, though the RTT falls.
        assert_eq!(complete(&mut flow, 1_000), 600);
    }

    #[test]
    fn between_them_a_rising_rtt_cuts_by_the_gradient() {
        let mut flow = flow(&preset("timely"), 1_000, 100);
        // rtt_diff = 0.875 * 8 us = 7 us, gradient 7 / 20, factor 1 - 0.8 * 0.35 = 0.72.
        assert_eq!(complete(&mut flow, 108), 720);
        // rtt_diff = 0.125 * 7 + 0.875 * 0 = 0.875 us, factor 1 - 0.8 * 0.04375 = 0.965.
        assert_eq!(complete(&mut flow, 108), 694);
        // A gradient above 1 / β cuts to the floor.
        assert_eq!(complete(&mut flow, 208), 10);
    }

    #[test]
    fn between_them_a_falling_rtt_raises_and_the_fifth_time_by_more() {
        let mut flow = flow(&preset("timely"), 1_000, 200);
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
        let mut flow = flow(&preset("timely-hpcc"), 1_000, 20);
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
                flow.on_ack(Time::ZERO, &ack(kb * 1_000, kb * 1_000 + 39_000, 20));
                if flow.completes_at != before {
                    at.push(kb);
                }
            }
            at
        };
        assert_eq!(completions(&preset("timely")), [16, 32, 48, 64, 80, 96]);
        // Data sent before a measurement belongs to the round trip before: 1 + 39 KB, then the next.
        assert_eq!(completions(&preset("timely-hpcc")), [1, 41, 81]);
    }

    #[test]
    fn thresholds_in_the_wrong_order_are_rejected() {
        let given = [("t_low", "600us")];
        let parameters = Parameters::new(Network { line: LINE, base_rtt: Span::ZERO }, &given, &[]);
        TimelyConfig::parse(&parameters);
        let wrong = parameters.into_wrong();
        assert_eq!((wrong.len(), wrong[0].message.as_str()), (1, "t_low, 600us, is above t_high, 500us"));
    }
}
