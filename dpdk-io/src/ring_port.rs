//! Two ports joined back to back by rings in memory.

use std::ffi::CString;
use std::ptr::NonNull;
use std::sync::Arc;

use weir_dpdk_sys as sys;

use crate::eal::Runtime;
use crate::error::{Errno, PortError};
use crate::port::Port;

/// Two ports with one queue each way: what one sends the other receives, in
/// order, without a copy. `slots` frames fit each direction; when they are
/// full, [`crate::TxQueue::send`] keeps the tail.
///
/// The ports are named `net_ring_NAMEa` and `net_ring_NAMEb`. Frames left in
/// the rings are freed when both ports are closed.
///
/// # Errors
/// [`PortError::Devargs`] for a name that is empty, has other than ASCII
/// letters, digits, `-`, `_` and `.`, or more than 20 bytes; `Driver` if it is
/// taken, or `slots` is 0 or above 2^30, or memory is short.
pub fn ring_pair(name: &str, slots: u32) -> Result<(Port, Port), PortError> {
    let runtime = Runtime::current().ok_or_else(|| PortError::NoEal(name.to_owned()))?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(plain) {
        return Err(PortError::Devargs { what: "ring port name", value: name.to_owned() });
    }
    if slots == 0 || slots > SLOTS_MAX {
        return Err(failed(name, "making a ring", Errno(libc::EINVAL)));
    }
    let rings = Arc::new(RingPair::new(Arc::clone(&runtime), name, slots)?);
    let port_a = port_over(&runtime, &rings, &format!("{name}a"), 0)?;
    let port_b = port_over(&runtime, &rings, &format!("{name}b"), 1)?;
    Ok((port_a, port_b))
}

/// The two rings of a pair. Both ports hold it, so it outlives their devices.
#[derive(Debug)]
pub(crate) struct RingPair {
    rings: [NonNull<sys::rte_ring>; 2],
    _runtime: Arc<Runtime>,
}

// SAFETY: the rings are used through the ports, one producer and one consumer
// each; `count` may be called from any thread.
unsafe impl Send for RingPair {}
// SAFETY: as above.
unsafe impl Sync for RingPair {}

impl RingPair {
    fn new(runtime: Arc<Runtime>, name: &str, slots: u32) -> Result<RingPair, PortError> {
        let first = create_ring(name, "ab", slots)?;
        let second = create_ring(name, "ba", slots).inspect_err(|_| {
            // SAFETY: nobody else knows the ring, and it is empty.
            unsafe { sys::rte_ring_free(first.as_ptr()) };
        })?;
        Ok(RingPair { rings: [first, second], _runtime: runtime })
    }

    /// Frames in one of the rings.
    pub(crate) fn count(&self, index: usize) -> u32 {
        // SAFETY: the ring lives as long as `self`; the call only reads.
        unsafe { sys::weir_ring_count(self.rings[index].as_ptr()) }
    }
}

impl Drop for RingPair {
    fn drop(&mut self) {
        let mut mbufs = [std::ptr::null_mut(); 32];
        for ring in self.rings {
            loop {
                // SAFETY: both devices are closed, so nobody else uses the
                // ring; it holds mbufs that were sent and not received.
                unsafe {
                    let n = sys::weir_ring_drain(ring.as_ptr(), mbufs.as_mut_ptr(), 32);
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

fn port_over(runtime: &Arc<Runtime>, rings: &Arc<RingPair>, name: &str, sends_to: usize) -> Result<Port, PortError> {
    let c_name = CString::new(name).expect("the name was checked");
    let rx = [rings.rings[1 - sends_to].as_ptr()];
    let tx = [rings.rings[sends_to].as_ptr()];
    // SAFETY: EAL runs; the name is NUL-terminated, and both arrays, of one
    // entry each, are copied. The rings outlive the port, which holds `rings`.
    let id = unsafe { sys::rte_eth_from_rings(c_name.as_ptr(), rx.as_ptr(), 1, tx.as_ptr(), 1, 0) };
    let Ok(id) = u16::try_from(id) else {
        return Err(failed(name, "making a port of rings", Errno::last()));
    };
    Port::claim(Arc::clone(runtime), id, true, Some((Arc::clone(rings), sends_to)))
}

fn failed(name: &str, step: &'static str, errno: Errno) -> PortError {
    PortError::Driver { port: name.to_owned(), step, errno }
}

const NAME_MAX: usize = 20;
const SLOTS_MAX: u32 = 1 << 30;
const ANY_SOCKET: i32 = -1;

const _: () = assert!(NAME_MAX + ".ab".len() < sys::WEIR_RING_NAME_SIZE as usize);
