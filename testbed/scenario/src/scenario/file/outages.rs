//! `[[outages]]`.

use weir_reader::{Problem, Table};
use weir_units::Time;

use super::reading::{instant, require, time_range};
use super::topology::{PortName, Topology};
use crate::scenario::{LinkRef, Outage};

/// Maximum number of names that an error lists.
const LISTED: usize = 8;

/// Reads the outages, each of which may cut several links.
pub(super) fn read(root: &Table<'_>, topology: &Topology, end: Time) -> Vec<Outage> {
    let mut outages: Vec<(Outage, String)> = Vec::new();
    for table in root.tables("outages", "outages") {
        for outage in outage(&table, topology, end) {
            let overlaps = |(other, _): &&(Outage, String)| {
                other.link == outage.link && other.at < outage.until && outage.at < other.until
            };
            if let Some((_, first)) = outages.iter().find(overlaps) {
                let problem = Problem::new("a link is cut that is not mended yet", "write a later `at`, or one outage");
                table.doc().note(problem.with_label(table.key_path("at"), "again").with_label(first, "cut here"));
            }
            outages.push((outage, table.key_path("at")));
        }
    }
    outages.into_iter().map(|(outage, _)| outage).collect()
}

fn outage(table: &Table<'_>, topology: &Topology, end: Time) -> Vec<Outage> {
    require(table, "link", "an outage", "link = [\"S0\", \"L3\"]");
    require(table, "at", "an outage", "at = \"1ms\"");
    let links = links(table, topology);
    let time = match table.has("until") {
        true => time_range(table, ["at", "until"], Time::ZERO..end, end),
        false => Some((instant(table, "at", Time::ZERO, end), Time::NEVER)),
    };
    let Some((at, until)) = time else { return Vec::new() };
    links.into_iter().map(|link| Outage { link, at, until }).collect()
}

/// End of a link, as a name gives it.
enum LinkEndRef<'n> {
    Host(usize),
    Switch(usize),
    /// A switch's port.
    Port(usize, &'n str),
    /// Link between two switches, by its number among their parallel links.
    Numbered(usize, usize),
}

/// Returns the links with these ends; none after errors.
fn links(table: &Table<'_>, topology: &Topology) -> Vec<LinkRef> {
    let Some(names) = table.strings("link", "\"S0\", \"L3\"") else { return Vec::new() };
    if !table.doc().sound(&["topology", "switches", "links", "hosts"]) {
        return Vec::new();
    }
    let [one, other] = names[..] else {
        let message = format!("a link has two ends, this one has {}", names.len());
        table.refuse("link", message, "write link = [\"S0\", \"L3\"]");
        return Vec::new();
    };
    let ends = [one, other].map(|name| end(table, topology, name));
    let [Some(first), Some(second)] = ends else { return Vec::new() };
    let ends = [first, second];
    let matches = |[left, right]: [&LinkEndRef<'_>; 2], link: LinkRef| match link {
        LinkRef::Between(link) => {
            let [one, other] = &topology.links[link].ends;
            left.is_at(one) && right.is_at(other) || left.is_at(other) && right.is_at(one)
        }
        LinkRef::ToHost(host) => {
            let at = |this: &LinkEndRef<'_>, other: &LinkEndRef<'_>| {
                matches!(this, LinkEndRef::Host(number) if *number == host) && other.is_at(&topology.hosts[host].port)
            };
            at(left, right) || at(right, left)
        }
    };
    let all = (0..topology.links.len()).map(LinkRef::Between).chain((0..topology.hosts.len()).map(LinkRef::ToHost));
    let mut found: Vec<LinkRef> = all.filter(|link| matches(ends.each_ref(), *link)).collect();
    let count = found.len();
    for end in &ends {
        if let LinkEndRef::Numbered(_, number) = end {
            found = found.get(*number).copied().into_iter().collect();
        }
    }
    if found.is_empty() {
        match count.checked_sub(1) {
            None => {
                let help = joined(topology, &ends[0], one);
                table.refuse("link", format!("no link joins {one} and {other}"), help);
            }
            Some(last) => {
                let message = format!("links that join {one} and {other} are numbered from 0 to {last}");
                table.refuse("link", message, "write such a number, or none for all of them");
            }
        }
    }
    if let Some(LinkRef::Between(_)) = found.iter().find(|link| is_down(topology, **link)) {
        table.refuse(
            "link",
            format!("{one} and {other} are not joined from the start: it is in `failed`"),
            "take it out",
        );
    }
    found
}

fn is_down(topology: &Topology, link: LinkRef) -> bool {
    matches!(link, LinkRef::Between(link) if !topology.links[link].is_up)
}

impl LinkEndRef<'_> {
    fn is_at(&self, port: &PortName) -> bool {
        match self {
            LinkEndRef::Host(_) => false,
            LinkEndRef::Switch(switch) | LinkEndRef::Numbered(switch, _) => port.switch == *switch,
            LinkEndRef::Port(switch, name) => port.switch == *switch && port.port == *name,
        }
    }
}

fn end<'n>(table: &Table<'_>, topology: &Topology, name: &'n str) -> Option<LinkEndRef<'n>> {
    if let Some(host) = topology.hosts.iter().position(|host| host.name == name) {
        return Some(LinkEndRef::Host(host));
    }
    let (switch_name, port) = name.split_once('.').map_or((name, None), |(switch, port)| (switch, Some(port)));
    let Some(switch) = topology.switches.iter().position(|switch| switch.name == switch_name) else {
        let names = topology.switch_names();
        let help = format!("write a host or a switch: there are {}", listed(&names));
        table.refuse("link", format!("no switch or host is named \"{name}\""), help);
        return None;
    };
    let Some(port) = port else { return Some(LinkEndRef::Switch(switch)) };
    let of_links = topology.links.iter().flat_map(|link| &link.ends);
    let ports = || of_links.clone().chain(topology.hosts.iter().map(|host| &host.port)).filter(|p| p.switch == switch);
    if ports().any(|other| other.port == port) {
        return Some(LinkEndRef::Port(switch, port));
    }
    let number = port.parse().ok().map(|number| LinkEndRef::Numbered(switch, number));
    if number.is_none() {
        let names: Vec<&str> = ports().map(|port| port.port.as_str()).collect();
        let help = format!("{switch_name} has the ports {}", listed(&names));
        table.refuse("link", format!("no port of switch {switch_name} is named \"{port}\""), help);
    }
    number
}

/// Describes the neighbours of an end.
fn joined(topology: &Topology, end: &LinkEndRef<'_>, name: &str) -> String {
    let mut names: Vec<&str> = Vec::new();
    for link in &topology.links {
        let [one, other] = &link.ends;
        for (here, there) in [(one, other), (other, one)] {
            if end.is_at(here) {
                names.push(&topology.switches[there.switch].name);
            }
        }
    }
    match end {
        LinkEndRef::Host(host) => names.push(&topology.switches[topology.hosts[*host].port.switch].name),
        end => names.extend(topology.hosts.iter().filter(|host| end.is_at(&host.port)).map(|host| host.name.as_str())),
    }
    names.dedup();
    format!("{name} is joined to: {}", listed(&names))
}

fn listed(names: &[&str]) -> String {
    let shown = names[..names.len().min(LISTED)].join(", ");
    if names.len() > LISTED { format!("{shown} and {} more", names.len() - LISTED) } else { shown }
}
