//! What the points of an experiment's sweep came to.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use weir_results::run_dir::{RunMessage, Series, read_messages, read_series};
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

    /// All points.
    pub(super) fn all(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter()
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
    /// For one workload; none for all.
    pub traffic: Option<&'a str>,
    /// From the one size and below the other.
    pub sizes: Option<&'a [String; 2]>,
}

impl Row {
    /// The values that each of these asks for, in the order in which messages were completed: infinite of a time that did not end, and
    /// a throughput of 0. The file is read once, whatever number asks.
    pub(super) fn messages(&self, all: &[Messages<'_>]) -> Result<Vec<Vec<f64>>, Failure> {
        let mut values = vec![Vec::new(); all.len()];
        let chosen: Vec<Chosen<'_>> = all.iter().map(Chosen::of).collect();
        let read = read_messages(&self.folder, |message| {
            for (values, of) in values.iter_mut().zip(&chosen) {
                values.extend(of.value_of(message));
            }
        });
        read.map_err(|error| Failure::Run(error.to_string()))?;
        Ok(values)
    }
}

/// The request, its units read.
struct Chosen<'a> {
    value: &'a str,
    traffic: Option<&'a str>,
    from: u64,
    below: Option<u64>,
    divisor: f64,
}

impl<'a> Chosen<'a> {
    fn of(of: &Messages<'a>) -> Chosen<'a> {
        let bound = |n: usize| Some(Bytes::from_str(&of.sizes?[n]).ok()?.get());
        let column = if of.value == "throughput" { "_bps" } else { "_us" };
        Chosen {
            value: of.value,
            traffic: of.traffic,
            from: bound(0).unwrap_or(0),
            below: bound(1),
            divisor: units::divisor(column, of.unit).unwrap_or(1.0),
        }
    }

    /// `None` of another traffic or size, and of a slowdown where the time in an empty fabric is not known.
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
