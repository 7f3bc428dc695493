//! Occupancy and ON/OFF state in one atomic word.
//!
//! Shared occupancy, headroom occupancy and the state bit share one 64-bit word. A charge or a release computes the new state from the new
//! counters and installs both in one compare-and-swap. The critical race is a last departure that should RESUME against an arrival that
//! should PAUSE. It has no intermediate state: the later of the two sees the effect of the earlier.
//!
//! An ingress queue has one such word; under a policy with port-level flow control (DSH) a whole port has one too.

use std::ops::AddAssign;

use crate::sync::{Ordering, SharedCounter};
use crate::xon::Xon;

#[derive(Debug, Default)]
pub(crate) struct AtomicOccupancy(SharedCounter);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Occupancy {
    pub off: bool,
    /// Whether the queue's headroom is part of the shared segment ([`lending`](crate::mmu::lending)); only while OFF.
    pub lent: bool,
    pub headroom: u32,
    pub shared: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct OccupancyChange {
    pub before: Occupancy,
    pub after: Occupancy,
}

/// Bytes that a departure took from each segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReleasedBytes {
    pub headroom: u32,
    pub shared: u32,
    pub private: u32,
}

impl AtomicOccupancy {
    pub(crate) fn make_own(&mut self) {
        self.0.make_own();
    }

    /// Installs the result of `plan` on the current occupancy; `plan` runs again if another lcore changed it meanwhile.
    ///
    /// AcqRel on success pairs with itself on other lcores: a reader of the new word sees the writes before it. Acquire on the loads, so
    /// that a plan reads thresholds no older than the occupancy.
    // Always: otherwise the state of `plan` would go through memory.
    #[inline(always)]
    pub(crate) fn update(&self, mut plan: impl FnMut(Occupancy) -> Occupancy) -> OccupancyChange {
        let mut word = self.0.load(Ordering::Acquire);
        loop {
            let before = Occupancy::unpack(word);
            let after = plan(before);
            let new_word = after.pack();
            if new_word == word {
                return OccupancyChange { before, after };
            }
            match self.0.compare_exchange_weak(word, new_word, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return OccupancyChange { before, after },
                Err(now) => word = now,
            }
        }
    }

    /// Current occupancy. Acquire: pairs with the Release of the update that set it.
    #[inline]
    pub(crate) fn load(&self) -> Occupancy {
        Occupancy::unpack(self.0.load(Ordering::Acquire))
    }
}

impl Occupancy {
    const OFF_BIT: u64 = 1 << 63;
    /// Top bit of the shared bytes, of which there are fewer than 2^31.
    const LENT_BIT: u64 = 1 << 31;
    const HEADROOM_SHIFT: u32 = 32;

    #[inline]
    fn pack(self) -> u64 {
        debug_assert!(self.headroom < 1 << 31 && self.shared < 1 << 31);
        (if self.off { Self::OFF_BIT } else { 0 })
            | (if self.lent { Self::LENT_BIT } else { 0 })
            | u64::from(self.headroom) << Self::HEADROOM_SHIFT
            | u64::from(self.shared)
    }

    #[inline]
    fn unpack(word: u64) -> Occupancy {
        Occupancy {
            off: word & Self::OFF_BIT != 0,
            lent: word & Self::LENT_BIT != 0,
            headroom: ((word & !Self::OFF_BIT) >> Self::HEADROOM_SHIFT) as u32,
            shared: (word & !Self::LENT_BIT) as u32,
        }
    }

    /// Removes `bytes`, first from headroom, then from shared (reverie 2.2.1); the rest is private buffer's.
    #[inline]
    pub(crate) fn depart(&mut self, bytes: u32) -> ReleasedBytes {
        let headroom = bytes.min(self.headroom);
        let shared = (bytes - headroom).min(self.shared);
        self.headroom -= headroom;
        self.shared -= shared;
        ReleasedBytes { headroom, shared, private: bytes - headroom - shared }
    }

    /// Returns whether an OFF queue or port of this occupancy resumes, under a threshold `xoff`.
    ///
    /// True without shared bytes, as no floor is below zero. Thresholds change when *other* queues change, and with a full pool T − δ is
    /// negative, so an empty queue would otherwise wait for ever for an event of its own.
    #[inline]
    pub(crate) fn resumes(self, xoff: u64, xon: Xon) -> bool {
        let shared = u64::from(self.shared);
        self.headroom == 0 && (shared <= xon.floor.get() || shared.saturating_add(xon.offset.get()) < xoff)
    }
}

impl AddAssign for ReleasedBytes {
    fn add_assign(&mut self, other: ReleasedBytes) {
        self.headroom += other.headroom;
        self.shared += other.shared;
        self.private += other.private;
    }
}

impl OccupancyChange {
    #[inline]
    pub(crate) fn went_off(self) -> bool {
        self.after.off && !self.before.off
    }

    #[inline]
    pub(crate) fn went_on(self) -> bool {
        self.before.off && !self.after.off
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use weir_units::Bytes;

    use super::*;

    #[test]
    fn levels_survive_packing() {
        for levels in [
            Occupancy::default(),
            Occupancy { off: true, lent: true, headroom: (1 << 31) - 1, shared: (1 << 31) - 1 },
            Occupancy { off: true, lent: false, headroom: 21_840, shared: 500_000 },
        ] {
            assert_eq!(Occupancy::unpack(levels.pack()), levels);
        }
    }

    #[test]
    fn headroom_leaves_first_and_private_last() {
        let mut levels = Occupancy { off: true, lent: false, headroom: 1_000, shared: 2_000 };
        assert_eq!(levels.depart(1_500), ReleasedBytes { headroom: 1_000, shared: 500, private: 0 });
        assert_eq!(levels.depart(2_000), ReleasedBytes { headroom: 0, shared: 1_500, private: 500 });
        assert_eq!(levels, Occupancy { off: true, lent: false, headroom: 0, shared: 0 });
    }

    #[test]
    fn a_drained_queue_resumes_even_under_no_threshold() {
        let xon = Xon::below(Bytes::kb(3));
        assert!(Occupancy { off: true, lent: false, headroom: 0, shared: 0 }.resumes(0, xon));
        assert!(!Occupancy { off: true, lent: false, headroom: 1, shared: 0 }.resumes(1_000_000, xon));
        assert!(!Occupancy { off: true, lent: false, headroom: 0, shared: 7_000 }.resumes(10_000, xon));
        assert!(Occupancy { off: true, lent: false, headroom: 0, shared: 6_999 }.resumes(10_000, xon));
    }

    #[test]
    fn a_queue_at_its_floor_resumes_whatever_the_threshold_is() {
        let xon = Xon { offset: Bytes::kb(3), floor: Bytes::kb(2) };
        let holds = |shared| Occupancy { off: true, lent: false, headroom: 0, shared };
        assert!(holds(2_000).resumes(0, xon) && !holds(2_001).resumes(0, xon));
        assert!(holds(2_001).resumes(5_002, xon), "T − δ is above the floor");
        assert!(!Occupancy { headroom: 1, ..holds(0) }.resumes(0, xon), "headroom first");
        assert_eq!([0, 4_000, 9_000].map(|xoff| xon.resume_level(Bytes::new(xoff)).get()), [2_000, 2_000, 6_000]);
    }
}
