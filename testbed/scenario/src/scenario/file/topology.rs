//! `[[switches]]`, `[[links]]` and `[[hosts]]`.

use std::path::Path;
use std::sync::Arc;

use weir_config::{Device, read_device};
use weir_reader::settings::{ConfigTable, SourceSpan};
use weir_reader::{Problem, Table, is_name};
use weir_units::Time;

use super::keys::{OF_DEVICE, OF_PORT, llr, names as names_of};
use super::nic::Nic;
use super::reading::{name, position, refuse_duplicates, refuse_unnamed, require};
use super::{faults, host_backend};
use crate::link::FaultPlan;
use crate::scenario::{RealHost, ServerPlan};
use crate::topology::{PORTS_MAX, port_name};

/// Ports of a host, in fixes.
const PORTS: &str = "\"L0.h1\", \"L1.h1\"";
/// Maximum MTU of a switch; its devices' maxima are checked with its file.
const MTU_MAX: u64 = 16_000;

/// Switches, links and hosts of a scenario.
#[derive(Debug, Default)]
pub(super) struct Topology {
    pub switches: Vec<SwitchPart>,
    pub links: Vec<LinkPart>,
    pub hosts: Vec<HostPart>,
    pub servers: Option<ServerPlan>,
    /// Whether `[topology]` made the fabric: its links and hosts have no tables in the file.
    pub is_fabric: bool,
}

#[derive(Debug)]
pub(super) struct SwitchPart {
    pub name: String,
    /// Contents of the switch's own file, if it has one.
    pub file: Option<ConfigTable>,
    /// Buffer settings of this switch alone.
    pub buffer: Option<ConfigTable>,
    pub origin: Option<SourceSpan>,
}

#[derive(Debug)]
pub(super) struct LinkPart {
    /// Index among the links of the file.
    pub number: usize,
    pub ends: [PortName; 2],
    /// Settings of both ports.
    pub settings: Arc<ConfigTable>,
    /// Devices of both ports, if a real wire joins them.
    pub devices: Option<[ConfigTable; 2]>,
    pub faults: [FaultPlan; 2],
    pub has_llr: bool,
    /// Whether the link is up when the scenario begins.
    pub is_up: bool,
    pub origin: Option<SourceSpan>,
}

#[derive(Debug)]
pub(super) struct HostPart {
    /// Index among the hosts of the file.
    pub number: usize,
    pub name: String,
    pub port: PortName,
    /// Index of the host if this is a further port of it, which comes after all hosts.
    pub first_port: Option<usize>,
    /// Settings of the port.
    pub settings: Arc<ConfigTable>,
    /// Payload of a full frame, and whether the host sets it itself.
    pub mtu: u16,
    pub has_own_mtu: bool,
    pub device: Option<Device>,
    pub port_device: Option<ConfigTable>,
    /// Access to the host, if it is real.
    pub real: Option<RealHost>,
    pub faults: [FaultPlan; 2],
    pub has_llr: bool,
    pub origin: Option<SourceSpan>,
}

/// Port by name, `S1.next`.
#[derive(Clone, Debug)]
pub(super) struct PortName {
    /// Index of the switch.
    pub switch: usize,
    pub port: String,
    /// Index among the switch's ports, if a fabric sets it.
    pub place: Option<usize>,
}

impl Topology {
    /// Reads the three arrays, and leaves out entries with errors. Files that they name are in `folder`; `seed` is the scenario's.
    pub(super) fn read(root: &Table<'_>, folder: &Path, nic: &Nic, end: Time, seed: u64) -> Topology {
        let mut topology = Topology { switches: switches(root, folder), ..Topology::default() };
        let mut taken = Vec::new();
        for (number, table) in root.tables("links", "links").iter().enumerate() {
            let draw = FaultDraw { end, seed: seed_of(seed, number) };
            topology.links.extend(link(table, number, &topology.switches, &mut taken, draw));
        }
        let tables = root.tables("hosts", "hosts");
        let first_host = topology.links.len();
        let (mut names, mut further) = (Vec::new(), Vec::new());
        for (number, table) in tables.iter().enumerate() {
            let name = name(table, "a host", "H1");
            let draw = FaultDraw { end, seed: seed_of(seed, first_host + number) };
            let ports = further_ports(table, &topology.switches, &mut taken);
            if let Some(host) = host(table, number, name.as_deref(), &topology.switches, &mut taken, nic, draw) {
                further.extend(ports.into_iter().zip(1..).map(|(port, n)| HostPart {
                    name: port_name(&host.name, n),
                    port,
                    first_port: Some(topology.hosts.len()),
                    settings: host.settings.clone(),
                    device: None,
                    port_device: None,
                    real: None,
                    origin: host.origin.clone(),
                    ..host
                }));
                topology.hosts.push(host);
            }
            names.push(name);
        }
        refuse_duplicates(&tables, "hosts", names.iter().map(Option::as_deref));
        for port in &further {
            if let Some(host) = topology.hosts.iter().find(|host| host.name == port.name) {
                let message = format!("\"{}\" names a further port of another host", host.name);
                tables[host.number].refuse("name", message, "give the host another name");
            }
        }
        topology.hosts.extend(further);
        topology.check_counts(root);
        topology
    }

    /// Checks the numbers of ports: they come from links and hosts, unless a switch has a file of its own.
    fn check_counts(&self, root: &Table<'_>) {
        if !root.doc().sound(&["links", "hosts", "switches"]) {
            return;
        }
        for (number, switch) in self.switches.iter().enumerate().filter(|(_, switch)| switch.file.is_none()) {
            let of_hosts = self.hosts.iter().filter(|host| host.port.switch == number).count();
            let ports = of_hosts + self.neighbours(number).count();
            if !(2..=PORTS_MAX).contains(&ports) {
                let message = format!(
                    "a switch has 2 to {PORTS_MAX} ports, for its links and hosts; {} has {ports}",
                    switch.name
                );
                let help = if ports < 2 { "write more [[links]] or [[hosts]]" } else { "take some of them out" };
                root.doc().refuse(Problem::new(message, help).with_label(format!("switches[{number}].name"), ""));
            }
        }
    }

    pub(super) fn switch_names(&self) -> Vec<&str> {
        self.switches.iter().map(|switch| switch.name.as_str()).collect()
    }

    pub(super) fn host_names(&self) -> Vec<&str> {
        self.hosts.iter().filter(|host| host.first_port.is_none()).map(|host| host.name.as_str()).collect()
    }

    /// Returns a port's name in the file.
    pub(super) fn shown(&self, port: &PortName) -> String {
        shown(&self.switches, port)
    }

    /// Returns the links that are up from a switch: the port there, and the other switch.
    pub(super) fn neighbours(&self, switch: usize) -> impl Iterator<Item = (&PortName, usize)> + Clone {
        let both = self.links.iter().filter(|link| link.is_up).flat_map(|link| {
            let [first, second] = &link.ends;
            [(first, second.switch), (second, first.switch)]
        });
        both.filter(move |(port, _)| port.switch == switch)
    }
}

impl SwitchPart {
    /// Overrides the buffer settings of a switch's file, or of all switches.
    pub(super) fn override_buffer(&self, settings: &mut ConfigTable) {
        if let Some(own) = &self.buffer {
            settings.table_mut("buffer").overlay(own.clone(), &[]);
        }
    }

    /// Returns the names of the switch's ports, if it has a file of its own.
    fn ports(&self) -> Option<Vec<&str>> {
        let ports = self.file.as_ref()?.tables("ports");
        Some(ports.iter().filter_map(|port| port.string("name")).collect())
    }
}

/// Seed of the faults of a link's first direction; the other direction has the next one.
pub(super) fn seed_of(scenario: u64, link: usize) -> u64 {
    (2 * link as u64 + 1).wrapping_add(scenario.wrapping_sub(1) << 32)
}

fn shown(switches: &[SwitchPart], port: &PortName) -> String {
    format!("{}.{}", switches[port.switch].name, port.port)
}

fn switches(root: &Table<'_>, folder: &Path) -> Vec<SwitchPart> {
    let tables = root.tables("switches", "switches");
    if tables.is_empty() && root.doc().sound(&["switches"]) {
        let help = "write one [[switches]] for each switch, with name = \"S1\"";
        root.doc().refuse(Problem::new("a scenario needs a switch", help).with_label("switches", ""));
    }
    let read = |table: &Table<'_>| {
        let name = name(table, "a switch", "S1");
        if let Some(name) = name.as_deref().filter(|name| name.contains('.')) {
            let help = format!("write for example name = \"{}\"", name.replace('.', "-"));
            table.refuse("name", format!("\"{name}\" contains `.`, which separates a switch from its port"), help);
        }
        let file = table.string("config", "switch.toml").and_then(|file| {
            let loaded = ConfigTable::load(&folder.join(file), "a switch's TOML file, in the scenario's folder");
            loaded
                .map_err(|errors| {
                    table.doc().include(errors);
                    let help = "name a switch's TOML file, as seen from the scenario's folder";
                    table.refuse("config", format!("\"{file}\" can't be used"), help);
                })
                .ok()
        });
        let buffer = table.string("buffer_size", "16MB").map(|size| {
            let mut buffer = ConfigTable::default();
            buffer.set_string("size", size, SourceSpan::of_key(table, "buffer_size").as_ref());
            buffer
        });
        SwitchPart { name: name.unwrap_or_default(), file, buffer, origin: SourceSpan::of_table(table) }
    };
    let switches: Vec<SwitchPart> = tables.iter().map(read).collect();
    let names = switches.iter().map(|switch| Some(switch.name.as_str()).filter(|name| !name.is_empty()));
    refuse_duplicates(&tables, "switches", names);
    switches
}

/// Inputs of the random faults of links.
#[derive(Clone, Copy)]
pub(super) struct FaultDraw {
    /// End of the scenario.
    pub end: Time,
    pub seed: u64,
}

fn link(
    table: &Table<'_>,
    number: usize,
    switches: &[SwitchPart],
    taken: &mut Vec<(String, String)>,
    draw: FaultDraw,
) -> Option<LinkPart> {
    require(table, "ends", "a link", "ends = [\"S1.next\", \"S2.prev\"]");
    let names = table.strings("ends", "\"S1.next\", \"S2.prev\"").unwrap_or_default();
    let ends: Vec<Option<PortName>> =
        (0..names.len()).map(|n| port_named(table, &format!("ends[{n}]"), names[n], switches)).collect();
    if ends.len() != 2 && table.has("ends") && table.doc().sound(&[&table.key_path("ends")]) {
        let message = format!("a link has two ends, this one has {}", ends.len());
        table.refuse("ends", message, "write ends = [\"S1.next\", \"S2.prev\"]");
    }
    for (n, port) in ends.iter().enumerate() {
        if let Some(port) = port {
            take(table, &format!("ends[{n}]"), shown(switches, port), taken);
        }
    }
    let toward = [names.get(1).copied().unwrap_or(""), names.first().copied().unwrap_or("")];
    let faults = faults::read(table, "links.faults", [&toward[..1], &toward[1..]], draw.end, draw.seed);
    let devices = table.has("devices").then(|| table.tables("devices", "links.devices"));
    if let Some(devices) = devices.as_ref().filter(|_| table.doc().sound(&[&table.key_path("devices")])) {
        if devices.len() != 2 {
            let message = format!("a wire has a device at each of its two ends, this one has {}", devices.len());
            let help = "write devices = [{ pci = \"0000:81:00.0\" }, { pci = \"0000:82:00.0\" }], or take it out";
            table.refuse("devices", message, help);
        }
        refuse_on_wires(table, "devices");
    }
    let devices = devices.map(|devices| devices.iter().map(|device| own_device(device).1).collect::<Vec<_>>());
    let [Some(first), Some(second)] = <[Option<PortName>; 2]>::try_from(ends).ok()? else { return None };
    Some(LinkPart {
        number,
        ends: [first, second],
        settings: ConfigTable::from_table(table).take_keys(names_of(OF_PORT)).into(),
        devices: devices.and_then(|devices| devices.try_into().ok()),
        faults,
        has_llr: table.get(&llr::HAS_LLR),
        is_up: true,
        origin: SourceSpan::of_table(table),
    })
}

fn host(
    table: &Table<'_>,
    number: usize,
    name: Option<&str>,
    switches: &[SwitchPart],
    taken: &mut Vec<(String, String)>,
    nic: &Nic,
    draw: FaultDraw,
) -> Option<HostPart> {
    let (key, text) = match table.has("ports") {
        true => ("ports[0]", table.strings("ports", PORTS).and_then(|ports| ports.first().copied())),
        false => {
            require(table, "port", "a host", "port = \"S1.h1\"");
            ("port", table.string("port", "S1.h1"))
        }
    };
    let port = text.and_then(|text| port_named(table, key, text, switches));
    if let Some(port) = &port {
        take(table, key, shown(switches, port), taken);
    }
    let toward = [name.unwrap_or(""), text.unwrap_or("")];
    let faults = faults::read(table, "hosts.faults", [&toward[..1], &toward[1..]], draw.end, draw.seed);
    let has_file = port.as_ref().is_some_and(|port| switches[port.switch].file.is_some());
    let device = |key, name| table.has(key).then(|| own_device(&table.table(key, name)));
    let (device, port_device) = (device("device", "hosts.device"), device("port_device", "hosts.port_device"));
    let real = host_backend::of_host(table);
    match (table.has("device"), table.has("port_device")) {
        (false, true) if table.has("backend") => {}
        (true, _) if table.has("backend") => {
            let problem =
                Problem::new("an emulated host is on `device`, and a real one is reached", "take one of them out");
            table.doc().note(
                problem
                    .with_key_label(table.key_path("device"), "")
                    .with_key_label(table.key_path("backend"), "and here"),
            );
        }
        (true, false) if !has_file => {
            let help = "write port_device = { pci = \"0000:81:00.0\" }, the switch's end of the wire, too";
            table.refuse("device", "a host with a device of its own is not on an emulated link", help);
        }
        (false, true) => {
            let help = "write device = { pci = \"0000:82:00.0\" }, the host's end of the wire, too, or take it out";
            table.refuse("port_device", "the switch's end of a wire has no host's end", help);
        }
        (true, _) => refuse_on_wires(table, "device"),
        _ => {}
    }
    let mtu = nic.mtu_of(table);
    Some(HostPart {
        number,
        name: name?.to_owned(),
        port: port?,
        first_port: None,
        settings: ConfigTable::from_table(table).take_keys(names_of(OF_PORT)).into(),
        mtu: mtu.unwrap_or(nic.mtu),
        has_own_mtu: mtu.is_some(),
        device: device.and_then(|(device, _)| device),
        port_device: port_device.map(|(_, settings)| settings),
        real,
        faults,
        has_llr: table.get(&llr::HAS_LLR),
        origin: SourceSpan::of_table(table),
    })
}

/// Reads the ports of a host after its first.
fn further_ports(table: &Table<'_>, switches: &[SwitchPart], taken: &mut Vec<(String, String)>) -> Vec<PortName> {
    let Some(names) = table.strings("ports", PORTS) else { return Vec::new() };
    if names.is_empty() {
        table.refuse("ports", "the list is empty", format!("write ports = [{PORTS}]"));
    }
    for key in ["port", "faults", "device", "port_device", "backend"] {
        if table.has(key) {
            let message = format!("`{key}` is of a host with one port, and this one has `ports`");
            let problem = Problem::new(message, format!("take `{key}` or `ports` out"));
            let problem = problem.with_key_label(table.key_path(key), "");
            table.doc().note(problem.with_key_label(table.key_path("ports"), "the ports"));
        }
    }
    let mut ports = Vec::new();
    for (n, name) in names.into_iter().enumerate().skip(1) {
        let key = format!("ports[{n}]");
        let Some(port) = port_named(table, &key, name, switches) else { continue };
        take(table, &key, shown(switches, &port), taken);
        ports.push(port);
    }
    ports
}

/// Reads a device: checked, and as written.
fn own_device(table: &Table<'_>) -> (Option<Device>, ConfigTable) {
    (read_device(table, MTU_MAX), ConfigTable::from_table(table).take_keys(names_of(OF_DEVICE)))
}

/// Refuses the keys of emulated links, `faults` and `llr`, on a real wire.
fn refuse_on_wires(table: &Table<'_>, devices: &str) {
    let given = [("faults", table.has("faults")), (llr::HAS_LLR.name, table.get(&llr::HAS_LLR))];
    for (key, _) in given.into_iter().filter(|(_, is_given)| *is_given) {
        let message = format!("`{key}` is of an emulated link, but `{devices}` makes this one a real wire");
        let problem = Problem::new(message, format!("take `{key}` or `{devices}` out"));
        table
            .doc()
            .note(problem.with_key_label(table.key_path(key), "").with_key_label(table.key_path(devices), "the wire"));
    }
}

/// Finds the port of a name such as `S1.next`.
pub(super) fn port_named(table: &Table<'_>, key: &str, text: &str, switches: &[SwitchPart]) -> Option<PortName> {
    let Some((switch, port)) = text.split_once('.').filter(|(_, port)| is_name(port)) else {
        table.refuse(key, format!("\"{text}\" names no port"), "write the switch and its port: \"S1.next\"");
        return None;
    };
    let names: Vec<&str> = switches.iter().map(|switch| switch.name.as_str()).collect();
    let Some(number) = position(switch, &names) else {
        refuse_unnamed(table, key, switch, "switch", &names);
        return None;
    };
    if let Some(ports) = switches[number].ports().filter(|ports| !ports.contains(&port)) {
        refuse_unnamed(table, key, port, &format!("port of switch {switch}"), &ports);
        return None;
    }
    Some(PortName { switch: number, port: port.to_owned(), place: None })
}

/// Reports a port that is in use. `taken` has the ports so far and their keys.
fn take(table: &Table<'_>, key: &str, port: String, taken: &mut Vec<(String, String)>) {
    if let Some((_, first)) = taken.iter().find(|(other, _)| *other == port) {
        let problem = Problem::new(format!("port {port} has two hosts or links"), "give each its own port")
            .with_label(table.key_path(key), "again")
            .with_label(first, "first here");
        table.doc().refuse(problem);
    }
    taken.push((port, table.key_path(key)));
}
