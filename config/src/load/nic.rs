//! `nic` of `[[ports]]`: a NIC in front of a real host.

use weir_reader::{Doc, Problem, Table};
use weir_units::Bytes;

use crate::keys::nic as keys;
use crate::{Device, NicModelConfig, PortConfig, SwitchConfig};

pub(super) fn read(port: &Table<'_>) -> Option<NicModelConfig> {
    if !port.has("nic") {
        return None;
    }
    let table = port.table("nic", "ports.nic");
    Some(NicModelConfig {
        send_buffer: table.get(&keys::SEND_BUFFER),
        receive_buffer: table.given(&keys::RECEIVE_BUFFER),
        xoff: table.given(&keys::XOFF),
        xon: table.given(&keys::XON),
        receive_rate: table.given(&keys::RECEIVE_RATE),
        obeys: table.get(&keys::RX_PAUSE),
        pauses: table.get(&keys::TX_PAUSE),
        core: table.given(&keys::CORE),
    })
}

pub(super) fn check(doc: &Doc, config: &SwitchConfig) {
    for (index, port) in config.ports.iter().enumerate() {
        let Some(nic) = &port.nic else { continue };
        let path = format!("ports[{index}].nic");
        if !doc.sound(&[&path]) {
            continue;
        }
        if leads_to_a_host(doc, index, port) && has_a_rate(doc, index, port) {
            check_receive_rate(doc, &path, port, nic);
            check_buffers(doc, &path, index, config, nic);
        }
    }
}

fn leads_to_a_host(doc: &Doc, index: usize, port: &PortConfig) -> bool {
    let (why, help) = match &port.device {
        Device::Pci(_) => ("a `pci` port is cabled to a NIC that is real", "take `nic` out"),
        Device::Ring(_) => {
            ("a `ring` leads to another port, or to an emulated host with a NIC of its own", "take `nic` out")
        }
        Device::CloneOf(_) => ("a clone has no link", "give its port the `nic`"),
        _ => return true,
    };
    let key = format!("ports[{index}].{}", port.device.key());
    if doc.sound(&[&key]) {
        doc.note(
            Problem::new(format!("`nic` stands in front of a host: {why}"), help)
                .with_label(format!("ports[{index}].nic"), "")
                .with_label(key, "the device"),
        );
    }
    false
}

fn has_a_rate(doc: &Doc, index: usize, port: &PortConfig) -> bool {
    let rate = format!("ports[{index}].rate");
    if port.rate.is_none() && doc.sound(&[&rate]) {
        let message = format!("port \"{}\" has no `rate`, which the link of its `nic` needs", port.name);
        doc.note(
            Problem::new(message, "write rate = \"10Gbps\" in the port")
                .with_label(rate, "")
                .with_label(format!("ports[{index}].nic"), "the NIC"),
        );
    }
    port.rate.is_some()
}

fn check_receive_rate(doc: &Doc, path: &str, port: &PortConfig, nic: &NicModelConfig) {
    let (Some(taken), Some(line)) = (nic.receive_rate, port.rate) else { return };
    if taken > line {
        let message = format!("`receive_rate` {taken} is more than the link's {line}, so that it limits nothing");
        let help = format!("write \"{line}\" or less, or take it out");
        doc.note(
            Problem::new(message, help)
                .with_label(format!("{path}.receive_rate"), "")
                .with_label(path.replace(".nic", ".rate"), "the link"),
        );
    }
}

fn check_buffers(doc: &Doc, path: &str, index: usize, config: &SwitchConfig, nic: &NicModelConfig) {
    let key = |key: &str| format!("{path}.{key}");
    let frame = config.frame_bytes_max();
    if nic.send_buffer < frame {
        let message = format!("`send_buffer` {} holds no frame of the switch's `mtu`, {frame}", nic.send_buffer);
        doc.note(
            Problem::new(message, format!("write send_buffer = \"{frame}\" or more"))
                .with_label(key("send_buffer"), ""),
        );
    }
    let Some(buffers) = config.nic_buffers(index) else { return };
    if let (Some(buffer), None) = (nic.receive_buffer, nic.xoff)
        && buffers.xoff < frame
    {
        let after = config.nic_headroom(&config.ports[index]);
        let message = format!(
            "`receive_buffer` {buffer} is too small: {after} may still come after a PAUSE by the rule of headroom, and a frame has up to \
             {frame}"
        );
        doc.note(
            Problem::new(message, format!("write \"{}\" or more, or `xoff` too", after + frame))
                .with_label(key("receive_buffer"), ""),
        );
        return;
    }
    let below = |low: (&str, Bytes), high: (&str, Bytes)| {
        if low.1 < high.1 {
            return;
        }
        let message = format!("`{}` {} must be less than `{}`, which is {}", low.0, low.1, high.0, high.1);
        let help = format!("write a smaller `{}`, or a larger `{}`", low.0, high.0);
        let mark = if nic_has(nic, low.0) { low.0 } else { high.0 };
        doc.note(Problem::new(message, help).with_label(key(mark), ""));
    };
    below(("xoff", buffers.xoff), ("receive_buffer", buffers.receive));
    below(("xon", buffers.xon), ("xoff", buffers.xoff));
}

fn nic_has(nic: &NicModelConfig, key: &str) -> bool {
    match key {
        "xoff" => nic.xoff.is_some(),
        _ => nic.xon.is_some(),
    }
}
