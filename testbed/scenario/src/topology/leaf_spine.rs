//! Two-tier fabrics: every leaf is joined with every spine.

use weir_units::{BitRate, Span};

use super::{Fabric, LinkSpec, TopologyError, check_fewest, check_ports};

/// Leaves L0, L1, ... with hosts H0, H1, ... in their order, and spines S0, S1, ..., named as in the DSH paper.
///
/// A leaf's hosts are on its first ports, then come its links to S0, to S1 and so on, parallel ones next to each other. A spine has its
/// leaves in order. Switches are numbered leaves first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafSpine {
    /// Number of leaves.
    pub leaves: usize,
    /// Number of spines.
    pub spines: usize,
    /// Number of hosts on each leaf.
    pub hosts_per_leaf: usize,
    /// Number of links from each leaf to each spine.
    pub parallel: usize,
    /// The hosts' links.
    pub host_cable: LinkSpec,
    /// Links between leaves and spines.
    pub fabric_link: LinkSpec,
}

impl LeafSpine {
    /// Fabric of the DSH paper's section V-B: 16 leaves, 16 spines, 256 hosts, all links of 100 Gb/s and 2 us.
    pub fn dsh() -> LeafSpine {
        let cable = LinkSpec::new(BitRate::gbps(100), Span::from_micros(2));
        LeafSpine { leaves: 16, spines: 16, hosts_per_leaf: 16, parallel: 1, host_cable: cable, fabric_link: cable }
    }

    /// Fabric of the DSH paper's Fig. 16(a) before S0-L3 and S1-L0 fail: four leaves of 16 hosts at 100 Gb/s, and two spines at 400 Gb/s,
    /// 2 us each.
    #[cfg(test)]
    pub(crate) fn dsh_deadlock() -> LeafSpine {
        let fabric_cable = LinkSpec::new(BitRate::gbps(400), Span::from_micros(2));
        LeafSpine { leaves: 4, spines: 2, fabric_link: fabric_cable, ..LeafSpine::dsh() }
    }

    /// Fabric of the Reverie paper's section 4.1: 16 leaves, 4 spines, 256 hosts, all links of 25 Gb/s and 2 us.
    pub fn reverie() -> LeafSpine {
        let cable = LinkSpec::new(BitRate::gbps(25), Span::from_micros(2));
        LeafSpine { spines: 4, host_cable: cable, fabric_link: cable, ..LeafSpine::dsh() }
    }

    /// Builds the fabric.
    ///
    /// # Errors
    /// There are no leaves, spines, hosts or links, or more than a switch has ports.
    pub fn fabric(&self) -> Result<Fabric, TopologyError> {
        let of = "a leaf-spine fabric";
        check_fewest(of, "leaves", self.leaves, 1)?;
        check_fewest(of, "spines", self.spines, 1)?;
        check_fewest(of, "hosts on each leaf", self.hosts_per_leaf, 1)?;
        check_fewest(of, "links from each leaf to each spine", self.parallel, 1)?;
        check_ports("each leaf", self.spines.saturating_mul(self.parallel).saturating_add(self.hosts_per_leaf))?;
        check_ports("each spine", self.leaves.saturating_mul(self.parallel))?;
        let mut fabric = Fabric::new();
        for leaf in 0..self.leaves {
            fabric.add_switch(format!("L{leaf}"));
            for _ in 0..self.hosts_per_leaf {
                fabric.add_host(format!("H{}", fabric.hosts.len()), leaf, self.host_cable);
            }
        }
        let spines: Vec<usize> = (0..self.spines).map(|spine| fabric.add_switch(format!("S{spine}"))).collect();
        for leaf in 0..self.leaves {
            for spine in &spines {
                (0..self.parallel).for_each(|_| {
                    fabric.join(leaf, *spine, self.fabric_link);
                });
            }
        }
        Ok(fabric)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_fabrics_have_256_hosts() {
        let sizes = |shape: LeafSpine| {
            let fabric = shape.fabric().unwrap();
            assert_eq!(fabric.check(), Ok(()));
            (fabric.switches.len(), fabric.hosts.len(), fabric.links.len())
        };
        assert_eq!(sizes(LeafSpine::dsh()), (32, 256, 256));
        assert_eq!(sizes(LeafSpine::reverie()), (20, 256, 64));
        assert_eq!(sizes(LeafSpine::dsh_deadlock()), (6, 64, 8));
        assert_eq!(sizes(LeafSpine { parallel: 3, ..LeafSpine::dsh_deadlock() }), (6, 64, 24));
    }

    #[test]
    fn ports_are_in_order() {
        let fabric = LeafSpine { hosts_per_leaf: 2, ..LeafSpine::dsh_deadlock() }.fabric().unwrap();
        let names = fabric.port_names();
        assert_eq!(names[fabric.switch("L3").unwrap()], ["H6", "H7", "to-S0", "to-S1"]);
        assert_eq!(names[fabric.switch("S1").unwrap()], ["to-L0", "to-L1", "to-L2", "to-L3"]);
    }

    #[test]
    fn what_does_not_fit_is_refused_with_its_count() {
        let wide = LeafSpine { hosts_per_leaf: 4_090, ..LeafSpine::dsh() }.fabric();
        assert_eq!(wide, Err(TopologyError::TooManyPorts { switch: "each leaf".into(), ports: 4_106 }));
        let tall = LeafSpine { leaves: 4_097, spines: 1, ..LeafSpine::dsh() }.fabric();
        assert_eq!(tall, Err(TopologyError::TooManyPorts { switch: "each spine".into(), ports: 4_097 }));
        let bare = LeafSpine { parallel: 0, ..LeafSpine::dsh() }.fabric().unwrap_err();
        assert_eq!(bare.to_string(), "a leaf-spine fabric takes 1 links from each leaf to each spine at least, not 0");
    }
}
