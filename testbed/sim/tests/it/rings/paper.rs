//! The testbed of the GFC paper (6.1, figure 1): three switches in a ring, a host at each. The flow of each host crosses two
//! links between switches, so that each of these has two flows, and each switch's queue from the ring waits for the next
//! one's. 10 Gb/s, 1 MB for each input queue, τ of 90 us.

use weir_flowctl::gfc::RateMapping;
use weir_results::deadlock::{Deadlock, Detector};
use weir_sim::Sim;
use weir_units::{BitRate, Bytes, Span, Time};

use super::checks::{conserves_frames, held, lost_nothing};
use super::fabric::{CLASS, Fabric, Flow};

const RATE: BitRate = BitRate::gbps(10);
/// With a frame's time at both ends, 82.5 us there and back.
const DELAY: Span = Span::from_micros(40);
const B_M: Bytes = Bytes::mb(1);

const PFC: &str = "\"pfc\"";
const CBFC: &str = "{ kind = \"cbfc\", buffer = \"1MB\" }";
const GFC_BUFFER: &str = "{ kind = \"gfc-buffer\", tau = \"90us\", b_m = \"1MB\", b_1 = \"750KB\" }";
const GFC_TIME: &str = "{ kind = \"gfc-time\", tau = \"90us\", b_m = \"1MB\", b_0 = \"492KB\" }";

const TOGETHER: [u64; 3] = [0, 0, 0];
const APART: [u64; 3] = [0, 300, 700];

fn at(us: u64) -> Time {
    Time::ZERO + Span::from_micros(us)
}

/// With host starts in microseconds.
fn ring(flow_control: &str, arbitration: &str, starts: [u64; 3]) -> Fabric {
    let mut fabric = Fabric::ring(3, RATE, DELAY, flow_control);
    if flow_control == PFC {
        (fabric.threshold, fabric.headroom) = (Bytes::kb(800), Bytes::kb(200));
    }
    fabric.queue = format!("arbitration = \"{arbitration}\"");
    let flow = |(from, start)| Flow { from, to: (from + 2) % 3, start: at(start), stop: Time::NEVER };
    fabric.flows = starts.into_iter().enumerate().map(flow).collect();
    fabric
}

/// Runs until then, or until there is a deadlock.
fn first_deadlock(sim: &mut Sim, until: Time) -> Option<Deadlock> {
    let mut detector = Detector::new(sim.links().clone(), Span::from_millis(1));
    while sim.now() < until {
        sim.run_for(Span::from_micros(100));
        let snapshot = sim.snapshot();
        if let Some(deadlock) = detector.observe(sim.now(), &snapshot) {
            return Some(deadlock.clone());
        }
    }
    None
}

/// Frames that each switch has sent on along the ring.
fn sent_on(fabric: &Fabric, sim: &mut Sim) -> [u64; 3] {
    [0, 1, 2].map(|switch| sim.report(switch).ports[fabric.port_of_link(switch, 0)].classes[CLASS.index()].tx_frames)
}

/// In the order of arrival a queue's flows share it by what they bring: the ring brings more than it takes away.
#[test]
fn pfc_and_cbfc_deadlock_in_the_order_of_arrival() {
    for (flow_control, starts, within) in
        [(PFC, TOGETHER, 4_000), (PFC, APART, 6_000), (CBFC, TOGETHER, 20_000), (CBFC, APART, 30_000)]
    {
        let context = format!("{flow_control}, starts {starts:?}");
        let fabric = ring(flow_control, "arrival", starts);
        let (scenario, mut sim) = (fabric.scenario(), fabric.sim());
        let deadlock = first_deadlock(&mut sim, at(within)).unwrap_or_else(|| panic!("{context}: no deadlock"));
        println!("{context}: stands still since {:?}", deadlock.since);
        assert_eq!(deadlock.cycle_in(&scenario), "S1.p1 -> S2.p2 -> S3.p2 -> S1.p1, class 3", "{context}");
        let before = sent_on(&fabric, &mut sim);
        sim.run_for(Span::from_millis(5));
        assert_eq!(sent_on(&fabric, &mut sim), before, "{context}: it goes on by itself");
        lost_nothing(&mut sim, &context);
    }
}

/// GFC has the same overload to deal with. It never stands still, and loses nothing; but each queue grows as long as more
/// comes than goes, so that the rates fall without end.
#[test]
fn gfc_goes_on_in_the_order_of_arrival_at_rates_that_fall() {
    for (flow_control, starts) in [(GFC_BUFFER, TOGETHER), (GFC_BUFFER, APART), (GFC_TIME, TOGETHER), (GFC_TIME, APART)]
    {
        let context = format!("{flow_control}, starts {starts:?}");
        let fabric = ring(flow_control, "arrival", starts);
        let mut sim = fabric.sim();
        sim.run_until(at(1_000));
        let mut sent = vec![sent_on(&fabric, &mut sim)];
        for ms in 2..=15 {
            sim.run_until(at(1_000 * ms));
            let (now, before) = (sent_on(&fabric, &mut sim), sent.last().unwrap());
            assert!(now.iter().zip(before).all(|(now, before)| now > before), "{context}: stood still before {ms} ms");
            sent.push(now);
        }
        // In frames of 1,106 B on the wire and parts of 10 Gb/s: from all of it to less than a fifth.
        let rate = |from: usize, to: usize| {
            [0, 1, 2].map(|switch| (sent[to][switch] - sent[from][switch]) as f64 / (to - from) as f64 * 1_106.0 * 8e-7)
        };
        println!("{context}: {:.3?}, then {:.3?}, then {:.3?}", rate(0, 2), rate(4, 9), rate(9, 14));
        assert!(rate(0, 2).iter().all(|rate| *rate > 0.8), "{context}: {:?}", rate(0, 2));
        assert!(rate(9, 14).iter().all(|rate| (0.05..0.25).contains(rate)), "{context}: {:?}", rate(9, 14));
        for (switch, report) in sim.reports().iter().enumerate() {
            for port in &report.ports {
                let held_max = port.classes[CLASS.index()].ingress.held_max;
                assert!(held_max < B_M, "{context}: S{} held {held_max}", switch + 1);
            }
        }
        lost_nothing(&mut sim, &context);
    }
}

/// Input ports in turn: each flow has its half of each link, the ring brings what it takes away, and the queues that fill are
/// those of the hosts, which send at 10 Gb/s until they are slowed down to what leaves.
#[test]
fn in_turn_nothing_deadlocks_and_gfc_settles() {
    for (flow_control, starts) in [(PFC, APART), (CBFC, APART)] {
        let mut sim = ring(flow_control, "round-robin", starts).sim();
        assert_eq!(first_deadlock(&mut sim, at(8_000)), None, "{flow_control}");
        lost_nothing(&mut sim, flow_control);
    }
    for starts in [TOGETHER, APART, [0, 700, 300]] {
        let context = format!("by stages, starts {starts:?}");
        let (mut sim, queues) = settled(GFC_BUFFER, starts, &context);
        // B_1 = 750 KB is passed at 10 Gb/s in and 5 out, and reached τ later by frames at 5 Gb/s.
        for (host, queue) in queues.iter().enumerate() {
            assert!((800..815).contains(&(queue.get() / 1_000)), "{context}: {queues:?}");
            assert_eq!(sim.host(host).peer_rate(sim.now(), CLASS), Some(BitRate::gbps(5)), "{context}: stage 1");
        }
        assert_eq!(first_deadlock(&mut sim, at(10_000)), None, "{context}");

        let context = format!("by time, starts {starts:?}");
        let (mut sim, queues) = settled(GFC_TIME, starts, &context);
        let mapping = RateMapping::without_guarantee(B_M, Bytes::kb(492), RATE).unwrap();
        for (host, queue) in queues.iter().enumerate() {
            // The sender counts data in flight too: half of 10 Gb/s for τ.
            assert!((688..700).contains(&(queue.get() / 1_000)), "{context}: {queues:?}");
            let rate = sim.host(host).peer_rate(sim.now(), CLASS).unwrap();
            assert!(mapping.rate(Bytes::kb(748)) <= rate && rate <= mapping.rate(Bytes::kb(744)), "{context}: {rate}");
        }
        assert_eq!(first_deadlock(&mut sim, at(10_000)), None, "{context}");
    }
}

/// The third host starts when the ring's queue at S2 is in stage 1 and S1 sends at half the rate: for a moment H1 has only a
/// quarter of the link. So H1 goes beyond B_2 = 875 KB, to stage 2, and comes back to stage 1, as in the paper's figure 9(b).
#[test]
fn a_late_flow_makes_buffer_based_gfc_overshoot_to_stage_2_and_come_back() {
    let fabric = ring(GFC_BUFFER, "round-robin", [0, 0, 3_000]);
    let mut sim = fabric.sim();
    let (mut slowest, mut longest) = (RATE, Bytes::ZERO);
    while sim.now() < at(9_000) {
        sim.run_for(Span::from_micros(5));
        slowest = slowest.min(sim.host(0).peer_rate(sim.now(), CLASS).unwrap());
        longest = longest.max(held(&sim, 0, fabric.port_of_host(0)));
    }
    let last = held(&sim, 0, fabric.port_of_host(0));
    println!("at most {longest}, then {last}; {slowest} at least");
    assert!((875..895).contains(&(longest.get() / 1_000)), "{longest}");
    assert_eq!(slowest, BitRate::mbps(2_500), "stage 2");
    assert!((820..875).contains(&(last.get() / 1_000)), "{last}");
    let before = [0, 1, 2].map(|host| sim.host(host).sender_stats(0).wire);
    sim.run_for(Span::from_millis(2));
    for (host, before) in before.into_iter().enumerate() {
        let rate = BitRate::average(sim.host(host).sender_stats(0).wire - before, Span::from_millis(2)).unwrap();
        assert!(rate.as_bps().abs_diff(5_000_000_000) < 20_000_000, "H{}: {rate}", host + 1);
    }
    lost_nothing(&mut sim, "a late flow");
}

/// At 7 ms, with what the hosts' queues hold; for 2 ms each has had its half.
fn settled(flow_control: &str, starts: [u64; 3], context: &str) -> (Sim, [Bytes; 3]) {
    let fabric = ring(flow_control, "round-robin", starts);
    let mut sim = fabric.sim();
    sim.run_until(at(5_000));
    let sent = |sim: &Sim| [0, 1, 2].map(|host| sim.host(host).sender_stats(0).wire);
    let before = sent(&sim);
    sim.run_until(at(7_000));
    for (after, before) in sent(&sim).into_iter().zip(before) {
        let rate = BitRate::average(after - before, Span::from_millis(2)).unwrap();
        assert!(rate.as_bps().abs_diff(5_000_000_000) < 20_000_000, "{context}: {rate}");
    }
    lost_nothing(&mut sim, context);
    conserves_frames(&sim.reports(), context);
    let queues = [0, 1, 2].map(|switch| held(&sim, switch, fabric.port_of_host(switch)));
    let most = |switch: usize, sim: &mut Sim| sim.report(switch).ports[0].classes[CLASS.index()].ingress.held_max;
    println!("{context}: {queues:?}, at most {:?}", [0, 1, 2].map(|switch| most(switch, &mut sim)));
    (sim, queues)
}
