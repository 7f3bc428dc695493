//! Upstream side of CBFC: the peer's remaining credit.

use weir_units::{Bytes, CLASSES, Class, ClassSet};
use weir_wire::mac_control::{CreditAccount, CreditFrame};

use super::{BLOCK, CONFIRMATIONS, ahead, blocks, blocks_at_most, blocks_of_all};
use crate::sync::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Credit of a port's eight classes.
///
/// The one lcore that receives on the port writes limits; the transmitting lcore writes counts. Relaxed: a thread that sees
/// the other's value late sees less credit, unless a limit decreases.
#[derive(Debug)]
pub struct CreditCounters {
    classes: [Credit; CLASSES],
    /// Most credit that a class ever has, in blocks.
    buffer: u32,
    /// Buffer of a class at the peer, as advertised.
    peers_buffer: AtomicU32,
    stale: AtomicU64,
    excessive: AtomicU64,
}

#[derive(Debug, Default)]
struct Credit {
    /// FCCL: the block up to which the class may send.
    limit: AtomicU32,
    /// FCTBS: blocks sent since the link's start.
    sent: AtomicU32,
    /// Messages in a row behind the limit. Used by the receiving lcore only.
    behind: AtomicU8,
}

impl CreditCounters {
    /// Creates a sender without credit: no frame may be sent before the first message. `buffer` is the size of one class's queue
    /// at the peer, and so bounds each class's credit.
    pub fn new(buffer: Bytes) -> CreditCounters {
        CreditCounters::with_limit(u32::try_from(buffer.get() / BLOCK.get()).unwrap_or(u32::MAX))
    }

    /// Creates a sender without credit, which never has credit for more than this many blocks.
    pub(super) fn with_limit(blocks: u32) -> CreditCounters {
        CreditCounters {
            classes: Default::default(),
            buffer: blocks,
            peers_buffer: AtomicU32::new(blocks),
            stale: AtomicU64::new(0),
            excessive: AtomicU64::new(0),
        }
    }

    /// Obeys a received message. Returns the classes that it was accepted for. For the others
    ///
    /// - the limit is behind an earlier one, and so stale: ignored, unless [`CONFIRMATIONS`] in a row are. Then the earlier
    ///   message was forged, or the peer's counts were reset;
    /// - the credit exceeds the peer's advertised buffer, so its counts do not match, as after a restart. Ignored; the peer
    ///   corrects its counts from this side's FCTBS.
    ///
    /// Credit beyond the buffer that this sender was made for is cut to it.
    pub fn handle_credit(&self, frame: &CreditFrame) -> ClassSet {
        if let CreditAccount::Buffer { blocks } = frame.account {
            self.peers_buffer.store(blocks, Ordering::Relaxed);
        }
        let (mut taken, mut is_excessive) = (ClassSet::EMPTY, false);
        for class in frame.enabled.iter() {
            let credit = &self.classes[class.index()];
            let (mut limit, sent) = (frame.limits[class.index()], credit.sent.load(Ordering::Relaxed));
            let more = ahead(limit, sent).unwrap_or(0);
            if more > self.buffer.min(self.peers_buffer.load(Ordering::Relaxed)) {
                is_excessive = true;
                if more > self.peers_buffer.load(Ordering::Relaxed) {
                    continue;
                }
                limit = sent.wrapping_add(self.buffer);
            }
            if credit.take(limit) {
                taken.insert(class);
            }
        }
        let add = |count: &AtomicU64| count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        // One writer; read for reports only.
        if is_excessive {
            add(&self.excessive);
        } else if taken != frame.enabled {
            add(&self.stale);
        }
        taken
    }

    /// Sets the credit by the peer's count of freed blocks, modulo `mask` + 1: all others that were sent are in use. Ignored if these are
    /// more than the limit.
    pub(super) fn handle_freed(&self, class: Class, freed: u32, mask: u32) {
        let credit = &self.classes[class.index()];
        let sent = credit.sent.load(Ordering::Relaxed);
        let in_use = sent.wrapping_sub(freed) & mask;
        if in_use <= self.buffer {
            credit.limit.store(sent.wrapping_sub(in_use).wrapping_add(self.buffer), Ordering::Relaxed);
        } else {
            // One writer, as above.
            self.excessive.store(self.excessive.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    }

    /// Returns the blocks that a class may still send, FCCL − FCTBS.
    #[inline]
    pub fn credit(&self, class: Class) -> u32 {
        let credit = &self.classes[class.index()];
        // `sent` is read first: a limit seen later is at most further on.
        let sent = credit.sent.load(Ordering::Relaxed);
        // Bounded here too: a limit of the counts before `reset` may still be stored after it.
        ahead(credit.limit.load(Ordering::Relaxed), sent).unwrap_or(0).min(self.buffer)
    }

    /// Returns whether a frame of this length (without FCS) may be sent.
    #[inline]
    pub fn may_send(&self, class: Class, frame_bytes: u32) -> bool {
        blocks(frame_bytes) <= self.credit(class)
    }

    /// Counts a sent frame of this length (without FCS).
    #[inline]
    pub fn handle_sent(&self, class: Class, frame_bytes: u32) {
        self.add_sent(class, blocks(frame_bytes));
    }

    /// Counts sent blocks.
    #[inline]
    pub(super) fn add_sent(&self, class: Class, blocks: u32) {
        let sent = &self.classes[class.index()].sent;
        // One writer, as above.
        sent.store(sent.load(Ordering::Relaxed).wrapping_add(blocks), Ordering::Relaxed);
    }

    /// Returns whether all these frames, with `bytes` in total, may be sent one after the other.
    #[inline]
    pub(crate) fn may_send_all(&self, class: Class, frames: &[u32], bytes: u32) -> bool {
        let credit = self.credit(class);
        // Usually credit far exceeds the upper bound from the sum, which is cheaper.
        blocks_at_most(frames.len(), bytes) <= credit || blocks_of_all(frames) <= credit
    }

    /// Counts frames as [`CreditCounters::handle_sent`].
    #[inline]
    pub fn handle_all_sent(&self, class: Class, frames: &[u32]) {
        self.add_sent(class, blocks_of_all(frames));
    }

    /// Resets credit and counts to 0, as at the link's start. Called by the transmitter. A message handled concurrently may take
    /// effect; the next ones correct the limit.
    pub fn reset(&self) {
        self.peers_buffer.store(self.buffer, Ordering::Relaxed);
        for credit in &self.classes {
            credit.sent.store(0, Ordering::Relaxed);
            credit.limit.store(0, Ordering::Relaxed);
            credit.behind.store(0, Ordering::Relaxed);
        }
    }

    /// Returns FCTBS, for [`BlockCounters::handle_sent_total`](super::BlockCounters::handle_sent_total).
    pub fn sent_total(&self, class: Class) -> u32 {
        self.classes[class.index()].sent.load(Ordering::Relaxed)
    }

    /// Returns the number of messages ignored, in whole or in part, as stale.
    pub(crate) fn stale(&self) -> u64 {
        self.stale.load(Ordering::Relaxed)
    }

    /// Returns the number of messages with more credit than a buffer, ignored or cut: forged, or of a peer that was restarted or
    /// has another buffer.
    pub(crate) fn excessive(&self) -> u64 {
        self.excessive.load(Ordering::Relaxed)
    }

    /// Starts all counts at `count`, for tests of the wrap.
    #[cfg(test)]
    pub(super) fn starting_at(buffer: Bytes, count: u32) -> CreditCounters {
        let sender = CreditCounters::new(buffer);
        for credit in &sender.classes {
            credit.limit.store(count, Ordering::Relaxed);
            credit.sent.store(count, Ordering::Relaxed);
        }
        sender
    }
}

impl Credit {
    /// Takes a limit, unless it is stale; returns whether it did.
    fn take(&self, limit: u32) -> bool {
        // One writer, so load and store need not be one operation.
        let behind = match ahead(limit, self.limit.load(Ordering::Relaxed)) {
            Some(_) => 0,
            None => self.behind.load(Ordering::Relaxed) + 1,
        };
        let is_taken = behind == 0 || behind >= CONFIRMATIONS;
        self.behind.store(if is_taken { 0 } else { behind }, Ordering::Relaxed);
        if is_taken {
            self.limit.store(limit, Ordering::Relaxed);
        }
        is_taken
    }
}
