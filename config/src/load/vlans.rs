//! VLANs of ports: `vlan` and `tagged`.

use weir_reader::{Doc, Problem, Table};

use crate::keys::port as keys;
use crate::{PortConfig, SwitchConfig};

/// VLAN of a port without VLAN keys, in a switch with VLANs (802.1Q, table 9-2).
const DEFAULT: u16 = 1;

/// Reads the VLANs of which a port is a tagged member.
pub(super) fn tagged(port: &Table<'_>) -> Vec<u16> {
    let key = keys::TAGGED.name;
    let vlans: Vec<u16> =
        port.integers(key, 1..=4_094).unwrap_or_default().into_iter().map(|vlan| vlan as u16).collect();
    let path = |index: usize| port.key_path(&format!("{key}[{index}]"));
    for (index, vlan) in vlans.iter().enumerate() {
        if let Some(first) = vlans[..index].iter().position(|other| other == vlan) {
            let problem = Problem::new(format!("VLAN {vlan} is given twice in `{key}`"), "name each VLAN once");
            port.doc().note(problem.with_label(path(index), "again").with_label(path(first), "first here"));
        }
        if port.given(&keys::VLAN) == Some(*vlan) {
            let message = format!("VLAN {vlan} would leave the port both with and without a tag");
            let problem = Problem::new(message, format!("take {vlan} out of `{key}`, or `vlan` out"));
            let untagged = port.key_path(keys::VLAN.name);
            port.doc().note(problem.with_label(path(index), "with a tag").with_label(untagged, "without"));
        }
    }
    if vlans.is_empty() && port.has(key) && port.doc().sound(&[&port.key_path(key)]) {
        port.refuse(key, "the port is a tagged member of no VLAN", format!("write {key} = [10, 20], or take it out"));
    }
    vlans
}

/// Puts ports without VLAN keys into the default VLAN, if other ports have such keys.
pub(super) fn resolve(ports: &mut [PortConfig]) {
    let has_none = |port: &PortConfig| port.vlan.is_none() && port.tagged.is_empty();
    if !ports.iter().all(has_none) {
        ports.iter_mut().filter(|port| has_none(port)).for_each(|port| port.vlan = Some(DEFAULT));
    }
}

/// Path of the first key of VLANs.
fn first_key(doc: &Doc, config: &SwitchConfig) -> Option<String> {
    let key = |port: usize| [keys::VLAN.name, keys::TAGGED.name].map(|key| format!("ports[{port}].{key}"));
    (0..config.ports.len()).flat_map(key).find(|key| doc.has(key))
}

/// Refuses VLANs in a scenario: emulated hosts and frames in virtual time have no tags.
pub(super) fn refuse(doc: &Doc, config: &SwitchConfig) {
    if let Some(first) = first_key(doc, config) {
        let problem =
            Problem::new("scenarios have no VLANs; `weir run` has", "take `vlan` and `tagged` out of all ports");
        doc.note(problem.with_label(first, ""));
    }
}

/// Checks the number of VLANs, and that no thresholds are computed for frames that a tag lengthens.
pub(super) fn check(doc: &Doc, config: &SwitchConfig) {
    let vlans = config.vlan_members().len();
    let Some(first) = first_key(doc, config) else { return };
    if vlans > SwitchConfig::VLANS_MAX {
        let message = format!("the switch has {vlans} VLANs, and at most {} are possible", SwitchConfig::VLANS_MAX);
        doc.note(Problem::new(message, "use fewer VLANs").with_label(&first, "the first VLAN"));
    }
    for (index, port) in config.ports.iter().enumerate() {
        if port.clone_of().is_none() && !port.flow_control.message_kind().is_switchable() {
            let kind = port.flow_control.label();
            let message =
                format!("{kind} and VLANs exclude each other: a new tag lengthens frames beyond what {kind} counts");
            let key = format!("ports[{index}].flow_control");
            let problem = Problem::new(message, "write flow_control = \"pfc\", or take `vlan` and `tagged` out");
            doc.note(problem.with_label(key, "").with_label(&first, "the first VLAN"));
        }
    }
}
