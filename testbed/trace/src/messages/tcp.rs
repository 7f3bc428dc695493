//! Data of TCP connections, by sequence numbers: each stretch without a longer pause is a message.

use weir_units::Span;

use super::{CapturedMessage, CapturedSegment, ConnectionDirection, PacketClass, Recording};
use crate::capture::CaptureTime;

/// One direction of a connection.
#[derive(Default)]
pub(super) struct Flow {
    /// Sequence number after the last byte seen.
    next: Option<u32>,
    open: Option<OpenMessage>,
}

struct OpenMessage {
    at: CaptureTime,
    last: CaptureTime,
    dscp: u8,
    bytes: u64,
}

const SYN: u8 = 2;

/// Both ports of a segment.
pub(super) fn ports(tcp: &[u8]) -> u64 {
    u64::from(u32::from_be_bytes([tcp[0], tcp[1], tcp[2], tcp[3]]))
}

impl Flow {
    pub(super) fn on_packet(
        &mut self,
        tcp: CapturedSegment<'_>,
        at: CaptureTime,
        dscp: u8,
        idle: Span,
        direction: ConnectionDirection,
        recording: &mut Recording,
    ) -> PacketClass {
        let CapturedSegment { head: tcp, bytes } = tcp;
        let header = usize::from(tcp[12] >> 4) * 4;
        let payload = bytes.saturating_sub(header) as u32;
        let mut sequence = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
        if tcp[13] & SYN != 0 {
            // A SYN takes a sequence number, and begins a connection whose ports an earlier one may have had.
            self.finish(direction, recording);
            sequence = sequence.wrapping_add(1);
            self.next = Some(sequence);
        }
        if payload == 0 {
            return PacketClass::Answer;
        }
        let next = *self.next.get_or_insert(sequence);
        // Signed difference: the shorter way around the sequence space.
        let end = sequence.wrapping_add(payload);
        let fresh = end.wrapping_sub(next) as i32;
        if fresh <= 0 {
            return PacketClass::Data { again: true };
        }
        let ahead = sequence.wrapping_sub(next) as i32;
        recording.missing += u64::from(ahead > 0);
        self.next = Some(end);
        let pause = self.open.as_ref().map_or(0, |open| at.0 - open.last.0);
        if pause > i128::from(idle.as_picos()) {
            self.finish(direction, recording);
        }
        let open = self.open.get_or_insert(OpenMessage { at, last: at, dscp, bytes: 0 });
        open.last = at;
        // The bytes between were sent too, and are retransmitted or were not captured.
        open.bytes += fresh as u64;
        PacketClass::Data { again: (fresh as u32) < payload }
    }

    pub(super) fn finish(&mut self, direction: ConnectionDirection, recording: &mut Recording) {
        let Some(open) = self.open.take() else { return };
        let ConnectionDirection { from, to, connection } = direction;
        let (at, dscp, bytes) = (open.at, open.dscp, open.bytes);
        recording.messages.push(CapturedMessage {
            at,
            from,
            to,
            dscp,
            bytes,
            connection,
            is_complete: true,
            is_tcp: true,
        });
    }
}
