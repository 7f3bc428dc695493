//! `weir check`: the NICs that a file names, as the system has them, and how they will reach packet memory.

use weir_config::{Device, PortConfig, SwitchConfig};
use weir_dpdk_driver::{Access, Memory, NicFacts, System, poll_gap, rx_descriptors};
use weir_experiments::table::{Table, count};
use weir_switch_core::flow_control::RATE_UNKNOWN;
use weir_units::{Bytes, LINK_OVERHEAD, Span};

/// Prints a table of the NICs, the memory that they will have, and what their descriptors cover; nothing without NICs.
pub(super) fn print_nics(switches: &[SwitchConfig], memory: Memory, cpus: &[u32]) {
    let ports = switches.iter().flat_map(|switch| &switch.ports);
    let nics: Vec<(&PortConfig, &str)> = ports.filter_map(|port| Some((port, address(port)?))).collect();
    if nics.is_empty() {
        return;
    }
    let system = System::here();
    let facts: Vec<Option<NicFacts>> = nics.iter().map(|(_, address)| system.nic(address)).collect();
    let mut table = Table::new(["Port", "NIC", "Driver", "IOMMU group", "NUMA node", "Interface", "Reaches memory by"]);
    for ((port, address), facts) in nics.iter().zip(&facts) {
        let known = facts.clone().unwrap_or_default();
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        table.row([
            port.name.clone(),
            (*address).to_owned(),
            or_dash(known.driver.clone()),
            or_dash(known.group.map(|group| group.to_string())),
            or_dash(known.node.map(|node| node.to_string())),
            or_dash(known.netdev.clone()),
            known.access().map_or("-", |access| addresses(access, memory)).to_owned(),
        ]);
    }
    print!("{table}");
    if !memory.fits_hugepages() {
        println!(
            "  warning: packet memory will lie in ordinary pages, one mbuf in each, which is slower; for hugepages: \
             echo {} > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
            memory.hugepages()
        );
    }
    let nodes: Vec<u32> = cpus.iter().filter_map(|cpu| system.node_of_cpu(*cpu)).collect();
    for finding in facts.iter().flatten().flat_map(|facts| facts.warnings(&nodes)) {
        println!("  warning: {}; {}", finding.message, finding.help);
    }
    if !cpus.is_empty() {
        print_descriptors(&nics, poll_gap::measure(cpus, poll_gap::LONG_ENOUGH));
    }
}

fn address(port: &PortConfig) -> Option<&str> {
    match &port.device {
        Device::Pci(pci) => Some(&pci.address),
        _ => None,
    }
}

fn addresses(access: Access, memory: Memory) -> &'static str {
    match (access, memory.fits_hugepages()) {
        (Access::Iommu, true) => "IOMMU, in hugepages",
        (Access::Iommu, false) => "IOMMU, in ordinary pages",
        (Access::Physical, true) => "physical addresses, in hugepages",
        (Access::Physical, false) => "physical addresses: needs hugepages",
        (Access::Shared, _) => "the kernel's driver",
    }
}

/// What a NIC's receive descriptors hold while nobody polls, beside how long that was here just now.
fn print_descriptors(nics: &[(&PortConfig, &str)], gap: Span) {
    println!("  longest poll gap in {} ms on these cores: {gap}", poll_gap::LONG_ENOUGH.as_millis());
    for (port, _) in nics {
        let descriptors = rx_descriptors(port, gap);
        let rate = port.rate.unwrap_or(RATE_UNKNOWN);
        let covers = |bytes: u64| rate.time_for((Bytes::new(bytes) + LINK_OVERHEAD) * u64::from(descriptors));
        println!(
            "  {}: {} receive descriptors cover a gap of {} with frames of 1000 B, {} with 60 B",
            port.name,
            count(u64::from(descriptors)),
            covers(1_000),
            covers(60),
        );
        if covers(1_000) < gap {
            println!(
                "  warning: the gap is longer: frames will be lost in the NIC before any PAUSE; give the switch cores of its own \
                 (isolcpus, [lcores] cores), or a lower rate"
            );
        }
    }
}
