//! Links among the hosts of a server, such as NVLink, which carry messages of ranks.

use std::collections::BTreeMap;

use weir_nic::host::ServerMessage;
use weir_scenario::ServerPlan;
use weir_units::Time;

/// Place of a host in its server.
#[derive(Debug)]
pub(super) struct ServerPlace {
    /// Number of the host in the server.
    pub(super) number: usize,
    /// Number of hosts of the server.
    pub(super) count: usize,
    /// Link of the server; with its first host only.
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
    /// Returns the place of a host, by its number in the scenario; `None` if it is its server's only host.
    pub(super) fn of_host(host: usize, plan: &ServerPlan) -> Option<Box<ServerPlace>> {
        let (number, count) = (host % plan.hosts, plan.hosts);
        let link = || {
            let free_at = vec![[Time::ZERO; 2]; count].into();
            Box::new(ServerLink { plan: *plan, free_at, in_flight: BTreeMap::new(), inserted: 0 })
        };
        let link = (number == 0).then(link);
        (count > 1).then(|| Box::new(ServerPlace { number, count, link }))
    }
}

impl ServerLink {
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
        let mut link = ServerPlace::of_host(0, &plan).unwrap().link.unwrap();
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
