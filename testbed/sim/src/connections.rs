//! Connections of traffic messages: each message has its own, from its start to its acknowledgement.
//!
//! In a closed loop a message starts one hosts' window after the previous one's acknowledgement. By then all hosts can
//! know of it, for any number of threads.
//!
//! Connections are opened and closed at both hosts at once, without a handshake. A graph has one for each pair of ranks
//! with messages, open from the start. Its hosts start messages themselves, without a window's delay. A trigger acts on
//! another host at its own instant: a graph with triggers needs hosts that run instant by instant.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use weir_nic::host::{Completion, Connection, Host, ProgramEvent, ServerPeer};
use weir_nic::program::ProgramStep;
use weir_scenario::workload::{ClosedLoop, Message, MessageGraph, Rng};
use weir_scenario::{
    GraphConnection, GraphRun, HostPorts, HostSet, RepetitionTimes, Scenario, ServerPlan, TrafficPlan, TrafficSource,
};
use weir_units::{Bytes, Span, Time};

use super::critical_path::{PathIndex, PathStep};
use super::lp_partition::LpPartition;

/// Completed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletedMessage {
    /// Sending host, or its port that sends, by index in the scenario.
    pub host: usize,
    /// Flow or traffic plan of the message.
    pub source: MessageSource,
    /// Time at which the message was passed to the NIC.
    pub released: Time,
    /// Payload of the message.
    pub size: Bytes,
    /// Flow completion time: from `released` until the acknowledgement arrived.
    pub fct: Span,
}

/// Origin of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageSource {
    /// Flow, by index among the flows that the host sends.
    Flow(usize),
    /// Traffic and message, by index.
    Message(u32, u32),
}

/// Open connections, and the next message to start.
#[derive(Debug)]
pub(super) struct Connections {
    traffic: Box<[Traffic]>,
    /// Number of static flows that each host sends; their indices come first.
    flows: Box<[usize]>,
    /// Open sending ends, by host and index.
    open: Box<[Vec<OpenConnection>]>,
    /// Start of the next message, and its traffic; [`Time::NEVER`] if there is none.
    next: (Time, usize),
    /// Length of the hosts' window: events of one are known to all hosts in the next.
    window: Span,
    servers: Option<ServerPlan>,
    ports: HostPorts,
    /// Hosts and sending ends whose message is complete.
    to_close: Vec<(u32, u32)>,
    completed: Vec<CompletedMessage>,
    /// Traffic and rank of each host's programs.
    programs: Box<[Vec<(u32, u32)>]>,
    /// Events of the programs in a window, with their hosts.
    events: Vec<(u32, ProgramEvent)>,
    has_triggers: bool,
    /// First host that had no number left for a message's connection.
    full: Option<u32>,
}

#[derive(Debug)]
struct Traffic {
    plan: TrafficPlan,
    started: usize,
    /// State of a closed loop; empty for others.
    closed_loop: ClosedLoopState,
    /// Run of a graph; empty for others.
    graph: GraphRun,
}

#[derive(Debug, Default)]
struct ClosedLoopState {
    /// Start times of pending messages, with the sender's index.
    due: BinaryHeap<Reverse<(Time, u32)>>,
    senders: Box<[LoopSender]>,
    /// Opened messages, in order of their starts.
    opened: Vec<Message>,
}

#[derive(Debug)]
struct LoopSender {
    source: Rng,
    /// Messages started or scheduled.
    scheduled: u32,
}

/// Sending end of a connection.
#[derive(Clone, Copy, Debug, Default)]
struct OpenConnection {
    traffic: u32,
    message: u32,
    /// Receiving host, and index of its end.
    to: u32,
    receiver: u32,
}

impl Connections {
    /// Creates the connections of a scenario; `window` is the length of the hosts' window.
    pub(super) fn new(scenario: &Scenario, window: Span) -> Connections {
        let traffic = scenario.traffic.iter().map(|plan| Traffic {
            plan: plan.clone(),
            started: 0,
            closed_loop: plan.closed_loop().map_or_else(ClosedLoopState::default, ClosedLoopState::new),
            graph: GraphRun::default(),
        });
        let sent_by = |host: usize| scenario.flows.iter().filter(|flow| flow.from == host).count();
        let mut connections = Connections {
            traffic: traffic.collect(),
            flows: (0..scenario.hosts.len()).map(sent_by).collect(),
            open: vec![Vec::new(); scenario.hosts.len()].into(),
            next: (Time::NEVER, 0),
            window,
            servers: scenario.servers,
            ports: scenario.host_ports(),
            to_close: Vec::new(),
            completed: Vec::new(),
            programs: vec![Vec::new(); scenario.hosts.len()].into(),
            events: Vec::new(),
            full: None,
            has_triggers: scenario.traffic.iter().filter_map(TrafficPlan::graph).any(MessageGraph::has_triggers),
        };
        connections.update_next();
        connections
    }

    /// Opens the connections of graphs and adds the programs of their ranks to the hosts, before the run.
    pub(super) fn open_programs(&mut self, scenario: &Scenario, partition: &mut LpPartition) {
        for (number, traffic) in (0..).zip(&mut self.traffic) {
            let Traffic { plan, graph: run, .. } = traffic;
            let Some(graph) = plan.graph() else { continue };
            for (rank, of_rank) in (0..).zip(graph.ranks()) {
                self.programs[of_rank.host as usize].push((number, rank));
            }
            *run = GraphRun::open(scenario, number as usize, partition).expect("a graph's messages are RDMA's");
            for (connection, GraphConnection { hosts: [from, to], ends, .. }) in (0..).zip(run.connections()) {
                let receiver = ends.receiver as u32;
                if let Some(host) = self.servers.and_then(|plan| plan.number_in_server(*from, *to)) {
                    let peer = ServerPeer { host: host as u32, receiver };
                    partition.host_mut(*from).host.set_server_peer(ends.sender, peer);
                }
                // The places of its senders are consecutive.
                self.open[*from].push(OpenConnection {
                    traffic: number,
                    message: connection,
                    to: *to as u32,
                    receiver,
                });
            }
        }
    }

    /// Returns a host with more open messages than a NIC has connections, of which further ones were not sent.
    pub(super) fn full_host(&self) -> Option<usize> {
        self.full.map(|host| host as usize)
    }

    /// Whether hosts trigger each other, and so must run instant by instant.
    pub(super) fn has_triggers(&self) -> bool {
        self.has_triggers
    }

    /// Takes over the hosts' events and completed messages of a window, or of an instant if hosts trigger each other.
    pub(super) fn record_events(&mut self, partition: &mut LpPartition) {
        // First, as a message within a server may start and end in one window.
        self.record_program_events(partition);
        for lp in partition.lps_mut() {
            self.record_completed(lp.completed.drain(..));
        }
    }

    /// Takes over the events of the hosts' programs.
    fn record_program_events(&mut self, partition: &mut LpPartition) {
        for lp in partition.lps_mut() {
            self.events.append(&mut lp.program_events);
        }
        if self.events.is_empty() {
            return;
        }
        // Sorted, so that the partition does not affect the order of messages.
        self.events.sort_by_key(|(host, event)| (event.at, *host));
        for (host, event) in std::mem::take(&mut self.events) {
            let (number, rank) = self.programs[host as usize][event.program as usize];
            let Traffic { plan, graph: run, .. } = &mut self.traffic[number as usize];
            let Some(graph) = plan.graph() else { continue };
            run.record_event(graph, rank, &event);
            let program = &graph.ranks()[rank as usize].program;
            if let ProgramStep::Trigger { rank, channel } = program.step(event.operation) {
                let host = graph.ranks()[rank as usize].host as usize;
                partition.host_mut(host).host.handle_trigger(event.at, run.program(rank), channel);
                partition.wake_host(host, event.at);
            }
        }
    }

    /// Returns the times of a graph's repetitions that have started.
    pub(super) fn repetitions(&self, traffic: usize) -> &[RepetitionTimes] {
        self.traffic[traffic].graph.repetitions()
    }

    /// Returns the critical path of each repetition of a graph that has ended, last step first. `host` returns a host by its number.
    pub(super) fn critical_paths<'h>(
        &self,
        traffic: usize,
        host: impl Fn(usize) -> &'h Host,
    ) -> Vec<Option<Vec<PathStep>>> {
        let Traffic { plan, graph: run, .. } = &self.traffic[traffic];
        let Some(graph) = plan.graph() else { return Vec::new() };
        let index = PathIndex::new(graph, run.record());
        let program = |rank: u32| (host(graph.ranks()[rank as usize].host as usize), run.program(rank));
        let sender = |rank: u32, operation: u32| match graph.ranks()[rank as usize].program.step(operation) {
            ProgramStep::Send { connection, .. } => {
                let GraphConnection { hosts, ends, .. } = run.connection(rank, connection);
                (*hosts, ends.sender)
            }
            _ => unreachable!("it is a message's operation"),
        };
        let mut marks: HashMap<u32, Vec<u32>> = HashMap::new();
        let path = |(number, times): (usize, &RepetitionTimes)| {
            let marks = marks.entry(times.slowest).or_insert_with(|| index.end_marks(times.slowest));
            (times.ended as usize == graph.ranks().len()).then(|| index.path(marks[number], times, program, sender))
        };
        run.repetitions().iter().enumerate().map(path).collect()
    }

    /// Returns the start of the next message; [`Time::NEVER`] if there is none.
    #[inline]
    pub(super) fn next_start(&self) -> Time {
        self.next.0
    }

    /// Returns the messages of a traffic: all of a list, or those of others that have been opened.
    pub(super) fn messages(&self, traffic: usize) -> &[Message] {
        self.traffic[traffic].messages()
    }

    fn update_next(&mut self) {
        let starts = self.traffic.iter().map(Traffic::next_start);
        self.next = starts.zip(0..).min().unwrap_or((Time::NEVER, 0));
    }

    pub(super) fn open_before(&mut self, end: Time, partition: &mut LpPartition) {
        while self.next.0 < end {
            self.open_next(partition);
        }
    }

    /// Opens the connection of the next message, and wakes its sender at its start.
    fn open_next(&mut self, partition: &mut LpPartition) {
        let number = self.next.1;
        let traffic = &mut self.traffic[number];
        let Some(next) = traffic.begin_next() else { return };
        let message = traffic.started as u32 - 1;
        let [from, to] = self.ports.choose([next.from, next.to], HostPorts::connection(number as u32, message));
        let (flow, start) = (traffic.plan.flow(&next), next.start);
        let ends = partition.two_hosts([from as usize, to as usize]);
        let have_room = Connection::have_room([&ends[0].host, &ends[1].host]);
        if let Some(end) = have_room.iter().position(|has_room| !has_room) {
            self.full.get_or_insert([from, to][end]);
            return self.update_next();
        }
        let opened = Connection::open(ends.map(|node| &mut node.host), &flow);
        let Connection { sender, receiver } =
            opened.expect("a message of traffic has 1 to 2^31 bytes, and TCP an MSS that frames can carry");
        let open = &mut self.open[from as usize];
        let index = sender - self.flows[from as usize];
        open.resize(open.len().max(index + 1), OpenConnection::default());
        open[index] = OpenConnection { traffic: number as u32, message, to, receiver: receiver as u32 };
        partition.wake_host(from as usize, start);
        self.update_next();
    }

    /// Records the messages that hosts completed.
    fn record_completed(&mut self, completed: impl Iterator<Item = (u32, Completion)>) {
        let mut schedule_changed = false;
        for (host, Completion { flow, released, size, fct }) in completed {
            let number = host as usize;
            let source = match flow.checked_sub(self.flows[number]) {
                None => MessageSource::Flow(flow),
                Some(index) if self.is_of_graph(number, index) => {
                    let OpenConnection { traffic, message: connection, .. } = self.open[number][index];
                    let run = &mut self.traffic[traffic as usize].graph;
                    MessageSource::Message(traffic, run.complete(connection as usize))
                }
                Some(index) => {
                    self.to_close.push((number as u32, flow as u32));
                    let OpenConnection { traffic, message, .. } = self.open[number][index];
                    schedule_changed |= self.traffic[traffic as usize]
                        .schedule_next(self.ports.host(host), released + fct + self.window);
                    MessageSource::Message(traffic, message)
                }
            };
            self.completed.push(CompletedMessage { host: number, source, released, size, fct });
        }
        if schedule_changed {
            self.update_next();
        }
    }

    /// Whether a sending end belongs to a graph.
    fn is_of_graph(&self, host: usize, index: usize) -> bool {
        self.traffic[self.open[host][index].traffic as usize].plan.graph().is_some()
    }

    /// Closes both ends of completed messages. Call between two windows, when all hosts are at the same time.
    pub(super) fn close_completed(&mut self, partition: &mut LpPartition) {
        // Sorted, so that the order in which hosts ran does not affect the reuse of indices.
        self.to_close.sort_unstable();
        for (host, sender) in self.to_close.drain(..) {
            let OpenConnection { to, receiver, .. } =
                self.open[host as usize][sender as usize - self.flows[host as usize]];
            partition.host_mut(host as usize).host.close_sender(sender as usize);
            partition.host_mut(to as usize).host.close_receiver(receiver as usize);
        }
    }

    pub(super) fn drain_completed(&mut self) -> impl Iterator<Item = CompletedMessage> {
        self.completed.sort_by_key(|message| (message.released + message.fct, message.host));
        self.completed.drain(..)
    }
}

impl HostSet for LpPartition {
    fn host_mut(&mut self, host: usize) -> &mut Host {
        &mut LpPartition::host_mut(self, host).host
    }

    fn two_hosts(&mut self, hosts: [usize; 2]) -> [&mut Host; 2] {
        LpPartition::two_hosts(self, hosts).map(|node| &mut node.host)
    }
}

impl Traffic {
    /// Returns the messages of the traffic: all of a list, or those of others that have been opened.
    fn messages(&self) -> &[Message] {
        match self.plan.source {
            TrafficSource::List(_) => self.plan.messages(),
            TrafficSource::ClosedLoop(_) => &self.closed_loop.opened,
            TrafficSource::Graph(_) => self.graph.started(),
        }
    }

    fn next_start(&self) -> Time {
        if self.plan.closed_loop().is_some() {
            return self.closed_loop.due.peek().map_or(Time::NEVER, |Reverse((at, _))| *at);
        }
        self.plan.messages().get(self.started).map_or(Time::NEVER, |message| message.start)
    }

    /// Returns the next message to start, and advances.
    fn begin_next(&mut self) -> Option<Message> {
        let message = match self.plan.closed_loop() {
            None => self.plan.messages().get(self.started).copied()?,
            Some(closed) => self.closed_loop.begin_next(closed)?,
        };
        self.started += 1;
        Some(message)
    }

    /// Schedules another message of this host at `at` in a closed loop, after an acknowledgement. Returns whether the
    /// schedule changed.
    fn schedule_next(&mut self, host: u32, at: Time) -> bool {
        self.plan.closed_loop().is_some_and(|closed| self.closed_loop.schedule_next(closed, host, at))
    }
}

impl ClosedLoopState {
    fn new(closed: &ClosedLoop) -> ClosedLoopState {
        let senders = closed.senders().iter();
        let indices = 0..closed.senders().len() as u32;
        ClosedLoopState {
            due: indices.flat_map(|index| (0..closed.first()).map(move |_| Reverse((closed.from(), index)))).collect(),
            senders: senders
                .map(|host| LoopSender { source: closed.source(*host), scheduled: closed.first() })
                .collect(),
            opened: Vec::new(),
        }
    }

    fn begin_next(&mut self, closed: &ClosedLoop) -> Option<Message> {
        let Reverse((start, index)) = self.due.pop()?;
        let index = index as usize;
        let message = closed.next(closed.senders()[index], &mut self.senders[index].source, start);
        self.opened.push(message);
        Some(message)
    }

    fn schedule_next(&mut self, closed: &ClosedLoop, host: u32, at: Time) -> bool {
        let Ok(index) = closed.senders().binary_search(&host) else { return false };
        let sender = &mut self.senders[index];
        let continues = closed.goes_on(sender.scheduled, at);
        if continues {
            sender.scheduled += 1;
            self.due.push(Reverse((at, index as u32)));
        }
        continues
    }
}
