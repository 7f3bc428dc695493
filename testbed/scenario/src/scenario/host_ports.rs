//! Hosts with several NIC ports, each on a link of its own.

use std::collections::BTreeMap;

use weir_units::SplitMix64;

use super::HostPlan;

/// Ports of hosts, by their indices in a scenario's hosts: a host's first port has the host's own.
#[derive(Clone, Debug)]
pub struct HostPorts {
    /// Further ports of the hosts that have several.
    further: BTreeMap<u32, Vec<u32>>,
    /// Host of each further port.
    hosts: BTreeMap<u32, u32>,
    /// Switch of each port; empty if no host has several.
    switches: Box<[usize]>,
    seed: u32,
}

impl HostPorts {
    /// Reads the ports of the hosts; `seed` is that of ECMP.
    pub(crate) fn new(hosts: &[HostPlan], seed: u32) -> HostPorts {
        let switches = hosts.iter().map(|host| host.switch);
        let host = |(port, plan): (u32, &HostPlan)| Some((port, plan.first_port? as u32));
        let hosts: BTreeMap<u32, u32> = (0..).zip(hosts).filter_map(host).collect();
        let mut further: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        hosts.iter().for_each(|(port, host)| further.entry(*host).or_default().push(*port));
        let switches = if further.is_empty() { Box::default() } else { switches.collect() };
        HostPorts { further, hosts, switches, seed }
    }

    /// Returns the hosts that have several ports.
    pub fn hosts(&self) -> impl Iterator<Item = u32> {
        self.further.keys().copied()
    }

    /// Returns the host of a port.
    pub fn host(&self, port: u32) -> u32 {
        self.hosts.get(&port).copied().unwrap_or(port)
    }

    /// Returns the ports of a host.
    pub fn ports(&self, host: u32) -> impl Iterator<Item = u32> + Clone {
        std::iter::once(host).chain(self.further_ports(host).iter().copied())
    }

    /// Returns the number of ports of a host.
    pub fn count(&self, host: u32) -> usize {
        1 + self.further_ports(host).len()
    }

    /// Returns the number of a port among those of its host, from 0.
    pub fn number(&self, port: u32) -> usize {
        self.ports(self.host(port)).position(|other| other == port).expect("a host has its ports")
    }

    /// Chooses the ports of a connection between two hosts by the connection's hash: ports at one switch if there are any, else ports
    /// of the same number, if both hosts have as many.
    pub fn choose(&self, ends: [u32; 2], connection: u64) -> [u32; 2] {
        if self.further.is_empty() {
            return ends;
        }
        let hash = SplitMix64::mix(SplitMix64::mix(u64::from(self.seed) + 1) ^ connection);
        let pairs = self.pairs(ends);
        pairs[(hash % pairs.len() as u64) as usize]
    }

    /// Returns the pairs of ports that connections between two hosts may have.
    pub(crate) fn pairs(&self, [from, to]: [u32; 2]) -> Vec<[u32; 2]> {
        if self.further.is_empty() {
            return vec![[from, to]];
        }
        let all = self.ports(from).flat_map(|one| self.ports(to).map(move |other| [one, other]));
        let near: Vec<[u32; 2]> =
            all.filter(|ports| self.switches[ports[0] as usize] == self.switches[ports[1] as usize]).collect();
        if !near.is_empty() {
            return near;
        }
        let most = self.count(from).max(self.count(to));
        self.ports(from).cycle().zip(self.ports(to).cycle()).take(most).map(<[u32; 2]>::from).collect()
    }

    /// Returns the hash of a connection of a traffic, by which it takes ports of its hosts.
    pub fn connection(traffic: u32, connection: u32) -> u64 {
        u64::from(traffic + 1) << 32 | u64::from(connection)
    }

    fn further_ports(&self, host: u32) -> &[u32] {
        self.further.get(&host).map_or(&[], Vec::as_slice)
    }
}
