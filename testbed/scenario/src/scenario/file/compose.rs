//! Composition of the switches' files from a scenario.

use std::borrow::Cow;

use weir_nic::host::TelemetryMode;
use weir_reader::settings::{ConfigTable, MergedFile, SourceSpan};
use weir_units::MacAddr;

use super::changes::ChangePart;
use super::keys::{OF_DEVICE, SECTIONS, names, of_switch};
use super::plan::{RunPart, ScenarioPlan};
use super::topology::{HostPart, LinkPart, PortName, Topology};
use crate::scenario::{HostBackend, RealHost, RealPorts};

/// Tables that are replaced as a whole: their keys depend on the kind that they name.
const REPLACED_TABLES: &[&str] = &["flow_control"];
/// Device keys of a port.
const DEVICES: &[&str] = &["ring", "clone_of"];

/// Composes a switch's file in a run, with its ports, after `changes`.
pub(super) fn draft(
    plan: &ScenarioPlan,
    run: &RunPart,
    switch: usize,
    attached: &[Attachment<'_>],
    time_dilation: u32,
    changes: &[&ChangePart],
) -> MergedFile {
    let part = &plan.topology.switches[switch];
    let mut over = run.settings.clone();
    let mut file = match &part.file {
        Some(file) => {
            let mut file = file.clone();
            part.override_buffer(&mut file);
            file
        }
        None => {
            let mut common = plan.common.clone();
            part.override_buffer(&mut common);
            override_settings(&mut common, over);
            over = common;
            ConfigTable::default()
        }
    };
    let port = over.take_table("port");
    override_settings(&mut file, of_file(over));
    let switch_table = file.table_mut("switch");
    switch_table.set_string("name", &part.name, part.origin.as_ref());
    let clock = plan.clock.as_ref().or(part.origin.as_ref());
    switch_table.set("time_dilation", &time_dilation.to_string(), clock);
    if plan.stamps() == TelemetryMode::Hops {
        switch_table.set("telemetry", "true", part.origin.as_ref());
    }
    for table in file.tables_mut("ports") {
        table.overlay(port.clone(), REPLACED_TABLES);
    }
    for (number, attached) in attached.iter().enumerate() {
        attached.add_to(&mut file, &port, mac_of_port(switch, number));
    }
    add_static_macs(plan, switch, &mut file);
    changes.iter().for_each(|change| change.apply(&mut file));
    let of_run = if plan.runs.len() > 1 { format!(" in run \"{}\"", run.name) } else { String::new() };
    let name = format!("{}: switch {}{of_run}", plan.source.name(), part.name);
    MergedFile::new(&name, &file.with_origin(part.origin.clone()))
}

/// MAC address of a host, by its number.
pub(super) fn mac_of_host(host: usize) -> MacAddr {
    let [_, high, middle, low] = (host as u32 + 1).to_be_bytes();
    MacAddr([2, 0, 0, high, middle, low])
}

/// MAC address of a switch's port, by their numbers.
pub(super) fn mac_of_port(switch: usize, port: usize) -> MacAddr {
    let [high, low] = (switch as u16 + 1).to_be_bytes();
    let [beyond, port] = (port as u16).to_be_bytes();
    MacAddr([2, 0, 1 + beyond, high, low, port])
}

/// Overrides common settings by those of `[runs.switch]`. A run that chooses another policy drops other policies' tables.
fn override_settings(common: &mut ConfigTable, run: ConfigTable) {
    let policy = run.table("buffer").and_then(|buffer| buffer.string("policy"));
    if let Some(policy) = policy {
        let buffer = common.table_mut("buffer");
        let others: Vec<String> = buffer.table_names().filter(|name| *name != policy).map(str::to_owned).collect();
        others.iter().for_each(|name| buffer.remove(name));
    }
    common.overlay(run, REPLACED_TABLES);
}

/// Converts `[switch]` to a switch's file: keys of the switch itself move one table down.
fn of_file(mut settings: ConfigTable) -> ConfigTable {
    let sections = settings.take_keys(SECTIONS.iter().copied());
    let own = settings.take_keys(of_switch());
    let mut file = ConfigTable::default().with_origin(settings.origin().cloned());
    file.put_table("switch", own);
    file.overlay(sections, REPLACED_TABLES);
    file
}

/// Link or host at a port of a switch.
pub(super) struct Attachment<'p> {
    pub port: &'p PortName,
    /// Settings of the port by its link or host.
    pub settings: &'p ConfigTable,
    pub ring: String,
    device: Option<Cow<'p, ConfigTable>>,
    /// Whether the device of the switch's own file is kept.
    keeps_device: bool,
    is_host: bool,
    origin: Option<&'p SourceSpan>,
}

/// Returns the links and hosts at the ports of each switch: in a fabric's order, or in that of the file.
pub(super) fn attachments<'p>(topology: &'p Topology, real: Option<&RealPorts>) -> Vec<Vec<Attachment<'p>>> {
    let mut all: Vec<Vec<Attachment<'_>>> = topology.switches.iter().map(|_| Vec::new()).collect();
    for link in &topology.links {
        (0..2).for_each(|end| all[link.ends[end].switch].push(on_link(link, end)));
    }
    for (n, host) in topology.hosts.iter().enumerate() {
        all[host.port.switch].push(on_host(n, host, real));
    }
    for attachments in &mut all {
        attachments.sort_by_key(|attached| (attached.port.place, attached.origin.map_or(0, SourceSpan::offset)));
    }
    all
}

fn on_link(link: &LinkPart, end: usize) -> Attachment<'_> {
    Attachment {
        port: &link.ends[end],
        settings: &link.settings,
        ring: format!("l{}{}", link.number + 1, ["a", "b"][end]),
        device: link.devices.as_ref().map(|devices| Cow::Borrowed(&devices[end])),
        keeps_device: false,
        is_host: false,
        origin: link.origin.as_ref(),
    }
}

fn on_host<'p>(n: usize, host: &'p HostPart, real: Option<&RealPorts>) -> Attachment<'p> {
    let reached = host.real.as_ref().zip(real).map(|(real, ports)| real_port(host, real, ports));
    // An emulated host does not use the switch's end of a real host's cable.
    let of_wire = host.port_device.as_ref().filter(|_| host.device.is_some()).map(Cow::Borrowed);
    Attachment {
        port: &host.port,
        settings: &host.settings,
        ring: format!("h{}", n + 1),
        device: reached.or(of_wire),
        keeps_device: host.device.is_some(),
        is_host: true,
        origin: host.origin.as_ref(),
    }
}

/// Returns the device of a real host's port, with the NIC model in front if it has one.
fn real_port<'p>(host: &'p HostPart, real: &RealHost, ports: &RealPorts) -> Cow<'p, ConfigTable> {
    let origin = host.origin.as_ref();
    let mut device = ConfigTable::default();
    match &real.backend {
        HostBackend::Vm { queues, .. } => {
            let mut vhost = ConfigTable::default();
            vhost.set_string("socket", &ports.socket(host.number).display().to_string(), origin);
            vhost.set("queues", &queues.to_string(), origin);
            device.put_table("vhost_user", vhost);
        }
        HostBackend::Netns => device.set_string("af_packet", &ports.interface(host.number), origin),
        HostBackend::Ssh { .. } => return Cow::Owned(host.port_device.clone().unwrap_or_default()),
    }
    if real.has_nic_model {
        device.set("nic", "{}", origin);
    }
    Cow::Owned(device)
}

impl Attachment<'_> {
    /// Adds the port to the file, or its settings to the file's own port.
    fn add_to(&self, file: &mut ConfigTable, common: &ConfigTable, mac: MacAddr) {
        let ports = file.tables_mut("ports");
        let own = ports.iter().position(|port| port.string("name") == Some(&self.port.port));
        let at = own.unwrap_or_else(|| {
            let mut port = ConfigTable::default().with_origin(self.origin.cloned());
            port.set_string("name", &self.port.port, self.origin);
            port.overlay(common.clone(), REPLACED_TABLES);
            ports.push(port);
            ports.len() - 1
        });
        let port = &mut ports[at];
        if self.device.is_some() || !self.keeps_device {
            names(OF_DEVICE).chain(DEVICES.iter().copied()).for_each(|key| port.remove(key));
        }
        match &self.device {
            Some(device) => port.overlay(ConfigTable::clone(device), REPLACED_TABLES),
            None if self.keeps_device => {}
            None => port.set_string("ring", &self.ring, self.origin),
        }
        if self.device.is_none() && !self.keeps_device && !port.has("mac") {
            port.set_string("mac", &mac.to_string(), self.origin);
        }
        if self.is_host && !port.has("peer") {
            port.set_string("peer", "host", self.origin);
        }
        port.overlay(self.settings.clone(), REPLACED_TABLES);
    }
}

fn add_static_macs(plan: &ScenarioPlan, switch: usize, file: &mut ConfigTable) {
    let Some(forwarding) = plan.forwarding.as_ref().filter(|_| !plan.topology.is_fabric) else { return };
    for (n, host) in plan.topology.hosts.iter().enumerate() {
        let Some(port) = forwarding.port(switch, n) else { continue };
        let mut entry = ConfigTable::default().with_origin(host.origin.clone());
        entry.set_string("mac", &mac_of_host(n).to_string(), host.origin.as_ref());
        entry.set_string("port", port, host.origin.as_ref());
        file.tables_mut("static_macs").push(entry);
    }
}
