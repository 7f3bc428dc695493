//! Paths of a run's frames: equal-cost paths or static ones, and the longest round trip.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use weir_nic::host::TelemetryMode;
use weir_switch_core::flow_control::RATE_UNKNOWN;
use weir_units::{BitRate, Span};

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

    /// Returns the port of a switch toward a host; `None` without a path.
    fn port(&self, switch: usize, host: usize) -> Option<usize> {
        self.places[switch].get(self.forwarding.port(switch, host)?).copied()
    }

    /// Returns the links from one host to another; `None` if frames do not arrive.
    fn path_delay(&self, from: usize, to: usize) -> Option<PathDelay> {
        let (cable, at) = self.hosts[from];
        let mut hops = vec![cable];
        let mut switch = at.switch;
        while hops.len() <= self.places.len() + 1 {
            let port = self.port(switch, to)?;
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

    /// Returns the ports of a switch toward a host; none without a path.
    pub(super) fn ports(&self, switch: usize, host: usize) -> Vec<usize> {
        match self {
            Routing::Routes(routes) => routes.ports(switch, host).iter().map(|port| usize::from(*port)).collect(),
            Routing::Static(routing) => routing.port(switch, host).into_iter().collect(),
        }
    }

    /// Returns the longest round trip of two hosts without queueing: a full frame there, and its acknowledgement back, both with these
    /// stamps.
    pub(super) fn base_rtt(&self, hosts: &[HostPlan], link_overhead: u32, stamps: TelemetryMode) -> Span {
        let framing = |host: usize| Framing::for_sizes(&hosts[host].nic.sizes.with_telemetry(stamps), link_overhead);
        match self {
            Routing::Routes(routes) => {
                let switches: Vec<usize> = hosts.iter().map(|host| host.switch).collect();
                longest_round_trip(routes, &switches, framing)
            }
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

/// Returns the longest round trip of two hosts whose frames take routes; `switches` are those of the hosts. Paths between switches are the
/// same for all hosts of a switch, and equal-cost ones are taken as equally long.
fn longest_round_trip(routes: &Routes, switches: &[usize], framing: impl Fn(usize) -> Framing) -> Span {
    let mut by_switch: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut framings: Vec<Framing> = Vec::new();
    for (host, switch) in switches.iter().enumerate() {
        by_switch.entry(*switch).or_default().push(host);
        let own = framing(host);
        if !framings.contains(&own) {
            framings.push(own);
        }
    }
    let mut by_switch: Vec<Vec<usize>> = by_switch.into_values().collect();
    let mut longest = Span::ZERO;
    for of_senders in framings {
        // A host's link is passed once by the frame, and once by its acknowledgement.
        let on_cable = |host: usize| of_senders.times_on(&routes.cable(host)).into_iter().sum::<Span>();
        by_switch.iter_mut().for_each(|hosts| hosts.sort_by_cached_key(|host| Reverse(on_cable(*host))));
        let receivers: Vec<usize> = by_switch.iter().map(|hosts| hosts[0]).collect();
        let cables: Vec<Span> = receivers.iter().map(|host| on_cable(*host)).collect();
        let frames = |to: &usize| routes.times_to(*to, &receivers, 1, |link| of_senders.times_on(link)[0]);
        let frames: Vec<Box<[Span]>> = receivers.iter().map(frames).collect();
        for (n, hosts) in by_switch.iter().enumerate() {
            let Some(from) = hosts.iter().copied().find(|host| framing(*host) == of_senders) else { continue };
            let acks = routes.times_to(from, &receivers, 2, |link| of_senders.times_on(link)[1]);
            for to in (0..receivers.len()).filter(|to| *to != n && routes.reaches(from, receivers[*to])) {
                longest = longest.max(on_cable(from) + frames[to][n] + cables[to] + acks[to]);
            }
            let other = hosts.iter().find(|host| **host != from);
            longest = longest.max(other.map_or(Span::ZERO, |other| on_cable(from) + on_cable(*other)));
        }
    }
    longest
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_nic::host::FrameSizes;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        /// Hosts of three switches in a row, with links and MTUs of their own, against all pairs.
        #[test]
        fn the_longest_round_trip_is_that_of_all_pairs(
            drawn in prop::collection::vec((0..3_usize, prop::sample::select(vec![10, 25, 100]), 0..3_u64, any::<bool>()), 2..9),
        ) {
            // The first port of the second switch leads to the first one.
            let ports = |switch: usize, before: usize| {
                [1, 2, 1][switch] + drawn[..before].iter().filter(|host| host.0 == switch).count()
            };
            let host = |(number, (switch, gbps, us, _)): (usize, &(usize, u64, u64, bool))| HostNode {
                name: format!("H{number}"),
                at: PortRef { switch: *switch, port: ports(*switch, number) },
                rate: BitRate::gbps(*gbps),
                delay: Span::from_micros(*us),
                first_port: None,
            };
            let link = |from: usize| FabricLink {
                ends: [PortRef { switch: from, port: from }, PortRef { switch: from + 1, port: 0 }],
                rate: BitRate::gbps(40),
                delay: Span::from_micros(1),
                is_up: true,
            };
            let switch = |n: usize| SwitchNode { name: format!("S{n}"), ports: ports(n, drawn.len()) };
            let routes = Routes::partial(&Fabric {
                links: (0..2).map(link).collect(),
                hosts: drawn.iter().enumerate().map(host).collect(),
                switches: (0..3).map(switch).collect(),
            });
            let framing = |host: usize| Framing::for_sizes(&FrameSizes::ns3(if drawn[host].3 { 9_000 } else { 1_000 }), 0);
            let all = (0..drawn.len()).flat_map(|from| (0..drawn.len()).map(move |to| (from, to)));
            let rtt = |(from, to)| base_rtt(&routes.path_delay(from, to, 1), &routes.path_delay(to, from, 2), &framing(from));
            let longest = all.filter(|(from, to)| from != to).map(rtt).max().unwrap();
            let switches: Vec<usize> = drawn.iter().map(|host| host.0).collect();
            prop_assert_eq!(longest_round_trip(&routes, &switches, framing), longest);
        }
    }
}
