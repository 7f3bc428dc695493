//! Attachment of a host: the far end of a switch port's ring, or a device of its own.

use weir_dpdk_io::{Batch, RingEnd, RxQueue, TxQueue};

/// Attachment of a host to its switch.
#[derive(Debug)]
pub(super) enum Attachment {
    /// Far end of the switch port's ring.
    Ring(RingEnd),
    /// Device with a cable to the switch port.
    Device(RxQueue, TxQueue),
}

impl Attachment {
    /// Appends up to `max` received frames to the batch; returns their number.
    #[inline]
    pub(super) fn receive(&mut self, batch: &mut Batch, max: usize) -> usize {
        match self {
            Attachment::Ring(end) => end.receive(batch, max),
            Attachment::Device(rx, _) => rx.receive(batch, max),
        }
    }

    /// Sends from the front of the batch; returns the number of frames accepted.
    #[inline]
    pub(super) fn send(&mut self, batch: &mut Batch) -> usize {
        match self {
            Attachment::Ring(end) => end.send(batch),
            Attachment::Device(_, tx) => tx.send(batch),
        }
    }
}
