//! Tables and keys of a switch's file.

use std::sync::LazyLock;

use weir_arbitration::ARBITRATIONS;
use weir_flowctl::FLOW_CONTROLS;
use weir_mmu::policy::{DEFAULT, POLICIES, known_tables};
use weir_reader::KnownTable;

/// All tables and keys of a switch's file, in the order of the reference. Kinds that files select by name add their own keys.
pub(crate) static TABLES: LazyLock<Vec<KnownTable>> = LazyLock::new(|| {
    let buffer: Vec<&'static str> = BUFFER.iter().copied().chain(POLICIES.names()).collect();
    let buffer = KnownTable::table("buffer", buffer.leak()).choosing("policy", DEFAULT);
    let with_kinds = |table: &KnownTable| match table.name {
        "classes.queues" => table.with_keys_of(ARBITRATIONS.all()),
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

const BEFORE_BUFFER: &[KnownTable] = &[
    KnownTable::table(
        "",
        &["switch", "lcores", "control", "buffer", "classes", "pfc", "pfc_watchdog", "ports", "static_macs"],
    ),
    KnownTable::table("switch", &["name", "idle", "time_dilation", "mtu", "mac_ageing", "stats_interval", "telemetry"]),
    KnownTable::table("lcores", &["layout", "cores", "catch_up"]),
    KnownTable::table("control", &["socket", "mode", "group"]),
];

const AFTER_BUFFER: &[KnownTable] = &[
    KnownTable::table("classes", &["preset", "lossless", "trust", "scheduler", "dscp", "pcp", "queues"]),
    // The keys of these two tables are code points.
    KnownTable::table("classes.dscp", &[]),
    KnownTable::table("classes.pcp", &[]),
    KnownTable::array("classes.queues", &["class", "strict", "quantum", "weight", "rate", "ecn", "arbitration"]),
    KnownTable::inline(
        "classes.queues.ecn",
        "`ecn` of [[classes.queues]]",
        &["kmin", "kmax", "pmax", "at_rate", "mark_on"],
    ),
    KnownTable::table("pfc", &["quanta", "refresh_percent", "reaction", "obey"]),
    KnownTable::table("pfc_watchdog", &["action", "detection_time", "restoration_time", "poll_interval", "condition"]),
    KnownTable::array(
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
    KnownTable::inline("ports.pci", "`pci` of [[ports]]", &["address", "devargs"]),
    KnownTable::inline("ports.device_flow_control", "`device_flow_control` of [[ports]]", &["require", "sends"]),
    KnownTable::inline(
        "ports.vhost_user",
        "`vhost_user` of [[ports]]",
        &["socket", "client", "queues", "mode", "group"],
    ),
    KnownTable::inline("ports.memif", "`memif` of [[ports]]", &["socket", "id", "role", "mode", "group"]),
    KnownTable::inline("ports.pcap", "`pcap` of [[ports]]", &["rx", "tx", "infinite"]),
    KnownTable::inline(
        "ports.replay",
        "`replay` of [[ports]]",
        &["file", "speed", "send_rate", "loops", "after", "when_paused", "direction", "mac_control", "core"],
    ),
    KnownTable::inline("ports.null", "`null` of [[ports]]", &["frame_bytes"]),
    KnownTable::inline(
        "ports.nic",
        "`nic` of [[ports]]",
        &["send_buffer", "receive_buffer", "xoff", "xon", "receive_rate", "obeys", "pauses", "core"],
    ),
    KnownTable::table("ports.flow_control", &["kind"]),
    KnownTable::array("static_macs", &["mac", "port"]),
    KnownTable::array("buffer.rates", RATE_KEYS),
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
    use weir_reader::{Known, nearest};

    use super::*;

    fn keys_of(table: &str) -> &'static [&'static str] {
        Known(&TABLES).keys_of(table)
    }

    fn suggestion(table: &str, key: &str, policy: Option<&str>) -> String {
        Known(&TABLES).suggestion(table, key, policy)
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
