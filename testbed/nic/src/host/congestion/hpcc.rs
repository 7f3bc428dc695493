//! HPCC: a window controlled by the bytes in flight on the busiest link, from telemetry of switches (Li et al., SIGCOMM 2019,
//! section 3 and Algorithm 1).
//!
//! U estimates the bytes in flight on a link as a fraction of its bandwidth-delay product. A window above η of that is cut to
//! it at once, one below grows by W_AI for up to maxStage round trips and then jumps to it. Every acknowledgement sets the
//! window W, but from the reference window W_c, which moves once a round trip, so that one congestion is met once.

use std::sync::Arc;

use weir_reader::{Gauge, Key, Keys, Plugin};
use weir_units::{BitRate, Bytes, Span, Time};

use super::bounds::WindowBounds;
use super::hops::{HopHistory, part_of_bdp};
use super::{
    AckSignal, CongestionControlConfig, CongestionControlKind, CongestionController, RequiredFeedback, TelemetryMode,
    fraction,
};
use crate::parameters::{BdpSize, Millionths, Parameters, Preset, base_rtt, bdp_size, line_rate, share};

/// Kind of `congestion_control = "hpcc"`.
#[derive(Debug)]
pub(super) struct HpccKind;

/// HPCC's parameters, with the paper's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HpccConfig {
    /// Base round-trip time T, without queues: one for the whole network, no less than any flow's.
    base_rtt: Span,
    /// Target utilisation η, in parts per million.
    target_ppm: u32,
    /// Number maxStage of successive additive steps before the window is set in proportion.
    stages_max: u32,
    /// Additive increase W_AI.
    additive_increase: Bytes,
    /// Rate that bounds the window from below: the window is at least this rate times T.
    rate_min: BitRate,
}

/// State of a flow. It starts with the line's bandwidth-delay product, W_init.
#[derive(Debug)]
struct Hpcc {
    bounds: WindowBounds,
    target: f64,
    stages_max: u32,
    additive_increase: f64,
    /// Window W, in bytes.
    window: f64,
    /// Reference window W_c, in bytes.
    reference: f64,
    /// Average utilisation U.
    utilisation: f64,
    /// Number incStage of additive steps so far.
    stage: u32,
    /// Offset lastUpdateSeq: W_c moves when more payload than this is acknowledged.
    update_after: u64,
    hops: HopHistory,
}

const BASE_RTT: Key<Span> = base_rtt("T: round-trip time without queues, at least that of every flow (HPCC, 3.2)");
const ETA: Key<Millionths> = share("eta", "η: target utilisation (HPCC, 3.3)").or("0.95");
const MAX_STAGE: Key<u32> = Key::<u32>::integer(
    "max_stage",
    0..=1_000,
    "maxStage: additive steps before a multiplicative one; 0: always multiplicative (HPCC, 3.3)",
)
.or("5");
const W_AI: Key<BdpSize> = bdp_size("w_ai", "W_AI: additive step (HPCC, 3.3: W_init (1 − η) / N)").or("bdp/2000");
const RATE_MIN: Key<BitRate> = line_rate("rate_min", "minimum of the rate W / T (public simulators)").or("line/1000");

impl Plugin for HpccKind {
    fn id(&self) -> &'static str {
        "hpcc"
    }

    fn keys(&self) -> Keys {
        &[&BASE_RTT, &ETA, &MAX_STAGE, &W_AI, &RATE_MIN]
    }

    fn gauges(&self) -> &'static [Gauge] {
        const {
            &[
                Gauge::plain("reference_bytes", "W_c, the window that others are made from"),
                Gauge::plain(
                    "utilisation",
                    "U: bytes in flight on the busiest link, as a part of what it carries in T",
                ),
            ]
        }
    }
}

impl CongestionControlKind for HpccKind {
    /// The keys' defaults are the paper's. W_AI by its rule, W_init (1 - η) / N, for N = 100 flows on a link, which makes the 80 B of
    /// its evaluation at 100 Gb/s and 13 us. The lowest rate is a thousandth of the line's.
    ///
    /// The simulator's maxStage = 0 sets the window in proportion always; its W_AI is worth 10 Mb/s at 25 Gb/s.
    fn presets(&self) -> &'static [Preset] {
        &[
            Preset { name: "hpcc", about: "HPCC paper (SIGCOMM 2019)", values: &[] },
            Preset {
                name: "hpcc-simulator",
                about: "HPCC's public simulator, run.py --cc hp",
                values: &[("max_stage", "0"), ("w_ai", "bdp/2500"), ("rate_min", "1Gbps")],
            },
        ]
    }

    fn parse(&self, parameters: &Parameters<'_>) -> Arc<dyn CongestionControlConfig> {
        Arc::new(HpccConfig::parse(parameters))
    }
}

impl HpccConfig {
    fn parse(parameters: &Parameters<'_>) -> HpccConfig {
        let base_rtt = parameters.base_rtt(&BASE_RTT);
        HpccConfig {
            base_rtt,
            target_ppm: parameters.millionths(&ETA),
            stages_max: parameters.integer(&MAX_STAGE),
            additive_increase: parameters.size_or_part(&W_AI, base_rtt),
            rate_min: parameters.rate(&RATE_MIN),
        }
    }
}

impl CongestionControlConfig for HpccConfig {
    fn feedback(&self) -> RequiredFeedback {
        RequiredFeedback { telemetry: TelemetryMode::Hops, acks_every_packet: true, ..RequiredFeedback::default() }
    }

    fn build(&self, line: BitRate) -> Box<dyn CongestionController> {
        Box::new(Hpcc::new(self, line))
    }
}

impl Hpcc {
    fn new(config: &HpccConfig, line: BitRate) -> Hpcc {
        let bounds = WindowBounds::new(line, config.rate_min, config.base_rtt);
        Hpcc {
            bounds,
            target: fraction(config.target_ppm),
            stages_max: config.stages_max,
            additive_increase: config.additive_increase.get() as f64,
            window: bounds.largest(),
            reference: bounds.largest(),
            // Utilisation of an idle network by a flow at line rate.
            utilisation: 1.0,
            stage: 0,
            update_after: 0,
            hops: HopHistory::new(),
        }
    }

    /// Runs MeasureInflight without its average: returns the busiest hop's u' and its interval. `None` without earlier
    /// telemetry; a round trip then begins.
    fn measure(&mut self, ack: &AckSignal<'_>) -> Option<(f64, f64)> {
        let base_rtt_ps = self.bounds.base_rtt_ps();
        let mut busiest: Option<(f64, f64)> = None;
        let is_known = self.hops.advance(ack.hops, |step| {
            // The smaller of the two queues persisted throughout the step.
            let queue = step.before.queue.min(step.now.queue).get() as f64;
            let load = part_of_bdp(queue, step.now.rate, base_rtt_ps) + step.load();
            if busiest.is_none_or(|(most, _)| load > most) {
                busiest = Some((load, step.span.as_picos() as f64));
            }
        });
        if !is_known {
            self.update_after = ack.sent;
        }
        busiest
    }
}

impl CongestionController for Hpcc {
    /// Returns W / T.
    fn rate(&self) -> BitRate {
        self.bounds.rate(self.window)
    }

    /// Returns W.
    fn window(&self) -> Option<Bytes> {
        Some(WindowBounds::bytes(self.window))
    }

    /// Runs procedure NewAck.
    fn on_ack(&mut self, _now: Time, ack: &AckSignal<'_>) {
        let Some((load, span_ps)) = self.measure(ack) else { return };
        let weight = (span_ps / self.bounds.base_rtt_ps()).min(1.0);
        self.utilisation = (1.0 - weight) * self.utilisation + weight * load;

        let is_round_trip = ack.acked > self.update_after;
        let excess = self.utilisation / self.target;
        if excess >= 1.0 || self.stage >= self.stages_max {
            self.window = self.reference / excess + self.additive_increase;
            self.stage = if is_round_trip { 0 } else { self.stage };
        } else {
            self.window = self.reference + self.additive_increase;
            self.stage += u32::from(is_round_trip);
        }
        self.window = self.bounds.clamp(self.window);
        if is_round_trip {
            self.reference = self.window;
            self.update_after = ack.sent;
        }
    }

    fn gauges(&self, show: &mut dyn FnMut(f64)) {
        show(self.reference);
        show(self.utilisation);
    }
}

#[cfg(test)]
mod tests {
    use super::super::HopTelemetry;
    use super::*;
    use crate::parameters::Network;

    /// 100 Gb/s and 10 us: W_init = 125,000 B, and 12,500 B a microsecond.
    const LINE: BitRate = BitRate::gbps(100);
    const T: Span = Span::from_micros(10);

    fn hop(us: u64, tx_bytes: u64, queue: u64) -> HopTelemetry {
        HopTelemetry { at: Time::from_nanos(us * 1_000), tx_bytes, queue: Bytes::new(queue), rate: LINE }
    }

    fn preset(name: &str, base_rtt: Span) -> HpccConfig {
        let preset = HpccKind.presets().iter().find(|preset| preset.name == name).expect("a preset");
        HpccConfig::parse(&Parameters::new(Network { line: LINE, base_rtt }, &[], preset.values))
    }

    fn flow(stages_max: u32) -> Hpcc {
        let additive_increase = Bytes::new(1_000);
        Hpcc::new(&HpccConfig { stages_max, additive_increase, ..preset("hpcc", T) }, LINE)
    }

    /// Acknowledges so much payload, with so much sent; returns the window.
    fn ack(flow: &mut Hpcc, acked: u64, sent: u64, hops: &[HopTelemetry]) -> u64 {
        flow.on_ack(Time::ZERO, &AckSignal { acked, sent, rtt: T, is_marked: false, hops, digest: None });
        flow.window().expect("a window").get()
    }

    #[test]
    fn the_first_acknowledgement_only_records_the_hops() {
        let mut flow = flow(5);
        assert_eq!(ack(&mut flow, 1_000, 125_000, &[hop(0, 0, 0)]), 125_000);
        assert_eq!((flow.rate(), flow.update_after), (LINE, 125_000));
    }

    #[test]
    fn a_busy_link_cuts_the_window_to_its_share() {
        let mut flow = flow(5);
        ack(&mut flow, 1_000, 125_000, &[hop(0, 0, 62_500)]);
        // A whole T later: u' = 25,000 / 125,000 + 1 = 1.2, and U = u'. W = 125,000 * 0.95 / 1.2 + 1,000 = 99,958.3.
        assert_eq!(ack(&mut flow, 2_000, 125_000, &[hop(10, 125_000, 25_000)]), 99_958);
        assert_eq!(flow.reference, 125_000.0, "the round trip is not over");
        // R = W / T = 79.96667 Gb/s.
        assert_eq!(flow.rate().as_bps() / 10_000, 7_996_666);
        // The next T is alike and gives the same W, from the same W_c; then the round trip ends and W_c is W.
        assert_eq!(ack(&mut flow, 125_000, 224_958, &[hop(20, 250_000, 25_000)]), 99_958);
        assert_eq!(ack(&mut flow, 125_001, 224_958, &[hop(30, 375_000, 25_000)]), 99_958);
        assert_eq!((flow.reference as u64, flow.update_after), (99_958, 224_958));
        // 99,958.3 * 0.95 / 1.2 + 1,000.
        assert_eq!(ack(&mut flow, 125_002, 224_959, &[hop(40, 500_000, 25_000)]), 80_133);
    }

    #[test]
    fn u_is_an_average_over_a_round_trip() {
        let mut flow = flow(5);
        ack(&mut flow, 1, 10, &[hop(0, 0, 0)]);
        // 1 us at half the rate: U = 0.9 * 1 + 0.1 * 0.5 = 0.95 = η, so W = W_c + W_AI, which is cut to W_init.
        assert_eq!(ack(&mut flow, 2, 10, &[hop(1, 6_250, 0)]), 125_000);
        assert!((flow.utilisation - 0.95).abs() < 1e-12);
        // 5 us more: 0.5 * 0.95 + 0.5 * 0.5. More than T counts as T.
        ack(&mut flow, 3, 10, &[hop(6, 37_500, 0)]);
        assert!((flow.utilisation - 0.725).abs() < 1e-12);
        ack(&mut flow, 4, 10, &[hop(106, 37_500 + 250_000, 0)]);
        assert!((flow.utilisation - 0.2).abs() < 1e-12);
    }

    #[test]
    fn the_busiest_hop_counts() {
        let mut flow = flow(5);
        ack(&mut flow, 1, 10, &[hop(0, 0, 0), hop(0, 0, 50_000), hop(0, 0, 0)]);
        // u' = 0.4, 50,000 / 125,000 + 0.8 = 1.2, 1: W = 125,000 * 0.95 / 1.2 + 1,000.
        let hops = [hop(10, 50_000, 0), hop(10, 100_000, 50_000), hop(10, 125_000, 90_000)];
        assert_eq!(ack(&mut flow, 2, 10, &hops), 99_958);
    }

    #[test]
    fn an_idle_link_is_filled_in_steps_and_then_at_once() {
        let mut flow = flow(2);
        (flow.window, flow.reference) = (10_000.0, 10_000.0);
        ack(&mut flow, 1, 1, &[hop(0, 0, 0)]);
        // U = 0.5: two additive round trips, then W_c 0.95 / 0.5 + 1,000, and anew.
        let windows = [1, 2, 3, 4, 5, 6].map(|n| ack(&mut flow, n + 1, n + 1, &[hop(10 * n, 62_500 * n, 0)]));
        assert_eq!(windows, [11_000, 12_000, 23_800, 24_800, 25_800, 50_020]);
        assert_eq!(flow.stage, 0);
    }

    #[test]
    fn acknowledgements_within_a_round_trip_step_once() {
        let mut flow = flow(5);
        (flow.window, flow.reference, flow.utilisation) = (10_000.0, 10_000.0, 0.5);
        ack(&mut flow, 1, 10, &[hop(0, 0, 0)]);
        let windows = [5, 10, 11, 12].map(|n| ack(&mut flow, n, n + 10, &[hop(n, 6_250 * n, 0)]));
        assert_eq!(windows, [11_000, 11_000, 11_000, 12_000]);
        assert_eq!((flow.stage, flow.reference), (1, 11_000.0));
    }

    #[test]
    fn presets_follow_the_paper_and_the_simulator() {
        let paper = preset("hpcc", Span::from_micros(13));
        assert_eq!(paper.additive_increase, Bytes::new(81));
        // 40 Mb/s in 13 us.
        assert_eq!(preset("hpcc-simulator", Span::from_micros(13)).additive_increase, Bytes::new(65));
    }
}
