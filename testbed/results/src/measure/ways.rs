//! Ideal completion times: of messages in the same fabric when it is empty.

use weir_nic::host::{Stamps, Transport};
use weir_scenario::topology::{Cable, Framing, PathDelay, ideal_fct};
use weir_scenario::{Behind, PortPlace, Scenario};
use weir_units::{Bytes, MacAddr, Span};

/// Paths of a scenario's messages.
///
/// Uses one of several equal-cost paths: the paths of generated topologies have links of the same rates and delays.
#[derive(Debug)]
pub struct Ways<'a> {
    scenario: &'a Scenario,
    /// Far end of each port's link, by switch and port.
    behind: Vec<Vec<Option<Behind>>>,
    /// Rate and delay of each port's link, by switch and port; `None` without a link or a rate.
    cables: Vec<Vec<Option<Cable>>>,
}

/// Bound on a path's switches, for static addresses that form a loop.
const SWITCHES_MAX: usize = 64;

impl<'a> Ways<'a> {
    /// Reads the paths of a scenario from its routes, or else from the static addresses of its switches.
    pub fn of(scenario: &'a Scenario) -> Ways<'a> {
        let ports = || scenario.switches.iter().map(|switch| switch.ports.len());
        let mut ways = Ways {
            scenario,
            behind: ports().map(|ports| vec![None; ports]).collect(),
            cables: ports().map(|ports| vec![None; ports]).collect(),
        };
        for (number, host) in scenario.hosts.iter().enumerate() {
            ways.join(host.place(), Behind::Host(number), host.link_delay);
        }
        for link in &scenario.links {
            ways.join(link.ends[0], Behind::Port(link.ends[1]), link.delay);
            ways.join(link.ends[1], Behind::Port(link.ends[0]), link.delay);
        }
        ways
    }

    fn join(&mut self, place: PortPlace, behind: Behind, delay: Span) {
        self.behind[place.switch][place.port] = Some(behind);
        let rate = self.scenario.switches[place.switch].ports[place.port].rate;
        self.cables[place.switch][place.port] = rate.map(|rate| Cable::new(rate, delay));
    }

    /// Returns a message's completion time in an empty fabric, at the rate of the sender's link; `None` if a path is unknown. RDMA
    /// frames carry `stamps`.
    pub fn ideal_fct(
        &self,
        [from, to]: [usize; 2],
        size: Bytes,
        transport: &Transport,
        stamps: Stamps,
    ) -> Option<Span> {
        let (there, back) = (self.one_way(from, to)?, self.one_way(to, from)?);
        let overhead = self.scenario.link_overhead.get() as u32;
        let sizes = &self.scenario.hosts[from].nic.sizes;
        let framing = match transport {
            Transport::Rdma => Framing::of(&sizes.bringing(stamps), overhead),
            Transport::Tcp(tcp) => Framing::of_tcp(sizes, tcp.mss, overhead),
        };
        Some(ideal_fct(&there, &back, size, &framing.timed(self.scenario.frame_times)))
    }

    fn one_way(&self, from: usize, to: usize) -> Option<PathDelay> {
        match &self.scenario.routes {
            Some(routes) => Some(routes.one_way(from, to, 0)),
            None => self.by_static_addresses(from, to),
        }
    }

    fn by_static_addresses(&self, from: usize, to: usize) -> Option<PathDelay> {
        let hosts = &self.scenario.hosts;
        let destination: MacAddr = hosts[to].nic.mac;
        let mut hops = vec![Cable::new(hosts[from].nic.rate, hosts[from].link_delay)];
        let mut switch = hosts[from].switch;
        for _ in 0..SWITCHES_MAX {
            let static_macs = &self.scenario.switches[switch].static_macs;
            let (_, port) = static_macs.iter().find(|(mac, _)| *mac == destination)?;
            hops.push(self.cables[switch][*port]?);
            match self.behind[switch][*port]? {
                Behind::Host(host) => return (host == to).then_some(PathDelay { hops }),
                Behind::Port(next) => switch = next.switch,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use weir_units::BitRate;

    use super::*;
    use weir_scenario::file;

    #[test]
    fn static_addresses_are_followed_to_the_host() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/gfc-ring.toml");
        let scenario = file::load(&path).unwrap().remove(0).scenario;
        let ways = Ways::of(&scenario);
        // F1 goes over three switches, and back to H1 the flow F2 takes two.
        let cable = Cable::new(BitRate::gbps(10), Span::from_micros(40));
        assert_eq!(ways.one_way(0, 2), Some(PathDelay { hops: vec![cable; 4] }));
        assert_eq!(ways.one_way(1, 0), Some(PathDelay { hops: vec![cable; 4] }));
        let framing = Framing::rocev2(1_024);
        let there = PathDelay { hops: vec![cable; 4] };
        let back = ways.one_way(2, 0).unwrap();
        let expected = ideal_fct(&there, &back, Bytes::kb(64), &framing);
        assert_eq!(ways.ideal_fct([0, 2], Bytes::kb(64), &Transport::Rdma, Stamps::None), Some(expected));
        // 63 frames that are 96 B longer each, and so are the last on three links more and the acknowledgement on three.
        let longer = expected + BitRate::gbps(10).time_for(Bytes::new(96 * (63 + 3 + 3)));
        assert_eq!(ways.ideal_fct([0, 2], Bytes::kb(64), &Transport::Rdma, Stamps::Hops), Some(longer));
    }

    #[test]
    fn without_addresses_no_way_is_known() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/gfc-ring.toml");
        let mut scenario = file::load(&path).unwrap().remove(0).scenario;
        scenario.switches[1].static_macs.clear();
        assert_eq!(Ways::of(&scenario).ideal_fct([0, 2], Bytes::kb(64), &Transport::Rdma, Stamps::None), None);
    }
}
