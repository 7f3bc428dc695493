//! Links that are cut and mended: flow control starts anew at both ends.

use std::sync::Arc;

use weir_config::FlowControlChoice;
use weir_flowctl::PortFlowControl;
use weir_flowctl::kinds::{Cbfc, CbfcConfig};
use weir_nic::host::ReceiveLimit;
use weir_scenario::Scenario;
use weir_scenario::topology::LinkSpec;
use weir_switch_core::counters::DropReason;
use weir_units::{BitRate, Bytes, ClassSet, Span, Time};

use super::net::{CLASS, all_to_last, lossless, received, star};
use crate::Sim;

const RATE: BitRate = BitRate::gbps(10);
/// The last host takes in nothing to speak of, so that it has the switch pause, and the switch the others.
const STANDSTILL: ReceiveLimit = ReceiveLimit {
    rate: BitRate::mbps(1),
    buffer: Bytes::kb(100),
    xon: Bytes::kb(90),
    headroom: Bytes::kb(30),
    from: Time::ZERO,
    until: Time::NEVER,
};
const RECEIVER: usize = 2;

fn scenario(limit: Option<ReceiveLimit>, settings: &str) -> Scenario {
    let mut scenario = lossless(&star(2, LinkSpec::new(RATE, Span::from_micros(1))), settings);
    all_to_last(&mut scenario, |_, _| {});
    scenario.hosts[RECEIVER].nic.receive = limit;
    scenario
}

fn us(us: u64) -> Time {
    Time::from_nanos(us * 1_000)
}

fn xoffs_of(sim: &mut Sim, port: usize) -> (u64, u64) {
    let class = sim.report(0).ports[port].classes[CLASS.index()].clone();
    (class.pauses_tx, class.xoff_tx)
}

/// A sender that the switch pauses has a new link: XOFF is sent again at once, not only at the refresh after half of
/// 3.36 ms.
#[test]
fn an_xoff_that_is_due_is_told_the_new_link() {
    let scenario = scenario(Some(STANDSTILL), "[buffer]\nsize = \"1MB\"\n");
    let mut sim = Sim::new(&scenario).unwrap();
    let mut at = 0;
    while !sim.host(0).paused(sim.now()).contains(CLASS) {
        at += 10;
        assert!(at < 10_000, "the switch pauses the sender");
        sim.run_until(us(at));
    }
    sim.run_until(us(at + 50));
    sim.set_host_link_up(&scenario, 0, false);
    assert_eq!(sim.host(0).paused(sim.now()), ClassSet::EMPTY, "a NIC without a link is not paused");
    sim.run_until(us(at + 100));
    let before = xoffs_of(&mut sim, 0);
    sim.set_host_link_up(&scenario, 0, true);
    sim.run_until(us(at + 102));
    assert_eq!(xoffs_of(&mut sim, 0), (before.0 + 1, before.1 + 1));
    assert_eq!(sim.host(0).paused(sim.now()), CLASS.alone());
    sim.run_until(us(at + 5_000));
    let report = sim.report(0);
    assert_eq!((report.dropped(DropReason::HeadroomViolation), report.conservation.holds), (0, true));
}

/// A receiver that pauses the switch has a new link, and room: the switch sends at once, and not after the pause of 3.36 ms.
#[test]
fn a_pause_ends_with_the_link_of_who_asked_for_it() {
    // From 2 ms on it takes in all that comes.
    let scenario = scenario(Some(ReceiveLimit { until: us(2_000), ..STANDSTILL }), "");
    let mut sim = Sim::new(&scenario).unwrap();
    sim.run_until(us(1_900));
    sim.set_host_link_up(&scenario, RECEIVER, false);
    sim.run_until(us(2_100));
    sim.set_host_link_up(&scenario, RECEIVER, true);
    let before: u64 = received(&sim, 2).iter().sum();
    sim.run_until(us(2_200));
    let after: u64 = received(&sim, 2).iter().sum();
    let carried = RATE.bytes_in(Span::from_micros(100)).get();
    assert!(after - before > carried / 2, "{} of {carried}", after - before);
}

/// Credit starts anew: in the first message of the new link, which comes at once.
#[test]
fn credit_is_there_at_once() {
    let static_policy =
        "[buffer]\nsize = \"4MB\"\nheadroom = \"20KB\"\npolicy = \"static\"\n[buffer.static]\nthreshold = \"300KB\"\n";
    let mut scenario = scenario(None, static_policy);
    let (buffer, period) = (Bytes::kb(300), Span::from_micros(50));
    for port in &mut Arc::make_mut(&mut scenario.switches)[0].ports {
        port.flow_control = FlowControlChoice::new(CbfcConfig { buffer: Some(buffer), period: Some(period) });
    }
    for host in &mut scenario.hosts {
        host.nic.flow_control = PortFlowControl::new(Cbfc { buffer, period });
    }
    let mut sim = Sim::new(&scenario).unwrap();
    sim.run_until(us(1_000));
    sim.set_host_link_up(&scenario, 0, false);
    sim.run_until(us(1_300));
    let frames = |sim: &mut Sim| sim.report(0).ports[0].classes[CLASS.index()].rx_frames;
    let before = frames(&mut sim);
    sim.set_host_link_up(&scenario, 0, true);
    sim.run_until(us(1_340));
    assert!(frames(&mut sim) - before > 20, "before the message of the next period");
    sim.run_until(us(3_000));
    let report = sim.report(0);
    assert_eq!((report.dropped(DropReason::HeadroomViolation), report.ports[0].mismatch.resyncs), (0, 0));
}
