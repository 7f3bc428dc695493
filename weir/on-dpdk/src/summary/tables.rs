//! The summary as tables.

use weir_experiments::table::{Table, count};
use weir_flowctl::MessageKind;
use weir_mmu::policy::{Gauge, Unit};
use weir_reader::distinct_gauges;
use weir_units::BitRate;

use super::{PortSummary, RunSummary, SwitchSummary};
use crate::below_rate::who_had;
use crate::losses::loss_table;
use crate::nics::nic_table;
use crate::replay::replay_text;

/// Adds a line to a text.
macro_rules! say {
    ($text:expr, $($line:tt)*) => {{
        $text.push_str(&format!($($line)*));
        $text.push('\n');
    }};
}

/// A summary as tables.
pub(crate) fn summary_text(summary: &RunSummary) -> String {
    let mut text = String::new();
    for switch in &summary.switches {
        let balance = &switch.frame_conservation;
        say!(text, "\n{} ran for {:.1} s (policy {})", switch.name, summary.ran_for_s, switch.policy);
        say!(
            text,
            "  received {} + copied {} = sent {} + dropped {} + held {}{}",
            count(balance.received),
            count(balance.copied),
            count(balance.sent),
            count(balance.dropped),
            count(balance.held),
            if balance.holds { "" } else { "   THE BOOKS DO NOT BALANCE" }
        );
        let reasons: Vec<_> = switch.drops.iter().map(|(reason, n)| format!("{reason} {}", count(*n))).collect();
        say!(text, "  drops: {}", if reasons.is_empty() { "none".to_owned() } else { reasons.join(", ") });
        let losses = loss_table(switch.ports.iter().map(|port| (port.name.as_str(), &port.device_losses)));
        say!(text, "  lost at devices: {}", if losses.is_empty() { "none" } else { "see the table" });
        say!(
            text,
            "  shared buffer: peak {} of {} B",
            count(switch.pool.used_max_bytes),
            count(switch.pool.shared_bytes)
        );
        for (name, pool) in [("headroom pool", &switch.headroom_pool), ("egress lossy pool", &switch.egress_lossy_pool)]
        {
            if let Some(pool) = pool {
                say!(text, "  {name}: peak {} of {} B", count(pool.used_max_bytes), count(pool.size_bytes));
            }
        }
        for (name, delay) in
            [(message_delay(switch), &switch.pause_delay_ns), ("message received to obeyed", &switch.reaction_delay_ns)]
        {
            if delay.count > 0 {
                say!(
                    text,
                    "  {name}: p50 {} ns, p99 {} ns, p99.9 {} ns, max {} ns ({} times)",
                    count(delay.p50),
                    count(delay.p99),
                    count(delay.p999),
                    count(delay.max),
                    count(delay.count)
                );
            }
        }
        say!(text, "{}", traffic_table(switch));
        for table in [
            losses,
            nic_table(switch.ports.iter().filter_map(|port| Some((port.name.as_str(), port.nic.as_ref()?)))),
            pause_table(switch),
            message_table(switch),
            rate_table(switch),
            line_table(switch),
            watchdog_table(switch),
            gauge_table(switch),
        ] {
            if !table.is_empty() {
                say!(text, "{table}");
            }
        }
        for port in &switch.ports {
            if let Some(message) = port.line_time.as_ref().and_then(|line| line.below_rate.as_ref()) {
                say!(text, "  {}: {message}", port.name);
            }
        }
    }
    if let Some(replay) = &summary.replay {
        say!(text, "{}", replay_text(replay));
    }
    for lcore in &summary.lcores {
        say!(
            text,
            "  CPU {}: busy {:.1} %, longest poll gap {} us, 99 % of the time in gaps up to {} us; {}",
            lcore.cpu,
            lcore.busy_permille as f64 / 10.0,
            count(lcore.poll_gap_max_us),
            count(lcore.poll_gaps_ns.by_time_p99.div_ceil(1_000)),
            who_had(lcore.cpu, &lcore.poll_delay.cpu_use)
        );
    }
    text
}

fn traffic_table(switch: &SwitchSummary) -> Table {
    let mut table = Table::new([
        "Port",
        "Class",
        "Rx frames",
        "Rx bytes",
        "Tx frames",
        "Tx bytes",
        "Dropped",
        "Peak in B",
        "Peak out B",
    ]);
    for port in &switch.ports {
        for class in &port.classes {
            table.row([
                port.name.clone(),
                class.class.to_string(),
                count(class.rx_frames),
                count(class.rx_bytes),
                count(class.tx_frames),
                count(class.tx_bytes),
                count(class.drops.values().sum()),
                count(class.ingress_max_bytes),
                count(class.egress_max_bytes),
            ]);
        }
    }
    table
}

pub(super) fn pause_table(switch: &SwitchSummary) -> Table {
    let mut table = Table::new([
        "Port",
        "Class",
        "PAUSE sent",
        "frames",
        "for us",
        "PAUSE received",
        "frames",
        "for us",
        "Peak headroom B",
    ]);
    for port in switch.ports.iter().filter(|port| port.speaks.message_kind().pauses()) {
        for class in port.classes.iter().filter(|class| class.xoff_tx + class.xoff_rx > 0) {
            table.row([
                port.name.clone(),
                class.class.to_string(),
                count(class.pauses_tx),
                count(class.xoff_tx),
                count(class.paused_tx_us),
                count(class.pauses_rx),
                count(class.xoff_rx),
                count(class.paused_rx_us),
                count(class.headroom_max_bytes),
            ]);
        }
    }
    table
}

/// Description of [`SwitchSummary::pause_delay_ns`] for the ports' flow control.
pub(super) fn message_delay(switch: &SwitchSummary) -> &'static str {
    let stages = switch.ports.iter().any(|port| port.speaks.message_kind() == MessageKind::Stages);
    let pauses = switch.ports.iter().any(|port| port.speaks.message_kind().advertises_xoff());
    match (stages, pauses) {
        (true, true) => "Xoff to PAUSE, or stage's start to message",
        (true, false) => "stage's start to message",
        (false, _) => "Xoff to PAUSE",
    }
}

/// Table of each port's control frames and their errors; empty columns are left out.
pub(super) fn message_table(switch: &SwitchSummary) -> Table {
    type Count = fn(&PortSummary) -> u64;
    let kinds: [(&str, Count); 13] = [
        ("PFC sent", |port| port.pfc_tx),
        ("PFC received", |port| port.pfc_rx),
        ("PAUSE sent", |port| port.pause_tx),
        ("PAUSE received", |port| port.pause_rx),
        ("Credits sent", |port| port.credit_tx),
        ("Credits received", |port| port.credit_rx),
        ("Own sent", |port| port.own_tx),
        ("Own received", |port| port.own_rx),
        ("Odd", |port| port.invalid_messages),
        ("Of another kind", |port| port.mismatched_messages),
        ("Counts set anew", |port| port.credit_resyncs),
        ("Aged", |port| port.rates_aged),
        ("Put off", |port| port.control_put_off),
    ];
    let had = |(_, counted): &&(&str, Count)| switch.ports.iter().any(|port| counted(port) > 0);
    let kinds: Vec<_> = kinds.iter().filter(had).collect();
    let head = ["Port", "Flow control"].into_iter().chain(kinds.iter().map(|(name, _)| *name));
    let mut table = Table::new(head.chain(["Sent % of link"]));
    for port in switch.ports.iter().filter(|port| kinds.iter().any(|(_, counted)| counted(port) > 0)) {
        let share = port.control_tx_link_percent.map_or("-".to_owned(), |percent| format!("{percent:.4}"));
        let cells = [port.name.clone(), port.flow_control.to_owned()];
        table.row(cells.into_iter().chain(kinds.iter().map(|(_, counted)| count(counted(port)))).chain([share]));
    }
    table
}

/// The classes that a peer held below line rate when the run ended, under GFC.
pub(super) fn rate_table(switch: &SwitchSummary) -> Table {
    let mut table = Table::new(["Port", "Class", "Rate set by peer", "of"]);
    for port in &switch.ports {
        for class in &port.classes {
            let (Some(bps), Some(line)) = (class.rate_rx_bps, port.rate) else { continue };
            if bps < line.as_bps() {
                let rate = BitRate::bps(bps).to_string();
                table.row([port.name.clone(), class.class.to_string(), rate, line.to_string()]);
            }
        }
    }
    table
}

/// The shaped ports that lost line time while frames waited.
pub(super) fn line_table(switch: &SwitchSummary) -> Table {
    let mut table = Table::new([
        "Port",
        "Rate",
        "Frames waited us",
        "Below rate %",
        "Lost to late polls us",
        "Lost to device us",
        "Largest catch-up us",
    ]);
    for port in &switch.ports {
        let (Some(line), Some(rate)) = (&port.line_time, port.rate) else { continue };
        if line.lost_to_late_polls_us + line.lost_to_device_us > 0 {
            table.row([
                port.name.clone(),
                rate.to_string(),
                count(line.waited_us),
                format!("{:.2}", line.below_rate_percent),
                count(line.lost_to_late_polls_us),
                count(line.lost_to_device_us),
                count(line.burst_max_us),
            ]);
        }
    }
    table
}

/// SONiC's `show pfcwd stats`, of the watched queues that were used; empty where none is watched.
fn watchdog_table(switch: &SwitchSummary) -> Table {
    let mut table = Table::new([
        "Port",
        "Class",
        "Status",
        "Storm detected/restored",
        "Tx ok/drop",
        "Rx ok/drop",
        "Tx last ok/drop",
        "Rx last ok/drop",
    ]);
    for port in &switch.ports {
        for class in &port.classes {
            let Some(watchdog) = &class.pfc_watchdog else { continue };
            let pair = |names: [&str; 2]| {
                names.map(|name| count(watchdog.counters[format!("PFC_WD_QUEUE_STATS_{name}").as_str()])).join("/")
            };
            table.row([
                port.name.clone(),
                class.class.to_string(),
                watchdog.status.to_owned(),
                pair(["DEADLOCK_DETECTED", "DEADLOCK_RESTORED"]),
                pair(["TX_PACKETS", "TX_DROPPED_PACKETS"]),
                pair(["RX_PACKETS", "RX_DROPPED_PACKETS"]),
                pair(["TX_PACKETS_LAST", "TX_DROPPED_PACKETS_LAST"]),
                pair(["RX_PACKETS_LAST", "RX_DROPPED_PACKETS_LAST"]),
            ]);
        }
    }
    table
}

/// Table of gauges of policy and flow control when the run ended; empty without gauges.
fn gauge_table(switch: &SwitchSummary) -> Table {
    let classes = || switch.ports.iter().flat_map(|port| port.classes.iter().map(move |class| (port, class)));
    let gauges = distinct_gauges(classes().flat_map(|(_, class)| &class.gauges.0).map(|(gauge, _)| *gauge));
    let heads = gauges.iter().map(|gauge| head(gauge));
    let mut table = Table::new(["Port".to_owned(), "Class".to_owned()].into_iter().chain(heads));
    for (port, class) in classes() {
        let shown = &class.gauges.0;
        let cell = |gauge: &&Gauge| match shown.iter().find(|(other, _)| other.name == gauge.name) {
            Some((Gauge { unit: Unit::State { on, off }, .. }, value)) => if *value > 0 { on } else { off }.to_string(),
            Some((_, value)) => count(*value),
            None => "-".to_owned(),
        };
        if !shown.is_empty() {
            table.row([port.name.clone(), class.class.to_string()].into_iter().chain(gauges.iter().map(cell)));
        }
    }
    table
}

/// `Headroom estimate B`.
fn head(gauge: &Gauge) -> String {
    let (first, rest) = gauge.label.split_at(gauge.label.chars().next().map_or(0, char::len_utf8));
    let unit = if gauge.unit == Unit::Bytes { " B" } else { "" };
    format!("{}{rest}{unit}", first.to_uppercase())
}
