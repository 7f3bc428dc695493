//! Pairs of a sending and a receiving host.

use super::peers::refuse_duplicates;
use super::{Instants, Message, Rng, SizeCdf, WorkloadError, stream};

/// Pairs of a sending and a receiving host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pairs(Vec<(u32, u32)>);

impl Pairs {
    /// Creates the set of (sender, receiver) pairs.
    ///
    /// # Errors
    /// A host is paired with itself, or there is no pair.
    pub fn new(pairs: Vec<(u32, u32)>) -> Result<Pairs, WorkloadError> {
        match pairs.iter().find(|(from, to)| from == to) {
            _ if pairs.is_empty() => Err(WorkloadError::NoHosts("pairs of hosts")),
            Some((host, _)) => Err(WorkloadError::ToItself(*host)),
            None => Ok(Pairs(pairs)),
        }
    }

    /// Pairs each host of the list's first half with the one at the same index of the second half.
    ///
    /// # Errors
    /// The number of hosts is odd or zero, or one is twice in the list.
    pub fn one_to_one(hosts: &[u32]) -> Result<Pairs, WorkloadError> {
        refuse_duplicates(hosts, "hosts")?;
        if hosts.len() % 2 == 1 {
            return Err(WorkloadError::OddHostCount(hosts.len()));
        }
        let (senders, receivers) = hosts.split_at(hosts.len() / 2);
        Ok(Pairs(senders.iter().copied().zip(receivers.iter().copied()).collect()))
    }

    /// Pairs each host with every other one: first all with the next in the list, then all with the next but one, and so on. Messages
    /// served in this order do not all go to the same host at first.
    ///
    /// # Errors
    /// There are fewer than two hosts, or one is twice in the list.
    pub fn all_to_all(hosts: &[u32]) -> Result<Pairs, WorkloadError> {
        refuse_too_few(hosts)?;
        let rounds = 1..hosts.len();
        let round = |shift| hosts.iter().copied().zip(hosts.iter().copied().cycle().skip(shift));
        Ok(Pairs(rounds.flat_map(round).collect()))
    }

    /// Draws a permutation in which no host sends to itself, uniformly: every host sends to one, and receives from one.
    ///
    /// # Errors
    /// There are fewer than two hosts, or one is twice in the list.
    pub fn permutation(hosts: &[u32], seed: u64) -> Result<Pairs, WorkloadError> {
        refuse_too_few(hosts)?;
        let mut rng = Rng::stream(seed, stream::PERMUTATION);
        let mut receivers = hosts.to_vec();
        // About one of e permutations is a derangement, and at least one of three.
        loop {
            rng.shuffle(&mut receivers);
            let pairs = || hosts.iter().copied().zip(receivers.iter().copied());
            if pairs().all(|(from, to)| from != to) {
                return Ok(Pairs(pairs().collect()));
            }
        }
    }

    /// Returns the pairs, sender first.
    pub fn pairs(&self) -> &[(u32, u32)] {
        &self.0
    }

    /// Returns a message of each pair at each of the instants, with a size of the distribution; by start, and at one instant in the
    /// pairs' order. `seed` is that of the sizes and of random instants.
    ///
    /// # Errors
    /// The range of time is empty, or the gap is zero.
    pub fn messages(&self, sizes: &SizeCdf, instants: Instants, seed: u64) -> Result<Vec<Message>, WorkloadError> {
        instants.check()?;
        let mut rng = Rng::stream(seed, stream::PAIRS);
        let mut messages = Vec::new();
        for start in instants.iter(Rng::stream(seed, stream::INSTANTS)) {
            let message = |&(from, to): &_| Message { start, from, to, size: sizes.sample(&mut rng) };
            messages.extend(self.0.iter().map(message));
        }
        Ok(messages)
    }
}

fn refuse_too_few(hosts: &[u32]) -> Result<(), WorkloadError> {
    refuse_duplicates(hosts, "hosts")?;
    match hosts {
        [host] => Err(WorkloadError::TooFewPeers { host: *host, wanted: 1, there: 0 }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_units::{Bytes, Span, Time};

    use super::*;

    #[test]
    fn halves_are_paired() {
        assert_eq!(Pairs::one_to_one(&[4, 0, 7, 2]).unwrap().pairs(), [(4, 7), (0, 2)]);
        assert_eq!(Pairs::one_to_one(&[4, 0, 7]), Err(WorkloadError::OddHostCount(3)));
    }

    #[test]
    fn all_pairs_in_rounds() {
        let pairs = Pairs::all_to_all(&[5, 6, 7]).unwrap();
        assert_eq!(pairs.pairs(), [(5, 6), (6, 7), (7, 5), (5, 7), (6, 5), (7, 6)]);
    }

    #[test]
    fn errors_have_messages() {
        let texts = [
            Pairs::new(vec![(1, 2), (3, 3)]).unwrap_err(),
            Pairs::new(vec![]).unwrap_err(),
            Pairs::one_to_one(&[1, 2, 3]).unwrap_err(),
            Pairs::all_to_all(&[1]).unwrap_err(),
            Pairs::permutation(&[2, 2], 1).unwrap_err(),
        ]
        .map(|error| error.to_string());
        assert_eq!(
            texts,
            [
                "host 3 is to send to itself; write another host",
                "there are no pairs of hosts; write one host at least",
                "3 hosts can't be paired, each of one half with one of the other; write an even number of hosts",
                "too few peers for host 1: 0 of 1; write more hosts, or choose fewer",
                "host 2 is twice among the hosts; write each host once",
            ]
        );
    }

    #[test]
    fn pairs_send_at_each_instant() {
        let at = |us: u64| Time::from_nanos(us * 1_000);
        let instants = Instants::Every { from: at(1), every: Span::from_micros(2), until: at(4) };
        let size = Bytes::kb(3);
        let pairs = Pairs::new(vec![(8, 1), (2, 1)]).unwrap();
        let messages = pairs.messages(&SizeCdf::fixed(size).unwrap(), instants, 9).unwrap();
        let message = |us, from| Message { start: at(us), from, to: 1, size };
        assert_eq!(messages, [message(1, 8), message(1, 2), message(3, 8), message(3, 2)]);
    }

    /// The nine derangements of four have about equal frequencies.
    #[test]
    fn derangements_are_equally_likely() {
        let mut seen = std::collections::BTreeMap::new();
        for seed in 0..9_000 {
            *seen.entry(Pairs::permutation(&[0, 1, 2, 3], seed).unwrap().0).or_insert(0u32) += 1;
        }
        assert_eq!(seen.len(), 9);
        // Five standard deviations of 9,000 draws.
        assert!(seen.values().all(|count| count.abs_diff(1_000) < 150), "{seen:?}");
    }

    proptest! {
        #[test]
        fn permutations_are_derangements(count in 2..100u32, seed: u64) {
            let hosts: Vec<u32> = (0..count).map(|host| host * 3).collect();
            let pairs = Pairs::permutation(&hosts, seed).unwrap();
            prop_assert!(pairs.pairs().iter().all(|(from, to)| from != to));
            prop_assert!(pairs.pairs().iter().map(|(from, _)| from).eq(&hosts));
            let mut receivers: Vec<u32> = pairs.pairs().iter().map(|(_, to)| *to).collect();
            receivers.sort_unstable();
            prop_assert_eq!(receivers, hosts);
        }

        #[test]
        fn all_to_all_has_every_pair_once(count in 2..20u32) {
            let hosts: Vec<u32> = (0..count).collect();
            let pairs = Pairs::all_to_all(&hosts).unwrap();
            let mut sorted = pairs.pairs().to_vec();
            sorted.sort_unstable();
            sorted.dedup();
            prop_assert_eq!(sorted.len() as u32, count * (count - 1));
            prop_assert!(sorted.iter().all(|(from, to)| from != to));
            // In a round each host receives one message.
            for round in pairs.pairs().chunks(count as usize) {
                let mut receivers: Vec<u32> = round.iter().map(|(_, to)| *to).collect();
                receivers.sort_unstable();
                prop_assert_eq!(&receivers, &hosts);
            }
        }
    }
}
