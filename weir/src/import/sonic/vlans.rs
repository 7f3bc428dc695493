//! VLANs: VLAN and VLAN_MEMBER.

use std::collections::BTreeSet;

use weir_config::SwitchConfig;

use super::port::Port;
use super::report::ImportOutcome;
use super::tables::{ConfigDb, FieldPath};

const VLAN: &str = "VLAN";
const MEMBER: &str = "VLAN_MEMBER";
const MODE: &str = "tagging_mode";

/// Reads the VLANs of ports. Without members the switch has no VLANs.
///
/// # Errors
/// Members that the switch can't have.
pub(super) fn read(tables: &mut ConfigDb, ports: &mut [Port]) -> Result<(), String> {
    for key in tables.keys(VLAN) {
        let (id, place) = (number(&key), tables.place(VLAN, &key));
        let Some(id) = id else { return Err(format!("{place}: this is no VLAN; write one of Vlan1 to Vlan4094")) };
        if tables.field(VLAN, &key, "vlanid").is_some_and(|other| other.parse() != Ok(id)) {
            return Err(format!("{place}: vlanid is of another VLAN; write \"{id}\""));
        }
        tables.account(ImportOutcome::Taken, FieldPath::new(VLAN, &key, "vlanid"), "the VLAN of its members");
        tables.account(ImportOutcome::Taken, FieldPath::new(VLAN, &key, "members"), "those of VLAN_MEMBER");
    }
    for key in tables.keys(MEMBER) {
        join_vlan(tables, ports, &key)?;
    }
    let vlans: BTreeSet<u16> = ports.iter().flat_map(|port| port.vlan.iter().chain(&port.tagged)).copied().collect();
    // A free number: routed ports stay out of the VLANs, and together.
    let free = (1..).find(|vlan| !vlans.contains(vlan)).expect("at most 4,094 VLANs");
    let is_routed = |port: &Port| port.vlan.is_none() && port.tagged.is_empty();
    let routed = ports.iter().filter(|port| is_routed(port)).count();
    if vlans.len() + usize::from(routed > 0) > SwitchConfig::VLANS_MAX {
        let (place, most) = (tables.place(MEMBER, ""), SwitchConfig::VLANS_MAX);
        return Err(format!(
            "{place}: the ports are in {} VLANs, and routed ports in one more; a switch has at most {most}: choose fewer ports with --port",
            vlans.len()
        ));
    }
    if vlans.is_empty() {
        return Ok(());
    }
    for port in ports.iter_mut().filter(|port| is_routed(port)) {
        port.vlan = Some(free);
        let detail = format!("vlan = {free}, with all ports of no VLAN: SONiC routes there, and Weir does not");
        let at = FieldPath::new(MEMBER, &port.sonic_name, MODE);
        tables.account_absent(ImportOutcome::Approximated, at, detail);
    }
    Ok(())
}

/// Adds a member, as `Vlan10|Ethernet0`, to its port.
fn join_vlan(tables: &mut ConfigDb, ports: &mut [Port], key: &str) -> Result<(), String> {
    let place = tables.place(MEMBER, key);
    let parts = key.split_once('|').and_then(|(vlan, name)| Some((vlan, number(vlan)?, name)));
    let Some((vlan_key, vlan, name)) = parts else {
        return Err(format!("{place}: this is no member of a VLAN; write one such as Vlan10|Ethernet0"));
    };
    let at = FieldPath::new(MEMBER, key, MODE);
    let Some(port) = ports.iter_mut().find(|port| port.sonic_name == name) else {
        let detail =
            if name.starts_with("PortChannel") { "Weir has no port channels" } else { "the port is not imported" };
        tables.account(ImportOutcome::Refused, at, detail);
        return Ok(());
    };
    if !tables.keys(VLAN).iter().any(|known| known == vlan_key) {
        return Err(format!("{place}: there is no {VLAN}|{vlan_key}; add it, with vlanid = \"{vlan}\""));
    }
    let mode = tables.field(MEMBER, key, MODE).unwrap_or_default();
    let outcome = match mode {
        "untagged" => ImportOutcome::Taken,
        // Frames leave without a tag, where SONiC's have one with a priority alone.
        "priority_tagged" => ImportOutcome::Approximated,
        "tagged" => {
            port.tagged.push(vlan);
            tables.account(ImportOutcome::Taken, at, format!("tagged = [{vlan}]"));
            return Ok(());
        }
        _ => return Err(format!("{place}: {MODE} = \"{mode}\" is none that there is; write tagged or untagged")),
    };
    if let Some(other) = port.vlan.replace(vlan) {
        return Err(format!("{place}: {name} is an untagged member of Vlan{other} too; leave one"));
    }
    tables.account(outcome, at, format!("vlan = {vlan}"));
    Ok(())
}

/// Number of `Vlan10`.
fn number(key: &str) -> Option<u16> {
    let id = key.strip_prefix("Vlan")?.parse().ok()?;
    Some(id).filter(|id| (1..=4_094).contains(id) && key == format!("Vlan{id}"))
}
