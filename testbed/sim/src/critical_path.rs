//! Critical path of a graph: the chain of computations and messages from the last operation to end back to the start.

use std::collections::HashMap;

use weir_nic::host::{Host, OperationCause};
use weir_nic::program::{ProgramEdge, ProgramStep};
use weir_scenario::workload::{Message, MessageGraph};
use weir_scenario::{GraphRecord, RepetitionTimes};
use weir_units::{Span, Time};

/// Step of a critical path. Steps follow each other without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathStep {
    /// Computation of a rank.
    Compute {
        /// Host of the rank.
        host: u32,
        /// Duration, or its part within the repetition.
        duration: Span,
    },
    /// Message, or its part within the repetition.
    Message {
        /// Message, from the port of a host to that of another.
        message: Message,
        /// Place of its sender at the sending port.
        sender: u32,
        /// Receipt, or arrival of the acknowledgement.
        end: Time,
        /// Whether the next step waited for the acknowledgement.
        is_acknowledged: bool,
    },
}

/// Index of a graph's messages and triggers.
pub(super) struct PathIndex<'g> {
    graph: &'g MessageGraph,
    record: &'g GraphRecord,
    /// Messages by operation, and by channel.
    by_operation: Vec<u32>,
    by_channel: Vec<u32>,
    /// Operations of triggers, in order, by receiving rank and channel.
    triggers: HashMap<[u32; 2], Vec<[u32; 2]>>,
}

impl<'g> PathIndex<'g> {
    pub(super) fn new(graph: &'g MessageGraph, record: &'g GraphRecord) -> PathIndex<'g> {
        let mut triggers: HashMap<[u32; 2], Vec<[u32; 2]>> = HashMap::new();
        for (to, from) in &record.triggers {
            triggers.entry(*to).or_default().push(*from);
        }
        let all = 0..record.operations.len() as u32;
        let (by_operation, by_channel) = (all.clone().collect(), all.collect());
        let mut index = PathIndex { graph, record, by_operation, by_channel, triggers };
        let mut messages = std::mem::take(&mut index.by_operation);
        messages.sort_unstable_by_key(|message| index.record.operations[*message as usize]);
        index.by_operation = messages;
        let mut messages = std::mem::take(&mut index.by_channel);
        messages.sort_unstable_by_key(|message| (index.channel(*message), *message));
        index.by_channel = messages;
        index
    }

    /// Returns a message's receiving rank and channel.
    fn channel(&self, message: u32) -> [u32; 2] {
        let [rank, operation] = self.record.operations[message as usize];
        let rank = &self.graph.ranks()[rank as usize];
        match rank.program.step(operation) {
            ProgramStep::Send { connection, channel, .. } => [rank.connections[connection as usize], channel],
            _ => unreachable!("it is a message's operation"),
        }
    }

    fn message_of(&self, operation: [u32; 2]) -> Option<u32> {
        let of = |message: &u32| self.record.operations[*message as usize];
        let place = self.by_operation.binary_search_by_key(&operation, of).ok()?;
        Some(self.by_operation[place])
    }

    /// Returns the message or trigger with a number in a channel, by its operation.
    fn sent(&self, channel: [u32; 2], number: u32) -> Option<[u32; 2]> {
        if let Some(triggers) = self.triggers.get(&channel) {
            return triggers.get(number as usize).copied();
        }
        let first = self.by_channel.partition_point(|message| self.channel(*message) < channel);
        let message = *self.by_channel.get(first + number as usize)?;
        (self.channel(message) == channel).then(|| self.record.operations[message as usize])
    }

    /// Returns the end mark of each repetition at a rank, by operation.
    pub(super) fn end_marks(&self, rank: u32) -> Vec<u32> {
        let steps = (0..).zip(self.graph.ranks()[rank as usize].program.steps());
        let end = |(operation, step)| match step {
            ProgramStep::Mark(number) if number % 2 == 1 => Some((number, operation)),
            _ => None,
        };
        let mut marks: Vec<(u32, u32)> = steps.filter_map(end).collect();
        marks.sort_unstable();
        marks.into_iter().map(|(_, operation)| operation).collect()
    }

    /// Returns the path of a repetition that has ended with the operation `mark`, last step first. `program` returns a rank's host and the number of its
    /// program there, `sender` the ports of an operation's connection, and the place of its sender.
    pub(super) fn path<'h>(
        &self,
        mark: u32,
        times: &RepetitionTimes,
        program: impl Fn(u32) -> (&'h Host, u32),
        sender: impl Fn(u32, u32) -> ([usize; 2], usize),
    ) -> Vec<PathStep> {
        let program_of = |rank: u32| &self.graph.ranks()[rank as usize].program;
        let (mut rank, mut operation, mut at) = (times.slowest, mark, times.end);
        let mut steps = Vec::new();
        while at > times.start {
            let (host, number) = program(rank);
            let (before, edge) = match host.program_cause(number, operation) {
                OperationCause::Start => break,
                OperationCause::Arrival(number) => {
                    let ProgramStep::Receive { channel, .. } = program_of(rank).step(operation) else { break };
                    let Some([from, send]) = self.sent([rank, channel], number) else { break };
                    if let Some(message) = self.message_of([from, send]) {
                        let interval = [times.start, at];
                        at = self.push_message(&mut steps, message, sender(from, send), interval, false);
                    }
                    (rank, operation) = (from, send);
                    continue;
                }
                OperationCause::Cpu(before) => (before, ProgramEdge::End),
                OperationCause::Operation(before) => {
                    let waits_for = |edge| program_of(rank).dependents(before, edge).contains(&operation);
                    let is_start = waits_for(ProgramEdge::Start) && !waits_for(ProgramEdge::End);
                    (before, if is_start { ProgramEdge::Start } else { ProgramEdge::End })
                }
            };
            operation = before;
            if edge == ProgramEdge::Start {
                continue;
            }
            match program_of(rank).step(before) {
                ProgramStep::Compute { duration, .. } if duration > Span::ZERO => {
                    let duration = duration.min(at.since(times.start));
                    at = Time::ZERO.saturating_add(at.since(Time::ZERO) - duration);
                    steps.push(PathStep::Compute { host: self.graph.ranks()[rank as usize].host, duration });
                }
                ProgramStep::Send { .. } => {
                    let Some(message) = self.message_of([rank, before]) else { break };
                    let interval = [times.start, at];
                    at = self.push_message(&mut steps, message, sender(rank, before), interval, true);
                }
                _ => {}
            }
        }
        steps
    }

    /// Adds a message, from `start` at the earliest; returns its start.
    fn push_message(
        &self,
        steps: &mut Vec<PathStep>,
        message: u32,
        ([from, to], sender): ([usize; 2], usize),
        [start, end]: [Time; 2],
        is_acknowledged: bool,
    ) -> Time {
        let message = self.record.started[message as usize];
        let message = Message { start: message.start.max(start), from: from as u32, to: to as u32, ..message };
        steps.push(PathStep::Message { message, sender: sender as u32, end, is_acknowledged });
        message.start
    }
}
