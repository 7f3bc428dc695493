//! Keys of an experiment's `paper.toml`; `docs/EXPERIMENTS.md` is the reference.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::Deserialize;
use weir_config::{ConfigErrors, Source};
use weir_reader::{Format, TableSchema, read_text};
use weir_units::{BitRate, Bytes};

use super::mutation::Mutation;
use super::rows::Selection;
use super::unspecified::UnspecifiedParameter;
use crate::experiment::Backend;
use crate::files::one_or_more;

/// `paper.toml`: the paper's findings, the measures of Weir's runs, and the claims to judge.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PaperFile {
    pub title: String,
    /// Citation of the paper, for an experiment outside a paper's folder.
    pub paper: Option<String>,
    pub figure: String,
    #[serde(default)]
    pub section: String,
    pub setting: String,
    pub found: String,
    /// Cause of main claims that do not come out or stay undecided.
    pub cause: Option<String>,
    #[serde(default = "virtual_time_alone")]
    pub backends: Vec<Backend>,
    pub takes: MeasuredCost,
    pub quick: Option<ReducedSweep>,
    pub dpdk: Option<ReducedSweep>,
    pub hosts: Option<ReducedSweep>,
    #[serde(default)]
    pub departures: Vec<Departure>,
    #[serde(default)]
    pub disagreements: Vec<Disagreement>,
    pub measures: Vec<Measure>,
    pub claims: Vec<Claim>,
    /// Panels per row of the figure.
    #[serde(default = "two")]
    pub columns: usize,
    #[serde(default)]
    pub panels: Vec<Panel>,
    /// Parameters that the paper leaves unspecified.
    #[serde(default)]
    pub open: Vec<UnspecifiedParameter>,
    #[serde(default)]
    pub map: MapFile,
    /// Mutations of the scheme that must change the verdict.
    #[serde(default)]
    pub mutations: Vec<Mutation>,
}

/// Keys of an experiment's map of claims (`weir explore`).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MapFile {
    /// Parts of the figure that the map's sweep omits.
    pub leaves_out: Option<String>,
    /// Explanation why claims are robust or fragile, written after reading the map.
    #[serde(default)]
    pub reading: String,
    /// Measures and claims that replace the figure's own where those name an unspecified parameter.
    #[serde(default)]
    pub measures: Vec<Measure>,
    #[serde(default)]
    pub claims: Vec<Claim>,
}

/// Measured CPU time on one core.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MeasuredCost {
    pub full: String,
    pub quick: Option<String>,
    /// CPU time of `farm.toml`, estimated.
    pub farm: Option<String>,
}

/// Sweep that replaces the full one, with less to run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReducedSweep {
    pub leaves_out: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Departure {
    pub what: String,
    pub why: String,
}

/// Disagreement of the paper with itself or with public code.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Disagreement {
    #[serde(rename = "where")]
    pub place: String,
    #[serde(rename = "says")]
    pub statement: String,
    pub choice: String,
}

/// Number read from the runs, with the paper's number if stated.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Measure {
    pub name: String,
    #[serde(default)]
    pub unit: String,
    /// Column of the results. A measure has exactly one of `value`, `series`, `share`, `count`, `messages`, `ratio` and
    /// `reduction`.
    pub value: Option<String>,
    pub series: Option<String>,
    pub share: Option<String>,
    /// Column to count: the measure is the number of points in which the column is not 0.
    pub count: Option<String>,
    /// Parameter whose values are counted instead of points: a value counts if one of its points does.
    pub each: Option<String>,
    /// Mean `fct`, `slowdown` or `throughput` of a run's completed messages; with `percentile`, that percentile of all
    /// of them.
    pub messages: Option<String>,
    pub percentile: Option<f64>,
    /// Workload whose messages are read.
    pub traffic: Option<String>,
    pub sizes: Option<[String; 2]>,
    pub ratio: Option<[String; 2]>,
    pub reduction: Option<[String; 2]>,
    /// Names of the runs whose points are read; all runs if empty.
    #[serde(default, deserialize_with = "one_or_more")]
    pub runs: Vec<String>,
    /// Values of parameters that a point must have to be read.
    #[serde(default, rename = "where")]
    pub parameters: BTreeMap<String, toml::Value>,
    pub over: Option<Aggregation>,
    /// Reduction of a time series to a number; required with `series`, and invalid without.
    pub statistic: Option<Statistic>,
    pub level: Option<SeriesThreshold>,
    pub from: Option<String>,
    pub to: Option<String>,
    /// Measure of an instant from which `from` and `to` count, in the run with the same seed and parameters. A run has no
    /// value if the instant does not occur.
    pub after: Option<String>,
    pub smooth: Option<String>,
    pub paper: Option<f64>,
    pub tolerance: Option<f64>,
    pub within: Option<f64>,
    pub source: Option<String>,
    pub why: Option<String>,
}

/// Aggregation of the values of several points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Aggregation {
    #[default]
    Mean,
    /// Mean over the seeds of each seed's mean over all points, such as loads.
    Parameters,
    Min,
    Max,
    Median,
    /// Sum over all points, such as PAUSEs at all loads.
    Sum,
    /// Share of points in which an instant occurs, or in which the statistic of a series is at least `level`.
    Share,
}

impl Aggregation {
    /// Word for a table; `None` for a mean, and for a share, which a table has as `3 of 12`.
    pub(super) fn word(self) -> Option<&'static str> {
        match self {
            Aggregation::Mean | Aggregation::Parameters | Aggregation::Share => None,
            Aggregation::Min => Some("minimum"),
            Aggregation::Max => Some("maximum"),
            Aggregation::Median => Some("median"),
            Aggregation::Sum => Some("sum"),
        }
    }
}

/// Reduction of a time series to a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Statistic {
    /// Mean over time.
    Mean,
    Max,
    Min,
    Last,
    /// Time from `from` to the first sample at or above `level`.
    FirstAtLeast,
    /// Time from `from` to the first sample below `level`.
    FirstBelow,
}

/// Level that a series is compared with.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum SeriesThreshold {
    /// Number in the column's own unit.
    Number(f64),
    /// Text with its unit: `"5Gbps"`, `"840KB"`.
    Text(String),
}

impl SeriesThreshold {
    /// Level in the column's own unit; `None` for a text that is neither a rate nor a size.
    pub(super) fn of_column(&self) -> Option<f64> {
        match self {
            SeriesThreshold::Number(number) => Some(*number),
            SeriesThreshold::Text(text) => {
                let rate = BitRate::from_str(text).map(|rate| rate.as_bps() as f64);
                rate.or_else(|_| Bytes::from_str(text).map(|bytes| bytes.get() as f64)).ok()
            }
        }
    }
}

/// Claim of the paper, judged by a measure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Claim {
    #[serde(rename = "says")]
    pub statement: String,
    /// True for a main conclusion of the paper.
    #[serde(default)]
    pub conclusion: bool,
    /// True if no run could contradict the claim, because both sides come from a formula.
    #[serde(default)]
    pub arithmetic: bool,
    pub measure: String,
    pub is: Option<Bound>,
    pub at_least: Option<Bound>,
    pub at_most: Option<Bound>,
    pub above: Option<Bound>,
    pub below: Option<Bound>,
    #[serde(default)]
    pub source: String,
}

/// Right-hand side of a claim's comparison: a number, or another measure times a factor.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Bound {
    Number(f64),
    Measure {
        measure: String,
        #[serde(default = "one")]
        times: f64,
    },
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Panel {
    #[serde(default)]
    pub title: String,
    pub kind: PanelKind,
    /// Quantity on the vertical axis, without its unit.
    pub y: String,
    #[serde(default)]
    pub unit: String,
    /// Parameter on the horizontal axis of a sweep panel.
    pub x: Option<String>,
    pub x_label: Option<String>,
    #[serde(default)]
    pub x_log: bool,
    #[serde(default)]
    pub y_log: bool,
    /// Start of the time window of a panel over time.
    pub from: Option<String>,
    pub to: Option<String>,
    /// Quantity of a CDF: `fct`, `slowdown` or `throughput`; `traffic` and `sizes` select messages.
    pub value: Option<String>,
    pub traffic: Option<String>,
    pub sizes: Option<[String; 2]>,
    pub lines: Vec<PanelLine>,
    #[serde(default)]
    pub marks: Vec<ReferenceLine>,
    #[serde(default)]
    pub paper: Vec<ReportedPoints>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum PanelKind {
    Time,
    Sweep,
    Cdf,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PanelLine {
    pub name: String,
    /// Runs of the line, selected as in [`Measure::runs`].
    #[serde(default, deserialize_with = "one_or_more")]
    pub runs: Vec<String>,
    #[serde(default, rename = "where")]
    pub parameters: BTreeMap<String, toml::Value>,
    /// Column of series.csv.
    pub series: Option<String>,
    /// Column of the results.
    pub value: Option<String>,
    pub smooth: Option<String>,
}

/// Horizontal reference line.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReferenceLine {
    pub label: String,
    pub value: f64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReportedPoints {
    pub name: String,
    /// Name of Weir's line for the same quantity.
    pub of: Option<String>,
    pub points: Vec<(toml::Value, f64)>,
}

impl PaperFile {
    /// Figure and section in the paper: `Fig. 9, 6.1`.
    pub(super) fn place(&self) -> String {
        if self.section.is_empty() { self.figure.clone() } else { format!("{}, {}", self.figure, self.section) }
    }

    /// Sentence on the cause of main claims that do not come out.
    pub(super) fn cause_sentence(&self) -> Option<String> {
        self.cause.as_ref().map(|cause| format!("Why not all main claims come out: {cause}."))
    }
}

impl Statistic {
    /// Whether the statistic is the time until a sample passes a level.
    pub(super) fn is_time(self) -> bool {
        matches!(self, Statistic::FirstAtLeast | Statistic::FirstBelow)
    }
}

impl Measure {
    /// Whether the measure is an instant, which a run may lack: the first sample beyond a level, or the start of a
    /// deadlock or standstill.
    pub(super) fn is_instant(&self) -> bool {
        let is_start = self.value.as_ref().is_some_and(|column| column.ends_with("_since_ns"));
        is_start || self.statistic.is_some_and(Statistic::is_time)
    }

    pub(super) fn selection(&self) -> Selection<'_> {
        Selection { runs: &self.runs, parameters: &self.parameters }
    }

    /// Names of the two measures of a ratio or reduction.
    pub(super) fn parts(&self) -> Option<&[String; 2]> {
        self.ratio.as_ref().or(self.reduction.as_ref())
    }
}

impl PanelLine {
    pub(super) fn selection(&self) -> Selection<'_> {
        Selection { runs: &self.runs, parameters: &self.parameters }
    }
}

pub(super) const FORMAT: Format = Format {
    what: "an experiment's paper.toml",
    reference: "docs/EXPERIMENTS.md",
    repeated: "[[measures]]",
    tables: &[TableSchema::open("")],
};

/// Parses the text of a `paper.toml`; `name` appears in error messages.
pub(super) fn parse(name: &str, text: &str) -> Result<(PaperFile, Source), ConfigErrors> {
    let ((), source) = read_text(name, text, &FORMAT, |_| ())?;
    match toml::from_str::<PaperFile>(text) {
        Ok(paper) => Ok((paper, source)),
        Err(error) => Err(toml_error(&source, &error)),
    }
}

/// Converts a TOML parser's error to a configuration error at its line.
pub(super) fn toml_error(source: &Source, error: &toml::de::Error) -> ConfigErrors {
    let help = "docs/EXPERIMENTS.md has all keys of the file";
    source.error_in(error.span().unwrap_or(0..0), error.message().to_owned(), help)
}

fn virtual_time_alone() -> Vec<Backend> {
    vec![Backend::Sim]
}

fn two() -> usize {
    2
}

fn one() -> f64 {
    1.0
}
