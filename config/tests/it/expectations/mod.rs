//! Invalid files whose comments list the expected errors, for the readers of every kind of file.
//!
//! `#~ message | help` expects an error on its own line, whose message and help contain these texts; `#~^` means the
//! line above, and `#~?` any line or none. Several may share a line.

use std::fs;
use std::path::{Path, PathBuf};

use weir_config::ConfigErrors;

#[derive(Debug)]
struct Expected {
    line: Option<usize>,
    message: String,
    help: String,
}

fn expectations(text: &str) -> Vec<Expected> {
    let mut all = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for comment in line.split("#~").skip(1) {
            let (line, comment) = match comment.as_bytes().first() {
                Some(b'^') => (Some(index), &comment[1..]),
                Some(b'?') => (None, &comment[1..]),
                _ => (Some(index + 1), comment),
            };
            let (message, help) = comment.split_once(" | ").expect("`#~ message | help`");
            all.push(Expected { line, message: message.trim().to_owned(), help: help.trim().to_owned() });
        }
    }
    all
}

/// The files of a folder, by name.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.is_file()).collect();
    files.sort();
    files
}

/// A file's name without its folders.
pub(crate) fn file_name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

/// Every file of `folder` gives exactly the errors that its comments expect, when `read` reads it.
pub(crate) fn check<T>(folder: &Path, read: impl Fn(&Path, &str) -> Result<T, ConfigErrors>) {
    let mut wrong = String::new();
    for path in files(folder) {
        let text = fs::read_to_string(&path).unwrap();
        let name = file_name(&path);
        let mut expected = expectations(&text);
        assert!(!expected.is_empty(), "{name} expects nothing");
        let Err(errors) = read(&path, &text) else {
            wrong += &format!("{name}: no error\n");
            continue;
        };
        let report = errors.render(false);
        assert!(report.contains(name) && report.contains("help:"), "{report}");
        for error in errors.iter() {
            let fits = |wanted: &Expected| {
                (wanted.line.is_none() || wanted.line == error.line())
                    && error.message().contains(&wanted.message)
                    && error.help_text().contains(&wanted.help)
            };
            match expected.iter().position(fits) {
                Some(index) => drop(expected.remove(index)),
                None => wrong += &format!("{name}:{:?}: unexpected: {error} | {}\n", error.line(), error.help_text()),
            }
        }
        for missing in expected {
            wrong += &format!("{name}: missing {missing:?}\n");
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}
