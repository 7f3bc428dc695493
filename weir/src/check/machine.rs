//! Findings of `weir check` on this machine, as text.

use std::fmt::Write;

use weir_experiments::real_frames::{MachineFindings, NicInfo, PacketMemory, PollGap, SwitchResources};
use weir_experiments::table::{Table, count};
use weir_units::Span;

/// Lcores of a switch, their catch-up, and losses that its devices do not count.
pub(super) fn switch_text(on: &SwitchResources) -> String {
    let mut lines = Vec::new();
    if let Some(lcores) = &on.lcores {
        lines.push(format!("lcores ({}):", lcores.layout));
        lines.extend(lcores.cpus.iter().map(|on| format!("  CPU {}: {}", on.cpu, on.does)));
    }
    lines.extend([on.late_polls.clone(), on.forwarding_table.clone()]);
    lines.extend(on.unknown_losses.iter().cloned());
    lines.iter().fold(String::new(), |text, line| format!("{text}  {line}\n"))
}

/// Memory and NICs of all switches, and missing requirements of the machine.
pub(super) fn text(found: &MachineFindings) -> String {
    let mut text = memory(&found.packet_memory);
    if !found.nics.is_empty() {
        text += &nics(&found.nics).to_string();
    }
    if let Some(gap) = found.poll_gap {
        text += &descriptors(&found.nics, gap);
    }
    for warning in &found.warnings {
        writeln!(text, "  warning: {warning}").expect("a string takes all");
    }
    for socket in &found.left_sockets {
        writeln!(text, "{} is left by an instance that is dead; weir run removes it", socket.display())
            .expect("a string takes all");
    }
    text += match (&found.lacks, &found.misfit) {
        (None, None) => "everything that the configuration names is on this machine\n",
        _ => "nothing is wrong with the configuration; this machine lacks what it asks for:\n",
    };
    text
}

fn memory(memory: &PacketMemory) -> String {
    format!(
        "packet memory: {} mbufs for what the buffers hold, {} on their way in and out, {} for control frames: {} MiB in all\n",
        count(u64::from(memory.buffered_mbufs)),
        count(u64::from(memory.in_flight_mbufs)),
        count(u64::from(memory.control_mbufs)),
        memory.bytes >> 20
    )
}

fn nics(nics: &[NicInfo]) -> Table {
    let mut table = Table::new([
        "Port",
        "NIC",
        "Driver",
        "Virtual function of",
        "IOMMU group",
        "NUMA node",
        "Interface",
        "Reaches memory by",
    ]);
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    for nic in nics {
        table.row([
            nic.port.clone(),
            nic.address.clone(),
            or_dash(nic.driver.clone()),
            or_dash(nic.virtual_function_of.clone()),
            or_dash(nic.iommu_group.map(|group| group.to_string())),
            or_dash(nic.numa_node.map(|node| node.to_string())),
            or_dash(nic.interface.clone()),
            nic.reaches_memory_by.unwrap_or("-").to_owned(),
        ]);
    }
    table
}

/// Poll gap that receive descriptors cover, and the longest gap measured here just now.
fn descriptors(nics: &[NicInfo], gap: PollGap) -> String {
    let longest = Span::from_nanos(gap.longest_ns);
    let head = format!("  longest poll gap in {} ms on these cores: {longest}\n", gap.watched_ns / 1_000_000);
    let line = |nic: &NicInfo| {
        let (descriptors, [long, short]) = (nic.rx_descriptors?, nic.covers_ns?.map(Span::from_nanos));
        Some(format!(
            "  {}: {} receive descriptors cover a gap of {long} with frames of 1000 B, {short} with 60 B\n",
            nic.port,
            count(u64::from(descriptors)),
        ))
    };
    head + &nics.iter().filter_map(line).collect::<String>()
}
