//! Links among the hosts of a server, such as NVLink, which carry messages of ranks.

use std::collections::BTreeMap;

use weir_nic::host::ServerMessage;
use weir_scenario::{HostPlan, Scenario, ServerPlan};
use weir_units::Time;

/// Place of a host's port in its server.
#[derive(Debug)]
pub(super) struct ServerPlace {
    /// First host of the server, by index in the scenario.
    pub(super) first: usize,
    /// Number of the port among the members: the hosts' first ports, then their second ones, and so on.
    pub(super) number: usize,
    /// Number of hosts, and of members.
    pub(super) hosts: usize,
    pub(super) count: usize,
    /// Whether the port's link is up.
    pub(super) is_up: bool,
    /// Member that sent last by this port.
    pub(super) last_sender: usize,
    /// Number of frames that the port sent for others, whose link was down.
    pub(super) failed_over: u64,
    /// Link of the server, if it has one; with its first host only.
    pub(super) link: Option<Box<ServerLink>>,
}

/// Link among the hosts of a server: a switch without flow control or loss. Each host sends to it at the link's rate, one
/// message after the other, and receives from it likewise.
#[derive(Debug)]
pub(super) struct ServerLink {
    plan: ServerPlan,
    /// Instants from which each host may send and receive the next message.
    free_at: Box<[[Time; 2]]>,
    /// Messages and acknowledgements in flight, by the instants of their next events, then by insertion.
    in_flight: BTreeMap<(Time, u64), MessageInFlight>,
    inserted: u64,
}

/// Message or its acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(super) struct MessageInFlight {
    /// Number of the sending host.
    pub(super) from: usize,
    pub(super) message: ServerMessage,
    pub(super) stage: MessageStage,
}

/// Next event of a message in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageStage {
    /// Arrival of the first byte at the receiving host's end, where it may wait.
    Begin,
    /// Arrival of the last byte.
    End,
    /// Arrival of the acknowledgement.
    Ack,
}

impl ServerPlace {
    /// Returns the place of each host and further port of a scenario; none if each host runs by itself.
    pub(super) fn for_scenario(scenario: &Scenario) -> Vec<ServerPlace> {
        let (ports, servers) = (scenario.host_ports(), scenario.servers);
        let hosts = servers.map_or(1, |plan| plan.hosts);
        if ports.hosts().next().is_none() && hosts == 1 {
            return Vec::new();
        }
        let place = |(port, plan): (usize, &HostPlan)| {
            let host = plan.first_port.unwrap_or(port);
            let number = ports.number(port as u32) * hosts + host % hosts;
            let link = servers.filter(|_| number == 0 && hosts > 1).map(|plan| Box::new(ServerLink::new(plan)));
            ServerPlace {
                first: host - host % hosts,
                number,
                hosts,
                count: hosts * ports.count(host as u32),
                is_up: true,
                last_sender: number,
                failed_over: 0,
                link,
            }
        };
        scenario.hosts.iter().enumerate().map(place).collect()
    }
}

impl ServerLink {
    fn new(plan: ServerPlan) -> ServerLink {
        let free_at = vec![[Time::ZERO; 2]; plan.hosts].into();
        ServerLink { plan, free_at, in_flight: BTreeMap::new(), inserted: 0 }
    }

    /// Returns the instant of the next call of [`ServerLink::poll`].
    pub(super) fn next_wakeup(&self) -> Time {
        self.in_flight.first_key_value().map_or(Time::NEVER, |((at, _), _)| *at)
    }

    /// Sends a message from a host.
    pub(super) fn send(&mut self, from: usize, message: ServerMessage) {
        let ServerLink { plan, free_at, .. } = self;
        let sends = &mut free_at[from][0];
        let start = message.start.max(*sends);
        *sends = start + plan.rate.time_for(message.size);
        self.put(start + self.plan.delay, MessageInFlight { from, message, stage: MessageStage::Begin });
    }

    /// Takes the next message or acknowledgement that has arrived by `now`.
    pub(super) fn poll(&mut self, now: Time) -> Option<MessageInFlight> {
        loop {
            let entry = self.in_flight.first_entry().filter(|entry| entry.key().0 <= now)?;
            let at = entry.key().0;
            let arrival = entry.remove();
            match arrival.stage {
                MessageStage::Begin => {
                    let receives = &mut self.free_at[arrival.message.to.host as usize][1];
                    *receives = at.max(*receives) + self.plan.rate.time_for(arrival.message.size);
                    let end = *receives;
                    self.put(end, MessageInFlight { stage: MessageStage::End, ..arrival });
                }
                MessageStage::End => {
                    self.put(at + self.plan.delay, MessageInFlight { stage: MessageStage::Ack, ..arrival });
                    return Some(arrival);
                }
                MessageStage::Ack => return Some(arrival),
            }
        }
    }

    fn put(&mut self, at: Time, message: MessageInFlight) {
        self.in_flight.insert((at, self.inserted), message);
        self.inserted += 1;
    }
}

#[cfg(test)]
mod tests {
    use weir_nic::host::ServerPeer;
    use weir_units::{BitRate, Bytes, Span};

    use super::*;

    /// Host 0 sends two messages to host 1 and one to host 2; host 1 sends one to host 2, which arrives first.
    #[test]
    fn messages_wait_at_both_ends() {
        let plan = ServerPlan { hosts: 3, rate: BitRate::gbps(8), delay: Span::from_nanos(50) };
        let mut link = ServerLink::new(plan);
        let at = |ns: u64| Time::from_nanos(ns);
        let message = |start: u64, host: u32, bytes: u64| {
            let to = ServerPeer { host, receiver: 0 };
            ServerMessage { start: at(start), sender: 0, to, channel: 0, size: Bytes::new(bytes) }
        };
        [(0, message(0, 1, 100)), (0, message(0, 1, 100)), (0, message(0, 2, 100)), (1, message(30, 2, 200))]
            .into_iter()
            .for_each(|(from, message)| link.send(from, message));
        let mut seen = Vec::new();
        while link.next_wakeup() < Time::NEVER {
            let now = link.next_wakeup();
            while let Some(MessageInFlight { from, message, stage }) = link.poll(now) {
                seen.push((now.as_nanos(), from, message.to.host, stage == MessageStage::Ack));
            }
        }
        let expected = [
            (150, 0, 1, false),
            (200, 0, 1, true),
            (250, 0, 1, false),
            (280, 1, 2, false),
            (300, 0, 1, true),
            (330, 1, 2, true),
            (380, 0, 2, false),
            (430, 0, 2, true),
        ];
        assert_eq!(seen, expected);
    }
}
