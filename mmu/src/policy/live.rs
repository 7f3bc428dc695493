//! Parameters that a control thread may change while lcores go by them.
//!
//! Each is one word that stands alone, read once for a decision: a packet is placed by the old value or by the new one.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use weir_units::archive::SharedState;
use weir_units::{Alpha, Bytes};

// Core's atomics in loom's models too: no model changes a parameter, and each of loom's own would multiply the interleavings.

/// An α that may change. Relaxed: nothing else hangs on it.
#[derive(Debug, SharedState)]
pub struct LiveAlpha(AtomicU32);

impl LiveAlpha {
    /// This α, for now.
    pub fn new(alpha: Alpha) -> LiveAlpha {
        LiveAlpha(AtomicU32::new(alpha.to_bits()))
    }

    /// α now.
    #[inline]
    pub fn get(&self) -> Alpha {
        Alpha::from_bits(self.0.load(Ordering::Relaxed))
    }

    /// From now on another α.
    pub fn set(&self, alpha: Alpha) {
        self.0.store(alpha.to_bits(), Ordering::Relaxed);
    }
}

/// A size that may change. Relaxed: nothing else hangs on it.
#[derive(Debug, SharedState)]
pub struct LiveBytes(AtomicU64);

impl LiveBytes {
    /// This size, for now.
    pub fn new(size: Bytes) -> LiveBytes {
        LiveBytes(AtomicU64::new(size.get()))
    }

    /// The size now.
    #[inline]
    pub fn get(&self) -> Bytes {
        Bytes::new(self.0.load(Ordering::Relaxed))
    }

    /// From now on another size.
    pub fn set(&self, size: Bytes) {
        self.0.store(size.get(), Ordering::Relaxed);
    }
}
