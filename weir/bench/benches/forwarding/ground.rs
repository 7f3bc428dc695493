//! Common configuration of the programs that are compared.

use std::path::{Path, PathBuf};

use weir_bench::memif_tester::INTERFACES;

/// Their ports, their CPU, and their memory.
pub(crate) struct PeerConfig<'a> {
    /// Devices, as DPDK's option `--vdev` names them.
    pub(crate) ports: &'a [String; 2],
    pub(crate) lcore: u32,
    pub(crate) hugepages: bool,
}

/// Ports that receive these frames for ever, and drop what is sent.
pub(crate) fn replaying(captures: &[PathBuf; 2]) -> [String; 2] {
    [0, 1].map(|n| format!("net_pcap{n},rx_pcap={},infinite_rx=1", captures[n].display()))
}

/// Ports that are the other ends of a generator's.
pub(crate) fn sharing_memory(socket: &Path) -> [String; 2] {
    INTERFACES.map(|id| format!("net_memif{id},role=client,id={id},socket={},socket-abstract=no", socket.display()))
}
