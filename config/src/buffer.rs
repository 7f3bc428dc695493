//! Shared buffer and headroom rule.

use std::sync::Arc;

use weir_mmu::policy::BufferPolicyConfig;
use weir_mmu::{BufferLayout, Charge};
use weir_units::{Alpha, BitRate, Bytes, Span, in_cells};

pub(crate) const BUFFER_MAX: Bytes = BufferLayout::CONFIGURED_MAX;

/// `[buffer]`: the shared buffer.
#[derive(Clone, Debug)]
pub struct BufferConfig {
    /// B, the buffer size.
    pub size: Bytes,
    /// Accounting unit: a frame takes a whole number of cells. 1 accounts in bytes.
    pub cell_bytes: u32,
    /// Slices of the shared segment and of the egress lossy pool.
    pub slices: u32,
    /// Minimum charge of a frame on DPDK: packet memory has an mbuf for each such charge that the buffer holds. `None` is the charge of the
    /// shortest frame.
    pub mean_frame: Option<Bytes>,
    /// Private buffer ρ of each ingress queue.
    pub private: Bytes,
    /// Source of Φ, the headroom of each lossless ingress queue.
    pub headroom: Headroom,
    /// Hysteresis δ: RESUME below Xoff − δ. `None` is 2 MTU-sized frames.
    pub xon_offset: Option<Bytes>,
    /// Lower bound of the RESUME level, in shared bytes, where Xoff − δ is less.
    pub xon_floor: Bytes,
    /// Policy that sets T(t), with its parameters.
    pub policy: Arc<dyn BufferPolicyConfig>,
    /// Factor α° of the egress threshold at which lossy classes drop.
    pub lossy_alpha: Alpha,
    /// Overrides for ports of a rate without values of their own; one entry per rate.
    pub rates: Vec<RateConfig>,
}

/// `[[buffer.rates]]`: overrides for ports of this rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateConfig {
    /// Rate of the ports.
    pub rate: BitRate,
    /// Private buffer ρ of each ingress queue.
    pub private: Option<Bytes>,
    /// Headroom Φ of each lossless ingress queue.
    pub headroom: Option<Bytes>,
    /// Factor α of the ingress queues, under DT.
    pub alpha: Option<Alpha>,
}

impl BufferConfig {
    /// Frames that packet memory always holds, or as many as the buffer holds if fewer.
    pub(crate) const FRAMES_ALWAYS: u64 = 32_768;

    /// Charge of frames by their lengths alone, in whole cells.
    pub fn charge(&self) -> Charge {
        Charge::in_cells(self.cell_bytes)
    }
}

/// Source of the headroom Φ of a lossless ingress queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Headroom {
    /// [`headroom_by_rule`] from the port's rate and delay.
    Auto,
    /// Fixed size for every lossless ingress queue.
    Fixed(Bytes),
}

/// Headroom of one lossless ingress queue, `Φ = 2 (C·D_prop + L_MTU) + max(3840 B, L_MTU + 84 B)`: the bytes that arrive between the
/// decision to pause and the last frame already under way. DSH's equation 1 has 3840 B alone, the peer's reaction; the frame that exceeds
/// Xoff is charged to headroom too, and with the PAUSE of 84 B it is more from 3,756 B on.
///
/// `frame_max` is `L_MTU`, the longest frame, with header and FCS. `C·D_prop` is rounded up to a byte.
pub fn headroom_by_rule(rate: BitRate, delay: Span, frame_max: Bytes) -> Bytes {
    const PICOSECONDS_PER_BYTE_SECOND: u128 = 8 * 1_000_000_000_000;
    let frame = u128::from(frame_max.get());
    let in_flight = (u128::from(rate.as_bps()) * u128::from(delay.as_picos())).div_ceil(PICOSECONDS_PER_BYTE_SECOND);
    let rule = 2 * (in_flight + frame) + (frame + 84).max(3_840);
    Bytes::new(u64::try_from(rule).unwrap_or(u64::MAX))
}

/// Headroom rounded up for accounting in cells: frames are charged whole cells, so the same wire time costs more.
pub(crate) fn headroom_in_cells(headroom: Bytes, cell_bytes: u32) -> Bytes {
    Bytes::new(in_cells(headroom.get(), cell_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_frames_are_charged_the_mean_frame() {
        let shortest = |buffer: &str, port: &str| {
            let text = format!(
                "[buffer]\n{buffer}\n[[ports]]\nname = \"a\"\nring = \"a\"\nrate = \"10Gbps\"\n{port}\n\
                 [[ports]]\nname = \"b\"\nring = \"b\"\nrate = \"10Gbps\"\n"
            );
            let config = crate::parse("test.toml", &text).unwrap_or_else(|errors| panic!("{}", errors.render(false)));
            config.charge_per_mbuf().frame_charge(60)
        };
        assert_eq!(shortest("size = \"12MB\"", ""), 256, "a chip's cell by default");
        assert_eq!(
            shortest("size = \"32MB\"\nmean_frame = 1000", ""),
            960,
            "a multiple of what the shortest are charged"
        );
        assert_eq!(shortest("size = \"16MB\"\nmean_frame = 1000", ""), 448, "32,768 frames have memory at any rate");
        assert_eq!(shortest("size = \"2MB\"", ""), 64, "a small buffer: an mbuf for each shortest frame");
        assert_eq!(shortest("size = \"16MB\"\nmean_frame = \"exact\"", ""), 64);
        assert_eq!(shortest("size = \"16MB\"\ncell_bytes = 208", ""), 208, "a cell");
        assert_eq!(shortest("size = \"16MB\"\ncell_bytes = 208\nmean_frame = 480", ""), 416);
        assert_eq!(shortest("size = \"1900MB\"\nmean_frame = 16384", ""), 1_472, "no more than the longest");
        let huge = "size = \"1900MB\"\nheadroom = \"400MB\"\n[classes]\nlossless = [3]";
        assert_eq!(shortest(huge, ""), 256);
        let reserved = "size = \"2000MB\"\nmean_frame = 1500\nheadroom = \"400MB\"\n[classes]\nlossless = [3]";
        assert_eq!(shortest(reserved, ""), 320, "a queue counts 2 GiB of headroom");
        let by_bytes = "policy = \"static\"\nheadroom = \"10KB\"";
        assert_eq!(shortest(by_bytes, "flow_control = \"cbfc\""), 64, "both ends count bytes");
        assert_eq!(shortest(by_bytes, ""), 256);
    }

    #[test]
    fn the_rule_gives_the_papers_headroom() {
        let phi = headroom_by_rule(BitRate::gbps(40), Span::from_nanos(1_500), Bytes::new(1_500));
        assert_eq!(phi, Bytes::new(21_840));
        let phi = headroom_by_rule(BitRate::gbps(100), Span::from_micros(2), Bytes::new(1_500));
        assert_eq!(phi, Bytes::new(56_840));
    }

    #[test]
    fn long_frames_need_headroom_for_the_one_that_exceeds_xoff() {
        // At a peer that reacts at once, 2 x 1,170 ns, the PAUSE and the frame before it have room for nine frames with 20 B around
        // each, and the first of them begun before; and one exceeds Xoff.
        let phi = headroom_by_rule(BitRate::gbps(100), Span::from_nanos(1_170), Bytes::new(4_162));
        assert_eq!(phi, Bytes::new(2 * (14_625 + 4_162) + 4_246));
        assert!(phi >= Bytes::new(10 * 4_162), "{phi}");
    }

    #[test]
    fn cells_need_more_headroom_for_small_frames() {
        let phi = Bytes::new(84_000);
        assert_eq!(headroom_in_cells(phi, 1), phi);
        assert_eq!(
            headroom_in_cells(phi, 208),
            Bytes::new(208_000),
            "a 64-byte frame takes a cell of 208 in 84 byte times"
        );
        assert_eq!(headroom_in_cells(phi, 80), Bytes::new(133_070), "81 bytes take two cells of 80 in 101 byte times");
    }
}
