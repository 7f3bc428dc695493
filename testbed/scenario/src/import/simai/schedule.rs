//! Schedule of a SimAI workload, in which all ranks do the same.

use weir_units::Span;

use super::workload::{LayerStep, ParallelGroup, SimaiWorkload};
use crate::import::collectives::{CollectiveAlgorithm, CollectiveKind};
use crate::workload::{GraphDraft, RankSteps};

/// CPU of messages, and of empty computations that join them.
const MESSAGE_CPU: u8 = 1;
const JOIN_CPU: u8 = 2;

/// Schedule under construction.
#[derive(Debug)]
pub(super) struct LayerSchedule {
    tensor: u32,
    expert: u32,
    /// GPUs of a server, which are ranks in a row.
    per_server: u32,
    pub(super) graph: GraphDraft,
    /// Operation of each rank after which the next one starts.
    last: Vec<Option<u32>>,
    /// Tag of the next collective.
    tag: u32,
    messages: u64,
    bytes_max: u64,
}

impl LayerSchedule {
    pub(super) fn new(workload: &SimaiWorkload, per_server: u32) -> LayerSchedule {
        LayerSchedule {
            tensor: workload.tensor,
            expert: workload.expert,
            per_server,
            graph: GraphDraft::new(workload.gpus as usize),
            last: vec![None; workload.gpus as usize],
            tag: 0,
            messages: 0,
            bytes_max: 0,
        }
    }

    /// Number of messages so far.
    pub(super) fn messages(&self) -> u64 {
        self.messages
    }

    /// Size of the largest message so far.
    pub(super) fn message_max(&self) -> u64 {
        self.bytes_max
    }

    /// Returns the place of each rank, for [`LayerSchedule::resume_from`].
    pub(super) fn position(&self) -> Vec<Option<u32>> {
        self.last.clone()
    }

    /// Goes on from an earlier place; later operations delay nothing.
    pub(super) fn resume_from(&mut self, position: Vec<Option<u32>>) {
        self.last = position;
    }

    /// Adds a computation of all ranks.
    pub(super) fn compute(&mut self, duration: Span, cpu: u8) {
        for (rank, last) in (0..).zip(&mut self.last) {
            let operation = self.graph.compute(rank, duration, cpu);
            last.iter().for_each(|last| self.graph.require(rank, operation, *last));
            *last = Some(operation);
        }
    }

    /// Adds a step's collective, if it has one, of `bytes` in all groups. Where a group is in several servers each of its ranks in a server
    /// begins a ring of its own, a channel, as in SimAI, so that each one's NIC has its share of the bytes.
    /// Collectives with too many or too large messages are counted only.
    pub(super) fn collective(&mut self, step: &LayerStep, bytes: u64) {
        let Some((kind, group)) = step.collective.filter(|_| bytes > 0) else { return };
        let (count, stride) = self.group(group);
        if count < 2 {
            return;
        }
        let (ranks, parts) = (self.last.len() as u32, u64::from(count));
        let algorithm = match kind {
            CollectiveKind::AllToAll => CollectiveAlgorithm::Direct { window: count },
            _ => CollectiveAlgorithm::Ring,
        };
        let in_server = (self.per_server / stride).max(1);
        let is_split = kind != CollectiveKind::AllToAll && count > in_server && count.is_multiple_of(in_server);
        let (channels, in_server) = if is_split { (in_server, in_server) } else { (1, count) };
        let block = bytes.div_ceil(parts * u64::from(channels));
        let bytes = if kind == CollectiveKind::AllGather { block } else { block.saturating_mul(parts) };
        self.messages += algorithm.messages(kind, count) * u64::from(ranks) * u64::from(channels);
        self.bytes_max = self.bytes_max.max(block);
        if self.messages > super::MESSAGES_MAX || self.bytes_max > super::MESSAGE_BYTES_MAX {
            return;
        }
        let starts: Vec<u32> = (0..ranks).map(|rank| self.join(rank, self.last[rank as usize])).collect();
        let first: Vec<u32> = (0..ranks).map(|rank| self.graph.operations(rank)).collect();
        for channel in 0..channels {
            for leader in (0..ranks).filter(|rank| (rank / stride).is_multiple_of(count)) {
                // Servers in turn; the ranks in each begin with the channel's.
                let place = |member: u32| member / in_server * in_server + (member + channel) % in_server;
                let members: Vec<u32> = (0..count).map(|member| leader + place(member) * stride).collect();
                let mut steps =
                    RankSteps { graph: &mut self.graph, ranks: &members, tag: self.tag, cpu: MESSAGE_CPU, cost: None };
                algorithm.add(kind, bytes, &mut steps);
            }
            self.tag += 1;
        }
        for rank in 0..ranks {
            let operations = first[rank as usize]..self.graph.operations(rank);
            let end = self.join(rank, None);
            self.graph.bound(rank, operations, starts[rank as usize], end);
            self.last[rank as usize] = Some(end);
        }
    }

    /// Adds an empty computation.
    fn join(&mut self, rank: u32, after: Option<u32>) -> u32 {
        let join = self.graph.compute(rank, Span::ZERO, JOIN_CPU);
        after.into_iter().for_each(|after| self.graph.require(rank, join, after));
        join
    }

    /// Returns the size of a group, and the distance of its ranks.
    fn group(&self, group: ParallelGroup) -> (u32, u32) {
        let (tensor, expert) = (self.tensor, self.expert);
        let data = self.last.len() as u32 / tensor;
        match group {
            ParallelGroup::Tensor => (tensor, 1),
            ParallelGroup::Expert => (expert, tensor),
            ParallelGroup::Data => (data, tensor),
            ParallelGroup::DataOfExpert => (data / expert, tensor * expert),
        }
    }
}
