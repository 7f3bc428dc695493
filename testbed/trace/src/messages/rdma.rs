//! Messages of RoCEv2, by opcodes and packet sequence numbers (IBA 9.2.1, 9.7).
//!
//! A message's size is that of its RETH. SENDs and READ responses have none, and the capture may lack it: then sequence numbers give the
//! size.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use weir_units::Span;
use weir_wire::rocev2::{Psn, UDP_PORT};

use super::{CapturedMessage, CapturedSegment, ConnectionDirection, PacketClass, Recording};
use crate::capture::CaptureTime;
use crate::headers::{UDP_AND_BTH_BYTES, word};

const UDP_BYTES: usize = 8;
const ICRC_BYTES: usize = 4;
const RETH_BYTES: usize = 16;
const ATOMIC_BYTES: usize = 28;
const READ_REQUEST: u8 = 0x0c;
/// Distance of sequence numbers up to which packets are of one connection and message.
const PACKETS_BEHIND_MAX: i64 = 1 << 16;
/// Latest retransmission of a packet; a queue pair with the same numbers after that is a new one.
const RETRANSMISSION_MAX: Span = Span::from_secs(30);

/// Packets of one sender to one queue pair. Requests and READ responses have sequence numbers of their own.
#[derive(Default)]
pub(super) struct Flow {
    requests: PacketSequence,
    responses: PacketSequence,
}

/// Packets by sequence number, each once: captures have them out of order, and again.
#[derive(Default)]
struct PacketSequence {
    packets: BTreeMap<i64, DataPacket>,
    /// Highest sequence number, counted on beyond 2^24.
    highest: Option<i64>,
}

#[derive(Clone, Copy)]
struct DataPacket {
    at: CaptureTime,
    dscp: u8,
    position: PacketPosition,
    payload: u64,
    /// Length by the RETH.
    reth_length: Option<u64>,
    /// Whether the packet is a READ request, after which its responses' sequence numbers are left out.
    is_read: bool,
}

/// Message whose last packet was not found yet.
struct OpenMessage {
    at: CaptureTime,
    dscp: u8,
    first: i64,
    /// Sequence number of the last packet by the RETH.
    end: Option<i64>,
    has_beginning: bool,
    /// Payload of a full packet.
    full: u64,
    /// Length by the RETH.
    reth_length: Option<u64>,
    /// Sequence number and payload of the newest packet.
    newest: (i64, u64),
}

/// Position of a packet in its message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PacketPosition {
    First,
    Middle,
    Last,
    Only,
}

/// Returns the destination queue pair of a RoCEv2 datagram.
pub(super) fn queue_pair(udp: CapturedSegment<'_>) -> Option<u32> {
    let is_roce = word(udp.head, 2)? == UDP_PORT && udp.bytes >= UDP_AND_BTH_BYTES + ICRC_BYTES;
    let bth = udp.head.get(UDP_BYTES..UDP_AND_BTH_BYTES)?;
    (is_roce && bth[1] & 0x0f == 0).then(|| word24(bth, 5))
}

/// Returns the packet position of an opcode, and the bytes of headers after the BTH; `None` for an answer. The upper three
/// bits are the transport: reliable and unreliable connections, and datagrams.
fn packet_position(opcode: u8) -> Option<(PacketPosition, usize)> {
    // RETH 16, AETH 4, immediate data 4, DETH 8.
    match opcode {
        0x64 => return Some((PacketPosition::Only, 8)),
        0x65 => return Some((PacketPosition::Only, 12)),
        _ if opcode >> 5 > 1 => return None,
        _ => {}
    }
    match opcode & 0x1f {
        0x00 => Some((PacketPosition::First, 0)),
        0x01 | 0x07 => Some((PacketPosition::Middle, 0)),
        0x02 | 0x08 => Some((PacketPosition::Last, 0)),
        0x03 | 0x09 | 0x16 => Some((PacketPosition::Last, 4)),
        0x04 => Some((PacketPosition::Only, 0)),
        0x05 | 0x17 => Some((PacketPosition::Only, 4)),
        0x06 => Some((PacketPosition::First, 16)),
        0x0a => Some((PacketPosition::Only, 16)),
        0x0b => Some((PacketPosition::Only, 20)),
        READ_REQUEST => Some((PacketPosition::Only, RETH_BYTES)),
        // Atomics.
        0x13 | 0x14 => Some((PacketPosition::Only, ATOMIC_BYTES)),
        // Responses to READ.
        0x0d => Some((PacketPosition::First, 4)),
        0x0e => Some((PacketPosition::Middle, 0)),
        0x0f => Some((PacketPosition::Last, 4)),
        0x10 => Some((PacketPosition::Only, 4)),
        _ => None,
    }
}

impl Flow {
    pub(super) fn on_packet(
        &mut self,
        udp: CapturedSegment<'_>,
        at: CaptureTime,
        dscp: u8,
        direction: ConnectionDirection,
        recording: &mut Recording,
    ) -> PacketClass {
        let bth = &udp.head[UDP_BYTES..UDP_AND_BTH_BYTES];
        let opcode = bth[0];
        let Some((position, header_bytes)) = packet_position(opcode) else { return PacketClass::Answer };
        let padding = usize::from(bth[1] >> 4 & 0b11);
        let around = UDP_AND_BTH_BYTES + header_bytes + ICRC_BYTES + padding;
        let Some(payload) = udp.bytes.checked_sub(around).map(|bytes| bytes as u64) else { return PacketClass::Answer };
        let has_reth = (RETH_BYTES..ATOMIC_BYTES).contains(&header_bytes);
        let reth_length = if has_reth { long(udp.head, UDP_AND_BTH_BYTES + 12).map(u64::from) } else { None };
        let is_read = opcode & 0x1f == READ_REQUEST;
        let packet = DataPacket { at, dscp, position, payload, reth_length, is_read };
        // Datagrams of several senders may have one sequence number, and are not sent again.
        if opcode >> 5 >= 2 {
            OpenMessage::new(0, &packet).close(true, direction, recording);
            return PacketClass::Data { again: false };
        }
        let is_response = (0x0d..=0x10).contains(&(opcode & 0x1f));
        let sequence = if is_response { &mut self.responses } else { &mut self.requests };
        let again = match sequence.insert(Psn::new(word24(bth, 9)), packet) {
            Ok(again) => again,
            Err(psn) => {
                sequence.finish(is_response, direction, recording);
                sequence.insert(psn, packet).unwrap_or(false)
            }
        };
        // Without data: READ requests, atomics, and notifications by immediate data.
        if position == PacketPosition::Only && payload == 0 { PacketClass::Answer } else { PacketClass::Data { again } }
    }

    pub(super) fn finish(&mut self, direction: ConnectionDirection, recording: &mut Recording) {
        self.requests.finish(false, direction, recording);
        self.responses.finish(true, direction, recording);
    }
}

impl PacketSequence {
    /// Adds a packet, and returns whether its sequence number is known: the packet was sent again.
    ///
    /// # Errors
    /// The sequence number, if a new connection has the queue pair: another packet has the number, or had it long ago, or it is far behind.
    fn insert(&mut self, psn: Psn, packet: DataPacket) -> Result<bool, Psn> {
        // The shorter way round.
        let highest = self.highest.unwrap_or(i64::from(psn.get()));
        let number = highest + i64::from(psn.ahead_of(Psn::new(highest as u32)));
        if highest - number > PACKETS_BEHIND_MAX {
            return Err(psn);
        }
        match self.packets.entry(number) {
            Entry::Occupied(known) if !known.get().may_be_sent_again_as(&packet) => return Err(psn),
            Entry::Occupied(_) => return Ok(true),
            Entry::Vacant(place) => place.insert(packet),
        };
        self.highest = Some(highest.max(number));
        Ok(false)
    }

    /// Finds the messages in the packets, and forgets these.
    fn finish(&mut self, are_responses: bool, direction: ConnectionDirection, recording: &mut Recording) {
        let mut open: Option<OpenMessage> = None;
        let mut before: Option<(i64, DataPacket)> = None;
        for (psn, packet) in std::mem::take(self).packets {
            if let Some((last, before)) = before {
                let missing = before.missing_until((psn - last) as u64);
                recording.missing += match (open.is_some(), packet.begins()) {
                    // Between responses to READs there are numbers of other requests.
                    (false, true) if are_responses => 0,
                    (false, false) | (true, true) if are_responses => missing.min(1),
                    _ => missing,
                };
            }
            before = Some((psn, packet));
            if let Some(left) = open.take_if(|open| !open.goes_on_with(psn, &packet)) {
                left.close(false, direction, recording);
            }
            if packet.is_read {
                continue;
            }
            let message = match open.take() {
                Some(message) => message.extend(psn, &packet),
                None => OpenMessage::new(psn, &packet),
            };
            if packet.ends() {
                let is_complete = message.has_beginning;
                message.close(is_complete, direction, recording);
            } else {
                open = Some(OpenMessage { full: packet.payload, ..message });
            }
        }
        if let Some(left) = open {
            left.close(false, direction, recording);
        }
    }
}

impl DataPacket {
    /// Whether a packet with the same sequence number may be a retransmission of this one.
    fn may_be_sent_again_as(&self, later: &DataPacket) -> bool {
        self.payload == later.payload && later.at.0 - self.at.0 <= i128::from(RETRANSMISSION_MAX.as_picos())
    }

    fn begins(&self) -> bool {
        matches!(self.position, PacketPosition::First | PacketPosition::Only)
    }

    fn ends(&self) -> bool {
        matches!(self.position, PacketPosition::Last | PacketPosition::Only)
    }

    /// Returns the number of packets missing before the next one, whose sequence number is `ahead` of this one's. Each response to a
    /// READ takes a sequence number; the path MTU, which gives their number, is not in the request.
    fn missing_until(&self, ahead: u64) -> u64 {
        let responses = |mtu: u64| self.reth_length.map(|bytes| bytes.div_ceil(mtu).max(1));
        let taken = match self.is_read {
            true => [256, 512, 1024, 2048, 4096].into_iter().filter_map(responses).find(|taken| *taken <= ahead),
            false => Some(1),
        };
        ahead - taken.unwrap_or(ahead)
    }
}

impl OpenMessage {
    fn new(psn: i64, packet: &DataPacket) -> OpenMessage {
        let packets = packet
            .reth_length
            .and_then(|bytes| bytes.checked_div(packet.payload).map(|_| bytes.div_ceil(packet.payload)));
        OpenMessage {
            at: packet.at,
            dscp: packet.dscp,
            first: psn,
            end: packets.map(|packets| psn + packets.max(1) as i64 - 1),
            has_beginning: packet.begins(),
            full: packet.payload,
            reth_length: packet.reth_length,
            newest: (psn, packet.payload),
        }
    }

    /// Whether a packet belongs to the message. After a gap it may begin another; without one it can't: a READ that is
    /// requested again from a later packet on has responses that begin there.
    fn goes_on_with(&self, psn: i64, packet: &DataPacket) -> bool {
        self.end.is_none_or(|end| psn <= end)
            && psn - self.newest.0 <= PACKETS_BEHIND_MAX
            && (psn == self.newest.0 + 1 || !packet.begins())
    }

    fn extend(self, psn: i64, packet: &DataPacket) -> OpenMessage {
        OpenMessage { at: self.at.min(packet.at), newest: (psn, packet.payload), ..self }
    }

    fn close(self, is_complete: bool, direction: ConnectionDirection, recording: &mut Recording) {
        let ConnectionDirection { from, to, connection } = direction;
        let (last, payload) = self.newest;
        let bytes = self.reth_length.unwrap_or((last - self.first) as u64 * self.full + payload);
        let (at, dscp) = (self.at, self.dscp);
        let message = CapturedMessage { at, from, to, dscp, bytes, connection, is_complete, is_tcp: false };
        recording.messages.extend((bytes > 0).then_some(message));
    }
}

fn word24(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([0, bytes[at], bytes[at + 1], bytes[at + 2]])
}

fn long(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
