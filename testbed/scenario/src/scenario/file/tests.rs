//! Valid files.

mod changes;
mod fabrics;
mod slow_receivers;
mod workloads;

use std::path::PathBuf;

use weir_config::{Device, PciDevice};
use weir_flowctl::kinds::{Cbfc, GfcBuffer, GfcTime, Pfc};
use weir_mmu::policy::{ConstantThreshold, DynamicThresholdConfig, StaticThresholdConfig};
use weir_nic::host::{CongestionControlChoice, FrameSizes, Host, HostError, Repeat};
use weir_units::{BitRate, Bytes, Class, ClassSet, MacAddr, SerialisationRounding, Span, Time};
use weir_wire::rocev2::Dscp;

use super::*;
use crate::link::{ChosenFrames, ReorderDelay};
use crate::scenario::{HostFlows, PortRef};

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn good(text: &str) -> Vec<ScenarioRun> {
    parse(&here("tests/good/text.toml"), text).unwrap_or_else(|errors| panic!("{}", errors.render(false)))
}

fn ring() -> Vec<ScenarioRun> {
    load(&here("../../scenarios/gfc-ring.toml")).unwrap_or_else(|errors| panic!("{}", errors.render(false)))
}

/// Parses two switches with a host each, and `more`.
fn pair(more: &str) -> Vec<ScenarioRun> {
    good(&pair_text(more))
}

fn pair_text(more: &str) -> String {
    format!(
        "scenario.end = \"10ms\"\nswitch.port.rate = \"10Gbps\"\n[[switches]]\nname = \"S1\"\n[[switches]]\nname = \"S2\"\n\
         [[hosts]]\nname = \"H1\"\nport = \"S1.h1\"\n[[hosts]]\nname = \"H2\"\nport = \"S2.h2\"\n\
         [[links]]\nends = [\"S1.next\", \"S2.prev\"]\n{more}"
    )
}

fn can_start(scenario: &Scenario) {
    for (n, plan) in scenario.hosts.iter().enumerate() {
        let HostFlows { sends, receives } = scenario.flows_of(n);
        let sends: Vec<_> = sends.into_iter().map(|(_, flow)| flow).collect();
        let receives: Vec<_> = receives.into_iter().map(|(_, receiver)| receiver).collect();
        let host: Result<Host, HostError> = Host::new(plan.nic.clone(), &sends, &receives);
        host.unwrap();
    }
}

#[test]
fn the_ring_has_eight_runs() {
    let runs = ring();
    let names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
    assert_eq!(names[..4], ["PFC, arrival", "CBFC, arrival", "GFC by stages, arrival", "GFC by time, arrival"]);
    for (n, run) in runs.iter().enumerate() {
        let scenario = &run.scenario;
        assert_eq!((scenario.check(), run.time_dilation, scenario.time_dilation()), (Ok(()), Some(240), 240));
        assert_eq!((scenario.switches.len(), scenario.links.len(), scenario.flows.len()), (3, 3, 3));
        let queue = &scenario.switches[1].classes.queues[3];
        assert_eq!(queue.arbitration.kind(), if n < 4 { "arrival" } else { "round-robin" }, "{}", run.name);
        assert!(run.name.starts_with(scenario.switches[0].ports[0].flow_control.label()));
        can_start(scenario);
    }
}

#[test]
fn every_input_of_the_ring_has_a_megabyte() {
    for run in ring() {
        let switch = &run.scenario.switches[0];
        let Some(ConstantThreshold::Given(threshold)) = switch.buffer.policy.constant_threshold() else {
            panic!("another policy")
        };
        let kept = match switch.ports[0].flow_control.limit() {
            Some(limit) => limit.given.unwrap(),
            None => threshold + switch.headroom(0).unwrap(),
        };
        assert_eq!(kept, Bytes::mb(1), "{}", run.name);
        assert!(threshold * 3 < switch.shared_size(), "{}", run.name);
    }
}

#[test]
fn flows_of_the_ring_go_clockwise() {
    let scenario = ring().remove(0).scenario;
    let ports = |switch: usize| {
        let config = &scenario.switches[switch];
        let name = |(mac, port): &(MacAddr, usize)| (mac.0[5], config.ports[*port].name.clone());
        config.static_macs.iter().map(name).collect::<Vec<_>>()
    };
    let expected = |ports: [&str; 3]| (1..).zip(ports.map(str::to_owned)).collect::<Vec<(u8, String)>>();
    assert_eq!(ports(0), expected(["h1", "next", "next"]));
    assert_eq!(ports(1), expected(["next", "h2", "next"]));
    assert_eq!(ports(2), expected(["next", "next", "h3"]));
    let [first, second] = scenario.links[2].ends.map(|end| scenario.port_name(end));
    assert_eq!((first.as_str(), second.as_str()), ("S3.next", "S1.prev"));
    assert_eq!(scenario.links[2].delay, Span::from_micros(40));
    let starts: Vec<u64> = scenario.flows.iter().map(|flow| flow.config.start.as_nanos()).collect();
    assert_eq!(starts, [0, 0, 3_000_000]);
    let drawn: Vec<String> = scenario.draw.iter().map(|place| scenario.port_name(*place)).collect();
    assert_eq!(drawn, ["S1.h1", "S1.prev"]);
}

#[test]
fn hosts_speak_what_their_port_speaks() {
    let hosts: Vec<_> = ring().into_iter().map(|run| run.scenario.hosts[2].nic.clone()).collect();
    assert!(hosts[0].flow_control.downcast::<Pfc>().is_some());
    assert!(hosts[1].flow_control.downcast::<Cbfc>().is_some());
    assert!(hosts[2].flow_control.downcast::<GfcBuffer>().is_some());
    assert!(hosts[3].flow_control.downcast::<GfcTime>().is_some());
    let host = &hosts[0];
    assert_eq!(
        (host.lossless, host.queue_of_dscp[26], host.ack_class),
        (ClassSet::from_bits(1 << 3), 3, Class::new(6))
    );
    let pulsed =
        pair("[switch.port.flow_control]\nkind = \"gfc-buffer\"\npeer = \"pfc\"\nb_m = \"900KB\"\ntau = \"5us\"\n");
    let nic = &pulsed[0].scenario.hosts[0].nic;
    assert_eq!(nic.flow_control.downcast(), Some(&Pfc { quanta: 65_535, refresh_percent: 50 }));
}

/// Three hosts at a switch; frames of DSCP 3 that come by port `b` leave by queue 2.
fn queues(more: &str) -> Result<Vec<ScenarioRun>, ConfigErrors> {
    let hosts = ["a", "b", "c"].map(|name| format!("[[hosts]]\nname = \"{name}\"\nport = \"S1.{name}\"\n")).concat();
    let text = format!(
        "scenario.end = \"10ms\"\n[[switches]]\nname = \"S1\"\n\
         config = \"queues.toml\"\n{hosts}{more}"
    );
    parse(&here("tests/good/text.toml"), &text)
}

fn flow_to_c(from: &str) -> String {
    format!("[[flows]]\nfrom = \"{from}\"\nto = \"c\"\nclass = 3\n")
}

#[test]
fn a_host_pauses_the_queue_of_its_senders_port() {
    for (from, queue) in [("a", 3), ("b", 2)] {
        let runs = queues(&flow_to_c(from)).unwrap();
        let host = &runs[0].scenario.hosts[2].nic;
        assert_eq!((host.queue_of_dscp[3], host.group_of_dscp[3]), (queue, 3), "{from}");
    }
    // Acknowledgements have the priority group of the receiver's port.
    let runs = queues("[nic]\nack_class = \"with-data\"\n[[flows]]\nfrom = \"c\"\nto = \"b\"\nclass = 3\n").unwrap();
    assert_eq!([2, 1].map(|host| runs[0].scenario.hosts[host].nic.queue_of_dscp[3]), [2, 3]);
}

#[test]
fn the_class_of_acknowledgements_is_asked_of_receivers_alone() {
    let flow = |[from, to]: [&str; 2]| {
        queues(&format!(
            "[[flows]]\nfrom = \"{from}\"\nto = \"{to}\"\nclass = 1\ntransport = \"tcp-cubic\"\ntcp = {{ ack_class = 4 }}\n"
        ))
    };
    // Port a has no frames of priority group 4.
    let runs = flow(["a", "c"]).unwrap();
    let weir_nic::host::Transport::Tcp(tcp) = &runs[0].scenario.flows[0].config.transport else {
        panic!("another transport")
    };
    assert_eq!(tcp.acks.map(|acks| acks.class), Some(Class::new(4)));
    assert!(flow(["c", "a"]).unwrap_err().render(false).contains("port a: no DSCP has priority group 4"));
}

#[test]
fn a_host_that_pauses_knows_its_frames_by_their_dscp() {
    let both = flow_to_c("a") + &flow_to_c("b");
    assert!(queues(&both).is_ok());
    let slow = "[[slow_receivers]]\nhosts = [\"c\"]\nrate = \"1Gbps\"\n";
    let errors = queues(&(both + slow)).unwrap_err().render(false);
    assert!(errors.contains("by queue 3 if they come from port a, and by queue 2 from port b"), "{errors}");
    assert!(errors.contains("tc_to_queue = { 3 = 3 } for port b") && errors.contains("queues.toml:15"), "{errors}");
}

#[test]
fn defaults_are_those_of_the_reference() {
    let runs = pair("[[flows]]\nfrom = \"H2\"\nto = \"H1\"\nclass = 4\n");
    assert_eq!(runs.len(), 1);
    let ScenarioRun { name, scenario, time_dilation, .. } = &runs[0];
    assert_eq!((name.as_str(), scenario.name.as_str(), time_dilation), ("text", "text", &None));
    assert_eq!((scenario.sample_every, scenario.end), (Span::from_micros(50), Time::from_nanos(10_000_000)));
    let window = &scenario.windows[0];
    assert_eq!((window.from, window.to), (Time::from_nanos(7_500_000), scenario.end));
    assert_eq!(scenario.draw, scenario.hosts.iter().map(|host| host.place()).collect::<Vec<_>>());
    assert!(scenario.capture.is_none());
    let flow = &scenario.flows[0];
    assert_eq!((flow.name.as_str(), flow.from, flow.to), ("F1", 1, 0));
    let config = &flow.config;
    assert_eq!((config.dscp, config.message, config.repeat), (Dscp::new(4), Bytes::mb(1), Repeat::BackToBack));
    assert_eq!((config.start, config.stop, config.total), (Time::ZERO, scenario.end, None));
    assert!(config.rate.is_none() && config.congestion_control.is_none());
    let host = &scenario.hosts[1];
    assert_eq!((host.nic.rate, host.nic.sizes), (BitRate::gbps(10), FrameSizes::rocev2(1_024)));
    assert_eq!((host.nic.mac, host.link_delay), (MacAddr([2, 0, 0, 0, 0, 2]), Span::from_nanos(100)));
    // Ports have the order of links and hosts in the file.
    let names: Vec<&str> = scenario.switches[1].ports.iter().map(|port| port.name.as_str()).collect();
    assert_eq!(names, ["h2", "prev"]);
    // 50 us of real time.
    assert_eq!(scenario.switches[0].pfc.reaction, Span::from_nanos(500));
}

#[test]
fn ways_may_have_the_scenarios_seed() {
    for (keys, seed) in [("seed = 7\n", 0), ("seed = 7\necmp_seed = \"seed\"\n", 7), ("ecmp_seed = 3\n", 3)] {
        let fabric = "[topology]\nkind = \"single\"\nhosts = 2\nrate = \"10Gbps\"\ndelay = \"1us\"\n";
        assert_eq!(good(&format!("[scenario]\nend = \"1ms\"\n{keys}{fabric}"))[0].scenario.ecmp_seed, seed, "{keys}");
    }
}

#[test]
fn another_dilation_changes_the_default_reaction() {
    let run = pair("").remove(0);
    let scenario = run.dilated(1_000).unwrap();
    assert_eq!((scenario.time_dilation(), scenario.switches[1].pfc.reaction), (1_000, Span::from_nanos(50)));
    // In real time 50 us of headroom are too much for four queues of each port.
    let tight = pair("[switch.buffer]\nsize = \"100KB\"\n");
    let errors = tight[0].dilated(1).unwrap_err();
    let error = errors.iter().next().unwrap();
    assert!(error.message().starts_with("every switch: `size` 100KB must be more than"), "{error}");
    assert_eq!(error.spanned_text(), "\"100KB\"");
}

#[test]
fn a_run_that_chooses_another_policy_leaves_the_common_ones_table() {
    let runs = pair(
        "[switch.buffer]\npolicy = \"static\"\n[switch.buffer.static]\nthreshold = \"100KB\"\n\
         [[runs]]\nname = \"ST\"\n[[runs]]\nname = \"DT\"\n[runs.switch.buffer]\npolicy = \"dt\"\n\
         [[runs]]\nname = \"larger\"\n[runs.switch.buffer.static]\nthreshold = \"200KB\"\n",
    );
    let policies: Vec<_> = runs.iter().map(|run| &run.scenario.switches[1].buffer.policy).collect();
    assert_eq!(policies[0].downcast(), Some(&StaticThresholdConfig { threshold: Some(Bytes::kb(100)) }));
    assert_eq!(policies[1].name(), "dt");
    assert_eq!(policies[2].downcast(), Some(&StaticThresholdConfig { threshold: Some(Bytes::kb(200)) }));
    assert_eq!(runs[1].scenario.policy, "dt");
}

#[test]
fn faults_befall_the_direction_that_they_name() {
    let runs = pair(
        "[[links.faults]]\ntoward = \"S1.next\"\nloss = 0.5\nfrom = \"1ms\"\nuntil = \"2ms\"\nseed = 7\n\
         [[hosts]]\nname = \"H3\"\nport = \"S1.h3\"\nfaults = [{ toward = \"S1.h3\", frames = \"data\", dscp = 3, \
         reordering = 0.001, corruption = 0.01, hold_back = \"5us\", until_next = false }]\n",
    );
    let scenario = &runs[0].scenario;
    let [toward_second, toward_first] = scenario.links[0].faults;
    assert!(toward_second.is_none());
    assert_eq!((toward_first.loss_ppm, toward_first.seed, toward_first.frames), (500_000, 7, ChosenFrames::Control));
    assert_eq!((toward_first.from, toward_first.until), (Time::from_nanos(1_000_000), Time::from_nanos(2_000_000)));
    let [toward_host, toward_switch] = scenario.hosts[2].faults;
    assert!(toward_host.is_none());
    assert_eq!((toward_switch.reordering_ppm, toward_switch.corruption_ppm), (1_000, 10_000));
    assert_eq!(toward_switch.until, scenario.end);
    assert_eq!(toward_switch.frames, ChosenFrames::DataWith(Dscp::new(3)));
    assert_eq!(toward_switch.reorder_delay, ReorderDelay::For(Span::from_micros(5)));
}

#[test]
fn real_wires_have_devices_and_no_delay() {
    let scenario = good(
        "[scenario]\nend = \"1ms\"\n[switch.port]\nrate = \"10Gbps\"\ndelay = \"2us\"\n[[switches]]\nname = \"S1\"\n\
         [[switches]]\nname = \"S2\"\n[[links]]\nends = [\"S1.a\", \"S2.a\"]\n\
         devices = [{ pci = \"81:00.0\" }, { pci = \"82:00.0\" }]\n[[links]]\nends = [\"S1.b\", \"S2.b\"]\n\
         [[hosts]]\nname = \"H1\"\nport = \"S1.h1\"\ndevice = { tap = \"t0\" }\nport_device = { af_packet = \"veth0\" }\n",
    )
    .remove(0)
    .scenario;
    let [wire, link] = &scenario.links[..] else { panic!("two links") };
    assert_eq!((scenario.is_emulated(wire), scenario.is_emulated(link)), (false, true));
    assert_eq!((wire.delay, link.delay), (Span::ZERO, Span::from_micros(2)));
    let ports = &scenario.switches[0].ports;
    assert_eq!(
        (&ports[0].device, ports[0].delay),
        (&Device::Pci(PciDevice { address: "0000:81:00.0".into(), devargs: None }), Span::from_micros(2))
    );
    assert_eq!(ports[2].device, Device::AfPacket("veth0".into()));
    assert_eq!(scenario.hosts[0].device, Some(Device::Tap("t0".into())));
    assert_eq!(scenario.hosts[0].link_delay, Span::ZERO);
}

#[test]
fn a_switch_of_its_own_file_keeps_what_the_scenario_leaves() {
    let runs = good(
        "[scenario]\nend = \"1ms\"\n[[switches]]\nname = \"left\"\nconfig = \"leaf.toml\"\n[[switches]]\nname = \"right\"\n\
         config = \"leaf.toml\"\n[[links]]\nends = [\"left.up\", \"right.up\"]\ndelay = \"9us\"\n\
         [[hosts]]\nname = \"A\"\nport = \"left.h1\"\n[[hosts]]\nname = \"B\"\nport = \"right.h2\"\nrate = \"1Gbps\"\n\
         [[flows]]\nfrom = \"A\"\nto = \"B\"\nclass = 3\n[[runs]]\nname = \"as it is\"\n[[runs]]\nname = \"less\"\n\
         [runs.switch.buffer.dt]\nalpha = \"1/16\"\n",
    );
    let scenario = &runs[0].scenario;
    let [left, right] = &scenario.switches[..] else { panic!("two switches") };
    assert_eq!((left.name.as_str(), right.name.as_str()), ("left", "right"));
    assert_eq!((left.buffer.size, left.ports.len()), (Bytes::mb(2), 3));
    assert_eq!((left.ports[2].delay, left.ports[2].rate), (Span::from_micros(9), Some(BitRate::gbps(40))));
    assert_eq!(left.ports[2].flow_control.kind(), "pause");
    // Ports of the scenario are emulated; the other one keeps its device.
    assert!(matches!(left.ports[0].device, Device::Ring(_)) && matches!(left.ports[2].device, Device::Ring(_)));
    assert_eq!(left.ports[1].device, Device::Tap("weir-h2".into()));
    assert_eq!((scenario.hosts[0].nic.rate, scenario.hosts[0].link_delay), (BitRate::gbps(10), Span::from_micros(1)));
    assert_eq!(right.ports[1].rate, Some(BitRate::gbps(1)));
    assert_eq!(left.static_macs, [(MacAddr([2, 0, 0, 0, 0, 1]), 0), (MacAddr([2, 0, 0, 0, 0, 2]), 2)]);
    let alpha = |run: &ScenarioRun| {
        let policy = &run.scenario.switches[0].buffer.policy;
        policy.downcast::<DynamicThresholdConfig>().expect("dt").alpha.to_string()
    };
    assert_eq!((alpha(&runs[0]), alpha(&runs[1])), ("1/4".to_owned(), "1/16".to_owned()));
}

#[test]
fn routes_choose_among_links() {
    let text = "[[links]]\nends = [\"S1.second\", \"S2.second\"]\n[[routes]]\nswitch = \"S1\"\nhost = \"H2\"\nport = \"second\"\n\
                [[flows]]\nfrom = \"H1\"\nto = \"H2\"\npath = [\"S1\", \"S2\"]\nclass = 3\n";
    let scenario = pair(text).remove(0).scenario;
    let port = |switch: usize, host: usize| {
        let port = scenario.switches[switch].static_macs[host].1;
        scenario.port_name(PortRef { switch, port })
    };
    assert_eq!((port(0, 1), port(1, 0)), ("S1.second".to_owned(), "S2.prev".to_owned()));
}

#[test]
fn each_switchs_text_says_what_it_is() {
    let runs = ring();
    let text = runs[4].scenario.switches[1].source.text();
    assert!(text.lines().next().unwrap().ends_with("gfc-ring.toml: switch S2 in run \"PFC, round-robin\""), "{text}");
    assert!(text.contains("\n[buffer.static]\nthreshold = \"800KB\"\n"), "{text}");
}
