//! InfiniBand's credit-based flow control over Ethernet (gfc 2.2.2): the receiving side periodically advertises the block up to
//! which its peer may send, and the sending side stops there.
//!
//! Credit counts in blocks of 64 B from the link's start. The limit, FCCL, is absolute: a lost, duplicated or late message
//! neither takes nor gives credit, and the next one corrects the limit. FCCL never decreases, so the higher limit is
//! the later one (serial numbers, RFC 1982); a message with a lower limit is stale and ignored.
//!
//! **Width.** InfiniBand counts in 12 bits, of which serial numbers can use half: 2,047 blocks or 131 KB, less than
//! the megabyte of one queue here. Weir counts in 32 bits: half of that is 137 GB, so any buffer fits, and a stale message is
//! mistaken for a new one only if it is late by 2.7 s at 400 Gb/s.
//!
//! **Resynchronization.** Counts diverge if data is lost on the wire or one end restarts; they are corrected as in InfiniBand.
//! Each message also carries the sender's own count, FCTBS, of one class in turn ([`CreditAccount`](weir_wire::mac_control::CreditAccount)).
//! The receiver adopts that count ([`BlockCounters::handle_sent_total`]). [`CONFIRMATIONS`] messages in a row must agree before
//! a count decreases, since a single one may be late, or increases by more than a buffer, since a single one may be forged.
//!
//! **Credit is bounded** by the receiver's buffer, also if a message advertises more
//! ([`CreditCounters::handle_credit`]). So one forged message lets at most one buffer too much through.
//!
//! UEC's, in cells, has the same counters: [`CellCounters`] and [`CellCredits`].

use weir_units::{Bytes, FCS_BYTES, Span, Time};

mod cells;
mod receiver;
mod sender;
mod update_timer;

pub use cells::{CellCounters, CellCredits, CellSize};
pub use receiver::{Advertiser, BlockCounters};
pub use sender::CreditCounters;
pub use update_timer::UpdateTimer;

/// Size of a credit block.
pub const BLOCK: Bytes = Bytes::new(64);
/// Messages in a row that must agree before the sender's limit or the receiver's count of arrivals decreases, or the latter
/// increases by more than a buffer.
/// One or two may be late; three equal ones mean that an end was restarted, or accepted a forged message.
pub const CONFIRMATIONS: u8 = 3;

/// Returns the blocks of a frame of this length (without FCS): its bytes with FCS in whole blocks. Both ends must count alike.
#[inline]
pub const fn blocks(frame_bytes: u32) -> u32 {
    blocks_of_bytes(frame_bytes, 1)
}

/// Converts bytes of frames to whole blocks, with each frame's FCS and the largest free part of its last block.
#[inline]
const fn blocks_of_bytes(frame_bytes: u32, frames: u32) -> u32 {
    // Not `div_ceil`, which divides twice: several frames are counted at a time.
    (frame_bytes + frames * (FCS_BYTES + BLOCK.get() - 1) as u32) / BLOCK.get() as u32
}

/// Returns the sum of [`blocks`] over frames of these lengths.
#[inline]
pub(crate) fn blocks_of_all(frames: &[u32]) -> u32 {
    frames.iter().map(|frame_bytes| blocks(*frame_bytes)).sum()
}

/// Returns an upper bound on the [`blocks`] of `frames` frames with `bytes` in total: each frame may leave most of its last block free.
#[inline]
pub(crate) const fn blocks_at_most(frames: usize, bytes: u32) -> u32 {
    blocks_of_bytes(bytes, frames as u32)
}

/// Returns the blocks of a buffer in which these bytes are held, the last one perhaps in part.
pub(crate) fn blocks_held(bytes: Bytes) -> u32 {
    bytes.get().div_ceil(BLOCK.get()) as u32
}

/// Returns the end of the period after one that ended at `due_at`, with its message sent at `now`. Periods follow each other without drift,
/// and restart after a delay of more than one.
fn next_period(due_at: Time, period: Span, now: Time) -> Time {
    let next = due_at.saturating_add(period);
    if next > now { next } else { now.saturating_add(period) }
}

/// Returns the distance of `limit` ahead of `count`, modulo 2^32; `None` if it is behind.
#[inline]
pub(crate) const fn ahead(limit: u32, count: u32) -> Option<u32> {
    let distance = limit.wrapping_sub(count);
    if distance < 1 << 31 { Some(distance) } else { None }
}

#[cfg(test)]
mod tests;
