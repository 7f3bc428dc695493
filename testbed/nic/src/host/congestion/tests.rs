//! All algorithms alike: flows that share a bottleneck, and feedback that makes no sense.

use std::collections::VecDeque;

use proptest::prelude::*;
use weir_wire::digest::DigestCode;

use super::*;

/// A link that flows share, in small steps of time. A step's bytes of a flow are one batch; batches queue up, are marked and
/// stamped as they leave, and acknowledged a base round trip later.
struct Bottleneck {
    rate: BitRate,
    base_rtt: Span,
    step: Span,
    /// Marking probability between two queue lengths, in parts per million at the second, and 1 above it.
    ecn: (u64, u64, u64),
    flows: Vec<Flow>,
    cnp_interval: Option<Span>,
    queue: VecDeque<Batch>,
    queued: u64,
    tx_bytes: u64,
    /// What the link can still send in this step, in bits times picoseconds.
    capacity: u128,
    acks: VecDeque<(Time, Batch, bool, HopTelemetry, Option<u16>)>,
    /// What the link's port digests by, its U and the batch that left last.
    digest: Option<DigestConfig>,
    utilisation: f64,
    last: (Time, u64),
    random: u64,
}

struct Flow {
    control: ControlledFlow,
    start: Time,
    sent: u64,
    acked: u64,
    /// Bits times picoseconds that the rate allows and that make no whole byte.
    rest: u128,
    cnp_after: Time,
}

#[derive(Clone, Copy)]
struct Batch {
    flow: usize,
    bytes: u64,
    sent_at: Time,
}

/// Measurements over an interval.
struct Seen {
    /// Each flow's share of the link's rate.
    shares: Vec<f64>,
    utilisation: f64,
    mean_queue: f64,
    rtts: (Span, Span),
}

const BYTE: u128 = 8_000_000_000_000;

impl Bottleneck {
    /// Flows that start 200 us after each other.
    fn new(preset: CongestionControlChoice, rate: BitRate, base_rtt: Span, step: Span, flows: u64) -> Bottleneck {
        let stagger = Span::from_micros(200);
        let flow = |n| Flow {
            control: ControlledFlow::new(&preset, rate, Span::ZERO).expect("a control"),
            start: Time::ZERO + stagger * n,
            sent: 0,
            acked: 0,
            rest: 0,
            cnp_after: Time::ZERO,
        };
        Bottleneck {
            rate,
            // A batch waits for the end of its step.
            base_rtt: base_rtt - step,
            step,
            ecn: (u64::MAX, u64::MAX, 0),
            flows: (0..flows).map(flow).collect(),
            cnp_interval: preset.feedback().cnp_interval,
            queue: VecDeque::new(),
            queued: 0,
            tx_bytes: 0,
            capacity: 0,
            acks: VecDeque::new(),
            digest: preset.feedback().digest,
            utilisation: 0.0,
            last: (Time::ZERO, 0),
            random: 1,
        }
    }

    /// Runs to `end`; returns the measurements from `from` on.
    fn run(&mut self, from: Time, end: Time) -> Seen {
        let mut now = Time::ZERO;
        let (mut queue_sum, mut steps, mut before) = (0.0, 0u64, Vec::new());
        let (mut shortest, mut longest) = (Span::from_secs(1), Span::ZERO);
        while now < end {
            if now <= from {
                before = self.flows.iter().map(|flow| flow.acked).collect();
            } else {
                (queue_sum, steps) = (queue_sum + self.queued as f64, steps + 1);
            }
            while let Some((at, batch, is_marked, hop, digest)) = self.acks.front().copied()
                && at <= now
            {
                self.acks.pop_front();
                let rtt = now.since(batch.sent_at);
                if now > from {
                    (shortest, longest) = (shortest.min(rtt), longest.max(rtt));
                }
                self.acknowledge(now, batch, rtt, is_marked, hop, digest);
            }
            self.send(now, steps);
            now += self.step;
            self.serve(now);
        }
        let line_bytes = self.rate.bytes_in(end.since(from)).get() as f64;
        let acked = self.flows.iter().zip(&before).map(|(flow, before)| (flow.acked - before) as f64 / line_bytes);
        let shares: Vec<f64> = acked.collect();
        Seen {
            utilisation: shares.iter().sum(),
            shares,
            mean_queue: queue_sum / steps as f64,
            rtts: (shortest, longest),
        }
    }

    fn acknowledge(
        &mut self,
        now: Time,
        batch: Batch,
        rtt: Span,
        is_marked: bool,
        hop: HopTelemetry,
        digest: Option<u16>,
    ) {
        let flow = &mut self.flows[batch.flow];
        flow.acked += batch.bytes;
        if let Some(interval) = self.cnp_interval
            && is_marked
            && flow.cnp_after <= now
        {
            flow.cnp_after = now + interval;
            flow.control.handle_cnp(now);
        }
        let ack = AckSignal { acked: flow.acked, sent: flow.sent, rtt, is_marked, hops: &[hop], digest };
        flow.control.handle_ack(now, &ack);
    }

    fn send(&mut self, now: Time, turn: u64) {
        let flows = self.flows.len();
        for n in 0..flows {
            let place = (n + turn as usize) % flows;
            let flow = &mut self.flows[place];
            if now < flow.start {
                continue;
            }
            flow.rest += u128::from(flow.control.rate().as_bps()) * u128::from(self.step.as_picos());
            let in_flight = flow.sent - flow.acked;
            let window = flow.control.window().map_or(u64::MAX, |window| window.get().saturating_sub(in_flight));
            let bytes = ((flow.rest / BYTE) as u64).min(window);
            // What the window withholds is not made up for.
            flow.rest = if window == bytes { 0 } else { flow.rest % BYTE };
            if bytes > 0 {
                flow.sent += bytes;
                flow.control.handle_sent(now, Bytes::new(bytes));
                self.queue.push_back(Batch { flow: place, bytes, sent_at: now });
                self.queued += bytes;
            }
        }
    }

    fn serve(&mut self, now: Time) {
        self.capacity += u128::from(self.rate.as_bps()) * u128::from(self.step.as_picos());
        let (mut left, mut bytes) = (0, 0);
        while let Some(batch) = self.queue.get(left)
            && u128::from(batch.bytes) * BYTE <= self.capacity
        {
            self.capacity -= u128::from(batch.bytes) * BYTE;
            self.queued -= batch.bytes;
            self.tx_bytes += batch.bytes;
            (left, bytes) = (left + 1, bytes + batch.bytes);
        }
        // All that leave in a step see the same queue, lest those that come first in it see the others' bytes.
        let queue = Bytes::new(self.queued);
        let hop = HopTelemetry { at: now, tx_bytes: self.tx_bytes, queue, rate: self.rate };
        if let Some(config) = self.digest.filter(|_| left > 0) {
            self.average(now, bytes, config);
        }
        for _ in 0..left {
            let batch = self.queue.pop_front().expect("it was counted");
            let digest = self.digest.map(|config| self.coded(config));
            let is_marked = self.is_marked(batch.bytes);
            self.acks.push_back((now + self.base_rtt, batch, is_marked, hop, digest));
        }
        if self.queue.is_empty() {
            self.capacity = 0;
        }
    }

    /// U when some batches leave: an average over T of the queue and of what left last.
    fn average(&mut self, now: Time, bytes: u64, config: DigestConfig) {
        let t = config.round_trip.as_picos() as f64;
        let carried = self.rate.bytes_in(config.round_trip).get() as f64;
        let (at, last) = self.last;
        let dt = (now.since(at).as_picos() as f64).min(t);
        let kept = (1.0 - dt / t) * self.utilisation;
        self.utilisation = self.queued as f64 / carried * dt / t + last as f64 / carried + kept;
        self.last = (now, bytes);
    }

    /// Its code, rounded by chance.
    fn coded(&mut self, config: DigestConfig) -> u16 {
        let draw = self.draw() as u32;
        DigestCode::new(config.log_base_ppm).encode((self.utilisation * 4_294_967_296.0) as u64, draw << 1)
    }

    /// Whether any packet of a batch is marked, packets having 1,000 B.
    fn is_marked(&mut self, bytes: u64) -> bool {
        let (least, most, ppm) = self.ecn;
        if self.queued > most {
            return true;
        }
        let Some(above) = self.queued.checked_sub(least) else { return false };
        let chance = above * ppm / (most - least);
        (0..bytes.div_ceil(1_000)).any(|_| self.draw() % 1_000_000 < chance)
    }

    /// A linear congruential generator's upper bits.
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.random >> 33
    }
}

fn ms(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

fn preset(name: &str, line: BitRate, base_rtt: Span) -> CongestionControlChoice {
    CongestionControlChoice::preset(name, line, base_rtt).expect("there is one")
}

/// A preset with other values on a line of 100 Gb/s, and a round trip of 10 us.
fn with(name: &str, values: &[(&str, &str)]) -> CongestionControlChoice {
    let network = Network { line: BitRate::gbps(100), base_rtt: Span::from_micros(10) };
    CongestionControlChoice::parse(name, values, network).expect("a preset, and good values")
}

/// What flows make of a link of 100 Gb/s and 10 us, 4 ms after they started: its bandwidth-delay product is 125,000 B.
fn settled(control: CongestionControlChoice) -> Seen {
    Bottleneck::new(control, BitRate::gbps(100), Span::from_micros(10), Span::from_nanos(200), 4).run(ms(4), ms(6))
}

/// How far the largest share is above the smallest, as a part of it.
fn spread(seen: &Seen) -> f64 {
    let largest = seen.shares.iter().copied().fold(0.0, f64::max);
    largest / seen.shares.iter().copied().fold(1.0, f64::min) - 1.0
}

fn near(value: f64, expected: f64, tolerance: f64) {
    assert!((value - expected).abs() <= tolerance, "{value} is not {expected} to {tolerance}");
}

#[test]
fn hpcc_holds_the_target_with_no_queue() {
    for name in ["hpcc", "hpcc-simulator"] {
        // A larger step, so that it takes less time to be fair.
        let seen = settled(with(name, &[("w_ai", "312B")]));
        // From W = W η / U + W_AI follows U = η + Σ W_AI / BDP.
        near(seen.utilisation, 0.95 + 4.0 * 312.0 / 125_000.0, 0.001);
        near(spread(&seen), 0.0, 0.02);
        assert_eq!(seen.mean_queue, 0.0);
        assert_eq!(seen.rtts, (Span::from_micros(10), Span::from_micros(10)));
    }
}

/// How unequal flows are is what a code's step and few samples make of it: 5 % a step, and one packet in sixteen.
#[test]
fn hpcc_pint_holds_the_target_with_no_queue() {
    for (values, unequal) in
        [(&[("log_base", "1.01")][..], 0.15), (&[], 0.2), (&[("max_stage", "0"), ("sampled", "1/16")], 0.4)]
    {
        let seen = settled(with("hpcc-pint", &[values, &[("rate_ai", "line/400")]].concat()));
        // From R = R η / U + R_AI follows U = η + Σ R_AI / C.
        near(seen.utilisation, 0.95 + 4.0 / 400.0, 0.01);
        assert!(spread(&seen) < unequal, "{:?}", seen.shares);
        assert!(seen.mean_queue < 500.0, "{}", seen.mean_queue);
    }
}

#[test]
fn power_tcp_fills_the_link_with_a_queue_of_all_the_steps() {
    for (additive_increase, tolerance) in [(625, 0.03), (1_250, 0.03), (5_000, 0.05)] {
        let seen = settled(with("powertcp", &[("beta", &format!("{additive_increase}B"))]));
        near(seen.utilisation, 1.0, 0.001);
        near(spread(&seen), 0.0, 0.02);
        // Σ β: the paper's equilibrium, and W = W / Γ + β with Γ = 1 + queue / BDP.
        near(seen.mean_queue / (4 * additive_increase) as f64, 1.0, tolerance);
    }
}

#[test]
fn theta_power_tcp_settles_where_power_tcp_does() {
    // RTTs have a resolution of 200 ns, so the queue must be several such steps long.
    let seen = settled(with("theta-powertcp", &[("beta", "5000B")]));
    near(seen.utilisation, 1.0, 0.001);
    near(spread(&seen), 0.0, 0.02);
    near(seen.mean_queue, 20_000.0, 1_500.0);
}

#[test]
fn timely_keeps_rtts_about_t_low() {
    for (name, spread_max) in [("timely", f64::INFINITY), ("timely-hpcc", 0.1)] {
        let (line, base_rtt) = (BitRate::gbps(10), Span::from_micros(20));
        let control = preset(name, line, base_rtt);
        let seen = Bottleneck::new(control, line, base_rtt, Span::from_micros(1), 2).run(ms(20), ms(60));
        // It is raised up to T_low = 50 us, and the first rise above that is cut. T_high = 500 us is far away.
        assert_eq!(seen.rtts.0, base_rtt);
        assert!((50..=80).contains(&seen.rtts.1.as_micros()), "{:?}", seen.rtts);
        assert!(seen.utilisation > 0.75, "{}", seen.utilisation);
        // TIMELY has no one fixed point. Updates once a round trip even flows out; those of segments favour the faster flow.
        assert!(spread(&seen) < spread_max, "{:?}", seen.shares);
    }
}

#[test]
fn dcqcn_shares_a_link_over_time() {
    for (name, gbps, ecn) in [
        ("dcqcn", 40, (5_000, 200_000, 10_000)),
        ("dcqcn-hpcc", 100, (400_000, 1_600_000, 200_000)),
        ("dcqcn-hpcc-paper", 100, (400_000, 1_600_000, 200_000)),
        ("dcqcn-conweave", 100, (100_000, 400_000, 200_000)),
        ("dcqcn-reverie", 25, (100_000, 400_000, 200_000)),
    ] {
        let (line, base_rtt) = (BitRate::gbps(gbps), Span::from_micros(10));
        let mut link = Bottleneck::new(preset(name, line, base_rtt), line, base_rtt, Span::from_micros(2), 2);
        link.ecn = ecn;
        let seen = link.run(ms(50), ms(250));
        assert!(seen.utilisation > 0.98, "{name}: {}", seen.utilisation);
        assert!(spread(&seen) < 0.1, "{name}: {:?}", seen.shares);
        assert!(seen.mean_queue < ecn.1 as f64, "{name}: {}", seen.mean_queue);
    }
}

/// Marks at 30 KB for each 10 Gb/s, as the simulator has them, with a round trip of 13 us.
#[test]
fn dctcp_keeps_a_link_busy_with_a_queue_about_the_threshold() {
    let (line, base_rtt) = (BitRate::gbps(100), Span::from_micros(13));
    for (name, flows) in [("dctcp", 2), ("dctcp-hpcc", 4)] {
        let mut link = Bottleneck::new(preset(name, line, base_rtt), line, base_rtt, Span::from_nanos(200), flows);
        link.ecn = (299_999, 300_000, 0);
        let seen = link.run(ms(10), ms(40));
        assert!(seen.utilisation > 0.99, "{name}: {}", seen.utilisation);
        assert!(spread(&seen) < 0.1, "{name}: {:?}", seen.shares);
        assert!((150_000.0..310_000.0).contains(&seen.mean_queue), "{name}: {}", seen.mean_queue);
    }
}

#[test]
fn a_flows_state_is_small() {
    assert!(size_of::<ControlledFlow>() <= 48, "{}", size_of::<ControlledFlow>());
}

/// The lowest rate that presets may set on this line.
fn floor(name: &str, line: BitRate) -> BitRate {
    match name {
        "none" => BitRate::bps(1),
        "dcqcn-ns3"
        | "dcqcn-hpcc"
        | "dcqcn-hpcc-paper"
        | "dctcp-hpcc"
        | "timely-hpcc"
        | "hpcc-simulator"
        | "hpcc-pint-simulator" => BitRate::gbps(1),
        "dcqcn-conweave" | "dcqcn-reverie" => BitRate::mbps(100),
        _ => BitRate::bps((line.as_bps() / 1_000).max(1)),
    }
}

#[derive(Clone, Debug)]
enum Event {
    Sent(u64),
    Cnp,
    Ack { acked: u64, sent: u64, rtt: u64, is_marked: bool, hops: Vec<(u64, u64, u64, u64)>, digest: Option<u16> },
}

/// Numbers of any size, the plausible as often as the others.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..1_000u64, 0..1_000_000u64, 0..1_000_000_000u64, any::<u64>()]
}

fn event() -> impl Strategy<Value = Event> {
    let hop = (number(), number(), number(), 1..4u64);
    let digest = prop::option::of(0..2_000u16);
    let ack = (number(), number(), number(), any::<bool>(), prop::collection::vec(hop, 0..10), digest);
    prop_oneof![
        (0..100_000u64).prop_map(Event::Sent),
        Just(Event::Cnp),
        ack.prop_map(|(acked, sent, rtt, is_marked, hops, digest)| Event::Ack {
            acked,
            sent,
            rtt,
            is_marked,
            hops,
            digest
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// For any feedback: no panic, and the rate stays between the floor and the line.
    #[test]
    fn rates_stay_in_bounds(
        place in any::<prop::sample::Index>(),
        line in prop_oneof![1..1_000u64, 1_000_000..10_000_000_000_000u64],
        base_rtt in number().prop_map(|ps| ps.min(1_000_000_000_000)),
        events in prop::collection::vec((number(), event()), 0..60),
    ) {
        let line = BitRate::bps(line);
        let names: Vec<&str> = presets().map(|(name, _)| name).collect();
        let name = names[place.index(names.len())];
        let control = preset(name, line, Span::from_picos(base_rtt));
        let Some(mut flow) = ControlledFlow::new(&control, line, Span::ZERO) else { return Ok(()) };
        let mut now = Time::ZERO;
        for (gap, event) in events {
            now = now.saturating_add(Span::from_picos(gap.min(1_000_000_000_000)));
            match event {
                Event::Sent(bytes) => flow.handle_sent(now, Bytes::new(bytes)),
                Event::Cnp => flow.handle_cnp(now),
                Event::Ack { acked, sent, rtt, is_marked, hops, digest } => {
                    let hops: Vec<HopTelemetry> = hops
                        .into_iter()
                        .map(|(at, tx_bytes, queue, gbps)| HopTelemetry {
                            at: Time::from_picos(at),
                            tx_bytes,
                            queue: Bytes::new(queue),
                            rate: BitRate::gbps(gbps),
                        })
                        .collect();
                    let rtt = Span::from_picos(rtt);
                    flow.handle_ack(now, &AckSignal { acked, sent, rtt, is_marked, hops: &hops, digest });
                }
            }
            prop_assert!(flow.rate() <= line, "{:?} > {line:?}", flow.rate());
            prop_assert!(flow.rate() >= floor(name, line).min(line), "{:?} of {control:?}", flow.rate());
            let largest = line.bytes_in(Span::from_picos(base_rtt)).max(Bytes::new(1));
            prop_assert!(flow.window().is_none_or(|window| window >= Bytes::new(1) && window <= largest));
        }
    }
}

#[test]
fn every_name_is_known_and_no_other() {
    let network = Network { line: BitRate::gbps(100), base_rtt: Span::from_micros(13) };
    let mut names = std::collections::BTreeSet::new();
    for (name, source) in presets() {
        let control = CongestionControlChoice::parse(name, &[], network).expect("a preset");
        assert!(name.starts_with(control.name().trim_end_matches("-ns3")), "{name}");
        assert!(!source.is_empty() && names.insert(name), "{name}");
    }
    assert!(CongestionControlChoice::parse("cubic", &[], network).is_err_and(|wrong| wrong.is_empty()));
    for kind in kinds() {
        let keys: Vec<&str> = kind.keys().iter().map(|key| key.name()).collect();
        for (key, _) in kind.presets().iter().flat_map(|preset| preset.values) {
            assert!(keys.contains(key), "{key} of a preset of {} is none of its keys", kind.id());
        }
        // Each key is read: an impossible value is reported.
        for key in keys {
            let wrong = CongestionControlChoice::parse(kind.id(), &[(key, "nonsense")], network).expect_err(key);
            assert_eq!(wrong.iter().map(|wrong| wrong.key).collect::<Vec<_>>(), [key], "{}", kind.id());
        }
    }
}

#[test]
fn a_flow_shows_all_gauges_of_its_kind() {
    for kind in kinds() {
        let control = preset(kind.id(), BitRate::gbps(100), Span::from_micros(13));
        let mut shown = Vec::new();
        let flow = ControlledFlow::new(&control, BitRate::gbps(100), Span::ZERO).expect("a control");
        flow.gauges(&mut |value| shown.push(value));
        assert_eq!(shown.len(), control.gauges().count(), "{}", kind.id());
        assert_eq!(shown[0], 1e11, "the line's rate at first");
    }
}

#[test]
fn what_a_control_asks_of_others() {
    let asks = |name| {
        let feedback = preset(name, BitRate::gbps(100), Span::from_micros(13)).feedback();
        (feedback.cnp_interval.is_some(), feedback.echoes_ecn, feedback.telemetry, feedback.acks_every_packet)
    };
    assert_eq!(asks("none"), (false, false, TelemetryMode::None, false));
    assert_eq!(asks("dcqcn"), (true, false, TelemetryMode::None, false));
    assert_eq!(asks("dcqcn-hpcc"), (false, true, TelemetryMode::None, true));
    assert_eq!(asks("dctcp"), (false, true, TelemetryMode::None, true));
    assert_eq!(asks("timely"), (false, false, TelemetryMode::Time, true));
    assert_eq!(asks("hpcc"), (false, false, TelemetryMode::Hops, true));
    assert_eq!(asks("hpcc-pint"), (false, false, TelemetryMode::Digest, true));
    assert_eq!(asks("powertcp"), (false, false, TelemetryMode::Hops, true));
    assert_eq!(asks("theta-powertcp"), (false, false, TelemetryMode::Time, true));
}
