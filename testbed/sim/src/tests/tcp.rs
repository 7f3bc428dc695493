//! TCP through two switches with a bottleneck between them.

use weir_nic::host::{FlowConfig, LossRecovery, Repeat, Transport};
use weir_nic::tcp::{AckPoint, TcpConfig, TcpCongestionChoice};
use weir_scenario::link::{ChosenFrames, FaultPlan, ReorderDelay};
use weir_scenario::topology::{Dumbbell, Fabric, LinkSpec};
use weir_scenario::workload::Message;
use weir_scenario::{Scenario, TrafficPlan, TrafficSource};
use weir_units::{BitRate, Bytes, Class, ClassSet, Span, Time};
use weir_wire::rocev2::Dscp;

use super::net::{flow, jain, lossless, lossy, shares};
use crate::Sim;

const BOTTLENECK: BitRate = BitRate::gbps(10);
/// Links to hosts are faster: 200 ps a byte on these and 800 ps on the bottleneck.
const HOST_LINK: LinkSpec = LinkSpec::new(BitRate::gbps(40), Span::from_micros(2));
const PS_PER_BYTE: u64 = 2 * 200 + 800;
const ONE_WAY: Span = Span::from_micros(14);
/// 1,448 B of payload, 66 B of headers, FCS, preamble and gap; and an acknowledgement.
const FRAME: u64 = 1_448 + ACK;
const ACK: u64 = 66 + 24;
/// Not lossless, but where a test says so.
const CLASS: Class = super::net::CLASS;
/// A lone egress queue of a lossy class may have half of it, less what is private: some 50 KB. A round trip of 28 us has
/// 35 KB.
const BUFFER: &str = "[buffer]\nsize = \"100KB\"\nprivate = \"0B\"\n";

fn dumbbell(pairs: usize) -> Fabric {
    let bottleneck = LinkSpec::new(BOTTLENECK, Span::from_micros(10));
    Dumbbell { senders: pairs, receivers: pairs, host_cable: HOST_LINK, bottleneck }.fabric().unwrap()
}

fn cubic() -> TcpConfig {
    TcpConfig::datacentre(TcpCongestionChoice::cubic())
}

fn dctcp() -> TcpConfig {
    TcpConfig::datacentre(TcpCongestionChoice::dctcp())
}

/// Each sender has a flow to a receiver of its own.
fn with_flows(mut scenario: Scenario, change: impl Fn(usize, &mut FlowConfig)) -> Scenario {
    let pairs = scenario.hosts.len() / 2;
    for from in 0..pairs {
        let mut plan = flow(&scenario, from, pairs + from);
        change(from, &mut plan.config);
        scenario.flows.push(plan);
    }
    scenario
}

/// Flows without end that start one after the other, so that they do not overshoot all at once.
fn long_flows(count: usize, config: TcpConfig, settings: &str) -> Scenario {
    with_flows(lossy(&dumbbell(count), &format!("{BUFFER}{settings}")), |n, flow| {
        (flow.transport, flow.start) = (Transport::tcp(config.clone()), Time::from_nanos(500_000 * n as u64));
    })
}

/// One flow of messages of a size, on switches that drop nothing.
fn one(config: TcpConfig, message: u64, change: impl Fn(&mut FlowConfig)) -> Scenario {
    with_flows(lossy(&dumbbell(1), ""), |_, flow| {
        flow.transport = Transport::tcp(config.clone());
        (flow.message, flow.total) = (Bytes::new(message), Some(Bytes::new(message)));
        change(flow);
    })
}

#[derive(Debug)]
struct Outcome {
    shares: Vec<f64>,
    /// What waited at the bottleneck on average, at least and at most.
    queue_mean: f64,
    queue_min: u64,
    queue_max: u64,
    /// The part of the first flow's window that each cut left.
    cuts: Vec<f64>,
    dropped: u64,
    timeouts: u64,
}

const WARM_UP: Span = Span::from_millis(8);
const MEASURED: Span = Span::from_millis(16);

fn run(scenario: &Scenario) -> Outcome {
    let count = scenario.flows.len();
    let mut sim = Sim::new(scenario).unwrap();
    let received =
        |sim: &Sim| -> Vec<u64> { (0..count).map(|n| sim.host(count + n).receiver_stats(0).payload.get()).collect() };
    sim.run_until(Time::ZERO + WARM_UP);
    let (before, dropped) = (received(&sim), sim.report(0).conservation.dropped);
    let step = Span::from_micros(10);
    let samples = MEASURED.as_picos() / step.as_picos();
    let (mut sum, mut queue_min, mut queue_max, mut cuts) = (0, u64::MAX, 0, Vec::new());
    let mut window = sim.host(0).tcp_sender(0).unwrap().window();
    for _ in 0..samples {
        sim.run_for(step);
        let length = super::net::queue(&sim, count, CLASS);
        (sum, queue_min, queue_max) = (sum + length, queue_min.min(length), queue_max.max(length));
        let now = sim.host(0).tcp_sender(0).unwrap().window();
        if now < window {
            cuts.push(now as f64 / window as f64);
        }
        window = now;
    }
    let report = sim.report(0);
    assert!(report.conservation.holds);
    Outcome {
        shares: shares(&before, &received(&sim), BOTTLENECK, MEASURED, 1_448, FRAME),
        queue_mean: sum as f64 / samples as f64,
        queue_min,
        queue_max,
        cuts,
        dropped: report.conservation.dropped - dropped,
        timeouts: (0..count).map(|n| sim.host(n).sender_stats(0).timeouts).sum(),
    }
}

#[test]
fn cubic_fills_a_link_whose_queue_drops_and_leaves_seven_tenths_of_its_window() {
    let outcome = run(&long_flows(1, cubic(), ""));
    assert!(outcome.shares[0] > 0.99, "{outcome:?}");
    assert!(outcome.cuts.len() >= 5 && outcome.dropped >= 5, "{outcome:?}");
    assert!(outcome.cuts.iter().all(|cut| (0.69..0.715).contains(cut)), "{outcome:?}");
    // From 7/10 of 35 + 50 KB, less the 35 KB in flight, up to 50 KB.
    assert!((15_000..35_000).contains(&outcome.queue_min), "{outcome:?}");
    assert!((46_000..51_000).contains(&outcome.queue_max) && outcome.timeouts == 0, "{outcome:?}");
}

#[test]
fn acknowledgements_have_the_class_that_the_connection_gives_them() {
    // Its class by the preset `sonic`.
    const ACK_POINT: u8 = 10;
    let acks_of = |class: Option<Class>| {
        let acks = class.map(|class| AckPoint { class, dscp: Dscp::new(ACK_POINT) });
        let scenario = one(TcpConfig { acks, ..cubic() }, 100_000, |_| {});
        let of_point = usize::from(scenario.hosts[0].nic.queue_of_dscp[usize::from(ACK_POINT)]);
        assert!(class.is_none_or(|class| class.index() == of_point));
        let mut sim = Sim::new(&scenario).unwrap();
        sim.run_until(Time::ZERO + Span::from_millis(2));
        // To the sender's host, by class.
        let sent = &sim.report(0).ports[0].classes;
        assert_eq!(sim.host(0).sender_stats(0).messages_done, 1);
        (sent[CLASS.index()].tx_frames, sent[1].tx_frames)
    };
    let (with_data, none) = acks_of(None);
    assert!(with_data >= 35 && none == 0, "{with_data} {none}");
    assert_eq!(acks_of(Some(Class::new(1))), (0, with_data));
}

/// Four flows begin with a window that the buffer has no room for.
fn bursts(unscheduled: Bytes) -> Scenario {
    let config = TcpConfig { initial_window: 40, unscheduled, ..cubic() };
    with_flows(lossy(&dumbbell(4), BUFFER), |_, flow| {
        flow.transport = Transport::tcp(config.clone());
        (flow.message, flow.total) = (Bytes::kb(40), Some(Bytes::kb(40)));
    })
}

#[test]
fn switches_keep_more_of_what_is_unscheduled() {
    let dropped = |unscheduled, unscheduled_alpha| {
        let scenario = Scenario { unscheduled_alpha, ..bursts(unscheduled) };
        let mut sim = Sim::new(&scenario).unwrap();
        sim.run_until(Time::ZERO + Span::from_micros(200));
        let report = sim.report(0);
        assert!(report.conservation.holds);
        report.conservation.dropped
    };
    let (first, alpha) = (Bytes::kb(40), Some("1024".parse().unwrap()));
    let [as_ever, unmarked, half, all] = [(first, None), (Bytes::ZERO, alpha), (Bytes::kb(20), alpha), (first, alpha)]
        .map(|(first, alpha)| dropped(first, alpha));
    // 160 KB come at once, of which the queue may hold half of 100 KB, or nearly all of it.
    assert_eq!(as_ever, unmarked);
    assert!(all + 25 < as_ever && all < half && half < as_ever, "{as_ever} {half} {all}");
}

#[test]
fn classes_may_bypass_the_buffer() {
    let in_buffer = |unbuffered| {
        let scenario = Scenario { unbuffered, ..bursts(Bytes::ZERO) };
        let mut sim = Sim::new(&scenario).unwrap();
        sim.run_until(Time::ZERO + Span::from_micros(200));
        let report = sim.report(0);
        assert!(
            report.conservation.holds && report.ports.iter().any(|port| port.classes[CLASS.index()].tx_frames > 50)
        );
        (report.conservation.dropped, report.pool.used_max.get())
    };
    let (dropped, held) = in_buffer(ClassSet::EMPTY);
    assert!(dropped > 0 && held > 40_000, "{dropped} {held}");
    assert_eq!(in_buffer(CLASS.alone()), (0, 0));
    assert_eq!(in_buffer(Class::new(5).alone()), (dropped, held));
}

#[test]
fn flows_of_cubic_share_a_link() {
    let outcome = run(&long_flows(4, cubic(), ""));
    let utilisation: f64 = outcome.shares.iter().sum();
    assert!(utilisation > 0.95 && jain(&outcome.shares) > 0.9, "{outcome:?}");
}

/// K = 30 KB, above a sixth of the data in flight (DCTCP, SIGCOMM 2010, equation 13).
const STEP: &str = "[[classes.queues]]\nclass = 3\necn = { kmin = \"30KB\", kmax = \"30KB\" }\n";

#[test]
fn dctcp_keeps_the_queue_near_its_threshold() {
    for flows in [1, 4] {
        let outcome = run(&long_flows(flows, dctcp(), STEP));
        let utilisation: f64 = outcome.shares.iter().sum();
        assert!(utilisation > 0.99 && jain(&outcome.shares) > 0.9, "{outcome:?}");
        assert!((22_000.0..32_000.0).contains(&outcome.queue_mean), "{outcome:?}");
        assert!(outcome.queue_min > 12_000 && outcome.queue_max < 42_000, "{outcome:?}");
        // By far less than half: α is small where each round trip has but a few marks.
        assert!(outcome.cuts.len() > 20 && outcome.cuts.iter().all(|cut| *cut > 0.75), "{outcome:?}");
        assert_eq!(outcome.timeouts, 0);
    }
}

/// Completion times until the end of the scenario.
fn fcts(sim: &mut Sim) -> Vec<Span> {
    sim.run_until(Time::from_nanos(2_000_000_000));
    assert!(sim.is_finished());
    sim.drain_completions().map(|done| done.fct).collect()
}

#[test]
fn one_segment_and_its_acknowledgement_take_what_their_frames_take() {
    let mut sim = Sim::new(&one(cubic(), 1_000, |_| {})).unwrap();
    let expected = Span::from_picos((1_000 + 2 * ACK) * PS_PER_BYTE) + ONE_WAY * 2;
    assert_eq!(fcts(&mut sim), [expected]);
    let stats = *sim.host(0).sender_stats(0);
    assert_eq!((stats.frames, stats.payload, stats.messages_sent), (1, Bytes::kb(1), 1));
    assert_eq!(stats.wire, Bytes::new(1_000 + ACK));
}

#[test]
fn a_segment_alone_is_acknowledged_after_the_delay() {
    let mut sim = Sim::new(&one(TcpConfig { initial_window: 1, ..cubic() }, 3 * 1_448, |_| {})).unwrap();
    let segment = Span::from_picos(FRAME * PS_PER_BYTE) + ONE_WAY;
    let ack = Span::from_picos(ACK * PS_PER_BYTE) + ONE_WAY;
    // The second and the third segment follow each other at the bottleneck; with the third all is sent (PSH).
    let behind = BOTTLENECK.time_for(Bytes::new(FRAME));
    assert_eq!(fcts(&mut sim), [segment + Span::from_millis(1) + ack + segment + behind + ack]);
}

/// The timeout is 1 s before anything was measured, and 200 ms after: the earlier instant counts.
#[test]
fn a_lost_last_segment_is_sent_again_at_the_timeout_that_was_measured() {
    let linux = TcpConfig::linux(TcpCongestionChoice::cubic());
    let mut scenario = one(linux, 1_000, |flow| {
        (flow.repeat, flow.total) = (Repeat::Every(Span::from_millis(10)), Some(Bytes::kb(2)));
    });
    let (from, until) = (Time::from_nanos(9_000_000), Time::from_nanos(11_000_000));
    let lossy = FaultPlan { frames: ChosenFrames::Data, loss_ppm: 1_000_000, from, until, ..FaultPlan::default() };
    scenario.hosts[0].faults[1] = lossy;
    let mut sim = Sim::new(&scenario).unwrap();
    let alone = Span::from_picos((1_000 + 2 * ACK) * PS_PER_BYTE) + ONE_WAY * 2;
    assert_eq!(fcts(&mut sim), [alone, Span::from_millis(200) + alone]);
    let stats = sim.host(0).sender_stats(0);
    assert_eq!((stats.timeouts, stats.retransmitted, stats.payload), (1, 1, Bytes::kb(3)));
}

#[test]
fn messages_are_one_stream_and_everything_arrives_once_whatever_is_lost() {
    for seed in 1..4 {
        let mut scenario = one(cubic(), 30_000, |flow| {
            (flow.repeat, flow.total) = (Repeat::Every(Span::from_micros(20)), Some(Bytes::kb(3_010)));
        });
        let faults = FaultPlan {
            frames: ChosenFrames::Data,
            loss_ppm: 10_000,
            duplication_ppm: 5_000,
            reordering_ppm: 5_000,
            reorder_delay: ReorderDelay::For(Span::from_micros(10)),
            until: Time::NEVER,
            seed,
            ..FaultPlan::default()
        };
        scenario.hosts[0].faults = [faults, FaultPlan { seed: seed + 10, ..faults }];
        let mut sim = Sim::new(&scenario).unwrap();
        let fcts = fcts(&mut sim);
        assert_eq!(fcts.len(), 101);
        assert!(sim.fault_counters().lost > 15, "{:?}", sim.fault_counters());
        let (sent, arrived) = (sim.host(0).sender_stats(0), sim.host(1).receiver_stats(0));
        assert_eq!((sent.payload_done, sent.messages_done), (Bytes::kb(3_010), 101));
        assert_eq!(arrived.payload, Bytes::kb(3_010));
        assert!(sent.retransmitted > 10 && arrived.gaps > 10 && arrived.reordered > 10, "{sent:?} {arrived:?}");
    }
}

/// Two flows into one port at twice its rate: in a lossless class they are paused, and lose nothing.
#[test]
fn tcp_in_a_lossless_class_is_paused() {
    let scenario = with_flows(lossless(&dumbbell(2), "[buffer]\nsize = \"300KB\"\n"), |_, flow| {
        flow.transport = Transport::tcp(cubic());
        flow.total = Some(Bytes::mb(1));
    });
    let mut sim = Sim::new(&scenario).unwrap();
    let fcts = fcts(&mut sim);
    let pauses: u64 = sim.hosts().map(|host| host.class_stats(sim.now(), CLASS).pauses).sum();
    assert!(fcts.len() == 2 && pauses > 5, "{pauses}");
    assert!((0..2).all(|n| sim.host(n).sender_stats(0).retransmitted == 0));
    assert!(sim.reports().iter().all(|report| report.conservation.holds && report.conservation.dropped == 0));
}

/// Each message has a connection of its own; their ends use the places of those before.
#[test]
fn messages_of_traffic_have_connections_of_their_own() {
    let mut scenario = lossy(&dumbbell(2), "");
    let message = |n: u64| {
        let (from, to) = if n.is_multiple_of(2) { (0, 2) } else { (1, 3) };
        Message { start: Time::from_nanos(n * 30_000), from, to, size: Bytes::new(1 + n * 331) }
    };
    scenario.traffic.push(TrafficPlan {
        name: "T".to_owned(),
        points: [(CLASS, Dscp::new(CLASS.index() as u8))].into(),
        transport: Transport::tcp(cubic()),
        congestion_control: Default::default(),
        ack_every: None,
        retransmission: None,
        loss_recovery: LossRecovery::GoBackN,
        dport: None,
        source: TrafficSource::List((0..200).map(message).collect()),
    });
    let mut sim = Sim::new(&scenario).unwrap();
    sim.run_until(Time::from_nanos(50_000_000));
    assert!(sim.is_finished());
    let mut done: Vec<_> = sim.drain_completions().collect();
    done.sort_by_key(|done| done.size);
    assert_eq!(
        done.iter().map(|done| done.size.get()).collect::<Vec<_>>(),
        (0..200).map(|n| 1 + n * 331).collect::<Vec<_>>()
    );
    let expected = |size: u64| Span::from_picos((size + 2 * ACK) * PS_PER_BYTE) + ONE_WAY * 2;
    assert!(done[..5].iter().all(|done| done.fct == expected(done.size.get())), "{:?}", &done[..5]);
    assert!((0..4).all(|host| sim.host(host).counters().unknown_queue_pair == 0));
}
