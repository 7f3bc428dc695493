//! Tables and keys of a switch's file.

use std::ops::RangeInclusive;
use std::sync::LazyLock;

use weir_arbitration::ARBITERS;
use weir_flowctl::FLOW_CONTROLS;
use weir_load_balancing::PATH_SELECTORS;
use weir_mmu::policy::{BUFFER_POLICIES, DEFAULT, known_tables};
use weir_reader::{Keys, TableSchema, rates};
use weir_units::{BitRate, Bytes, Span};

use crate::buffer::BUFFER_MAX;

const SIZES: RangeInclusive<Bytes> = Bytes::ZERO..=BUFFER_MAX;
const UP_TO_A_SECOND: RangeInclusive<Span> = Span::ZERO..=Span::from_secs(1);

/// Reasons why keys need a restart.
mod reasons {
    pub(super) const CLOCK: &str = "the clock, the poll loops and the work on each frame are set at the start";
    pub(super) const LCORES: &str = "lcores are started, and memory is allocated to them, at the start";
    pub(super) const CONTROL: &str = "the control socket is created at the start";
    pub(super) const BUFFER: &str = "the buffer is cut, and packet memory taken, at the start";
    pub(super) const CLASSES: &str = "headroom and the maps to classes are set for the lossless classes at the start";
    pub(super) const QUEUES: &str = "egress queues are created for one arbitration at the start";
    pub(super) const PFC: &str = "each port's flow control is created with it at the start";
    pub(super) const HEADROOM: &str = "headroom is sized with it at the start";
    pub(super) const VLANS: &str = "lcores and the forwarding table know the VLANs from the start";
    pub(super) const DEVICES: &str = "devices are opened at the start";
}

/// `[switch]`.
pub mod switch {
    use weir_reader::{Key, times_from};

    use super::*;
    use crate::{IdlePolicy, TelemetryQueue};

    /// Name.
    pub const NAME: Key<()> = Key::other("name", "name", "Name of the switch in logs and in names of files.")
        .or_else("the file's name without `.toml`")
        .restart("logs, records and the control socket have the name since the start");
    /// Behaviour of an idle lcore.
    pub const IDLE: Key<IdlePolicy> = Key::choice(
        "idle",
        &[("poll", IdlePolicy::Poll), ("yield", IdlePolicy::Yield), ("sleep", IdlePolicy::Sleep)],
        "What an idle lcore does: polls (lowest latency, a whole core), yields its time slice, or sleeps.",
    )
    .or("yield")
    .restart(reasons::CLOCK);
    /// Slowdown of the clock.
    pub const TIME_DILATION: Key<u32> = Key::<u32>::integer(
        "time_dilation",
        1..=1_000_000,
        "Slowdown of the switch's clock, and so of all rates, delays and timers; 1 with real hosts.",
    )
    .or("1")
    .restart(reasons::CLOCK);
    /// Longest payload.
    pub const MTU: Key<Bytes> = Key::byte_count(
        "mtu",
        Bytes::new(64)..=Bytes::new(16_000),
        "Maximum payload of a frame, beside up to two VLAN tags; longer frames are dropped. Thresholds and headroom \
         count one tag.",
    )
    .or("1500")
    .restart("headroom and packet memory are sized for the longest frame at the start");
    /// Lifetime of learned addresses.
    pub const MAC_AGEING: Key<Span> =
        Key::time("mac_ageing", times_from(Span::from_millis(1)), "Lifetime of a learned MAC address, plus up to 1 %.")
            .or("300s")
            .restart("the forwarding table counts age in ticks of a length that is set at the start");
    /// Size of the forwarding table.
    pub const FDB_SIZE: Key<u32> = Key::<u32>::integer(
        "fdb_size",
        64..=131_072,
        "Number of stations for which the forwarding table has room. Each takes 64 B, and 128 B on each lcore that forwards. \
         Beyond it a new station replaces the one that was silent longest, to which frames are then flooded.",
    )
    .or("16384")
    .restart("the forwarding table is allocated at the start");
    /// Period of published counters.
    pub const STATS_INTERVAL: Key<Span> = Key::time(
        "stats_interval",
        Span::from_millis(1)..=Span::from_secs(3_600),
        "Period at which counters are published, in real time.",
    )
    .or("1s")
    .live();
    /// Whether frames get telemetry.
    pub const TELEMETRY: Key<bool> = Key::boolean(
        "telemetry",
        "Whether the switch stamps [telemetry trailers](FRAMES.md#telemetry-trailer) (HPCC, PowerTCP), for which it \
         reads each departing frame.",
    )
    .or("false")
    .restart(reasons::CLOCK);

    /// Queues that telemetry counts.
    pub const TELEMETRY_QUEUE: Key<TelemetryQueue> = Key::choice(
        "telemetry_queue",
        &[("class", TelemetryQueue::Class), ("port", TelemetryQueue::Port)],
        "Queue in telemetry: that of the frame's own class, or all classes of the port together, as HPCC's simulator and \
         its successors stamp. They are equal where all data of a port has one class.",
    )
    .or("class")
    .restart(reasons::CLOCK);

    /// Choice among ports of equal cost.
    pub const LOAD_BALANCING: Key<()> = Key::other(
        "load_balancing",
        "a [load balancing](SCENARIOS.md#ways-of-equal-cost)",
        "Choice of a frame's port among several of equal cost.",
    )
    .or("flow-hash")
    .restart(reasons::LCORES);

    /// Whether the switch speaks LLDP.
    pub const LLDP: Key<bool> = Key::boolean(
        "lldp",
        "Whether `weir run` sends and receives [LLDP and DCBX](OPERATING.md#lldp-dcbx-and-loops), and closes ports that \
         are cabled to each other.",
    )
    .or("false")
    .restart(reasons::LCORES);

    /// Limit of the frames that a port may flood.
    pub const STORM_CONTROL: Key<BitRate> = Key::rate(
        "storm_control",
        rates(),
        "Rate on the wire at which each port may send broadcasts, multicasts, and frames to unknown stations; 100 ms of it at once. \
         Beyond it they are [dropped](OPERATING.md#storms-moves-and-stations), lossless ones too.",
    )
    .or_else("no limit")
    .live();

    pub(super) const KEYS: Keys = &[
        &NAME,
        &IDLE,
        &TIME_DILATION,
        &MTU,
        &MAC_AGEING,
        &FDB_SIZE,
        &STATS_INTERVAL,
        &TELEMETRY,
        &TELEMETRY_QUEUE,
        &LOAD_BALANCING,
        &LLDP,
        &STORM_CONTROL,
    ];
}

/// `[lcores]`.
pub(crate) mod lcores {
    use weir_reader::Key;

    use super::*;
    use crate::LcoreLayout;

    pub(crate) const LAYOUT: Key<LcoreLayout> = Key::choice(
        "layout",
        &[
            ("auto", LcoreLayout::Auto),
            ("single", LcoreLayout::Single),
            ("rx-tx", LcoreLayout::RxTx),
            ("rx-fwd-tx", LcoreLayout::RxFwdTx),
        ],
        "Division of work among cores. `single`: each serves its own ports; without `cores` there is one. `auto`: \
         `single` on min(CPUs, ports, 4) cores. `rx-tx`: RX and forwarding on one core, TX on another. `rx-fwd-tx`: \
         one core each, as in the papers.",
    )
    .or("auto")
    .restart(reasons::LCORES);
    pub(crate) const CORES: Key<()> = Key::other(
        "cores",
        "list of CPUs, 0 to 1023",
        "CPUs of the lcores, in the order of the roles of `layout`; empty: those of the process.",
    )
    .or("[]")
    .restart(reasons::LCORES);
    pub(crate) const CATCH_UP: Key<Span> = Key::time(
        "catch_up",
        UP_TO_A_SECOND,
        "Maximum lateness, in real time, that a [late poll](CONFIGURATION.md#late-polls) makes up. `\"auto\"`: twice the longest \
         poll gap of the last second or two, 200 us to 100 ms.",
    )
    .or_keyword("auto")
    .or("auto")
    .restart(reasons::LCORES);

    pub(super) const KEYS: Keys = &[&LAYOUT, &CORES, &CATCH_UP];
}

/// `[control]`, and the sockets of devices.
pub(crate) mod control {
    use weir_reader::Key;

    use super::*;

    pub(crate) const SOCKET: Key<()> = Key::other(
        "socket",
        "path, or `\"none\"`",
        "Path of the control socket, or none; `weir run --control` overrides it.",
    )
    .or_else("the [usual place](OPERATING.md#the-control-socket)")
    .restart(reasons::CONTROL);
    pub(crate) const MODE: Key<()> =
        Key::other("mode", "three octal digits", "Permissions of the socket; connecting takes write permission.")
            .or_else("`\"0600\"`, with `group` `\"0660\"`")
            .restart(reasons::CONTROL);
    pub(crate) const GROUP: Key<()> = Key::other("group", "name or number", "Group of the socket.")
        .or_else("the process's")
        .restart(reasons::CONTROL);

    pub(super) const KEYS: Keys = &[&SOCKET, &MODE, &GROUP];
}

/// `[buffer]`, without the policies' tables.
pub(crate) mod buffer {
    use weir_reader::Key;
    use weir_units::{Alpha, FRAME_BYTES_MIN};

    use super::*;

    pub(crate) const SIZE: Key<Bytes> = Key::size(
        "size",
        Bytes::new(1)..=BUFFER_MAX,
        "B: size of the buffer, with private buffers, shared buffer and headroom.",
    )
    .or("12MB")
    .restart(reasons::BUFFER);
    pub(crate) const CELL_BYTES: Key<Bytes> = Key::byte_count(
        "cell_bytes",
        Bytes::new(1)..=Bytes::new(4_096),
        "Size of a cell; a frame takes whole cells (chips: usually 208).",
    )
    .or("1")
    .restart(reasons::BUFFER);
    pub(crate) const SLICES: Key<u32> = Key::<u32>::integer(
        "slices",
        1..=64,
        "Slices of the memory ([as in Tomahawk](IMPORT.md#pools-by-chip)): neighbouring ports, in the file's order, share \
         one, with its part of the shared buffer or pools. Under `static`, `dt`, `sonic`.",
    )
    .or("1")
    .restart(reasons::BUFFER);
    pub(crate) const MEAN_FRAME: Key<Bytes> = Key::byte_count(
        "mean_frame",
        Bytes::new(FRAME_BYTES_MIN)..=Bytes::new(16_384),
        "Frame length, with FCS, for which DPDK's [packet memory](CONFIGURATION.md#packet-memory) is sized, and \
         least charge of a frame; `\"exact\"`: the shortest frame. Without effect in virtual time.",
    )
    .or_keyword("exact")
    .or("256")
    .restart(reasons::BUFFER);
    pub(crate) const PRIVATE: Key<Bytes> =
        Key::size("private", SIZES, "ρ: private buffer of each ingress queue (port and class).")
            .or("0B")
            .restart(reasons::BUFFER);
    pub(crate) const HEADROOM: Key<Bytes> = Key::size(
        "headroom",
        SIZES,
        "Φ: headroom of each lossless ingress queue. `\"auto\"`: 2 (C·D_prop + frame) + max(3840 B, frame + 84 B) + \
         C·`[pfc] reaction` + a NIC's [transmit backlog](CONFIGURATION.md#transmit-backlog); C: `rate`, D_prop: `delay`.",
    )
    .or_keyword("auto")
    .or("auto")
    .restart(reasons::BUFFER);
    pub(crate) const XON_OFFSET: Key<Bytes> =
        Key::size("xon_offset", SIZES, "δ: how far below its threshold a paused queue with empty headroom resumes.")
            .or_else("2 frames")
            .live();
    pub(crate) const XON_FLOOR: Key<Bytes> = Key::size(
        "xon_floor",
        SIZES,
        "Least length at which a paused queue with empty headroom resumes: Xon is max(`xon_floor`, T − δ). Not \
         under `reverie`, which resumes where it pauses.",
    )
    .or("0B")
    .live();
    pub(crate) const POLICY: Key<()> = Key::other(
        "policy",
        "a [policy](POLICIES.md#policies)",
        "Buffer policy, which sets the thresholds of ingress queues.",
    )
    .or(DEFAULT)
    .restart("the policy's partition of the buffer and its estimates are created at the start");
    pub(crate) const LOSSY_ALPHA: Key<Alpha> = Key::alpha(
        "lossy_alpha",
        "α°: lossy egress queues drop at α° times the free buffer (`sonic`, `abm`: times the free egress lossy \
         pool; `reverie`: α° in the place of α).",
    )
    .or("1")
    .live();
    const RATES: Key<()> =
        Key::other("rates", "tables", "Settings of the ports of [one rate](CONFIGURATION.md#bufferrates).")
            .restart(reasons::BUFFER);

    pub(super) const KEYS: Keys = &[
        &SIZE,
        &CELL_BYTES,
        &SLICES,
        &MEAN_FRAME,
        &PRIVATE,
        &HEADROOM,
        &XON_OFFSET,
        &XON_FLOOR,
        &POLICY,
        &LOSSY_ALPHA,
        &RATES,
    ];
}

/// `[[buffer.rates]]`.
pub(crate) mod buffer_rates {
    use weir_reader::Key;
    use weir_units::Alpha;

    use super::*;

    pub(crate) const RATE: Key<BitRate> =
        Key::rate("rate", rates(), "Ports that the settings are for: those with this `rate` at the start.")
            .or_else("required")
            .restart(reasons::BUFFER);
    pub(crate) const PRIVATE: Key<Bytes> =
        Key::size("private", SIZES, "ρ: private buffer of each ingress queue of these ports.")
            .or_else("that of `[buffer]`")
            .restart(reasons::BUFFER);
    pub(crate) const HEADROOM: Key<Bytes> =
        Key::size("headroom", SIZES, "Φ: headroom of each lossless ingress queue of these ports.")
            .or_else("that of `[buffer]`")
            .restart(reasons::BUFFER);
    pub(crate) const ALPHA: Key<Alpha> =
        Key::alpha("alpha", "α: factor of the thresholds of these ports, under `dt` only.")
            .or_else("that of the policy")
            .restart(reasons::BUFFER);

    pub(crate) const KEYS: Keys = &[&RATE, &PRIVATE, &HEADROOM, &ALPHA];
}

/// `[classes]`.
pub(crate) mod classes {
    use weir_reader::Key;

    use super::*;
    use crate::classes::{Preset, ROCE, SONIC};
    use crate::{SchedulerKind, Trust};

    pub(crate) const PRESET: Key<Preset> = Key::choice(
        "preset",
        &[("sonic", SONIC), ("roce", ROCE)],
        "Defaults of `lossless`, `dscp` and strict queues: [presets](CONFIGURATION.md#classes).",
    )
    .or("sonic")
    .restart(reasons::CLASSES);
    pub(crate) const LOSSLESS: Key<()> = Key::other(
        "lossless",
        "list of classes",
        "Classes that are paused, never dropped: priority groups and queues of these numbers. `[]`: a lossy switch.",
    )
    .or_else("by preset")
    .restart(reasons::CLASSES);
    pub(super) const TRUSTS: &[(&str, Trust)] = &[("dscp", Trust::Dscp), ("pcp", Trust::Pcp), ("port", Trust::Port)];
    pub(crate) const TRUST: Key<Trust> = Key::choice(
        "trust",
        TRUSTS,
        "What gives a frame its class: DSCP, PCP, or its port, by `priority`, which also applies to frames without \
         the field.",
    )
    .or("dscp")
    .restart(reasons::CLASSES);
    pub(crate) const SCHEDULER: Key<SchedulerKind> = Key::choice(
        "scheduler",
        &[("dwrr", SchedulerKind::Dwrr), ("packet-rr", SchedulerKind::PacketRr)],
        "Order of service of queues that are not strict: by bytes (deficit weighted round robin) or by frames. \
         Frames whose port has empty queues, and a line free for all of them, leave in order of arrival.",
    )
    .or("dwrr")
    .restart("the queues' deficits are counted in its unit from the start");
    const DSCP: Key<()> = Key::other(
        "dscp",
        "table",
        "[Classes of DSCP values](CONFIGURATION.md#classes), over the preset's: `26 = 3` or `\"40-47\" = 5`.",
    )
    .restart(reasons::CLASSES);
    const PCP: Key<()> =
        Key::other("pcp", "table", "Classes of PCP values, over the preset's: `0 = 1`.").restart(reasons::CLASSES);
    pub(crate) const TC_TO_PG: Key<()> = Key::other(
        "tc_to_pg",
        "table",
        "Priority groups (ingress queues) of classes, by default of the class's number: `{ 3 = 2 }`.",
    )
    .restart(reasons::CLASSES);
    pub(crate) const TC_TO_QUEUE: Key<()> =
        Key::other("tc_to_queue", "table", "Egress queues of classes, by default of the class's number.")
            .restart(reasons::CLASSES);
    const QUEUES: Key<()> =
        Key::other("queues", "tables", "Settings of egress queues by class.").restart(reasons::QUEUES);

    pub(super) const KEYS: Keys =
        &[&PRESET, &LOSSLESS, &TRUST, &SCHEDULER, &DSCP, &PCP, &TC_TO_PG, &TC_TO_QUEUE, &QUEUES];
}

/// `[[classes.queues]]` and their `ecn`.
pub(crate) mod queues {
    use weir_reader::Key;

    use super::*;

    pub(crate) const CLASS: Key<u8> =
        Key::<u8>::integer("class", 0..=7, "Class of the queues.").or_else("required").restart(reasons::QUEUES);
    pub(crate) const STRICT: Key<bool> =
        Key::boolean("strict", "Whether the queue is served before others, the higher class first.")
            .or_else("by preset")
            .live();
    pub(crate) const QUANTUM: Key<Bytes> = Key::byte_count(
        "quantum",
        Bytes::new(1)..=Bytes::mb(1_000),
        "Bytes that the queue sends per round of DWRR. Not with `weight` or `scheduler = \"packet-rr\"`.",
    )
    .or_else("1600, or a frame if that is more")
    .live();
    pub(crate) const WEIGHT: Key<u32> = Key::<u32>::integer(
        "weight",
        1..=1_000,
        "Quantum as a multiple of the default one; with `scheduler = \"packet-rr\"` frames per round.",
    )
    .or_else("1")
    .live();
    pub(crate) const RATE: Key<BitRate> = Key::rate(
        "rate",
        rates(),
        "Maximum rate of the queue, kept frame by frame; bursts only after [late \
         polls](CONFIGURATION.md#late-polls). Unused rate goes to others. `weir check` warns of one above a port's.",
    )
    .or_else("the port's")
    .live();
    const ECN: Key<()> = Key::other(
        "ecn",
        "table",
        "ECN marking by the length of the egress queue: `{ kmin, kmax, pmax, at_rate, mark_on }`.",
    )
    .or_else("never marks")
    .live();
    pub(crate) const ARBITRATION: Key<()> = Key::other(
        "arbitration",
        "`\"arrival\"`, `\"round-robin\"`, `\"random\"`",
        "Order of the ingress ports' frames in the queue; decisive in [rings of \
         switches](ARCHITECTURE.md#the-ring). Frames of one port keep their order.",
    )
    .or("arrival")
    .restart(reasons::QUEUES);

    pub(super) const KEYS: Keys = &[&CLASS, &STRICT, &QUANTUM, &WEIGHT, &RATE, &ECN, &ARBITRATION];

    const THRESHOLDS: RangeInclusive<Bytes> = Bytes::new(1)..=Bytes::mb(16_000);
    pub(crate) const KMIN: Key<Bytes> =
        Key::size("kmin", THRESHOLDS, "K_min: queue length below which no frame is marked.").or_else("required").live();
    pub(crate) const KMAX: Key<Bytes> = Key::size(
        "kmax",
        THRESHOLDS,
        "K_max: queue length above which all frames are marked. `kmin = kmax` is DCTCP's step.",
    )
    .or_else("required")
    .live();
    pub(crate) const PMAX: Key<f64> =
        Key::probability("pmax", "P_max: probability of a mark at `kmax`, rising from 0 at `kmin`.").or("1").live();
    pub(crate) const AT_RATE: Key<BitRate> = Key::rate(
        "at_rate",
        rates(),
        "Port rate that `kmin` and `kmax` are for; at ports of other rates they are in proportion. Without it they \
         are the same at all.",
    )
    .live();
    pub(crate) const MARK_ON: Key<bool> = Key::choice(
        "mark_on",
        &[("departure", false), ("arrival", true)],
        "Frames that are marked: those that leave a long queue (earliest signal), or those that enter one, each \
         with its whole burst in the queue.",
    )
    .or("departure")
    .live();

    pub(super) const ECN_KEYS: Keys = &[&KMIN, &KMAX, &PMAX, &AT_RATE, &MARK_ON];
}

/// `[pfc]`.
pub(crate) mod pfc {
    use weir_reader::Key;

    use super::*;

    pub(crate) const QUANTA: Key<u16> =
        Key::<u16>::integer("quanta", 1..=65_535, "Pause time of a PAUSE, in 512 bit times of the port's rate.")
            .or("65535")
            .restart(reasons::PFC);
    pub(crate) const REFRESH_PERCENT: Key<u8> = Key::<u8>::integer(
        "refresh_percent",
        1..=90,
        "Share of the pause time, in percent, after which PAUSE is repeated.",
    )
    .or("50")
    .restart(reasons::PFC);
    pub(crate) const REACTION: Key<Span> = Key::time(
        "reaction",
        UP_TO_A_SECOND,
        "Time from a frame's arrival until its PAUSE leaves the device: polling, and queues of devices other than \
         NICs; `\"0s\"` in the papers. `headroom = \"auto\"` adds it. The summary has the measured \"Xoff to \
         PAUSE\" (GFC by stages: \"stage's start to message\").",
    )
    .or_else("50 us of real time")
    .restart(reasons::HEADROOM);
    pub(crate) const OBEY: Key<bool> = Key::choice(
        "obey",
        &[("lossless", false), ("all", true)],
        "Classes that a peer's PFC pauses. PFC for others is ignored, counted (`pfc_rx_lossy`) and logged, as a \
         stopped lossy queue holds buffer.",
    )
    .or("lossless")
    .restart(reasons::PFC);

    pub(super) const KEYS: Keys = &[&QUANTA, &REFRESH_PERCENT, &REACTION, &OBEY];
}

/// `[pfc_watchdog]`.
pub(crate) mod pfc_watchdog {
    use weir_reader::Key;

    use super::*;
    use crate::{StormCondition, WatchdogAction};

    const TIMES: RangeInclusive<Span> = Span::from_micros(1)..=Span::from_secs(1_000);
    const TIME_DEFAULT: &str = "200 ms, and as much again for each further 32 ports without clones";
    pub(crate) const ACTION: Key<WatchdogAction> = Key::choice(
        "action",
        &[
            (WatchdogAction::Drop.name(), WatchdogAction::Drop),
            (WatchdogAction::Forward.name(), WatchdogAction::Forward),
            (WatchdogAction::Alert.name(), WatchdogAction::Alert),
        ],
        "Action in a storm. `\"drop\"`: drops the queue, arrivals for it, and frames that its port receives in the \
         class; sends no PFC for it. `\"forward\"`: ignores the pause. `\"alert\"`: only reports.",
    )
    .or("drop")
    .live();
    pub(crate) const DETECTION_TIME: Key<Span> = Key::time(
        "detection_time",
        TIMES,
        "Time for which `condition` must hold to be a storm; at least `poll_interval`.",
    )
    .or_else(TIME_DEFAULT)
    .live();
    pub(crate) const RESTORATION_TIME: Key<Span> = Key::time(
        "restoration_time",
        TIMES,
        "Time without PFC of the class, RESUME included, that ends a storm; under `\"alert\"` the first poll with the condition \
         false does. At least `poll_interval`.",
    )
    .or_else(TIME_DEFAULT)
    .live();
    pub(crate) const POLL_INTERVAL: Key<Span> =
        Key::time("poll_interval", TIMES, "Time between polls of a queue.").or_else(TIME_DEFAULT).live();
    pub(crate) const CONDITION: Key<StormCondition> = Key::choice(
        "condition",
        &[("pfc-received", StormCondition::PfcReceived), ("queue-stalled", StormCondition::QueueStalled)],
        "Sign of a storm. `\"pfc-received\"` (SONiC on Broadcom): queue paused at two polls, between them paused \
         again by PFC and not resumed; it may be empty. `\"queue-stalled\"` (Mellanox): it has packets, sent none, \
         and was paused over 99 % of the interval.",
    )
    .or("pfc-received")
    .live();

    pub(super) const KEYS: Keys = &[&ACTION, &DETECTION_TIME, &RESTORATION_TIME, &POLL_INTERVAL, &CONDITION];
}

/// `[[ports]]`.
pub mod port {
    use weir_reader::Key;
    use weir_units::Alpha;

    use super::*;
    use crate::{PeerKind, PortState, Trust};

    /// Name.
    pub const NAME: Key<()> =
        Key::other("name", "name", "Name of the port.").or_else("required").restart(reasons::DEVICES);
    /// Rate C of the port.
    pub const RATE: Key<BitRate> = Key::rate(
        "rate",
        rates(),
        "C: rate to which the port is shaped. Without it the port [follows its \
         link](CONFIGURATION.md#ports-without-a-rate).",
    )
    .or_else("the device's own")
    .live();
    /// Propagation delay D_prop of the link.
    pub const DELAY: Key<Span> = Key::time("delay", UP_TO_A_SECOND, "D_prop: one-way propagation delay; 5 ns a metre.")
        .or("100ns")
        .restart(reasons::HEADROOM);
    /// Headroom Φ of each lossless ingress queue.
    pub const HEADROOM: Key<Bytes> = Key::size("headroom", SIZES, "Φ: headroom of each lossless ingress queue.")
        .or_else("that of [its rate](CONFIGURATION.md#bufferrates), else of `[buffer]`")
        .restart(reasons::BUFFER);
    /// Private buffer ρ of each ingress queue.
    pub const PRIVATE: Key<Bytes> = Key::size("private", SIZES, "ρ: private buffer of each ingress queue.")
        .or_else("that of [its rate](CONFIGURATION.md#bufferrates), else of `[buffer]`")
        .restart(reasons::BUFFER);
    /// Factor α of the port's thresholds.
    pub const ALPHA: Key<Alpha> =
        Key::alpha("alpha", "α: factor of the port's thresholds, under `dt` only; `alpha_at_rate` applies to it.")
            .or_else("that of [its rate](CONFIGURATION.md#bufferrates), else of the policy")
            .restart("the policy has the ports' own α from the start");
    pub(crate) const PEER: Key<PeerKind> = Key::choice(
        "peer",
        &[("switch", PeerKind::Switch), ("host", PeerKind::Host)],
        "Peer of the port; `\"host\"` for one that forwards nothing. Only ports to hosts, with a rate and PFC or PAUSE, \
         lend headroom (`victim_memory` of `spfc`): no other port waits for a paused host, so that lending can't \
         deadlock. Ports of a scenario's hosts have `\"host\"`.",
    )
    .or("switch")
    .restart(reasons::BUFFER);
    /// Source of PAUSE frames.
    pub const MAC: Key<()> = Key::other("mac", "MAC address", "Source address of the port's PAUSE frames.")
        .or_else("the device's own")
        .restart("peers know the port's frames by it from the start");
    /// Flow control.
    pub const FLOW_CONTROL: Key<()> = Key::other(
        "flow_control",
        "a kind, or a table",
        "[Flow control](CONFIGURATION.md#portsflow_control) of the port. It changes at run time among PFC, PAUSE \
         and none.",
    )
    .or("pfc")
    .live();
    const DEVICE_FLOW_CONTROL: Key<()> = Key::other(
        "device_flow_control",
        "table",
        "Requirement on the device's own flow control, for lossless classes: `{ require, sends }`.",
    )
    .or_else("a warning")
    .restart(reasons::DEVICES);
    pub(crate) const RX_DESCRIPTORS: Key<u16> = Key::<u16>::integer(
        "rx_descriptors",
        64..=32_768,
        "Receive descriptors of a `pci` port, at most the NIC's; by default 512 to 4096, for frames of 512 B in the \
         longest poll gap at the start. `weir check` prints the time that they cover.",
    )
    .or_else("by rate and poll gap")
    .restart(reasons::DEVICES);
    /// Class of frames without the trusted field.
    pub const PRIORITY: Key<u8> =
        Key::<u8>::integer("priority", 0..=7, "Class of frames without the field that `trust` names.")
            .or("0")
            .restart(MAPS);
    const MAPS: &str = "the maps to classes are set at the start";
    pub(crate) const TRUST: Key<Trust> =
        Key::choice("trust", super::classes::TRUSTS, "`trust` of `[classes]` for this port.")
            .or_else("that of `[classes]`")
            .restart(MAPS);
    const DSCP: Key<()> = Key::other(
        "dscp",
        "table",
        "Classes of DSCP values at this port, over `[classes.dscp]`: `{ 26 = 3, \"40-47\" = 5 }`.",
    )
    .restart(MAPS);
    const PCP: Key<()> =
        Key::other("pcp", "table", "Classes of PCP values at this port, over `[classes.pcp]`.").restart(MAPS);
    const TC_TO_PG: Key<()> = Key::other(
        "tc_to_pg",
        "table",
        "Priority groups of classes that arrive at this port, over `[classes.tc_to_pg]`.",
    )
    .restart(MAPS);
    const TC_TO_QUEUE: Key<()> = Key::other(
        "tc_to_queue",
        "table",
        "Egress queues, at any port, of classes that arrive at this port, over `[classes.tc_to_queue]`.",
    )
    .restart(MAPS);
    /// Names of the keys of a port's own map.
    pub(crate) const CLASS_MAP: [&str; 5] = [TRUST.name, DSCP.name, PCP.name, TC_TO_PG.name, TC_TO_QUEUE.name];
    /// VLAN of untagged frames.
    pub(crate) const VLAN: Key<u16> = Key::<u16>::integer(
        "vlan",
        1..=4_094,
        "VLAN of the port's untagged frames, received and sent (PVID). A switch without [VLANs](CONFIGURATION.md#vlans) \
         carries tags unchanged.",
    )
    .or_else("1 beside ports with VLANs, unless `tagged` is given")
    .restart(reasons::VLANS);
    /// VLANs of tagged frames.
    pub(crate) const TAGGED: Key<()> = Key::other(
        "tagged",
        "list of VLANs",
        "VLANs of which the port is a tagged member, as in `[10, 20]`: it sends their frames with a tag.",
    )
    .or_else("none")
    .restart(reasons::VLANS);
    pub(crate) const STATE: Key<PortState> = Key::choice(
        "state",
        &[("up", PortState::Up), ("down", PortState::Down), ("blocked", PortState::Blocked)],
        "State of the port. `\"down\"`: no link. `\"blocked\"`: flow control without data. At run time: `weir set \
         ports.p0.state=down`.",
    )
    .or("up")
    .live();
    pub(crate) const WATCHDOG: Key<bool> = Key::boolean(
        "pfc_watchdog",
        "Whether [`[pfc_watchdog]`](CONFIGURATION.md#pfc_watchdog) watches the port's queues.",
    )
    .or("true")
    .restart("queues are watched for storms from the start");
    /// Maximum of learned stations.
    pub const STATIONS_MAX: Key<u32> = Key::<u32>::integer(
        "stations_max",
        1..=131_072,
        "Maximum number of [learned stations](OPERATING.md#storms-moves-and-stations) behind the port. Frames of others are \
         forwarded, and frames to them flooded, or sent to their former ports until those age.",
    )
    .or_else("no limit")
    .live();
    const NIC: Key<()> =
        Key::other("nic", "table", "[NIC with flow control](CONFIGURATION.md#nic), in front of a host that has none.")
            .or_else("none")
            .restart(reasons::DEVICES);

    pub(super) const KEYS: Keys = &[
        &NAME,
        &super::device::PCI,
        &super::device::AF_PACKET,
        &super::device::AF_XDP,
        &super::device::TAP,
        &super::device::VHOST_USER,
        &super::device::MEMIF,
        &super::device::RING,
        &super::device::PCAP,
        &super::device::REPLAY,
        &super::device::NULL,
        &super::device::CLONE_OF,
        &RATE,
        &DELAY,
        &HEADROOM,
        &PRIVATE,
        &ALPHA,
        &PEER,
        &MAC,
        &FLOW_CONTROL,
        &DEVICE_FLOW_CONTROL,
        &RX_DESCRIPTORS,
        &NIC,
        &PRIORITY,
        &TRUST,
        &DSCP,
        &PCP,
        &TC_TO_PG,
        &TC_TO_QUEUE,
        &VLAN,
        &TAGGED,
        &WATCHDOG,
        &STATE,
        &STATIONS_MAX,
    ];

    pub(crate) const REQUIRE_OFF: Key<bool> = Key::choice(
        "require",
        &[("off", true)],
        "State that the device's own PAUSE and PFC must have: `weir run` does not start if they are on or \
         unreadable.",
    )
    .restart(reasons::DEVICES);
    pub(crate) const SENDS: Key<bool> = Key::boolean(
        "sends",
        "Whether to accept a driver [known to drop PFC](DEVICES.md#what-a-port-needs-of-its-device).",
    )
    .or("false")
    .restart(reasons::DEVICES);

    pub(super) const DEVICE_FLOW_CONTROL_KEYS: Keys = &[&REQUIRE_OFF, &SENDS];
}

/// Devices of ports, of hosts and of links, and their tables.
pub mod device {
    use weir_reader::Key;

    use super::*;
    use crate::{PausedAction, ReplayDirection};

    /// NIC.
    pub const PCI: Key<()> = Key::other(
        "pci",
        "PCI address, or a table",
        "NIC by PCI address (`lspci -D`; domain 0 if omitted): `\"0000:81:00.0\"` or `{ address, devargs }`.",
    )
    .restart(reasons::DEVICES);
    /// Linux interface.
    pub const AF_PACKET: Key<()> = Key::other(
        "af_packet",
        "name, at most 15 characters",
        "[Linux interface](CONFIGURATION.md#linux-interfaces). Needs CAP_NET_RAW.",
    )
    .restart(reasons::DEVICES);
    /// Linux interface by AF_XDP.
    pub const AF_XDP: Key<()> = Key::other(
        "af_xdp",
        "name, at most 15 characters",
        "Linux interface by DPDK's AF_XDP driver. Needs root (CAP_NET_ADMIN, CAP_NET_RAW, CAP_IPC_LOCK, CAP_SYS_ADMIN).",
    ).restart(reasons::DEVICES);
    /// TAP device.
    pub const TAP: Key<()> = Key::other(
        "tap",
        "name, at most 15 characters",
        "New TAP device. Frames have up to 1,522 B without FCS (DPDK's limit); an `mtu` above 1500 is refused.",
    )
    .restart(reasons::DEVICES);
    /// Socket of a virtual machine.
    pub const VHOST_USER: Key<()> = Key::other(
        "vhost_user",
        "path of at most 107 bytes, or a table",
        "Socket of a [virtual machine](CONFIGURATION.md#vhost-user-ports): `\"/run/vm0.sock\"` or `{ socket, \
         client, queues, mode, group }`.",
    )
    .restart(reasons::DEVICES);
    /// Shared memory.
    pub const MEMIF: Key<()> = Key::other(
        "memif",
        "table",
        "Shared memory with another program (memif): `{ socket, id, role, mode, group }`.",
    )
    .restart(reasons::DEVICES);
    /// Link inside the process.
    pub const RING: Key<()> = Key::other("ring", "name", "Name of a link inside the process, which two ports have.")
        .restart(reasons::DEVICES);
    /// Captures.
    pub const PCAP: Key<()> = Key::other(
        "pcap",
        "table",
        "Captures: receives the frames of file `rx`, writes sent ones to file `tx`; at least one of them: `{ rx, \
         tx, infinite }`.",
    )
    .restart(reasons::DEVICES);
    /// Timed capture.
    pub const REPLAY: Key<()> = Key::other(
        "replay",
        "path, or a table",
        "[Capture](REPLAY.md) whose frames are received, each at its time: `\"trace.pcapng\"` or `{ file, speed, … \
         }`. It drops frames sent to it, and obeys PFC and PAUSE.",
    )
    .restart(reasons::DEVICES);
    /// Generator and sink.
    pub const NULL: Key<()> = Key::other(
        "null",
        "table",
        "Generator and sink: receives frames of `frame_bytes` as fast as polled, drops sent ones: `{ frame_bytes }`.",
    )
    .restart(reasons::DEVICES);
    /// Copy of another port.
    pub const CLONE_OF: Key<()> = Key::other(
        "clone_of",
        "name",
        "Port whose ingress is [copied](CONFIGURATION.md#clone_of), in place of a device.",
    )
    .restart(reasons::DEVICES);

    /// Names of the keys of `[[ports]]` that name a device; a port has exactly one of them.
    pub(crate) const NAMES: [&str; 11] = [
        PCI.name,
        AF_PACKET.name,
        AF_XDP.name,
        TAP.name,
        VHOST_USER.name,
        MEMIF.name,
        RING.name,
        PCAP.name,
        REPLAY.name,
        NULL.name,
        CLONE_OF.name,
    ];

    const ADDRESS: Key<()> = Key::other("address", "PCI address", "PCI address of the NIC.").or_else("required");
    const DEVARGS: Key<()> =
        Key::other("devargs", "string", "Arguments of the DPDK driver, `KEY=VALUE`, separated by commas.");
    /// Keys of `pci`.
    pub const PCI_KEYS: Keys = &[&ADDRESS, &DEVARGS];

    const SOCKET: Key<()> =
        Key::other("socket", "path of at most 107 bytes", "Path of the socket.").or_else("required");
    pub(crate) const CLIENT: Key<bool> =
        Key::boolean("client", "`false`: Weir creates the socket, the virtual machine connects. `true`: the reverse.")
            .or("false");
    pub(crate) const QUEUES: Key<u8> =
        Key::<u8>::integer("queues", 1..=8, "Queue pairs, as at the guest's NIC (QEMU: `queues=`, `mq=on`).").or("1");
    const MODE: Key<()> = Key::other(
        "mode",
        "three octal digits",
        "[Permissions](CONFIGURATION.md#who-may-connect-to-a-socket) of Weir's socket.",
    )
    .or_else("the process's umask; with `group` `\"0660\"`");
    const GROUP: Key<()> = Key::other("group", "name or number", "Group of Weir's socket.").or_else("the process's");
    /// Keys of `vhost_user`.
    pub const VHOST_USER_KEYS: Keys = &[&SOCKET, &CLIENT, &QUEUES, &MODE, &GROUP];
    /// Keys of `vhost_user` of a host or a link, which have one queue.
    pub const ONE_QUEUE_VHOST_USER_KEYS: Keys = &[&SOCKET, &CLIENT, &MODE, &GROUP];

    pub(crate) const ID: Key<u32> =
        Key::<u32>::integer("id", 0..=u32::MAX, "Number of the interface; clients on one socket differ in it.").or("0");
    pub(crate) const ROLE: Key<bool> = Key::choice(
        "role",
        &[("server", true), ("client", false)],
        "Whether Weir creates the socket (server) or connects to it (client).",
    )
    .or("server");
    /// Keys of `memif`.
    pub const MEMIF_KEYS: Keys = &[&SOCKET, &ID, &ROLE, &MODE, &GROUP];

    const RX: Key<()> = Key::other("rx", "path", "Capture whose frames are received, as fast as polled.");
    const TX: Key<()> = Key::other("tx", "path", "Capture to which sent frames are written.");
    pub(crate) const INFINITE: Key<bool> =
        Key::boolean("infinite", "Whether `rx` is repeated endlessly, as by a sender that obeys PFC and PAUSE.")
            .or("false");
    /// Keys of `pcap`.
    pub const PCAP_KEYS: Keys = &[&RX, &TX, &INFINITE];

    const FILE: Key<()> =
        Key::other("file", "path", "The capture, pcap or pcapng; `replay = \"FILE\"` is this key alone.")
            .or_else("required");
    const SPEED: Key<()> = Key::other(
        "speed",
        "number, or `\"max\"`",
        "Speed as a multiple of the captured one, or as fast as the line takes frames.",
    )
    .or("1");
    pub(crate) const SEND_RATE: Key<BitRate> = Key::rate(
        "send_rate",
        rates(),
        "Rate, in place of `speed`: one frame after the other, with preamble, gap and FCS.",
    );
    pub(crate) const LOOPS: Key<u64> = Key::<u64>::integer(
        "loops",
        0..=u32::MAX as u64,
        "Number of runs of the capture; 0: endless. All captures restart together, a mean gap after the longest.",
    )
    .or("1");
    pub(crate) const AFTER: Key<Span> = Key::time(
        "after",
        Span::ZERO..=Span::from_secs(3_600),
        "Delay from the start of the switch to the first frame.",
    )
    .or("100ms");
    pub(crate) const WHEN_PAUSED: Key<PausedAction> = Key::choice(
        "when_paused",
        &[("wait", PausedAction::Wait), ("drop", PausedAction::Drop), ("ignore", PausedAction::Ignore)],
        "What happens to frames of a [paused](REPLAY.md#pauses) class.",
    )
    .or("wait");
    pub(crate) const DIRECTION: Key<ReplayDirection> = Key::choice(
        "direction",
        &[("in", ReplayDirection::In), ("out", ReplayDirection::Out)],
        "Direction of the frames that are used, if the file has directions.",
    )
    .or_else("both");
    pub(crate) const MAC_CONTROL: Key<bool> =
        Key::boolean("mac_control", "Whether MAC control frames of the capture are sent too.").or("false");
    pub(crate) const CORE: Key<u32> = Key::<u32>::integer(
        "core",
        0..=u16::MAX as u32,
        "CPU of the replay. If none is free, capture and switch are polled in turn.",
    )
    .or_else("one that no switch uses");
    /// Keys of `replay`.
    pub const REPLAY_KEYS: Keys =
        &[&FILE, &SPEED, &SEND_RATE, &LOOPS, &AFTER, &WHEN_PAUSED, &DIRECTION, &MAC_CONTROL, &CORE];

    const FRAME_BYTES: Key<()> =
        Key::other("frame_bytes", "bytes, 60 to MTU + 18", "Length of received frames, without FCS.").or("60");
    /// Keys of `null`.
    pub const NULL_KEYS: Keys = &[&FRAME_BYTES];
}

/// `nic` of `[[ports]]`.
pub(crate) mod nic {
    use weir_reader::Key;

    use super::*;
    use crate::NicModelConfig;

    const BUFFERS: RangeInclusive<Bytes> = Bytes::new(64)..=NicModelConfig::BUFFER_MAX;
    pub(crate) const SEND_BUFFER: Key<Bytes> = Key::size(
        "send_buffer",
        BUFFERS,
        "Space per class toward the switch, for at most one frame per 256 B. When it is full, the host is held \
         back; nothing is dropped.",
    )
    .or("64KB");
    pub(crate) const RECEIVE_BUFFER: Key<Bytes> = Key::size(
        "receive_buffer",
        BUFFERS,
        "Space of a lossless class toward the host; lossy classes share `xoff`. Excess frames are dropped (`receive_buffer_full`).",
    )
    .or_else("`xoff`, headroom and a burst");
    pub(crate) const XOFF: Key<Bytes> =
        Key::size("xoff", BUFFERS, "Occupancy of the receive buffer that pauses a lossless class.")
            .or_else("`\"64KB\"`, or what headroom leaves of `receive_buffer`");
    pub(crate) const XON: Key<Bytes> = Key::size(
        "xon",
        Bytes::ZERO..=NicModelConfig::BUFFER_MAX,
        "Occupancy of the receive buffer that resumes a paused class.",
    )
    .or_else("`xoff` less two frames");
    pub(crate) const RECEIVE_RATE: Key<BitRate> =
        Key::rate("receive_rate", rates(), "Maximum rate of frames to the host.").or_else("as the device takes them");
    pub(crate) const RX_PAUSE: Key<bool> = Key::boolean("rx_pause", "Whether the NIC obeys flow control.").or("true");
    pub(crate) const TX_PAUSE: Key<bool> = Key::boolean("tx_pause", "Whether the NIC sends flow control.").or("true");
    pub(crate) const CORE: Key<u32> =
        Key::<u32>::integer("core", 0..=u16::MAX as u32, "CPU of the NIC; a separate one costs the switch nothing.")
            .or_else("that of the port's transmitter");

    pub(super) const KEYS: Keys =
        &[&SEND_BUFFER, &RECEIVE_BUFFER, &XOFF, &XON, &RECEIVE_RATE, &RX_PAUSE, &TX_PAUSE, &CORE];
}

/// Top level, `[ports.flow_control]` and `[[static_macs]]`.
mod others {
    use weir_reader::Key;

    use super::*;

    const SWITCH: Key<()> = Key::other("switch", "table", "Name, clock and MTU.").restart(reasons::CLOCK);
    const LCORES: Key<()> = Key::other("lcores", "table", "CPUs.").restart(reasons::LCORES);
    const CONTROL: Key<()> = Key::other("control", "table", "Control socket.").restart(reasons::CONTROL);
    const BUFFER: Key<()> =
        Key::other("buffer", "table", "Partition and policy of the buffer.").restart(reasons::BUFFER);
    const CLASSES: Key<()> =
        Key::other("classes", "table", "Classes and their egress queues.").restart(reasons::CLASSES);
    const PFC: Key<()> = Key::other("pfc", "table", "Times of PFC.").restart(reasons::PFC);
    const PFC_WATCHDOG: Key<()> =
        Key::other("pfc_watchdog", "table", "Detection of PFC storms. Without it there is none.")
            .restart("queues are watched from the start or not at all");
    const PORTS: Key<()> = Key::other("ports", "tables", "Ports.").or_else("required");
    const STATIC_MACS: Key<()> = Key::other("static_macs", "tables", "Addresses that are not learned.").live();
    pub(super) const TOP_LEVEL: Keys =
        &[&SWITCH, &LCORES, &CONTROL, &BUFFER, &CLASSES, &PFC, &PFC_WATCHDOG, &PORTS, &STATIC_MACS];

    const KIND: Key<()> = Key::other(
        "kind",
        "a [kind](CONFIGURATION.md#portsflow_control)",
        "Flow control; `weir keys` lists the tables of kinds. `flow_control = \"KIND\"` has all defaults.",
    )
    .or_else("required");
    pub(super) const FLOW_CONTROL: Keys = &[&KIND];

    const MAC: Key<()> = Key::other("mac", "MAC address", "Unicast address that is permanently behind the port.")
        .or_else("required")
        .live();
    const PORT: Key<()> = Key::other("port", "name", "Port of this file that the address is behind; no clone.")
        .or_else("required")
        .live();
    pub(super) const STATIC_MAC: Keys = &[&MAC, &PORT];
}

/// All tables and keys of a switch's file, in the order of the reference. Kinds that files select by name add their own keys.
pub(crate) static TABLES: LazyLock<Vec<TableSchema>> = LazyLock::new(|| {
    let before = [
        TableSchema::table("", others::TOP_LEVEL),
        TableSchema::table("switch", switch::KEYS).with_keys_of(PATH_SELECTORS.all()),
        TableSchema::table("lcores", lcores::KEYS),
        TableSchema::table("control", control::KEYS),
        TableSchema::table("buffer", buffer::KEYS)
            .with_tables_of(BUFFER_POLICIES.names())
            .selected_by("policy", DEFAULT),
    ];
    let after = [
        TableSchema::table("classes", classes::KEYS),
        // The keys of these tables are code points and classes.
        TableSchema::open("classes.dscp"),
        TableSchema::open("classes.pcp"),
        TableSchema::open("classes.tc_to_pg"),
        TableSchema::open("classes.tc_to_queue"),
        TableSchema::array("classes.queues", queues::KEYS).with_keys_of(ARBITERS.all()),
        TableSchema::inline("classes.queues.ecn", "`ecn` of [[classes.queues]]", queues::ECN_KEYS),
        TableSchema::table("pfc", pfc::KEYS),
        TableSchema::table("pfc_watchdog", pfc_watchdog::KEYS),
        TableSchema::array("ports", port::KEYS),
        TableSchema::open("ports.dscp"),
        TableSchema::open("ports.pcp"),
        TableSchema::open("ports.tc_to_pg"),
        TableSchema::open("ports.tc_to_queue"),
        TableSchema::inline("ports.pci", "`pci` of [[ports]]", device::PCI_KEYS),
        TableSchema::inline(
            "ports.device_flow_control",
            "`device_flow_control` of [[ports]]",
            port::DEVICE_FLOW_CONTROL_KEYS,
        ),
        TableSchema::inline("ports.vhost_user", "`vhost_user` of [[ports]]", device::VHOST_USER_KEYS),
        TableSchema::inline("ports.memif", "`memif` of [[ports]]", device::MEMIF_KEYS),
        TableSchema::inline("ports.pcap", "`pcap` of [[ports]]", device::PCAP_KEYS),
        TableSchema::inline("ports.replay", "`replay` of [[ports]]", device::REPLAY_KEYS),
        TableSchema::inline("ports.null", "`null` of [[ports]]", device::NULL_KEYS),
        TableSchema::inline("ports.nic", "`nic` of [[ports]]", nic::KEYS)
            .with_renamed(&[("obeys", "rx_pause"), ("pauses", "tx_pause")]),
        TableSchema::table("ports.flow_control", others::FLOW_CONTROL).with_keys_of(FLOW_CONTROLS.all()),
        TableSchema::array("static_macs", others::STATIC_MAC),
        TableSchema::array("buffer.rates", buffer_rates::KEYS),
    ];
    before.into_iter().chain(known_tables()).chain(after).collect()
});

/// Returns every table of a switch's file with its keys, in the order of the reference; the top level has an empty name.
pub fn known_keys() -> impl Iterator<Item = (&'static str, Keys)> {
    TABLES.iter().map(|table| (table.name, table.keys))
}

#[cfg(test)]
mod tests {
    use weir_reader::{Schema, nearest};

    use super::*;

    fn keys_of(table: &str) -> Vec<&'static str> {
        Schema(&TABLES).keys_of(table)
    }

    fn suggestion(table: &str, key: &str, policy: Option<&str>) -> String {
        Schema(&TABLES).suggestion(table, key, policy)
    }

    #[test]
    fn slips_find_their_key() {
        assert_eq!(nearest("polcy", &keys_of("buffer")), Some("policy"));
        assert_eq!(nearest("xon-offset", &keys_of("buffer")), Some("xon_offset"));
        assert_eq!(nearest("alfa", &keys_of("buffer.dt")), Some("alpha"));
        assert_eq!(nearest("Rate", &keys_of("ports")), Some("rate"));
        assert_eq!(nearest("quantum", &keys_of("ports")), None);
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
