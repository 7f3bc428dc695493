//! The shared buffer and the headroom rule.

use weir_units::{Alpha, BitRate, Bytes, FRAME_BYTES_MIN, Span, WIRE_OVERHEAD_BYTES};

use crate::PolicyConfig;

/// The largest buffer, and the largest part of one: the MMU counts a queue's segments in 31 bits.
pub(crate) const BUFFER_MAX: Bytes = Bytes::mb(2_000);

/// The shared buffer.
#[derive(Clone, Debug)]
pub struct BufferConfig {
    /// B: the whole buffer.
    pub size: Bytes,
    /// Accounting unit: a frame takes a whole number of cells. 1 accounts in bytes.
    pub cell_bytes: u32,
    /// ρ: private buffer of each ingress queue.
    pub private: Bytes,
    /// How Φ, the headroom of each lossless ingress queue, is set.
    pub headroom: Headroom,
    /// δ: RESUME below Xoff − δ. `None` is 2 MTU-sized frames.
    pub xon_offset: Option<Bytes>,
    /// The policy that sets T(t).
    pub policy: PolicyConfig,
    /// α° of the egress threshold at which lossy classes drop.
    pub lossy_alpha: Alpha,
}

/// How the headroom Φ of a lossless ingress queue is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Headroom {
    /// By the rule `Φ = 2 (C·D_prop + L_MTU) + 3840 B` from the port's rate and delay.
    Auto,
    /// This much for every lossless ingress queue.
    Fixed(Bytes),
}

/// `Φ = 2 (C·D_prop + L_MTU) + 3840 B`, the headroom of one lossless ingress queue (DSH, equation 1): what arrives
/// between the decision to pause and the last byte of the frames that it came too late for.
///
/// `frame_max` is the longest frame, with header and FCS. `C·D_prop` is rounded up to a byte.
pub fn headroom_by_rule(rate: BitRate, delay: Span, frame_max: Bytes) -> Bytes {
    const PICOSECONDS_PER_BYTE_SECOND: u128 = 8 * 1_000_000_000_000;
    let in_flight = (u128::from(rate.as_bps()) * u128::from(delay.as_picos())).div_ceil(PICOSECONDS_PER_BYTE_SECOND);
    let rule = 2 * (in_flight + u128::from(frame_max.get())) + 3_840;
    Bytes::new(u64::try_from(rule).unwrap_or(u64::MAX))
}

/// Headroom when accounting is in cells: a frame is charged whole cells, so the same time on the wire costs more.
pub(crate) fn headroom_in_cells(headroom: Bytes, cell_bytes: u32) -> Bytes {
    Bytes::new(in_cells(headroom.get(), cell_bytes))
}

/// The most that is charged for so many bytes of the wire. The worst frames are the smallest, and those one byte longer than
/// a cell; a frame of L bytes takes L + 20 on the wire.
fn in_cells(wire: u64, cell_bytes: u32) -> u64 {
    let cell = u64::from(cell_bytes);
    let charge = |frame: u64| frame.div_ceil(cell) * cell;
    [FRAME_BYTES_MIN, cell + 1]
        .into_iter()
        .filter(|frame| cell > 1 && *frame >= FRAME_BYTES_MIN)
        .map(|frame| {
            let (wire, charge) = (u128::from(wire), u128::from(charge(frame)));
            u64::try_from((wire * charge).div_ceil(u128::from(frame + WIRE_OVERHEAD_BYTES))).unwrap_or(u64::MAX)
        })
        .fold(wire, u64::max)
}

impl BufferConfig {
    /// For how long a wire would have to bring bytes that are charged as they are, to fill the buffer as it may in `span`
    /// with frames that are charged whole cells: what a bound takes for a delay that it multiplies with the wire's rate.
    pub fn span_in_cells(&self, span: Span) -> Span {
        Span::from_picos(in_cells(span.as_picos(), self.cell_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_gives_the_papers_headroom() {
        let phi = headroom_by_rule(BitRate::gbps(40), Span::from_nanos(1_500), Bytes::new(1_500));
        assert_eq!(phi, Bytes::new(21_840));
        let phi = headroom_by_rule(BitRate::gbps(100), Span::from_micros(2), Bytes::new(1_500));
        assert_eq!(phi, Bytes::new(56_840));
    }

    #[test]
    fn cells_fill_sooner_than_bytes_come() {
        let longer = |cell_bytes| {
            let buffer = BufferConfig {
                size: Bytes::mb(1),
                cell_bytes,
                private: Bytes::ZERO,
                headroom: Headroom::Auto,
                xon_offset: None,
                policy: PolicyConfig::Static { threshold: None },
                lossy_alpha: Alpha::ONE,
            };
            buffer.span_in_cells(Span::from_nanos(84 * 85))
        };
        assert_eq!(longer(1), Span::from_nanos(84 * 85));
        assert_eq!(longer(64), Span::from_nanos(128 * 84), "65 B take two cells");
        assert_eq!(longer(208), Span::from_nanos(208 * 85), "64 B take one");
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
