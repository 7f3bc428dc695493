//! The summary of a run: for people as tables, for programs as JSON.

mod tables;
#[cfg(test)]
mod tests;

pub(crate) use tables::summary_text;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use weir_config::{FlowControlChoice, PortConfig, SwitchConfig};
use weir_dpdk_driver::{DeviceReport, GapReport, LcoreStats, Placement, Stopped};
use weir_mmu::PoolUsage;
use weir_mmu::policy::{Gauge, Unit};
use weir_switch_core::Report;
use weir_switch_core::counters::DropReason;
use weir_switch_core::line_time::LineTimeLoss;
use weir_switch_core::report::{ClassReport, DelayStats, PortReport};
use weir_units::{BitRate, FRAME_BYTES_MIN, PortId, Span, WIRE_OVERHEAD_BYTES};

use crate::below_rate::{PollDelay, below_rate};
use crate::losses::LossSummary;
use crate::nics::NicSummary;
use crate::replay::ReplaySummary;

/// A finished run. Sizes are in bytes without FCS where frames are counted, as charged where buffers are.
#[derive(Serialize)]
pub(crate) struct RunSummary {
    weir_version: &'static str,
    dpdk_version: String,
    ran_for_s: f64,
    switches: Vec<SwitchSummary>,
    lcores: Vec<LcoreSummary>,
    mbufs_missing: u32,
    /// Replay results, where a port replays a trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    replay: Option<ReplaySummary>,
}

#[derive(Serialize)]
struct SwitchSummary {
    name: String,
    policy: &'static str,
    frame_conservation: ConservationSummary,
    drops: BTreeMap<&'static str, u64>,
    pool: PoolSummary,
    /// Headroom pool, where headroom is one pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    headroom_pool: Option<SidePoolSummary>,
    /// Egress lossy pool, in the four-pool model.
    #[serde(skip_serializing_if = "Option::is_none")]
    egress_lossy_pool: Option<SidePoolSummary>,
    pause_delay_ns: DelaySummary,
    reaction_delay_ns: DelaySummary,
    ports: Vec<PortSummary>,
}

#[derive(Serialize)]
struct ConservationSummary {
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

/// Pool other than the shared segment.
#[derive(Serialize)]
struct SidePoolSummary {
    size_bytes: u64,
    used_bytes: u64,
    used_max_bytes: u64,
}

/// A delay on the switch's clock. For messages: from the arrival that crosses Xoff, or makes a GFC stage rise, to the message
/// handed to the port. For reactions: from a peer's message that slows a class down, to the transmitter's obeying it.
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
    flow_control: &'static str,
    #[serde(skip)]
    speaks: FlowControlChoice,
    #[serde(skip)]
    rate: Option<BitRate>,
    pfc_rx: u64,
    pfc_tx: u64,
    pause_rx: u64,
    pause_tx: u64,
    credit_rx: u64,
    credit_tx: u64,
    /// Messages of a flow control with frames of its own; left out where there are none.
    #[serde(skip_serializing_if = "is_zero")]
    own_rx: u64,
    #[serde(skip_serializing_if = "is_zero")]
    own_tx: u64,
    /// Share of the link used by sent control frames, each with preamble and gap; null where the configuration gives no rate.
    control_tx_link_percent: Option<f64>,
    /// Invalid messages that were obeyed: stages above the last, pauses taken for stages, credit limits that decrease or exceed the buffer.
    #[serde(rename = "odd_messages")]
    invalid_messages: u64,
    /// Messages of another flow control than the port's.
    #[serde(rename = "foreign_messages")]
    mismatched_messages: u64,
    /// Messages with credit for more than a buffer has.
    excessive_credits: u64,
    /// Number of credit resynchronisations with the peer: frames were lost on the link, or an end was restarted.
    credit_resyncs: u64,
    /// Number of times that a class returned to the line rate because the peer's last GFC message had aged.
    rates_aged: u64,
    control_ignored: u64,
    pfc_rx_lossy: u64,
    control_malformed: u64,
    /// Number of times that a due message found no memory: it went in a later round of the lcore.
    control_put_off: u64,
    /// Frames that the device itself lost before the switch saw them.
    device_missed: u64,
    /// Frames that the device lost for want of mbufs: a fault of the set-up.
    device_no_mbuf: u64,
    /// The most frames that stood in the device's own transmit queue, out of the buffer's sight; null where the device
    /// does not count it.
    device_backlog_max: Option<u32>,
    /// Frames that left by queue 0 of a port with several, since the guest takes none from their own.
    queue_fallbacks: u64,
    /// Line usage of a shaped port; null for a port without a rate.
    line_time: Option<LineSummary>,
    /// Frames lost before the switch had them, and after it handed them over; frame conservation leaves them out.
    device_losses: LossSummary,
    /// NIC between the device and the switch, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    nic: Option<NicSummary>,
    classes: Vec<ClassSummary>,
}

/// Line time of a port, on the switch's clock.
#[derive(Serialize)]
struct LineSummary {
    /// Time for which frames waited for the wire.
    waited_us: u64,
    /// Lost time: by polls that came late, and by a device that took no frames.
    lost_to_late_polls_us: u64,
    lost_to_device_us: u64,
    /// Both losses, as a share of the time that frames waited.
    below_rate_percent: f64,
    /// Largest backlog that one poll made up, as a time at line rate.
    burst_max_us: u64,
    /// Reason why the port was served below its rate; null if the loss is under 1 %.
    below_rate: Option<String>,
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
    /// The policy's gauges when the run ended, then the flow control's: SPFC's `victim`, DSH's and adaptive headroom's
    /// `headroom_estimate_bytes`.
    #[serde(flatten)]
    gauges: GaugeValues,
    /// Watchdog statistics, where the class is watched for PFC storms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pfc_watchdog: Option<WatchdogSummary>,
    /// GFC: the rate that the peer set when the run ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_rx_bps: Option<u64>,
}

/// Gauges of policy and flow control, by name: a state is true or false, others are numbers.
struct GaugeValues(Vec<(&'static Gauge, u64)>);

impl Serialize for GaugeValues {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for &(gauge, value) in &self.0 {
            match gauge.unit {
                Unit::State { .. } => map.serialize_entry(gauge.name, &(value > 0))?,
                Unit::Bytes | Unit::Count => map.serialize_entry(gauge.name, &value)?,
            }
        }
        map.end()
    }
}

/// A queue's PFC watchdog, with SONiC's names.
#[derive(Serialize)]
struct WatchdogSummary {
    #[serde(rename = "PFC_WD_STATUS")]
    status: &'static str,
    #[serde(flatten)]
    counters: BTreeMap<&'static str, u64>,
}

#[derive(Serialize)]
struct LcoreSummary {
    cpu: u32,
    busy_permille: u64,
    /// Longest time between two polls: latency added by the machine.
    poll_gap_max_us: u64,
    poll_gaps_ns: GapSummary,
    cpu_time_ms: u64,
    /// Time for which others had the CPU while the lcore was ready to run; null where the kernel does not report it.
    cpu_waited_ms: Option<u64>,
    /// Involuntary context switches.
    cpu_preempted: Option<u64>,
    /// Time for which a hypervisor had the CPU.
    cpu_stolen_ms: Option<u64>,
    #[serde(skip)]
    poll_delay: PollDelay,
}

/// The times between two polls: percentiles of all gaps, and of the gaps that an instant at any time falls into.
#[derive(Serialize)]
struct GapSummary {
    polls: u64,
    p50: u64,
    p99: u64,
    p999: u64,
    max: u64,
    by_time_p50: u64,
    by_time_p99: u64,
    by_time_p999: u64,
}

impl RunSummary {
    /// Builds the summary of stopped switches.
    pub(crate) fn new(
        switches: &[SwitchConfig],
        placement: &Placement,
        stopped: &Stopped,
        ran_for: Duration,
    ) -> RunSummary {
        let lcores: Vec<LcoreSummary> = stopped.lcores.iter().map(|(cpu, stats)| lcore_summary(*cpu, stats)).collect();
        let poll_delay = |switch: usize| {
            let lcores = &lcores;
            move |port: PortId| {
                let cpu = placement.transmits_on(switch, port)?;
                lcores.iter().find(|lcore| lcore.cpu == cpu).map(|lcore| lcore.poll_delay)
            }
        };
        let summaries = switches.iter().zip(&stopped.reports).zip(&stopped.devices).enumerate();
        let summaries = summaries.map(|(index, ((config, report), devices))| {
            switch_summary(config, report, devices, ran_for, poll_delay(index))
        });
        RunSummary {
            weir_version: env!("CARGO_PKG_VERSION"),
            dpdk_version: weir_dpdk_io::version(),
            ran_for_s: ran_for.as_secs_f64(),
            switches: summaries.collect(),
            lcores,
            mbufs_missing: stopped.mbufs_missing,
            replay: stopped.replay.as_ref().map(|report| ReplaySummary::new(report, &[])),
        }
    }

    /// Whether devices, or NICs in front of hosts, may have lost lossless frames.
    pub(crate) fn devices_lost_lossless(&self) -> bool {
        let of_nic = |port: &PortSummary| port.nic.as_ref().is_some_and(|nic| nic.fault().is_some());
        let mut ports = self.switches.iter().flat_map(|switch| &switch.ports);
        ports.any(|port| port.device_losses.fault().is_some() || of_nic(port))
    }

    /// Reason why the run failed, if it did.
    pub(crate) fn fault(&self) -> Option<String> {
        for switch in &self.switches {
            let name = &switch.name;
            let violations = switch.drops.get(DropReason::HeadroomViolation.name()).copied().unwrap_or(0);
            if violations > 0 {
                let most = |port: &&PortSummary| port.dropped(DropReason::HeadroomViolation);
                let what = switch.ports.iter().max_by_key(most).map_or("", |port| port.speaks.loss_hint().0);
                return Some(format!("{name}: {violations} lossless frames were dropped ({what})"));
            }
            let without_memory = switch.drops.get(DropReason::NoMemory.name()).copied().unwrap_or(0)
                + switch.ports.iter().map(|port| port.device_no_mbuf).sum::<u64>();
            if without_memory > 0 {
                return Some(format!(
                    "{name}: {without_memory} frames were lost for want of packet memory: a fault of the set-up"
                ));
            }
            if let Some((port, fault)) =
                switch.ports.iter().find_map(|port| Some((&port.name, port.device_losses.fault()?)))
            {
                return Some(format!("{name}: port {port}: {fault}"));
            }
            if let Some((port, fault)) =
                switch.ports.iter().find_map(|port| Some((&port.name, port.nic.as_ref()?.fault()?)))
            {
                return Some(format!("{name}: port {port}: {fault}"));
            }
            if !switch.frame_conservation.holds {
                return Some(format!("{name}: frames are not conserved"));
            }
        }
        (self.mbufs_missing > 0).then(|| format!("{} packet buffers did not come back", self.mbufs_missing))
    }
}

impl PortSummary {
    /// Frames of all classes that were dropped for a reason.
    fn dropped(&self, reason: DropReason) -> u64 {
        self.classes.iter().filter_map(|class| class.drops.get(reason.name())).sum()
    }
}

fn lcore_summary(cpu: u32, stats: &LcoreStats) -> LcoreSummary {
    let poll_delay = PollDelay::for_run(cpu, stats);
    let GapReport { polls, p50, p99, p999, max, by_time_p50, by_time_p99, by_time_p999 } = stats.gaps().report();
    let millis = |span: Duration| span.as_millis() as u64;
    LcoreSummary {
        cpu,
        busy_permille: stats.busy_permille(),
        poll_gap_max_us: stats.gap_max().as_micros(),
        poll_gaps_ns: GapSummary {
            polls,
            p50: p50.as_nanos(),
            p99: p99.as_nanos(),
            p999: p999.as_nanos(),
            max: max.as_nanos(),
            by_time_p50: by_time_p50.as_nanos(),
            by_time_p99: by_time_p99.as_nanos(),
            by_time_p999: by_time_p999.as_nanos(),
        },
        cpu_time_ms: stats.cpu_time_ns() / 1_000_000,
        cpu_waited_ms: poll_delay.cpu_use.waited.map(millis),
        cpu_preempted: poll_delay.cpu_use.preempted,
        cpu_stolen_ms: poll_delay.cpu_use.stolen.map(millis),
        poll_delay,
    }
}

/// `poll_delay` is that of the lcore that a port transmits on.
fn switch_summary(
    config: &SwitchConfig,
    report: &Report,
    devices: &[DeviceReport],
    ran_for: Duration,
    poll_delay: impl Fn(PortId) -> Option<PollDelay>,
) -> SwitchSummary {
    let balance = report.conservation;
    let clock_ran_for = Span::from_nanos(ran_for.as_nanos() as u64).divided_by(u64::from(config.time_dilation));
    let ports = report.ports.iter().zip(&config.ports).zip(devices).enumerate();
    let ports = ports.map(|(number, ((port, own), device))| {
        let line = port.line_time.map(|line| line_summary(&line, poll_delay(PortId(number as u16)).as_ref()));
        let losses = LossSummary::new(config, number, &device.losses);
        let nic = device.nic.as_ref().map(|report| NicSummary::new(config, report));
        PortSummary { line_time: line, nic, ..port_summary(port, own, device, losses, clock_ran_for) }
    });
    SwitchSummary {
        name: config.name.clone(),
        policy: config.buffer.policy.name(),
        frame_conservation: ConservationSummary {
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
        pause_delay_ns: delay(&report.message_delay),
        reaction_delay_ns: delay(&report.reaction),
        ports: ports.collect(),
    }
}

fn line_summary(line: &LineTimeLoss, poll_delay: Option<&PollDelay>) -> LineSummary {
    LineSummary {
        waited_us: line.waited.as_micros(),
        lost_to_late_polls_us: line.lost_late.as_micros(),
        lost_to_device_us: line.lost_refused.as_micros(),
        below_rate_percent: line.percent_below_rate(),
        burst_max_us: line.burst_max.as_micros(),
        below_rate: below_rate(line, poll_delay),
    }
}

fn delay(delay: &DelayStats) -> DelaySummary {
    DelaySummary { count: delay.count, p50: delay.p50, p99: delay.p99, p999: delay.p999, max: delay.max }
}

fn side_pool(pool: PoolUsage) -> SidePoolSummary {
    SidePoolSummary {
        size_bytes: pool.capacity.get(),
        used_bytes: pool.used.get(),
        used_max_bytes: pool.used_max.get(),
    }
}

fn port_summary(
    port: &PortReport,
    config: &PortConfig,
    device: &DeviceReport,
    device_losses: LossSummary,
    ran_for: Span,
) -> PortSummary {
    let rate = config.rate.or(port.link_rate);
    let is_shown = |class: &ClassReport| class.is_used() || class.rate_rx.is_some_and(|rate| Some(rate) < config.rate);
    PortSummary {
        name: port.name.clone(),
        link_up: port.link_up,
        flow_control: config.flow_control.label(),
        speaks: config.flow_control.clone(),
        rate,
        pfc_rx: port.control_rx.pfc,
        pfc_tx: port.control_tx.pfc,
        pause_rx: port.control_rx.pause,
        pause_tx: port.control_tx.pause,
        credit_rx: port.control_rx.credit,
        credit_tx: port.control_tx.credit,
        own_rx: port.control_rx.own,
        own_tx: port.control_tx.own,
        control_tx_link_percent: rate.map(|rate| link_percent(port.control_tx.messages(), rate, ran_for)),
        invalid_messages: port.invalid_messages,
        mismatched_messages: port.mismatch.foreign,
        excessive_credits: port.mismatch.excessive_credits,
        credit_resyncs: port.mismatch.resyncs,
        rates_aged: port.mismatch.aged,
        control_ignored: port.control_rx.ignored,
        pfc_rx_lossy: port.control_rx.lossy_pauses,
        control_malformed: port.control_rx.malformed,
        control_put_off: port.control_tx.put_off,
        device_missed: device.stats.map_or(0, |stats| stats.imissed),
        device_no_mbuf: device.stats.map_or(0, |stats| stats.rx_nombuf),
        device_backlog_max: device.backlog_max,
        queue_fallbacks: device.queue_fallbacks,
        device_losses,
        nic: None,
        line_time: None,
        classes: (port.classes.iter().enumerate())
            .filter(|(_, class)| is_shown(class))
            .map(|(class, report)| class_summary(class, report))
            .collect(),
    }
}

fn class_summary(class: usize, report: &ClassReport) -> ClassSummary {
    ClassSummary {
        class,
        rx_frames: report.rx_frames,
        rx_bytes: report.rx_bytes,
        tx_frames: report.tx_frames,
        tx_bytes: report.tx_bytes,
        ce_marked: report.ce_marked,
        drops: reasons(|reason| report.dropped(reason)),
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
        gauges: GaugeValues(report.ingress.gauges.iter().chain(report.gauges.iter()).collect()),
        pfc_watchdog: report.storms.map(|storms| WatchdogSummary {
            status: if storms.in_storm() { "stormed" } else { "operational" },
            counters: storms.named().into(),
        }),
        rate_rx_bps: report.rate_rx.map(BitRate::as_bps),
    }
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// Share of a link used by `frames` control frames: the smallest frame, preamble and gap each.
fn link_percent(frames: u64, rate: BitRate, span: Span) -> f64 {
    let bits = frames as f64 * 8.0 * (FRAME_BYTES_MIN + WIRE_OVERHEAD_BYTES) as f64;
    bits * 100.0 / (rate.as_bps() as f64 * span.as_secs_f64()).max(1.0)
}

/// The reasons that occurred.
fn reasons(dropped: impl Fn(DropReason) -> u64) -> BTreeMap<&'static str, u64> {
    DropReason::ALL.into_iter().map(|reason| (reason.name(), dropped(reason))).filter(|(_, n)| *n > 0).collect()
}
