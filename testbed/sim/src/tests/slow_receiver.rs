//! A host that receives data more slowly than line rate.

use weir_flowctl::PortFlowControl;
use weir_flowctl::kinds::Pfc;
use weir_nic::host::{FlowConfig, ReceiveLimit, Transport};
use weir_nic::tcp::{TcpConfig, TcpCongestionChoice};
use weir_scenario::Scenario;
use weir_scenario::topology::LinkSpec;
use weir_units::{BitRate, Bytes, Span, Time};

use super::net::{CLASS, all_to_last, lossless, lossy, star};
use crate::Sim;

const RATE: BitRate = BitRate::gbps(100);
/// A tenth of the line.
const LIMIT: ReceiveLimit = ReceiveLimit {
    rate: BitRate::gbps(10),
    buffer: Bytes::kb(100),
    xon: Bytes::kb(90),
    // A round trip of 2 us, two frames, and some.
    headroom: Bytes::kb(30),
    from: Time::ZERO,
    until: Time::NEVER,
};

fn slow(mut scenario: Scenario, change: impl Fn(usize, &mut FlowConfig)) -> Scenario {
    all_to_last(&mut scenario, change);
    scenario.hosts.last_mut().unwrap().nic.receive = Some(LIMIT);
    scenario
}

#[test]
fn its_switch_port_is_paused_and_nothing_is_lost() {
    let mut sim =
        Sim::new(&slow(lossless(&star(2, LinkSpec::new(RATE, Span::from_micros(1))), ""), |_, _| {})).unwrap();
    sim.run_until(Time::from_nanos(300_000));
    let before: u64 = super::net::received(&sim, 2).iter().sum();
    let mut held_max = 0;
    for _ in 0..4_000 {
        sim.run_for(Span::from_micros(1));
        held_max = held_max.max(sim.host(2).receive_buffer(CLASS).get());
    }
    let after: u64 = super::net::received(&sim, 2).iter().sum();
    // In 4 ms at 10 Gb/s go 5 MB, of which 1,024 in 1,106 B are payload; the buffer may hold the 10 KB between Xoff and Xon
    // and what comes until the pause has an effect more or less at each end.
    let carried = 5_000_000 * 1_024 / 1_106;
    assert!((after - before).abs_diff(carried) < 35_000, "{} of {carried}", after - before);
    assert!((LIMIT.buffer.get()..(LIMIT.buffer + LIMIT.headroom).get()).contains(&held_max), "{held_max}");
    let counters = *sim.host(2).counters();
    assert!(counters.control_sent > 100 && counters.receive_overflow == 0, "{counters:?}");
    let class = sim.report(0).ports[2].classes[3].clone();
    assert!(class.pauses_rx > 50, "{class:?}");
    let paused = class.paused_rx.as_picos() as f64 / sim.now().as_picos() as f64;
    assert!((0.8..0.95).contains(&paused), "nine tenths of the time, and less at first: {paused}");
    assert!(sim.reports().iter().all(|report| report.conservation.holds && report.conservation.dropped == 0));
    let lost = (0..2).map(|n| sim.host(2).receiver_stats(n)).any(|stats| stats.lost + stats.gaps > 0);
    assert!(!lost);
}

/// A pause of 100 quanta lasts 512 ns: it is refreshed for as long as the buffer is above Xon, which is much longer.
#[test]
fn pauses_are_refreshed() {
    let mut scenario = slow(lossless(&star(1, LinkSpec::new(RATE, Span::from_nanos(100))), ""), |_, flow| {
        flow.total = Some(Bytes::mb(1));
        flow.message = Bytes::mb(1);
    });
    let nic = &mut scenario.hosts[1].nic;
    nic.flow_control = PortFlowControl::new(Pfc { quanta: 100, refresh_percent: 50 });
    nic.receive = Some(ReceiveLimit { xon: Bytes::kb(10), ..LIMIT });
    let mut sim = Sim::new(&scenario).unwrap();
    sim.run_until(Time::from_nanos(1_000_000));
    assert!(sim.is_finished());
    let class = sim.report(0).ports[1].classes[3].clone();
    // From 110 KB down to 10 KB it takes 80 us; that is 300 refreshes of 256 ns a pause.
    assert!(class.xoff_rx > 250 * class.pauses_rx && class.pauses_rx > 3, "{class:?}");
    assert_eq!(sim.host(1).counters().receive_overflow, 0);
    assert_eq!(sim.host(1).receive_buffer(CLASS), Bytes::ZERO, "and in the end all is taken in");
}

#[test]
fn what_finds_no_room_is_dropped_and_counted() {
    let tcp = TcpConfig::datacentre(TcpCongestionChoice::cubic());
    let mut sim = Sim::new(&slow(lossy(&star(1, LinkSpec::new(RATE, Span::from_micros(1))), ""), |_, flow| {
        (flow.transport, flow.total) = (Transport::tcp(tcp.clone()), Some(Bytes::mb(3)));
    }))
    .unwrap();
    sim.run_until(Time::from_nanos(100_000_000));
    assert!(sim.is_finished(), "TCP repairs it");
    let (counters, stats) = (*sim.host(1).counters(), *sim.host(0).sender_stats(0));
    assert!(counters.receive_overflow > 0 && counters.control_sent == 0, "{counters:?}");
    assert!(stats.retransmitted >= counters.receive_overflow, "{stats:?}");
    assert_eq!(sim.host(1).receiver_stats(0).payload, Bytes::mb(3));
}
