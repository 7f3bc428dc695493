//! Collective operations of parallel jobs, as graphs of dependent messages.

use weir_units::{Bytes, Span, Time};

use super::graph::{GraphDraft, MessageGraph};

/// Algorithm of a collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// All-reduce on a ring: a reduce-scatter, then an all-gather.
    RingAllReduce,
    /// All-gather on a ring: each rank passes the last block on.
    RingAllGather,
    /// Reduce-scatter on a ring.
    RingReduceScatter,
    /// All-reduce by halving, then doubling, with ranks at distances of powers of two.
    HalvingDoublingAllReduce,
    /// All-reduce up and down NCCL's two binary trees, with half of the buffer each.
    DoubleTreeAllReduce,
    /// Pairwise all-to-all: in each step a rank sends to the one a distance ahead, and receives from the one behind.
    PairwiseAllToAll,
    /// Bruck's all-to-all: in a step for each bit of the distance, ranks pass blocks on.
    BruckAllToAll,
    /// Broadcast of rank 0 on a binomial tree.
    BinomialBroadcast,
}

/// Parameters of a collective operation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CollectiveConfig {
    pub collective: Collective,
    /// Host of each rank.
    pub hosts: Vec<u32>,
    /// Buffer of a rank.
    pub bytes: Bytes,
    /// Number of parts of the buffer, which are processed independently of each other.
    pub chunks: u32,
    pub repetitions: u32,
    /// Computation of each rank before each repetition.
    pub compute: Span,
    pub from: Time,
    pub until: Time,
}

impl Collective {
    /// Algorithms by name.
    pub const NAMES: [(&str, Collective); 8] = [
        ("ring-all-reduce", Collective::RingAllReduce),
        ("ring-all-gather", Collective::RingAllGather),
        ("ring-reduce-scatter", Collective::RingReduceScatter),
        ("halving-doubling-all-reduce", Collective::HalvingDoublingAllReduce),
        ("double-tree-all-reduce", Collective::DoubleTreeAllReduce),
        ("pairwise-all-to-all", Collective::PairwiseAllToAll),
        ("bruck-all-to-all", Collective::BruckAllToAll),
        ("binomial-broadcast", Collective::BinomialBroadcast),
    ];

    /// Whether the number of ranks must be a power of two.
    pub fn needs_power_of_two(self) -> bool {
        self == Collective::HalvingDoublingAllReduce
    }

    /// Returns the number of messages of one chunk of a repetition.
    pub(crate) fn messages(self, ranks: usize) -> u64 {
        let n = ranks as u64;
        let bits = u64::from(u64::BITS - (n - 1).leading_zeros());
        match self {
            Collective::RingAllReduce => 2 * n * (n - 1),
            Collective::RingAllGather | Collective::RingReduceScatter | Collective::PairwiseAllToAll => n * (n - 1),
            Collective::HalvingDoublingAllReduce => 2 * n * bits,
            Collective::DoubleTreeAllReduce => 4 * (n - 1),
            Collective::BruckAllToAll => n * bits,
            Collective::BinomialBroadcast => n - 1,
        }
    }

    /// Returns numerator and denominator of the factor by which NCCL's tests multiply buffer / time for the bus bandwidth (`busbw`).
    fn bus_factor(self, ranks: u64) -> [u64; 2] {
        match self {
            Collective::RingAllReduce | Collective::HalvingDoublingAllReduce | Collective::DoubleTreeAllReduce => {
                [2 * (ranks - 1), ranks]
            }
            Collective::BinomialBroadcast => [1, 1],
            _ => [ranks - 1, ranks],
        }
    }

    /// Returns the size of a rank's largest message. Blocks are rounded up to whole bytes.
    pub(crate) fn message_max(self, ranks: usize, bytes: Bytes, chunks: u32) -> Bytes {
        let n = ranks as u64;
        let part = |parts: u64| bytes.get().div_ceil(parts * u64::from(chunks));
        Bytes::new(match self {
            Collective::HalvingDoublingAllReduce => part(n) * (n / 2),
            Collective::BruckAllToAll => part(n) * (0..64).map(|bit| blocks_with_bit(n, bit)).max().unwrap_or(0),
            Collective::DoubleTreeAllReduce => part(2),
            Collective::BinomialBroadcast => part(1),
            _ => part(n),
        })
    }
}

/// Returns how many of the numbers below `n` have this bit.
fn blocks_with_bit(n: u64, bit: u32) -> u64 {
    (0..n).filter(|block| block >> bit & 1 == 1).count() as u64
}

impl CollectiveConfig {
    /// Builds the graph of two ranks or more, whose messages have 2^31 bytes at most.
    pub(crate) fn graph(&self) -> MessageGraph {
        let ranks = self.hosts.len() as u32;
        let mut steps = RankSteps { graph: GraphDraft::new(self.hosts.len()), ranks, tag: 0 };
        let mut ends = vec![None; self.hosts.len()];
        let mut first = vec![0; self.hosts.len()];
        for repetition in 0..self.repetitions {
            for rank in 0..ranks {
                let (end, first) = (&mut ends[rank as usize], &mut first[rank as usize]);
                if self.compute > Span::ZERO {
                    let compute = steps.graph.compute(rank, self.compute, 0);
                    if let Some(end) = *end {
                        steps.graph.require(rank, compute, end);
                    }
                    *end = Some(compute);
                }
                *first = steps.graph.operations(rank);
            }
            for chunk in 0..self.chunks {
                // The second tree has a tag of its own.
                steps.tag = 2 * chunk;
                self.add(&mut steps);
            }
            for rank in 0..ranks {
                let (end, first) = (&mut ends[rank as usize], first[rank as usize]);
                *end = Some(steps.graph.repetition(rank, repetition, first, *end));
            }
        }
        let graph = steps.graph.build(&self.hosts, self.from, self.until, self.repetitions);
        let mut graph = graph.expect("each receipt has its message, and no operation waits for itself");
        let [factor, divisor] = self.collective.bus_factor(u64::from(ranks));
        graph.bus_bytes = Some((self.bytes * factor).divided_by(divisor));
        graph
    }

    /// Adds the messages of one chunk.
    fn add(&self, steps: &mut RankSteps) {
        let n = steps.ranks;
        let block = |parts: u32| self.bytes.get().div_ceil(u64::from(parts) * u64::from(self.chunks)) as u32;
        match self.collective {
            Collective::RingAllReduce => steps.ring(2 * (n - 1), block(n)),
            Collective::RingAllGather | Collective::RingReduceScatter => steps.ring(n - 1, block(n)),
            Collective::HalvingDoublingAllReduce => {
                let halving = (0..n.ilog2()).map(|bit| (bit, block(n) * (n >> (bit + 1))));
                let both: Vec<(u32, u32)> = halving.clone().chain(halving.rev()).collect();
                steps.in_turn(both.len(), |step, rank| {
                    let (bit, size) = both[step];
                    (rank ^ 1 << bit, rank ^ 1 << bit, size)
                });
            }
            Collective::DoubleTreeAllReduce => {
                steps.tree(block(2), |rank| rank);
                steps.tag += 1;
                // Mirrored with an even number of ranks, or else shifted.
                steps.tree(block(2), |rank| if n.is_multiple_of(2) { n - 1 - rank } else { (rank + 1) % n });
            }
            Collective::PairwiseAllToAll => steps.pairwise(block(n)),
            Collective::BruckAllToAll => {
                let bits = u32::BITS - (n - 1).leading_zeros();
                steps.in_turn(bits as usize, |bit, rank| {
                    let size = block(n) * blocks_with_bit(u64::from(n), bit as u32) as u32;
                    ((rank + (1 << bit)) % n, (rank + n - (1 << bit)) % n, size)
                });
            }
            Collective::BinomialBroadcast => steps.binomial(block(1)),
        }
    }
}

/// Steps of all ranks under construction; messages of one chunk have one tag.
struct RankSteps {
    graph: GraphDraft,
    ranks: u32,
    tag: u32,
}

impl RankSteps {
    fn ring(&mut self, steps: u32, block: u32) {
        let n = self.ranks;
        self.in_turn(steps as usize, |_, rank| ((rank + 1) % n, (rank + n - 1) % n, block));
    }

    /// Adds steps in each of which a rank sends a message after it has received that of the step before. `message`
    /// returns the receiver, the sender of the rank's own receipt, and the size.
    fn in_turn(&mut self, steps: usize, message: impl Fn(usize, u32) -> (u32, u32, u32)) {
        for rank in 0..self.ranks {
            let mut before = None;
            for step in 0..steps {
                let (to, from, size) = message(step, rank);
                let send = self.graph.send(rank, to, self.tag, size, 0);
                let receive = self.graph.receive(rank, from, self.tag, 0);
                before.into_iter().for_each(|before| self.graph.require(rank, send, before));
                before = Some(receive);
            }
        }
    }

    /// Adds steps in each of which a rank sends to another and receives from another. It sends once the message of the step before is
    /// acknowledged and that step's receipt has come.
    fn pairwise(&mut self, block: u32) {
        for rank in 0..self.ranks {
            let mut before = Vec::new();
            for distance in 1..self.ranks {
                let send = self.graph.send(rank, (rank + distance) % self.ranks, self.tag, block, 0);
                let receive = self.graph.receive(rank, (rank + self.ranks - distance) % self.ranks, self.tag, 0);
                before.iter().for_each(|before| self.graph.require(rank, send, *before));
                before = vec![send, receive];
            }
        }
    }

    /// Adds a reduction to the root of a tree and a broadcast from it. `rank_of` has the rank of each place in the tree.
    fn tree(&mut self, block: u32, rank_of: impl Fn(u32) -> u32) {
        let mut children = vec![Vec::new(); self.ranks as usize];
        (1..self.ranks).for_each(|place| children[tree_parent(place, self.ranks) as usize].push(place));
        for place in 0..self.ranks {
            let (rank, below) = (rank_of(place), &children[place as usize]);
            let mut before: Vec<u32> =
                below.iter().map(|child| self.graph.receive(rank, rank_of(*child), self.tag, 0)).collect();
            if place > 0 {
                let parent = rank_of(tree_parent(place, self.ranks));
                let up = self.graph.send(rank, parent, self.tag, block, 0);
                before.iter().for_each(|before| self.graph.require(rank, up, *before));
                before = vec![self.graph.receive(rank, parent, self.tag, 0)];
            }
            for child in below {
                let down = self.graph.send(rank, rank_of(*child), self.tag, block, 0);
                before.iter().for_each(|before| self.graph.require(rank, down, *before));
            }
        }
    }

    /// Adds a broadcast in which each rank sends to its children one after the other, on acknowledgements.
    fn binomial(&mut self, block: u32) {
        for rank in 0..self.ranks {
            let height = u32::BITS - rank.leading_zeros();
            let mut before = match rank {
                0 => None,
                _ => Some(self.graph.receive(rank, rank ^ 1 << (height - 1), self.tag, 0)),
            };
            for to in (height..u32::BITS - 1).map(|bit| rank + (1 << bit)).take_while(|to| *to < self.ranks) {
                let send = self.graph.send(rank, to, self.tag, block, 0);
                before.into_iter().for_each(|before| self.graph.require(rank, send, before));
                before = Some(send);
            }
        }
    }
}

/// Returns the parent of a place in NCCL's binary tree, of which 0 is the root.
fn tree_parent(place: u32, ranks: u32) -> u32 {
    let bit = place & place.wrapping_neg();
    let up = (place ^ bit) | bit << 1;
    if up < ranks { up } else { place ^ bit }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn graph(collective: Collective, ranks: u32, bytes: u64, chunks: u32) -> MessageGraph {
        let config = CollectiveConfig {
            collective,
            hosts: (0..ranks).collect(),
            bytes: Bytes::new(bytes),
            chunks,
            repetitions: 2,
            compute: Span::from_micros(1),
            from: Time::ZERO,
            until: Time::NEVER,
        };
        config.graph()
    }

    /// Bytes that each rank sends and receives in one of two repetitions.
    fn sent(graph: &MessageGraph) -> BTreeMap<u32, [u64; 2]> {
        let mut sums: BTreeMap<u32, [u64; 2]> = BTreeMap::new();
        for message in graph.messages() {
            sums.entry(message.from).or_default()[0] += message.size.get();
            sums.entry(message.to).or_default()[1] += message.size.get();
        }
        sums.into_values()
            .map(|[sent, received]| [sent / 2, received / 2])
            .zip(0..)
            .map(|(sums, n)| (n, sums))
            .collect()
    }

    #[test]
    fn every_rank_sends_and_receives_its_share() {
        for (_, collective) in Collective::NAMES {
            for ranks in [2, 3, 4, 5, 8, 12, 16, 31, 32] {
                if collective.needs_power_of_two() && !u32::is_power_of_two(ranks) {
                    continue;
                }
                let (n, bytes) = (u64::from(ranks), 960 * u64::from(ranks));
                let graph = graph(collective, ranks, bytes, 3);
                let all = sent(&graph);
                let each = match collective {
                    Collective::RingAllReduce | Collective::HalvingDoublingAllReduce => 2 * (n - 1) * bytes / n,
                    Collective::BruckAllToAll => (0..6).map(|bit| blocks_with_bit(n, bit)).sum::<u64>() * bytes / n,
                    // All ranks together send the buffer up and down, or down.
                    Collective::DoubleTreeAllReduce | Collective::BinomialBroadcast => {
                        let times = if collective == Collective::BinomialBroadcast { 1 } else { 2 };
                        let sum: u64 = all.values().map(|[sent, _]| sent).sum();
                        assert_eq!(sum, times * (n - 1) * bytes, "{collective:?}, {ranks} ranks");
                        assert!(graph.idle_time(|_| Span::ZERO).is_ok());
                        continue;
                    }
                    _ => (n - 1) * bytes / n,
                };
                assert!(all.values().all(|sums| *sums == [each; 2]), "{collective:?}, {ranks} ranks: {all:?}");
                let max = graph.messages().map(|message| message.size).max().unwrap();
                assert_eq!(max, collective.message_max(ranks as usize, Bytes::new(bytes), 3));
                assert_eq!(graph.messages().count() as u64, 2 * 3 * collective.messages(ranks as usize));
            }
        }
    }

    /// NCCL's table for 14 ranks in `graph/trees.cc`.
    #[test]
    fn trees_are_those_of_nccl() {
        let parents: Vec<u32> = (1..14).map(|place| tree_parent(place, 14)).collect();
        assert_eq!(parents, [2, 4, 2, 8, 6, 4, 6, 0, 10, 12, 10, 8, 12]);
        // A rank that is a leaf in one tree is none in the other.
        let is_leaf = |place: u32| (1..14).all(|child| tree_parent(child, 14) != place);
        assert!((0..14).all(|rank| is_leaf(rank) != is_leaf(13 - rank) || !is_leaf(rank)));
    }

    #[test]
    fn bus_bandwidth_is_that_of_nccl_tests() {
        let graph = graph(Collective::RingAllReduce, 4, 4_000_000, 1);
        // 4 MB in 1 ms are 4 GB/s, of which 2 * 3 / 4 cross a link.
        assert_eq!(graph.bus_bandwidth(Span::from_millis(1)), Some(6_000_000_000));
    }
}
