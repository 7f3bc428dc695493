//! Tables of a sweep: results, failures, and timings.

use std::path::{Path, PathBuf};

use super::columns;
use super::directory::{FinishedPoint, PointOutcome, read_results};
use super::point_file::Point;
use crate::Failure;
use crate::files::with_path;
use crate::table::typed::{Cell, TypedTable};

#[derive(Clone, Debug)]
pub(crate) struct PointRecord {
    pub finished: FinishedPoint,
    pub folder: PathBuf,
    /// Cells of the results' columns; empty for a point without results.
    pub cells: Vec<Cell>,
    /// CPU time in ms; `None` on DPDK.
    pub cpu_ms: Option<u64>,
    /// Share of the run's time lost to the machine, in percent; 0 in virtual time and for a point without results.
    pub lost_percent: f64,
    packet_hops_per_cpu_second: Option<u64>,
}

impl PointRecord {
    /// Reads the record of a finished point from its folder. A point whose results can't be read has crashed.
    pub(crate) fn read(finished: FinishedPoint, folder: &Path, columns: &[String]) -> Result<PointRecord, Failure> {
        let mut record = PointRecord {
            finished,
            folder: folder.to_owned(),
            cells: vec![Cell::Empty; columns.len()],
            cpu_ms: None,
            lost_percent: 0.0,
            packet_hops_per_cpu_second: None,
        };
        if record.finished.outcome == PointOutcome::Crashed {
            return Ok(record);
        }
        let (summary, speed) = match read_results(folder) {
            Ok(read) => read,
            Err(failure) => {
                record.finished.outcome = PointOutcome::Crashed;
                record.finished.reason = format!("its results can't be read: {}", failure.into_message());
                return Ok(record);
            }
        };
        let json = serde_json::to_value(&summary).map_err(|error| Failure::Run(error.to_string()))?;
        record.cells = columns.iter().map(|name| columns::cell(name, &summary, &json, &speed)).collect();
        record.cpu_ms = speed.cpu_ms;
        record.lost_percent = summary.lost_percent();
        record.packet_hops_per_cpu_second = speed.packet_hops_per_cpu_second;
        Ok(record)
    }

    /// Whether the machine took more than the allowed share of the run's time; false without a limit.
    pub(crate) fn is_late(&self, allowed_percent: Option<f64>) -> bool {
        allowed_percent.is_some_and(|allowed| self.lost_percent > allowed)
    }

    pub(crate) fn is_good(&self) -> bool {
        self.finished.outcome == PointOutcome::Good
    }
}

/// Writes all tables; records are in the order of their points. `first` is any point of the sweep, since all have the
/// same parameters.
pub(super) fn write(
    directory: &Path,
    first: &Point,
    columns: &[String],
    records: &[PointRecord],
) -> Result<(), Failure> {
    let (good, bad): (Vec<&PointRecord>, Vec<&PointRecord>) = records.iter().partition(|record| record.is_good());
    let mut results = head(first, &good);
    results.columns.extend(of_results(columns, &good));
    let path = directory.join("results.csv");
    results.write_csv(&path).map_err(with_path(&path))?;
    #[cfg(feature = "parquet")]
    {
        let path = directory.join("results.parquet");
        results.write_parquet(&path).map_err(with_path(&path))?;
    }

    let mut failures = head(first, &bad);
    let column = |name: &str, of: fn(&FinishedPoint) -> &str| {
        (name.to_owned(), bad.iter().map(|record| Cell::Text(of(&record.finished).to_owned())).collect())
    };
    failures.columns.push(column("outcome", |finished| match finished.outcome {
        PointOutcome::Crashed => "crashed",
        _ => "failed",
    }));
    failures.columns.push(column("reason", |finished| &finished.reason));
    failures.columns.push(column("folder", |finished| &finished.point.folder));
    failures.columns.extend(of_results(columns, &bad));
    let path = directory.join("failures.csv");
    failures.write_csv(&path).map_err(with_path(&path))?;

    let all: Vec<&PointRecord> = records.iter().collect();
    let mut timings = head(first, &all);
    let mut timing = |name: &str, of: fn(&PointRecord) -> Option<u64>| {
        let cells = records.iter().map(|record| of(record).map_or(Cell::Empty, Cell::from_u64));
        timings.columns.push((name.to_owned(), cells.collect()));
    };
    timing("wall_ms", |record| Some(record.finished.wall_ms));
    timing("cpu_ms", |record| record.cpu_ms);
    timing("packet_hops_per_cpu_second", |record| record.packet_hops_per_cpu_second);
    let path = directory.join("timings.csv");
    timings.write_csv(&path).map_err(with_path(&path))
}

/// Columns that identify the point of a row.
fn head(first: &Point, records: &[&PointRecord]) -> TypedTable {
    let points = || records.iter().map(|record| &record.finished.point);
    let mut columns = vec![
        ("point".to_owned(), points().map(|point| Cell::from_u64(point.number as u64)).collect()),
        ("run".to_owned(), points().map(|point| Cell::Text(point.run_name.clone())).collect()),
    ];
    if first.seed.is_some() {
        let seed = |point: &Point| point.seed.map_or(Cell::Empty, |seed| Cell::from_u64(u64::from(seed)));
        columns.push(("seed".to_owned(), points().map(seed).collect()));
    }
    for (n, (name, _)) in first.parameters.iter().enumerate() {
        let value = |point: &Point| point.parameters.get(n).map_or(Cell::Empty, |(_, value)| Cell::of_json(value));
        columns.push((name.clone(), points().map(value).collect()));
    }
    TypedTable { columns }
}

fn of_results<'a>(names: &'a [String], records: &'a [&PointRecord]) -> impl Iterator<Item = (String, Vec<Cell>)> + 'a {
    let column = |n: usize| records.iter().map(|record| record.cells[n].clone()).collect();
    names.iter().enumerate().map(move |(n, name)| (name.clone(), column(n)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use weir_results::run_dir::Summary;

    use super::super::directory::SweepDir;
    use super::super::directory::tests::{finished_point, manifest};
    use super::*;

    #[test]
    fn a_point_whose_results_cannot_be_read_fails_alone() {
        let directory = tempfile::tempdir().unwrap();
        let to = SweepDir::open(directory.path(), &manifest("1")).unwrap();
        let complete = serde_json::to_string(&Summary { duration_ns: 1_000, ..Summary::default() }).unwrap();
        let other = complete.replace("\"duration_ns\"", "\"duration_of_another_version\"");
        let texts = [&complete, &complete[..complete.len() / 2], "", other.as_str(), "no JSON"];
        let columns = ["duration_ns".to_owned()];
        let read = |(number, text): (usize, &&str)| {
            let finished = finished_point(&to, number + 1);
            fs::write(to.folder(&finished.point).join("summary.json"), text).unwrap();
            PointRecord::read(finished.clone(), &to.folder(&finished.point), &columns).unwrap()
        };
        let records: Vec<PointRecord> = texts.iter().enumerate().map(read).collect();
        assert!(records[0].is_good() && records[0].cells == [Cell::from_u64(1_000)]);
        for record in &records[1..] {
            let FinishedPoint { outcome, reason, .. } = &record.finished;
            let file = to.folder(&record.finished.point).join("summary.json");
            assert!(*outcome == PointOutcome::Crashed && record.cells == [Cell::Empty]);
            assert!(
                reason.starts_with("its results can't be read: ") && reason.contains(&*file.to_string_lossy()),
                "{reason}"
            );
        }
        write(directory.path(), &records[0].finished.point, &columns, &records).unwrap();
        let rows = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap().lines().count() - 1;
        assert_eq!([rows("results.csv"), rows("failures.csv"), rows("timings.csv")], [1, 4, 5]);
    }
}
