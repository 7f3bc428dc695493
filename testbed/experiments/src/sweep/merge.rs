//! `weir sweep merge`: joins the shards of a sweep to one table.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use super::directory::{FinishedPoint, Manifest, Origin, SweepDir, all_finished};
use super::results::{self, PointRecord};
use super::{OutputMode, conclude, draw};
use crate::Failure;
use crate::files::with_path;

/// Arguments of `weir sweep merge`.
#[derive(clap::Args)]
pub(super) struct MergeArguments {
    /// Directories of the shards, in any order.
    #[arg(required = true, value_name = "DIR")]
    directories: Vec<PathBuf>,
    /// Directory of the tables and figures. The runs stay where they are, and links lead to them.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Print the outcome of the sweep as JSON in place of sentences.
    #[arg(long)]
    json: bool,
}

struct ShardDir<'a> {
    directory: &'a Path,
    manifest: Manifest,
}

/// Joins the tables, if every point exists exactly once.
pub(super) fn merge(arguments: &MergeArguments) -> Result<(), Failure> {
    let mut shards = Vec::new();
    for directory in &arguments.directories {
        shards.push(ShardDir { directory, manifest: Manifest::read(directory)? });
    }
    let first = &shards[0];
    for other in &shards[1..] {
        refuse_other(first, other)?;
    }
    let mut points: BTreeMap<usize, (FinishedPoint, PathBuf, &Path)> = BTreeMap::new();
    for directory in &arguments.directories {
        for (number, (finished, folder)) in all_finished(directory)? {
            if let Some((_, _, other)) = points.get(&number) {
                return Err(Failure::Argument(format!(
                    "point {number} is in {} and in {}; name each shard's directory once",
                    other.display(),
                    directory.display()
                )));
            }
            points.insert(number, (finished, folder, directory));
        }
    }
    refuse_missing(&shards, &points)?;
    let manifest = Manifest { made_by: Origin::Merge, shard: None, ..first.manifest.clone() };
    let mut records = Vec::new();
    for (finished, folder, _) in points.into_values() {
        records.push(PointRecord::read(finished, &folder, &manifest.columns)?);
    }
    let merged = SweepDir::open(&arguments.output, &manifest)?;
    records.iter().try_for_each(|record| link(&record.folder, &merged.folder(&record.finished.point)))?;
    // One whose record can't be read has no parameters.
    let most = records.iter().map(|record| &record.finished.point).max_by_key(|point| point.parameters.len());
    let any = most.expect("a sweep has points");
    results::write(&arguments.output, any, &manifest.columns, &records)?;
    let mode = OutputMode { json: arguments.json };
    let drawn = draw(&manifest.figures, &arguments.output, mode);
    conclude(&arguments.output, &records, manifest.points, mode).and(drawn)
}

/// Links a run's directory to its place in the merged sweep, for figures of messages and for reports.
fn link(run: &Path, place: &Path) -> Result<(), Failure> {
    if let Some(folder) = place.parent() {
        fs::create_dir_all(folder).map_err(with_path(folder))?;
    }
    if place.is_symlink() {
        fs::remove_file(place).map_err(with_path(place))?;
    }
    let parent = place.parent().unwrap_or(place);
    let [from, to] = [parent, run].map(|path| path.canonicalize().map_err(with_path(path)));
    symlink(path_between(&from?, &to?), place).map_err(with_path(place))
}

/// Path to `to` from the directory `from`, both absolute: it stays right where both move together.
fn path_between(from: &Path, to: &Path) -> PathBuf {
    let shared = from.components().zip(to.components()).take_while(|(one, other)| one == other).count();
    let up = from.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(to.components().skip(shared)).collect()
}

/// Moves finished points of the sweep's shards into the directory of all points. Refuses a shard that is running.
pub(super) fn take_over(shards: &Path, all: &Path, manifest: &Manifest) -> Result<(), Failure> {
    let Ok(entries) = fs::read_dir(shards) else { return Ok(()) };
    let to = SweepDir::open(all, manifest)?;
    let mut directories = Vec::new();
    for entry in entries {
        directories.push(entry.map_err(with_path(shards))?.path());
    }
    directories.sort();
    for directory in directories {
        let manifest = Manifest { shard: Manifest::read(&directory)?.shard, ..manifest.clone() };
        let _open = SweepDir::open(&directory, &manifest)?;
        for (finished, folder) in all_finished(&directory)?.into_values() {
            let place = to.folder(&finished.point);
            if !place.exists() {
                fs::create_dir_all(place.parent().unwrap_or(all)).map_err(with_path(all))?;
                fs::rename(&folder, &place).map_err(with_path(&place))?;
            }
        }
    }
    Ok(())
}

fn refuse_other(one: &ShardDir<'_>, other: &ShardDir<'_>) -> Result<(), Failure> {
    let (of_one, of_other) = (&one.manifest, &other.manifest);
    let [one, other] = [one, other].map(|shard| shard.directory.display());
    if of_one.identity != of_other.identity || of_one.version != of_other.version {
        let help = "name the shards of one sweep, run by one version of weir";
        return Err(Failure::Argument(format!("{one} and {other} are of different sweeps; {help}")));
    }
    let help = "call the shards' sweeps again with one file: what is finished is not run again";
    let tables =
        [("[results]", of_one.columns != of_other.columns), ("[[figures]]", of_one.figures != of_other.figures)];
    if let Some((table, _)) = tables.into_iter().find(|(_, differs)| *differs) {
        return Err(Failure::Argument(format!("{one} and {other} have different {table}; {help}")));
    }
    Ok(())
}

fn refuse_missing(
    shards: &[ShardDir<'_>],
    points: &BTreeMap<usize, (FinishedPoint, PathBuf, &Path)>,
) -> Result<(), Failure> {
    const NAMED_MAX: usize = 10;
    let all = shards[0].manifest.points;
    let missing: Vec<usize> = (1..=all).filter(|number| !points.contains_key(number)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let named: Vec<String> = missing.iter().take(NAMED_MAX).map(usize::to_string).collect();
    let more = if missing.len() > NAMED_MAX { ", ..." } else { "" };
    let of = shards.iter().find_map(|shard| shard.manifest.shard).map(|shard| shard.of);
    let missing_of = of.map(|of| {
        let mut shards: Vec<String> = missing.iter().map(|number| format!("{}/{of}", (number - 1) % of + 1)).collect();
        shards.sort();
        shards.dedup();
        shards.truncate(NAMED_MAX);
        format!(" (of shard {})", shards.join(", "))
    });
    Err(Failure::Argument(format!(
        "{} of {all} points are missing: {}{more}{}; name the other shards too, or call the unfinished ones again",
        missing.len(),
        named.join(", "),
        missing_of.unwrap_or_default()
    )))
}
