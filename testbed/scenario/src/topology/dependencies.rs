//! Cyclic buffer dependency: whether the paths through a fabric can deadlock.
//!
//! A frame that leaves switch A by port p waits in the buffer of the next switch, B, until it can leave B by port q: p depends on q. With
//! lossless links, a deadlock requires a cycle of such dependencies (Dally and Seitz, IEEE Transactions on Computers 1987; cyclic buffer
//! dependency, CBD, in the GFC, DSH and SPFC papers). Ports toward hosts depend on nothing. The traffic decides on the deadlock: see
//! [`weir_results::deadlock`].

use petgraph::algo::{astar, kosaraju_scc};
use petgraph::graphmap::DiGraphMap;

use super::routes::{RouteRow, Routes};
use crate::port_ref::PortRef;

impl Routes {
    /// Returns a cycle among the ports on all shortest paths between all pairs of hosts: each port depends on the next one, and the last
    /// on the first. `None` if there is no cycle, and hence no deadlock.
    ///
    /// Of several cycles, it is a shortest one through the lowest port that is in a cycle.
    pub fn cyclic_dependency(&self) -> Option<Vec<PortRef>> {
        cycle(Dependencies::of_all(self).pairs())
    }

    /// Whether [`Routes::cyclic_dependency`] finds a cycle, in a fraction of its time.
    pub fn has_cyclic_dependency(&self) -> bool {
        Dependencies::of_all(self).are_cyclic()
    }

    /// Returns a cycle among the ports on all shortest paths of these flows, each given by its two hosts. `None` if there is no cycle.
    ///
    /// # Panics
    /// If there is no such host.
    #[cfg(test)]
    pub(super) fn cyclic_dependency_among(&self, flows: &[(usize, usize)]) -> Option<Vec<PortRef>> {
        let mut dependencies = Dependencies::new(self);
        for (from, to) in flows {
            dependencies.add(self.row(self.switch_of(*to)), &[self.switch_of(*from)]);
        }
        cycle(dependencies.pairs())
    }
}

/// Returns a cycle among the ports on exactly these paths, in the form of [`Routes::path`]; `None` if there is no cycle.
#[cfg(test)]
pub(super) fn cycle_of_paths<'p>(paths: impl IntoIterator<Item = &'p [PortRef]>) -> Option<Vec<PortRef>> {
    let pairs = |path: &'p [PortRef]| path.windows(2).map(|pair| (pair[0], pair[1]));
    cycle(paths.into_iter().flat_map(pairs))
}

/// Dependencies of each port.
struct Dependencies<'r> {
    routes: &'r Routes,
    /// True at a port and a port of the next switch if the former depends on the latter.
    next: Vec<bool>,
    /// Start of each port's entries in `next`.
    first: Vec<usize>,
    /// Switches on the paths of a row.
    is_on_path: Vec<bool>,
}

impl<'r> Dependencies<'r> {
    fn new(routes: &'r Routes) -> Dependencies<'r> {
        let is_on_path = vec![false; routes.wiring.switch_count()];
        let mut count = 0;
        let mut first = vec![0; routes.wiring.port_count()];
        for place in Dependencies::places(routes) {
            first[routes.wiring.number(place)] = count;
            count += routes.wiring.next_switch(place).map_or(0, |there| routes.wiring.of_switch(there).len());
        }
        Dependencies { routes, next: vec![false; count], first, is_on_path }
    }

    /// Returns the dependencies of all shortest paths between all pairs of hosts.
    fn of_all(routes: &'r Routes) -> Dependencies<'r> {
        let mut dependencies = Dependencies::new(routes);
        let switches = 0..routes.wiring.switch_count();
        let with_hosts: Vec<usize> = switches.filter(|switch| routes.has_hosts(*switch)).collect();
        routes.rows.iter().for_each(|row| dependencies.add(row, &with_hosts));
        dependencies
    }

    /// Adds the dependencies of the paths from these switches to the row's.
    fn add(&mut self, row: &RouteRow, from: &[usize]) {
        self.is_on_path.fill(false);
        from.iter().for_each(|switch| self.is_on_path[*switch] = true);
        let routes = self.routes;
        for switch in row.farthest_first() {
            if !self.is_on_path[switch] {
                continue;
            }
            for port in routes.ports_in(row, switch) {
                let place = PortRef { switch, port: usize::from(*port) };
                let there = routes.wiring.next_switch(place).expect("only links lead to a switch");
                let first = self.first[routes.wiring.number(place)];
                routes.ports_in(row, there).iter().for_each(|next| self.next[first + usize::from(*next)] = true);
                self.is_on_path[there] = true;
            }
        }
    }

    /// Returns all pairs of a port and one that it depends on.
    fn pairs(&self) -> impl Iterator<Item = (PortRef, PortRef)> {
        Dependencies::places(self.routes).flat_map(|place| self.dependencies_of(place).map(move |other| (place, other)))
    }

    /// Returns the ports that a port depends on.
    fn dependencies_of(&self, place: PortRef) -> impl Iterator<Item = PortRef> + '_ {
        let wiring = &self.routes.wiring;
        wiring.next_switch(place).into_iter().flat_map(move |there| {
            let next = &self.next[self.first[wiring.number(place)]..][..wiring.of_switch(there).len()];
            let ports = next.iter().enumerate().filter(|(_, depends)| **depends);
            ports.map(move |(port, _)| PortRef { switch: there, port })
        })
    }

    /// Removes ports that no other depends on, as long as there are any (Kahn 1962); the rest are in a cycle, or depend on one.
    fn are_cyclic(&self) -> bool {
        let number = |place| self.routes.wiring.number(place);
        let mut dependents = vec![0_u32; self.routes.wiring.port_count()];
        self.pairs().for_each(|(_, other)| dependents[number(other)] += 1);
        let mut free: Vec<PortRef> =
            Dependencies::places(self.routes).filter(|place| dependents[number(*place)] == 0).collect();
        let mut left = dependents.len() - free.len();
        while let Some(place) = free.pop() {
            for other in self.dependencies_of(place) {
                let dependents = &mut dependents[number(other)];
                *dependents -= 1;
                if *dependents == 0 {
                    left -= 1;
                    free.push(other);
                }
            }
        }
        left > 0
    }

    fn places(routes: &Routes) -> impl Iterator<Item = PortRef> {
        let wiring = &routes.wiring;
        let ports = |switch| (0..wiring.of_switch(switch).len()).map(move |port| PortRef { switch, port });
        (0..wiring.switch_count()).flat_map(ports)
    }
}

/// Returns a shortest cycle through the lowest port that is in a cycle.
fn cycle(dependencies: impl Iterator<Item = (PortRef, PortRef)>) -> Option<Vec<PortRef>> {
    let graph: DiGraphMap<PortRef, ()> = DiGraphMap::from_edges(dependencies);
    // Not Tarjan's algorithm, which is recursive in petgraph: paths may be as long as the fabric is large. No port depends on itself.
    let components = kosaraju_scc(&graph);
    let lowest = components.into_iter().filter(|ports| ports.len() > 1).flatten().min()?;
    let around = |closes: PortRef| graph.contains_edge(closes, lowest);
    Some(astar(&graph, lowest, around, |_| 1_u32, |_| 0).expect("a port of a component reaches itself").1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Clos, Fabric, FatTree, LeafSpine, Ring};

    fn cycle_in(fabric: &Fabric) -> Option<Vec<String>> {
        let cycle = Routes::shortest(fabric).unwrap().cyclic_dependency()?;
        Some(fabric.place_names(&cycle))
    }

    #[test]
    fn has_cyclic_dependency_agrees_with_the_cycle() {
        let mut with = 0;
        for seed in 1..=300 {
            let mut fabric = FatTree::gfc(4).fabric().unwrap();
            fabric.fail_at_random(0.05, seed).unwrap();
            let routes = Routes::shortest(&fabric).unwrap();
            let has = routes.has_cyclic_dependency();
            assert_eq!(has, routes.cyclic_dependency().is_some(), "seed {seed}");
            with += usize::from(has);
        }
        assert!((20..60).contains(&with), "{with}");
    }

    /// Up-down paths have no cyclic dependency.
    #[test]
    fn trees_without_failures_have_no_cycle() {
        for fabric in
            [LeafSpine::dsh().fabric(), Clos::spfc().fabric(), Clos::hpcc().fabric(), FatTree::gfc(16).fabric()]
        {
            assert_eq!(cycle_in(&fabric.unwrap()), None);
        }
    }

    /// Three switches: every path is one link long. Four: two paths of two links to the opposite switch. Five: the shorter path.
    #[test]
    fn rings_of_more_than_three_have_one() {
        let ring = |switches| Ring { switches, ..Ring::gfc() }.fabric().unwrap();
        assert_eq!(cycle_in(&ring(3)), None);
        assert_eq!(cycle_in(&ring(4)).unwrap(), ["S1.to-S2", "S2.to-S3", "S3.to-S4", "S4.to-S1"]);
        assert_eq!(cycle_in(&ring(5)).unwrap().len(), 5);
    }

    /// The GFC paper's Fig. 1: each host of three sends over two switches to the one after the next.
    #[test]
    fn a_ring_of_three_has_one_where_flows_go_around() {
        let fabric = Ring::gfc().fabric().unwrap();
        let place = |name: &str, port: &str| {
            let switch = fabric.switch(name).unwrap();
            let port = fabric.port_names()[switch].iter().position(|name| name == port).unwrap();
            PortRef { switch, port }
        };
        let paths = [
            [place("S1", "to-S2"), place("S2", "to-S3"), place("S3", "H3")],
            [place("S2", "to-S3"), place("S3", "to-S1"), place("S1", "H1")],
            [place("S3", "to-S1"), place("S1", "to-S2"), place("S2", "H2")],
        ];
        let cycle = cycle_of_paths(paths.iter().map(|path| path.as_slice())).unwrap();
        assert_eq!(fabric.place_names(&cycle), ["S1.to-S2", "S2.to-S3", "S3.to-S1"]);
        assert_eq!(cycle_of_paths(paths[..2].iter().map(|path| path.as_slice())), None);
    }

    /// The DSH paper's Fig. 16(a): S0, L1, S1, L2 and back, or the other way around.
    #[test]
    fn two_failed_links_of_a_leaf_spine_make_one() {
        let mut fabric = LeafSpine::dsh_deadlock().fabric().unwrap();
        fabric.fail(&[("S0", "L3"), ("S1", "L0")]).unwrap();
        assert_eq!(cycle_in(&fabric).unwrap(), ["L1.to-S0", "S0.to-L2", "L2.to-S1", "S1.to-L1"]);
        // The paper's four directions make one; with any of them left out there is none.
        let routes = Routes::shortest(&fabric).unwrap();
        let of_leaf = |leaf: usize| 16 * leaf;
        let flows = [(0, 3), (3, 0), (1, 2), (2, 1)].map(|(from, to)| (of_leaf(from), of_leaf(to)));
        assert_eq!(routes.cyclic_dependency_among(&flows).unwrap().len(), 4);
        for without in flows {
            let rest: Vec<_> = flows.into_iter().filter(|flow| *flow != without).collect();
            assert_eq!(routes.cyclic_dependency_among(&rest), None);
        }
    }

    /// The SPFC paper's Fig. 17(a).
    #[test]
    fn two_failed_links_of_a_pod_make_one() {
        let mut fabric = Clos::spfc_deadlock().fabric().unwrap();
        assert_eq!(cycle_in(&fabric), None);
        fabric.fail(&[("L0", "T3"), ("L1", "T0")]).unwrap();
        assert_eq!(cycle_in(&fabric).unwrap().len(), 4);
    }
}
