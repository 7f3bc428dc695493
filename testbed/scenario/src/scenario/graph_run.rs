//! Run of a graph: programs and connections at the hosts, started messages, and the times of repetitions.

use std::collections::VecDeque;

use weir_nic::host::{Connection, Host, HostError, ProgramEvent};
use weir_nic::program::ProgramStep;
use weir_units::{Bytes, Time};
use weir_wire::rocev2::Dscp;

use super::Scenario;
use super::host_ports::HostPorts;

use crate::workload::{Message, MessageGraph};

/// Hosts of a run, by index in the scenario.
pub trait HostSet {
    /// Returns a host.
    fn host_mut(&mut self, host: usize) -> &mut Host;

    /// Returns two distinct hosts.
    fn two_hosts(&mut self, hosts: [usize; 2]) -> [&mut Host; 2];
}

/// Graph that runs at hosts. Empty for other traffic.
///
/// Call [`GraphRun::record_event`] for each event of its programs before [`GraphRun::complete`] for a message that the event started.
#[derive(Debug, Default)]
pub struct GraphRun {
    /// Number of each rank's program on its host.
    programs: Vec<u32>,
    connections: Vec<GraphConnection>,
    /// Index of the first connection of each rank.
    first: Vec<u32>,
    record: GraphRecord,
    repetitions: Vec<RepetitionTimes>,
}

/// Started messages and triggers of a graph, in order.
#[derive(Debug, Default)]
pub struct GraphRecord {
    /// Started messages.
    pub started: Vec<Message>,
    /// Rank and operation of each message.
    pub operations: Vec<[u32; 2]>,
    /// Triggers: receiving rank and channel, then rank and operation.
    pub triggers: Vec<([u32; 2], [u32; 2])>,
}

/// Connection of a graph.
#[derive(Debug)]
pub struct GraphConnection {
    /// Sending and receiving host, or their ports, by index in the scenario.
    pub hosts: [usize; 2],
    /// Places of the ends there.
    pub ends: Connection,
    /// Code point of the messages' frames.
    pub dscp: Dscp,
    /// Indices of the messages in flight, oldest first.
    in_flight: VecDeque<u32>,
}

/// Times of a repetition of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepetitionTimes {
    /// Start at the first rank.
    pub start: Time,
    /// Latest end at a rank; [`Time::ZERO`] before the first end.
    pub end: Time,
    /// Rank that ended last.
    pub slowest: u32,
    /// Number of ranks that have ended.
    pub ended: u32,
}

impl GraphRun {
    /// Opens the connections of a traffic plan's graph, if it has one, and adds the programs of its ranks to the hosts, before the run and before any other
    /// connection is opened. `traffic` is the plan's index.
    ///
    /// # Errors
    /// Index of the host that can't open a connection, and the reason.
    pub fn open(scenario: &Scenario, traffic: usize, hosts: &mut dyn HostSet) -> Result<GraphRun, (usize, HostError)> {
        let mut run = GraphRun::default();
        let plan = &scenario.traffic[traffic];
        let Some(graph) = plan.graph() else { return Ok(run) };
        let ports = scenario.host_ports();
        for rank in graph.ranks() {
            let host = hosts.host_mut(rank.host as usize);
            run.programs.push(host.add_program(rank.program.clone(), graph.from, graph.until));
        }
        for (rank, of_rank) in graph.ranks().iter().enumerate() {
            run.first.push(run.connections.len() as u32);
            let mut messages = vec![0; of_rank.connections.len()];
            for step in of_rank.program.steps() {
                if let ProgramStep::Send { connection, .. } = step {
                    messages[connection as usize] += 1;
                }
            }
            for (peer, messages) in of_rank.connections.iter().zip(messages) {
                let of_ranks = [of_rank.host, graph.ranks()[*peer as usize].host];
                let number = HostPorts::connection(traffic as u32, run.connections.len() as u32);
                let [from, to] = of_ranks.map(|host| host as usize);
                let of_ports = match scenario.servers.and_then(|plan| plan.number_in_server(from, to)) {
                    Some(_) => of_ranks,
                    None => ports.choose(of_ranks, number),
                };
                let message = Message { start: graph.from, from: of_ports[0], to: of_ports[1], size: Bytes::new(1) };
                let (flow, nics) = (plan.connection(&message), of_ports.map(|port| port as usize));
                let ends = Connection::open(hosts.two_hosts(nics), &flow).map_err(|error| (nics[0], error))?;
                let programs = [run.programs[rank], run.programs[*peer as usize]];
                let numbers = of_ports.map(|port| ports.number(port));
                ends.serve_programs(hosts.two_hosts([from, to]), programs, numbers, messages);
                let (dscp, in_flight) = (flow.dscp, VecDeque::new());
                run.connections.push(GraphConnection { hosts: nics, ends, dscp, in_flight });
            }
        }
        Ok(run)
    }

    /// Returns the number of a rank's program on its host.
    pub fn program(&self, rank: u32) -> u32 {
        self.programs[rank as usize]
    }

    /// Returns the connections, rank by rank.
    pub fn connections(&self) -> &[GraphConnection] {
        &self.connections
    }

    /// Returns the connection of a rank with this index in its program.
    pub fn connection(&self, rank: u32, connection: u32) -> &GraphConnection {
        &self.connections[(self.first[rank as usize] + connection) as usize]
    }

    /// Records an event of a rank's program: the start of a message, a trigger, or a mark.
    pub fn record_event(&mut self, graph: &MessageGraph, rank: u32, event: &ProgramEvent) {
        let of_rank = &graph.ranks()[rank as usize];
        match of_rank.program.step(event.operation) {
            ProgramStep::Mark(mark) => self.record_mark(mark, event.at, rank),
            step @ ProgramStep::Send { connection, .. } => {
                let place = self.first[rank as usize] + connection;
                self.connections[place as usize].in_flight.push_back(self.record.started.len() as u32);
                self.record.started.extend(graph.message(of_rank, step, event.at));
                self.record.operations.push([rank, event.operation]);
            }
            ProgramStep::Trigger { rank: to, channel } => {
                self.record.triggers.push(([to, channel], [rank, event.operation]));
            }
            ProgramStep::Compute { .. } | ProgramStep::Receive { .. } => {}
        }
    }

    /// Records a mark of a rank: the start or the end of a repetition.
    fn record_mark(&mut self, mark: u32, at: Time, rank: u32) {
        let number = mark as usize / 2;
        if self.repetitions.len() <= number {
            // The first mark of a repetition is a start, and repetitions of a rank follow each other.
            self.repetitions.push(RepetitionTimes { start: at, end: Time::ZERO, slowest: rank, ended: 0 });
        }
        let times = &mut self.repetitions[number];
        if mark.is_multiple_of(2) {
            times.start = times.start.min(at);
        } else {
            times.ended += 1;
            if at > times.end {
                (times.end, times.slowest) = (at, rank);
            }
        }
    }

    /// Records the acknowledgement of a connection's oldest message in flight; returns the message's index.
    pub fn complete(&mut self, connection: usize) -> u32 {
        self.connections[connection].in_flight.pop_front().expect("a completed message was in flight")
    }

    /// Returns the started messages.
    pub fn started(&self) -> &[Message] {
        &self.record.started
    }

    /// Returns the started messages and triggers.
    pub fn record(&self) -> &GraphRecord {
        &self.record
    }

    /// Returns the times of the repetitions that have started.
    pub fn repetitions(&self) -> &[RepetitionTimes] {
        &self.repetitions
    }
}
