//! DCTCP's rate control over RoCE messages (Alizadeh et al., SIGCOMM 2010, section 3), as in HPCC's public simulator.
//!
//! α follows the share of acknowledged packets that were marked, once a round trip. The first mark of a round trip cuts the rate
//! by α / 2, and later marks of it have no effect. Each round trip without a cut adds a step to the rate, in place of a segment
//! to the window. A round trip is measured by sequence: it ends when the data sent by its start is acknowledged.

use std::sync::Arc;

use weir_reader::{Gauge, Key, Keys, Plugin};
use weir_units::{BitRate, Bytes, Time};

use super::bounds::{self, OptionalWindow};
use super::{AckSignal, CongestionControlConfig, CongestionControlKind, CongestionController, RequiredFeedback};
use crate::parameters::{Gain, Parameters, Preset, gain, line_rate};

/// Kind of `congestion_control = "dctcp"`.
#[derive(Debug)]
pub(super) struct DctcpKind;

/// Parameters of rate-based DCTCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DctcpConfig {
    /// Exponent of g = 2^-`gain_shift`, the weight of the last round trip in α.
    gain_shift: u8,
    /// Increase of the rate after a round trip without a cut.
    additive_increase: BitRate,
    /// Lower bound of the rate.
    rate_min: BitRate,
    /// Window in addition to the rate.
    window: OptionalWindow,
}

/// State of a flow. It starts at line rate.
#[derive(Debug)]
struct Dctcp {
    config: DctcpConfig,
    line: u64,
    /// Rate in bit/s.
    rate: u64,
    /// Estimate α, in units of 2^-32.
    alpha: u64,
    /// Acknowledgements in this round trip, and those of them that echoed a mark.
    acks: u64,
    marks: u64,
    /// The round trip ends when more payload than this is acknowledged; `None` until the first acknowledgement.
    round_trip_end: Option<u64>,
    /// Payload that must be exceeded by the acknowledged payload before the next cut.
    reduced_until: Option<u64>,
}

/// Value 1 of α.
const ONE: u64 = 1 << 32;

const G: Key<Gain> =
    gain("g", "g: weight of the last round trip in α (DCTCP, 3.1; EWMA_GAIN of HPCC's simulator)").or("1/16");
const RATE_AI: Key<BitRate> = line_rate(
    "rate_ai",
    "increase per round trip without a cut, 8 · payload / T, in place of a segment of window (DCTCP_RATE_AI)",
)
.or("615Mbps");
const RATE_MIN: Key<BitRate> = line_rate("rate_min", "minimum rate (MIN_RATE)").or("line/1000");
const WINDOW: Key<Option<Bytes>> = bounds::WINDOW.or("bdp");
const WINDOW_FOLLOWS_RATE: Key<bool> = bounds::WINDOW_FOLLOWS_RATE.or("true");

impl Plugin for DctcpKind {
    fn id(&self) -> &'static str {
        "dctcp"
    }

    fn keys(&self) -> Keys {
        &[&G, &RATE_AI, &RATE_MIN, &WINDOW, &WINDOW_FOLLOWS_RATE]
    }

    fn gauges(&self) -> &'static [Gauge] {
        const { &[Gauge::plain("alpha", "α: the share of packets that are marked, on average")] }
    }
}

impl CongestionControlKind for DctcpKind {
    /// Returns the presets. Their g is that of the paper's evaluation and of RFC 8257. A step is a payload of 1,000 B in 13 us, as in
    /// run.py: DCTCP adds a segment a round trip. Set it by 8 · mtu / T for other networks.
    fn presets(&self) -> &'static [Preset] {
        &[
            Preset {
                name: "dctcp",
                about: "DCTCP paper (SIGCOMM 2010), steps as in HPCC's public simulator",
                values: &[],
            },
            Preset {
                name: "dctcp-hpcc",
                about: "HPCC's public simulator, run.py --cc dctcp",
                values: &[("rate_min", "1Gbps")],
            },
        ]
    }

    fn parse(&self, parameters: &Parameters<'_>) -> Arc<dyn CongestionControlConfig> {
        Arc::new(DctcpConfig {
            gain_shift: parameters.gain(&G),
            additive_increase: parameters.rate(&RATE_AI),
            rate_min: parameters.rate(&RATE_MIN),
            window: OptionalWindow::new(parameters.window(&WINDOW), parameters.boolean(&WINDOW_FOLLOWS_RATE)),
        })
    }
}

impl CongestionControlConfig for DctcpConfig {
    fn feedback(&self) -> RequiredFeedback {
        RequiredFeedback { echoes_ecn: true, acks_every_packet: true, ..RequiredFeedback::default() }
    }

    fn build(&self, line: BitRate) -> Box<dyn CongestionController> {
        Box::new(Dctcp::new(self, line))
    }
}

impl Dctcp {
    /// Creates the state of a flow. Its α is 1, so that the first mark halves its rate.
    fn new(config: &DctcpConfig, line: BitRate) -> Dctcp {
        let line = line.as_bps();
        let (round_trip_end, reduced_until) = (None, None);
        Dctcp { config: *config, line, rate: line, alpha: ONE, acks: 0, marks: 0, round_trip_end, reduced_until }
    }

    /// Counts an acknowledgement, which may end the round trip. The first acknowledgement begins one, and counts in it.
    /// Returns whether a round trip begins.
    fn begins_round_trip(&mut self, ack: &AckSignal<'_>) -> bool {
        self.acks += 1;
        self.marks += u64::from(ack.is_marked);
        if self.round_trip_end.is_some_and(|end| ack.acked <= end) {
            return false;
        }
        if self.round_trip_end.is_some() {
            let share = ((u128::from(self.marks) << 32) / u128::from(self.acks)) as u64;
            // Rounded down, so that α gets to zero.
            let change = (share as i64 - self.alpha as i64) >> self.config.gain_shift;
            self.alpha = self.alpha.saturating_add_signed(change);
            (self.acks, self.marks) = (0, 0);
        }
        self.round_trip_end = Some(ack.sent);
        true
    }

    fn cut(&mut self) {
        let cut = ((u128::from(self.rate) * u128::from(self.alpha)) >> 33) as u64;
        self.rate = (self.rate - cut).max(self.config.rate_min.as_bps().min(self.line));
    }
}

impl CongestionController for Dctcp {
    fn rate(&self) -> BitRate {
        BitRate::bps(self.rate)
    }

    fn window(&self) -> Option<Bytes> {
        self.config.window.window_at(self.rate, self.line)
    }

    fn on_ack(&mut self, _now: Time, ack: &AckSignal<'_>) {
        let is_new = self.begins_round_trip(ack);
        if self.reduced_until.is_some_and(|end| ack.acked > end) {
            self.reduced_until = None;
        }
        if ack.is_marked && self.reduced_until.is_none() {
            self.cut();
            self.reduced_until = Some(ack.sent);
        }
        if is_new && self.reduced_until.is_none() {
            self.rate = self.rate.saturating_add(self.config.additive_increase.as_bps()).min(self.line);
        }
    }

    fn gauges(&self, show: &mut dyn FnMut(f64)) {
        show(self.alpha as f64 / ONE as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::Network;
    use weir_units::Span;

    const LINE: BitRate = BitRate::gbps(100);

    fn read(values: &[(&str, &str)], name: &str) -> DctcpConfig {
        let preset = DctcpKind.presets().iter().find(|preset| preset.name == name).expect("a preset");
        let network = Network { line: LINE, base_rtt: Span::from_micros(13) };
        let parameters = Parameters::new(network, values, preset.values);
        DctcpConfig {
            gain_shift: parameters.gain(&G),
            additive_increase: parameters.rate(&RATE_AI),
            rate_min: parameters.rate(&RATE_MIN),
            window: OptionalWindow::new(parameters.window(&WINDOW), parameters.boolean(&WINDOW_FOLLOWS_RATE)),
        }
    }

    fn flow() -> Dctcp {
        Dctcp::new(&read(&[("rate_ai", "1Gbps")], "dctcp"), LINE)
    }

    /// A packet of 1,000 B is acknowledged; returns the rate in Mb/s.
    fn ack(flow: &mut Dctcp, packet: u64, sent: u64, is_marked: bool) -> u64 {
        let (acked, sent) = (packet * 1_000, sent * 1_000);
        let signal = AckSignal { acked, sent, rtt: Span::ZERO, is_marked, hops: &[], digest: None };
        flow.on_ack(Time::ZERO, &signal);
        flow.rate().as_bps() / 1_000_000
    }

    #[test]
    fn the_first_mark_halves_the_rate_and_others_of_its_round_trip_do_nothing() {
        let mut flow = flow();
        assert_eq!(ack(&mut flow, 1, 10, false), 100_000);
        assert_eq!(ack(&mut flow, 2, 11, true), 50_000);
        // Until more than the 11 packets sent at the cut are acknowledged.
        (3..=11).for_each(|packet| assert_eq!(ack(&mut flow, packet, 12, packet % 2 == 0), 50_000, "{packet}"));
        // α is of the packets 1 to 11, of which 2, 4, 6, 8 and 10 are marked: 15/16 + 5/11 / 16 = 0.965909. The cut by
        // α / 2 leaves 0.5170455.
        assert_eq!(ack(&mut flow, 12, 20, true), 25_852);
    }

    #[test]
    fn alpha_moves_once_a_round_trip() {
        let mut flow = flow();
        let alpha = |flow: &Dctcp| flow.alpha as f64 / ONE as f64;
        // Sent 10 at the first: the round trip ends with the 11th, which counts in it, as the first does.
        for packet in 1..=10 {
            ack(&mut flow, packet, 10 + packet - 1, packet <= 4);
        }
        assert_eq!(alpha(&flow), 1.0);
        ack(&mut flow, 11, 20, false);
        let first = 15.0 / 16.0 + 4.0 / 11.0 / 16.0;
        assert!((alpha(&flow) - first).abs() < 1e-9, "{}", alpha(&flow));
        // The next is packets 12 to 21, ten of them, all marked.
        for packet in 12..=20 {
            ack(&mut flow, packet, 30, true);
        }
        assert!((alpha(&flow) - first).abs() < 1e-9);
        ack(&mut flow, 21, 30, true);
        let second = first * 15.0 / 16.0 + 1.0 / 16.0;
        assert!((alpha(&flow) - second).abs() < 1e-9, "{}", alpha(&flow));
    }

    #[test]
    fn a_round_trip_without_a_cut_adds_a_step() {
        let mut flow = flow();
        flow.rate = 10_000_000_000;
        // Five round trips of ten packets: steps at the packets 1, 11, 21, 31 and 41.
        let rates: Vec<u64> = (1..=41).map(|packet| ack(&mut flow, packet, packet.div_ceil(10) * 10, false)).collect();
        assert_eq!([0, 9, 10, 19, 20, 40].map(|n| rates[n]), [11_000, 11_000, 12_000, 12_000, 13_000, 15_000]);
        // A round trip that begins with a mark is cut and has no step; α = (15/16)^4 = 0.772476 by then, after four round trips
        // of no marks, and one more of 1 in 10: 0.730446. 15 · (1 - 0.365223).
        for packet in 42..=50 {
            ack(&mut flow, packet, 50, false);
        }
        assert_eq!(ack(&mut flow, 51, 60, true), 9_521);
        // The round trip after that begins with packet 61, when the cut's is over too.
        (52..=60).for_each(|packet| assert_eq!(ack(&mut flow, packet, 70, false), 9_521));
        assert_eq!(ack(&mut flow, 61, 71, false), 10_521);
        flow.rate = 99_900_000_000;
        for packet in 62..=72 {
            ack(&mut flow, packet, 80, false);
        }
        assert_eq!(flow.rate(), LINE, "no more than the line's");
    }

    #[test]
    fn the_rate_has_a_floor_and_the_window_follows_it() {
        let mut flow = Dctcp::new(&read(&[], "dctcp-hpcc"), LINE);
        // 100 Gb/s in 13 us.
        assert_eq!(flow.window(), Some(Bytes::new(162_500)));
        for packet in 1..=20 {
            ack(&mut flow, packet, packet, true);
        }
        assert_eq!((flow.rate(), flow.window()), (BitRate::gbps(1), Some(Bytes::new(1_625))));
        let slow = BitRate::mbps(10);
        let mut flow = Dctcp::new(&read(&[("window", "none")], "dctcp-hpcc"), slow);
        for packet in 1..=20 {
            ack(&mut flow, packet, packet, true);
        }
        assert_eq!((flow.rate(), flow.window()), (slow, None), "a floor above the line is the line");
    }

    #[test]
    fn steps_are_a_payload_in_a_round_trip() {
        let of = |name| read(&[], name);
        // 8 · 1,000 B / 13 us = 615.4 Mb/s.
        assert_eq!(
            (of("dctcp-hpcc").additive_increase, of("dctcp-hpcc").rate_min),
            (BitRate::mbps(615), BitRate::gbps(1))
        );
        assert_eq!((of("dctcp").gain_shift, of("dctcp").rate_min), (4, BitRate::mbps(100)));
    }
}
