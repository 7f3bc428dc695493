//! Graphs of dependent messages: a program of computations, messages and receipts for each rank of a parallel job.

use std::collections::{HashMap, VecDeque};
use std::fmt::{self, Write};
use std::ops::Range;
use std::sync::Arc;

use weir_nic::program::{ProgramEdge, ProgramStep, RankProgram};
use weir_units::{Bytes, Span, Time};

use super::Message;

/// Graph of dependent messages. Dependencies are within a rank: on its own operations, and on messages and triggers that it receives.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageGraph {
    ranks: Arc<[GraphRank]>,
    /// Bytes of a repetition for its bus bandwidth, as NCCL's tests count them; `None` if the graph is no collective.
    pub bus_bytes: Option<Bytes>,
    /// Number of repetitions, one after the other. Marks 2 n and 2 n + 1 of a rank are the start and the end of
    /// repetition n.
    pub repetitions: u32,
    /// Start of the first operations.
    pub from: Time,
    /// Instant from which no operation starts.
    pub until: Time,
}

/// Rank of a [`MessageGraph`].
#[derive(Clone, Debug, PartialEq)]
pub struct GraphRank {
    /// Host of the rank, by its number.
    pub host: u32,
    /// Operations of the rank.
    pub program: Arc<RankProgram>,
    /// Receiving rank of each connection.
    pub connections: Box<[u32]>,
}

/// Error in a graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// An operation waits for itself.
    #[error("rank {rank}, operation {operation}: it waits for itself; take a dependency out of the cycle")]
    Cycle {
        /// The rank.
        rank: u32,
        /// The operation, in the order of the rank's, from 0.
        operation: u32,
    },
    /// Numbers of messages and receipts differ.
    #[error(
        "rank {from} sends {sent} messages with tag {tag} to rank {to}, which receives {received} of them; write as many of both"
    )]
    Unmatched {
        /// Sending rank.
        from: u32,
        /// Receiving rank.
        to: u32,
        /// Tag of the messages.
        tag: u32,
        /// Number of messages.
        sent: u32,
        /// Number of receipts.
        received: u32,
    },
    /// Ranks wait for each other.
    #[error("rank {rank}, operation {operation}: it never starts, as ranks wait for each other; take a dependency out")]
    Deadlock {
        /// First rank that waits.
        rank: u32,
        /// First operation of the rank that never starts, from 0.
        operation: u32,
    },
}

/// Graph under construction.
#[derive(Debug)]
pub(crate) struct GraphDraft {
    ranks: Vec<RankDraft>,
}

#[derive(Debug, Default)]
struct RankDraft {
    steps: Vec<ProgramStep>,
    dependencies: Vec<(u32, ProgramEdge, u32)>,
    /// Connection to each rank.
    connections: HashMap<u32, u32>,
    /// Channels by source and tag, and the messages and receipts of each.
    channels: HashMap<(u32, u32), u32>,
    uses: Vec<ChannelUse>,
}

#[derive(Debug)]
struct ChannelUse {
    from: u32,
    tag: u32,
    sent: u32,
    received: u32,
}

impl GraphDraft {
    /// Creates a graph of ranks without operations.
    pub(crate) fn new(ranks: usize) -> GraphDraft {
        GraphDraft { ranks: (0..ranks).map(|_| RankDraft::default()).collect() }
    }

    /// Returns the number of a rank's operations.
    pub(crate) fn operations(&self, rank: u32) -> u32 {
        self.ranks[rank as usize].steps.len() as u32
    }

    /// Adds a computation; returns its number among the rank's operations.
    pub(crate) fn compute(&mut self, rank: u32, duration: Span, cpu: u8) -> u32 {
        self.ranks[rank as usize].push(ProgramStep::Compute { duration, cpu })
    }

    /// Adds a message of 1 to 2^31 bytes to another rank.
    pub(crate) fn send(&mut self, rank: u32, to: u32, tag: u32, size: u32, cpu: u8) -> u32 {
        let receiver = &mut self.ranks[to as usize];
        let channel = receiver.channel(rank, tag);
        receiver.uses[channel as usize].sent += 1;
        let sender = &mut self.ranks[rank as usize];
        let next = sender.connections.len() as u32;
        let connection = *sender.connections.entry(to).or_insert(next);
        sender.push(ProgramStep::Send { cpu, connection, channel, size })
    }

    /// Adds a trigger, which reaches a rank at once.
    pub(crate) fn trigger(&mut self, rank: u32, to: u32, tag: u32) -> u32 {
        let receiver = &mut self.ranks[to as usize];
        // No rank sends to itself.
        let channel = receiver.channel(to, tag);
        receiver.uses[channel as usize].sent += 1;
        self.ranks[rank as usize].push(ProgramStep::Trigger { rank: to, channel })
    }

    /// Adds the receipt of a trigger's message.
    pub(crate) fn receive_trigger(&mut self, rank: u32, tag: u32) -> u32 {
        self.receive(rank, rank, tag, 0)
    }

    /// Adds the receipt of a message.
    pub(crate) fn receive(&mut self, rank: u32, from: u32, tag: u32, cpu: u8) -> u32 {
        let receiver = &mut self.ranks[rank as usize];
        let channel = receiver.channel(from, tag);
        receiver.uses[channel as usize].received += 1;
        receiver.push(ProgramStep::Receive { cpu, channel })
    }

    /// Adds a mark.
    pub(crate) fn mark(&mut self, rank: u32, number: u32) -> u32 {
        self.ranks[rank as usize].push(ProgramStep::Mark(number))
    }

    /// Adds a dependency: `after` waits for the end of `before`.
    pub(crate) fn require(&mut self, rank: u32, after: u32, before: u32) {
        self.require_event(rank, after, before, ProgramEdge::End);
    }

    /// Adds a dependency on the end or the start of `before`.
    pub(crate) fn require_event(&mut self, rank: u32, after: u32, before: u32, event: ProgramEdge) {
        self.ranks[rank as usize].dependencies.push((before, event, after));
    }

    /// Makes the operations of a rank from `first` on one repetition: all come after a start mark, which waits for `begins`, and before an
    /// end mark, which is returned.
    pub(crate) fn repetition(&mut self, rank: u32, number: u32, first: u32, begins: Option<u32>) -> u32 {
        let operations = first..self.operations(rank);
        let (start, end) = (self.mark(rank, 2 * number), self.mark(rank, 2 * number + 1));
        self.bound(rank, operations, start, end);
        begins.into_iter().for_each(|before| self.require(rank, start, before));
        end
    }

    /// Makes the latest operations of a rank come after `start` and before `end`. Their dependencies are among each other, and the rank's
    /// latest ones.
    pub(crate) fn bound(&mut self, rank: u32, operations: Range<u32>, start: u32, end: u32) {
        // Whether each operation waits for another, and whether another waits for its end.
        let mut edges = vec![[false; 2]; operations.len()];
        let first = operations.start;
        let own = self.ranks[rank as usize].dependencies.iter().rev().take_while(|(.., after)| *after >= first);
        for (before, edge, after) in own {
            edges[(*before - first) as usize][1] |= *edge == ProgramEdge::End;
            edges[(*after - first) as usize][0] = true;
        }
        self.require(rank, end, start);
        for (operation, [waits, has_dependents]) in operations.zip(edges) {
            if !waits {
                self.require(rank, operation, start);
            }
            if !has_dependents {
                self.require(rank, end, operation);
            }
        }
    }

    /// Returns the graph as a schedule in GOAL. It has neither marks nor triggers.
    pub(crate) fn goal_text(&self) -> String {
        let mut text = String::new();
        let mut line = |arguments: fmt::Arguments<'_>| {
            text.write_fmt(arguments).expect("a String accepts all writes");
            text.push('\n');
        };
        // The nth receipt of a channel has the size of its nth message.
        let mut sizes: Vec<Vec<VecDeque<u32>>> =
            self.ranks.iter().map(|rank| vec![VecDeque::new(); rank.uses.len()]).collect();
        let peers: Vec<Vec<u32>> = self.ranks.iter().map(RankDraft::peers).collect();
        for (rank, peers) in self.ranks.iter().zip(&peers) {
            for step in &rank.steps {
                if let ProgramStep::Send { connection, channel, size, .. } = step {
                    sizes[peers[*connection as usize] as usize][*channel as usize].push_back(*size);
                }
            }
        }
        line(format_args!("num_ranks {}", self.ranks.len()));
        for (number, rank) in self.ranks.iter().enumerate() {
            line(format_args!("rank {number} {{"));
            for (label, step) in rank.steps.iter().enumerate() {
                match *step {
                    ProgramStep::Compute { duration, cpu } => {
                        line(format_args!("l{label}: calc {} cpu {cpu}", duration.as_picos() / 1_000));
                    }
                    ProgramStep::Send { cpu, connection, channel, size } => {
                        let to = peers[number][connection as usize];
                        let tag = self.ranks[to as usize].uses[channel as usize].tag;
                        line(format_args!("l{label}: send {size}b to {to} tag {tag} cpu {cpu}"));
                    }
                    ProgramStep::Receive { cpu, channel } => {
                        let ChannelUse { from, tag, .. } = rank.uses[channel as usize];
                        let size = sizes[number][channel as usize].pop_front().unwrap_or(1);
                        line(format_args!("l{label}: recv {size}b from {from} tag {tag} cpu {cpu}"));
                    }
                    ProgramStep::Mark(_) | ProgramStep::Trigger { .. } => unreachable!("GOAL has neither"),
                }
            }
            for (before, edge, after) in &rank.dependencies {
                let start = if *edge == ProgramEdge::Start { "i" } else { "" };
                line(format_args!("l{after} {start}requires l{before}"));
            }
            line(format_args!("}}"));
        }
        text
    }

    /// Builds the graph; `hosts` has the host of each rank.
    ///
    /// # Errors
    /// The first error in the graph.
    pub(crate) fn build(
        self,
        hosts: &[u32],
        from: Time,
        until: Time,
        repetitions: u32,
    ) -> Result<MessageGraph, GraphError> {
        for (to, rank) in (0..).zip(&self.ranks) {
            if let Some(&ChannelUse { from, tag, sent, received }) =
                rank.uses.iter().find(|used| used.sent != used.received)
            {
                return Err(GraphError::Unmatched { from, to, tag, sent, received });
            }
        }
        let build = |((number, rank), host): ((u32, RankDraft), &u32)| {
            let program = RankProgram::new(&rank.steps, &rank.dependencies);
            let program = program.map_err(|operation| GraphError::Cycle { rank: number, operation })?;
            Ok(GraphRank { host: *host, program: Arc::new(program), connections: rank.peers().into() })
        };
        let ranks = (0..).zip(self.ranks).zip(hosts).map(build).collect::<Result<Arc<[GraphRank]>, GraphError>>()?;
        Ok(MessageGraph { ranks, bus_bytes: None, repetitions, from, until })
    }
}

impl RankDraft {
    fn push(&mut self, step: ProgramStep) -> u32 {
        self.steps.push(step);
        self.steps.len() as u32 - 1
    }

    /// Returns the receiving rank of each connection.
    fn peers(&self) -> Vec<u32> {
        let mut peers = vec![0; self.connections.len()];
        self.connections.iter().for_each(|(to, connection)| peers[*connection as usize] = *to);
        peers
    }

    fn channel(&mut self, from: u32, tag: u32) -> u32 {
        let next = self.uses.len() as u32;
        let channel = *self.channels.entry((from, tag)).or_insert(next);
        if channel == next {
            self.uses.push(ChannelUse { from, tag, sent: 0, received: 0 });
        }
        channel
    }
}

impl MessageGraph {
    /// Ranks of the graph.
    pub fn ranks(&self) -> &[GraphRank] {
        &self.ranks
    }

    /// Whether ranks trigger others.
    pub fn has_triggers(&self) -> bool {
        self.ranks.iter().any(|rank| rank.program.steps().any(|step| matches!(step, ProgramStep::Trigger { .. })))
    }

    /// Returns the graph's messages, rank by rank; they start at [`MessageGraph::from`] at the earliest.
    pub fn messages(&self) -> impl Iterator<Item = Message> {
        self.ranks.iter().flat_map(|rank| rank.program.steps().filter_map(|step| self.message(rank, step, self.from)))
    }

    /// Returns the message of a rank's step, if it is one.
    pub fn message(&self, rank: &GraphRank, step: ProgramStep, start: Time) -> Option<Message> {
        let ProgramStep::Send { connection, size, .. } = step else { return None };
        let to = self.ranks[rank.connections[connection as usize] as usize].host;
        Some(Message { start, from: rank.host, to, size: Bytes::new(u64::from(size)) })
    }

    /// Returns the bus bandwidth in bytes a second of a repetition of this length; `None` if the graph is no collective.
    pub fn bus_bandwidth(&self, time: Span) -> Option<u64> {
        let bytes = u128::from(self.bus_bytes?.get()) * 1_000_000_000_000;
        Some((bytes / u128::from(time.as_picos().max(1))) as u64)
    }

    /// Returns the time until all operations end, if a message takes `message` of its size, and checks that all start.
    /// Messages don't delay each other.
    pub(crate) fn idle_time(&self, message: impl Fn(u32) -> Span) -> Result<Span, GraphError> {
        let mut pass = ProgressPass::new(self);
        for (rank, of_rank) in self.ranks.iter().enumerate() {
            pass.ready.extend(of_rank.program.initial().map(|operation| (rank, operation)));
        }
        loop {
            while let Some((rank, operation)) = pass.ready.pop_front() {
                pass.start(self, rank, operation, &message);
            }
            let Some(GraphEvent { rank, operation, edge, at }) = pass.events.pop_front() else { break };
            pass.latest = pass.latest.max(at);
            for after in self.ranks[rank].program.dependents(operation, edge) {
                pass.starts[rank][*after as usize] = pass.starts[rank][*after as usize].max(at);
                let left = &mut pass.waits[rank][*after as usize];
                *left -= 1;
                if *left == 0 {
                    pass.ready.push_back((rank, *after));
                }
            }
        }
        let idle = |waits: &Vec<u32>| waits.iter().position(|waits| *waits != ProgressPass::STARTED);
        let stuck = (0..).zip(&pass.waits).find_map(|(rank, waits)| Some((rank, idle(waits)? as u32)));
        stuck.map_or(Ok(pass.latest.since(Time::ZERO)), |(rank, operation)| {
            Err(GraphError::Deadlock { rank, operation })
        })
    }
}

/// Pass through a graph's operations, each after those that it waits for; operations that become ready at once start in order, as in a run.
struct ProgressPass {
    /// Number of operations that each one waits for, or [`ProgressPass::STARTED`].
    waits: Vec<Vec<u32>>,
    /// Earliest start of each operation.
    starts: Vec<Vec<Time>>,
    /// Arrivals of messages without a receipt, and receipts that wait, by rank and channel.
    arrived: Vec<HashMap<u32, VecDeque<Time>>>,
    waiting: Vec<HashMap<u32, VecDeque<u32>>>,
    ready: VecDeque<(usize, u32)>,
    events: VecDeque<GraphEvent>,
    latest: Time,
}

struct GraphEvent {
    rank: usize,
    operation: u32,
    edge: ProgramEdge,
    at: Time,
}

impl ProgressPass {
    const STARTED: u32 = u32::MAX;

    fn new(graph: &MessageGraph) -> ProgressPass {
        let ranks = graph.ranks.len();
        let starts = |rank: &GraphRank| vec![Time::ZERO; rank.program.len()];
        ProgressPass {
            waits: graph.ranks.iter().map(|rank| rank.program.dependencies().collect()).collect(),
            starts: graph.ranks.iter().map(starts).collect(),
            arrived: vec![HashMap::new(); ranks],
            waiting: vec![HashMap::new(); ranks],
            ready: VecDeque::new(),
            events: VecDeque::new(),
            latest: Time::ZERO,
        }
    }

    fn start(&mut self, graph: &MessageGraph, rank: usize, operation: u32, message: impl Fn(u32) -> Span) {
        let at = self.starts[rank][operation as usize];
        self.waits[rank][operation as usize] = Self::STARTED;
        let mut push = |rank, operation, edge, at| self.events.push_back(GraphEvent { rank, operation, edge, at });
        push(rank, operation, ProgramEdge::Start, at);
        let (to, channel, arrives) = match graph.ranks[rank].program.step(operation) {
            ProgramStep::Compute { duration, .. } => {
                return push(rank, operation, ProgramEdge::End, at.saturating_add(duration));
            }
            ProgramStep::Mark(_) => return push(rank, operation, ProgramEdge::End, at),
            ProgramStep::Receive { channel, .. } => {
                return match self.arrived[rank].get_mut(&channel).and_then(VecDeque::pop_front) {
                    Some(arrived) => push(rank, operation, ProgramEdge::End, at.max(arrived)),
                    None => self.waiting[rank].entry(channel).or_default().push_back(operation),
                };
            }
            ProgramStep::Send { connection, channel, size, .. } => {
                let to = graph.ranks[rank].connections[connection as usize];
                (to as usize, channel, at.saturating_add(message(size)))
            }
            ProgramStep::Trigger { rank: to, channel } => (to as usize, channel, at),
        };
        push(rank, operation, ProgramEdge::End, arrives);
        match self.waiting[to].get_mut(&channel).and_then(VecDeque::pop_front) {
            Some(receive) => {
                let arrives = arrives.max(self.starts[to][receive as usize]);
                self.events.push_back(GraphEvent { rank: to, operation: receive, edge: ProgramEdge::End, at: arrives });
            }
            None => self.arrived[to].entry(channel).or_default().push_back(arrives),
        }
    }
}
