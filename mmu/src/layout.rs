//! How the buffer is cut: private, headroom, and the rest shared.

use std::fmt;

use weir_units::{Bytes, CLASSES, Class, PortId};

/// The buffer's partition, checked: the segments fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferLayout {
    size: Bytes,
    shared: Bytes,
    ports: Vec<PortLayout>,
}

/// What one port's ingress queues have for themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PortLayout {
    /// ρ of each class.
    pub private: [Bytes; CLASSES],
    /// Φ of each class; zero for lossy ones.
    pub headroom: [Bytes; CLASSES],
    /// Bit j set: class j is lossless on this port.
    pub lossless: u8,
}

/// Why a partition is impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutError {
    /// Private buffers and headroom leave nothing to share.
    NothingShared {
        /// B.
        size: Bytes,
        /// Σ ρ.
        private: Bytes,
        /// Σ Φ.
        headroom: Bytes,
    },
    /// One queue counts up to 2 GiB.
    TooLarge(Bytes),
}

impl BufferLayout {
    /// The largest buffer: a queue's segments are counted in 31 bits.
    pub const SIZE_MAX: Bytes = Bytes::new((1 << 31) - 1);

    /// Cuts a buffer of `size`: what the ports do not have for themselves is shared.
    pub fn new(size: Bytes, ports: Vec<PortLayout>) -> Result<BufferLayout, LayoutError> {
        if size > Self::SIZE_MAX {
            return Err(LayoutError::TooLarge(size));
        }
        let private = ports.iter().flat_map(|port| port.private).sum();
        let headroom = ports.iter().flat_map(|port| port.headroom).sum();
        match size.checked_sub(private + headroom) {
            Some(shared) if shared > Bytes::ZERO => Ok(BufferLayout { size, shared, ports }),
            _ => Err(LayoutError::NothingShared { size, private, headroom }),
        }
    }

    /// B: the whole buffer.
    pub fn size(&self) -> Bytes {
        self.size
    }

    /// B_s: what all ingress queues share.
    pub fn shared(&self) -> Bytes {
        self.shared
    }

    /// Σ ρ over all queues.
    pub fn private(&self) -> Bytes {
        self.ports.iter().flat_map(|port| port.private).sum()
    }

    /// Σ Φ over all queues.
    pub fn headroom(&self) -> Bytes {
        self.ports.iter().flat_map(|port| port.headroom).sum()
    }

    /// Each port's own segments, in the order of the ports.
    pub fn ports(&self) -> &[PortLayout] {
        &self.ports
    }

    /// Whether a class is lossless on a port.
    pub fn is_lossless(&self, port: PortId, class: Class) -> bool {
        self.ports[port.index()].lossless & class.bit() != 0
    }
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LayoutError::NothingShared { size, private, headroom } => write!(
                f,
                "private buffers ({private}) and headroom ({headroom}) take {} of a buffer of {size}: nothing is left to share",
                *private + *headroom
            ),
            LayoutError::TooLarge(size) => {
                write!(f, "a buffer of {size} is larger than the {} that a queue counts", BufferLayout::SIZE_MAX)
            }
        }
    }
}

impl std::error::Error for LayoutError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(n: usize, private: u64, headroom: u64) -> Vec<PortLayout> {
        let port = PortLayout {
            private: [Bytes::new(private); CLASSES],
            headroom: [Bytes::new(headroom); CLASSES],
            lossless: 0xff,
        };
        vec![port; n]
    }

    #[test]
    fn the_headroom_share_of_a_32_port_switch() {
        let layout = BufferLayout::new(Bytes::new(12 << 20), ports(32, 0, 21_840)).unwrap();
        assert_eq!(layout.headroom(), Bytes::new(5_591_040));
        let percent = layout.headroom().get() as f64 / layout.size().get() as f64 * 100.0;
        assert!((percent - 44.4).abs() < 0.05, "{percent}");
        assert_eq!(layout.shared() + layout.headroom(), layout.size());
    }

    #[test]
    fn segments_that_do_not_fit_are_refused() {
        let error = BufferLayout::new(Bytes::mb(1), ports(8, 10_000, 10_000)).unwrap_err();
        assert!(error.to_string().contains("nothing is left to share"), "{error}");
        assert!(BufferLayout::new(Bytes::new(3 << 30), ports(2, 0, 0)).is_err());
    }
}
