//! Scenarios made from fabrics by hand.

use std::net::Ipv4Addr;
use std::sync::Arc;

use weir_nic::host::{FlowConfig, FrameSizes, HostConfig};
use weir_scenario::topology::{Fabric, LinkSpec, Routes, SingleSwitch};
use weir_scenario::{FlowPlan, HostPlan, LinkPlan, Scenario};
use weir_units::{BitRate, Class, MacAddr, Span};
use weir_wire::rocev2::{Dscp, QueuePair};

use crate::Sim;

/// The class of all flows, whose code point has the same number. It is lossless in [`lossless`].
pub(super) const CLASS: Class = Class::new(3);

/// Switches that react at once, with a lossless class; what else they are to be is in `settings`, tables only.
pub(super) fn lossless(fabric: &Fabric, settings: &str) -> Scenario {
    scenario(fabric, &format!("[classes]\nlossless = [3]\n{settings}"))
}

/// Switches without lossless classes.
pub(super) fn lossy(fabric: &Fabric, settings: &str) -> Scenario {
    scenario(fabric, &format!("[classes]\nlossless = []\n{settings}"))
}

fn scenario(fabric: &Fabric, settings: &str) -> Scenario {
    let behind = fabric.port_names();
    let cables = |switch: usize, port: usize| {
        let of_host = fabric.hosts.iter().find(|host| (host.at.switch, host.at.port) == (switch, port));
        let is_end = |end: &weir_scenario::PortRef| (end.switch, end.port) == (switch, port);
        let of_link = fabric.links.iter().find(|link| link.ends.iter().any(is_end));
        of_host.map(|host| host.cable()).or(of_link.map(|link| link.cable())).unwrap()
    };
    let switches: Vec<_> = (0..fabric.switches.len())
        .map(|switch| {
            let name = &fabric.switches[switch].name;
            let mut text = format!("[switch]\nname = \"{name}\"\nmtu = 9000\n{settings}[pfc]\nreaction = \"0s\"\n");
            for (port, name) in behind[switch].iter().enumerate() {
                let LinkSpec { rate, delay } = cables(switch, port);
                let ring = format!("{switch}-{port}");
                text += &format!(
                    "[[ports]]\nname = \"{name}\"\nring = \"{ring}\"\nrate = \"{rate}\"\ndelay = \"{}ps\"\n",
                    delay.as_picos()
                );
            }
            let parsed = weir_config::parse("S.toml", &text);
            parsed.unwrap_or_else(|errors| panic!("{}", errors.render(false)))
        })
        .collect();
    let hosts = fabric.hosts.iter().zip(1..).map(|(host, n)| {
        let mac = MacAddr([2, 0, 0, 0, 0, n]);
        let mut nic = HostConfig::new(mac, Ipv4Addr::new(10, 0, 0, n), host.rate);
        nic.lossless = switches[0].classes.lossless;
        nic.queue_of_dscp = switches[0].classes.map.dscp;
        nic.group_of_dscp = nic.queue_of_dscp;
        HostPlan {
            name: host.name.clone(),
            switch: host.at.switch,
            port: host.at.port,
            first_port: None,
            link_delay: host.delay,
            faults: Default::default(),
            llr: None,
            nic,
            device: None,
        }
    });
    let hosts = hosts.collect();
    let links = fabric.links.iter();
    Scenario {
        links: links
            .map(|link| LinkPlan { ends: link.ends, delay: link.delay, faults: Default::default(), llr: None })
            .collect(),
        routes: Some(Arc::new(Routes::shortest(fabric).unwrap())),
        ..Scenario::new("by hand", "dt", switches, hosts)
    }
}

/// A switch with senders on its first ports and one receiver on the last.
pub(super) fn star(senders: usize, cable: LinkSpec) -> Fabric {
    SingleSwitch { senders, sender_cable: cable, receivers: 1, receiver_cable: cable }.fabric().unwrap()
}

/// A flow from one host to another of RDMA without end, at line rate.
pub(super) fn flow(scenario: &Scenario, from: usize, to: usize) -> FlowPlan {
    let number = scenario.flows.len() as u32;
    let config = FlowConfig::new(
        QueuePair::new(0x1000 + number),
        scenario.hosts[to].nic.peer(QueuePair::new(0x2000 + number)),
        CLASS,
        Dscp::new(CLASS.index() as u8),
    );
    FlowPlan { name: format!("F{number}"), from, to, config }
}

/// A flow from each of the first hosts to the last one.
pub(super) fn all_to_last(scenario: &mut Scenario, change: impl Fn(usize, &mut FlowConfig)) {
    let last = scenario.hosts.len() - 1;
    for from in 0..last {
        let mut plan = flow(scenario, from, last);
        change(from, &mut plan.config);
        scenario.flows.push(plan);
    }
}

/// Frames with so much payload.
pub(super) fn set_payload(scenario: &mut Scenario, payload: u16) {
    scenario.hosts.iter_mut().for_each(|host| host.nic.sizes = FrameSizes::rocev2(payload));
}

/// What the connections of the last host have received, payload without duplicates.
pub(super) fn received(sim: &Sim, connections: usize) -> Vec<u64> {
    let last = sim.hosts().last().unwrap();
    (0..connections).map(|n| last.receiver_stats(n).payload.get()).collect()
}

/// Each connection's share of what a line carries of payload, over so long.
pub(super) fn shares(before: &[u64], after: &[u64], line: BitRate, over: Span, payload: u64, frame: u64) -> Vec<f64> {
    let carried = line.bytes_in(over).get() as f64 * payload as f64 / frame as f64;
    before.iter().zip(after).map(|(before, after)| (after - before) as f64 / carried).collect()
}

/// Jain's index of fairness: 1 for equal shares.
pub(super) fn jain(shares: &[f64]) -> f64 {
    let (sum, squares) = shares.iter().fold((0.0, 0.0), |(sum, squares), share| (sum + share, squares + share * share));
    sum * sum / (shares.len() as f64 * squares)
}

/// What waits in an egress queue.
pub(super) fn queue(sim: &Sim, port: usize, class: Class) -> u64 {
    sim.shared(0).mmu.egress_length(weir_units::QueueId::new(weir_units::PortId(port as u16), class))
}
