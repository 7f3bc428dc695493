use std::collections::BTreeSet;

use proptest::prelude::*;
use weir_units::{BitRate, Span};

use super::*;
use crate::topology::dependencies::cycle_of_paths;
use crate::topology::{Clos, FatTree, LeafSpine, Ring, SingleSwitch};

impl Routes {
    /// Number of shortest paths from one host to another; parallel links are different paths.
    ///
    /// # Panics
    /// If the two are one host, or there is no such host.
    fn path_count(&self, from: usize, to: usize) -> u64 {
        assert!(from != to, "host {from} to itself");
        let [from, to] = [from, to].map(|host| self.hosts[host].switch);
        let row = self.row(to);
        let mut ways = vec![0; self.wiring.switch_count()];
        ways[from] = 1;
        for switch in row.farthest_first() {
            for next in self.next_switches(row, switch) {
                ways[next] += ways[switch];
            }
        }
        ways[to]
    }

    /// Next switch of each of the row's ports.
    fn next_switches(&self, row: &RouteRow, switch: usize) -> impl Iterator<Item = usize> {
        let places = self.ports_in(row, switch).iter().map(move |port| PortRef { switch, port: usize::from(*port) });
        places.filter_map(|place| self.wiring.next_switch(place))
    }
}

fn routed(fabric: &Fabric) -> Routes {
    Routes::shortest(fabric).unwrap()
}

/// Indices of the hosts of these names.
fn hosts(fabric: &Fabric, names: [&str; 2]) -> [usize; 2] {
    names.map(|name| fabric.host(name).unwrap())
}

/// All shortest paths between two hosts, as the names of their switches.
fn ways(fabric: &Fabric, routes: &Routes, from: usize, to: usize) -> BTreeSet<String> {
    let mut ways = BTreeSet::new();
    let mut begun = vec![vec![fabric.hosts[from].at.switch]];
    while let Some(way) = begun.pop() {
        let here = *way.last().unwrap();
        if here == fabric.hosts[to].at.switch {
            let names: Vec<&str> = way.iter().map(|switch| fabric.switches[*switch].name.as_str()).collect();
            ways.insert(names.join(" "));
            continue;
        }
        for port in routes.ports(here, to) {
            let place = PortRef { switch: here, port: usize::from(*port) };
            begun.push([&way[..], &[routes.wiring.next_switch(place).unwrap()]].concat());
        }
    }
    ways
}

/// Names of the switches on a path.
fn through(fabric: &Fabric, path: &[PortRef]) -> String {
    path.iter().map(|place| fabric.switches[place.switch].name.as_str()).collect::<Vec<_>>().join(" ")
}

/// The GFC paper's Fig. 11. The text has the flows and the cycle; these failures are, but for what the fabric's symmetry
/// makes of them, the only three that make it so.
fn gfc_11() -> Fabric {
    let mut fabric = FatTree::gfc(4).fabric().unwrap();
    fabric.fail(&[("SE1", "SA2"), ("SA1", "SC2"), ("SA5", "SC1")]).unwrap();
    fabric
}

#[test]
fn ways_lead_around_links_that_are_cut() {
    let fabric = LeafSpine { leaves: 3, hosts_per_leaf: 2, ..LeafSpine::dsh_deadlock() }.fabric().unwrap();
    let routes = routed(&fabric);
    let [from, to] = hosts(&fabric, ["H0", "H4"]);
    assert_eq!(ways(&fabric, &routes, from, to), BTreeSet::from(["L0 S0 L2".to_owned(), "L0 S1 L2".to_owned()]));
    let link = |one: &str, other: &str| {
        let [one, other] = [one, other].map(|name| fabric.switch(name).unwrap());
        fabric.links.iter().map(|link| link.ends).find(|ends| ends.map(|end| end.switch) == [one, other]).unwrap()
    };
    // The far leaf's link is cut: L0 uses S1, although its own link to S0 is up.
    let around = routes.around(&[link("L2", "S0")]);
    assert_eq!(ways(&fabric, &around, from, to), BTreeSet::from(["L0 S1 L2".to_owned()]));
    let s0 = fabric.switch("S0").unwrap();
    assert_eq!(ways(&fabric, &around, from, 2).len(), 2, "other leaves have both");
    // Frames that still arrive at S0 use another leaf.
    assert_eq!(around.ports(s0, to).len(), 2);
    // Without any path, ports remain as they were.
    let cut_off = routes.around(&[link("L2", "S0"), link("L2", "S1")]);
    assert_eq!(cut_off.ports(fabric.hosts[from].at.switch, to), routes.ports(fabric.hosts[from].at.switch, to));
    assert_eq!(cut_off.ports(s0, to), routes.ports(s0, to));
    assert_eq!(ways(&fabric, &cut_off, from, 2), ways(&fabric, &routes, from, 2));
    let again = routes.around(&[]);
    assert!((0..6).all(|host| (0..5).all(|switch| again.ports(switch, host) == routes.ports(switch, host))));
}

#[test]
fn a_fat_tree_has_four_ways_between_pods() {
    let fabric = FatTree::gfc(4).fabric().unwrap();
    let routes = routed(&fabric);
    let known = [("H1", 1, 2), ("H2", 2, 4), ("H3", 2, 4), ("H4", 4, 6), ("H15", 4, 6)];
    for (to, paths, hops) in known {
        let [from, to] = hosts(&fabric, ["H0", to]);
        assert_eq!((routes.path_count(from, to), routes.hops(from, to)), (paths, hops));
    }
    let [from, to] = hosts(&fabric, ["H0", "H8"]);
    let expected = ["SE1 SA1 SC1 SA5 SE5", "SE1 SA1 SC2 SA5 SE5", "SE1 SA2 SC3 SA6 SE5", "SE1 SA2 SC4 SA6 SE5"];
    assert_eq!(ways(&fabric, &routes, from, to), expected.map(str::to_owned).into());
}

#[test]
fn a_leaf_spine_has_as_many_ways_as_spines_and_parallel_links() {
    let fabric = LeafSpine::reverie().fabric().unwrap();
    let routes = routed(&fabric);
    assert_eq!((routes.path_count(0, 16), routes.hops(0, 16)), (4, 4));
    assert_eq!((routes.path_count(0, 1), routes.hops(0, 1)), (1, 2));
    assert_eq!(routes.ports(0, 16), [16, 17, 18, 19]);
    assert_eq!(routes.ports(1, 16), [0], "at its own switch the host's port");
    let parallel = routed(&LeafSpine { parallel: 3, ..LeafSpine::dsh_deadlock() }.fabric().unwrap());
    // Three links up at each of two spines, three down.
    assert_eq!(parallel.path_count(0, 63), 2 * 3 * 3);
    // Each leaf of a pod to each of four spines and down; in planes only the four of the leaf's own.
    assert_eq!(routed(&Clos::spfc().fabric().unwrap()).path_count(0, 511), 2 * 4 * 2);
    assert_eq!(routed(&Clos::hpcc().fabric().unwrap()).path_count(0, 319), 4 * 4);
}

#[test]
fn one_switch_has_one_way() {
    let fabric = SingleSwitch::spfc().fabric().unwrap();
    let routes = routed(&fabric);
    let [from, to] = hosts(&fabric, ["H7", "R2"]);
    assert_eq!((routes.path_count(from, to), routes.hops(from, to)), (1, 2));
    assert_eq!(routes.path(from, to, 5), [PortRef { switch: 0, port: 31 }]);
    let cable = |us| LinkSpec::new(BitRate::gbps(100), Span::from_micros(us));
    assert_eq!(routes.path_delay(from, to, 5).hops, [cable(9), cable(1)]);
}

#[test]
fn the_largest_fat_tree_is_routed_compactly() {
    let fabric = FatTree::gfc(16).fabric().unwrap();
    let routes = routed(&fabric);
    assert_eq!((routes.path_count(0, 1_023), routes.hops(0, 1_023)), (64, 6));
    assert_eq!(routes.rows.len(), 128, "a row for each edge switch");
    // No port, each port alone, and all upward ones.
    assert_eq!(routes.groups.first.len() - 1, 1 + 16 + 1);
}

#[test]
fn ways_there_and_back_are_the_same_ones() {
    for fabric in [gfc_11(), Ring { switches: 6, ..Ring::gfc() }.fabric().unwrap()] {
        let routes = routed(&fabric);
        for (from, to) in (0..fabric.hosts.len()).flat_map(|to| (0..to).map(move |from| (from, to))) {
            assert_eq!(routes.hops(from, to), routes.hops(to, from));
            let there = ways(&fabric, &routes, from, to);
            let turned = |way: &String| way.split(' ').rev().collect::<Vec<_>>().join(" ");
            let back = ways(&fabric, &routes, to, from).iter().map(turned).collect();
            assert_eq!(there, back);
        }
    }
}

#[test]
fn a_failed_link_is_gone_around() {
    let mut fabric = LeafSpine::dsh_deadlock().fabric().unwrap();
    let [from, to] = hosts(&fabric, ["H0", "H63"]);
    assert_eq!(ways(&fabric, &routed(&fabric), from, to), ["L0 S0 L3", "L0 S1 L3"].map(str::to_owned).into());
    fabric.fail(&[("S0", "L3")]).unwrap();
    assert_eq!(ways(&fabric, &routed(&fabric), from, to), ["L0 S1 L3".to_owned()].into());
    fabric.fail(&[("S1", "L0")]).unwrap();
    let routes = routed(&fabric);
    assert_eq!(ways(&fabric, &routes, from, to), ["L0 S0 L1 S1 L3", "L0 S0 L2 S1 L3"].map(str::to_owned).into());
    assert_eq!(routes.hops(from, to), 6);
}

#[test]
fn hosts_that_are_cut_off_are_named() {
    let mut fabric = LeafSpine { hosts_per_leaf: 2, ..LeafSpine::dsh_deadlock() }.fabric().unwrap();
    fabric.fail(&[("L3", "S0"), ("L3", "S1")]).unwrap();
    let unreachable = Routes::shortest(&fabric).unwrap_err();
    assert_eq!(unreachable.count, 12);
    assert_eq!(
        unreachable.to_string(),
        "no path joins H0 and H6, H1 and H6, H2 and H6, H3 and H6, nor 8 more pairs of hosts: bring a link up, or join \
         their switches"
    );
    // A switch without hosts may be cut off.
    let mut fabric = LeafSpine { leaves: 2, hosts_per_leaf: 1, ..LeafSpine::dsh_deadlock() }.fabric().unwrap();
    fabric.fail(&[("S1", "L0"), ("S1", "L1")]).unwrap();
    let routes = routed(&fabric);
    assert!(routes.ports(fabric.switch("S1").unwrap(), 0).is_empty());
}

#[test]
fn the_gfc_papers_flows_take_its_cycle() {
    let fabric = gfc_11();
    let routes = routed(&fabric);
    let flows = [("H0", "H8"), ("H4", "H12"), ("H9", "H1"), ("H13", "H5")].map(|(from, to)| hosts(&fabric, [from, to]));
    let all = flows.map(|[from, to]| ways(&fabric, &routes, from, to));
    // F1 and F3 bounce: off an aggregation switch of another pod, or off their own pod's other edge switch.
    let f1 = [
        "SE1 SA1 SC1 SA3 SC2 SA5 SE5",
        "SE1 SA1 SC1 SA7 SC2 SA5 SE5",
        "SE1 SA1 SE2 SA2 SC3 SA6 SE5",
        "SE1 SA1 SE2 SA2 SC4 SA6 SE5",
    ];
    assert_eq!(all[0], f1.map(str::to_owned).into());
    let f2 = ["SE3 SA3 SC1 SA7 SE7", "SE3 SA3 SC2 SA7 SE7", "SE3 SA4 SC3 SA8 SE7", "SE3 SA4 SC4 SA8 SE7"];
    assert_eq!(all[1], f2.map(str::to_owned).into());
    // The paper's paths are among them, and each is that of some hash.
    let papers =
        ["SE1 SA1 SC1 SA3 SC2 SA5 SE5", "SE3 SA3 SC2 SA7 SE7", "SE5 SA5 SC2 SA7 SC1 SA1 SE1", "SE7 SA7 SC1 SA3 SE3"];
    let mut paths = Vec::new();
    for ([from, to], way) in flows.into_iter().zip(papers) {
        let path = (0..100).map(|hash| routes.path(from, to, hash)).find(|path| through(&fabric, path) == way);
        paths.push(path.unwrap_or_else(|| panic!("no hash takes {way}")));
    }
    // SC1, SA3, SC2, SA7 and back to SC1, from its lowest port on.
    let cycle = cycle_of_paths(paths.iter().map(Vec::as_slice)).unwrap();
    assert_eq!(fabric.place_names(&cycle), ["SA3.to-SC2", "SC2.to-SA7", "SA7.to-SC1", "SC1.to-SA3"]);
    for without in 0..4 {
        let rest = paths.iter().enumerate().filter(|(n, _)| *n != without).map(|(_, path)| path.as_slice());
        assert_eq!(cycle_of_paths(rest), None, "all four flows are in it");
    }
    assert!(routes.cyclic_dependency_among(&flows.map(|[from, to]| (from, to))).is_some());
    assert!(routes.cyclic_dependency().is_some());
    // The victim's path is outside the cycle.
    let [from, to] = hosts(&fabric, ["H4", "H5"]);
    assert_eq!(through(&fabric, &routes.path(from, to, 0)), "SE3");
}

#[test]
fn flows_are_spread_over_all_ways() {
    let fabric = FatTree::gfc(8).fabric().unwrap();
    let routes = routed(&fabric);
    let mut taken = std::collections::BTreeMap::new();
    (0..16_000).for_each(|hash| *taken.entry(routes.path(0, 127, hash)).or_insert(0) += 1);
    // Two tiers that choose one of four: 1,000 flows a path; 20 % off is more than six standard deviations.
    assert_eq!(taken.len(), 16);
    assert!(taken.values().all(|flows| (800..=1_200).contains(flows)), "{taken:?}");
}

/// Numbers of links between switches; at least the number of switches where no path joins them.
fn distances(fabric: &Fabric) -> Vec<Vec<usize>> {
    let count = fabric.switches.len();
    let mut far = vec![vec![count; count]; count];
    (0..count).for_each(|switch| far[switch][switch] = 0);
    for link in fabric.links.iter().filter(|link| link.is_up) {
        let [one, other] = link.ends.map(|end| end.switch);
        (far[one][other], far[other][one]) = (1, 1);
    }
    for over in 0..count {
        for from in 0..count {
            for to in 0..count {
                far[from][to] = far[from][to].min(far[from][over] + far[over][to]);
            }
        }
    }
    far
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Compared with the distances of Floyd and Warshall: every path leads to its host over links that are up, each hop nearer. Times are the
    /// sums of its links' times.
    #[test]
    fn every_way_leads_to_its_host(shape in 0..4_usize, down in prop::collection::vec(any::<u32>(), 0..10), hash: u32) {
        let mut fabric = match shape {
            0 => FatTree::gfc(4).fabric(),
            1 => LeafSpine { hosts_per_leaf: 2, parallel: 2, ..LeafSpine::dsh_deadlock() }.fabric(),
            2 => Ring { switches: 7, hosts_per_switch: 1, ..Ring::gfc() }.fabric(),
            _ => Clos { pods: 3, hosts_per_tor: 1, ..Clos::spfc() }.fabric(),
        }.unwrap();
        for link in down {
            let link = link as usize % fabric.links.len();
            fabric.links[link].is_up = false;
        }
        for (link, us) in fabric.links.iter_mut().zip(1..) {
            link.delay = Span::from_micros(us);
        }
        let far = distances(&fabric);
        let switch = |host: usize| fabric.hosts[host].at.switch;
        let count = fabric.hosts.len();
        let pairs: Vec<_> = (0..count).flat_map(|to| (0..to).map(move |from| (from, to))).collect();
        let cut_off = pairs.iter().filter(|(from, to)| far[switch(*from)][switch(*to)] >= fabric.switches.len()).count();
        let routes = match Routes::shortest(&fabric) {
            Ok(routes) => routes,
            Err(unreachable) => {
                prop_assert_eq!(unreachable.count, cut_off as u64);
                return Ok(());
            }
        };
        prop_assert_eq!(cut_off, 0);
        let all: Vec<usize> = (0..count).collect();
        let times: Vec<_> = all.iter().map(|to| routes.times_to(*to, &all, hash, |link| link.delay)).collect();
        for (one, other) in pairs {
            for (from, to) in [(one, other), (other, one)] {
                let hops = routes.path_delay(from, to, hash).hops;
                let delays: Span = hops[1..hops.len() - 1].iter().map(|hop| hop.delay).sum();
                prop_assert_eq!(times[to][from], delays);
                let path = routes.path(from, to, hash);
                prop_assert_eq!(path.len() + 1, routes.hops(from, to));
                prop_assert_eq!(path.len(), far[switch(from)][switch(to)] + 1);
                prop_assert_eq!(path.last(), Some(&fabric.hosts[to].at));
                for pair in path.windows(2) {
                    let link = fabric.links.iter().find(|link| link.ends.contains(&pair[0])).unwrap();
                    prop_assert!(link.is_up);
                    let end = link.ends.iter().find(|end| **end != pair[0]).unwrap();
                    prop_assert_eq!(end.switch, pair[1].switch);
                    prop_assert!(far[pair[1].switch][switch(to)] < far[pair[0].switch][switch(to)]);
                }
            }
        }
        // Exactly the nearer neighbours are next hops.
        for here in 0..fabric.switches.len() {
            for to in (0..count).filter(|to| switch(*to) != here) {
                let leads = |end: &PortRef, there: &PortRef| {
                    (end.switch == here && far[there.switch][switch(to)] < far[here][switch(to)]).then_some(end.port as u16)
                };
                let up = fabric.links.iter().filter(|link| link.is_up);
                let mut nearer: Vec<u16> = up
                    .flat_map(|link| {
                        let [one, other] = link.ends;
                        [leads(&one, &other), leads(&other, &one)]
                    })
                    .flatten()
                    .collect();
                nearer.sort();
                prop_assert_eq!(routes.ports(here, to), nearer);
            }
        }
    }
}
