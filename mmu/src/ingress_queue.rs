//! An ingress queue: what a port and class of arrival hold, and what bounds them.

use weir_units::Time;
use weir_units::archive::SharedState;

use crate::levels::{AtomicLevels, Levels};
use crate::low_pass::Average;
use crate::signal::Instant;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::watermark::{Former, Watermark};

/// The counters of one ingress queue (port of arrival, class). What every packet touches comes first, in one cache line.
#[derive(Debug, SharedState)]
#[repr(C)]
pub(crate) struct IngressQueue {
    pub(crate) levels: AtomicLevels,
    pub(crate) held_max: Watermark,
    pub(crate) shared_max: Watermark,
    pub(crate) headroom_max: Watermark,
    #[state(same)]
    pub(crate) limits: Limits,
    /// Bytes in private buffer. Added to by the one lcore that admits, taken from by any.
    private: AtomicU32,
    /// Φ now, in charges ([`BufferLayout::charged_by`](crate::BufferLayout::charged_by)). Written by the one lcore that admits, and only under a policy that adapts it.
    headroom_limit: AtomicU32,
    /// q̂ of w_s, under a policy that compares averages.
    pub(crate) average: Average,
    /// How often the queue went from ON to OFF.
    pauses: AtomicU64,
    /// When it last did.
    off_at: Instant,
    /// For `held_max`, `shared_max` and `headroom_max`.
    former: [Former; 3],
}

#[cfg(not(loom))]
const _: () = assert!(std::mem::offset_of!(IngressQueue, average) <= 64);

/// What bounds one ingress queue, whatever the policy says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// ρ.
    pub private: u32,
    /// The layout's Φ, in charges.
    pub headroom: u32,
    /// Whether it may be paused, and must then lose nothing.
    pub lossless: bool,
}

impl IngressQueue {
    pub(crate) fn new(limits: Limits) -> IngressQueue {
        IngressQueue {
            levels: AtomicLevels::default(),
            held_max: Watermark::default(),
            shared_max: Watermark::default(),
            headroom_max: Watermark::default(),
            limits,
            private: AtomicU32::new(0),
            headroom_limit: AtomicU32::new(limits.headroom),
            average: Average::default(),
            pauses: AtomicU64::new(0),
            off_at: Instant::default(),
            former: Default::default(),
        }
    }

    /// Bytes in private buffer. Relaxed: the one lcore that adds reads its own additions, and takings by others
    /// only make room.
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

    /// Φ now. Relaxed: the lcore that writes it is the one that it bounds; others only report it.
    #[inline]
    pub(crate) fn headroom_limit(&self) -> u32 {
        self.headroom_limit.load(Ordering::Relaxed)
    }

    pub(crate) fn set_headroom_limit(&self, bytes: u32) {
        self.headroom_limit.store(bytes, Ordering::Relaxed);
    }

    /// Notes the highest levels: those just installed, and private buffer beside them.
    #[inline]
    pub(crate) fn note_levels(&self, levels: Levels, private: u32) {
        self.shared_max.note(u64::from(levels.shared));
        self.headroom_max.note(u64::from(levels.headroom));
        self.held_max.note(u64::from(levels.shared) + u64::from(levels.headroom) + u64::from(private));
    }

    /// The highest total, w_s and w_h since the start.
    pub(crate) fn highest(&self) -> [u64; 3] {
        let marks = [&self.held_max, &self.shared_max, &self.headroom_max];
        std::array::from_fn(|n| self.former[n].highest(marks[n]))
    }

    /// Has the highest levels noted anew, from those of now.
    pub(crate) fn restart_watermarks(&self) {
        let [held, shared, headroom] = &self.former;
        shared.restart(&self.shared_max, || u64::from(self.levels.load().shared));
        headroom.restart(&self.headroom_max, || u64::from(self.levels.load().headroom));
        held.restart(&self.held_max, || {
            let levels = self.levels.load();
            u64::from(levels.shared) + u64::from(levels.headroom) + u64::from(self.private())
        });
    }

    /// Counts that the queue went OFF with an arrival at `now`.
    pub(crate) fn note_off(&self, now: Time) {
        self.pauses.fetch_add(1, Ordering::Relaxed);
        self.off_at.set(now);
    }

    /// When the arrival came that last turned it OFF; [`Time::ZERO`] if none has.
    pub(crate) fn off_at(&self) -> Time {
        self.off_at.get()
    }

    pub(crate) fn pauses(&self) -> u64 {
        self.pauses.load(Ordering::Relaxed)
    }
}
