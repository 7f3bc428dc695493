//! Paths of a run's frames: equal-cost paths or static ones, and the longest round trip.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_nic::host::TelemetryMode;
use weir_switch_core::flow_control::RATE_UNKNOWN;
use weir_units::{BitRate, Bytes, Span};

use super::build::Build;
use super::forwarding::StaticForwarding;
use crate::scenario::{HostPlan, LinkPeer, PortRef};
use crate::topology::{Fabric, FabricLink, Framing, HostNode, LinkSpec, PathDelay, Routes, SwitchNode, base_rtt};

/// Forwarding of frames: routes or static MACs.
pub(super) enum Routing<'p> {
    Routes(Arc<Routes>),
    Static(StaticRouting<'p>),
}

/// Paths by static MACs.
pub(super) struct StaticRouting<'p> {
    forwarding: &'p StaticForwarding,
    peers: BTreeMap<PortRef, (LinkSpec, LinkPeer)>,
    hosts: Vec<(LinkSpec, PortRef)>,
    places: Vec<BTreeMap<String, usize>>,
}

/// Returns the fabric of a run, with the ports of the switches' configurations.
pub(super) fn fabric(build: &Build<'_>) -> Fabric {
    let topology = &build.plan.topology;
    let switches = topology.switches.iter().zip(&build.switches.configs);
    let links = topology.links.iter().map(|link| {
        let ends = link.ends.each_ref().map(|end| build.place(end));
        let LinkSpec { rate, delay } = cable(build, ends[0], ends[1]);
        FabricLink { ends, rate, delay, is_up: link.is_up }
    });
    let hosts = topology.hosts.iter().map(|host| {
        let at = build.place(&host.port);
        let LinkSpec { rate, delay } = cable(build, at, at);
        HostNode { name: host.name.clone(), at, rate, delay, first_port: host.first_port }
    });
    Fabric {
        links: links.collect(),
        hosts: hosts.collect(),
        switches: switches
            .map(|(switch, config)| SwitchNode { name: switch.name.clone(), ports: config.ports.len() })
            .collect(),
    }
}

fn cable(build: &Build<'_>, one: PortRef, other: PortRef) -> LinkSpec {
    let [one, other] = [one, other].map(|place| &build.switches.configs[place.switch].ports[place.port]);
    LinkSpec { rate: one.rate.or(other.rate).unwrap_or(RATE_UNKNOWN), delay: one.delay.max(other.delay) }
}

impl<'p> StaticRouting<'p> {
    pub(super) fn new(build: &Build<'p>, forwarding: &'p StaticForwarding) -> StaticRouting<'p> {
        let fabric = fabric(build);
        let mut peers = BTreeMap::new();
        for (number, host) in fabric.hosts.iter().enumerate() {
            peers.insert(host.at, (host.cable(), LinkPeer::Host(number)));
        }
        for link in &fabric.links {
            let [one, other] = link.ends;
            peers.insert(one, (link.cable(), LinkPeer::Port(other)));
            peers.insert(other, (link.cable(), LinkPeer::Port(one)));
        }
        let names = |config: &weir_config::SwitchConfig| {
            config.ports.iter().zip(0..).map(|(port, n)| (port.name.clone(), n)).collect()
        };
        let places = build.switches.configs.iter().map(names).collect();
        let hosts = fabric.hosts.iter().map(|host| (host.cable(), host.at)).collect();
        StaticRouting { forwarding, peers, hosts, places }
    }

    /// Returns the links from one host to another; `None` if frames do not arrive.
    fn path_delay(&self, from: usize, to: usize) -> Option<PathDelay> {
        let (cable, at) = self.hosts[from];
        let mut hops = vec![cable];
        let mut switch = at.switch;
        while hops.len() <= self.places.len() + 1 {
            let port = *self.places[switch].get(self.forwarding.port(switch, to)?)?;
            let (cable, peer) = self.peers.get(&PortRef { switch, port })?;
            hops.push(*cable);
            match peer {
                LinkPeer::Host(_) => return Some(PathDelay { hops }),
                LinkPeer::Port(there) => switch = there.switch,
            }
        }
        None
    }
}

impl Routing<'_> {
    pub(super) fn routes(&self) -> Option<&Arc<Routes>> {
        match self {
            Routing::Routes(routes) => Some(routes),
            Routing::Static(_) => None,
        }
    }

    /// Returns the longest round trip of two hosts without queueing: a full frame there, and its acknowledgement back, both with these
    /// stamps.
    pub(super) fn base_rtt(&self, hosts: &[HostPlan], link_overhead: u32, stamps: TelemetryMode) -> Span {
        let framing = |host: usize| Framing::for_sizes(&hosts[host].nic.sizes.with_telemetry(stamps), link_overhead);
        match self {
            Routing::Routes(routes) => longest_round_trip(routes, hosts, framing),
            Routing::Static(routing) => {
                let pairs = (0..hosts.len()).flat_map(|from| (0..hosts.len()).map(move |to| [from, to]));
                let rtt = |[from, to]: [usize; 2]| {
                    let there_and_back = routing.path_delay(from, to).zip(routing.path_delay(to, from));
                    there_and_back.map(|(there, back)| base_rtt(&there, &back, &framing(from)))
                };
                pairs.filter(|[from, to]| from != to).filter_map(rtt).max().unwrap_or(Span::ZERO)
            }
        }
    }
}

/// Returns the longest round trip of two hosts whose frames take routes. Paths between switches are the same for all hosts of a switch, and
/// equal-cost ones are taken as equally long.
fn longest_round_trip(routes: &Routes, hosts: &[HostPlan], framing: impl Fn(usize) -> Framing) -> Span {
    let farthest = farthest_of_each_switch(hosts);
    let firsts: Vec<usize> = farthest.iter().map(|two| two[0]).collect();
    let mut framings: Vec<Framing> = Vec::new();
    for of_host in firsts.iter().map(|host| framing(*host)) {
        if !framings.contains(&of_host) {
            framings.push(of_host);
        }
    }
    let mut longest = Span::ZERO;
    for of_senders in framings {
        // A host's link is passed once by the frame, and once by its acknowledgement.
        let on_cable = |host: usize| of_senders.times_on(&routes.cable(host)).into_iter().sum::<Span>();
        let cables: Vec<Span> = firsts.iter().map(|host| on_cable(*host)).collect();
        let frames = |to: &usize| routes.times_to(*to, &firsts, 1, |link| of_senders.times_on(link)[0]);
        let frames: Vec<Box<[Span]>> = firsts.iter().map(frames).collect();
        for (n, two) in farthest.iter().enumerate().filter(|(_, two)| framing(two[0]) == of_senders) {
            let acks = routes.times_to(two[0], &firsts, 2, |link| of_senders.times_on(link)[1]);
            for to in (0..firsts.len()).filter(|to| *to != n && routes.reaches(two[0], firsts[*to])) {
                longest = longest.max(cables[n] + frames[to][n] + cables[to] + acks[to]);
            }
            longest = longest.max(two.get(1).map_or(Span::ZERO, |other| cables[n] + on_cable(*other)));
        }
    }
    longest
}

/// Returns the two hosts, or the one, of each switch with the slowest and longest links.
fn farthest_of_each_switch(hosts: &[HostPlan]) -> Vec<Vec<usize>> {
    let mut by_switch: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (number, host) in hosts.iter().enumerate() {
        by_switch.entry(host.switch).or_default().push(number);
    }
    let time = |host: &HostPlan| {
        let frame = u64::from(host.nic.sizes.payload_max) + u64::from(host.nic.sizes.header);
        host.nic.rate.time_for(Bytes::new(frame)) + host.link_delay
    };
    let two = |mut of_switch: Vec<usize>| {
        of_switch.sort_by_key(|host| std::cmp::Reverse(time(&hosts[*host])));
        of_switch.truncate(2);
        of_switch
    };
    by_switch.into_values().map(two).collect()
}

/// Returns the senders' common rate; two different ones as an error.
pub(super) fn common_rate(rates: impl Iterator<Item = BitRate>) -> Result<Option<BitRate>, [BitRate; 2]> {
    let mut common = None;
    for rate in rates {
        match common {
            Some(other) if other != rate => return Err([other, rate]),
            _ => common = Some(rate),
        }
    }
    Ok(common)
}
