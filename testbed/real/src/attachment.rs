//! What a host is attached by: the far end of a switch port's ring, or a device of its own.

use weir_dpdk_io::{Batch, RingEnd, RxQueue, TxQueue};

/// A host's way to its switch.
#[derive(Debug)]
pub(super) enum Attachment {
    /// The far end of the switch port's ring.
    Ring(RingEnd),
    /// A device, from which a real wire leads to the port.
    Device(RxQueue, TxQueue),
}

impl Attachment {
    /// Appends up to `max` frames that have come to the batch; returns how many.
    #[inline]
    pub(super) fn receive(&mut self, batch: &mut Batch, max: usize) -> usize {
        match self {
            Attachment::Ring(end) => end.receive(batch, max),
            Attachment::Device(rx, _) => rx.receive(batch, max),
        }
    }

    /// Sends from the front of the batch; returns how many frames were taken.
    #[inline]
    pub(super) fn send(&mut self, batch: &mut Batch) -> usize {
        match self {
            Attachment::Ring(end) => end.send(batch),
            Attachment::Device(_, tx) => tx.send(batch),
        }
    }
}
