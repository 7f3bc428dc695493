//! Ports of a scenario with their link peers, and the queues of its series.

use weir_scenario::{LinkPeer, PortRef, Scenario};
use weir_units::Class;

/// Most queues of a series. The series of a larger fabric has the drawn ports only.
pub(crate) const QUEUES_MAX: usize = 64;

/// Ports of a scenario, switch by switch.
#[derive(Debug)]
pub struct Ports {
    ports: Vec<Port>,
    /// Index of each switch's first port.
    first: Vec<usize>,
    queues: Vec<SeriesQueue>,
    /// Number of lossless queues of linked ports. The series of a large fabric shows only some.
    queues_in_all: usize,
    /// Whether the series needs reports of each switch: it shows a queue of the switch, or of a peer.
    shown: Vec<bool>,
}

/// Port of a switch.
#[derive(Debug)]
pub struct Port {
    pub place: PortRef,
    pub name: String,
    /// Peer of the port; `None` without one in the scenario, as for clones and all ports of a lab switch.
    pub peer: Option<LinkPeer>,
    /// Whether the port has a link: to a host or switch of the scenario, or outside on a lab switch.
    is_linked: bool,
    /// Range of the port's queues in the series: first, and one past the last.
    queues: (usize, usize),
}

/// Queue of the series: a lossless class of a linked port or of its clone.
#[derive(Clone, Copy, Debug)]
pub struct SeriesQueue {
    pub place: PortRef,
    pub class: Class,
    pub peer: Option<LinkPeer>,
}

impl Ports {
    /// Reads the ports of a scenario.
    pub fn new(scenario: &Scenario) -> Ports {
        let mut peers: Vec<Vec<Option<LinkPeer>>> =
            scenario.switches.iter().map(|switch| vec![None; switch.ports.len()]).collect();
        for link in &scenario.links {
            for (end, other) in [(0, 1), (1, 0)] {
                peers[link.ends[end].switch][link.ends[end].port] = Some(LinkPeer::Port(link.ends[other]));
            }
        }
        for (number, host) in scenario.hosts.iter().enumerate() {
            peers[host.switch][host.port] = Some(LinkPeer::Host(number));
        }
        let (mut ports, mut first) = (Vec::new(), Vec::new());
        for (switch, peers) in peers.iter().enumerate() {
            first.push(ports.len());
            for (port, peer) in peers.iter().enumerate() {
                let place = PortRef { switch, port };
                let name = scenario.port_name(place);
                let is_outside = scenario.is_lab() && scenario.switches[switch].ports[port].clone_of().is_none();
                let is_cabled = peer.is_some() || is_outside;
                ports.push(Port { place, name, peer: *peer, is_linked: is_cabled, queues: (0, 0) });
            }
        }
        let shown = vec![false; scenario.switches.len()];
        let mut all = Ports { ports, first, queues: Vec::new(), queues_in_all: 0, shown };
        all.choose_queues(scenario);
        all
    }

    fn choose_queues(&mut self, scenario: &Scenario) {
        let lossless = |place: PortRef| scenario.switches[place.switch].classes.lossless;
        let is_linked = |ports: &Ports, place: PortRef| {
            let real = scenario.switches[place.switch].real_port(place.port);
            ports.port(PortRef { port: real, ..place }).is_linked
        };
        let linked: Vec<bool> = self.ports.iter().map(|port| is_linked(self, port.place)).collect();
        let of_linked = self.ports.iter().zip(&linked).filter(|(_, linked)| **linked);
        self.queues_in_all = of_linked.map(|(port, _)| lossless(port.place).len()).sum();
        let drawn = |place: PortRef| self.queues_in_all <= QUEUES_MAX || scenario.draw.contains(&place);
        for (port, linked) in self.ports.iter_mut().zip(linked) {
            let from = self.queues.len();
            let place = port.place;
            if linked && drawn(place) {
                let queues = lossless(place).iter().map(|class| SeriesQueue { place, class, peer: port.peer });
                self.queues.extend(queues.take(QUEUES_MAX - from));
            }
            port.queues = (from, self.queues.len());
        }
        for queue in &self.queues {
            self.shown[queue.place.switch] = true;
            // The peer's report has the rate that the peer was set.
            if let Some(LinkPeer::Port(peer)) = queue.peer {
                self.shown[peer.switch] = true;
            }
        }
    }

    /// Returns the index of a port, in the order of [`Ports::iter`].
    pub fn number(&self, place: PortRef) -> usize {
        self.first[place.switch] + place.port
    }

    /// Returns a port.
    pub fn port(&self, place: PortRef) -> &Port {
        &self.ports[self.number(place)]
    }

    /// Returns the ports of a switch, with their indices.
    pub(crate) fn of_switch(&self, switch: usize) -> impl Iterator<Item = (usize, &Port)> {
        let first = self.first[switch];
        (first..).zip(self.ports[first..].iter().take_while(move |port| port.place.switch == switch))
    }

    /// Returns all ports, switch by switch.
    pub fn iter(&self) -> impl Iterator<Item = &Port> {
        self.ports.iter()
    }

    /// Returns the number of ports.
    #[allow(clippy::len_without_is_empty, reason = "a scenario has ports")]
    pub fn len(&self) -> usize {
        self.ports.len()
    }

    /// Returns the ports with a link, in the scenario or outside.
    pub fn linked(&self) -> impl Iterator<Item = &Port> {
        self.ports.iter().filter(|port| port.is_linked)
    }

    /// Returns the queues of the series.
    pub fn queues(&self) -> &[SeriesQueue] {
        &self.queues
    }

    /// Returns the indices of a port's queues in the series.
    pub(crate) fn queues_of(&self, place: PortRef) -> std::ops::Range<usize> {
        let (from, to) = self.port(place).queues;
        from..to
    }

    /// Whether the series leaves queues out.
    pub fn is_large(&self) -> bool {
        self.queues_in_all > QUEUES_MAX
    }

    /// Whether the series needs the reports of a switch.
    pub fn shows(&self, switch: usize) -> bool {
        self.shown[switch]
    }

    /// Describes the choice of queues in the series; `None` if it has all queues.
    pub fn note(&self) -> Option<String> {
        self.is_large().then(|| {
            format!(
                "series.csv shows {} of {} queues, those of ports that are drawn, and the switches' pools",
                self.queues.len(),
                self.queues_in_all
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use weir_scenario::file;

    /// Two linked switches with `hosts` hosts each, and one lossless class for each port.
    fn pair(hosts: usize, draw: &str) -> Scenario {
        let mut text = format!("[scenario]\nend = \"1ms\"\n{draw}\n[switch.buffer]\nsize = \"40MB\"\n").to_owned();
        text += "[switch.classes]\npreset = \"roce\"\n[switch.port]\nrate = \"10Gbps\"\ndelay = \"1us\"\n";
        for switch in ["S1", "S2"] {
            text += &format!("[[switches]]\nname = \"{switch}\"\n");
            for n in 0..hosts {
                text += &format!("[[hosts]]\nname = \"{switch}H{n}\"\nport = \"{switch}.h{n}\"\n");
            }
        }
        text += "[[links]]\nends = [\"S1.next\", \"S2.prev\"]\n";
        text += "[[flows]]\nfrom = \"S1H0\"\nto = \"S2H0\"\nclass = 3\n";
        let runs = file::parse(Path::new("pair.toml"), &text);
        runs.unwrap_or_else(|errors| panic!("{}", errors.render(false))).remove(0).scenario
    }

    #[test]
    fn a_small_fabric_is_shown_completely() {
        let scenario = pair(31, "");
        let ports = Ports::new(&scenario);
        assert_eq!((ports.len(), ports.queues().len(), ports.is_large()), (64, 64, false));
        assert!(ports.note().is_none() && ports.linked().count() == 64);
        for port in ports.iter() {
            assert_eq!((port.peer, &port.name), (scenario.peer(port.place), &scenario.port_name(port.place)));
            let of_port = ports.queues_of(port.place).map(|n| ports.queues()[n].place);
            assert_eq!(of_port.collect::<Vec<_>>(), [port.place]);
        }
    }

    #[test]
    fn of_a_large_fabric_the_drawn_ports_are() {
        let ports = Ports::new(&pair(32, "plot_ports = [\"S1.h1\", \"S1.next\"]"));
        let names: Vec<&str> = ports.queues().iter().map(|queue| ports.port(queue.place).name.as_str()).collect();
        assert_eq!((names.len(), ports.is_large()), (2, true));
        assert!(names.contains(&"S1.h1") && names.contains(&"S1.next"));
        assert!(ports.shows(0) && ports.shows(1), "the peer's rate is told at its other end");
        let note = ports.note().unwrap();
        assert!(note.starts_with("series.csv shows 2 of 66 queues"), "{note}");
        // By default all ports with hosts are drawn.
        assert_eq!(Ports::new(&pair(60, "")).queues().len(), QUEUES_MAX);
        let one_side = Ports::new(&pair(40, "plot_ports = [\"S1.h1\"]"));
        assert!(one_side.shows(0) && !one_side.shows(1));
    }
}
