//! `weir check`: the NICs that a file names, as the system has them, and how they will reach packet memory.

use weir_config::{Device, PortConfig, SwitchConfig};
use weir_dpdk_driver::{IovaAccess, Memory, Sysfs, poll_gap, rx_descriptors};
use weir_experiments::real_frames::{NicInfo, PollGap};
use weir_switch_core::flow_control::RATE_UNKNOWN;
use weir_units::{Bytes, LINK_OVERHEAD, Span};

/// Findings on the NICs.
#[derive(Default)]
pub(super) struct NicFindings {
    pub nics: Vec<NicInfo>,
    pub warnings: Vec<String>,
    pub poll_gap: Option<PollGap>,
}

/// Returns the NICs that the files name, with their memory and the poll gap that their descriptors cover.
pub(super) fn found(switches: &[SwitchConfig], memory: Memory, cpus: &[u32]) -> NicFindings {
    let ports = switches.iter().flat_map(|switch| &switch.ports);
    let nics: Vec<(&PortConfig, &str)> = ports.filter_map(|port| Some((port, address(port)?))).collect();
    if nics.is_empty() {
        return NicFindings::default();
    }
    let sysfs = Sysfs::here();
    let mut warnings = Vec::new();
    if !memory.fits_hugepages() {
        warnings.push(format!(
            "packet memory will lie in ordinary pages, which is slower; for hugepages: \
             echo {} > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
            memory.hugepages()
        ));
    }
    let nodes: Vec<u32> = cpus.iter().filter_map(|cpu| sysfs.node_of_cpu(*cpu)).collect();
    let gap = (!cpus.is_empty()).then(|| poll_gap::measure(cpus, poll_gap::MEASURING_TIME));
    let mut found = Vec::new();
    for (port, address) in nics {
        let facts = sysfs.nic(address);
        let issues = facts.iter().flat_map(|facts| facts.warnings(&nodes));
        warnings.extend(issues.map(|issue| format!("{}; {}", issue.message, issue.help)));
        let known = facts.unwrap_or_default();
        let descriptors = gap.map(|gap| rx_descriptors(port, gap));
        let covers = descriptors.map(|descriptors| [1_000, 60].map(|bytes| covered(port, descriptors, bytes)));
        if let (Some(gap), Some([long, _])) = (gap, covers)
            && long < gap
        {
            warnings.push(format!(
                "{}: the longest poll gap, {gap}, is above the {long} that its receive descriptors cover: frames will be lost in the NIC \
                 before any PAUSE; give the switch cores of its own (isolcpus, [lcores] cores), or a lower rate",
                port.name
            ));
        }
        found.push(NicInfo {
            port: port.name.clone(),
            address: address.to_owned(),
            reaches_memory_by: known.access().map(|access| addresses(access, memory)),
            driver: known.driver,
            virtual_function_of: known.physical_function,
            iommu_group: known.group,
            numa_node: known.node,
            interface: known.netdev,
            rx_descriptors: descriptors,
            covers_ns: covers.map(|covers| covers.map(Span::as_nanos)),
        });
    }
    let watched_ns = u64::try_from(poll_gap::MEASURING_TIME.as_nanos()).unwrap_or(u64::MAX);
    let poll_gap = gap.map(|gap| PollGap { longest_ns: gap.as_nanos(), watched_ns });
    NicFindings { nics: found, warnings, poll_gap }
}

fn address(port: &PortConfig) -> Option<&str> {
    match &port.device {
        Device::Pci(pci) => Some(&pci.address),
        _ => None,
    }
}

fn addresses(access: IovaAccess, memory: Memory) -> &'static str {
    match (access, memory.fits_hugepages()) {
        (IovaAccess::Iommu, true) => "IOMMU, in hugepages",
        (IovaAccess::Iommu, false) => "IOMMU, in ordinary pages",
        (IovaAccess::Physical, true) => "physical addresses, in hugepages",
        (IovaAccess::Physical, false) => "physical addresses: needs hugepages",
        (IovaAccess::Shared, _) => "the kernel's driver",
    }
}

/// Time at line rate that these receive descriptors cover, in frames of this length.
fn covered(port: &PortConfig, descriptors: u16, frame_bytes: u64) -> Span {
    let rate = port.rate.unwrap_or(RATE_UNKNOWN);
    rate.time_for((Bytes::new(frame_bytes) + LINK_OVERHEAD) * u64::from(descriptors))
}
