//! Three-tier fabrics: pods of two tiers, joined by spines.

use weir_units::{BitRate, Span};

use super::{Fabric, LinkSpec, SWITCHES_MAX, TopologyError, check_fewest, check_ports};

/// Pods of ToRs and leaves, with spines between the pods, named as in the SPFC paper.
///
/// ToRs T0, T1, ..., their hosts H0, H1, ..., and leaves L0, L1, ... are numbered through all pods; spines are S0, S1, .... In a pod
/// every ToR is joined with every leaf.
///
/// A ToR's hosts are on its first ports, then come its leaves; a leaf's ToRs come before its spines; a spine has its leaves in order.
/// Switches are numbered ToRs, leaves, spines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clos {
    /// Number of pods.
    pub pods: usize,
    /// Number of ToRs in each pod.
    pub tors_per_pod: usize,
    /// Number of leaves (aggregation switches) in each pod.
    pub leaves_per_pod: usize,
    /// Number of spines (core switches) of the fabric; a single pod may have none.
    pub spines: usize,
    /// Number of hosts on each ToR.
    pub hosts_per_tor: usize,
    /// Spines that each leaf is joined with.
    pub uplinks: Uplinks,
    /// The hosts' links.
    pub host_link: LinkSpec,
    /// Links between ToRs and leaves.
    pub pod_link: LinkSpec,
    /// Links between leaves and spines.
    pub spine_link: LinkSpec,
}

/// Spines that a leaf is joined with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uplinks {
    /// All spines.
    Every,
    /// The leaf's share: with n leaves in a pod and m spines, a pod's first leaf has the first m/n spines, the second the next, and so
    /// on. Leaves of equal number in their pods, with their spines, are a plane of the fabric.
    Planes,
}

/// Fat-tree of switches with k ports each (Al-Fares et al., SIGCOMM 2008): k pods of k/2 edge and k/2 aggregation switches, (k/2)² core
/// switches, k³/4 hosts, k³/2 links between switches.
///
/// Names are those of the GFC paper's Fig. 11. Edge switches SE1, SE2, ... and aggregation switches SA1, SA2, ... are numbered through
/// all pods; core switches are SC1, SC2, ... and hosts H0, H1, .... With k = 4, pod 2 has SE3, SE4, SA3, SA4, and H4 to H7.
///
/// SC1 to SC(k/2) are joined with the first aggregation switch of each pod, the next k/2 with the second, and so on. Ports are in the
/// order of [`Clos`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FatTree {
    /// Number of ports of a switch: an even number.
    pub k: usize,
    /// All links.
    pub cable: LinkSpec,
}

/// Name prefixes of the three tiers' switches, lowest first, and the number of the first switch.
type TierNames = ([&'static str; 3], usize);

impl Clos {
    /// Fabric of the SPFC paper's section VI-D: 8 pods of 4 ToRs and 2 leaves, 4 spines, 512 hosts; 100 Gb/s below ToRs and 400 Gb/s
    /// above, 2 us each.
    ///
    /// The paper does not say which spines a leaf is joined with; here all, so that a leaf has equal capacity upward and downward.
    pub fn spfc() -> Clos {
        let cable = |gbps| LinkSpec::new(BitRate::gbps(gbps), Span::from_micros(2));
        Clos {
            pods: 8,
            tors_per_pod: 4,
            leaves_per_pod: 2,
            spines: 4,
            hosts_per_tor: 16,
            uplinks: Uplinks::Every,
            host_link: cable(100),
            pod_link: cable(400),
            spine_link: cable(400),
        }
    }

    /// Fabric of the SPFC paper's Fig. 17(a) before L0-T3 and L1-T0 fail: one pod, without spines.
    #[cfg(test)]
    pub(crate) fn spfc_deadlock() -> Clos {
        Clos { pods: 1, spines: 0, ..Clos::spfc() }
    }

    /// Fabric of the HPCC paper's simulations (Li et al., SIGCOMM 2019, section 5.1).
    ///
    /// It has 5 pods of 4 ToRs and 4 aggregation switches, 16 core switches in four planes, 320 hosts; 100 Gb/s for hosts, 400 Gb/s
    /// above, 1 us each. Pods, planes and order are those of the topology file `fat.txt` of the public HPCC simulator: its node n is host
    /// n, and its node 320 + n is switch n.
    pub fn hpcc() -> Clos {
        let cable = |gbps| LinkSpec::new(BitRate::gbps(gbps), Span::from_micros(1));
        Clos {
            pods: 5,
            tors_per_pod: 4,
            leaves_per_pod: 4,
            spines: 16,
            hosts_per_tor: 16,
            uplinks: Uplinks::Planes,
            host_link: cable(100),
            pod_link: cable(400),
            spine_link: cable(400),
        }
    }

    /// Builds the fabric.
    ///
    /// # Errors
    /// There are no pods, ToRs, leaves or hosts; several pods but no spines; spines that planes can't share evenly; or a switch with too
    /// many ports.
    pub fn fabric(&self) -> Result<Fabric, TopologyError> {
        self.check()?;
        Ok(self.build((["T", "L", "S"], 0)))
    }

    fn check(&self) -> Result<(), TopologyError> {
        let of = "a Clos fabric";
        check_fewest(of, "pods", self.pods, 1)?;
        check_fewest(of, "ToRs in each pod", self.tors_per_pod, 1)?;
        check_fewest(of, "leaves in each pod", self.leaves_per_pod, 1)?;
        check_fewest(of, "hosts on each ToR", self.hosts_per_tor, 1)?;
        if self.spines == 0 && self.pods > 1 {
            return Err(TopologyError::Apart(self.pods));
        }
        if self.uplinks == Uplinks::Planes && !self.spines.is_multiple_of(self.leaves_per_pod) {
            return Err(TopologyError::Planes { spines: self.spines, leaves: self.leaves_per_pod });
        }
        check_ports("each ToR", self.hosts_per_tor.saturating_add(self.leaves_per_pod))?;
        check_ports("each leaf", self.tors_per_pod.saturating_add(self.uplinks_per_leaf()))?;
        if self.spines > 0 {
            let leaves_per_spine = match self.uplinks {
                Uplinks::Every => self.leaves_per_pod,
                Uplinks::Planes => 1,
            };
            check_ports("each spine", self.pods.saturating_mul(leaves_per_spine))?;
        }
        // The ports of a switch bound the other counts.
        let switches = self.pods * (self.tors_per_pod + self.leaves_per_pod) + self.spines;
        if switches > SWITCHES_MAX { Err(TopologyError::TooManySwitches(switches)) } else { Ok(()) }
    }

    fn uplinks_per_leaf(&self) -> usize {
        match self.uplinks {
            Uplinks::Every => self.spines,
            Uplinks::Planes => self.spines / self.leaves_per_pod,
        }
    }

    /// Builds the fabric of checked parameters.
    fn build(&self, ([tor, leaf, spine], first): TierNames) -> Fabric {
        let mut fabric = Fabric::new();
        let tors = self.pods * self.tors_per_pod;
        let leaves = self.pods * self.leaves_per_pod;
        for (tier, count) in [(tor, tors), (leaf, leaves), (spine, self.spines)] {
            for n in 0..count {
                fabric.add_switch(format!("{tier}{}", first + n));
            }
        }
        for host in 0..tors * self.hosts_per_tor {
            fabric.add_host(format!("H{host}"), host / self.hosts_per_tor, self.host_link);
        }
        for tor in 0..tors {
            let first_leaf = tors + tor / self.tors_per_pod * self.leaves_per_pod;
            for leaf in 0..self.leaves_per_pod {
                fabric.join(tor, first_leaf + leaf, self.pod_link);
            }
        }
        let uplinks = self.uplinks_per_leaf();
        for leaf in 0..leaves {
            let first_spine = match self.uplinks {
                Uplinks::Every => 0,
                Uplinks::Planes => leaf % self.leaves_per_pod * uplinks,
            };
            for spine in first_spine..first_spine + uplinks {
                fabric.join(tors + leaf, tors + leaves + spine, self.spine_link);
            }
        }
        fabric
    }
}

impl FatTree {
    /// Fat-tree of the GFC paper's section 6.2: links of 10 Gb/s and 1 us.
    pub fn gfc(k: usize) -> FatTree {
        FatTree { k, cable: LinkSpec::new(BitRate::gbps(10), Span::from_micros(1)) }
    }

    /// Builds the fabric.
    ///
    /// # Errors
    /// If k is odd, less than 4, or more than a switch has ports.
    pub fn fabric(&self) -> Result<Fabric, TopologyError> {
        let FatTree { k, cable } = *self;
        if k < 4 || k % 2 == 1 || k > super::K_MAX {
            return Err(TopologyError::FatTree(k));
        }
        let clos = Clos {
            pods: k,
            tors_per_pod: k / 2,
            leaves_per_pod: k / 2,
            spines: k * k / 4,
            hosts_per_tor: k / 2,
            uplinks: Uplinks::Planes,
            host_link: cable,
            pod_link: cable,
            spine_link: cable,
        };
        clos.check()?;
        Ok(clos.build((["SE", "SA", "SC"], 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(fabric: &Fabric) -> (usize, usize, usize) {
        assert_eq!(fabric.check(), Ok(()));
        (fabric.switches.len(), fabric.hosts.len(), fabric.links.len())
    }

    #[test]
    fn the_papers_clos_fabrics_have_512_and_320_hosts() {
        // 32 ToRs with 2 leaves each, 16 leaves with 4 spines each.
        let spfc = Clos::spfc().fabric().unwrap();
        assert_eq!(sizes(&spfc), (32 + 16 + 4, 512, 64 + 64));
        assert_eq!(sizes(&Clos::spfc_deadlock().fabric().unwrap()), (6, 64, 8));
        // The first line of the file has 376 nodes, 56 switches and 480 links, hosts' included.
        let hpcc = Clos::hpcc().fabric().unwrap();
        assert_eq!(sizes(&hpcc), (56, 320, 480 - 320));
        // Some links of the file by index: the first and last between ToRs and aggregation switches, and some above.
        let joined = |link: usize| hpcc.links[link].ends.map(|end| end.switch + 320);
        let expected = [(0, [320, 340]), (79, [339, 359]), (80, [340, 360]), (84, [341, 364]), (159, [359, 375])];
        expected.into_iter().for_each(|(link, ends)| assert_eq!(joined(link), ends));
    }

    #[test]
    fn fat_trees_have_the_known_sizes() {
        for (k, expected) in [(4, (20, 16, 32)), (8, (80, 128, 256)), (16, (320, 1_024, 2_048))] {
            let fabric = FatTree::gfc(k).fabric().unwrap();
            assert_eq!(sizes(&fabric), expected);
            assert!(fabric.switches.iter().all(|switch| switch.ports == k));
        }
    }

    #[test]
    fn a_fat_tree_is_named_as_in_the_paper() {
        let fabric = FatTree::gfc(4).fabric().unwrap();
        let names = fabric.port_names();
        let ports = |switch: &str| names[fabric.switch(switch).unwrap()].join(" ");
        assert_eq!(ports("SE3"), "H4 H5 to-SA3 to-SA4");
        assert_eq!(ports("SA3"), "to-SE3 to-SE4 to-SC1 to-SC2");
        assert_eq!(ports("SA8"), "to-SE7 to-SE8 to-SC3 to-SC4");
        assert_eq!(ports("SC1"), "to-SA1 to-SA3 to-SA5 to-SA7");
        assert_eq!(ports("SE8"), "H14 H15 to-SA7 to-SA8");
    }

    #[test]
    fn what_can_not_be_cabled_is_refused() {
        for k in [0, 2, 5, 66] {
            assert_eq!(FatTree::gfc(k).fabric(), Err(TopologyError::FatTree(k)));
        }
        assert_eq!(Clos { spines: 0, ..Clos::spfc() }.fabric(), Err(TopologyError::Apart(8)));
        let uneven = Clos { spines: 18, ..Clos::hpcc() }.fabric();
        assert_eq!(uneven, Err(TopologyError::Planes { spines: 18, leaves: 4 }));
        let spine = Clos { pods: 2_049, ..Clos::spfc() }.fabric();
        assert_eq!(spine, Err(TopologyError::TooManyPorts { switch: "each spine".into(), ports: 4_098 }));
        let leaf = Clos { spines: 16_384, ..Clos::hpcc() }.fabric();
        assert_eq!(leaf, Err(TopologyError::TooManyPorts { switch: "each leaf".into(), ports: 4_100 }));
    }
}
