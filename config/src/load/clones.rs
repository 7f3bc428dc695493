//! Clones: ports that copy another port's ingress.

use weir_reader::{Problem, Table};

use crate::{Device, PortConfig};

/// Keys that a clone inherits from its port and can't override.
const INHERITED: &[&str] = &[
    "rate",
    "delay",
    "headroom",
    "private",
    "alpha",
    "peer",
    "mac",
    "flow_control",
    "trust",
    "dscp",
    "pcp",
    "tc_to_pg",
    "tc_to_queue",
    "vlan",
    "tagged",
    "state",
    "stations_max",
];

/// Sets each clone's inherited values. `tables` are the tables of the ports.
pub(super) fn resolve(tables: &[Table<'_>], ports: &mut [PortConfig]) {
    for (index, table) in tables.iter().enumerate() {
        let Device::CloneOf(name) = &ports[index].device else { continue };
        for key in INHERITED.iter().copied().filter(|key| table.has(key)) {
            let help = format!("take `{key}` out; what port \"{name}\" has counts");
            let problem = Problem::new(format!("a clone has its port's `{key}`"), help);
            table.doc().note(
                problem.with_key_label(table.key_path(key), "").with_label(table.key_path("clone_of"), "its port"),
            );
        }
        let wrong = match ports.iter().position(|port| port.name == *name) {
            None => format!("no port is named \"{name}\""),
            Some(real) if real == index => "a port can't be a clone of itself".to_owned(),
            Some(real) => match ports[real].clone_of() {
                Some(other) => format!("port \"{name}\" is itself a clone, of \"{other}\""),
                None => {
                    inherit(table, ports, index, real);
                    continue;
                }
            },
        };
        let help = match real_names(ports) {
            names if names.is_empty() => "write the name of a port that has a device".to_owned(),
            names => format!("write one of: {names}"),
        };
        table.refuse("clone_of", wrong, help);
    }
}

fn inherit(table: &Table<'_>, ports: &mut [PortConfig], clone: usize, real: usize) {
    let PortConfig { rate, delay, headroom, private, alpha, peer, vlan, priority, state, .. } = ports[real];
    let (flow_control, tagged) = (ports[real].flow_control.clone(), ports[real].tagged.clone());
    let class_map = ports[real].class_map.clone();
    let clone = &mut ports[clone];
    clone.rate = rate;
    clone.delay = delay;
    (clone.headroom, clone.private, clone.alpha) = (headroom, private, alpha);
    clone.peer = peer;
    clone.flow_control = flow_control;
    clone.class_map = class_map;
    (clone.vlan, clone.tagged) = (vlan, tagged);
    clone.state = state;
    if !table.has("priority") {
        clone.priority = priority;
    }
}

pub(super) fn real_names(ports: &[PortConfig]) -> String {
    let real = ports.iter().filter(|port| port.clone_of().is_none() && !port.name.is_empty());
    real.map(|port| port.name.as_str()).collect::<Vec<_>>().join(", ")
}
