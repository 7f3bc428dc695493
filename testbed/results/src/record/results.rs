//! Builds the summary from counters and the record.

use std::collections::BTreeMap;

use weir_config::SwitchConfig;
use weir_flowctl::MessageKind;
use weir_nic::host::{ClassStats, Host, ReceiverStats, ReorderDepth, SenderStats};
use weir_scenario::link::FaultCounters;
use weir_scenario::{HostPlan, LinkPeer, PortRef, Scenario, WindowPlan};
use weir_switch_core::Report;
use weir_switch_core::counters::DropReason;
use weir_switch_core::flow_control::{RATE_UNKNOWN, flow_control_context, port_flow_control};
use weir_switch_core::report::{ClassReport, PortReport};
use weir_units::{BitRate, Bytes, CLASSES, Class, ClassSet, Span, Time};

use super::messages::spread;
use super::recorder::RunRecord;
use super::sample_summary::SampleSummary;
use crate::feedback::FeedbackStats;
use crate::measure::flow_control;
use crate::run_dir::{
    ClassSummary, DeadlockSummary, FeedbackSummary, FlowControlSummary, FlowSummary, FlowWindow, GaugeFigures,
    GaugeSamples, HostClassSummary, HostSummary, INTERRUPTED, LinkDirectionSummary, LoadBalancingSummary,
    MessageSummary, PoolSummary, PortSummary, PortWindow, StandstillSummary, Summary, SwitchSummary, Window,
    throughput,
};

/// Final state of a run, from its backend.
pub struct RunResult<'a> {
    /// Name of the backend.
    pub backend: &'static str,
    /// Final reports of the switches.
    pub reports: &'a [Report],
    /// Duration of the run.
    pub duration: Span,
    /// Sender's counters of each flow.
    pub sent: Vec<SenderStats>,
    /// Receiver's counters of each flow.
    pub arrived: Vec<ReceiverStats>,
    /// Final counters of each host's NIC.
    pub nics: Vec<NicStats>,
    /// Final counters of each host's link, toward the host and toward the switch.
    pub host_links: Vec<Option<LinkStats>>,
    /// Final counters of each link between switches, in each direction.
    pub links: Vec<Option<LinkStats>>,
    /// Whether no frame of a lossless class was lost.
    pub lossless: bool,
    /// Reasons that make the run invalid, in sentences.
    pub failures: Vec<String>,
    /// Further remarks, in sentences.
    pub notes: Vec<String>,
}

/// Final counters of a host's NIC.
#[derive(Clone, Copy, Debug, Default)]
pub struct NicStats {
    /// Counters of each class.
    pub classes: [ClassStats; CLASSES],
    /// Flow-control messages sent.
    pub control_sent: u64,
    /// Depth of reordering.
    pub reordering: ReorderDepth,
}

impl NicStats {
    /// Reads the counters of a host's NIC as of `now`.
    pub fn read(host: &Host, now: Time) -> NicStats {
        let classes = Class::ALL.map(|class| host.class_stats(now, class));
        NicStats { classes, control_sent: host.counters().control_sent, reordering: *host.reordering() }
    }
}

/// Final counters of a link, in each direction.
#[derive(Clone, Copy, Debug)]
pub struct LinkStats {
    /// Frames delivered.
    pub delivered: [u64; 2],
    /// Injected faults.
    pub faults: [FaultCounters; 2],
    /// Feedback delay τ of the data in each direction; `None` if not measured.
    pub feedback: [Option<FeedbackStats>; 2],
}

/// Builds the summary of a run that has ended.
pub fn summary(scenario: &Scenario, ended: RunResult<'_>, record: &RunRecord) -> Summary {
    let reports = ended.reports;
    let all = &record.ports;
    let mut shown = record.flow_gauges.iter().copied();
    let of_flow = |names: Vec<&str>| names.into_iter().map(str::to_owned).zip(shown.by_ref()).collect();
    let mut gauges = scenario.flow_gauges().into_iter().map(of_flow);
    let flows = scenario.flows.iter().zip(ended.sent.iter().zip(&ended.arrived)).zip(&record.flows).map(
        |((plan, (sent, arrived)), by_the_end)| FlowSummary {
            from: scenario.host_name(plan.from).to_owned(),
            to: scenario.host_name(plan.to).to_owned(),
            class: plan.config.class.index() as u8,
            throughput_bps: throughput(by_the_end.received, ended.duration),
            gauges: gauges.next().unwrap_or_default(),
            ..FlowSummary::new(&plan.name, sent, arrived, ended.duration)
        },
    );
    let ports = all.linked().map(|of_port| {
        let place = of_port.place;
        let port = &reports[place.switch].ports[place.port];
        let paused_there: [Option<Span>; CLASSES] = match of_port.peer {
            Some(LinkPeer::Host(host)) => ended.nics[host].classes.map(|class| Some(class.paused_for)),
            Some(LinkPeer::Port(peer)) => {
                reports[peer.switch].ports[peer.port].classes.each_ref().map(|class| Some(class.paused_rx))
            }
            None => [None; CLASSES],
        };
        let watched = all.queues_of(place).map(|n| (all.queues()[n].class, record.queue_summary(n)));
        let config = &scenario.switches[place.switch];
        let number = all.number(place);
        let messages = record.messages.of_port(number);
        let rate = rate(scenario, place);
        let others = others(&reports[place.switch].ports, place.port);
        let watched: Vec<(Class, SampleSummary)> = watched.collect();
        let mut classes = class_summaries(port, &paused_there, &watched, &others, config.classes.lossless);
        if config.ports[place.port].flow_control.message_kind() == MessageKind::Stages {
            let stage = |class: &ClassSummary| record.stages[number][usize::from(class.class)];
            classes.iter_mut().for_each(|class| class.stage_max = Some(u64::from(stage(class))));
        }
        PortSummary {
            name: of_port.name.clone(),
            host: of_port.peer.map_or_else(String::new, |behind| scenario.peer_name(behind)),
            flow_control: config.ports[place.port].flow_control.label().to_owned(),
            feedback_ns: feedback_configured(scenario, place).map(Span::as_nanos),
            messages: MessageSummary {
                sent: record.messages.sent(number),
                share_ppm: messages.share_ppm(rate, ended.duration),
                share_worst_ppm: messages.worst_ppm(rate),
            },
            classes,
        }
    });
    let mut notes = scenario.notes.clone();
    notes.extend(ended.notes.iter().cloned());
    notes.extend(all.note());
    let lossy_dropped = dropped(scenario, reports, false);
    if lossy_dropped > 0 {
        notes.push(format!("{lossy_dropped} frames of classes that are not lossless were dropped"));
    }
    for (reason, text) in KEPT_AWAY {
        let frames = kept_away_by(scenario, reports, reason);
        // The summary of outages has those at their ports.
        if frames > 0 && (reason != DropReason::PortDown || scenario.outages.is_empty()) {
            notes.push(format!("{frames} frames of lossless classes were dropped {text}"));
        }
    }
    let lossy_overflown = overflow(scenario, &ended.nics, false).map(|(_, frames)| frames).sum::<u64>();
    if lossy_overflown > 0 {
        notes.push(format!(
            "{lossy_overflown} frames of classes that are not lossless found no room in the receive buffers of hosts"
        ));
    }
    let of_classes = ended.nics.iter().flat_map(|nic| &nic.classes);
    let host_pauses_sent = of_classes.map(|class| class.pauses_sent).sum();
    let [messages_share_mean_ppm, messages_share_p99_ppm, messages_share_max_ppm] = message_shares(scenario, record);
    let flow_control = FlowControlSummary {
        host_pauses_sent,
        messages_share_mean_ppm,
        messages_share_p99_ppm,
        messages_share_max_ppm,
        ..flow_control(reports, ended.duration)
    };
    if flow_control.pauses_sent + flow_control.host_pauses_sent == 0 {
        notes.extend(record.survey.nearest_note(scenario));
    }
    let mut switches = switch_summaries(scenario, reports, record);
    let SwitchSummary { pool, headroom_pool, egress_lossy_pool, off_queues, .. } =
        switches.first().cloned().unwrap_or_default();
    let is_alone = scenario.switches.len() == 1;
    if is_alone {
        switches.clear();
    }
    Summary {
        failures: ended.failures.clone(),
        scenario: scenario.name.clone(),
        backend: ended.backend.to_owned(),
        policy: scenario.policy.clone(),
        parameters: scenario.parameters.clone(),
        time_dilation: u64::from(scenario.time_dilation()),
        duration_ns: ended.duration.as_nanos(),
        wall_ms: None,
        late_ns: 0,
        poll_gap_max_ns: None,
        lossless: ended.lossless,
        deadlock: record.deadlock().map(|deadlock| DeadlockSummary {
            cycle: deadlock.cycle_in(scenario),
            since_ns: deadlock.since.as_nanos(),
            dissolved_ns: deadlock.dissolved_at.map(Time::as_nanos),
        }),
        standstill: record.standstill().map(|standstill| StandstillSummary {
            queues: standstill.queues_in(scenario),
            since_ns: standstill.since.as_nanos(),
            dissolved_ns: standstill.dissolved_at.map(Time::as_nanos),
        }),
        flow_control: Some(flow_control),
        load_balancing: scenario.reorders().then(|| load_balancing(reports, record, &ended.nics)),
        traffic: Vec::new(),
        frames: None,
        llr: None,
        outages: None,
        flows: flows.collect(),
        ports: ports.collect(),
        hosts: slow_hosts(scenario, &ended.nics),
        real_hosts: Vec::new(),
        switches,
        links: link_summaries(scenario, &ended, all.is_large()),
        pool,
        headroom_pool,
        egress_lossy_pool,
        off_queues: off_queues.filter(|_| is_alone),
        egress_use: record.egress_use.summary(),
        windows: scenario.windows.iter().filter_map(|plan| window(scenario, plan, record)).collect(),
        notes,
    }
}

/// Summarises each direction of the links where there are several switches, faults were injected, or τ is measured. A large
/// fabric has only directions with faults or a measured τ.
fn link_summaries(scenario: &Scenario, ended: &RunResult<'_>, is_large: bool) -> Vec<LinkDirectionSummary> {
    let mut summaries = Vec::new();
    let mut add = |ends: [String; 2], stats: Option<LinkStats>, asked: [bool; 2]| {
        let Some(stats) = stats else { return };
        for (n, _) in asked.iter().enumerate().filter(|(_, asked)| **asked) {
            let faults = stats.faults[n];
            summaries.push(LinkDirectionSummary {
                from: ends[n].clone(),
                to: ends[1 - n].clone(),
                frames: stats.delivered[n],
                lost: faults.lost,
                corrupted: faults.corrupted,
                duplicated: faults.duplicated,
                reordered: faults.reordered,
                feedback: stats.feedback[n].as_ref().and_then(FeedbackSummary::from_stats),
            });
        }
    };
    let is_measured = scenario.measures_feedback;
    for (plan, stats) in scenario.links.iter().zip(&ended.links) {
        let asked = plan.faults.map(|faults| is_measured || !is_large || !faults.is_none());
        add(plan.ends.map(|end| scenario.port_name(end)), *stats, asked);
    }
    let several = is_measured || scenario.switches.len() > 1 && !is_large;
    for (plan, stats) in scenario.hosts.iter().zip(&ended.host_links) {
        let ends = [scenario.port_name(plan.place()), plan.name.clone()];
        add(ends, *stats, plan.faults.map(|faults| several || !faults.is_none()));
    }
    summaries
}

fn switch_summaries(scenario: &Scenario, reports: &[Report], record: &RunRecord) -> Vec<SwitchSummary> {
    let of_switch = |(n, (config, report)): (usize, (&SwitchConfig, &Report))| SwitchSummary {
        private_max_bytes: record.survey.private_max(n).get(),
        headroom_max_bytes: record.survey.headroom_max(n).get(),
        off_queues: record.xoff_queues.summary(n),
        name: config.name.clone(),
        pool: pool(report.pool.capacity, report.pool.used_max),
        headroom_pool: report.headroom_pool.map(|of| pool(of.capacity, of.used_max)),
        egress_lossy_pool: report.egress_lossy_pool.map(|of| pool(of.capacity, of.used_max)),
    };
    scenario.switches.iter().zip(reports).enumerate().map(of_switch).collect()
}

/// Returns τ of a port whose flow control has one, configured or by the rule.
fn feedback_configured(scenario: &Scenario, place: PortRef) -> Option<Span> {
    let config = &scenario.switches[place.switch];
    let port = &config.ports[place.port];
    let rate = port.rate.unwrap_or(RATE_UNKNOWN);
    port.flow_control.feedback_delay(&flow_control_context(config, place.port, rate))
}

/// Returns the queue length that a sender estimates at this rate, under a flow control that estimates it.
fn estimated_queue(scenario: &Scenario, place: PortRef, rate: BitRate) -> Option<Bytes> {
    let config = &scenario.switches[place.switch];
    let line = config.ports[place.port].rate.unwrap_or(RATE_UNKNOWN);
    port_flow_control(config, place.port, line).ok()?.estimated_queue(rate)
}

/// Counts the frames that switches dropped while they ran, of lossless or of lossy classes. Those of lossless classes that were
/// [kept away](kept_away) from a port do not count.
pub fn dropped(scenario: &Scenario, reports: &[Report], lossless: bool) -> u64 {
    by_reason(scenario, reports, lossless).into_values().sum()
}

/// Counts the frames of lossless classes that PFC watchdogs, storm control, or ports without link dropped: flow control is no remedy, and no
/// run fails.
pub fn kept_away(scenario: &Scenario, reports: &[Report]) -> u64 {
    KEPT_AWAY.iter().map(|(reason, _)| kept_away_by(scenario, reports, *reason)).sum()
}

fn kept_away_by(scenario: &Scenario, reports: &[Report], reason: DropReason) -> u64 {
    class_reports(scenario, reports, true).map(|counters| counters.dropped(reason)).sum()
}

/// Reasons that keep frames of lossless classes away from a port, each with the text of a note.
const KEPT_AWAY: [(DropReason, &str); 3] = [
    (DropReason::PfcWatchdog, "in PFC storms, by the watchdog"),
    (DropReason::StormControl, "by storm control"),
    (DropReason::PortDown, "at ports without link, or closed"),
];

/// Formats the failure of a run that was interrupted at `at`.
pub fn interrupted(at: Time, end: Time) -> String {
    let [at, end] = [at, end].map(|time| time.since(Time::ZERO));
    format!("{INTERRUPTED}{at} of {end}")
}

/// Formats the failure on dropped lossless frames, if any.
pub fn lost_lossless(scenario: &Scenario, reports: &[Report]) -> Option<String> {
    let by_reason = by_reason(scenario, reports, true);
    let frames: u64 = by_reason.values().sum();
    let reasons = by_reason.iter().map(|(reason, frames)| format!("{frames} {reason}"));
    (frames > 0).then(|| format!("{frames} lossless frames were lost: {}", reasons.collect::<Vec<_>>().join(", ")))
}

/// Counts each host's frames that found its receive buffer full, of lossless or of lossy classes.
fn overflow(scenario: &Scenario, nics: &[NicStats], lossless: bool) -> impl Iterator<Item = (usize, u64)> {
    scenario.hosts.iter().zip(nics).enumerate().map(move |(host, (plan, nic))| {
        let classes = Class::ALL.into_iter().zip(&nic.classes);
        let asked = classes.filter(|(class, _)| plan.nic.lossless.contains(*class) == lossless);
        (host, asked.map(|(_, class)| class.receive_overflow).sum())
    })
}

/// Formats the failure on lossless frames that found hosts' receive buffers full, if any.
pub fn overflown_lossless(scenario: &Scenario, nics: &[NicStats]) -> Option<String> {
    /// Hosts named in the message; a longer list is not readable.
    const NAMED: usize = 4;
    let hosts: Vec<(usize, u64)> = overflow(scenario, nics, true).filter(|(_, frames)| *frames > 0).collect();
    let frames: u64 = hosts.iter().map(|(_, frames)| frames).sum();
    let named = hosts.iter().take(NAMED).map(|(host, frames)| format!("{} {frames}", scenario.hosts[*host].name));
    let mut named: Vec<String> = named.collect();
    if hosts.len() > NAMED {
        named.push(format!("and {} hosts more", hosts.len() - NAMED));
    }
    (frames > 0).then(|| {
        format!("{frames} lossless frames were lost, as they found no room in receive buffers: {}", named.join(", "))
    })
}

fn slow_hosts(scenario: &Scenario, nics: &[NicStats]) -> Vec<HostSummary> {
    let of_host = |(plan, nic): (&HostPlan, &NicStats)| {
        let limit = plan.nic.receive?;
        let classes = Class::ALL.into_iter().zip(&nic.classes);
        let seen = classes.filter(|(_, class)| class.receive_buffer_max > Bytes::ZERO || class.receive_overflow > 0);
        let class = |(number, class): (Class, &ClassStats)| HostClassSummary {
            class: number.index() as u8,
            lossless: plan.nic.lossless.contains(number),
            pauses_sent: class.pauses_sent,
            receive_buffer_max_bytes: class.receive_buffer_max.get(),
            receive_overflow: class.receive_overflow,
        };
        Some(HostSummary {
            name: plan.name.clone(),
            receive_rate_bps: limit.rate.as_bps(),
            xoff_bytes: limit.buffer.get(),
            xon_bytes: limit.xon.get(),
            receive_buffer_bytes: (limit.buffer + limit.headroom).get(),
            messages_sent: nic.control_sent,
            classes: seen.map(class).collect(),
        })
    };
    scenario.hosts.iter().zip(nics).filter_map(of_host).collect()
}

fn by_reason(scenario: &Scenario, reports: &[Report], lossless: bool) -> BTreeMap<&'static str, u64> {
    let is_kept_away = |reason: &DropReason| lossless && KEPT_AWAY.iter().any(|(other, _)| other == reason);
    let counts = |reason: &DropReason| *reason != DropReason::Shutdown && !is_kept_away(reason);
    let mut sums = BTreeMap::new();
    for counters in class_reports(scenario, reports, lossless) {
        for reason in DropReason::ALL.into_iter().filter(counts) {
            let frames = counters.dropped(reason);
            if frames > 0 {
                *sums.entry(reason.name()).or_insert(0) += frames;
            }
        }
    }
    sums
}

/// Counters of all switches' lossless or lossy classes.
fn class_reports<'r>(
    scenario: &'r Scenario,
    reports: &'r [Report],
    lossless: bool,
) -> impl Iterator<Item = &'r ClassReport> {
    scenario.switches.iter().zip(reports).flat_map(move |(config, report)| {
        let classes = report.ports.iter().flat_map(|port| Class::ALL.into_iter().zip(&port.classes));
        let is_meant = move |class: Class| config.classes.lossless.contains(class) == lossless;
        classes.filter(move |(class, _)| is_meant(*class)).map(|(_, counters)| &**counters)
    })
}

fn load_balancing(reports: &[Report], record: &RunRecord, nics: &[NicStats]) -> LoadBalancingSummary {
    let mut reordering = ReorderDepth::default();
    nics.iter().for_each(|nic| reordering.add(&nic.reordering));
    let pauses = |port: &PortReport| port.classes.iter().any(|class| class.pauses_tx > 0);
    LoadBalancingSummary {
        late_packets: reordering.counts.iter().sum(),
        reorder_depth_p99: u64::from(reordering.percentile(99)),
        reorder_depth_max: u64::from(reordering.max),
        ports: record.ports.linked().count() as u64,
        pausing_ports: reports.iter().flat_map(|report| &report.ports).filter(|port| pauses(port)).count() as u64,
        pausing_switches: reports.iter().filter(|report| report.ports.iter().any(pauses)).count() as u64,
    }
}

fn pool(capacity: Bytes, used_max: Bytes) -> PoolSummary {
    PoolSummary { capacity_bytes: capacity.get(), used_max_bytes: used_max.get() }
}

fn rate(scenario: &Scenario, place: PortRef) -> BitRate {
    scenario.switches[place.switch].ports[place.port].rate.unwrap_or(RATE_UNKNOWN)
}

/// Returns mean, 99th percentile and maximum of the share of its link that a port's messages took between two samples, in
/// millionths.
fn message_shares(scenario: &Scenario, record: &RunRecord) -> [u64; 3] {
    let mut shares = BTreeMap::new();
    for port in record.ports.linked() {
        let rate = rate(scenario, port.place);
        for (share, times) in record.messages.of_port(record.ports.number(port.place)).shares(rate) {
            *shares.entry(share).or_insert(0) += times;
        }
    }
    spread(&shares)
}

/// Sums, for each class, the PAUSEs of all ports but one and the ingress occupancy at each.
fn others(ports: &[PortReport], but: usize) -> [(u64, Bytes); CLASSES] {
    std::array::from_fn(|class| {
        let others = ports.iter().enumerate().filter(|(port, _)| *port != but).map(|(_, port)| &port.classes[class]);
        others.fold((0, Bytes::ZERO), |(pauses, held), class| (pauses + class.pauses_tx, held + class.held_at_pauses))
    })
}

/// Summarises the classes of a port that saw frames or pauses.
fn class_summaries(
    port: &PortReport,
    paused_there: &[Option<Span>; CLASSES],
    watched: &[(Class, SampleSummary)],
    others: &[(u64, Bytes); CLASSES],
    lossless: ClassSet,
) -> Vec<ClassSummary> {
    let has_traffic = |class: &ClassReport| {
        class.rx_frames + class.tx_frames + class.xoff_tx > 0 || drops(class).values().any(|frames| *frames > 0)
    };
    let classes = Class::ALL.into_iter().zip(&port.classes).filter(|(_, class)| has_traffic(class));
    classes
        .map(|(number, class)| {
            let watched = watched.iter().find(|(class, _)| *class == number).map(|(_, watched)| watched);
            let (others_paused, others_held) = others[number.index()];
            ClassSummary {
                class: number.index() as u8,
                lossless: lossless.contains(number),
                pauses_sent: class.pauses_tx,
                held_at_pauses_bytes: class.held_at_pauses.get(),
                held_at_pause_mean_bytes: class.held_at_pauses.get().checked_div(class.pauses_tx),
                others_pauses_sent: others_paused,
                others_held_at_pauses_bytes: others_held.get(),
                others_held_at_pause_mean_bytes: others_held.get().checked_div(others_paused),
                xoff_frames_sent: class.xoff_tx,
                xon_frames_sent: class.xon_tx,
                paused_ns: class.paused_tx.as_nanos(),
                host_paused_ns: paused_there[number.index()].map(Span::as_nanos),
                ingress_max_bytes: class.ingress.held_max.get(),
                shared_max_bytes: class.ingress.shared_max.get(),
                headroom_max_bytes: class.ingress.headroom_max.get(),
                egress_max_bytes: class.egress_max.get(),
                gauges: GaugeFigures::of_run(|gauge| watched?.gauge(gauge)),
                stage_max: None,
                drops: drops(class),
            }
        })
        .collect()
}

fn drops(class: &ClassReport) -> BTreeMap<String, u64> {
    let counted = DropReason::ALL.map(|reason| (reason.name().to_owned(), class.dropped(reason)));
    counted.into_iter().filter(|(_, frames)| *frames > 0).collect()
}

/// Measures a window between its edges; `None` if the run ended before the second.
fn window(scenario: &Scenario, plan: &WindowPlan, record: &RunRecord) -> Option<Window> {
    let edge_at = |planned: Time| record.edges.iter().position(|edge| edge.planned == planned);
    let edges = [edge_at(plan.from)?, edge_at(plan.to)?];
    let [from, to] = edges.map(|n| &record.edges[n]);
    let all = &record.ports;
    let span = to.at.since(from.at);
    let received: Vec<Bytes> = from.flows.iter().zip(&to.flows).map(|(from, to)| to.received - from.received).collect();
    let flows = scenario.flows.iter().zip(&received).map(|(flow, bytes)| FlowWindow::new(&flow.name, *bytes, span));
    // A queue outside a large fabric's series was not sampled in between.
    let measured = all.linked().filter(|port| !all.is_large() || !all.queues_of(port.place).is_empty());
    let ports = measured.map(|port| {
        let of_host =
            scenario.flows.iter().zip(&received).filter(|(flow, _)| port.peer == Some(LinkPeer::Host(flow.from)));
        let throughput_bps = throughput(of_host.map(|(_, bytes)| *bytes).sum(), span);
        PortWindow { throughput_bps, ..port_window(scenario, record, port.place, edges) }
    });
    Some(Window {
        name: plan.name.clone(),
        from_ns: from.at.as_nanos(),
        to_ns: to.at.as_nanos(),
        flows: flows.collect(),
        ports: ports.collect(),
    })
}

/// Measures a port in a window between two edges, without its host's throughput.
fn port_window(scenario: &Scenario, record: &RunRecord, place: PortRef, edges: [usize; 2]) -> PortWindow {
    let all = &record.ports;
    let [from, to] = edges.map(|n| &record.edges[n]);
    let span = to.at.since(from.at);
    let [before, after] = [from, to].map(|edge| edge.pauses[all.number(place)]);
    let queues: Vec<SampleSummary> =
        all.queues_of(place).map(|n| record.window_summary(n, edges[0] + 1, edges[1] + 1)).collect();
    let received = edges.map(|edge| all.queues_of(place).map(|n| record.received(n, edge)).sum::<Bytes>());
    let peer_rate = queues.iter().filter_map(SampleSummary::peer_rate).min();
    let lengths = || queues.iter().filter_map(SampleSummary::ingress);
    PortWindow {
        port: all.port(place).name.clone(),
        throughput_bps: 0,
        gauges: GaugeFigures::of_window(|gauge| {
            let classes = queues.iter().filter_map(|queue| queue.gauge(gauge));
            classes.reduce(|one, other| GaugeSamples {
                permille: one.permille.max(other.permille),
                last: one.last.max(other.last),
                max: one.max.max(other.max),
            })
        }),
        pauses_sent: after.0 - before.0,
        paused_ns: after.1.saturating_sub(before.1).as_nanos(),
        rx_bps: throughput(received[1] - received[0], span),
        ingress_min_bytes: lengths().map(|[min, ..]| min.get()).min().unwrap_or(0),
        ingress_mean_bytes: lengths().map(|[_, mean, _]| mean.get()).max().unwrap_or(0),
        ingress_max_bytes: lengths().map(|[.., max]| max.get()).max().unwrap_or(0),
        peer_rate_bps: peer_rate.map(BitRate::as_bps),
        reckoned_queue_bytes: peer_rate.and_then(|rate| estimated_queue(scenario, place, rate)).map(Bytes::get),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use weir_scenario::file;
    use weir_switch_core::report::{ControlReport, DelayStats, FrameConservation, ProtocolMismatch};

    use super::*;

    /// A scenario of one switch, class 3 lossless, and a report in which its first port dropped a frame of class 3 for each of these reasons.
    fn dropping(reasons: &[DropReason]) -> (Scenario, Report) {
        let text = "[scenario]\nend = \"1ms\"\n[switch.buffer]\nsize = \"4MB\"\n[switch.classes]\nlossless = [3]\n\
                    [topology]\nkind = \"single\"\nhosts = 2\nrate = \"10Gbps\"\ndelay = \"1us\"\n\
                    [[flows]]\nfrom = \"H0\"\nto = \"H1\"\nclass = 3\ntotal = \"1MB\"\n";
        let runs = file::parse(Path::new("lab.toml"), text).unwrap_or_else(|errors| panic!("{}", errors.render(false)));
        let mut classes: [Arc<ClassReport>; CLASSES] = Default::default();
        for reason in reasons {
            Arc::make_mut(&mut classes[3]).rx_drops[*reason as usize] += 1;
        }
        let port = PortReport {
            name: "H0".to_owned(),
            link_up: true,
            link_rate: None,
            classes,
            control_rx: ControlReport::default(),
            control_tx: ControlReport::default(),
            invalid_messages: 0,
            mismatch: ProtocolMismatch::default(),
            line_time: None,
        };
        let report = Report {
            at: Time::ZERO,
            ports: vec![port],
            pool: Default::default(),
            headroom_pool: None,
            egress_lossy_pool: None,
            conservation: FrameConservation::default(),
            message_delay: DelayStats::default(),
            reaction: DelayStats::default(),
        };
        (runs.into_iter().next().unwrap().scenario, report)
    }

    #[test]
    fn frames_kept_away_from_a_port_are_no_losses() {
        let reasons = [DropReason::PfcWatchdog, DropReason::StormControl, DropReason::PortDown];
        let (scenario, report) = dropping(&reasons);
        let reports = [report];
        assert_eq!((dropped(&scenario, &reports, true), kept_away(&scenario, &reports)), (0, 3));
        assert_eq!(lost_lossless(&scenario, &reports), None);
        let (scenario, report) = dropping(&[DropReason::HeadroomViolation, DropReason::StormControl]);
        let failure = lost_lossless(&scenario, &[report]);
        assert_eq!(failure.as_deref(), Some("1 lossless frames were lost: 1 headroom_violation"));
    }
}
