//! An ingress queue: its segments and its ON/OFF state, changed together.
//!
//! Shared and headroom occupancy and the state bit are one 64-bit word. Whoever charges or releases computes the
//! new state from the new counters and installs both in one compare-and-swap. So the switch's most dangerous race,
//! a last departure that should RESUME against an arrival that should PAUSE, has no half-way point: of the two,
//! the one that comes second sees what the first left.

use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::watermark::Watermark;

/// The counters of one ingress queue (port of arrival, class).
#[derive(Debug)]
pub(crate) struct IngressQueue {
    /// OFF bit, headroom bytes, shared bytes: see [`Levels`].
    word: AtomicU64,
    /// Bytes in private buffer. Added to by the one lcore that admits, taken from by any.
    private: AtomicU32,
    pub(crate) limits: Limits,
    /// How often the queue went from ON to OFF.
    pauses: AtomicU64,
    pub(crate) held_max: Watermark,
    pub(crate) shared_max: Watermark,
    pub(crate) headroom_max: Watermark,
}

/// What bounds one ingress queue, whatever the policy says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// ρ.
    pub private: u32,
    /// Φ.
    pub headroom: u32,
    /// Whether it may be paused, and must then lose nothing.
    pub lossless: bool,
    /// δ: RESUME below T − δ.
    pub xon_offset: u64,
}

/// The word, unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Levels {
    pub off: bool,
    pub headroom: u32,
    pub shared: u32,
}

/// A change of the queue's levels that took effect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub before: Levels,
    pub after: Levels,
}

impl IngressQueue {
    pub(crate) fn new(limits: Limits) -> IngressQueue {
        IngressQueue {
            word: AtomicU64::new(0),
            private: AtomicU32::new(0),
            limits,
            pauses: AtomicU64::new(0),
            held_max: Watermark::default(),
            shared_max: Watermark::default(),
            headroom_max: Watermark::default(),
        }
    }

    /// Installs what `plan` makes of the current levels; `plan` runs again whenever another lcore came between.
    ///
    /// AcqRel on success pairs with itself on other lcores: who sees the new word sees what led to it. Acquire on
    /// the loads, so that a plan reads thresholds no older than the levels it saw.
    #[inline]
    pub(crate) fn update(&self, mut plan: impl FnMut(Levels) -> Levels) -> Change {
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            let before = Levels::unpack(word);
            let after = plan(before);
            if after == before {
                return Change { before, after };
            }
            match self.word.compare_exchange_weak(word, after.pack(), Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    if after.off && !before.off {
                        self.pauses.fetch_add(1, Ordering::Relaxed);
                    }
                    return Change { before, after };
                }
                Err(now) => word = now,
            }
        }
    }

    /// The levels as they stand. Acquire: pairs with the Release of the update that set them.
    #[inline]
    pub(crate) fn levels(&self) -> Levels {
        Levels::unpack(self.word.load(Ordering::Acquire))
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

    pub(crate) fn pauses(&self) -> u64 {
        self.pauses.load(Ordering::Relaxed)
    }
}

impl Limits {
    /// Whether a queue with these levels should run again under a threshold T.
    ///
    /// Without shared bytes it always should: T moves when *other* queues move, and with a full pool T − δ is
    /// negative, so a queue that has drained would otherwise wait for an event of its own for ever.
    #[inline]
    pub(crate) fn resumes(&self, levels: Levels, threshold: u64) -> bool {
        levels.headroom == 0 && (levels.shared == 0 || u64::from(levels.shared) + self.xon_offset < threshold)
    }
}

impl Levels {
    const OFF_BIT: u64 = 1 << 63;
    const HEADROOM_SHIFT: u32 = 32;

    #[inline]
    fn pack(self) -> u64 {
        debug_assert!(self.headroom < 1 << 31);
        (if self.off { Self::OFF_BIT } else { 0 })
            | u64::from(self.headroom) << Self::HEADROOM_SHIFT
            | u64::from(self.shared)
    }

    #[inline]
    fn unpack(word: u64) -> Levels {
        Levels {
            off: word & Self::OFF_BIT != 0,
            headroom: ((word & !Self::OFF_BIT) >> Self::HEADROOM_SHIFT) as u32,
            shared: word as u32,
        }
    }

    /// Takes `bytes` out, headroom first, then shared (reverie 2.2.1); what is left over is private buffer's.
    #[inline]
    pub(crate) fn depart(&mut self, bytes: u32) -> Departed {
        let headroom = bytes.min(self.headroom);
        let shared = (bytes - headroom).min(self.shared);
        self.headroom -= headroom;
        self.shared -= shared;
        Departed { shared, private: bytes - headroom - shared }
    }
}

/// Which segments a departure emptied, beyond headroom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Departed {
    pub shared: u32,
    pub private: u32,
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn levels_survive_packing() {
        for levels in [
            Levels { off: false, headroom: 0, shared: 0 },
            Levels { off: true, headroom: (1 << 31) - 1, shared: u32::MAX },
            Levels { off: true, headroom: 21_840, shared: 500_000 },
        ] {
            assert_eq!(Levels::unpack(levels.pack()), levels);
        }
    }

    #[test]
    fn headroom_leaves_first_and_private_last() {
        let mut levels = Levels { off: true, headroom: 1_000, shared: 2_000 };
        assert_eq!(levels.depart(1_500), Departed { shared: 500, private: 0 });
        assert_eq!(levels.depart(2_000), Departed { shared: 1_500, private: 500 });
        assert_eq!(levels, Levels { off: true, headroom: 0, shared: 0 });
    }

    #[test]
    fn a_drained_queue_resumes_even_under_no_threshold() {
        let limits = Limits { private: 0, headroom: 0, lossless: true, xon_offset: 3_000 };
        assert!(limits.resumes(Levels { off: true, headroom: 0, shared: 0 }, 0));
        assert!(!limits.resumes(Levels { off: true, headroom: 1, shared: 0 }, 1_000_000));
        assert!(!limits.resumes(Levels { off: true, headroom: 0, shared: 7_000 }, 10_000));
        assert!(limits.resumes(Levels { off: true, headroom: 0, shared: 6_999 }, 10_000));
    }
}
