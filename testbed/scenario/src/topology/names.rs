//! Names of nodes, and of ports, which are named after their neighbours.

use std::collections::{BTreeMap, BTreeSet};

use super::{Fabric, TopologyError};
use crate::port_ref::{LinkPeer, PortRef};

/// Maximum length of a node's name: with `to-` and the number of a parallel link, it is a valid name of a port, of at most 31.
const NODE_NAME_MAX: usize = 24;

impl Fabric {
    /// Returns the names of all ports, switch by switch.
    ///
    /// A port is named after its host, such as `H12`, or its neighbour: `to-L3` for a link to L3. Parallel links have `to-L3.0`,
    /// `to-L3.1` and so on, in the links' order, hence with the same number at both ends. Names are unique on their switch, and valid for
    /// ports: 1 to 31 letters, digits, `_`, `.` and `-`.
    ///
    /// # Panics
    /// If the fabric is inconsistent ([`Fabric::check`]).
    pub fn port_names(&self) -> Vec<Vec<String>> {
        let behind = self.peers();
        let numbers = self.parallel_numbers();
        let name = |place: PortRef, behind: &LinkPeer| match behind {
            LinkPeer::Host(host) => self.hosts[*host].name.clone(),
            LinkPeer::Port(peer) => match numbers.get(&place) {
                Some(number) => format!("to-{}.{number}", self.switches[peer.switch].name),
                None => format!("to-{}", self.switches[peer.switch].name),
            },
        };
        let of_switch = |(switch, ports): (usize, &Vec<LinkPeer>)| {
            ports.iter().enumerate().map(|(port, behind)| name(PortRef { switch, port }, behind)).collect()
        };
        behind.iter().enumerate().map(of_switch).collect()
    }

    /// Returns names of ports with their switch, such as `S0.to-L3`, for reports.
    ///
    /// # Panics
    /// If the fabric is inconsistent, or has no such port.
    #[cfg(test)]
    pub(super) fn place_names(&self, places: &[PortRef]) -> Vec<String> {
        let names = self.port_names();
        let name =
            |place: &PortRef| format!("{}.{}", self.switches[place.switch].name, names[place.switch][place.port]);
        places.iter().map(name).collect()
    }

    /// Returns the indices of the links between two switches, in order: a link's number is its position among them.
    pub(super) fn links_between(&self, one: usize, other: usize) -> Vec<usize> {
        let joins = |ends: [PortRef; 2]| {
            let switches = ends.map(|end| end.switch);
            switches == [one, other] || switches == [other, one]
        };
        (0..self.links.len()).filter(|link| joins(self.links[*link].ends)).collect()
    }

    /// Returns the numbers of the ports of parallel links.
    fn parallel_numbers(&self) -> BTreeMap<PortRef, usize> {
        let mut bundles: BTreeMap<[usize; 2], Vec<[PortRef; 2]>> = BTreeMap::new();
        for link in &self.links {
            let mut switches = link.ends.map(|end| end.switch);
            switches.sort();
            bundles.entry(switches).or_default().push(link.ends);
        }
        let parallel = bundles.into_values().filter(|bundle| bundle.len() > 1);
        let numbered = parallel.flat_map(|bundle| bundle.into_iter().enumerate().collect::<Vec<_>>());
        numbered.flat_map(|(number, ends)| ends.map(|end| (end, number))).collect()
    }
}

/// Checks that all nodes have names, and different ones.
pub(super) fn check(fabric: &Fabric) -> Result<(), TopologyError> {
    let mut seen = BTreeSet::new();
    let switches = fabric.switches.iter().map(|switch| &switch.name);
    for name in switches.chain(fabric.hosts.iter().map(|host| &host.name)) {
        if !is_node_name(name) {
            return Err(TopologyError::Name(name.clone()));
        }
        if !seen.insert(name) {
            return Err(TopologyError::NameTwice(name.clone()));
        }
    }
    Ok(())
}

/// Full stops and the prefix `to-` are refused: the name could be that of another port.
fn is_node_name(name: &str) -> bool {
    (1..=NODE_NAME_MAX).contains(&name.len())
        && !name.starts_with('-')
        && !name.starts_with("to-")
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

#[cfg(test)]
mod tests {
    use weir_reader::is_name;
    use weir_units::{BitRate, Span};

    use super::*;
    use crate::topology::{Clos, FatTree, LeafSpine, LinkSpec};

    #[test]
    fn ports_are_named_after_what_is_behind_them() {
        let cable = LinkSpec::new(BitRate::gbps(100), Span::from_micros(1));
        let mut fabric = Fabric::new();
        let [s0, l3] = ["S0", "L3"].map(|name| fabric.add_switch(name));
        fabric.add_host("H12", l3, cable);
        fabric.join(s0, l3, cable);
        assert_eq!(fabric.port_names(), [vec!["to-L3"], vec!["H12", "to-S0"]]);
        fabric.join(l3, s0, cable);
        assert_eq!(fabric.port_names(), [vec!["to-L3.0", "to-L3.1"], vec!["H12", "to-S0.0", "to-S0.1"]]);
        assert_eq!(fabric.place_names(&[PortRef { switch: 1, port: 2 }]), ["L3.to-S0.1"]);
    }

    #[test]
    fn names_of_ports_are_legal_and_unique_on_their_switch() {
        let parallel = LeafSpine { parallel: 2, ..LeafSpine::dsh_deadlock() };
        for fabric in [parallel.fabric(), Clos::spfc().fabric(), FatTree::gfc(8).fabric()] {
            for ports in fabric.unwrap().port_names() {
                assert!(ports.iter().all(|name| is_name(name)), "{ports:?}");
                assert_eq!(ports.iter().collect::<BTreeSet<_>>().len(), ports.len(), "{ports:?}");
            }
        }
    }

    #[test]
    fn names_that_could_be_a_ports_are_refused() {
        for name in ["", "-a", "to-L3", "L3.0", "a b", "é", "abcdefghijklmnopqrstuvwxy"] {
            assert!(!is_node_name(name), "{name}");
        }
        for name in ["0", "SE3", "tor-1", "_x", "abcdefghijklmnopqrstuvwx"] {
            assert!(is_node_name(name) && is_name(&format!("to-{name}.63")), "{name}");
        }
    }
}
