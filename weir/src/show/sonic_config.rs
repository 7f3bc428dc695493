//! SONiC's tables of configuration, from a running switch's.

use std::fmt::Write;

use weir_config::{ClassMap, PortConfig, StormCondition, SwitchConfig, names_port};
use weir_experiments::table::Table;
use weir_units::Span;

use super::tables::NOT_KNOWN;

type Wanted = [String];

fn ports<'c>(config: &'c SwitchConfig, wanted: &'c Wanted) -> impl Iterator<Item = &'c PortConfig> {
    config.ports.iter().filter(move |port| is_wanted(port, wanted))
}

fn is_wanted(port: &PortConfig, wanted: &Wanted) -> bool {
    wanted.is_empty() || wanted.iter().any(|of| names_port(of, &port.name))
}

fn has_pfc(port: &PortConfig) -> bool {
    port.flow_control.message_kind().has_pfc()
}

/// `show pfc priority`.
pub(super) fn pfc_priority(config: &SwitchConfig, wanted: &Wanted) -> String {
    let mut table = Table::new(["Interface", "Lossless priorities"]).with_text_last();
    let lossless: Vec<String> = config.classes.lossless.iter().map(|class| class.index().to_string()).collect();
    for port in ports(config, wanted) {
        table.row([port.name.clone(), if has_pfc(port) { lossless.join(",") } else { NOT_KNOWN.to_owned() }]);
    }
    table.to_string()
}

/// `show pfc asymmetric`.
pub(super) fn pfc_asymmetric(config: &SwitchConfig, wanted: &Wanted) -> String {
    let mut table = Table::new(["Interface", "Asymmetric"]).with_text_last();
    let state = if config.pfc.obeys_for_lossy { "on" } else { "off" };
    ports(config, wanted).for_each(|port| table.row([port.name.as_str(), state]));
    table.to_string()
}

/// `show pfcwd config`; times in milliseconds.
pub(super) fn watchdog(config: &SwitchConfig, wanted: &Wanted) -> String {
    let mut table = Table::new(["PORT", "ACTION", "DETECTION TIME", "RESTORATION TIME", "HISTORY"]);
    let Some(watchdog) = &config.pfc_watchdog else { return table.to_string() };
    let milliseconds = |time: Span| (time.as_picos() as f64 / 1e9).to_string();
    for port in ports(config, wanted).filter(|port| has_pfc(port) && port.pfc_watchdog) {
        let [detection, restoration] = [watchdog.detection_time, watchdog.restoration_time].map(milliseconds);
        table.row([&port.name, watchdog.action.name(), &detection, &restoration, "disable"]);
    }
    let condition = match watchdog.condition {
        StormCondition::PfcReceived => "",
        StormCondition::QueueStalled => ", condition queue-stalled",
    };
    format!("Changed polling interval to {}ms{condition}\n{table}", milliseconds(watchdog.poll_interval))
}

/// `show ecn`: a profile for each class that marks.
pub(super) fn ecn(config: &SwitchConfig) -> String {
    let mut text = String::new();
    for (class, queue) in config.classes.queues.iter().enumerate() {
        let Some(ecn) = &queue.ecn else { continue };
        let percent = f64::from(ecn.pmax_ppm) / 1e4;
        let fields = [
            ("ecn", "ecn_all".to_owned()),
            ("green_min_threshold", ecn.kmin.get().to_string()),
            ("green_max_threshold", ecn.kmax.get().to_string()),
            ("green_drop_probability", percent.to_string()),
        ];
        let line = format!("{}  {}\n", "-".repeat(22), "-".repeat(7));
        let _ = write!(text, "Profile: queue{class}\n{line}");
        fields.iter().for_each(|(name, value)| text += &format!("{name:<22}  {value}\n"));
        text += &format!("{line}\n");
    }
    text
}

/// `show qos map dscp-tc`.
pub(super) fn dscp_map(config: &SwitchConfig) -> String {
    class_map(config, "DSCP", "TC", |map| &map.dscp)
}

/// `show qos map dot1p-tc`.
pub(super) fn pcp_map(config: &SwitchConfig) -> String {
    class_map(config, "DOT1P", "TC", |map| &map.pcp)
}

/// `show qos map tc-queue`.
pub(super) fn queue_map(config: &SwitchConfig) -> String {
    class_map(config, "TC", "QUEUE", |map| &map.queue)
}

/// `show qos map tc-pg`.
pub(super) fn group_map(config: &SwitchConfig) -> String {
    class_map(config, "TC", "PG", |map| &map.group)
}

/// `show qos map pfc-queue`: the queue of each priority has its number.
pub(super) fn pfc_map(_: &SwitchConfig) -> String {
    map("PFC", "QUEUE", &ClassMap::IDENTITY)
}

/// `show vlan brief`: a row for each member. Weir routes nothing: a VLAN has no address.
pub(super) fn vlans(config: &SwitchConfig, wanted: &[String]) -> String {
    let mut table = Table::new(["VLAN ID", "IP Address", "Ports", "Port Tagging", "Proxy ARP"]).with_text_last();
    for members in config.vlan_members() {
        let mut id = members.vlan.to_string();
        for (index, port) in config.ports.iter().enumerate() {
            let tagging = match () {
                () if members.tagged.contains(&index) => "tagged",
                () if members.untagged.contains(&index) => "untagged",
                () => continue,
            };
            if port.clone_of().is_none() && is_wanted(port, wanted) {
                let proxy = if id.is_empty() { "" } else { "disabled" };
                table.row([&id, "", &port.name, tagging, proxy]);
                id.clear();
            }
        }
    }
    table.to_string()
}

/// `show interfaces switchport status`.
pub(super) fn vlan_mode_table(config: &SwitchConfig, wanted: &Wanted) -> String {
    let mut table = Table::new(["Interface", "Mode"]);
    ports(config, wanted).for_each(|port| table.row([port.name.as_str(), vlan_mode(port)]));
    table.to_string()
}

/// `show interfaces switchport config`.
pub(super) fn vlan_ports(config: &SwitchConfig, wanted: &Wanted) -> String {
    let mut table = Table::new(["Interface", "Mode", "Untagged", "Tagged"]);
    for port in ports(config, wanted) {
        let tagged: Vec<String> = port.tagged.iter().map(u16::to_string).collect();
        let untagged = port.vlan.map_or(String::new(), |vlan| vlan.to_string());
        table.row([&port.name, vlan_mode(port), &untagged, &tagged.join(",")]);
    }
    table.to_string()
}

/// Weir routes nothing: ports without VLANs bridge frames without tags.
fn vlan_mode(port: &PortConfig) -> &'static str {
    if port.tagged.is_empty() { "access" } else { "trunk" }
}

/// Formats the map of all ports, or each map with its ports.
fn class_map(config: &SwitchConfig, from: &str, to: &str, classes: fn(&ClassMap) -> &[u8]) -> String {
    let mut maps: Vec<(&[u8], Vec<&str>)> = Vec::new();
    for (index, port) in config.ports.iter().enumerate() {
        let of_port = classes(config.class_map(index));
        match maps.iter_mut().find(|(map, _)| *map == of_port) {
            Some((_, ports)) => ports.push(&port.name),
            None => maps.push((of_port, vec![&port.name])),
        }
    }
    if let [(only, _)] = maps[..] {
        return map(from, to, only);
    }
    let text =
        |(of_ports, ports): &(&[u8], Vec<&str>)| format!("Ports: {}\n{}", ports.join(", "), map(from, to, of_ports));
    maps.iter().map(text).collect::<Vec<_>>().join("\n")
}

fn map(from: &str, to: &str, classes: &[u8]) -> String {
    let mut table = Table::new([from, to]);
    classes.iter().enumerate().for_each(|(point, class)| table.row([point.to_string(), class.to_string()]));
    table.to_string()
}
