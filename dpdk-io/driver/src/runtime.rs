//! DPDK, started for a process.

use weir_config::{Device, SwitchConfig};
use weir_dpdk_io::{Clock, Eal, EalArgs, IovaMode, MemoryMode, cpu};

use crate::error::DriverError;
use crate::limits::ResourceNeeds;

/// Start options of DPDK.
#[derive(Clone, Debug, Default)]
pub struct RuntimeOptions {
    /// Arguments for EAL, after Weir's own.
    pub eal_args: Vec<String>,
    /// DPDK file prefix, by which other processes (dpdk-telemetry, dpdk-dumpcap) find this one. Needs hugepages, which are then shared with
    /// them.
    pub file_prefix: Option<String>,
    /// EAL's memory, in MiB; at least [`Memory::megabytes`](crate::Memory::megabytes).
    pub memory_mb: u32,
}

/// DPDK, started, with one worker lcore on each CPU of a placement. Lives as long as anything made with it.
#[derive(Debug)]
pub struct Runtime {
    pub(crate) clock: Clock,
    pub(crate) eal: Eal,
    /// Whether NICs were named, which read and write packet memory by themselves.
    pub(crate) has_nics: bool,
}

impl Runtime {
    /// Starts DPDK with one worker lcore on each of `cpus`. Once a process.
    ///
    /// # Errors
    /// [`DriverError::Shortages`] before anything is started, since DPDK ends a process that may open too few files, and the kernel one that
    /// takes too much memory.
    pub fn start(
        program: &str,
        cpus: &[u32],
        pci: &[String],
        options: &RuntimeOptions,
    ) -> Result<Runtime, DriverError> {
        let address = |pci: &String| pci.split(',').next().unwrap_or_default().to_owned();
        let addresses: Vec<String> = pci.iter().map(address).collect();
        ResourceNeeds::of_dpdk(options.memory_mb, addresses.iter().map(String::as_str)).check()?;
        let allowed = cpu::allowed();
        // The main lcore only waits and reports; its pinning is undone below.
        let main = allowed.first().copied().unwrap_or(0);
        let lcores: Vec<(u32, u32)> = std::iter::once((0, main)).chain((1..).zip(cpus.iter().copied())).collect();
        let mut args =
            EalArgs::new(program).lcores(&lcores).memory_mb(options.memory_mb).extra(options.eal_args.clone());
        for address in pci {
            args = args.allow_pci(address);
        }
        if let Some(prefix) = &options.file_prefix {
            args = args.file_prefix(prefix).memory(MemoryMode::Shared);
        }
        let args = args.build();
        tracing::debug!("EAL arguments: {}", args.join(" "));
        let eal = Eal::init(&args)?;
        if let Err(error) = cpu::set_affinity(&allowed) {
            tracing::debug!("the main thread stays on its CPU: {error}");
        }
        let pages = if eal.has_hugepages() { "hugepages" } else { "ordinary pages" };
        let addresses = match eal.iova_mode() {
            IovaMode::Virtual => "virtual addresses",
            IovaMode::Physical => "physical addresses",
        };
        tracing::info!("memory in {pages}; devices reach it by {addresses}");
        Ok(Runtime { clock: Clock::new(), eal, has_nics: !pci.is_empty() })
    }

    /// DPDK itself.
    pub fn eal(&self) -> &Eal {
        &self.eal
    }
}

/// NICs that the switches use, with their devargs, for EAL to probe.
pub fn pci_addresses(switches: &[SwitchConfig]) -> Vec<String> {
    pci_addresses_of(switches.iter().flat_map(|switch| &switch.ports).map(|port| &port.device))
}

/// NICs among devices, with their devargs.
pub fn pci_addresses_of<'a>(devices: impl Iterator<Item = &'a Device>) -> Vec<String> {
    devices.filter_map(|device| if let Device::Pci(pci) = device { Some(pci.with_devargs()) } else { None }).collect()
}
