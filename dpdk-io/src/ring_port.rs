//! Ports whose link is a pair of rings in memory: to another port, or to something else in the process.

use std::ffi::CString;
use std::ptr::NonNull;
use std::sync::Arc;

use weir_dpdk_sys as sys;

use crate::batch::Batch;
use crate::eal::Runtime;
use crate::error::{Errno, PortError};
use crate::port::Port;

/// A port with one queue each way, and the far end of its link: what one sends
/// the other receives, in order, without a copy. `slots` frames fit each
/// direction; when they are full, [`crate::TxQueue::send`] and
/// [`RingEnd::send`] keep the tail.
///
/// The port is named `net_ring_NAMEa`. The far end is none of DPDK's ports, of
/// which a process has 32 as DPDK is usually built, unless it is made one: see
/// [`RingEnd::into_port`]. Frames left in the rings are freed when both ends
/// are gone.
///
/// # Errors
/// [`PortError::Devargs`] for a name that is empty, has other than ASCII
/// letters, digits, `-`, `_` and `.`, or more than 20 bytes; `Driver` if it is
/// taken, or `slots` is 0 or above 2^30, or memory is short, or there are as
/// many ports as DPDK can have.
pub fn ring_port(name: &str, slots: u32) -> Result<(Port, RingEnd), PortError> {
    let runtime = Runtime::current().ok_or_else(|| PortError::NoEal(name.to_owned()))?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(plain) {
        return Err(PortError::Devargs { what: "ring port name", value: name.to_owned() });
    }
    if slots == 0 || slots > SLOTS_MAX {
        return Err(failed(name, "making a ring", Errno(libc::EINVAL)));
    }
    let rings = Arc::new(RingPair::new(Arc::clone(&runtime), name, slots)?);
    let port = port_over(&runtime, &rings, &format!("{name}a"), 0)?;
    Ok((port, RingEnd { rings, name: name.to_owned() }))
}

/// Two ports joined back to back: [`ring_port`] with the far end made a port.
///
/// # Errors
/// As of [`ring_port`].
pub fn ring_pair(name: &str, slots: u32) -> Result<(Port, Port), PortError> {
    let (port, far_end) = ring_port(name, slots)?;
    Ok((port, far_end.into_port()?))
}

/// The far end of a [`ring_port`]. One thread at a time uses it; it can move
/// between threads.
#[derive(Debug)]
pub struct RingEnd {
    rings: Arc<RingPair>,
    name: String,
}

impl RingEnd {
    /// Appends up to `max` frames that the port has sent to the batch, as many
    /// as it has room for, and returns how many.
    #[inline]
    pub fn receive(&mut self, batch: &mut Batch, max: usize) -> usize {
        let wanted = max.min(batch.room());
        if wanted == 0 {
            return 0;
        }
        let slots = batch.spare(wanted);
        // SAFETY: the ring lives as long as `self`, which alone takes from it
        // (`&mut self`, no clones); `slots` has room for `wanted` pointers.
        let n = unsafe { sys::weir_ring_dequeue(self.rings.ring(0), slots, wanted as u32) } as usize;
        assert!(n <= wanted, "the ring gave more frames than were asked for");
        // SAFETY: `n` mbufs, ours alone, were just written to the spare slots.
        unsafe { batch.grow(n) };
        n
    }

    /// Sends from the front of the batch and returns how many frames the ring
    /// took. The others stay in the batch, in order.
    #[inline]
    pub fn send(&mut self, batch: &mut Batch) -> usize {
        let len = batch.len();
        if len == 0 {
            return 0;
        }
        // SAFETY: the ring lives as long as `self`, which alone adds to it. The
        // front `len` slots hold mbufs that are ours.
        let n = unsafe { sys::weir_ring_enqueue(self.rings.ring(1), batch.front(), len as u32) } as usize;
        assert!(n <= len, "the ring took more frames than there were");
        // SAFETY: the ring holds the front `n` mbufs now.
        unsafe { batch.consume(n) };
        n
    }

    /// Makes it one of DPDK's ports, `net_ring_NAMEb`.
    ///
    /// # Errors
    /// [`PortError::Driver`] if there are as many as DPDK can have.
    pub fn into_port(self) -> Result<Port, PortError> {
        port_over(&self.rings.runtime, &self.rings, &format!("{}b", self.name), 1)
    }
}

/// The two rings of a link: what the port sends, and what its far end does.
/// Both ends hold it, so it outlives their devices.
#[derive(Debug)]
pub(crate) struct RingPair {
    rings: [NonNull<sys::rte_ring>; 2],
    runtime: Arc<Runtime>,
}

// SAFETY: the rings are used through the two ends, one producer and one consumer
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
        Ok(RingPair { rings: [first, second], runtime })
    }

    fn ring(&self, index: usize) -> *mut sys::rte_ring {
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
