//! Partitioner: assigns nodes to logical processes.
//!
//! A host goes with its switch. Switches with hosts stay together in the order of their hosts, so that a logical
//! process holds whole pods, or an arc of a ring. Other switches go where most of their links lead. Then switches are
//! moved and exchanged until the processes have equal work in each phase.

use weir_scenario::Scenario;

use super::phases::Phases;

/// Graph of the switches.
#[derive(Debug)]
pub(super) struct SwitchGraph {
    /// Neighbours of each switch, once per link.
    neighbours: Box<[Box<[u32]>]>,
    switch_of: Box<[u32]>,
    /// Switches with hosts, in the order of their first host.
    order: Box<[u32]>,
}

struct Partitioner<'f> {
    graph: &'f SwitchGraph,
    /// Work of each switch with its hosts, per phase.
    work: Vec<[f64; 2]>,
    lp_of: Vec<u32>,
    /// Work of each logical process, per phase.
    load: Vec<[f64; 2]>,
}

/// Move of one switch, or exchange of two: each switch with its new logical process.
type SwitchMoves = [Option<(u32, u32)>; 2];

/// Marker of a switch without a logical process.
const UNASSIGNED: u32 = u32::MAX;
/// Cost of a frame between logical processes, relative to its cost at a switch.
const CROSSING_COST: f64 = 0.03;
/// Logical processes per thread. With 32 processes a packet-hop takes up to 3 % longer than with 8, as each has frames
/// for all others.
const LPS_PER_THREAD: usize = 4;
/// Logical processes per thread for `MANY` threads or more.
const LPS_PER_THREAD_OF_MANY: usize = 2;
const MANY: usize = 16;
/// Largest number of switch pairs for which exchanges are tried.
const PAIRS_MAX: usize = 20_000;
/// Smallest gain that justifies a move, relative to all work.
const GAIN_MIN: f64 = 0.002;

impl SwitchGraph {
    pub(super) fn new(scenario: &Scenario) -> SwitchGraph {
        let mut neighbours = vec![Vec::new(); scenario.switches.len()];
        for link in &scenario.links {
            let [one, other] = link.ends.map(|end| end.switch);
            neighbours[one].push(other as u32);
            neighbours[other].push(one as u32);
        }
        let switch_of: Box<[u32]> = scenario.hosts.iter().map(|host| host.switch as u32).collect();
        let mut order = Vec::new();
        let mut is_listed = vec![false; scenario.switches.len()];
        for switch in &switch_of {
            if !std::mem::replace(&mut is_listed[*switch as usize], true) {
                order.push(*switch);
            }
        }
        SwitchGraph { neighbours: neighbours.into_iter().map(Vec::into).collect(), switch_of, order: order.into() }
    }

    /// Returns the largest useful number of threads: further ones would run only switches without hosts.
    pub(super) fn threads_max(&self) -> usize {
        self.order.len().max(1)
    }

    /// Returns the number of logical processes for a number of threads: several per thread, so that uneven load can be
    /// balanced, but at most one per switch.
    pub(super) fn lp_count(&self, threads: usize) -> usize {
        let several = (LPS_PER_THREAD * threads).min(LPS_PER_THREAD_OF_MANY * threads.max(MANY));
        if threads == 1 { 1 } else { several.min(self.neighbours.len()) }
    }

    /// Returns the logical process of each switch, of `count`, given the work of each node: switches, then hosts.
    pub(super) fn partition(&self, count: usize, phases: &Phases, work: &[u64]) -> Vec<u32> {
        let switches = self.neighbours.len();
        let mut partitioner = Partitioner {
            graph: self,
            work: vec![[0.0; 2]; switches],
            lp_of: vec![if count == 1 { 0 } else { UNASSIGNED }; switches],
            load: vec![[0.0; 2]; count],
        };
        if count == 1 {
            return partitioner.lp_of;
        }
        // No node is idle for ever, so each counts at least 1.
        let hosts = self.switch_of.iter().copied();
        for ((node, work), switch) in work.iter().enumerate().zip((0..switches as u32).chain(hosts)) {
            partitioner.work[switch as usize][phases.node_phase(node)] += *work as f64 + 1.0;
        }
        partitioner.assign_in_order();
        partitioner.assign_remaining();
        partitioner.rebalance();
        partitioner.lp_of
    }
}

impl Partitioner<'_> {
    /// Assigns switches with hosts, in order, in contiguous runs of equal work. With fewer switches than processes, the
    /// other processes stay empty.
    fn assign_in_order(&mut self) {
        let order = &self.graph.order;
        let count = self.load.len().min(order.len());
        let work = |switch: u32| self.work[switch as usize].iter().sum::<f64>();
        let all: f64 = order.iter().map(|switch| work(*switch)).sum();
        let (mut before, mut last) = (0.0, None);
        let mut assigned = Vec::new();
        for (at, switch) in order.iter().enumerate() {
            let own = work(*switch);
            let lp = ((before + own / 2.0) / all * count as f64) as usize;
            before += own;
            // Each process gets at least one switch, in order.
            let left = order.len() - at;
            let first = last.map_or(0, |last: usize| if count - 1 - last >= left { last + 1 } else { last });
            let lp = lp.min(count - 1).min(last.map_or(0, |last| last + 1)).max(first);
            last = Some(lp);
            assigned.push((*switch, lp));
        }
        assigned.into_iter().for_each(|(switch, lp)| self.assign(switch, lp as u32));
    }

    /// Assigns switches without hosts, those closest to hosts first. A process may get none if they have little work.
    fn assign_remaining(&mut self) {
        let mean: Vec<f64> = (0..2).map(|phase| self.work.iter().map(|work| work[phase]).sum::<f64>()).collect();
        let mean: Vec<f64> = mean.iter().map(|all| all / self.load.len() as f64).collect();
        loop {
            let left: Vec<u32> =
                (0..).zip(&self.lp_of).filter(|(_, lp)| **lp == UNASSIGNED).map(|(switch, _)| switch).collect();
            if left.is_empty() {
                return;
            }
            let assigned = self.lp_of.clone();
            let mut has_found = false;
            for switch in left {
                let mut links = vec![0; self.load.len()];
                for neighbour in &self.graph.neighbours[switch as usize] {
                    let lp = assigned[*neighbour as usize];
                    if lp != UNASSIGNED {
                        links[lp as usize] += 1;
                    }
                }
                let most = links.iter().copied().max().unwrap_or(0);
                if most == 0 {
                    continue;
                }
                has_found = true;
                let work = self.work[switch as usize];
                let phase = usize::from(work[1] > work[0]);
                let load = |lp: &usize| self.load[*lp][phase];
                let lightest =
                    |lps: &mut dyn Iterator<Item = usize>| lps.min_by(|one, other| load(one).total_cmp(&load(other)));
                let nearest = lightest(&mut (0..links.len()).filter(|lp| links[*lp] == most)).expect("an LP");
                let is_full = load(&nearest) + work[phase] > 1.05 * mean[phase];
                let lp = if is_full { lightest(&mut (0..links.len())).expect("an LP") } else { nearest };
                self.assign(switch, lp as u32);
            }
            if !has_found {
                // These switches are unreachable.
                let left: Vec<u32> =
                    (0..).zip(&self.lp_of).filter(|(_, lp)| **lp == UNASSIGNED).map(|(switch, _)| switch).collect();
                left.into_iter().for_each(|switch| self.assign(switch, 0));
            }
        }
    }

    /// Moves a switch from the busiest process to another, or exchanges two, while the gain is large enough.
    fn rebalance(&mut self) {
        let all: f64 = self.work.iter().flatten().sum();
        for _ in 0..4 * self.lp_of.len().min(500) {
            let Some((gain, moves)) =
                (0..2).filter_map(|phase| self.best_move(phase)).max_by(|(one, _), (other, _)| one.total_cmp(other))
            else {
                return;
            };
            if gain < GAIN_MIN * all {
                return;
            }
            for (switch, lp) in moves.into_iter().flatten() {
                self.assign(switch, lp);
            }
        }
    }

    /// Returns the best move or exchange between the busiest and the least busy process of a phase.
    fn best_move(&self, phase: usize) -> Option<(f64, SwitchMoves)> {
        let lps = || 0..self.load.len() as u32;
        let load = |lp: &u32| self.load[*lp as usize][phase];
        let heaviest = lps().max_by(|one, other| load(one).total_cmp(&load(other)))?;
        let lightest = lps().min_by(|one, other| load(one).total_cmp(&load(other)))?;
        if heaviest == lightest {
            return None;
        }
        let of = |lp: u32| (0..).zip(&self.lp_of).filter(move |(_, of)| **of == lp).map(|(switch, _)| switch);
        let (mine, theirs): (Vec<u32>, Vec<u32>) = (of(heaviest).collect(), of(lightest).collect());
        let before = self.cost(&[]);
        let mut best: Option<(f64, SwitchMoves)> = None;
        let mut look = |moves: SwitchMoves| {
            let flat: Vec<(u32, u32)> = moves.into_iter().flatten().collect();
            let gain = before - self.cost(&flat);
            if best.as_ref().is_none_or(|(most, _)| gain > *most) {
                best = Some((gain, moves));
            }
        };
        let has_pairs = mine.len() * theirs.len() <= PAIRS_MAX;
        for one in &mine {
            if mine.len() > 1 {
                look([Some((*one, lightest)), None]);
            }
            if has_pairs {
                theirs.iter().for_each(|other| look([Some((*one, lightest)), Some((*other, heaviest))]));
            }
        }
        best
    }

    /// Returns the part of a partition's cost that moves change: the longest process of each phase, plus frames between
    /// processes.
    fn cost(&self, moves: &[(u32, u32)]) -> f64 {
        let mut crossing = 0.0;
        let lp_of = |switch: u32| {
            moves.iter().find(|(moved, _)| *moved == switch).map_or(self.lp_of[switch as usize], |(_, lp)| *lp)
        };
        for (switch, _) in moves {
            let neighbours = &self.graph.neighbours[*switch as usize];
            let each = self.work[*switch as usize].iter().sum::<f64>() / neighbours.len().max(1) as f64;
            let (from, to) = (self.lp_of[*switch as usize], lp_of(*switch));
            for neighbour in neighbours {
                let was = f64::from(u8::from(self.lp_of[*neighbour as usize] != from));
                let is = f64::from(u8::from(lp_of(*neighbour) != to));
                crossing += (is - was) * each;
            }
        }
        let mut longest = [0.0; 2];
        for (lp, load) in (0..).zip(&self.load) {
            for (phase, longest) in longest.iter_mut().enumerate() {
                let mut load = load[phase];
                for (switch, to) in moves {
                    let work = self.work[*switch as usize][phase];
                    load += if *to == lp { work } else { 0.0 };
                    load -= if self.lp_of[*switch as usize] == lp { work } else { 0.0 };
                }
                *longest = load.max(*longest);
            }
        }
        longest.iter().sum::<f64>() + CROSSING_COST * crossing / self.load.len() as f64
    }

    fn assign(&mut self, switch: u32, lp: u32) {
        let before = std::mem::replace(&mut self.lp_of[switch as usize], lp);
        for (phase, work) in self.work[switch as usize].iter().enumerate() {
            if before != UNASSIGNED {
                self.load[before as usize][phase] -= work;
            }
            self.load[lp as usize][phase] += work;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phases::tests::scenario;

    fn parts(topology: &str, count: usize, work: impl Fn(usize) -> u64) -> (SwitchGraph, Vec<u32>) {
        let scenario = scenario(topology);
        let (fabric, sides) = (SwitchGraph::new(&scenario), Phases::new(&scenario));
        let work: Vec<u64> = (0..sides.nodes()).map(work).collect();
        let parts = fabric.partition(count, &sides, &work);
        (fabric, parts)
    }

    #[test]
    fn leaves_are_shared_out_and_spines_too() {
        let (_, parts) = parts("kind = 'leaf-spine'\nleaves = 4\nspines = 2\nhosts = 2", 2, |_| 100);
        assert_eq!(parts[..4], [0, 0, 1, 1]);
        assert_ne!(parts[4], parts[5]);
    }

    #[test]
    fn pods_stay_together() {
        let (fabric, parts) = parts("kind = 'fat-tree'\nk = 4", 2, |_| 100);
        // Edge switches, then aggregation switches, of four pods with two of each per pod.
        let pods: Vec<&[u32]> = parts[..8].chunks(2).collect();
        assert_eq!(pods, [[0, 0], [0, 0], [1, 1], [1, 1]]);
        assert_eq!(parts[..8], parts[8..16], "aggregation switches are where their edge switches are");
        assert_eq!(parts[16..].iter().filter(|part| **part == 0).count(), 2, "core switches are shared out");
        assert_eq!(fabric.threads_max(), 8);
    }

    #[test]
    fn a_ring_is_cut_into_arcs() {
        let (_, parts) = parts("kind = 'ring'\nswitches = 9\nhosts = 1", 3, |_| 100);
        assert_eq!(parts, [0, 0, 0, 1, 1, 1, 2, 2, 2]);
    }

    #[test]
    fn switches_without_hosts_have_parts_of_their_own_where_there_are_more_parts() {
        let (fabric, parts) = parts("kind = 'leaf-spine'\nleaves = 4\nspines = 4\nhosts = 2", 8, |_| 100);
        let mut sorted = parts.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 2, 3, 4, 5, 6, 7], "{parts:?}");
        assert_eq!(parts[..4], [0, 1, 2, 3], "leaves come first");
        // At most one process per switch, and one for a single thread.
        assert_eq!([1, 2, 3, 4].map(|threads| fabric.lp_count(threads)), [1, 8, 8, 8]);
    }

    #[test]
    fn each_thread_has_several_parts() {
        let (fabric, _) = parts("kind = 'fat-tree'\nk = 8", 2, |_| 100);
        assert_eq!([1, 2, 4, 8, 12, 16, 24].map(|threads| fabric.lp_count(threads)), [1, 8, 16, 32, 32, 32, 48]);
    }

    /// The first leaf has as much work as three others.
    #[test]
    fn parts_have_as_much_to_do_as_each_other() {
        let work = |node: usize| if node == 0 { 9_000 } else { 3_000 };
        let (_, parts) = parts("kind = 'leaf-spine'\nleaves = 6\nspines = 2\nhosts = 1", 2, work);
        let load = |part: u32| (0..6).filter(|leaf| parts[*leaf] == part).map(work).sum::<u64>();
        assert_eq!(load(0), load(1), "{parts:?}");
    }

    #[test]
    fn each_part_has_a_switch_with_hosts() {
        for count in 1..=6 {
            let work = |node: usize| if node == 5 { 1_000_000 } else { 1 };
            let (fabric, parts) = parts("kind = 'leaf-spine'\nleaves = 6\nspines = 3\nhosts = 2", count, work);
            assert_eq!(fabric.threads_max(), 6);
            assert!((0..count as u32).all(|part| parts[..6].contains(&part)), "{count}: {parts:?}");
        }
    }
}
