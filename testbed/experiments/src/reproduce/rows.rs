//! What the points of an experiment's sweep came to.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use weir_results::run_dir::{Series, read_series};
use weir_units::Bytes;

use super::units;
use crate::Failure;
use crate::sweep::{Cell, Point, Record};

/// All points that ran, in the sweep's order.
#[derive(Debug)]
pub(super) struct Rows {
    columns: Vec<String>,
    rows: Vec<Row>,
}

/// A point that ran.
#[derive(Debug)]
pub(super) struct Row {
    pub point: Point,
    /// Its run directory.
    pub folder: PathBuf,
    cells: Vec<Cell>,
    series: OnceCell<Series>,
}

/// Which points are meant: by their runs, none for all, and by values of parameters.
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

impl Rows {
    pub(super) fn new(columns: Vec<String>, records: Vec<Record>) -> Rows {
        let row = |record: Record| Row {
            point: record.finished.point,
            folder: record.folder,
            cells: record.cells,
            series: OnceCell::new(),
        };
        Rows { columns, rows: records.into_iter().map(row).collect() }
    }

    /// The points that are meant, in their order.
    pub(super) fn select<'a>(&'a self, of: Selection<'a>) -> impl Iterator<Item = &'a Row> {
        self.rows.iter().filter(move |row| of.has(&row.point))
    }

    /// The first point of each of the scenario's runs.
    pub(super) fn first_of_each_run(&self) -> impl Iterator<Item = &Row> {
        let is_first = |n: usize| self.rows[..n].iter().all(|row| row.point.run_name != self.rows[n].point.run_name);
        (0..self.rows.len()).filter(move |n| is_first(*n)).map(|n| &self.rows[n])
    }

    /// A row's value in a column; `None` of an empty cell, and of a text.
    pub(super) fn number(&self, row: &Row, column: &str) -> Option<f64> {
        let place = self.columns.iter().position(|name| name == column)?;
        match row.cells.get(place)? {
            Cell::Bool(is) => Some(f64::from(u8::from(*is))),
            Cell::Whole(n) => Some(*n as f64),
            Cell::Float(x) => Some(*x),
            Cell::Empty | Cell::Text(_) => None,
        }
    }
}

impl Row {
    /// The values of a column of series.csv, each with its instant in microseconds.
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

/// A value of each of a run's messages, read off `fct.csv`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Messages<'a> {
    /// `fct`, `slowdown` or `throughput`,
    pub value: &'a str,
    /// in this unit.
    pub unit: &'a str,
    /// Of one workload; none for all.
    pub traffic: Option<&'a str>,
    /// From the one size and below the other.
    pub sizes: Option<&'a [String; 2]>,
}

impl Row {
    /// The values in the order in which messages were completed: infinite of a time that did not end, and a throughput of 0.
    pub(super) fn messages(&self, of: &Messages<'_>) -> Result<Vec<f64>, Failure> {
        let path = self.folder.join("fct.csv");
        let wrong = |what: String| Failure::Run(format!("{}: {what}", path.display()));
        let mut csv = csv::Reader::from_path(&path).map_err(|error| wrong(error.to_string()))?;
        let bound = |n: usize| Some(Bytes::from_str(&of.sizes?[n]).ok()?.get() as f64);
        let (from, below) = (bound(0).unwrap_or(0.0), bound(1).unwrap_or(f64::INFINITY));
        let mut values = Vec::new();
        for record in csv.records() {
            let record = record.map_err(|error| wrong(error.to_string()))?;
            let number = |column: usize| record.get(column).and_then(|field| field.parse::<f64>().ok());
            let fct_us = if record.get(3) == Some("") { Some(f64::INFINITY) } else { number(3) };
            let (Some(bytes), Some(fct_us)) = (number(2), fct_us) else { continue };
            if of.traffic.is_some_and(|traffic| record.get(0) != Some(traffic)) || bytes < from || bytes >= below {
                continue;
            }
            values.extend(match of.value {
                "slowdown" => number(6).map(|ideal_us| fct_us / ideal_us),
                "throughput" => Some(bytes * 8e6 / fct_us / units::divisor("_bps", of.unit).unwrap_or(1.0)),
                _ => Some(fct_us / units::divisor("_us", of.unit).unwrap_or(1.0)),
            });
        }
        Ok(values)
    }
}

/// The value of a point's parameter.
pub(super) fn parameter<'a>(point: &'a Point, path: &str) -> Option<&'a serde_json::Value> {
    point.parameters.iter().find(|(name, _)| name == path).map(|(_, value)| value)
}

/// What two points have in common that differ in the seed alone.
pub(super) fn combination(point: &Point) -> (&str, String) {
    (&point.run_name, serde_json::to_string(&point.parameters).expect("plain data is JSON"))
}

/// Numbers are compared as numbers: 1 is 1.0.
fn is_same(is: &serde_json::Value, wanted: &toml::Value) -> bool {
    match (is.as_f64(), wanted.as_float().or(wanted.as_integer().map(|n| n as f64))) {
        (Some(one), Some(other)) => one == other,
        _ => serde_json::to_value(wanted).is_ok_and(|wanted| wanted == *is),
    }
}
