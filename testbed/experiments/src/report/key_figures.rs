//! Key figures that compare runs, a column for each run.

use weir_results::run_dir::{ClassSummary, PoolSummary, Summary};
use weir_units::Span;

use super::input::{Run, RunCell};
use super::verdict::{has_deadlock, is_good};
use crate::run::traffic::{bus_cell, completion_cell, critical_path_cell, fct_cell, slowdown_cell};
use crate::table::statistics::is_below_max;
use crate::table::{count, gbps};

pub(super) struct KeyFigure {
    pub name: String,
    /// Cell for each run; `-` for a run without the figure.
    pub cells: Vec<String>,
}

const FLOWS_MAX: usize = 8;

/// Counters summed over real hosts, with the names of their lines.
const HOST_COUNTERS: [(&str, &str); 5] = [
    ("rdma.rcvd_seq_err", "real hosts: rcvd_seq_err"),
    ("rdma.out_of_seq_request", "real hosts: out_of_seq_request"),
    ("rdma.completer_retry_err", "real hosts: completer_retry_err"),
    ("nstat.IpExtInCEPkts", "real hosts: packets with CE"),
    ("nstat.TcpRetransSegs", "real hosts: TCP segments sent again"),
];

const NONE: &str = "-";

/// Lines that have a figure for at least one run.
pub(super) fn key_figures(runs: &[Run]) -> Vec<KeyFigure> {
    let mut figures = Vec::new();
    let mut row = |name: &str, cell: RunCell<'_>| {
        let cells: Vec<String> = runs.iter().map(|run| cell(run).unwrap_or_else(|| NONE.to_owned())).collect();
        if cells.iter().any(|cell| cell != NONE) {
            figures.push(KeyFigure { name: name.to_owned(), cells });
        }
    };
    row("result", &|run| {
        let result = match is_good(&run.summary) {
            true if has_deadlock(&run.summary) => "deadlocked",
            true => "good",
            false => "FAILED",
        };
        Some(result.to_owned())
    });
    row("deadlock", &|run| {
        Some(match &run.summary.deadlock {
            Some(deadlock) if has_deadlock(&run.summary) => format!("from {} ms", milli(deadlock.since_ns)),
            // No deadlock, or a cycle that dissolved.
            _ => "none".to_owned(),
        })
    });
    row("standstill", &|run| {
        let standstill = run.summary.standstill.as_ref().filter(|it| it.dissolved_ns.is_none())?;
        Some(format!("from {} ms", milli(standstill.since_ns)))
    });
    row("buffer policy", &|run| Some(run.summary.policy.clone()));
    row("flow control", &|run| flow_control(&run.summary));
    for name in parameters(runs) {
        row(&name, &|run| parameter(run, &name));
    }
    row("PAUSEs sent by switches", &|run| Some(count(run.summary.flow_control?.pauses_sent)));
    row("PAUSEs a second", &|run| Some(count(run.summary.flow_control?.pauses_per_second)));
    row("paused, all ports added up, ms", &|run| Some(milli(run.summary.flow_control?.paused_ns)));
    if runs.iter().any(|run| !run.summary.hosts.is_empty()) {
        row("PAUSEs sent by hosts", &|run| Some(count(run.summary.flow_control?.host_pauses_sent)));
    }
    row("messages of flow control sent", &|run| Some(count(run.summary.flow_control?.messages_sent)));
    row("lossless frames dropped", &|run| Some(count(run.summary.lossless_drops_with_hosts())));
    row("lossless frames lost to outages, drops included", &|run| {
        Some(count(run.summary.outages.as_ref()?.lossless_frames_lost))
    });
    if runs.iter().any(|run| run.summary.llr.is_some()) {
        row("replays by links", &|run| Some(count(run.summary.llr.as_ref()?.replays)));
        row("frames replayed by links", &|run| Some(count(run.summary.llr.as_ref()?.replayed_frames)));
        row("frames given up by links", &|run| Some(count(run.summary.llr.as_ref()?.frames_given_up)));
        row("wait for replay buffers, all ports added up, ms", &|run| {
            Some(milli(run.summary.llr.as_ref()?.buffer_full_ns))
        });
    }
    row("all frames dropped or lost", &|run| {
        let frames = run.summary.frames.as_ref()?;
        let taken = frames.faults_lost + frames.faults_corrupted + frames.lost_link_down;
        Some(count(frames.dropped.values().sum::<u64>() + taken))
    });
    for flow in flows(runs) {
        let name = format!("{flow}, Gb/s of payload");
        row(&name, &|run| {
            let of_run = run.summary.flows.iter().find(|of| of.name == flow)?;
            Some(gbps(of_run.throughput_bps))
        });
        if let Some(window) = common_last_window(runs) {
            row(&format!("{flow}, {window}, Gb/s"), &|run| {
                let last = run.summary.windows.last()?;
                Some(gbps(last.flows.iter().find(|of| of.flow == flow)?.throughput_bps))
            });
        }
    }
    if flows(runs).is_empty() {
        row("all flows, Gb/s of payload", &|run| {
            let flows = &run.summary.flows;
            (!flows.is_empty()).then(|| gbps(flows.iter().map(|flow| flow.throughput_bps).sum()))
        });
    }
    for flow in flows(runs) {
        let tool_result = |run: &Run| run.summary.flows.iter().find(|of| of.name == flow)?.tool.clone();
        row(&format!("{flow}, by its program, Gb/s"), &|run| {
            let tool = tool_result(run)?;
            Some(format!("{} ({})", gbps(tool.rate_bps?), tool.tool))
        });
        row(&format!("{flow}, typical latency, us"), &|run| {
            let times = tool_result(run)?.times_ns;
            // A test of fixed duration has only a mean.
            let time = times.get("typical").or_else(|| times.get("avg"))?;
            Some(format!("{:.1}", *time as f64 / 1e3))
        });
        row(&format!("{flow}, segments sent again"), &|run| Some(count(tool_result(run)?.retransmits?)));
        row(&format!("{flow}, congestion window in segments, mean and most"), &|run| {
            let seen = tool_result(run)?.connection?;
            Some(format!("{}, {}", count(seen.cwnd_mean), count(seen.cwnd_max)))
        });
        row(&format!("{flow}, round trip as its kernel has it, ms, mean and most"), &|run| {
            let seen = tool_result(run)?.connection?;
            Some(format!("{}, {}", milli(seen.rtt_mean_ns), milli(seen.rtt_max_ns)))
        });
        row(&format!("{flow}, negative acknowledgements"), &|run| {
            let of_run = run.summary.flows.iter().find(|of| of.name == flow)?;
            let kinds: Vec<String> = of_run.naks.iter().map(|(kind, n)| format!("{} {kind}", count(*n))).collect();
            (!kinds.is_empty()).then(|| kinds.join(", "))
        });
        row(&format!("{flow}, its sender was paused, ms"), &|run| {
            tool_result(run)?;
            let of_run = run.summary.flows.iter().find(|of| of.name == flow)?;
            let port = run.summary.ports.iter().find(|port| port.host == of_run.from)?;
            Some(milli(port.classes.iter().find(|class| class.class == of_run.class)?.paused_ns))
        });
    }
    for (counter, what) in HOST_COUNTERS {
        row(what, &|run| {
            let hosts = &run.summary.real_hosts;
            (!hosts.is_empty()).then(|| count(hosts.iter().map(|host| host.counter(counter)).sum()))
        });
    }
    row("flows' messages completed", &|run| {
        let done: u64 = run.summary.flows.iter().map(|flow| flow.messages_done).sum();
        (done > 0).then(|| count(done))
    });
    for traffic in traffics(runs) {
        let of = |run: &Run| run.summary.traffic.iter().find(|of| of.name == traffic).cloned();
        let all = |run: &Run| of(run)?.bins.into_iter().find(|bin| bin.sizes == "all");
        let many = |run: &Run| all(run).filter(|bin| is_below_max(bin.count, 990));
        row(&format!("{traffic}: messages completed"), &|run| Some(count(of(run)?.completed)));
        row(&format!("{traffic}: unfinished"), &|run| Some(count(of(run)?.unfinished)));
        row(&format!("{traffic}: FCT mean, us"), &|run| Some(fct_cell(&all(run)?, |of| of.mean)));
        row(&format!("{traffic}: FCT 99 %, us"), &|run| Some(fct_cell(&many(run)?, |of| of.p99)));
        row(&format!("{traffic}: slowdown mean"), &|run| slowdown_cell(&all(run)?, |of| of.mean));
        row(&format!("{traffic}: slowdown 99 %"), &|run| slowdown_cell(&many(run)?, |of| of.p99));
        row(&format!("{traffic}: slowdown max"), &|run| slowdown_cell(&all(run)?, |of| of.max));
        // Of the last repetition, as those before it warm congestion control up.
        let last = |run: &Run| of(run)?.repetitions.pop();
        row(&format!("{traffic}: completion of the last repetition, us"), &|run| Some(completion_cell(&last(run)?)));
        row(&format!("{traffic}: its critical path, us"), &|run| Some(critical_path_cell(&last(run)?.critical_path?)));
        row(&format!("{traffic}: its bus bandwidth, GB/s"), &|run| bus_cell(&last(run)?));
    }
    row("most in a shared segment, KB (of its size)", &|run| {
        let pool = fullest(&run.summary)?;
        let share = pool.used_max_bytes as f64 * 100.0 / pool.capacity_bytes.max(1) as f64;
        Some(format!("{} ({share:.0} %)", kb(pool.used_max_bytes)))
    });
    row("most in an ingress queue, KB", &|run| Some(kb(most(&run.summary, |class| class.ingress_max_bytes)?)));
    row("most in a queue's headroom, KB", &|run| Some(kb(most(&run.summary, |class| class.headroom_max_bytes)?)));
    row("most in an egress queue, KB", &|run| Some(kb(most(&run.summary, |class| class.egress_max_bytes)?)));
    row("length of the run", &|run| Some(Span::from_nanos(run.summary.duration_ns).to_string()));
    figures
}

/// Names of the runs' flows; empty above `FLOWS_MAX`.
fn flows(runs: &[Run]) -> Vec<String> {
    let mut names = Vec::new();
    for flow in runs.iter().flat_map(|run| &run.summary.flows) {
        if !names.contains(&flow.name) {
            names.push(flow.name.clone());
        }
    }
    if names.len() > FLOWS_MAX { Vec::new() } else { names }
}

fn traffics(runs: &[Run]) -> Vec<String> {
    let mut names = Vec::new();
    for traffic in runs.iter().flat_map(|run| &run.summary.traffic) {
        if !names.contains(&traffic.name) {
            names.push(traffic.name.clone());
        }
    }
    names
}

/// Name of the last window, if all runs have it.
fn common_last_window(runs: &[Run]) -> Option<&str> {
    let name = |run: &Run| run.summary.windows.last().map(|window| window.name.clone());
    let first = runs.first()?.summary.windows.last()?.name.as_str();
    runs.iter().all(|run| name(run).as_deref() == Some(first)).then_some(first)
}

/// Names of the runs' sweep parameters.
fn parameters(runs: &[Run]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (name, _) in runs.iter().filter_map(|run| run.point.as_ref()).flat_map(|point| &point.point.parameters) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

fn parameter(run: &Run, name: &str) -> Option<String> {
    let (_, value) = run.point.as_ref()?.point.parameters.iter().find(|(of, _)| of == name)?;
    Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

/// Flow-control kinds of the ports that have a host or a link.
fn flow_control(summary: &Summary) -> Option<String> {
    let mut kinds: Vec<&str> = summary.ports.iter().map(|port| port.flow_control.as_str()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    (!kinds.is_empty()).then(|| kinds.join(", "))
}

/// Shared segment with the highest relative peak usage.
fn fullest(summary: &Summary) -> Option<PoolSummary> {
    let pools = summary.switches.iter().map(|switch| switch.pool).chain([summary.pool]);
    pools.filter(|pool| pool.capacity_bytes > 0).max_by(|one, other| {
        let share = |pool: &PoolSummary| pool.used_max_bytes as f64 / pool.capacity_bytes as f64;
        share(one).total_cmp(&share(other))
    })
}

fn most(summary: &Summary, value: impl Fn(&ClassSummary) -> u64) -> Option<u64> {
    summary.lossless_classes().map(value).max()
}

pub(super) fn kb(bytes: u64) -> String {
    if bytes < 10_000 { format!("{:.1}", bytes as f64 / 1e3) } else { count((bytes + 500) / 1_000) }
}

fn milli(ns: u64) -> String {
    format!("{:.2}", ns as f64 / 1e6)
}
