//! Both sides of UEC's credit-based flow control (UEC 1.0, 5.2), which counts the cells of the receiver's buffer.
//!
//! The receiver of the data counts the cells that have arrived (R_CC) and those that it has freed (R_CF), and sends R_CF in CF_Update.
//! The sender counts the cells that it has sent (S_CC), and sends a frame if `S_CC − S_CF` and the frame's cells are at most the limit.
//! It sends S_CC in CC_Update, on which the receiver corrects its counts: `R_CF += S_CC − R_CC; R_CC = S_CC`. Here R_CF follows from R_CC
//! and the cells that the buffer holds, so R_CC alone is set.
//!
//! Messages have 20 bits of a count. An R_CF that would leave more than the limit in use is no count of this link, as after a restart of one
//! end, and is ignored. Any other is taken: one that is late or doubled only takes credit, until the next.
//!
//! The public texts have management start both ends in step. Here a sender has no credit before the first CF_Update, so that the cells which
//! the receiver still holds count.

use weir_units::{Bytes, Class, ClassSet, FCS_BYTES, FRAME_BYTES_MIN};
use weir_wire::mac_control::{CreditCount, CreditUpdate};

use super::{BlockCounters, CreditCounters};

/// Size of a cell of the receiver's buffer. A frame with FCS takes whole cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellSize(u32);

impl CellSize {
    /// Smallest size: each frame takes a cell at least.
    pub const MIN: u32 = FRAME_BYTES_MIN as u32;

    /// Creates a size.
    ///
    /// # Panics
    /// If it is below [`CellSize::MIN`].
    pub fn new(bytes: u32) -> CellSize {
        assert!(bytes >= CellSize::MIN, "a cell of {bytes} B");
        CellSize(bytes)
    }

    /// Returns the size in bytes.
    pub fn bytes(self) -> u32 {
        self.0
    }

    /// Returns the whole cells in these bytes.
    pub fn cells_in(self, bytes: Bytes) -> u64 {
        bytes.get() / u64::from(self.0)
    }

    /// Returns the cells of a frame of this length (without FCS).
    #[inline]
    pub fn cells(self, frame_bytes: u32) -> u32 {
        self.at_most(1, frame_bytes)
    }

    /// Returns the sum of [`CellSize::cells`] over frames of these lengths.
    #[inline]
    pub(crate) fn cells_of_all(self, frames: &[u32]) -> u32 {
        frames.iter().map(|frame_bytes| self.cells(*frame_bytes)).sum()
    }

    /// Returns an upper bound on the cells of `frames` frames with `bytes` in total.
    #[inline]
    fn at_most(self, frames: u32, bytes: u32) -> u32 {
        (bytes + frames * (FCS_BYTES as u32 + self.0 - 1)) / self.0
    }
}

/// Receiver of the data: cells of a port's eight classes that have arrived, and that were freed.
///
/// Lcores use it as [`BlockCounters`].
#[derive(Debug)]
pub struct CellCounters {
    size: CellSize,
    counters: BlockCounters,
}

impl CellCounters {
    /// Creates counters for empty queues.
    pub fn new(size: CellSize) -> CellCounters {
        CellCounters { size, counters: BlockCounters::with_capacity(0) }
    }

    /// Returns the size of a cell.
    #[inline]
    pub fn size(&self) -> CellSize {
        self.size
    }

    /// Counts received frames that take this number of cells together.
    #[inline]
    pub(crate) fn handle_arrivals(&self, class: Class, cells: u32) {
        self.counters.handle_arrivals(class, cells);
    }

    /// Sets R_CC of each class in a CC_Update. Call in wire order, as [`BlockCounters::handle_sent_total`].
    pub(crate) fn handle_update(&self, update: &CreditUpdate, uncounted: impl Fn(Class) -> u32) {
        if update.count == CreditCount::Consumed && update.cell_bytes == self.size.0 {
            for class in update.enabled.iter() {
                self.counters.set_sent_total(class, update.cells[class.index()], CreditUpdate::MASK, uncounted(class));
            }
        }
    }

    /// Returns R_CF modulo 2^20: R_CC minus the cells of `held` bytes, which are whole cells.
    pub fn freed(&self, class: Class, held: impl FnOnce() -> Bytes) -> u32 {
        self.counters.settle(class, || held().get().div_ceil(u64::from(self.size.0)) as u32);
        self.counters.limit(class) & CreditUpdate::MASK
    }

    /// Resets the counts to 0, as at the link's start: [`BlockCounters::reset`].
    pub(crate) fn reset(&self) {
        self.counters.reset();
    }

    /// Returns the number of times that R_CC was set to another value.
    pub fn resyncs(&self) -> u64 {
        self.counters.resyncs()
    }
}

/// Sender of the data: credit of a port's eight classes.
///
/// Lcores use it as [`CreditCounters`].
#[derive(Debug)]
pub struct CellCredits {
    size: CellSize,
    credits: CreditCounters,
    limit: u32,
    /// Classes that share the limit; none if each has its own.
    sharing: ClassSet,
}

impl CellCredits {
    /// Creates a sender without credit. `limit`, in cells, is for each class, or for all classes of `sharing` together.
    ///
    /// # Panics
    /// If the limit does not fit a count.
    pub fn new(size: CellSize, limit: u32, sharing: ClassSet) -> CellCredits {
        assert!(limit <= CreditUpdate::MASK, "a count has 20 bits");
        CellCredits { size, credits: CreditCounters::with_limit(limit), limit, sharing }
    }

    /// Obeys an update of the peer; returns whether it counts cells of this size. CC_Update is for the [receiver](CellCounters).
    pub fn handle_update(&self, update: &CreditUpdate) -> bool {
        if update.cell_bytes != self.size.0 {
            return false;
        }
        if update.count == CreditCount::Freed {
            let enabled = update.enabled.iter();
            enabled.for_each(|class| {
                self.credits.handle_freed(class, update.cells[class.index()], CreditUpdate::MASK);
            });
        }
        true
    }

    /// Returns the cells that a class may send.
    #[inline]
    pub fn credit(&self, class: Class) -> u32 {
        let credit = self.credits.credit(class);
        if self.sharing.is_empty() { credit } else { self.shared_credit() }
    }

    /// Whether the limit is for all classes together.
    pub(crate) fn shares_credit(&self) -> bool {
        !self.sharing.is_empty()
    }

    /// Returns the limit less the cells in use by all classes.
    fn shared_credit(&self) -> u32 {
        let in_use: u32 = self.sharing.iter().map(|class| self.limit - self.credits.credit(class)).sum();
        self.limit.saturating_sub(in_use)
    }

    /// Returns whether a frame of this length (without FCS) may be sent.
    #[inline]
    pub fn may_send(&self, class: Class, frame_bytes: u32) -> bool {
        self.size.cells(frame_bytes) <= self.credit(class)
    }

    /// Returns whether all these frames, with `bytes` in total, may be sent one after the other.
    #[inline]
    pub(crate) fn may_send_all(&self, class: Class, frames: &[u32], bytes: u32) -> bool {
        let credit = self.credit(class);
        self.size.at_most(frames.len() as u32, bytes) <= credit || self.size.cells_of_all(frames) <= credit
    }

    /// Counts a sent frame of this length (without FCS).
    #[inline]
    pub fn handle_sent(&self, class: Class, frame_bytes: u32) {
        self.credits.add_sent(class, self.size.cells(frame_bytes));
    }

    /// Counts frames as [`CellCredits::handle_sent`].
    #[inline]
    pub(crate) fn handle_all_sent(&self, class: Class, frames: &[u32]) {
        self.credits.add_sent(class, self.size.cells_of_all(frames));
    }

    /// Returns S_CC, with 32 bits.
    pub fn sent_total(&self, class: Class) -> u32 {
        self.credits.sent_total(class)
    }

    /// Resets credit and counts to 0, as at the link's start: [`CreditCounters::reset`].
    pub(crate) fn reset(&self) {
        self.credits.reset();
    }

    /// Returns the number of counts ignored as of another link.
    pub(crate) fn excessive(&self) -> u64 {
        self.credits.excessive()
    }
}

#[cfg(test)]
mod tests;
