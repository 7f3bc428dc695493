//! Shortest paths through a fabric, and the choice of a flow's path.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::slice;

use weir_switch_core::ecmp;
use weir_units::Span;

use super::ideal::PathDelay;
use super::wiring::{PortLink, Wiring};
use super::{Fabric, LinkSpec};
use crate::port_ref::{LinkPeer, PortRef};

/// Ports on the shortest paths from every switch to every host, over links that are up, and through no host.
///
/// All hosts of a switch share its paths, and equal sets of ports are kept once. For a fat-tree of k = 16, with 320 switches and 1,024
/// hosts, that is less than 1 MB. A fabric that changes is routed anew.
#[derive(Clone, Debug)]
pub struct Routes {
    pub(super) wiring: Wiring,
    hosts: Box<[HostEnd]>,
    /// Row of each destination: a switch with hosts.
    pub(super) rows: Vec<RouteRow>,
    /// Number of each switch's row.
    row_of: Box<[Option<u32>]>,
    groups: PortGroups,
}

/// Hosts without a path to each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no path joins {}: bring a link up, or join their switches", self.list_pairs())]
pub struct Unreachable {
    /// First pairs, by name.
    pub pairs: Vec<(String, String)>,
    /// Number of pairs, each counted once.
    pub count: u64,
}

/// Attachment of a host.
#[derive(Clone, Copy, Debug)]
struct HostEnd {
    switch: usize,
    port: u16,
    cable: LinkSpec,
}

/// Paths to one switch.
#[derive(Clone, Debug)]
pub(super) struct RouteRow {
    /// Destination switch.
    pub to: usize,
    /// Number of links from each switch to this one; [`FAR`] if it can't be reached.
    pub links: Box<[u16]>,
    /// Ports of each switch on the shortest paths, by their group.
    groups: Box<[u32]>,
}

/// Sets of ports, each kept once.
#[derive(Clone, Debug, Default)]
struct PortGroups {
    /// Start of each group's ports in the list, and at the end the list's length.
    first: Vec<u32>,
    ports: Vec<u16>,
}

/// Distance of an unreachable switch.
const FAR: u16 = u16::MAX;
/// Maximum number of pairs that an error names.
const NAMED: usize = 4;

impl Routes {
    /// Computes the shortest paths, by the number of links, if all hosts have one to each other.
    ///
    /// # Errors
    /// If some hosts have no path to each other.
    ///
    /// # Panics
    /// If the fabric is inconsistent ([`Fabric::check`]).
    pub fn shortest(fabric: &Fabric) -> Result<Routes, Unreachable> {
        let routes = Routes::partial(fabric);
        routes.check(fabric)?;
        Ok(routes)
    }

    /// Computes the shortest paths like [`Routes::shortest`], for hosts of which some may have no path to each other.
    ///
    /// # Panics
    /// If the fabric is inconsistent ([`Fabric::check`]).
    pub fn partial(fabric: &Fabric) -> Routes {
        let wiring = Wiring::new(fabric);
        let end = |host: &super::HostNode| HostEnd {
            switch: host.at.switch,
            port: u16::try_from(host.at.port).expect("a switch has 4,096 ports at most"),
            cable: host.cable(),
        };
        let hosts: Box<[HostEnd]> = fabric.hosts.iter().map(end).collect();
        let mut row_of = vec![None; wiring.switch_count()];
        let mut collector = RowCollector::new(&wiring);
        let mut rows = Vec::new();
        for host in &hosts {
            if row_of[host.switch].is_none() {
                row_of[host.switch] = Some(rows.len() as u32);
                rows.push(collector.add(host.switch, &rows));
            }
        }
        let groups = collector.groups.groups;
        Routes { wiring, hosts, rows, row_of: row_of.into(), groups }
    }

    /// Returns whether a path joins two hosts.
    pub fn reaches(&self, from: usize, to: usize) -> bool {
        self.row(self.hosts[to].switch).links[self.hosts[from].switch] != FAR
    }

    /// Returns the part of the fabric that a host is in: a number that hosts with a path to each other have in common.
    pub(crate) fn part(&self, host: usize) -> usize {
        let switch = self.hosts[host].switch;
        self.rows.iter().position(|row| row.links[switch] != FAR).expect("a host's own switch has a row")
    }

    /// Returns the shortest paths while these links, given by the ports at their ends, are cut too. A switch that can't reach a host then
    /// keeps its ports: its frames end at the cut link.
    pub fn around(&self, cut: &[[PortRef; 2]]) -> Routes {
        let mut wiring = self.wiring.clone();
        cut.iter().flatten().for_each(|end| wiring.cut(*end));
        let mut collector = RowCollector::new(&wiring);
        let mut rows = Vec::new();
        for before in &self.rows {
            rows.push(collector.add(before.to, &rows));
        }
        for (row, before) in rows.iter_mut().zip(&self.rows) {
            for (switch, group) in row.groups.iter_mut().enumerate().filter(|(switch, _)| row.links[*switch] == FAR) {
                *group = collector.groups.group(self.ports_in(before, switch));
            }
        }
        let groups = collector.groups.groups;
        Routes { wiring, hosts: self.hosts.clone(), rows, row_of: self.row_of.clone(), groups }
    }

    /// Returns the switches that have links to others, none of them up, while these links are cut too.
    pub(crate) fn isolated(&self, cut: &[[PortRef; 2]]) -> BTreeSet<usize> {
        let mut wiring = self.wiring.clone();
        cut.iter().flatten().for_each(|end| wiring.cut(*end));
        let is_isolated = |(_, wires): &(usize, &[PortLink])| {
            let mut to_switches = wires.iter().filter(|wire| matches!(wire.peer, LinkPeer::Port(_))).peekable();
            to_switches.peek().is_some() && to_switches.all(|wire| !wire.is_up)
        };
        wiring.switches().enumerate().filter(is_isolated).map(|(switch, _)| switch).collect()
    }

    /// Routes frames for a host to the port of another.
    pub(crate) fn replace_end(&mut self, host: usize, other: usize) {
        self.hosts[host] = self.hosts[other];
    }

    /// Whether a switch anywhere has several ports for a host.
    pub fn have_choices(&self) -> bool {
        self.groups.first.windows(2).any(|ends| ends[1] - ends[0] > 1)
    }

    /// Returns the ports of a switch toward a host, in ascending order. A switch on a host's path has at least one, a switch that is cut
    /// off none.
    ///
    /// # Panics
    /// If there is no such switch or host.
    pub fn ports(&self, switch: usize, host: usize) -> &[u16] {
        let end = &self.hosts[host];
        if end.switch == switch {
            return slice::from_ref(&end.port);
        }
        self.groups.ports(self.row(end.switch).groups[switch])
    }

    /// Returns the ports of a switch toward each host ([`Routes::ports`]).
    ///
    /// # Panics
    /// If there is no such switch.
    pub fn ports_to_hosts(&self, switch: usize) -> impl Iterator<Item = &[u16]> {
        // Hosts of a switch mostly follow each other.
        let (mut last, mut ports) = (switch, &[][..]);
        self.hosts.iter().map(move |end| {
            if end.switch == switch {
                return slice::from_ref(&end.port);
            }
            if end.switch != last {
                (last, ports) = (end.switch, self.groups.ports(self.row(end.switch).groups[switch]));
            }
            ports
        })
    }

    /// Returns the port of [`Routes::ports`] that a flow takes, as a scenario's switches choose it ([`ecmp::choose`] with the switch's
    /// index as its seed).
    ///
    /// # Panics
    /// If the switch is cut off.
    pub fn port(&self, switch: usize, host: usize, hash: u32) -> u16 {
        let ports = self.ports(switch, host);
        ports[ecmp::choose(hash, switch as u32, ports.len())]
    }

    /// Returns the ports by which a flow of this hash leaves switches on its path from one host to another, the last one the receiving
    /// host's.
    ///
    /// # Panics
    /// If the two are one host, or no path joins them ([`Routes::reaches`]).
    pub fn path(&self, from: usize, to: usize, hash: u32) -> Vec<PortRef> {
        let mut path = Vec::with_capacity(self.hops(from, to) - 1);
        let mut switch = Some(self.hosts[from].switch);
        while let Some(here) = switch {
            let place = PortRef { switch: here, port: usize::from(self.port(here, to, hash)) };
            path.push(place);
            switch = self.wiring.next_switch(place);
        }
        path
    }

    /// Returns the number of links between two hosts, theirs included.
    ///
    /// # Panics
    /// If the two are one host, or there is no such host.
    pub fn hops(&self, from: usize, to: usize) -> usize {
        assert!(from != to, "host {from} to itself");
        let [from, to] = [from, to].map(|host| self.hosts[host].switch);
        usize::from(self.row(to).links[from]) + 2
    }

    /// Returns the links of a flow of this hash from one host to another.
    ///
    /// # Panics
    /// If the two are one host, or no path joins them ([`Routes::reaches`]).
    pub fn path_delay(&self, from: usize, to: usize, hash: u32) -> PathDelay {
        let path = self.path(from, to, hash);
        let cables = path.into_iter().map(|place| self.wiring.port(place).link);
        PathDelay { hops: [self.hosts[from].cable].into_iter().chain(cables).collect() }
    }

    /// Returns the time that a frame of a flow with this hash takes from the switch of each of these hosts to that of host `to`, given its time
    /// on a link; 0 if no path joins them.
    pub(crate) fn times_to(
        &self,
        to: usize,
        from: &[usize],
        hash: u32,
        time: impl Fn(&LinkSpec) -> Span,
    ) -> Box<[Span]> {
        let row = self.row(self.hosts[to].switch);
        let mut times = vec![None; self.wiring.switch_count()];
        times[row.to] = Some(Span::ZERO);
        let mut path = Vec::new();
        // Links are mostly alike.
        let mut last = None;
        let time_from = |host: &usize| {
            let mut here = self.hosts[*host].switch;
            if row.links[here] == FAR {
                return Span::ZERO;
            }
            let mut sum = loop {
                if let Some(time) = times[here] {
                    break time;
                }
                let place = PortRef { switch: here, port: usize::from(self.port(here, to, hash)) };
                path.push((here, &self.wiring.port(place).link));
                here = self.wiring.next_switch(place).expect("a path ends at its host's switch");
            };
            while let Some((switch, link)) = path.pop() {
                let each = last.filter(|(known, _)| *known == link).map_or_else(|| time(link), |(_, each)| each);
                last = Some((link, each));
                sum += each;
                times[switch] = Some(sum);
            }
            sum
        };
        from.iter().map(time_from).collect()
    }

    /// Returns the link of a host.
    pub(crate) fn cable(&self, host: usize) -> LinkSpec {
        self.hosts[host].cable
    }

    /// Returns the ports of a switch on the paths of a row; none at the destination.
    pub(super) fn ports_in(&self, row: &RouteRow, switch: usize) -> &[u16] {
        self.groups.ports(row.groups[switch])
    }

    /// Returns the switch of a host.
    #[cfg(test)]
    pub(super) fn switch_of(&self, host: usize) -> usize {
        self.hosts[host].switch
    }

    pub(super) fn has_hosts(&self, switch: usize) -> bool {
        self.row_of[switch].is_some()
    }

    pub(super) fn row(&self, to: usize) -> &RouteRow {
        let row = self.row_of[to].expect("a switch with hosts has a row");
        &self.rows[row as usize]
    }

    /// Checks that all hosts reach each other. Links are bidirectional, hence paths are too.
    fn check(&self, fabric: &Fabric) -> Result<(), Unreachable> {
        // If all hosts reach the first, all reach each other.
        let is_joined = |to: &RouteRow| self.rows.iter().all(|from| to.links[from.to] != FAR);
        if self.rows.first().is_none_or(is_joined) {
            return Ok(());
        }
        let mut unreachable = Unreachable { pairs: Vec::new(), count: 0 };
        for (to, end) in self.hosts.iter().enumerate() {
            let row = self.row(end.switch);
            for from in (0..to).filter(|from| row.links[self.hosts[*from].switch] == FAR) {
                unreachable.count += 1;
                if unreachable.pairs.len() < NAMED {
                    unreachable.pairs.push((fabric.hosts[from].name.clone(), fabric.hosts[to].name.clone()));
                }
            }
        }
        Err(unreachable)
    }
}

/// Collector of the rows of a fabric.
struct RowCollector<'w> {
    wiring: &'w Wiring,
    groups: GroupCollector,
    /// Row of the first destination with each set of neighbours.
    row_with: BTreeMap<Vec<usize>, usize>,
}

impl<'w> RowCollector<'w> {
    fn new(wiring: &'w Wiring) -> RowCollector<'w> {
        RowCollector { wiring, groups: GroupCollector::default(), row_with: BTreeMap::new() }
    }

    /// Returns the row to a switch, after those built before. All switches but their neighbours reach two switches with the same neighbours by
    /// the same ports, so that a fabric needs one search for all leaves of a pod.
    fn add(&mut self, to: usize, rows: &[RouteRow]) -> RouteRow {
        let mut neighbours: Vec<usize> = joined(self.wiring, to).map(|(_, there)| there).collect();
        neighbours.sort_unstable();
        neighbours.dedup();
        // A link of a switch to itself makes it a neighbour of itself.
        if neighbours.is_empty() || neighbours.contains(&to) {
            return self.search(to);
        }
        if let Some(other) = self.row_with.get(&neighbours) {
            return self.copy(to, &rows[*other], &neighbours);
        }
        self.row_with.insert(neighbours, rows.len());
        self.search(to)
    }

    /// Returns the row to a switch by that to another one with the same neighbours.
    fn copy(&mut self, to: usize, other: &RouteRow, neighbours: &[usize]) -> RouteRow {
        let mut row = RouteRow { to, ..other.clone() };
        row.links[to] = 0;
        row.links[other.to] = 2;
        for switch in neighbours.iter().copied().chain([to, other.to]) {
            row.groups[switch] = self.group(switch, &row.links);
        }
        row
    }

    /// Searches breadth first, from the destination outward.
    fn search(&mut self, to: usize) -> RouteRow {
        let mut links = vec![FAR; self.wiring.switch_count()];
        links[to] = 0;
        let mut reached = vec![to];
        let mut next = 0;
        while let Some(here) = reached.get(next).copied() {
            next += 1;
            for (_, there) in joined(self.wiring, here) {
                if links[there] == FAR {
                    links[there] = links[here] + 1;
                    reached.push(there);
                }
            }
        }
        let groups = (0..links.len()).map(|switch| self.group(switch, &links)).collect();
        RouteRow { to, links: links.into(), groups }
    }

    /// Returns the group of a switch's ports to nearer switches.
    fn group(&mut self, switch: usize, links: &[u16]) -> u32 {
        let nearer = joined(self.wiring, switch).filter(|(_, there)| links[*there] < links[switch]);
        let ports: Vec<u16> = nearer.map(|(port, _)| port as u16).collect();
        self.groups.group(&ports)
    }
}

impl RouteRow {
    /// Returns the switches with a path, from the farthest to the destination.
    pub(super) fn farthest_first(&self) -> Vec<usize> {
        let mut switches: Vec<usize> = (0..self.links.len()).filter(|switch| self.links[*switch] != FAR).collect();
        switches.sort_by_key(|switch| std::cmp::Reverse(self.links[*switch]));
        switches
    }
}

/// Returns a switch's neighbours over links that are up, with the neighbours' ports.
fn joined(wiring: &Wiring, switch: usize) -> impl Iterator<Item = (usize, usize)> {
    wiring.of_switch(switch).iter().enumerate().filter_map(|(port, wire)| match wire.peer {
        LinkPeer::Port(there) if wire.is_up => Some((port, there.switch)),
        _ => None,
    })
}

/// Builder of the groups.
#[derive(Default)]
struct GroupCollector {
    groups: PortGroups,
    known: BTreeMap<Box<[u16]>, u32>,
}

impl GroupCollector {
    /// Returns the number of the group of these ports.
    fn group(&mut self, ports: &[u16]) -> u32 {
        if let Some(known) = self.known.get(ports) {
            return *known;
        }
        let group = self.groups.add(ports);
        self.known.insert(ports.into(), group);
        group
    }
}

impl PortGroups {
    fn add(&mut self, ports: &[u16]) -> u32 {
        if self.first.is_empty() {
            self.first.push(0);
        }
        self.ports.extend(ports);
        self.first.push(self.ports.len() as u32);
        self.first.len() as u32 - 2
    }

    fn ports(&self, group: u32) -> &[u16] {
        let group = group as usize;
        &self.ports[self.first[group] as usize..self.first[group + 1] as usize]
    }
}

impl Unreachable {
    fn list_pairs(&self) -> String {
        let named: Vec<String> = self.pairs.iter().map(|(one, other)| format!("{one} and {other}")).collect();
        let rest = self.count - self.pairs.len() as u64;
        let more = if rest > 0 { format!(", nor {rest} more pairs of hosts") } else { String::new() };
        format!("{}{more}", named.join(", "))
    }
}
