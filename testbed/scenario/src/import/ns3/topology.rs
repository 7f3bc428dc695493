//! Topology file: nodes, switches and links.

use std::collections::{BTreeMap, BTreeSet};

use weir_units::{BitRate, Span};

use crate::import::ImportErrors;
use crate::import::text::decimal;
use crate::import::text::{ErrorCollector, SourceFile, TextLine, count, lines, rate, span};
use crate::topology::PORTS_MAX;

/// Topology of nodes numbered from 0, which are switches or hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::import) struct Topology {
    /// Number of nodes.
    pub(in crate::import) nodes: u32,
    /// Nodes that are switches, in order.
    pub(in crate::import) switches: Vec<u32>,
    /// Links, each of two switches, or a switch and a host. Each NIC has one, see `Topology::part_nics`.
    pub(in crate::import) links: Vec<Link>,
    /// Nodes that represent a further NIC of a host: the host, and the NIC's number from 2. Their numbers follow those of the file.
    pub(super) nics: BTreeMap<u32, (u32, usize)>,
    /// NICs of hosts with several ports, in the ports' order, by the first NIC's number; and the host of each.
    ports: BTreeMap<u32, Vec<u32>>,
    hosts: BTreeMap<u32, u32>,
    pub(in crate::import) left_out: BTreeSet<u32>,
    /// Whether the first line has more values than HPCC's and ConWeave's.
    pub(super) is_extended: bool,
    /// Further fields of inet-tub's first line.
    pub(super) tiers: Option<Tiers>,
    /// Number of lines after the last link, which the simulators do not read.
    pub(super) left_over: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::import) struct Link {
    pub(in crate::import) ends: [u32; 2],
    /// Rate.
    pub(in crate::import) rate: BitRate,
    /// Propagation delay, one way.
    pub(in crate::import) delay: Span,
    /// Lost packets in 10^9, in each direction.
    pub(in crate::import) loss_ppb: u64,
    /// Line in the file, from 1.
    pub(in crate::import) line: usize,
}

/// Further fields of inet-tub's first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tiers {
    /// Number of switches with hosts: the first ones.
    pub(super) tors: u32,
    /// Rates of links to hosts, and between switches, if given.
    pub(super) rates: Option<[BitRate; 2]>,
}

impl Link {
    /// Returns the rate, the delay and the loss, which equal links have in common.
    fn kind(&self) -> (BitRate, Span, u64) {
        (self.rate, self.delay, self.loss_ppb)
    }
}

/// Upper bound of nodes, below the limits of hosts and switches.
const NODES_MAX: u32 = 60_000;
const LINK_EXAMPLE: &str = "write `source destination rate delay error-rate`, like `0 320 100Gbps 1000ns 0`";

impl Topology {
    /// Reads the file: `nodes switches links`; or `nodes switches tors links` with or without the rates of servers and fabric; or SimAI's
    /// `nodes gpus-per-server nvswitches switches links gpu`; then the switches' numbers; then a line for each link.
    ///
    /// # Errors
    /// All lines that are wrong, and hosts that are linked to each other.
    pub(in crate::import) fn parse(source: &SourceFile) -> Result<Topology, ImportErrors> {
        let mut complaints = ErrorCollector::new(&source.name);
        let mut lines = lines(&source.text);
        let topology = Topology::read(&mut lines, &mut complaints);
        if let Some(topology) = topology.as_ref().filter(|_| complaints.is_empty()) {
            topology.check(&mut complaints);
        }
        complaints.result(topology).map(|topology| topology.expect("omitted values are reported"))
    }

    fn read<'t>(
        lines: &mut impl Iterator<Item = TextLine<'t>>,
        complaints: &mut ErrorCollector<'_>,
    ) -> Option<Topology> {
        let header = Header::read(lines.next(), complaints)?;
        let mut switches = Vec::new();
        let mut last = header.line;
        while switches.len() < header.switches {
            let Some(line) = lines.next() else {
                let problem = format!(
                    "the first line says {}, but {} are named",
                    count(header.switches, "switch"),
                    switches.len()
                );
                complaints.add(last, problem, "write the switches' node numbers on the second line");
                return None;
            };
            last = line.number;
            for field in line.fields {
                let node = complaints.integer(last, field, "a switch's node", "320")?;
                switches.push(header.node(node, last, complaints)?);
            }
        }
        if switches.len() > header.switches {
            let problem =
                format!("the first line says {}, but {} are named", count(header.switches, "switch"), switches.len());
            complaints.add(last, problem, "write as many as the first line says");
            return None;
        }
        switches.sort();
        if let Some(twice) = switches.windows(2).find(|pair| pair[0] == pair[1]) {
            complaints.add(last, format!("switch {} is named twice", twice[0]), "name each switch once");
        }
        let mut links = Vec::new();
        for number in 0..header.links {
            let Some(line) = lines.next() else {
                let problem = format!("the first line says {}, but {number} follow", count(header.links, "link"));
                complaints.add(last, problem, format!("write a line for each, or {number} as the number of links"));
                return None;
            };
            last = line.number;
            links.extend(link(&line, &header, complaints));
        }
        let Header { nodes, tiers, .. } = header;
        let (nics, ports, hosts, left_out) = Default::default();
        let (is_extended, left_over) = (tiers.is_some(), lines.count());
        Some(Topology { nodes, switches, links, nics, ports, hosts, left_out, is_extended, tiers, left_over })
    }

    pub(in crate::import) fn is_switch(&self, node: u32) -> bool {
        self.switches.binary_search(&node).is_ok()
    }

    pub(in crate::import) fn hosts(&self) -> impl Iterator<Item = u32> + '_ {
        let is_host =
            |node: &u32| !self.is_switch(*node) && !self.left_out.contains(node) && self.host_of_nic(*node) == *node;
        (0..self.nodes).filter(is_host)
    }

    pub(crate) fn host_name(&self, node: u32) -> String {
        match self.nics.get(&node) {
            Some((host, nic)) => format!("H{host}-{nic}"),
            None => format!("H{node}"),
        }
    }

    /// Returns the node of the file that a node represents.
    pub(crate) fn node_of_file(&self, node: u32) -> u32 {
        self.nics.get(&node).map_or(node, |(host, _)| *host)
    }

    /// Turns each further link of a host into a NIC: a port of the host if its link equals another one, and else a host. Returns the
    /// numbers of hosts with several ports, and of those that became several.
    pub(crate) fn part_nics(&mut self) -> [usize; 2] {
        let mut links_of: BTreeMap<u32, Vec<(usize, usize)>> = BTreeMap::new();
        for (number, link) in self.links.iter().enumerate() {
            if let Some(end) = link.ends.iter().position(|node| !self.is_switch(*node)) {
                links_of.entry(link.ends[end]).or_default().push((number, end));
            }
        }
        for (host, links) in &mut links_of {
            let kind = |(number, _): &(usize, usize)| self.links[*number].kind();
            let kinds: Vec<_> = links.iter().map(kind).collect();
            // Equal links have numbers that follow each other.
            links.sort_by_key(|link| kinds.iter().position(|other| *other == kind(link)));
            for ((number, end), nic) in links.iter().zip(1..).skip(1) {
                self.nics.insert(self.nodes, (*host, nic));
                self.links[*number].ends[*end] = self.nodes;
                self.nodes += 1;
            }
        }
        self.join_ports();
        let is_host = |(nic, _): &(&u32, &(u32, usize))| self.host_of_nic(**nic) == **nic;
        let several: BTreeSet<u32> = self.nics.iter().filter(is_host).map(|(_, (host, _))| *host).collect();
        [self.ports.len(), several.len()]
    }

    /// Makes NICs of a host its ports if their links are equal and lose nothing.
    fn join_ports(&mut self) {
        let mut equal: BTreeMap<_, Vec<u32>> = BTreeMap::new();
        for link in self.links.iter().filter(|link| link.loss_ppb == 0) {
            for nic in link.ends.into_iter().filter(|node| !self.is_switch(*node)) {
                equal.entry((self.node_of_file(nic), link.kind())).or_default().push(nic);
            }
        }
        for nics in equal.into_values().filter(|nics| nics.len() > 1) {
            self.hosts.extend(nics.iter().map(|nic| (*nic, nics[0])));
            self.ports.insert(nics[0], nics);
        }
    }

    /// Returns the nodes of a host's ports.
    pub(in crate::import) fn ports_of(&self, host: u32) -> Vec<u32> {
        self.ports.get(&host).cloned().unwrap_or_else(|| vec![host])
    }

    /// Returns the host that a NIC is a port of.
    pub(in crate::import) fn host_of_nic(&self, nic: u32) -> u32 {
        self.hosts.get(&nic).copied().unwrap_or(nic)
    }

    /// Returns the nodes of the hosts that a host of the file became, its own first.
    pub(super) fn nics_of(&self, host: u32) -> Vec<u32> {
        let further = self.nics.iter().filter(|(_, (of, _))| *of == host).map(|(node, _)| *node);
        std::iter::once(host).chain(further).filter(|nic| self.host_of_nic(*nic) == *nic).collect()
    }

    /// Returns a number for each node that is the same for all nodes of a connected part.
    pub(super) fn parts(&self) -> Vec<u32> {
        let mut part: Vec<u32> = (0..self.nodes).collect();
        fn root(part: &mut [u32], mut node: u32) -> u32 {
            while part[node as usize] != node {
                part[node as usize] = part[part[node as usize] as usize];
                node = part[node as usize];
            }
            node
        }
        for link in &self.links {
            let [one, other] = link.ends.map(|node| root(&mut part, node));
            part[one as usize] = other;
        }
        (0..self.nodes).map(|node| root(&mut part, node)).collect()
    }

    /// Returns the rate of the first link of the first host, which is the simulators' NIC rate.
    pub(super) fn nic_rate(&self) -> BitRate {
        let host = self.hosts().next().expect("there is a host");
        self.links.iter().find(|link| link.ends.contains(&host)).expect("each host has a link").rate
    }

    /// Returns the switch of each host by its node.
    pub(super) fn switches_of_hosts(&self) -> BTreeMap<u32, u32> {
        let both = |[one, other]: [u32; 2]| [(one, other), (other, one)];
        self.links.iter().flat_map(|link| both(link.ends)).filter(|(host, _)| !self.is_switch(*host)).collect()
    }

    /// Leaves out hosts of switches with too many links: those that are not `busy`, the last ones first. Returns them.
    pub(crate) fn leave_out_idle(&mut self, busy: &BTreeSet<u32>) -> Vec<u32> {
        let mut out = Vec::new();
        for switch in &self.switches {
            let links: Vec<&Link> = self.links_of(*switch).collect();
            let beyond = links.len().saturating_sub(PORTS_MAX);
            let hosts = links.iter().rev().flat_map(|link| link.ends).filter(|node| !self.is_switch(*node));
            let is_idle = |host: &u32| !busy.contains(host) && !self.hosts.contains_key(host);
            out.extend(hosts.filter(is_idle).take(beyond));
        }
        self.links.retain(|link| !link.ends.iter().any(|node| out.contains(node)));
        self.left_out.extend(&out);
        out
    }

    /// Checks that each switch has at most the permitted number of ports.
    ///
    /// # Errors
    /// Switches with more than [`PORTS_MAX`] ports, or fewer than 2.
    pub(crate) fn check_ports(&self, file: &str) -> Result<(), ImportErrors> {
        let mut complaints = ErrorCollector::new(file);
        for switch in &self.switches {
            let all = self.links_of(*switch).count();
            let line = self.links_of(*switch).nth(PORTS_MAX).map_or(1, |link| link.line);
            if all > PORTS_MAX {
                let problem = format!("switch {switch} has {all} links, and a switch {PORTS_MAX} ports at most");
                complaints.add(line, problem, "spread them over several switches");
            } else if all < 2 {
                let mut problem = format!("switch {switch} has {}, and a switch 2 ports or more", count(all, "link"));
                if self.left_over > 0 {
                    let (read, lines) = (self.links.len(), self.links.len() + self.left_over);
                    problem += &format!("; the first line says {}, and {lines} lines follow", count(read, "link"));
                }
                complaints.add(1, problem, "write more, or fewer switches");
            }
        }
        complaints.result(())
    }

    /// Returns the links at a switch's ports, in order.
    pub(crate) fn links_of(&self, switch: u32) -> impl Iterator<Item = &Link> + '_ {
        self.links.iter().filter(move |link| link.ends.contains(&switch))
    }

    /// Returns the links at all switches' ports: one between switches counts twice.
    pub(super) fn ports(&self) -> impl Iterator<Item = &Link> + '_ {
        let ends = |link: &Link| link.ends.iter().filter(|node| self.is_switch(**node)).count();
        self.links.iter().flat_map(move |link| std::iter::repeat_n(link, ends(link)))
    }

    /// Refuses features that a Weir scenario can't have.
    fn check(&self, complaints: &mut ErrorCollector<'_>) {
        let mut ports: BTreeMap<u32, usize> = BTreeMap::new();
        for link in &self.links {
            let [one, other] = link.ends;
            if !self.is_switch(one) && !self.is_switch(other) {
                let problem = format!("hosts {one} and {other} are linked to each other");
                complaints.add(link.line, problem, "put a switch between them");
            }
            for node in link.ends {
                *ports.entry(node).or_default() += 1;
            }
        }
        let header = 1;
        for node in 0..self.nodes {
            let links = ports.get(&node).copied().unwrap_or(0);
            if links == 0 && !self.is_switch(node) {
                complaints.add(header, format!("host {node} has no link"), "write one, or fewer nodes");
            }
        }
        if self.hosts().next().is_none() {
            complaints.add(header, "there is no host", "write more nodes than switches");
        }
    }
}

struct Header {
    nodes: u32,
    switches: usize,
    links: usize,
    tiers: Option<Tiers>,
    line: usize,
}

impl Header {
    fn read(line: Option<TextLine<'_>>, complaints: &mut ErrorCollector<'_>) -> Option<Header> {
        let help = "write `nodes switches links`, like `324 4 328`, as the first line of a topology";
        let Some(line) = line else {
            complaints.add(1, "the file is empty", help);
            return None;
        };
        // Places of the switches, NVSwitches, ToRs and links.
        let (switches, nvswitches, tors, links) = match line.fields[..] {
            [_, _, _] => (1, None, None, 2),
            [_, _, _, _, _, gpu] if decimal(gpu, 0).is_none() && rate(gpu).is_none() => (3, Some(2), None, 4),
            [_, _, _, _] | [_, _, _, _, _, _] => (1, None, Some(2), 3),
            _ => {
                let problem = format!("{} are no topology's first line", count(line.fields.len(), "value"));
                complaints.add(line.number, problem, help);
                return None;
            }
        };
        let mut number =
            |field: usize, what, example| complaints.integer(line.number, line.fields[field], what, example);
        let nodes = number(0, "the number of nodes", "324")?;
        let mut switches = number(switches, "the number of switches", "4")?;
        if let Some(nvswitches) = nvswitches {
            switches = switches.saturating_add(number(nvswitches, "the number of NVSwitches", "1")?);
        }
        let links = number(links, "the number of links", "328")?;
        let tors = match tors {
            Some(tors) => Some(number(tors, "the number of ToRs", "16")?),
            None => None,
        };
        let rates = match line.fields[..] {
            [_, _, _, _, servers, fabric] if tors.is_some() => {
                rate(servers).zip(rate(fabric)).map(|(servers, fabric)| [servers, fabric])
            }
            _ => None,
        };
        let tiers = tors.map(|tors| Tiers { tors, rates });
        if nodes > NODES_MAX || switches > nodes {
            let problem = format!("{nodes} nodes of which {switches} are switches can't be");
            complaints.add(line.number, problem, format!("write at most {NODES_MAX} nodes, and no more switches"));
            return None;
        }
        if switches == 0 {
            complaints.add(line.number, "there is no switch", "write a topology with one switch at least");
            return None;
        }
        Some(Header { nodes, switches: switches as usize, links: links as usize, tiers, line: line.number })
    }

    fn node(&self, node: u32, line: usize, complaints: &mut ErrorCollector<'_>) -> Option<u32> {
        if node < self.nodes {
            return Some(node);
        }
        let help = format!("write 0 to {}, or more nodes on the first line", self.nodes.saturating_sub(1));
        complaints.add(line, format!("there is no node {node}"), help);
        None
    }
}

fn link(line: &TextLine<'_>, header: &Header, complaints: &mut ErrorCollector<'_>) -> Option<Link> {
    let number = line.number;
    let &[one, other, of_rate, of_delay, of_error] = &line.fields[..] else {
        let problem = format!("a link has 5 values, this line {}", line.fields.len());
        complaints.add(number, problem, LINK_EXAMPLE);
        return None;
    };
    let ends = [one, other].map(|text| complaints.integer(number, text, "a node", "320"));
    let ends = ends.map(|node| header.node(node?, number, complaints));
    let rate =
        complaints.value(number, of_rate, "a rate", "write for example 100Gbps, or bits a second", rate(of_rate));
    let delay = complaints.value(number, of_delay, "a delay", "write for example 1000ns or 1us", span(of_delay));
    let loss = decimal(of_error, 9).filter(|ppb| *ppb <= 1_000_000_000);
    let loss = complaints.value(number, of_error, "an error rate", "write a share from 0 to 1, like 0.001", loss);
    let ends = [ends[0]?, ends[1]?];
    if ends[0] == ends[1] {
        complaints.add(number, format!("node {} is linked to itself", ends[0]), "write another node");
        return None;
    }
    Some(Link { ends, rate: rate?, delay: delay?, loss_ppb: loss?, line: number })
}
