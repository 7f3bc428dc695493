//! Completion times of messages, by size.

use weir_results::run_dir::{
    BinSummary, CriticalPathSummary, Distribution, RepetitionSummary, Summary, TrafficSummary,
};

use crate::table::statistics::is_below_max;
use crate::table::{Table, count};

/// Tables of a run's traffics, each with a line of text before it.
pub(super) fn tables(summary: &Summary) -> Vec<(String, Table)> {
    let tables = summary.traffic.iter().flat_map(|traffic| {
        let unfinished = unfinished(traffic);
        let warm_up = match traffic.warm_up {
            0 => String::new(),
            messages => format!(", {} of them before the warm-up's end", count(messages)),
        };
        let line = format!("{}: {} messages completed{warm_up}{unfinished}", traffic.name, count(traffic.completed));
        let mut table = Table::new(std::iter::once("size").chain(BIN_HEAD));
        traffic.bins.iter().for_each(|bin| table.row(std::iter::once(bin.sizes.clone()).chain(bin_cells(bin))));
        [Some((line, table)), repetitions(traffic), critical_path(traffic)].into_iter().flatten()
    });
    tables.collect()
}

/// Table of a traffic's repetitions, with the line before it; `None` without any.
fn repetitions(traffic: &TrafficSummary) -> Option<(String, Table)> {
    let done = traffic.repetitions.iter().filter(|of| of.completion_ns.is_some()).count();
    let mut table = Table::new(["repetition", "start, us", "completion, us", "bus, GB/s", "slowest", "idle"]);
    for (number, repetition) in traffic.repetitions.iter().enumerate() {
        let cell = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        table.row([
            number.to_string(),
            format!("{:.1}", repetition.start_ns as f64 / 1e3),
            completion_cell(repetition),
            cell(bus_cell(repetition)),
            cell(repetition.slowest.clone()),
            cell(repetition.idle_permille.map(|share| format!("{:.1} %", share as f64 / 10.0))),
        ]);
    }
    let line = format!("{}: {} of {} started repetitions completed", traffic.name, done, traffic.repetitions.len());
    (!traffic.repetitions.is_empty()).then_some((line, table))
}

/// Slowest messages of the last critical path, with its times in the line before; `None` without one.
fn critical_path(traffic: &TrafficSummary) -> Option<(String, Table)> {
    let (number, path) = traffic
        .repetitions
        .iter()
        .enumerate()
        .rev()
        .find_map(|(number, repetition)| Some((number, repetition.critical_path.as_ref()?)))?;
    let mut table = Table::new(["message", "bytes", "start, us", "in flight, us", "queueing, us", "paused by", "us"]);
    for message in &path.slowest {
        table.row([
            format!("{} to {}", message.from, message.to),
            count(message.bytes),
            micros(message.start_ns),
            micros(message.flight_ns),
            micros(message.queueing_ns),
            message.paused_by.clone().unwrap_or_else(|| "-".to_owned()),
            micros(message.paused_by_ns),
        ]);
    }
    let times = critical_path_cell(path);
    let line = format!(
        "{}: critical path of repetition {number}, {} messages, us: {times}",
        traffic.name,
        count(path.messages)
    );
    Some((line, table))
}

/// Times of a critical path, in microseconds.
pub(crate) fn critical_path_cell(path: &CriticalPathSummary) -> String {
    let paused = path.paused_ns.map_or(String::new(), |ns| format!(" ({} paused)", micros(ns)));
    let [compute, transmission, queueing] = [path.compute_ns, path.transmission_ns, path.queueing_ns].map(micros);
    format!("compute {compute}, transmission {transmission}, queueing {queueing}{paused}")
}

fn micros(ns: u64) -> String {
    format!("{:.1}", ns as f64 / 1e3)
}

/// Completion time of a repetition, in microseconds.
pub(crate) fn completion_cell(repetition: &RepetitionSummary) -> String {
    repetition.completion_ns.map_or(NEVER.to_owned(), |ns| format!("{:.1}", ns as f64 / 1e3))
}

/// Bus bandwidth of a repetition, in GB/s; `None` if it has none.
pub(crate) fn bus_cell(repetition: &RepetitionSummary) -> Option<String> {
    repetition.bus_bytes_per_second.map(|rate| format!("{:.2}", rate as f64 / 1e9))
}

/// Text on the number of unfinished messages, after that of completed ones.
pub(crate) fn unfinished(traffic: &TrafficSummary) -> String {
    match traffic.unfinished {
        0 => String::new(),
        messages => format!(", {} unfinished (a figure that falls on these is \"{NEVER}\")", count(messages)),
    }
}

/// Text of a mean or percentile that includes unfinished messages.
pub(crate) const NEVER: &str = "never";

/// Headings of the table of messages, which has a row for each size.
pub(crate) const BIN_HEAD: [&str; 10] =
    ["messages", "slowdown: mean", "50 %", "95 %", "99 %", "99.9 %", "max", "FCT, us: mean", "50 %", "99 %"];

/// Cells below [`BIN_HEAD`].
pub(crate) fn bin_cells(bin: &BinSummary) -> [String; BIN_HEAD.len()] {
    let slowdown =
        |value: fn(&Distribution) -> Option<u64>| slowdown_cell(bin, value).unwrap_or_else(|| "-".to_owned());
    let fct = |value: fn(&Distribution) -> Option<u64>| fct_cell(bin, value);
    let tail = |permille: u64, cell: String| if is_below_max(bin.count, permille) { cell } else { "-".to_owned() };
    let messages = match bin.unfinished {
        0 => count(bin.count),
        unfinished => format!("{} ({} unfinished)", count(bin.count), count(unfinished)),
    };
    [
        messages,
        slowdown(|of| of.mean),
        slowdown(|of| of.p50),
        tail(950, slowdown(|of| of.p95)),
        tail(990, slowdown(|of| of.p99)),
        tail(999, slowdown(|of| of.p999)),
        slowdown(|of| of.max),
        fct(|of| of.mean),
        fct(|of| of.p50),
        tail(990, fct(|of| of.p99)),
    ]
}

/// Slowdown of a bin's messages; `None` without an ideal time.
pub(crate) fn slowdown_cell(bin: &BinSummary, value: fn(&Distribution) -> Option<u64>) -> Option<String> {
    let permille = value(bin.slowdown_permille.as_ref()?);
    Some(permille.map_or(NEVER.to_owned(), |permille| format!("{:.2}", permille as f64 / 1e3)))
}

/// Completion time of a bin's messages, in microseconds.
pub(crate) fn fct_cell(bin: &BinSummary, value: fn(&Distribution) -> Option<u64>) -> String {
    value(&bin.fct_ns).map_or(NEVER.to_owned(), |ns| format!("{:.1}", ns as f64 / 1e3))
}

#[cfg(test)]
mod tests {
    use weir_results::run_dir::PathMessageSummary;

    use super::*;

    #[test]
    fn a_row_for_each_size() {
        let distribution = |[mean, p50, p95, p99, p999, max]: [u64; 6]| Distribution {
            mean: Some(mean),
            p50: Some(p50),
            p95: Some(p95),
            p99: Some(p99),
            p999: Some(p999),
            max: Some(max),
        };
        let fct_ns = distribution([12_345, 9_990, 1, 50_000, 1, 1]);
        let slowdown = distribution([1_504, 1_001, 2_000, 3_000, 31_400, 40_000]);
        let bin = BinSummary {
            sizes: "10KB-100KB".into(),
            count: 1_234,
            fct_ns,
            slowdown_permille: Some(slowdown),
            ..BinSummary::default()
        };
        let stuck = BinSummary {
            sizes: "from 10MB".into(),
            count: 3,
            unfinished: 2,
            fct_ns: Distribution::from_values(&mut [7_000], 2).unwrap(),
            slowdown_permille: Distribution::from_values(&mut [2_000], 2),
            ..BinSummary::default()
        };
        let traffic = TrafficSummary {
            name: "background".into(),
            completed: 1_300,
            unfinished: 2,
            warm_up: 66,
            bins: vec![bin, stuck],
            ..TrafficSummary::default()
        };
        let tables = tables(&Summary { traffic: vec![traffic], ..Summary::default() });
        assert_eq!(tables.len(), 1, "no table of repetitions");
        let (line, table) = &tables[0];
        assert_eq!(
            line,
            "background: 1,300 messages completed, 66 of them before the warm-up's end, 2 unfinished (a figure that falls on these is \"never\")"
        );
        let text = table.to_string();
        let cells: Vec<&str> = text.lines().nth(2).unwrap().split_whitespace().collect();
        let expected =
            ["10KB-100KB", "1,234", "1.50", "1.00", "2.00", "3.00", "31.40", "40.00", "12.3", "10.0", "50.0"];
        assert_eq!(cells, expected);
        let cells: Vec<&str> = text.lines().nth(3).unwrap().split_whitespace().skip(2).collect();
        assert_eq!(cells.join(" "), "3 (2 unfinished) never never - - - never never never -");
    }
    #[test]
    fn a_row_for_each_repetition() {
        let done = RepetitionSummary {
            start_ns: 1_500,
            completion_ns: Some(5_470_049),
            bus_bytes_per_second: Some(11_886_000_000),
            slowest: Some("H3".into()),
            idle_permille: Some(49),
            critical_path: Some(CriticalPathSummary {
                compute_ns: 1_000,
                transmission_ns: 5_400_049,
                queueing_ns: 69_000,
                paused_ns: Some(30_050),
                messages: 62,
                slowest: vec![PathMessageSummary {
                    from: "H1".into(),
                    to: "H2".into(),
                    bytes: 1_048_576,
                    start_ns: 2_000,
                    flight_ns: 150_000,
                    queueing_ns: 60_000,
                    paused_by: Some("L0.H1".into()),
                    paused_by_ns: 30_050,
                }],
            }),
        };
        let repetitions = vec![done, RepetitionSummary { start_ns: 6_000_000, ..RepetitionSummary::default() }];
        let traffic = TrafficSummary { name: "ring".into(), repetitions, ..TrafficSummary::default() };
        let tables = tables(&Summary { traffic: vec![traffic], ..Summary::default() });
        let (line, table) = &tables[1];
        assert_eq!(line, "ring: 1 of 2 started repetitions completed");
        let text = table.to_string();
        let rows: Vec<Vec<&str>> = text.lines().skip(2).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0], ["0", "1.5", "5470.0", "11.89", "H3", "4.9", "%"]);
        assert_eq!(rows[1], ["1", "6000.0", "never", "-", "-", "-"]);
        let (line, table) = &tables[2];
        let times = "compute 1.0, transmission 5400.0, queueing 69.0 (30.1 paused)";
        assert_eq!(*line, format!("ring: critical path of repetition 0, 62 messages, us: {times}"));
        let row = table.to_string().lines().nth(2).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(row, "H1 to H2 1,048,576 2.0 150.0 60.0 L0.H1 30.1");
    }
}
