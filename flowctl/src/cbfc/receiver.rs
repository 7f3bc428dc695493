//! The downstream side: counts blocks and advertises the limit.

use crate::sync::{AtomicU32, Ordering};

use weir_units::{BitRate, Bytes, CLASSES, Class, Span, Time};

use super::{BLOCK, ahead, blocks};
use crate::frame::CreditFrame;

/// The blocks of a port's eight classes, as received and as freed.
///
/// Arrivals are counted by the one lcore that receives on the port, departures by any that transmits what came
/// from it. Relaxed: only the sum of departures is advertised, and one seen late is credit given late.
#[derive(Debug)]
pub struct Receiver {
    capacity: u32,
    classes: [Account; CLASSES],
}

#[derive(Debug, Default)]
struct Account {
    /// ABR: blocks received since the link's start.
    received: AtomicU32,
    /// Blocks that have left, or never came.
    freed: AtomicU32,
}

impl Receiver {
    /// Empty queues, each with a buffer of this size, of which whole blocks are used.
    ///
    /// # Panics
    /// If the buffer is a quarter of the counters' range (68 GB) or more.
    pub fn new(buffer: Bytes) -> Receiver {
        let capacity = buffer.get() / BLOCK.get();
        assert!(capacity < 1 << 30, "credit counters must tell a full buffer from an empty one");
        Receiver { capacity: capacity as u32, classes: Default::default() }
    }

    /// Counts a frame of this length (without FCS) that came in.
    #[inline]
    pub fn handle_arrival(&self, class: Class, frame_bytes: u32) {
        self.handle_arrivals(class, blocks(frame_bytes));
    }

    /// Counts frames of so many [`blocks`] together that came in.
    #[inline]
    pub fn handle_arrivals(&self, class: Class, blocks: u32) {
        let received = &self.classes[class.index()].received;
        // One writer, so load and store need not be one operation. Release; pairs with Acquire in `settle`.
        received.store(received.load(Ordering::Relaxed).wrapping_add(blocks), Ordering::Release);
    }

    /// Counts a frame that left, by the length with which it came in.
    #[inline]
    pub fn handle_departure(&self, class: Class, frame_bytes: u32) {
        self.classes[class.index()].freed.fetch_add(blocks(frame_bytes), Ordering::Relaxed);
    }

    /// In place of departures one by one: takes over that of all that came in, `held` is still there. For those who keep
    /// that account anyway; it counts an arrival no later than [`Receiver::handle_arrivals`] does, and never more for it than its
    /// blocks. A lower limit than before is never made of it.
    #[inline]
    pub fn settle(&self, class: Class, held: impl FnOnce() -> Bytes) {
        let account = &self.classes[class.index()];
        // In this order: `held` then has all that `received` has.
        let received = account.received.load(Ordering::Acquire);
        let freed = received.wrapping_sub(held().get().div_ceil(BLOCK.get()) as u32);
        if ahead(freed, account.freed.load(Ordering::Relaxed)).is_some() {
            account.freed.store(freed, Ordering::Relaxed);
        }
    }

    /// Takes the sender's own count, FCTBS, told behind all that it counts: blocks that it sent and that never came are
    /// credit again. Returns how many those are.
    ///
    /// On the wire nothing overtakes, so told there, between two frames, the count is exact. Told ahead of frames that it
    /// counts it would give their credit twice.
    pub fn handle_sent_total(&self, class: Class, sent: u32) -> u32 {
        let account = &self.classes[class.index()];
        let lost = ahead(sent, account.received.load(Ordering::Relaxed)).unwrap_or(0);
        if lost > 0 {
            account.received.store(sent, Ordering::Relaxed);
            account.freed.fetch_add(lost, Ordering::Relaxed);
        }
        lost
    }

    /// FCCL, the block up to which the peer may send: ABR and the free blocks. Arrivals move one as the other, so
    /// it is the capacity and what was freed, and never goes back.
    #[inline]
    pub fn limit(&self, class: Class) -> u32 {
        self.capacity.wrapping_add(self.classes[class.index()].freed.load(Ordering::Relaxed))
    }

    /// Blocks received and not yet freed; above the capacity only if the peer sent more than it might. While other lcores
    /// count, a snapshot.
    pub fn occupied(&self, class: Class) -> u32 {
        let account = &self.classes[class.index()];
        let freed = account.freed.load(Ordering::Relaxed);
        ahead(account.received.load(Ordering::Relaxed), freed).unwrap_or(0)
    }

    /// The message for these classes (one bit each); `None` for no class.
    pub fn frame(&self, classes: u8) -> Option<CreditFrame> {
        let mut limits = [0; CLASSES];
        Class::in_mask(classes).for_each(|class| limits[class.index()] = self.limit(class));
        (classes != 0).then_some(CreditFrame { enabled: classes, limits })
    }

    /// Starts all counts at `count`, for tests of the wrap.
    #[cfg(test)]
    pub(super) fn starting_at(buffer: Bytes, count: u32) -> Receiver {
        let receiver = Receiver::new(buffer);
        for account in &receiver.classes {
            account.received.store(count, Ordering::Relaxed);
            account.freed.store(count, Ordering::Relaxed);
        }
        receiver
    }
}

/// Says when the message is due: at once, and then each period, whatever happened.
#[derive(Debug)]
pub struct Advertiser {
    classes: u8,
    period: Span,
    due_at: Time,
}

impl Advertiser {
    /// For `classes` (one bit each), every `period`.
    ///
    /// # Panics
    /// If `period` is zero.
    pub fn new(classes: u8, period: Span) -> Advertiser {
        assert!(period > Span::ZERO, "a message without pause would fill the link");
        Advertiser { classes, period, due_at: Time::ZERO }
    }

    /// The period that InfiniBand recommends, 65,535 byte times: 52.4 us at 10 Gb/s (gfc 5.4).
    pub fn period_by_default(rate: BitRate) -> Span {
        rate.time_for(Bytes::new(65_535))
    }

    /// The frame due at `now`. Confirm it with [`Advertiser::handle_sent`]; one that could not be sent is due again.
    #[inline]
    pub fn poll(&self, now: Time, receiver: &Receiver) -> Option<CreditFrame> {
        if now < self.due_at { None } else { receiver.frame(self.classes) }
    }

    /// Notes that the frame that was due has been sent at `now`. Periods follow each other without drift; after
    /// a delay of more than one they start anew.
    pub fn handle_sent(&mut self, now: Time) {
        let next = self.due_at.saturating_add(self.period);
        self.due_at = if next > now { next } else { now.saturating_add(self.period) };
    }

    /// When the next message is due.
    pub fn next_wakeup(&self) -> Time {
        self.due_at
    }
}
