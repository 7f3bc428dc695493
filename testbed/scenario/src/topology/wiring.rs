//! Far ends of links, by port.

use super::{Fabric, LinkSpec};
use crate::port_ref::{LinkPeer, PortRef};

/// Links of a fabric by port. Ports of all switches are in one table, switch by switch.
#[derive(Clone, Debug)]
pub(super) struct Wiring {
    wires: Box<[PortLink]>,
    /// Start of each switch's ports in the table, and at the end the table's length.
    first: Box<[usize]>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct PortLink {
    pub peer: LinkPeer,
    pub link: LinkSpec,
    pub is_up: bool,
}

impl Wiring {
    /// Builds the table.
    ///
    /// # Panics
    /// If a port has not exactly one link.
    pub(super) fn new(fabric: &Fabric) -> Wiring {
        let mut first = vec![0];
        for switch in &fabric.switches {
            first.push(first[first.len() - 1] + switch.ports);
        }
        let mut wires = vec![None; first[fabric.switches.len()]];
        let mut attach = |place: PortRef, wire: PortLink| {
            assert!(place.port < fabric.switches[place.switch].ports, "no port {place:?}");
            let before = wires[first[place.switch] + place.port].replace(wire);
            assert!(before.is_none(), "two cables at {place:?}");
        };
        for (number, host) in fabric.hosts.iter().enumerate() {
            attach(host.at, PortLink { peer: LinkPeer::Host(number), link: host.cable(), is_up: true });
        }
        for link in &fabric.links {
            let [one, other] = link.ends;
            for (here, there) in [(one, other), (other, one)] {
                attach(here, PortLink { peer: LinkPeer::Port(there), link: link.cable(), is_up: link.is_up });
            }
        }
        let wires = wires.into_iter().map(|wire| wire.expect("each port of a switch has a host or a link"));
        Wiring { wires: wires.collect(), first: first.into() }
    }

    pub(super) fn switch_count(&self) -> usize {
        self.first.len() - 1
    }

    /// Returns the links of each switch, by port.
    pub(super) fn switches(&self) -> impl Iterator<Item = &[PortLink]> {
        self.first.windows(2).map(|range| &self.wires[range[0]..range[1]])
    }

    pub(super) fn of_switch(&self, switch: usize) -> &[PortLink] {
        &self.wires[self.first[switch]..self.first[switch + 1]]
    }

    pub(super) fn port(&self, place: PortRef) -> &PortLink {
        &self.of_switch(place.switch)[place.port]
    }

    /// Returns the switch at the far end of a port's link, unless it is a host.
    pub(super) fn next_switch(&self, place: PortRef) -> Option<usize> {
        match self.port(place).peer {
            LinkPeer::Port(there) => Some(there.switch),
            LinkPeer::Host(_) => None,
        }
    }

    /// Cuts a port's link in this direction.
    pub(super) fn cut(&mut self, place: PortRef) {
        let number = self.number(place);
        self.wires[number].is_up = false;
    }

    /// Returns a port's index in the table of all ports.
    pub(super) fn number(&self, place: PortRef) -> usize {
        self.first[place.switch] + place.port
    }

    pub(super) fn port_count(&self) -> usize {
        self.wires.len()
    }
}
