//! Credit-based flow control, InfiniBand's, over Ethernet (gfc 2.2.2): the receiving side says up to which block its peer
//! may send, again and again; the sending side sends no further.
//!
//! Credit counts in blocks of 64 B from the link's start. The limit, FCCL, is absolute: a message that is lost, doubled or late
//! takes or gives no credit, the next one says all. FCCL does not go back, so of two messages the one further on is
//! the later (serial numbers, RFC 1982); one that is behind is stale and ignored.
//!
//! **Width.** InfiniBand counts in 12 bits, of which serial numbers can use half: 2,047 blocks or 131 KB, less than
//! the megabyte that one queue has here. We count in 32: half of that is 137 GB, so any buffer fits, and a stale message is
//! taken for a new one only if it is late by 2.7 s at 400 Gb/s.
//!
//! **Counts that no longer match**, because data was lost on the wire or one end was restarted, are set right as InfiniBand
//! does it: each message also carries the sender's own count, FCTBS, of one class in turn ([`Account`](weir_wire::mac_control::Account)),
//! and the receiver takes it for its own ([`Receiver::handle_sent_total`]). [`CONFIRMATIONS`] messages in a row must agree where
//! a count is to go back, as one alone may be late, or on by more than a buffer, as one alone may be forged.
//!
//! **Credit is bounded** by the buffer that it is for: a sender never has more than that, whatever a message says
//! ([`Sender::handle_credit`]). So one forged message lets at most one buffer too much through.

use weir_units::{Bytes, FCS_BYTES};

mod receiver;
mod sender;

pub use receiver::{Advertiser, Receiver};
pub use sender::Sender;

/// A credit block.
pub const BLOCK: Bytes = Bytes::new(64);
/// Messages in a row that must agree before a count goes back, a limit at the sender or the count of arrivals at the receiver, or on by
/// more than a buffer, the latter.
/// One or two may be late; three that say the same mean that an end was restarted, or believed a forged message.
pub const CONFIRMATIONS: u8 = 3;

/// Returns the blocks of a frame of this length (without FCS): its bytes with FCS in whole blocks. Both ends must count alike.
#[inline]
pub const fn blocks(frame_bytes: u32) -> u32 {
    blocks_of_bytes(frame_bytes, 1)
}

/// Converts bytes of frames to whole blocks, with each frame's FCS and the largest free part of its last block.
#[inline]
const fn blocks_of_bytes(frame_bytes: u32, frames: u32) -> u32 {
    // Not `div_ceil`, which divides twice: a row of frames is counted several at a time.
    (frame_bytes + frames * (FCS_BYTES + BLOCK.get() - 1) as u32) / BLOCK.get() as u32
}

/// [`blocks`] of frames of these lengths, together.
#[inline]
pub(crate) fn blocks_of_all(frames: &[u32]) -> u32 {
    frames.iter().map(|frame_bytes| blocks(*frame_bytes)).sum()
}

/// The most [`blocks`] that so many frames take, so many bytes together: each as many more as a last block has room for.
#[inline]
pub(crate) const fn blocks_at_most(frames: usize, bytes: u32) -> u32 {
    blocks_of_bytes(bytes, frames as u32)
}

/// Returns the distance of `limit` ahead of `count`, modulo 2^32; `None` if it is behind.
#[inline]
pub(crate) const fn ahead(limit: u32, count: u32) -> Option<u32> {
    let distance = limit.wrapping_sub(count);
    if distance < 1 << 31 { Some(distance) } else { None }
}

#[cfg(test)]
mod tests;
