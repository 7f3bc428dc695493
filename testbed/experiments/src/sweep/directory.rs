//! Directory of a sweep: its identity and its finished points.
//!
//! | file | content |
//! |---|---|
//! | `sweep.json` | identity of the sweep, see [`Manifest`] |
//! | `runs/NUMBER-NAME/` | a finished point: the run's directory, its `scenario.toml`, and `point.json` |
//! | `results.csv`, `results.parquet` | a row for each point that ended as expected |
//! | `failures.csv` | a row for each other point, with the reason |
//! | `timings.csv` | time of each point on this machine |
//!
//! A point's folder gets its final name once complete. Names with a leading dot are unfinished.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use weir_results::run_dir::{Speed, Summary, read_summary};

use super::hash::Hash;
use super::plot::FigureSpec;
use super::point_file::Point;
use crate::Failure;
use crate::files::{json_text, with_path, write_json};

const MANIFEST: &str = "sweep.json";
const POINT: &str = "point.json";
const SCENARIO: &str = "scenario.toml";
const RUNS: &str = "runs";
const LOCK: &str = ".lock";
/// Tables written at the end of a sweep.
pub(super) const TABLES: [&str; 4] = ["results.csv", "results.parquet", "failures.csv", "timings.csv"];

/// Identity of a directory's sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    pub format: String,
    pub version: String,
    pub name: String,
    pub made_by: Origin,
    /// Hash of the whole sweep's points.
    pub identity: String,
    /// Number of points of the whole sweep.
    pub points: usize,
    pub shard: Option<Shard>,
    pub columns: Vec<String>,
    /// Figures of the sweep's file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<FigureSpec>,
}

/// Origin of a directory's points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Origin {
    /// Runs of the points.
    Run,
    /// Merge of other directories; those of a job array are inside this directory.
    Merge,
}

/// Every `of`-th point, starting with the `number`-th.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Shard {
    /// Number of the shard, from 1.
    pub number: usize,
    pub of: usize,
}

/// Finished point and its outcome: `point.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FinishedPoint {
    pub point: Point,
    pub outcome: PointOutcome,
    /// Reason of a failure; empty for a good point.
    pub reason: String,
    /// Wall time in ms, including the start of the process.
    pub wall_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PointOutcome {
    /// The run ended as the scenario expects.
    Good,
    /// The run ended with losses, a deadlock or frames left. A repetition would give the same.
    Failed,
    /// The process ended without results, perhaps because of the machine: the next call repeats it.
    Crashed,
}

/// Directory of a sweep, locked against other processes.
#[derive(Debug)]
pub(super) struct SweepDir {
    path: PathBuf,
    _lock: File,
}

impl Manifest {
    pub(super) const FORMAT: &str = "weir-sweep-1";

    pub(super) fn read(directory: &Path) -> Result<Manifest, Failure> {
        let path = directory.join(MANIFEST);
        let wrong = |what: String| {
            Failure::Argument(format!("{}: {what}; name a directory that weir sweep wrote", path.display()))
        };
        let text = fs::read_to_string(&path).map_err(|error| wrong(format!("can't read the file: {error}")))?;
        serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))
    }

    pub(super) fn write(&self, directory: &Path) -> Result<(), Failure> {
        write_json(&directory.join(MANIFEST), self)
    }

    /// Reason why results of the two manifests can't be combined; `None` if they can.
    pub(super) fn clash(&self, other: &Manifest) -> Option<String> {
        if self.format != other.format || self.version != other.version {
            return Some(format!("weir {} began it, and this is weir {}", other.version, self.version));
        }
        if self.identity != other.identity {
            let what = "the sweep, its scenario or a file that this names has changed since, or it is another sweep";
            return Some(format!("{what} ({} points there, {} now)", other.points, self.points));
        }
        match (self.made_by, other.made_by) {
            (Origin::Run, Origin::Merge) => Some("it is of a merged sweep".to_owned()),
            (Origin::Merge, Origin::Run) => Some("it is of a sweep that was run there".to_owned()),
            _ if self.shard != other.shard => Some(format!("it is of {}, and this is {}", shard(other), shard(self))),
            _ => None,
        }
    }
}

fn shard(manifest: &Manifest) -> String {
    manifest.shard.map_or("the whole sweep".to_owned(), |shard| format!("shard {}/{}", shard.number, shard.of))
}

impl Shard {
    /// Whether the shard has the point with this number.
    pub(crate) fn has(self, number: usize) -> bool {
        (number - 1) % self.of == self.number - 1
    }
}

impl std::str::FromStr for Shard {
    type Err = String;

    /// Parses `3/16`.
    fn from_str(text: &str) -> Result<Shard, String> {
        let parts = text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        let shard = parts.map(|(number, of)| Shard { number, of });
        let help = "write K/N with K from 1 to N: --shard 3/16";
        shard.filter(|shard| (1..=shard.of).contains(&shard.number)).ok_or(help.to_owned())
    }
}

impl SweepDir {
    /// Creates a directory, or opens one of the same sweep. Writes nothing to another sweep's directory.
    pub(super) fn open(path: &Path, manifest: &Manifest) -> Result<SweepDir, Failure> {
        check(path, manifest)?;
        fs::create_dir_all(path).map_err(with_path(path))?;
        let lock = File::create(path.join(LOCK)).map_err(with_path(&path.join(LOCK)))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            let path = path.display();
            return Err(Failure::Argument(format!(
                "{path}: another weir sweep works there; wait for it, or name another directory"
            )));
        }
        // Another sweep may have had the lock until now.
        if path.join(MANIFEST).exists() {
            check(path, manifest)?;
        }
        // Tables are never older than the points.
        for table in TABLES {
            remove(fs::remove_file(path.join(table))).map_err(with_path(path))?;
        }
        manifest.write(path)?;
        Ok(SweepDir { path: path.to_owned(), _lock: lock })
    }

    /// Removes unfinished points of an earlier call.
    pub(super) fn clear_unfinished(&self) -> Result<(), Failure> {
        let runs = self.path.join(RUNS);
        fs::create_dir_all(&runs).map_err(with_path(&runs))?;
        for entry in fs::read_dir(&runs).map_err(with_path(&runs))? {
            let path = entry.map_err(with_path(&runs))?.path();
            if is_hidden(&path) {
                let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
                removed.map_err(with_path(&path))?;
            }
        }
        Ok(())
    }

    /// Point as finished by an earlier call; `None` if there is none, or if it is to be repeated.
    pub(super) fn finished(&self, point: &Point) -> Option<FinishedPoint> {
        let finished = read_point(&self.folder(point)).ok()?;
        let is_this = finished.point.hash == point.hash && finished.point.number == point.number;
        (is_this && finished.outcome != PointOutcome::Crashed).then_some(finished)
    }

    pub(super) fn folder(&self, point: &Point) -> PathBuf {
        self.path.join(RUNS).join(&point.folder)
    }

    /// Paths of an unfinished point: run directory, scenario, and log of the process.
    pub(super) fn unfinished_paths(&self, point: &Point) -> [PathBuf; 3] {
        ["part", "toml", "log"].map(|what| self.path.join(RUNS).join(format!(".{}.{what}", point.number)))
    }

    /// Moves a point's files to its final folder.
    pub(super) fn finish(&self, finished: &FinishedPoint) -> io::Result<()> {
        let [part, scenario, log] = self.unfinished_paths(&finished.point);
        fs::create_dir_all(&part)?;
        fs::rename(&scenario, part.join(SCENARIO))?;
        fs::remove_file(log)?;
        self.move_finished(finished)
    }

    /// Moves the unfinished directory of a point to its final folder, with a new record.
    pub(super) fn move_finished(&self, finished: &FinishedPoint) -> io::Result<()> {
        let [part, ..] = self.unfinished_paths(&finished.point);
        let folder = self.folder(&finished.point);
        fs::write(part.join(POINT), json_text(finished))?;
        remove(fs::remove_dir_all(&folder))?;
        fs::rename(part, folder)
    }

    pub(super) fn abandon(&self, point: &Point) {
        let [part, scenario, log] = self.unfinished_paths(point);
        // The next call removes files that remain, or reports an error.
        let _ = (fs::remove_dir_all(part), fs::remove_file(scenario), fs::remove_file(log));
    }
}

/// Version with the build id of the code in a file: runs of another build are not resumed.
pub(crate) fn build_version(code: &Path) -> Result<String, Failure> {
    let build = match weir_sim::build_id_of(code)? {
        Some(id) => id,
        None => Hash::digest(&fs::read(code)?).text(),
    };
    Ok(format!("{} ({build})", env!("CARGO_PKG_VERSION")))
}

/// All finished points of a directory, by number. One whose record can't be read has crashed.
pub(super) fn all_finished(directory: &Path) -> Result<BTreeMap<usize, (FinishedPoint, PathBuf)>, Failure> {
    let runs = directory.join(RUNS);
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(&runs).map_err(with_path(&runs))? {
        let path = entry.map_err(with_path(&runs))?.path();
        if !is_hidden(&path) && path.join(POINT).exists() {
            let finished = read_point(&path).or_else(|error| unreadable_point(&path, &error))?;
            all.insert(finished.point.number, (finished, path));
        }
    }
    Ok(all)
}

/// Whether this is a file or folder of an unfinished point.
fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'))
}

/// Reads a run's results and its speed, which is unknown on DPDK.
pub(super) fn read_results(folder: &Path) -> Result<(Summary, Speed), Failure> {
    let summary = read_summary(folder).map_err(|error| Failure::Run(error.to_string()))?;
    let path = folder.join("speed.json");
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((summary, Speed::default())),
        text => text.map_err(with_path(&path))?,
    };
    let speed = serde_json::from_str(&text).map_err(|error| Failure::Run(format!("{}: {error}", path.display())))?;
    Ok((summary, speed))
}

/// Checks that this sweep may write to the directory.
pub(super) fn check(path: &Path, manifest: &Manifest) -> Result<(), Failure> {
    let shown = path.display();
    let is_empty = match fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => return Err(Failure::Argument(format!("{shown}: {error}; name a directory"))),
    };
    if is_empty {
        return Ok(());
    }
    if !path.join(MANIFEST).exists() {
        let what = format!("{shown} is not empty, and no sweep's directory; name another one, or empty it");
        return Err(Failure::Argument(what));
    }
    match manifest.clash(&Manifest::read(path)?) {
        Some(clash) => Err(Failure::Argument(format!(
            "{shown} holds results that do not belong to this sweep: {clash}; name another directory, or remove that one; a finished sweep takes further values, seeds and runs if all others stay"
        ))),
        None => Ok(()),
    }
}

/// Point whose record can't be read: its number is that of the folder, and its parameters are unknown.
fn unreadable_point(folder: &Path, error: &io::Error) -> Result<FinishedPoint, Failure> {
    let reason = format!("{}: {error}", folder.join(POINT).display());
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let Some(number) = name.split('-').next().and_then(|number| number.parse().ok()) else {
        return Err(Failure::Run(reason));
    };
    let (run_name, hash) = (String::new(), String::new());
    let point = Point { number, run: 0, run_name, seed: None, parameters: Vec::new(), hash, folder: name, setting: 0 };
    let reason = format!("its results can't be read: {reason}");
    Ok(FinishedPoint { point, outcome: PointOutcome::Crashed, reason, wall_ms: 0 })
}

fn read_point(folder: &Path) -> io::Result<FinishedPoint> {
    Ok(serde_json::from_str(&fs::read_to_string(folder.join(POINT))?)?)
}

/// Ignores a missing file.
fn remove(removed: io::Result<()>) -> io::Result<()> {
    removed.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn manifest(identity: &str) -> Manifest {
        Manifest {
            format: Manifest::FORMAT.to_owned(),
            version: "1".to_owned(),
            name: "a".to_owned(),
            made_by: Origin::Run,
            identity: identity.to_owned(),
            points: 4,
            shard: None,
            columns: Vec::new(),
            figures: Vec::new(),
        }
    }

    /// A point that ended as expected, in its folder.
    pub(crate) fn finished_point(to: &SweepDir, number: usize) -> FinishedPoint {
        let point = Point {
            number,
            run: 0,
            run_name: "run".to_owned(),
            seed: None,
            parameters: Vec::new(),
            hash: "0".to_owned(),
            folder: format!("{number}-run"),
            setting: 0,
        };
        let finished = FinishedPoint { point, outcome: PointOutcome::Good, reason: String::new(), wall_ms: 1 };
        let [part, scenario, log] = to.unfinished_paths(&finished.point);
        fs::create_dir_all(part).unwrap();
        [scenario, log].iter().for_each(|path| fs::write(path, "").unwrap());
        to.finish(&finished).unwrap();
        finished
    }

    fn refused(path: &Path, manifest: &Manifest) -> String {
        match SweepDir::open(path, manifest) {
            Err(Failure::Argument(message)) => message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_directory_is_of_one_sweep() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b");
        let open = SweepDir::open(&path, &manifest("1")).unwrap();
        assert!(refused(&path, &manifest("1")).contains("another weir sweep works there"));
        drop(open);
        fs::write(path.join("results.csv"), "old").unwrap();
        assert!(refused(&path, &manifest("2")).contains("has changed since, or it is another sweep"));
        let of_shard = Manifest { shard: Some(Shard { number: 1, of: 2 }), ..manifest("1") };
        assert!(refused(&path, &of_shard).contains("it is of the whole sweep, and this is shard 1/2"));
        assert!(refused(&path, &Manifest { made_by: Origin::Merge, ..manifest("1") }).contains("was run there"));
        assert!(refused(&path, &Manifest { version: "2".to_owned(), ..manifest("1") }).contains("weir 1 began it"));
        assert!(path.join("results.csv").exists());
        SweepDir::open(&path, &manifest("1")).unwrap();
        assert!(!path.join("results.csv").exists());
    }

    #[test]
    fn other_peoples_files_are_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("thesis.tex"), "").unwrap();
        assert!(refused(directory.path(), &manifest("1")).contains("no sweep's directory"));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn shards_take_turns() {
        let shard: Shard = "2/3".parse().unwrap();
        assert_eq!((1..=8).filter(|number| shard.has(*number)).collect::<Vec<_>>(), [2, 5, 8]);
        for bad in ["", "3", "0/2", "3/2", "1/0", "-1/2", "a/b"] {
            assert!(bad.parse::<Shard>().is_err(), "{bad}");
        }
    }
}
