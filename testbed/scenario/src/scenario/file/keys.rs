//! Tables and keys of a scenario file.

use std::ops::RangeInclusive;
use std::sync::OnceLock;

use weir_config::keys::{device, port, switch as switch_file};
use weir_load_balancing::PATH_SELECTORS;
use weir_nic::host::AckClass;
use weir_nic::host::congestion::NONE;
use weir_reader::{AnyKey, Format, Key, Keys, TableSchema, rates};
use weir_units::{Alpha, BitRate, Bytes, SerialisationRounding, Span};

use super::Expectation;
use super::kinds::kinds;
use super::reading::END_MAX;
use crate::link::{ChosenFrames, LlrPlan};
use crate::scenario::PerfTest;
use crate::topology::Uplinks;

pub(super) fn format() -> Format {
    Format { what: "a scenario's TOML file", reference: "docs/SCENARIOS.md", repeated: "[[hosts]]", tables: tables() }
}

const SEEDS: RangeInclusive<u64> = 0..=u32::MAX as u64;
const UP_TO_A_SECOND: RangeInclusive<Span> = Span::ZERO..=Span::from_secs(1);
const PERIODS: RangeInclusive<Span> = Span::from_nanos(1)..=Span::from_secs(1_000);
const UP_TO_END: &str = "time, up to `end`";
const DATA_CLASS: &str =
    "Class of the data: their priority group at the sender's port, of which they have the first DSCP.";

/// Maximum number of messages of a scenario: runs keep a record of each.
pub(super) const MESSAGES_MAX: u32 = 20_000_000;
/// Maximum size of a message.
pub(super) const MESSAGE_BYTES_MAX: Bytes = Bytes::new(1 << 31);

/// Returns the names of keys of `[switch]` in a switch's file that a scenario sets; name and clock have other keys.
pub(super) fn of_switch() -> impl Iterator<Item = &'static str> {
    names(OF_SWITCH).chain(PATH_SELECTORS.all().iter().flat_map(|kind| names(kind.keys())))
}

const OF_SWITCH: Keys = &[
    &switch_file::IDLE,
    &switch_file::MTU,
    &switch_file::MAC_AGEING,
    &switch_file::STATS_INTERVAL,
    &switch_file::TELEMETRY_QUEUE,
    &switch_file::LOAD_BALANCING,
];
/// Other tables of a switch's file.
pub(super) const SECTIONS: &[&str] = &["lcores", "buffer", "classes", "pfc", "pfc_watchdog"];
/// Keys of `[[ports]]` for links and hosts.
pub(super) const OF_PORT: Keys = &[
    &common_port::RATE,
    &common_port::DELAY,
    &port::HEADROOM,
    &port::PRIVATE,
    &port::ALPHA,
    &common_port::FLOW_CONTROL,
    &port::PRIORITY,
];
/// Devices at the ends of a real link.
pub(super) const OF_DEVICE: Keys = &[
    &device::PCI,
    &device::AF_PACKET,
    &device::AF_XDP,
    &device::TAP,
    &device::VHOST_USER,
    &device::MEMIF,
    &device::PCAP,
    &device::NULL,
];

/// Top level.
mod top_level {
    use super::*;

    const SCENARIO: Key<()> = Key::other("scenario", "table", "Name, end, clock and samples.").or_else("required");
    const SWITCH: Key<()> = Key::other("switch", "table", "Settings of all switches.");
    const TOPOLOGY: Key<()> = Key::other("topology", "table", "A fabric, in place of `switches`, `links` and `hosts`.");
    const SWITCHES: Key<()> = Key::other("switches", "tables", "Switches.");
    const LINKS: Key<()> = Key::other("links", "tables", "Links between switches.");
    const HOSTS: Key<()> = Key::other("hosts", "tables", "Hosts, each with its link.");
    const LLR: Key<()> = Key::other("llr", "table", "Settings of all links with `llr = true`.");
    const NIC: Key<()> = Key::other("nic", "table", "Settings of all hosts' NICs.");
    const FLOWS: Key<()> = Key::other("flows", "tables", "Flows, each with its messages.");
    const WORKLOADS: Key<()> = Key::other("workloads", "tables", "Random or listed messages of many hosts.");
    const ROUTES: Key<()> = Key::other("routes", "tables", "Static routes.");
    const OUTAGES: Key<()> = Key::other("outages", "tables", "Links that are cut.");
    const CHANGES: Key<()> = Key::other("changes", "tables", "Settings of the switches that change during a run.");
    const SLOW_RECEIVERS: Key<()> = Key::other("slow_receivers", "tables", "Hosts that receive slowly.");
    const WINDOWS: Key<()> = Key::other("windows", "tables", "Intervals of the summary.").or_else("the last quarter");
    const CAPTURE: Key<()> = Key::other("capture", "table", "Frames that are written to a capture.");
    const RUNS: Key<()> = Key::other("runs", "tables", "Runs of the scenario with other settings of switches.");

    pub(super) const KEYS: Keys = &[
        &SCENARIO,
        &SWITCH,
        &TOPOLOGY,
        &SWITCHES,
        &LINKS,
        &HOSTS,
        &LLR,
        &NIC,
        &FLOWS,
        &WORKLOADS,
        &ROUTES,
        &OUTAGES,
        &CHANGES,
        &SLOW_RECEIVERS,
        &WINDOWS,
        &CAPTURE,
        &RUNS,
    ];
}

/// `[scenario]`.
pub(super) mod scenario {
    use super::*;

    const NAME: Key<()> =
        Key::other("name", "name", "Name of the scenario.").or_else("the file's name without `.toml`");
    pub(crate) const END: Key<Span> =
        Key::time("end", Span::from_micros(1)..=END_MAX, "End of the samples and of all flows.").or_else("required");
    const SAMPLE_EVERY: Key<()> = Key::other(
        "sample_every",
        UP_TO_END,
        "Interval of samples. Above `\"1ms\"` it also replaces the millisecond of the messages' highest link share.",
    )
    .or("50us");
    pub(crate) const TIME_DILATION: Key<u32> = Key::<u32>::integer(
        "time_dilation",
        1..=1_000_000,
        "Slowdown of all clocks with real frames. Checks of a file alone assume one that slows its fastest link to \
         100 Mb/s.",
    )
    .or_else("by the machine");
    const PLOT_PORTS: Key<()> = Key::other(
        "plot_ports",
        "list of ports",
        "Ports, such as `\"S1.h1\"`, whose ingress queues and input rates are plotted.",
    )
    .or_else("all ports with hosts; of a `[topology]` those of the first 8");
    pub(crate) const FORWARDING: Key<bool> = Key::choice(
        "forwarding",
        &[("static", true), ("ecmp", false)],
        "Forwarding by [static MACs](SCENARIOS.md#routes), or over [all paths of equal \
         cost](SCENARIOS.md#ways-of-equal-cost).",
    )
    .or_else("`\"static\"`; with `[topology]` `\"ecmp\"`");
    pub(crate) const SEED: Key<u64> = Key::<u64>::integer(
        "seed",
        SEEDS,
        "Seed of workloads and faults without their own; in virtual time also of ECN marks and random port choices \
         in switches; of ECMP with `ecmp_seed = \"seed\"`.",
    )
    .or("1");
    pub(crate) const ECMP_SEED: Key<u32> = Key::<u32>::integer(
        "ecmp_seed",
        0..=u32::MAX,
        "Seed of the [ECMP](SCENARIOS.md#ways-of-equal-cost) hash. `\"seed\"`: that of `seed`. 0: hash of the flow's \
         addresses and ports and the switch's position.",
    )
    .or_keyword("seed")
    .or("0");
    pub(crate) const ROUTING_DELAY: Key<Span> = Key::time(
        "routing_delay",
        Span::ZERO..=END_MAX,
        "Delay from an [outage](SCENARIOS.md#ways-of-equal-cost) or repair between switches until all switches reroute. \
         `\"none\"`: only those at its ends do.",
    )
    .or_keyword("none")
    .or("none");
    const SNAPSHOTS: Key<()> = Key::other(
        "snapshots",
        "list of times, up to `end`",
        "Instants at which all queues are recorded in `queues.csv`. `weir testbed run --snapshot` adds more.",
    )
    .or_else("none");
    pub(crate) const FLOW_GAUGES: Key<bool> = Key::boolean(
        "flow_gauges",
        "Whether `series.csv`, `summary.json` and reports have each flow's rate, window and [other \
         gauges](CONGESTION_CONTROL.md#gauges).",
    )
    .or("false");
    const WARM_UP: Key<()> =
        Key::other("warm_up", UP_TO_END, "Instant from which messages of workloads are in the statistics.").or("0s");
    pub(crate) const LINK_OVERHEAD: Key<Bytes> = Key::size(
        "link_overhead",
        Bytes::ZERO..=Bytes::new(1_000),
        "Bytes that a frame takes on a link beyond its own: FCS 4 B, preamble 8 B, gap 12 B. All rates include it: \
         links, ports, paces, limits, GFC, telemetry, link shares; headroom by rule and bounds of GFC's thresholds \
         always use 24 B. With `\"0B\"`, as in the papers' simulators, GFC's τ is two overheads too long, and \
         buffers, which count the FCS, fill 4 B a frame faster than links deliver.",
    )
    .or("24B");
    pub(crate) const FRAME_TIMES: Key<SerialisationRounding> = Key::choice(
        "frame_times",
        &[
            ("exact", SerialisationRounding::Exact),
            ("whole-ns", SerialisationRounding::Nanoseconds),
            ("ns3", SerialisationRounding::Ns3),
        ],
        "Rounding of serialisation times at rates of links and congestion control. `\"whole-ns\"` truncates (83 for \
         83.84), as inet-tub's simulator. `\"ns3\"` also gives 99 for 100, as HPCC's and ConWeave's, which truncate \
         binary fractions of a second.",
    )
    .or("exact");
    pub(crate) const FEEDBACK_DELAY: Key<bool> = Key::boolean(
        "feedback_delay",
        "Whether feedback delays τ are measured in virtual time, as [`feedback`](RUN_DIRECTORY.md#linksfeedback) of \
         the links in `summary.json`. With real frames they always are.",
    )
    .or("false");
    const UNBUFFERED_CLASSES: Key<()> = Key::other(
        "unbuffered_classes",
        "list of classes",
        "Classes that switch buffers do not count, as acknowledgements in the public ns-3 simulators: no drops, PAUSEs, or ECN \
         marks for their own length. `lossless` ones still reserve headroom.",
    )
    .or("[]");
    pub(crate) const UNSCHEDULED_ALPHA: Key<Alpha> = Key::alpha(
        "unscheduled_alpha",
        "α of lossy frames marked unscheduled: those that ABM's hosts (SIGCOMM 2022) send before the first feedback. TCP marks \
         them by [`unscheduled`](TCP.md).",
    )
    .or_else("as `lossy_alpha`");

    pub(super) const KEYS: Keys = &[
        &NAME,
        &END,
        &SAMPLE_EVERY,
        &TIME_DILATION,
        &PLOT_PORTS,
        &FORWARDING,
        &SEED,
        &ECMP_SEED,
        &ROUTING_DELAY,
        &SNAPSHOTS,
        &FLOW_GAUGES,
        &WARM_UP,
        &LINK_OVERHEAD,
        &FRAME_TIMES,
        &FEEDBACK_DELAY,
        &UNBUFFERED_CLASSES,
        &UNSCHEDULED_ALPHA,
    ];
}

/// `[switch]`: keys and tables of a switch's file.
mod switch {
    use super::*;

    const LCORES: Key<()> = Key::other("lcores", "table", "As [`lcores`](CONFIGURATION.md#lcores) of a switch's file.");
    const BUFFER: Key<()> = Key::other("buffer", "table", "As [`buffer`](CONFIGURATION.md#buffer) of a switch's file.");
    const CLASSES: Key<()> =
        Key::other("classes", "table", "As [`classes`](CONFIGURATION.md#classes) of a switch's file.");
    const PFC: Key<()> = Key::other("pfc", "table", "As [`pfc`](CONFIGURATION.md#pfc) of a switch's file.");
    const PFC_WATCHDOG: Key<()> =
        Key::other("pfc_watchdog", "table", "As [`pfc_watchdog`](CONFIGURATION.md#pfc_watchdog) of a switch's file.");
    const PORT: Key<()> = Key::other("port", "table", "Settings of all links and their ports.");

    pub(super) const KEYS: Keys = &[
        &switch_file::IDLE,
        &switch_file::MTU,
        &switch_file::MAC_AGEING,
        &switch_file::STATS_INTERVAL,
        &switch_file::TELEMETRY_QUEUE,
        &switch_file::LOAD_BALANCING,
        &LCORES,
        &BUFFER,
        &CLASSES,
        &PFC,
        &PFC_WATCHDOG,
        &PORT,
    ];
}

/// `[switch.port]`: keys of `[[ports]]`, for all links with their ports.
mod common_port {
    use super::*;

    pub(super) const RATE: Key<BitRate> = port::RATE
        .with_help("C: rate of links, their ports and their hosts. A host's link needs one, here or in `[[hosts]]`.")
        .or_else("");
    pub(super) const DELAY: Key<Span> =
        port::DELAY.with_help("One-way propagation delay of links, and D_prop of their ports; 5 ns a metre.");
    pub(super) const FLOW_CONTROL: Key<()> = port::FLOW_CONTROL
        .with_help("[Flow control](CONFIGURATION.md#portsflow_control), equal at both ends of a link.");
}

/// `[llr]`.
pub(super) mod llr {
    use super::*;

    const TIMERS: RangeInclusive<Span> = Span::from_nanos(1)..=Span::from_millis(100);

    pub(crate) const HAS_LLR: Key<bool> =
        Key::boolean("llr", "Whether links [send lost frames again](SCENARIOS.md#llr).").or("false");
    pub(crate) const OUTSTANDING_BYTES: Key<Bytes> = Key::size(
        "outstanding_bytes",
        Bytes::new(64)..=Bytes::mb(100),
        "Replay buffer of a link's end: bytes without FCS that the peer has not acknowledged. A full one stops the sender.",
    )
    .or_else("what full rate takes");
    pub(crate) const OUTSTANDING_FRAMES: Key<u32> = Key::<u32>::integer(
        "outstanding_frames",
        1..=LlrPlan::FRAMES_MAX,
        "Most frames that the peer has not acknowledged.",
    )
    .or("32767");
    pub(crate) const REPLAY_TIMER: Key<Span> =
        Key::time("replay_timer", TIMERS, "Time without progress after which an end replays.")
            .or_else("5 us, and what acknowledgements take");
    pub(crate) const REPLAY_COUNT: Key<u32> = Key::<u32>::integer(
        "replay_count",
        0..=255,
        "Replays without progress, after which an end gives up its frames and starts anew.",
    )
    .or("3");
    pub(crate) const PCS_LOST_TIMEOUT: Key<Span> = Key::time(
        "pcs_lost_timeout",
        Span::ZERO..=Span::from_secs(1),
        "Length of an outage from which ports see their link down.",
    )
    .or_else("10 `replay_timer`");
    pub(super) const KEYS: Keys =
        &[&OUTSTANDING_BYTES, &OUTSTANDING_FRAMES, &REPLAY_TIMER, &REPLAY_COUNT, &PCS_LOST_TIMEOUT];
}

/// Keys of `[switch.port]` for one link or host.
mod own_port {
    use super::*;

    const COMMON: &str = "that of `[switch.port]`";
    pub(super) const RATE: Key<BitRate> = common_port::RATE
        .with_help("C: rate of the link and of its ports; of a host's link also the host's.")
        .or_else(COMMON);
    pub(super) const DELAY: Key<Span> = common_port::DELAY
        .with_help("One-way propagation delay of the link, and D_prop of its ports; 5 ns a metre.")
        .or_else(COMMON);
    pub(super) const HEADROOM: Key<Bytes> = port::HEADROOM.or_else(COMMON);
    pub(super) const PRIVATE: Key<Bytes> = port::PRIVATE.or_else(COMMON);
    pub(super) const ALPHA: Key<Alpha> = port::ALPHA.or_else(COMMON);
    pub(super) const FLOW_CONTROL: Key<()> = common_port::FLOW_CONTROL.or_else(COMMON);
    pub(super) const PRIORITY: Key<u8> = port::PRIORITY.or_else(COMMON);
}

/// `[topology]`; each kind of fabric has some of the keys.
pub(super) mod topology {
    use super::*;

    /// Upper bound of every count; the fabric checks their combination.
    const COUNT_MAX: u64 = 65_534;

    const fn count(name: &'static str, least: u64, help: &'static str) -> Key<u64> {
        Key::<u64>::integer(name, least..=COUNT_MAX, help).or_else("required")
    }

    const fn rate(name: &'static str, help: &'static str) -> Key<BitRate> {
        Key::rate(name, rates(), help)
    }

    const fn delay(name: &'static str, help: &'static str) -> Key<Span> {
        Key::time(name, UP_TO_A_SECOND, help)
    }

    const KIND: Key<()> =
        Key::other("kind", "a [fabric](SCENARIOS.md#topology)", "Kind of fabric.").or_else("required");
    pub(crate) const K: Key<u64> = count("k", 4, "`fat-tree`: k, the number of ports of a switch; even, 4 to 64.");
    pub(crate) const SWITCHES: Key<u64> = count("switches", 3, "`ring`: number of switches.");
    pub(crate) const PODS: Key<u64> = count("pods", 1, "`clos`: number of pods.");
    pub(crate) const TORS: Key<u64> = count("tors", 1, "`clos`: ToRs per pod.");
    pub(crate) const LEAVES: Key<u64> = count("leaves", 1, "`leaf-spine`: number of leaves. `clos`: leaves per pod.");
    pub(crate) const SPINES: Key<u64> =
        count("spines", 0, "`leaf-spine`, `clos`, `rails`: number of spines; 0 in a `clos` of one pod or `rails`.");
    pub(crate) const HOSTS: Key<u64> = count(
        "hosts",
        1,
        "All but `dumbbell`, `fat-tree`, `rails`: hosts per switch, leaf or ToR; at least 2 in `single`.",
    );
    pub(crate) const SERVERS: Key<u64> = count("servers", 1, "`rails`: number of servers.");
    pub(crate) const GPUS: Key<u64> = count("gpus", 1, "`rails`: GPUs per server, each a host with a NIC.");
    pub(crate) const RAILS: Key<u64> =
        count("rails", 1, "`rails`: number of rails; GPU g of each server is on rail g mod `rails`.").or_else("`gpus`");
    pub(crate) const OVERSUBSCRIPTION: Key<u64> = count(
        "oversubscription",
        1,
        "`rails`: rate of a rail's links to hosts over that to spines, which determines the parallel links to each.",
    )
    .or("1");
    pub(crate) const LEFT: Key<u64> = count("left", 1, "`dumbbell`: hosts on S0.");
    pub(crate) const RIGHT: Key<u64> = count("right", 1, "`dumbbell`: hosts on S1.");
    pub(crate) const PARALLEL: Key<u64> =
        count("parallel", 1, "`leaf-spine`, `rails`: links from each leaf or rail to each spine.").or("1");
    pub(crate) const PORTS: Key<u64> = Key::<u64>::integer(
        "ports",
        1..=8,
        "`leaf-spine`, `clos`, `rails`: ports of each host, on as many leaves, ToRs, or switches of its rail. R0 and on have \
         the first ports of all rails, then come the second ones.",
    )
    .or("1");
    pub(crate) const UPLINKS: Key<Uplinks> = Key::choice(
        "uplinks",
        &[("every", Uplinks::Every), ("planes", Uplinks::Planes)],
        "`clos`: spines that a leaf is linked to. `\"every\"`: all; `\"planes\"`: the i-th of a pod's n leaves to \
         the i-th n-th of them.",
    )
    .or("every");
    pub(crate) const RATE: Key<BitRate> = rate("rate", "Rate of links without one of their own.").or_else("required");
    pub(crate) const DELAY: Key<Span> =
        delay("delay", "One-way propagation delay of links without one of their own.").or_else("required");
    pub(crate) const HOST_RATE: Key<BitRate> =
        rate("host_rate", "`ring`, `leaf-spine`, `clos`, `fat-tree`, `rails`: rate of hosts' links.").or_else("`rate`");
    pub(crate) const HOST_DELAY: Key<Span> =
        delay("host_delay", "`ring`, `leaf-spine`, `clos`, `fat-tree`, `rails`: one-way delay of hosts' links.")
            .or_else("`delay`");
    pub(crate) const BOTTLENECK_RATE: Key<BitRate> =
        rate("bottleneck_rate", "`dumbbell`: rate of the link between the switches.").or_else("`rate`");
    pub(crate) const BOTTLENECK_DELAY: Key<Span> =
        delay("bottleneck_delay", "`dumbbell`: one-way delay of the link between the switches.").or_else("`delay`");
    pub(crate) const SPINE_RATE: Key<BitRate> =
        rate("spine_rate", "`clos`: rate of links between leaves and spines.").or_else("`rate`");
    pub(crate) const SPINE_DELAY: Key<Span> =
        delay("spine_delay", "`clos`: one-way delay of links between leaves and spines.").or_else("`delay`");
    pub(crate) const NVLINK_RATE: Key<BitRate> = Key::rate(
        "nvlink_rate",
        BitRate::gbps(1)..=BitRate::gbps(100_000),
        "`rails`: rate at which a GPU sends to and receives from its server's.",
    )
    .or_else("no NVLink: all messages take the fabric");
    pub(crate) const NVLINK_DELAY: Key<Span> =
        delay("nvlink_delay", "`rails`: delay between two GPUs of a server, one way.")
            .or_else("required with `nvlink_rate`");
    pub(crate) const CORRUPTION: Key<f64> =
        Key::share("corruption", "Share of frames that a link delivers with a bad FCS, flow control included.").or("0");
    const FAILED: Key<()> = Key::other(
        "failed",
        "list of pairs of switches",
        "Links between switches that are down from the start: `[[\"S0\", \"L3\"]]` for all parallel ones, `[\"S0\", \
         \"L3.1\"]` for one.",
    )
    .or_else("none");
    pub(crate) const FAILURE_PROBABILITY: Key<f64> = Key::share(
        "failure_probability",
        "Probability that each other link between switches is down from the start. Draws that disconnect hosts are \
         repeated, up to 1000 times.",
    );
    pub(crate) const FAILURE_SEED: Key<u64> =
        Key::<u64>::integer("failure_seed", SEEDS, "Seed of that draw, independent of `seed`.")
            .or_else("required with `failure_probability`");

    pub(crate) const KEYS: Keys = &[
        &KIND,
        &K,
        &SWITCHES,
        &PODS,
        &TORS,
        &LEAVES,
        &SPINES,
        &HOSTS,
        &SERVERS,
        &GPUS,
        &RAILS,
        &OVERSUBSCRIPTION,
        &LEFT,
        &RIGHT,
        &PARALLEL,
        &PORTS,
        &UPLINKS,
        &RATE,
        &DELAY,
        &HOST_RATE,
        &HOST_DELAY,
        &BOTTLENECK_RATE,
        &BOTTLENECK_DELAY,
        &SPINE_RATE,
        &SPINE_DELAY,
        &NVLINK_RATE,
        &NVLINK_DELAY,
        &CORRUPTION,
        &llr::HAS_LLR,
        &FAILED,
        &FAILURE_PROBABILITY,
        &FAILURE_SEED,
    ];
}

/// `[[switches]]`, `[[links]]`, `[[hosts]]` and `backend` of hosts.
pub(super) mod nodes {
    use super::*;

    const SWITCH_NAME: Key<()> = Key::other(
        "name",
        "name without `.`",
        "Name of the switch, with which names of its ports begin: `\"S1.next\"`.",
    )
    .or_else("required");
    const CONFIG: Key<()> = Key::other("config", "path", "The switch's own file, relative to the scenario.");
    pub(super) const BUFFER_SIZE: Key<()> =
        Key::other("buffer_size", "size", "`size` of this switch's `[buffer]`.").or_else("that of `[switch.buffer]`");
    pub(super) const SWITCH: Keys = &[&SWITCH_NAME, &CONFIG, &BUFFER_SIZE];

    const ENDS: Key<()> =
        Key::other("ends", "two ports", "Ports that the link connects: `[\"S1.next\", \"S2.prev\"]`.")
            .or_else("required");
    const DEVICES: Key<()> = Key::other(
        "devices",
        "two tables",
        "Devices at both ends of a real cable: `[{ pci = \"0000:81:00.0\" }, { pci = \"0000:82:00.0\" }]`.",
    )
    .or_else("an emulated link");
    const FAULTS: Key<()> =
        Key::other("faults", "tables", "[Injected faults](SCENARIOS.md#linksfaults-and-hostsfaults) on the link.");
    pub(super) const LINK: Keys = &[
        &ENDS,
        &own_port::RATE,
        &own_port::DELAY,
        &own_port::HEADROOM,
        &own_port::PRIVATE,
        &own_port::ALPHA,
        &own_port::FLOW_CONTROL,
        &own_port::PRIORITY,
        &DEVICES,
        &FAULTS,
        &llr::HAS_LLR,
    ];

    const HOST_NAME: Key<()> = Key::other("name", "name", "Name of the host.").or_else("required");
    const PORT: Key<()> =
        Key::other("port", "port", "Port of the host's switch: `\"S1.h1\"`.").or_else("required, or `ports`");
    const PORTS: Key<()> = Key::other(
        "ports",
        "ports",
        "For a host with [several ports](SCENARIOS.md#topology), in place of `port`: `[\"L0.h1\", \"L1.h1\"]`.",
    );
    const MTU: Key<()> =
        Key::other("mtu", "as in `[nic]`", "Payload of a full frame of this host.").or_else("that of `[nic]`");
    const DEVICE: Key<()> = Key::other(
        "device",
        "table",
        "Device at the host's end of a real cable; needs `port_device`, unless the switch's own file has that \
         device.",
    )
    .or_else("an emulated link");
    const PORT_DEVICE: Key<()> = Key::other(
        "port_device",
        "table",
        "Device at the switch's end of a real cable, with `device` or a host by `\"ssh\"`.",
    );
    const BACKEND: Key<()> = Key::other(
        "backend",
        "`\"vm\"`, `\"netns\"`, or a table",
        "[Real host](LAB-HOSTS.md) in place of the emulated one, with `--backend hosts`.",
    )
    .or_else("an emulated host");
    pub(super) const HOST: Keys = &[
        &HOST_NAME,
        &PORT,
        &PORTS,
        &own_port::RATE,
        &own_port::DELAY,
        &own_port::HEADROOM,
        &own_port::PRIVATE,
        &own_port::ALPHA,
        &own_port::FLOW_CONTROL,
        &own_port::PRIORITY,
        &MTU,
        &DEVICE,
        &PORT_DEVICE,
        &BACKEND,
        &FAULTS,
        &llr::HAS_LLR,
    ];

    const BY: Key<()> = Key::other(
        "by",
        "`\"vm\"`, `\"netns\"`, `\"ssh\"`",
        "Kind of real host: virtual machine, network namespace, or machine reached by ssh.",
    )
    .or_else("required");
    pub(crate) const MEMORY: Key<Bytes> =
        Key::size("memory", Bytes::mb(176)..=Bytes::mb(65_536), "`vm`: memory of the guest.").or("192MB");
    pub(crate) const QUEUES: Key<u8> = Key::<u8>::integer(
        "queues",
        1..=8,
        "`vm`: queue pairs of its NIC. Class c leaves by ring c modulo `queues`, so that a paused class blocks its \
         ring only.",
    )
    .or("1");
    pub(crate) const NIC: Key<bool> =
        Key::boolean("nic", "`vm`, `netns`: whether Weir's NIC, with flow control, is between host and port.")
            .or("true");
    const TO: Key<()> = Key::other("to", "string", "`ssh`: user and machine: `\"root@server1\"`.").or_else("required");
    const INTERFACE: Key<()> =
        Key::other("interface", "string", "`ssh`: the machine's cabled interface; needs `port_device`.")
            .or_else("required");
    const RDMA: Key<()> =
        Key::other("rdma", "string", "`ssh`: RDMA device of the interface.").or_else("the interface's device");
    const IP: Key<()> = Key::other("ip", "IPv4 address", "`ssh`: IP address of the interface.").or_else("10.0.0.n");
    pub(crate) const BACKEND_KEYS: Keys = &[&BY, &MEMORY, &QUEUES, &NIC, &TO, &INTERFACE, &RDMA, &IP];
}

/// `[nic]`, and keys of transports.
pub(super) mod nic {
    use weir_nic::host::RoundRobinUnit;

    use super::super::frame_format::FrameFormat;
    use super::*;

    pub(crate) const FRAMES: Key<FrameFormat> = Key::choice(
        "frames",
        &[("rocev2", FrameFormat::RoceV2), ("ns3", FrameFormat::Ns3), ("ns3-stamped", FrameFormat::Ns3Stamped)],
        "Frame lengths of RoCEv2, or of the public ns-3 simulators: headers of 48 B, acknowledgements of 60 B. Stamps take no \
         bytes with `\"ns3\"`; with `\"ns3-stamped\"` 8 B under TIMELY or θ-PowerTCP, 2 B under HPCC-PINT, and 42 B under HPCC or \
         PowerTCP, with acknowledgements of 88 B.",
    )
    .or("rocev2");
    const MTU: Key<()> = Key::other(
        "mtu",
        "256, 512, 1024, 2048, 4096; with lengths of ns-3 1 to 16000",
        "Payload of a full frame (RoCE path MTU). The switch's `mtu` must hold it with 60 B of headers and the longest \
         [telemetry trailer](FRAMES.md#telemetry-trailer) in use: 96 B for HPCC or PowerTCP, 16 B for TIMELY or θ-PowerTCP.",
    )
    .or_else("1024; with lengths of ns-3 1000");
    pub(crate) const ACK_CLASS: Key<AckClass> = Key::choice(
        "ack_class",
        &[
            ("own-class", AckClass::Own),
            ("with-data", AckClass::WithData),
            ("with-data-unpaused", AckClass::WithDataUnpaused),
        ],
        "DSCP and class of RDMA acknowledgements: DSCP 48 and its class, or those of their data, as in the public \
         ns-3 simulators; unpaused: no PAUSE stops them at the host (ACK_HIGH_PRIO). CNPs keep DSCP 48.",
    )
    .or("own-class");
    pub(crate) const ROUND_ROBIN: Key<RoundRobinUnit> = Key::choice(
        "round_robin",
        &[("flows", RoundRobinUnit::Flows), ("classes", RoundRobinUnit::Classes)],
        "What a host serves in turn, frame by frame: its flows; or classes, then their flows, as in a NIC.",
    )
    .or("flows");
    pub(crate) const TCP_QUEUEING: Key<bool> = Key::choice(
        "tcp_queueing",
        &[("on-turn", false), ("queued", true)],
        "When TCP makes a segment. `\"on-turn\"`: on its turn, acknowledgements first. `\"queued\"`: data within \
         windows and acknowledgements share one FIFO per host, as in a NIC without pacing, with one turn among \
         other flows or classes.",
    )
    .or("on-turn");
    pub(crate) const ACK_EVERY: Key<u32> = Key::<u32>::integer(
        "ack_every",
        1..=1_000_000,
        "Packets per acknowledgement; a message's last is always acknowledged.",
    )
    .or_else("`1` for workloads; for flows one a message");
    pub(crate) const RETRANSMIT: Key<Span> = Key::time(
        "retransmit",
        Span::from_micros(1)..=Span::from_secs(100),
        "Timeout after which unacknowledged packets are sent again.",
    )
    .or_keyword("none")
    .or_else("`\"4ms\"` for workloads and with `loss_recovery = \"selective\"`; else `\"none\"`");
    pub(crate) const LOSS_RECOVERY: Key<bool> = Key::choice(
        "loss_recovery",
        &[("go-back-n", false), ("selective", true)],
        "`\"go-back-n\"`: receivers drop packets after a missing one, and senders repeat all from there, at a NAK at once. \
         `\"selective\"`: receivers accept packets in any order and acknowledge each, and senders repeat missing ones, as in IRN, \
         with at most 4,096 packets of a flow in flight; in virtual time only.",
    )
    .or("go-back-n");
    pub(crate) const REORDERING: Key<u32> = Key::<u32>::integer(
        "reordering",
        1..=4_095,
        "`loss_recovery = \"selective\"`: packets that may overtake a packet before it is sent again without a timeout. IRN: 1.",
    )
    .or("256");
    pub(crate) const ENTROPY: Key<()> = Key::other(
        "entropy",
        "`\"flow\"`, `\"per-packet\"`, `\"bitmap\"`, `\"reps\"`",
        "Choice of a packet's entropy value (its UDP source port), by which switches with `load_balancing = \"flow-hash\"` pick its \
         path: one per flow, random ones, htsim's bitmap or REPS. Acknowledgements keep one. All but `flow` need \
         `loss_recovery = \"selective\"`.",
    )
    .or("flow");
    pub(crate) const CONGESTION_CONTROL: Key<()> = Key::other(
        "congestion_control",
        "an algorithm or a [preset](CONGESTION_CONTROL.md#presets)",
        "Congestion control, such as `\"dcqcn\"`, `\"timely\"`, `\"hpcc\"`, `\"powertcp\"`. DCQCN needs `ecn` in \
         switches; HPCC and PowerTCP make all switches stamp ([`telemetry`](CONFIGURATION.md#switch)). For a \
         workload all senders need one link rate.",
    )
    .or_else("`\"none\"`; for flows and workloads that of `[nic]`");
    pub(crate) const TRANSPORT: Key<()> = Key::other(
        "transport",
        "`\"rdma\"`, `\"tcp-cubic\"`, `\"tcp-dctcp\"`, `\"tcp-reno\"`",
        "Transport: RDMA WRITEs, or datacentre [TCP](TCP.md), which has no `congestion_control`, `ack_every` or \
         `retransmit`.",
    )
    .or_else("`\"rdma\"`; for flows and workloads that of `[nic]`");

    pub(super) const KEYS: Keys = &[
        &FRAMES,
        &MTU,
        &ACK_CLASS,
        &ROUND_ROBIN,
        &TCP_QUEUEING,
        &ACK_EVERY,
        &RETRANSMIT,
        &LOSS_RECOVERY,
        &REORDERING,
        &ENTROPY,
        &CONGESTION_CONTROL,
        &TRANSPORT,
    ];
    pub(super) const RENAMED: &[(&str, &str)] =
        &[("acks", "ack_class"), ("turns", "round_robin"), ("tcp_frames", "tcp_queueing")];
}

/// `[[links.faults]]` and `[[hosts.faults]]`.
pub(super) mod faults {
    use super::*;

    const TOWARD: Key<()> =
        Key::other("toward", "a port of the link, or the host", "End of the link that the frames go to.")
            .or_else("required");
    pub(crate) const FRAMES: Key<ChosenFrames> = Key::choice(
        "frames",
        &[("control", ChosenFrames::Control), ("data", ChosenFrames::Data), ("all", ChosenFrames::All)],
        "Frames that are affected: flow control, all others, or both.",
    )
    .or("control");
    pub(crate) const DSCP: Key<u8> =
        Key::<u8>::integer("dscp", 0..=63, "With `\"data\"`: only frames with this DSCP.").or_else("all");
    pub(crate) const LOSS: Key<f64> = Key::share("loss", "Share of lost frames.");
    pub(crate) const CORRUPTION: Key<f64> = Key::share(
        "corruption",
        "Share of frames with a bad FCS, dropped by the receiving MAC; counted apart from `loss`.",
    );
    pub(crate) const DUPLICATION: Key<f64> = Key::share("duplication", "Share of duplicated frames.");
    pub(crate) const REORDERING: Key<f64> = Key::share("reordering", "Share of frames held back.");
    pub(crate) const HOLD_BACK: Key<Span> = Key::time(
        "hold_back",
        Span::from_nanos(1)..=Span::from_secs(1),
        "Maximum time for which a frame is held back.",
    )
    .or("100us");
    pub(crate) const UNTIL_NEXT: Key<bool> = Key::boolean(
        "until_next",
        "Whether one frame at a time is held back, until another passes it; otherwise each is, for all of \
         `hold_back`.",
    )
    .or("true");
    const FROM: Key<()> =
        Key::other("from", UP_TO_END, "Start of the faults, by frames' entry into the link.").or("0s");
    const UNTIL: Key<()> =
        Key::other("until", UP_TO_END, "End of the faults, by frames' entry into the link.").or_else("`end`");
    pub(crate) const SEED: Key<u64> =
        Key::<u64>::integer("seed", SEEDS, "Seed of the faults; equal seeds and frames have equal ones.")
            .or_else("by link and direction, from the scenario's");

    pub(super) const KEYS: Keys = &[
        &TOWARD,
        &FRAMES,
        &DSCP,
        &LOSS,
        &CORRUPTION,
        &DUPLICATION,
        &REORDERING,
        &HOLD_BACK,
        &UNTIL_NEXT,
        &FROM,
        &UNTIL,
        &SEED,
    ];
}

/// `[[flows]]`.
pub(super) mod flow {
    use super::*;

    const NAME: Key<()> = Key::other("name", "name", "Name of the flow.").or_else("`F1` for the first");
    const FROM: Key<()> = Key::other("from", "host", "Host that sends.").or_else("required");
    const TO: Key<()> = Key::other("to", "host", "Host that receives.").or_else("required");
    const PATH: Key<()> = Key::other(
        "path",
        "list of switches",
        "Switches on the way, from the sender's to the receiver's: `[\"S1\", \"S2\", \"S3\"]`.",
    )
    .or_else("the [shortest](SCENARIOS.md#routes)");
    pub(crate) const CLASS: Key<u8> = Key::<u8>::integer("class", 0..=7, DATA_CLASS).or_else("required");
    const START: Key<()> = Key::other("start", UP_TO_END, "Instant from which messages are released.").or("0s");
    const STOP: Key<()> = Key::other("stop", UP_TO_END, "Instant from which no message is released.").or_else("`end`");
    pub(crate) const MESSAGE: Key<Bytes> =
        Key::size("message", Bytes::new(1)..=MESSAGE_BYTES_MAX, "Payload of a message.").or("1MB");
    pub(crate) const EVERY: Key<Span> =
        Key::time("every", PERIODS, "Interval at which messages are released, whether earlier ones are sent or not.")
            .or_else("back to back");
    pub(crate) const TOTAL: Key<Bytes> =
        Key::size("total", Bytes::new(1)..=Bytes::mb(1_000_000_000), "Payload of all messages together.")
            .or_else("no end");
    pub(crate) const RATE: Key<BitRate> =
        Key::rate("rate", rates(), "Pace of the flow, in bytes on the wire.").or_else("the host's");
    pub(crate) const PERFTEST: Key<PerfTest> = Key::choice(
        "perftest",
        PerfTest::NAMES,
        "Program of real hosts; READs are requested by `to`. [Emulated \
         hosts](LAB-HOSTS.md#emulated-hosts-and-real-ones) support the first two.",
    )
    .or("ib_write_bw");
    pub(crate) const QPS: Key<u16> =
        Key::<u16>::integer("qps", 1..=1_000, "Queue pairs of perftest; they share `total`. `ib_send_lat` has one.")
            .or("1");
    pub(crate) const RECEIVE_DEPTH: Key<u16> = Key::<u16>::integer(
        "receive_depth",
        1..=8_192,
        "Receive buffers of `ib_send_bw`; messages without one get *receiver not ready*.",
    )
    .or_else("perftest's, 512");

    pub(super) const KEYS: Keys = &[
        &NAME,
        &FROM,
        &TO,
        &PATH,
        &CLASS,
        &START,
        &STOP,
        &MESSAGE,
        &EVERY,
        &TOTAL,
        &RATE,
        &nic::CONGESTION_CONTROL,
        &nic::TRANSPORT,
        &PERFTEST,
        &QPS,
        &RECEIVE_DEPTH,
        &nic::ACK_EVERY,
        &nic::RETRANSMIT,
    ];
}

/// `[[workloads]]`; each kind of workload has some of the keys.
pub(super) mod workload {
    use super::*;

    const NAME: Key<()> = Key::other("name", "name", "Name of the workload.").or_else("`W1` for the first");
    const KIND: Key<()> = Key::other(
        "kind",
        "a [kind](SCENARIOS.md#workloads)",
        "Kind of workload, which sets who sends to whom, and when.",
    )
    .or_else("required");
    pub(crate) const CLASS: Key<u8> = Key::<u8>::integer("class", 0..=7, DATA_CLASS).or_else("required");
    const MORE_CLASSES: Key<()> = Key::other(
        "more_classes",
        "list of classes",
        "Further classes: each message has one of all, at random, independent of `seed`.",
    )
    .or("[]");
    const SIZES: Key<()> = Key::other(
        "sizes",
        "a distribution's [name](WORKLOADS.md#sizes), a size up to 2 GiB, or a table",
        "All but `list`, `collective`, `goal`, `connection-matrix`: sizes of messages: `\"web-search\"`, `\"64KB\"`, or `{ file = \"sizes.txt\" }`.",
    )
    .or_else("required");
    const COLLECTIVE: Key<()> = Key::other(
        "collective",
        "an [algorithm](WORKLOADS.md#collectives)",
        "`collective`: algorithm of `senders`, which are its ranks, in order.",
    )
    .or_else("required for `collective`");
    pub(crate) const BYTES: Key<Bytes> = Key::size(
        "bytes",
        Bytes::new(1)..=Bytes::mb(1_000_000_000),
        "`collective`: buffer of each rank, as NCCL's tests count it.",
    )
    .or_else("required for `collective`");
    pub(crate) const CHUNKS: Key<u32> = Key::<u32>::integer(
        "chunks",
        1..=100_000,
        "`collective`: parts of the buffer, which go through it independently, as in a pipeline.",
    )
    .or("1");
    pub(crate) const COMPUTE: Key<Span> = Key::time(
        "compute",
        Span::ZERO..=Span::from_secs(1_000),
        "`collective`: computation of each rank before each repetition.",
    )
    .or("0s");
    const LOAD: Key<()> = Key::other(
        "load",
        "number above 0, at most 1",
        "`poisson`, `incast`: load, as a share of the senders' link rates. It makes bursts of `incast` random.",
    )
    .or_else("required for `poisson`");
    const SENDERS: Key<()> =
        Key::other("senders", "list of hosts", "All but `list`: hosts that [send](SCENARIOS.md#workloads).")
            .or_else("all hosts");
    const RECEIVERS: Key<()> = Key::other(
        "receivers",
        "list of hosts",
        "`poisson`, `incast`, `one-to-one`, `closed-loop`: hosts that [receive](SCENARIOS.md#workloads).",
    )
    .or_else("all hosts");
    pub(crate) const EQUAL_SIZES: Key<bool> =
        Key::boolean("equal_sizes", "`incast`: whether all messages of a burst have one size.").or("false");
    pub(crate) const FAN_IN: Key<u32> =
        Key::<u32>::integer("fan_in", 1..=u32::MAX, "`incast`: number of senders per burst.")
            .or_else("all of `senders`");
    pub(crate) const GROUPS_OF: Key<u32> = Key::<u32>::integer(
        "groups_of",
        1..=u32::MAX,
        "`incast`, in place of `fan_in`: size of groups of `senders`, in order, such as a leaf's hosts. A random group without \
         the receiver sends.",
    );
    pub(crate) const OUTSTANDING: Key<u32> =
        Key::<u32>::integer("outstanding", 1..=100_000, "`closed-loop`: messages in flight per host.").or("1");
    pub(crate) const EVERY: Key<Span> = Key::time(
        "every",
        PERIODS,
        "`incast`, `one-to-one`, `all-to-all`, `permutation`: interval of bursts, or of rounds of all pairs.",
    )
    .or_else("once, at `from`");
    pub(crate) const TIMES: Key<u32> = Key::<u32>::integer(
        "times",
        1..=MESSAGES_MAX,
        "All but `poisson` and those with a `file`: number of bursts or rounds, with `every` and in place of `until`; in \
         `closed-loop` of messages per host, in `collective` of repetitions.",
    )
    .or_else("until the end, `collective` 1");
    const FROM: Key<()> = Key::other("from", UP_TO_END, "All but `list`: instant from which messages start.").or("0s");
    const UNTIL: Key<()> =
        Key::other("until", UP_TO_END, "All but `list`: instant before which messages start.").or_else("`end`");
    const FILE: Key<()> = Key::other(
        "file",
        "path",
        "`list`, `goal`, `connection-matrix`: file with the [list](WORKLOADS.md#lists), [schedule or \
             matrix](WORKLOADS.md#collectives), relative to the scenario.",
    )
    .or_else("required");
    pub(crate) const SEED: Key<u64> =
        Key::<u64>::integer("seed", SEEDS, "Seed of the messages; equal seeds draw equal ones.")
            .or_else("by workload, from the scenario's");
    pub(crate) const DPORT: Key<u16> = Key::<u16>::integer(
        "dport",
        1..=65_535,
        "Destination port of the messages in [`fct.txt`](SCENARIOS.md#files-of-other-simulators); without other \
         effect.",
    )
    .or_else("100 for the first, 101 for the next");

    pub(crate) const KEYS: Keys = &[
        &NAME,
        &KIND,
        &CLASS,
        &MORE_CLASSES,
        &SIZES,
        &COLLECTIVE,
        &BYTES,
        &CHUNKS,
        &COMPUTE,
        &LOAD,
        &SENDERS,
        &RECEIVERS,
        &EQUAL_SIZES,
        &FAN_IN,
        &GROUPS_OF,
        &OUTSTANDING,
        &EVERY,
        &TIMES,
        &FROM,
        &UNTIL,
        &FILE,
        &nic::CONGESTION_CONTROL,
        &nic::TRANSPORT,
        &SEED,
        &DPORT,
    ];

    const SIZES_FILE: Key<()> =
        Key::other("file", "path", "File with the [distribution](WORKLOADS.md#sizes), relative to the scenario.")
            .or_else("required");
    pub(super) const SIZES_KEYS: Keys = &[&SIZES_FILE];
}

/// Tables of few keys.
pub(super) mod others {
    use super::*;

    const ROUTE_SWITCH: Key<()> = Key::other("switch", "switch", "Switch that has the route.").or_else("required");
    const ROUTE_HOST: Key<()> =
        Key::other("host", "host", "Host that frames on the route are for.").or_else("required");
    const ROUTE_PORT: Key<()> =
        Key::other("port", "port of the switch", "Port of the switch by which these frames leave: `\"next\"`.")
            .or_else("required");
    pub(super) const ROUTE: Keys = &[&ROUTE_SWITCH, &ROUTE_HOST, &ROUTE_PORT];

    const LINK: Key<()> = Key::other(
        "link",
        "two names",
        "Link, by its ends: `[\"S0\", \"L3\"]`, `[\"L3\", \"H12\"]`. This means all parallel links; one of them is \
         `[\"S0.to-L3.1\", \"L3\"]` (port) or `[\"S0\", \"L3.1\"]` (number).",
    )
    .or_else("required");
    const AT: Key<()> =
        Key::other("at", UP_TO_END, "Instant of the cut; frames on the link are lost.").or_else("required");
    const MENDED: Key<()> =
        Key::other("until", UP_TO_END, "Instant of the repair; with `every`, by which all outages end.")
            .or_else("never; with `every`, `end`");
    pub(crate) const INTERVAL: Key<Span> =
        Key::time("every", PERIODS, "Interval at which the link fails again, a thousand times at most; with `for`.")
            .or_else("once");
    pub(crate) const OUTAGE_LENGTH: Key<Span> =
        Key::time("for", PERIODS, "Length of each outage, with `every`.").or_else("up to `until`");
    pub(super) const OUTAGE: Keys = &[&LINK, &AT, &MENDED, &INTERVAL, &OUTAGE_LENGTH];

    const CHANGE_AT: Key<()> = Key::other("at", UP_TO_END, "Instant of the change.").or_else("required");
    const CHANGE_KEY: Key<()> = Key::other(
        "key",
        "key",
        "Key of `[switch.buffer]` or `[[switch.classes.queues]]` that `weir set` changes, in its form: `\"buffer.dt.alpha\"`, \
         `\"classes.queues.3.ecn.kmin\"`. Virtual time only.",
    )
    .or_else("required");
    const CHANGE_VALUE: Key<()> = Key::other("value", "value of the key", "Value from then on.").or_else("required");
    const CHANGE_RUN: Key<()> = Key::other("run", "run", "Run of `[[runs]]` that changes.").or_else("all runs");
    pub(super) const CHANGE: Keys = &[&CHANGE_AT, &CHANGE_KEY, &CHANGE_VALUE, &CHANGE_RUN];

    const BUFFER_MAX: Bytes = Bytes::mb(1_000);
    const HOSTS: Key<()> =
        Key::other("hosts", "list of hosts", "Hosts that are slow, each in one table at most.").or_else("all hosts");
    pub(crate) const RATE: Key<BitRate> = Key::rate(
        "rate",
        rates(),
        "Rate at which data is processed, up to the link's, in bytes on the wire; `\"1Mbps\"` for a near standstill.",
    )
    .or_else("required");
    pub(crate) const BUFFER: Key<Bytes> = Key::size(
        "buffer",
        Bytes::new(1)..=BUFFER_MAX,
        "Room per class, for frames with FCS: about the lossless half of a ConnectX's 262016 B.",
    )
    .or_else("`\"128KiB\"`, or more where flow control needs it");
    pub(crate) const XOFF: Key<Bytes> = Key::size(
        "xoff",
        Bytes::new(1)..=BUFFER_MAX,
        "PFC and PAUSE: occupancy that pauses a lossless class, and the limit of a lossy one; below `buffer`.",
    )
    .or_else("`buffer` less headroom");
    pub(crate) const XON: Key<Bytes> = Key::size(
        "xon",
        Bytes::ZERO..=BUFFER_MAX,
        "PFC and PAUSE: occupancy at or below which a paused class resumes; below `xoff`.",
    )
    .or_else("`xoff` less a frame of the greatest length");
    const SLOW_FROM: Key<()> = Key::other("from", UP_TO_END, "Start of the slow interval.").or("0s");
    const SLOW_UNTIL: Key<()> =
        Key::other("until", UP_TO_END, "End of the slow interval; the buffer empties at once.").or_else("never");
    pub(super) const SLOW_RECEIVER: Keys = &[&HOSTS, &RATE, &BUFFER, &XOFF, &XON, &SLOW_FROM, &SLOW_UNTIL];

    const WINDOW_NAME: Key<()> = Key::other("name", "name", "Name of the window.").or_else("required");
    const WINDOW_FROM: Key<()> = Key::other("from", UP_TO_END, "Start of the window.").or("0s");
    const WINDOW_TO: Key<()> = Key::other("to", UP_TO_END, "End of the window.").or_else("`end`");
    pub(super) const WINDOW: Keys = &[&WINDOW_NAME, &WINDOW_FROM, &WINDOW_TO];

    const CAPTURED_HOST: Key<()> =
        Key::other("host", "host", "Host behind the port that is captured.").or_else("required");
    const DATA_FROM: Key<()> = Key::other("data_from", UP_TO_END, "Instant from which data is captured.").or("0s");
    pub(crate) const DATA_FRAMES: Key<u32> =
        Key::<u32>::integer("data_frames", 0..=10_000_000, "Number of data frames that are captured.").or("8192");
    pub(super) const CAPTURE: Keys = &[&CAPTURED_HOST, &DATA_FROM, &DATA_FRAMES];

    const RUN_NAME: Key<()> =
        Key::other("name", "1 to 60 characters", "Name of the run, in words: `\"GFC by stages\"`.").or_else("required");
    pub(crate) const EXPECT: Key<Expectation> = Key::choice(
        "expect",
        &[
            ("flow", Expectation::Flow),
            ("deadlock", Expectation::Deadlock),
            ("either", Expectation::Either),
            ("loss", Expectation::Loss),
        ],
        "Expected outcome: no deadlock, a lasting one, or either; `\"loss\"`: no deadlock, and maybe lost lossless frames. Other \
         outcomes fail the command.",
    )
    .or("flow");
    const RUN_SWITCH: Key<()> =
        Key::other("switch", "table", "Settings that [override](SCENARIOS.md#runsswitch) those of `[switch]`.")
            .or_else("`[switch]` as it is");
    pub(crate) const RUN_UNSCHEDULED_ALPHA: Key<Alpha> =
        Key::alpha("unscheduled_alpha", "The run's own `unscheduled_alpha`.").or_else("that of `[scenario]`");
    pub(super) const RUN: Keys = &[&RUN_NAME, &EXPECT, &RUN_UNSCHEDULED_ALPHA, &RUN_SWITCH];
}

/// Returns all tables and keys, in the order of the reference. Kinds of congestion control have tables of their own in `[nic]`, flows and
/// workloads; the kinds are known at run time only.
fn tables() -> &'static [TableSchema] {
    static ALL: OnceLock<Vec<TableSchema>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut all = FIXED.to_vec();
        for name in ["switch", "runs.switch"] {
            all.push(TableSchema::table(name, switch::KEYS).with_keys_of(PATH_SELECTORS.all()));
        }
        all.extend(with_kinds(TableSchema::table("nic", nic::KEYS).with_renamed(nic::RENAMED)));
        all.extend(with_kinds(TableSchema::array("flows", flow::KEYS)));
        all.extend(with_kinds(TableSchema::array("workloads", workload::KEYS)));
        all
    })
}

/// Returns a table, and its subtables of all kinds.
fn with_kinds(table: TableSchema) -> impl Iterator<Item = TableSchema> {
    let above = table.with_tables_of(kinds().map(|kind| kind.id())).selected_by("congestion_control", NONE);
    std::iter::once(above).chain(kinds().map(move |kind| TableSchema::of_kind(table.name, kind)))
}

/// Returns the name of a kind's table.
pub(super) fn name_of(above: &str, kind: &str) -> &'static str {
    let is_meant = |name: &str| name.strip_prefix(above).and_then(|rest| rest.strip_prefix('.')) == Some(kind);
    tables().iter().map(|table| table.name).find(|name| is_meant(name)).expect("each kind has its tables")
}

/// Whether a name is a key of a table that kinds have subtables in.
pub(super) fn is_reserved(name: &str) -> bool {
    [nic::KEYS, flow::KEYS, workload::KEYS].iter().any(|keys| names(keys).any(|key| key == name))
}

/// Returns the names of keys.
pub(super) fn names(keys: &[&'static dyn AnyKey]) -> impl Iterator<Item = &'static str> {
    keys.iter().map(|key| key.name())
}

/// Tables without subtables of kinds.
const FIXED: &[TableSchema] = &[
    TableSchema::table("", top_level::KEYS),
    TableSchema::table("scenario", scenario::KEYS).with_renamed(&[("draw", "plot_ports")]),
    TableSchema::table("switch.port", OF_PORT),
    TableSchema::table("topology", topology::KEYS),
    TableSchema::array("switches", nodes::SWITCH),
    TableSchema::array("links", nodes::LINK),
    TableSchema::inline("links.devices", "`devices` of [[links]]", OF_DEVICE),
    TableSchema::array("links.faults", faults::KEYS),
    TableSchema::array("hosts", nodes::HOST).with_renamed(&[("reach", "backend")]),
    TableSchema::inline("hosts.device", "`device` of [[hosts]]", OF_DEVICE),
    TableSchema::inline("hosts.port_device", "`port_device` of [[hosts]]", OF_DEVICE),
    TableSchema::inline("hosts.backend", "`backend` of [[hosts]]", nodes::BACKEND_KEYS),
    TableSchema::array("hosts.faults", faults::KEYS),
    // Tables of a host's own device, which has the keys of a port's.
    TableSchema::inline("ports.pci", "`pci`", device::PCI_KEYS),
    // Hosts and wires have one queue.
    TableSchema::inline("ports.vhost_user", "`vhost_user`", device::ONE_QUEUE_VHOST_USER_KEYS),
    TableSchema::inline("ports.memif", "`memif`", device::MEMIF_KEYS),
    TableSchema::inline("ports.pcap", "`pcap`", device::PCAP_KEYS),
    TableSchema::inline("ports.null", "`null`", device::NULL_KEYS),
    TableSchema::inline("workloads.sizes", "`sizes` of [[workloads]]", workload::SIZES_KEYS),
    TableSchema::array("routes", others::ROUTE),
    TableSchema::array("outages", others::OUTAGE),
    TableSchema::array("changes", others::CHANGE),
    TableSchema::array("slow_receivers", others::SLOW_RECEIVER),
    TableSchema::array("windows", others::WINDOW),
    TableSchema::table("llr", llr::KEYS),
    TableSchema::table("capture", others::CAPTURE),
    TableSchema::array("runs", others::RUN),
    TableSchema::table("runs.switch.port", OF_PORT),
];
