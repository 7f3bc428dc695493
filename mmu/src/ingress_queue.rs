//! Ingress queue: occupancy of a port and class of arrival, and its limits.

use weir_units::Time;

use crate::loan::Loan;
use crate::low_pass::Average;
use crate::occupancy::{AtomicOccupancy, Occupancy};
use crate::signal::LastXoff;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::watermark::{PersistentWatermark, Watermark};

/// Counters of one ingress queue (port of arrival, class). Fields that every packet touches come first, in one cache line.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct IngressQueue {
    pub(crate) occupancy: AtomicOccupancy,
    pub(crate) held_max: Watermark,
    pub(crate) shared_max: Watermark,
    pub(crate) headroom_max: Watermark,
    pub(crate) limits: QueueLimits,
    /// Bytes in private buffer. Increased by the one lcore that admits, decreased by any.
    private: AtomicU32,
    /// Current Φ, in charges ([`BufferLayout::charged_by`](crate::BufferLayout::charged_by)). Written by the one lcore that admits, and
    /// only under a policy that adapts headroom.
    headroom_limit: AtomicU32,
    /// Average q̂ of w_s, under a policy that compares averages.
    pub(crate) average: Average,
    pauses: AtomicU64,
    off_at: LastXoff,
    /// Lent headroom, under a policy that lends.
    pub(crate) loan: Loan,
}

/// Peaks before the last restart of `held_max`, `shared_max` and `headroom_max`.
pub(crate) type PersistentWatermarks = [PersistentWatermark; 3];

// Processors fetch lines in pairs, so lcores share none with 128 B between queues.
#[cfg(not(loom))]
const _: () = assert!(std::mem::offset_of!(IngressQueue, average) <= 64 && size_of::<IngressQueue>() <= 128);

/// Limits of one ingress queue, independent of the policy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueLimits {
    /// Private buffer ρ, in bytes.
    pub private: u32,
    /// Headroom Φ of the layout, in charges.
    pub headroom: u32,
    /// Whether the queue may be paused, and must then lose no packet.
    pub lossless: bool,
}

impl IngressQueue {
    pub(crate) fn new(limits: QueueLimits) -> IngressQueue {
        IngressQueue {
            occupancy: AtomicOccupancy::default(),
            held_max: Watermark::default(),
            shared_max: Watermark::default(),
            headroom_max: Watermark::default(),
            limits,
            private: AtomicU32::new(0),
            headroom_limit: AtomicU32::new(limits.headroom),
            average: Average::default(),
            pauses: AtomicU64::new(0),
            off_at: LastXoff::default(),
            loan: Loan::default(),
        }
    }

    /// Bytes in private buffer. Relaxed: the one lcore that adds reads its own additions, and subtractions by others only make room.
    #[inline]
    pub(crate) fn private(&self) -> u32 {
        self.private.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn add_private(&self, bytes: u32) {
        if bytes > 0 {
            self.private.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(crate) fn take_private(&self, bytes: u32) {
        if bytes > 0 {
            let before = self.private.fetch_sub(bytes, Ordering::Relaxed);
            debug_assert!(before >= bytes, "private buffer of {before} B released {bytes} B");
        }
    }

    /// Current Φ. Relaxed: only the lcore that writes Φ enforces it; others report it.
    #[inline]
    pub(crate) fn headroom_limit(&self) -> u32 {
        self.headroom_limit.load(Ordering::Relaxed)
    }

    pub(crate) fn set_headroom_limit(&self, bytes: u32) {
        self.headroom_limit.store(bytes, Ordering::Relaxed);
    }

    /// Updates the watermarks from the occupancy just installed and the private buffer.
    #[inline]
    pub(crate) fn note_occupancy(&self, occupancy: Occupancy, private: u32) {
        self.shared_max.note(u64::from(occupancy.shared));
        self.headroom_max.note(u64::from(occupancy.headroom));
        self.held_max.note(u64::from(occupancy.shared) + u64::from(occupancy.headroom) + u64::from(private));
    }

    /// Peaks of the total, w_s and w_h since the start. `before` is `None` without a restart.
    pub(crate) fn highest(&self, before: Option<&PersistentWatermarks>) -> [u64; 3] {
        let marks = [&self.held_max, &self.shared_max, &self.headroom_max];
        std::array::from_fn(|n| before.map_or(marks[n].get(), |before| before[n].highest(marks[n])))
    }

    /// Restarts the watermarks, and returns the peaks of w_s and w_h until then.
    pub(crate) fn restart_watermarks(&self, [held, shared, headroom]: &PersistentWatermarks) -> [u64; 2] {
        held.restart(&self.held_max, || {
            let occupancy = self.occupancy.load();
            u64::from(occupancy.shared) + u64::from(occupancy.headroom) + u64::from(self.private())
        });
        [
            shared.restart(&self.shared_max, || u64::from(self.occupancy.load().shared)),
            headroom.restart(&self.headroom_max, || u64::from(self.occupancy.load().headroom)),
        ]
    }

    pub(crate) fn note_off(&self, now: Time) {
        self.pauses.fetch_add(1, Ordering::Relaxed);
        self.off_at.set(now);
    }

    /// Arrival time of the packet that last turned the queue OFF; [`Time::ZERO`] if none has.
    pub(crate) fn off_at(&self) -> Time {
        self.off_at.get()
    }

    pub(crate) fn pauses(&self) -> u64 {
        self.pauses.load(Ordering::Relaxed)
    }
}
