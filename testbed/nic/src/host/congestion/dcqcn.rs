//! DCQCN's reaction point: a sender's response to congestion notifications (Zhu et al., SIGCOMM 2015, section 3 and
//! Fig. 7).
//!
//! The congestion point is a switch that marks by its queue's length, the notification point the receiver. A notification
//! cuts R_C by α/2; without further ones, a timer and a byte counter raise it again, to the rate before the cut (fast
//! recovery) and beyond it (additive, then hyper increase).

use std::sync::Arc;

use weir_reader::{Gauge, Key, Keys, Plugin};
use weir_units::{BitRate, Bytes, Span, Time};

use super::{CongestionControlConfig, CongestionControlKind, CongestionController, RequiredFeedback};
use crate::parameters::{Gain, Millionths, Parameters, Preset, TIMES, gain, line_rate, share};

/// Kind of `congestion_control = "dcqcn"`.
#[derive(Debug)]
pub(super) struct DcqcnKind;

/// DCQCN's parameters, with the paper's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DcqcnConfig {
    /// Exponent of g = 2^-`gain_shift`, the weight of new feedback in α.
    gain_shift: u8,
    /// Least interval N between a receiver's notifications to a flow.
    cnp_interval: Span,
    /// Timer K: interval without a notification after which α falls.
    alpha_timer: Span,
    /// Timer T: interval after which R_C is raised.
    increase_timer: Span,
    /// Byte counter B: bytes sent on the wire after which R_C is raised.
    byte_counter: Bytes,
    /// Number F of fast-recovery steps.
    fast_recovery: u32,
    /// Additive increase R_AI of R_T.
    additive_increase: BitRate,
    /// Hyper increase R_HAI of R_T.
    hyper_increase: BitRate,
    /// Lower bound of R_C.
    rate_min: BitRate,
    /// Value of α for a flow before its first notification, in millionths.
    initial_alpha_ppm: u32,
}

/// State of a flow. It sends at line rate until it is notified.
#[derive(Debug)]
struct Dcqcn {
    config: DcqcnConfig,
    line: u64,
    /// Current rate R_C, in bit/s.
    current: u64,
    /// Target rate R_T, in bit/s.
    target: u64,
    /// Estimate α, in units of 2^-32.
    alpha: u64,
    /// Instant of the next decrease of α; [`Time::NEVER`] before the first notification, and once α is practically
    /// zero.
    alpha_at: Time,
    /// Instant at which the timer next raises R_C; [`Time::NEVER`] at line rate.
    increase_at: Time,
    /// Expiries of the timer since the last cut, and of the byte counter.
    timer_stage: u32,
    byte_stage: u32,
    /// Bytes left until the byte counter's next expiry.
    bytes_left: u64,
}

/// Value 1 of α.
const ONE: u64 = 1 << 32;

/// Returns α in units of 2^-32 from millionths.
pub(super) fn alpha_of(ppm: u32) -> u64 {
    (ONE * u64::from(ppm)) / 1_000_000
}

const G: Key<Gain> = gain("g", "g: weight of new feedback in α (DCQCN, 3.1, Fig. 14)").or("1/256");
const CNP_INTERVAL: Key<Span> =
    Key::time("cnp_interval", TIMES, "N: shortest time between a receiver's notifications of a flow (DCQCN, 3.1)")
        .or("50us");
const ALPHA_TIMER: Key<Span> =
    Key::time("alpha_timer", TIMES, "K: period of α's decrease without notifications (DCQCN, 3.1, Fig. 14)").or("55us");
const INCREASE_TIMER: Key<Span> =
    Key::time("increase_timer", TIMES, "T: period at which the current rate R_C is raised (DCQCN, Fig. 14)").or("55us");
const BYTE_COUNTER: Key<Bytes> = Key::size(
    "byte_counter",
    Bytes::kb(1)..=Bytes::mb(1_000_000),
    "B: bytes on the wire after which R_C is raised (DCQCN, Fig. 14)",
)
.or("10MB");
const FAST_RECOVERY: Key<u32> =
    Key::<u32>::integer("fast_recovery", 0..=1_000, "F: steps of fast recovery (DCQCN, 3.1)").or("5");
const RATE_AI: Key<BitRate> =
    line_rate("rate_ai", "R_AI: additive increase of the target rate R_T (DCQCN, 3.1: 40 Mb/s at 40 Gb/s)")
        .or("line/1000");
const RATE_HAI: Key<BitRate> = line_rate("rate_hai", "R_HAI: hyper increase of R_T (public simulators)").or("line/200");
const RATE_MIN: Key<BitRate> = line_rate("rate_min", "minimum of R_C (public simulators)").or("line/1000");
const INITIAL_ALPHA: Key<Millionths> =
    share("initial_alpha", "α before the first notification (DCQCN, 3.1: 1; simulation of the GFC paper: 0.5)").or("1");

/// Gauges of flows under any variant of DCQCN.
pub(super) const GAUGES: &[Gauge] = &[
    Gauge::plain("target_bps", "R_T, which R_C is raised to"),
    Gauge::plain("alpha", "α: the share of R_C that the next cut takes twice"),
];

impl Plugin for DcqcnKind {
    fn id(&self) -> &'static str {
        "dcqcn"
    }

    fn keys(&self) -> Keys {
        &[
            &G,
            &CNP_INTERVAL,
            &ALPHA_TIMER,
            &INCREASE_TIMER,
            &BYTE_COUNTER,
            &FAST_RECOVERY,
            &RATE_AI,
            &RATE_HAI,
            &RATE_MIN,
            &INITIAL_ALPHA,
        ]
    }

    fn gauges(&self) -> &'static [Gauge] {
        GAUGES
    }
}

impl CongestionControlKind for DcqcnKind {
    /// The keys' defaults are the paper's, made for 40 Gb/s, in which all rates follow the line rate. R_HAI, which the paper does not
    /// name, is 200 Mb/s and the lowest rate a thousandth of the line's, as in the public simulators.
    fn presets(&self) -> &'static [Preset] {
        const ABOUT: &str = "DCQCN paper (SIGCOMM 2015), rates in proportion to the line";
        &[
            Preset { name: "dcqcn", about: ABOUT, values: &[] },
            Preset { name: "dcqcn-paper", about: ABOUT, values: &[] },
            // For 40 Gb/s and marks from 40 KB to 1 MB with P_max = 1. Its clamp of the target is the paper's.
            Preset {
                name: "dcqcn-simulator",
                about: "DCQCN authors' public simulator (ns3-rdma), mix/config.txt",
                values: &[("increase_timer", "60us"), ("byte_counter", "300KB")],
            },
        ]
    }

    fn parse(&self, parameters: &Parameters<'_>) -> Arc<dyn CongestionControlConfig> {
        Arc::new(DcqcnConfig::parse(parameters))
    }
}

impl DcqcnConfig {
    fn parse(parameters: &Parameters<'_>) -> DcqcnConfig {
        DcqcnConfig {
            gain_shift: parameters.gain(&G),
            cnp_interval: parameters.time(&CNP_INTERVAL),
            alpha_timer: parameters.time(&ALPHA_TIMER),
            increase_timer: parameters.time(&INCREASE_TIMER),
            byte_counter: parameters.size(&BYTE_COUNTER),
            fast_recovery: parameters.integer(&FAST_RECOVERY),
            additive_increase: parameters.rate(&RATE_AI),
            hyper_increase: parameters.rate(&RATE_HAI),
            rate_min: parameters.rate(&RATE_MIN),
            initial_alpha_ppm: parameters.millionths(&INITIAL_ALPHA),
        }
    }
}

impl CongestionControlConfig for DcqcnConfig {
    fn feedback(&self) -> RequiredFeedback {
        RequiredFeedback { cnp_interval: Some(self.cnp_interval), ..RequiredFeedback::default() }
    }

    fn build(&self, line: BitRate) -> Box<dyn CongestionController> {
        Box::new(Dcqcn::new(self, line))
    }
}

impl Dcqcn {
    fn new(config: &DcqcnConfig, line: BitRate) -> Dcqcn {
        Dcqcn {
            config: *config,
            line: line.as_bps(),
            current: line.as_bps(),
            target: line.as_bps(),
            alpha: alpha_of(config.initial_alpha_ppm),
            alpha_at: Time::NEVER,
            increase_at: Time::NEVER,
            timer_stage: 0,
            byte_stage: 0,
            bytes_left: config.byte_counter.get(),
        }
    }

    /// Runs the timers up to now. They need no wake-up: they matter only when the next frame is sent.
    fn advance(&mut self, now: Time) {
        while self.alpha_at <= now {
            let decay = self.alpha >> self.config.gain_shift;
            self.alpha -= decay;
            self.alpha_at =
                if decay == 0 { Time::NEVER } else { self.alpha_at.saturating_add(self.config.alpha_timer) };
        }
        while self.increase_at <= now {
            self.timer_stage += 1;
            self.increase();
            let next = self.increase_at.saturating_add(self.config.increase_timer);
            self.increase_at = if self.is_limited() { next } else { Time::NEVER };
        }
    }

    fn is_limited(&self) -> bool {
        self.current < self.line
    }

    fn increase(&mut self) {
        let (timer, bytes, last) = (self.timer_stage, self.byte_stage, self.config.fast_recovery);
        let step = if timer.max(bytes) < last {
            0
        } else if timer.min(bytes) > last {
            self.config.hyper_increase.as_bps()
        } else {
            self.config.additive_increase.as_bps()
        };
        self.target = (self.target + step).min(self.line);
        // Rounded up, so that it reaches the target.
        self.current = (self.current + self.target).div_ceil(2);
    }
}

impl CongestionController for Dcqcn {
    /// Returns R_C.
    fn rate(&self) -> BitRate {
        BitRate::bps(self.current)
    }

    fn on_cnp(&mut self, now: Time) {
        self.advance(now);
        self.target = self.current;
        let cut = ((u128::from(self.current) * u128::from(self.alpha)) >> 33) as u64;
        self.current = (self.current - cut).max(self.config.rate_min.as_bps().min(self.line));
        self.alpha += (ONE - self.alpha) >> self.config.gain_shift;
        self.alpha_at = now.saturating_add(self.config.alpha_timer);
        self.increase_at = now.saturating_add(self.config.increase_timer);
        (self.timer_stage, self.byte_stage) = (0, 0);
        self.bytes_left = self.config.byte_counter.get();
    }

    fn on_sent(&mut self, now: Time, wire: Bytes) {
        self.advance(now);
        let mut sent = wire.get();
        while self.is_limited() && sent >= self.bytes_left {
            sent -= self.bytes_left;
            self.bytes_left = self.config.byte_counter.get().max(1);
            self.byte_stage += 1;
            self.increase();
        }
        self.bytes_left = self.bytes_left.saturating_sub(sent).max(1);
    }

    fn gauges(&self, show: &mut dyn FnMut(f64)) {
        show(self.target as f64);
        show(self.alpha as f64 / ONE as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::Network;

    const LINE: BitRate = BitRate::gbps(100);

    fn paper(line: BitRate) -> DcqcnConfig {
        DcqcnConfig::parse(&Parameters::new(Network { line, base_rtt: Span::ZERO }, &[], &[]))
    }

    fn dcqcn() -> Dcqcn {
        Dcqcn::new(&paper(LINE), LINE)
    }

    fn instant(us: u64) -> Time {
        Time::from_nanos(us * 1_000)
    }

    fn after_cnps(count: u64) -> Dcqcn {
        let mut flow = dcqcn();
        (0..count).for_each(|n| flow.on_cnp(instant(50 * n)));
        flow
    }

    /// Rates of mix/config.txt at its line rate.
    #[test]
    fn the_authors_simulator_counts_fewer_bytes() {
        let preset = DcqcnKind.presets().iter().find(|preset| preset.name == "dcqcn-simulator").expect("a preset");
        let network = Network { line: BitRate::gbps(40), base_rtt: Span::ZERO };
        let config = DcqcnConfig::parse(&Parameters::new(network, &[], preset.values));
        assert_eq!((config.increase_timer, config.byte_counter), (Span::from_micros(60), Bytes::kb(300)));
        assert_eq!((config.cnp_interval, config.alpha_timer), (Span::from_micros(50), Span::from_micros(55)));
        assert_eq!((config.additive_increase, config.hyper_increase), (BitRate::mbps(40), BitRate::mbps(200)));
    }

    #[test]
    fn a_flow_starts_at_line_rate_and_the_first_notifications_halve_it() {
        let rates: Vec<u64> = (0..5).map(|n| after_cnps(n).rate().as_bps()).collect();
        // Notified every 50 us, α has no time to fall from 1.
        assert_eq!(rates, [100_000_000_000, 50_000_000_000, 25_000_000_000, 12_500_000_000, 6_250_000_000]);
    }

    #[test]
    fn alpha_may_begin_lower() {
        let half = DcqcnConfig { initial_alpha_ppm: 500_000, ..paper(LINE) };
        let mut flow = Dcqcn::new(&half, LINE);
        flow.on_cnp(instant(0));
        // A quarter of 100 Gb/s; then α = 0.5 + 0.5 / 256, of which a half is cut from 75 Gb/s.
        assert_eq!((flow.rate(), flow.alpha), (BitRate::gbps(75), ONE / 512 * 257));
        flow.on_cnp(instant(50));
        assert_eq!(flow.rate(), BitRate::bps(75_000_000_000 - 75_000_000_000 * 257 / 1_024));
    }

    #[test]
    fn the_rate_has_a_floor() {
        assert_eq!(after_cnps(100).rate(), BitRate::mbps(100));
        let slow = BitRate::bps(50);
        let mut flow = Dcqcn::new(&DcqcnConfig { rate_min: LINE, ..paper(slow) }, slow);
        flow.on_cnp(instant(0));
        assert_eq!(flow.rate(), slow, "a floor above the line is the line");
    }

    #[test]
    fn alpha_falls_by_g_every_k_and_rises_with_notifications() {
        let mut flow = after_cnps(1);
        flow.advance(instant(54));
        assert_eq!(flow.alpha, ONE);
        flow.advance(instant(55));
        assert_eq!(flow.alpha, ONE / 256 * 255);
        flow.advance(instant(110));
        assert_eq!(flow.alpha, ONE / 65_536 * 255 * 255);
        let before = flow.alpha;
        flow.on_cnp(instant(111));
        assert_eq!(flow.alpha, before + (ONE - before) / 256);
        // Half of α = 1 is gone after 177 updates: (255/256)^177 is just above 1/2.
        let mut flow = after_cnps(1);
        flow.advance(instant(55 * 177));
        assert!(flow.alpha > ONE / 2);
        flow.advance(instant(55 * 178));
        assert!(flow.alpha < ONE / 2);
        // A long silence ends.
        flow.advance(Time::from_nanos(3_600_000_000_000));
        assert!(flow.alpha < 256 && flow.alpha_at == Time::NEVER);
    }

    #[test]
    fn the_timer_recovers_the_rate_then_adds_to_it() {
        let mut flow = after_cnps(2);
        let mut rates = Vec::new();
        for n in 1..=6 {
            flow.advance(instant(50 + 55 * n));
            rates.push((flow.rate().as_bps() / 1_000_000, flow.target / 1_000_000));
        }
        // Half way to 50 Gb/s four times; from the fifth on R_T grows by 100 Mb/s.
        let expected = [
            (37_500, 50_000),
            (43_750, 50_000),
            (46_875, 50_000),
            (48_437, 50_000),
            (49_268, 50_100),
            (49_734, 50_200),
        ];
        assert_eq!(rates, expected);
    }

    #[test]
    fn the_byte_counter_counts_as_the_timer_does_and_both_make_it_hyper() {
        let mut flow = after_cnps(2);
        for _ in 0..4 {
            flow.on_sent(instant(51), Bytes::mb(10));
        }
        assert_eq!((flow.byte_stage, flow.target), (4, 50_000_000_000));
        flow.on_sent(instant(51), Bytes::mb(20));
        assert_eq!((flow.byte_stage, flow.target), (6, 50_200_000_000));
        // The timer's first five leave the lesser stage at five at most: additive. The sixth is hyper.
        flow.advance(instant(50 + 55 * 5));
        assert_eq!((flow.timer_stage, flow.target), (5, 50_700_000_000));
        flow.advance(instant(50 + 55 * 6));
        assert_eq!((flow.timer_stage, flow.target), (6, 51_200_000_000));
        // A notification begins anew.
        flow.on_cnp(instant(50 + 55 * 6));
        assert_eq!((flow.timer_stage, flow.byte_stage, flow.bytes_left), (0, 0, 10_000_000));
    }

    #[test]
    fn parts_of_the_byte_counter_add_up() {
        let mut flow = after_cnps(1);
        for _ in 0..9_999 {
            flow.on_sent(instant(1), Bytes::kb(1));
        }
        assert_eq!(flow.byte_stage, 0);
        flow.on_sent(instant(1), Bytes::kb(1));
        assert_eq!((flow.byte_stage, flow.bytes_left), (1, 10_000_000));
    }

    #[test]
    fn it_gets_back_to_line_rate_and_rests_there() {
        let mut flow = after_cnps(8);
        flow.advance(Time::from_nanos(100_000_000));
        assert_eq!((flow.rate(), flow.increase_at), (LINE, Time::NEVER));
        flow.on_sent(instant(200_000), Bytes::mb(100));
        assert_eq!(flow.rate(), LINE);
        // By then α has fallen, so the next cut is a lesser one.
        flow.on_cnp(instant(200_000));
        assert!(flow.rate() > BitRate::gbps(90), "{}", flow.rate());
    }
}
