//! Partition of the buffer: private buffers, headroom, and the shared segment.

use std::fmt;

use weir_units::{Bytes, CLASSES, Class, ClassSet, PortId};

use crate::charge::Charge;

/// Partition of the buffer whose segments are known to fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferLayout {
    size: Bytes,
    shared: Bytes,
    egress_lossy: Option<Bytes>,
    headroom: Headroom,
    ports: Vec<PortLayout>,
    /// Bytes of charges per byte of headroom.
    headroom_times: u32,
}

/// Segments of one port's ingress queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PortLayout {
    /// Private buffer ρ of each class.
    pub private: [Bytes; CLASSES],
    /// Maximum headroom Φ of each class's queue; zero for lossy classes.
    pub headroom: [Bytes; CLASSES],
    /// Lossless classes of the port.
    pub lossless: ClassSet,
}

/// Memory that headroom is taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Headroom {
    /// Φ reserved for every queue (SIH).
    #[default]
    PerQueue,
    /// Pool of this size; each queue takes at most its Φ (oversubscription, SONiC's headroom pool).
    Pool(Bytes),
    /// Φ reserved once per port, for all its queues: DSH's insurance headroom B_i.
    PerPort,
    /// Absent headroom: DSH without insurance, the paper's ablation. The policy then loses packets.
    Uninsured,
}

/// Reason why a partition is impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutError {
    /// Private buffers and headroom leave no shared segment.
    NothingShared {
        /// B, the buffer size.
        size: Bytes,
        /// Σ ρ, the private buffers.
        private: Bytes,
        /// Size of the headroom.
        headroom: Bytes,
    },
    /// Ingress pool exceeds the rest after private buffers and headroom (reverie, heuristic 1).
    IngressPool {
        /// Requested size.
        pool: Bytes,
        /// Available size.
        room: Bytes,
    },
    /// Egress lossy pool exceeds the ingress pool (reverie, heuristic 3).
    EgressLossyPool {
        /// Requested size.
        pool: Bytes,
        /// Size of the ingress pool.
        ingress: Bytes,
    },
    /// Size above 2 GiB, the range of a queue's counters.
    TooLarge(Bytes),
}

impl BufferLayout {
    /// Maximum buffer size: a queue's segments are counted in 31 bits.
    pub const SIZE_MAX: Bytes = Bytes::new((1 << 31) - 1);
    /// Maximum size of the buffer, or of a segment, in a file: a round number below [`BufferLayout::SIZE_MAX`].
    pub const CONFIGURED_MAX: Bytes = Bytes::mb(2_000);

    /// Partitions a buffer of `size`; the rest after private buffers and headroom is shared.
    pub fn new(size: Bytes, ports: Vec<PortLayout>, headroom: Headroom) -> Result<BufferLayout, LayoutError> {
        if size > Self::SIZE_MAX {
            return Err(LayoutError::TooLarge(size));
        }
        let mut layout =
            BufferLayout { size, shared: Bytes::ZERO, egress_lossy: None, headroom, ports, headroom_times: 1 };
        let (private, headroom) = (layout.private(), layout.headroom());
        match size.checked_sub(private + headroom) {
            Some(shared) if shared > Bytes::ZERO => {
                layout.shared = shared;
                Ok(layout)
            }
            _ => Err(LayoutError::NothingShared { size, private, headroom }),
        }
    }

    /// Sets the pools of the four-pool model: the ingress pool, which is the shared segment here, and the egress lossy pool, which counts
    /// lossy packets a second time. The egress lossless pool is the whole buffer and bounds nothing (reverie, heuristic 2).
    pub(crate) fn with_pools(self, ingress: Bytes, egress_lossy: Bytes) -> Result<BufferLayout, LayoutError> {
        if ingress > self.shared || ingress == Bytes::ZERO {
            return Err(LayoutError::IngressPool { pool: ingress, room: self.shared });
        }
        if egress_lossy > ingress {
            return Err(LayoutError::EgressLossyPool { pool: egress_lossy, ingress });
        }
        Ok(BufferLayout { shared: ingress, egress_lossy: Some(egress_lossy), ..self })
    }

    /// Returns the layout with the part of one of `slices` equal slices in the shared segment and in the egress lossy pool, rounded down.
    pub fn slice(&self, slices: u32) -> BufferLayout {
        let part = |pool: Bytes| pool.divided_by(u64::from(slices));
        BufferLayout { shared: part(self.shared), egress_lossy: self.egress_lossy.map(part), ..self.clone() }
    }

    /// Adapts the partition to a charge. Where short frames are charged more than their cells, headroom gets room for these charges in
    /// addition to the buffer's size, and so holds as many frames as by bytes. Private buffer and the shared segment keep their bytes.
    ///
    /// # Panics
    /// If a queue's headroom then exceeds [`SIZE_MAX`](Self::SIZE_MAX).
    pub fn charged_by(self, charge: Charge) -> BufferLayout {
        let layout = BufferLayout { headroom_times: charge.times(), ..self };
        let most = layout.ports.iter().map(PortLayout::headroom_max).max().unwrap_or_default();
        assert!(layout.in_headroom(most) <= Self::SIZE_MAX, "more headroom than a queue counts");
        layout
    }

    /// Converts bytes of headroom to charges.
    pub(crate) fn in_headroom(&self, bytes: Bytes) -> Bytes {
        Bytes::new(bytes.get().saturating_mul(u64::from(self.headroom_times)))
    }

    /// Converts charges to bytes of headroom.
    pub fn of_headroom(&self, charges: Bytes) -> Bytes {
        charges.divided_by(u64::from(self.headroom_times))
    }

    /// Converts charges to bytes of headroom, rounded up.
    pub(crate) fn of_headroom_ceil(&self, charges: Bytes) -> Bytes {
        Bytes::new(charges.get().div_ceil(u64::from(self.headroom_times)))
    }

    /// Maximum sum of charges of all buffered frames: the buffer's size, plus the charges that headroom holds beyond its bytes.
    pub fn charges_max(&self) -> Bytes {
        self.size + self.in_headroom(self.headroom()).saturating_sub(self.headroom())
    }

    /// B, the buffer size.
    pub fn size(&self) -> Bytes {
        self.size
    }

    /// B_s, the segment that all ingress queues share; the ingress pool in the four-pool model.
    pub fn shared(&self) -> Bytes {
        self.shared
    }

    /// Size of the egress lossy pool, in the four-pool model.
    pub fn egress_lossy(&self) -> Option<Bytes> {
        self.egress_lossy
    }

    /// Sum of ρ over all queues.
    pub fn private(&self) -> Bytes {
        self.ports.iter().flat_map(|port| port.private).sum()
    }

    /// Bytes of the buffer that are reserved as headroom.
    pub fn headroom(&self) -> Bytes {
        match self.headroom {
            Headroom::PerQueue => self.ports.iter().flat_map(|port| port.headroom).sum(),
            Headroom::Pool(size) => size,
            Headroom::PerPort => self.ports.iter().map(PortLayout::headroom_max).sum(),
            Headroom::Uninsured => Bytes::ZERO,
        }
    }

    /// Memory that headroom is taken from.
    pub fn headroom_from(&self) -> Headroom {
        self.headroom
    }

    /// Segments of each port, in port order.
    pub fn ports(&self) -> &[PortLayout] {
        &self.ports
    }

    /// Whether a class is lossless on a port.
    pub fn is_lossless(&self, port: PortId, class: Class) -> bool {
        self.ports[port.index()].lossless.contains(class)
    }
}

impl PortLayout {
    /// Largest Φ of the port's queues: the bytes that still arrive on its link once all of them are paused.
    pub fn headroom_max(&self) -> Bytes {
        self.headroom.iter().copied().max().unwrap_or(Bytes::ZERO)
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
            LayoutError::IngressPool { pool, room } => {
                write!(f, "an ingress pool of {pool} does not fit the {room} that private buffers and headroom leave")
            }
            LayoutError::EgressLossyPool { pool, ingress } => {
                write!(f, "an egress lossy pool of {pool} is more than the ingress pool of {ingress}")
            }
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
            lossless: ClassSet::ALL,
        };
        vec![port; n]
    }

    #[test]
    fn the_headroom_share_of_a_32_port_switch() {
        let layout = BufferLayout::new(Bytes::new(12 << 20), ports(32, 0, 21_840), Headroom::PerQueue).unwrap();
        assert_eq!(layout.headroom(), Bytes::new(5_591_040));
        let percent = layout.headroom().get() as f64 / layout.size().get() as f64 * 100.0;
        assert!((percent - 44.4).abs() < 0.05, "{percent}");
        assert_eq!(layout.shared() + layout.headroom(), layout.size());
    }

    #[test]
    fn insurance_is_one_headroom_a_port() {
        let layout = |headroom| BufferLayout::new(Bytes::new(12 << 20), ports(32, 0, 21_840), headroom).unwrap();
        assert_eq!(layout(Headroom::PerPort).headroom(), Bytes::new(32 * 21_840));
        assert_eq!(layout(Headroom::Uninsured).headroom(), Bytes::ZERO);
        assert_eq!(layout(Headroom::Pool(Bytes::mb(4))).shared(), Bytes::new(12 << 20) - Bytes::mb(4));
    }

    #[test]
    fn headroom_alone_has_room_for_what_short_frames_are_charged() {
        let charge = Charge::in_cells(1).at_least_shortest(4);
        for (from, headroom) in
            [(Headroom::PerQueue, 16_000), (Headroom::Pool(Bytes::kb(5)), 5_000), (Headroom::PerPort, 2_000)]
        {
            let layout = BufferLayout::new(Bytes::mb(1), ports(2, 0, 1_000), from).unwrap();
            let charged = layout.clone().charged_by(charge);
            assert_eq!((charged.shared(), charged.headroom()), (layout.shared(), Bytes::new(headroom)));
            assert_eq!(layout.charges_max(), Bytes::mb(1));
            assert_eq!(charged.charges_max(), Bytes::new(1_000_000 + 3 * headroom));
        }
    }

    #[test]
    fn segments_that_do_not_fit_are_refused() {
        let error = BufferLayout::new(Bytes::mb(1), ports(8, 10_000, 10_000), Headroom::PerQueue).unwrap_err();
        assert!(error.to_string().contains("nothing is left to share"), "{error}");
        assert!(BufferLayout::new(Bytes::new(3 << 30), ports(2, 0, 0), Headroom::PerQueue).is_err());
    }

    #[test]
    fn pools_that_exceed_the_buffer_are_refused() {
        let layout = || BufferLayout::new(Bytes::mb(20), ports(2, 0, 0), Headroom::Pool(Bytes::mb(2))).unwrap();
        assert_eq!(layout().with_pools(Bytes::mb(18), Bytes::mb(14)).unwrap().egress_lossy(), Some(Bytes::mb(14)));
        let error = layout().with_pools(Bytes::mb(19), Bytes::mb(14)).unwrap_err();
        assert!(matches!(error, LayoutError::IngressPool { .. }), "{error}");
        let error = layout().with_pools(Bytes::mb(10), Bytes::mb(14)).unwrap_err();
        assert!(matches!(error, LayoutError::EgressLossyPool { .. }), "{error}");
    }
}
