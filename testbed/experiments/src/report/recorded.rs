//! Recorded runs for `weir play`: topology, samples, pauses and events, as one JSON for a page.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::{Value, json};
use weir_reader::Unit;
use weir_results::run_dir::{Topology, queue_gauges};

use super::events::Events;
use super::input::{self, Run};
use super::series::SeriesFile;
use super::topology;
use crate::Failure;

/// Runs that ended or were killed.
pub struct RecordedRuns(Vec<Run>);

/// Maximum count of a run's numbers in all columns: a page takes seconds to draw more. Longer runs are downsampled
/// without loss of peaks.
const NUMBERS_MAX: usize = 2_000_000;
/// Minimum and maximum number of samples.
const SAMPLES: (usize, usize) = (200, 20_000);

/// Column; a constant one is stored as a single value.
#[derive(Serialize)]
#[serde(untagged)]
enum ColumnData {
    All { all: Option<f64> },
    Each(Vec<Option<f64>>),
}

impl RecordedRuns {
    /// Reads the runs in the given directories, or below them. Omitted directories are reported on standard error.
    ///
    /// # Errors
    /// A directory without runs.
    pub fn read(directories: &[PathBuf]) -> Result<RecordedRuns, Failure> {
        let input = input::read(directories)?;
        for reason in &input.left_out {
            eprintln!("weir: left out: {reason}");
        }
        Ok(RecordedRuns(input.runs))
    }

    /// Labels that distinguish the runs.
    pub fn labels(&self) -> Vec<String> {
        self.0.iter().map(|run| run.label.clone()).collect()
    }

    /// Names of the runs' scenarios.
    pub fn title(&self) -> String {
        let mut scenarios: Vec<&str> = self.0.iter().map(|run| run.summary.scenario.as_str()).collect();
        scenarios.dedup();
        scenarios.join(", ")
    }

    /// Directories of runs without samples, which can't be played.
    pub fn without_samples(&self) -> Vec<String> {
        let without = self.0.iter().filter(|run| !run.directory.join("series.csv").exists());
        without.map(|run| run.directory.display().to_string()).collect()
    }

    /// Data of run `number` for a page, as JSON.
    ///
    /// # Errors
    /// Files that can't be read.
    ///
    /// # Panics
    /// If there are fewer runs.
    pub fn json(&self, number: usize) -> Result<String, String> {
        self.0[number].json().map_err(Failure::into_message)
    }
}

impl Run {
    fn json(&self) -> Result<String, Failure> {
        let summary = &self.summary;
        let end_ms = self.end_us() / 1e3;
        let RunColumns { at_ms, by_name: columns, rows_each } = self.columns()?;
        let events = Events::read(&self.directory, end_ms)?;
        let topology = self.topology.clone().unwrap_or_else(|| unknown_topology(self));
        let pauses: Vec<Value> = events
            .queues
            .iter()
            .map(|((port, class), queue)| {
                json!({
                    "port": port, "class": class.parse::<u8>().unwrap_or(0), "to_peer": queue.paused_peer.spans,
                    "by_peer": queue.paused_by_peer.spans, "stages": queue.stages, "drops": queue.drops.spans,
                })
            })
            .collect();
        let has = |name: &str| columns.keys().any(|column| column.rsplit_once('.').is_some_and(|(_, of)| of == name));
        let gauges: Vec<Value> = queue_gauges()
            .into_iter()
            .filter(|gauge| has(gauge.name))
            .map(|gauge| {
                let on = if let Unit::State { on, .. } = gauge.unit { Some(on) } else { None };
                json!({ "name": gauge.name, "on": on })
            })
            .collect();
        let losses: Vec<Value> = summary
            .ports
            .iter()
            .flat_map(|port| port.classes.iter().map(move |class| (port, class)))
            .flat_map(|(port, class)| {
                let loss = move |(reason, frames): (&String, &u64)| {
                    json!({ "port": port.name, "place": "switch", "class": class.class, "reason": reason, "frames": frames })
                };
                class.drops.iter().filter(|(_, frames)| **frames > 0).map(loss)
            })
            .collect();
        let deadlock = summary.deadlock.as_ref().map(|deadlock| {
            json!({
                "cycle": deadlock.cycle, "ports": topology::ports_of(&deadlock.cycle), "since_ms": deadlock.since_ns as f64 / 1e6,
                "dissolved_ms": deadlock.dissolved_ns.map(|ns| ns as f64 / 1e6),
            })
        });
        let ports = summary.ports.iter().map(|port| {
            let lossless = port.classes.iter().filter(|class| class.lossless).map(|class| class.class);
            json!({ "name": port.name, "flow_control": port.flow_control, "lossless": lossless.collect::<Vec<_>>() })
        });
        let flows = summary.flows.iter().map(|flow| json!({ "name": flow.name, "from": flow.from, "to": flow.to }));
        let run = json!({
            "label": self.label,
            "about": self.about(rows_each),
            "policy": summary.policy,
            "duration_ms": end_ms,
            "deadlock": deadlock,
            "topology": topology,
            "ports": ports.collect::<Vec<_>>(),
            "flows": flows.collect::<Vec<_>>(),
            "gauges": gauges,
            "at_ms": at_ms,
            "columns": columns,
            "pauses": pauses,
            "marks": events.marks,
            "losses": losses,
        });
        Ok(run.to_string())
    }

    /// Description of the run in one line.
    fn about(&self, rows_each: usize) -> String {
        let summary = &self.summary;
        let backend = if summary.backend == "sim" { "virtual time" } else { "real frames" };
        let mut about = format!("{}, {}, {backend}", summary.scenario, summary.policy);
        if summary.time_dilation > 1 {
            about += &format!(", {} times slower than real time", summary.time_dilation);
        }
        if rows_each > 1 {
            about += &format!(", the least and the greatest of each {rows_each} samples");
        }
        about
    }

    /// Columns by name, without empty ones.
    fn columns(&self) -> Result<RunColumns, Failure> {
        let Some(file) = SeriesFile::survey(&self.directory)? else { return Ok(Default::default()) };
        let used = file.columns().iter().filter(|column| column.name != "t_us" && !column.max.is_nan());
        let names: Vec<&str> = used.map(|column| column.name.as_str()).collect();
        let places: Vec<usize> = names.iter().filter_map(|name| file.place(name)).collect();
        let points = (NUMBERS_MAX / places.len().max(1)).clamp(SAMPLES.0, SAMPLES.1);
        let samples = file.samples(&places, points)?;
        let named = names.into_iter().map(str::to_owned).zip(samples.values.into_iter().map(ColumnData::new));
        Ok(RunColumns { at_ms: samples.at, by_name: named.collect(), rows_each: samples.rows_each })
    }
}

#[derive(Default)]
struct RunColumns {
    at_ms: Vec<f64>,
    by_name: BTreeMap<String, ColumnData>,
    /// Rows of the file per two instants.
    rows_each: usize,
}

impl ColumnData {
    fn new(values: Vec<f64>) -> ColumnData {
        let number = |value: f64| if value.is_finite() { Some(value) } else { None };
        match values.first() {
            Some(first) if values.iter().all(|value| value == first) => ColumnData::All { all: number(*first) },
            _ => ColumnData::Each(values.into_iter().map(number).collect()),
        }
    }
}

/// Topology of a run without `topology.json`: only its switches.
fn unknown_topology(run: &Run) -> Topology {
    let switches = run.summary.switches.iter().map(|switch| switch.name.clone()).collect();
    Topology { switches, ..Topology::default() }
}
