//! Programs that a host runs: receipts, acknowledgements and ends of computations start further operations.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use weir_units::{Bytes, Time};

use super::{Completion, Connection, Host};
use crate::program::{ProgramEdge, ProgramStep, RankProgram};

/// Event of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramEvent {
    /// Instant of the event.
    pub at: Time,
    /// Number of the program on the host.
    pub program: u32,
    /// Operation: a message was passed to the NIC, a mark reached, or another rank triggered.
    pub operation: u32,
}

/// Receiving end of a connection without NICs: within a server, or between real hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerPeer {
    /// Number of the host in the server, or in the scenario.
    pub host: u32,
    /// Place of the receiving end there.
    pub receiver: u32,
}

/// Message of a program on a connection without NICs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerMessage {
    /// Instant at which the message starts.
    pub start: Time,
    /// Place of the sending end.
    pub sender: u32,
    /// Receiving end.
    pub to: ServerPeer,
    /// Channel at the receiving rank.
    pub channel: u32,
    /// Payload.
    pub size: Bytes,
}

/// Cause of an operation: the last event that it waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationCause {
    /// The start of the program.
    Start,
    /// An event of another operation.
    Operation(u32),
    /// The end of a computation on its CPU.
    Cpu(u32),
    /// The arrival of a message, by its number in its channel from 0.
    Arrival(u32),
}

/// Programs of a host, and their connections.
#[derive(Debug)]
pub(super) struct HostPrograms {
    running: Vec<RunningProgram>,
    /// Ends of computations, with program and operation; the start of a program has [`PROGRAM_START`] in place of one.
    ends: BinaryHeap<Reverse<(Time, u32, u32)>>,
    /// Instant of the earliest timer among the host's; [`Time::NEVER`] for none.
    watched_at: Time,
    /// Messages to other hosts of the server that have started, and the number of those without an acknowledgement.
    server_messages: Vec<ServerMessage>,
    server_messages_pending: u32,
    /// Ends at each of the host's ports, of which a further one is a [`Host`] of its own.
    ports: Vec<PortEnds>,
    /// Port whose [`Host`] has the programs.
    port: usize,
    events: Vec<ProgramEvent>,
}

/// Ends of programs at a port.
#[derive(Debug, Default)]
struct PortEnds {
    senders: ProgramEnds,
    receivers: ProgramEnds,
    /// Messages that were passed to the NIC: the sender's place, instant and size.
    to_send: VecDeque<(u32, Time, u32)>,
}

/// Sending or receiving ends of programs; their places at the port are consecutive.
#[derive(Debug, Default)]
struct ProgramEnds {
    first: usize,
    ends: Vec<ProgramEnd>,
}

/// End of a connection of a program.
#[derive(Debug)]
struct ProgramEnd {
    program: u32,
    /// Operations of the messages in flight from here, oldest first.
    in_flight: VecDeque<u32>,
    /// Number of messages started or received here.
    messages: usize,
    channels: Arc<MessageChannels>,
    /// Receiving end of a connection within the server.
    server_peer: Option<ServerPeer>,
}

/// Channels of a connection's messages, in the order of their starts. Both ends share them, as if each message named its own.
#[derive(Debug)]
struct MessageChannels(Box<[AtomicU32]>);

/// Program and its state.
#[derive(Debug)]
struct RunningProgram {
    program: Arc<RankProgram>,
    /// Instant from which no operation starts.
    until: Time,
    /// Number of dependencies that each operation waits for, or, once it waits for none, its cause: an operation, with [`IS_CPU`] if that
    /// had its CPU, or the number of a message with [`IS_ARRIVAL`]. [`WAITS_FOR_CPU`] is added while its CPU computes.
    waits: Box<[u32]>,
    channels: Box<[ChannelState]>,
    cpus: Box<[CpuState]>,
    /// Ports and places of the sending ends, by connection.
    senders: Vec<(u32, u32)>,
    ready: VecDeque<u32>,
}

#[derive(Clone, Debug, Default)]
struct ChannelState {
    /// Messages that arrived before their receipt started.
    arrived: u32,
    /// Messages that arrived.
    received: u32,
    receives: VecDeque<u32>,
}

#[derive(Clone, Debug, Default)]
struct CpuState {
    is_busy: bool,
    /// Last computation that ended, and its end.
    last: (u32, Time),
    /// Computations and messages that are ready, and receipts whose message has arrived.
    waiting: VecDeque<u32>,
}

/// Channel of a message that has not started.
const NO_CHANNEL: u32 = u32::MAX;
/// Operation number that stands for the start of a program.
const PROGRAM_START: u32 = u32::MAX;
/// Bits of causes; operations and messages have smaller numbers.
const IS_CPU: u32 = 1 << 29;
const IS_ARRIVAL: u32 = 1 << 30;
const WAITS_FOR_CPU: u32 = 1 << 31;
/// Flow number of the programs' entries among the host's timers.
pub(super) const PROGRAMS: u32 = u32::MAX;

impl Connection {
    /// Makes this the next connection of two programs, by their numbers on the hosts and the numbers of its ports there, for this number
    /// of messages from the first program to the second.
    pub fn serve_programs(
        &self,
        [from, to]: [&mut Host; 2],
        [sending, receiving]: [u32; 2],
        ports: [usize; 2],
        messages: usize,
    ) {
        let channels = Arc::new(MessageChannels((0..messages).map(|_| AtomicU32::new(NO_CHANNEL)).collect()));
        let programs = from.programs.get_or_insert_with(HostPrograms::new);
        programs.port_mut(ports[0]).senders.push(sending, self.sender, channels.clone());
        programs.running[sending as usize].senders.push((ports[0] as u32, self.sender as u32));
        let programs = to.programs.get_or_insert_with(HostPrograms::new);
        programs.port_mut(ports[1]).receivers.push(receiving, self.receiver, channels);
    }
}

impl Host {
    /// Adds a program, whose first operations start at `from` and the last before `until`; returns its number. Its ends
    /// are added next, and all programs before the host runs.
    pub fn add_program(&mut self, program: Arc<RankProgram>, from: Time, until: Time) -> u32 {
        let programs = self.programs.get_or_insert_with(HostPrograms::new);
        let number = programs.running.len() as u32;
        programs.running.push(RunningProgram::new(program, until));
        if from < until {
            programs.ends.push(Reverse((from, number, PROGRAM_START)));
        }
        self.watch_programs();
        number
    }

    /// Moves the programs to another port of the host, which handles a frame or sends next; port 0 has them otherwise.
    pub fn move_programs(&mut self, to: &mut Host, port: usize) {
        if let Some(mut programs) = self.programs.take() {
            programs.port_mut(port);
            programs.port = port;
            to.programs = Some(programs);
        }
    }

    /// Returns a port to which the programs have passed messages, for [`Host::advance_programs`] there.
    pub fn next_program_port(&self) -> Option<usize> {
        self.programs.as_ref()?.ports.iter().position(|port| !port.to_send.is_empty())
    }

    /// Makes a connection of a program one within the server, by the place of its sending end.
    pub fn set_server_peer(&mut self, sender: usize, peer: ServerPeer) {
        if let Some(programs) = &mut self.programs {
            let senders = &mut programs.ports[0].senders;
            senders.ends[sender - senders.first].server_peer = Some(peer);
        }
    }

    /// Returns the messages to other hosts of the server that have started since the last call.
    pub fn drain_server_messages(&mut self) -> impl Iterator<Item = ServerMessage> {
        self.programs.iter_mut().flat_map(|programs| programs.server_messages.drain(..))
    }

    /// Returns the instant of the programs' next start or end of a computation; [`Time::NEVER`] if there is none.
    pub fn next_program_wakeup(&self) -> Time {
        let ends = self.programs.as_ref().and_then(|programs| programs.ends.peek());
        ends.map_or(Time::NEVER, |Reverse((at, ..))| *at)
    }

    /// Handles starts and ends of computations by `now`, also while the wire is busy. Poll the host afterwards.
    pub fn advance_programs(&mut self, now: Time) {
        self.programs.iter_mut().for_each(|programs| programs.advance(now));
        self.submit_messages(now);
    }

    /// Handles a message from another host of the server, which has arrived at `now`. Poll the host afterwards.
    pub fn handle_server_message(&mut self, now: Time, message: &ServerMessage) {
        let Some(programs) = &mut self.programs else { return };
        programs.advance(now);
        let receivers = &programs.ports[0].receivers;
        let number = receivers.ends[message.to.receiver as usize - receivers.first].program;
        programs.running[number as usize].handle_receive(message.channel);
        programs.run(now, number);
        self.submit_messages(now);
    }

    /// Handles the acknowledgement of a message to another host of the server. Poll the host afterwards.
    pub fn handle_server_ack(&mut self, now: Time, message: &ServerMessage) {
        let ServerMessage { start: released, sender, size, .. } = *message;
        let flow = sender as usize;
        self.completions.push(Completion { flow, released, size, fct: now.since(released) });
        if let Some(programs) = &mut self.programs {
            programs.server_messages_pending -= 1;
        }
        self.handle_program_acks(now, flow, 1);
    }

    /// Handles a trigger's message in a channel of a program. Earlier events have been handled.
    pub fn handle_trigger(&mut self, now: Time, program: u32, channel: u32) {
        if let Some(programs) = &mut self.programs {
            programs.advance(now);
            programs.running[program as usize].handle_receive(channel);
            programs.run(now, program);
        }
        self.submit_messages(now);
    }

    /// Returns the cause of an operation that has started, or of a receipt that has ended.
    pub fn program_cause(&self, program: u32, operation: u32) -> OperationCause {
        let program = &self.programs.as_ref().expect("the host has programs").running[program as usize];
        match program.waits[operation as usize] & !WAITS_FOR_CPU {
            number if number & IS_ARRIVAL > 0 => OperationCause::Arrival(number & !IS_ARRIVAL),
            number if number & IS_CPU > 0 => OperationCause::Cpu(number & !IS_CPU),
            0 if program.program.dependencies().nth(operation as usize) == Some(0) => OperationCause::Start,
            number => OperationCause::Operation(number),
        }
    }

    /// Whether messages of the host to others of its server are in flight.
    pub fn has_server_messages(&self) -> bool {
        self.programs.as_ref().is_some_and(|programs| programs.server_messages_pending > 0)
    }

    /// Returns the hash of the headers of a sender's packets, by its place.
    pub fn sender_flow_hash(&self, sender: usize) -> u32 {
        self.senders[sender].flow_hash()
    }

    /// Returns whether [`Host::drain_program_events`] would return events.
    #[inline]
    pub fn has_program_events(&self) -> bool {
        self.programs.as_ref().is_some_and(|programs| !programs.events.is_empty())
    }

    /// Removes and returns the events since the last call, oldest first.
    pub fn drain_program_events(&mut self) -> impl Iterator<Item = ProgramEvent> {
        self.programs.iter_mut().flat_map(|programs| programs.events.drain(..))
    }

    /// Handles the messages that a receiver has completed.
    #[cold]
    pub(super) fn handle_program_receives(&mut self, now: Time, receiver: usize) {
        let received = self.receivers[receiver].stats().messages;
        let Some(programs) = &mut self.programs else { return };
        if programs.handle_receives(now, receiver, received) {
            self.submit_messages(now);
        }
    }

    /// Handles the acknowledgement of `messages` messages of a sender.
    #[cold]
    pub(super) fn handle_program_acks(&mut self, now: Time, sender: usize, messages: usize) {
        let Some(programs) = &mut self.programs else { return };
        if programs.handle_acks(now, sender, messages) {
            self.submit_messages(now);
        }
    }

    /// Handles the programs' timer, at `now` or before.
    #[cold]
    pub(super) fn handle_program_timer(&mut self, now: Time) {
        if let Some(programs) = &mut self.programs {
            programs.watched_at = Time::NEVER;
            programs.advance(now);
        }
        self.submit_messages(now);
    }

    /// Passes the programs' messages to their senders.
    fn submit_messages(&mut self, now: Time) {
        while let Some(programs) = &mut self.programs
            && let Some((sender, at, size)) = programs.ports[programs.port].to_send.pop_front()
        {
            self.senders[sender as usize].submit(at, u64::from(size));
            self.give_turn(now, sender as usize);
        }
        self.watch_programs();
    }

    /// Sets the timer for the next end of a computation.
    fn watch_programs(&mut self) {
        if let Some(programs) = &mut self.programs
            && let Some(Reverse((at, ..))) = programs.ends.peek()
            && *at < programs.watched_at
        {
            programs.watched_at = *at;
            self.timers.push(Reverse((*at, PROGRAMS, 0)));
        }
    }
}

impl HostPrograms {
    fn new() -> Box<HostPrograms> {
        Box::new(HostPrograms {
            running: Vec::new(),
            ends: BinaryHeap::new(),
            watched_at: Time::NEVER,
            server_messages: Vec::new(),
            server_messages_pending: 0,
            ports: vec![PortEnds::default()],
            port: 0,
            events: Vec::new(),
        })
    }

    fn port_mut(&mut self, port: usize) -> &mut PortEnds {
        if self.ports.len() <= port {
            self.ports.resize_with(port + 1, PortEnds::default);
        }
        &mut self.ports[port]
    }

    /// Whether no computation or message within the server goes on, and no program is yet to start.
    pub(super) fn is_idle(&self) -> bool {
        self.ends.is_empty() && self.server_messages_pending == 0
    }

    /// Returns whether the receiver is one of a program.
    fn handle_receives(&mut self, now: Time, receiver: usize, received: u64) -> bool {
        let receivers = &self.ports[self.port].receivers;
        if !receivers.contains(receiver) {
            return false;
        }
        let place = receiver - receivers.first;
        self.advance(now);
        while (self.ports[self.port].receivers.ends[place].messages as u64) < received
            && let Some(channel) = self.ports[self.port].receivers.ends[place].next_channel()
        {
            let end = &mut self.ports[self.port].receivers.ends[place];
            let (number, program) = (end.program, &mut self.running[end.program as usize]);
            program.handle_receive(channel);
            self.run(now, number);
        }
        true
    }

    /// Returns whether the sender is one of a program.
    fn handle_acks(&mut self, now: Time, sender: usize, messages: usize) -> bool {
        if !self.ports[self.port].senders.contains(sender) {
            return false;
        }
        self.advance(now);
        for _ in 0..messages {
            let senders = &mut self.ports[self.port].senders;
            let end = &mut senders.ends[sender - senders.first];
            let operation = end.in_flight.pop_front().expect("an acknowledged message was in flight");
            let number = end.program;
            self.running[number as usize].notify(operation, ProgramEdge::End);
            self.run(now, number);
        }
        true
    }

    fn advance(&mut self, now: Time) {
        while let Some(Reverse((at, number, operation))) = self.ends.peek().copied()
            && at <= now
        {
            self.ends.pop();
            let program = &mut self.running[number as usize];
            match operation {
                PROGRAM_START => program.ready.extend(program.program.clone().initial()),
                _ => program.end_compute(at, operation),
            }
            self.run(at, number);
        }
    }

    /// Starts all ready operations of a program.
    fn run(&mut self, at: Time, number: u32) {
        let program = &mut self.running[number as usize];
        if at >= program.until {
            program.ready.clear();
            return;
        }
        let mut record = |operation| self.events.push(ProgramEvent { at, program: number, operation });
        loop {
            let Some(operation) = program.ready.pop_front() else {
                program.serve_cpus(at, number, &mut self.ends);
                if program.ready.is_empty() {
                    return;
                }
                continue;
            };
            match program.program.step(operation) {
                ProgramStep::Compute { cpu, .. } => program.wait_for_cpu(operation, cpu),
                ProgramStep::Send { cpu, .. } if program.cpus[usize::from(cpu)].is_busy => {
                    program.wait_for_cpu(operation, cpu);
                }
                ProgramStep::Send { connection, channel, size, .. } => {
                    record(operation);
                    let (port, sender) = program.senders[connection as usize];
                    let PortEnds { senders, to_send, .. } = &mut self.ports[port as usize];
                    let end = &mut senders.ends[sender as usize - senders.first];
                    end.in_flight.push_back(operation);
                    end.announce(channel);
                    if let Some(to) = end.server_peer {
                        let size = Bytes::new(u64::from(size));
                        self.server_messages.push(ServerMessage { start: at, sender, to, channel, size });
                        self.server_messages_pending += 1;
                    } else {
                        to_send.push_back((sender, at, size));
                    }
                    program.notify(operation, ProgramEdge::Start);
                }
                ProgramStep::Receive { channel, .. } => {
                    let state = &mut program.channels[channel as usize];
                    let has_arrived = state.arrived > 0;
                    if has_arrived {
                        state.arrived -= 1;
                    } else {
                        state.receives.push_back(operation);
                    }
                    program.notify(operation, ProgramEdge::Start);
                    if has_arrived {
                        program.notify(operation, ProgramEdge::End);
                    }
                }
                ProgramStep::Mark(_) | ProgramStep::Trigger { .. } => {
                    record(operation);
                    program.notify(operation, ProgramEdge::Start);
                    program.notify(operation, ProgramEdge::End);
                }
            }
        }
    }
}

impl RunningProgram {
    fn new(program: Arc<RankProgram>, until: Time) -> RunningProgram {
        RunningProgram {
            waits: program.dependencies().collect(),
            channels: vec![ChannelState::default(); program.channels()].into(),
            cpus: vec![CpuState::default(); program.cpus()].into(),
            senders: Vec::new(),
            ready: VecDeque::new(),
            until,
            program,
        }
    }

    /// Counts down the dependents of an event.
    fn notify(&mut self, operation: u32, edge: ProgramEdge) {
        for after in self.program.dependents(operation, edge) {
            let waits = &mut self.waits[*after as usize];
            *waits -= 1;
            if *waits == 0 {
                *waits = operation;
                self.ready.push_back(*after);
            }
        }
    }

    fn handle_receive(&mut self, channel: u32) {
        let state = &mut self.channels[channel as usize];
        let number = state.received;
        state.received += 1;
        let Some(operation) = state.receives.pop_front() else {
            state.arrived += 1;
            return;
        };
        self.waits[operation as usize] = IS_ARRIVAL | number;
        match self.program.step(operation) {
            ProgramStep::Receive { cpu, .. } if self.cpus[usize::from(cpu)].is_busy => {
                self.wait_for_cpu(operation, cpu);
            }
            _ => self.notify(operation, ProgramEdge::End),
        }
    }

    /// Makes an operation wait for its CPU, which may be idle.
    fn wait_for_cpu(&mut self, operation: u32, cpu: u8) {
        let cpu = &mut self.cpus[usize::from(cpu)];
        if cpu.is_busy || !cpu.waiting.is_empty() {
            self.waits[operation as usize] |= WAITS_FOR_CPU;
        }
        cpu.waiting.push_back(operation);
    }

    fn end_compute(&mut self, at: Time, operation: u32) {
        if let ProgramStep::Compute { cpu, .. } = self.program.step(operation) {
            let cpu = &mut self.cpus[usize::from(cpu)];
            (cpu.is_busy, cpu.last) = (false, (operation, at));
        }
        self.notify(operation, ProgramEdge::End);
    }

    /// Hands each idle CPU operations that wait for it, up to the first computation or message.
    fn serve_cpus(&mut self, at: Time, number: u32, ends: &mut BinaryHeap<Reverse<(Time, u32, u32)>>) {
        for cpu in 0..self.cpus.len() {
            while !self.cpus[cpu].is_busy
                && let Some(operation) = self.cpus[cpu].waiting.pop_front()
            {
                let (last, ended) = self.cpus[cpu].last;
                let waits = &mut self.waits[operation as usize];
                if *waits & WAITS_FOR_CPU > 0 {
                    *waits = if ended == at { IS_CPU | last } else { *waits & !WAITS_FOR_CPU };
                }
                match self.program.step(operation) {
                    ProgramStep::Compute { duration, .. } => {
                        self.cpus[cpu].is_busy = true;
                        let end = at.saturating_add(duration);
                        if end < self.until {
                            ends.push(Reverse((end, number, operation)));
                        }
                        self.notify(operation, ProgramEdge::Start);
                    }
                    ProgramStep::Receive { .. } => self.notify(operation, ProgramEdge::End),
                    _ => {
                        // It goes out before a computation that follows it.
                        self.ready.push_back(operation);
                        break;
                    }
                }
            }
        }
    }
}

impl ProgramEnds {
    fn push(&mut self, program: u32, place: usize, channels: Arc<MessageChannels>) {
        if self.ends.is_empty() {
            self.first = place;
        }
        debug_assert_eq!(place, self.first + self.ends.len(), "ends of programs have consecutive places");
        self.ends.push(ProgramEnd { program, in_flight: VecDeque::new(), messages: 0, channels, server_peer: None });
    }

    fn contains(&self, place: usize) -> bool {
        place.checked_sub(self.first).is_some_and(|number| number < self.ends.len())
    }
}

impl ProgramEnd {
    /// Names the channel of the next message from here.
    fn announce(&mut self, channel: u32) {
        // Relaxed: the message's frames order it before the receiver's load.
        self.channels.0[self.messages].store(channel, Ordering::Relaxed);
        self.messages += 1;
    }

    /// Takes the channel of the next message received here; `None` if the sender has started none, and the frames are forged.
    fn next_channel(&mut self) -> Option<u32> {
        let channel = self.channels.0.get(self.messages)?.load(Ordering::Relaxed);
        (channel != NO_CHANNEL).then(|| {
            self.messages += 1;
            channel
        })
    }
}
