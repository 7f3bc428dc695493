//! Reader of the runs that a report shows, from their directories.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use weir_results::run_dir::{
    Provenance, RunDirError, Speed, Summary, Topology, read_provenance, read_so_far, read_speed, read_summary,
    read_topology,
};

use crate::Failure;
use crate::experiment::VERSION;
use crate::run::seeds::{SeedSummary, figures, rows};
use crate::table::key_path::KeyPath;

pub(super) struct Input {
    /// Runs in the order of the arguments; runs of one folder in the order of the scenario or sweep.
    pub runs: Vec<Run>,
    /// Directories without results, with the reason.
    pub left_out: Vec<String>,
}

/// Run of a report, without the data that are read only for drawing.
pub(super) struct Run {
    /// Name that distinguishes the run from the others.
    pub label: String,
    pub directory: PathBuf,
    pub summary: Summary,
    pub provenance: Provenance,
    pub speed: Option<Speed>,
    pub topology: Option<Topology>,
    pub scenario: Option<String>,
    pub configs: Vec<ConfigFile>,
    /// Point of a sweep that the run belongs to.
    pub point: Option<SweepPoint>,
}

/// `point.json` of a sweep's point: the keys that a report needs.
#[derive(Deserialize)]
pub(super) struct SweepPoint {
    pub point: SweepValues,
    pub reason: String,
}

/// Seed and parameter values of a sweep's point.
#[derive(Deserialize)]
pub(super) struct SweepValues {
    pub seed: Option<u32>,
    pub parameters: Vec<(String, serde_json::Value)>,
}

/// Name and text of a file.
pub(super) type ConfigFile = (String, String);

/// Text of a table cell for a run; `None` if the run has no value.
pub(super) type RunCell<'a> = &'a dyn Fn(&Run) -> Option<String>;

const RUNS_MAX: usize = 100;

/// Maximum number of runs in the folded part of a sweep's page.
const FOLDED_MAX: usize = 12;

enum DirectoryKind {
    Run,
    /// Run without results, with the reason.
    Unfinished(String),
    /// Anything other than a run.
    Other,
}

/// Reads all runs of the given directories. An invalid directory among the arguments is an error; a run in a folder of
/// several whose results are missing, or can't be read, is omitted.
pub(super) fn read(directories: &[PathBuf]) -> Result<Input, Failure> {
    let (mut found, mut left_out) = (Vec::new(), Vec::new());
    for directory in directories {
        find(directory, &mut found, &mut left_out)?;
    }
    // A sweep's figures cover all of its runs, so the page shows only the first ones.
    let has_figures = matches!(directories, [sweep] if !crate::sweep::plot::of_sweep(sweep).is_empty());
    if has_figures && found.len() > FOLDED_MAX {
        left_out.push(format!("{} of {} runs of the sweep", found.len() - FOLDED_MAX, found.len()));
        found.truncate(FOLDED_MAX);
    }
    if found.len() > RUNS_MAX {
        return Err(Failure::Argument(format!(
            "these are {} runs, and a report has {RUNS_MAX} at most: name fewer of their directories",
            found.len()
        )));
    }
    let mut runs = Vec::new();
    for directory in &found {
        match Run::read(directory) {
            Ok(run) => runs.push(run),
            // Of several runs in a folder, the others are shown.
            Err(Failure::Argument(reason)) if !directories.contains(directory) => left_out.push(reason),
            Err(failure) => return Err(failure),
        }
    }
    if runs.is_empty() {
        return Err(Failure::Argument(format!("no run has results: {}", left_out.join("; "))));
    }
    for (run, label) in labels(&runs).into_iter().enumerate() {
        runs[run].label = label;
    }
    Ok(Input { runs, left_out })
}

/// Finds the runs of a directory: itself, its folders, those in its `runs`, as in a sweep, or those in `sweep/runs`, as
/// in a reproduced experiment.
fn find(directory: &Path, found: &mut Vec<PathBuf>, left_out: &mut Vec<String>) -> Result<(), Failure> {
    let shown = directory.display();
    if !directory.is_dir() {
        let what = match fs::metadata(directory) {
            Ok(_) => "is a file".to_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => "there is no such directory".to_owned(),
            Err(error) => format!("can't be read: {error}"),
        };
        return Err(Failure::Argument(format!("{shown}: {what}; {}", what_to_name())));
    }
    match kind(directory) {
        DirectoryKind::Run => found.push(directory.to_owned()),
        DirectoryKind::Unfinished(why) => return Err(Failure::Argument(format!("{shown}: {why}"))),
        DirectoryKind::Other => {
            let before = found.len() + left_out.len();
            let mut runs = Vec::new();
            let of_sweep = ["runs", "sweep/runs"].map(|below| folders(&directory.join(below)).unwrap_or_default());
            for folder in folders(directory)?.into_iter().chain(of_sweep.into_iter().flatten()) {
                match kind(&folder) {
                    DirectoryKind::Run => runs.push(folder),
                    DirectoryKind::Unfinished(why) => left_out.push(format!("{}: {why}", folder.display())),
                    DirectoryKind::Other => {}
                }
            }
            // A scenario's runs in their order, which is that of their start; points of a sweep by their numbers.
            if !runs.iter().any(|run| run.join("point.json").exists()) {
                let started = |run: &PathBuf| read_provenance(run).map_or_else(|_| String::new(), |of| of.started);
                runs.sort_by_cached_key(|run| started(run).trim_end_matches('Z').to_owned());
            }
            found.append(&mut runs);
            if found.len() + left_out.len() == before {
                return Err(Failure::Argument(format!(
                    "{shown}: no run's directory: summary.json is missing, and there is none in a folder below; {}",
                    what_to_name()
                )));
            }
            if found.is_empty() {
                return Err(Failure::Argument(format!("no run has results: {}", left_out.join("; "))));
            }
        }
    }
    Ok(())
}

fn what_to_name() -> &'static str {
    "name a directory that weir run -o, weir testbed run -o, weir demo -o or weir sweep -o has left"
}

fn kind(directory: &Path) -> DirectoryKind {
    let has = |name: &str| directory.join(name).is_file();
    // A killed switch has left its results so far.
    if has("summary.json") || has("summary.json.part") {
        return DirectoryKind::Run;
    }
    let reason = |point: SweepPoint| if point.reason.is_empty() { None } else { Some(point.reason) };
    match fs::read_to_string(directory.join("point.json")) {
        Ok(text) => {
            let reason = serde_json::from_str(&text).ok().and_then(reason).unwrap_or_else(|| "no results".to_owned());
            DirectoryKind::Unfinished(format!("the sweep's point has no summary.json: {reason}"))
        }
        Err(_) if has("provenance.json") => DirectoryKind::Unfinished(
            "summary.json is missing: the run did not end, or could not write it; run it again, or leave it out"
                .to_owned(),
        ),
        Err(_) => DirectoryKind::Other,
    }
}

/// Rows of the figures of runs with several seeds, the head first; `None` if no run has several. Runs of other scenarios are not compared.
pub(super) fn over_seeds(runs: &[Run]) -> Option<Vec<Vec<String>>> {
    let of_run = |run: &Run| {
        let name = run.summary.parameters.get("run").cloned().unwrap_or_default();
        let seed: u64 = run.seed()?.split(' ').next()?.parse().ok()?;
        Some((name, parameters(run), seed))
    };
    let names: Vec<(String, String, u64)> = runs.iter().map(of_run).collect::<Option<_>>()?;
    let is_repeated = |n: usize| names[..n].contains(&names[n]);
    let has_several = names.iter().any(|(run, parameters, seed)| {
        names.iter().any(|(of, at, other)| (of, at) == (run, parameters) && other != seed)
    });
    let is_one_scenario = runs.windows(2).all(|pair| pair[0].summary.scenario == pair[1].summary.scenario);
    if !has_several || !is_one_scenario || (0..names.len()).any(is_repeated) {
        return None;
    }
    let of_seeds = runs.iter().zip(&names).map(|(run, (name, parameters, seed))| SeedSummary {
        run: name,
        parameters,
        seed: *seed,
        summary: &run.summary,
    });
    Some(rows(&figures(of_seeds)))
}

/// Values of a point's parameters, by their last keys: `load 0.5, alpha 1/8`.
fn parameters(run: &Run) -> String {
    let point = run.point.as_ref().map_or(&[][..], |point| &point.point.parameters);
    let parts = point.iter().map(|(path, value)| {
        let key = KeyPath::parse(path).map_or_else(|| path.clone(), |path| path.last().to_owned());
        format!("{key} {}", value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    });
    parts.collect::<Vec<_>>().join(", ")
}

/// Folders of a directory, sorted by name, numbers numerically: `2` before `10`. Names with a leading dot are
/// unfinished.
fn folders(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let failed = |error: io::Error| Failure::Argument(format!("{}: can't be listed: {error}", directory.display()));
    let mut folders = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_symlink() && !path.exists() {
            let message = format!("{}: the run that this links to was moved or removed", path.display());
            return Err(Failure::Argument(format!("{message}; merge the sweep's shards again (weir sweep merge)")));
        }
        let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if path.is_dir() && !is_hidden {
            folders.push(path);
        }
    }
    folders.sort_by_cached_key(|path| natural(&path.file_name().unwrap_or_default().to_string_lossy()));
    Ok(folders)
}

/// Words and numbers of a name, as a sort key.
pub(super) fn natural(name: &str) -> Vec<(u64, String)> {
    let mut parts = Vec::new();
    let is_digit = |c: char| c.is_ascii_digit();
    let mut rest = name;
    while !rest.is_empty() {
        let word = &rest[..rest.find(is_digit).unwrap_or(rest.len())];
        rest = &rest[word.len()..];
        let digits = &rest[..rest.find(|c| !is_digit(c)).unwrap_or(rest.len())];
        rest = &rest[digits.len()..];
        parts.push((0, word.to_owned()));
        parts.push((digits.parse().unwrap_or(u64::MAX), String::new()));
    }
    parts
}

impl Run {
    fn read(directory: &Path) -> Result<Run, Failure> {
        let provenance = read_provenance(directory).map_err(|error| foreign(directory, error, None))?;
        if !provenance.is_known() {
            return Err(Failure::Argument(format!(
                "{}: the run's files are of format {}, which weir {} wrote, and weir {} reads {}: make the report with that version, \
                 or run the scenario again",
                directory.join("provenance.json").display(),
                provenance.format,
                provenance.version,
                VERSION,
                Provenance::FORMAT
            )));
        }
        let version = Some(provenance.version.as_str());
        let so_far =
            || optional(read_summary(directory))?.map_or_else(|| read_so_far(directory), |complete| Ok(Some(complete)));
        let summary = match so_far().map_err(|error| foreign(directory, error, version))? {
            Some(summary) => summary,
            None => return Err(foreign(directory, read_summary(directory).unwrap_err(), version)),
        };
        let speed = optional(read_speed(directory)).map_err(|error| foreign(directory, error, version))?;
        let topology = optional(read_topology(directory)).map_err(|error| foreign(directory, error, version))?;
        let text = |name: &str| fs::read_to_string(directory.join(name));
        let point =
            match text("point.json") {
                Ok(text) => Some(serde_json::from_str(&text).map_err(|error| {
                    Failure::Argument(format!("{}: {error}", directory.join("point.json").display()))
                })?),
                Err(_) => None,
            };
        Ok(Run {
            label: String::new(),
            directory: directory.to_owned(),
            summary,
            speed,
            topology,
            scenario: text("scenario.toml").ok(),
            configs: configs(directory)?,
            point,
            provenance,
        })
    }

    /// End of the run's time axis, in microseconds.
    pub(super) fn end_us(&self) -> f64 {
        self.summary.duration_ns as f64 / 1e3
    }

    /// Seed of the scenario's random numbers, if the directory records it.
    pub(super) fn seed(&self) -> Option<String> {
        if let Some(seed) = self.point.as_ref().and_then(|point| point.point.seed) {
            return Some(seed.to_string());
        }
        let table: toml::Table = self.scenario.as_ref()?.parse().ok()?;
        let seed = table.get("scenario").and_then(|scenario| scenario.get("seed")).and_then(toml::Value::as_integer);
        Some(seed.map_or_else(|| "1 (default)".to_owned(), |seed| seed.to_string()))
    }
}

fn configs(directory: &Path) -> Result<Vec<ConfigFile>, Failure> {
    let failed = |error: io::Error| Failure::Argument(format!("{}: can't be listed: {error}", directory.display()));
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
        if name == "config.toml" || (name.starts_with("config-") && name.ends_with(".toml")) {
            names.push(name);
        }
    }
    names.sort_by_cached_key(|name| natural(name));
    let read = |name: String| {
        let path = directory.join(&name);
        let text = fs::read_to_string(&path)
            .map_err(|error| Failure::Argument(format!("{}: can't be read: {error}", path.display())))?;
        Ok((name, text))
    };
    names.into_iter().map(read).collect()
}

/// Result of a read; `None` if the file is missing.
fn optional<T>(read: Result<T, RunDirError>) -> Result<Option<T>, RunDirError> {
    match read {
        Err(RunDirError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

/// Error for a file that is missing, or that this version can't read.
fn foreign(directory: &Path, error: RunDirError, version: Option<&str>) -> Failure {
    let by = version.map_or_else(String::new, |version| format!(", and weir {version} wrote it"));
    Failure::Argument(match error {
        RunDirError::Io { path, source, .. } if source.kind() == io::ErrorKind::NotFound => {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            format!("{}: {name} is missing, so the run is incomplete: {}", directory.display(), what_to_name())
        }
        RunDirError::Json { ref source, .. } if !source.is_data() => {
            format!("{error}; the file is damaged: run the scenario again")
        }
        RunDirError::Json { .. } => {
            format!(
                "{error}; this is weir {VERSION}{by}: make the report with the version that ran it, or run the scenario again"
            )
        }
        error => format!("{error}; {}", what_to_name()),
    })
}

/// Shortest labels that distinguish the runs: the scenario's names, the folders' names, or the whole paths.
fn labels(runs: &[Run]) -> Vec<String> {
    let of_scenario = |run: &Run| run.summary.parameters.get("run").cloned();
    let folder = |run: &Run| run.directory.file_name().map(|name| name.to_string_lossy().into_owned());
    let last_two = |run: &Run| {
        let parent = run.directory.parent()?.file_name()?.to_string_lossy().into_owned();
        Some(format!("{parent}/{}", folder(run)?))
    };
    let of_point = |run: &Run| of_point(run, runs);
    let candidates: [RunCell<'_>; 4] = [&of_scenario, &of_point, &folder, &last_two];
    for candidate in candidates {
        let Some(labels) = runs.iter().map(candidate).collect::<Option<Vec<_>>>() else { continue };
        let mut unique = labels.clone();
        unique.sort();
        unique.dedup();
        if unique.len() == labels.len() {
            return labels;
        }
    }
    runs.iter().map(|run| run.directory.display().to_string()).collect()
}

/// Label of a sweep's point: its run, and the parameters that differ, by their last keys.
fn of_point(run: &Run, runs: &[Run]) -> Option<String> {
    let differs = |of: &dyn Fn(&Run) -> Option<String>| runs.iter().any(|other| of(other) != of(run));
    let name = |run: &Run| run.summary.parameters.get("run").cloned();
    let values = |run: &Run, n: usize| Some(run.point.as_ref()?.point.parameters.get(n)?.1.to_string());
    let mut parts: Vec<String> = name(run).filter(|_| differs(&name)).into_iter().collect();
    let point = &run.point.as_ref()?.point;
    for (n, (path, value)) in point.parameters.iter().enumerate().filter(|(n, _)| differs(&|run| values(run, *n))) {
        let key = KeyPath::parse(path).map_or_else(|| path.clone(), |path| path.last().to_owned());
        let is_own =
            point.parameters.iter().enumerate().all(|(m, (other, _))| m == n || !other.ends_with(&format!(".{key}")));
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        parts.push(format!("{} {value}", if is_own { &key } else { path }));
    }
    let seed = |run: &Run| run.point.as_ref()?.point.seed.map(|seed| seed.to_string());
    parts.extend(seed(run).filter(|_| differs(&seed)).map(|seed| format!("seed {seed}")));
    (!parts.is_empty()).then(|| parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_count() {
        let mut names = ["config-L10.toml", "config-L2.toml", "config-K.toml", "10-a", "9-b"];
        names.sort_by_cached_key(|name| natural(name));
        assert_eq!(names, ["9-b", "10-a", "config-K.toml", "config-L2.toml", "config-L10.toml"]);
    }
}
