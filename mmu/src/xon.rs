//! Xon: level below which an OFF queue resumes.

use weir_units::Bytes;

use crate::atomics::AtomicBytes;

/// Level to which a queue's shared segment must drain before RESUME: below T − `offset`, or to `floor` if higher. The queue's
/// headroom must also be empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Xon {
    /// Offset δ, in bytes.
    pub offset: Bytes,
    /// Shared bytes at which the queue resumes even if T − δ is less, because other queues hold the buffer.
    pub floor: Bytes,
}

#[derive(Debug)]
pub(crate) struct AtomicXon {
    offset: AtomicBytes,
    floor: AtomicBytes,
}

impl Xon {
    /// Creates an Xon of T − δ alone.
    pub const fn below(offset: Bytes) -> Xon {
        Xon { offset, floor: Bytes::ZERO }
    }

    /// Xon for a threshold `xoff`, in bytes.
    pub fn resume_level(self, xoff: Bytes) -> Bytes {
        xoff.saturating_sub(self.offset).max(self.floor)
    }
}

impl AtomicXon {
    pub(crate) fn new(xon: Xon) -> AtomicXon {
        AtomicXon { offset: AtomicBytes::new(xon.offset), floor: AtomicBytes::new(xon.floor) }
    }

    #[inline]
    pub(crate) fn get(&self) -> Xon {
        Xon { offset: self.offset.get(), floor: self.floor.get() }
    }

    pub(crate) fn set(&self, xon: Xon) {
        self.offset.set(xon.offset);
        self.floor.set(xon.floor);
    }
}
