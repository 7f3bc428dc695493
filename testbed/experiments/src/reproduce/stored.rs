//! Stored results of a figure: `result.json` next to its `paper.toml`, with the pictures.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::claim_map::ClaimMap;
use super::experiment::Experiment;
use super::mutation_test::MutationResult;
use super::outcome::Environment;
use super::verdict::ExperimentOutcome;
use crate::Failure;
use crate::experiment::Backend;
use crate::files::{read_json, with_path, write_json};

/// Results of a figure by backend, and its map of claims: `result.json`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FigureResults {
    format: String,
    id: String,
    backends: BTreeMap<String, StoredResult>,
    pub map: Option<StoredMap>,
}

/// Result of an experiment on one backend, from an earlier call.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredResult {
    pub outcome: ExperimentOutcome,
    /// Environment of the runs.
    pub environment: Environment,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mutations: Vec<MutationResult>,
    /// Remark on the runs, written by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Map of claims of an earlier call.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredMap {
    pub map: ClaimMap,
    pub environment: Environment,
}

const FORMAT: &str = "weir-result-1";
const FILE: &str = "result.json";
/// Picture of the map of claims, in the same folder.
pub(super) const MAP_PICTURE: &str = "map.svg";

/// Name of the figure of a backend, in the same folder.
pub(super) fn figure_file(backend: Backend) -> String {
    if backend.is_real() { format!("figure-{}.svg", backend.name()) } else { "figure.svg".to_owned() }
}

impl FigureResults {
    /// Reads the stored results of an experiment, with today's sentences; empty if none are stored.
    ///
    /// # Errors
    /// A file of another format or experiment.
    pub(super) fn read(experiment: &Experiment) -> Result<FigureResults, Failure> {
        let (path, id) = (experiment.folder().join(FILE), experiment.id.clone());
        if !path.exists() {
            return Ok(FigureResults { format: FORMAT.to_owned(), id, backends: BTreeMap::new(), map: None });
        }
        let stored: FigureResults = read_json(&path)?;
        if stored.format != FORMAT || stored.id != id {
            let (path, FigureResults { format, id: other, .. }) = (path.display(), stored);
            let message =
                format!("{path}: {format} of {other}; expected {FORMAT} of {id}: remove the file, and store it anew");
            return Err(Failure::Argument(message));
        }
        let backends = stored
            .backends
            .into_iter()
            .map(|(backend, result)| (backend, StoredResult { outcome: result.outcome.with_sentences(), ..result }));
        let map = stored.map.map(|stored| StoredMap { map: stored.map.with_updated_verdict(), ..stored });
        Ok(FigureResults { backends: backends.collect(), map, ..stored })
    }

    /// Returns the result of a backend, if one is stored.
    pub(super) fn result(&self, backend: Backend) -> Option<&StoredResult> {
        self.backends.get(backend.name())
    }
}

/// Stores the result of a backend next to `paper.toml`, without its sentences, and its figure. A result without
/// mutations keeps the stored ones.
pub(super) fn store_result(
    experiment: &Experiment,
    backend: Backend,
    mut result: StoredResult,
    figure: Option<PathBuf>,
) -> Result<PathBuf, Failure> {
    let mut stored = FigureResults::read(experiment)?;
    if let Some(earlier) = stored.backends.remove(backend.name()).filter(|_| result.mutations.is_empty()) {
        result.mutations = earlier.mutations;
    }
    stored.backends.insert(backend.name().to_owned(), result);
    stored.write(experiment, figure, &figure_file(backend))
}

/// Stores a map next to `paper.toml`, and its picture.
pub(super) fn store_map(experiment: &Experiment, map: StoredMap, picture: PathBuf) -> Result<PathBuf, Failure> {
    let stored = FigureResults { map: Some(map), ..FigureResults::read(experiment)? };
    stored.write(experiment, Some(picture), MAP_PICTURE)
}

impl FigureResults {
    fn write(mut self, experiment: &Experiment, picture: Option<PathBuf>, name: &str) -> Result<PathBuf, Failure> {
        let folder = experiment.folder();
        for StoredResult { outcome, .. } in self.backends.values_mut() {
            (outcome.summary, outcome.numbers_summary, outcome.reasons) = (String::new(), String::new(), Vec::new());
        }
        if let Some(StoredMap { map, .. }) = &mut self.map {
            map.verdict = String::new();
        }
        if let Some(picture) = picture {
            fs::copy(&picture, folder.join(name)).map_err(with_path(&picture))?;
        }
        let path = folder.join(FILE);
        write_json(&path, &self)?;
        Ok(path)
    }
}
