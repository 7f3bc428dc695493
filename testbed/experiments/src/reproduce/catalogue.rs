//! Finds and reads the folders of papers and experiments.

use std::fs;
use std::path::{Path, PathBuf};

use weir_config::Source;
use weir_reader::read_file;

use super::check;
use super::experiment::Experiment;
use super::paper::Paper;
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
