//! What has come in from a port's peer.

use weir_units::Class;
use weir_units::archive::SharedState;
use weir_wire::mac_control::{Account, CreditFrame};

use crate::cbfc::{Receiver, blocks, blocks_of_all};
use crate::gfc::Arrivals;

/// What has come in from a port's peer, as its flow control counts it. Counted by the one lcore that receives on the port.
#[derive(Debug, SharedState)]
pub enum Arrived {
    /// It does not.
    Uncounted,
    /// In blocks: where credit is given.
    Blocks(Receiver),
    /// In bytes on the wire: of a peer that only knows PFC.
    Bytes(Arrivals),
}

impl Arrived {
    /// What a frame of this length (without FCS) counts.
    #[inline]
    pub fn count_of(&self, frame_bytes: u32) -> u32 {
        match self {
            Arrived::Uncounted => 0,
            Arrived::Blocks(_) => blocks(frame_bytes),
            Arrived::Bytes(arrivals) => arrivals.bytes_of(frame_bytes),
        }
    }

    /// [`Arrived::count_of`] frames of these lengths, together.
    #[inline]
    pub fn count_of_all(&self, frames: &[u32]) -> u32 {
        match self {
            Arrived::Uncounted => 0,
            Arrived::Blocks(_) => blocks_of_all(frames),
            Arrived::Bytes(arrivals) => frames.iter().map(|bytes| arrivals.bytes_of(*bytes)).sum(),
        }
    }

    /// Counts frames that [count](Arrived::count_of) so much together.
    #[inline]
    pub fn count(&self, class: Class, count: u32) {
        match self {
            Arrived::Uncounted => {}
            Arrived::Blocks(receiver) => receiver.handle_arrivals(class, count),
            Arrived::Bytes(arrivals) => arrivals.count(class, count),
        }
    }

    /// Takes what the peer says of itself in a credit frame, of which all that came before it has been handled; `uncounted` is what
    /// of a class is yet to be [counted](Arrived::count).
    pub fn handle_account(&self, frame: &CreditFrame, uncounted: impl FnOnce(Class) -> u32) {
        if let (Arrived::Blocks(receiver), Account::Sent { class, blocks }) = (self, frame.account) {
            receiver.handle_sent_total(class, blocks, uncounted(class));
        }
    }

    /// Starts the counts that the peer goes by too from 0, as the link has gone. Called by the lcore that transmits.
    pub fn forget(&self) {
        if let Arrived::Blocks(receiver) = self {
            receiver.forget();
        }
    }

    /// How often the count of arrivals was set to what the peer says that it sent, where credit is given: after frames were lost
    /// on the link, a restart of an end, or a forged message.
    pub fn resyncs(&self) -> u64 {
        if let Arrived::Blocks(receiver) = self { receiver.resyncs() } else { 0 }
    }

    /// Whether anything is counted.
    #[inline]
    pub fn is_counted(&self) -> bool {
        !matches!(self, Arrived::Uncounted)
    }
}
