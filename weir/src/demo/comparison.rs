//! Table of each policy's effects on the victim.

use weir_experiments::table::{Table, count};
use weir_results::run_dir::{PortWindow, Summary, Window};
use weir_scenario::victim::VictimPolicy;

/// Run of the demo.
pub(super) struct DemoRun {
    /// Head of the run's column.
    pub label: String,
    /// Number N of bursts.
    pub bursts: u8,
    pub policy: VictimPolicy,
    pub summary: Summary,
}

/// Formats the table with a column for each run.
pub(super) fn comparison(runs: &[(String, &Summary)]) -> Table {
    let head = std::iter::once("").chain(runs.iter().map(|(label, _)| label.as_str()));
    let mut table = Table::new(head);
    let mut row = |name: &str, cell: &dyn Fn(&Summary) -> String| {
        table.row(std::iter::once(name.to_owned()).chain(runs.iter().map(|(_, summary)| cell(summary))));
    };
    row("F1 before the burst, Gb/s", &|summary| gbps(flow_bps(summary, 0, "before")));
    row("F1 in the first tenth of the burst, Gb/s", &|summary| gbps(flow_bps(summary, 0, "onset")));
    row("F1 during the burst, Gb/s", &|summary| gbps(flow_bps(summary, 0, "burst")));
    row("F1 after the burst, Gb/s", &|summary| gbps(flow_bps(summary, 0, "after")));
    row("F2 in the first tenth of the burst, Gb/s", &|summary| gbps(flow_bps(summary, 1, "onset")));
    row("F2 during the burst, Gb/s", &|summary| gbps(flow_bps(summary, 1, "burst")));
    row("PAUSEs on P0", &|summary| count(first_port(summary).map_or(0, |port| port.pauses_sent)));
    row("P0 paused in the burst, us", &|summary| {
        pause_time(summary, first_port(summary).map_or(0, |port| port.paused_ns))
    });
    row("P0 in the victim state, % of the burst", &|summary| {
        or_dash(first_port(summary).and_then(|port| port.gauges.get("victim_permille")), |permille| {
            format!("{:.0}", permille as f64 / 10.0)
        })
    });
    row("highest headroom estimate on P0, B", &|summary| {
        or_dash(first_port(summary).and_then(|port| port.gauges.get("headroom_estimate_max_bytes")), count)
    });
    row("PAUSEs on a burst port, mean", &|summary| format!("{:.1}", burst_mean(summary, |port| port.pauses_sent)));
    row("a burst port paused, mean us", &|summary| {
        pause_time(summary, burst_mean(summary, |port| port.paused_ns) as u64)
    });
    row("peak of the shared buffer, B", &|summary| count(summary.pool.used_max_bytes));
    row("of a shared buffer of, B", &|summary| count(summary.pool.capacity_bytes));
    row("peak of any headroom, B", &|summary| count(headroom_max(summary)));
    row("lossless frames lost", &|summary| count(lost(summary)));
    row("frames out of order", &|summary| count(summary.flows.iter().map(|flow| flow.reordered).sum()));
    table
}

fn window<'a>(summary: &'a Summary, name: &str) -> Option<&'a Window> {
    summary.windows.iter().find(|window| window.name == name)
}

/// Throughput of a flow in a window.
pub(super) fn flow_bps(summary: &Summary, flow: usize, name: &str) -> u64 {
    window(summary, name).and_then(|window| window.flows.get(flow)).map_or(0, |flow| flow.throughput_bps)
}

/// Returns the results of port P0 in the burst's window.
pub(super) fn first_port(summary: &Summary) -> Option<&PortWindow> {
    window(summary, "burst")?.ports.first()
}

/// The mean over the burst hosts' ports: all but the first (H0's) and the two after it (the receivers').
fn burst_mean(summary: &Summary, value: impl Fn(&PortWindow) -> u64) -> f64 {
    let ports = window(summary, "burst").map_or(&[][..], |window| &window.ports);
    let burst = ports.get(3..).unwrap_or(&[]);
    burst.iter().map(value).sum::<u64>() as f64 / burst.len().max(1) as f64
}

/// `9,020 (82 %)`: the time, and its share of the burst.
fn pause_time(summary: &Summary, nanos: u64) -> String {
    let length = window(summary, "burst").map_or(0, |window| window.to_ns - window.from_ns);
    format!("{} ({:.0} %)", count(nanos / 1_000), nanos as f64 * 100.0 / length.max(1) as f64)
}

fn headroom_max(summary: &Summary) -> u64 {
    let classes = summary.ports.iter().flat_map(|port| &port.classes);
    classes.map(|class| class.headroom_max_bytes).max().unwrap_or(0)
}

/// Returns the number of lost frames: the greater of frames missing at receivers and lossless frames dropped by the switch.
pub(super) fn lost(summary: &Summary) -> u64 {
    let missed: u64 = summary.flows.iter().map(|flow| flow.lost).sum();
    let classes = summary.ports.iter().flat_map(|port| &port.classes).filter(|class| class.lossless);
    let dropped: u64 = classes.flat_map(|class| class.drops.values()).sum();
    missed.max(dropped)
}

/// Bits a second in Gb/s.
pub(super) fn gbps(bps: u64) -> String {
    format!("{:.1}", bps as f64 / 1e9)
}

fn or_dash(value: Option<u64>, text: impl Fn(u64) -> String) -> String {
    value.map_or("-".to_owned(), text)
}
