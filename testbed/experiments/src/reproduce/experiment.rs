//! An experiment of a paper: what its files say of it, and the sweeps in its folder. `docs/EXPERIMENTS.md` is the reference.

use std::path::{Path, PathBuf};

use weir_config::Source;

use super::paper::Paper;
use super::paper_file::{Less, PanelKind, PaperFile};
use crate::Failure;
use crate::experiment::Backend;
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
    /// The folder.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// How the paper is cited, with where in it the figure stands.
    pub(super) fn place_in_paper(&self) -> String {
        let citation = self.of.as_ref().map(Paper::citation).or_else(|| self.paper.paper.clone());
        citation.map_or_else(|| self.paper.place(), |citation| format!("{citation}: {}", self.paper.place()))
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

impl Experiment {
    /// `gfc.9` before `gfc.10` and that before `gfc.T1`, and papers in their order.
    pub(super) fn place(&self) -> (bool, Option<Paper>, u32, String) {
        let number = self.id.rsplit('.').next().and_then(|number| number.parse().ok()).unwrap_or(u32::MAX);
        (self.of.is_none(), self.of.clone(), number, self.id.clone())
    }
}
