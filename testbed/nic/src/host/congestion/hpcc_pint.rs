//! HPCC-PINT: HPCC by a digest of the path in place of each hop's stamp (Ben Basat et al., SIGCOMM 2020, as in HPCC's public
//! simulator).
//!
//! Switches average U, and a frame brings the busiest hop's, coded in two bytes ([`weir_wire::digest`]). The sender follows HPCC's
//! Algorithm 1 from there, with a rate in place of the window: R from R_c, which moves once a round trip. It may use only a share of
//! the acknowledgements.

use std::sync::Arc;

use weir_reader::{Gauge, Key, Keys, Plugin};
use weir_units::{BitRate, Bytes, Span, SplitMix64, Time};
use weir_wire::digest::{DigestCode, DigestConfig, LOG_BASES_PPM};

use super::bounds::OptionalWindow;
use super::{
    AckSignal, CongestionControlConfig, CongestionControlKind, CongestionController, RequiredFeedback, TelemetryMode,
    clamped_rate, fraction,
};
use crate::parameters::{Millionths, Parameters, Preset, base_rtt, line_rate, millionths, share};

/// Kind of `congestion_control = "hpcc-pint"`.
#[derive(Debug)]
pub(super) struct HpccPintKind;

/// Parameters of HPCC-PINT.
#[derive(Clone, Debug)]
struct HpccPintConfig {
    /// Target utilisation η, in parts per million.
    target_ppm: u32,
    /// Number of consecutive additive steps before the rate jumps (maxStage).
    stages_max: u32,
    /// Additive increase of the rate.
    additive_increase: BitRate,
    /// Lower bound of the rate.
    rate_min: BitRate,
    /// Averaging and coding parameters of the switches' digests.
    digest: DigestConfig,
    /// Share of acknowledgements that count, in parts per million.
    sampled_ppm: u32,
    code: Arc<DigestCode>,
}

/// State of a flow. It starts at line rate.
#[derive(Debug)]
struct HpccPint {
    line: u64,
    least: u64,
    target: f64,
    stages_max: u32,
    additive_increase: f64,
    sampled_ppm: u32,
    window: OptionalWindow,
    code: Arc<DigestCode>,
    /// Rate R, in bit/s.
    rate: f64,
    /// Reference rate R_c, in bit/s.
    reference: f64,
    /// U of the last acknowledgement that counted.
    utilisation: f64,
    /// Number incStage of additive steps so far.
    stage: u32,
    /// Payload lastUpdateSeq: R_c moves when more is acknowledged; `None` until the first acknowledgement.
    update_after: Option<u64>,
    /// Number of acknowledgements so far, from which samples are drawn.
    acks: u64,
}

const BASE_RTT: Key<Span> =
    base_rtt("T of the window and of the switches' average of U; one for all flows (HPCC, 3.2)");
const ETA: Key<Millionths> = share("eta", "η: target utilisation (HPCC, 3.3; U_TARGET of HPCC's simulator)").or("0.95");
const MAX_STAGE: Key<u32> = Key::<u32>::integer(
    "max_stage",
    0..=1_000,
    "maxStage: additive steps before a multiplicative one; 0: always multiplicative (HPCC, 3.3; MI_THRESH)",
)
.or("5");
const RATE_AI: Key<BitRate> = line_rate("rate_ai", "additive step (HPCC, 3.3; RATE_AI)").or("line/2000");
const RATE_MIN: Key<BitRate> = line_rate("rate_min", "minimum rate (MIN_RATE)").or("line/1000");
const LOG_BASE: Key<Millionths> =
    millionths("log_base", LOG_BASES_PPM, "base of the logarithm that codes U; one for all flows (PINT_LOG_BASE)")
        .or("1.05");
const SAMPLED: Key<Millionths> = share("sampled", "share of packets whose digest counts (PINT_PROB)").or("1");

impl Plugin for HpccPintKind {
    fn id(&self) -> &'static str {
        "hpcc-pint"
    }

    fn keys(&self) -> Keys {
        &[&BASE_RTT, &ETA, &MAX_STAGE, &RATE_AI, &RATE_MIN, &LOG_BASE, &SAMPLED]
    }

    fn gauges(&self) -> &'static [Gauge] {
        const {
            &[
                Gauge::plain("reference_bps", "R_c, the rate that others are made from"),
                Gauge::plain("utilisation", "U of the busiest hop, as it was coded"),
            ]
        }
    }
}

impl CongestionControlKind for HpccPintKind {
    /// The keys' defaults are HPCC's, steps included, with a code of 8 bits.
    fn presets(&self) -> &'static [Preset] {
        &[
            Preset { name: "hpcc-pint", about: "HPCC paper (SIGCOMM 2019), with PINT's digest of 8 bits", values: &[] },
            Preset {
                name: "hpcc-pint-simulator",
                about: "HPCC's public simulator, run.py --cc hpccPint",
                values: &[("max_stage", "0"), ("rate_ai", "line/2500"), ("rate_min", "1Gbps"), ("log_base", "1.01")],
            },
        ]
    }

    fn parse(&self, parameters: &Parameters<'_>) -> Arc<dyn CongestionControlConfig> {
        Arc::new(HpccPintConfig::parse(parameters))
    }
}

impl HpccPintConfig {
    fn parse(parameters: &Parameters<'_>) -> HpccPintConfig {
        let log_base_ppm = parameters.millionths(&LOG_BASE);
        HpccPintConfig {
            target_ppm: parameters.millionths(&ETA),
            stages_max: parameters.integer(&MAX_STAGE),
            additive_increase: parameters.rate(&RATE_AI),
            rate_min: parameters.rate(&RATE_MIN),
            digest: DigestConfig { round_trip: parameters.base_rtt(&BASE_RTT), log_base_ppm },
            sampled_ppm: parameters.millionths(&SAMPLED),
            code: Arc::new(DigestCode::new(log_base_ppm)),
        }
    }
}

impl CongestionControlConfig for HpccPintConfig {
    fn feedback(&self) -> RequiredFeedback {
        RequiredFeedback {
            telemetry: TelemetryMode::Digest,
            digest: Some(self.digest),
            acks_every_packet: true,
            ..RequiredFeedback::default()
        }
    }

    fn build(&self, line: BitRate) -> Box<dyn CongestionController> {
        Box::new(HpccPint::new(self, line))
    }
}

impl HpccPint {
    fn new(config: &HpccPintConfig, line: BitRate) -> HpccPint {
        let largest = line.bytes_in(config.digest.round_trip).max(Bytes::new(1));
        let line = line.as_bps();
        HpccPint {
            line,
            least: config.rate_min.as_bps().min(line),
            target: fraction(config.target_ppm),
            stages_max: config.stages_max,
            additive_increase: config.additive_increase.as_bps() as f64,
            sampled_ppm: config.sampled_ppm,
            window: OptionalWindow::new(Some(largest), true),
            code: config.code.clone(),
            rate: line as f64,
            reference: line as f64,
            utilisation: 1.0,
            stage: 0,
            update_after: None,
            acks: 0,
        }
    }

    /// Whether an acknowledgement counts: a pseudorandom choice by its instant and number, which differ among flows.
    fn counts(&mut self, now: Time) -> bool {
        self.acks += 1;
        let draw = SplitMix64::mix(SplitMix64::mix(now.as_picos()) ^ self.acks);
        self.sampled_ppm == 1_000_000 || draw % 1_000_000 < u64::from(self.sampled_ppm)
    }

    fn rate_bps(&self) -> u64 {
        clamped_rate(self.rate, self.least, self.line)
    }
}

impl CongestionController for HpccPint {
    /// Returns R.
    fn rate(&self) -> BitRate {
        BitRate::bps(self.rate_bps())
    }

    /// Returns C·T in proportion to R.
    fn window(&self) -> Option<Bytes> {
        self.window.window_at(self.rate_bps(), self.line)
    }

    fn on_ack(&mut self, now: Time, ack: &AckSignal<'_>) {
        let Some(code) = ack.digest.filter(|_| self.counts(now)) else { return };
        let Some(update_after) = self.update_after else {
            self.update_after = Some(ack.sent);
            return;
        };
        self.utilisation = self.code.decode(code);
        let excess = self.utilisation / self.target;
        let (rate, stage) = match excess >= 1.0 || self.stage >= self.stages_max {
            true => (self.reference / excess + self.additive_increase, 0),
            false => (self.reference + self.additive_increase, self.stage + 1),
        };
        self.rate = rate.max(self.least as f64).min(self.line as f64);
        if ack.acked > update_after {
            (self.reference, self.stage, self.update_after) = (self.rate, stage, Some(ack.sent.max(update_after)));
        }
    }

    fn gauges(&self, show: &mut dyn FnMut(f64)) {
        show(self.reference);
        show(self.utilisation);
    }
}

#[cfg(test)]
mod tests {
    use weir_units::Span;

    use super::*;
    use crate::parameters::Network;

    const LINE: BitRate = BitRate::gbps(100);

    fn config(values: &[(&str, &str)], name: &str) -> HpccPintConfig {
        let preset = HpccPintKind.presets().iter().find(|preset| preset.name == name).expect("a preset");
        let network = Network { line: LINE, base_rtt: Span::from_micros(10) };
        HpccPintConfig::parse(&Parameters::new(network, values, preset.values))
    }

    /// Codes to the base of 2: 9 is U = 1, 8 is 1/2, 10 is 2.
    fn flow(max_stage: &str) -> HpccPint {
        let values = [("log_base", "2"), ("max_stage", max_stage), ("eta", "0.5"), ("rate_ai", "1Gbps")];
        HpccPint::new(&config(&values, "hpcc-pint"), LINE)
    }

    /// Acknowledges so much payload, with so much sent; returns the rate in Mb/s.
    fn ack(flow: &mut HpccPint, acked: u64, sent: u64, code: u16) -> u64 {
        let digest = Some(code);
        let signal = AckSignal { acked, sent, rtt: Span::ZERO, is_marked: false, hops: &[], digest };
        flow.on_ack(Time::ZERO, &signal);
        flow.rate().as_bps() / 1_000_000
    }

    #[test]
    fn a_busy_path_cuts_the_rate_to_its_share_once_a_round_trip() {
        let mut flow = flow("5");
        // The first acknowledgement only begins a round trip.
        assert_eq!(ack(&mut flow, 1, 100, 10), 100_000);
        // U = 1 is twice η: R_c / 2 + 1 Gb/s. Within the round trip R_c stays.
        assert_eq!(
            [ack(&mut flow, 2, 101, 9), ack(&mut flow, 3, 102, 9), ack(&mut flow, 4, 103, 10)],
            [51_000, 51_000, 26_000]
        );
        assert_eq!((flow.reference, flow.window()), (1e11, Some(Bytes::new(32_500))));
        // More than the data sent at the first is acknowledged: R_c moves.
        assert_eq!(ack(&mut flow, 101, 200, 9), 51_000);
        assert_eq!((flow.reference, flow.update_after), (51e9, Some(200)));
        assert_eq!(ack(&mut flow, 102, 201, 9), 26_500);
    }

    #[test]
    fn a_free_path_is_filled_in_steps_and_then_at_once() {
        let mut flow = flow("2");
        (flow.rate, flow.reference) = (10e9, 10e9);
        ack(&mut flow, 1, 1, 7);
        // U = 1/4 = η / 2. Two steps, then R_c · 2 + 1 Gb/s, and anew.
        let rates = [2, 3, 4, 5, 6, 7].map(|n| ack(&mut flow, n, n, 7));
        assert_eq!(rates, [11_000, 12_000, 25_000, 26_000, 27_000, 55_000]);
        assert_eq!(flow.stage, 0);
        // No more than the line's, and no less than the least.
        assert_eq!(
            [ack(&mut flow, 8, 8, 0), ack(&mut flow, 9, 9, 0), ack(&mut flow, 10, 10, 0)],
            [56_000, 57_000, 100_000]
        );
        for n in 11..40 {
            ack(&mut flow, n, n, 18);
        }
        // U = 512 is 1,024 times η: R = R_c / 1,024 + 1 Gb/s, which settles at 1,024 / 1,023 Gb/s.
        assert_eq!(flow.rate(), BitRate::bps(1_000_977_517));
    }

    #[test]
    fn a_share_of_acknowledgements_counts() {
        let counted = |sampled: &str| {
            let mut flow = HpccPint::new(&config(&[("sampled", sampled)], "hpcc-pint"), LINE);
            (0..10_000).filter(|n| flow.counts(Time::from_nanos(n * 84))).count()
        };
        assert_eq!(counted("1"), 10_000);
        // Three standard deviations: 3 √(10,000 p (1 − p)).
        assert!((2_370..=2_630).contains(&counted("1/4")), "{}", counted("1/4"));
        assert!((552..=698).contains(&counted("1/16")), "{}", counted("1/16"));
        // One that brings no digest never does.
        let mut flow = flow("0");
        let signal = AckSignal { acked: 9, sent: 9, rtt: Span::ZERO, is_marked: true, hops: &[], digest: None };
        flow.on_ack(Time::ZERO, &signal);
        assert_eq!((flow.rate(), flow.update_after, flow.acks), (LINE, None, 0));
    }

    #[test]
    fn presets_have_codes_of_8_and_of_11_bits() {
        let bits = |name| {
            let config = config(&[], name);
            let feedback = config.feedback();
            assert_eq!(feedback.digest.map(|digest| digest.round_trip), Some(Span::from_micros(10)));
            usize::BITS - (config.code.codes() - 1).leading_zeros()
        };
        assert_eq!((bits("hpcc-pint"), bits("hpcc-pint-simulator")), (8, 11));
        let simulator = config(&[], "hpcc-pint-simulator");
        assert_eq!((simulator.additive_increase, simulator.rate_min), (BitRate::mbps(40), BitRate::gbps(1)));
    }
}
