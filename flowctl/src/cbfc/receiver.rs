//! Downstream side of CBFC: counts blocks and advertises the limit.

use weir_units::{BitRate, Bytes, CLASSES, Class, ClassSet, Span, Time};
use weir_wire::mac_control::{self, CreditFrame};

use super::{BLOCK, CONFIRMATIONS, ahead, blocks, next_period};
use crate::sync::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Block counters of a port's eight classes, received and freed.
///
/// The lcore that forwards the port's received frames counts arrivals and the peer's FCTBS. The lcore that transmits on the port
/// computes the freed blocks.
#[derive(Debug)]
pub struct BlockCounters {
    capacity: u32,
    classes: [ClassAccount; CLASSES],
    resyncs: AtomicU64,
}

#[derive(Debug, Default)]
struct ClassAccount {
    /// ABR: blocks received since the link's start.
    received: AtomicU32,
    /// Number of times that `received` was set to the peer's count, or to 0.
    resyncs: AtomicU32,
    /// Difference between the peer's count and `received` at the last message, and the number of messages in a row with it.
    difference: AtomicU32,
    confirmations: AtomicU8,
    /// Blocks that have left, or were lost. Written by the transmitter.
    freed: AtomicU32,
    /// Value of `resyncs` that `freed` is based on. Written by the transmitter.
    settled: AtomicU32,
}

impl BlockCounters {
    /// Creates counters for empty queues, each with a buffer of this size, of which whole blocks are used.
    pub fn new(buffer: Bytes) -> BlockCounters {
        let capacity = buffer.get() / BLOCK.get();
        assert!(capacity < 1 << 30, "credit counters must tell a full buffer from an empty one");
        BlockCounters::with_capacity(capacity as u32)
    }

    /// Creates counters for empty queues of this many blocks each.
    pub(super) fn with_capacity(capacity: u32) -> BlockCounters {
        BlockCounters { capacity, classes: Default::default(), resyncs: AtomicU64::new(0) }
    }

    /// Counts a received frame of this length (without FCS).
    #[inline]
    pub fn handle_arrival(&self, class: Class, frame_bytes: u32) {
        self.handle_arrivals(class, blocks(frame_bytes));
    }

    /// Counts received frames that take this number of [`blocks`] together.
    #[inline]
    pub(crate) fn handle_arrivals(&self, class: Class, blocks: u32) {
        let received = &self.classes[class.index()].received;
        // One writer, so load and store need not be one operation. Release; pairs with Acquire in `settle`.
        received.store(received.load(Ordering::Relaxed).wrapping_add(blocks), Ordering::Release);
    }

    /// Updates the freed blocks: all received ones, minus the `held` ones. The buffer must count an arrival no later than
    /// [`BlockCounters::handle_arrival`], and never more than its blocks. The limit decreases only where the count of arrivals was
    /// reset.
    #[inline]
    pub fn settle(&self, class: Class, held: impl FnOnce() -> u32) {
        let account = &self.classes[class.index()];
        // Acquire; pairs with Release in `set_received`: who sees the number sees the count that was set.
        let resyncs = account.resyncs.load(Ordering::Acquire);
        // Loaded before `held()`, which then includes each block in `received`.
        let received = account.received.load(Ordering::Acquire);
        let freed = received.wrapping_sub(held());
        let is_anew = resyncs != account.settled.load(Ordering::Relaxed);
        if is_anew || ahead(freed, account.freed.load(Ordering::Relaxed)).is_some() {
            account.freed.store(freed, Ordering::Relaxed);
            account.settled.store(resyncs, Ordering::Relaxed);
        }
    }

    /// Compares the sender's own count, FCTBS, with the count of arrivals. Call in wire order: after all frames that FCTBS counts
    /// and before any later one. `uncounted` blocks have arrived before the message but are not yet counted. Returns whether the
    /// count of arrivals was set to FCTBS:
    /// - at once if the peer sent more than arrived, by at most the buffer: such blocks were lost, and become credit again;
    /// - after [`CONFIRMATIONS`] messages in a row with the same difference otherwise. Then this end was restarted, if the peer
    ///   sent more than it had credit for, or the peer, if more arrived than it sent. A single such message may be forged, or
    ///   late.
    pub fn handle_sent_total(&self, class: Class, sent: u32, uncounted: u32) -> bool {
        let account = &self.classes[class.index()];
        let received = account.received.load(Ordering::Relaxed).wrapping_add(uncounted);
        let confirmed = match sent.wrapping_sub(received) {
            0 => {
                account.confirmations.store(0, Ordering::Relaxed);
                return false;
            }
            lost if lost <= self.capacity => true,
            difference => account.confirm(difference) >= CONFIRMATIONS,
        };
        if confirmed {
            account.set_received(sent.wrapping_sub(uncounted));
            self.record_reset();
        }
        confirmed
    }

    /// Sets the count of arrivals to the sender's own, of which the bits of `mask` are known. Call in wire order, as
    /// [`BlockCounters::handle_sent_total`].
    pub(super) fn set_sent_total(&self, class: Class, sent: u32, mask: u32, uncounted: u32) {
        let account = &self.classes[class.index()];
        let received = account.received.load(Ordering::Relaxed);
        let lost = sent.wrapping_sub(received.wrapping_add(uncounted)) & mask;
        if lost != 0 {
            account.set_received(received.wrapping_add(lost));
            self.record_reset();
        }
    }

    fn record_reset(&self) {
        // One writer; read for reports only.
        self.resyncs.store(self.resyncs.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Resets the counts to 0, as at the link's start; the next [`BlockCounters::settle`] subtracts blocks still held. Called by the
    /// transmitter when nothing arrives. An arrival counted concurrently may undo the reset; the peer's count then corrects it.
    pub fn reset(&self) {
        self.classes.iter().for_each(|account| account.set_received(0));
    }

    /// Returns the number of times that a class's count of arrivals was set to the peer's.
    pub fn resyncs(&self) -> u64 {
        self.resyncs.load(Ordering::Relaxed)
    }

    /// Returns the size of one class's buffer, in blocks.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Returns FCCL, the block up to which the peer may send: ABR plus the free blocks. Arrivals change both alike, so it is the
    /// capacity plus the freed blocks, as of the last [`BlockCounters::settle`].
    #[inline]
    pub fn limit(&self, class: Class) -> u32 {
        self.capacity.wrapping_add(self.classes[class.index()].freed.load(Ordering::Relaxed))
    }

    /// Returns the blocks received and not yet freed, above the capacity only if the peer exceeded its credit. A snapshot while
    /// other lcores count.
    #[cfg(test)]
    pub(super) fn occupied(&self, class: Class) -> u32 {
        let account = &self.classes[class.index()];
        let freed = account.freed.load(Ordering::Relaxed);
        ahead(account.received.load(Ordering::Relaxed), freed).unwrap_or(0)
    }

    /// Returns the message for these classes; `None` for an empty set.
    pub fn frame(&self, classes: ClassSet) -> Option<CreditFrame> {
        let mut limits = [0; CLASSES];
        classes.iter().for_each(|class| limits[class.index()] = self.limit(class));
        (!classes.is_empty()).then_some(CreditFrame {
            enabled: classes,
            limits,
            account: mac_control::CreditAccount::None,
        })
    }

    /// Starts all counts at `count`, for tests of the wrap.
    #[cfg(test)]
    pub(super) fn starting_at(buffer: Bytes, count: u32) -> BlockCounters {
        let receiver = BlockCounters::new(buffer);
        for account in &receiver.classes {
            account.received.store(count, Ordering::Relaxed);
            account.freed.store(count, Ordering::Relaxed);
        }
        receiver
    }
}

impl ClassAccount {
    /// Records the peer's difference, modulo 2^32; returns the number of messages in a row with it.
    fn confirm(&self, difference: u32) -> u8 {
        let before = if self.difference.load(Ordering::Relaxed) == difference {
            self.confirmations.load(Ordering::Relaxed)
        } else {
            0
        };
        self.difference.store(difference, Ordering::Relaxed);
        self.confirmations.store(before + 1, Ordering::Relaxed);
        before + 1
    }

    fn set_received(&self, received: u32) {
        self.confirmations.store(0, Ordering::Relaxed);
        // Release; pairs with Acquire in `settle`, as in `handle_arrivals`.
        self.received.store(received, Ordering::Release);
        // Release; pairs with Acquire in `settle`: after the count that it stands for.
        // One operation, as the transmitter does it too.
        self.resyncs.fetch_add(1, Ordering::Release);
    }
}

/// Timer of credit messages: the first is due at once, then one each period. Selects the account of each message in turn: the
/// buffer's or a class's.
#[derive(Debug)]
pub struct Advertiser {
    classes: ClassSet,
    period: Span,
    due_at: Time,
    /// Class whose count the next message has; `None` for the buffer's size.
    turn: Option<Class>,
}

impl Advertiser {
    /// Creates a timer for `classes` with this period.
    ///
    /// # Panics
    /// If `period` is zero.
    pub fn new(classes: ClassSet, period: Span) -> Advertiser {
        assert!(period > Span::ZERO, "a message without pause would fill the link");
        Advertiser { classes, period, due_at: Time::ZERO, turn: None }
    }

    /// Returns the period that InfiniBand recommends, 65,535 byte times: 52.4 us at 10 Gb/s (gfc 5.4).
    pub fn period_by_default(rate: BitRate) -> Span {
        rate.time_for(Bytes::new(65_535))
    }

    /// Returns the frame due at `now`; `sent` returns FCTBS, the blocks of a class sent ahead of the frame. Confirm with
    /// [`Advertiser::handle_sent`]; a frame that could not be sent is due again.
    #[inline]
    pub fn poll(&self, now: Time, receiver: &BlockCounters, sent: impl FnOnce(Class) -> u32) -> Option<CreditFrame> {
        if now < self.due_at {
            return None;
        }
        let account = match self.turn {
            None => mac_control::CreditAccount::Buffer { blocks: receiver.capacity() },
            Some(class) => mac_control::CreditAccount::Sent { class, blocks: sent(class) },
        };
        receiver.frame(self.classes).map(|frame| CreditFrame { account, ..frame })
    }

    /// Records that the due frame was sent at `now`.
    pub fn handle_sent(&mut self, now: Time) {
        self.due_at = next_period(self.due_at, self.period, now);
        let later = |class: &Class| self.turn.is_none_or(|turn| turn.index() < class.index());
        self.turn = self.classes.iter().find(later);
    }

    /// Resets the state to the start, with the first message due at `at`.
    pub(crate) fn restart(&mut self, at: Time) {
        (self.due_at, self.turn) = (at, None);
    }

    /// Returns the instant at which the next message is due.
    pub fn next_wakeup(&self) -> Time {
        self.due_at
    }
}
