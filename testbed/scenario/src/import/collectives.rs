//! Collective operations of imported jobs, and the algorithms of ASTRA-sim.

use crate::workload::RankSteps;

/// Collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum CollectiveKind {
    AllReduce,
    AllGather,
    ReduceScatter,
    AllToAll,
}

/// Implementation of collectives, by ASTRA-sim's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CollectiveAlgorithm {
    /// Blocks from rank to rank; an all-to-all passes them on, too.
    Ring,
    HalvingDoubling,
    /// Binary tree, mirrored for every second chunk.
    DoubleBinaryTree {
        mirrored: bool,
    },
    /// Messages to all ranks.
    Direct {
        /// Number of messages that wait for no receipt.
        window: u32,
    },
}

impl CollectiveAlgorithm {
    /// Returns the number of a rank's messages, of which a tree has fewer.
    pub(super) fn messages(self, kind: CollectiveKind, ranks: u32) -> u64 {
        let n = u64::from(ranks);
        let once = match self {
            CollectiveAlgorithm::Ring if kind == CollectiveKind::AllToAll => n * (n - 1) / 2,
            CollectiveAlgorithm::Ring | CollectiveAlgorithm::Direct { .. } => n - 1,
            CollectiveAlgorithm::HalvingDoubling => u64::from(ranks.ilog2()),
            CollectiveAlgorithm::DoubleBinaryTree { .. } => 2,
        };
        if kind == CollectiveKind::AllReduce { 2 * once } else { once }
    }

    /// Returns the size of the largest message. `bytes` are an all-gather's block, the buffer of other collectives.
    pub(super) fn message_max(self, kind: CollectiveKind, ranks: u32, bytes: u64) -> u64 {
        let n = u64::from(ranks);
        match (self, kind) {
            (CollectiveAlgorithm::DoubleBinaryTree { .. }, _) => bytes,
            (CollectiveAlgorithm::HalvingDoubling, CollectiveKind::AllGather) => bytes.saturating_mul(n / 2),
            (CollectiveAlgorithm::HalvingDoubling, _) => bytes / 2,
            (_, CollectiveKind::AllGather) => bytes,
            _ => bytes / n,
        }
    }

    /// Adds the messages of two ranks or more; blocks are rounded down, to 1 B at least. The collective uses two tags.
    pub(super) fn add(self, kind: CollectiveKind, bytes: u64, steps: &mut RankSteps<'_>) {
        let n = steps.ranks.len() as u32;
        let share = |parts: u32| (bytes / u64::from(parts)).max(1) as u32;
        let bits = n.ilog2();
        match (self, kind) {
            (CollectiveAlgorithm::Ring, CollectiveKind::AllReduce) => steps.ring(2 * (n - 1), share(n), n - 1),
            (CollectiveAlgorithm::Ring, CollectiveKind::ReduceScatter) => steps.ring(n - 1, share(n), n - 1),
            (CollectiveAlgorithm::Ring, CollectiveKind::AllGather) => steps.ring(n - 1, share(1), 0),
            (CollectiveAlgorithm::Ring, CollectiveKind::AllToAll) => steps.ring(n * (n - 1) / 2, share(n), 0),
            (CollectiveAlgorithm::HalvingDoubling, CollectiveKind::AllGather) => {
                let doubling: Vec<(u32, u32)> = (0..bits).rev().map(|bit| (bit, share(1) * (n >> (bit + 1)))).collect();
                steps.exchange(&doubling, 0);
            }
            (CollectiveAlgorithm::HalvingDoubling, _) => {
                let halving = (0..bits).map(|bit| (bit, share(2 << bit)));
                let back = halving.clone().rev().filter(|_| kind == CollectiveKind::AllReduce);
                // As in ASTRA-sim, the last receipt before the way back is not reduced.
                steps.exchange(&halving.chain(back).collect::<Vec<_>>(), bits - 1);
            }
            (CollectiveAlgorithm::DoubleBinaryTree { mirrored }, _) => {
                steps.tree(share(1), |place| if mirrored { n - 1 - place } else { place });
            }
            (CollectiveAlgorithm::Direct { window }, _) => {
                let is_reduction = matches!(kind, CollectiveKind::AllReduce | CollectiveKind::ReduceScatter);
                let block = if kind == CollectiveKind::AllGather { share(1) } else { share(n) };
                let received = steps.direct(block, window, is_reduction, &[]);
                if kind == CollectiveKind::AllReduce {
                    steps.tag += 1;
                    steps.direct(block, window, false, &received);
                }
            }
        }
    }
}
