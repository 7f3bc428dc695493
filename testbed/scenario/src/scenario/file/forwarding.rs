//! Static forwarding: the port of each switch toward each host, by `[[routes]]`, the flows' paths, or else the shortest path.

use std::collections::VecDeque;

use weir_reader::{Doc, Problem, Table};

use super::reading::{named, refuse_unnamed, require};
use super::topology::{PortName, Topology};
use super::traffic::FlowPart;

/// Ports toward the hosts.
#[derive(Debug)]
pub(super) struct StaticForwarding {
    /// Route by switch and host; `None` if there is no path.
    ports: Vec<Vec<Option<StaticRoute>>>,
}

#[derive(Clone, Debug)]
struct StaticRoute {
    port: String,
    /// Key that chose the port; `None` for the shortest path.
    key: Option<String>,
}

impl StaticForwarding {
    /// Reads `[[routes]]`, follows the flows' paths, and adds the shortest paths; of several, the first in the order of the links.
    /// Reports conflicts and paths that lead nowhere.
    pub(super) fn read(root: &Table<'_>, topology: &Topology, flows: &[FlowPart]) -> StaticForwarding {
        let mut forwarding =
            StaticForwarding { ports: vec![vec![None; topology.hosts.len()]; topology.switches.len()] };
        for (host, part) in topology.hosts.iter().enumerate() {
            let own = StaticRoute { port: part.port.port.clone(), key: Some(format!("hosts[{}].port", part.number)) };
            forwarding.ports[part.port.switch][host] = Some(own);
        }
        for table in root.tables("routes", "routes") {
            forwarding.add_route(&table, topology);
        }
        for flow in flows {
            if let Some(path) = &flow.path {
                forwarding.add_path(root.doc(), topology, flow, path);
            }
        }
        let neighbours: Vec<Vec<(&PortName, usize)>> =
            (0..topology.switches.len()).map(|switch| topology.neighbours(switch).collect()).collect();
        for (host, part) in topology.hosts.iter().enumerate() {
            forwarding.fill_in(&neighbours, host, part.port.switch);
        }
        if root.doc().sound(&["topology", "switches", "links", "hosts", "routes", "flows"]) {
            flows.iter().for_each(|flow| forwarding.check_both_directions(root, topology, flow));
        }
        forwarding
    }

    /// Returns the name of a switch's port toward a host.
    pub(super) fn port(&self, switch: usize, host: usize) -> Option<&str> {
        self.ports[switch][host].as_ref().map(|route| route.port.as_str())
    }

    fn add_route(&mut self, table: &Table<'_>, topology: &Topology) {
        for (key, example) in [("switch", "S1"), ("host", "H3"), ("port", "next")] {
            require(table, key, "a route", &format!("{key} = \"{example}\""));
        }
        let switch = named(table, "switch", "switch", &topology.switch_names());
        let host = match table.doc().sound(&["hosts"]) {
            true => named(table, "host", "host", &topology.host_names()),
            false => None,
        };
        let Some(((switch, host), port)) = switch.zip(host).zip(table.string("port", "next")) else { return };
        let of_hosts = topology.hosts.iter().map(|host| &host.port);
        let of_links = topology.links.iter().flat_map(|link| &link.ends);
        let on_switch = of_links.chain(of_hosts).filter(|port| port.switch == switch);
        let ports: Vec<&str> = on_switch.map(|port| port.port.as_str()).collect();
        if !ports.contains(&port) {
            let what = format!("port of switch {}", topology.switches[switch].name);
            return refuse_unnamed(table, "port", port, &what, &ports);
        }
        self.choose(table.doc(), table.key_path("port"), switch, host, port, topology);
    }

    fn add_path(&mut self, doc: &Doc, topology: &Topology, flow: &FlowPart, path: &[usize]) {
        let key = format!("flows[{}].path", flow.number);
        let [first, last] = [flow.from, flow.to].map(|host| &topology.hosts[host]);
        for (host, end, which) in [(first, path.first(), "begins"), (last, path.last(), "ends")] {
            let own = &topology.switches[host.port.switch].name;
            if end != Some(&host.port.switch) {
                let message = format!("the path {which} at another switch than that of {}, {own}", host.name);
                let help = format!("write a path that {which} with \"{own}\"");
                return doc.refuse(Problem::new(message, help).with_label(key, ""));
            }
        }
        for (n, pair) in path.windows(2).enumerate() {
            let (here, next) = (pair[0], pair[1]);
            let key = format!("{key}[{}]", n + 1);
            let mut ports = topology.neighbours(here).filter(|(_, other)| *other == next).map(|(port, _)| port);
            let chosen = self.ports[here][flow.to].as_ref();
            // A route may choose among several links to the next switch.
            if ports.clone().any(|port| chosen.is_some_and(|chosen| chosen.port == port.port)) {
                continue;
            }
            match ports.next() {
                Some(port) => self.choose(doc, key, here, flow.to, &port.port, topology),
                None => return refuse_gap(doc, key, topology, here, next),
            }
        }
    }

    /// Records a key's choice, or reports a conflict with another key.
    fn choose(&mut self, doc: &Doc, key: String, switch: usize, host: usize, port: &str, topology: &Topology) {
        let route = &mut self.ports[switch][host];
        match route {
            Some(chosen) if chosen.port != port => {
                let [switch, host] = [&topology.switches[switch].name, &topology.hosts[host].name];
                let message =
                    format!("at switch {switch} frames for {host} can't leave by both `{port}` and `{}`", chosen.port);
                let problem = Problem::new(message, "let all that goes to a host leave a switch by one port");
                let problem =
                    problem.with_label(key, "").with_label(chosen.key.clone().unwrap_or_default(), "and here");
                doc.refuse(problem);
            }
            _ => *route = Some(StaticRoute { port: port.to_owned(), key: Some(key) }),
        }
    }

    /// Adds the shortest paths to a host, which is on `own`, from switches without a route.
    fn fill_in(&mut self, neighbours: &[Vec<(&PortName, usize)>], host: usize, own: usize) {
        let mut hops = vec![usize::MAX; neighbours.len()];
        hops[own] = 0;
        let mut next = VecDeque::from([own]);
        while let Some(here) = next.pop_front() {
            for (_, other) in &neighbours[here] {
                if hops[*other] == usize::MAX {
                    hops[*other] = hops[here] + 1;
                    next.push_back(*other);
                }
            }
        }
        for (switch, ports) in self.ports.iter_mut().enumerate() {
            let nearer = |(_, other): &&(&PortName, usize)| hops[*other] < hops[switch];
            if ports[host].is_none()
                && let Some((port, _)) = neighbours[switch].iter().find(nearer)
            {
                ports[host] = Some(StaticRoute { port: port.port.clone(), key: None });
            }
        }
    }

    /// Checks both directions: data one way, acknowledgements the other.
    fn check_both_directions(&self, root: &Table<'_>, topology: &Topology, flow: &FlowPart) {
        for (from, to) in [(flow.from, flow.to), (flow.to, flow.from)] {
            let Some(wrong) = self.lost(topology, from, to) else { continue };
            let [from, to] = [&topology.hosts[from].name, &topology.hosts[to].name];
            let problem = Problem::new(
                format!("there is no path from {from} to {to}: {wrong}"),
                "write [[links]] that join their switches, and [[routes]] that lead there",
            );
            root.doc().note(problem.with_label(format!("flows[{}].to", flow.number), ""));
        }
    }

    /// Returns the reason for which frames of one host do not reach another; `None` if they do.
    fn lost(&self, topology: &Topology, from: usize, to: usize) -> Option<String> {
        let (mut here, last) = (topology.hosts[from].port.switch, topology.hosts[to].port.switch);
        let mut visited = Vec::new();
        while here != last {
            let name = &topology.switches[here].name;
            if visited.contains(&here) {
                return Some(format!("frames come back to switch {name}"));
            }
            visited.push(here);
            let port = self.port(here, to);
            let leads = topology.neighbours(here).find(|(link_port, _)| Some(link_port.port.as_str()) == port);
            match leads {
                Some((_, next)) => here = next,
                None => return Some(format!("it ends at switch {name}")),
            }
        }
        None
    }
}

fn refuse_gap(doc: &Doc, key: String, topology: &Topology, here: usize, next: usize) {
    let [here_name, next_name] = [here, next].map(|switch| topology.switches[switch].name.as_str());
    let mut joined: Vec<&str> =
        topology.neighbours(here).map(|(_, other)| topology.switches[other].name.as_str()).collect();
    joined.dedup();
    let help = match &joined[..] {
        [] => format!("write [[links]] from {here_name}"),
        joined => format!("{here_name} is joined to: {}", joined.join(", ")),
    };
    doc.refuse(Problem::new(format!("no link joins {here_name} and {next_name}"), help).with_label(key, ""));
}
