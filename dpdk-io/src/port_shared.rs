//! State shared by a port and its queues.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex};

use weir_dpdk_sys as sys;

use crate::error::Errno;
use crate::mempool::Mempool;
use crate::netdev::Netdev;
use crate::ring_pair::RingPair;
use crate::runtime::{Runtime, lock};
use crate::xdp_sockets::XdpSockets;

/// State shared by a port and its queues. The device closes with the last handle.
#[derive(Debug)]
pub(crate) struct PortShared {
    /// DPDK's port number, or [`NO_DPDK_PORT`].
    pub(crate) id: u16,
    /// A port that is not DPDK's.
    pub(crate) netdev: Option<Netdev>,
    pub(crate) name: String,
    pub(crate) detach: bool,
    /// Whether a guest enables and disables the queues.
    pub(crate) is_vhost: bool,
    pub(crate) closed: AtomicBool,
    pub(crate) started: AtomicBool,
    /// Set where a frame may be received in several segments, as of the last start.
    pub(crate) receives_in_segments: AtomicBool,
    /// Pools that the driver may take mbufs from; declared, and so dropped,
    /// before the runtime.
    pub(crate) pools: Mutex<Vec<Mempool>>,
    /// Sockets of a port of the driver `net_af_xdp`.
    pub(crate) xdp: Mutex<XdpSockets>,
    /// Rings of a port made of rings, and index of the ring that it sends to.
    pub(crate) rings: Option<(Arc<RingPair>, usize)>,
    pub(crate) runtime: Arc<Runtime>,
}

impl PortShared {
    #[inline(always)]
    pub(crate) fn is_started(&self) -> bool {
        // Acquire: pairs with the Release in `Port::start`.
        self.started.load(Ordering::Acquire)
    }

    /// Returns true if the device was removed.
    pub(crate) fn is_removed(&self) -> bool {
        // SAFETY: reads a word of a table that has a place for each of DPDK's ports.
        self.netdev.is_none() && unsafe { sys::weir_port_is_removed(self.id) } != 0
    }

    /// Returns whether a frame may be received in several segments. To be called after [`PortShared::is_started`].
    #[inline(always)]
    pub(crate) fn receives_in_segments(&self) -> bool {
        // Relaxed: written before `started`.
        self.receives_in_segments.load(Ordering::Relaxed)
    }

    /// The queue pairs, one bit each, that the guest of a vhost port uses.
    pub(crate) fn guest_queues(&self, guest_sends: bool) -> u64 {
        // SAFETY: reads a word of a table that has a place for each port.
        unsafe { sys::weir_vhost_queues(self.id, c_int::from(guest_sends)) }
    }

    /// Returns true if frames sent by this queue can reach the peer.
    #[inline]
    pub(crate) fn is_tx_queue_enabled(&self, queue: u16) -> bool {
        !self.is_vhost || u32::from(queue) < sys::WEIR_QUEUE_BEYOND && self.guest_queues(false) >> queue & 1 == 1
    }

    /// The port holds one reference, each queue one; `&mut Port` makes queues,
    /// and a queue cannot be cloned, so a count of 1 is the truth.
    pub(crate) fn queues_are_held(self: &Arc<Self>) -> bool {
        let are_held = Arc::strong_count(self) > 1;
        // Acquire: pairs with the Release of dropping a queue, so that an lcore's use of the device happened before. The count is read
        // Relaxed.
        fence(Ordering::Acquire);
        are_held
    }

    /// Stops the device. Call it only without queue handles.
    pub(crate) fn stop(&self) -> c_int {
        // Relaxed: no queue is left to see it.
        if !self.started.swap(false, Ordering::Relaxed) {
            return 0;
        }
        if let Some(netdev) = &self.netdev {
            netdev.stop();
            return 0;
        }
        // SAFETY: the port is ours and nobody polls it.
        unsafe { sys::rte_eth_dev_stop(self.id) }
    }

    /// Closes the device. Call it only without queue handles; a second call does nothing.
    pub(crate) fn close(&self) -> c_int {
        // Relaxed: one owner is left.
        if self.closed.swap(true, Ordering::Relaxed) {
            return 0;
        }
        let stopped = self.stop();
        *lock(&self.xdp) = XdpSockets::default();
        if self.netdev.is_some() {
            return stopped;
        }
        // The kernel waits until a device that it removes is detached.
        let detach = self.detach || self.is_removed();
        // SAFETY: the port is ours, nobody polls it, and this is its end.
        let closed = unsafe { sys::weir_port_close(self.id, c_int::from(detach)) };
        self.runtime.release_port(self.id);
        if closed != 0 { closed } else { stopped }
    }
}

impl Drop for PortShared {
    fn drop(&mut self) {
        let ret = self.close();
        if ret != 0 {
            tracing::warn!(port = self.name, error = %Errno::from_return(ret), "close");
        }
        // The device may have held the last mbufs of a pool.
        self.runtime.sweep();
    }
}

/// Port id above all ids of DPDK.
pub(crate) const NO_DPDK_PORT: u16 = u16::MAX;
