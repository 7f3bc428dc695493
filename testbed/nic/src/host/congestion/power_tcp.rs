//! PowerTCP: a window that follows the power of the busiest link, which is current times voltage (Addanki et al., NSDI 2022,
//! section 3, Algorithms 1 and 2).
//!
//! Current is what arrives at the link, voltage what is in flight on it. Their product sees both a queue and its growth,
//! where a control that looks at one takes the other's cases for the same. θ-PowerTCP reads power from the round-trip time
//! alone, and needs no switch.

use std::sync::Arc;

use weir_reader::{Gauge, Key, Named};
use weir_units::archive::{Archive, State};
use weir_units::{BitRate, Bytes, Span, Time};

use super::bounds::WindowBounds;
use super::hops::{HopMemory, part_of_bdp};
use super::{AckSignal, Algorithm, CongestionControlKind, Feedback, FlowState, Stamps, fraction};
use crate::parameters::{Parameters, Preset};

/// `congestion_control = "powertcp"`.
#[derive(Debug)]
pub(super) struct PowerTcp;

/// `congestion_control = "theta-powertcp"`.
#[derive(Debug)]
pub(super) struct ThetaPowerTcp;

/// PowerTCP's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PowerTcpConfig(Laws);

/// θ-PowerTCP's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ThetaPowerTcpConfig(Laws);

/// What both have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Laws {
    /// τ: the round-trip time without queues, one for the whole network and no less than any flow's.
    base_rtt: Span,
    /// γ: the weight of a new window in the average, in parts per million.
    gamma_ppm: u32,
    /// β: the additive step. In equilibrium the queue is the sum of the flows' β.
    additive_increase: Bytes,
    /// The window is never cut below what this rate sends in τ.
    rate_min: BitRate,
}

/// A flow's state under PowerTCP. It starts with the line's bandwidth-delay product.
#[derive(Debug, State)]
struct PowerFlow {
    law: ControlLaw,
    hops: HopMemory,
    sent: SentWindows,
}

/// A flow's state under θ-PowerTCP.
#[derive(Debug, State)]
struct ThetaFlow {
    law: ControlLaw,
    /// When the last acknowledgement came, and its RTT.
    last: Option<(Time, Span)>,
    /// The window at the end of the last round trip, and the payload that must be acknowledged to end this one.
    old: f64,
    update_after: u64,
}

/// What both make of power.
#[derive(Debug, State)]
struct ControlLaw {
    #[state(same)]
    bounds: WindowBounds,
    #[state(same)]
    gamma: f64,
    #[state(same)]
    additive_increase: f64,
    /// cwnd, in bytes.
    window: f64,
    /// Γ_smooth, as a part of the base power C²·τ.
    power: f64,
}

/// Under what windows the payload in flight was sent, in order (GetCwnd).
///
/// What power is measured is of the window under which the acknowledged packet was sent. To take one value a round trip for
/// all of them turns what changed within one into its opposite in the next, and flows with a large β oscillate.
#[derive(Debug, State)]
struct SentWindows {
    /// The window in force from this payload byte on; a ring.
    windows: [(u64, f64); WINDOWS_MAX],
    oldest: usize,
    len: usize,
}

/// What arrives at a queue that drains counts as this part of what leaves at least; so does θ-PowerTCP's power, as in the paper's
/// public simulation.
///
/// A window cut below what is in flight stops its flow, and if all are, nothing arrives. That is no measure of the window that
/// the acknowledged packet was sent under, but without a bound it makes power nothing and the next window the largest; flows that
/// start at one instant go to and fro between both for good.
const DRAINING_CURRENT_MIN: f64 = 0.5;

/// Windows remembered. A round trip is told by half as many, so that a cut window's are too.
const WINDOWS_MAX: usize = 16;

const BASE_RTT: Key = Key::without_default(
    "base_rtt",
    "the network's longest round trip without queues",
    "τ: the round-trip time without queues, no less than any flow's",
);
const GAMMA: Key = Key::new("gamma", "0.9", "γ: the weight of a new window in the average");
const BETA: Key =
    Key::new("beta", "bdp/100", "β: the additive step; in equilibrium the queue is the sum of the flows' β");
const RATE_MIN: Key = Key::new("rate_min", "line/1000", "the window is never cut below what this rate sends in τ");
/// It does not see that a link is not full, so that what frames wait for each other by chance counts as the queue Σ β that it keeps,
/// and a smaller β leaves the link idle.
const THETA_BETA: Key = Key { default: Some("bdp/50"), otherwise: "bdp/50", ..BETA };

/// What flows show under both algorithms.
const GAUGES: &[Gauge] = &[Gauge::plain("power", "Γ_smooth, as a part of the base power")];

impl Named for PowerTcp {
    fn name(&self) -> &'static str {
        "powertcp"
    }

    fn keys(&self) -> &'static [Key] {
        &[BASE_RTT, GAMMA, BETA, RATE_MIN]
    }

    fn gauges(&self) -> &'static [Gauge] {
        GAUGES
    }
}

impl CongestionControlKind for PowerTcp {
    /// γ is the paper's, and β by its rule, HostBw · τ / N, with N = 100. The lowest rate is a thousandth of the line's.
    ///
    /// A smaller β keeps a shorter queue, Σ β, and shares a port less evenly for longer: with β far below a frame what the frames
    /// of several hosts happen to do outweighs it.
    fn presets(&self) -> &'static [Preset] {
        const ABOUT: &str = "PowerTCP paper (NSDI 2022), additive step for 100 flows";
        &[Preset { name: "powertcp", about: ABOUT, values: &[] }]
    }

    fn read(&self, parameters: &Parameters<'_>) -> Arc<dyn Algorithm> {
        Arc::new(PowerTcpConfig(Laws::read(parameters, &BETA)))
    }
}

impl Named for ThetaPowerTcp {
    fn name(&self) -> &'static str {
        "theta-powertcp"
    }

    fn keys(&self) -> &'static [Key] {
        &[BASE_RTT, GAMMA, THETA_BETA, RATE_MIN]
    }

    fn gauges(&self) -> &'static [Gauge] {
        GAUGES
    }
}

impl CongestionControlKind for ThetaPowerTcp {
    fn presets(&self) -> &'static [Preset] {
        const ABOUT: &str = "PowerTCP paper (NSDI 2022), additive step for 50 flows";
        &[Preset { name: "theta-powertcp", about: ABOUT, values: &[] }]
    }

    fn read(&self, parameters: &Parameters<'_>) -> Arc<dyn Algorithm> {
        Arc::new(ThetaPowerTcpConfig(Laws::read(parameters, &THETA_BETA)))
    }
}

impl Laws {
    fn read(parameters: &Parameters<'_>, beta: &Key) -> Laws {
        let base_rtt = parameters.base_rtt(&BASE_RTT);
        Laws {
            base_rtt,
            gamma_ppm: parameters.share(&GAMMA),
            additive_increase: parameters.size_or_part(beta, base_rtt),
            rate_min: parameters.rate(&RATE_MIN),
        }
    }
}

impl Algorithm for PowerTcpConfig {
    fn feedback(&self) -> Feedback {
        Feedback { stamps: Stamps::Hops, acks_every_packet: true, ..Feedback::default() }
    }

    fn flow(&self, line: BitRate) -> Box<dyn FlowState> {
        Box::new(PowerFlow::new(&self.0, line))
    }
}

impl Algorithm for ThetaPowerTcpConfig {
    fn feedback(&self) -> Feedback {
        Feedback { stamps: Stamps::Time, acks_every_packet: true, ..Feedback::default() }
    }

    fn flow(&self, line: BitRate) -> Box<dyn FlowState> {
        Box::new(ThetaFlow::new(&self.0, line))
    }
}

impl PowerFlow {
    fn new(config: &Laws, line: BitRate) -> PowerFlow {
        let law = ControlLaw::new(config, line);
        PowerFlow { sent: SentWindows::new(law.window), law, hops: HopMemory::new() }
    }
}

impl FlowState for PowerFlow {
    fn checkpoint(&mut self, archive: &mut Archive) {
        self.state(archive);
    }

    /// cwnd / τ.
    fn rate(&self) -> BitRate {
        self.law.rate()
    }

    /// cwnd.
    fn window(&self) -> Option<Bytes> {
        Some(self.law.window())
    }

    /// Algorithm 1: every acknowledgement sets the window.
    fn handle_ack(&mut self, _now: Time, ack: &AckSignal<'_>) {
        let base_rtt_ps = self.law.bounds.base_rtt_ps();
        let mut strongest: Option<(f64, f64)> = None;
        self.hops.advance(ack.hops, |step| {
            let (span_ps, rate) = (step.span.as_picos() as f64, step.now.rate);
            let growth = step.now.queue.get() as f64 - step.before.queue.get() as f64;
            // Both as a part of what they are on a link that is full and has no queue.
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

impl ThetaFlow {
    fn new(config: &Laws, line: BitRate) -> ThetaFlow {
        let law = ControlLaw::new(config, line);
        ThetaFlow { old: law.window, law, last: None, update_after: 0 }
    }
}

impl FlowState for ThetaFlow {
    fn checkpoint(&mut self, archive: &mut Archive) {
        self.state(archive);
    }

    /// cwnd / τ.
    fn rate(&self) -> BitRate {
        self.law.rate()
    }

    /// cwnd.
    fn window(&self) -> Option<Bytes> {
        Some(self.law.window())
    }

    /// Algorithm 2: every acknowledgement is measured, and the window set once a round trip.
    fn handle_ack(&mut self, now: Time, ack: &AckSignal<'_>) {
        let Some((before, rtt_before)) = self.last.filter(|(at, _)| *at < now) else {
            // The first one, or another of the same instant.
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
        // The bound is on the average: single RTTs differ by what frames wait for each other, and that must add up to nothing.
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
    fn new(config: &Laws, line: BitRate) -> ControlLaw {
        let bounds = WindowBounds::new(line, config.rate_min, config.base_rtt);
        ControlLaw {
            bounds,
            gamma: fraction(config.gamma_ppm.min(1_000_000)),
            additive_increase: config.additive_increase.get() as f64,
            window: bounds.largest(),
            // What line rate makes of an idle network.
            power: 1.0,
        }
    }

    fn rate(&self) -> BitRate {
        self.bounds.rate(self.window)
    }

    fn window(&self) -> Bytes {
        WindowBounds::bytes(self.window)
    }

    /// The end of function NormPower: an average over a round trip.
    fn smooth(&mut self, power: f64, span_ps: f64) {
        let weight = (span_ps / self.bounds.base_rtt_ps()).min(1.0);
        self.power = (1.0 - weight) * self.power + weight * power;
    }

    /// Function UpdateWindow, `old` being the window under which the acknowledged packet was sent.
    fn set_window(&mut self, old: f64) {
        let new = self.bounds.clamp(old / self.power + self.additive_increase);
        self.window = self.bounds.clamp(self.gamma * new + (1.0 - self.gamma) * self.window);
    }
}

impl SentWindows {
    fn new(window: f64) -> SentWindows {
        SentWindows { windows: [(0, window); WINDOWS_MAX], oldest: 0, len: 1 }
    }

    /// The window under which the packet was sent that ends with this payload byte. Forgets those before it.
    fn window_of(&mut self, acked: u64) -> f64 {
        while self.len > 1 && self.at(1).0 < acked {
            self.oldest = (self.oldest + 1) % WINDOWS_MAX;
            self.len -= 1;
        }
        self.at(0).1
    }

    /// Notes that payload after this byte is sent under this window. Changes within an eighth of a window's payload are
    /// left out; where memory does not suffice, the oldest are forgotten.
    fn remember(&mut self, sent: u64, window: f64) {
        let since = sent.saturating_sub(self.at(self.len - 1).0);
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

    fn at(&self, place: usize) -> (u64, f64) {
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

    fn config() -> Laws {
        let network = Network { line: LINE, base_rtt: TAU };
        Laws::read(&Parameters::new(network, &[("beta", "1000B")], &[]), &BETA)
    }

    fn at(us: u64) -> Time {
        Time::from_nanos(us * 1_000)
    }

    fn hop(us: u64, tx_bytes: u64, queue: u64) -> HopTelemetry {
        HopTelemetry { at: at(us), tx_bytes, queue: Bytes::new(queue), rate: LINE }
    }

    /// Acknowledges so much payload, with so much sent; returns the window.
    fn ack(flow: &mut PowerFlow, acked: u64, sent: u64, hops: &[HopTelemetry]) -> u64 {
        flow.handle_ack(Time::ZERO, &AckSignal { acked, sent, rtt: TAU, is_marked: false, hops, digest: None });
        flow.window().expect("a window").get()
    }

    #[test]
    fn a_queue_that_grows_is_met_before_it_is_long() {
        let mut flow = PowerFlow::new(&config(), LINE);
        assert_eq!(ack(&mut flow, 1_000, 125_000, &[hop(0, 0, 0)]), 125_000);
        // In τ the port sent at its rate while 25,000 B gathered: current 1.2, voltage 1.2, power 1.44.
        // W = 0.9 (125,000 / 1.44 + 1,000) + 0.1 * 125,000 = 91,525.
        assert_eq!(ack(&mut flow, 2_000, 125_000, &[hop(10, 125_000, 25_000)]), 91_525);
        assert_eq!(flow.rate(), BitRate::mbps(73_220));
        // The queue stays as long: power 1.2. W = 0.9 (125,000 / 1.2 + 1,000) + 0.1 * 91,525 = 103,802.5.
        assert_eq!(ack(&mut flow, 3_000, 125_000, &[hop(20, 250_000, 25_000)]), 103_802);
        // It drains: current 0.8, voltage 1: W = 0.9 * 125,000 (which 157,250 is cut to) + 0.1 * 103,802.5.
        assert_eq!(ack(&mut flow, 4_000, 125_000, &[hop(30, 375_000, 0)]), 122_880);
        // What was sent after the first 125,000 B, under 91,525: at rest with no queue, 0.9 (91,525 + 1,000) + 0.1 * 122,880.25.
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
        // The memory is bounded: what is missing is told as the oldest that is there.
        (1..=100).for_each(|n| sent.remember(20_000 * n, 1_000.0 * n as f64));
        assert_eq!(sent.window_of(1) as u64, 85_000);
        assert_eq!(sent.window_of(2_000_001) as u64, 100_000);
    }

    #[test]
    fn power_is_the_strongest_hops_and_an_average() {
        let mut flow = PowerFlow::new(&config(), LINE);
        ack(&mut flow, 1, 10, &[hop(0, 0, 0), hop(0, 0, 0)]);
        let power = |flow: &PowerFlow| (flow.law.power * 1e6) as u64;
        // In a fifth of τ half of what the ports can send. 18,750 B gathered at the second: current 0.5 + 0.75, voltage 1.15,
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
        let mut flow = PowerFlow::new(&config(), LINE);
        ack(&mut flow, 1, 10, &[hop(0, 0, 250_000)]);
        // Nothing arrived in τ: current 0.5, voltage 1 + 1 of what is left.
        ack(&mut flow, 2, 10, &[hop(10, 125_000, 125_000)]);
        assert_eq!((flow.law.power * 1e6) as u64, 1_000_000);
        // Then the link idles at a tenth of its rate, without a queue that could drain.
        ack(&mut flow, 3, 10, &[hop(20, 250_000, 0)]);
        ack(&mut flow, 4, 10, &[hop(30, 262_500, 0)]);
        assert_eq!((flow.law.power * 1e6 + 0.5) as u64, 100_000);
    }

    #[test]
    fn theta_reads_the_same_from_the_rtt_once_a_round_trip() {
        let mut flow = ThetaFlow::new(&config(), LINE);
        let mut ack = |us: u64, acked: u64, sent: u64, rtt_us: u64| {
            let rtt = Span::from_micros(rtt_us);
            flow.handle_ack(at(us), &AckSignal { acked, sent, rtt, is_marked: false, hops: &[], digest: None });
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
        let step = |key: &Key| {
            let network = Network { line: BitRate::gbps(25), base_rtt: Span::from_micros(13) };
            Laws::read(&Parameters::new(network, &[], &[]), key).additive_increase
        };
        // A hundredth of 40,625 B, and a fiftieth.
        assert_eq!((step(&BETA), step(&THETA_BETA)), (Bytes::new(406), Bytes::new(812)));
    }
}
