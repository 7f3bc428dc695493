//! What an experiment's `paper.toml` says. `docs/EXPERIMENTS.md` is the reference.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::Deserialize;
use weir_config::{ConfigErrors, Source};
use weir_reader::{Format, KnownTable, read_text};
use weir_units::{BitRate, Bytes};

use super::broken::Broken;
use super::open::Open;
use super::rows::Selection;
use crate::experiment::Backend;
use crate::files::one_or_more;

/// `paper.toml`: what the paper says, how Weir's numbers are read, and what is concluded.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PaperFile {
    pub title: String,
    /// How the paper is cited, where the folder above is of none.
    pub paper: Option<String>,
    pub figure: String,
    #[serde(default)]
    pub section: String,
    pub setting: String,
    pub found: String,
    #[serde(default = "virtual_time_alone")]
    pub backends: Vec<Backend>,
    pub takes: Takes,
    pub quick: Option<Less>,
    pub dpdk: Option<Less>,
    pub hosts: Option<Less>,
    #[serde(default)]
    pub departures: Vec<Departure>,
    #[serde(default)]
    pub disagreements: Vec<Disagreement>,
    pub measures: Vec<Measure>,
    pub claims: Vec<Claim>,
    /// How many panels stand side by side.
    #[serde(default = "two")]
    pub columns: usize,
    #[serde(default)]
    pub panels: Vec<Panel>,
    /// What the paper leaves open.
    #[serde(default)]
    pub open: Vec<Open>,
    #[serde(default)]
    pub map: MapFile,
    /// What must change the verdict.
    #[serde(default)]
    pub broken: Vec<Broken>,
}

/// How a map is made.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MapFile {
    /// What the map's sweep leaves out of the figure.
    pub leaves_out: Option<String>,
    /// Why claims are robust or fragile, after the map was looked at.
    #[serde(default)]
    pub reading: String,
    /// Measures and claims in place of the figure's own, where these name one of the open values.
    #[serde(default)]
    pub measures: Vec<Measure>,
    #[serde(default)]
    pub claims: Vec<Claim>,
}

/// CPU time on one core, as it was measured.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Takes {
    pub full: String,
    pub quick: Option<String>,
    /// For `farm.toml`, as it was reckoned.
    pub farm: Option<String>,
}

/// What a sweep that stands for the full one does not have.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Less {
    pub leaves_out: String,
}

/// A departure from the paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Departure {
    pub what: String,
    pub why: String,
}

/// Where the paper is at odds with itself or with public code.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Disagreement {
    #[serde(rename = "where")]
    pub place: String,
    pub says: String,
    pub choice: String,
}

/// A number that is read off the runs, and the paper's if it has one.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Measure {
    pub name: String,
    #[serde(default)]
    pub unit: String,
    /// One of these seven says what it is.
    pub value: Option<String>,
    pub series: Option<String>,
    pub share: Option<String>,
    /// How many points have this column, or with `each`,
    pub count: Option<String>,
    /// how many values of this parameter have a point that does.
    pub each: Option<String>,
    /// The mean of a run's messages that finished, or with `percentile` that of all: `fct`, `slowdown` or `throughput`,
    pub messages: Option<String>,
    pub percentile: Option<f64>,
    /// of which workload, and of which sizes.
    pub traffic: Option<String>,
    pub sizes: Option<[String; 2]>,
    pub ratio: Option<[String; 2]>,
    pub reduction: Option<[String; 2]>,
    /// The points that it is of, by the names of their runs; none for all,
    #[serde(default, deserialize_with = "one_or_more")]
    pub runs: Vec<String>,
    /// and by the values of parameters.
    #[serde(default, rename = "where")]
    pub parameters: BTreeMap<String, toml::Value>,
    pub over: Option<Over>,
    /// How a series becomes a number; given with `series`, and not without one.
    pub statistic: Option<Statistic>,
    pub level: Option<Level>,
    pub from: Option<String>,
    pub to: Option<String>,
    pub smooth: Option<String>,
    pub paper: Option<f64>,
    pub tolerance: Option<f64>,
    pub within: Option<f64>,
    pub source: Option<String>,
    pub why: Option<String>,
}

/// How the values of several points become one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Over {
    #[default]
    Mean,
    Min,
    Max,
    Median,
    /// Over all points, as PAUSEs at all loads.
    Sum,
}

/// How a series becomes a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Statistic {
    /// Over time.
    Mean,
    Max,
    Min,
    Last,
    /// The instant of the first sample that is `level` or more,
    FirstAtLeast,
    /// or less than `level`.
    FirstBelow,
}

/// What a series reaches.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Level {
    /// In the column's own unit.
    Number(f64),
    /// With its unit: `"5Gbps"`, `"840KB"`.
    Text(String),
}

impl Level {
    /// In the column's own unit; `None` of a text that is neither a rate nor a size.
    pub(super) fn of_column(&self) -> Option<f64> {
        match self {
            Level::Number(number) => Some(*number),
            Level::Text(text) => {
                let rate = BitRate::from_str(text).map(|rate| rate.as_bps() as f64);
                rate.or_else(|_| Bytes::from_str(text).map(|bytes| bytes.get() as f64)).ok()
            }
        }
    }
}

/// A conclusion of the paper, judged by a measure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Claim {
    pub says: String,
    /// Whether it is what the paper is about.
    #[serde(default)]
    pub conclusion: bool,
    /// Whether no run could contradict it, as a formula stands on both sides.
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

/// What a measure is compared with.
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

/// A part of the figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Panel {
    #[serde(default)]
    pub title: String,
    pub kind: PanelKind,
    /// What the vertical axis shows, without its unit.
    pub y: String,
    #[serde(default)]
    pub unit: String,
    /// The parameter, in a sweep.
    pub x: Option<String>,
    pub x_label: Option<String>,
    #[serde(default)]
    pub x_log: bool,
    #[serde(default)]
    pub y_log: bool,
    /// The start and the end of the time shown, in a panel over time.
    pub from: Option<String>,
    pub to: Option<String>,
    /// The quantity of a CDF: `fct`, `slowdown` or `throughput`, of which traffic and sizes.
    pub value: Option<String>,
    pub traffic: Option<String>,
    pub sizes: Option<[String; 2]>,
    pub lines: Vec<Line>,
    #[serde(default)]
    pub marks: Vec<Mark>,
    #[serde(default)]
    pub paper: Vec<Stated>,
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
pub(super) struct Line {
    pub name: String,
    /// As of a measure.
    #[serde(default, deserialize_with = "one_or_more")]
    pub runs: Vec<String>,
    #[serde(default, rename = "where")]
    pub parameters: BTreeMap<String, toml::Value>,
    /// A column of series.csv,
    pub series: Option<String>,
    /// or of the results.
    pub value: Option<String>,
    pub smooth: Option<String>,
}

/// A horizontal line.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mark {
    pub label: String,
    pub value: f64,
}

/// Points that the paper states.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stated {
    pub name: String,
    /// The line that has the same of Weir.
    pub of: Option<String>,
    pub points: Vec<(toml::Value, f64)>,
}

impl PaperFile {
    /// Where it stands: `Fig. 9, 6.1`.
    pub(super) fn place(&self) -> String {
        if self.section.is_empty() { self.figure.clone() } else { format!("{}, {}", self.figure, self.section) }
    }
}

impl Measure {
    pub(super) fn selection(&self) -> Selection<'_> {
        Selection { runs: &self.runs, parameters: &self.parameters }
    }

    /// The two measures that it is of.
    pub(super) fn parts(&self) -> Option<&[String; 2]> {
        self.ratio.as_ref().or(self.reduction.as_ref())
    }
}

impl Line {
    pub(super) fn selection(&self) -> Selection<'_> {
        Selection { runs: &self.runs, parameters: &self.parameters }
    }
}

/// The kind of file.
pub(super) const FORMAT: Format = Format {
    what: "an experiment's paper.toml",
    reference: "docs/EXPERIMENTS.md",
    repeated: "[[measures]]",
    tables: &[KnownTable::table("", &[])],
};

/// Reads the text of a file of this name.
pub(super) fn parse(name: &str, text: &str) -> Result<(PaperFile, Source), ConfigErrors> {
    let ((), source) = read_text(name, text, &FORMAT, |_| ())?;
    match toml::from_str::<PaperFile>(text) {
        Ok(paper) => Ok((paper, source)),
        Err(error) => Err(told_by_toml(&source, &error)),
    }
}

/// What the parser says of a file, at its line.
pub(super) fn told_by_toml(source: &Source, error: &toml::de::Error) -> ConfigErrors {
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
