//! From counters to the summary.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_config::{FlowControl, SwitchConfig};
use weir_flowctl::Mechanism;
use weir_switch_core::Report;
use weir_switch_core::counters::DropReason;
use weir_switch_core::flow_control::RATE_UNKNOWN;
use weir_switch_core::flow_control::{feedback_delay, mechanism};
use weir_switch_core::report::{ClassReport, PortReport};
use weir_units::{BitRate, Bytes, CLASSES, Class, Span, Time};

use super::Stopped;
use super::board::{Board, LinkWords};
use super::messages::MessageRate;
use super::recorder::{Edge, Record, queues};
use super::watched::Watched;
use crate::deadlock::Deadlock;
use crate::host::{ReceiverStats, SenderStats};
use crate::run_dir::{
    ClassSummary, DeadlockSummary, FeedbackSummary, FlowSummary, FlowWindow, LaneSummary, MessageSummary, PoolSummary,
    PortSummary, PortWindow, Summary, SwitchSummary, Window, throughput,
};
use crate::scenario::{Behind, PortPlace, Scenario, WindowPlan};

/// The summary of a run that has stopped.
pub(super) fn summary(
    scenario: &Scenario,
    board: &Board,
    stopped: &Stopped,
    record: Record,
    wall: Duration,
) -> Summary {
    let reports = &stopped.reports[..];
    let left: Vec<_> = (0..scenario.hosts.len()).map(|host| board.left_by(host)).collect();
    let mut sent = vec![SenderStats::default(); scenario.flows.len()];
    let mut arrived = vec![ReceiverStats::default(); scenario.flows.len()];
    for (last, sends, receives) in left.iter().flatten() {
        let stats = &last.stats;
        sends.iter().zip(&stats.flows).for_each(|(flow, stats)| sent[*flow] = *stats);
        receives.iter().zip(&stats.receivers).for_each(|(flow, stats)| arrived[*flow] = *stats);
    }
    let duration = scenario.end.since(Time::ZERO);
    let flows = scenario.flows.iter().zip(sent.iter().zip(&arrived)).map(|(plan, (sent, arrived))| FlowSummary {
        from: scenario.hosts[plan.from].name.clone(),
        to: scenario.hosts[plan.to].name.clone(),
        class: plan.config.class.index() as u8,
        ..FlowSummary::new(&plan.name, sent, arrived, duration)
    });
    let Record { edges, watched: of_queues, messages, deadlock } = record;
    let messages: Vec<(PortPlace, MessageRate)> = scenario.ports().zip(messages).collect();
    let watched = |place: PortPlace| -> Vec<(Class, &Watched)> {
        let queues = queues(scenario).zip(&of_queues).filter(|((of, _), _)| *of == place);
        queues.map(|((_, class), watched)| (class, watched)).collect()
    };
    let ports = linked_ports(scenario).map(|(place, behind)| {
        let port = &reports[place.switch].ports[place.port];
        let paused_there: [Span; CLASSES] = match behind {
            Behind::Host(host) => left[host]
                .as_ref()
                .map_or([Span::ZERO; CLASSES], |(last, ..)| last.stats.classes.map(|class| class.paused_for)),
            Behind::Port(peer) => reports[peer.switch].ports[peer.port].classes.map(|class| class.paused_rx),
        };
        let lossless = scenario.switches[place.switch].classes.lossless;
        PortSummary {
            name: scenario.port_name(place),
            host: scenario.name_behind(behind),
            flow_control: scenario.switches[place.switch].ports[place.port].flow_control.name().to_owned(),
            feedback_ns: feedback_configured(scenario, place).map(Span::as_nanos),
            messages: message_summary(scenario, place, &messages),
            classes: class_summaries(port, &paused_there, &watched(place), lossless),
        }
    });
    let all_arrived = sent
        .iter()
        .zip(&arrived)
        .all(|(sent, arrived)| (arrived.lost, arrived.in_order, arrived.payload) == (0, sent.frames, sent.payload));
    let mut notes = scenario.notes.clone();
    let late_hosts = board.unfinished();
    let is_stuck = deadlock.as_ref().is_some_and(Deadlock::persists);
    if !late_hosts.is_empty() && !is_stuck {
        notes.push(format!("{} did not finish: frames were lost, or a class stays paused", late_hosts.join(", ")));
    }
    // What a deadlock holds is not lost: the switches still had it when they were stopped.
    let arrived_or_held =
        if is_stuck { arrived.iter().all(|arrived| arrived.lost == 0) } else { all_arrived && late_hosts.is_empty() };
    let late = left.iter().flatten().map(|(last, ..)| last.late).max().unwrap_or_default();
    notes.extend(machine_notes(scenario, stopped));
    let lossy_dropped = dropped(scenario, reports, false);
    if lossy_dropped > 0 {
        notes.push(format!("{lossy_dropped} frames of classes that are not lossless were dropped"));
    }
    let mut switches = switch_summaries(scenario, reports);
    let SwitchSummary { pool, headroom_pool, egress_lossy_pool, .. } = switches.first().cloned().unwrap_or_default();
    if scenario.switches.len() == 1 {
        switches.clear();
    }
    Summary {
        scenario: scenario.name.clone(),
        backend: "dpdk".to_owned(),
        policy: scenario.policy.clone(),
        parameters: scenario.parameters.clone(),
        time_dilation: u64::from(scenario.time_dilation()),
        duration_ns: duration.as_nanos(),
        wall_ms: wall.as_millis() as u64,
        late_ns: late.as_nanos(),
        lossless: arrived_or_held && dropped(scenario, reports, true) == 0,
        deadlock: deadlock.map(|deadlock| DeadlockSummary {
            cycle: deadlock.cycle_in(scenario),
            since_ns: deadlock.since.as_nanos(),
            dissolved_ns: deadlock.dissolved_at.map(Time::as_nanos),
        }),
        flows: flows.collect(),
        ports: ports.collect(),
        switches,
        links: lanes(scenario, board),
        pool,
        headroom_pool,
        egress_lossy_pool,
        windows: scenario.windows.iter().filter_map(|plan| window(scenario, plan, &edges)).collect(),
        notes,
    }
}

/// The ports that have a host or a link, and what is behind each.
fn linked_ports(scenario: &Scenario) -> impl Iterator<Item = (PortPlace, Behind)> + '_ {
    scenario.ports().filter_map(|place| Some((place, scenario.behind(place)?)))
}

/// Each direction of the links, where there are several switches or something was to go wrong.
fn lanes(scenario: &Scenario, board: &Board) -> Vec<LaneSummary> {
    let mut lanes = Vec::new();
    let mut add = |ends: [String; 2], words: Option<LinkWords>, asked: [bool; 2]| {
        let Some(words) = words else { return };
        for (n, _) in asked.iter().enumerate().filter(|(_, asked)| **asked) {
            let faults = words.faults[n];
            lanes.push(LaneSummary {
                from: ends[n].clone(),
                to: ends[1 - n].clone(),
                frames: words.delivered[n],
                lost: faults.lost,
                doubled: faults.doubled,
                reordered: faults.reordered,
                feedback: words.feedback[n].as_ref().and_then(FeedbackSummary::of),
            });
        }
    };
    for (n, plan) in scenario.links.iter().enumerate() {
        add(plan.ends.map(|end| scenario.port_name(end)), board.left_by_link(n), [true; 2]);
    }
    for (n, plan) in scenario.hosts.iter().enumerate() {
        let ends = [scenario.port_name(plan.place()), plan.name.clone()];
        let words = board.left_by(n).map(|(last, ..)| last.link);
        add(ends, words, plan.faults.map(|faults| scenario.switches.len() > 1 || !faults.is_none()));
    }
    lanes
}

/// Each switch.
fn switch_summaries(scenario: &Scenario, reports: &[Report]) -> Vec<SwitchSummary> {
    let of_switch = |(config, report): (&SwitchConfig, &Report)| SwitchSummary {
        name: config.name.clone(),
        pool: pool(report.pool.capacity, report.pool.used_max),
        headroom_pool: report.headroom_pool.map(|of| pool(of.capacity, of.used_max)),
        egress_lossy_pool: report.egress_lossy_pool.map(|of| pool(of.capacity, of.used_max)),
    };
    scenario.switches.iter().zip(reports).map(of_switch).collect()
}

/// τ of a port under GFC, as configured or by the rule.
fn feedback_configured(scenario: &Scenario, place: PortPlace) -> Option<Span> {
    let config = &scenario.switches[place.switch];
    let port = &config.ports[place.port];
    let is_gfc = matches!(port.flow_control, FlowControl::GfcBuffer(_) | FlowControl::GfcTime(_));
    is_gfc.then(|| feedback_delay(config, place.port, port.rate.unwrap_or(RATE_UNKNOWN)))
}

/// The queue that time-based GFC sets a rate for.
fn reckoned_queue(scenario: &Scenario, place: PortPlace, rate: BitRate) -> Option<Bytes> {
    let config = &scenario.switches[place.switch];
    let line = config.ports[place.port].rate.unwrap_or(RATE_UNKNOWN);
    match mechanism(config, place.port, line) {
        Ok(Mechanism::GfcTime { mapping, .. }) => Some(mapping.queue(rate)),
        _ => None,
    }
}

fn message_summary(scenario: &Scenario, place: PortPlace, messages: &[(PortPlace, MessageRate)]) -> MessageSummary {
    let rate = scenario.switches[place.switch].ports[place.port].rate.unwrap_or(RATE_UNKNOWN);
    let of_port = messages.iter().find(|(of, _)| *of == place);
    of_port.map_or_else(MessageSummary::default, |(_, messages)| MessageSummary {
        sent: messages.sent(),
        share_ppm: messages.share_ppm(rate, scenario.end.since(Time::ZERO)),
        share_worst_ppm: messages.worst_ppm(rate),
    })
}

/// Frames that the switches dropped while they ran, of the lossless classes or of the others.
fn dropped(scenario: &Scenario, reports: &[Report], lossless: bool) -> u64 {
    let of_switch = |(config, report): (&SwitchConfig, &Report)| -> u64 {
        let is_asked = |class: &Class| (config.classes.lossless & class.bit() != 0) == lossless;
        let classes = report.ports.iter().flat_map(|port| Class::ALL.into_iter().zip(&port.classes));
        let while_running = |class: &ClassReport| {
            let reasons = DropReason::ALL.into_iter().filter(|reason| *reason != DropReason::Shutdown);
            reasons.map(|reason| class.dropped(reason)).sum::<u64>()
        };
        classes.filter(|(class, _)| is_asked(class)).map(|(_, class)| while_running(class)).sum()
    };
    scenario.switches.iter().zip(reports).map(of_switch).sum()
}

fn pool(capacity: Bytes, used_max: Bytes) -> PoolSummary {
    PoolSummary { capacity_bytes: capacity.get(), used_max_bytes: used_max.get() }
}

/// What the machine did to the run.
fn machine_notes(scenario: &Scenario, stopped: &Stopped) -> Vec<String> {
    let gap = stopped.lcores.iter().map(|(_, stats)| stats.gap_max()).max().unwrap_or_default();
    let mut notes = vec![format!("longest time between two polls, real: {gap}")];
    for (config, report) in scenario.switches.iter().zip(&stopped.reports) {
        let of = if scenario.switches.len() == 1 { String::new() } else { format!("{}: ", config.name) };
        notes.push(format!(
            "{of}from Xoff, or the start of a stage, to the message handed to the port, scenario time: median {} ns, 99 % {} ns, longest {} ns",
            report.message_delay.p50, report.message_delay.p99, report.message_delay.max
        ));
        let reaction = report.reaction;
        if reaction.count > 0 {
            notes.push(format!(
                "{of}from a peer's message received to obeyed, scenario time: median {} ns, 99 % {} ns, longest {} ns",
                reaction.p50, reaction.p99, reaction.max
            ));
        }
        if !report.balance.holds {
            notes.push(format!("{of}the switch's books do not balance: {:?}", report.balance));
        }
    }
    if stopped.mbufs_missing > 0 {
        notes.push(format!("{} packet buffers were not given back", stopped.mbufs_missing));
    }
    notes
}

/// The classes of a port that saw anything.
fn class_summaries(
    port: &PortReport,
    paused_there: &[Span; CLASSES],
    watched: &[(Class, &Watched)],
    lossless: u8,
) -> Vec<ClassSummary> {
    let has_traffic = |class: &ClassReport| {
        class.rx_frames + class.tx_frames + class.xoff_tx > 0 || drops(class).values().any(|frames| *frames > 0)
    };
    let classes = Class::ALL.into_iter().zip(&port.classes).filter(|(_, class)| has_traffic(class));
    classes
        .map(|(number, class)| {
            let watched = watched.iter().find(|(class, _)| *class == number).map(|(_, watched)| *watched);
            ClassSummary {
                class: number.index() as u8,
                lossless: lossless & number.bit() != 0,
                pauses_sent: class.pauses_tx,
                xoff_frames_sent: class.xoff_tx,
                xon_frames_sent: class.xon_tx,
                paused_ns: class.paused_tx.as_nanos(),
                host_paused_ns: paused_there[number.index()].as_nanos(),
                ingress_max_bytes: class.ingress.held_max.get(),
                shared_max_bytes: class.ingress.shared_max.get(),
                headroom_max_bytes: class.ingress.headroom_max.get(),
                egress_max_bytes: class.egress_max.get(),
                victim_permille: watched.and_then(|watched| watched.victim_permille(&Watched::default())),
                headroom_estimate_bytes: watched.and_then(Watched::estimate),
                headroom_estimate_max_bytes: watched.and_then(|watched| watched.estimate_max(&Watched::default())),
                drops: drops(class),
            }
        })
        .collect()
}

fn drops(class: &ClassReport) -> BTreeMap<String, u64> {
    let counted = DropReason::ALL.map(|reason| (reason.name().to_owned(), class.dropped(reason)));
    counted.into_iter().filter(|(_, frames)| *frames > 0).collect()
}

/// What happened between a window's edges; `None` if the run ended before.
fn window(scenario: &Scenario, plan: &WindowPlan, edges: &[Edge]) -> Option<Window> {
    let edge_at = |planned: Time| edges.iter().find(|edge| edge.planned == planned);
    let (from, to) = (edge_at(plan.from)?, edge_at(plan.to)?);
    let span = to.at.since(from.at);
    let received: Vec<Bytes> = from.flows.iter().zip(&to.flows).map(|(from, to)| to.received - from.received).collect();
    let flows = scenario.flows.iter().zip(&received).map(|(flow, bytes)| FlowWindow::new(&flow.name, *bytes, span));
    let ports = linked_ports(scenario).map(|(place, behind)| {
        let of_host = scenario.flows.iter().zip(&received).filter(|(flow, _)| behind == Behind::Host(flow.from));
        let [before, after] = [from, to].map(|edge| edge.pauses[place.switch][place.port]);
        let of_port = || {
            let edges = from.watched.iter().zip(&to.watched);
            queues(scenario).zip(edges).filter(|((of, _), _)| *of == place).map(|(_, edges)| edges)
        };
        let peer_rate = of_port().filter_map(|(from, to)| to.peer_rate(from)).min();
        let lengths = || of_port().filter_map(|(from, to)| to.ingress(from));
        PortWindow {
            victim_permille: of_port().filter_map(|(from, to)| to.victim_permille(from)).max(),
            headroom_estimate_max_bytes: of_port().filter_map(|(from, to)| to.estimate_max(from)).max(),
            port: scenario.port_name(place),
            throughput_bps: throughput(of_host.map(|(_, bytes)| *bytes).sum(), span),
            pauses_sent: after.0 - before.0,
            paused_ns: after.1.saturating_sub(before.1).as_nanos(),
            rx_bps: throughput(of_port().map(|(from, to)| to.received(from)).sum(), span),
            ingress_min_bytes: lengths().map(|[min, ..]| min.get()).min().unwrap_or(0),
            ingress_mean_bytes: lengths().map(|[_, mean, _]| mean.get()).max().unwrap_or(0),
            ingress_max_bytes: lengths().map(|[.., max]| max.get()).max().unwrap_or(0),
            peer_rate_bps: peer_rate.map(BitRate::as_bps),
            reckoned_queue_bytes: peer_rate.and_then(|rate| reckoned_queue(scenario, place, rate)).map(Bytes::get),
        }
    });
    Some(Window {
        name: plan.name.clone(),
        from_ns: from.at.as_nanos(),
        to_ns: to.at.as_nanos(),
        flows: flows.collect(),
        ports: ports.collect(),
    })
}
