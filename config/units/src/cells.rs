//! Conversion of wire bytes to charges in cells.

use crate::{FRAME_BYTES_MIN, Span, WIRE_OVERHEAD_BYTES};

/// Maximum charge for `wire` bytes on the wire, where a frame is charged whole cells of `cell_bytes`. The worst frames are the smallest,
/// and those one byte longer than a cell; a frame of L bytes takes L + 20 on the wire.
pub fn in_cells(wire: u64, cell_bytes: u32) -> u64 {
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

/// Extends a delay by the overhead of cells: a bound that multiplies the delay with the wire's rate then covers frames charged in whole
/// cells.
pub fn span_in_cells(span: Span, cell_bytes: u32) -> Span {
    Span::from_picos(in_cells(span.as_picos(), cell_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_fill_sooner_than_bytes_come() {
        let longer = |cell_bytes| span_in_cells(Span::from_nanos(84 * 85), cell_bytes);
        assert_eq!(longer(1), Span::from_nanos(84 * 85));
        assert_eq!(longer(64), Span::from_nanos(128 * 84), "65 B take two cells");
        assert_eq!(longer(208), Span::from_nanos(208 * 85), "64 B take one");
    }
}
