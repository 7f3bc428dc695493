//! Xon: below which a queue that is OFF resumes.

use weir_units::Bytes;
use weir_units::archive::SharedState;

use crate::policy::LiveBytes;

/// How far a queue's shared segment must drain before its sender resumes: below T − `offset`, or to `floor`, whichever is more.
/// The queue's headroom must be empty besides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Xon {
    /// δ.
    pub offset: Bytes,
    /// Shared bytes at which the queue resumes even where T − δ is less, because others have the buffer.
    pub floor: Bytes,
}

/// An [`Xon`] that a control thread may change.
#[derive(Debug, SharedState)]
pub(crate) struct LiveXon {
    offset: LiveBytes,
    floor: LiveBytes,
}

impl Xon {
    /// Below T − δ alone.
    pub const fn below(offset: Bytes) -> Xon {
        Xon { offset, floor: Bytes::ZERO }
    }

    /// Xon under a threshold of so many bytes.
    pub fn under(self, xoff: Bytes) -> Bytes {
        xoff.saturating_sub(self.offset).max(self.floor)
    }
}

impl LiveXon {
    pub(crate) fn new(xon: Xon) -> LiveXon {
        LiveXon { offset: LiveBytes::new(xon.offset), floor: LiveBytes::new(xon.floor) }
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
