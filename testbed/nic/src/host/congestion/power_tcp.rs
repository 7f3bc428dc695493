//! PowerTCP: a window that follows the power, current times voltage, of the busiest link (Addanki et al., NSDI 2022,
//! section 3, Algorithms 1 and 2).
//!
//! Current is the arrival rate at the link, voltage the data in flight on it. Their product reacts both to a queue and
//! to its growth; a control that measures only one confuses cases of the other. θ-PowerTCP estimates power from the
//! round-trip time alone, without telemetry from switches.

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

/// Kind of `congestion_control = "powertcp"`.
#[derive(Debug)]
pub(super) struct PowerTcpKind;

/// Kind of `congestion_control = "theta-powertcp"`.
#[derive(Debug)]
pub(super) struct ThetaPowerTcpKind;

/// Parameters of PowerTCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PowerTcpConfig(CommonConfig);

/// Parameters of θ-PowerTCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ThetaPowerTcpConfig(CommonConfig);

/// Parameters common to both algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CommonConfig {
    /// Base round-trip time τ, without queues: one for the whole network, no less than any flow's.
    base_rtt: Span,
    /// Weight γ of a new window in the average, in parts per million.
    gamma_ppm: u32,
    /// Additive increase β. In equilibrium the queue is the sum of the flows' β.
    additive_increase: Bytes,
    /// Rate that bounds the window from below: the window is at least this rate times τ.
    rate_min: BitRate,
}

/// State of a flow under PowerTCP. The window starts at the line's bandwidth-delay product.
#[derive(Debug)]
struct PowerTcp {
    law: ControlLaw,
    hops: HopHistory,
    sent: SentWindows,
}

/// State of a flow under θ-PowerTCP.
#[derive(Debug)]
struct ThetaPowerTcp {
    law: ControlLaw,
    /// Instant and RTT of the last acknowledgement.
    last: Option<(Time, Span)>,
    /// Window at the end of the last round trip. `update_after` is the payload whose acknowledgement ends the
    /// present one.
    old: f64,
    update_after: u64,
}

/// Window update common to both algorithms.
#[derive(Debug)]
struct ControlLaw {
    bounds: WindowBounds,
    gamma: f64,
    additive_increase: f64,
    /// Congestion window cwnd, in bytes.
    window: f64,
    /// Smoothed power Γ_smooth, as a fraction of the base power C²·τ.
    power: f64,
}

/// Windows under which the payload in flight was sent, in order (GetCwnd).
///
/// Measured power belongs to the window under which the acknowledged packet was sent. One value a round trip for all
/// packets inverts, in the next round trip, a change within the last, and flows with a large β oscillate.
#[derive(Debug)]
struct SentWindows {
    /// Ring of (first payload byte, window in force from that byte).
    windows: [(u64, f64); WINDOWS_MAX],
    oldest: usize,
    len: usize,
}

/// Lower bound of the current at a draining queue, as a fraction of the departure rate; also of θ-PowerTCP's power, as
/// in the paper's public simulation.
///
/// A window cut below the data in flight stops its flow; if all flows stop, nothing arrives. Without the bound, power
/// is then 0 and the next window the largest, though the acknowledged packet's window did not cause that. Flows that
/// start at one instant then oscillate for ever.
const DRAINING_CURRENT_MIN: f64 = 0.5;

/// Number of remembered windows. A round trip takes half of them, so that a cut window's round trip still fits.
const WINDOWS_MAX: usize = 16;

const BASE_RTT: Key<Span> = base_rtt("τ: round-trip time without queues, at least that of every flow (PowerTCP, 3.2)");
const GAMMA: Key<Millionths> = share("gamma", "γ: weight of a new window in the average (PowerTCP, 3.3)").or("0.9");
const BETA: Key<BdpSize> = bdp_size(
    "beta",
    "β: additive step, HostBw · τ / N for N flows (PowerTCP, 3.3); the equilibrium queue is Σ β of the flows",
)
.or("bdp/100");
const RATE_MIN: Key<BitRate> =
    line_rate("rate_min", "minimum of the rate cwnd / τ (public simulators)").or("line/1000");
/// Additive increase of θ-PowerTCP. The algorithm cannot see an idle link: random waiting between frames counts as the
/// queue Σ β, so a smaller β leaves the link idle.
const THETA_BETA: Key<BdpSize> = BETA.or("bdp/50");

/// Gauges of flows under both algorithms.
const GAUGES: &[Gauge] = &[Gauge::plain("power", "Γ_smooth, as a part of the base power")];

impl Plugin for PowerTcpKind {
    fn id(&self) -> &'static str {
        "powertcp"
    }

    fn keys(&self) -> Keys {
        &[&BASE_RTT, &GAMMA, &BETA, &RATE_MIN]
    }

    fn gauges(&self) -> &'static [Gauge] {
        GAUGES
    }
}

impl CongestionControlKind for PowerTcpKind {
    /// Returns the paper's γ, and β = HostBw · τ / N by its rule, with N = 100. The lowest rate is a thousandth of
    /// the line's.
    ///
    /// A smaller β keeps a shorter queue, Σ β, but shares a port unevenly for longer: with β far below a frame, random
    /// collisions between hosts' frames outweigh it.
    fn presets(&self) -> &'static [Preset] {
        const ABOUT: &str = "PowerTCP paper (NSDI 2022), additive step for 100 flows";
        &[Preset { name: "powertcp", about: ABOUT, values: &[] }]
    }

    fn parse(&self, parameters: &Parameters<'_>) -> Arc<dyn CongestionControlConfig> {
        Arc::new(PowerTcpConfig(CommonConfig::parse(parameters, &BETA)))
    }
}

impl Plugin for ThetaPowerTcpKind {
    fn id(&self) -> &'static str {
        "theta-powertcp"
    }

    fn keys(&self) -> Keys {
        &[&BASE_RTT, &GAMMA, &THETA_BETA, &RATE_MIN]
    }

    fn gauges(&self) -> &'static [Gauge] {
        GAUGES
    }
}

impl CongestionControlKind for ThetaPowerTcpKind {
    fn presets(&self) -> &'static [Preset] {
        const ABOUT: &str = "PowerTCP paper (NSDI 2022), additive step for 50 flows";
        &[Preset { name: "theta-powertcp", about: ABOUT, values: &[] }]
    }

    fn parse(&self, parameters: &Parameters<'_>) -> Arc<dyn CongestionControlConfig> {
        Arc::new(ThetaPowerTcpConfig(CommonConfig::parse(parameters, &THETA_BETA)))
    }
}

impl CommonConfig {
    fn parse(parameters: &Parameters<'_>, beta: &Key<BdpSize>) -> CommonConfig {
        let base_rtt = parameters.base_rtt(&BASE_RTT);
        CommonConfig {
            base_rtt,
            gamma_ppm: parameters.millionths(&GAMMA),
            additive_increase: parameters.size_or_part(beta, base_rtt),
            rate_min: parameters.rate(&RATE_MIN),
        }
    }
}

impl CongestionControlConfig for PowerTcpConfig {
    fn feedback(&self) -> RequiredFeedback {
        RequiredFeedback { telemetry: TelemetryMode::Hops, acks_every_packet: true, ..RequiredFeedback::default() }
    }

    fn build(&self, line: BitRate) -> Box<dyn CongestionController> {
        Box::new(PowerTcp::new(&self.0, line))
    }
}

impl CongestionControlConfig for ThetaPowerTcpConfig {
    fn feedback(&self) -> RequiredFeedback {
        RequiredFeedback { telemetry: TelemetryMode::Time, acks_every_packet: true, ..RequiredFeedback::default() }
    }

    fn build(&self, line: BitRate) -> Box<dyn CongestionController> {
        Box::new(ThetaPowerTcp::new(&self.0, line))
    }
}

impl PowerTcp {
    fn new(config: &CommonConfig, line: BitRate) -> PowerTcp {
        let law = ControlLaw::new(config, line);
        PowerTcp { sent: SentWindows::new(law.window), law, hops: HopHistory::new() }
    }
}

impl CongestionController for PowerTcp {
    /// Returns cwnd / τ.
    fn rate(&self) -> BitRate {
        self.law.rate()
    }

    /// Returns cwnd.
    fn window(&self) -> Option<Bytes> {
        Some(self.law.window())
    }

    /// Runs Algorithm 1: every acknowledgement sets the window.
    fn on_ack(&mut self, _now: Time, ack: &AckSignal<'_>) {
        let base_rtt_ps = self.law.bounds.base_rtt_ps();
        let mut strongest: Option<(f64, f64)> = None;
        self.hops.advance(ack.hops, |step| {
            let (span_ps, rate) = (step.span.as_picos() as f64, step.now.rate);
            let growth = step.now.queue.get() as f64 - step.before.queue.get() as f64;
            // Both relative to a fully loaded link without a queue.
            let current = part_of_bdp(growth, rate, span_ps) + step.load();
            let current = current.max(step.load() * DRAINING_CURRENT_MIN);
            let voltage = 1.0 + part_of_bdp(step.now.queue.get() as f64, rate, base_rtt_ps);
            let power = current * voltage;
            if strongest.is_none_or(|(most, _)| power > most) {
                strongest = Some((power, span_ps));
            }
        });
        if let Some((power, span_ps)) = strongest {
            self.law.smooth(power, span_ps);
            self.law.set_window(self.sent.window_of(ack.acked));
            self.sent.remember(ack.sent, self.law.window);
        }
    }

    fn gauges(&self, show: &mut dyn FnMut(f64)) {
        show(self.law.power);
    }
}

impl ThetaPowerTcp {
    fn new(config: &CommonConfig, line: BitRate) -> ThetaPowerTcp {
        let law = ControlLaw::new(config, line);
        ThetaPowerTcp { old: law.window, law, last: None, update_after: 0 }
    }
}

impl CongestionController for ThetaPowerTcp {
    /// Returns cwnd / τ.
    fn rate(&self) -> BitRate {
        self.law.rate()
    }

    /// Returns cwnd.
    fn window(&self) -> Option<Bytes> {
        Some(self.law.window())
    }

    /// Runs Algorithm 2: every acknowledgement is measured, and the window is set once a round trip.
    fn on_ack(&mut self, now: Time, ack: &AckSignal<'_>) {
        let Some((before, rtt_before)) = self.last.filter(|(at, _)| *at < now) else {
            // First acknowledgement, or a further one at the same instant.
            if self.last.is_none() {
                self.last = Some((now, ack.rtt));
                self.update_after = ack.sent;
            }
            return;
        };
        self.last = Some((now, ack.rtt));
        let span_ps = now.since(before).as_picos() as f64;
        let growth = ack.rtt.as_picos() as f64 - rtt_before.as_picos() as f64;
        let current = (growth / span_ps + 1.0).max(0.0);
        let voltage = ack.rtt.as_picos() as f64 / self.law.bounds.base_rtt_ps();
        self.law.smooth(current * voltage, span_ps);
        // The bound is on the average: single RTTs vary with frames that wait for each other, and these variations
        // must cancel out.
        self.law.power = self.law.power.max(DRAINING_CURRENT_MIN);
        if ack.acked > self.update_after {
            self.law.set_window(self.old);
            (self.old, self.update_after) = (self.law.window, ack.sent);
        }
    }

    fn gauges(&self, show: &mut dyn FnMut(f64)) {
        show(self.law.power);
    }
}

impl ControlLaw {
    fn new(config: &CommonConfig, line: BitRate) -> ControlLaw {
        let bounds = WindowBounds::new(line, config.rate_min, config.base_rtt);
        ControlLaw {
            bounds,
            gamma: fraction(config.gamma_ppm.min(1_000_000)),
            additive_increase: config.additive_increase.get() as f64,
            window: bounds.largest(),
            // Power of an idle network at line rate.
            power: 1.0,
        }
    }

    fn rate(&self) -> BitRate {
        self.bounds.rate(self.window)
    }

    fn window(&self) -> Bytes {
        WindowBounds::bytes(self.window)
    }

    /// Averages power over a round trip (end of function NormPower).
    fn smooth(&mut self, power: f64, span_ps: f64) {
        let weight = (span_ps / self.bounds.base_rtt_ps()).min(1.0);
        self.power = (1.0 - weight) * self.power + weight * power;
    }

    /// Sets the window (function UpdateWindow) from `old`, the window under which the acknowledged packet was sent.
    fn set_window(&mut self, old: f64) {
        let new = self.bounds.clamp(old / self.power + self.additive_increase);
        self.window = self.bounds.clamp(self.gamma * new + (1.0 - self.gamma) * self.window);
    }
}

impl SentWindows {
    fn new(window: f64) -> SentWindows {
        SentWindows { windows: [(0, window); WINDOWS_MAX], oldest: 0, len: 1 }
    }

    /// Returns the window under which the packet that ends with this payload byte was sent. Forgets earlier
    /// windows.
    fn window_of(&mut self, acked: u64) -> f64 {
        while self.len > 1 && self.entry(1).0 < acked {
            self.oldest = (self.oldest + 1) % WINDOWS_MAX;
            self.len -= 1;
        }
        self.entry(0).1
    }

    /// Records that payload after this byte is sent under this window. Changes within an eighth of a window's payload
    /// are skipped. With a full ring, the oldest window is dropped.
    fn remember(&mut self, sent: u64, window: f64) {
        let since = sent.saturating_sub(self.entry(self.len - 1).0);
        if window > (since as f64) * (WINDOWS_MAX / 2) as f64 {
            return;
        }
        if self.len == WINDOWS_MAX {
            self.oldest = (self.oldest + 1) % WINDOWS_MAX;
            self.len -= 1;
        }
        self.windows[(self.oldest + self.len) % WINDOWS_MAX] = (sent, window);
        self.len += 1;
    }

    fn entry(&self, place: usize) -> (u64, f64) {
        self.windows[(self.oldest + place) % WINDOWS_MAX]
    }
}

#[cfg(test)]
mod tests {
    use super::super::HopTelemetry;
    use super::*;
    use crate::parameters::Network;

    /// 100 Gb/s and 10 us: a window of 125,000 B, and 12,500 B a microsecond.
    const LINE: BitRate = BitRate::gbps(100);
    const TAU: Span = Span::from_micros(10);

    fn config() -> CommonConfig {
        let network = Network { line: LINE, base_rtt: TAU };
        CommonConfig::parse(&Parameters::new(network, &[("beta", "1000B")], &[]), &BETA)
    }

    fn instant(us: u64) -> Time {
        Time::from_nanos(us * 1_000)
    }

    fn hop(us: u64, tx_bytes: u64, queue: u64) -> HopTelemetry {
        HopTelemetry { at: instant(us), tx_bytes, queue: Bytes::new(queue), rate: LINE }
    }

    /// Acknowledges so much payload, with so much sent; returns the window.
    fn ack(flow: &mut PowerTcp, acked: u64, sent: u64, hops: &[HopTelemetry]) -> u64 {
        flow.on_ack(Time::ZERO, &AckSignal { acked, sent, rtt: TAU, is_marked: false, hops, digest: None });
        flow.window().expect("a window").get()
    }

    #[test]
    fn a_queue_that_grows_is_met_before_it_is_long() {
        let mut flow = PowerTcp::new(&config(), LINE);
        assert_eq!(ack(&mut flow, 1_000, 125_000, &[hop(0, 0, 0)]), 125_000);
        // In τ the port sent at its rate while 25,000 B gathered: current 1.2, voltage 1.2, power 1.44.
        // W = 0.9 (125,000 / 1.44 + 1,000) + 0.1 * 125,000 = 91,525.
        assert_eq!(ack(&mut flow, 2_000, 125_000, &[hop(10, 125_000, 25_000)]), 91_525);
        assert_eq!(flow.rate(), BitRate::mbps(73_220));
        // The queue stays as long: power 1.2. W = 0.9 (125,000 / 1.2 + 1,000) + 0.1 * 91,525 = 103,802.5.
        assert_eq!(ack(&mut flow, 3_000, 125_000, &[hop(20, 250_000, 25_000)]), 103_802);
        // It drains: current 0.8, voltage 1: W = 0.9 * 125,000 (which 157,250 is cut to) + 0.1 * 103,802.5.
        assert_eq!(ack(&mut flow, 4_000, 125_000, &[hop(30, 375_000, 0)]), 122_880);
        // Data sent after the first 125,000 B, under 91,525: at rest with no queue, 0.9 (91,525 + 1,000) + 0.1 *
        // 122,880.25.
        assert_eq!(ack(&mut flow, 125_001, 200_000, &[hop(40, 500_000, 0)]), 95_560);
    }

    #[test]
    fn windows_are_remembered_for_as_long_as_their_payload_is_in_flight() {
        let mut sent = SentWindows::new(80_000.0);
        // Less than an eighth is left out.
        for (from, window) in [(9_999, 1.0e6), (10_000, 80_001.0), (10_001, 8_000.0), (11_001, 800.0), (11_100, 801.0)]
        {
            sent.remember(from, window);
        }
        let windows = [1, 10_001, 10_002, 11_001, 11_002, 99_999].map(|acked| sent.window_of(acked) as u64);
        assert_eq!(windows, [80_000, 80_000, 8_000, 8_000, 800, 800]);
        // The memory is bounded: for a forgotten window the oldest is returned.
        (1..=100).for_each(|n| sent.remember(20_000 * n, 1_000.0 * n as f64));
        assert_eq!(sent.window_of(1) as u64, 85_000);
        assert_eq!(sent.window_of(2_000_001) as u64, 100_000);
    }

    #[test]
    fn power_is_the_strongest_hops_and_an_average() {
        let mut flow = PowerTcp::new(&config(), LINE);
        ack(&mut flow, 1, 10, &[hop(0, 0, 0), hop(0, 0, 0)]);
        let power = |flow: &PowerTcp| (flow.law.power * 1e6) as u64;
        // In a fifth of τ, half of the ports' capacity. 18,750 B gathered at the second: current 0.5 + 0.75, voltage 1.15,
        // power 1.4375. On average 0.8 + 0.2 * 1.4375.
        ack(&mut flow, 2, 10, &[hop(2, 12_500, 0), hop(2, 12_500, 18_750)]);
        assert_eq!(power(&flow), 1_087_500);
        assert_eq!(flow.window(), Some(Bytes::new(116_848)), "0.9 (125,000 / 1.0875 + 1,000) + 0.1 * 125,000");
        // More than τ counts as τ. A queue that got shorter by more than was sent is no power, and the window the largest.
        ack(&mut flow, 3, 10, &[hop(102, 12_500, 0), hop(102, 12_500, 0)]);
        assert_eq!(power(&flow), 0);
        assert_eq!(flow.window(), Some(Bytes::new(124_184)), "0.9 * 125,000 + 0.1 * 116,848");
    }

    #[test]
    fn a_queue_that_drains_counts_as_half_of_what_leaves() {
        let mut flow = PowerTcp::new(&config(), LINE);
        ack(&mut flow, 1, 10, &[hop(0, 0, 250_000)]);
        // Nothing arrived in τ: current 0.5, voltage 1 + 1 of the remainder.
        ack(&mut flow, 2, 10, &[hop(10, 125_000, 125_000)]);
        assert_eq!((flow.law.power * 1e6) as u64, 1_000_000);
        // Then the link idles at a tenth of its rate, without a queue that could drain.
        ack(&mut flow, 3, 10, &[hop(20, 250_000, 0)]);
        ack(&mut flow, 4, 10, &[hop(30, 262_500, 0)]);
        assert_eq!((flow.law.power * 1e6 + 0.5) as u64, 100_000);
    }

    #[test]
    fn theta_reads_the_same_from_the_rtt_once_a_round_trip() {
        let mut flow = ThetaPowerTcp::new(&config(), LINE);
        let mut ack = |us: u64, acked: u64, sent: u64, rtt_us: u64| {
            let rtt = Span::from_micros(rtt_us);
            flow.on_ack(instant(us), &AckSignal { acked, sent, rtt, is_marked: false, hops: &[], digest: None });
            (flow.window().expect("a window").get(), (flow.law.power * 1e6 + 0.5) as u64)
        };
        assert_eq!(ack(0, 1_000, 125_000, 10), (125_000, 1_000_000));
        // 2 us more in 10 us: current 1.2, voltage 1.2; the window waits for the round trip's end.
        assert_eq!(ack(10, 2_000, 125_000, 12), (125_000, 1_440_000));
        // At rest for 5 us: 0.5 * 1.44 + 0.5 * 1.2 = 1.32. W = 0.9 (125,000 / 1.32 + 1,000) + 0.1 * 125,000.
        assert_eq!(ack(15, 125_001, 250_000, 12), (98_627, 1_320_000));
        // Another at the same instant has no gradient.
        assert_eq!(ack(15, 250_001, 300_000, 100), (98_627, 1_320_000));
        // Falling faster than time passes is no power, but counts as half.
        assert_eq!(ack(25, 250_001, 300_000, 1), (125_000 * 9 / 10 + 9_862, 500_000));
    }

    #[test]
    fn steps_are_made_for_so_many_flows() {
        let step = |key: &Key<BdpSize>| {
            let network = Network { line: BitRate::gbps(25), base_rtt: Span::from_micros(13) };
            CommonConfig::parse(&Parameters::new(network, &[], &[]), key).additive_increase
        };
        // A hundredth of 40,625 B, and a fiftieth.
        assert_eq!((step(&BETA), step(&THETA_BETA)), (Bytes::new(406), Bytes::new(812)));
    }
}
