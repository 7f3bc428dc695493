//! Experiment of a paper: its files, and the sweeps in its folder. `docs/EXPERIMENTS.md` is the reference.

use std::path::{Path, PathBuf};

use weir_config::Source;

use super::paper::Paper;
use super::paper_file::{PanelKind, PaperFile, ReducedSweep};
use crate::Failure;
use crate::experiment::Backend;
use crate::sweep::SweepFile;

#[derive(Clone, Debug)]
pub(super) struct Experiment {
    /// Identifier: `gfc.9`.
    pub id: String,
    pub paper: PaperFile,
    /// Paper of the parent folder.
    pub of: Option<Paper>,
    /// Text of `paper.toml`, for later errors.
    pub source: Source,
    pub folder: PathBuf,
}

const SCENARIO: &str = "scenario.toml";
const SWEEP: &str = "sweep.toml";
const QUICK: &str = "quick.toml";
const DPDK: &str = "dpdk.toml";
const FARM: &str = "farm.toml";
const HOSTS: &str = "hosts.toml";
const MAP: &str = "map.toml";

impl Experiment {
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Citation of the paper with the figure's place in it.
    pub(super) fn place_in_paper(&self) -> String {
        let citation = self.of.as_ref().map(Paper::citation).or_else(|| self.paper.paper.clone());
        citation.map_or_else(|| self.paper.place(), |citation| format!("{citation}: {}", self.paper.place()))
    }

    /// File of the sweep that replaces the full one, if there is one for these options.
    fn instead(&self, quick: bool, backend: Backend) -> Option<&'static str> {
        let wanted = [(backend == Backend::Dpdk, DPDK), (backend == Backend::Hosts, HOSTS), (quick, QUICK)];
        wanted.into_iter().find(|(is_wanted, file)| *is_wanted && self.has(file)).map(|(_, file)| file)
    }

    /// Reduction of the sweep that runs; `None` if the full one runs.
    pub(super) fn less(&self, quick: bool, backend: Backend) -> Option<&ReducedSweep> {
        match self.instead(quick, backend)? {
            DPDK => self.paper.dpdk.as_ref(),
            HOSTS => self.paper.hosts.as_ref(),
            _ => self.paper.quick.as_ref(),
        }
    }

    /// Sweep to run: that of the backend or the quick one, if present, else the full one.
    pub(super) fn sweep(&self, quick: bool, backend: Backend) -> Result<SweepFile, Failure> {
        self.sweep_of(self.instead(quick, backend).unwrap_or(SWEEP))
    }

    /// Long-running sweep: the farm's own, else the full one.
    pub(super) fn farm_sweep(&self) -> Result<SweepFile, Failure> {
        self.sweep_of(if self.has_farm() { FARM } else { SWEEP })
    }

    /// Sweep for each setting of a map of claims: its own, else the quick one, else the full one.
    pub(super) fn map_sweep(&self) -> Result<SweepFile, Failure> {
        self.sweep_of([MAP, QUICK].into_iter().find(|file| self.has(file)).unwrap_or(SWEEP))
    }

    /// Copy with the map's measures and claims, and without panels and mutations.
    pub(super) fn of_map(&self) -> Experiment {
        let mut of_map = self.clone();
        let paper = &mut of_map.paper;
        paper.panels.clear();
        paper.mutations.clear();
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

    pub(super) fn has_quick(&self) -> bool {
        self.has(QUICK)
    }

    /// Whether the experiment has a sweep larger than the full one, for a farm of machines.
    pub(super) fn has_farm(&self) -> bool {
        self.has(FARM)
    }

    /// Whether the backend runs a sweep of its own.
    pub(super) fn has_own_for(&self, backend: Backend) -> bool {
        match backend {
            Backend::Sim => false,
            Backend::Dpdk => self.has(DPDK),
            Backend::Hosts => self.has(HOSTS),
        }
    }

    /// Columns of the sweep's table that measures and panels need.
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

    /// Measured CPU time on one core, in seconds.
    pub(super) fn cpu_seconds(&self, quick: bool) -> f64 {
        let takes = &self.paper.takes;
        seconds(if quick { takes.quick.as_ref().unwrap_or(&takes.full) } else { &takes.full })
    }

    /// CPU time of the farm's sweep, in seconds.
    pub(super) fn farm_cpu_seconds(&self) -> f64 {
        let takes = &self.paper.takes;
        seconds(takes.farm.as_ref().unwrap_or(&takes.full))
    }
}

/// Parses a time of `takes` to seconds.
fn seconds(text: &str) -> f64 {
    crate::table::units::seconds(text).expect("checked when it was read")
}

impl Experiment {
    /// Sort key: papers in their order, and `gfc.9` before `gfc.10` before `gfc.T1`.
    pub(super) fn place(&self) -> (bool, Option<Paper>, u32, String) {
        let number = self.id.rsplit('.').next().and_then(|number| number.parse().ok()).unwrap_or(u32::MAX);
        (self.of.is_none(), self.of.clone(), number, self.id.clone())
    }
}
