//! Findings of `weir check` about this machine as plain data, which the command prints as text or JSON.

use std::path::PathBuf;

use serde::Serialize;
use weir_config::{ConfigErrors, SwitchConfig};

use crate::Failure;

/// Resources of this machine that some switches use.
pub trait MachineResources {
    /// Resources of this machine that a switch uses.
    fn of_switch(&self, index: usize, switch: &SwitchConfig) -> SwitchResources;

    /// Resources that all switches use together, and missing ones. May take a fraction of a second.
    fn of_all(&self, switches: &[SwitchConfig]) -> MachineFindings;
}

/// Resources of a switch on this machine.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SwitchResources {
    /// The lcores, if the machine has enough CPUs.
    pub lcores: Option<Lcores>,
    /// Catch-up allowance for late polls, in a sentence.
    pub late_polls: String,
    /// Memory of the forwarding table and its caches, in a sentence.
    pub forwarding_table: String,
    /// Kinds of loss that devices do not count, with the ports.
    pub unknown_losses: Vec<String>,
}

/// Placement of a switch's lcores.
#[derive(Clone, Debug, Serialize)]
pub struct Lcores {
    /// Pipeline stages per lcore: `RX+FWD / TX`.
    pub layout: &'static str,
    /// Work of each CPU.
    pub cpus: Vec<CpuAssignment>,
}

/// Work of one CPU.
#[derive(Clone, Debug, Serialize)]
pub struct CpuAssignment {
    /// CPU number.
    pub cpu: u32,
    /// Pipeline stages and ports of the CPU.
    pub does: String,
}

/// Resources of this machine that all switches use together.
#[derive(Debug, Serialize)]
pub struct MachineFindings {
    /// Packet memory.
    pub packet_memory: PacketMemory,
    /// NICs named by the files.
    pub nics: Vec<NicInfo>,
    /// Longest interruption of the switches' CPUs in a test just now; only with NICs.
    pub poll_gap: Option<PollGap>,
    /// Warnings.
    pub warnings: Vec<String>,
    /// Sockets left by a dead instance; `weir run` removes them.
    pub left_sockets: Vec<PathBuf>,
    /// Resources that the files request and the machine lacks.
    #[serde(serialize_with = "errors")]
    pub lacks: Option<ConfigErrors>,
    /// Reason why the switches fit no machine, for errors without a line in a file.
    pub misfit: Option<String>,
}

/// Packet memory, in mbufs.
#[derive(Clone, Debug, Serialize)]
pub struct PacketMemory {
    /// Mbufs for buffered frames, one each.
    pub buffered_mbufs: u32,
    /// Mbufs for frames in flight, received or to be sent.
    pub in_flight_mbufs: u32,
    /// Mbufs for control frames.
    pub control_mbufs: u32,
    /// Total size in bytes.
    pub bytes: u64,
    /// Whether the free hugepages suffice.
    pub in_hugepages: bool,
}

/// NIC, as the system reports it.
#[derive(Clone, Debug, Serialize)]
pub struct NicInfo {
    /// Name of the port.
    pub port: String,
    /// PCI address.
    pub address: String,
    /// Bound driver.
    pub driver: Option<String>,
    /// PCI address of the physical function, for a virtual function.
    pub virtual_function_of: Option<String>,
    /// IOMMU group.
    pub iommu_group: Option<u32>,
    /// NUMA node.
    pub numa_node: Option<u32>,
    /// Kernel network interface.
    pub interface: Option<String>,
    /// IOVA mode: access of the NIC to packet memory.
    pub reaches_memory_by: Option<&'static str>,
    /// Receive descriptors to be configured.
    pub rx_descriptors: Option<u16>,
    /// Time in ns until the descriptors run out, at line rate, with frames of 1000 B and of 60 B.
    pub covers_ns: Option<[u64; 2]>,
}

/// Interruptions of polling CPUs.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PollGap {
    /// Longest interruption, in ns.
    pub longest_ns: u64,
    /// Duration of the test, in ns.
    pub watched_ns: u64,
}

impl MachineFindings {
    /// Ok if the machine has all resources that the files request.
    ///
    /// # Errors
    /// Missing resources.
    pub fn verdict(self) -> Result<(), Failure> {
        if let Some(misfit) = self.misfit {
            return Err(Failure::Unavailable(misfit));
        }
        self.lacks.map_or(Ok(()), |lacks| Err(Failure::Lacks(lacks)))
    }
}

/// Error in a file: place, message and help.
#[derive(Serialize)]
struct FileErrorJson<'e> {
    file: &'e str,
    line: Option<usize>,
    message: &'e str,
    help: &'e str,
}

fn errors<S: serde::Serializer>(lacks: &Option<ConfigErrors>, to: S) -> Result<S::Ok, S::Error> {
    let entries = lacks.iter().flat_map(ConfigErrors::iter).map(|error| FileErrorJson {
        file: error.file(),
        line: error.line(),
        message: error.message(),
        help: error.help_text(),
    });
    to.collect_seq(entries)
}
