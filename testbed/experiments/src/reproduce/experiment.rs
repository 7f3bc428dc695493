//! An experiment of a paper as its files say it: `paper.toml` beside a scenario and its sweeps. `docs/EXPERIMENTS.md` is the
//! reference.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Deserialize;
use weir_config::{ConfigErrors, Source};
use weir_reader::{Format, KnownTable, read_file, read_text};
use weir_units::{BitRate, Bytes};

use super::broken::Broken;
use super::open::{MapFile, Open};
use super::paper::Paper;
use super::rows::Selection;
use crate::Failure;
use crate::experiment::Backend;
use crate::files::one_or_more;
use crate::sweep::SweepFile;

/// An experiment's folder, read.
#[derive(Clone, Debug)]
pub(super) struct Experiment {
    /// Its name: `gfc.9`.
    pub id: String,
    pub paper: PaperFile,
    /// The paper that the folder above is of.
    pub of: Option<Paper>,
    /// The text of `paper.toml`, for errors that are found later.
    pub source: Source,
    folder: PathBuf,
}

/// `paper.toml`: what the paper says, how Weir's numbers are read, and what is concluded.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PaperFile {
    pub title: String,
    /// How the paper is cited, where the folder above is of none.
    paper: Option<String>,
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

const FORMAT: Format = Format {
    what: "an experiment's paper.toml",
    reference: "docs/EXPERIMENTS.md",
    repeated: "[[measures]]",
    tables: &[KnownTable::table("", &[])],
};

const PAPER: &str = "paper.toml";
const SCENARIO: &str = "scenario.toml";
const SWEEP: &str = "sweep.toml";
const QUICK: &str = "quick.toml";
const DPDK: &str = "dpdk.toml";
const FARM: &str = "farm.toml";
const HOSTS: &str = "hosts.toml";
const MAP: &str = "map.toml";

impl Experiment {
    /// Reads an experiment's folder, wherever it is; its scenario is not looked at.
    pub(super) fn load(folder: &Path) -> Result<Experiment, Failure> {
        let whole =
            folder.canonicalize().map_err(|error| Failure::Argument(format!("{}: {error}", folder.display())))?;
        let of = whole.parent().map(Paper::of).transpose()?.flatten();
        Experiment::load_of(folder, of)
    }

    /// Reads an experiment's folder, of this paper.
    pub(super) fn load_of(folder: &Path, of: Option<Paper>) -> Result<Experiment, Failure> {
        let path = folder.join(PAPER);
        let text = read_file(&path, &FORMAT)?;
        let (paper, source) = parse(&path.display().to_string(), &text)?;
        if let (Some(of), Some(_)) = (&of, &paper.paper) {
            let message = format!("the folder above is of the paper {}", of.id);
            return Err(source.error_at("paper", message, "take `paper` out").into());
        }
        let experiment = Experiment { id: name_of(folder, &source)?, paper, of, source, folder: folder.to_owned() };
        super::check::of_itself(&experiment)?;
        Ok(experiment)
    }

    /// The folder.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// How the paper is cited, with where in it the figure stands.
    pub(super) fn place_in_paper(&self) -> String {
        let citation = self.of.as_ref().map(Paper::citation).or_else(|| self.paper.paper.clone());
        citation.map_or_else(|| self.paper.place(), |citation| format!("{citation}: {}", self.paper.place()))
    }

    /// Whether a folder is an experiment's.
    pub(super) fn is_one(folder: &Path) -> bool {
        folder.join(PAPER).is_file()
    }

    /// The sweep that stands for the full one, if there is one for this case.
    fn instead(&self, quick: bool, backend: Backend) -> Option<&'static str> {
        let wanted = [(backend == Backend::Dpdk, DPDK), (backend == Backend::Hosts, HOSTS), (quick, QUICK)];
        wanted.into_iter().find(|(is_wanted, file)| *is_wanted && self.has(file)).map(|(_, file)| file)
    }

    /// What that sweep leaves out; `None` if the full one runs.
    pub(super) fn less(&self, quick: bool, backend: Backend) -> Option<&Less> {
        match self.instead(quick, backend)? {
            DPDK => self.paper.dpdk.as_ref(),
            HOSTS => self.paper.hosts.as_ref(),
            _ => self.paper.quick.as_ref(),
        }
    }

    /// What runs: the sweep for real frames or the quick one, where there is one, or the full one.
    pub(super) fn sweep(&self, quick: bool, backend: Backend) -> Result<SweepFile, Failure> {
        self.sweep_of(self.instead(quick, backend).unwrap_or(SWEEP))
    }

    /// What runs for hours: the farm's own sweep, or the full one.
    pub(super) fn farm_sweep(&self) -> Result<SweepFile, Failure> {
        self.sweep_of(if self.has_farm() { FARM } else { SWEEP })
    }

    /// What runs in each setting of a map of claims: its own sweep, the quick one, or the full one.
    pub(super) fn map_sweep(&self) -> Result<SweepFile, Failure> {
        self.sweep_of([MAP, QUICK].into_iter().find(|file| self.has(file)).unwrap_or(SWEEP))
    }

    /// This experiment with the measures and claims that a map is of, and nothing to draw.
    pub(super) fn of_map(&self) -> Experiment {
        let mut of_map = self.clone();
        let paper = &mut of_map.paper;
        paper.panels.clear();
        paper.broken.clear();
        if !paper.map.claims.is_empty() {
            paper.measures = std::mem::take(&mut paper.map.measures);
            paper.claims = std::mem::take(&mut paper.map.claims);
        }
        of_map
    }

    fn sweep_of(&self, file: &str) -> Result<SweepFile, Failure> {
        let path = self.folder.join(file);
        if path.is_file() {
            return Ok(crate::sweep::load(&path)?);
        }
        if !self.has(SCENARIO) {
            let folder = self.folder.display();
            return Err(Failure::Argument(format!(
                "{folder}: an experiment has a {SCENARIO}, or a {SWEEP} that names another one's"
            )));
        }
        let text = format!("name = \"{}\"\nscenario = \"{SCENARIO}\"\n", self.id);
        Ok(crate::sweep::parse(&path, &text)?)
    }

    fn has(&self, file: &str) -> bool {
        self.folder.join(file).is_file()
    }

    /// Whether there is less to run in a hurry.
    pub(super) fn has_quick(&self) -> bool {
        self.has(QUICK)
    }

    /// Whether there is more to run than the full sweep, for a farm of machines.
    pub(super) fn has_farm(&self) -> bool {
        self.has(FARM)
    }

    /// Whether this backend runs another sweep.
    pub(super) fn has_own_for(&self, backend: Backend) -> bool {
        match backend {
            Backend::Sim => false,
            Backend::Dpdk => self.has(DPDK),
            Backend::Hosts => self.has(HOSTS),
        }
    }

    /// The columns of the sweep's table that measures and panels need.
    pub(super) fn columns(&self) -> Vec<String> {
        let measures = self.paper.measures.iter();
        let of_measures =
            measures.flat_map(|measure| [&measure.value, &measure.share, &measure.count]).filter_map(Option::as_ref);
        let sweeps = self.paper.panels.iter().filter(|panel| panel.kind == PanelKind::Sweep);
        let of_lines = sweeps.flat_map(|panel| &panel.lines).filter_map(|line| line.value.as_ref());
        let mut columns: Vec<String> = Vec::new();
        for column in of_measures.chain(of_lines) {
            if !columns.contains(column) {
                columns.push(column.clone());
            }
        }
        columns
    }

    /// CPU time that it takes on one core, in seconds, as it was measured.
    pub(super) fn cpu_seconds(&self, quick: bool) -> f64 {
        let takes = &self.paper.takes;
        seconds(if quick { takes.quick.as_ref().unwrap_or(&takes.full) } else { &takes.full })
    }

    /// CPU time of what runs for hours.
    pub(super) fn farm_cpu_seconds(&self) -> f64 {
        let takes = &self.paper.takes;
        seconds(takes.farm.as_ref().unwrap_or(&takes.full))
    }
}

/// A time of `takes`.
fn seconds(text: &str) -> f64 {
    super::units::seconds(text).expect("checked when it was read")
}

fn parse(name: &str, text: &str) -> Result<(PaperFile, Source), ConfigErrors> {
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

/// An experiment's name is its folder's, wherever it is called from.
fn name_of(folder: &Path, source: &Source) -> Result<String, Failure> {
    let whole = folder.canonicalize().map_err(|error| Failure::Argument(format!("{}: {error}", folder.display())))?;
    let name = whole.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if !weir_reader::is_name(&name) {
        let message = format!("an experiment has its folder's name, and \"{name}\" can't be one");
        let errors = source.error_at("title", message, format!("rename the folder: {}", weir_reader::NAME_RULE));
        return Err(errors.into());
    }
    Ok(name)
}

impl Experiment {
    /// `gfc.9` before `gfc.10` and that before `gfc.T1`, and papers in their order.
    pub(super) fn place(&self) -> (bool, Option<Paper>, u32, String) {
        let number = self.id.rsplit('.').next().and_then(|number| number.parse().ok()).unwrap_or(u32::MAX);
        (self.of.is_none(), self.of.clone(), number, self.id.clone())
    }
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
