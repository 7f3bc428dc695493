//! Count of arrivals from a port's peer.

use weir_units::{Bytes, Class, FCS_BYTES};
use weir_wire::mac_control::{ControlFrame, CreditAccount, CreditCount};

use crate::cbfc::{BlockCounters, CellCounters, blocks, blocks_of_all};
use crate::gfc::ArrivalCounters;

/// Count of arrivals from a port's peer, in its flow control's unit. Written by the one lcore that receives on the port.
#[derive(Debug)]
pub enum ReceiveAccounting {
    /// Arrivals are not counted.
    Uncounted,
    /// Blocks, under credit.
    Blocks(BlockCounters),
    /// Cells, under UEC's credit.
    Cells(CellCounters),
    /// Bytes on the wire, of a peer that only knows PFC.
    Bytes(ArrivalCounters),
}

impl ReceiveAccounting {
    /// Returns the count of a frame of this length (without FCS).
    #[inline]
    pub fn count_of(&self, frame_bytes: u32) -> u32 {
        match self {
            ReceiveAccounting::Uncounted => 0,
            ReceiveAccounting::Blocks(_) => blocks(frame_bytes),
            ReceiveAccounting::Cells(receiver) => receiver.size().cells(frame_bytes),
            ReceiveAccounting::Bytes(arrivals) => arrivals.bytes_of(frame_bytes),
        }
    }

    /// Returns the sum of [`ReceiveAccounting::count_of`] over these frames.
    #[inline]
    pub fn count_of_all(&self, frames: &[u32]) -> u32 {
        match self {
            ReceiveAccounting::Uncounted => 0,
            ReceiveAccounting::Blocks(_) => blocks_of_all(frames),
            ReceiveAccounting::Cells(receiver) => receiver.size().cells_of_all(frames),
            ReceiveAccounting::Bytes(arrivals) => frames.iter().map(|bytes| arrivals.bytes_of(*bytes)).sum(),
        }
    }

    /// Adds a [count](ReceiveAccounting::count_of) of frames.
    #[inline]
    pub fn count(&self, class: Class, count: u32) {
        match self {
            ReceiveAccounting::Uncounted => {}
            ReceiveAccounting::Blocks(receiver) => receiver.handle_arrivals(class, count),
            ReceiveAccounting::Cells(receiver) => receiver.handle_arrivals(class, count),
            ReceiveAccounting::Bytes(arrivals) => arrivals.count(class, count),
        }
    }

    /// Returns the bytes that a frame of this length (without FCS) takes in a receive buffer: whole cells, where these are counted.
    #[inline]
    pub fn stored(&self, frame_bytes: u32) -> Bytes {
        match self {
            ReceiveAccounting::Cells(receiver) => {
                let size = receiver.size();
                Bytes::new(u64::from(size.cells(frame_bytes) * size.bytes()))
            }
            _ => Bytes::new(u64::from(frame_bytes) + FCS_BYTES),
        }
    }

    /// Whether a control frame has the peer's own count of sent data, for [`ReceiveAccounting::handle_account`].
    pub fn has_account(frame: &ControlFrame) -> bool {
        match frame {
            ControlFrame::Credit(credit) => matches!(credit.account, CreditAccount::Sent { .. }),
            ControlFrame::Update(update) => update.count == CreditCount::Consumed,
            _ => false,
        }
    }

    /// Handles the peer's own count in a control frame, if any. All frames before it must have been handled; `uncounted` returns a class's
    /// part that is yet to be [counted](ReceiveAccounting::count).
    pub fn handle_account(&self, frame: &ControlFrame, uncounted: impl Fn(Class) -> u32) {
        match (self, frame) {
            (ReceiveAccounting::Blocks(receiver), ControlFrame::Credit(credit)) => {
                if let CreditAccount::Sent { class, blocks } = credit.account {
                    receiver.handle_sent_total(class, blocks, uncounted(class));
                }
            }
            (ReceiveAccounting::Cells(receiver), ControlFrame::Update(update)) => {
                receiver.handle_update(update, uncounted);
            }
            _ => {}
        }
    }

    /// Resets the counts shared with the peer to 0, as the link has gone. Called by the lcore that transmits.
    pub fn reset(&self) {
        match self {
            ReceiveAccounting::Blocks(receiver) => receiver.reset(),
            ReceiveAccounting::Cells(receiver) => receiver.reset(),
            ReceiveAccounting::Uncounted | ReceiveAccounting::Bytes(_) => {}
        }
    }

    /// Returns the number of times that the count of arrivals was set to the peer's, under credit: after loss on the link, a
    /// restart of an end, or a forged message.
    pub fn resyncs(&self) -> u64 {
        match self {
            ReceiveAccounting::Blocks(receiver) => receiver.resyncs(),
            ReceiveAccounting::Cells(receiver) => receiver.resyncs(),
            ReceiveAccounting::Uncounted | ReceiveAccounting::Bytes(_) => 0,
        }
    }

    /// Returns whether arrivals are counted.
    #[inline]
    pub fn is_counted(&self) -> bool {
        !matches!(self, ReceiveAccounting::Uncounted)
    }
}
