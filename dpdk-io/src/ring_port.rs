//! Ports whose link is a pair of rings in memory: to another port, or to something else in the process.

use std::ffi::CString;
use std::sync::Arc;

use weir_dpdk_sys as sys;

use crate::batch::Batch;
use crate::error::{Errno, PortError};
use crate::port::Port;
use crate::ring_pair::{RingPair, failed};
use crate::runtime::Runtime;

/// Creates a port with one queue each way, and the far end of its link. Frames sent at one end arrive at the other in order, without a
/// copy. Each direction has `slots` slots; when they are full, [`crate::TxQueue::send`] and [`RingEnd::send`] keep the tail.
///
/// The port is named `net_ring_NAMEa`. The far end uses none of DPDK's port ids (32 per process in usual builds) unless
/// [`RingEnd::into_port`] makes it a port. Frames left in the rings are freed when both ends are gone.
///
/// # Errors
/// [`PortError::Devargs`] for a name that is empty, longer than 20 bytes, or has characters other than ASCII letters, digits, `-`, `_` and
/// `.`. `Driver` if the name is taken, `slots` is 0 or above 2^30, memory is short, or all of DPDK's ports are in use.
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

fn port_over(runtime: &Arc<Runtime>, rings: &Arc<RingPair>, name: &str, sends_to: usize) -> Result<Port, PortError> {
    let c_name = CString::new(name).expect("the name was checked");
    let rx = [rings.ring(1 - sends_to)];
    let tx = [rings.ring(sends_to)];
    // SAFETY: EAL runs; the name is NUL-terminated, and both arrays, of one
    // entry each, are copied. The rings outlive the port, which holds `rings`.
    let id = unsafe { sys::rte_eth_from_rings(c_name.as_ptr(), rx.as_ptr(), 1, tx.as_ptr(), 1, 0) };
    let Ok(id) = u16::try_from(id) else {
        return Err(failed(name, "making a port of rings", Errno::last()));
    };
    Port::claim(Arc::clone(runtime), id, true, Some((Arc::clone(rings), sends_to)))
}

const NAME_MAX: usize = 20;
const SLOTS_MAX: u32 = 1 << 30;

const _: () = assert!(NAME_MAX + ".ab".len() < sys::WEIR_RING_NAME_SIZE as usize);
