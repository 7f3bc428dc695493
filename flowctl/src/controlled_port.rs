//! What a flow control is made for.

use weir_units::{BitRate, Bytes, Span, span_in_cells};

/// A port, and what the buffer has for its queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlledPort {
    /// C.
    pub rate: BitRate,
    /// D_prop, one way.
    pub delay: Span,
    /// `[pfc] reaction`: how long a message may take to be made and obeyed.
    pub reaction: Span,
    /// Longest wait of a message for data that a NIC was handed over before it; zero for other devices.
    pub tx_backlog: Span,
    /// The longest frame, with FCS.
    pub frame_max: Bytes,
    /// The buffer's accounting unit.
    pub cell_bytes: u32,
    /// `[pfc] quanta`: the pause time to ask for.
    pub quanta: u16,
    /// `[pfc] refresh_percent`: a PAUSE is repeated after this share of it.
    pub refresh_percent: u8,
    /// The length that an ingress queue never passes, where the flow control has such a [`Limit`](crate::Limit); else zero.
    pub limit: Bytes,
    /// Whether the buffer keeps that much for a queue, and a frame; true where that can't be said.
    pub has_room: bool,
}

impl ControlledPort {
    /// A delay as a bound takes it that is about bytes as they come over the wire, where a frame is charged whole cells.
    pub fn in_cells(&self, span: Span) -> Span {
        span_in_cells(span, self.cell_bytes)
    }
}
