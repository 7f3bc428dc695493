//! Bytes that a burst may take of the shared segment.

use weir_units::{Alpha, Time};

use crate::pool::{PoolGrant, PoolLevel};

/// Grant of a burst in the shared segment, and the bytes that it has used.
pub(super) struct SharedBudget {
    before: PoolLevel,
    pub(super) lossy_alpha: Alpha,
    pub(super) granted: u64,
    pub(super) used: u64,
    pub(super) now: Time,
}

impl SharedBudget {
    pub(super) fn from_grant(grant: PoolGrant, now: Time, lossy_alpha: Alpha) -> SharedBudget {
        SharedBudget { before: grant.before, lossy_alpha, granted: grant.bytes, used: 0, now }
    }

    /// Budget of a packet that reserves nothing.
    #[inline]
    pub(super) fn without_reservation(pool: PoolLevel, now: Time, lossy_alpha: Alpha) -> SharedBudget {
        SharedBudget { before: pool, lossy_alpha, granted: pool.free(), used: 0, now }
    }

    /// Level of the shared segment, including the burst's placed bytes.
    #[inline]
    pub(super) fn pool(&self) -> PoolLevel {
        PoolLevel { used: self.before.used + self.used, ..self.before }
    }

    /// Bytes of the grant that are left after the run has placed `placed` bytes.
    #[inline]
    pub(super) fn rest(&self, placed: u64) -> u64 {
        self.granted.saturating_sub(self.used + placed)
    }

    /// Returns whether the grant has room for a packet after the run has placed `placed` bytes.
    #[inline]
    pub(super) fn fits(&self, placed: u64, bytes: u32) -> bool {
        self.used + placed + u64::from(bytes) <= self.granted
    }
}
