//! Output files of commands: written completely or not at all, and named in errors.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Failure;

/// Writes a file under a temporary name and renames it; removes it on failure.
pub fn write_atomic(path: &Path, write: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = Path::new(&part);
    let written = write(part).and_then(|()| fs::rename(part, path));
    if written.is_err() {
        let _ = fs::remove_file(part);
    }
    written
}

/// Formats plain data as indented JSON.
pub fn json_text(content: &impl Serialize) -> String {
    let mut text = serde_json::to_string_pretty(content).expect("plain data is JSON");
    text.push('\n');
    text
}

/// Writes plain data as a JSON file.
pub(crate) fn write_json(path: &Path, content: &impl Serialize) -> Result<(), Failure> {
    write_atomic(path, |part| fs::write(part, json_text(content))).map_err(with_path(path))
}

/// Reads a JSON file.
///
/// # Errors
/// An unreadable file, or invalid content.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, Failure> {
    let text = fs::read_to_string(path).map_err(with_path(path))?;
    serde_json::from_str(&text).map_err(|error| Failure::Argument(format!("{}: {error}", path.display())))
}

/// Name of a file or directory made of a title: `gfc-by-stages-arrival`.
pub(crate) fn slug(name: &str) -> String {
    let parts = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    parts.map(str::to_lowercase).collect::<Vec<_>>().join("-")
}

/// Quotes a word for a shell.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// Adds the file's path to an error.
pub fn with_path(path: &Path) -> impl FnOnce(io::Error) -> Failure {
    move |error| Failure::Run(format!("{}: {error}", path.display()))
}

/// Writes a scenario and the files that it names, and returns their paths, the scenario's first. The scenario is
/// written last, so it never exists without its files.
///
/// # Errors
/// An existing file without `force`, or a write failure.
pub fn write_scenario(
    output: &Path,
    scenario: &str,
    data_files: &[(String, impl AsRef<[u8]>)],
    force: bool,
) -> Result<Vec<PathBuf>, Failure> {
    let data_files = data_files.iter().map(|(name, content)| (output.with_file_name(name), content.as_ref()));
    let files: Vec<(PathBuf, &[u8])> = data_files.chain([(output.to_owned(), scenario.as_bytes())]).collect();
    if let Some((path, _)) = files.iter().find(|(path, _)| path.exists() && !force) {
        let path = path.display();
        return Err(Failure::Argument(format!("{path} is there already; name another output, or give --force")));
    }
    if let Some((path, _)) = files.iter().find(|(path, _)| path.is_dir()) {
        return Err(Failure::Argument(format!("{} is a folder; name another output", path.display())));
    }
    for (path, content) in &files {
        let cannot = |error| Failure::Run(format!("can't write {}: {error}", path.display()));
        fs::write(path, content).map_err(cannot)?;
    }
    Ok(files.into_iter().rev().map(|(path, _)| path).collect())
}

/// Joins paths to one line.
pub fn listed(paths: &[PathBuf]) -> String {
    let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    names.join(", ")
}

/// Deserializes a single text or a list of texts, for serde.
pub(crate) fn one_or_more<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum OneOrMore {
        One(String),
        More(Vec<String>),
    }
    Ok(match <OneOrMore as serde::Deserialize>::deserialize(from)? {
        OneOrMore::One(one) => vec![one],
        OneOrMore::More(more) => more,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_in_place_of_a_scenario_is_refused_before_anything_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("a.toml");
        fs::create_dir(&output).unwrap();
        let lists = [("a-flows.csv".to_owned(), String::new())];
        assert!(matches!(write_scenario(&output, "", &lists, true), Err(Failure::Argument(_))));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn titles_become_names_of_files() {
        assert_eq!(slug("GFC by stages, round-robin"), "gfc-by-stages-round-robin");
    }

    #[test]
    fn arguments_are_quoted_for_a_shell() {
        assert_eq!(
            ["runs/a-1.toml", "GFC, arrival", "it's", ""].map(quoted),
            ["runs/a-1.toml", "'GFC, arrival'", r"'it'\''s'", "''"]
        );
    }
}
