//! How long messages took, by their size.

use weir_results::run_dir::{BinSummary, Distribution, Summary};

use crate::table::{Table, count};

/// A table for each traffic of a run, after a line about it.
pub(super) fn tables(summary: &Summary) -> Vec<(String, Table)> {
    let tables = summary.traffic.iter().map(|traffic| {
        let unfinished = match traffic.unfinished {
            0 => String::new(),
            messages => format!(", {} unfinished", count(messages)),
        };
        let warm_up = match traffic.warm_up {
            0 => String::new(),
            messages => format!(", {} of them before the warm-up's end", count(messages)),
        };
        let line = format!("{}: {} messages completed{warm_up}{unfinished}", traffic.name, count(traffic.completed));
        let mut table = Table::new(std::iter::once("size").chain(BIN_HEAD));
        traffic.bins.iter().for_each(|bin| table.row(std::iter::once(bin.sizes.clone()).chain(bin_cells(bin))));
        (line, table)
    });
    tables.collect()
}

/// Columns of the table of messages, which has a row for each size.
pub(crate) const BIN_HEAD: [&str; 9] =
    ["messages", "slowdown: mean", "50 %", "95 %", "99 %", "99.9 %", "FCT, us: mean", "50 %", "99 %"];

/// Under [`BIN_HEAD`].
pub(crate) fn bin_cells(bin: &BinSummary) -> [String; BIN_HEAD.len()] {
    let slowdown = |value: fn(&Distribution) -> u64| {
        let of_bin = bin.slowdown_permille.as_ref().map(value);
        of_bin.map_or("-".to_owned(), |permille| format!("{:.2}", permille as f64 / 1e3))
    };
    let fct = |ns: u64| format!("{:.1}", ns as f64 / 1e3);
    [
        count(bin.count),
        slowdown(|of| of.mean),
        slowdown(|of| of.p50),
        slowdown(|of| of.p95),
        slowdown(|of| of.p99),
        slowdown(|of| of.p999),
        fct(bin.fct_ns.mean),
        fct(bin.fct_ns.p50),
        fct(bin.fct_ns.p99),
    ]
}

#[cfg(test)]
mod tests {
    use weir_results::run_dir::TrafficSummary;

    use super::*;

    #[test]
    fn a_row_for_each_size() {
        let fct_ns = Distribution { mean: 12_345, p50: 9_990, p95: 1, p99: 50_000, p999: 1, max: 1 };
        let slowdown = Distribution { mean: 1_504, p50: 1_001, p95: 2_000, p99: 3_000, p999: 31_400, max: 40_000 };
        let bin = BinSummary {
            sizes: "10KB-100KB".into(),
            count: 1_234,
            fct_ns,
            slowdown_permille: Some(slowdown),
            ..BinSummary::default()
        };
        let traffic = TrafficSummary {
            name: "background".into(),
            completed: 1_300,
            unfinished: 2,
            warm_up: 66,
            bins: vec![bin],
            ..TrafficSummary::default()
        };
        let tables = tables(&Summary { traffic: vec![traffic], ..Summary::default() });
        let (line, table) = &tables[0];
        assert_eq!(line, "background: 1,300 messages completed, 66 of them before the warm-up's end, 2 unfinished");
        let text = table.to_string();
        let cells: Vec<&str> = text.lines().nth(2).unwrap().split_whitespace().collect();
        let expected = ["10KB-100KB", "1,234", "1.50", "1.00", "2.00", "3.00", "31.40", "12.3", "10.0", "50.0"];
        assert_eq!(cells, expected);
    }
}
