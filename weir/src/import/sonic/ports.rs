//! Ports: speed, cable, MTU, state.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::classes::Classes;
use super::port::Port;
use super::report::ImportOutcome;
use super::tables::{ConfigDb, FieldPath, names};

const PORT: &str = "PORT";
const CABLE: &str = "CABLE_LENGTH";
/// Values of SONiC's port manager (portmgr.h) for ports without `mtu` and `admin_status`.
const DEFAULT_MTU: u64 = 9_100;
const DEFAULT_STATUS: &str = "down";
/// Propagation delay of a metre of cable.
const NANOSECONDS_PER_METRE: f64 = 5.0;

/// Returns the wanted ports, each `NAME` or `NAME=KIND:DEVICE`; an empty list means every port.
pub(super) fn ports(tables: &ConfigDb, wanted: &[String]) -> Result<Vec<Port>, String> {
    let mut known = tables.keys(PORT);
    if known.is_empty() {
        // buffers.json alone has no port table, so the ports are those with a cable length.
        let fields = tables.keys(CABLE).into_iter().flat_map(|key| tables.fields(CABLE, &key).into_keys());
        known = fields.flat_map(|field| names(&field)).collect();
        known.sort_by_key(|port| {
            port.chars().filter(char::is_ascii_digit).collect::<String>().parse::<u64>().unwrap_or(0)
        });
    }
    if known.is_empty() {
        return Err(
            "the files name no ports: PORT, or CABLE_LENGTH, is missing; add config_db.json or port_config's PORT"
                .to_owned(),
        );
    }
    let mut chosen: Vec<(String, Option<String>)> = Vec::new();
    for text in wanted {
        let (name, device) = text.split_once('=').map_or((text.as_str(), None), |(name, device)| (name, Some(device)));
        if !known.iter().any(|port| port == name) {
            let first = known.iter().take(4).cloned().collect::<Vec<_>>().join(", ");
            return Err(format!(
                "--port {text}: there is no port {name} in the files; there are {first}, ... ({} ports)",
                known.len()
            ));
        }
        chosen.push((name.to_owned(), device.map(str::to_owned)));
    }
    if wanted.is_empty() {
        chosen = known.iter().map(|port| (port.clone(), None)).collect();
    }
    if !(2..=64).contains(&chosen.len()) {
        return Err(format!(
            "a switch has 2 to 64 ports, and these are {}: choose with --port A,B,C, or with --port once for each",
            chosen.len()
        ));
    }
    chosen.into_iter().map(|(sonic_name, device)| port(tables, sonic_name, device)).collect()
}

/// Largest MTU of the ports.
pub(super) fn mtu(tables: &ConfigDb, ports: &[Port]) -> Result<u64, String> {
    let of = |port: &Port| tables.number::<u64>(PORT, &port.sonic_name, "mtu");
    ports.iter().try_fold(0, |mtu, port| Ok(of(port)?.unwrap_or(DEFAULT_MTU).max(mtu)))
}

fn port(tables: &ConfigDb, sonic_name: String, device: Option<String>) -> Result<Port, String> {
    let cables = tables.keys(CABLE).into_iter().flat_map(|key| tables.fields(CABLE, &key));
    let cable = cables.into_iter().find_map(|(field, cable)| names(&field).contains(&sonic_name).then_some(cable));
    let metres = match &cable {
        None => 0.0,
        Some(text) => {
            text.strip_suffix('m').and_then(|metres| metres.parse().ok()).filter(|m: &f64| *m >= 0.0).ok_or_else(
                || {
                    format!(
                        "{}: {CABLE}: {sonic_name} = \"{text}\" is no length; write one such as \"40m\"",
                        tables.file_of(CABLE)
                    )
                },
            )?
        }
    };
    let plain = |letter: char| if letter.is_ascii_alphanumeric() || "_.-".contains(letter) { letter } else { '-' };
    let name: String = sonic_name.chars().map(plain).collect();
    let device = match device.as_deref().map(|device| device.split_once(':').unwrap_or((device, ""))) {
        None => format!("af_packet = \"{name}\""),
        Some(("null", _)) => "null = {}".to_owned(),
        Some((kind @ ("af_packet" | "af_xdp" | "tap" | "pci" | "vhost_user" | "ring"), what)) if !what.is_empty() => {
            format!("{kind} = {what:?}")
        }
        Some((kind, _)) => {
            let help = "write PORT=af_packet:IFACE, or one of af_xdp, tap, pci, vhost_user, ring, null";
            return Err(format!("--port {sonic_name}={kind}: this is no device; {help}"));
        }
    };
    let speed = tables.number::<u64>(PORT, &sonic_name, "speed")?;
    // The port's state is unknown without a PORT table, as with buffers.json alone.
    let status = tables.field(PORT, &sonic_name, "admin_status");
    let is_down = !tables.keys(PORT).is_empty() && status.unwrap_or(DEFAULT_STATUS) == "down";
    Ok(Port { name, speed, cable, metres, vlan: None, tagged: Vec::new(), is_down, device, sonic_name })
}

/// Reports the ports' values.
pub(super) fn account(tables: &mut ConfigDb, ports: &[Port], mtu: u64, obey: Option<&'static str>) {
    let has_table = !tables.keys(PORT).is_empty();
    for port in ports {
        let key = port.sonic_name.clone();
        tables.account(ImportOutcome::Taken, FieldPath::new(PORT, &key, "speed"), "rate");
        let own = tables.field(PORT, &key, "mtu").map_or(DEFAULT_MTU.to_string(), str::to_owned);
        let is_default = tables.field(PORT, &key, "mtu").is_none();
        let outcome = if own == mtu.to_string() { ImportOutcome::Taken } else { ImportOutcome::Approximated };
        let by_default = if is_default { format!("SONiC's default {DEFAULT_MTU}: ") } else { String::new() };
        let detail = format!("{by_default}switch.mtu = {mtu}, for all ports");
        tables.account_absent(outcome, FieldPath::new(PORT, &key, "mtu"), detail);
        let state = if port.is_down { "state = \"down\"" } else { "open" };
        let (outcome, detail) = match (tables.field(PORT, &key, "admin_status"), has_table) {
            (Some(_), _) => (ImportOutcome::Taken, state.to_owned()),
            (None, true) => (ImportOutcome::Taken, format!("SONiC's default {DEFAULT_STATUS}: {state}")),
            (None, false) => (ImportOutcome::Approximated, "open: the files have no PORT".to_owned()),
        };
        tables.account_absent(outcome, FieldPath::new(PORT, &key, "admin_status"), detail);
        let is_asymmetric = tables.field(PORT, &key, "pfc_asym") == Some("on");
        let (outcome, detail) = match (is_asymmetric, obey) {
            (true, Some(_)) => (ImportOutcome::Taken, "pfc.obey = \"all\": PFC pauses lossy classes too"),
            (false, None) => (ImportOutcome::Taken, "PFC pauses lossless classes alone"),
            (true, None) => (
                ImportOutcome::Refused,
                "pfc.obey is for the whole switch, and most ports have PFC that is not asymmetric",
            ),
            (false, Some(_)) => {
                (ImportOutcome::Approximated, "pfc.obey = \"all\" at all ports, as most have asymmetric PFC")
            }
        };
        tables.account(outcome, FieldPath::new(PORT, &key, "pfc_asym"), detail);
        for field in ["lanes", "alias", "index", "description", "fec", "autoneg", "tpid"] {
            tables.account(
                ImportOutcome::Refused,
                FieldPath::new(PORT, &key, field),
                "the device's business, or a name",
            );
        }
    }
    tables.account_rest(ImportOutcome::Refused, PORT, "the port is not imported, or the field is unknown");
    for key in tables.keys(CABLE) {
        for field in tables.fields(CABLE, &key).into_keys() {
            match ports.iter().find(|port| names(&field).contains(&port.sonic_name)) {
                None => tables.account(
                    ImportOutcome::Refused,
                    FieldPath::new(CABLE, &key, &field),
                    "the port is not imported",
                ),
                Some(port) if port.metres == 0.0 => {
                    let detail = "no delay; SONiC makes no lossless group by the lookup table for such a port";
                    tables.account(ImportOutcome::Approximated, FieldPath::new(CABLE, &key, &field), detail);
                }
                Some(port) => {
                    let detail = format!("delay = \"{}\", 5 ns a metre", delay(port.metres));
                    tables.account(ImportOutcome::Taken, FieldPath::new(CABLE, &key, &field), detail);
                }
            }
        }
    }
}

/// `[[ports]]`.
pub(super) fn text(ports: &[Port], classes: &Classes, headroom_of_port: &BTreeMap<String, u64>) -> String {
    let mut text = String::new();
    for port in ports {
        let _ = writeln!(text, "\n[[ports]]\nname = \"{}\"\n{}", port.name, port.device);
        if let Some(speed) = port.speed {
            let _ = writeln!(text, "rate = \"{speed}Mbps\"");
        }
        let _ = writeln!(text, "delay = \"{}\"", delay(port.metres));
        if let Some(headroom) = headroom_of_port.get(&port.sonic_name) {
            let _ = writeln!(text, "headroom = \"{headroom}B\"");
        }
        if !classes.lossless.is_empty() && classes.of_port.get(&port.sonic_name).is_none_or(Vec::is_empty) {
            text += "flow_control = \"none\"\n";
        }
        text += classes.maps.port_keys(&port.sonic_name);
        if let Some(vlan) = port.vlan {
            let _ = writeln!(text, "vlan = {vlan}");
        }
        if !port.tagged.is_empty() {
            let _ = writeln!(text, "tagged = {:?}", port.tagged);
        }
        if !classes.is_watched(&port.sonic_name) {
            text += "pfc_watchdog = false\n";
        }
        if port.is_down {
            text += "state = \"down\"\n";
        }
    }
    text
}

/// `[pfc]`, where most ports have asymmetric PFC.
pub(super) fn obey(tables: &ConfigDb, ports: &[Port]) -> Option<&'static str> {
    let asymmetric = ports.iter().filter(|port| tables.field(PORT, &port.sonic_name, "pfc_asym") == Some("on")).count();
    (2 * asymmetric > ports.len()).then_some("\n[pfc]\nobey = \"all\"\n")
}

fn delay(metres: f64) -> String {
    format!("{}ns", (metres * NANOSECONDS_PER_METRE).round() as u64)
}
