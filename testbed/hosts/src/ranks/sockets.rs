//! TCP connections between ranks in network namespaces. A message is a header and its payload; the receiver answers with the header.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::PollFd;
use rustix::net::sockopt;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use weir_nic::host::{Connection, ServerMessage, ServerPeer};
use weir_units::{Bytes, Time};

use super::{RankArrival, RankConnection, RankNetwork};
use crate::nonblocking::{self, events};

/// Port at which each rank listens.
const PORT: u16 = 18_514;
/// Longest time until all connections of a rank are open.
const CONNECT_WITHIN: Duration = Duration::from_secs(30);
const RETRY_EVERY: Duration = Duration::from_millis(50);
const HELLO_BYTES: usize = 12;
const HEADER_BYTES: usize = 16;
const CHUNK_BYTES: usize = 1 << 16;

/// Open connections of a rank's host.
#[derive(Debug)]
pub(super) struct RankSockets {
    sending: Vec<SenderSocket>,
    receiving: Vec<ReceiverSocket>,
    /// Payload to send, and room for received payload.
    payload: Box<[u8]>,
}

#[derive(Debug)]
struct SenderSocket {
    stream: TcpStream,
    connection: RankConnection,
    waiting: VecDeque<ServerMessage>,
    header: PartialHeader,
    /// Payload of the current message that has not been sent.
    left: usize,
    answer: PartialHeader,
}

#[derive(Debug)]
struct ReceiverSocket {
    stream: TcpStream,
    connection: RankConnection,
    header: PartialHeader,
    /// Payload of the current message that has not arrived.
    left: usize,
    /// Answers to send.
    answers: VecDeque<u8>,
}

/// Header, of which some bytes have been sent or have arrived.
#[derive(Debug, Default)]
struct PartialHeader {
    bytes: [u8; HEADER_BYTES],
    done: usize,
}

impl RankSockets {
    /// Opens the connections of a host: moves the calling thread into the host's namespace, listens, connects, and accepts.
    ///
    /// # Errors
    /// The namespace can't be entered, a peer does not answer in time, or `stop` is set.
    pub(super) fn open(
        network: &RankNetwork,
        host: usize,
        namespace: &str,
        stop: &AtomicBool,
    ) -> io::Result<RankSockets> {
        let link = File::open(Path::new("/run/netns").join(namespace))?;
        move_into_link_name_space(link.as_fd(), Some(LinkNameSpaceType::Network))?;
        let address = |host: usize| SocketAddr::from((network.host(host).ip, PORT));
        RankSockets::connect(network, host, &TcpListener::bind(address(host))?, address, stop)
    }

    fn connect(
        network: &RankNetwork,
        host: usize,
        listener: &TcpListener,
        address: impl Fn(usize) -> SocketAddr,
        stop: &AtomicBool,
    ) -> io::Result<RankSockets> {
        let deadline = Instant::now() + CONNECT_WITHIN;
        let mut sending = Vec::new();
        for (number, connection) in network.connections.iter().enumerate().filter(|(_, one)| one.hosts[0] == host) {
            let peer = address(connection.hosts[1]);
            let mut stream = until(deadline, stop, &format!("to {peer}"), || {
                TcpStream::connect_timeout(&peer, Duration::from_secs(5))
            })?;
            let mut hello = [0; HELLO_BYTES];
            hello[..8].copy_from_slice(&network.token.to_be_bytes());
            hello[8..].copy_from_slice(&(number as u32).to_be_bytes());
            prepare(&stream, connection)?;
            stream.write_all(&hello)?;
            stream.set_nonblocking(true)?;
            sending.push(SenderSocket {
                stream,
                connection: *connection,
                waiting: VecDeque::new(),
                header: PartialHeader::sent(),
                left: 0,
                answer: PartialHeader::default(),
            });
        }
        listener.set_nonblocking(true)?;
        let awaited = network.connections.iter().filter(|one| one.hosts[1] == host).count();
        let mut receiving: Vec<ReceiverSocket> = Vec::new();
        while receiving.len() < awaited {
            let (mut stream, _) = until(deadline, stop, "from another rank", || listener.accept())?;
            stream.set_nonblocking(false)?;
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            let mut hello = [0; HELLO_BYTES];
            if stream.read_exact(&mut hello).is_err() || hello[..8] != network.token.to_be_bytes() {
                continue;
            }
            let number = u32::from_be_bytes(hello[8..].try_into().expect("four bytes"));
            let Some(connection) = network.connections.get(number as usize) else { continue };
            prepare(&stream, connection)?;
            stream.set_nonblocking(true)?;
            receiving.push(ReceiverSocket {
                stream,
                connection: *connection,
                header: PartialHeader::default(),
                left: 0,
                answers: VecDeque::new(),
            });
        }
        let payload = (0..CHUNK_BYTES).map(|n| n as u8).collect();
        Ok(RankSockets { sending, receiving, payload })
    }

    /// Queues a message to another host.
    pub(super) fn send(&mut self, message: ServerMessage) {
        let of_message = |socket: &&mut SenderSocket| socket.connection.ends.sender == message.sender as usize;
        let socket = self.sending.iter_mut().find(of_message).expect("a message has a connection");
        socket.waiting.push_back(message);
    }

    /// Sends and receives without waiting; calls `handle` with each arrival. Returns whether any byte moved.
    ///
    /// # Errors
    /// A connection has ended.
    pub(super) fn exchange(&mut self, mut handle: impl FnMut(RankArrival)) -> io::Result<bool> {
        let mut moved = false;
        for socket in &mut self.sending {
            moved |= socket.write(&self.payload)? | socket.read(&mut handle)?;
        }
        for socket in &mut self.receiving {
            moved |= socket.read(&mut self.payload, &mut handle)? | socket.write()?;
        }
        Ok(moved)
    }

    /// Waits until a connection can go on, for this long at most.
    pub(super) fn wait(&self, most: Duration) {
        let sending = self.sending.iter().map(|one| PollFd::new(&one.stream, events(!one.is_idle())));
        let receiving = self.receiving.iter().map(|one| PollFd::new(&one.stream, events(!one.answers.is_empty())));
        nonblocking::wait(&mut sending.chain(receiving).collect::<Vec<_>>(), most);
    }
}

impl SenderSocket {
    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.left == 0 && self.header.is_complete()
    }

    fn write(&mut self, payload: &[u8]) -> io::Result<bool> {
        let mut moved = false;
        loop {
            if self.left == 0 && self.header.is_complete() {
                let Some(message) = self.waiting.pop_front() else { return Ok(moved) };
                self.header = PartialHeader::from_message(&message);
                self.left = message.size.get() as usize;
            }
            let (header, left) = (&mut self.header, &mut self.left);
            let sent = if header.is_complete() {
                bytes_moved(self.stream.write(&payload[..payload.len().min(*left)]))?.inspect(|sent| *left -= sent)
            } else {
                bytes_moved(self.stream.write(&header.bytes[header.done..]))?.inspect(|sent| header.done += sent)
            };
            if sent.is_none() {
                return Ok(moved);
            }
            moved = true;
        }
    }

    fn read(&mut self, handle: &mut impl FnMut(RankArrival)) -> io::Result<bool> {
        let mut moved = false;
        while let Some(bytes) = bytes_moved(self.stream.read(&mut self.answer.bytes[self.answer.done..]))? {
            moved = true;
            self.answer.done += bytes;
            if self.answer.is_complete() {
                handle(RankArrival::Ack(std::mem::take(&mut self.answer).message(&self.connection)));
            }
        }
        Ok(moved)
    }
}

impl ReceiverSocket {
    fn read(&mut self, room: &mut [u8], handle: &mut impl FnMut(RankArrival)) -> io::Result<bool> {
        let mut moved = false;
        loop {
            if !self.header.is_complete() {
                let Some(bytes) = bytes_moved(self.stream.read(&mut self.header.bytes[self.header.done..]))? else {
                    break;
                };
                self.header.done += bytes;
                if self.header.is_complete() {
                    self.left = self.header.message(&self.connection).size.get() as usize;
                }
            } else {
                let most = room.len().min(self.left);
                let Some(bytes) = bytes_moved(self.stream.read(&mut room[..most]))? else { break };
                self.left -= bytes;
                if self.left == 0 {
                    let header = std::mem::take(&mut self.header);
                    self.answers.extend(header.bytes);
                    handle(RankArrival::Message(header.message(&self.connection)));
                }
            }
            moved = true;
        }
        Ok(moved)
    }

    fn write(&mut self) -> io::Result<bool> {
        let mut moved = false;
        while !self.answers.is_empty()
            && let Some(sent) = bytes_moved(self.stream.write(self.answers.as_slices().0))?
        {
            self.answers.drain(..sent);
            moved = true;
        }
        Ok(moved)
    }
}

impl PartialHeader {
    fn sent() -> PartialHeader {
        PartialHeader { done: HEADER_BYTES, ..PartialHeader::default() }
    }

    fn from_message(message: &ServerMessage) -> PartialHeader {
        let mut header = PartialHeader::default();
        header.bytes[..8].copy_from_slice(&message.start.as_picos().to_be_bytes());
        header.bytes[8..12].copy_from_slice(&message.channel.to_be_bytes());
        header.bytes[12..].copy_from_slice(&(message.size.get() as u32).to_be_bytes());
        header
    }

    fn is_complete(&self) -> bool {
        self.done == HEADER_BYTES
    }

    fn message(&self, connection: &RankConnection) -> ServerMessage {
        let number = |at: usize| u32::from_be_bytes(self.bytes[at..at + 4].try_into().expect("four bytes"));
        let Connection { sender, receiver } = connection.ends;
        ServerMessage {
            start: Time::from_picos(u64::from(number(0)) << 32 | u64::from(number(4))),
            sender: sender as u32,
            to: ServerPeer { host: connection.hosts[1] as u32, receiver: receiver as u32 },
            channel: number(8),
            size: Bytes::new(u64::from(number(12))),
        }
    }
}

/// Sends small messages at once, with the connection's code point.
fn prepare(stream: &TcpStream, connection: &RankConnection) -> io::Result<()> {
    stream.set_nodelay(true)?;
    Ok(sockopt::set_ip_tos(stream, connection.dscp.get() << 2)?)
}

/// Tries to open a connection until the deadline; `end` names its other end.
fn until<T>(
    deadline: Instant,
    stop: &AtomicBool,
    end: &str,
    mut attempt: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    loop {
        match attempt() {
            Ok(done) => return Ok(done),
            Err(error) if Instant::now() > deadline => {
                return Err(io::Error::new(error.kind(), format!("no connection {end}: {error}")));
            }
            Err(_) if stop.load(Ordering::Relaxed) => return Err(ErrorKind::Interrupted.into()),
            Err(_) => thread::sleep(RETRY_EVERY),
        }
    }
}

/// Returns the bytes moved; `None` if none can move now.
fn bytes_moved(moved: io::Result<usize>) -> io::Result<Option<usize>> {
    nonblocking::bytes_moved(moved, "the other rank closed the connection")
}

#[cfg(test)]
mod tests {
    use weir_wire::rocev2::Dscp;

    use super::*;

    #[test]
    fn messages_arrive_and_are_acknowledged() {
        let listeners = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
        let addresses = [0, 1].map(|host: usize| listeners[host].local_addr().unwrap());
        let connection = |from: usize, sender, receiver| RankConnection {
            hosts: [from, 1 - from],
            ends: Connection { sender, receiver },
            dscp: Dscp::new(26),
        };
        let connections = vec![connection(0, 3, 5), connection(1, 4, 6)];
        let network = RankNetwork::new(connections, Vec::new(), 1);
        // A connection of another run is not one of these.
        let mut stranger = TcpStream::connect(addresses[1]).unwrap();
        stranger.write_all(&[0; HELLO_BYTES]).unwrap();
        let never = AtomicBool::new(false);
        let open = |host: usize| {
            RankSockets::connect(&network, host, &listeners[host], |peer| addresses[peer], &never).unwrap()
        };
        let [mut other, mut one] = thread::scope(|scope| {
            let first = scope.spawn(|| open(0));
            [open(1), first.join().unwrap()]
        });
        let message = |sender, receiver, to, channel, size| ServerMessage {
            start: Time::from_picos(0xab_cdef_0123_4567),
            sender,
            to: ServerPeer { host: to, receiver },
            channel,
            size: Bytes::new(size),
        };
        let there = [message(3, 5, 1, 9, 1), message(3, 5, 1, 2, 3_000_000), message(3, 5, 1, 9, 70_000)];
        let back = message(4, 6, 0, 0, 100_000);
        there.iter().for_each(|message| one.send(*message));
        other.send(back);
        let (mut at_one, mut at_other) = (Vec::new(), Vec::new());
        while at_one.len() < 4 || at_other.len() < 4 {
            let moved = one.exchange(|arrival| at_one.push(arrival)).unwrap()
                | other.exchange(|arrival| at_other.push(arrival)).unwrap();
            if !moved {
                one.wait(Duration::from_millis(1));
            }
        }
        let is_ack = |arrival: &RankArrival| matches!(arrival, RankArrival::Ack(_));
        let split = |all: Vec<RankArrival>| all.into_iter().partition::<Vec<_>, _>(is_ack);
        assert_eq!(split(at_one), (there.map(RankArrival::Ack).to_vec(), vec![RankArrival::Message(back)]));
        assert_eq!(split(at_other), (vec![RankArrival::Ack(back)], there.map(RankArrival::Message).to_vec()));
        drop(other);
        let has_ended = |_| {
            one.wait(Duration::from_secs(1));
            one.exchange(|_| {}).is_err()
        };
        assert!((0..100).any(has_ended), "the other rank has closed its connections");
    }
}
