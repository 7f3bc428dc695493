//! Tables of replies: Weir's own, and SONiC's that have no other.

use std::collections::BTreeSet;

use weir_control::state::{
    BufferConfiguration, BufferPool, ByClass, Event, FlowControlPort, Interface, Lcore, Loss, LossPlace, MacEntry,
    PauseDelays, PfcCounters, PolicyState, StormPackets, Traffic, WatchedQueue,
};
use weir_experiments::table::{Table, count};
use weir_flowctl::FLOW_CONTROLS;
use weir_mmu::policy::{BUFFER_POLICIES, Gauge, Unit};
use weir_units::{BitRate, CLASSES};

/// SONiC's text for a missing value.
pub(super) const NOT_KNOWN: &str = "N/A";

/// Ports; damaged frames are among drops.
pub(super) fn interfaces(ports: &[Interface]) -> Table {
    let mut table = Table::new([
        "IFACE", "STATE", "SPEED", "RX_OK", "RX_BPS", "RX_UTIL", "RX_DRP", "RX_OVR", "TX_OK", "TX_BPS", "TX_UTIL",
        "TX_DRP", "TX_OVR",
    ]);
    for port in ports {
        let traffic_columns = |traffic: &Traffic| {
            let rate = traffic.bits_per_second;
            let share = rate.zip(port.rate_bps.filter(|line| *line > 0));
            [
                count(traffic.frames),
                rate_text(rate, NOT_KNOWN),
                share.map_or(NOT_KNOWN.to_owned(), |(bps, line)| format!("{:.2}%", bps as f64 * 100.0 / line as f64)),
                count(traffic.dropped),
                known(traffic.lost_at_device),
            ]
        };
        let first = [port.port.clone(), link_state(port).to_owned(), rate_text(port.rate_bps, NOT_KNOWN)];
        table.row(first.into_iter().chain(traffic_columns(&port.rx)).chain(traffic_columns(&port.tx)));
    }
    table
}

/// State in a letter, SONiC's but for B: blocked.
pub(super) fn link_state(port: &Interface) -> &'static str {
    match port.state.as_str() {
        "down" => "X",
        "blocked" => "B",
        _ if port.link_up => "U",
        _ => "D",
    }
}

/// SONiC's `show pfc counters`.
pub(super) fn pfc_counters(ports: &[PfcCounters]) -> String {
    let rows = |of: fn(&PfcCounters) -> &ByClass| ports.iter().map(move |port| (port.port.as_str(), of(port)));
    let [rx, tx] = ["Port Rx", "Port Tx"];
    format!("{}\n{}", class_table(rx, "PFC", rows(|port| &port.rx)), class_table(tx, "PFC", rows(|port| &port.tx)))
}

/// SONiC's `show pfc counters --history`.
pub(super) fn pfc_history(ports: &[PfcCounters]) -> Table {
    let mut table = Table::new([
        "Port",
        "Priority",
        "RX Pause Transitions",
        "Total RX Pause Time US",
        "Recent RX Pause Time US",
        "Recent RX Pause Timestamp",
    ]);
    for port in ports {
        for class in 0..CLASSES {
            let (pauses, us) = (count(port.rx_pauses[class]), count(port.rx_paused_us[class]));
            let last = port.rx_last_pause[class];
            let recent = last
                .map_or([NOT_KNOWN.to_owned(), NOT_KNOWN.to_owned()], |last| [count(last.us), instant(last.unix_ms)]);
            table.row([port.port.clone(), format!("PFC{class}"), pauses, us].into_iter().chain(recent));
        }
    }
    table
}

/// SONiC's `show pfcwd stats`.
pub(super) fn watchdog(queues: &[WatchedQueue]) -> Table {
    let mut table = Table::new([
        "QUEUE",
        "STATUS",
        "STORM DETECTED/RESTORED",
        "TX OK/DROP",
        "RX OK/DROP",
        "TX LAST OK/DROP",
        "RX LAST OK/DROP",
    ]);
    for queue in queues {
        let pair = |one: u64, other: u64| format!("{one}/{other}");
        let packets =
            |packets: &StormPackets| [pair(packets.tx, packets.tx_dropped), pair(packets.rx, packets.rx_dropped)];
        let status = if queue.in_storm { "stormed" } else { "operational" };
        let first =
            [format!("{}:{}", queue.port, queue.queue), status.to_owned(), pair(queue.detected, queue.restored)];
        table.row(first.into_iter().chain(packets(&queue.all)).chain(packets(&queue.last)));
    }
    table
}

pub(super) fn pools(pools: &[BufferPool]) -> Table {
    let mut table = Table::new(["Pool", "Size", "Used", "Watermark", "Persistent watermark"]);
    for pool in pools {
        let levels = [pool.size_bytes, pool.used_bytes, pool.watermark_bytes, pool.persistent_watermark_bytes];
        table.row(std::iter::once(pool.pool.clone()).chain(levels.map(count)));
    }
    table
}

pub(super) fn buffer(buffer: &BufferConfiguration) -> String {
    let mut table = Table::new(["Port", "PG", "Type", "Private", "Threshold now", "Headroom now"]);
    for queue in &buffer.queues {
        let kind = if queue.lossless { "lossless" } else { "lossy" };
        // Lossy queues are bounded at egress.
        let bound = |bytes: u64| if queue.lossless { count(bytes) } else { "-".to_owned() };
        let (threshold, headroom) = (bound(queue.threshold_bytes), bound(queue.headroom_bytes));
        let private = count(queue.private_bytes);
        table.row([queue.port.clone(), queue.class.to_string(), kind.to_owned(), private, threshold, headroom]);
    }
    format!(
        "Policy {}: {} B, of which private {} B, headroom {} B, shared {} B\n{table}",
        buffer.policy,
        count(buffer.size_bytes),
        count(buffer.private_bytes),
        count(buffer.headroom_bytes),
        count(buffer.shared_bytes)
    )
}

/// SONiC's `show mac`; its column of VLANs only where there are some.
pub(super) fn mac(entries: &[MacEntry]) -> String {
    let has_vlans = entries.iter().any(|entry| entry.vlan.is_some());
    let vlan = |text: &str| has_vlans.then(|| text.to_owned());
    let cells = |cells: [&str; 3]| cells.map(str::to_owned);
    let head = ["No.".to_owned()].into_iter().chain(vlan("Vlan")).chain(cells(["MacAddress", "Port", "Type"]));
    let mut table = Table::new(head);
    for (number, entry) in (1..).zip(entries) {
        let kind = if entry.is_static { "Static" } else { "Dynamic" };
        let own = vlan(&entry.vlan.map_or(String::new(), |vlan| vlan.to_string()));
        table.row([number.to_string()].into_iter().chain(own).chain(cells([&entry.mac, &entry.port, kind])));
    }
    format!("{table}Total number of entries {}\n", count(entries.len() as u64))
}

/// Stations behind ports.
pub(super) fn stations(ports: &[Interface]) -> Table {
    let mut table = Table::new(["Port", "Stations", "Maximum", "Moves", "Not learned"]);
    for Interface { port, stations, .. } in ports {
        let max = stations.max.map_or("none".to_owned(), |max| count(max.into()));
        let [learned, moves, refused] = [stations.learned.into(), stations.moves, stations.refused_frames].map(count);
        table.row([port.clone(), learned, max, moves, refused]);
    }
    table
}

/// Queues under any policy, with its name.
pub(super) fn any_policy(state: &PolicyState) -> String {
    format!("Buffer policy: {}\n{}", state.policy, policy(state))
}

pub(super) fn policy(policy: &PolicyState) -> Table {
    let names: BTreeSet<&String> = policy.queues.iter().flat_map(|queue| queue.gauges.keys()).collect();
    let head = ["Port", "Class", "State", "Shared", "Threshold", "Headroom", "Headroom limit"];
    let heads = names.iter().map(|name| gauge_head(name));
    let mut table = Table::new(head.map(str::to_owned).into_iter().chain(heads));
    for queue in &policy.queues {
        let state = match (queue.off, queue.port_off) {
            (_, true) => "port OFF",
            (true, false) => "OFF",
            (false, false) => "ON",
        };
        let bytes =
            [queue.shared_bytes, queue.threshold_bytes, queue.headroom_bytes, queue.headroom_limit_bytes].map(count);
        let gauges = names.iter().map(|name| gauge_text(name, queue.gauges.get(*name)));
        let first = [queue.port.clone(), queue.class.to_string(), state.to_owned()];
        table.row(first.into_iter().chain(bytes).chain(gauges));
    }
    table
}

pub(super) fn flow_control(ports: &[FlowControlPort]) -> String {
    let mut messages =
        Table::new(["Port", "Flow control", "Received", "Sent", "Odd", "Of another kind", "Aged", "Counts set anew"]);
    for port in ports {
        let counts =
            [port.messages_rx, port.messages_tx, port.invalid, port.foreign, port.aged, port.resyncs].map(count);
        messages.row([port.port.clone(), port.flow_control.clone()].into_iter().chain(counts));
    }
    let classes = || ports.iter().flat_map(|port| port.classes.iter().map(move |class| (port, class)));
    let names: BTreeSet<&String> = classes().flat_map(|(_, class)| class.gauges.keys()).collect();
    let head = ["Port", "Class", "Ingress B", "Egress B", "Rate set by peer", "of"];
    let heads = names.iter().map(|name| gauge_head(name));
    let mut table = Table::new(head.map(str::to_owned).into_iter().chain(heads));
    for (port, class) in classes() {
        let gauges = names.iter().map(|name| gauge_text(name, class.gauges.get(*name)));
        let bytes = [class.ingress_bytes, class.egress_bytes].map(count);
        let first = [port.port.clone(), class.class.to_string()];
        table.row(
            first
                .into_iter()
                .chain(bytes)
                .chain([rate_text(class.rate_rx_bps, "-"), rate_text(port.rate_bps, "-")])
                .chain(gauges),
        );
    }
    if table.is_empty() { messages.to_string() } else { format!("{messages}\n{table}") }
}

pub(super) fn losses(losses: &[Loss]) -> Table {
    let mut table = Table::new(["Port", "Where", "Class", "Frames", "Why"]).with_text_last();
    for loss in losses {
        let place = match loss.place {
            LossPlace::Ingress => "switch, ingress",
            LossPlace::Egress => "switch, egress",
            LossPlace::DeviceReceive => "device, receive",
            LossPlace::DeviceTransmit => "device, transmit",
            LossPlace::NicToSwitch => "NIC, to switch",
            LossPlace::NicToHost => "NIC, to host",
        };
        let class = loss.class.map_or("-".to_owned(), |class| class.to_string());
        table.row([loss.port.clone(), place.to_owned(), class, known(loss.frames), loss.reason.replace('_', " ")]);
    }
    table
}

pub(super) fn lcores_text(lcores: &[Lcore]) -> String {
    let head = ["CPU", "Busy %", "Polls", "Packets", "Packets a burst", "Cycles a packet", "ns a packet", "Does"];
    let mut work = Table::new(head).with_text_last();
    let head = ["CPU", "Gap p50 us", "p99 us", "p99.9 us", "Longest us", "Waited ms", "Preempted", "Stolen ms"];
    let mut gaps = Table::new(head);
    let micros = |ns: u64| format!("{:.1}", ns as f64 / 1e3);
    let or_none = |value: Option<f64>, digits: usize| value.map_or("-".to_owned(), |value| format!("{value:.digits$}"));
    for lcore in lcores {
        let busy = lcore.busy_polls as f64 * 100.0 / lcore.polls.max(1) as f64;
        work.row([
            lcore.cpu.to_string(),
            format!("{busy:.1}"),
            count(lcore.polls),
            count(lcore.work.packets),
            or_none(lcore.work.packets_a_burst(), 1),
            or_none(lcore.work.cycles_a_packet(), 0),
            or_none(lcore.work.ns_a_packet(), 1),
            lcore.roles.join("; "),
        ]);
        let lengths = [lcore.gap_p50_ns, lcore.gap_p99_ns, lcore.gap_p999_ns, lcore.gap_max_ns].map(micros);
        let others = [lcore.cpu_waited_ms, lcore.cpu_preempted, lcore.cpu_stolen_ms].map(known);
        gaps.row(std::iter::once(lcore.cpu.to_string()).chain(lengths).chain(others));
    }
    format!("{work}\n{gaps}\n{}", gap_table(lcores))
}

/// Formats the poll gaps by powers of two.
fn gap_table(lcores: &[Lcore]) -> Table {
    let power = |ns: u64| (ns + 1).next_power_of_two();
    let powers: BTreeSet<u64> = lcores.iter().flat_map(|lcore| &lcore.gaps).map(|gap| power(gap.up_to_ns)).collect();
    let cpus = lcores.iter().map(|lcore| format!("CPU {}", lcore.cpu));
    let mut table = Table::new(std::iter::once("Gap below us".to_owned()).chain(cpus));
    for below in powers {
        let polls = |lcore: &Lcore| {
            let within = lcore.gaps.iter().filter(|gap| power(gap.up_to_ns) == below);
            count(within.map(|gap| gap.polls).sum())
        };
        let head = format!("{:.3}", below as f64 / 1e3);
        table.row(std::iter::once(head).chain(lcores.iter().map(polls)));
    }
    table
}

/// Formats percentiles and a histogram of lengths, without empty bins at either end.
pub(super) fn delays(delays: &PauseDelays) -> String {
    let micros = |ns: u64| format!("{:.1}", ns as f64 / 1e3);
    let kinds = [("Xoff to message", &delays.message), ("message to obeyed", &delays.reaction)];
    let mut table = Table::new(["Delay", "Measured", "p50 us", "p99 us", "p99.9 us", "Longest us"]);
    for (kind, delay) in kinds {
        let times = [delay.p50_ns, delay.p99_ns, delay.p999_ns, delay.max_ns].map(micros);
        table.row([kind.to_owned(), count(delay.count)].into_iter().chain(times));
    }
    let rows: Vec<(Option<u64>, [u64; 2])> = std::iter::zip(&delays.message.lengths, &delays.reaction.lengths)
        .map(|(message, reaction)| (message.up_to_ns, [message.messages, reaction.messages]))
        .collect();
    let used = |(_, counts): &(Option<u64>, [u64; 2])| counts.iter().any(|count| *count > 0);
    let (Some(first), Some(last)) = (rows.iter().position(used), rows.iter().rposition(used)) else {
        return table.to_string();
    };
    let mut by_length = Table::new(["Up to us", "Xoff to message", "message to obeyed"]);
    for (up_to_ns, counts) in &rows[first..=last] {
        let up_to = up_to_ns.map_or_else(|| "longer".to_owned(), |ns| format!("{:.3}", ns as f64 / 1e3));
        by_length.row([up_to].into_iter().chain(counts.map(count)));
    }
    format!("{table}\n{by_length}")
}

pub(super) fn events_table(events: &[Event]) -> Table {
    let mut table = Table::new(["Time", "Switch", "Port", "Class", "Event", "Detail"]).with_text_last();
    for event in events {
        let class = event.class.map_or("-".to_owned(), |class| class.to_string());
        let port = event.port.clone().unwrap_or_else(|| "-".to_owned());
        table.row([
            instant(event.unix_ms),
            event.switch.clone(),
            port,
            class,
            event.event.clone(),
            event.detail.clone(),
        ]);
    }
    table
}

/// Formats a row for each port, with a column for each class.
fn class_table<'r>(first: &str, column: &str, rows: impl Iterator<Item = (&'r str, &'r ByClass)>) -> Table {
    let columns = (0..CLASSES).map(|class| format!("{column}{class}"));
    let mut table = Table::new(std::iter::once(first.to_owned()).chain(columns));
    for (port, values) in rows {
        table.row(std::iter::once(port.to_owned()).chain(values.map(count)));
    }
    table
}

/// `9.9Gbps`; `0bps` without a rate.
fn rate_text(bps: Option<u64>, unknown: &str) -> String {
    match bps {
        None => unknown.to_owned(),
        Some(0) => "0bps".to_owned(),
        Some(bps) => BitRate::bps(bps).to_string(),
    }
}

/// Column head of a gauge; its name if this program does not know it.
fn gauge_head(name: &str) -> String {
    gauge_of(name).map_or_else(
        || name.replace('_', " "),
        |gauge| if gauge.unit == Unit::Bytes { format!("{} B", gauge.label) } else { gauge.label.to_owned() },
    )
}

fn gauge_text(name: &str, value: Option<&u64>) -> String {
    let Some(value) = value else { return "-".to_owned() };
    match gauge_of(name).map(|gauge| gauge.unit) {
        Some(Unit::State { on, off }) => if *value > 0 { on } else { off }.to_owned(),
        _ => count(*value),
    }
}

fn gauge_of(name: &str) -> Option<&'static Gauge> {
    BUFFER_POLICIES.gauges().into_iter().chain(FLOW_CONTROLS.gauges()).find(|gauge| gauge.name == name)
}

pub(super) fn known(value: Option<u64>) -> String {
    value.map_or(NOT_KNOWN.to_owned(), count)
}

/// Formats an instant, as `2026-11-23T20:00:00Z`.
pub(super) fn instant(unix_ms: u64) -> String {
    let instant = i64::try_from(unix_ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    instant.map_or(NOT_KNOWN.to_owned(), |instant| format!("{instant:.3}"))
}
