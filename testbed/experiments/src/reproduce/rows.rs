//! Results of an experiment's sweep, a row per point.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use weir_results::run_dir::{RunMessage, Series, read_messages, read_series};
use weir_units::Bytes;

use crate::Failure;
use crate::sweep::{Point, PointRecord};
use crate::table::typed::Cell;
use crate::table::units;

/// All completed points, in the sweep's order.
#[derive(Debug)]
pub(super) struct ResultRows {
    columns: Vec<String>,
    rows: Vec<ResultRow>,
}

#[derive(Debug)]
pub(super) struct ResultRow {
    pub point: Point,
    pub folder: PathBuf,
    cells: Vec<Cell>,
    series: OnceCell<Series>,
}

/// Filter of points: by run names, all if empty, and by values of parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Selection<'a> {
    pub runs: &'a [String],
    pub parameters: &'a BTreeMap<String, toml::Value>,
}

impl Selection<'_> {
    pub(super) fn has(&self, point: &Point) -> bool {
        let is_run = self.runs.is_empty() || self.runs.contains(&point.run_name);
        is_run
            && self.parameters.iter().all(|(path, wanted)| parameter(point, path).is_some_and(|it| is_same(it, wanted)))
    }
}

impl ResultRows {
    pub(super) fn new(columns: Vec<String>, records: Vec<PointRecord>) -> ResultRows {
        let row = |record: PointRecord| ResultRow {
            point: record.finished.point,
            folder: record.folder,
            cells: record.cells,
            series: OnceCell::new(),
        };
        ResultRows { columns, rows: records.into_iter().map(row).collect() }
    }

    /// Selected points, in their order.
    pub(super) fn select<'a>(&'a self, of: Selection<'a>) -> impl Iterator<Item = &'a ResultRow> {
        self.rows.iter().filter(move |row| of.has(&row.point))
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &ResultRow> {
        self.rows.iter()
    }

    /// First point of each of the scenario's runs.
    pub(super) fn first_of_each_run(&self) -> impl Iterator<Item = &ResultRow> {
        let is_first = |n: usize| self.rows[..n].iter().all(|row| row.point.run_name != self.rows[n].point.run_name);
        (0..self.rows.len()).filter(move |n| is_first(*n)).map(|n| &self.rows[n])
    }

    /// Value of a row in a column; `None` for an empty cell or a text.
    pub(super) fn number(&self, row: &ResultRow, column: &str) -> Option<f64> {
        let place = self.columns.iter().position(|name| name == column)?;
        match row.cells.get(place)? {
            Cell::Bool(is) => Some(f64::from(u8::from(*is))),
            Cell::Integer(n) => Some(*n as f64),
            Cell::Float(x) => Some(*x),
            Cell::Empty | Cell::Text(_) => None,
        }
    }
}

impl ResultRow {
    /// Values of a column of series.csv, each with its instant in microseconds.
    pub(super) fn series(&self, column: &str) -> Result<Vec<(f64, f64)>, Failure> {
        if self.series.get().is_none() {
            let series = read_series(&self.folder).map_err(|error| Failure::Run(error.to_string()))?;
            let _ = self.series.set(series);
        }
        let found = self.series.get().and_then(|series| Some(series.column(column)?.collect()));
        found.ok_or_else(|| {
            Failure::Argument(format!("{}: series.csv has no column \"{column}\"", self.folder.display()))
        })
    }
}

/// Query for a value of each of a run's messages in `fct.csv`.
#[derive(Clone, Copy, Debug)]
pub(super) struct MessageQuery<'a> {
    /// Quantity: `fct`, `slowdown` or `throughput`.
    pub value: &'a str,
    pub unit: &'a str,
    /// Workload; `None` for all.
    pub traffic: Option<&'a str>,
    /// Message sizes: from the first, inclusive, to the second, exclusive.
    pub sizes: Option<&'a [String; 2]>,
}

impl ResultRow {
    /// Values for each query, in the order of the messages' completion: infinite for the completion time of an
    /// unfinished message, and 0 for its throughput. Reads the file once for all queries.
    pub(super) fn messages(&self, all: &[MessageQuery<'_>]) -> Result<Vec<Vec<f64>>, Failure> {
        let mut values = vec![Vec::new(); all.len()];
        let chosen: Vec<MessageFilter<'_>> = all.iter().map(MessageFilter::new).collect();
        let read = read_messages(&self.folder, |message| {
            for (values, of) in values.iter_mut().zip(&chosen) {
                values.extend(of.value_of(message));
            }
        });
        read.map_err(|error| Failure::Run(error.to_string()))?;
        Ok(values)
    }
}

struct MessageFilter<'a> {
    value: &'a str,
    traffic: Option<&'a str>,
    from: u64,
    below: Option<u64>,
    divisor: f64,
}

impl<'a> MessageFilter<'a> {
    fn new(new: &MessageQuery<'a>) -> MessageFilter<'a> {
        let bound = |n: usize| Some(Bytes::from_str(&new.sizes?[n]).ok()?.get());
        let column = if new.value == "throughput" { "_bps" } else { "_us" };
        MessageFilter {
            value: new.value,
            traffic: new.traffic,
            from: bound(0).unwrap_or(0),
            below: bound(1),
            divisor: units::divisor(column, new.unit).unwrap_or(1.0),
        }
    }

    /// Value of a message; `None` for another traffic or size, and for a slowdown if the time in an empty fabric is
    /// unknown.
    fn value_of(&self, message: &RunMessage<'_>) -> Option<f64> {
        let is_other = self.traffic.is_some_and(|traffic| message.flow != traffic);
        if is_other || message.bytes < self.from || self.below.is_some_and(|below| message.bytes >= below) {
            return None;
        }
        let fct_us = message.fct_us.unwrap_or(f64::INFINITY);
        Some(match self.value {
            "slowdown" => fct_us / message.ideal_us?,
            "throughput" => message.bytes as f64 * 8e6 / fct_us / self.divisor,
            _ => fct_us / self.divisor,
        })
    }
}

pub(super) fn parameter<'a>(point: &'a Point, path: &str) -> Option<&'a serde_json::Value> {
    point.parameters.iter().find(|(name, _)| name == path).map(|(_, value)| value)
}

/// Key shared by points that differ only in the seed.
pub(super) fn combination(point: &Point) -> (&str, String) {
    (&point.run_name, serde_json::to_string(&point.parameters).expect("plain data is JSON"))
}

/// Compares numbers by value: 1 is 1.0.
fn is_same(is: &serde_json::Value, wanted: &toml::Value) -> bool {
    match (is.as_f64(), wanted.as_float().or(wanted.as_integer().map(|n| n as f64))) {
        (Some(one), Some(other)) => one == other,
        _ => serde_json::to_value(wanted).is_ok_and(|wanted| wanted == *is),
    }
}
