//! Two hosts and a switch, exact to the picosecond; transports and workloads by topic.

mod closed_loop;
mod congestion;
mod fct;
mod feedback;
mod go_back_n;
mod graph;
mod host_ports;
mod links;
mod llr;
mod net;
mod queueing;
mod slow_receiver;
mod spraying;
mod tcp;

use std::net::Ipv4Addr;
use std::sync::Arc;

use weir_nic::host::{FlowConfig, HostConfig};
use weir_scenario::link::{ChosenFrames, FaultPlan};
use weir_scenario::{FlowPlan, HostPlan};
use weir_switch_core::counters::DropReason;
use weir_units::{BitRate, Bytes, Class, LINK_OVERHEAD, MacAddr, Time};
use weir_wire::rocev2::{Dscp, QueuePair};

use super::*;

const RATES: [BitRate; 2] = [BitRate::gbps(10), BitRate::gbps(40)];
const DELAYS: [Span; 2] = [Span::from_micros(3), Span::from_nanos(250)];
/// 1,024 B of payload with an RETH, as it is in a message's first frame, and FCS, preamble and gap; and an acknowledgement.
const FRAME: Bytes = Bytes::new(1_024 + 14 + 20 + 8 + 12 + 16 + 4 + 24);
const ACK: Bytes = Bytes::new(14 + 20 + 8 + 12 + 4 + 4 + 24);

fn host(n: usize) -> HostPlan {
    let mut nic =
        HostConfig::new(MacAddr([2, 0, 0, 0, 0, n as u8 + 1]), Ipv4Addr::new(10, 0, 0, n as u8 + 1), RATES[n]);
    nic.slack = Span::from_micros(5);
    let faults = Default::default();
    HostPlan {
        name: format!("H{n}"),
        switch: 0,
        port: n,
        link_delay: DELAYS[n],
        faults,
        llr: None,
        nic,
        device: None,
        first_port: None,
    }
}

/// Messages of this size from H0 to H1, so many; the switch's third port has no link.
fn scenario(message: Bytes, messages: u64) -> Scenario {
    let mut text = "[classes]\nlossless = [3]\n[pfc]\nreaction = \"0s\"\n".to_owned();
    for (n, rate) in RATES.iter().chain([&BitRate::gbps(1)]).enumerate() {
        text += &format!("[[ports]]\nname = \"p{n}\"\nring = \"r{n}\"\nrate = \"{rate}\"\ndelay = \"3us\"\n");
    }
    let hosts = vec![host(0), host(1)];
    for (n, host) in hosts.iter().enumerate() {
        text += &format!("[[static_macs]]\nmac = \"{}\"\nport = \"p{n}\"\n", host.nic.mac);
    }
    let config = FlowConfig {
        message,
        start: Time::from_nanos(10_000),
        total: Some(message * messages),
        ..FlowConfig::new(QueuePair::new(1), hosts[1].nic.peer(QueuePair::new(2)), Class::new(3), Dscp::new(3))
    };
    Scenario {
        flows: vec![FlowPlan { name: "F".to_owned(), from: 0, to: 1, config }],
        ..Scenario::new("pair", "dt", vec![weir_config::parse("S.toml", &text).unwrap()], hosts)
    }
}

#[test]
fn a_frame_takes_its_time_on_each_wire_and_each_way() {
    let mut sim = Sim::new(&scenario(Bytes::new(1_024), 1)).unwrap();
    sim.run_until(Time::from_nanos(1_000_000));
    let on_wires = |bytes: Bytes| RATES.map(|rate| rate.time_for(bytes)).into_iter().sum::<Span>();
    let way = DELAYS.into_iter().sum::<Span>();
    let completions: Vec<_> = sim.drain_completions().collect();
    assert_eq!(completions.len(), 1);
    assert_eq!(completions[0].fct, on_wires(FRAME) + on_wires(ACK) + way * 2);
    assert!(sim.host(0).is_finished());
    assert_eq!(sim.now(), Time::from_nanos(1_000_000));
}

#[test]
fn frames_follow_each_other_at_the_line_rate() {
    const FRAMES: u64 = 1_000;
    let mut sim = Sim::new(&scenario(Bytes::new(1_024), FRAMES)).unwrap();
    sim.run_until(Time::from_nanos(10_000_000));
    let last = sim.host(1).receiver_stats(0).last_arrival;
    let first_wire = RATES[0].time_for(FRAME) * FRAMES;
    let expected = Time::from_nanos(10_000) + first_wire + RATES[1].time_for(FRAME) + DELAYS[0] + DELAYS[1];
    assert_eq!(last, expected);
    let report = sim.report(0);
    assert!(report.conservation.holds && report.conservation.held() == 0, "{:?}", report.conservation);
    assert_eq!(report.ports[1].classes[3].tx_frames, FRAMES);
    assert_eq!(report.dropped(DropReason::PortDown), 0);
}

/// With none, 10 Gb/s are a frame of 1,098 B each 878.4 ns, to the last one.
#[test]
fn without_an_overhead_the_line_rate_counts_frames_alone() {
    const FRAMES: u64 = 1_000;
    let mut scenario = scenario(Bytes::new(1_024), FRAMES);
    scenario.link_overhead = Bytes::ZERO;
    let mut sim = Sim::new(&scenario).unwrap();
    sim.run_until(Time::from_nanos(10_000_000));
    let frame = FRAME - LINK_OVERHEAD;
    let expected = RATES[0].time_for(frame) * FRAMES + RATES[1].time_for(frame) + DELAYS[0] + DELAYS[1];
    assert_eq!((frame, RATES[0].time_for(frame)), (Bytes::new(1_098), Span::from_picos(878_400)));
    assert_eq!(sim.host(1).receiver_stats(0).last_arrival, Time::from_nanos(10_000) + expected);
    assert_eq!(sim.host(0).sender_stats(0).wire, frame * FRAMES);
}

/// Reports are made anew while frames pass, and not afterwards.
#[test]
fn a_switch_at_rest_is_reported_once() {
    let mut sim = Sim::new(&scenario(Bytes::kb(100), 1)).unwrap();
    let mut report = sim.report(0);
    for (until, is_new) in [(20, true), (900, true), (1_000, false), (2_000, false)] {
        sim.run_until(Time::from_nanos(until * 1_000));
        sim.update_report(0, &mut report);
        assert_eq!(report.at == sim.now(), is_new, "at {until} us");
        let now = Report { at: report.at, ..sim.report(0) };
        assert_eq!(format!("{report:?}"), format!("{now:?}"));
    }
}

/// Connections open and close during the run, and phases alternate: stopping at any instant changes no result.
#[test]
fn traffic_on_a_fabric_is_the_same_run_however_often_it_is_looked_at() {
    let text = "[scenario]\nend = '2ms'\n[topology]\nkind = 'leaf-spine'\nleaves = 2\nspines = 2\nhosts = 2\n\
                rate = '100Gbps'\ndelay = '1us'\n[switch.buffer]\nsize = '1MB'\npolicy = 'dt'\n\
                [switch.classes]\npreset = 'roce'\n[nic]\nretransmit = '100us'\n\
                [[workloads]]\nname = 'short'\nkind = 'poisson'\nclass = 3\nsizes = '3KB'\nload = 0.6\n";
    let runs = weir_scenario::file::parse(std::path::Path::new("fabric.toml"), text).unwrap();
    let scenario = &runs[0].scenario;
    let end = Time::from_nanos(2_000_000);
    let told = |sim: &mut Sim| {
        let done: Vec<CompletedMessage> = sim.drain_completions().collect();
        assert!(done.len() > 1_000, "{} messages", done.len());
        format!("{done:?} {:?} {}", sim.hosts().map(|host| host.stats(end)).collect::<Vec<_>>(), sim.packet_hops())
    };
    let mut at_once = Sim::new(scenario).unwrap();
    at_once.run_until(end);
    let mut by_and_by = Sim::new(scenario).unwrap();
    while by_and_by.now() < end {
        by_and_by.run_until(end.min(by_and_by.now() + Span::from_nanos(377)));
    }
    assert!(told(&mut at_once) == told(&mut by_and_by), "two runs of one scenario differ");
}

/// Snapshots during the run change no result.
#[test]
fn the_same_scenario_is_the_same_run() {
    let mut scenario = scenario(Bytes::kb(30), 200);
    let faults = FaultPlan {
        frames: ChosenFrames::Data,
        loss_ppm: 10_000,
        corruption_ppm: 10_000,
        duplication_ppm: 20_000,
        reordering_ppm: 30_000,
        until: Time::NEVER,
        seed: 5,
        ..FaultPlan::default()
    };
    scenario.hosts[0].faults[1] = faults;
    let end = Time::from_nanos(8_000_000);
    let told = |sim: &Sim| format!("{:?} {:?}", sim.hosts().map(|host| host.stats(end)).collect::<Vec<_>>(), sim.now());
    let mut at_once = Sim::new(&scenario).unwrap();
    at_once.run_until(end);
    let mut by_and_by = Sim::new(&scenario).unwrap();
    for _ in 0..1_000 {
        by_and_by.run_for(Span::from_micros(8));
        by_and_by.snapshot();
    }
    assert_eq!(told(&at_once), told(&by_and_by));
    assert_eq!(at_once.wakeups(), by_and_by.wakeups());
    let (counters, stats) = (at_once.fault_counters(), *at_once.host(1).receiver_stats(0));
    assert!(
        counters.lost > 20 && counters.corrupted > 20 && counters.duplicated > 50 && counters.reordered > 100,
        "{counters:?}"
    );
    assert_eq!(
        (stats.lost, stats.duplicates),
        (counters.lost + counters.corrupted, counters.duplicated),
        "{counters:?} {stats:?}"
    );
    assert!(stats.reordered > 0 && stats.reordered <= counters.reordered, "{counters:?} {stats:?}");
}

#[test]
fn a_stranger_is_flooded_and_a_port_without_a_link_left_out() {
    let mut scenario = scenario(Bytes::new(1_024), 1);
    Arc::make_mut(&mut scenario.switches)[0].static_macs.clear();
    let mut sim = Sim::new(&scenario).unwrap();
    sim.run_until(Time::from_nanos(1_000_000));
    let balance = sim.report(0).conservation;
    assert_eq!((balance.received, balance.copied, balance.sent, balance.dropped), (2, 0, 2, 0));
}

#[test]
fn a_wire_needs_a_rate() {
    let mut scenario = scenario(Bytes::new(1_024), 1);
    Arc::make_mut(&mut scenario.switches)[0].ports[1].rate = None;
    assert_eq!(Sim::new(&scenario).unwrap_err().to_string(), "port p1: no rate; write its `rate`");
    scenario.switches = [].into();
    assert!(matches!(Sim::new(&scenario), Err(SimError::Scenario(ScenarioError::NoSwitch))));
}
