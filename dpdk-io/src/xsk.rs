//! AF_XDP sockets' own statistics, of which the driver passes on a part.

use std::fs;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

use rustix::net::{AddressFamily, sockopt};

/// What the kernel counted on a port's AF_XDP sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XskStatistics {
    /// Frames for which there was no free buffer, or that did not fit one.
    pub rx_dropped: u64,
    /// Frames that found the receive ring full.
    pub rx_ring_full: u64,
    /// Frames handed over that the kernel refused.
    pub tx_invalid_descs: u64,
}

/// Descriptors of all AF_XDP sockets of this process.
pub(crate) fn sockets() -> Vec<RawFd> {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else { return Vec::new() };
    let descriptors = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    descriptors.filter(|descriptor| is_xdp(*descriptor)).collect()
}

/// Duplicates of the sockets that are there now and are not among `before`.
pub(crate) fn new_sockets(before: &[RawFd]) -> Vec<OwnedFd> {
    let fresh = sockets().into_iter().filter(|descriptor| !before.contains(descriptor));
    // SAFETY: the descriptor was found open just now and belongs to the driver of the port that is being configured, which does
    // not close it meanwhile. The borrow ends with the duplicate.
    fresh.filter_map(|descriptor| unsafe { BorrowedFd::borrow_raw(descriptor) }.try_clone_to_owned().ok()).collect()
}

/// The sum over a port's sockets; `None` if there are none, or the kernel does not tell.
pub(crate) fn statistics(sockets: &[OwnedFd]) -> Option<XskStatistics> {
    let mut sum = (!sockets.is_empty()).then(XskStatistics::default)?;
    for socket in sockets {
        let told = sockopt::xdp_statistics(socket).ok()?;
        sum.rx_dropped += told.rx_dropped;
        sum.rx_ring_full += told.rx_ring_full.unwrap_or(0);
        sum.tx_invalid_descs += told.tx_invalid_descs;
    }
    Some(sum)
}

fn is_xdp(descriptor: RawFd) -> bool {
    // SAFETY: only asked what it is; if it is closed by another thread meanwhile the call fails, or tells of another descriptor.
    let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
    sockopt::socket_domain(borrowed).is_ok_and(|domain| domain == AddressFamily::XDP)
}
