//! Packet capture by `dpdk-dumpcap` from another process.

use weir_dpdk_sys as sys;

use crate::eal::Eal;
use crate::error::{Errno, PdumpError};

/// Lets other processes (`dpdk-dumpcap`) capture from this one's ports.
///
/// # Errors
/// [`PdumpError::NoSharedMemory`] under `--in-memory`, `--no-huge` or
/// `--no-shconf`, where no other process can map the packets: use
/// [`crate::MemoryMode::Shared`] with a file prefix.
pub fn pdump_init(eal: &Eal) -> Result<(), PdumpError> {
    // DPDK itself reports success where it has no channel to other processes.
    if let Some(argument) = eal.no_shared_memory() {
        return Err(PdumpError::NoSharedMemory(argument));
    }
    // SAFETY: EAL runs.
    if unsafe { sys::rte_pdump_init() } != 0 {
        return Err(PdumpError::Init(Errno::last()));
    }
    Ok(())
}
