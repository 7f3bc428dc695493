//! Congestion control that adds a step to a flow's rate in a round trip without marks, and cuts the rate by the share of marks in one
//! with marks (AIMD on ECN, as DCTCP does to a window).
//!
//! The three types of a plug-in: [`GentleAimdKind`] has the name and the keys and parses them, its config has the validated values and the
//! feedback that the algorithm needs, and its controller has the rate of a flow.

use std::sync::Arc;

use weir_nic::host::congestion::{
    AckSignal, CongestionControlConfig, CongestionControlKind, CongestionController, RequiredFeedback,
};
use weir_nic::parameters::{Millionths, Parameters, Preset, line_rate, share};
use weir_reader::{Gauge, Key, Keys, Plugin};
use weir_units::{BitRate, Bytes, Time};

/// Kind of the congestion control, selected by `congestion_control = "gentle-aimd"`.
#[derive(Debug)]
pub struct GentleAimdKind;

/// Values of `[nic.gentle-aimd]`.
#[derive(Clone, Copy, Debug)]
struct GentleAimdConfig {
    step: BitRate,
    /// Cut of the rate at full marking, in parts per million.
    cut: u32,
    rate_min: BitRate,
}

/// State of a flow, which begins at the line's rate.
#[derive(Debug)]
struct GentleAimdController {
    config: GentleAimdConfig,
    line: u64,
    /// Rate in bits a second.
    rate: u64,
    /// Acknowledgements in the current round trip.
    acks: u64,
    /// Acknowledgements with a mark in the current round trip.
    marks: u64,
    /// Share of marks in the last complete round trip, from 0 to 1.
    marked: f64,
    /// Payload in bytes; the round trip ends when more is acknowledged.
    ends_after: u64,
}

const STEP: Key<BitRate> = line_rate("step", "rate added in a round trip without marks").or("line/200");
const CUT: Key<Millionths> = share("cut", "share of the rate cut in a round trip in which all is marked").or("0.5");
const RATE_MIN: Key<BitRate> = line_rate("rate_min", "minimum rate").or("line/1000");

impl Plugin for GentleAimdKind {
    fn id(&self) -> &'static str {
        "gentle-aimd"
    }

    fn keys(&self) -> Keys {
        &[&STEP, &CUT, &RATE_MIN]
    }

    fn gauges(&self) -> &'static [Gauge] {
        const { &[Gauge::plain("marked", "the share of marks in the last round trip")] }
    }
}

impl CongestionControlKind for GentleAimdKind {
    fn presets(&self) -> &'static [Preset] {
        &[Preset { name: "gentle-aimd-fast", about: "for short flows", values: &[("step", "line/20")] }]
    }

    fn parse(&self, parameters: &Parameters<'_>) -> Arc<dyn CongestionControlConfig> {
        let config = GentleAimdConfig {
            step: parameters.rate(&STEP),
            cut: parameters.millionths(&CUT),
            rate_min: parameters.rate(&RATE_MIN),
        };
        if config.step > parameters.network().line {
            let message = format!("a step of {} is more than the line has, {}", config.step, parameters.network().line);
            parameters.refuse(&STEP, message, "write a smaller step, such as \"line/200\"");
        }
        Arc::new(config)
    }
}

impl CongestionControlConfig for GentleAimdConfig {
    fn feedback(&self) -> RequiredFeedback {
        RequiredFeedback { echoes_ecn: true, acks_every_packet: true, ..RequiredFeedback::default() }
    }

    fn build(&self, line: BitRate) -> Box<dyn CongestionController> {
        let line = line.as_bps();
        Box::new(GentleAimdController {
            config: *self,
            line,
            rate: line,
            acks: 0,
            marks: 0,
            marked: 0.0,
            ends_after: 0,
        })
    }
}

impl CongestionController for GentleAimdController {
    fn on_ack(&mut self, _now: Time, ack: &AckSignal<'_>) {
        self.acks += 1;
        self.marks += u64::from(ack.is_marked);
        if ack.acked <= self.ends_after {
            return;
        }
        self.marked = self.marks as f64 / self.acks as f64;
        if self.marks == 0 {
            self.rate = (self.rate + self.config.step.as_bps()).min(self.line);
        } else {
            let left = 1.0 - f64::from(self.config.cut) / 1e6 * self.marked;
            self.rate = ((self.rate as f64 * left).round() as u64).max(self.config.rate_min.as_bps().min(self.line));
        }
        (self.acks, self.marks, self.ends_after) = (0, 0, ack.sent);
    }

    fn rate(&self) -> BitRate {
        BitRate::bps(self.rate)
    }

    /// Returns the bytes that the line carries in a millisecond: more in flight are lost, or wait behind a PAUSE.
    fn window(&self) -> Option<Bytes> {
        Some(Bytes::new(self.line / 8_000))
    }

    fn gauges(&self, show: &mut dyn FnMut(f64)) {
        show(self.marked);
    }
}

#[cfg(test)]
mod tests {
    use weir_nic::parameters::Network;
    use weir_units::Span;

    use super::*;

    #[test]
    fn a_round_trip_without_marks_adds_and_one_with_marks_cuts() {
        let network = Network { line: BitRate::gbps(10), base_rtt: Span::from_micros(10) };
        let mut flow = GentleAimdKind.parse(&Parameters::new(network, &[("cut", "0.8")], &[])).build(network.line);
        let mut ack = |acked, sent, is_marked| {
            let ack = AckSignal { acked, sent, rtt: Span::from_micros(10), is_marked, hops: &[], digest: None };
            flow.on_ack(Time::ZERO, &ack);
            flow.rate().as_bps() / 1_000_000
        };
        assert_eq!(ack(1_000, 4_000, true), 2_000, "all of the first round trip is marked");
        // Half of the second: 1 - 0.8 / 2.
        assert_eq!([ack(2_000, 5_000, true), ack(4_001, 8_000, false)], [2_000, 1_200]);
        assert_eq!(ack(8_001, 9_000, false), 1_250, "a 200th of the line more");
    }
}
