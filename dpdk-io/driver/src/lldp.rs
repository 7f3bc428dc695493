//! LLDP frames between lcores and the control thread, by a pair of rings for each lcore.
//!
//! Received frames are copied into mbufs of the data pool. With a full ring they are dropped as other link-local frames are. Frames to send
//! wait at the lcore until their port accepts them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rtrb::{Consumer, Producer, RingBuffer};
use weir_units::PortId;

use crate::frame::Frame;

/// Frames of an lcore that wait for the control thread, at most.
pub(crate) const RECEIVED_MAX: usize = 32;
/// Frames of the control thread that wait for an lcore, at most: one for each port of a switch.
pub(crate) const POSTED_MAX: usize = 64;

/// Lcore's end of the channel.
#[derive(Debug)]
pub(crate) struct LldpLcore {
    received: Producer<(PortId, Frame)>,
    posted: Consumer<(PortId, Frame)>,
    /// Frames that their ports did not accept yet. Allocated upfront.
    waiting: Vec<(PortId, Frame)>,
    pending: Arc<AtomicU32>,
}

/// Control thread's end of the channel.
#[derive(Debug)]
pub(crate) struct LldpChannel {
    received: Consumer<(PortId, Frame)>,
    posted: Producer<(PortId, Frame)>,
    /// Number of posted frames that have not left.
    pending: Arc<AtomicU32>,
}

/// Creates the channel of an lcore.
pub(crate) fn lldp_channel() -> (LldpLcore, LldpChannel) {
    let ((received, to_control), (posted, to_lcore)) = (RingBuffer::new(RECEIVED_MAX), RingBuffer::new(POSTED_MAX));
    let pending = Arc::new(AtomicU32::new(0));
    let waiting = Vec::with_capacity(POSTED_MAX);
    let lcore = LldpLcore { received, posted: to_lcore, waiting, pending: pending.clone() };
    (lcore, LldpChannel { received: to_control, posted, pending })
}

impl LldpLcore {
    /// Whether a received frame has room.
    pub(crate) fn has_room(&self) -> bool {
        self.received.slots() > 0
    }

    /// Passes a received frame to the control thread, if there is room.
    pub(crate) fn pass(&mut self, port: PortId, frame: Frame) -> bool {
        self.received.push((port, frame)).is_ok()
    }

    /// Sends the waiting and the posted frames with `send`, which returns a frame that its port does not accept now.
    pub(crate) fn send(&mut self, mut send: impl FnMut(PortId, Frame) -> Result<(), Frame>) {
        while self.waiting.len() < self.waiting.capacity()
            && let Ok(posted) = self.posted.pop()
        {
            self.waiting.push(posted);
        }
        for _ in 0..self.waiting.len() {
            let (port, frame) = self.waiting.remove(0);
            match send(port, frame) {
                Ok(()) => {
                    self.pending.fetch_sub(1, Ordering::Relaxed);
                }
                Err(frame) => self.waiting.push((port, frame)),
            }
        }
    }
}

impl LldpChannel {
    /// Sends a frame; returns false if the lcore has as many as it takes.
    pub(crate) fn send(&mut self, port: PortId, frame: Frame) -> bool {
        // Counted first: the lcore subtracts sent frames.
        let pending = self.pending.fetch_add(1, Ordering::Relaxed);
        let is_posted = pending < POSTED_MAX as u32 && self.posted.push((port, frame)).is_ok();
        if !is_posted {
            self.pending.fetch_sub(1, Ordering::Relaxed);
        }
        is_posted
    }

    /// Whether posted frames have not left.
    pub(crate) fn is_pending(&self) -> bool {
        self.pending.load(Ordering::Relaxed) > 0
    }

    /// Takes a received frame.
    pub(crate) fn take(&mut self) -> Option<(PortId, Frame)> {
        self.received.pop().ok()
    }
}
