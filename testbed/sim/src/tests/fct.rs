//! Completion times on idle paths.

use weir_nic::host::CongestionControlChoice;
use weir_nic::host::FrameSizes;
use weir_scenario::topology::{Fabric, Framing, LinkSpec, Routes, ideal_fct};
use weir_scenario::{FlowPlan, Scenario};
use weir_units::{BitRate, Bytes, LINK_OVERHEAD, SerialisationRounding, Span, Time};

use super::net::{flow, lossless};
use crate::Sim;

/// Switches in a row with a host at each end, over cables in their order.
fn row(cables: &[LinkSpec]) -> Fabric {
    let mut fabric = Fabric::new();
    let switches: Vec<usize> = (1..cables.len()).map(|n| fabric.add_switch(format!("S{n}"))).collect();
    fabric.add_host("H1", switches[0], cables[0]);
    for (pair, cable) in switches.windows(2).zip(&cables[1..]) {
        fabric.join(pair[0], pair[1], *cable);
    }
    fabric.add_host("H2", switches[switches.len() - 1], cables[cables.len() - 1]);
    fabric
}

fn measured(fabric: &Fabric, message: u64) -> Span {
    measured_on(fabric, message, FrameSizes::rocev2(1_024), LINK_OVERHEAD)
}

/// Completion time on links with this overhead, with frames of these lengths.
fn measured_on(fabric: &Fabric, message: u64, sizes: FrameSizes, link_overhead: Bytes) -> Span {
    measured_as(fabric, message, sizes, link_overhead, |_, _| {})
}

/// After a change of the scenario and its flow.
fn measured_as(
    fabric: &Fabric,
    message: u64,
    sizes: FrameSizes,
    link_overhead: Bytes,
    change: impl Fn(&mut Scenario, &mut FlowPlan),
) -> Span {
    let mut scenario = lossless(fabric, "");
    scenario.hosts.iter_mut().for_each(|host| host.nic.sizes = sizes);
    scenario.link_overhead = link_overhead;
    let mut plan = flow(&scenario, 0, 1);
    (plan.config.message, plan.config.total) = (Bytes::new(message), Some(Bytes::new(message)));
    plan.config.start = Time::from_nanos(777);
    change(&mut scenario, &mut plan);
    scenario.flows.push(plan);
    let mut sim = Sim::new(&scenario).unwrap();
    sim.run_until(Time::from_nanos(5_000_000));
    let fcts: Vec<Span> = sim.drain_completions().map(|done| done.fct).collect();
    assert_eq!((fcts.len(), sim.is_finished()), (1, true));
    fcts[0]
}

fn ideal(fabric: &Fabric, message: u64) -> Span {
    ideal_with(fabric, message, &Framing::rocev2(1_024))
}

fn ideal_with(fabric: &Fabric, message: u64, framing: &Framing) -> Span {
    let routes = Routes::shortest(fabric).unwrap();
    let (there, back) = (routes.path_delay(0, 1, 0), routes.path_delay(1, 0, 0));
    ideal_fct(&there, &back, Bytes::new(message), framing)
}

/// On the wire a first frame has 1,122 B, others have 1,106 B, and an acknowledgement has 86 B.
#[test]
fn one_flow_takes_what_its_frames_take_over_one_and_three_switches() {
    let cable = |gbps, ns| LinkSpec::new(BitRate::gbps(gbps), Span::from_nanos(ns));
    // 100 Gb/s, 80 ps a byte. The first frame takes its time on both links; the others follow it without a gap on the
    // second, as it is the longest. The acknowledgement takes its time on both.
    let one = row(&[cable(100, 1_000), cable(100, 500)]);
    let bytes = 2 * 1_122 + 9 * 1_106 + 2 * 86;
    assert_eq!(measured(&one, 10_240), Span::from_picos(bytes * 80) + Span::from_nanos(2 * 1_500));
    assert_eq!(measured(&one, 10_240), ideal(&one, 10_240));
    // Three switches have two links of 400 Gb/s between them, 20 ps a byte.
    let three = row(&[cable(100, 1_000), cable(400, 2_000), cable(400, 2_000), cable(100, 500)]);
    let on_hosts_links = 2 * 1_122 + 9 * 1_106 + 2 * 86;
    let on_others = 2 * 1_122 + 2 * 86;
    let expected = Span::from_picos(on_hosts_links * 80 + on_others * 20) + Span::from_nanos(2 * 5_500);
    assert_eq!(measured(&three, 10_240), expected);
    assert_eq!(measured(&three, 10_240), ideal(&three, 10_240));
}

#[test]
fn lone_flows_of_any_size_over_any_rates_are_ideal() {
    let cable = |gbps, ns| LinkSpec::new(BitRate::gbps(gbps), Span::from_nanos(ns));
    for gbps in [[10, 40, 25, 100], [100, 10, 40, 25], [25, 25, 25, 10]] {
        let cables: Vec<LinkSpec> = gbps.into_iter().zip([300, 1_000, 70, 5_000]).map(|(g, ns)| cable(g, ns)).collect();
        let fabric = row(&cables);
        for message in [1, 1_023, 1_024, 1_025, 4_000, 100_001] {
            assert_eq!(measured(&fabric, message), ideal(&fabric, message), "{message} B over {gbps:?} Gb/s");
        }
    }
}

/// As the public simulators count: a frame's own bytes, 1,048 of a full one and 60 of an acknowledgement. Messages of a byte have
/// frames of 49, shorter than any real one.
#[test]
fn links_take_what_they_are_said_to_beyond_a_frame() {
    let cable = |gbps, ns| LinkSpec::new(BitRate::gbps(gbps), Span::from_nanos(ns));
    let one = row(&[cable(100, 1_000), cable(100, 1_000)]);
    let bytes = 1_048 + 10 * 1_048 + 2 * 60;
    let expected = Span::from_picos(bytes * 80) + Span::from_nanos(4_000);
    assert_eq!(measured_on(&one, 10_000, FrameSizes::ns3(1_000), Bytes::ZERO), expected);
    let cables = [cable(10, 0), cable(40, 1_000), cable(25, 0), cable(100, 70)];
    for fabric in [one, row(&cables)] {
        for sizes in [FrameSizes::ns3(1_000), FrameSizes::rocev2(1_024)] {
            for overhead in [0, 24, 38] {
                let framing = Framing::for_sizes(&sizes, overhead);
                for message in [1, 1_000, 2_049, 100_001] {
                    let fct = measured_on(&fabric, message, sizes, Bytes::new(u64::from(overhead)));
                    assert_eq!(fct, ideal_with(&fabric, message, &framing), "{message} B, {overhead} B, {sizes:?}");
                }
            }
        }
    }
}

/// Messages of one frame, of two, of many with a short last one; over links of one rate, and with the slowest first, amid and
/// last.
#[test]
fn the_slowest_link_may_be_anywhere() {
    for (gbps, message) in
        [([10, 10, 10], 1_023), ([40, 10, 25], 2_000), ([10, 40, 100], 64_010), ([40, 25, 10], 64_010)]
    {
        let cables = [(gbps[0], 3), (gbps[1], 2), (gbps[2], 1)];
        let fabric = row(&cables.map(|(gbps, us)| LinkSpec::new(BitRate::gbps(gbps), Span::from_micros(us))));
        assert_eq!(measured(&fabric, message), ideal(&fabric, message));
    }
}

/// A message of 1 MB in the public simulators, which cut the times of frames to whole nanoseconds: 1,048 B take 83.84 ns at 100 Gb/s
/// and 20.96 at 400, an acknowledgement of 60 B 4.8 and 1.2.
#[test]
fn times_may_be_cut_to_whole_nanoseconds_as_in_ns3() {
    let cable = |gbps| LinkSpec::new(BitRate::gbps(gbps), Span::from_micros(1));
    let [one, three] = [row(&[cable(100), cable(100)]), row(&[cable(100), cable(400), cable(400), cable(100)])];
    let sizes = FrameSizes::ns3(1_000);
    let of = |fabric: &Fabric, message, times, control: &CongestionControlChoice| {
        measured_as(fabric, message, sizes, Bytes::ZERO, |scenario, plan| {
            scenario.frame_times = times;
            plan.config.congestion_control = control.clone();
        })
    };
    let ns = |times: &[u64]| Span::from_nanos(times.iter().sum());
    let dcqcn = CongestionControlChoice::preset("dcqcn-hpcc", BitRate::gbps(100), Span::from_micros(9)).unwrap();
    for control in [CongestionControlChoice::none(), dcqcn] {
        // 1,000 frames leave the host, the last one takes its time on each further link, and its acknowledgement on all.
        let fct = |fabric, times| of(fabric, 1_000_000, times, &control);
        assert_eq!(fct(&one, SerialisationRounding::Ns3), ns(&[1_000 * 83, 83, 2 * 4, 4 * 1_000]));
        assert_eq!(fct(&three, SerialisationRounding::Ns3), ns(&[1_000 * 83, 20, 20, 83, 4 + 1 + 1 + 4, 8 * 1_000]));
        // What it takes to the picosecond: 1.0 % and 0.9 % more.
        let exact = Span::from_picos(1_001 * 83_840 + 2 * 4_800) + ns(&[4_000]);
        assert_eq!(fct(&one, SerialisationRounding::Exact), exact);
        let exact = Span::from_picos(1_001 * 83_840 + 2 * 20_960 + 2 * 4_800 + 2 * 1_200) + ns(&[8_000]);
        assert_eq!(fct(&three, SerialisationRounding::Exact), exact);
    }
    for fabric in [one, three, row(&[cable(10), cable(40), cable(25), cable(100)])] {
        for message in [1, 1_000, 2_049, 100_001] {
            let framing = Framing::for_sizes(&sizes, 0).timed(SerialisationRounding::Ns3);
            let fct = of(&fabric, message, SerialisationRounding::Ns3, &CongestionControlChoice::none());
            assert_eq!(fct, ideal_with(&fabric, message, &framing), "{message} B");
        }
    }
}
