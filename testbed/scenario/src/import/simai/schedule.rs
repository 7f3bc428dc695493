//! Text of a GOAL schedule, in which all ranks do the same.

use std::fmt::Write;

use super::workload::{LayerCollective, LayerStep, ParallelGroup, SimaiWorkload};

/// CPU of messages, and of empty computations that join them.
const MESSAGE_CPU: u8 = 1;
const JOIN_CPU: u8 = 2;

/// Schedule under construction.
#[derive(Debug)]
pub(super) struct GoalWriter {
    tensor: u32,
    expert: u32,
    ranks: Vec<RankWriter>,
    /// Tag of the next collective.
    tag: u32,
    messages: u64,
}

#[derive(Debug, Default)]
struct RankWriter {
    text: String,
    labels: u32,
    /// Operation after which the next one starts.
    last: Option<u32>,
}

impl GoalWriter {
    pub(super) fn new(workload: &SimaiWorkload) -> GoalWriter {
        GoalWriter {
            tensor: workload.tensor,
            expert: workload.expert,
            ranks: (0..workload.gpus).map(|_| RankWriter::default()).collect(),
            tag: 0,
            messages: 0,
        }
    }

    /// Number of messages so far.
    pub(super) fn messages(&self) -> u64 {
        self.messages
    }

    /// Returns the place of each rank, for [`GoalWriter::resume_from`].
    pub(super) fn position(&self) -> Vec<Option<u32>> {
        self.ranks.iter().map(|rank| rank.last).collect()
    }

    /// Goes on from an earlier place; later operations delay nothing.
    pub(super) fn resume_from(&mut self, position: Vec<Option<u32>>) {
        self.ranks.iter_mut().zip(position).for_each(|(rank, last)| rank.last = last);
    }

    /// Adds a computation of all ranks.
    pub(super) fn compute(&mut self, duration_ns: u64, cpu: u8) {
        for rank in &mut self.ranks {
            let operation = rank.add(&format!("calc {duration_ns} cpu {cpu}"), rank.last);
            rank.last = Some(operation);
        }
    }

    /// Adds a step's collective, if it has one, of `bytes` in all groups.
    pub(super) fn collective(&mut self, step: &LayerStep, bytes: u64) {
        let Some((kind, group)) = step.collective.filter(|_| bytes > 0) else { return };
        let (count, stride) = self.group(group);
        if count < 2 {
            return;
        }
        let block = bytes.div_ceil(u64::from(count));
        let steps = match kind {
            LayerCollective::AllReduce => 2 * (count - 1),
            _ => count - 1,
        };
        self.messages += u64::from(steps) * self.ranks.len() as u64;
        if self.messages > super::MESSAGES_MAX {
            return;
        }
        for rank in 0..self.ranks.len() as u32 {
            // Ranks of a group are `stride` apart.
            let member = rank / stride % count;
            let peer = |distance: u32| rank - member * stride + (member + distance) % count * stride;
            let messages = |step: u32| match kind {
                LayerCollective::AllToAll => (peer(step + 1), peer(count - 1 - step)),
                _ => (peer(1), peer(count - 1)),
            };
            let writer = &mut self.ranks[rank as usize];
            let first = writer.last;
            let mut received = first;
            let mut ends = Vec::new();
            for step in 0..steps {
                let (to, from) = messages(step);
                let tag = self.tag;
                let sent = writer.add(&format!("send {block}b to {to} tag {tag} cpu {MESSAGE_CPU}"), received);
                let receipt = writer.add(&format!("recv {block}b from {from} tag {tag} cpu {MESSAGE_CPU}"), received);
                if kind != LayerCollective::AllToAll {
                    ends.clear();
                }
                ends.extend([sent, receipt]);
                received = if kind == LayerCollective::AllToAll { first } else { Some(receipt) };
            }
            let join = writer.add(&format!("calc 0 cpu {JOIN_CPU}"), None);
            ends.iter().for_each(|end| writer.require(join, *end));
            writer.last = Some(join);
        }
        self.tag += 1;
    }

    /// Returns the size of a group, and the distance of its ranks.
    fn group(&self, group: ParallelGroup) -> (u32, u32) {
        let (tensor, expert) = (self.tensor, self.expert);
        let data = self.ranks.len() as u32 / tensor;
        match group {
            ParallelGroup::Tensor => (tensor, 1),
            ParallelGroup::Expert => (expert, tensor),
            ParallelGroup::Data => (data, tensor),
            ParallelGroup::DataOfExpert => (data / expert, tensor * expert),
        }
    }

    pub(super) fn into_text(self) -> String {
        let mut text = format!("num_ranks {}\n", self.ranks.len());
        for (number, rank) in self.ranks.iter().enumerate() {
            write!(text, "rank {number} {{\n{}}}\n", rank.text).expect("a String accepts all writes");
        }
        text
    }
}

impl RankWriter {
    /// Adds an operation after another one; returns its number.
    fn add(&mut self, operation: &str, after: Option<u32>) -> u32 {
        let number = self.labels;
        self.labels += 1;
        writeln!(self.text, "l{number}: {operation}").expect("a String accepts all writes");
        after.into_iter().for_each(|before| self.require(number, before));
        number
    }

    fn require(&mut self, operation: u32, before: u32) {
        writeln!(self.text, "l{operation} requires l{before}").expect("a String accepts all writes");
    }
}
