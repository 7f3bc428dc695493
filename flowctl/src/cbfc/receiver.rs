//! The downstream side: counts blocks and advertises the limit.

use weir_units::archive::{SharedState, State};
use weir_units::{BitRate, Bytes, CLASSES, Class, ClassSet, Span, Time};
use weir_wire::mac_control::{self, CreditFrame};

use super::{BLOCK, CONFIRMATIONS, ahead, blocks};
use crate::sync::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// The blocks of a port's eight classes, as received and as freed.
///
/// Arrivals are counted by the one lcore that forwards what the port receives, and so is what the peer says that it sent;
/// what is freed is found out by the one that transmits on the port.
#[derive(Debug, SharedState)]
pub struct Receiver {
    #[state(same)]
    capacity: u32,
    classes: [Account; CLASSES],
    resyncs: AtomicU64,
}

#[derive(Debug, Default, SharedState)]
struct Account {
    /// ABR: blocks received since the link's start.
    received: AtomicU32,
    /// How often `received` was set to what the peer says, or to 0.
    resyncs: AtomicU32,
    /// How far the peer's count was from `received` when that was last told, and in how many messages in a row.
    difference: AtomicU32,
    confirmations: AtomicU8,
    /// Blocks that have left, or never came: the transmitter's.
    freed: AtomicU32,
    /// `resyncs` as `freed` goes by it: the transmitter's.
    settled: AtomicU32,
}

impl Receiver {
    /// Empty queues, each with a buffer of this size, of which whole blocks are used.
    ///
    /// # Panics
    /// If the buffer is a quarter of the counters' range (68 GB) or more.
    pub fn new(buffer: Bytes) -> Receiver {
        let capacity = buffer.get() / BLOCK.get();
        assert!(capacity < 1 << 30, "credit counters must tell a full buffer from an empty one");
        Receiver { capacity: capacity as u32, classes: Default::default(), resyncs: AtomicU64::new(0) }
    }

    /// Counts a frame of this length (without FCS) that came in.
    #[inline]
    pub fn handle_arrival(&self, class: Class, frame_bytes: u32) {
        self.handle_arrivals(class, blocks(frame_bytes));
    }

    /// Counts frames of so many [`blocks`] together that came in.
    #[inline]
    pub(crate) fn handle_arrivals(&self, class: Class, blocks: u32) {
        let received = &self.classes[class.index()].received;
        // One writer, so load and store need not be one operation. Release; pairs with Acquire in `settle`.
        received.store(received.load(Ordering::Relaxed).wrapping_add(blocks), Ordering::Release);
    }

    /// Takes over that of all that came in, `held` is still there. It counts an arrival no later than
    /// [`Receiver::handle_arrival`] does, and never more for it than its blocks. A lower limit than before is made of it only
    /// where the count of arrivals was set anew.
    #[inline]
    pub fn settle(&self, class: Class, held: impl FnOnce() -> Bytes) {
        let account = &self.classes[class.index()];
        // Acquire; pairs with Release in `set_received`: who sees the number sees the count that was set.
        let resyncs = account.resyncs.load(Ordering::Acquire);
        // In this order: `held` then has all that `received` has.
        let received = account.received.load(Ordering::Acquire);
        let freed = received.wrapping_sub(held().get().div_ceil(BLOCK.get()) as u32);
        let is_anew = resyncs != account.settled.load(Ordering::Relaxed);
        if is_anew || ahead(freed, account.freed.load(Ordering::Relaxed)).is_some() {
            account.freed.store(freed, Ordering::Relaxed);
            account.settled.store(resyncs, Ordering::Relaxed);
        }
    }

    /// Takes the sender's own count, FCTBS, told behind all that it counts and ahead of all else: as on a wire, where nothing
    /// overtakes. `uncounted` blocks have come before it and are yet to be counted. Says whether the count of arrivals was set
    /// to it:
    /// - at once if the peer sent more than came, by no more than the buffer: such blocks were lost, and are credit again;
    /// - after [`CONFIRMATIONS`] messages in a row with one difference else. This end was restarted, if the peer sent more than it
    ///   had credit for, and the peer, if more came than it sent. One such message may be forged, or just late.
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
            // One writer; read for reports only.
            self.resyncs.store(self.resyncs.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        confirmed
    }

    /// Counts from 0 again, as at the link's start; what is held still is taken by the next [`Receiver::settle`]. Called by the
    /// transmitter, when nothing comes in: an arrival that is being counted may undo it, and then the peer's count sets it right.
    pub fn forget(&self) {
        self.classes.iter().for_each(|account| account.set_received(0));
    }

    /// How often a class's count of arrivals was set to what the peer says that it sent.
    pub fn resyncs(&self) -> u64 {
        self.resyncs.load(Ordering::Relaxed)
    }

    /// What one class's queue may hold, in blocks.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// FCCL, the block up to which the peer may send: ABR and the free blocks. Arrivals move one as the other, so
    /// it is the capacity and what was freed. As of the last [`Receiver::settle`].
    #[inline]
    pub fn limit(&self, class: Class) -> u32 {
        self.capacity.wrapping_add(self.classes[class.index()].freed.load(Ordering::Relaxed))
    }

    /// Blocks received and not yet freed; above the capacity only if the peer sent more than it might. While other lcores
    /// count, a snapshot.
    #[cfg(test)]
    pub(super) fn occupied(&self, class: Class) -> u32 {
        let account = &self.classes[class.index()];
        let freed = account.freed.load(Ordering::Relaxed);
        ahead(account.received.load(Ordering::Relaxed), freed).unwrap_or(0)
    }

    /// The message for these classes; `None` for no class.
    pub fn frame(&self, classes: ClassSet) -> Option<CreditFrame> {
        let mut limits = [0; CLASSES];
        classes.iter().for_each(|class| limits[class.index()] = self.limit(class));
        (!classes.is_empty()).then_some(CreditFrame { enabled: classes, limits, account: mac_control::Account::None })
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

impl Account {
    /// Notes how far the peer's count is off, modulo 2^32; in how many messages in a row it was by that.
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

/// Says when the message is due, at once, and then each period, whatever happened; and whose turn it is that it has an
/// account of, the buffer's or a class's.
#[derive(Debug, State)]
pub struct Advertiser {
    classes: ClassSet,
    period: Span,
    due_at: Time,
    /// The class whose count the next message has; `None` for the buffer's size.
    turn: Option<Class>,
}

impl Advertiser {
    /// For `classes`, every `period`.
    ///
    /// # Panics
    /// If `period` is zero.
    pub fn new(classes: ClassSet, period: Span) -> Advertiser {
        assert!(period > Span::ZERO, "a message without pause would fill the link");
        Advertiser { classes, period, due_at: Time::ZERO, turn: None }
    }

    /// The period that InfiniBand recommends, 65,535 byte times: 52.4 us at 10 Gb/s (gfc 5.4).
    pub fn period_by_default(rate: BitRate) -> Span {
        rate.time_for(Bytes::new(65_535))
    }

    /// The frame due at `now`; `sent` is FCTBS, what this end has sent of a class ahead of the frame. Confirm it with
    /// [`Advertiser::handle_sent`]; one that could not be sent is due again.
    #[inline]
    pub fn poll(&self, now: Time, receiver: &Receiver, sent: impl FnOnce(Class) -> u32) -> Option<CreditFrame> {
        if now < self.due_at {
            return None;
        }
        let account = match self.turn {
            None => mac_control::Account::Buffer { blocks: receiver.capacity() },
            Some(class) => mac_control::Account::Sent { class, blocks: sent(class) },
        };
        receiver.frame(self.classes).map(|frame| CreditFrame { account, ..frame })
    }

    /// Notes that the frame that was due has been sent at `now`. Periods follow each other without drift; after
    /// a delay of more than one they start anew.
    pub fn handle_sent(&mut self, now: Time) {
        let next = self.due_at.saturating_add(self.period);
        self.due_at = if next > now { next } else { now.saturating_add(self.period) };
        let later = |class: &Class| self.turn.is_none_or(|turn| turn.index() < class.index());
        self.turn = self.classes.iter().find(later);
    }

    /// As at the start, at which the first message is due at `at`.
    pub(crate) fn restart(&mut self, at: Time) {
        (self.due_at, self.turn) = (at, None);
    }

    /// When the next message is due.
    pub fn next_wakeup(&self) -> Time {
        self.due_at
    }
}
