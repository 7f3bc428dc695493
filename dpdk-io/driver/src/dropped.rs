//! Frames that an lcore drops, for the control thread: a ring for each lcore of a switch.
//!
//! With a full ring the lcore goes on: its counters have all drops.

use rtrb::{Consumer, Producer, RingBuffer};
use weir_switch_core::counters::DropReason;
use weir_units::{QueueId, Time};

/// Drops of an lcore that wait for the control thread, at most.
const WAITING: usize = 1_024;

/// Dropped frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DroppedFrame {
    /// Instant of the drop: that of the poll.
    pub at: Time,
    /// Queue that counts the drop.
    pub queue: QueueId,
    /// Reason of the drop.
    pub reason: DropReason,
}

/// Reader of an lcore's drops.
#[derive(Debug)]
pub struct DroppedFrames {
    /// The switch, by its index.
    pub switch: usize,
    ring: Consumer<DroppedFrame>,
}

/// Creates the ring of an lcore of switch `switch`.
pub(crate) fn dropped_frames(switch: usize) -> (Producer<DroppedFrame>, DroppedFrames) {
    let (lcore, ring) = RingBuffer::new(WAITING);
    (lcore, DroppedFrames { switch, ring })
}

/// Drops since the last call, in their order.
impl Iterator for DroppedFrames {
    type Item = DroppedFrame;

    fn next(&mut self) -> Option<DroppedFrame> {
        self.ring.pop().ok()
    }
}
