//! AF_XDP sockets opened by DPDK's driver, for kernel counters that the driver does not report.

use std::os::fd::RawFd;

use crate::device::PortStats;

/// The sockets of one port. The driver owns them: they are open as long as the port is.
#[derive(Clone, Debug, Default)]
pub(crate) struct XdpSockets(Vec<RawFd>);

impl XdpSockets {
    /// All AF_XDP sockets of this process.
    pub(crate) fn of_process() -> XdpSockets {
        let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
        let open = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        XdpSockets(open.filter(|fd| is_xdp(*fd)).collect())
    }

    /// The sockets that are not in an earlier list.
    pub(crate) fn since(mut self, before: &XdpSockets) -> XdpSockets {
        self.0.retain(|fd| !before.0.contains(fd));
        self
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds counters that the driver omits: frames that found the receive ring full, and transmit descriptors that the kernel refused. The
    /// driver itself counts `rx_dropped`.
    pub(crate) fn complete(&self, stats: &mut PortStats) {
        for socket in &self.0 {
            let statistics = statistics(*socket);
            stats.imissed += statistics.rx_ring_full;
            stats.oerrors += statistics.tx_invalid_descs;
        }
    }

    /// Kernel counters summed over the sockets, with names for `xstats`.
    pub(crate) fn named(&self) -> Vec<(String, u64)> {
        let all: Vec<_> = self.0.iter().map(|socket| statistics(*socket)).collect();
        let sum = |name: &str, of: fn(&libc::xdp_statistics) -> u64| (name.to_owned(), all.iter().map(of).sum());
        if all.is_empty() {
            return Vec::new();
        }
        vec![
            sum("xsk_rx_dropped", |s| s.rx_dropped),
            sum("xsk_rx_ring_full", |s| s.rx_ring_full),
            sum("xsk_rx_fill_ring_empty", |s| s.rx_fill_ring_empty_descs),
            sum("xsk_rx_invalid", |s| s.rx_invalid_descs),
            sum("xsk_tx_invalid", |s| s.tx_invalid_descs),
        ]
    }
}

fn is_xdp(fd: RawFd) -> bool {
    let mut domain: libc::c_int = 0;
    let mut len = size_of_val(&domain) as libc::socklen_t;
    // SAFETY: the number is writable, of the length given; a descriptor that is none gives an error.
    let ret = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_DOMAIN, (&raw mut domain).cast(), &mut len) };
    ret == 0 && domain == libc::AF_XDP
}

/// Zeros where it can't be read. Kernels before 5.9 fill in the first three.
fn statistics(fd: RawFd) -> libc::xdp_statistics {
    // SAFETY: plain data; all zero is a valid value.
    let mut statistics: libc::xdp_statistics = unsafe { std::mem::zeroed() };
    let mut len = size_of_val(&statistics) as libc::socklen_t;
    // SAFETY: the structure is writable, of the length given.
    unsafe { libc::getsockopt(fd, libc::SOL_XDP, libc::XDP_STATISTICS, (&raw mut statistics).cast(), &mut len) };
    statistics
}
