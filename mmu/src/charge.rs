//! Charge of a frame in the buffer.

use weir_units::{BitRate, Bytes, FCS_BYTES, FRAME_BYTES_MIN, WIRE_OVERHEAD_BYTES};

/// Function from a frame's length to its charge: bytes with FCS, at least 64, in whole cells. Where each frame takes an mbuf regardless of
/// its length, the minimum charge is larger ([`Charge::at_least_shortest`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    cell_bytes: u32,
    /// Minimum charge in bytes, before rounding up to whole cells.
    least: u32,
}

impl Charge {
    /// Creates accounting in cells of this size, as in ASICs; 1 accounts in bytes.
    ///
    /// # Panics
    /// If `cell_bytes` is zero.
    pub fn in_cells(cell_bytes: u32) -> Charge {
        assert!(cell_bytes > 0, "a cell has at least one byte");
        Charge { cell_bytes, least: FRAME_BYTES_MIN as u32 }
    }

    /// Raises the minimum charge to `times` the shortest frame's. One mbuf per minimum charge then suffices for all frames in the buffer,
    /// and headroom holds `times` its bytes ([`BufferLayout::charged_by`]).
    ///
    /// # Panics
    /// If `times` is zero.
    ///
    /// [`BufferLayout::charged_by`]: crate::BufferLayout::charged_by
    pub fn at_least_shortest(self, times: u32) -> Charge {
        assert!(times > 0, "every frame is charged");
        Charge { least: Charge::in_cells(self.cell_bytes).frame_charge(0) * times, ..self }
    }

    /// Ratio of the minimum charge to the shortest frame's cells.
    pub fn times(self) -> u32 {
        self.frame_charge(0) / Charge::in_cells(self.cell_bytes).frame_charge(0)
    }

    /// Charge of a frame of `frame_bytes` bytes without FCS.
    #[inline(always)]
    pub fn frame_charge(self, frame_bytes: u32) -> u32 {
        let stored = (frame_bytes + FCS_BYTES as u32).max(self.least);
        if self.cell_bytes == 1 { stored } else { stored.next_multiple_of(self.cell_bytes) }
    }

    /// Maximum rate at which a link of this rate fills the buffer. In cells it exceeds the link rate: the worst frames are the smallest,
    /// and those one byte longer than a cell. Charges of short frames beyond their cells do not count, because headroom has room for them
    /// beyond its bytes.
    pub fn fill_rate(self, rate: BitRate) -> BitRate {
        let cells = Charge::in_cells(self.cell_bytes);
        let fill = |frame: u64| {
            let charged = u64::from(cells.frame_charge((frame - FCS_BYTES) as u32));
            let bps = u128::from(rate.as_bps()) * u128::from(charged);
            BitRate::bps(bps.div_ceil(u128::from(frame + WIRE_OVERHEAD_BYTES)) as u64)
        };
        let worst =
            [FRAME_BYTES_MIN, u64::from(self.cell_bytes) + 1].into_iter().filter(|frame| *frame >= FRAME_BYTES_MIN);
        worst.map(fill).fold(rate, BitRate::max)
    }

    /// Maximum number of frames in a buffer of this size, by the minimum charge.
    ///
    /// A packet pool of this many buffers, plus those in the receive and transmit paths, never runs dry before the MMU refuses.
    pub fn frames_max(self, buffer: Bytes) -> u64 {
        buffer.get() / u64::from(self.frame_charge(0))
    }
}

/// Charges of consecutive packets.
#[derive(Clone, Copy, Debug)]
pub enum Charges<'c> {
    /// Charge of each packet.
    Each(&'c [u32]),
    /// Equal charge of all packets, which need no individual lookup.
    Uniform {
        /// Charge of each packet.
        bytes: u32,
        /// Number of packets.
        packets: usize,
    },
}

impl Charges<'_> {
    pub(crate) fn iter(self) -> impl Iterator<Item = u32> {
        let packets = match self {
            Charges::Each(charges) => charges.len(),
            Charges::Uniform { packets, .. } => packets,
        };
        (0..packets).map(move |n| match self {
            Charges::Each(charges) => charges[n],
            Charges::Uniform { bytes, .. } => bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runts_cost_a_minimum_frame() {
        let bytes = Charge::in_cells(1);
        assert_eq!(bytes.frame_charge(14), 64);
        assert_eq!(bytes.frame_charge(60), 64);
        assert_eq!(bytes.frame_charge(1_514), 1_518);
    }

    #[test]
    fn charges_are_multiples_of_cells() {
        let cells = Charge::in_cells(208);
        assert_eq!(cells.frame_charge(60), 208);
        assert_eq!(cells.frame_charge(1_514), 1_664);
    }

    #[test]
    fn short_frames_are_charged_an_mbuf() {
        let mbufs = Charge::in_cells(1).at_least_shortest(4);
        assert_eq!([60, 252, 253, 1_514].map(|bytes| mbufs.frame_charge(bytes)), [256, 256, 257, 1_518]);
        assert_eq!((mbufs.times(), mbufs.frames_max(Bytes::mb(16))), (4, 62_500));
        let cells = Charge::in_cells(208).at_least_shortest(2);
        assert_eq!([60, 412, 413].map(|bytes| cells.frame_charge(bytes)), [416, 416, 624]);
        assert_eq!((cells.times(), Charge::in_cells(208).times()), (2, 1));
        for link in [10, 100].map(BitRate::gbps) {
            assert_eq!(cells.fill_rate(link), Charge::in_cells(208).fill_rate(link));
        }
    }

    #[test]
    fn cells_fill_faster_than_the_link_sends() {
        let link = BitRate::gbps(84);
        assert_eq!(Charge::in_cells(1).fill_rate(link), link);
        assert_eq!(Charge::in_cells(208).fill_rate(link), BitRate::gbps(208));
    }

    #[test]
    fn the_pool_is_sized_for_the_smallest_frames() {
        assert_eq!(Charge::in_cells(1).frames_max(Bytes::mb(16)), 250_000);
        assert_eq!(Charge::in_cells(256).frames_max(Bytes::new(1 << 20)), 4_096);
    }
}
