//! Ideal completion times: of messages in the same fabric when it is empty.

use weir_nic::host::{TelemetryMode, Transport};
use weir_scenario::topology::{Framing, LinkSpec, PathDelay, delivery, ideal_fct};
use weir_scenario::{HostPorts, LinkPeer, PortRef, Scenario};
use weir_units::{Bytes, Span};

/// Paths of a scenario's messages.
///
/// Uses one of several equal-cost paths: the paths of generated topologies have links of the same rates and delays.
#[derive(Debug)]
pub struct IdealPaths<'a> {
    scenario: &'a Scenario,
    ports: HostPorts,
    /// Far end of each port's link, by switch and port.
    peers: Vec<Vec<Option<LinkPeer>>>,
    /// Rate and delay of each port's link, by switch and port; `None` without a link or a rate.
    links: Vec<Vec<Option<LinkSpec>>>,
}

/// Bound on a path's switches, for static addresses that form a loop.
const SWITCHES_MAX: usize = 64;

impl<'a> IdealPaths<'a> {
    /// Reads the paths of a scenario from its routes, or else from the static addresses of its switches.
    pub fn new(scenario: &'a Scenario) -> IdealPaths<'a> {
        let ports = || scenario.switches.iter().map(|switch| switch.ports.len());
        let mut paths = IdealPaths {
            scenario,
            ports: scenario.host_ports(),
            peers: ports().map(|ports| vec![None; ports]).collect(),
            links: ports().map(|ports| vec![None; ports]).collect(),
        };
        for (number, host) in scenario.hosts.iter().enumerate() {
            paths.join(host.place(), LinkPeer::Host(number), host.link_delay);
        }
        for link in &scenario.links {
            paths.join(link.ends[0], LinkPeer::Port(link.ends[1]), link.delay);
            paths.join(link.ends[1], LinkPeer::Port(link.ends[0]), link.delay);
        }
        paths
    }

    fn join(&mut self, place: PortRef, peer: LinkPeer, delay: Span) {
        self.peers[place.switch][place.port] = Some(peer);
        let rate = self.scenario.switches[place.switch].ports[place.port].rate;
        self.links[place.switch][place.port] = rate.map(|rate| LinkSpec::new(rate, delay));
    }

    /// Returns the far end of a port's link.
    pub fn peer(&self, place: PortRef) -> Option<LinkPeer> {
        self.peers[place.switch][place.port]
    }

    /// Returns a switch's port toward a host by its static addresses.
    pub fn static_port(&self, switch: usize, host: usize) -> Option<usize> {
        let destination = self.scenario.hosts[host].nic.mac;
        let mut addresses = self.scenario.switches[switch].static_macs.iter();
        addresses.find(|(mac, _)| *mac == destination).map(|(_, port)| *port)
    }

    /// Returns a message's completion time in an empty fabric, at the rate of the sender's link; `None` if a path is unknown. RDMA
    /// frames carry `stamps`.
    pub fn ideal_fct(
        &self,
        ends: [usize; 2],
        size: Bytes,
        transport: &Transport,
        stamps: TelemetryMode,
    ) -> Option<Span> {
        let ports = self.ports.choose(ends.map(|host| host as u32), 0);
        self.ideal_fct_between(ports.map(|port| port as usize), size, transport, stamps)
    }

    /// Returns the completion time between two ports of hosts.
    pub fn ideal_fct_between(
        &self,
        [from, to]: [usize; 2],
        size: Bytes,
        transport: &Transport,
        stamps: TelemetryMode,
    ) -> Option<Span> {
        let (there, back) = (self.path_delay(from, to)?, self.path_delay(to, from)?);
        Some(ideal_fct(&there, &back, size, &self.framing(from, transport, stamps)))
    }

    /// Returns the time from the start of an RDMA message to its receipt between two ports in an empty fabric; `None` if its path is unknown.
    pub fn ideal_delivery(&self, [from, to]: [usize; 2], size: Bytes, stamps: TelemetryMode) -> Option<Span> {
        Some(delivery(&self.path_delay(from, to)?, size, &self.framing(from, &Transport::Rdma, stamps)))
    }

    fn framing(&self, from: usize, transport: &Transport, stamps: TelemetryMode) -> Framing {
        let overhead = self.scenario.link_overhead.get() as u32;
        let sizes = &self.scenario.hosts[from].nic.sizes;
        let framing = match transport {
            Transport::Rdma => Framing::for_sizes(&sizes.with_telemetry(stamps), overhead),
            Transport::Tcp(tcp) => Framing::of_tcp(sizes, tcp.mss, overhead),
        };
        framing.timed(self.scenario.frame_times)
    }

    fn path_delay(&self, from: usize, to: usize) -> Option<PathDelay> {
        match &self.scenario.routes {
            Some(routes) => Some(routes.path_delay(from, to, 0)),
            None => self.by_static_addresses(from, to),
        }
    }

    fn by_static_addresses(&self, from: usize, to: usize) -> Option<PathDelay> {
        let hosts = &self.scenario.hosts;
        let mut hops = vec![LinkSpec::new(hosts[from].nic.rate, hosts[from].link_delay)];
        let mut switch = hosts[from].switch;
        for _ in 0..SWITCHES_MAX {
            let port = self.static_port(switch, to)?;
            hops.push(self.links[switch][port]?);
            match self.peers[switch][port]? {
                LinkPeer::Host(host) => return (host == to).then_some(PathDelay { hops }),
                LinkPeer::Port(next) => switch = next.switch,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use weir_units::BitRate;

    use super::*;
    use weir_scenario::file;

    #[test]
    fn static_addresses_are_followed_to_the_host() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/gfc-ring.toml");
        let scenario = file::load(&path).unwrap().remove(0).scenario;
        let paths = IdealPaths::new(&scenario);
        // F1 crosses three switches; F2, back to H1, two.
        let cable = LinkSpec::new(BitRate::gbps(10), Span::from_micros(40));
        assert_eq!(paths.path_delay(0, 2), Some(PathDelay { hops: vec![cable; 4] }));
        assert_eq!(paths.path_delay(1, 0), Some(PathDelay { hops: vec![cable; 4] }));
        let framing = Framing::rocev2(1_024);
        let there = PathDelay { hops: vec![cable; 4] };
        let back = paths.path_delay(2, 0).unwrap();
        let expected = ideal_fct(&there, &back, Bytes::kb(64), &framing);
        assert_eq!(paths.ideal_fct([0, 2], Bytes::kb(64), &Transport::Rdma, TelemetryMode::None), Some(expected));
        // 96 B more for each of 63 frames, for the last one on three more links, and for the acknowledgement on three.
        let longer = expected + BitRate::gbps(10).time_for(Bytes::new(96 * (63 + 3 + 3)));
        assert_eq!(paths.ideal_fct([0, 2], Bytes::kb(64), &Transport::Rdma, TelemetryMode::Hops), Some(longer));
    }

    #[test]
    fn without_addresses_no_path_is_known() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/gfc-ring.toml");
        let mut scenario = file::load(&path).unwrap().remove(0).scenario;
        Arc::make_mut(&mut scenario.switches)[1].static_macs.clear();
        assert_eq!(
            IdealPaths::new(&scenario).ideal_fct([0, 2], Bytes::kb(64), &Transport::Rdma, TelemetryMode::None),
            None
        );
    }
}
