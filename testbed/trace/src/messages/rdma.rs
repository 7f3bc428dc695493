//! Messages of RoCEv2, by opcodes and packet sequence numbers (IBA 9.2.1, 9.7).
//!
//! A message's size is that of its RETH. SENDs and READ responses have none, and the capture may lack it: then sequence numbers give the
//! size.

use weir_wire::rocev2::{Psn, UDP_PORT};

use super::{CapturedMessage, CapturedSegment, ConnectionDirection, PacketClass, Recording};
use crate::capture::CaptureTime;
use crate::headers::{UDP_AND_BTH_BYTES, word};

const UDP_BYTES: usize = 8;
const ICRC_BYTES: usize = 4;

/// Messages of one sender to one queue pair.
#[derive(Default)]
pub(super) struct Flow {
    open: Option<OpenMessage>,
    /// Highest sequence number.
    highest: Option<Psn>,
    /// Missing sequence numbers, which may still arrive.
    gaps: Vec<(Psn, u32)>,
}

/// Message whose last packet has not arrived.
struct OpenMessage {
    at: CaptureTime,
    dscp: u8,
    first: Psn,
    has_beginning: bool,
    /// Payload of a full packet.
    full: u64,
    /// Length by the RETH.
    reth_length: Option<u64>,
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

/// Returns the packet position of an opcode, and the bytes of headers after the BTH; `None` for an opcode without data. The upper three
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
        let psn = Psn::new(word24(bth, 9));
        let padding = usize::from(bth[1] >> 4 & 0b11);
        let around = UDP_AND_BTH_BYTES + header_bytes + ICRC_BYTES + padding;
        let Some(payload) = udp.bytes.checked_sub(around).map(|bytes| bytes as u64) else { return PacketClass::Answer };
        // Sequence numbers of datagrams do not show losses.
        let is_connected = opcode >> 5 < 2;
        if let Some(highest) = self.highest.filter(|_| is_connected) {
            let ahead = psn.ahead_of(highest);
            if ahead <= 0 {
                return self.on_late_packet(position, psn, recording);
            }
            if ahead > 1 {
                self.gaps.push((highest.plus(1), ahead as u32 - 1));
                recording.missing += ahead as u64 - 1;
            }
        }
        self.highest = Some(psn);
        let reth_length = if header_bytes >= 16 { long(udp.head, UDP_AND_BTH_BYTES + 12).map(u64::from) } else { None };
        if matches!(position, PacketPosition::First | PacketPosition::Only) {
            self.finish_before(psn, direction, recording);
        }
        let open = self.open.get_or_insert(OpenMessage {
            at,
            dscp,
            first: psn,
            has_beginning: matches!(position, PacketPosition::First | PacketPosition::Only),
            full: payload,
            reth_length,
        });
        if position == PacketPosition::Middle {
            open.full = payload;
        }
        if matches!(position, PacketPosition::Last | PacketPosition::Only) {
            let packets = psn.ahead_of(open.first).max(0) as u64;
            let bytes = open.reth_length.unwrap_or(packets * open.full + payload);
            let is_complete = open.has_beginning;
            self.close(bytes, is_complete, direction, recording);
        }
        PacketClass::Data { again: false }
    }

    /// Handles a packet that is not the newest: it fills a gap, or is a retransmission.
    fn on_late_packet(&mut self, position: PacketPosition, psn: Psn, recording: &mut Recording) -> PacketClass {
        let in_gap = |(from, count): &(Psn, u32)| (0..*count as i32).contains(&psn.ahead_of(*from));
        let Some(index) = self.gaps.iter().position(in_gap) else { return PacketClass::Data { again: true } };
        let (from, count) = self.gaps.swap_remove(index);
        let before = psn.ahead_of(from) as u32;
        let behind = count - before - 1;
        self.gaps.extend([(from, before), (psn.plus(1), behind)].into_iter().filter(|(_, count)| *count > 0));
        recording.missing = recording.missing.saturating_sub(1);
        // The beginning of a message that arrives after a later part.
        if position == PacketPosition::First
            && let Some(open) = self.open.as_mut().filter(|open| !open.has_beginning)
        {
            (open.first, open.has_beginning) = (psn, true);
        }
        PacketClass::Data { again: false }
    }

    /// Ends the previous message, whose last packet was not captured, when another begins.
    fn finish_before(&mut self, psn: Psn, direction: ConnectionDirection, recording: &mut Recording) {
        if let Some(open) = &self.open {
            let packets = psn.ahead_of(open.first).max(1) as u64;
            let bytes = open.reth_length.unwrap_or(packets * open.full);
            self.close(bytes, false, direction, recording);
        }
    }

    pub(super) fn finish(&mut self, direction: ConnectionDirection, recording: &mut Recording) {
        if let Some(highest) = self.highest {
            self.finish_before(highest.plus(1), direction, recording);
        }
    }

    fn close(&mut self, bytes: u64, is_complete: bool, direction: ConnectionDirection, recording: &mut Recording) {
        let Some(open) = self.open.take() else { return };
        let ConnectionDirection { from, to, connection } = direction;
        let message =
            CapturedMessage { at: open.at, from, to, dscp: open.dscp, bytes, connection, is_complete, is_tcp: false };
        recording.messages.extend((bytes > 0).then_some(message));
    }
}

fn word24(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([0, bytes[at], bytes[at + 1], bytes[at + 2]])
}

fn long(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
