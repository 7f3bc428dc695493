//! Parameters that a control thread may change while lcores read them.
//!
//! Each parameter is one independent word, read once per decision: a packet is placed by either the old or the new value.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use weir_units::{Alpha, Bytes};

// Atomics of core under loom too: no model changes a parameter, and loom's own would multiply the interleavings.

/// Factor α that may change at run time. Relaxed: no other memory depends on the value.
#[derive(Debug)]
pub struct AtomicAlpha(AtomicU32);

impl AtomicAlpha {
    /// Creates the parameter with an initial α.
    pub fn new(alpha: Alpha) -> AtomicAlpha {
        AtomicAlpha(AtomicU32::new(alpha.to_bits()))
    }

    /// Current value.
    #[inline]
    pub fn get(&self) -> Alpha {
        Alpha::from_bits(self.0.load(Ordering::Relaxed))
    }

    /// Sets the value.
    pub fn set(&self, alpha: Alpha) {
        self.0.store(alpha.to_bits(), Ordering::Relaxed);
    }
}

/// Size that may change at run time. Relaxed: no other memory depends on the value.
#[derive(Debug)]
pub struct AtomicBytes(AtomicU64);

impl AtomicBytes {
    /// Creates the parameter with an initial size.
    pub fn new(size: Bytes) -> AtomicBytes {
        AtomicBytes(AtomicU64::new(size.get()))
    }

    /// Current value.
    #[inline]
    pub fn get(&self) -> Bytes {
        Bytes::new(self.0.load(Ordering::Relaxed))
    }

    /// Sets the value.
    pub fn set(&self, size: Bytes) {
        self.0.store(size.get(), Ordering::Relaxed);
    }
}
