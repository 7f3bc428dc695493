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
        let ranks: Vec<u32> = (0..self.hosts.len() as u32).collect();
        let mut graph = GraphDraft::new(ranks.len());
        let mut ends = vec![None; ranks.len()];
        let mut first = vec![0; ranks.len()];
        for repetition in 0..self.repetitions {
            for rank in &ranks {
                let (end, first) = (&mut ends[*rank as usize], &mut first[*rank as usize]);
                if self.compute > Span::ZERO {
                    let compute = graph.compute(*rank, self.compute, 0);
                    if let Some(end) = *end {
                        graph.require(*rank, compute, end);
                    }
                    *end = Some(compute);
                }
                *first = graph.operations(*rank);
            }
            for chunk in 0..self.chunks {
                // The second tree has a tag of its own.
                let tag = 2 * chunk;
                self.add(&mut RankSteps { graph: &mut graph, ranks: &ranks, tag, cpu: 0, cost: None });
            }
            for rank in &ranks {
                let (end, first) = (&mut ends[*rank as usize], first[*rank as usize]);
                *end = Some(graph.repetition(*rank, repetition, first, *end));
            }
        }
        let graph = graph.build(&self.hosts, self.from, self.until, self.repetitions);
        let mut graph = graph.expect("each receipt has its message, and no operation waits for itself");
        let [factor, divisor] = self.collective.bus_factor(ranks.len() as u64);
        graph.bus_bytes = Some((self.bytes * factor).divided_by(divisor));
        graph
    }

    /// Adds the messages of one chunk.
    fn add(&self, steps: &mut RankSteps<'_>) {
        let n = steps.ranks.len() as u32;
        let block = |parts: u32| self.bytes.get().div_ceil(u64::from(parts) * u64::from(self.chunks)) as u32;
        match self.collective {
            Collective::RingAllReduce => steps.ring(2 * (n - 1), block(n), 0),
            Collective::RingAllGather | Collective::RingReduceScatter => steps.ring(n - 1, block(n), 0),
            Collective::HalvingDoublingAllReduce => {
                let halving = (0..n.ilog2()).map(|bit| (bit, block(n) * (n >> (bit + 1))));
                steps.exchange(&halving.clone().chain(halving.rev()).collect::<Vec<_>>(), 0);
            }
            Collective::DoubleTreeAllReduce => {
                steps.tree(block(2), |place| place);
                steps.tag += 1;
                // Mirrored with an even number of ranks, or else shifted.
                steps.tree(block(2), |place| if n.is_multiple_of(2) { n - 1 - place } else { (place + 1) % n });
            }
            Collective::PairwiseAllToAll => steps.pairwise(block(n)),
            Collective::BruckAllToAll => {
                let bits = u32::BITS - (n - 1).leading_zeros();
                let size = |bit: usize| block(n) * blocks_with_bit(u64::from(n), bit as u32) as u32;
                steps.in_turn(bits as usize, 0, |bit, place| {
                    ((place + (1 << bit)) % n, (place + n - (1 << bit)) % n, size(bit))
                });
            }
            Collective::BinomialBroadcast => steps.binomial(block(1)),
        }
    }
}

/// Steps of all ranks under construction; messages of one chunk have one tag. Ranks are counted by their place in `ranks`.
pub(crate) struct RankSteps<'g> {
    pub(crate) graph: &'g mut GraphDraft,
    pub(crate) ranks: &'g [u32],
    pub(crate) tag: u32,
    /// CPU of messages.
    pub(crate) cpu: u8,
    /// Computation after each receipt, if there is one.
    pub(crate) cost: Option<ReceiveCost>,
}

/// Computation of a rank after a receipt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceiveCost {
    /// Duration without a reduction.
    pub(crate) delay: Span,
    /// Bytes a second at which a reduction reads or writes memory, three times its size; `None`: reductions take no time.
    pub(crate) memory_rate: Option<u64>,
    /// CPU.
    pub(crate) cpu: u8,
}

impl ReceiveCost {
    /// Returns the duration with a reduction of this size, in whole nanoseconds a pass.
    fn duration(&self, reduced: u32) -> Span {
        let pass = self.memory_rate.map_or(0, |rate| u128::from(reduced) * 1_000_000_000 / u128::from(rate.max(1)));
        self.delay + Span::from_nanos(3 * pass as u64)
    }
}

impl RankSteps<'_> {
    fn send(&mut self, place: u32, to: u32, size: u32) -> u32 {
        self.graph.send(self.ranks[place as usize], self.ranks[to as usize], self.tag, size, self.cpu)
    }

    /// Adds a receipt, and the computation after it, which reduces `reduced` bytes; returns the last operation.
    fn receive(&mut self, place: u32, from: u32, reduced: u32) -> u32 {
        let rank = self.ranks[place as usize];
        let received = self.graph.receive(rank, self.ranks[from as usize], self.tag, self.cpu);
        let Some(cost) = self.cost else { return received };
        let compute = self.graph.compute(rank, cost.duration(reduced), cost.cpu);
        self.graph.require(rank, compute, received);
        compute
    }

    fn require(&mut self, place: u32, after: u32, before: impl IntoIterator<Item = u32>) {
        let rank = self.ranks[place as usize];
        before.into_iter().for_each(|before| self.graph.require(rank, after, before));
    }

    /// Adds steps in which each rank sends a block to the next one; the first `reductions` received are reduced.
    pub(crate) fn ring(&mut self, steps: u32, block: u32, reductions: u32) {
        let n = self.ranks.len() as u32;
        self.in_turn(steps as usize, reductions, |_, place| ((place + 1) % n, (place + n - 1) % n, block));
    }

    /// Adds steps of (bit, size), in which ranks at a distance of 2^bit exchange messages; the first `reductions` received are reduced.
    pub(crate) fn exchange(&mut self, steps: &[(u32, u32)], reductions: u32) {
        self.in_turn(steps.len(), reductions, |step, place| {
            let (bit, size) = steps[step];
            (place ^ 1 << bit, place ^ 1 << bit, size)
        });
    }

    /// Adds steps in each of which a rank sends a message after it has received that of the step before. `message`
    /// returns the receiver, the sender of the rank's own receipt, and the size. Before one of the first `reductions` next steps a rank
    /// reduces that step's bytes.
    fn in_turn(&mut self, steps: usize, reductions: u32, message: impl Fn(usize, u32) -> (u32, u32, u32)) {
        for place in 0..self.ranks.len() as u32 {
            let mut before = None;
            for step in 0..steps {
                let (to, from, size) = message(step, place);
                let send = self.send(place, to, size);
                let next = message((step + 1).min(steps - 1), place).2;
                let receive = self.receive(place, from, if step < reductions as usize { next } else { 0 });
                self.require(place, send, before);
                before = Some(receive);
            }
        }
    }

    /// Adds steps in each of which a rank sends to another and receives from another. It sends once the message of the step before is
    /// acknowledged and that step's receipt has come.
    fn pairwise(&mut self, block: u32) {
        let n = self.ranks.len() as u32;
        for place in 0..n {
            let mut before = Vec::new();
            for distance in 1..n {
                let send = self.send(place, (place + distance) % n, block);
                let receive = self.receive(place, (place + n - distance) % n, 0);
                self.require(place, send, before);
                before = vec![send, receive];
            }
        }
    }

    /// Adds messages of each rank to all others, of which the first `window` are sent at once, each further one after another receipt; all
    /// wait for the operations `before` of their rank. Returns each rank's received.
    pub(crate) fn direct(&mut self, block: u32, window: u32, reduces: bool, before: &[Vec<u32>]) -> Vec<Vec<u32>> {
        let n = self.ranks.len() as u32;
        let mut all = Vec::new();
        for place in 0..n {
            let mut received = Vec::new();
            for distance in 1..n {
                let send = self.send(place, (place + distance) % n, block);
                received.push(self.receive(place, (place + n - distance) % n, if reduces { block } else { 0 }));
                let earlier = distance.checked_sub(window + 1).map(|place| received[place as usize]);
                self.require(place, send, earlier);
                self.require(place, send, before.get(place as usize).into_iter().flatten().copied());
            }
            all.push(received);
        }
        all
    }

    /// Adds a reduction to the root of a tree and a broadcast from it. `rank_of` has the rank of each place in the tree.
    pub(crate) fn tree(&mut self, block: u32, rank_of: impl Fn(u32) -> u32) {
        let n = self.ranks.len() as u32;
        let mut children = vec![Vec::new(); self.ranks.len()];
        (1..n).for_each(|place| children[tree_parent(place, n) as usize].push(place));
        for place in 0..n {
            let (rank, below) = (rank_of(place), &children[place as usize]);
            let reduced = if below.is_empty() { 0 } else { block };
            let mut before: Vec<u32> = below.iter().map(|child| self.receive(rank, rank_of(*child), reduced)).collect();
            if place > 0 {
                let parent = rank_of(tree_parent(place, n));
                let up = self.send(rank, parent, block);
                self.require(rank, up, before);
                before = vec![self.receive(rank, parent, reduced)];
            }
            for child in below {
                let down = self.send(rank, rank_of(*child), block);
                self.require(rank, down, before.iter().copied());
            }
        }
    }

    /// Adds a broadcast in which each rank sends to its children one after the other, on acknowledgements.
    fn binomial(&mut self, block: u32) {
        let n = self.ranks.len() as u32;
        for place in 0..n {
            let height = u32::BITS - place.leading_zeros();
            let mut before = match place {
                0 => None,
                _ => Some(self.receive(place, place ^ 1 << (height - 1), 0)),
            };
            for to in (height..u32::BITS - 1).map(|bit| place + (1 << bit)).take_while(|to| *to < n) {
                let send = self.send(place, to, block);
                self.require(place, send, before);
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
