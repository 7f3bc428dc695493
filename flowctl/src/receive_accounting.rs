//! Count of arrivals from a port's peer.

use weir_units::Class;
use weir_wire::mac_control::{CreditAccount, CreditFrame};

use crate::cbfc::{BlockCounters, blocks, blocks_of_all};
use crate::gfc::ArrivalCounters;

/// Count of arrivals from a port's peer, in its flow control's unit. Written by the one lcore that receives on the port.
#[derive(Debug)]
pub enum ReceiveAccounting {
    /// Arrivals are not counted.
    Uncounted,
    /// Blocks, under credit.
    Blocks(BlockCounters),
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
            ReceiveAccounting::Bytes(arrivals) => arrivals.bytes_of(frame_bytes),
        }
    }

    /// Returns the sum of [`ReceiveAccounting::count_of`] over these frames.
    #[inline]
    pub fn count_of_all(&self, frames: &[u32]) -> u32 {
        match self {
            ReceiveAccounting::Uncounted => 0,
            ReceiveAccounting::Blocks(_) => blocks_of_all(frames),
            ReceiveAccounting::Bytes(arrivals) => frames.iter().map(|bytes| arrivals.bytes_of(*bytes)).sum(),
        }
    }

    /// Adds a [count](ReceiveAccounting::count_of) of frames.
    #[inline]
    pub fn count(&self, class: Class, count: u32) {
        match self {
            ReceiveAccounting::Uncounted => {}
            ReceiveAccounting::Blocks(receiver) => receiver.handle_arrivals(class, count),
            ReceiveAccounting::Bytes(arrivals) => arrivals.count(class, count),
        }
    }

    /// Handles the peer's own count in a credit frame. All frames before it must have been handled; `uncounted` returns a class's
    /// part that is yet to be [counted](ReceiveAccounting::count).
    pub fn handle_account(&self, frame: &CreditFrame, uncounted: impl FnOnce(Class) -> u32) {
        if let (ReceiveAccounting::Blocks(receiver), CreditAccount::Sent { class, blocks }) = (self, frame.account) {
            receiver.handle_sent_total(class, blocks, uncounted(class));
        }
    }

    /// Resets the counts shared with the peer to 0, as the link has gone. Called by the lcore that transmits.
    pub fn reset(&self) {
        if let ReceiveAccounting::Blocks(receiver) = self {
            receiver.reset();
        }
    }

    /// Returns the number of times that the count of arrivals was set to the peer's, under credit: after loss on the link, a
    /// restart of an end, or a forged message.
    pub fn resyncs(&self) -> u64 {
        if let ReceiveAccounting::Blocks(receiver) = self { receiver.resyncs() } else { 0 }
    }

    /// Returns whether arrivals are counted.
    #[inline]
    pub fn is_counted(&self) -> bool {
        !matches!(self, ReceiveAccounting::Uncounted)
    }
}
