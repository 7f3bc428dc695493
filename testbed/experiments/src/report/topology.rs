//! Drawing of the runs' topology: switches in layers above their hosts, or in a ring.

mod layout;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use weir_results::run_dir::{OutageTimes, Topology};
use weir_units::Span;

use super::html::escaped;
use super::input::Run;
use crate::picture::Point;
use layout::{Layout, Node, rate_text};

pub(super) struct Drawing {
    pub runs: Vec<String>,
    pub svg: String,
    pub description: String,
}

/// Maximum number of drawings; further topologies are not drawn.
const DRAWINGS_MAX: usize = 8;

/// Number of links above which a fabric is drawn with thin lines without names.
const LARGE: usize = 200;

/// Draws each combination of topology and deadlock.
pub(super) fn drawings(runs: &[Run]) -> Vec<Drawing> {
    let mut drawings: Vec<(&Topology, Vec<String>, Drawing)> = Vec::new();
    for run in runs {
        let Some(topology) = &run.topology else { continue };
        let cycle = run.summary.deadlock.as_ref().map_or_else(Vec::new, |deadlock| ports_of(&deadlock.cycle));
        match drawings.iter().position(|(of, ports, _)| *of == topology && *ports == cycle) {
            Some(place) => drawings[place].2.runs.push(run.label.clone()),
            None if drawings.len() == DRAWINGS_MAX => {}
            None => {
                let slow: BTreeSet<&str> = run.summary.hosts.iter().map(|host| host.name.as_str()).collect();
                let drawing = Drawing {
                    runs: vec![run.label.clone()],
                    svg: svg(topology, &cycle, &slow),
                    description: description(topology),
                };
                drawings.push((topology, cycle, drawing));
            }
        }
    }
    drawings.into_iter().map(|(.., drawing)| drawing).collect()
}

/// Describes a topology: `3 switches, 3 hosts, 3 links between switches`.
pub(super) fn description(topology: &Topology) -> String {
    let of = |n: usize, one: &str, several: &str| match n {
        1 => format!("one {one}"),
        n => format!("{} {several}", crate::table::count(n as u64)),
    };
    let hosts: BTreeSet<&str> = topology.hosts.iter().map(|host| host.name.as_str()).collect();
    let mut parts = vec![of(topology.switches.len(), "switch", "switches"), of(hosts.len(), "host", "hosts")];
    if !topology.links.is_empty() {
        parts.push(of(topology.links.len(), "link between switches", "links between switches"));
    }
    let outages =
        topology.hosts.iter().map(|host| &host.outages).chain(topology.links.iter().map(|link| &link.outages));
    match outages.filter(|outages| !outages.is_empty()).count() {
        0 => {}
        n => parts.push(of(n, "link that is cut", "links that are cut")),
    }
    parts.join(", ")
}

/// Ports of a cycle: `S1.next -> S2.next -> S1.next, class 3`.
pub(super) fn ports_of(cycle: &str) -> Vec<String> {
    let ports = cycle.rsplit_once(", class").map_or(cycle, |(ports, _)| ports);
    let mut ports: Vec<String> = ports.split(" -> ").map(str::to_owned).collect();
    if ports.len() > 1 && ports.first() == ports.last() {
        ports.pop();
    }
    ports
}

fn svg(topology: &Topology, cycle: &[String], slow: &BTreeSet<&str>) -> String {
    let layout = Layout::new(topology);
    let mut svg = format!(
        "<svg viewBox=\"0 0 {:.0} {:.0}\" class=\"topology\" role=\"img\" style=\"min-width:{:.0}px;max-width:{:.0}px\" \
         aria-label=\"{}\">",
        layout.width,
        layout.height,
        layout.width.min(620.0),
        layout.width * 1.15,
        escaped(&description(topology))
    );
    links(&mut svg, topology, &layout, cycle);
    for host in &layout.hosts {
        let class = if host.is_cut { "cut" } else { "link" };
        let at = layout.switches[host.switch].at;
        let _ = write!(
            svg,
            "<path class=\"{class}\" d=\"M{:.0} {:.0}L{:.0} {:.0}\"/>",
            at.x, at.y, host.node.at.x, host.node.at.y
        );
    }
    for (node, name) in layout.switches.iter().zip(&topology.switches) {
        draw_node(&mut svg, node, "switch", name, "");
    }
    for host in &layout.hosts {
        let class = if host.names.iter().any(|name| slow.contains(name.as_str())) { "host slow" } else { "host" };
        draw_node(&mut svg, &host.node, class, &host.label, &host.detail);
    }
    svg + "</svg>"
}

/// Draws links between switches: those of a cycle with an arrow, and cut ones dashed; all others as one path, since
/// there may be thousands.
fn links(svg: &mut String, topology: &Topology, layout: &Layout, cycle: &[String]) {
    let place: BTreeMap<&str, usize> =
        topology.switches.iter().enumerate().map(|(n, name)| (name.as_str(), n)).collect();
    let is_large = topology.links.len() > LARGE;
    let mut plain = String::new();
    let (mut special, mut labels) = (String::new(), String::new());
    let mut drawn: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    for link in &topology.links {
        let ends = [&link.ends[0], &link.ends[1]];
        let (Some(from), Some(to)) = (place.get(ends[0].switch.as_str()), place.get(ends[1].switch.as_str())) else {
            continue;
        };
        let (mut a, mut b) = (layout.switches[*from].at, layout.switches[*to].at);
        if is_large && a.y != b.y {
            // From edge to edge: narrow boxes would not cover thousands of line ends.
            let half = layout.switches[*from].height / 2.0 * if a.y < b.y { 1.0 } else { -1.0 };
            (a.y, b.y) = (a.y + half, b.y - half);
        }
        // Parallel links are bent apart.
        let nth = drawn.entry((*from.min(to), *from.max(to))).or_default();
        let bend =
            if *nth == 0 { 0.0 } else { 14.0 * (1 + (*nth - 1) / 2) as f64 * if *nth % 2 == 1 { 1.0 } else { -1.0 } };
        *nth += 1;
        let path = |a: Point, b: Point| {
            let (dx, dy) = (b.x - a.x, b.y - a.y);
            let length = dx.hypot(dy).max(1.0);
            let middle = Point { x: (a.x + b.x) / 2.0 - dy / length * bend, y: (a.y + b.y) / 2.0 + dx / length * bend };
            match bend == 0.0 {
                true => format!("M{:.0} {:.0}L{:.0} {:.0}", a.x, a.y, b.x, b.y),
                false => format!("M{:.0} {:.0}Q{:.0} {:.0} {:.0} {:.0}", a.x, a.y, middle.x, middle.y, b.x, b.y),
            }
        };
        let name = |n: usize| format!("{}.{}", ends[n].switch, ends[n].port);
        let title = format!("{} to {}{}", name(0), name(1), link_text(link.rate_bps, link.delay_ns, &link.outages));
        let of_cycle = |n: usize| cycle.contains(&name(n));
        if of_cycle(0) || of_cycle(1) {
            let (from, to) = if of_cycle(0) { (a, b) } else { (b, a) };
            let arrow = arrow(from, to);
            let _ = write!(
                special,
                "<g class=\"cycle\"><title>{}</title><path d=\"{}\"/>{arrow}</g>",
                escaped(&title),
                path(from, to)
            );
        } else if !link.outages.is_empty() {
            let _ =
                write!(special, "<path class=\"cut\" d=\"{}\"><title>{}</title></path>", path(a, b), escaped(&title));
            if topology.links.len() <= 40 {
                let (x, y) = ((a.x + b.x) / 2.0, (a.y + b.y) / 2.0 - 6.0);
                let _ = write!(
                    labels,
                    "<text class=\"note\" x=\"{x:.0}\" y=\"{y:.0}\">{}</text>",
                    escaped(&outage_text(&link.outages))
                );
            }
        } else if !is_large {
            let _ =
                write!(special, "<path class=\"link\" d=\"{}\"><title>{}</title></path>", path(a, b), escaped(&title));
        } else {
            plain += &path(a, b);
        }
    }
    let class = if is_large { "link many" } else { "link" };
    if !plain.is_empty() {
        let _ = write!(svg, "<path class=\"{class}\" d=\"{plain}\"/>");
    }
    *svg += &special;
    *svg += &labels;
}

/// Arrow head in the middle of a line.
fn arrow(from: Point, to: Point) -> String {
    let (dx, dy) = (to.x - from.x, to.y - from.y);
    let length = dx.hypot(dy).max(1.0);
    let (ux, uy) = (dx / length, dy / length);
    let tip = Point { x: from.x + dx * 0.55, y: from.y + dy * 0.55 };
    let corner = |side: f64| Point { x: tip.x - 13.0 * ux - side * 7.0 * uy, y: tip.y - 13.0 * uy + side * 7.0 * ux };
    let (left, right) = (corner(1.0), corner(-1.0));
    format!(
        "<path class=\"head\" d=\"M{:.1} {:.1}L{:.1} {:.1}L{:.1} {:.1}Z\"/>",
        tip.x, tip.y, left.x, left.y, right.x, right.y
    )
}

fn draw_node(svg: &mut String, node: &Node, class: &str, label: &str, detail: &str) {
    let (x, y) = (node.at.x - node.width / 2.0, node.at.y - node.height / 2.0);
    let title = if detail.is_empty() { label.to_owned() } else { format!("{label}, {detail}") };
    let _ = write!(
        svg,
        "<g class=\"{class}\"><title>{}</title><rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"4\"/>",
        escaped(&title),
        node.width,
        node.height
    );
    // A letter is about 7 wide.
    let fits = |text: &str, letter: f64| text.chars().count() as f64 * letter < node.width + 1.0;
    if fits(label, 6.8) {
        let two = !detail.is_empty() && fits(detail, 5.7) && node.height > 30.0;
        let y = if two { node.at.y - 3.0 } else { node.at.y + 4.5 };
        let _ = write!(svg, "<text x=\"{:.1}\" y=\"{y:.1}\">{}</text>", node.at.x, escaped(label));
        if two {
            let _ = write!(
                svg,
                "<text class=\"detail\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                node.at.x,
                node.at.y + 12.0,
                escaped(detail)
            );
        }
    }
    *svg += "</g>";
}

fn link_text(rate_bps: Option<u64>, delay_ns: u64, outages: &[OutageTimes]) -> String {
    let rate = rate_bps.map_or_else(String::new, |bps| format!(", {}", rate_text(bps)));
    let outages = if outages.is_empty() { String::new() } else { format!(", {}", outage_text(outages)) };
    format!("{rate}, {} one way{outages}", Span::from_nanos(delay_ns))
}

/// Describes outages: `cut from 3ms to 5ms`.
fn outage_text(outages: &[OutageTimes]) -> String {
    let texts = outages.iter().map(|outage| {
        let from = Span::from_nanos(outage.from_ns);
        match outage.until_ns {
            Some(until) => format!("cut from {from} to {}", Span::from_nanos(until)),
            None => format!("cut from {from} on"),
        }
    });
    texts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use weir_results::run_dir::{HostPlace, PortName, SwitchLink};

    use super::*;

    fn port(switch: &str, port: &str) -> PortName {
        PortName { switch: switch.into(), port: port.into() }
    }

    fn two_switches() -> Topology {
        let host = |name: &str, switch: &str| HostPlace {
            name: name.into(),
            at: port(switch, "h"),
            rate_bps: 10_000_000_000,
            ..HostPlace::default()
        };
        let outages = vec![OutageTimes { from_ns: 3_000_000, until_ns: None }];
        let link = SwitchLink { ends: [port("S1", "a"), port("S2", "b")], outages, ..SwitchLink::default() };
        Topology {
            switches: vec!["S1".into(), "S2".into()],
            hosts: vec![host("<b>", "S1"), host("H2", "S2")],
            links: vec![link],
            ..Topology::default()
        }
    }

    #[test]
    fn nodes_links_and_what_is_cut_are_drawn_and_names_escaped() {
        let svg = svg(&two_switches(), &[], &BTreeSet::from(["H2"]));
        for part in [">S1<", ">S2<", "&lt;b&gt;", "class=\"cut\"", "cut from 3ms on", "class=\"host slow\""] {
            assert!(svg.contains(part), "{part} in {svg}");
        }
        assert!(!svg.contains("<b>"));
        assert_eq!(
            description(&two_switches()),
            "2 switches, 2 hosts, one link between switches, one link that is cut"
        );
    }

    #[test]
    fn a_cycle_has_arrows() {
        assert_eq!(ports_of("S1.a -> S2.b -> S1.a, class 3"), ["S1.a", "S2.b"]);
        assert!(svg(&two_switches(), &["S1.a".to_owned()], &BTreeSet::new()).contains("class=\"head\""));
    }
}
