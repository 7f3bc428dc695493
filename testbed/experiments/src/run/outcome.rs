//! Summary of a scenario's runs: table, remarks, and the verdict on their success.

use std::path::Path;

use serde::Serialize;
use weir_results::run_dir::{LinkDirectionSummary, LlrSummary, PortSummary, PortWindow, Summary};
use weir_scenario::file::Expectation;
use weir_units::Span;

use super::{CompletedRun, traffic};
use crate::Failure;
use crate::experiment::Backend;
use crate::table::{Table, count, gbps};

/// Word in the failure text of an interrupted run.
const INTERRUPTED: &str = "interrupted";
const FLOWS_MAX: usize = 10;
/// Number of plotted ports up to which each has rows of its own.
const PORTS_MAX: usize = 4;
/// Columns of a table and of the figure.
pub(super) const RUNS_SIDE_BY_SIDE: usize = 4;

pub(super) fn print(ended: &[CompletedRun]) {
    for sentence in ended.iter().flat_map(alarms) {
        println!("{sentence}");
    }
    for runs in ended.chunks(RUNS_SIDE_BY_SIDE) {
        println!("{}", comparison(runs));
    }
    for run in ended {
        for (traffic, table) in traffic::tables(&run.summary) {
            println!("{}, {traffic}:\n{table}", run.name);
        }
    }
    for sentence in ended.iter().flat_map(remarks) {
        println!("{sentence}");
    }
}

/// Fails the command if a run lost lossless frames or reached an unexpected deadlock, or if runs are left.
pub(super) fn verdict(ended: &[CompletedRun], left: usize) -> Result<(), Failure> {
    failure(ended.iter().filter_map(fault).collect(), left).map_or(Ok(()), |why| Err(Failure::Run(why)))
}

/// Reason for the command's failure; `None` on success.
fn failure(mut faults: Vec<String>, left: usize) -> Option<String> {
    // An interruption between two runs appears in no run's failures.
    if left > 0 && !faults.iter().any(|fault| fault.contains(INTERRUPTED)) {
        let runs = if left == 1 { "run" } else { "runs" };
        faults.push(format!("{INTERRUPTED} with {left} {runs} left"));
    }
    (!faults.is_empty()).then(|| faults.join("; "))
}

/// Runs left by an interrupted command, in order: runs that did not begin, and the interrupted one.
pub(super) fn left<'n>(names: &'n [String], ended: &[CompletedRun]) -> Vec<&'n str> {
    let is_done = |name: &&String| ended.iter().any(|run| run.name == **name && !run.summary.is_interrupted());
    names.iter().filter(|name| !is_done(name)).map(String::as_str).collect()
}

/// Output of `--json`.
#[derive(Serialize)]
pub(super) struct OutcomeJson<'e> {
    scenario: &'e str,
    backend: &'static str,
    results: &'e Path,
    runs: Vec<RunOutcomeJson<'e>>,
    /// Runs left by an interruption.
    left: &'e [&'e str],
}

#[derive(Serialize)]
struct RunOutcomeJson<'e> {
    name: &'e str,
    directory: &'e Path,
    expects: &'static str,
    /// Reason why this run fails the command; `None` on success.
    fault: Option<String>,
    summary: &'e Summary,
}

pub(super) fn json<'e>(
    scenario: &'e str,
    backend: Backend,
    ended: &'e [CompletedRun],
    left: &'e [&'e str],
    results: &'e Path,
) -> OutcomeJson<'e> {
    let run = |run: &'e CompletedRun| RunOutcomeJson {
        name: &run.name,
        directory: &run.directory,
        expects: match run.expects {
            Expectation::Flow => "flow",
            Expectation::Deadlock => "deadlock",
            Expectation::Either => "either",
            Expectation::Loss => "loss",
        },
        fault: fault(run),
        summary: &run.summary,
    };
    OutcomeJson { scenario, backend: backend.name(), results, runs: ended.iter().map(run).collect(), left }
}

fn fault(run: &CompletedRun) -> Option<String> {
    if !run.summary.failures.is_empty() {
        return Some(format!("{}: {}", run.name, run.summary.failures.join("; ")));
    }
    let stands = is_deadlocked(&run.summary);
    if !run.summary.lossless && run.expects != Expectation::Loss {
        return Some(format!("{}: {}", run.name, lost(&run.summary)));
    }
    match (stands, run.expects) {
        (true, Expectation::Flow | Expectation::Loss) => Some(format!("{}: deadlock", run.name)),
        (false, Expectation::Deadlock) => Some(format!("{}: no deadlock, and the scenario expects one", run.name)),
        _ => None,
    }
}

/// Whether a deadlock lasts to the end of the run.
fn is_deadlocked(summary: &Summary) -> bool {
    summary.deadlock.as_ref().is_some_and(|deadlock| deadlock.dissolved_ns.is_none())
}

fn lost(summary: &Summary) -> String {
    let gaps: u64 = summary.flows.iter().map(|flow| flow.lost).sum();
    match summary.lossless_drops_with_hosts().max(gaps) {
        0 => "not all that was sent has arrived, and no deadlock holds it".to_owned(),
        frames => format!("{} lossless frames were lost", count(frames)),
    }
}

/// Failures, losses, deadlocks and standstills of a run, printed first.
fn alarms(run: &CompletedRun) -> Vec<String> {
    let (name, summary) = (&run.name, &run.summary);
    let mut alarms = Vec::new();
    if !summary.failures.is_empty() {
        alarms.extend(summary.failures.iter().map(|failure| format!("{name}: {failure}.")));
    } else if !summary.lossless {
        alarms.push(format!("{name}: {}.", lost(summary)));
    }
    if let Some(deadlock) = &summary.deadlock {
        let since = Span::from_nanos(deadlock.since_ns);
        alarms.push(match deadlock.dissolved_ns {
            None => format!("{name}: DEADLOCK from {since} on, for good: {}.", deadlock.cycle),
            Some(at) => {
                let at = Span::from_nanos(at);
                format!("{name}: queues waited for each other from {since} to {at}, and no longer: {}.", deadlock.cycle)
            }
        });
    }
    let texts = summary.standstill_text().into_iter().chain(summary.outage_text());
    alarms.extend(texts.map(|text| format!("{name}: {text}.")));
    alarms
}

/// Remarks on unsafe thresholds and on time lost to this machine.
fn remarks(run: &CompletedRun) -> Vec<String> {
    let (name, summary) = (&run.name, &run.summary);
    let mut remarks = Vec::new();
    for (port, direction) in slowed(summary) {
        let (Some(configured), Some(feedback)) = (port.feedback_ns, direction.feedback) else { continue };
        if feedback.max_ns > configured {
            remarks.push(format!(
                "{name}: {}: the feedback delay was up to {} ({} of 100 messages within {}), tau is configured as {}: the thresholds are \
                 not safe on this machine; a larger time dilation, or tau, makes them so",
                port.name,
                micros(feedback.max_ns),
                99,
                micros(feedback.p99_ns),
                micros(configured)
            ));
        }
    }
    let starts = ["no PAUSE", "slow receiver ", "load balancing ", "entropy ", "links with `llr`"];
    let is_shown = |note: &&String| starts.iter().any(|start| note.starts_with(start));
    remarks.extend(summary.notes.iter().filter(is_shown).map(|note| format!("{name}: {note}")));
    let late = summary.late_percent();
    if late > Summary::LATE_PERCENT_MAX {
        remarks.push(format!(
            "{name}: a host or a port lost {late:.1} % of its line time to the machine; a larger time dilation makes the rates truer"
        ));
    }
    remarks
}

/// Ports that sent flow control to their peers, with the direction of the link that carries the peers' data.
fn slowed(summary: &Summary) -> impl Iterator<Item = (&PortSummary, &LinkDirectionSummary)> {
    let direction_to = |port: &PortSummary| summary.links.iter().find(|direction| direction.to == port.name);
    summary.ports.iter().filter_map(move |port| Some((port, direction_to(port)?)))
}

fn comparison(ended: &[CompletedRun]) -> Table {
    let head = std::iter::once("").chain(ended.iter().map(|run| run.name.as_str()));
    let mut table = Table::new(head);
    let mut row = |name: &str, cell: &dyn Fn(&CompletedRun) -> String| {
        let cells: Vec<String> = ended.iter().map(cell).collect();
        // Omits rows that apply to no run, such as rates set to peers if all use PFC.
        if cells.iter().any(|cell| cell != "-") {
            table.row(std::iter::once(name.to_owned()).chain(cells));
        }
    };
    row("deadlock", &|run| match &run.summary.deadlock {
        Some(deadlock) if deadlock.dissolved_ns.is_none() => format!("from {:.1} ms", deadlock.since_ns as f64 / 1e6),
        _ => "none".to_owned(),
    });
    row("standstill", &|run| {
        let standstill = run.summary.standstill.as_ref().filter(|it| it.dissolved_ns.is_none());
        standstill.map_or("-".to_owned(), |it| format!("from {:.1} ms", it.since_ns as f64 / 1e6))
    });
    let flows = ended.first().map_or(0, |run| run.summary.flows.len()).min(FLOWS_MAX);
    // An interrupted run has fewer windows, or none.
    let most = ended.iter().map(|run| &run.summary.windows).max_by_key(|windows| windows.len());
    let window = most.and_then(|windows| windows.last()).map(|window| window.name.as_str());
    for (n, window) in (0..flows).flat_map(|n| window.map(|window| (n, window))) {
        let flow = &ended[0].summary.flows[n].name;
        row(&format!("{flow}, {window}, Gb/s of payload"), &|run| {
            find_window(&run.summary, window).map_or("-".to_owned(), |(flows, _)| gbps(flows[n].throughput_bps))
        });
    }
    let mut ports = drawn_ports(ended);
    // Ports that the scenario does not name have one row together.
    if ports.len() > PORTS_MAX || ended.first().is_some_and(|run| run.scenario.has_default_draw()) {
        ports.clear();
        row("longest ingress queue, KB", &|run| {
            let queues = run.summary.ports.iter().flat_map(|port| port.classes.iter().map(move |class| (class, port)));
            let longest = queues.max_by_key(|(class, _)| class.ingress_max_bytes);
            longest.map_or("-".to_owned(), |(class, port)| format!("{} ({})", kb(class.ingress_max_bytes), port.name))
        });
    }
    for port in &ports {
        let of_port = |run: &CompletedRun| run.summary.ports.iter().find(|of| of.name == *port).cloned();
        row(&format!("{port}: longest ingress queue, KB"), &|run| {
            let longest = of_port(run).and_then(|port| port.classes.iter().map(|class| class.ingress_max_bytes).max());
            longest.map_or("-".to_owned(), kb)
        });
        let Some(window) = window else { continue };
        let in_window = |run: &CompletedRun| {
            find_window(&run.summary, window).and_then(|(_, ports)| ports.iter().find(|of| of.port == *port).cloned())
        };
        row(&format!("{port}, {window}: ingress queue, KB"), &|run| {
            in_window(run).map_or("-".to_owned(), |port| {
                format!("{} to {}", kb(port.ingress_min_bytes), kb(port.ingress_max_bytes))
            })
        });
        row(&format!("{port}, {window}: comes in, Gb/s on the wire"), &|run| {
            in_window(run).map_or("-".to_owned(), |port| gbps(port.rx_bps))
        });
        row(&format!("{port}, {window}: rate set to the peer, Gb/s"), &|run| {
            in_window(run).and_then(|port| port.peer_rate_bps).map_or("-".to_owned(), gbps)
        });
        row(&format!("{port}, {window}: queue as the peer reckons it, KB"), &|run| {
            in_window(run).and_then(|port| port.reckoned_queue_bytes).map_or("-".to_owned(), kb)
        });
    }
    row("PAUSEs sent", &|run| run.summary.flow_control.map_or("-".to_owned(), |of| count(of.pauses_sent)));
    row("PAUSEs a second", &|run| run.summary.flow_control.map_or("-".to_owned(), |of| count(of.pauses_per_second)));
    if ended.iter().any(|run| !run.summary.hosts.is_empty()) {
        row("PAUSEs sent by hosts", &|run| {
            run.summary.flow_control.map_or("-".to_owned(), |of| count(of.host_pauses_sent))
        });
    }
    row("lossless frames dropped", &|run| count(run.summary.lossless_drops_with_hosts()));
    if ended.iter().any(|run| run.summary.outages.is_some()) {
        row("lossless frames lost to outages, drops included", &|run| {
            run.summary.outages.as_ref().map_or("-".to_owned(), |of| count(of.lossless_frames_lost))
        });
    }
    if ended.iter().any(|run| run.summary.llr.is_some()) {
        let llr = |show: fn(&LlrSummary) -> u64| {
            move |run: &CompletedRun| run.summary.llr.as_ref().map_or("-".to_owned(), |llr| count(show(llr)))
        };
        row("replays by links", &llr(|llr| llr.replays));
        row("frames given up by links", &llr(|llr| llr.frames_given_up));
    }
    row("flow-control messages, highest mean share of a link, %", &|run| {
        percent(run.summary.ports.iter().map(|port| port.messages.share_ppm).max())
    });
    row("flow-control messages, worst millisecond of a link, %", &|run| {
        percent(run.summary.ports.iter().map(|port| port.messages.share_worst_ppm).max())
    });
    if ended.iter().all(|run| run.summary.frames.is_some()) {
        row("all frames dropped or cut off", &|run| {
            let of_hosts = run.summary.hosts.iter().flat_map(|host| &host.classes);
            let overflown: u64 = of_hosts.map(|class| class.receive_overflow).sum();
            let lost = run.summary.frames.as_ref().map(|of| {
                of.dropped.values().sum::<u64>() + of.faults_lost + of.faults_corrupted + of.lost_link_down + overflown
            });
            lost.map_or("-".to_owned(), count)
        });
        return table;
    }
    row("feedback delay, 99 % within / longest, us", &|run| {
        let delays = || slowed(&run.summary).filter_map(|(_, direction)| direction.feedback);
        match (delays().map(|delay| delay.p99_ns).max(), delays().map(|delay| delay.max_ns).max()) {
            (Some(p99), Some(longest)) => format!("{:.0} / {:.0}", p99 as f64 / 1e3, longest as f64 / 1e3),
            _ => "-".to_owned(),
        }
    });
    row("tau configured, us", &|run| {
        let configured = run.summary.ports.iter().filter_map(|port| port.feedback_ns).max();
        configured.map_or("-".to_owned(), |ns| format!("{:.0}", ns as f64 / 1e3))
    });
    table
}

/// Names of the ports that the scenario draws.
pub(super) fn drawn_ports(ended: &[CompletedRun]) -> Vec<String> {
    let names = |run: &CompletedRun| run.scenario.draw.iter().map(|place| run.scenario.port_name(*place)).collect();
    ended.first().map(names).unwrap_or_default()
}

/// Flows and ports of a window, by its name.
fn find_window<'s>(
    summary: &'s Summary,
    window: &str,
) -> Option<(&'s [weir_results::run_dir::FlowWindow], &'s [PortWindow])> {
    let window = summary.windows.iter().find(|of| of.name == window)?;
    Some((&window.flows[..], &window.ports[..]))
}

fn kb(bytes: u64) -> String {
    format!("{:.0}", bytes as f64 / 1e3)
}

fn percent(ppm: Option<u64>) -> String {
    ppm.map_or("-".to_owned(), |ppm| format!("{:.3}", ppm as f64 / 1e4))
}

fn micros(ns: u64) -> String {
    format!("{:.1} us", ns as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_was_interrupted_fails_wherever_it_was() {
        assert_eq!(failure(Vec::new(), 0), None);
        assert_eq!(failure(Vec::new(), 7).unwrap(), "interrupted with 7 runs left");
        let during = "SIH: interrupted at 1.2ms of 10ms".to_owned();
        assert_eq!(failure(vec![during.clone()], 2).unwrap(), during);
        assert_eq!(failure(vec!["A: a deadlock".to_owned()], 1).unwrap(), "A: a deadlock; interrupted with 1 run left");
    }
}
