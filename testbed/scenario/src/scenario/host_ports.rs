//! Hosts with several NIC ports, each on a link of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_units::SplitMix64;

use super::HostPlan;
use crate::topology::Routes;

/// Ports of hosts, by their indices in a scenario's hosts: a host's first port has the host's own.
#[derive(Clone, Debug)]
pub struct HostPorts {
    /// Further ports of the hosts that have several.
    further: BTreeMap<u32, Vec<u32>>,
    /// Host of each further port.
    hosts: BTreeMap<u32, u32>,
    routes: Option<Arc<Routes>>,
    seed: u32,
}

impl HostPorts {
    /// Reads the ports of the hosts; `seed` is that of ECMP. Hosts with several ports have routes.
    pub(crate) fn new(hosts: &[HostPlan], routes: Option<&Arc<Routes>>, seed: u32) -> HostPorts {
        let host = |(port, plan): (u32, &HostPlan)| Some((port, plan.first_port? as u32));
        let hosts: BTreeMap<u32, u32> = (0..).zip(hosts).filter_map(host).collect();
        let mut further: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        hosts.iter().for_each(|(port, host)| further.entry(*host).or_default().push(*port));
        HostPorts { further, hosts, routes: routes.cloned(), seed }
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

    /// Chooses the ports of a connection between two hosts by the connection's hash, among those with the fewest links between them.
    pub fn choose(&self, ends: [u32; 2], connection: u64) -> [u32; 2] {
        let Some(routes) = self.routes.as_ref().filter(|_| !self.further.is_empty()) else { return ends };
        let all = self.ports(ends[0]).flat_map(|from| self.ports(ends[1]).map(move |to| [from, to]));
        let links = |ports: [u32; 2]| {
            let [from, to] = ports.map(|port| port as usize);
            routes.reaches(from, to).then(|| (routes.hops(from, to), ports))
        };
        let mut pairs: Vec<(usize, [u32; 2])> = all.filter_map(links).collect();
        let fewest = pairs.iter().map(|(links, _)| *links).min();
        pairs.retain(|(links, _)| Some(*links) == fewest);
        let hash = SplitMix64::mix(u64::from(self.seed) << 48 ^ connection);
        let chosen = hash.checked_rem(pairs.len() as u64).map(|number| pairs[number as usize].1);
        chosen.expect("connected hosts have a path")
    }

    /// Returns the hash of a connection of a traffic, by which it takes ports of its hosts.
    pub fn connection(traffic: u32, connection: u32) -> u64 {
        u64::from(traffic) << 32 | u64::from(connection)
    }

    fn further_ports(&self, host: u32) -> &[u32] {
        self.further.get(&host).map_or(&[], Vec::as_slice)
    }
}
