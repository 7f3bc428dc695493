//! Credit-based flow control, InfiniBand's, over Ethernet (gfc 2.2.2): the receiving side says up to which block its peer
//! may send, again and again; the sending side sends no further.
//!
//! Credit counts in blocks of 64 B from the link's start. The limit, FCCL, is absolute: a message that is lost, doubled or late
//! takes or gives no credit, the next one says all. FCCL never goes back, so of two messages the one further on is
//! the later (serial numbers, RFC 1982); one that is behind is stale and ignored.
//!
//! **Width.** InfiniBand counts in 12 bits, of which serial numbers can use half: 2,047 blocks or 131 KB, less than
//! the megabyte that one queue has here. We count in 32: half of that is 137 GB, so any buffer fits, and a stale message is
//! taken for a new one only if it is late by 2.7 s at 400 Gb/s.
//!
//! **Lost packets** do leak credit: a packet damaged on the wire was counted by the sender and never by the receiver.
//! [`Receiver::handle_sent_total`] makes up for it, given the sender's own count; no message of
//! ours carries that, so a switch here does not call it.
//!
//! **Both ends start together**, with the link, from zero. One that restarts alone would leave the other with counts that
//! mean nothing: restart both, or take the link down.

use weir_units::{Bytes, FCS_BYTES};

mod receiver;
mod sender;

pub use receiver::{Advertiser, Receiver};
pub use sender::Sender;

/// A credit block.
pub const BLOCK: Bytes = Bytes::new(64);

/// What a frame of this length (without FCS) takes: its bytes with FCS in whole blocks. Both ends must count alike.
#[inline]
pub const fn blocks(frame_bytes: u32) -> u32 {
    (frame_bytes + FCS_BYTES as u32).div_ceil(BLOCK.get() as u32)
}

/// How far `limit` is ahead of `count` on the circle of 32 bits; `None` if it is behind.
#[inline]
pub(crate) const fn ahead(limit: u32, count: u32) -> Option<u32> {
    let distance = limit.wrapping_sub(count);
    if distance < 1 << 31 { Some(distance) } else { None }
}

#[cfg(test)]
mod tests;
