//! Queue pairs of ranks in guests. A program in each guest, `rank.py`, has them, and exchanges lines with this process.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use weir_nic::host::ServerMessage;

use super::{RankArrival, RankNetwork};
use crate::guest::{GuestProgram, RunningGuest};
use crate::perftest;

/// Longest time until the queue pairs of a guest are connected, on a guest emulated together with others.
const CONNECT_WITHIN: Duration = Duration::from_secs(300);
/// Most queue pairs of a guest: the completions of more may not fit its completion queue.
const QUEUE_PAIRS_MAX: usize = 250;
/// Longest wait for a line before the peers are looked at again.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// State shared by the guests of a network.
#[derive(Debug)]
pub(super) struct QueuePairExchange {
    /// Queue pair, key, memory and MTU of each end, as the guests write them. Ends of connection c are 2c, which sends, and 2c + 1.
    addresses: Mutex<Vec<Option<String>>>,
    /// Messages of each connection that have not arrived.
    in_flight: Mutex<Vec<VecDeque<ServerMessage>>>,
}

/// Connected queue pairs of a rank's guest.
#[derive(Debug)]
pub(super) struct RankQueuePairs {
    program: GuestProgram,
    exchange: Arc<QueuePairExchange>,
    ends: BTreeMap<usize, QueuePairEnd>,
    /// Sending end at each place of the host.
    sending: BTreeMap<u32, usize>,
}

#[derive(Debug)]
struct QueuePairEnd {
    /// Name of the host at the other end.
    peer: String,
    /// Number of the first message that is not done: its place among those of the connection.
    first: u32,
    /// Messages of a sending end that are not acknowledged.
    sent: VecDeque<ServerMessage>,
    /// Bytes of the first message that have arrived.
    arrived: u64,
}

impl QueuePairExchange {
    pub(super) fn new(connections: usize) -> QueuePairExchange {
        let (addresses, in_flight) = (vec![None; connections * 2], vec![VecDeque::new(); connections]);
        QueuePairExchange { addresses: Mutex::new(addresses), in_flight: Mutex::new(in_flight) }
    }
}

impl RankQueuePairs {
    /// Starts the program in the guest of a host, and connects its queue pairs with those of the others.
    ///
    /// # Errors
    /// The program fails, a peer does not answer in time, or `stop` is set.
    pub(super) fn open(
        network: &RankNetwork,
        host: usize,
        guest: &RunningGuest,
        stop: &AtomicBool,
    ) -> io::Result<RankQueuePairs> {
        let timeout = perftest::ack_timeout(network.dilation);
        let command = format!(
            "PYTHONPATH=/usr/lib/python3/dist-packages exec python3 -SB /rank.py {} {timeout}",
            network.host(host).ip
        );
        let program = guest.start(&command).map_err(io::Error::other)?;
        let exchange = network.queue_pairs.clone();
        let mut all = RankQueuePairs { program, exchange, ends: BTreeMap::new(), sending: BTreeMap::new() };
        let deadline = Instant::now() + CONNECT_WITHIN;
        all.wait_for_line(deadline, stop, |_, fields| fields == ["ready"])?;
        for (number, connection) in network.connections.iter().enumerate() {
            for side in [0, 1] {
                if connection.hosts[side] == host {
                    all.ask_for_end(network, number, side);
                }
            }
        }
        let mut unconnected: Vec<usize> = all.ends.keys().copied().collect();
        if unconnected.len() > QUEUE_PAIRS_MAX {
            let count = unconnected.len();
            return Err(io::Error::other(format!(
                "it has {count} queue pairs, and a guest has {QUEUE_PAIRS_MAX} at most: take ranks or workloads out"
            )));
        }
        let mut made = 0;
        while made < unconnected.len() {
            all.wait_for_line(deadline, stop, |all, fields| {
                let ["end", end, ..] = fields else { return false };
                let address = fields[2..].join(" ");
                let mut addresses = all.exchange.addresses.lock().expect("nobody panics with it");
                end.parse().ok().and_then(|end: usize| addresses.get_mut(end)).map(|at| *at = Some(address)).is_some()
            })?;
            made += 1;
        }
        while let Some(end) = unconnected.pop() {
            let peer = loop {
                let addresses = all.exchange.addresses.lock().expect("nobody panics with it");
                if let Some(peer) = addresses[end ^ 1].clone() {
                    break peer;
                }
                drop(addresses);
                all.give_up_after(deadline, stop)?;
                std::thread::sleep(LOOK_EVERY);
            };
            all.program.write(&format!("peer {end} {peer}"));
            all.wait_for_line(deadline, stop, |_, fields| matches!(fields, ["up", ..]))?;
        }
        Ok(all)
    }

    fn ask_for_end(&mut self, network: &RankNetwork, connection: usize, side: usize) {
        let of_network = &network.connections[connection];
        let peer = network.host(of_network.hosts[1 - side]);
        let (end, traffic_class) = (2 * connection + side, of_network.dscp.get() << 2 | perftest::ECT_0);
        self.program.write(&format!("end {end} {} {traffic_class}", peer.ip));
        let queue_pair = QueuePairEnd { peer: peer.name().to_owned(), first: 0, sent: VecDeque::new(), arrived: 0 };
        self.ends.insert(end, queue_pair);
        if side == 0 {
            self.sending.insert(of_network.ends.sender as u32, end);
        }
    }

    /// Waits for a line that `is_awaited` accepts; ignores others.
    fn wait_for_line(
        &mut self,
        deadline: Instant,
        stop: &AtomicBool,
        is_awaited: impl Fn(&mut RankQueuePairs, &[&str]) -> bool,
    ) -> io::Result<()> {
        loop {
            while let Some(line) = self.program.poll_line()? {
                let fields: Vec<&str> = line.split_whitespace().collect();
                if is_awaited(self, &fields) {
                    return Ok(());
                }
            }
            self.give_up_after(deadline, stop)?;
            self.program.wait(LOOK_EVERY);
        }
    }

    fn give_up_after(&self, deadline: Instant, stop: &AtomicBool) -> io::Result<()> {
        if stop.load(Ordering::Relaxed) {
            return Err(ErrorKind::Interrupted.into());
        }
        if Instant::now() > deadline {
            let seconds = CONNECT_WITHIN.as_secs();
            return Err(io::Error::new(
                ErrorKind::TimedOut,
                format!("its queue pairs are not connected after {seconds} s"),
            ));
        }
        Ok(())
    }

    /// Queues a message to another host.
    pub(super) fn send(&mut self, message: ServerMessage) {
        let end = self.sending[&message.sender];
        let queue_pair = self.ends.get_mut(&end).expect("a sending end is an end");
        let number = queue_pair.first.wrapping_add(queue_pair.sent.len() as u32);
        queue_pair.sent.push_back(message);
        // Before it is on its way.
        self.exchange.in_flight.lock().expect("nobody panics with it")[end / 2].push_back(message);
        self.program.write(&format!("send {end} {number} {}", message.size.get()));
    }

    /// Sends and receives without waiting; calls `handle` with each arrival. Returns whether anything moved.
    ///
    /// # Errors
    /// A queue pair has failed, or the program has ended.
    pub(super) fn exchange(&mut self, mut handle: impl FnMut(RankArrival)) -> io::Result<bool> {
        let mut moved = false;
        while let Some(line) = self.program.poll_line()? {
            moved = true;
            let fields: Vec<&str> = line.split_whitespace().collect();
            let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
            let Some((end, queue_pair)) =
                number(1).and_then(|end| Some((end as usize, self.ends.get_mut(&(end as usize))?)))
            else {
                continue;
            };
            match (fields[0], number(2), number(3)) {
                ("acked", Some(message), None) => handle(RankArrival::Ack(queue_pair.on_ack(message)?)),
                ("arrived", Some(message), Some(bytes)) => {
                    let mut in_flight = self.exchange.in_flight.lock().expect("nobody panics with it");
                    if let Some(message) = queue_pair.on_write(message, bytes, &mut in_flight[end / 2])? {
                        handle(RankArrival::Message(message));
                    }
                }
                ("failed", ..) => {
                    let (peer, direction) = (&queue_pair.peer, ["to", "from"][end % 2]);
                    let status = fields.get(2).unwrap_or(&"no status");
                    return Err(io::Error::other(format!(
                        "its queue pair {direction} the rank on host {peer} has ended with {status}"
                    )));
                }
                _ => {}
            }
        }
        Ok(moved)
    }

    /// Waits until the guest has written, for this long at most.
    pub(super) fn wait(&self, most: Duration) {
        self.program.wait(most);
    }
}

impl QueuePairEnd {
    fn on_ack(&mut self, number: u64) -> io::Result<ServerMessage> {
        match self.sent.pop_front() {
            Some(message) if number == u64::from(self.first) => {
                self.first = self.first.wrapping_add(1);
                Ok(message)
            }
            _ => Err(self.wrong(&format!("message {number} is acknowledged, not {}", self.first))),
        }
    }

    /// Counts bytes of a message; returns the message if they are the last.
    fn on_write(
        &mut self,
        number: u64,
        bytes: u64,
        in_flight: &mut VecDeque<ServerMessage>,
    ) -> io::Result<Option<ServerMessage>> {
        self.arrived += bytes;
        match in_flight.front().map(|message| message.size.get()) {
            Some(size) if number == u64::from(self.first) && self.arrived <= size => {
                if self.arrived < size {
                    return Ok(None);
                }
                (self.first, self.arrived) = (self.first.wrapping_add(1), 0);
                Ok(in_flight.pop_front())
            }
            size => Err(self.wrong(&format!(
                "{} B of message {number} have arrived, not {} B of message {}",
                self.arrived,
                size.unwrap_or(0),
                self.first
            ))),
        }
    }

    fn wrong(&self, what: &str) -> io::Error {
        io::Error::new(ErrorKind::InvalidData, format!("its queue pair with the rank on host {}: {what}", self.peer))
    }
}

#[cfg(test)]
mod tests {
    use weir_nic::host::ServerPeer;
    use weir_units::{Bytes, Time};

    use super::*;

    fn message(size: u64) -> ServerMessage {
        let to = ServerPeer { host: 1, receiver: 5 };
        ServerMessage { start: Time::ZERO, sender: 3, to, channel: 9, size: Bytes::new(size) }
    }

    fn queue_pair() -> QueuePairEnd {
        QueuePairEnd { peer: "B".to_owned(), first: 0, sent: VecDeque::new(), arrived: 0 }
    }

    #[test]
    fn a_message_has_arrived_with_its_last_byte() {
        let (mut end, mut in_flight) = (queue_pair(), VecDeque::from([message(2_500_000), message(1)]));
        let mut receive =
            |number, bytes| end.on_write(number, bytes, &mut in_flight).map_err(|error| error.to_string());
        assert_eq!(receive(0, 1 << 20), Ok(None));
        assert_eq!(receive(0, 1 << 20), Ok(None));
        assert_eq!(receive(0, 2_500_000 - (2 << 20)), Ok(Some(message(2_500_000))));
        assert_eq!(receive(1, 1), Ok(Some(message(1))));
        let nothing = "its queue pair with the rank on host B: 7 B of message 2 have arrived, not 0 B of message 2";
        assert_eq!(receive(2, 7), Err(nothing.to_owned()));
    }

    #[test]
    fn bytes_beyond_a_message_and_other_messages_are_errors() {
        let receive = |number, bytes| queue_pair().on_write(number, bytes, &mut VecDeque::from([message(10)]));
        assert!(
            receive(0, 11).unwrap_err().to_string().ends_with("11 B of message 0 have arrived, not 10 B of message 0")
        );
        assert!(
            receive(1, 10).unwrap_err().to_string().ends_with("10 B of message 1 have arrived, not 10 B of message 0")
        );
    }

    #[test]
    fn messages_are_acknowledged_in_order() {
        let mut end = queue_pair();
        end.sent.extend([message(1), message(2)]);
        assert_eq!(end.on_ack(0).unwrap(), message(1));
        assert_eq!(end.on_ack(1).unwrap(), message(2));
        assert!(end.on_ack(2).is_err());
        end.sent.push_back(message(3));
        assert!(end.on_ack(3).unwrap_err().to_string().ends_with("message 3 is acknowledged, not 2"));
    }
}
