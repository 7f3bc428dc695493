//! DCQCN as in the public ns-3 simulators of lossless Ethernet: HPCC's and its derivatives.
//!
//! Differences from the paper: every acknowledgement echoes its frame's mark, and there are no notifications. A rate is cut
//! at the end of each fixed interval with a mark; α is updated at the ends of separate intervals. Only a timer raises
//! the rate; there is no byte counter.

use std::sync::Arc;

use weir_reader::{Gauge, Key, Keys, Plugin};
use weir_units::{BitRate, Bytes, Span, Time};

use super::bounds::{OptionalWindow, WINDOW, WINDOW_FOLLOWS_RATE};
use super::dcqcn::{GAUGES, alpha_of};
use super::{AckSignal, CongestionControlConfig, CongestionControlKind, CongestionController, RequiredFeedback};
use crate::parameters::{Gain, Millionths, Network, Parameters, Preset, TIMES, gain, line_rate, share};

/// Kind of `congestion_control = "dcqcn-ns3"`, and of the simulators' presets.
#[derive(Debug)]
pub(super) struct DcqcnNs3Kind;

/// Parameters of DCQCN in ns-3, with the paper's names where they match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DcqcnNs3Config {
    /// Exponent of g = 2^-`gain_shift`, the weight of new feedback in α.
    pub gain_shift: u8,
    /// Interval of α's updates, with or without marks (ALPHA_RESUME_INTERVAL).
    pub alpha_interval: Span,
    /// Interval after which R_C is cut if a mark came meanwhile (RATE_DECREASE_INTERVAL).
    pub decrease_interval: Span,
    /// Timer T: interval of R_C's raises, counted from the last cut (RP_TIMER).
    pub increase_timer: Span,
    /// Number F of fast-recovery steps (FAST_RECOVERY_TIMES).
    pub fast_recovery: u32,
    /// Additive increase R_AI of R_T, a single step.
    pub additive_increase: BitRate,
    /// Hyper increase R_HAI of R_T, each later step.
    pub hyper_increase: BitRate,
    /// Lower bound of R_C.
    pub rate_min: BitRate,
    /// Whether each cut makes R_C before it the target. Otherwise a cut that follows another with no raise between
    /// them leaves the target (CLAMP_TARGET_RATE).
    pub clamps_target: bool,
    /// Value of α for a flow before its first mark, in millionths.
    pub initial_alpha_ppm: u32,
    /// Window in addition to the rate.
    pub(super) window: OptionalWindow,
}

/// State of a flow. It sends at line rate until an acknowledgement has a mark.
#[derive(Debug)]
struct DcqcnNs3 {
    config: DcqcnNs3Config,
    line: u64,
    /// Current rate R_C, in bit/s.
    current: u64,
    /// Target rate R_T, in bit/s.
    target: u64,
    /// Estimate α, in units of 2^-32.
    alpha: u64,
    /// Instant of the next update of α; like that of R_C's next cut, [`Time::NEVER`] before the first mark.
    alpha_at: Time,
    decrease_at: Time,
    /// Instant of the next raise of R_C; [`Time::NEVER`] before the first cut.
    increase_at: Time,
    /// Raises since the last cut, counted up to the first hyper step.
    stage: u32,
    /// Whether a mark came since α's last update, and since the last time for a cut.
    is_marked_for_alpha: bool,
    is_marked_for_cut: bool,
}

/// Value 1 of α.
const ONE: u64 = 1 << 32;

const G: Key<Gain> = gain("g", "g: weight of new feedback in α (EWMA_GAIN of the public simulators)").or("1/256");
const ALPHA_INTERVAL: Key<Span> =
    Key::time("alpha_interval", TIMES, "period of α's updates, with or without marks (ALPHA_RESUME_INTERVAL)")
        .or("1us");
const DECREASE_INTERVAL: Key<Span> = Key::time(
    "decrease_interval",
    TIMES,
    "period of cuts of the current rate R_C, each only after a new mark (RATE_DECREASE_INTERVAL)",
)
.or("4us");
const INCREASE_TIMER: Key<Span> =
    Key::time("increase_timer", TIMES, "T: period at which R_C is raised, from the last cut on (RP_TIMER)").or("300us");
const FAST_RECOVERY: Key<u32> =
    Key::<u32>::integer("fast_recovery", 0..=1_000, "F: steps of fast recovery (FAST_RECOVERY_TIMES)").or("1");
const RATE_AI: Key<BitRate> =
    line_rate("rate_ai", "R_AI: the single additive increase of the target rate R_T (RATE_AI)").or("line/5000");
const RATE_HAI: Key<BitRate> =
    line_rate("rate_hai", "R_HAI: increase of R_T by each later step (RATE_HAI)").or("line/500");
const RATE_MIN: Key<BitRate> = line_rate("rate_min", "minimum of R_C (MIN_RATE)").or("1Gbps");
const CLAMPS_TARGET: Key<bool> = Key::boolean(
    "clamps_target",
    "whether each cut sets R_T to R_C before it; otherwise a cut directly after another does not (CLAMP_TARGET_RATE)",
)
.or("false");
const INITIAL_ALPHA: Key<Millionths> = share("initial_alpha", "α before the first mark (public simulators: 1)").or("1");

impl Plugin for DcqcnNs3Kind {
    fn id(&self) -> &'static str {
        "dcqcn-ns3"
    }

    fn keys(&self) -> Keys {
        &[
            &G,
            &ALPHA_INTERVAL,
            &DECREASE_INTERVAL,
            &INCREASE_TIMER,
            &FAST_RECOVERY,
            &RATE_AI,
            &RATE_HAI,
            &RATE_MIN,
            &CLAMPS_TARGET,
            &INITIAL_ALPHA,
            &WINDOW,
            &WINDOW_FOLLOWS_RATE,
        ]
    }

    fn gauges(&self) -> &'static [Gauge] {
        GAUGES
    }
}

impl CongestionControlKind for DcqcnNs3Kind {
    fn presets(&self) -> &'static [Preset] {
        PRESETS
    }

    fn parse(&self, parameters: &Parameters<'_>) -> Arc<dyn CongestionControlConfig> {
        Arc::new(DcqcnNs3Config::parse(parameters))
    }
}

const PRESETS: &[Preset] = &[
    // α every 1 us, cuts every 4 us, raises every 300 us, F = 1, R_AI = 5 Mb/s and R_HAI = 50 Mb/s at 25 Gb/s and in
    // proportion, at least 1 Gb/s on any line.
    Preset { name: "dcqcn-hpcc", about: "HPCC's public simulator, run.py --cc dcqcn", values: &[] },
    Preset {
        name: "dcqcn-hpcc-paper",
        about: "HPCC's public simulator, run.py --cc dcqcn_paper",
        values: &[("alpha_interval", "50us"), ("decrease_interval", "50us"), ("increase_timer", "55us")],
    },
    // R_AI = 10 Mb/s and R_HAI = 25 Mb/s at 25 Gb/s.
    Preset {
        name: "dcqcn-conweave",
        about: "ConWeave's public simulator, run.py --cc dcqcn",
        values: &[("rate_ai", "line/2500"), ("rate_hai", "line/1000"), ("rate_min", "100Mbps")],
    },
    // These rates hold on any line; they were made for 25 Gb/s.
    Preset {
        name: "dcqcn-reverie",
        about: "Reverie's public simulation, config-workload.txt",
        values: &[("increase_timer", "900us"), ("rate_ai", "50Mbps"), ("rate_hai", "100Mbps"), ("rate_min", "100Mbps")],
    },
];

impl DcqcnNs3Config {
    /// Returns the parameters of a preset; `None` for an unknown name.
    pub fn preset(name: &str, line: BitRate) -> Option<DcqcnNs3Config> {
        let preset = PRESETS.iter().find(|preset| preset.name == name)?;
        let network = Network { line, base_rtt: Span::ZERO };
        Some(DcqcnNs3Config::parse(&Parameters::new(network, &[], preset.values)))
    }

    fn parse(parameters: &Parameters<'_>) -> DcqcnNs3Config {
        DcqcnNs3Config {
            gain_shift: parameters.gain(&G),
            alpha_interval: parameters.time(&ALPHA_INTERVAL),
            decrease_interval: parameters.time(&DECREASE_INTERVAL),
            increase_timer: parameters.time(&INCREASE_TIMER),
            fast_recovery: parameters.integer(&FAST_RECOVERY),
            additive_increase: parameters.rate(&RATE_AI),
            hyper_increase: parameters.rate(&RATE_HAI),
            rate_min: parameters.rate(&RATE_MIN),
            clamps_target: parameters.boolean(&CLAMPS_TARGET),
            initial_alpha_ppm: parameters.millionths(&INITIAL_ALPHA),
            window: OptionalWindow::parse(parameters),
        }
    }
}

impl CongestionControlConfig for DcqcnNs3Config {
    fn feedback(&self) -> RequiredFeedback {
        RequiredFeedback { echoes_ecn: true, acks_every_packet: true, ..RequiredFeedback::default() }
    }

    fn build(&self, line: BitRate) -> Box<dyn CongestionController> {
        Box::new(DcqcnNs3::new(self, line))
    }
}

impl DcqcnNs3 {
    fn new(config: &DcqcnNs3Config, line: BitRate) -> DcqcnNs3 {
        DcqcnNs3 {
            config: *config,
            line: line.as_bps(),
            current: line.as_bps(),
            target: line.as_bps(),
            alpha: alpha_of(config.initial_alpha_ppm),
            alpha_at: Time::NEVER,
            decrease_at: Time::NEVER,
            increase_at: Time::NEVER,
            stage: 0,
            is_marked_for_alpha: false,
            is_marked_for_cut: false,
        }
    }

    /// Handles an acknowledgement's mark.
    fn record_ack(&mut self, now: Time, is_marked: bool) {
        self.advance(now);
        if !is_marked {
            return;
        }
        self.is_marked_for_cut = true;
        if self.decrease_at == Time::NEVER {
            // The first mark starts the timers, and α where it begins: it counts for the cut and not again for α.
            self.alpha_at = after(now, self.config.alpha_interval);
            self.decrease_at = after(now, self.config.decrease_interval);
        } else {
            self.is_marked_for_alpha = true;
        }
    }

    /// Runs the timers up to now, in the order of expiry; of simultaneous ones α's is first and the cut second. They
    /// need no wake-up: they matter only when the next frame is sent.
    fn advance(&mut self, now: Time) {
        loop {
            let next = self.alpha_at.min(self.decrease_at).min(self.increase_at);
            if next > now {
                return;
            }
            if next == self.alpha_at {
                self.update_alpha(now);
            } else if next == self.decrease_at {
                self.may_cut(now);
            } else {
                self.increase(now);
            }
        }
    }

    fn update_alpha(&mut self, now: Time) {
        let decay = self.alpha >> self.config.gain_shift;
        if self.is_marked_for_alpha {
            self.alpha += (ONE >> self.config.gain_shift) - decay;
        } else if decay == 0 {
            // Practically zero: nothing changes until the next mark.
            self.alpha_at = next_after(self.alpha_at, self.config.alpha_interval, now);
            return;
        } else {
            self.alpha -= decay;
        }
        self.is_marked_for_alpha = false;
        self.alpha_at = after(self.alpha_at, self.config.alpha_interval);
    }

    fn may_cut(&mut self, now: Time) {
        if !self.is_marked_for_cut {
            self.decrease_at = next_after(self.decrease_at, self.config.decrease_interval, now);
            return;
        }
        self.is_marked_for_cut = false;
        if self.config.clamps_target || self.stage > 0 {
            self.target = self.current;
        }
        let cut = ((u128::from(self.current) * u128::from(self.alpha)) >> 33) as u64;
        self.current = (self.current - cut).max(self.config.rate_min.as_bps().min(self.line));
        self.stage = 0;
        self.increase_at = after(self.decrease_at, self.config.increase_timer);
        self.decrease_at = after(self.decrease_at, self.config.decrease_interval);
    }

    fn increase(&mut self, now: Time) {
        let last = self.config.fast_recovery;
        if self.current == self.line && self.stage > last {
            self.increase_at = next_after(self.increase_at, self.config.increase_timer, now);
            return;
        }
        let step = match self.stage {
            stage if stage < last => 0,
            stage if stage == last => self.config.additive_increase.as_bps(),
            _ => self.config.hyper_increase.as_bps(),
        };
        self.target = self.target.saturating_add(step).min(self.line);
        // Rounded up, so that it reaches the target.
        self.current = (self.current + self.target).div_ceil(2);
        self.stage = self.stage.saturating_add(1).min(last.saturating_add(1));
        self.increase_at = after(self.increase_at, self.config.increase_timer);
    }
}

impl CongestionController for DcqcnNs3 {
    /// Returns R_C.
    fn rate(&self) -> BitRate {
        BitRate::bps(self.current)
    }

    fn window(&self) -> Option<Bytes> {
        self.config.window.window_at(self.current, self.line)
    }

    fn on_sent(&mut self, now: Time, _wire: Bytes) {
        self.advance(now);
    }

    fn on_ack(&mut self, now: Time, ack: &AckSignal<'_>) {
        self.record_ack(now, ack.is_marked);
    }

    fn gauges(&self, show: &mut dyn FnMut(f64)) {
        show(self.target as f64);
        show(self.alpha as f64 / ONE as f64);
    }
}

/// Returns the timer's next expiry; an interval of zero counts as a picosecond.
fn after(at: Time, interval: Span) -> Time {
    at.saturating_add(interval.max(Span::from_picos(1)))
}

/// Returns the first expiry after `now` of a periodic timer that expires at `at`.
fn next_after(at: Time, interval: Span, now: Time) -> Time {
    let interval = interval.as_picos().max(1);
    let missed = now.since(at).as_picos() / interval;
    at.saturating_add(Span::from_picos(missed * interval)).saturating_add(Span::from_picos(interval))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: BitRate = BitRate::gbps(100);

    fn instant(us: u64) -> Time {
        Time::from_nanos(us * 1_000)
    }

    fn hpcc(line: BitRate) -> DcqcnNs3Config {
        DcqcnNs3Config::preset("dcqcn-hpcc", line).expect("a preset")
    }

    fn flow() -> DcqcnNs3 {
        DcqcnNs3::new(&hpcc(LINE), LINE)
    }

    fn mbps(flow: &DcqcnNs3) -> (u64, u64) {
        (flow.current / 1_000_000, flow.target / 1_000_000)
    }

    #[test]
    fn the_first_mark_cuts_at_the_end_of_its_interval() {
        let mut flow = flow();
        flow.advance(instant(99));
        flow.record_ack(instant(100), false);
        flow.record_ack(instant(101), true);
        flow.advance(Time::from_nanos(104_999));
        assert_eq!(flow.rate(), LINE);
        // By then α has been updated four times, unmarked: (255/256)^4 = 0.98447, half of that is cut.
        flow.advance(instant(105));
        assert_eq!(mbps(&flow), (50_776, 100_000));
        // Intervals without marks cut nothing.
        flow.advance(instant(200));
        assert_eq!(mbps(&flow), (50_776, 100_000));
    }

    #[test]
    fn alpha_follows_the_marks_of_each_interval() {
        let mut flow = flow();
        flow.record_ack(instant(0), true);
        flow.advance(instant(1));
        assert_eq!(flow.alpha, ONE / 256 * 255);
        flow.record_ack(instant(1), true);
        flow.record_ack(instant(1), true);
        flow.advance(instant(2));
        // (1 - g) α + g, once however many the marks.
        assert_eq!(flow.alpha, ONE / 65_536 * 255 * 255 + ONE / 256);
        flow.advance(instant(3));
        assert_eq!(flow.alpha, ONE / 65_536 * 255 * 255 + ONE / 256 - (ONE / 65_536 * 255 * 255 + ONE / 256) / 256);
    }

    #[test]
    fn cuts_in_a_row_keep_the_target_unless_it_is_clamped() {
        let targets = [false, true].map(|clamps_target| {
            let mut flow = DcqcnNs3::new(&DcqcnNs3Config { clamps_target, ..hpcc(LINE) }, LINE);
            (0..8).for_each(|us| flow.record_ack(instant(us), true));
            flow.advance(instant(8));
            mbps(&flow)
        });
        // At 4 us, after an unmarked and three marked updates, α = 0.996139 and 0.501930 of the rate is left. At 8 us it is
        // 0.996199, and 0.501900 of that.
        assert_eq!(targets, [(25_191, 100_000), (25_191, 50_193)]);
    }

    #[test]
    fn the_timer_recovers_adds_once_then_adds_more() {
        let mut flow = DcqcnNs3::new(&DcqcnNs3Config { clamps_target: true, ..hpcc(LINE) }, LINE);
        flow.record_ack(instant(0), true);
        flow.advance(instant(4));
        flow.record_ack(instant(5), true);
        flow.advance(instant(8));
        (flow.current, flow.target) = (20_000_000_000, 40_000_000_000);
        let mut rates = Vec::new();
        for n in 1..=4 {
            flow.advance(instant(8 + 300 * n));
            rates.push(mbps(&flow));
        }
        // F = 1: one step half way to the target, one that adds 20 Mb/s to it, then 200 Mb/s a step.
        assert_eq!(rates, [(30_000, 40_000), (35_010, 40_020), (37_615, 40_220), (39_017, 40_420)]);
        // A cut begins anew, and after a raise it makes R_C the target, clamped or not.
        flow.config.clamps_target = false;
        flow.record_ack(instant(1_209), true);
        flow.advance(instant(1_212));
        assert_eq!((flow.stage, flow.target / 1_000_000), (0, 39_017));
        assert_eq!(flow.increase_at, instant(1_512));
    }

    #[test]
    fn a_long_silence_ends_at_line_rate_with_the_timers_in_step() {
        let mut flow = flow();
        (0..40).for_each(|us| flow.record_ack(instant(us), true));
        let late = Time::from_nanos(3_600_000_000_500);
        flow.advance(late);
        assert_eq!(flow.rate(), LINE);
        assert!(flow.alpha < 256, "{}", flow.alpha);
        // Timers keep their phase: α's whole microseconds, cuts' multiples of 4, raises 300 us after the cut at 40 us.
        assert_eq!(flow.alpha_at, instant(3_600_000_001));
        assert_eq!(flow.decrease_at, instant(3_600_000_004));
        assert_eq!((flow.increase_at.as_picos() / 1_000_000 - 40) % 300, 0);
        assert!(flow.increase_at > late);
        // The α that is left cuts next to nothing.
        flow.record_ack(late, true);
        flow.advance(instant(3_600_000_004));
        assert!(flow.rate() > BitRate::gbps(99), "{}", flow.rate());
    }

    #[test]
    fn the_rate_has_a_floor() {
        let mut flow = flow();
        (0..1_000).for_each(|us| flow.record_ack(instant(us), true));
        assert_eq!(flow.rate(), BitRate::gbps(1));
        let slow = BitRate::mbps(10);
        let mut flow = DcqcnNs3::new(&hpcc(slow), slow);
        (0..1_000).for_each(|us| flow.record_ack(instant(us), true));
        assert_eq!(flow.rate(), slow, "a floor above the line is the line");
    }

    #[test]
    fn simulators_rates_scale_as_they_scale_them() {
        let rates = |name, gbps| {
            let config = DcqcnNs3Config::preset(name, BitRate::gbps(gbps)).expect("a preset");
            [config.additive_increase, config.hyper_increase, config.rate_min].map(|rate| rate.as_bps() / 1_000_000)
        };
        assert_eq!(rates("dcqcn-hpcc", 25), [5, 50, 1_000]);
        assert_eq!(rates("dcqcn-hpcc-paper", 100), [20, 200, 1_000]);
        assert_eq!(rates("dcqcn-conweave", 100), [40, 100, 100]);
        assert_eq!(rates("dcqcn-reverie", 100), [50, 100, 100]);
    }
}
