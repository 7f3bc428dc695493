//! Parameters of a port that a flow control is made for.

use weir_units::{BitRate, Bytes, Span, span_in_cells};

/// Port parameters, and the buffer for its queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowControlContext {
    /// Rate C.
    pub rate: BitRate,
    /// D_prop, one way.
    pub delay: Span,
    /// `[pfc] reaction`: longest time to make and obey a message.
    pub reaction: Span,
    /// Longest wait of a message for data that a NIC was handed over before it; zero for other devices.
    pub tx_backlog: Span,
    /// Longest frame, with FCS.
    pub frame_max: Bytes,
    /// Accounting unit of the buffer.
    pub cell_bytes: u32,
    /// `[pfc] quanta`: pause time of a PAUSE.
    pub quanta: u16,
    /// `[pfc] refresh_percent`: share of a PAUSE after which it is repeated.
    pub refresh_percent: u8,
    /// Length that an ingress queue never exceeds, where the flow control has such a [`QueueLimit`](crate::QueueLimit); else zero.
    pub limit: Bytes,
    /// Whether the buffer reserves `limit` and a frame for a queue; true where that is unknown.
    pub has_room: bool,
}

impl FlowControlContext {
    /// Converts a delay for a bound on bytes from the wire, where the buffer charges a frame whole cells.
    pub fn in_cells(&self, span: Span) -> Span {
        span_in_cells(span, self.cell_bytes)
    }
}
