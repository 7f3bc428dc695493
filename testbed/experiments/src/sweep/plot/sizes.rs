//! Rows of a sweep by the size of messages, for figures with size bins on the horizontal axis.

use std::path::Path;

use weir_results::measure::SIZE_BINS;

use super::FigureSpec;
use super::names::resolved;
use super::results::{ColumnNames, Results, SweepRow};
use super::spec::MESSAGE_SIZE;
use crate::Failure;
use crate::sweep::columns;
use crate::sweep::directory::{all_finished, read_results};
use crate::table::key_path::{KeyPath, quoted};

/// Names of the tables with a key for the size, and only columns of workloads' messages.
pub(super) fn names_by_size(names: &ColumnNames) -> ColumnNames {
    let keys = names.keys.iter().cloned().chain([MESSAGE_SIZE.to_owned()]).collect();
    ColumnNames {
        keys,
        columns: names.columns.iter().filter(|name| bin_column(name, "all").is_some()).cloned().collect(),
    }
}

/// Splits each row into one for each size bin in which a run has messages. Cells are those of the runs' summaries.
///
/// # Errors
/// A column of the figure is not that of a workload's messages, or a run can't be read.
pub(super) fn by_size(spec: &FigureSpec, results: &Results, directory: &Path) -> Result<Results, Failure> {
    let names = names_by_size(&results.names());
    let wanted = resolved(spec, &names).map_err(Failure::Argument)?;
    let finished = all_finished(directory)?;
    let mut rows = Vec::new();
    let mut bins_with_messages = Vec::new();
    for row in &results.rows {
        let summary = match finished.get(&row.point) {
            Some((_, folder)) if row.is_good => Some(read_results(folder)?),
            _ => None,
        };
        let json = match &summary {
            Some((summary, _)) => serde_json::to_value(summary).map_err(|error| Failure::Run(error.to_string()))?,
            None => serde_json::Value::Null,
        };
        for bin in &SIZE_BINS[1..] {
            let mut cells = vec![String::new(); names.columns.len()];
            for y in &wanted.y {
                let name = bin_column(&names.columns[*y], bin.name).unwrap_or_default();
                if let Some((summary, speed)) = &summary {
                    cells[*y] = columns::cell(&name, summary, &json, speed).text();
                }
            }
            if cells.iter().any(|cell| !cell.is_empty()) && !bins_with_messages.contains(&bin.name) {
                bins_with_messages.push(bin.name);
            }
            let keys = row.keys.iter().cloned().chain([bin.name.to_owned()]).collect();
            rows.push(SweepRow { point: row.point, keys, cells, is_good: row.is_good });
        }
    }
    rows.retain(|row| row.keys.last().is_some_and(|bin| bins_with_messages.contains(&bin.as_str())));
    let place = |row: &SweepRow| SIZE_BINS.iter().position(|bin| row.keys.last().is_some_and(|key| key == bin.name));
    rows.sort_by_key(place);
    Ok(Results::of_rows(results.sweep.clone(), names, rows))
}

/// Column of messages of a size bin in place of the bin of another column; `None` for a column that is not of messages.
pub(super) fn bin_column(column: &str, bin: &str) -> Option<String> {
    let path = KeyPath::parse(column)?;
    let [first, traffic, second, _, quantity, figure] = path.keys() else { return None };
    let is_of_messages = (first.as_str(), second.as_str()) == ("traffic", "bins");
    is_of_messages.then(|| format!("traffic.{}.bins.{bin}.{quantity}.{figure}", quoted(traffic)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_messages_have_size_bins() {
        let of = |column: &str| bin_column(column, "10KB-100KB");
        let wanted = "traffic.a.bins.10KB-100KB.slowdown_permille.p99";
        assert_eq!(of("traffic.a.bins.all.slowdown_permille.p99").as_deref(), Some(wanted));
        assert_eq!(
            of("traffic.'a.b'.bins.all.fct_ns.mean").as_deref(),
            Some("traffic.'a.b'.bins.10KB-100KB.fct_ns.mean")
        );
        assert_eq!(
            [of("pauses_sent"), of("traffic.a.completed"), of("flows.a.bins.all.fct_ns.mean")],
            [None, None, None]
        );
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let names = ColumnNames { keys: owned(&["run", "seed"]), columns: owned(&["pauses_sent", wanted]) };
        let by_size = names_by_size(&names);
        assert_eq!((by_size.keys, by_size.columns), (owned(&["run", "seed", "message_size"]), owned(&[wanted])));
    }
}
