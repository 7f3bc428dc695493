//! The upstream side: what the peer's credit still allows.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

use weir_units::{CLASSES, Class};

use super::{ahead, blocks};
use crate::frame::CreditFrame;

/// The credit of a port's eight classes.
///
/// Limits are written by the one lcore that receives on the port, counts by the one that transmits. Relaxed: both only
/// move on, so whoever sees the other's late sees less credit than there is.
#[derive(Debug, Default)]
pub struct Sender {
    classes: [Credit; CLASSES],
    stale: AtomicU64,
}

#[derive(Debug, Default)]
struct Credit {
    /// FCCL: the block up to which the class may send.
    limit: AtomicU32,
    /// FCTBS: blocks sent since the link's start.
    sent: AtomicU32,
}

impl Sender {
    /// No credit until the first message: nothing may be sent. Both ends start with the link, from zero.
    pub fn new() -> Sender {
        Sender::default()
    }

    /// Takes a received message. Returns the classes (one bit each) for which it is news or a repetition; for the others it
    /// is behind an earlier message and was ignored.
    pub fn handle_credit(&self, frame: &CreditFrame) -> u8 {
        let mut current = 0;
        for class in Class::in_mask(frame.enabled) {
            let (limit, credit) = (frame.limits[class.index()], &self.classes[class.index()]);
            // One writer, so load and store need not be one operation.
            if ahead(limit, credit.limit.load(Ordering::Relaxed)).is_some() {
                credit.limit.store(limit, Ordering::Relaxed);
                current |= class.bit();
            }
        }
        if current != frame.enabled {
            self.stale.store(self.stale.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        current
    }

    /// Blocks that a class may still send, FCCL − FCTBS.
    #[inline]
    pub fn credit(&self, class: Class) -> u32 {
        let credit = &self.classes[class.index()];
        // What is sent first: a limit seen later is at most further on.
        let sent = credit.sent.load(Ordering::Relaxed);
        ahead(credit.limit.load(Ordering::Relaxed), sent).unwrap_or(0)
    }

    /// Whether a frame of this length (without FCS) may be sent.
    #[inline]
    pub fn may_send(&self, class: Class, frame_bytes: u32) -> bool {
        blocks(frame_bytes) <= self.credit(class)
    }

    /// Counts a frame of this length (without FCS) that is sent.
    #[inline]
    pub fn handle_sent(&self, class: Class, frame_bytes: u32) {
        let sent = &self.classes[class.index()].sent;
        // One writer, as above.
        sent.store(sent.load(Ordering::Relaxed).wrapping_add(blocks(frame_bytes)), Ordering::Relaxed);
    }

    /// FCTBS, for [`Receiver::handle_sent_total`](super::Receiver::handle_sent_total).
    pub fn sent_total(&self, class: Class) -> u32 {
        self.classes[class.index()].sent.load(Ordering::Relaxed)
    }

    /// Messages ignored, in whole or in part, as older than one received before.
    pub fn stale(&self) -> u64 {
        self.stale.load(Ordering::Relaxed)
    }

    /// Starts all counts at `count`, for tests of the wrap.
    #[cfg(test)]
    pub(super) fn starting_at(count: u32) -> Sender {
        let sender = Sender::new();
        for credit in &sender.classes {
            credit.limit.store(count, Ordering::Relaxed);
            credit.sent.store(count, Ordering::Relaxed);
        }
        sender
    }
}
