//! The summary of a run: for people as tables, for programs as JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use weir_config::SwitchConfig;
use weir_dpdk_driver::{DeviceReport, Stopped};
use weir_mmu::PoolUse;
use weir_switch_core::Report;
use weir_switch_core::counters::DropReason;
use weir_switch_core::report::{ClassReport, PortReport};
use weir_units::Bytes;

use crate::table::{Table, count};

/// A finished run. Sizes are in bytes without FCS where frames are counted, as charged where buffers are.
#[derive(Serialize)]
pub struct RunSummary {
    weir_version: &'static str,
    dpdk_version: String,
    ran_for_s: f64,
    switches: Vec<SwitchSummary>,
    lcores: Vec<LcoreSummary>,
    mbufs_missing: u32,
}

#[derive(Serialize)]
struct SwitchSummary {
    name: String,
    policy: &'static str,
    balance: BalanceSummary,
    drops: BTreeMap<&'static str, u64>,
    pool: PoolSummary,
    /// Only where headroom is one pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    headroom_pool: Option<SidePoolSummary>,
    /// Only in the four-pool model.
    #[serde(skip_serializing_if = "Option::is_none")]
    egress_lossy_pool: Option<SidePoolSummary>,
    pause_delay_ns: DelaySummary,
    ports: Vec<PortSummary>,
}

#[derive(Serialize)]
struct BalanceSummary {
    received: u64,
    copied: u64,
    sent: u64,
    dropped: u64,
    held: u64,
    holds: bool,
}

#[derive(Serialize)]
struct PoolSummary {
    shared_bytes: u64,
    used_bytes: u64,
    used_max_bytes: u64,
}

/// A pool beside the shared segment.
#[derive(Serialize)]
struct SidePoolSummary {
    size_bytes: u64,
    used_bytes: u64,
    used_max_bytes: u64,
}

/// From the arrival that crosses Xoff to the PAUSE handed to the port, on the switch's clock.
#[derive(Serialize)]
struct DelaySummary {
    count: u64,
    p50: u64,
    p99: u64,
    p999: u64,
    max: u64,
}

#[derive(Serialize)]
struct PortSummary {
    name: String,
    link_up: bool,
    pfc_rx: u64,
    pfc_tx: u64,
    pause_rx: u64,
    pause_tx: u64,
    control_ignored: u64,
    control_malformed: u64,
    /// Frames that the device itself lost before the switch saw them.
    device_missed: u64,
    /// Frames that the device lost for want of mbufs: a fault of the set-up.
    device_no_mbuf: u64,
    /// The most frames that stood in the device's own transmit queue, out of the buffer's sight; null where the device
    /// does not tell.
    device_backlog_max: Option<u32>,
    classes: Vec<ClassSummary>,
}

#[derive(Serialize)]
struct ClassSummary {
    class: usize,
    rx_frames: u64,
    rx_bytes: u64,
    tx_frames: u64,
    tx_bytes: u64,
    ce_marked: u64,
    drops: BTreeMap<&'static str, u64>,
    xoff_rx: u64,
    xoff_tx: u64,
    xon_tx: u64,
    pauses_rx: u64,
    pauses_tx: u64,
    paused_rx_us: u64,
    paused_tx_us: u64,
    ingress_bytes: u64,
    egress_bytes: u64,
    ingress_max_bytes: u64,
    shared_max_bytes: u64,
    headroom_max_bytes: u64,
    egress_max_bytes: u64,
    /// SPFC: whether the port was in the victim state when the run ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    victim: Option<bool>,
    /// DSH: φ̂ when the run ended; adaptive headroom: Φ as measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    headroom_estimate_bytes: Option<u64>,
}

#[derive(Serialize)]
struct LcoreSummary {
    cpu: u32,
    busy_permille: u64,
    /// The longest time between two polls: what the machine adds to any latency.
    poll_gap_max_us: u64,
    cpu_time_ms: u64,
}

impl RunSummary {
    /// Puts together what a stopped fabric left.
    pub fn new(switches: &[SwitchConfig], stopped: &Stopped, ran_for: Duration) -> RunSummary {
        let lcores = stopped.lcores.iter().map(|(cpu, stats)| LcoreSummary {
            cpu: *cpu,
            busy_permille: stats.busy_permille(),
            poll_gap_max_us: stats.gap_max().as_micros(),
            cpu_time_ms: stats.cpu_time_ns() / 1_000_000,
        });
        let summaries = switches.iter().zip(&stopped.reports).zip(&stopped.devices);
        RunSummary {
            weir_version: env!("CARGO_PKG_VERSION"),
            dpdk_version: weir_dpdk_io::version(),
            ran_for_s: ran_for.as_secs_f64(),
            switches: summaries.map(|((config, report), devices)| switch_summary(config, report, devices)).collect(),
            lcores: lcores.collect(),
            mbufs_missing: stopped.mbufs_missing,
        }
    }

    /// What makes the run a failure, if anything does.
    pub fn fault(&self) -> Option<String> {
        for switch in &self.switches {
            let name = &switch.name;
            let violations = switch.drops.get(DropReason::HeadroomViolation.name()).copied().unwrap_or(0);
            if violations > 0 {
                return Some(format!("{name}: {violations} lossless frames were dropped (headroom violated)"));
            }
            let without_memory = switch.drops.get(DropReason::NoMemory.name()).copied().unwrap_or(0)
                + switch.ports.iter().map(|port| port.device_no_mbuf).sum::<u64>();
            if without_memory > 0 {
                return Some(format!(
                    "{name}: {without_memory} frames were lost for want of packet memory: a fault of the set-up"
                ));
            }
            if !switch.balance.holds {
                return Some(format!("{name}: the books do not balance"));
            }
        }
        (self.mbufs_missing > 0).then(|| format!("{} packet buffers did not come back", self.mbufs_missing))
    }
}

fn switch_summary(config: &SwitchConfig, report: &Report, devices: &[DeviceReport]) -> SwitchSummary {
    let balance = report.balance;
    SwitchSummary {
        name: config.name.clone(),
        policy: config.buffer.policy.name(),
        balance: BalanceSummary {
            received: balance.received,
            copied: balance.copied,
            sent: balance.sent,
            dropped: balance.dropped,
            held: balance.held(),
            holds: balance.holds,
        },
        drops: reasons(|reason| report.dropped(reason)),
        pool: PoolSummary {
            shared_bytes: report.pool.capacity.get(),
            used_bytes: report.pool.used.get(),
            used_max_bytes: report.pool.used_max.get(),
        },
        headroom_pool: report.headroom_pool.map(side_pool),
        egress_lossy_pool: report.egress_lossy_pool.map(side_pool),
        pause_delay_ns: DelaySummary {
            count: report.message_delay.count,
            p50: report.message_delay.p50,
            p99: report.message_delay.p99,
            p999: report.message_delay.p999,
            max: report.message_delay.max,
        },
        ports: report.ports.iter().zip(devices).map(|(port, device)| port_summary(port, device)).collect(),
    }
}

fn side_pool(pool: PoolUse) -> SidePoolSummary {
    SidePoolSummary {
        size_bytes: pool.capacity.get(),
        used_bytes: pool.used.get(),
        used_max_bytes: pool.used_max.get(),
    }
}

fn port_summary(port: &PortReport, device: &DeviceReport) -> PortSummary {
    PortSummary {
        name: port.name.clone(),
        link_up: port.link_up,
        pfc_rx: port.control_rx.pfc,
        pfc_tx: port.control_tx.pfc,
        pause_rx: port.control_rx.pause,
        pause_tx: port.control_tx.pause,
        control_ignored: port.control_rx.ignored,
        control_malformed: port.control_rx.malformed,
        device_missed: device.stats.map_or(0, |stats| stats.imissed),
        device_no_mbuf: device.stats.map_or(0, |stats| stats.rx_nombuf),
        device_backlog_max: device.backlog_max,
        classes: port.classes.iter().enumerate().filter(|(_, class)| class.is_used()).map(class_summary).collect(),
    }
}

fn class_summary((class, report): (usize, &ClassReport)) -> ClassSummary {
    ClassSummary {
        class,
        rx_frames: report.rx_frames,
        rx_bytes: report.rx_bytes,
        tx_frames: report.tx_frames,
        tx_bytes: report.tx_bytes,
        ce_marked: report.ce_marked,
        drops: reasons(|reason| report.rx_drops[reason as usize] + report.tx_drops[reason as usize]),
        xoff_rx: report.xoff_rx,
        xoff_tx: report.xoff_tx,
        xon_tx: report.xon_tx,
        pauses_rx: report.pauses_rx,
        pauses_tx: report.pauses_tx,
        paused_rx_us: report.paused_rx.as_micros(),
        paused_tx_us: report.paused_tx.as_micros(),
        ingress_bytes: (report.ingress.private + report.ingress.shared + report.ingress.headroom).get(),
        egress_bytes: report.egress.get(),
        ingress_max_bytes: report.ingress.held_max.get(),
        shared_max_bytes: report.ingress.shared_max.get(),
        headroom_max_bytes: report.ingress.headroom_max.get(),
        egress_max_bytes: report.egress_max.get(),
        victim: report.ingress.observation.victim,
        headroom_estimate_bytes: report.ingress.observation.headroom_estimate.map(Bytes::get),
    }
}

/// The reasons that occurred.
fn reasons(dropped: impl Fn(DropReason) -> u64) -> BTreeMap<&'static str, u64> {
    DropReason::ALL.into_iter().map(|reason| (reason.name(), dropped(reason))).filter(|(_, n)| *n > 0).collect()
}

/// Prints a summary as tables.
pub fn print_summary(summary: &RunSummary) {
    for switch in &summary.switches {
        let balance = &switch.balance;
        println!("\n{} ran for {:.1} s (policy {})", switch.name, summary.ran_for_s, switch.policy);
        println!(
            "  received {} + copied {} = sent {} + dropped {} + held {}{}",
            count(balance.received),
            count(balance.copied),
            count(balance.sent),
            count(balance.dropped),
            count(balance.held),
            if balance.holds { "" } else { "   THE BOOKS DO NOT BALANCE" }
        );
        let reasons: Vec<_> = switch.drops.iter().map(|(reason, n)| format!("{reason} {}", count(*n))).collect();
        println!("  drops: {}", if reasons.is_empty() { "none".to_owned() } else { reasons.join(", ") });
        println!(
            "  shared buffer: peak {} of {} B",
            count(switch.pool.used_max_bytes),
            count(switch.pool.shared_bytes)
        );
        for (name, pool) in [("headroom pool", &switch.headroom_pool), ("egress lossy pool", &switch.egress_lossy_pool)]
        {
            if let Some(pool) = pool {
                println!("  {name}: peak {} of {} B", count(pool.used_max_bytes), count(pool.size_bytes));
            }
        }
        let delay = &switch.pause_delay_ns;
        if delay.count > 0 {
            println!(
                "  Xoff to PAUSE: p50 {} ns, p99 {} ns, p99.9 {} ns, max {} ns ({} PAUSEs)",
                count(delay.p50),
                count(delay.p99),
                count(delay.p999),
                count(delay.max),
                count(delay.count)
            );
        }
        println!("{}", traffic_table(switch));
        for table in [pause_table(switch), policy_table(switch)] {
            if !table.is_empty() {
                println!("{table}");
            }
        }
    }
    let lcores = summary.lcores.iter().map(|lcore| {
        format!(
            "CPU {}: busy {:.1} %, longest poll gap {} us",
            lcore.cpu,
            lcore.busy_permille as f64 / 10.0,
            count(lcore.poll_gap_max_us)
        )
    });
    println!("  {}", lcores.collect::<Vec<_>>().join("; "));
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

fn pause_table(switch: &SwitchSummary) -> Table {
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
    for port in &switch.ports {
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

/// The policy's own state of lossless queues when the run ended; empty under a policy that has none.
fn policy_table(switch: &SwitchSummary) -> Table {
    let classes = || switch.ports.iter().flat_map(|port| port.classes.iter().map(move |class| (port, class)));
    let victims = classes().any(|(_, class)| class.victim.is_some()).then_some("Port state");
    let estimates =
        classes().any(|(_, class)| class.headroom_estimate_bytes.is_some()).then_some("Headroom estimate B");
    let mut table = Table::new(["Port", "Class"].into_iter().chain(victims).chain(estimates));
    for (port, class) in classes() {
        let victim = class.victim.map(|victim| if victim { "victim" } else { "normal" }.to_owned());
        let estimate = class.headroom_estimate_bytes.map(count);
        if victim.is_some() || estimate.is_some() {
            let cells = [port.name.clone(), class.class.to_string()];
            table.row(cells.into_iter().chain(victim).chain(estimate));
        }
    }
    table
}
