//! Connection matrices of htsim: messages that start at instants, or when a trigger fires.
//!
//! A trigger fires at an end of messages: at the acknowledgement (`send_done_trigger`) or at the receipt
//! (`recv_done_trigger`). It starts its messages at the same instant, on any host.

use std::collections::HashMap;

use weir_units::{Bytes, Span, Time};

use super::Message;
use super::error::ScheduleError;
use super::graph::{GraphDraft, GraphError, MessageGraph};

/// Largest message in bytes: htsim's sizes have 32 bits.
const MESSAGE_BYTES_MAX: u64 = (1 << 31) - 1;
const NODES_MAX: usize = 1 << 20;
/// CPUs of the delays up to starts, and of messages, which wait for no delay.
const DELAY_CPU: u8 = 0;
const MESSAGE_CPU: u8 = 1;

/// Messages of a connection matrix, and their triggers.
#[derive(Debug, Default)]
pub(crate) struct ConnectionMatrix {
    nodes: usize,
    connections: Vec<MatrixConnection>,
    triggers: Vec<MatrixTrigger>,
}

/// Message of a connection matrix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MatrixConnection {
    pub(crate) line: u32,
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) size: u32,
    /// `None`: a trigger starts it.
    pub(crate) start: Option<Span>,
    pub(crate) has_priority: bool,
    /// Whether a trigger fires at its receipt.
    pub(crate) fires_on_receipt: bool,
}

#[derive(Debug)]
struct MatrixTrigger {
    line: u32,
    id: u32,
    kind: TriggerKind,
    /// Messages whose end activates it; true: their receipt.
    activators: Vec<(usize, bool)>,
    /// Messages that it starts, in file order.
    targets: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TriggerKind {
    OneShot,
    MultiShot,
    Barrier(u32),
}

impl ConnectionMatrix {
    /// Reads a connection matrix.
    ///
    /// # Errors
    /// The first error in the file.
    pub(crate) fn read(text: &str) -> Result<ConnectionMatrix, ScheduleError> {
        let mut matrix = ConnectionMatrix::default();
        // Count in the header, and the line of it.
        let mut counts: HashMap<&str, (u32, u32)> = HashMap::new();
        let mut uses = TriggerUses::default();
        for (line, text) in (1..).zip(text.lines()) {
            let mut fields = text.split_whitespace();
            let Some(first) = fields.next().filter(|word| !word.starts_with('#')) else { continue };
            if let Some((from, to)) = first.split_once("->") {
                matrix.read_connection(line, [from, to], fields, &mut uses)?;
            } else if first == "trigger" {
                matrix.triggers.push(read_trigger(line, fields)?);
            } else if first == "failure" {
                let message =
                    "failed links of a matrix are not simulated; take the line out, and write `failed` in [topology]";
                return Err(ScheduleError::line(line, message));
            } else if ["Nodes", "Connections", "Triggers", "Failures"].contains(&first) {
                counts.insert(first, (line, number(line, &mut fields, first)?));
            } else {
                let message = format!("\"{first}\" is out of place; write for example 0->1 id 1 start 0 size 4096");
                return Err(ScheduleError::line(line, message));
            }
        }
        let nodes = counts.get("Nodes").map(|(_, nodes)| *nodes as usize);
        matrix.nodes = nodes.filter(|nodes| (2..=NODES_MAX).contains(nodes)).ok_or_else(|| {
            let line = counts.get("Nodes").map_or(1, |(line, _)| *line);
            ScheduleError::line(
                line,
                format!("the number of nodes is missing or none of 2 to {NODES_MAX}; write Nodes 32"),
            )
        })?;
        let (connections, triggers) = (matrix.connections.len(), matrix.triggers.len());
        for (name, there) in [("Connections", connections), ("Triggers", triggers), ("Failures", 0)] {
            let (line, count) = counts.get(name).copied().unwrap_or((1, 0));
            if count as usize != there {
                let message = format!("there are {there} lines of {name}, not {count}; write {name} {there}");
                return Err(ScheduleError::line(line, message));
            }
        }
        let outside = |connection: &&MatrixConnection| connection.from.max(connection.to) as usize >= matrix.nodes;
        if let Some(MatrixConnection { line, from, to, .. }) = matrix.connections.iter().find(outside) {
            let message = format!("there is no node {}; write 0 to {}", from.max(to), matrix.nodes - 1);
            return Err(ScheduleError::line(*line, message));
        }
        matrix.resolve(uses)?;
        Ok(matrix)
    }

    /// Number of nodes.
    pub(crate) fn nodes(&self) -> usize {
        self.nodes
    }

    /// Messages in file order.
    pub(crate) fn connections(&self) -> &[MatrixConnection] {
        &self.connections
    }

    /// Number of triggers that start messages on other hosts than that of an end that activates them.
    pub(crate) fn triggers_across_hosts(&self) -> usize {
        let crosses = |trigger: &&MatrixTrigger| {
            let mut ranks = trigger.activators.iter().map(|(connection, on_receipt)| {
                let MatrixConnection { from, to, .. } = self.connections[*connection];
                if *on_receipt { to } else { from }
            });
            ranks.any(|rank| trigger.targets.iter().any(|target| self.connections[*target].from != rank))
        };
        self.triggers.iter().filter(crosses).count()
    }

    /// Whether messages of one pair of nodes share a connection as a graph; in htsim each has its own.
    pub(crate) fn shares_connections(&self) -> bool {
        let mut pairs: Vec<(u32, u32)> = self.connections.iter().map(|message| (message.from, message.to)).collect();
        pairs.sort_unstable();
        pairs.windows(2).any(|pair| pair[0] == pair[1])
    }

    /// Whether the matrix is a list: it has no triggers, and messages that would share a connection as a graph.
    pub(crate) fn is_list(&self) -> bool {
        self.connections.iter().all(|connection| connection.start.is_some()) && self.shares_connections()
    }

    /// Returns the messages that wait for no trigger, by start; `hosts` has the host of each node.
    pub(crate) fn messages(&self, hosts: &[u32], from: Time) -> Vec<Message> {
        let message = |connection: &MatrixConnection| {
            let MatrixConnection { from: sender, to, size, start, .. } = *connection;
            let [sender, to] = [sender, to].map(|node| hosts[node as usize]);
            Some(Message { start: from.saturating_add(start?), from: sender, to, size: Bytes::new(u64::from(size)) })
        };
        let mut messages: Vec<Message> = self.connections.iter().filter_map(message).collect();
        messages.sort_by_key(|message| message.start);
        messages
    }

    /// Builds the graph; `hosts` has the host of each node.
    ///
    /// # Errors
    /// Messages that never start.
    pub(crate) fn graph(&self, hosts: &[u32], from: Time, until: Time) -> Result<MessageGraph, ScheduleError> {
        let mut draft = MatrixDraft { graph: GraphDraft::new(self.nodes), lines: vec![Vec::new(); self.nodes], tag: 0 };
        let operations: Vec<[u32; 2]> =
            (1..).zip(&self.connections).map(|(number, connection)| draft.add_message(number, connection)).collect();
        draft.add_delays(&self.connections, &operations);
        for trigger in &self.triggers {
            draft.add_trigger(trigger, &self.connections, &operations);
        }
        for rank in 0..self.nodes as u32 {
            draft.graph.repetition(rank, 0, 0, None);
        }
        let graph = draft.graph.build(hosts, from, until, 1);
        let graph = graph.and_then(|graph| graph.idle_time(|_| Span::ZERO).map(|_| graph));
        graph.map_err(|error| match error {
            GraphError::Cycle { rank, operation } | GraphError::Deadlock { rank, operation } => {
                let lines = &draft.lines[rank as usize];
                let line = lines.get(operation as usize).or(lines.last()).copied().unwrap_or(1);
                let message = "the message never starts, as it waits for itself; take a trigger out of the cycle";
                ScheduleError::line(line, message)
            }
            GraphError::Unmatched { .. } => unreachable!("each message has its receipt"),
        })
    }

    fn read_connection<'t>(
        &mut self,
        line: u32,
        ends: [&str; 2],
        mut fields: impl Iterator<Item = &'t str>,
        uses: &mut TriggerUses,
    ) -> Result<(), ScheduleError> {
        const EXAMPLE: &str = "write for example 0->1 id 1 start 0 size 4096";
        let fail = |message: String| Err(ScheduleError::line(line, format!("{message}; {EXAMPLE}")));
        let [Ok(from), Ok(to)] = ends.map(str::parse::<u32>) else {
            return fail(format!("\"{}->{}\" has no two nodes", ends[0], ends[1]));
        };
        if from == to {
            return fail(format!("node {from} sends to itself"));
        }
        let connection = self.connections.len();
        let (mut size, mut start, mut trigger) = (None, None, None);
        let (mut has_priority, mut fires_on_receipt) = (false, false);
        while let Some(word) = fields.next() {
            match word {
                "id" => _ = number_from_1(line, &mut fields, word)?,
                "msg" | "prio" => {
                    has_priority |= word == "prio";
                    number(line, &mut fields, word)?;
                }
                "size" => size = Some(number(line, &mut fields, word)?),
                "start" => {
                    let text = fields.next().unwrap_or_default();
                    let Ok(span) = format!("{text}us").parse::<Span>() else {
                        return fail(format!("\"{text}\" is no start in microseconds"));
                    };
                    start = Some(span);
                }
                "trigger" => {
                    let id = number_from_1(line, &mut fields, word)?;
                    trigger = Some(id);
                    uses.targets.push((line, id, connection));
                }
                "send_done_trigger" | "recv_done_trigger" => {
                    let is_receipt = word == "recv_done_trigger";
                    fires_on_receipt |= is_receipt;
                    uses.activators.push((line, number_from_1(line, &mut fields, word)?, (connection, is_receipt)));
                }
                _ => return fail(format!("\"{word}\" is out of place")),
            }
        }
        let size = match size {
            None => return fail("the size is missing".to_owned()),
            Some(0) => return fail("size 0 is a flow without an end, and a message has 1 B at least".to_owned()),
            Some(size) if u64::from(size) > MESSAGE_BYTES_MAX => {
                return fail(format!("{size} B are more than htsim's sizes hold, {MESSAGE_BYTES_MAX}"));
            }
            Some(size) => size,
        };
        if start.is_some() == trigger.is_some() {
            let both = if start.is_some() {
                "both a start and a trigger start"
            } else {
                "neither a start nor a trigger starts"
            };
            return fail(format!("{both} the message"));
        }
        self.connections.push(MatrixConnection { line, from, to, size, start, has_priority, fires_on_receipt });
        Ok(())
    }

    /// Links messages and triggers, and checks that all messages start.
    fn resolve(&mut self, uses: TriggerUses) -> Result<(), ScheduleError> {
        let mut places: HashMap<u32, usize> = HashMap::new();
        for (place, trigger) in self.triggers.iter().enumerate() {
            if places.insert(trigger.id, place).is_some() {
                let message = format!("there are two triggers {}; write another id", trigger.id);
                return Err(ScheduleError::line(trigger.line, message));
            }
        }
        let find = |line: u32, id: u32| {
            let missing =
                || ScheduleError::line(line, format!("there is no trigger {id}; write trigger id {id} oneshot"));
            places.get(&id).copied().ok_or_else(missing)
        };
        for (line, id, target) in uses.targets {
            self.triggers[find(line, id)?].targets.push(target);
        }
        for (line, id, activator) in uses.activators {
            self.triggers[find(line, id)?].activators.push(activator);
        }
        self.triggers.iter().try_for_each(MatrixTrigger::check)
    }
}

/// Triggers of messages, with their lines and ids.
#[derive(Default)]
struct TriggerUses {
    targets: Vec<(u32, u32, usize)>,
    activators: Vec<(u32, u32, (usize, bool))>,
}

impl MatrixTrigger {
    /// Checks that the trigger fires, and as often as its kind allows.
    fn check(&self) -> Result<(), ScheduleError> {
        let (there, targets, id) = (self.activators.len(), self.targets.len(), self.id);
        if targets == 0 {
            return Ok(());
        }
        let problem = match self.kind {
            TriggerKind::OneShot if there != 1 => {
                "a oneshot takes one; write send_done_trigger or recv_done_trigger with its id on one message"
            }
            TriggerKind::Barrier(count) if there != count as usize => {
                "its count is another number; write the count of messages"
            }
            TriggerKind::MultiShot if there < targets => "some of its messages never start; write as many of both",
            _ => return Ok(()),
        };
        Err(ScheduleError::line(
            self.line,
            format!("{there} messages activate trigger {id}, which has {targets} to start: {problem}"),
        ))
    }
}

fn read_trigger<'t>(line: u32, mut fields: impl Iterator<Item = &'t str>) -> Result<MatrixTrigger, ScheduleError> {
    const EXAMPLE: &str = "write for example trigger id 1 barrier count 2";
    let (mut id, mut kind, mut count) = (None, None, None);
    while let Some(word) = fields.next() {
        match word {
            "id" => id = Some(number_from_1(line, &mut fields, word)?),
            "count" => count = Some(number_from_1(line, &mut fields, word)?),
            "oneshot" if kind.is_none() => kind = Some(TriggerKind::OneShot),
            "multishot" if kind.is_none() => kind = Some(TriggerKind::MultiShot),
            "barrier" if kind.is_none() => kind = Some(TriggerKind::Barrier(0)),
            _ => return Err(ScheduleError::line(line, format!("\"{word}\" is out of place; {EXAMPLE}"))),
        }
    }
    let kind = match (kind, count) {
        (Some(TriggerKind::Barrier(_)), count) => count.map(TriggerKind::Barrier),
        (kind, _) => kind,
    };
    let (Some(id), Some(kind)) = (id, kind) else {
        return Err(ScheduleError::line(line, format!("a trigger's id, kind or count is missing; {EXAMPLE}")));
    };
    Ok(MatrixTrigger { line, id, kind, activators: Vec::new(), targets: Vec::new() })
}

fn number<'t>(line: u32, fields: &mut impl Iterator<Item = &'t str>, key: &str) -> Result<u32, ScheduleError> {
    let text = fields.next().unwrap_or_default();
    let fail =
        |_| ScheduleError::line(line, format!("\"{text}\" is no whole number below 2^32; write for example {key} 1"));
    text.parse().map_err(fail)
}

fn number_from_1<'t>(line: u32, fields: &mut impl Iterator<Item = &'t str>, key: &str) -> Result<u32, ScheduleError> {
    match number(line, fields, key)? {
        0 => Err(ScheduleError::line(line, format!("{key} 0 is not counted by htsim; write 1 or more"))),
        number => Ok(number),
    }
}

/// Graph of a matrix under construction.
struct MatrixDraft {
    graph: GraphDraft,
    /// Line of each operation, by rank.
    lines: Vec<Vec<u32>>,
    /// Number of triggers' tags.
    tag: u32,
}

impl MatrixDraft {
    /// Adds a message and its receipt; returns both operations.
    fn add_message(&mut self, number: u32, connection: &MatrixConnection) -> [u32; 2] {
        let MatrixConnection { line, from, to, size, fires_on_receipt, .. } = *connection;
        // Messages on whose receipt nothing depends share a tag.
        let tag = if fires_on_receipt { number } else { 0 };
        let send = self.graph.send(from, to, tag, size, MESSAGE_CPU);
        let receive = self.graph.receive(to, from, tag, MESSAGE_CPU);
        self.lines[from as usize].push(line);
        self.lines[to as usize].push(line);
        [send, receive]
    }

    /// Makes messages wait for their starts.
    fn add_delays(&mut self, connections: &[MatrixConnection], operations: &[[u32; 2]]) {
        let later = |(connection, [send, _]): (&MatrixConnection, &[u32; 2])| {
            let start = connection.start.filter(|start| *start > Span::ZERO)?;
            Some((connection.from, start, *send, connection.line))
        };
        let mut later: Vec<_> = connections.iter().zip(operations).filter_map(later).collect();
        later.sort_by_key(|(rank, start, ..)| (*rank, *start));
        for of_rank in later.chunk_by(|one, other| one.0 == other.0) {
            let mut before: Option<(Span, u32)> = None;
            for (rank, start, send, line) in of_rank {
                let delay = match before {
                    Some((at, delay)) if at == *start => delay,
                    _ => {
                        let (since, last) = before.map_or((Span::ZERO, None), |(at, delay)| (at, Some(delay)));
                        let delay = self.graph.compute(*rank, *start - since, DELAY_CPU);
                        self.lines[*rank as usize].push(*line);
                        last.into_iter().for_each(|last| self.graph.require(*rank, delay, last));
                        delay
                    }
                };
                before = Some((*start, delay));
                self.graph.require(*rank, *send, delay);
            }
        }
    }

    /// Makes messages wait for a trigger. The rank of its first message decides when it fires.
    fn add_trigger(&mut self, trigger: &MatrixTrigger, connections: &[MatrixConnection], operations: &[[u32; 2]]) {
        let Some(first) = trigger.targets.first() else { return };
        let owner = connections[*first].from;
        let ends: Vec<(u32, u32)> = trigger
            .activators
            .iter()
            .map(|(connection, on_receipt)| {
                let MatrixConnection { from, to, .. } = connections[*connection];
                let [send, receive] = operations[*connection];
                if *on_receipt { (to, receive) } else { (from, send) }
            })
            .collect();
        let targets: Vec<(u32, u32)> =
            trigger.targets.iter().map(|target| (connections[*target].from, operations[*target][0])).collect();
        let line = trigger.line;
        if trigger.kind == TriggerKind::MultiShot {
            let tag = self.next_tag();
            let mut shots: Vec<u32> = Vec::new();
            for (rank, end) in &ends {
                self.activate(line, *rank, &[*end], owner, tag);
                shots.push(self.receive(line, owner, tag));
            }
            for (shot, target) in shots.iter().zip(&targets) {
                self.start(line, owner, &[*shot], &[*target]);
            }
            return;
        }
        let mut before: Vec<u32> = Vec::new();
        for (rank, end) in ends {
            before.push(if rank == owner { end } else { self.pass(line, rank, &[end], owner) });
        }
        if before.len() > 1 && targets.len() > 1 {
            before = vec![self.pass(line, owner, &before, owner)];
        }
        self.start(line, owner, &before, &targets);
    }

    /// Starts targets after operations of a rank; targets are ranks and operations.
    fn start(&mut self, line: u32, owner: u32, before: &[u32], targets: &[(u32, u32)]) {
        let mut passed: HashMap<u32, u32> = HashMap::new();
        for (rank, target) in targets {
            if *rank == owner {
                before.iter().for_each(|before| self.graph.require(owner, *target, *before));
                continue;
            }
            let start = match passed.get(rank) {
                Some(start) => *start,
                None => self.pass(line, owner, before, *rank),
            };
            passed.insert(*rank, start);
            self.graph.require(*rank, *target, start);
        }
    }

    /// Adds a trigger after operations of a rank, and its receipt at another one, which is returned.
    fn pass(&mut self, line: u32, rank: u32, before: &[u32], to: u32) -> u32 {
        let tag = self.next_tag();
        self.activate(line, rank, before, to, tag);
        self.receive(line, to, tag)
    }

    fn activate(&mut self, line: u32, rank: u32, before: &[u32], to: u32, tag: u32) {
        let activation = self.graph.trigger(rank, to, tag);
        self.lines[rank as usize].push(line);
        before.iter().for_each(|before| self.graph.require(rank, activation, *before));
    }

    fn receive(&mut self, line: u32, rank: u32, tag: u32) -> u32 {
        self.lines[rank as usize].push(line);
        self.graph.receive_trigger(rank, tag)
    }

    fn next_tag(&mut self) -> u32 {
        self.tag += 1;
        self.tag
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_nic::program::{ProgramEdge, ProgramStep, RankProgram};

    use super::*;

    fn read(text: &str) -> Result<MessageGraph, String> {
        let matrix = ConnectionMatrix::read(text).map_err(|error| error.to_string())?;
        let hosts: Vec<u32> = (0..matrix.nodes() as u32).collect();
        matrix.graph(&hosts, Time::ZERO, Time::NEVER).map_err(|error| error.to_string())
    }

    /// A matrix of 4 nodes with these lines.
    fn matrix(lines: &str) -> String {
        let count = |word: &str| lines.lines().filter(|line| line.contains(word)).count();
        let triggers = lines.lines().filter(|line| line.starts_with("trigger")).count();
        format!("# mine\nNodes 4\nConnections {}\nTriggers {triggers}\n{lines}\n", count("->"))
    }

    /// Operations that an operation's end starts, at once or by way of triggers.
    fn started_by(program: &RankProgram, operation: u32) -> Vec<ProgramStep> {
        program.dependents(operation, ProgramEdge::End).iter().map(|after| program.step(*after)).collect()
    }

    #[test]
    fn messages_of_one_pair_without_triggers_are_a_list() {
        let read = |lines: &str| ConnectionMatrix::read(&matrix(lines)).unwrap();
        let lines = "2->3 id 1 start 1.5 size 7\n0->1 start 0 size 2147483647 prio 3 msg 2";
        let messages = read(lines).messages(&[0, 1, 2, 9], Time::from_nanos(10));
        let again = format!("{lines}\n2->3 start 0 size 1");
        assert_eq!([lines, &again].map(|lines| read(lines).is_list()), [false, true]);
        assert!(
            !read("0->1 start 0 size 1 send_done_trigger 1\n0->1 trigger 1 size 1\ntrigger id 1 oneshot").is_list()
        );
        let message = |ns, from, to, size| Message { start: Time::from_nanos(ns), from, to, size: Bytes::new(size) };
        assert_eq!(messages, [message(10, 0, 1, 2_147_483_647), message(1_510, 2, 9, 7)]);
    }

    #[test]
    fn ends_of_the_same_host_are_dependencies() {
        let graph = read(&matrix(
            "0->1 id 1 start 0 size 10 send_done_trigger 1\n0->2 id 2 trigger 1 size 20\n\
             1->0 id 3 start 0 size 30 recv_done_trigger 2\n0->3 id 4 trigger 2 size 40\n\
             trigger id 1 oneshot\ntrigger id 2 barrier count 1",
        ));
        let graph = graph.unwrap();
        assert!(!graph.has_triggers());
        let program = &graph.ranks()[0].program;
        let size = |step: ProgramStep| matches!(step, ProgramStep::Send { size, .. } if size > 10).then_some(step);
        let sizes = |operation| started_by(program, operation).into_iter().filter_map(size).count();
        // Operations: send of 10, send of 20, receipt of 30, send of 40.
        assert_eq!([0, 1, 2, 3].map(sizes), [1, 0, 1, 0]);
    }

    #[test]
    fn a_trigger_on_another_host_passes_once_to_each() {
        let graph = read(&matrix(
            "0->1 id 1 start 0 size 10 send_done_trigger 1\n1->2 id 2 start 0 size 10 send_done_trigger 1\n\
             2->3 id 3 trigger 1 size 10\n3->0 id 4 trigger 1 size 10\n3->1 id 5 trigger 1 size 10\n\
             trigger id 1 barrier count 2",
        ));
        let triggers = |rank: &super::super::GraphRank| {
            rank.program.steps().filter(|step| matches!(step, ProgramStep::Trigger { .. })).count()
        };
        // Two ends pass to host 2, which joins them, and passes to host 3.
        assert_eq!(graph.unwrap().ranks().iter().map(triggers).collect::<Vec<_>>(), [1, 1, 2, 0]);
    }

    #[test]
    fn starts_are_exact_and_wait_for_no_message() {
        let graph = read(&matrix(
            "0->1 id 1 start 7 size 1 send_done_trigger 1\n0->2 id 2 start 5 size 1\n0->3 id 3 start 7 size 1\n\
             0->1 id 4 trigger 1 size 1\ntrigger id 1 oneshot",
        ))
        .unwrap();
        let delays = graph.ranks()[0].program.steps().filter_map(|step| match step {
            ProgramStep::Compute { duration, cpu } => Some((duration, cpu)),
            _ => None,
        });
        assert_eq!(delays.collect::<Vec<_>>(), [(Span::from_micros(5), 0), (Span::from_micros(2), 0)]);
        assert_eq!(graph.idle_time(|size| Span::from_micros(u64::from(size))).unwrap(), Span::from_micros(9));
    }

    #[test]
    fn errors_name_the_line() {
        let example = "; write for example 0->1 id 1 start 0 size 4096";
        for (lines, error) in [
            ("0->0 start 0 size 1", format!("line 5: node 0 sends to itself{example}")),
            ("0-> start 0 size 1", format!("line 5: \"0->\" has no two nodes{example}")),
            ("0->1 start 0", format!("line 5: the size is missing{example}")),
            ("0->1 start 0 size 0", format!("line 5: size 0 is a flow without an end, and a message has 1 B at least{example}")),
            (
                "0->1 start 0 size 2147483648",
                format!("line 5: 2147483648 B are more than htsim's sizes hold, 2147483647{example}"),
            ),
            ("0->1 size 1", format!("line 5: neither a start nor a trigger starts the message{example}")),
            (
                "0->1 start 0 trigger 1 size 1\ntrigger id 1 oneshot",
                format!("line 5: both a start and a trigger start the message{example}"),
            ),
            ("0->1 start -1 size 1", format!("line 5: \"-1\" is no start in microseconds{example}")),
            ("0->1 start 0 size 1 prio", "line 5: \"\" is no whole number below 2^32; write for example prio 1".to_owned()),
            ("0->1 id 0 start 0 size 1", "line 5: id 0 is not counted by htsim; write 1 or more".to_owned()),
            ("0->1 start 0 size 1 weight 2", format!("line 5: \"weight\" is out of place{example}")),
            ("0->4 start 0 size 1", "line 5: there is no node 4; write 0 to 3".to_owned()),
            (
                "0->1 trigger 3 size 1",
                "line 5: there is no trigger 3; write trigger id 3 oneshot".to_owned(),
            ),
            (
                "0->1 trigger 1 size 1\ntrigger id 1 oneshot",
                "line 6: 0 messages activate trigger 1, which has 1 to start: a oneshot takes one; write \
                 send_done_trigger or recv_done_trigger with its id on one message"
                    .to_owned(),
            ),
            (
                "0->1 start 0 size 1 send_done_trigger 1\n1->2 trigger 1 size 1\ntrigger id 1 barrier count 2",
                "line 7: 1 messages activate trigger 1, which has 1 to start: its count is another number; write the count of messages"
                    .to_owned(),
            ),
            (
                "0->1 start 0 size 1 send_done_trigger 1\n1->2 trigger 1 size 1\n1->3 trigger 1 size 1\n\
                 trigger id 1 multishot",
                "line 8: 1 messages activate trigger 1, which has 2 to start: some of its messages never start; write as many \
                 of both"
                    .to_owned(),
            ),
            (
                "0->1 trigger 1 size 1 send_done_trigger 2\n2->3 trigger 2 size 1 recv_done_trigger 1\n\
                 trigger id 1 oneshot\ntrigger id 2 oneshot",
                "line 5: the message never starts, as it waits for itself; take a trigger out of the cycle".to_owned(),
            ),
            ("trigger id 1 barrier", "line 5: a trigger's id, kind or count is missing; write for example trigger id 1 barrier count 2".to_owned()),
            ("trigger id 1 oneshot\ntrigger id 1 oneshot", "line 6: there are two triggers 1; write another id".to_owned()),
            (
                "failure switch_type TOR switch_id 0 link_id 1",
                "line 5: failed links of a matrix are not simulated; take the line out, and write `failed` in [topology]".to_owned(),
            ),
            ("flow 1", format!("line 5: \"flow\" is out of place{example}")),
        ] {
            assert_eq!(read(&matrix(lines)).unwrap_err(), error, "{lines}");
        }
        let count = "line 2: there are 1 lines of Connections, not 2; write Connections 1";
        assert_eq!(read("Nodes 4\nConnections 2\n0->1 start 0 size 1\n").unwrap_err(), count);
        assert!(read("Connections 0\n").unwrap_err().starts_with("line 1: the number of nodes is missing"));
    }

    proptest! {
        #[test]
        fn no_text_panics(
            text in "(Nodes 3\nConnections [12]\nTriggers 1\n)?(([0-3]->[0-3]|trigger) ?(id [01]|start [0-9.]{1,3}|size 9|\
                     trigger 1|send_done_trigger 1|recv_done_trigger 1|oneshot|multishot|barrier|count 2| |\n){0,6}\n?){0,4}",
        ) {
            let _ = read(&text);
        }
    }
}
