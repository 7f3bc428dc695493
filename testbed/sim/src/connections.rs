//! The messages of a scenario's traffic: each one has a connection of its own, from its start to its acknowledgement.
//!
//! In a closed loop a message starts one window of the hosts after another one's acknowledgement: then all hosts know of it, however many
//! threads there are.
//!
//! Ends are opened and closed at both hosts at once, as if they had agreed on it over another network.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use weir_nic::host::{Completion, Connection};
use weir_scenario::workload::{ClosedLoop, Message, Rng};
use weir_scenario::{Scenario, TrafficPlan};
use weir_units::archive::{Archive, State, Value};
use weir_units::{Bytes, Span, Time};

use super::parts::Parts;

/// A message that was completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Value)]
pub struct Done {
    /// The host that sent it.
    pub host: usize,
    /// What it belongs to.
    pub of: Sent,
    /// When it was handed to the NIC.
    pub released: Time,
    /// Its payload.
    pub size: Bytes,
    /// Flow completion time: from then until its acknowledgement arrived.
    pub fct: Span,
}

/// What a message belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Value)]
pub enum Sent {
    /// A flow, by its place among those that the host sends.
    Flow(usize),
    /// Traffic: which, and which of its messages.
    Message(u32, u32),
}

/// Who has a connection open, and who is next.
#[derive(Debug)]
pub(super) struct Connections {
    traffic: Box<[Traffic]>,
    /// Flows of each host that are there from the start: their places come first.
    flows: Box<[usize]>,
    /// By host and place of the sending end.
    open: Box<[Vec<Open>]>,
    /// By host and place of the receiving end, behind those there from the start: which traffic and which of its messages it was
    /// opened for last.
    received: Box<[Vec<(u32, u32)>]>,
    /// Flows to each host that are there from the start.
    receives: Box<[usize]>,
    /// When the next message starts, of which traffic; [`Time::NEVER`] if none does.
    next: (Time, usize),
    /// A window of the hosts: what is known of in one is known to all in the next.
    window: Span,
    /// Hosts and sending ends that have completed their message.
    to_close: Vec<(u32, u32)>,
    done: Vec<Done>,
}

#[derive(Debug, State)]
struct Traffic {
    #[state(same)]
    plan: TrafficPlan,
    started: usize,
    /// The state of a closed loop; empty for a list.
    going_round: Round,
}

/// A closed loop in its course.
#[derive(Debug, Default, State)]
struct Round {
    /// When a message is to begin, at which of the senders, by its place.
    due: BinaryHeap<Reverse<(Time, u32)>>,
    senders: Box<[LoopSender]>,
    /// The messages that have been opened, in that order, which is that of their starts.
    begun: Vec<Message>,
}

#[derive(Debug, State)]
struct LoopSender {
    source: Rng,
    /// Messages that it has begun, or is to.
    begun: u32,
}

/// What belongs to a sending end.
#[derive(Clone, Copy, Debug, Default, Value)]
struct Open {
    traffic: u32,
    message: u32,
    /// The receiving host, and its end's place.
    to: u32,
    receiver: u32,
}

impl Connections {
    /// `window` is one of the hosts'.
    pub(super) fn new(scenario: &Scenario, window: Span) -> Connections {
        let traffic = scenario.traffic.iter().map(|plan| Traffic {
            plan: plan.clone(),
            started: 0,
            going_round: plan.closed_loop().map_or_else(Round::default, Round::of),
        });
        let sent_by = |host: usize| scenario.flows.iter().filter(|flow| flow.from == host).count();
        let sent_to = |host: usize| scenario.flows.iter().filter(|flow| flow.to == host).count();
        let mut connections = Connections {
            traffic: traffic.collect(),
            flows: (0..scenario.hosts.len()).map(sent_by).collect(),
            open: vec![Vec::new(); scenario.hosts.len()].into(),
            received: vec![Vec::new(); scenario.hosts.len()].into(),
            receives: (0..scenario.hosts.len()).map(sent_to).collect(),
            next: (Time::NEVER, 0),
            window,
            to_close: Vec::new(),
            done: Vec::new(),
        };
        connections.look_ahead();
        connections
    }

    /// Goes over who has a connection open. Ends that are read are opened at their hosts, which are as they were built, and
    /// are to be overwritten next.
    pub(super) fn checkpoint(&mut self, archive: &mut Archive, parts: &mut Parts) {
        let Connections { traffic, flows: _, open, received, receives: _, next, window: _, to_close, done } = self;
        traffic.state(archive);
        open.state(archive);
        received.state(archive);
        next.state(archive);
        to_close.state(archive);
        done.state(archive);
        if archive.is_loading() && !archive.is_damaged() && self.open_ends(parts).is_none() {
            archive.damaged();
        }
    }

    /// Opens all ends that there are; `None` if there can't be such.
    fn open_ends(&self, parts: &mut Parts) -> Option<()> {
        let flow = |(traffic, message): (u32, u32)| {
            let traffic = self.traffic.get(traffic as usize)?;
            Some(traffic.plan.flow(traffic.messages().get(message as usize)?))
        };
        for (number, (open, received)) in self.open.iter().zip(&self.received).enumerate() {
            let senders = open.iter().map(|open| flow((open.traffic, open.message))).collect::<Option<Vec<_>>>()?;
            let flows = received.iter().map(|of| flow(*of)).collect::<Option<Vec<_>>>()?;
            let host = &mut parts.host_mut(number).host;
            // Who sends to them is read.
            let receivers: Vec<_> = flows.iter().map(|flow| flow.receiver(host.config())).collect();
            host.refill(senders.into_iter(), receivers.into_iter()).ok()?;
        }
        Some(())
    }

    /// Shows a flow of each traffic, for what can't be taken down of one.
    pub(super) fn try_flows(&self, archive: &mut Archive, parts: &Parts) {
        for traffic in &self.traffic {
            if let Some(first) = traffic.first() {
                parts.host(first.from as usize).host.try_flow(&traffic.plan.flow(&first), archive);
            }
        }
    }

    /// When the next message starts; [`Time::NEVER`] if none does.
    #[inline]
    pub(super) fn next_start(&self) -> Time {
        self.next.0
    }

    /// The messages of a traffic, by its place: all of a list, and those of a closed loop that have been opened.
    pub(super) fn messages(&self, traffic: usize) -> &[Message] {
        self.traffic[traffic].messages()
    }

    fn look_ahead(&mut self) {
        let starts = self.traffic.iter().map(Traffic::next_start);
        self.next = starts.zip(0..).min().unwrap_or((Time::NEVER, 0));
    }

    /// Opens the connections of all messages that start before `end`.
    pub(super) fn open_before(&mut self, end: Time, parts: &mut Parts) {
        while self.next.0 < end {
            self.open_next(parts);
        }
    }

    /// Opens the ends of the next message; its sender wakes up when it starts.
    fn open_next(&mut self, parts: &mut Parts) {
        let number = self.next.1;
        let traffic = &mut self.traffic[number];
        let Some(next) = traffic.begin_next() else { return };
        let message = traffic.started as u32 - 1;
        let (flow, Message { start, from, to, .. }) = (traffic.plan.flow(&next), next);
        let ends = parts.two_hosts([from as usize, to as usize]);
        let opened = Connection::open(ends.map(|node| &mut node.host), &flow);
        let Connection { sender, receiver } =
            opened.expect("a message of traffic has 1 to 2^31 bytes, and TCP an MSS that frames can carry");
        let open = &mut self.open[from as usize];
        let place = sender - self.flows[from as usize];
        open.resize(open.len().max(place + 1), Open::default());
        open[place] = Open { traffic: number as u32, message, to, receiver: receiver as u32 };
        let received = &mut self.received[to as usize];
        let place = receiver - self.receives[to as usize];
        received.resize(received.len().max(place + 1), (0, 0));
        received[place] = (number as u32, message);
        parts.wake_host(from as usize, start);
        self.look_ahead();
    }

    /// Notes what hosts have completed.
    pub(super) fn note_completed(&mut self, completed: impl Iterator<Item = (u32, Completion)>) {
        let mut goes_round = false;
        for (host, Completion { flow, released, size, fct }) in completed {
            let number = host as usize;
            let of = match flow.checked_sub(self.flows[number]) {
                None => Sent::Flow(flow),
                Some(place) => {
                    self.to_close.push((number as u32, flow as u32));
                    let Open { traffic, message, .. } = self.open[number][place];
                    goes_round |= self.traffic[traffic as usize].go_round(host, released + fct + self.window);
                    Sent::Message(traffic, message)
                }
            };
            self.done.push(Done { host: number, of, released, size, fct });
        }
        if goes_round {
            self.look_ahead();
        }
    }

    /// Closes both ends of what has been completed. Between two windows, when all hosts are at one time.
    pub(super) fn close_completed(&mut self, parts: &mut Parts) {
        // In what order hosts had their turns may not show in which place is used next.
        self.to_close.sort_unstable();
        for (host, sender) in self.to_close.drain(..) {
            let Open { to, receiver, .. } = self.open[host as usize][sender as usize - self.flows[host as usize]];
            parts.host_mut(host as usize).host.close_sender(sender as usize);
            parts.host_mut(to as usize).host.close_receiver(receiver as usize);
        }
    }

    pub(super) fn drain_done(&mut self) -> impl Iterator<Item = Done> {
        self.done.sort_by_key(|done| (done.released + done.fct, done.host));
        self.done.drain(..)
    }
}

impl Traffic {
    /// Its messages: all of a list, and those of a closed loop that have been opened.
    fn messages(&self) -> &[Message] {
        if self.plan.closed_loop().is_some() { &self.going_round.begun } else { self.plan.messages() }
    }

    /// A message such as it has.
    fn first(&self) -> Option<Message> {
        let Some(closed) = self.plan.closed_loop() else { return self.plan.messages().first().copied() };
        let sender = *closed.senders().first()?;
        Some(closed.next(sender, &mut closed.source(sender), closed.from()))
    }

    fn next_start(&self) -> Time {
        if self.plan.closed_loop().is_some() {
            return self.going_round.due.peek().map_or(Time::NEVER, |Reverse((at, _))| *at);
        }
        self.plan.messages().get(self.started).map_or(Time::NEVER, |message| message.start)
    }

    /// The message that starts next, which has started then.
    fn begin_next(&mut self) -> Option<Message> {
        let message = match self.plan.closed_loop() {
            None => self.plan.messages().get(self.started).copied()?,
            Some(closed) => self.going_round.begin_next(closed)?,
        };
        self.started += 1;
        Some(message)
    }

    /// In a closed loop, has another message of this host begin at `at`, as one has been acknowledged; whether one does.
    fn go_round(&mut self, host: u32, at: Time) -> bool {
        self.plan.closed_loop().is_some_and(|closed| self.going_round.go_on(closed, host, at))
    }
}

impl Round {
    fn of(closed: &ClosedLoop) -> Round {
        let senders = closed.senders().iter();
        let places = 0..closed.senders().len() as u32;
        Round {
            due: places.flat_map(|place| (0..closed.first()).map(move |_| Reverse((closed.from(), place)))).collect(),
            senders: senders.map(|host| LoopSender { source: closed.source(*host), begun: closed.first() }).collect(),
            begun: Vec::new(),
        }
    }

    fn begin_next(&mut self, closed: &ClosedLoop) -> Option<Message> {
        let Reverse((start, place)) = self.due.pop()?;
        let place = place as usize;
        let message = closed.next(closed.senders()[place], &mut self.senders[place].source, start);
        self.begun.push(message);
        Some(message)
    }

    fn go_on(&mut self, closed: &ClosedLoop, host: u32, at: Time) -> bool {
        let Ok(place) = closed.senders().binary_search(&host) else { return false };
        let sender = &mut self.senders[place];
        let goes_on = closed.goes_on(sender.begun, at);
        if goes_on {
            sender.begun += 1;
            self.due.push(Reverse((at, place as u32)));
        }
        goes_on
    }
}
