//! `[[outages]]`.

use weir_reader::{Problem, Table};
use weir_units::{Span, Time};

use super::keys::others as keys;
use super::reading::{instant, require, time_range};
use super::topology::{PortName, Topology};
use crate::scenario::{LinkRef, Outage};

/// Maximum number of names that an error lists.
const LISTED: usize = 8;
/// Maximum number of outages of a table.
const COUNT_MAX: u64 = 1_000;

/// Outages of a table's links: one, or several at an interval.
struct OutageSeries {
    links: Vec<LinkRef>,
    /// Start of the first outage, and the instant by which the last has ended.
    range: (Time, Time),
    count: u64,
    every: Span,
    length: Span,
}

/// Reads the outages, each of which may cut several links.
pub(super) fn read(root: &Table<'_>, topology: &Topology, end: Time) -> Vec<Outage> {
    let tables = root.tables("outages", "outages");
    let read = tables.iter().filter_map(|table| Some((table, series(table, topology, end)?)));
    let read: Vec<(&Table<'_>, OutageSeries)> = read.collect();
    for (n, (table, again)) in read.iter().enumerate() {
        let is_joined = |(_, other): &&(&Table<'_>, OutageSeries)| {
            other.links.iter().any(|link| again.links.contains(link)) && !again.is_apart(other)
        };
        if let Some((first, _)) = read[..n].iter().find(is_joined) {
            let problem = Problem::new("a link is cut that is not mended yet", "write a later `at`, or one outage");
            let problem = problem.with_label(table.key_path("at"), "again");
            table.doc().note(problem.with_label(first.key_path("at"), "cut here"));
        }
    }
    read.iter().flat_map(|(_, series)| series.outages()).collect()
}

impl OutageSeries {
    /// Returns the instants of each outage's start and end.
    fn ranges(&self) -> impl Iterator<Item = (Time, Time)> {
        (0..self.count)
            .map(|n| self.range.0 + self.every * n)
            .map(|at| (at, at.saturating_add(self.length).min(self.range.1)))
    }

    /// Whether no outage of one series begins before one of the other ends.
    fn is_apart(&self, other: &OutageSeries) -> bool {
        self.ranges().all(|one| other.ranges().all(|other| one.1 <= other.0 || other.1 <= one.0))
    }

    fn outages(&self) -> impl Iterator<Item = Outage> {
        self.ranges().flat_map(|(at, until)| self.links.iter().map(move |link| Outage { link: *link, at, until }))
    }
}

fn series(table: &Table<'_>, topology: &Topology, end: Time) -> Option<OutageSeries> {
    require(table, "link", "an outage", "link = [\"S0\", \"L3\"]");
    require(table, "at", "an outage", "at = \"1ms\"");
    let links = links(table, topology);
    let repetition = repetition(table);
    let range = match table.has("until") || repetition.is_some() {
        true => time_range(table, ["at", "until"], Time::ZERO..end, end)?,
        false => (instant(table, "at", Time::ZERO, end), Time::NEVER),
    };
    let all = range.1.since(range.0);
    let (every, length) = repetition.unwrap_or((all, all));
    let count = all.as_picos().div_ceil(every.as_picos());
    if count > COUNT_MAX {
        let message = format!("a link would fail {count} times, and {COUNT_MAX} are the most");
        table.refuse("every", message, "write a longer `every`, or an earlier `until`");
        return None;
    }
    Some(OutageSeries { links, range, count, every, length })
}

/// Reads the interval and the length of outages that repeat.
fn repetition(table: &Table<'_>) -> Option<(Span, Span)> {
    for [given, other] in [["every", "for"], ["for", "every"]] {
        if table.has(given) && !table.has(other) {
            table.refuse(given, format!("outages that repeat take `{other}` too"), "write both, or neither");
        }
    }
    let (every, length) = table.given(&keys::INTERVAL).zip(table.given(&keys::OUTAGE_LENGTH))?;
    if length >= every {
        let message = format!("outages of {length} each {every} leave the link no time");
        table.refuse("for", message, "write a shorter `for`, or a longer `every`");
        return None;
    }
    Some((every, length))
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
            let port = &topology.hosts[host];
            let at = |this: &LinkEndRef<'_>, other: &LinkEndRef<'_>| {
                matches!(this, LinkEndRef::Host(number) if *number == host || Some(*number) == port.first_port)
                    && other.is_at(&port.port)
            };
            at(left, right) || at(right, left)
        }
    };
    let all = (0..topology.links.len()).map(LinkRef::Between).chain((0..topology.hosts.len()).map(LinkRef::ToHost));
    let mut found: Vec<LinkRef> = all.filter(|link| matches(ends.each_ref(), *link)).collect();
    let count = found.len();
    let numbers = ends.iter().filter_map(|end| match end {
        LinkEndRef::Numbered(_, number) => Some(*number),
        _ => None,
    });
    let numbers: Vec<usize> = numbers.collect();
    if let Some(number) = numbers.first() {
        let is_one = numbers.iter().all(|other| other == number);
        found = found.get(*number).copied().filter(|_| is_one).into_iter().collect();
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
    if found.iter().any(|link| is_wire(topology, *link)) {
        let message = format!("a real wire joins {one} and {other}, and outages cut emulated links");
        table.refuse("link", message, "take the outage or the link's devices out");
    }
    found
}

fn is_wire(topology: &Topology, link: LinkRef) -> bool {
    match link {
        LinkRef::Between(link) => topology.links[link].devices.is_some(),
        LinkRef::ToHost(host) => topology.hosts[host].device.is_some(),
    }
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
        LinkEndRef::Host(host) => {
            let ports =
                topology.hosts.iter().enumerate().filter(|(n, port)| n == host || port.first_port == Some(*host));
            names.extend(ports.map(|(_, port)| topology.switches[port.port.switch].name.as_str()));
        }
        end => names.extend(topology.hosts.iter().filter(|host| end.is_at(&host.port)).map(|host| host.name.as_str())),
    }
    names.dedup();
    format!("{name} is joined to: {}", listed(&names))
}

fn listed(names: &[&str]) -> String {
    let shown = names[..names.len().min(LISTED)].join(", ");
    if names.len() > LISTED { format!("{shown} and {} more", names.len() - LISTED) } else { shown }
}
