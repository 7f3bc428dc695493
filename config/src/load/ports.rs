//! `[[ports]]`.

use weir_reader::{Doc, Problem, Table, check_name};

use super::address::unicast;
use super::{classes, clones, device, flow_control, nic, vlans};
use crate::keys::port as keys;
use crate::{ClassMap, Device, DeviceFlowControl, PortConfig};

const EXAMPLE: &str = "for example with name = \"p1\", af_packet = \"veth1\"";

/// Reads the ports; `classes` is the map of those without one of their own. A port with errors keeps its index, so that the others keep
/// their numbers.
pub(super) fn read(root: &Table<'_>, mtu: u64, classes: &ClassMap, ports_max: usize) -> Vec<PortConfig> {
    let doc = root.doc();
    let tables = root.tables("ports", "ports");
    let mut ports: Vec<PortConfig> = tables.iter().map(|table| port(table, mtu, classes)).collect();
    vlans::resolve(&mut ports);
    clones::resolve(&tables, &mut ports);
    if doc.sound(&["ports"]) || !ports.is_empty() {
        check_count(doc, &ports, ports_max);
    }
    refuse_twins(doc, &ports);
    ports
}

fn check_count(doc: &Doc, ports: &[PortConfig], ports_max: usize) {
    let counted = format!("a switch has 2 to {ports_max} ports, this one has {}", ports.len());
    let real = ports.iter().filter(|port| port.clone_of().is_none()).count();
    let problem = if ports.len() > ports_max {
        let help = format!("take {} out", ports.len() - ports_max);
        Problem::new(counted, help).with_label(format!("ports[{ports_max}]"), "the first too many")
    } else if ports.len() < 2 && real == ports.len() {
        let help = if ports.is_empty() { "write one [[ports]] for each port" } else { "write one more [[ports]]" };
        Problem::new(counted, format!("{help}, {EXAMPLE}")).with_label("ports[0]", "")
    } else if real < 2 {
        let counted = format!("a switch has 2 ports or more that are no clones, this one has {real}");
        let help = format!("write {} more [[ports]] with a device, {EXAMPLE}", if real == 1 { "one" } else { "two" });
        Problem::new(counted, help).with_label("ports[0]", "")
    } else {
        return;
    };
    doc.note(problem);
}

fn port(table: &Table<'_>, mtu: u64, switch: &ClassMap) -> PortConfig {
    let doc = table.doc();
    let name = table.string("name", "p0");
    match name {
        Some(name) => check_name(table, "name", name),
        None if !table.has("name") && doc.sound(&[&table.key_path("name")]) => {
            doc.refuse(
                Problem::new("a port needs `name`", "write name = \"p0\"").with_label(table.key_path("name"), ""),
            );
        }
        None => {}
    }
    PortConfig {
        name: name.unwrap_or_default().to_owned(),
        device: device::read(table, mtu).unwrap_or(Device::Null { frame_bytes: device::FRAME_BYTES_MIN }),
        rate: table.given(&keys::RATE),
        delay: table.get(&keys::DELAY),
        headroom: table.given(&keys::HEADROOM),
        private: table.given(&keys::PRIVATE),
        alpha: table.given(&keys::ALPHA),
        peer: table.get(&keys::PEER),
        mac: unicast(table, keys::MAC.name),
        flow_control: flow_control::read(table),
        device_flow_control: device_flow_control(table),
        rx_descriptors: rx_descriptors(table),
        nic: nic::read(table),
        priority: table.get(&keys::PRIORITY),
        class_map: classes::port_map(table, switch),
        vlan: table.given(&keys::VLAN),
        tagged: vlans::tagged(table),
        pfc_watchdog: table.get(&keys::WATCHDOG),
        state: table.get(&keys::STATE),
        stations_max: table.given(&keys::STATIONS_MAX),
    }
}

fn device_flow_control(port: &Table<'_>) -> DeviceFlowControl {
    let table = port.table("device_flow_control", "ports.device_flow_control");
    DeviceFlowControl { requires_off: table.given(&keys::REQUIRE_OFF).unwrap_or(false), sends: table.get(&keys::SENDS) }
}

/// Reads the number of receive descriptors, which only NICs have.
fn rx_descriptors(port: &Table<'_>) -> Option<u16> {
    let number = port.given(&keys::RX_DESCRIPTORS)?;
    if !port.has("pci") && port.doc().sound(&[&port.key_path("pci")]) {
        port.refuse(keys::RX_DESCRIPTORS.name, "only `pci` ports have receive descriptors", "take it out");
        return None;
    }
    Some(number)
}

fn refuse_twins(doc: &Doc, ports: &[PortConfig]) {
    for (index, port) in ports.iter().enumerate() {
        let key = |index: usize, key: &str| format!("ports[{index}].{key}");
        let earlier = &ports[..index];
        if let Some(first) = earlier.iter().position(|other| other.name == port.name)
            && doc.sound(&[&key(index, "name"), &key(first, "name")])
        {
            let problem = Problem::new(format!("two ports are named \"{}\"", port.name), "give each port its own name")
                .with_label(key(index, "name"), "again")
                .with_label(key(first, "name"), "first here");
            doc.note(problem);
        }
        let device = &port.device;
        let device_key = key(index, device.key());
        if !doc.sound(&[&device_key]) {
            continue;
        }
        let twins: Vec<usize> = (0..index).filter(|other| device.shares_with(&ports[*other].device)).collect();
        // A ring has two ends, and both may be ports of this switch.
        let allowed = usize::from(matches!(device, Device::Ring(_)));
        if let Some(first) = twins.get(allowed) {
            let (message, help) = match device {
                Device::Ring(name) => {
                    (format!("a third port is on ring \"{name}\", which has two ends"), "give this link another name")
                }
                _ => (format!("{device} is the device of two ports"), "give each port its own device"),
            };
            let first = key(*first, ports[*first].device.key());
            doc.note(Problem::new(message, help).with_label(device_key, "again").with_label(first, "first here"));
        } else if let Some((socket, access)) = device.own_socket()
            && let Some(first) = earlier.iter().position(|other| {
                other.device.own_socket().is_some_and(|(path, other)| path == socket && other != access)
            })
        {
            let message = format!("two ports on socket \"{socket}\" give it another `mode` or `group` each");
            let first = key(first, earlier[first].device.key());
            doc.note(
                Problem::new(message, "write the same in both")
                    .with_label(device_key, "again")
                    .with_label(first, "first here"),
            );
        }
    }
}
