//! Placement of switches and hosts in a drawing.

use std::collections::BTreeMap;
use std::f64::consts::TAU;

use weir_results::run_dir::{HostPlace, Topology};
use weir_units::BitRate;

use crate::picture::Point;

pub(super) struct Layout {
    pub width: f64,
    pub height: f64,
    /// Switches in the topology's order.
    pub switches: Vec<Node>,
    pub hosts: Vec<Hosts>,
}

/// Box, given by its centre.
#[derive(Clone, Copy, Default)]
pub(super) struct Node {
    pub at: Point,
    pub width: f64,
    pub height: f64,
}

/// Hosts of one switch that share a box: a single host, or all similar ones.
pub(super) struct Hosts {
    pub names: Vec<String>,
    pub label: String,
    pub detail: String,
    /// Index of the switch.
    pub switch: usize,
    pub is_cut: bool,
    pub node: Node,
}

/// Maximum number of separate hosts of a switch; more share a box.
const HOSTS_MAX: usize = 8;
/// Maximum number of separate hosts of a fabric; with more, the hosts of each switch share a box.
const ALL_HOSTS_MAX: usize = 28;

const WIDTH: f64 = 1_000.0;
const MARGIN: f64 = 12.0;
const SWITCH_WIDTH: f64 = 70.0;
const SWITCH_HEIGHT: f64 = 34.0;
const HOST_WIDTH: f64 = 66.0;
const HOST_HEIGHT: f64 = 36.0;
const BETWEEN_LAYERS: f64 = 120.0;

impl Layout {
    /// Places switches in layers above the hosts; 3 to 12 switches that are all in the lowest layer form a ring.
    pub(super) fn new(topology: &Topology) -> Layout {
        let hosts = hosts(topology);
        let levels = levels(topology);
        let top = levels.iter().copied().max().unwrap_or(0);
        let is_ring = top == 0 && topology.switches.len() > 2 && topology.switches.len() <= 12;
        if is_ring { ring(topology, hosts) } else { layers(hosts, &levels, top) }
    }
}

/// Distance of each switch to the nearest host: 0 with hosts of its own.
fn levels(topology: &Topology) -> Vec<usize> {
    let place: BTreeMap<&str, usize> =
        topology.switches.iter().enumerate().map(|(n, name)| (name.as_str(), n)).collect();
    let mut neighbours = vec![Vec::new(); topology.switches.len()];
    for link in &topology.links {
        let ends = [0, 1].map(|n| place.get(link.ends[n].switch.as_str()).copied());
        if let [Some(one), Some(other)] = ends {
            neighbours[one].push(other);
            neighbours[other].push(one);
        }
    }
    let mut levels = vec![usize::MAX; topology.switches.len()];
    let mut reached: Vec<usize> = Vec::new();
    for host in &topology.hosts {
        if let Some(switch) = place.get(host.at.switch.as_str()).filter(|switch| levels[**switch] != 0) {
            levels[*switch] = 0;
            reached.push(*switch);
        }
    }
    let mut next = 0;
    while next < reached.len() {
        let switch = reached[next];
        next += 1;
        for neighbour in &neighbours[switch] {
            if levels[*neighbour] == usize::MAX {
                levels[*neighbour] = levels[switch] + 1;
                reached.push(*neighbour);
            }
        }
    }
    // Without hosts there are no layers.
    levels.into_iter().map(|level| if level == usize::MAX { 0 } else { level }).collect()
}

/// Boxes of the hosts, without positions.
fn hosts(topology: &Topology) -> Vec<Hosts> {
    let mut boxes = Vec::new();
    for (switch, name) in topology.switches.iter().enumerate() {
        let here: Vec<&HostPlace> = topology.hosts.iter().filter(|host| host.at.switch == *name).collect();
        let together = here.len() > HOSTS_MAX || (topology.hosts.len() > ALL_HOSTS_MAX && here.len() > 1);
        let mut alike: Vec<(u64, Vec<&HostPlace>)> = Vec::new();
        for host in here {
            let is_plain = host.outages.is_empty() && host.copies == 0;
            match alike.iter_mut().find(|(rate, _)| together && is_plain && *rate == host.rate_bps) {
                Some((_, others)) => others.push(host),
                // A host with its own outages or copies never shares a box.
                None => alike.push((if is_plain { host.rate_bps } else { u64::MAX }, vec![host])),
            }
        }
        boxes.extend(alike.into_iter().map(|(_, hosts)| one_box(switch, &hosts)));
    }
    boxes
}

fn one_box(switch: usize, hosts: &[&HostPlace]) -> Hosts {
    let first = hosts[0];
    let rate = rate_text(first.rate_bps);
    let (label, detail) = match hosts {
        [_] if first.copies > 0 => (first.name.clone(), format!("+{} copies", first.copies)),
        [_] => (first.name.clone(), rate),
        [.., last] => (format!("{} hosts", hosts.len()), format!("{}…{}", first.name, last.name)),
        [] => Default::default(),
    };
    Hosts {
        names: hosts.iter().map(|host| host.name.clone()).collect(),
        label,
        detail,
        switch,
        is_cut: hosts.iter().any(|host| !host.outages.is_empty()),
        node: Node { width: HOST_WIDTH, height: HOST_HEIGHT, ..Node::default() },
    }
}

/// Rate in words: `10Gbps`; empty for a recorded rate of 0.
pub(super) fn rate_text(bps: u64) -> String {
    if bps == 0 { String::new() } else { BitRate::bps(bps).to_string() }
}

/// Layout in layers; the hosts of the lowest layer determine the width.
fn layers(mut hosts: Vec<Hosts>, levels: &[usize], top: usize) -> Layout {
    let y = |level: usize| MARGIN + SWITCH_HEIGHT / 2.0 + (top - level) as f64 * BETWEEN_LAYERS;
    let hosts_y = y(0) + if levels.len() == 1 { 110.0 } else { 90.0 };
    let slots = |switch: usize, hosts: &[Hosts]| hosts.iter().filter(|of| of.switch == switch).count().max(1);
    let bottom: Vec<usize> = (0..levels.len()).filter(|switch| levels[*switch] == 0).collect();
    let all_slots: usize = bottom.iter().map(|switch| slots(*switch, &hosts)).sum();
    let wanted = all_slots as f64 * (HOST_WIDTH + 12.0) + 2.0 * MARGIN;
    let widest = (0..=top).map(|level| levels.iter().filter(|of| **of == level).count()).max().unwrap_or(1);
    let width = wanted.max(widest as f64 * (SWITCH_WIDTH + 16.0)).clamp(320.0, WIDTH);
    let slot = (width - 2.0 * MARGIN) / all_slots.max(1) as f64;
    let mut switches = vec![Node::default(); levels.len()];
    let mut next = 0.0;
    for switch in bottom {
        let own = slots(switch, &hosts) as f64;
        let from = MARGIN + next * slot;
        next += own;
        let node_width = SWITCH_WIDTH.min(own * slot - 4.0).max(2.0);
        let at = Point { x: from + own * slot / 2.0, y: y(0) };
        switches[switch] = Node { at, width: node_width, height: SWITCH_HEIGHT };
        for (n, of_switch) in hosts.iter_mut().filter(|of| of.switch == switch).enumerate() {
            let node_width = of_switch.node.width.min(slot - 4.0).max(2.0);
            let at = Point { x: from + (n as f64 + 0.5) * slot, y: hosts_y };
            of_switch.node = Node { at, width: node_width, ..of_switch.node };
        }
    }
    for level in 1..=top {
        let of_level: Vec<usize> = (0..levels.len()).filter(|switch| levels[*switch] == level).collect();
        let slot = (width - 2.0 * MARGIN) / of_level.len().max(1) as f64;
        for (n, switch) in of_level.into_iter().enumerate() {
            let at = Point { x: MARGIN + (n as f64 + 0.5) * slot, y: y(level) };
            switches[switch] = Node { at, width: SWITCH_WIDTH.min(slot - 4.0).max(2.0), height: SWITCH_HEIGHT };
        }
    }
    let has_hosts = !hosts.is_empty();
    Layout {
        width,
        height: if has_hosts { hosts_y + HOST_HEIGHT } else { y(0) + SWITCH_HEIGHT } + MARGIN,
        switches,
        hosts,
    }
}

/// Layout with switches on a circle and their hosts outside.
fn ring(topology: &Topology, mut hosts: Vec<Hosts>) -> Layout {
    let count = topology.switches.len();
    let radius = 70.0 + 22.0 * count as f64;
    let far = radius + 90.0;
    let middle = Point { x: far + HOST_WIDTH / 2.0 + MARGIN, y: far + HOST_HEIGHT / 2.0 + MARGIN };
    let place =
        |angle: f64, radius: f64| Point { x: middle.x + radius * angle.sin(), y: middle.y - radius * angle.cos() };
    let angle = |switch: usize| switch as f64 / count as f64 * TAU;
    let switches = (0..count)
        .map(|switch| Node { at: place(angle(switch), radius), width: SWITCH_WIDTH, height: SWITCH_HEIGHT })
        .collect();
    for switch in 0..count {
        let own = hosts.iter().filter(|of| of.switch == switch).count();
        // No further than to the neighbours' hosts.
        let apart = (TAU / count as f64 / own.max(1) as f64).min(80.0 / far);
        for (n, of_switch) in hosts.iter_mut().filter(|of| of.switch == switch).enumerate() {
            of_switch.node.at = place(angle(switch) + apart * (n as f64 - (own as f64 - 1.0) / 2.0), far);
        }
    }
    // No space below the lowest node.
    let nodes = || hosts.iter().map(|of| of.node.at.y);
    let lowest = nodes().fold(middle.y, f64::max) + HOST_HEIGHT / 2.0 + MARGIN;
    Layout { width: 2.0 * middle.x, height: lowest, switches, hosts }
}
