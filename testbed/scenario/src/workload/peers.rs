//! Peers that a host sends to or receives from.

use std::ops::Range;

use super::{Rng, WorkloadError};

/// Hosts from which a host's peers are drawn, with equal probability: all but that host itself, or all of other groups, such as other
/// racks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peers {
    /// Hosts by group, then by number.
    pool: Vec<u32>,
    /// The group of each host, by its number; `None` if each host is a group of its own.
    group_of: Option<Vec<u32>>,
}

impl Peers {
    /// Peers of a host are all others in `hosts`.
    ///
    /// # Errors
    /// A host is twice in the list, or there is none.
    pub fn others(hosts: &[u32]) -> Result<Peers, WorkloadError> {
        Peers::new(hosts, None)
    }

    /// Peers of a host are those of `hosts` in other groups. `group_of` has the group of every sender and receiver, by the host's number.
    ///
    /// # Errors
    /// A host occurs twice, or has no group; or there is no host.
    pub fn other_groups(hosts: &[u32], group_of: &[u32]) -> Result<Peers, WorkloadError> {
        Peers::new(hosts, Some(group_of.to_vec()))
    }

    fn new(hosts: &[u32], group_of: Option<Vec<u32>>) -> Result<Peers, WorkloadError> {
        refuse_duplicates(hosts, "peers")?;
        let mut peers = Peers { pool: hosts.to_vec(), group_of };
        hosts.iter().try_for_each(|host| peers.has_group(*host))?;
        let mut pool = std::mem::take(&mut peers.pool);
        pool.sort_unstable_by_key(|host| (peers.group(*host), *host));
        Ok(Peers { pool, ..peers })
    }

    /// Number of a host's peers.
    pub fn count(&self, of: u32) -> usize {
        self.pool.len() - self.own(of).len()
    }

    /// Checks that a host has a group, and at least `wanted` peers.
    pub(super) fn check(&self, of: u32, wanted: usize) -> Result<(), WorkloadError> {
        self.has_group(of)?;
        let there = self.count(of);
        if there < wanted {
            return Err(WorkloadError::TooFewPeers { host: of, wanted, there });
        }
        Ok(())
    }

    /// Draws one of a host's peers.
    ///
    /// # Panics
    /// If the host has none.
    pub fn choose(&self, of: u32, rng: &mut Rng) -> u32 {
        let own = self.own(of);
        let place = rng.index(self.pool.len() - own.len());
        self.pool[if place < own.start { place } else { place + own.len() }]
    }

    /// Draws `count` different peers of a host, in a random order.
    ///
    /// # Panics
    /// If the host has fewer.
    pub(super) fn choose_several(&self, of: u32, count: usize, rng: &mut Rng) -> Vec<u32> {
        let own = self.own(of);
        let mut peers = [&self.pool[..own.start], &self.pool[own.end..]].concat();
        for place in 0..count {
            let chosen = place + rng.index(peers.len() - place);
            peers.swap(place, chosen);
        }
        peers.truncate(count);
        peers
    }

    /// Draws another group, with equal probability, and returns all its hosts in a random order.
    ///
    /// # Panics
    /// If the host has no peers.
    pub(super) fn choose_group(&self, of: u32, rng: &mut Rng) -> Vec<u32> {
        let groups = || self.pool.chunk_by(|one, next| self.group(*one) == self.group(*next));
        let others = || groups().filter(|hosts| Some(self.group(hosts[0])) != self.group_if_any(of));
        let place = rng.index(others().count());
        let mut hosts = others().nth(place).expect("a place among them").to_vec();
        rng.shuffle(&mut hosts);
        hosts
    }

    /// Range in the pool of a host's own group.
    fn own(&self, of: u32) -> Range<usize> {
        let Some(group) = self.group_if_any(of) else { return 0..0 };
        let start = self.pool.partition_point(|host| self.group(*host) < group);
        let end = self.pool.partition_point(|host| self.group(*host) <= group);
        start..end
    }

    fn group(&self, host: u32) -> u32 {
        self.group_if_any(host).expect("the pool's hosts have groups")
    }

    fn group_if_any(&self, host: u32) -> Option<u32> {
        match &self.group_of {
            None => Some(host),
            Some(groups) => groups.get(host as usize).copied(),
        }
    }

    fn has_group(&self, host: u32) -> Result<(), WorkloadError> {
        let groups = self.group_of.as_ref().map_or(0, Vec::len);
        self.group_if_any(host).map(drop).ok_or(WorkloadError::NoGroup { host, groups })
    }
}

/// Refuses a list that is empty, or has a host twice.
pub(super) fn refuse_duplicates(hosts: &[u32], among: &'static str) -> Result<(), WorkloadError> {
    let mut sorted = hosts.to_vec();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        _ if hosts.is_empty() => Err(WorkloadError::NoHosts(among)),
        Some(pair) => Err(WorkloadError::HostTwice { host: pair[0], among }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::workload::Rng;

    #[test]
    fn peers_of_a_host_are_of_other_groups() {
        // Hosts 0 and 3 are in group 7, 1 and 2 in group 5, 4 in group 6.
        let peers = Peers::other_groups(&[0, 1, 2, 3, 4], &[7, 5, 5, 7, 6]).unwrap();
        let counts: Vec<usize> = (0..5).map(|host| peers.count(host)).collect();
        assert_eq!(counts, [3, 3, 3, 3, 4]);
        let mut rng = Rng::new(1);
        for _ in 0..50 {
            assert!([1, 2, 4].contains(&peers.choose(0, &mut rng)));
            let mut group = peers.choose_group(4, &mut rng);
            group.sort_unstable();
            assert!(group == [0, 3] || group == [1, 2]);
            assert!(peers.choose_group(1, &mut rng) != [1, 2]);
        }
    }

    #[test]
    fn errors_have_messages() {
        let texts = [
            Peers::others(&[]).unwrap_err(),
            Peers::others(&[3, 1, 3]).unwrap_err(),
            Peers::other_groups(&[0, 5], &[0, 0, 1]).unwrap_err(),
            Peers::others(&[1, 2]).unwrap().check(1, 2).unwrap_err(),
            Peers::other_groups(&[0, 1], &[4, 4]).unwrap().check(0, 1).unwrap_err(),
        ]
        .map(|error| error.to_string());
        assert_eq!(
            texts,
            [
                "there are no peers; write one host at least",
                "host 3 is twice among the peers; write each host once",
                "host 5 is in no group: there are groups of the first 3 hosts; write the group of every host",
                "too few peers for host 1: 1 of 2; write more hosts, or choose fewer",
                "too few peers for host 0: 0 of 1; write more hosts, or choose fewer",
            ]
        );
    }

    proptest! {
        /// Chosen hosts are peers, differ, and are all peers if all are chosen; compared with a filter of all hosts.
        #[test]
        fn chosen_hosts_are_peers(groups in prop::collection::vec(0..4u32, 1..12), of: u32, seed: u64, share in 0.0..=1.0) {
            let hosts: Vec<u32> = (0..groups.len() as u32).collect();
            let of = of % groups.len() as u32;
            for peers in [Peers::others(&hosts).unwrap(), Peers::other_groups(&hosts, &groups).unwrap()] {
                let is_peer = |host: &u32| match &peers.group_of {
                    None => *host != of,
                    Some(groups) => groups[*host as usize] != groups[of as usize],
                };
                let model: Vec<u32> = hosts.iter().copied().filter(is_peer).collect();
                prop_assert_eq!(peers.count(of), model.len());
                if model.is_empty() {
                    continue;
                }
                let mut rng = Rng::new(seed);
                prop_assert!(model.contains(&peers.choose(of, &mut rng)));
                let count = (model.len() as f64 * share) as usize;
                let mut chosen = peers.choose_several(of, count, &mut rng);
                prop_assert_eq!(chosen.len(), count);
                chosen.sort_unstable();
                chosen.dedup();
                prop_assert!(chosen.len() == count && chosen.iter().all(is_peer));
                prop_assert!(peers.choose_group(of, &mut rng).iter().all(is_peer));
            }
        }
    }
}
