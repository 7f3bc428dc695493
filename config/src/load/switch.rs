//! `[switch]`, `[lcores]`, and the file as a whole.

use std::path::Path;

use weir_load_balancing::{PATH_SELECTORS, PathSelectorChoice};
use weir_reader::{NAME_RULE, Problem, Table, check_name, is_name};
use weir_units::MacAddr;

use super::address::unicast;
use super::kinds::chosen_kind;
use super::{buffer, classes, clones, device, ports, watchdog};
use crate::keys::switch as keys;
use crate::keys::{control, lcores};
use crate::{CatchUpBound, ControlConfig, ControlSocket, LcoreConfig, PortConfig, Source, SwitchConfig};

/// Maximum CPU number. DPDK's own limit depends on its build and is lower; the driver checks it.
const CPU_MAX: u64 = 1_023;

/// Reads the whole file of a switch with at most `ports_max` ports. A key that is absent or invalid reads as its default; the errors are in
/// the document.
pub(super) fn read(root: &Table<'_>, file: &str, ports_max: usize) -> SwitchConfig {
    let switch = root.table("switch", "switch");
    let mtu = switch.get(&keys::MTU);
    let time_dilation = switch.get(&keys::TIME_DILATION);
    let (classes, pfc) = classes::read(root, mtu.get(), time_dilation);
    let ports = ports::read(root, mtu.get(), &classes.map, ports_max);
    let static_macs = static_macs(root, &ports);
    SwitchConfig {
        name: name(&switch, file),
        idle: switch.get(&keys::IDLE),
        time_dilation,
        mtu,
        mac_ageing: switch.get(&keys::MAC_AGEING),
        fdb_size: switch.get(&keys::FDB_SIZE),
        stats_interval: switch.get(&keys::STATS_INTERVAL),
        telemetry: switch.get(&keys::TELEMETRY),
        telemetry_queue: switch.get(&keys::TELEMETRY_QUEUE),
        load_balancing: load_balancing(&switch),
        lldp: switch.get(&keys::LLDP),
        storm_control: switch.given(&keys::STORM_CONTROL),
        lcores: read_lcores(&root.table("lcores", "lcores")),
        control: read_control(&root.table("control", "control")),
        buffer: buffer::read(&root.table("buffer", "buffer")),
        classes,
        pfc,
        pfc_watchdog: watchdog::read(root, &ports),
        ports,
        static_macs,
        source: Source::default(),
    }
}

fn name(switch: &Table<'_>, file: &str) -> String {
    let stem = Path::new(file).file_stem().and_then(|stem| stem.to_str()).unwrap_or("");
    match switch.string("name", "lab") {
        Some(name) => {
            check_name(switch, "name", name);
            name.to_owned()
        }
        None => {
            if !switch.has("name") && !is_name(stem) {
                let message = format!("the switch has no `name`, and the file's own, \"{stem}\", can't stand for it");
                let help = format!("write name = \"lab\" in [switch]: {NAME_RULE}");
                switch.doc().note(Problem::new(message, help).with_label("switch.name", ""));
            }
            stem.to_owned()
        }
    }
}

fn load_balancing(switch: &Table<'_>) -> PathSelectorChoice {
    let usual = ["flow-hash", "a flow keeps the port that its hash picks"];
    let key = keys::LOAD_BALANCING.name;
    chosen_kind(switch, key, PATH_SELECTORS.all(), usual, |kind| kind.read(switch)).unwrap_or_default()
}

fn read_lcores(table: &Table<'_>) -> LcoreConfig {
    let layout = table.get(&lcores::LAYOUT);
    let cores: Vec<usize> = table
        .integers(lcores::CORES.name, 0..=CPU_MAX)
        .unwrap_or_default()
        .into_iter()
        .map(|core| core as usize)
        .collect();
    for (index, core) in cores.iter().enumerate() {
        if let Some(first) = cores[..index].iter().position(|other| other == core) {
            let problem = Problem::new(format!("core {core} is given twice in `cores`"), "name each core once")
                .with_label(table.key_path(&format!("cores[{index}]")), "again")
                .with_label(table.key_path(&format!("cores[{first}]")), "first here");
            table.doc().note(problem);
        }
    }
    LcoreConfig { layout, cores, catch_up: catch_up(table) }
}

fn read_control(table: &Table<'_>) -> ControlConfig {
    let socket = device::socket_path(table, control::SOCKET.name, "/run/weir/lab.control")
        .map(|path| ControlSocket::parse(&path));
    if socket == Some(ControlSocket::Nowhere) {
        for key in [control::MODE.name, control::GROUP.name].into_iter().filter(|key| table.has(key)) {
            let message = format!("with socket = \"none\" there is no socket that could have a `{key}`");
            table.refuse(key, message, format!("take `{key}` out, or name a socket"));
        }
        return ControlConfig { socket, ..ControlConfig::default() };
    }
    ControlConfig { socket, access: device::socket_access(table, None) }
}

fn catch_up(table: &Table<'_>) -> CatchUpBound {
    let key = lcores::CATCH_UP;
    if table.is_keyword(&key) {
        return CatchUpBound::Auto;
    }
    table.given(&key).map_or(CatchUpBound::Auto, CatchUpBound::AtMost)
}

fn static_macs(root: &Table<'_>, ports: &[PortConfig]) -> Vec<(MacAddr, usize)> {
    let mut macs: Vec<(MacAddr, usize)> = Vec::new();
    let mut seen: Vec<(MacAddr, String)> = Vec::new();
    for table in root.tables("static_macs", "static_macs") {
        for (key, example) in [("mac", "02:00:00:00:00:01"), ("port", "p0")] {
            if !table.has(key) && table.doc().sound(&[&table.key_path(key)]) {
                let help = format!("write {key} = \"{example}\"");
                table
                    .doc()
                    .note(Problem::new(format!("a static MAC needs `{key}`"), help).with_label(table.path(), ""));
            }
        }
        let mac = unicast(&table, "mac");
        if let Some(mac) = mac {
            if let Some((_, first)) = seen.iter().find(|(other, _)| *other == mac) {
                let problem = Problem::new(format!("{mac} is given twice in [[static_macs]]"), "keep one of them")
                    .with_label(table.key_path("mac"), "again")
                    .with_label(first, "first here");
                table.doc().note(problem);
            }
            seen.push((mac, table.key_path("mac")));
        }
        let port = table.string("port", "p0").and_then(|name| port_of(&table, ports, name));
        macs.extend(mac.zip(port));
    }
    macs
}

/// Port of a static MAC, which must not be a clone.
fn port_of(table: &Table<'_>, ports: &[PortConfig], name: &str) -> Option<usize> {
    let port = ports.iter().position(|port| port.name == name);
    match port.map(|port| ports[port].clone_of()) {
        Some(None) => return port,
        Some(Some(real)) => table.refuse(
            "port",
            format!("\"{name}\" is a clone of port \"{real}\", and a clone sends nothing"),
            format!("write port = \"{real}\""),
        ),
        None => table.refuse(
            "port",
            format!("no port is named \"{name}\""),
            format!("write one of: {}", clones::real_names(ports)),
        ),
    }
    None
}
