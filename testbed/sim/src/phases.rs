//! Phases of nodes.
//!
//! If every link joins nodes of two groups, as in trees with hosts only at the lowest level, the groups run in
//! alternating phases. When one phase has reached an instant, the other can run to one lookahead beyond, since nothing
//! reaches it earlier. So each phase advances by two lookaheads at a time. Windows twice as long let a node do twice
//! the work with cached state.

use weir_scenario::Scenario;

/// Phase of each node: one phase for all, or two.
#[derive(Clone, Debug)]
pub(super) struct Phases {
    by_node: Box<[u8]>,
    count: usize,
}

impl Phases {
    /// Assigns two phases if links allow it and all hosts share one, so that hosts are at the same time between
    /// windows; otherwise one.
    pub(super) fn new(scenario: &Scenario) -> Phases {
        let nodes = scenario.switches.len() + scenario.hosts.len();
        match two_colouring(scenario) {
            Some(by_node) => Phases { by_node, count: 2 },
            None => Phases { by_node: vec![0; nodes].into(), count: 1 },
        }
    }

    /// Returns the phases of a subset of the nodes, in this order.
    pub(super) fn subset(&self, nodes: &[u32]) -> Phases {
        Phases { by_node: nodes.iter().map(|node| self.by_node[*node as usize]).collect(), count: self.count }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn nodes(&self) -> usize {
        self.by_node.len()
    }

    #[inline]
    pub(super) fn node_phase(&self, node: usize) -> usize {
        usize::from(self.by_node[node])
    }

    /// Returns the phase of all hosts.
    pub(super) fn host_phase(&self) -> usize {
        self.count - 1
    }

    /// Returns the phase that runs in an interval of one lookahead, by the interval's index.
    pub(super) fn interval(&self, interval: u64) -> usize {
        (interval % self.count as u64) as usize
    }
}

/// Returns the phase of switches and hosts, with hosts in phase 1; `None` if a link would join nodes of the same phase.
fn two_colouring(scenario: &Scenario) -> Option<Box<[u8]>> {
    const HOSTS: u8 = 1;
    let mut phases: Vec<Option<u8>> = vec![None; scenario.switches.len()];
    let links: Vec<[usize; 2]> = scenario.links.iter().map(|link| link.ends.map(|end| end.switch)).collect();
    scenario.hosts.iter().for_each(|host| phases[host.switch] = Some(1 - HOSTS));
    // Switches not reached from any host carry no frames, unless links lead there.
    loop {
        let before = phases.iter().flatten().count();
        for [one, other] in &links {
            match (phases[*one], phases[*other]) {
                (Some(phase), None) => phases[*other] = Some(1 - phase),
                (None, Some(phase)) => phases[*one] = Some(1 - phase),
                _ => {}
            }
        }
        if phases.iter().flatten().count() == before {
            break;
        }
    }
    // A link not reached from any host has no phase: both ends are `None`, hence equal.
    if links.iter().any(|[one, other]| phases[*one] == phases[*other]) {
        return None;
    }
    let switches = phases.into_iter().map(|phase| phase.unwrap_or(1 - HOSTS));
    Some(switches.chain(scenario.hosts.iter().map(|_| HOSTS)).collect())
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::Path;

    use super::*;
    use weir_scenario::file;

    pub(crate) fn scenario(topology: &str) -> Scenario {
        let text = format!(
            "[scenario]\nend = '1ms'\n[topology]\n{topology}\nrate = '100Gbps'\ndelay = '1us'\n[switch.buffer]\nsize = '9MB'\n\
             policy = 'dt'\n[switch.classes]\npreset = 'roce'\n[[workloads]]\nname = 'w'\nkind = 'permutation'\nsizes = '1KB'\nclass = 3\n"
        );
        let runs = file::parse(Path::new("sides.toml"), &text).unwrap_or_else(|errors| panic!("{errors}"));
        runs.into_iter().next().unwrap().scenario
    }

    fn sides(topology: &str) -> Phases {
        Phases::new(&scenario(topology))
    }

    #[test]
    fn levels_of_a_tree_take_turns() {
        let sides = sides("kind = 'leaf-spine'\nleaves = 2\nspines = 3\nhosts = 2");
        assert_eq!(sides.count(), 2);
        assert_eq!((0..9).map(|node| sides.node_phase(node)).collect::<Vec<_>>(), [0, 0, 1, 1, 1, 1, 1, 1, 1]);
        assert_eq!((sides.host_phase(), sides.interval(6), sides.interval(7)), (1, 0, 1));
        let three_levels = self::sides("kind = 'fat-tree'\nk = 4");
        assert_eq!(
            (three_levels.count(), three_levels.node_phase(0), three_levels.node_phase(8), three_levels.node_phase(16)),
            (2, 0, 1, 0)
        );
    }

    #[test]
    fn rings_and_hosts_on_two_levels_make_one_side() {
        assert_eq!(sides("kind = 'ring'\nswitches = 3\nhosts = 1").count(), 1, "an odd ring");
        assert_eq!(sides("kind = 'ring'\nswitches = 4\nhosts = 1").count(), 1, "hosts at neighbours");
        assert_eq!(sides("kind = 'dumbbell'\nleft = 2\nright = 2").count(), 1, "hosts at neighbours");
        assert_eq!(sides("kind = 'single'\nhosts = 2").count(), 2);
    }
}
