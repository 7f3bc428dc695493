//! Messages in captured frames: those of RoCEv2, and stretches of TCP data.
//!
//! A retransmitted packet counts once. A frame that was captured at several places counts at the first,
//! and the files of a rotated capture are one.

mod rdma;
mod tcp;

use std::collections::BTreeMap;
use std::net::IpAddr;

use weir_units::Span;

use crate::capture::{Capture, CaptureTime, STEP_BACK_MAX};
use crate::headers::{Network, Transport, network};

/// Message between two hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedMessage {
    /// Capture time of the first packet.
    pub at: CaptureTime,
    /// Sender of the data.
    pub from: IpAddr,
    /// Receiver of the data.
    pub to: IpAddr,
    /// DSCP of the first packet.
    pub dscp: u8,
    /// Payload in bytes.
    pub bytes: u64,
    /// Number of the connection, from 0.
    pub connection: usize,
    /// Whether both the beginning and the end were captured.
    pub is_complete: bool,
    /// Whether the message is of TCP; otherwise it is of RoCEv2.
    pub is_tcp: bool,
}

/// Messages of a set of captures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// Messages, by their beginning.
    pub messages: Vec<CapturedMessage>,
    /// Packets of RoCEv2 and TCP with data.
    pub packets: u64,
    /// Retransmitted packets among them.
    pub sent_again: u64,
    /// Packets of connections that an earlier capture has, too.
    pub seen_elsewhere: u64,
    /// Packets missing from the captures: gaps in sequence numbers that were not filled.
    pub missing: u64,
    /// Acknowledgements, congestion notifications and other replies to messages.
    pub answers: u64,
    /// Frames without data of RoCEv2 or TCP.
    pub others: u64,
    /// Capture time of the last frame.
    pub last: CaptureTime,
}

/// Packet from its transport header on: the captured bytes, and its length.
#[derive(Clone, Copy)]
struct CapturedSegment<'f> {
    head: &'f [u8],
    bytes: usize,
}

/// Classification of a packet by its transport.
enum PacketClass {
    /// Data, either new or retransmitted.
    Data { again: bool },
    /// A packet without data.
    Answer,
}

impl Recording {
    /// Reads captures with a common clock. TCP data after a pause of `idle` is another message.
    pub fn from_captures(captures: &[Capture], idle: Span) -> Recording {
        let mut frames: Vec<(CaptureTime, usize, usize)> = Vec::new();
        for (capture_index, capture) in captures.iter().enumerate() {
            frames.extend(capture.frames().iter().enumerate().map(|(number, frame)| (frame.at, capture_index, number)));
        }
        frames.sort();
        let mut recording =
            Recording { last: frames.last().map_or(CaptureTime::default(), |last| last.0), ..Recording::default() };
        let spans = captures.iter().map(|capture| (capture.first(), capture.last())).collect();
        let mut connections = Connections { idle, spans, ..Connections::default() };
        for (at, capture_index, number) in frames {
            let capture = &captures[capture_index];
            let frame = &capture.frames()[number];
            connections.add_frame(
                network(capture.bytes(frame), frame.length),
                capture.bytes(frame),
                at,
                capture_index,
                &mut recording,
            );
        }
        connections.finish(&mut recording);
        recording.messages.sort_by_key(|message| (message.at, message.connection));
        recording
    }
}

/// Key of a connection's direction: addresses, and the queue pair or the ports.
type Key = (IpAddr, IpAddr, u64, bool);

/// Times of a capture's first and last frame.
type CaptureSpan = (CaptureTime, CaptureTime);

#[derive(Default)]
struct Connections {
    idle: Span,
    spans: Vec<CaptureSpan>,
    numbers: BTreeMap<Key, usize>,
    all: Vec<Connection>,
}

struct Connection {
    /// First capture with the connection; after its end a later one.
    capture_index: usize,
    flow: Flow,
}

enum Flow {
    Rdma(rdma::Flow),
    Tcp(tcp::Flow),
}

/// Addresses and connection of a direction's messages.
#[derive(Clone, Copy)]
struct ConnectionDirection {
    from: IpAddr,
    to: IpAddr,
    connection: usize,
}

impl Connections {
    fn add_frame(
        &mut self,
        network: Network,
        frame: &[u8],
        at: CaptureTime,
        capture_index: usize,
        recording: &mut Recording,
    ) {
        let Network::Ip(ip) = network else {
            recording.others += 1;
            return;
        };
        let [from, to] = ip.addresses;
        let body =
            |start: usize| CapturedSegment { head: &frame[start..ip.end.min(frame.len())], bytes: ip.end - start };
        let (key, is_rdma) = match ip.transport {
            Transport::Udp(start) => match rdma::queue_pair(body(start)) {
                Some(queue_pair) => ((from, to, u64::from(queue_pair), false), true),
                None => {
                    recording.others += 1;
                    return;
                }
            },
            Transport::Tcp(start) => ((from, to, tcp::ports(body(start).head), true), false),
            _ => {
                recording.others += 1;
                return;
            }
        };
        let next = self.all.len();
        let number = *self.numbers.entry(key).or_insert(next);
        if number == next {
            let flow = if is_rdma { Flow::Rdma(rdma::Flow::default()) } else { Flow::Tcp(tcp::Flow::default()) };
            self.all.push(Connection { capture_index, flow });
        }
        let connection = &mut self.all[number];
        // The next file of a rotated capture goes on with the connection, as does any other one after the end of the first.
        let known = connection.capture_index;
        if follows(self.spans[capture_index], self.spans[known]) || at > self.spans[known].1 {
            connection.capture_index = capture_index;
        } else if capture_index != known && !follows(self.spans[known], self.spans[capture_index]) {
            recording.seen_elsewhere += 1;
            return;
        }
        let direction = ConnectionDirection { from, to, connection: number };
        let class = match (&mut connection.flow, ip.transport) {
            (Flow::Rdma(flow), Transport::Udp(start)) => flow.on_packet(body(start), at, ip.dscp, direction, recording),
            (Flow::Tcp(flow), Transport::Tcp(start)) => {
                flow.on_packet(body(start), at, ip.dscp, self.idle, direction, recording)
            }
            _ => unreachable!("the key gives the transport"),
        };
        match class {
            PacketClass::Data { again } => {
                recording.packets += 1;
                recording.sent_again += u64::from(again);
            }
            PacketClass::Answer => recording.answers += 1,
        }
    }

    /// Ends messages whose end was not captured.
    fn finish(&mut self, recording: &mut Recording) {
        let directions: Vec<(Key, usize)> = self.numbers.iter().map(|(key, number)| (*key, *number)).collect();
        for ((from, to, ..), connection) in directions {
            let direction = ConnectionDirection { from, to, connection };
            match &mut self.all[connection].flow {
                Flow::Rdma(flow) => flow.finish(direction, recording),
                Flow::Tcp(flow) => flow.finish(direction, recording),
            }
        }
    }
}

/// Whether a capture goes on where another one ends. They may overlap by as much as frames within one are out of order, and by less than
/// half of either.
fn follows(later: CaptureSpan, earlier: CaptureSpan) -> bool {
    let overlap = earlier.1.0 - later.0.0;
    let shorter = (earlier.1.0 - earlier.0.0).min(later.1.0 - later.0.0);
    later.1 > earlier.1 && overlap <= i128::from(STEP_BACK_MAX.as_picos()) && overlap <= shorter / 2
}

#[cfg(test)]
mod tests;
