//! A link in memory.

use std::ffi::CString;
use std::ptr::NonNull;
use std::sync::Arc;

use weir_dpdk_sys as sys;

use crate::error::{Errno, PortError};
use crate::runtime::Runtime;

/// Two rings of a link, one per direction. Both ends hold the pair, so it outlives their devices.
#[derive(Debug)]
pub(crate) struct RingPair {
    /// Ring that the first end sends to, and ring that the second end sends to.
    rings: [NonNull<sys::rte_ring>; 2],
    pub(crate) runtime: Arc<Runtime>,
}

// SAFETY: the rings are used through the two ends, one producer and one consumer
// each; `count` may be called from any thread.
unsafe impl Send for RingPair {}
// SAFETY: as above.
unsafe impl Sync for RingPair {}

impl RingPair {
    /// Two rings for `slots` frames each, named after the link.
    ///
    /// # Errors
    /// DPDK has no memory, or a ring of that name.
    pub(crate) fn new(runtime: Arc<Runtime>, name: &str, slots: u32) -> Result<RingPair, PortError> {
        let first = create_ring(name, "ab", slots)?;
        let second = create_ring(name, "ba", slots).inspect_err(|_| {
            // SAFETY: nobody else knows the ring, and it is empty.
            unsafe { sys::rte_ring_free(first.as_ptr()) };
        })?;
        Ok(RingPair { rings: [first, second], runtime })
    }

    pub(crate) fn ring(&self, index: usize) -> *mut sys::rte_ring {
        self.rings[index].as_ptr()
    }

    /// Frames in one of the rings.
    pub(crate) fn count(&self, index: usize) -> u32 {
        // SAFETY: the ring lives as long as `self`; the call only reads.
        unsafe { sys::weir_ring_count(self.ring(index)) }
    }
}

impl Drop for RingPair {
    fn drop(&mut self) {
        let mut mbufs = [std::ptr::null_mut(); 32];
        for ring in self.rings {
            loop {
                // SAFETY: both ends are gone, so nobody else uses the ring; it
                // holds mbufs that were sent and not received.
                unsafe {
                    let n = sys::weir_ring_dequeue(ring.as_ptr(), mbufs.as_mut_ptr(), 32);
                    if n == 0 {
                        break;
                    }
                    sys::rte_pktmbuf_free_bulk(mbufs.as_mut_ptr(), n);
                }
            }
            // SAFETY: as above; this is the ring's end.
            unsafe { sys::rte_ring_free(ring.as_ptr()) };
        }
    }
}

fn create_ring(name: &str, direction: &str, slots: u32) -> Result<NonNull<sys::rte_ring>, PortError> {
    let full = CString::new(format!("{name}.{direction}")).expect("the name was checked");
    // SAFETY: EAL runs; the name is NUL-terminated and copied.
    let ring = unsafe { sys::rte_ring_create(full.as_ptr(), slots, ANY_SOCKET, sys::WEIR_RING_EXACT_SPSC) };
    NonNull::new(ring).ok_or_else(|| failed(name, "making a ring", Errno::last()))
}

/// A step that failed in making a port of rings, or a ring of it.
pub(crate) fn failed(name: &str, step: &'static str, errno: Errno) -> PortError {
    PortError::Driver { port: name.to_owned(), step, errno }
}

const ANY_SOCKET: i32 = -1;
