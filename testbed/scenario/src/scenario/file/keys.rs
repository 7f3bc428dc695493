//! Tables and keys of a scenario file.

use std::sync::OnceLock;

use weir_nic::host::congestion::NONE;
use weir_reader::{Format, TableSchema};

use super::kinds::kinds;

pub(super) fn format() -> Format {
    Format { what: "a scenario's TOML file", reference: "docs/SCENARIOS.md", repeated: "[[hosts]]", tables: tables() }
}

/// Keys of `[switch]` in a switch's file that a scenario sets; name and clock have other keys.
pub(super) const OF_SWITCH: &[&str] = &["idle", "mtu", "mac_ageing", "stats_interval"];
/// Other tables of a switch's file.
pub(super) const SECTIONS: &[&str] = &["lcores", "buffer", "classes", "pfc", "pfc_watchdog"];
/// Keys of `[[ports]]` for links and hosts.
pub(super) const OF_PORT: &[&str] = &["rate", "delay", "headroom", "private", "alpha", "flow_control", "priority"];
/// Devices at the ends of a real link.
pub(super) const OF_DEVICE: &[&str] = &["pci", "af_packet", "af_xdp", "tap", "vhost_user", "memif", "pcap", "null"];

const SWITCH: &[&str] =
    &["idle", "mtu", "mac_ageing", "stats_interval", "lcores", "buffer", "classes", "pfc", "pfc_watchdog", "port"];

const FAULTS: &[&str] = &[
    "toward",
    "frames",
    "dscp",
    "loss",
    "corruption",
    "duplication",
    "reordering",
    "hold_back",
    "until_next",
    "from",
    "until",
    "seed",
];

/// Keys of `[topology]`; each kind of fabric has some of them.
pub(super) const TOPOLOGY: &[&str] = &[
    "kind",
    "k",
    "switches",
    "pods",
    "tors",
    "leaves",
    "spines",
    "hosts",
    "left",
    "right",
    "parallel",
    "uplinks",
    "rate",
    "delay",
    "host_rate",
    "host_delay",
    "bottleneck_rate",
    "bottleneck_delay",
    "spine_rate",
    "spine_delay",
    "failed",
    "failure_probability",
    "failure_seed",
];

/// Keys of `[[workloads]]`; each kind of workload has some of them.
pub(super) const WORKLOAD: &[&str] = &[
    "name",
    "kind",
    "class",
    "sizes",
    "load",
    "senders",
    "receivers",
    "equal_sizes",
    "fan_in",
    "groups_of",
    "outstanding",
    "every",
    "times",
    "from",
    "until",
    "file",
    "congestion_control",
    "transport",
    "seed",
    "dport",
];

const NIC: &[&str] = &[
    "frames",
    "mtu",
    "ack_class",
    "round_robin",
    "tcp_queueing",
    "ack_every",
    "retransmit",
    "congestion_control",
    "transport",
];

const NIC_RENAMED: &[(&str, &str)] = &[("acks", "ack_class"), ("turns", "round_robin"), ("tcp_frames", "tcp_queueing")];

const FLOW: &[&str] = &[
    "name",
    "from",
    "to",
    "path",
    "class",
    "start",
    "stop",
    "message",
    "every",
    "total",
    "rate",
    "congestion_control",
    "transport",
    "perftest",
    "qps",
    "receive_depth",
    "ack_every",
    "retransmit",
];

/// Returns all tables and keys, in the order of the reference. Kinds of congestion control have tables of their own in `[nic]`, flows and
/// workloads; the kinds are known at run time only.
fn tables() -> &'static [TableSchema] {
    static ALL: OnceLock<Vec<TableSchema>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut all = FIXED.to_vec();
        all.extend(with_kinds("nic", NIC, |name, keys| TableSchema::table(name, keys).with_renamed(NIC_RENAMED)));
        all.extend(with_kinds("flows", FLOW, TableSchema::array));
        all.extend(with_kinds("workloads", WORKLOAD, TableSchema::array));
        all
    })
}

/// Returns a table, and its subtables of all kinds.
fn with_kinds(
    name: &'static str,
    keys: &'static [&'static str],
    make: fn(&'static str, &'static [&'static str]) -> TableSchema,
) -> impl Iterator<Item = TableSchema> {
    let all: Vec<&'static str> = keys.iter().copied().chain(kinds().map(|kind| kind.id())).collect();
    let above = make(name, all.leak()).selected_by("congestion_control", NONE);
    std::iter::once(above).chain(kinds().map(move |kind| TableSchema::of_kind(name, kind)))
}

/// Returns the name of a kind's table.
pub(super) fn name_of(above: &str, kind: &str) -> &'static str {
    let is_meant = |name: &str| name.strip_prefix(above).and_then(|rest| rest.strip_prefix('.')) == Some(kind);
    tables().iter().map(|table| table.name).find(|name| is_meant(name)).expect("each kind has its tables")
}

/// Whether a name is a key of a table that kinds have subtables in.
pub(super) fn is_reserved(name: &str) -> bool {
    [NIC, FLOW, WORKLOAD].iter().any(|keys| keys.contains(&name))
}

/// Tables without subtables of kinds.
const FIXED: &[TableSchema] = &[
    TableSchema::table(
        "",
        &[
            "scenario",
            "switch",
            "topology",
            "switches",
            "links",
            "hosts",
            "nic",
            "flows",
            "workloads",
            "routes",
            "outages",
            "slow_receivers",
            "windows",
            "capture",
            "runs",
        ],
    ),
    TableSchema::table(
        "scenario",
        &[
            "name",
            "end",
            "sample_every",
            "time_dilation",
            "plot_ports",
            "forwarding",
            "seed",
            "ecmp_seed",
            "routing_delay",
            "snapshots",
            "flow_gauges",
            "warm_up",
            "link_overhead",
            "frame_times",
            "feedback_delay",
            "unbuffered_classes",
            "unscheduled_alpha",
        ],
    )
    .with_renamed(&[("draw", "plot_ports")]),
    TableSchema::table("switch", SWITCH),
    TableSchema::table("switch.port", OF_PORT),
    TableSchema::table("topology", TOPOLOGY),
    TableSchema::array("switches", &["name", "config"]),
    TableSchema::array(
        "links",
        &["ends", "rate", "delay", "headroom", "private", "alpha", "flow_control", "priority", "devices", "faults"],
    ),
    TableSchema::inline("links.devices", "`devices` of [[links]]", OF_DEVICE),
    TableSchema::array("links.faults", FAULTS),
    TableSchema::array(
        "hosts",
        &[
            "name",
            "port",
            "rate",
            "delay",
            "headroom",
            "private",
            "alpha",
            "flow_control",
            "priority",
            "mtu",
            "device",
            "port_device",
            "backend",
            "faults",
        ],
    )
    .with_renamed(&[("reach", "backend")]),
    TableSchema::inline("hosts.device", "`device` of [[hosts]]", OF_DEVICE),
    TableSchema::inline("hosts.port_device", "`port_device` of [[hosts]]", OF_DEVICE),
    TableSchema::inline("hosts.backend", "`backend` of [[hosts]]", super::host_backend::KEYS),
    TableSchema::array("hosts.faults", FAULTS),
    // Tables of a host's own device, which has the keys of a port's.
    TableSchema::inline("ports.pci", "`pci`", &["address", "devargs"]),
    // Hosts and wires have one queue.
    TableSchema::inline("ports.vhost_user", "`vhost_user`", &["socket", "client", "mode", "group"]),
    TableSchema::inline("ports.memif", "`memif`", &["socket", "id", "role", "mode", "group"]),
    TableSchema::inline("ports.pcap", "`pcap`", &["rx", "tx", "infinite"]),
    TableSchema::inline("ports.null", "`null`", &["frame_bytes"]),
    TableSchema::inline("workloads.sizes", "`sizes` of [[workloads]]", &["file"]),
    TableSchema::array("routes", &["switch", "host", "port"]),
    TableSchema::array("outages", &["link", "at", "until"]),
    TableSchema::array("slow_receivers", &["hosts", "rate", "buffer", "xoff", "xon", "from", "until"]),
    TableSchema::array("windows", &["name", "from", "to"]),
    TableSchema::table("capture", &["host", "data_from", "data_frames"]),
    TableSchema::array("runs", &["name", "expect", "switch"]),
    TableSchema::table("runs.switch", SWITCH),
    TableSchema::table("runs.switch.port", OF_PORT),
];
