//! Keys of a switch's file that may change at run time, and reasons for the others.

use weir_flowctl::{FlowControlChoice, MessageKind};
use weir_mmu::policy::BUFFER_POLICIES;
use weir_reader::Schema;

use crate::keys::{TABLES, buffer, port};
use crate::{Device, SwitchConfig};

/// Reason why a key can't change at run time, as half a sentence; `None` if it can. `started` is the configuration at start.
///
/// List elements are identified by name: `ports.p0.rate`, `classes.queues.3.weight`, `buffer.rates.25Gbps.headroom`,
/// `static_macs.02:00:00:00:00:01`.
///
/// Keys that no file has are the reader's to reject.
pub fn restart_reason(started: &SwitchConfig, key: &str) -> Option<&'static str> {
    let parts: Vec<&str> = key.split('.').collect();
    match parts[..] {
        ["buffer", policy, key] if BUFFER_POLICIES.find(policy).is_some() => {
            let chosen = &started.buffer.policy;
            if policy != chosen.name() {
                declared("buffer", buffer::POLICY.name)
            } else if chosen.is_live(key) {
                None
            } else {
                Some("the policy's pools, filters, windows and estimates are created at the start")
            }
        }
        ["classes", "queues", _, key, ..] => declared("classes.queues", key),
        ["pfc_watchdog", ..] if started.pfc_watchdog.is_none() => declared("", "pfc_watchdog"),
        ["pfc_watchdog"] => None,
        ["ports", ref rest @ ..] => port_restart_reason(started, &rest.join(".")),
        ["static_macs", ..] => declared("", "static_macs"),
        [table, key, ..] => declared(table, key),
        _ => declared("", key),
    }
}

/// Reason that the key's declaration gives.
fn declared(table: &str, key: &str) -> Option<&'static str> {
    Schema(&TABLES).restart_reason(table, key)
}

/// Port of a key below `ports.`, as an index into `ports`, and the rest of the key: `p0.rate` is `rate` of `p0`. Names may
/// contain dots: the longest match applies.
pub fn port_of_key(key: &str, ports: impl IntoIterator<Item = impl AsRef<str>>) -> Option<(usize, &str)> {
    let rest = |name: &str| key.strip_prefix(name)?.strip_prefix('.');
    let fitting = ports.into_iter().enumerate().filter_map(|(number, name)| Some((number, rest(name.as_ref())?)));
    fitting.min_by_key(|(_, rest)| rest.len())
}

const OF_BOTH_ENDS: &str =
    "both ends of the link share the flow control's state from the link's start, and headroom is sized for it";

/// Reason why a port can't change to this flow control at run time, as half a sentence; `None` if it can: among PFC, PAUSE and
/// none.
pub fn flow_control_restart_reason(
    started: &SwitchConfig,
    port: usize,
    wanted: &FlowControlChoice,
) -> Option<&'static str> {
    let port = &started.ports[port];
    let (was, is) = (port.flow_control.message_kind(), wanted.message_kind());
    if !was.is_switchable() || !is.is_switchable() {
        return Some(OF_BOTH_ENDS);
    }
    if port.nic.is_some() {
        return Some("the NIC in front of the host has one flow control from the start");
    }
    if started.pfc_watchdog.is_some() && port.pfc_watchdog && is == MessageKind::Pause {
        return Some("its queues are watched for storms of PFC from the start");
    }
    let is_nic = matches!(port.device, Device::Pci(_));
    (is_nic && was == MessageKind::Nothing && is != was)
        .then_some("its NIC is checked for sending control frames only at the start, where the port has flow control")
}

fn port_restart_reason(started: &SwitchConfig, key: &str) -> Option<&'static str> {
    let Some((number, own)) = port_of_key(key, started.ports.iter().map(|port| &port.name)) else {
        return Some("ports are opened at the start");
    };
    let message_kind = started.ports[number].flow_control.message_kind();
    let key = own.split('.').next().unwrap_or_default();
    if key == port::RATE.name {
        // Pauses are counted in quanta, which follow C. All else is computed from C at start.
        return match message_kind {
            MessageKind::Nothing | MessageKind::Pfc | MessageKind::Pause => None,
            _ => Some("thresholds and stages of its flow control are computed from the rate at the start"),
        };
    }
    // `flow_control_restart_reason` checks the target.
    if key == port::FLOW_CONTROL.name && !message_kind.is_switchable() {
        return Some(OF_BOTH_ENDS);
    }
    declared("ports", key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(extra: &str) -> SwitchConfig {
        let text = format!(
            "{extra}\n[[ports]]\nname = \"a\"\nring = \"a\"\nrate = \"10Gbps\"\n\
             [[ports]]\nname = \"a.b\"\nring = \"b\"\nrate = \"10Gbps\"\nflow_control = {{ kind = \"cbfc\", buffer = \"100KB\" }}\n"
        );
        crate::parse("test.toml", &text).unwrap()
    }

    #[test]
    fn some_keys_may_change() {
        let config = config("[buffer]\npolicy = \"spfc\"\n[pfc_watchdog]\naction = \"alert\"\n");
        for key in [
            "buffer.spfc.alpha",
            "buffer.spfc.k_spfc",
            "buffer.xon_offset",
            "buffer.xon_floor",
            "buffer.lossy_alpha",
            "classes.queues.3.weight",
            "classes.queues.3.quantum",
            "classes.queues.3.strict",
            "classes.queues.3.rate",
            "classes.queues.3.ecn.kmin",
            "classes.queues.3.ecn",
            "ports.a.rate",
            "ports.a.state",
            "ports.a.b.state",
            "ports.a.stations_max",
            "switch.storm_control",
            "ports.a.flow_control",
            "ports.a.flow_control.kind",
            "static_macs.02:00:00:00:00:01",
            "pfc_watchdog.action",
            "pfc_watchdog.detection_time",
            "switch.stats_interval",
        ] {
            assert_eq!(restart_reason(&config, key), None, "{key}");
        }
    }

    #[test]
    fn the_others_have_a_reason() {
        let config = config("[buffer]\npolicy = \"spfc\"\n");
        for (key, why) in [
            ("buffer.spfc.tc", "windows"),
            ("buffer.dt.alpha", "partition"),
            ("buffer.policy", "partition"),
            ("buffer.size", "cut"),
            ("buffer.rates.400Gbps.headroom", "cut"),
            ("ports.a.b.private", "cut"),
            ("ports.a.b.alpha", "own α"),
            ("classes.queues.3.arbitration", "arbitration"),
            ("classes.lossless", "headroom"),
            ("ports.a.b.flow_control", "both ends"),
            ("ports.a.b.flow_control.kind", "both ends"),
            ("ports.a.b.rate", "stages"),
            ("ports.c.rate", "ports are opened"),
            ("ports.a.af_packet", "devices"),
            ("pfc_watchdog.action", "from the start or not at all"),
            ("pfc.quanta", "flow control"),
            ("lcores.layout", "lcores"),
            ("switch.mtu", "longest frame"),
        ] {
            let reason = restart_reason(&config, key);
            assert!(reason.is_some_and(|reason| reason.contains(why)), "{key}: {reason:?}");
        }
    }

    #[test]
    fn pfc_pause_and_none_are_turned_to_from_each_other() {
        let config = |own: &str, extra: &str| {
            let text = format!(
                "{extra}\n[[ports]]\nname = \"a\"\nrate = \"10Gbps\"\n{own}\n[[ports]]\nname = \"b\"\nring = \"b\"\nrate = \"10Gbps\"\n"
            );
            crate::parse("test.toml", &text).unwrap()
        };
        let ring = |kind: &str| format!("ring = \"a\"\nflow_control = {kind}");
        let spoken = |kind: &str| config(&ring(kind), "").ports[0].flow_control.clone();
        let kinds = ["\"pfc\"", "\"pause\"", "\"none\""];
        for (from, to) in kinds.iter().flat_map(|from| kinds.map(|to| (from, to))) {
            assert_eq!(flow_control_restart_reason(&config(&ring(from), ""), 0, &spoken(to)), None, "{from} to {to}");
        }
        let cbfc = "{ kind = \"cbfc\", buffer = \"100KB\" }";
        for (started, to, why) in [
            (config(&ring("\"pfc\""), ""), cbfc, "both ends"),
            (config(&ring(cbfc), ""), "\"pfc\"", "both ends"),
            (config("af_packet = \"a\"\nnic = {}", ""), "\"none\"", "NIC in front"),
            (config(&ring("\"pfc\""), "[pfc_watchdog]\n"), "\"pause\"", "storms"),
            (config("pci = \"0000:04:00.0\"\nflow_control = \"none\"", ""), "\"pfc\"", "its NIC"),
        ] {
            let reason = flow_control_restart_reason(&started, 0, &spoken(to));
            assert!(reason.is_some_and(|reason| reason.contains(why)), "{to}: {reason:?}");
        }
        let nic = config("pci = \"0000:04:00.0\"", "[pfc_watchdog]\n");
        assert_eq!(flow_control_restart_reason(&nic, 0, &spoken("\"none\"")), None);
    }
}
