//! What `weir check` knows of this machine, as plain data: the command prints it, as text or as JSON.

use std::path::PathBuf;

use serde::Serialize;
use weir_config::{ConfigErrors, SwitchConfig};

use crate::Failure;

/// This machine, as some switches would use it.
pub trait Machine {
    /// What a switch takes of it.
    fn of_switch(&self, index: usize, switch: &SwitchConfig) -> SwitchOnMachine;

    /// What all switches take of it together, and what it lacks. May take a fraction of a second.
    fn of_all(&self, switches: &[SwitchConfig]) -> MachineFindings;
}

/// A switch on this machine.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SwitchOnMachine {
    /// The lcores, if the machine has the CPUs for them.
    pub lcores: Option<Lcores>,
    /// What late polls may make up, in a sentence.
    pub late_polls: String,
    /// Kinds of loss that devices can't tell of, with the ports.
    pub unknown_losses: Vec<String>,
}

/// Where a switch's lcores are.
#[derive(Clone, Debug, Serialize)]
pub struct Lcores {
    /// How the work is cut: `RX+FWD / TX`.
    pub layout: &'static str,
    /// What each CPU does.
    pub cpus: Vec<OnCpu>,
}

/// A part of the work on a CPU.
#[derive(Clone, Debug, Serialize)]
pub struct OnCpu {
    /// The CPU.
    pub cpu: u32,
    /// What it does.
    pub does: String,
}

/// What the switches take of this machine together.
#[derive(Debug, Serialize)]
pub struct MachineFindings {
    /// Packet memory.
    pub packet_memory: PacketMemory,
    /// The NICs that files name.
    pub nics: Vec<NicFound>,
    /// The longest time that this machine kept the switches' CPUs from running just now, and for how long it was looked at; with NICs.
    pub poll_gap: Option<PollGap>,
    /// Doubts.
    pub warnings: Vec<String>,
    /// Sockets that a dead instance has left; `weir run` removes them.
    pub left_sockets: Vec<PathBuf>,
    /// What the files ask for and the machine does not have.
    #[serde(serialize_with = "errors")]
    pub lacks: Option<ConfigErrors>,
    /// Why the switches fit no machine, which no line of a file is to blame for.
    pub misfit: Option<String>,
}

/// Packet memory, in mbufs.
#[derive(Clone, Debug, Serialize)]
pub struct PacketMemory {
    /// Mbufs for the frames that the buffers hold, one each.
    pub buffered_mbufs: u32,
    /// On their way in and out.
    pub in_flight_mbufs: u32,
    /// For capture files that are replayed without end.
    pub replayed_mbufs: u32,
    /// For control frames.
    pub control_mbufs: u32,
    /// All of it.
    pub bytes: u64,
    /// Whether the hugepages that are free suffice.
    pub in_hugepages: bool,
}

/// A NIC as the system has it.
#[derive(Clone, Debug, Serialize)]
pub struct NicFound {
    /// The port.
    pub port: String,
    /// Its PCI address.
    pub address: String,
    /// The driver that it is bound to.
    pub driver: Option<String>,
    /// The physical function's address, of a virtual one.
    pub virtual_function_of: Option<String>,
    /// Its IOMMU group.
    pub iommu_group: Option<u32>,
    /// Its NUMA node.
    pub numa_node: Option<u32>,
    /// The kernel's interface of it.
    pub interface: Option<String>,
    /// How it reaches packet memory.
    pub reaches_memory_by: Option<&'static str>,
    /// Receive descriptors that it will have.
    pub rx_descriptors: Option<u16>,
    /// How long these last with frames of 1000 B, and of 60 B.
    pub covers_ns: Option<[u64; 2]>,
}

/// How long CPUs did not run what is on them.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PollGap {
    /// The longest.
    pub longest_ns: u64,
    /// For how long it was looked at.
    pub watched_ns: u64,
}

impl MachineFindings {
    /// Ok if the machine has all that the files ask for.
    ///
    /// # Errors
    /// What it lacks.
    pub fn verdict(self) -> Result<(), Failure> {
        if let Some(misfit) = self.misfit {
            return Err(Failure::Unavailable(misfit));
        }
        self.lacks.map_or(Ok(()), |lacks| Err(Failure::Lacks(lacks)))
    }
}

/// An error of a file: where, what, and what to do.
#[derive(Serialize)]
struct Told<'e> {
    file: &'e str,
    line: Option<usize>,
    message: &'e str,
    help: &'e str,
}

fn errors<S: serde::Serializer>(lacks: &Option<ConfigErrors>, to: S) -> Result<S::Ok, S::Error> {
    let told = lacks.iter().flat_map(ConfigErrors::iter).map(|error| Told {
        file: error.file(),
        line: error.line(),
        message: error.message(),
        help: error.help_text(),
    });
    to.collect_seq(told)
}
