//! Counters that drivers keep.

use weir_dpdk_sys as sys;

use crate::device::{PortStats, text};
use crate::error::{Errno, PortError};
use crate::port::Port;
use crate::runtime::lock;

impl Port {
    /// The basic counters.
    ///
    /// # Errors
    /// The driver's.
    pub fn stats(&self) -> Result<PortStats, PortError> {
        if let Some(netdev) = self.netdev() {
            return Ok(netdev.stats());
        }
        let mut stats = sys::weir_port_stats::default();
        // SAFETY: `stats` is writable.
        let ret = unsafe { sys::weir_port_stats(self.id(), &mut stats) };
        self.check("reading statistics", ret)?;
        let mut stats = PortStats {
            ipackets: stats.ipackets,
            opackets: stats.opackets,
            ibytes: stats.ibytes,
            obytes: stats.obytes,
            imissed: stats.imissed,
            ierrors: stats.ierrors,
            oerrors: stats.oerrors,
            rx_nombuf: stats.rx_nombuf,
            q_errors: stats.q_errors,
        };
        lock(&self.shared.xdp).complete(&mut stats);
        Ok(stats)
    }

    /// Resets the basic counters that the driver can reset.
    ///
    /// # Errors
    /// The driver's.
    pub fn reset_stats(&mut self) -> Result<(), PortError> {
        if let Some(netdev) = self.netdev() {
            netdev.reset_stats();
            return Ok(());
        }
        // SAFETY: the port is ours.
        let ret = unsafe { sys::rte_eth_stats_reset(self.id()) };
        self.check("resetting statistics", ret)
    }

    /// All counters that the driver has, with its names for them; the names
    /// differ between drivers.
    ///
    /// # Errors
    /// The driver's.
    pub fn xstats(&self) -> Result<Vec<(String, u64)>, PortError> {
        if let Some(netdev) = self.netdev() {
            return Ok(netdev.xstats());
        }
        // SAFETY: with no room the call only returns the count.
        let count = unsafe { sys::weir_port_xstats(self.id(), std::ptr::null_mut(), 0) };
        let room = u32::try_from(count).map_err(|_| self.failed("reading statistics", Errno::from_return(count)))?;
        // SAFETY: all zero is a valid value of this plain structure.
        let zero: sys::weir_xstat = unsafe { std::mem::zeroed() };
        let mut xstats = vec![zero; room as usize];
        // SAFETY: the vector has room for `room` entries.
        let filled = unsafe { sys::weir_port_xstats(self.id(), xstats.as_mut_ptr(), room) };
        let filled =
            usize::try_from(filled).map_err(|_| self.failed("reading statistics", Errno::from_return(filled)))?;
        // More than there is room for: the set grew meanwhile, nothing was written.
        xstats.truncate(if filled > room as usize { 0 } else { filled });
        let mut named: Vec<_> = xstats.iter().map(|xstat| (text(&xstat.name), xstat.value)).collect();
        named.append(&mut lock(&self.shared.xdp).named());
        Ok(named)
    }
}
