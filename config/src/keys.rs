//! Tables and keys of a switch's file.

use std::sync::LazyLock;

use weir_arbitration::ARBITERS;
use weir_flowctl::FLOW_CONTROLS;
use weir_mmu::policy::{BUFFER_POLICIES, DEFAULT, known_tables};
use weir_reader::TableSchema;

/// All tables and keys of a switch's file, in the order of the reference. Kinds that files select by name add their own keys.
pub(crate) static TABLES: LazyLock<Vec<TableSchema>> = LazyLock::new(|| {
    let buffer: Vec<&'static str> = BUFFER.iter().copied().chain(BUFFER_POLICIES.names()).collect();
    let buffer = TableSchema::table("buffer", buffer.leak()).selected_by("policy", DEFAULT);
    let with_kinds = |table: &TableSchema| match table.name {
        "classes.queues" => table.with_keys_of(ARBITERS.all()),
        "ports.flow_control" => table.with_keys_of(FLOW_CONTROLS.all()),
        _ => *table,
    };
    let after = AFTER_BUFFER.iter().map(with_kinds);
    BEFORE_BUFFER.iter().copied().chain([buffer]).chain(known_tables()).chain(after).collect()
});

pub(crate) const RATE_KEYS: &[&str] = &["rate", "private", "headroom", "alpha"];

/// Keys of `[buffer]`, without the policies' tables.
const BUFFER: &[&str] = &[
    "size",
    "cell_bytes",
    "mean_frame",
    "private",
    "headroom",
    "xon_offset",
    "xon_floor",
    "policy",
    "lossy_alpha",
    "rates",
];

const BEFORE_BUFFER: &[TableSchema] = &[
    TableSchema::table(
        "",
        &["switch", "lcores", "control", "buffer", "classes", "pfc", "pfc_watchdog", "ports", "static_macs"],
    ),
    TableSchema::table(
        "switch",
        &["name", "idle", "time_dilation", "mtu", "mac_ageing", "stats_interval", "telemetry"],
    ),
    TableSchema::table("lcores", &["layout", "cores", "catch_up"]),
    TableSchema::table("control", &["socket", "mode", "group"]),
];

const AFTER_BUFFER: &[TableSchema] = &[
    TableSchema::table("classes", &["preset", "lossless", "trust", "scheduler", "dscp", "pcp", "queues"]),
    // The keys of these two tables are code points.
    TableSchema::table("classes.dscp", &[]),
    TableSchema::table("classes.pcp", &[]),
    TableSchema::array("classes.queues", &["class", "strict", "quantum", "weight", "rate", "ecn", "arbitration"]),
    TableSchema::inline(
        "classes.queues.ecn",
        "`ecn` of [[classes.queues]]",
        &["kmin", "kmax", "pmax", "at_rate", "mark_on"],
    ),
    TableSchema::table("pfc", &["quanta", "refresh_percent", "reaction", "obey"]),
    TableSchema::table("pfc_watchdog", &["action", "detection_time", "restoration_time", "poll_interval", "condition"]),
    TableSchema::array(
        "ports",
        &[
            "name",
            "pci",
            "af_packet",
            "af_xdp",
            "tap",
            "vhost_user",
            "memif",
            "ring",
            "pcap",
            "replay",
            "null",
            "clone_of",
            "rate",
            "delay",
            "headroom",
            "private",
            "alpha",
            "mac",
            "flow_control",
            "device_flow_control",
            "rx_descriptors",
            "nic",
            "priority",
            "state",
        ],
    ),
    TableSchema::inline("ports.pci", "`pci` of [[ports]]", &["address", "devargs"]),
    TableSchema::inline("ports.device_flow_control", "`device_flow_control` of [[ports]]", &["require", "sends"]),
    TableSchema::inline(
        "ports.vhost_user",
        "`vhost_user` of [[ports]]",
        &["socket", "client", "queues", "mode", "group"],
    ),
    TableSchema::inline("ports.memif", "`memif` of [[ports]]", &["socket", "id", "role", "mode", "group"]),
    TableSchema::inline("ports.pcap", "`pcap` of [[ports]]", &["rx", "tx", "infinite"]),
    TableSchema::inline(
        "ports.replay",
        "`replay` of [[ports]]",
        &["file", "speed", "send_rate", "loops", "after", "when_paused", "direction", "mac_control", "core"],
    ),
    TableSchema::inline("ports.null", "`null` of [[ports]]", &["frame_bytes"]),
    TableSchema::inline(
        "ports.nic",
        "`nic` of [[ports]]",
        &["send_buffer", "receive_buffer", "xoff", "xon", "receive_rate", "rx_pause", "tx_pause", "core"],
    )
    .with_renamed(&[("obeys", "rx_pause"), ("pauses", "tx_pause")]),
    TableSchema::table("ports.flow_control", &["kind"]),
    TableSchema::array("static_macs", &["mac", "port"]),
    TableSchema::array("buffer.rates", RATE_KEYS),
];

/// Keys of `[[ports]]` that name a device; a port has exactly one of them.
pub(crate) const DEVICE_KEYS: &[&str] =
    &["pci", "af_packet", "af_xdp", "tap", "vhost_user", "memif", "ring", "pcap", "replay", "null", "clone_of"];

/// Returns every table of a switch's file with its keys, in the order of the reference; the top level has an empty name.
pub fn known_keys() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    TABLES.iter().map(|table| (table.name, table.keys))
}

#[cfg(test)]
mod tests {
    use weir_reader::{Schema, nearest};

    use super::*;

    fn keys_of(table: &str) -> &'static [&'static str] {
        Schema(&TABLES).keys_of(table)
    }

    fn suggestion(table: &str, key: &str, policy: Option<&str>) -> String {
        Schema(&TABLES).suggestion(table, key, policy)
    }

    #[test]
    fn slips_find_their_key() {
        assert_eq!(nearest("polcy", keys_of("buffer")), Some("policy"));
        assert_eq!(nearest("xon-offset", keys_of("buffer")), Some("xon_offset"));
        assert_eq!(nearest("alfa", keys_of("buffer.dt")), Some("alpha"));
        assert_eq!(nearest("Rate", keys_of("ports")), Some("rate"));
        assert_eq!(nearest("quantum", keys_of("ports")), None);
    }

    #[test]
    fn a_key_of_another_table_is_sent_home() {
        let home = |table, key| suggestion(table, key, None);
        assert_eq!(home("buffer", "threshold"), "`threshold` belongs in [buffer.static]; or take it out");
        assert_eq!(home("switch", "rate"), "`rate` belongs in a table such as [[classes.queues]]; or take it out");
        assert_eq!(home("buffer.dt", "gamma"), "`gamma` belongs in [buffer.reverie]; or take it out");
        // As near to `tau` as `tap` is.
        assert_eq!(home("ports", "tau"), "`tau` belongs in [ports.flow_control]; or take it out");
    }

    #[test]
    fn of_several_homes_the_chosen_policys_is_meant() {
        let home = |table, key, policy| suggestion(table, key, Some(policy));
        assert_eq!(home("buffer", "alpha", "spfc"), "`alpha` belongs in [buffer.spfc]; or take it out");
        assert_eq!(home("buffer", "alpha", "static"), "`alpha` belongs in a table such as [buffer.dt]; or take it out");
        assert_eq!(
            home("buffer", "congested", "dt"),
            "`congested` belongs in [buffer.abm] or [buffer.reverie]; or take it out"
        );
    }
}
