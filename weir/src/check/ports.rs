//! Ports of a switch, with their headroom.

use serde::Serialize;
use weir_config::{SwitchConfig, VlanMembers};
use weir_experiments::table::{Table, count};
use weir_mmu::BufferLayout;
use weir_units::Bytes;

use super::buffer::{BufferPartition, HeadroomFrom};

/// Port, with the headroom of each of its lossless ingress queues.
#[derive(Serialize)]
pub(super) struct PortChecked {
    name: String,
    device: String,
    /// Rate as written in the file; `None` if it is the device's.
    rate: Option<String>,
    rate_bps: Option<u64>,
    delay: String,
    delay_ns: u64,
    flow_control: String,
    headroom_bytes: u64,
    headroom_by_rule_bytes: Option<u64>,
    /// The rule's term for a NIC's transmit backlog.
    tx_backlog_bytes: Option<u64>,
}

/// All ports of a switch.
pub(super) fn ports(switch: &SwitchConfig, layout: &BufferLayout) -> Vec<PortChecked> {
    let ports = switch.ports.iter().zip(layout.ports());
    let port = ports.map(|(port, of_layout)| PortChecked {
        name: port.name.clone(),
        device: port.device.to_string(),
        rate: port.rate.map(|rate| rate.to_string()),
        rate_bps: port.rate.map(|rate| rate.as_bps()),
        delay: port.delay.to_string(),
        delay_ns: port.delay.as_nanos(),
        flow_control: port.flow_control.label().to_owned(),
        headroom_bytes: of_layout.headroom.iter().copied().max().unwrap_or(Bytes::ZERO).get(),
        headroom_by_rule_bytes: switch.headroom_by_rule(port).map(Bytes::get),
        tx_backlog_bytes: switch.tx_backlog_bytes(port).map(Bytes::get),
    });
    port.collect()
}

/// VLAN with the names of its members, without clones.
#[derive(Serialize)]
pub(super) struct VlanChecked {
    vlan: u16,
    untagged: Vec<String>,
    tagged: Vec<String>,
}

/// VLANs of a switch.
pub(super) fn vlans(switch: &SwitchConfig) -> Vec<VlanChecked> {
    let names = |members: &[usize]| -> Vec<String> {
        let ports = members.iter().map(|port| &switch.ports[*port]).filter(|port| port.clone_of().is_none());
        ports.map(|port| port.name.clone()).collect()
    };
    let vlan =
        |of: VlanMembers| VlanChecked { vlan: of.vlan, untagged: names(&of.untagged), tagged: names(&of.tagged) };
    switch.vlan_members().into_iter().map(vlan).collect()
}

/// Formats a line for each VLAN.
pub(super) fn vlan_lines(vlans: &[VlanChecked]) -> String {
    let line = |of: &VlanChecked| {
        let part = |names: &[String], kind: &str| (!names.is_empty()).then(|| format!("{} {kind}", names.join(", ")));
        let parts: Vec<String> =
            [part(&of.untagged, "untagged"), part(&of.tagged, "tagged")].into_iter().flatten().collect();
        format!("  VLAN {}: {}\n", of.vlan, parts.join("; "))
    };
    vlans.iter().map(line).collect()
}

/// Formats a row for each port.
pub(super) fn table(ports: &[PortChecked], buffer: &BufferPartition) -> Table {
    let headroom = match buffer.headroom_from {
        HeadroomFrom::Queue => "Headroom B",
        HeadroomFrom::Pool => "Headroom up to B",
        HeadroomFrom::Port => "Insurance B",
        HeadroomFrom::None => "Φ B, not kept",
    };
    let mut columns = vec!["Port", "Device", "Rate", "Delay", "Flow control", headroom, "By rule B"];
    let has_nics = ports.iter().any(|port| port.tx_backlog_bytes.is_some());
    if has_nics {
        columns.push("of which transmit backlog B");
    }
    let mut table = Table::new(columns);
    for port in ports {
        let mut row = vec![
            port.name.clone(),
            port.device.clone(),
            port.rate.clone().unwrap_or_else(|| "device's".to_owned()),
            port.delay.clone(),
            port.flow_control.clone(),
            count(port.headroom_bytes),
            port.headroom_by_rule_bytes.map_or("-".to_owned(), count),
        ];
        if has_nics {
            row.push(port.tx_backlog_bytes.map_or("-".to_owned(), count));
        }
        table.row(row);
    }
    table
}
