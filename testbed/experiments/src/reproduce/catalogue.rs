//! Finds and reads the folders of papers and experiments.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use weir_config::Source;
use weir_reader::{nearest, read_file};

use super::check;
use super::experiment::Experiment;
use super::paper::{self, Paper};
use super::paper_file::{self, FORMAT};
use crate::Failure;

const PAPER: &str = "paper.toml";
/// Maximum depth of folders: a folder of folders of papers, those, and their experiments.
const DEPTH_MAX: usize = 3;

impl Experiment {
    /// Reads an experiment's folder in any place, without its scenario.
    pub(super) fn load(folder: &Path) -> Result<Experiment, Failure> {
        let canonical =
            folder.canonicalize().map_err(|error| Failure::Argument(format!("{}: {error}", folder.display())))?;
        let of = canonical.parent().map(Paper::read).transpose()?.flatten();
        Experiment::load_of(folder, of)
    }

    /// Reads the folder of an experiment of this paper.
    pub(super) fn load_of(folder: &Path, of: Option<Paper>) -> Result<Experiment, Failure> {
        let path = folder.join(PAPER);
        let text = read_file(&path, &FORMAT)?;
        let (paper, source) = paper_file::parse(&path.display().to_string(), &text)?;
        if let (Some(of), Some(_)) = (&of, &paper.paper) {
            let message = format!("the folder above is of the paper {}", of.id);
            return Err(source.error_at("paper", message, "take `paper` out").into());
        }
        let experiment = Experiment { id: name_of(folder, &source)?, paper, of, source, folder: folder.to_owned() };
        check::of_itself(&experiment)?;
        Ok(experiment)
    }

    pub(super) fn is_one(folder: &Path) -> bool {
        folder.join(PAPER).is_file()
    }
}

/// Selection of experiments by a command's arguments.
pub(super) struct ExperimentSelection<'a> {
    /// Ids, papers, `all`, or folders.
    pub ids: &'a [String],
    /// Folders of papers; empty for the default one.
    pub papers: &'a [PathBuf],
}

impl ExperimentSelection<'_> {
    /// The selected experiments. `may` filters those that no id names directly.
    pub(super) fn experiments(&self, may: impl Fn(&Experiment) -> bool) -> Result<Vec<Experiment>, Failure> {
        let mut chosen: Vec<Experiment> = Vec::new();
        let mut known: Option<Vec<Experiment>> = None;
        for id in self.ids {
            let own = Path::new(id);
            if Experiment::is_one(own) {
                chosen.push(Experiment::load(own)?);
                continue;
            }
            if paper::is_one(own) {
                chosen.extend(catalogue(&[own.to_owned()])?);
                continue;
            }
            if known.is_none() {
                known = Some(catalogue(&self.folders()?)?);
            }
            let known = known.as_deref().unwrap_or_default();
            let is_meant = |experiment: &&Experiment| {
                id == "all" || experiment.id == *id || experiment.of.as_ref().is_some_and(|paper| paper.id == *id)
            };
            let meant: Vec<&Experiment> = known.iter().filter(is_meant).collect();
            if meant.is_empty() {
                let ids: Vec<&str> = known.iter().map(|experiment| experiment.id.as_str()).collect();
                if let Some(near) = nearest(id, &ids) {
                    return Err(Failure::Argument(format!("\"{id}\" is no experiment; did you mean {near}?")));
                }
                return Err(Failure::Argument(format!(
                    "\"{id}\" is no experiment, and no folder with a paper.toml or an about.toml; write all, the name of a paper, or one of: {}",
                    ids.join(", ")
                )));
            }
            let may = |experiment: &&&Experiment| experiment.id == *id || may(experiment);
            chosen.extend(meant.iter().filter(may).map(|experiment| (*experiment).clone()));
        }
        let mut seen = BTreeSet::new();
        chosen.retain(|experiment| seen.insert(experiment.id.clone()));
        Ok(chosen)
    }

    /// Folders of papers: as given, else the first below the current directory or above the program's file, built or
    /// installed.
    pub(super) fn folders(&self) -> Result<Vec<PathBuf>, Failure> {
        const USUAL: &str = "scenarios/papers";
        const INSTALLED: &str = "share/weir";
        if !self.papers.is_empty() {
            return Ok(self.papers.to_vec());
        }
        let program = std::env::current_exe()?;
        let here = Path::new("");
        let above = std::iter::once(here).chain(program.ancestors().skip(1));
        let found = above.flat_map(|above| [above.join(USUAL), above.join(INSTALLED).join(USUAL)]);
        let mut found = found.filter(|folder| folder.is_dir());
        found.next().map(|folder| vec![folder]).ok_or_else(|| {
            let message = format!(
                "there is no {USUAL}, here or above the program; write --papers DIR, or go to Weir's own directory"
            );
            Failure::Argument(message)
        })
    }
}

/// All experiments below the given folders, in the order of papers and figures.
///
/// # Errors
/// An invalid experiment, or two with one name.
pub(super) fn catalogue(folders: &[PathBuf]) -> Result<Vec<Experiment>, Failure> {
    let mut all = Vec::new();
    for folder in folders {
        walk(folder, None, 0, &mut all)?;
    }
    all.sort_by_key(Experiment::place);
    if let Some(duplicates) = all.windows(2).find(|pair| pair[0].id == pair[1].id) {
        let [one, other] = [&duplicates[0], &duplicates[1]].map(|experiment| experiment.folder().display().to_string());
        return Err(Failure::Argument(format!("{one} and {other} are two experiments of one name; rename one")));
    }
    Ok(all)
}

fn walk(folder: &Path, above: Option<&Paper>, depth: usize, all: &mut Vec<Experiment>) -> Result<(), Failure> {
    if Experiment::is_one(folder) {
        all.push(Experiment::load_of(folder, above.cloned())?);
        return Ok(());
    }
    let paper = Paper::read(folder)?;
    let failed = |error: std::io::Error| Failure::Argument(format!("{}: {error}", folder.display()));
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if depth < DEPTH_MAX && entry.file_type().map_err(failed)?.is_dir() {
            walk(&entry.path(), paper.as_ref().or(above), depth + 1, all)?;
        }
    }
    Ok(())
}

/// Name of an experiment: that of its folder, independent of the working directory.
fn name_of(folder: &Path, source: &Source) -> Result<String, Failure> {
    let canonical =
        folder.canonicalize().map_err(|error| Failure::Argument(format!("{}: {error}", folder.display())))?;
    let name = canonical.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if !weir_reader::is_name(&name) {
        let message = format!("an experiment has its folder's name, and \"{name}\" can't be one");
        let errors = source.error_at("title", message, format!("rename the folder: {}", weir_reader::NAME_RULE));
        return Err(errors.into());
    }
    Ok(name)
}
