//! Search for the files of an experiment.

use std::fs;
use std::path::{Path, PathBuf};

use super::arguments::Arguments;
use super::config::Config;
use super::detect::{EXPECTED, FileKind, detect};
use crate::data_file;
use crate::import::{ImportErrors, ImportNote};
use crate::import::{SourceFile, read_text};

/// Input files of an experiment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sources {
    /// The configuration, if there is one.
    pub(super) config: Option<Config>,
    /// The topology.
    pub(super) topology: SourceFile,
    /// The flow list, if there is one.
    pub(super) flows: Option<SourceFile>,
    /// List of traced nodes, if there is one.
    pub(super) trace: Option<SourceFile>,
    /// Distribution of flow sizes, if there is one.
    pub(super) sizes: Option<SourceFile>,
    /// Values of α by queue, if a command line names their file.
    pub(super) alphas: Option<SourceFile>,
    /// Files that were skipped, with the reason.
    pub(super) left: Vec<ImportNote>,
}

/// File that was examined.
struct Candidate {
    path: PathBuf,
    source: SourceFile,
    kind: Option<FileKind>,
    /// Whether the file was named, rather than found in a folder.
    is_named: bool,
}

impl Sources {
    /// Searches files and folders. A configuration's TOPOLOGY_FILE, FLOW_FILE and TRACE_FILE are searched for from its folder, in it, and
    /// from the three folders above; files named in `paths` precede them.
    ///
    /// # Errors
    /// Files that can't be read or are of no known kind, two of one kind, and no topology.
    pub fn find(paths: &[PathBuf]) -> Result<Sources, ImportErrors> {
        Sources::find_for(paths, None)
    }

    /// Finds the files of a program with a command line. The files that it names are searched for at their own paths and next to `paths`,
    /// and precede others. The program sends nothing of a flow list.
    ///
    /// # Errors
    /// Those of [`Sources::find`], and missing files of the command line.
    pub fn find_for(paths: &[PathBuf], arguments: Option<&Arguments>) -> Result<Sources, ImportErrors> {
        let mut candidates = Vec::new();
        for path in paths {
            if path.is_dir() {
                candidates.extend(of_folder(path)?);
            } else {
                candidates.push(named(path)?);
            }
        }
        let mut alphas = None;
        for (key, written) in arguments.iter().flat_map(|arguments| &arguments.files) {
            let path = locate_file(paths, written).ok_or_else(|| {
                let problem = format!("--{key}={written} is neither there nor in the folder of another file");
                ImportErrors::one("--arguments", None, problem, "put it there, or name the folder that it is in")
            })?;
            candidates.retain(|one: &Candidate| one.source.name != file_name(&path));
            match *key {
                "alphasFile" => alphas = Some(read_text(&path)?),
                _ => candidates.push(named(&path)?),
            }
        }
        if let Some(arguments) = arguments {
            let has_config = candidates.iter().any(|one| one.is_named && one.kind == Some(FileKind::Config));
            let default = |key: &str, name: &str| {
                sibling_file(paths, Path::new(name)).filter(|_| !arguments.files.contains_key(key))
            };
            if let Some(path) = default("conf", CONFIG_BY_DEFAULT).filter(|_| !has_config) {
                candidates.retain(|one: &Candidate| one.source.name != CONFIG_BY_DEFAULT);
                candidates.push(named(&path)?);
            }
            if let Some(path) = default("alphasFile", ALPHAS_BY_DEFAULT) {
                candidates.retain(|one: &Candidate| one.source.name != ALPHAS_BY_DEFAULT);
                alphas = Some(read_text(&path)?);
            }
        }
        let explains = drop_explanation(&mut candidates);
        let config = only(&candidates, FileKind::Config)?;
        let folder = config.and_then(|config| config.path.parent()).map(Path::to_path_buf);
        let config = config.map(|config| Config::parse(&config.source)).transpose()?;
        let mut found = Sources { alphas, ..Sources::default() };
        let has_sizes = candidates.iter().any(|one| one.kind == Some(FileKind::Sizes));
        let mut used = Vec::new();
        let mut choose = |kind: FileKind, key: &str| -> Result<Option<SourceFile>, ImportErrors> {
            let by_name = candidates.iter().any(|one| one.is_named && one.kind == Some(kind));
            let of_config = config.as_ref().zip(folder.as_deref()).filter(|(config, _)| !by_name && config.has(key));
            let source = match of_config {
                // Flows of a distribution need no file; nor do ConWeave's, which its `run.py` draws first.
                Some((config, folder)) => {
                    let is_drawn = has_sizes || arguments.is_some() || config.is_conweaves();
                    referred(config, key, folder, kind == FileKind::Flows && is_drawn)?
                }
                None => only(&candidates, kind)?.map(|one| one.source.clone()),
            };
            used.extend(source.as_ref().map(|source| source.name.clone()));
            Ok(source)
        };
        let topology = choose(FileKind::Topology, "TOPOLOGY_FILE")?;
        found.sizes = choose(FileKind::Sizes, "")?;
        found.flows = choose(FileKind::Flows, "FLOW_FILE")?;
        found.trace = choose(FileKind::Trace, "TRACE_FILE")?;
        found.topology = topology.ok_or_else(|| {
            let first = paths.first().map_or(String::new(), |path| path.display().to_string());
            ImportErrors::one(&first, None, "there is no topology", "name its file, or its folder, too")
        })?;
        if let Some(config) = &config {
            for (key, source) in [("FLOW_FILE", &found.flows), ("TRACE_FILE", &found.trace)] {
                if config.has(key) && source.is_none() {
                    let line = config.line(key).unwrap_or(1);
                    let text = format!("{key} {} is not there", config.text(key).unwrap_or_default());
                    found.left.push(ImportNote::for_line(&config.file, line, text));
                }
            }
        }
        found
            .left
            .extend(explains.iter().map(|name| ImportNote::for_file(name, "explains the keys of a configuration")));
        for candidate in candidates {
            let name = &candidate.source.name;
            let is_config = config.as_ref().is_some_and(|config| config.file == *name);
            if !is_config && !used.contains(name) {
                let why = candidate.kind.map_or("none of the simulators' input files".to_owned(), |kind| {
                    format!("{}, but the configuration names another", kind.name())
                });
                found.left.push(ImportNote::for_file(name, why));
            }
        }
        found.config = config;
        Ok(found)
    }
}

/// Files that a program with a command line reads by default.
const CONFIG_BY_DEFAULT: &str = "config-workload.txt";
const ALPHAS_BY_DEFAULT: &str = "alphas";

/// Returns the path of a file that a command line names: its own, or one next to one of `paths`.
fn locate_file(paths: &[PathBuf], written: impl AsRef<Path>) -> Option<PathBuf> {
    let written = written.as_ref();
    if written.is_file() { Some(written.to_owned()) } else { sibling_file(paths, written) }
}

/// Returns the file of this name in the folder of one of the paths.
fn sibling_file(paths: &[PathBuf], named: &Path) -> Option<PathBuf> {
    let folder = |path: &PathBuf| if path.is_dir() { path.clone() } else { path.with_file_name("") };
    let name = named.file_name()?;
    paths.iter().map(|path| folder(path).join(name)).find(|path| path.is_file())
}

/// Removes `config_doc.txt`, which explains a configuration's keys in braces, if its folder has another configuration. Returns its name.
fn drop_explanation(candidates: &mut Vec<Candidate>) -> Option<String> {
    let is_config = |one: &Candidate| one.kind == Some(FileKind::Config) && !one.is_named;
    let explains =
        |one: &Candidate| is_config(one) && one.source.name.ends_with("_doc.txt") && one.source.text.contains('{');
    let place = candidates.iter().position(explains)?;
    let has_other = candidates.iter().enumerate().any(|(n, one)| n != place && one.kind == Some(FileKind::Config));
    has_other.then(|| candidates.remove(place).source.name)
}

/// Reads the text files of a folder, by name.
fn of_folder(folder: &Path) -> Result<Vec<Candidate>, ImportErrors> {
    let cannot = |error: std::io::Error| {
        let problem = format!("can't look through the folder: {error}");
        ImportErrors::one(&folder.display().to_string(), None, problem, "name one that can be read")
    };
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        if path.is_file() && path.extension().is_some_and(|extension| extension == "txt") {
            paths.push(path);
        }
    }
    paths.sort();
    let read = |path: PathBuf| {
        // Binary files are ignored.
        let text = data_file::read_text(&path).unwrap_or_default();
        let source = SourceFile { name: file_name(&path), text };
        let kind = detect(&source.name, &source.text);
        Candidate { path, source, kind, is_named: false }
    };
    Ok(paths.into_iter().map(read).collect())
}

fn named(path: &Path) -> Result<Candidate, ImportErrors> {
    let source = read_text(path)?;
    let kind = detect(&source.name, &source.text);
    if kind.is_none() {
        let problem = "this is no input file of the simulators";
        return Err(ImportErrors::one(&path.display().to_string(), Some(1), problem, EXPECTED));
    }
    Ok(Candidate { path: path.to_owned(), source, kind, is_named: true })
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// Returns the only candidate of a kind; named ones precede those of folders.
fn only(candidates: &[Candidate], kind: FileKind) -> Result<Option<&Candidate>, ImportErrors> {
    for is_named in [true, false] {
        let mut of_kind = candidates.iter().filter(|one| one.kind == Some(kind) && one.is_named == is_named);
        if let Some(first) = of_kind.next() {
            let Some(second) = of_kind.next() else { return Ok(Some(first)) };
            let problem = format!("this is {}, and so is {}", kind.name(), first.source.name);
            let help = format!("name one of them: {}", first.path.display());
            return Err(ImportErrors::one(&second.path.display().to_string(), None, problem, help));
        }
    }
    Ok(None)
}

/// Reads the file that a key of the configuration names; an error if it is missing, unless it is optional.
fn referred(config: &Config, key: &str, folder: &Path, is_optional: bool) -> Result<Option<SourceFile>, ImportErrors> {
    let text = config.text(key).unwrap_or_default();
    let written = Path::new(text);
    let mut places = vec![folder.join(written)];
    places.extend(written.file_name().map(|name| folder.join(name)));
    // Names are relative to the simulator's working directory: ConWeave's files are in `config/`, its configurations in `mix/output/ID/`.
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    places.extend(folder.ancestors().skip(1).take(FOLDERS_ABOVE).map(|above| above.join(written)));
    if let Some(path) = places.iter().find(|path| path.is_file()) {
        return read_text(path).map(Some);
    }
    if is_optional || key == "TRACE_FILE" {
        return Ok(None);
    }
    let problem = format!("{key} {text} is neither there nor in the configuration's folder");
    Err(ImportErrors::one(&config.file, config.line(key), problem, "put it there, or name it on the command line too"))
}

/// Number of parent folders of a configuration's in which the simulator may have been started.
const FOLDERS_ABOVE: usize = 3;
