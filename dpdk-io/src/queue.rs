//! Receive and transmit queues: bursts in, bursts out.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use weir_dpdk_sys as sys;

use crate::batch::{Batch, MAX_BURST};
use crate::mbuf::Mbuf;
use crate::netdev;
use crate::port_shared::PortShared;
use crate::rx_interrupts::RxInterrupt;

/// A receive queue. One thread at a time polls it; it can move between threads.
/// It keeps its port open.
#[derive(Debug)]
pub struct RxQueue {
    /// Declared before the port, so that it is dropped first.
    netdev: Option<Box<netdev::Receiver>>,
    port: Arc<PortShared>,
    queue: u16,
}

impl RxQueue {
    pub(crate) fn new(port: Arc<PortShared>, queue: u16) -> RxQueue {
        RxQueue { netdev: None, port, queue }
    }

    pub(crate) fn of_netdev(port: Arc<PortShared>, receiver: netdev::Receiver) -> RxQueue {
        RxQueue { netdev: Some(Box::new(receiver)), port, queue: 0 }
    }

    /// Appends up to `max` received frames to the batch, as many as it has room for; returns how many. A frame in several
    /// segments is put into one, since some drivers (ixgbe with vectors) send one segment of a frame. Only frames longer than the
    /// port's MTU stay in several.
    #[inline]
    pub fn receive(&mut self, batch: &mut Batch, max: usize) -> usize {
        let wanted = max.min(batch.room());
        if wanted == 0 || !self.port.is_started() {
            return 0;
        }
        if let Some(netdev) = &mut self.netdev {
            return netdev.receive(batch, wanted);
        }
        let before = batch.len();
        let slots = batch.spare(wanted);
        // SAFETY: the port is started and this queue was set up on it; nobody
        // else polls it (`&mut self`, no clones), and the port cannot be
        // stopped while `self` lives. `slots` has room for `wanted` pointers.
        let n = usize::from(unsafe { sys::weir_rx_burst(self.port.id, self.queue, slots, wanted as u16) });
        assert!(n <= wanted, "the driver gave more frames than were asked for");
        // SAFETY: `n` mbufs, ours alone, were just written to the spare slots.
        unsafe { batch.grow(n) };
        if self.port.receives_in_segments() {
            join_segments(&mut batch.as_mut_slice()[before..]);
        }
        n
    }

    /// Returns true if the device was removed. Drop the queue then, so that the port can be released.
    pub fn is_removed(&self) -> bool {
        self.port.is_removed()
    }

    /// Interrupt that signals a frame, for a thread that sleeps until then. `None` where only polling works; kernel interfaces and TAP
    /// ports have it.
    pub fn rx_interrupt(&self) -> Option<RxInterrupt> {
        if let Some(netdev) = &self.netdev {
            return netdev.rx_interrupt();
        }
        // SAFETY: the port is ours, and this queue was set up on it.
        let fd = unsafe { sys::weir_rx_fd(self.port.id, self.queue) };
        if fd < 0 {
            return None;
        }
        // SAFETY: the driver keeps it open while the port is, which it is as long as `self` lives.
        unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned().ok().map(RxInterrupt)
    }

    /// Number of this queue in its port.
    pub fn queue_id(&self) -> u16 {
        self.queue
    }
}

/// A transmit queue. One thread at a time uses it; it can move between threads.
/// It keeps its port open.
#[derive(Debug)]
pub struct TxQueue {
    netdev: Option<Box<netdev::Transmitter>>,
    port: Arc<PortShared>,
    queue: u16,
}

impl TxQueue {
    pub(crate) fn new(port: Arc<PortShared>, queue: u16) -> TxQueue {
        TxQueue { netdev: None, port, queue }
    }

    pub(crate) fn of_netdev(port: Arc<PortShared>, transmitter: netdev::Transmitter) -> TxQueue {
        TxQueue { netdev: Some(Box::new(transmitter)), port, queue: 0 }
    }

    /// Sends from the front of the batch and returns how many the device took.
    /// The others stay in the batch, in order: send them again, or drop them
    /// and count that. 0 if the port is not started. A frame that was taken and
    /// can't be sent is in [`crate::PortStats::oerrors`].
    #[inline]
    pub fn send(&mut self, batch: &mut Batch) -> usize {
        let len = batch.len();
        if len == 0 || !self.port.is_started() {
            return 0;
        }
        if let Some(netdev) = &mut self.netdev {
            return netdev.send(batch);
        }
        // SAFETY: the port is started and this queue was set up on it; nobody
        // else uses it (`&mut self`, no clones), and the port cannot be stopped
        // while `self` lives. The front `len` slots hold mbufs that are ours.
        let n = usize::from(unsafe { sys::weir_tx_burst(self.port.id, self.queue, batch.front(), len as u16) });
        assert!(n <= len, "the driver took more frames than there were");
        // SAFETY: the device owns the front `n` mbufs now.
        unsafe { batch.consume(n) };
        n
    }

    /// Returns true if the device was removed, as [`RxQueue::is_removed`].
    pub fn is_removed(&self) -> bool {
        self.port.is_removed()
    }

    /// Returns true if sent frames can reach the peer. A guest at a vhost port enables and disables queues as it likes, and a disabled
    /// queue takes no frames. Costs a call and a load.
    #[inline]
    pub fn is_enabled(&self) -> bool {
        self.port.is_tx_queue_enabled(self.queue)
    }

    /// Frames that were sent and are still in the device's queue. `None` where the driver can't count them: ring ports can, others from
    /// DPDK 24.03 on if they implement it.
    pub fn backlog(&self) -> Option<u32> {
        if !self.port.is_started() || self.netdev.is_some() {
            return None;
        }
        if let Some((rings, sends_to)) = &self.port.rings {
            return Some(rings.count(*sends_to));
        }
        // SAFETY: the port is started and this queue was set up on it.
        let count = unsafe { sys::weir_tx_queue_count(self.port.id, self.queue) };
        u32::try_from(count).ok()
    }

    /// Number of this queue in its port.
    pub fn queue_id(&self) -> u16 {
        self.queue
    }
}

/// Out of line: few drivers receive in pieces.
#[inline(never)]
fn join_segments(frames: &mut [Mbuf]) {
    for mbuf in frames.iter_mut().filter(|mbuf| mbuf.segment_count() > 1) {
        mbuf.join_segments();
    }
}

const _: () = assert!(MAX_BURST <= u16::MAX as usize);
