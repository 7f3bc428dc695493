//! Congestion controls of RDMA: senders that share one port.

use std::sync::Arc;

use weir_nic::host::{CongestionControlChoice, TelemetryMode};
use weir_nic::parameters::Network;
use weir_scenario::topology::LinkSpec;
use weir_units::{BitRate, Bytes, Span, Time};

use super::net::{CLASS, all_to_last, jain, lossless, queue, received, set_payload, shares, star};
use crate::Sim;

/// Flows of so many hosts into one port, 50 us one after the other.
struct Trial {
    flows: usize,
    rate: BitRate,
    payload: u16,
    control: CongestionControlChoice,
    /// At the switch's port; none for no marks.
    ecn: Option<&'static str>,
    warm_up: Span,
    measured: Span,
}

/// What they did after the warm-up.
#[derive(Debug)]
struct Outcome {
    /// Each flow's share of what the line carries.
    shares: Vec<f64>,
    /// What waited at the port, in bytes, on average and at most.
    queue_mean: f64,
    queue_max: u64,
    /// PFC pauses, and marked frames, from the beginning on.
    pauses: u64,
    marked: u64,
}

impl Outcome {
    fn utilisation(&self) -> f64 {
        self.shares.iter().sum()
    }

    /// How far a share is from an equal one at most, as a part of that.
    fn unfairness(&self) -> f64 {
        let fair = self.utilisation() / self.shares.len() as f64;
        self.shares.iter().map(|share| (share / fair - 1.0).abs()).fold(0.0, f64::max)
    }
}

fn run(trial: &Trial) -> Outcome {
    run_staggered(trial, Span::from_micros(50))
}

/// Runs a trial whose flows start `stagger` apart.
fn run_staggered(trial: &Trial, stagger: Span) -> Outcome {
    let Trial { flows, rate, payload, ref control, ecn, warm_up, measured } = *trial;
    let settings = ecn.map_or(String::new(), |ecn| format!("[[classes.queues]]\nclass = 3\necn = {ecn}\n"));
    let mut scenario = lossless(&star(flows, LinkSpec::new(rate, Span::from_micros(1))), &settings);
    set_payload(&mut scenario, payload);
    Arc::make_mut(&mut scenario.switches).iter_mut().for_each(|switch| switch.telemetry = control.wants_telemetry());
    all_to_last(&mut scenario, |n, flow| {
        (flow.congestion_control, flow.start) = (control.clone(), Time::ZERO + stagger * n as u64);
    });
    let mut sim = Sim::new(&scenario).unwrap();
    sim.run_until(Time::ZERO + warm_up);
    let before = received(&sim, flows);
    let samples = 400;
    let (mut queue_sum, mut queue_max) = (0, 0);
    for _ in 0..samples {
        sim.run_for(measured.divided_by(samples));
        let length = queue(&sim, flows, CLASS);
        (queue_sum, queue_max) = (queue_sum + length, queue_max.max(length));
    }
    let pauses = sim.hosts().map(|host| host.class_stats(sim.now(), CLASS).pauses).sum();
    let report = sim.report(0);
    assert!(report.conservation.holds && report.conservation.dropped == 0);
    for n in 0..flows {
        let stats = sim.host(flows).receiver_stats(n);
        assert_eq!((stats.lost, stats.gaps, stats.duplicates), (0, 0, 0));
    }
    Outcome {
        shares: shares(
            &before,
            &received(&sim, flows),
            rate,
            measured,
            payload.into(),
            frame_bytes(payload, control.telemetry()),
        ),
        queue_mean: queue_sum as f64 / samples as f64,
        queue_max,
        pauses,
        marked: report.ports[flows].classes[CLASS.index()].ce_marked,
    }
}

/// DCQCN with the paper's parameters and marks (Fig. 14: 5 KB, 200 KB, 1 %). Its steps are counted in 55 us and 10 MB: at
/// 10 Gb/s there are more of them for each packet than at 100.
fn dcqcn(flows: usize) {
    let rate = BitRate::gbps(10);
    let outcome = run(&Trial {
        flows,
        rate,
        payload: 4_096,
        control: CongestionControlChoice::preset("dcqcn", rate, Span::ZERO).expect("a preset"),
        ecn: Some("{ kmin = \"5KB\", kmax = \"200KB\", pmax = 0.01 }"),
        warm_up: Span::from_millis(40),
        measured: Span::from_millis(160),
    });
    assert!(outcome.utilisation() > 0.95 && outcome.unfairness() < 0.1, "{outcome:?}");
    // Xoff is at a sixteenth of what is free of 12 MB.
    assert!(outcome.marked > 500 && outcome.pauses == 0 && outcome.queue_max < 300_000, "{outcome:?}");
}

#[test]
fn two_flows_of_dcqcn_share_a_port() {
    dcqcn(2);
}

#[test]
fn four_flows_of_dcqcn_share_a_port() {
    dcqcn(4);
}

#[test]
fn eight_flows_of_dcqcn_share_a_port() {
    dcqcn(8);
}

/// HPCC's simulator's at 25 Gb/s, with the marks that go with it there. It raises rates by a 5,000th of the line each 300 us:
/// what flows have at the beginning they keep for long, so they are not as equal as the paper's.
fn dcqcn_ns3(flows: usize) {
    let rate = BitRate::gbps(25);
    let outcome = run(&Trial {
        flows,
        rate,
        payload: 4_096,
        control: CongestionControlChoice::preset("dcqcn-hpcc", rate, Span::from_micros(5)).expect("a preset"),
        ecn: Some("{ kmin = \"100KB\", kmax = \"400KB\", pmax = 0.2 }"),
        warm_up: Span::from_millis(10),
        measured: Span::from_millis(50),
    });
    assert!(outcome.utilisation() > 0.95 && jain(&outcome.shares) > 0.97, "{outcome:?}");
    assert!(outcome.marked > 500 && outcome.pauses == 0 && outcome.queue_max < 500_000, "{outcome:?}");
}

#[test]
fn two_flows_of_the_simulators_dcqcn_share_a_port() {
    dcqcn_ns3(2);
}

#[test]
fn four_flows_of_the_simulators_dcqcn_share_a_port() {
    dcqcn_ns3(4);
}

#[test]
fn eight_flows_of_the_simulators_dcqcn_share_a_port() {
    dcqcn_ns3(8);
}

/// Marks at 30 KB, of a bandwidth-delay product of 53 KB. A step is a payload in a round trip.
#[test]
fn dctcp_keeps_a_port_busy_with_a_queue_about_the_threshold() {
    let base_rtt = base_rtt(1_024, TelemetryMode::None);
    let network = Network { line: RATE, base_rtt };
    let control = CongestionControlChoice::parse("dctcp", &[("rate_ai", "2Gbps")], network).expect("good values");
    for flows in [2, 4, 8] {
        let outcome = run(&Trial {
            flows,
            rate: RATE,
            payload: 1_024,
            control: control.clone(),
            ecn: Some("{ kmin = \"30KB\", kmax = \"30KB\", pmax = 1.0 }"),
            warm_up: Span::from_millis(2),
            measured: Span::from_millis(4),
        });
        assert!(outcome.utilisation() > 0.97 && jain(&outcome.shares) > 0.98, "{outcome:?}");
        assert!((5_000.0..40_000.0).contains(&outcome.queue_mean) && outcome.queue_max < 80_000, "{outcome:?}");
        assert!(outcome.marked > 100 && outcome.pauses == 0, "{outcome:?}");
    }
}

const RATE: BitRate = BitRate::gbps(100);
/// 53 KB at 100 Gb/s.
const BASE_RTT: Span = base_rtt(1_024, TelemetryMode::Hops);

/// What a frame takes of a link: 58 B of headers, 24 B around it, and a trailer.
const fn frame_bytes(payload: u16, stamps: TelemetryMode) -> u64 {
    payload as u64 + 82 + trailer_bytes(stamps)
}

const fn trailer_bytes(stamps: TelemetryMode) -> u64 {
    match stamps {
        TelemetryMode::None => 0,
        TelemetryMode::Time | TelemetryMode::Digest => 16,
        TelemetryMode::Hops => 16 + 5 * 16,
    }
}

/// Two links each way at 100 Gb/s, 1 us and a frame's or an acknowledgement's time each.
const fn base_rtt(payload: u16, stamps: TelemetryMode) -> Span {
    Span::from_picos(4_000_000 + 2 * (frame_bytes(payload, stamps) + 86 + trailer_bytes(stamps)) * 80)
}

/// A preset with another step.
fn with(name: &str, key: &str, step: Bytes) -> CongestionControlChoice {
    let network = Network { line: RATE, base_rtt: BASE_RTT };
    CongestionControlChoice::parse(name, &[(key, &format!("{}B", step.get()))], network)
        .expect("a preset, and a good value")
}

fn by_telemetry(flows: usize, control: CongestionControlChoice) -> Outcome {
    let (warm_up, measured) = (Span::from_micros(1_000), Span::from_micros(500));
    run(&Trial { flows, rate: RATE, payload: 1_024, control, ecn: None, warm_up, measured })
}

/// W_AI by the paper's rule for eight flows; shares become equal within some 20 round trips then.
#[test]
fn hpcc_keeps_a_port_busy_at_95_percent_and_its_queue_empty() {
    let additive_increase = RATE.bytes_in(BASE_RTT).divided_by(20 * 8);
    let hpcc = with("hpcc", "w_ai", additive_increase);
    for flows in [2, 4, 8] {
        let outcome = by_telemetry(flows, hpcc.clone());
        // What all add comes to η's 95 %.
        assert!((0.94..0.98).contains(&outcome.utilisation()) && outcome.unfairness() < 0.1, "{outcome:?}");
        assert!(outcome.queue_mean < 3_000.0 && outcome.queue_max < 10_000, "{outcome:?}");
        assert_eq!(outcome.pauses, 0);
    }
}

/// As HPCC with stamps of each hop, to what codes are apart, 5 % or 1 %; with every packet's digest, or one in four.
#[test]
fn hpcc_pint_keeps_a_port_busy_at_95_percent_and_its_queue_short() {
    let base_rtt = base_rtt(1_024, TelemetryMode::Digest);
    let network = Network { line: RATE, base_rtt };
    for (flows, log_base, sampled) in [(2, "1.05", "1"), (4, "1.01", "1"), (8, "1.01", "1/4")] {
        let values = [("rate_ai", "line/160"), ("log_base", log_base), ("sampled", sampled)];
        let control = CongestionControlChoice::parse("hpcc-pint", &values, network).expect("good values");
        let outcome = by_telemetry(flows, control);
        let expected = 0.95 + flows as f64 / 160.0;
        assert!((outcome.utilisation() - expected).abs() < 0.03 && outcome.unfairness() < 0.15, "{outcome:?}");
        assert!(outcome.queue_mean < 5_000.0 && outcome.queue_max < 30_000, "{outcome:?}");
        assert_eq!(outcome.pauses, 0);
    }
}

/// β by the paper's rule for N = 160. The queue is to be Σ β, 326 B for each flow, and what frames of several hosts that
/// come at one instant add.
#[test]
fn powertcp_keeps_a_port_busy_and_its_queue_short() {
    let additive_increase = RATE.bytes_in(BASE_RTT).divided_by(160);
    let power_tcp = with("powertcp", "beta", additive_increase);
    for flows in [2, 4, 8] {
        let outcome = by_telemetry(flows, power_tcp.clone());
        assert!(outcome.utilisation() > 0.97 && outcome.unfairness() < 0.06, "{outcome:?}");
        assert!(outcome.queue_mean < 5_500.0 && outcome.queue_max < 16_000, "{outcome:?}");
        assert_eq!(outcome.pauses, 0);
    }
}

/// It has no unique fixed point, so nothing is said of fairness. T_low, 50 us, is a queue of 625 KB.
#[test]
fn timely_keeps_a_port_busy() {
    for flows in [2, 4] {
        let outcome = run(&Trial {
            flows,
            rate: RATE,
            payload: 4_096,
            control: CongestionControlChoice::preset("timely", RATE, Span::ZERO).expect("a preset"),
            ecn: None,
            warm_up: Span::from_millis(4),
            measured: Span::from_millis(4),
        });
        assert!(outcome.utilisation() > 0.9 && outcome.queue_max < 1_500_000, "{outcome:?}");
        assert_eq!(outcome.pauses, 0);
    }
}

/// A preset, with flows that start at once or 50 us apart: whoever starts, all are served and no queue stays.
fn preset_serves_all(name: &str, payload: u16, flows: &[usize]) {
    let stamps = CongestionControlChoice::preset(name, RATE, Span::from_micros(1)).expect("a preset").telemetry();
    let control = CongestionControlChoice::preset(name, RATE, base_rtt(payload, stamps)).expect("a preset");
    let (warm_up, measured) = (Span::from_micros(800), Span::from_micros(800));
    for (flows, stagger) in flows.iter().flat_map(|flows| [0, 50].map(|us| (*flows, Span::from_micros(us)))) {
        let trial = Trial { flows, rate: RATE, payload, control: control.clone(), ecn: None, warm_up, measured };
        let outcome = run_staggered(&trial, stagger);
        let context = format!("{name}, {flows} flows {stagger} apart: {outcome:?}");
        assert!(outcome.utilisation() > 0.95, "{context}");
        let fair = 1.0 / flows as f64;
        assert!(outcome.shares.iter().all(|share| *share > fair / 2.0), "{context}");
        // Half of the bandwidth-delay product.
        assert!(outcome.queue_mean < 26_000.0, "{context}");
        assert_eq!(outcome.pauses, 0, "{context}");
    }
}

#[test]
fn powertcp_serves_all_whenever_they_start() {
    preset_serves_all("powertcp", 1_024, &[1, 2, 3, 4, 5, 6, 16]);
}

#[test]
fn powertcp_serves_all_with_long_frames() {
    preset_serves_all("powertcp", 4_096, &[1, 3, 4, 8]);
}

#[test]
fn theta_powertcp_serves_all_whenever_they_start() {
    preset_serves_all("theta-powertcp", 1_024, &[1, 2, 4, 16]);
}

#[test]
fn theta_powertcp_serves_all_with_long_frames() {
    preset_serves_all("theta-powertcp", 4_096, &[1, 2, 5, 8]);
}
